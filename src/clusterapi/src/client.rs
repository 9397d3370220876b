//! The management cluster over HTTP: kube's client, from the operator's own or from a kubeconfig below one folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use headroom_observe::host::Host;
use headroom_observe::host::files::read_text;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::Instant;

use super::calls::{Answer, Calls, Event, Nodes, Request, Trouble, Verb, Watched};

/// Longest time a request may take, its body included.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest life of a watch call; the client gives a silent one up soon after.
const WATCH_SECONDS: u32 = 120;
/// A kubeconfig is compared with the file this often.
const REREAD: Duration = Duration::from_secs(60);
/// Pause before a watch that failed lists anew.
const RETRY: Duration = Duration::from_secs(5);

/// A management cluster.
pub struct Management {
    source: Source,
    host: Arc<Host>,
}

enum Source {
    /// The operator's own client.
    Own(Client),
    /// A kubeconfig.
    File { path: PathBuf, loaded: Mutex<Option<Loaded>> },
}

#[derive(Clone)]
struct Loaded {
    text: String,
    client: Client,
    checked_at: Instant,
}

impl Management {
    /// The cluster of the operator's own client.
    #[must_use]
    pub fn own(client: Client, host: Arc<Host>) -> Self {
        Self { source: Source::Own(client), host }
    }

    /// The cluster that a kubeconfig names.
    #[must_use]
    pub fn file(path: PathBuf, host: Arc<Host>) -> Self {
        Self { source: Source::File { path, loaded: Mutex::default() }, host }
    }

    /// The client; of a file that has changed a new one. A file that cannot be read leaves the old client in use.
    async fn client(&self) -> Result<Client, String> {
        let Source::File { path, loaded } = &self.source else {
            let Source::Own(client) = &self.source else { return Err(String::new()) };
            return Ok(client.clone());
        };
        let now = self.host.monotonic();
        let before = loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(before) = before.as_ref().filter(|before| now < before.checked_at + REREAD) {
            return Ok(before.client.clone());
        }
        let read = read_text(path).map_err(|error| format!("failed to read {}: {error}", path.display()));
        let made = match (read, &before) {
            (Ok(text), Some(before)) if text == before.text => Ok((text, before.client.clone())),
            (Ok(text), _) => client_of(path, &text).await.map(|client| (text, client)),
            (Err(words), _) => Err(words),
        };
        match (made, before) {
            (Ok((text, client)), _) => {
                let made = Loaded { text, client: client.clone(), checked_at: now };
                *loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
                Ok(client)
            }
            (Err(problem), Some(before)) => {
                tracing::warn!(%problem, "the old kubeconfig stays in use");
                let kept = Loaded { checked_at: now, ..before };
                *loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept.clone());
                Ok(kept.client)
            }
            (Err(problem), None) => Err(problem),
        }
    }
}

/// A client of a kubeconfig. Programs that it would run, and plug-ins, are refused: a file is data.
async fn client_of(path: &Path, text: &str) -> Result<Client, String> {
    let shown = path.display();
    let parsed = Kubeconfig::from_yaml(text).map_err(|error| format!("failed to parse {shown}: {error}"))?;
    let users = parsed.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    for user in users {
        if user.exec.is_some() || user.auth_provider.is_some() {
            let fix = "use a token or a client certificate";
            return Err(format!("{shown} has exec or auth-provider, which are not run: {fix}"));
        }
    }
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| format!("{shown} is not a usable kubeconfig: {error}"))?;
    // A retried write could land after the lease is lost.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| format!("{shown} is not a usable kubeconfig: {error}"))
}

async fn exchange(client: Client, request: Request) -> Result<Answer, Trouble> {
    let Request { verb, path, query, body } = request;
    let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
    let kind = if verb == Verb::Patch { "application/merge-patch+json" } else { "application/json" };
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let built = http::Request::builder()
        .method(verb.as_str())
        .uri(uri)
        .header(http::header::CONTENT_TYPE, kind)
        .body(Body::from(bytes));
    let built = built.map_err(|error| Trouble::NotSent(error.to_string()))?;
    let response = client.send(built).await.map_err(|error| Trouble::NoAnswer(error.to_string()))?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await;
    let bytes = bytes.map_err(|error| Trouble::NoAnswer(error.to_string()))?.to_bytes();
    Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
}

impl Calls for Arc<Management> {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Answer, Trouble>> {
        let management = self.clone();
        Box::pin(async move {
            let client = management.client().await.map_err(Trouble::NotSent)?;
            let operation = request.operation();
            match tokio::time::timeout(DEADLINE, exchange(client, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(Trouble::NoAnswer(format!("{operation} had no answer within {DEADLINE:?}"))),
            }
        })
    }

    fn watch(&self, watched: Watched) -> BoxStream<'static, Event> {
        let management = self.clone();
        let attempt = move |is_first: bool| {
            let (management, watched) = (management.clone(), watched.clone());
            async move {
                if !is_first {
                    management.host.sleep(RETRY).await;
                }
                let events = match management.client().await {
                    Ok(client) => follow(client, &watched),
                    Err(words) => stream::once(async { Event::Failed(Trouble::NotSent(words)) }).boxed(),
                };
                Some((events, false))
            }
        };
        stream::unfold(true, attempt).flatten().boxed()
    }
}

/// The events of one client's watcher until it fails. The next attempt lists anew: a watcher that goes on by itself shows nothing
/// until an object changes, so nobody could know that it works again. A changed kubeconfig is taken up too.
fn follow(client: Client, watched: &Watched) -> BoxStream<'static, Event> {
    let Watched { group, version, kind, plural, namespace, labels, fields } = watched;
    let resource = ApiResource {
        group: (*group).to_owned(),
        version: version.clone(),
        api_version: format!("{group}/{version}"),
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
    if !labels.is_empty() {
        config = config.labels(labels);
    }
    if !fields.is_empty() {
        config = config.fields(fields);
    }
    let events =
        watcher(api, config).map(|event| event.map_or_else(|error| Event::Failed(trouble(error)), read));
    let until_failed = stream::unfold(Some(events.boxed()), |events| async {
        let mut events = events?;
        let event = events.next().await?;
        let has_failed = matches!(event, Event::Failed(_));
        Some((event, (!has_failed).then_some(events)))
    });
    until_failed.boxed()
}

fn read(event: watcher::Event<DynamicObject>) -> Event {
    let value = |object| serde_json::to_value(object).unwrap_or(Value::Null);
    match event {
        watcher::Event::Init => Event::ListBegan,
        watcher::Event::InitApply(object) => Event::Listed(value(object)),
        watcher::Event::InitDone => Event::ListEnded,
        watcher::Event::Apply(object) => Event::Applied(value(object)),
        watcher::Event::Delete(object) => Event::Deleted(value(object)),
    }
}

fn trouble(error: watcher::Error) -> Trouble {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        watcher::Error::NoResourceVersion => {
            return Trouble::NoAnswer("the answer names no resourceVersion".to_owned());
        }
    };
    match cause {
        kube::Error::Api(status) => Trouble::Status(status.code, status.message.clone()),
        other => Trouble::NoAnswer(other.to_string()),
    }
}

/// Nodes of the workload cluster, by the operator's own client.
pub(crate) struct WorkloadNodes(Api<Node>);

impl WorkloadNodes {
    /// Nodes through `client`.
    #[must_use]
    pub(crate) fn new(client: Client) -> Self {
        Self(Api::all(client))
    }
}

impl Nodes for WorkloadNodes {
    fn annotation<'a>(
        &'a self,
        node: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let found = self.0.get_metadata_opt(node).await.map_err(|error| error.to_string())?;
            Ok(found.and_then(|node| node.metadata.annotations?.remove(key)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An API server whose first watch fails and whose next ones stay silent, with one Machine.
    fn server() -> Client {
        let watches = Arc::new(Mutex::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let watches = watches.clone();
            async move {
                let number = {
                    let mut watches = watches.lock().expect("no panic inside");
                    *watches += u32::from(is_watch);
                    *watches
                };
                let (status, body) = match is_watch {
                    true if number == 1 => (500, "{}".to_owned()),
                    true => std::future::pending().await,
                    false => (200, list()),
                };
                let response = http::Response::builder().status(status).body(Body::from(body.into_bytes()));
                response.map_err(|error| std::io::Error::other(error.to_string()))
            }
        });
        Client::new(service, "default")
    }

    fn list() -> String {
        let metadata = serde_json::json!({"name": "m", "namespace": "capi", "resourceVersion": "7"});
        let machine = serde_json::json!({"metadata": metadata});
        serde_json::json!({"metadata": {"resourceVersion": "9"}, "items": [machine]}).to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_failed_lists_anew_although_nothing_changes() {
        let host = Host::simulated("2026-11-24T02:00:00Z".parse().expect("a time"), 1);
        let management = Arc::new(Management::own(server(), host));
        let watched = Watched {
            group: "cluster.x-k8s.io",
            version: "v1beta2".to_owned(),
            kind: "Machine",
            plural: "machines",
            namespace: "capi".to_owned(),
            labels: String::new(),
            fields: String::new(),
        };
        let events: Vec<Event> = management.watch(watched).take(7).collect().await;
        let kinds: Vec<&str> = events
            .iter()
            .map(|event| match event {
                Event::ListBegan => "began",
                Event::Listed(_) => "listed",
                Event::ListEnded => "ended",
                Event::Failed(_) => "failed",
                Event::Applied(_) | Event::Deleted(_) => "changed",
            })
            .collect();
        assert_eq!(kinds, ["began", "listed", "ended", "failed", "began", "listed", "ended"]);
    }

    #[tokio::test]
    async fn programs_and_plug_ins_of_a_kubeconfig_are_not_run() {
        let config = |user: &str| {
            format!(
                "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
                 clusters: [{{name: k, cluster: {{server: 'https://k:6443'}}}}], users: [{{name: u, user: {user}}}]}}"
            )
        };
        let exec = config("{exec: {apiVersion: client.authentication.k8s.io/v1, command: steal}}");
        for text in [exec, config("{auth-provider: {name: gcp, config: {}}}")] {
            let words =
                client_of(Path::new("/etc/headroom/management/p"), &text).await.err().expect("refused");
            assert!(words.contains("exec or auth-provider"), "{words}");
        }
        let words = client_of(Path::new("p"), "{").await.err().expect("refused");
        assert!(words.contains("failed to parse p"), "{words}");
    }
}
