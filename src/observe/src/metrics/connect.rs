//! A client of a declared server: the Kubernetes client is an HTTP client with TLS, token files and a base URL; nothing in it needs the
//! server to be Kubernetes.

use std::path::Path;
use std::time::Duration;

use http::Uri;
use kube::{Client, Config};

/// Longest wait for a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// Credentials that a server is sent.
pub(super) struct Credentials<'a> {
    /// A file with a bearer token, read anew each minute.
    pub(super) bearer_token_file: Option<&'a Path>,
    /// True if the caller sends other ones.
    pub(super) sends_others: bool,
    /// True if they may be sent over plain `http://`.
    pub(super) allow_insecure: bool,
    /// Name of the field that says so.
    pub(super) allow_insecure_field: &'static str,
}

/// A client of the server at `url`, whose certificate is checked against `ca_file`, or against what the system trusts.
///
/// # Errors
/// In words, if the address cannot be read, credentials would be sent without encryption, or a file cannot be used.
pub(super) fn connect(
    url: &str,
    credentials: &Credentials<'_>,
    ca_file: Option<&Path>,
) -> Result<Client, String> {
    let uri: Uri = url.parse().map_err(|error| format!("its url {url:?} cannot be read: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(format!("its url {url:?} must begin with http:// or https:// and a host"));
    }
    let sends = credentials.bearer_token_file.is_some() || credentials.sends_others;
    if sends && uri.scheme_str() == Some("http") && !credentials.allow_insecure {
        return Err(format!(
            "its credentials would be sent without encryption: use https://, or set {}",
            credentials.allow_insecure_field
        ));
    }
    let mut config = Config::new(uri);
    config.connect_timeout = Some(CONNECT_DEADLINE);
    config.default_retry = false;
    config.root_cert_file = ca_file.map(Path::to_path_buf);
    config.auth_info.token_file =
        credentials.bearer_token_file.map(|path| path.to_string_lossy().into_owned());
    Client::try_from(config).map_err(|error| format!("it cannot be set up: {error}"))
}
