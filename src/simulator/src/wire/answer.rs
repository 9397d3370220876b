//! Answers to everything but watches: runs the request on the store and writes the reply.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body::Frame;
use http_body_util::StreamBody;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ReplyBody;
use super::request::{Path, Target};
use crate::store::{
    ApiError, Author, DeleteOptions, Kind, NodeTexts, ObjectKey, Part, Patch, Store, at, number, text,
};

type Reply = http::Response<ReplyBody>;

/// Runs one request; a list shows the store as it was `old_by` revisions ago.
pub(super) fn answer(
    store: &mut Store,
    target: &Target,
    body: &[u8],
    old_by: u64,
) -> Result<Reply, ApiError> {
    let manager = target.query.field_manager.as_deref().unwrap_or(&target.client);
    let author = Author::manager(&target.client, manager);
    match &target.path {
        Path::Discovery(path) => Ok(reply(200, &discovery(path)?)),
        Path::Collection(kind) => match target.method {
            Method::GET => {
                let mut texts = std::mem::take(&mut store.node_texts);
                let listed = list(store, &mut texts, *kind, target, old_by);
                let answer = listed.map(|list| reply(200, &list));
                store.node_texts = texts;
                answer
            }
            Method::POST => {
                let mut object = parse(body)?;
                if kind.info().namespaced && !target.filter.namespace.is_empty() {
                    object["metadata"]["namespace"] = target.filter.namespace.as_str().into();
                }
                Ok(reply(201, &store.create(*kind, object, author)?))
            }
            Method::DELETE => {
                let options = delete_options(&parse_or_empty(body)?);
                let found: Vec<ObjectKey> =
                    store.list(*kind, &target.filter).map(|(key, _)| key.clone()).collect();
                for key in found {
                    store.delete(*kind, &key, &options, author)?;
                }
                Ok(reply(200, &gone()))
            }
            _ => Err(ApiError::method_not_allowed()),
        },
        Path::Object(kind, key) => object(store, *kind, key, target, body, author),
        Path::Subresource(kind, key, name) => subresource(store, *kind, key, name, target, body, author),
    }
}

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

fn object(
    store: &mut Store,
    kind: Kind,
    key: &ObjectKey,
    target: &Target,
    body: &[u8],
    author: Author<'_>,
) -> Result<Reply, ApiError> {
    match target.method {
        Method::GET => Ok(reply(200, &shaped(store.get(kind, key)?, target.partial))),
        Method::PUT => Ok(reply(200, &store.replace(kind, key, parse(body)?, Part::Main, author)?)),
        Method::PATCH => {
            let existed = store.find(kind, key).is_some();
            let object = store.patch(kind, key, &patch(target, body)?, Part::Main, author)?;
            Ok(reply(if existed { 200 } else { 201 }, &object))
        }
        Method::DELETE => {
            let options = delete_options(&parse_or_empty(body)?);
            let object = store.delete(kind, key, &options, author)?;
            // What is gone is not shown any more; a pod is, and what a finalizer still holds.
            if kind != Kind::Pod && store.find(kind, key).is_none() {
                return Ok(reply(200, &gone()));
            }
            Ok(reply(200, &object))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn subresource(
    store: &mut Store,
    kind: Kind,
    key: &ObjectKey,
    name: &str,
    target: &Target,
    body: &[u8],
    author: Author<'_>,
) -> Result<Reply, ApiError> {
    let success =
        || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    match (name, kind, &target.method) {
        ("status", _, _) if !kind.info().has_status => Err(ApiError::no_such_path()),
        ("status", _, &Method::GET) => Ok(reply(200, store.get(kind, key)?)),
        ("status", _, &Method::PUT) => {
            Ok(reply(200, &store.replace(kind, key, parse(body)?, Part::Status, author)?))
        }
        ("status", _, &Method::PATCH) => {
            Ok(reply(200, &store.patch(kind, key, &patch(target, body)?, Part::Status, author)?))
        }
        ("scale", _, &Method::GET) => Ok(reply(200, &store.scale(kind, key)?)),
        ("scale", _, &Method::PUT) => Ok(reply(200, &store.set_scale(kind, key, &parse(body)?, author)?)),
        ("scale", _, &Method::PATCH) => {
            let scale = store.scale(kind, key)?;
            let scale = patch(target, body)?.applied_to(kind, &key.name, &scale)?;
            Ok(reply(200, &store.set_scale(kind, key, &scale, author)?))
        }
        ("eviction", Kind::Pod, &Method::POST) => {
            let options = parse(body)?.get("deleteOptions").map(delete_options).unwrap_or_default();
            store.evict(key, &options, author)?;
            Ok(reply(201, &success()))
        }
        ("binding", Kind::Pod, &Method::POST) => {
            let binding = parse(body)?;
            let node = text(&binding, &["target", "name"])
                .ok_or_else(|| ApiError::bad_request("target.name is wanted"))?;
            store.bind(key, node, author)?;
            Ok(reply(201, &success()))
        }
        ("status" | "scale" | "eviction" | "binding", _, _) => Err(ApiError::method_not_allowed()),
        _ => Err(ApiError::no_such_path()),
    }
}

/// A list as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'s> {
    api_version: String,
    kind: String,
    metadata: Value,
    items: Vec<Item<'s>>,
}

/// An object of a list.
enum Item<'s> {
    Whole(&'s Arc<Value>),
    BuiltIn(&'s Arc<Value>),
    Metadata(&'s Arc<Value>),
    Written(Arc<RawValue>),
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(object) => object.serialize(serializer),
            Self::BuiltIn(object) => BuiltIn(object).serialize(serializer),
            Self::Metadata(object) => shaped(object, true).serialize(serializer),
            Self::Written(text) => text.serialize(serializer),
        }
    }
}

/// An object of a built-in kind in a list, which does not repeat the fields of the list.
struct BuiltIn<'s>(&'s Value);

impl BuiltIn<'_> {
    fn written(node: &Value) -> Arc<RawValue> {
        // A value always has a text.
        Arc::from(serde_json::value::to_raw_value(&BuiltIn(node)).unwrap_or_default())
    }
}

impl Serialize for BuiltIn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.as_object().into_iter().flatten();
        serializer.collect_map(fields.filter(|(name, _)| !matches!(&***name, "apiVersion" | "kind")))
    }
}

fn list<'s>(
    store: &'s Store,
    texts: &mut NodeTexts,
    kind: Kind,
    target: &Target,
    old_by: u64,
) -> Result<List<'s>, ApiError> {
    let (revision, after) = match &target.query.continue_token {
        Some(token) => read_token(token)?,
        None => (store.revision().saturating_sub(old_by).max(store.compacted()), None),
    };
    let filter = &target.filter;
    let mut objects: Box<dyn Iterator<Item = (&ObjectKey, &Arc<Value>)>> =
        if revision == store.revision() && after.is_none() {
            store.list(kind, filter)
        } else {
            let then = store.list_at(kind, revision, after.as_ref())?;
            Box::new(then.filter(|(key, object)| filter.matches_key(key) && filter.matches(object)))
        };
    let page: Vec<(&ObjectKey, &Arc<Value>)> =
        objects.by_ref().take(target.query.limit.unwrap_or(usize::MAX)).collect();
    let rest = objects.count();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if 0 < rest
        && let Some((last, _)) = page.last()
    {
        metadata["continue"] = format!("{revision}:{}/{}", last.namespace, last.name).into();
        metadata["remainingItemCount"] = rest.into();
    }
    texts.trim(store.count(Kind::Node));
    let mut item = |(key, object)| match (target.partial, kind, kind.info().group) {
        (true, _, _) => Item::Metadata(object),
        (false, Kind::Node, _) => Item::Written(texts.of(key, object, BuiltIn::written)),
        (false, _, "headroom.dev") => Item::Whole(object),
        (false, _, _) => Item::BuiltIn(object),
    };
    let (api_version, name) = if target.partial {
        ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned())
    } else {
        (kind.api_version(), format!("{}List", kind.info().kind))
    };
    let items = page.into_iter().map(&mut item).collect();
    Ok(List { api_version, kind: name, metadata, items })
}

fn read_token(token: &str) -> Result<(u64, Option<ObjectKey>), ApiError> {
    let read = || {
        let (revision, key) = token.split_once(':')?;
        let (namespace, name) = key.split_once('/')?;
        Some((revision.parse().ok()?, Some(ObjectKey::new(namespace, name))))
    };
    read().ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}

/// The object, or its metadata alone.
pub(super) fn shaped(object: &Arc<Value>, partial: bool) -> Arc<Value> {
    if !partial {
        return object.clone();
    }
    Arc::new(
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]}),
    )
}

fn patch(target: &Target, body: &[u8]) -> Result<Patch, ApiError> {
    let body = parse(body)?;
    match target.content_type.as_str() {
        "application/merge-patch+json" => Ok(Patch::Merge(body)),
        "application/strategic-merge-patch+json" => Ok(Patch::Strategic(body)),
        "application/json-patch+json" => Ok(Patch::Json(body)),
        "application/apply-patch+yaml" if target.query.field_manager.is_none() => Err(ApiError::bad_request(
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value",
        )),
        "application/apply-patch+yaml" => Ok(Patch::Apply { config: body, force: target.query.force }),
        other => Err(ApiError::new(415, "UnsupportedMediaType", format!("unknown patch format {other:?}"))),
    }
}

fn delete_options(body: &Value) -> DeleteOptions {
    let precondition = |field: &str| text(body, &["preconditions", field]).map(str::to_owned);
    DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        grace_seconds: number(body, &["gracePeriodSeconds"]),
    }
}

fn parse(body: &[u8]) -> Result<Value, ApiError> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let readable = value.is_object() || value.is_array();
    if readable { Ok(value) } else { Err(ApiError::bad_request("an object is wanted")) }
}

fn parse_or_empty(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() { Ok(json!({})) } else { parse(body) }
}

/// The version and discovery documents that kube's client may ask for.
fn discovery(path: &str) -> Result<Value, ApiError> {
    let groups = || -> Vec<(&str, &str)> {
        let mut groups: Vec<_> =
            Kind::ALL.iter().map(|kind| (kind.info().group, kind.info().version)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    let version = |group: &str, version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    match path {
        "/version" => Ok(
            json!({"major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "", "gitTreeState": "clean",
                                "buildDate": "", "goVersion": "", "compiler": "", "platform": "simulated"}),
        ),
        "/api" => Ok(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        "/apis" => Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups().into_iter()
            .filter(|(group, _)| !group.is_empty())
            .map(|(group, v)| json!({"name": group, "versions": [version(group, v)],
                                     "preferredVersion": version(group, v)})).collect::<Vec<_>>()})),
        _ => {
            let resources: Vec<Value> =
                Kind::ALL.iter().filter(|kind| path == group_path(**kind)).flat_map(resources).collect();
            let group_version =
                path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/")).unwrap_or_default();
            if resources.is_empty() {
                return Err(ApiError::no_such_path());
            }
            Ok(
                json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
            )
        }
    }
}

fn group_path(kind: Kind) -> String {
    let info = kind.info();
    if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    }
}

fn resources(kind: &Kind) -> Vec<Value> {
    let info = kind.info();
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut found = vec![json!({"name": info.plural, "singularName": info.kind.to_lowercase(),
                                "namespaced": info.namespaced, "kind": info.kind, "verbs": verbs})];
    if info.has_status {
        found.push(json!({"name": format!("{}/status", info.plural), "singularName": "", "namespaced": info.namespaced,
                          "kind": info.kind, "verbs": ["get", "patch", "update"]}));
    }
    if info.has_scale {
        found.push(json!({"name": format!("{}/scale", info.plural), "singularName": "", "namespaced": info.namespaced,
                          "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}));
    }
    found
}

/// A whole reply in one frame.
fn reply(code: u16, body: &impl Serialize) -> Reply {
    // A value always has a text.
    let bytes = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
    let body = StreamBody::new(futures::stream::once(async { Ok(Frame::data(bytes)) }).boxed());
    let mut reply = http::Response::new(body);
    *reply.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    reply
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}

/// A refusal as a Status, with `Retry-After` where it has one.
pub(super) fn refusal(error: &ApiError) -> Reply {
    let mut reply = reply(error.code, &error.status());
    if let Some(seconds) = at(&error.details, &["retryAfterSeconds"]).and_then(Value::as_u64) {
        reply.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    reply
}
