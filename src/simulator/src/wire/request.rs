//! Target of a request: kind, name, subresource and options out of method, path, query and headers.

use std::time::Duration;

use http::Method;

use crate::store::{ApiError, FieldSelector, Filter, Kind, LabelSelector, ObjectKey};

/// The resource that a path names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Path {
    /// A discovery document, by its path.
    Discovery(String),
    /// All objects of a kind, in one namespace or in all.
    Collection(Kind),
    /// One object.
    Object(Kind, ObjectKey),
    /// A subresource of one object.
    Subresource(Kind, ObjectKey, String),
}

/// A request that was understood.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) method: Method,
    pub(super) path: Path,
    pub(super) filter: Filter,
    pub(super) query: Query,
    pub(super) content_type: String,
    /// True if the client wants metadata alone.
    pub(super) partial: bool,
    /// Client that sent the request.
    pub(super) client: String,
}

/// The options of the query string.
#[derive(Debug, Clone, Default)]
pub(super) struct Query {
    pub(super) watch: bool,
    pub(super) resource_version: Option<String>,
    pub(super) allow_bookmarks: bool,
    pub(super) send_initial_events: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) limit: Option<usize>,
    pub(super) continue_token: Option<String>,
    pub(super) field_manager: Option<String>,
    pub(super) force: bool,
}

impl Target {
    /// Understands a request; 404 for an unknown path, 400 for options that cannot be read or honoured.
    pub(super) fn parse(parts: &http::request::Parts, client: &str) -> Result<Target, ApiError> {
        let (path, namespace) = parse_path(parts.uri.path())?;
        let mut filter = Filter { namespace, ..Filter::default() };
        let mut query = Query::default();
        for (name, value) in pairs(parts.uri.query().unwrap_or_default()) {
            let claim = || value == "true" || value == "1";
            match name.as_str() {
                "labelSelector" => filter.labels = LabelSelector::parse(&value)?,
                "fieldSelector" => filter.fields = FieldSelector::parse(&value)?,
                "watch" => query.watch = claim(),
                "resourceVersion" => query.resource_version = Some(value).filter(|v| !v.is_empty()),
                "allowWatchBookmarks" => query.allow_bookmarks = claim(),
                "sendInitialEvents" => query.send_initial_events = claim(),
                "timeoutSeconds" => query.timeout = value.parse().ok().map(Duration::from_secs),
                "limit" => query.limit = value.parse().ok().filter(|limit| 0 < *limit),
                "continue" => query.continue_token = Some(value).filter(|v| !v.is_empty()),
                "fieldManager" => query.field_manager = Some(value),
                "force" => query.force = claim(),
                "dryRun" => return Err(ApiError::bad_request("the simulated API server knows no dry run")),
                // resourceVersionMatch, fieldValidation, pretty, … change nothing that is simulated.
                _ => {}
            }
        }
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Target {
            method: parts.method.clone(),
            path,
            filter,
            query,
            content_type: header(http::header::CONTENT_TYPE).split(';').next().unwrap_or_default().to_owned(),
            partial: header(http::header::ACCEPT).contains("as=PartialObjectMetadata"),
            client: client.to_owned(),
        })
    }

    /// The kind of which it lists all there is, page by page as views do.
    pub(super) fn lists_all(&self) -> Option<Kind> {
        match self.path {
            Path::Collection(kind) if self.method == Method::GET && self.query.limit.is_some() => Some(kind),
            _ => None,
        }
    }

    pub(super) fn is_watch(&self) -> bool {
        self.query.watch && self.method == Method::GET && matches!(self.path, Path::Collection(_))
    }
}

/// The path's resource, and the namespace of a collection.
fn parse_path(path: &str) -> Result<(Path, String), ApiError> {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok((Path::Discovery(format!("/{}", parts.join("/"))), String::new())),
    };
    // `namespaces/<ns>/<plural>` is a namespaced path, `namespaces/<name>[/status]` the kind itself.
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest != ["status"] => (*namespace, rest),
        rest => ("", rest),
    };
    let kind = Kind::by_path(group, version, rest[0]).ok_or_else(ApiError::no_such_path)?;
    if !namespace.is_empty() && !kind.info().namespaced {
        return Err(ApiError::no_such_path());
    }
    let path = match rest[1..] {
        [] => Path::Collection(kind),
        [_, ..] if kind.info().namespaced && namespace.is_empty() => return Err(ApiError::no_such_path()),
        [name] => Path::Object(kind, ObjectKey::new(namespace, name)),
        [name, subresource] => {
            Path::Subresource(kind, ObjectKey::new(namespace, name), subresource.to_owned())
        }
        _ => return Err(ApiError::no_such_path()),
    };
    Ok((path, namespace.to_owned()))
}

fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(&value.replace('+', " ")))
    })
}

/// Percent-decoding; an escape that is none stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escape = bytes.get(index + 1..index + 3).filter(|_| bytes[index] == b'%');
        let byte = escape.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        decoded.push(byte.unwrap_or(bytes[index]));
        index += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Path) {
        assert_eq!(parse_path(path).unwrap().0, expected, "{path}");
    }

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        let key = |namespace, name| ObjectKey::new(namespace, name);
        check("/api/v1/pods", Path::Collection(Kind::Pod));
        check("/api/v1/namespaces/a/pods", Path::Collection(Kind::Pod));
        check("/api/v1/namespaces/a", Path::Object(Kind::Namespace, key("", "a")));
        check("/api/v1/namespaces/a/pods/p", Path::Object(Kind::Pod, key("a", "p")));
        let eviction = Path::Subresource(Kind::Pod, key("a", "p"), "eviction".into());
        check("/api/v1/namespaces/a/pods/p/eviction", eviction);
        let status = Path::Subresource(Kind::NodePool, key("", "x"), "status".into());
        check("/apis/headroom.dev/v1alpha1/nodepools/x/status", status);
        check("/apis/apps/v1", Path::Discovery("/apis/apps/v1".into()));
    }

    #[test]
    fn unknown_resource_is_404() {
        assert_eq!(parse_path("/apis/x.io/v1/things").unwrap_err().code, 404);
        assert_eq!(parse_path("/api/v1/namespaces/a/nodes").unwrap_err().code, 404);
    }

    #[test]
    fn escapes_and_plus_are_decoded() {
        let decoded: Vec<_> = pairs("labelSelector=a%3Db%2Cc+in+%28x%29&bad=%zz").collect();
        assert_eq!(decoded[0].1, "a=b,c in (x)");
        assert_eq!(decoded[1].1, "%zz");
    }
}
