//! An adapter for custom and external metrics on loopback, registered as an APIService; it returns the values that the
//! test sets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::control_plane::ControlPlane;
use crate::tls::Tls;
use crate::wait;

/// The group of custom metrics.
pub const CUSTOM: &str = "custom.metrics.k8s.io";
/// The group of external metrics.
pub const EXTERNAL: &str = "external.metrics.k8s.io";

const MINUTE: Duration = Duration::from_secs(60);

/// A running adapter. Dropping it closes its port; the APIServices stay, and are then unavailable.
///
/// A metric has the path by which the API asks for it, without the group's prefix: `pods/*/rps` and
/// `deployments.apps/web/queue` for custom metrics of a namespace, `metrics/jobs` for the namespace itself,
/// `nodes/n1/heat` for a cluster-scoped object, which is asked for in a namespace too, `sqs_length` for an external metric.
#[derive(Debug)]
pub struct MetricsApi {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    /// A runtime of its own: its end ends every connection, kept-alive ones too.
    runtime: Mutex<Option<Runtime>>,
}

/// Behavior of the adapter, apart from the API server's probes, which it always answers well.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Mood {
    /// With the values that are set.
    #[default]
    Well,
    /// With this status and a `Status` object.
    Failing(u16),
    /// After so long.
    Slow(Duration),
    /// With something that is no JSON.
    Garbled,
}

#[derive(Debug, Default)]
struct Shared {
    mood: Mood,
    /// Samples have this age.
    age: SignedDuration,
    /// By namespace (empty for the root) and path: names of objects with their values as quantities.
    custom: BTreeMap<(String, String), Vec<(String, String)>>,
    /// By namespace and metric: values of the series.
    external: BTreeMap<(String, String), Vec<String>>,
    /// Paths with their queries, in order, the API server's probes left out.
    asked: Vec<String>,
}

impl MetricsApi {
    /// Starts it and registers the groups, custom metrics in `versions`; returns when the API server can reach it.
    pub async fn start(cluster: &ControlPlane, versions: &[&str]) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("failed to open a port")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        // Aggregated servers must speak TLS; the API server is configured not to verify this certificate.
        let (tls, _) = {
            let _inside = runtime.enter();
            Tls::new(TcpListener::from_std(listener)?)?
        };
        // It ends with the runtime only.
        runtime.spawn(async move { axum::serve(tls, router).await });
        let api = Self { port, shared, runtime: Mutex::new(Some(runtime)) };
        api.register(cluster, versions).await?;
        Ok(api)
    }

    /// Sets a custom metric: a value for each object. An empty list is an answer too.
    pub fn set_custom(&self, namespace: &str, path: &str, values: &[(&str, &str)]) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.shared().custom.insert((namespace.to_owned(), path.trim_start_matches('/').to_owned()), values);
    }

    /// Sets an external metric: a value for each series.
    pub fn set_external(&self, namespace: &str, metric: &str, values: &[&str]) {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.shared().external.insert((namespace.to_owned(), metric.to_owned()), values);
    }

    /// From now on it answers so.
    pub fn set_mood(&self, mood: Mood) {
        self.shared().mood = mood;
    }

    /// From now on samples are so old; negative for the future.
    pub fn set_age(&self, age: SignedDuration) {
        self.shared().age = age;
    }

    /// Returns the requests so far, each as path and query.
    pub fn asked(&self) -> Vec<String> {
        self.shared().asked.clone()
    }

    /// Closes its port and its connections, as if its machine were gone.
    pub fn stop(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }

    async fn register(&self, cluster: &ControlPlane, versions: &[&str]) -> Result<()> {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics-adapter", "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self.port}]},
        });
        let mut services: Vec<Value> =
            versions.iter().map(|version| self.api_service(CUSTOM, version)).collect();
        services.push(self.api_service(EXTERNAL, "v1beta1"));
        cluster.apply_all(&[service]).await?;
        cluster.apply_all(&services).await?;
        for service in &services {
            let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            wait::until(&format!("APIService {name} is available"), MINUTE, async || {
                let listed = cluster.kubectl(&["get", "apiservice", &name, "--no-headers"])?;
                ensure!(listed.contains("True"), "{listed}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    fn api_service(&self, group: &str, version: &str) -> Value {
        let priority = if version == "v1beta2" { 200 } else { 100 };
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": priority,
                "insecureSkipTLSVerify": true,
                "service": {"name": "metrics-adapter", "namespace": "kube-system", "port": self.port},
            },
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MetricsApi {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn answer(State(shared): State<Arc<Mutex<Shared>>>, request: Request) -> Response {
    let asked = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let path = request.uri().path().trim_start_matches("/apis/").to_owned();
    let (group, rest) = path.split_once('/').unwrap_or((&path, ""));
    let (version, question) = rest.split_once('/').unwrap_or((rest, ""));
    if question.is_empty() || !(group == CUSTOM || group == EXTERNAL) {
        // The API server's own look at what is here.
        let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": []});
        return reply(200, &list);
    }
    let (mood, found) = {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        // The API server's proxy writes the star so.
        shared.asked.push(asked.replace("%2A", "*"));
        (shared.mood.clone(), shared.find(group, version, question))
    };
    match mood {
        Mood::Well => {}
        Mood::Failing(code) => return status(code, "the adapter fails as it was set to"),
        Mood::Slow(delay) => tokio::time::sleep(delay).await,
        Mood::Garbled => return (http::StatusCode::OK, "<html>").into_response(),
    }
    found.map_or_else(|| status(404, "the adapter has no such metric"), |list| reply(200, &list))
}

impl Shared {
    /// The list that answers a question; `None` if the metric was never set.
    fn find(&self, group: &str, version: &str, question: &str) -> Option<Value> {
        let decoded = question.replace("%2A", "*").replace("%7C", "|");
        let (namespace, path) =
            match decoded.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/')) {
                Some((namespace, path)) => (namespace.to_owned(), path.to_owned()),
                None => (String::new(), decoded),
            };
        let at = Timestamp::now().checked_sub(self.age).ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let key = (namespace, path);
        if group == EXTERNAL {
            let item = |value: &String| json!({"metricName": key.1, "metricLabels": {}, "timestamp": at, "value": value});
            let items: Vec<Value> = self.external.get(&key)?.iter().map(item).collect();
            return Some(
                json!({"kind": "ExternalMetricValueList", "apiVersion": format!("{group}/{version}"),
                "metadata": {}, "items": items}),
            );
        }
        let metric = key.1.rsplit('/').next().unwrap_or_default();
        let item = |(name, value): &(String, String)| {
            let mut item = json!({"describedObject": {"kind": "Any", "name": name, "namespace": key.0},
                "timestamp": at, "value": value});
            if version == "v1beta2" {
                item["metric"] = json!({"name": metric, "selector": null});
            } else {
                item["metricName"] = json!(metric);
            }
            item
        };
        let items: Vec<Value> = self.custom.get(&key)?.iter().map(item).collect();
        Some(
            json!({"kind": "MetricValueList", "apiVersion": format!("{group}/{version}"), "metadata": {}, "items": items}),
        )
    }
}

fn status(code: u16, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "code": code});
    reply(code, &body)
}

fn reply(code: u16, body: &Value) -> Response {
    let code = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(http::header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
