//! The clients against servers in memory and on loopback: each way of not knowing is distinguished, and calls are shared.

#![allow(clippy::disallowed_methods, reason = "servers of these tests run beside them")]

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use headroom_core::pods::input::{Number, Sample, Unknown};
use headroom_core::pods::spec::{MetricSelector, MetricSelectorRequirement, ScaleTargetRef};
use headroom_core::time::Seconds;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::host::Host;

/// The clock of the tests shows this at their start.
const NOW: &str = "2026-11-21T15:00:00Z";

/// Returns the server's answer to a path and query: status and body.
type Script = Box<dyn Fn(&str) -> (u16, String) + Send + Sync>;

struct World {
    metrics: ClusterMetrics,
    asked: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(script: Script) -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, script) = (asked.clone(), Arc::new(script));
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path_and_query().unwrap().to_string();
            log.lock().unwrap().push(path.clone());
            let script = script.clone();
            async move {
                if path.contains("slow") {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
                let (status, body) = script(&path);
                Ok::<_, std::io::Error>(
                    Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap(),
                )
            }
        });
        let host = Host::simulated(NOW.parse().unwrap(), 1);
        let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, Bounds::default());
        Self { metrics, asked }
    }

    /// A server with both versions of custom metrics and the usual kinds, which answers anything else by `script`.
    fn usual(script: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::new(Box::new(move |path| match path {
            "/apis/custom.metrics.k8s.io" => (200, group("custom.metrics.k8s.io", &["v1beta1", "v1beta2"])),
            "/apis/apps" => (200, group("apps", &["v1"])),
            "/apis/apps/v1" => (200, resources("apps/v1", "deployments", "Deployment", true)),
            "/api/v1" => (200, resources("v1", "nodes", "Node", false)),
            "/apis/absent" => (404, "404 page not found\n".to_owned()),
            other => script(other),
        }))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn group(name: &str, versions: &[&str]) -> String {
    let version = |v: &&str| serde_json::json!({"groupVersion": format!("{name}/{v}"), "version": v});
    let all: Vec<_> = versions.iter().map(version).collect();
    serde_json::json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": all}).to_string()
}

fn resources(version: &str, plural: &str, kind: &str, namespaced: bool) -> String {
    let of = |name: String, kind: &str| serde_json::json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]});
    // A subresource of the same kind comes first, and must not be taken for it.
    let list = [of(format!("{plural}/status"), kind), of(plural.to_owned(), kind)];
    serde_json::json!({"kind": "APIResourceList", "groupVersion": version, "resources": list}).to_string()
}

fn pod_metrics(at: &str, usages: &[(&str, &str)]) -> String {
    let item = |(pod, cpu): &(&str, &str)| {
        serde_json::json!({"metadata": {"name": pod, "namespace": "prod"}, "timestamp": at, "window": "15s",
            "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": "64Mi"}}]})
    };
    serde_json::json!({"kind": "PodMetricsList", "items": usages.iter().map(item).collect::<Vec<_>>()})
        .to_string()
}

fn values(at: &str, values: &[(&str, &str)]) -> String {
    let item = |(name, value): &(&str, &str)| {
        serde_json::json!({"describedObject": {"kind": "Pod", "name": name, "namespace": "prod"},
            "metric": {"name": "m"}, "metricName": "m", "timestamp": at, "value": value})
    };
    serde_json::json!({"kind": "MetricValueList", "items": values.iter().map(item).collect::<Vec<_>>()})
        .to_string()
}

fn status(code: u16, reason: &str, message: &str) -> (u16, String) {
    let body = serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, body.to_string())
}

fn deployment() -> ScaleTargetRef {
    ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() }
}

pub(super) fn milli(sample: &Sample) -> i64 {
    let Number::Quantity(quantity) = &sample.value else { panic!("{sample:?} is no number") };
    quantity.milli()
}

// === metrics.k8s.io ===

#[tokio::test(start_paused = true)]
async fn the_workloads_of_a_namespace_share_one_list_a_period() {
    let world = World::usual(|_| (200, pod_metrics(NOW, &[("web-2", "200m"), ("web-1", "100m")])));
    let (a, b) = futures::join!(world.metrics.pod_usage("prod"), world.metrics.pod_usage("prod"));
    let usage = a.unwrap();
    assert_eq!(usage, b.unwrap());
    assert_eq!(usage.iter().map(|u| &*u.pod).collect::<Vec<_>>(), ["web-1", "web-2"]);
    tokio::time::sleep(Duration::from_secs(13)).await;
    world.metrics.pod_usage("prod").await.unwrap();
    assert_eq!(world.asked(), ["/apis/metrics.k8s.io/v1beta1/namespaces/prod/pods"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.metrics.pod_usage("prod").await.unwrap();
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_way_of_not_knowing_the_usage_is_distinguished() {
    for (reason, answer, words) in [
        ("MetricsEmpty", (200, pod_metrics(NOW, &[])), "no metrics returned"),
        ("MetricsEmpty", (200, r#"{"items":null}"#.to_owned()), "no metrics returned"),
        (
            "MetricsStale",
            (200, pod_metrics("2026-11-21T14:54:59Z", &[("web-1", "1")])),
            "is 5m1s old, 5m is allowed",
        ),
        (
            "MetricsStale",
            (200, pod_metrics("2026-11-21T15:02:00Z", &[("web-1", "1")])),
            "lies 2m in the future",
        ),
        ("MetricsNotRegistered", (404, "404 page not found\n".to_owned()), "install metrics-server"),
        ("MetricsNotPermitted", status(403, "Forbidden", "pods.metrics.k8s.io is forbidden"), "is forbidden"),
        ("MetricsOutage", (503, "service unavailable\n".to_owned()), "unavailable: service unavailable"),
        ("MetricsOutage", status(500, "InternalError", "boom"), "boom (HTTP 500)"),
        ("MetricsOutage", (200, "<html>".to_owned()), "cannot be read"),
    ] {
        let world = World::usual(move |_| answer.clone());
        let failure = world.metrics.pod_usage("prod").await.unwrap_err();
        assert_eq!(failure.reason(), reason, "{failure}");
        assert!(
            failure
                .to_string()
                .starts_with("unable to get pod metrics of namespace prod from metrics.k8s.io: "),
            "{failure}"
        );
        assert!(failure.to_string().contains(words), "{failure} does not say {words}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_fresh_sample_makes_a_list_and_the_stale_ones_keep_their_time() {
    let mixed = r#"{"items":[
        {"metadata":{"name":"old"},"timestamp":"2026-11-21T14:00:00Z","window":"15s","containers":[]},
        {"metadata":{"name":"new"},"timestamp":"2026-11-21T14:59:50Z","window":"15s","containers":[]}]}"#;
    let world = World::usual(move |_| (200, mixed.to_owned()));
    let usage = world.metrics.pod_usage("prod").await.unwrap();
    let times: Vec<String> = usage.iter().map(|u| u.at.second().to_rfc3339()).collect();
    assert_eq!(times, ["2026-11-21T14:59:50Z", "2026-11-21T14:00:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_at_the_deadline_and_left_alone_for_a_while() {
    let world = World::usual(|_| (200, pod_metrics(NOW, &[("web-1", "1")])));
    let started = tokio::time::Instant::now();
    let failure = world.metrics.pod_usage("slow").await.unwrap_err();
    assert_eq!(failure.why, Why::Outage(Outage::Deadline(Duration::from_secs(10))));
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    assert_eq!(world.metrics.pod_usage("slow").await.unwrap_err(), failure);
    assert_eq!(world.asked().len(), 1, "a second caller shares the failure");
}

// === custom.metrics.k8s.io ===

#[tokio::test(start_paused = true)]
async fn a_pod_metric_is_asked_for_in_the_better_version_with_both_selectors() {
    let world = World::usual(|_| (200, values(NOW, &[("web-2", "3"), ("web-1", "1500m")])));
    let selector = MetricSelector {
        match_expressions: vec![MetricSelectorRequirement {
            key: "verb".into(),
            operator: "In".into(),
            values: vec!["GET".into(), "PUT".into()],
        }],
        ..MetricSelector::default()
    };
    let found = world.metrics.pod_metric("prod", "rps", "app=web", Some(&selector)).await.unwrap();
    let values: Vec<(&str, i64)> = found.iter().map(|v| (&*v.pod, milli(&v.sample))).collect();
    assert_eq!(values, [("web-1", 1500), ("web-2", 3000)]);
    assert_eq!(
        world.asked(),
        [
            "/apis/custom.metrics.k8s.io",
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/prod/pods/*/rps?labelSelector=app%3Dweb\
             &metricLabelSelector=verb%20in%20%28GET%2CPUT%29",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_adapter_is_asked_in_its_own_version() {
    let world = World::new(Box::new(|path| match path {
        "/apis/custom.metrics.k8s.io" => (200, group("custom.metrics.k8s.io", &["v1beta1"])),
        _ => (200, values(NOW, &[("web-1", "1")])),
    }));
    world.metrics.pod_metric("prod", "rps", "", None).await.unwrap();
    assert_eq!(world.asked()[1], "/apis/custom.metrics.k8s.io/v1beta1/namespaces/prod/pods/*/rps");
}

#[tokio::test(start_paused = true)]
async fn objects_of_every_kind_are_asked_for_in_the_policys_namespace() {
    let world = World::usual(|_| (200, values(NOW, &[("x", "7")])));
    let reference = |api_version: &str, kind: &str, name: &str| ScaleTargetRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
    };
    for (object, path) in [
        (deployment(), "namespaces/prod/deployments.apps/web/queue"),
        (reference("v1", "Namespace", "whatever"), "namespaces/prod/metrics/queue"),
        (reference("v1", "Node", "n1"), "namespaces/prod/nodes/n1/queue"),
    ] {
        let sample = world.metrics.object_metric("prod", &object, "queue", None).await.unwrap();
        assert_eq!(milli(&sample), 7000);
        assert_eq!(world.asked().last(), Some(&format!("/apis/custom.metrics.k8s.io/v1beta2/{path}")));
    }
    let discoveries = |asked: Vec<String>| asked.iter().filter(|path| !path.ends_with("queue")).count();
    let n_discoveries = discoveries(world.asked());
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.metrics.object_metric("prod", &deployment(), "queue", None).await.unwrap();
    assert_eq!(discoveries(world.asked()), n_discoveries, "what was discovered is kept");
}

#[tokio::test(start_paused = true)]
async fn each_way_of_not_knowing_an_objects_metric_is_distinguished() {
    for (reason, answer) in [
        ("MetricsEmpty", (200, values(NOW, &[]))),
        (
            "MetricsEmpty",
            status(404, "NotFound", "the server could not find the metric queue for deployments.apps web"),
        ),
        ("MetricsAbsurd", (200, values(NOW, &[("web", "1"), ("web", "2")]))),
        ("MetricsAbsurd", (200, values(NOW, &[("web", "99E")]))),
        ("MetricsAbsurd", (200, values(NOW, &[("web", "NaN")]))),
        ("MetricsStale", (200, values("2026-11-21T14:00:00Z", &[("web", "1")]))),
        ("MetricsOutage", status(503, "ServiceUnavailable", "no adapter")),
        ("MetricsNotPermitted", status(403, "Forbidden", "no")),
        ("MetricsNotRegistered", (404, "404 page not found".to_owned())),
    ] {
        let world = World::usual(move |_| answer.clone());
        let failure = world.metrics.object_metric("prod", &deployment(), "queue", None).await.unwrap_err();
        assert_eq!(failure.reason(), reason, "{failure}");
        match (reason, failure.unknown()) {
            ("MetricsEmpty", Unknown::Empty)
            | ("MetricsAbsurd", Unknown::Absurd(_))
            | ("MetricsStale", Unknown::Stale(_))
            | ("MetricsOutage" | "MetricsNotPermitted" | "MetricsNotRegistered", Unknown::Failed(_)) => {}
            (_, unknown) => panic!("{reason} is reported as {unknown:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_comes_later_is_found() {
    let registered = Arc::new(AtomicU32::new(0));
    let there = registered.clone();
    let world = World::new(Box::new(move |path| match (path, there.load(Ordering::Relaxed)) {
        (_, 0) => (404, "404 page not found".to_owned()),
        ("/apis/custom.metrics.k8s.io", _) => (200, group("custom.metrics.k8s.io", &["v1beta2"])),
        _ => (200, values(NOW, &[("web-1", "1")])),
    }));
    let failure = world.metrics.pod_metric("prod", "rps", "", None).await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsNotRegistered");
    assert!(
        failure.to_string().contains("no API group custom.metrics.k8s.io: install an adapter"),
        "{failure}"
    );
    registered.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.metrics.pod_metric("prod", "rps", "", None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn wrong_questions_are_refused_with_what_is_wrong() {
    let world = World::usual(|_| (200, values(NOW, &[("web-1", "1")])));
    let stranger = ScaleTargetRef { api_version: "absent/v1".into(), kind: "Thing".into(), name: "t".into() };
    let failure = world.metrics.object_metric("prod", &stranger, "m", None).await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsQueryRefused");
    assert!(failure.to_string().contains("no kind Thing in API group \"absent\""), "{failure}");
    let sideways = MetricSelector {
        match_expressions: vec![MetricSelectorRequirement {
            key: "k".into(),
            operator: "Sideways".into(),
            values: vec![],
        }],
        ..MetricSelector::default()
    };
    let failure = world.metrics.external_metric("prod", "m", Some(&sideways)).await.unwrap_err();
    assert!(failure.to_string().contains("\"Sideways\" is not a valid label selector operator"), "{failure}");
    let failure = world.metrics.external_metric("prod", "../../secrets", None).await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsQueryRefused");
}

// === external.metrics.k8s.io ===

#[tokio::test(start_paused = true)]
async fn one_stale_or_absurd_series_fails_an_external_metric() {
    let series = |values: &[(&str, &str)]| {
        let item = |(at, value): &(&str, &str)| serde_json::json!({"metricName": "q", "timestamp": at, "value": value});
        (200, serde_json::json!({"items": values.iter().map(item).collect::<Vec<_>>()}).to_string())
    };
    let old = "2026-11-21T14:00:00Z";
    for (reason, answer) in [
        (None, series(&[(NOW, "1"), (NOW, "-2")])),
        (Some("MetricsStale"), series(&[(NOW, "1"), (old, "2")])),
        (Some("MetricsAbsurd"), series(&[(NOW, "1"), (NOW, "many")])),
        (Some("MetricsEmpty"), series(&[])),
    ] {
        let world = World::usual(move |_| answer.clone());
        let answer = world.metrics.external_metric("prod", "queue|length", None).await;
        assert_eq!(world.asked(), ["/apis/external.metrics.k8s.io/v1beta1/namespaces/prod/queue%7Clength"]);
        match (reason, answer) {
            (None, Ok(samples)) => assert_eq!(samples.iter().map(milli).collect::<Vec<_>>(), [1000, -2000]),
            (Some(reason), Err(failure)) => assert_eq!(failure.reason(), reason, "{failure}"),
            (_, answer) => panic!("{reason:?} was wanted, not {answer:?}"),
        }
    }
}

// === Prometheus ===

/// A double of Prometheus on loopback: answers the value to the query, and `sampled` to the question for its time.
pub(super) async fn prometheus(
    value: &'static str,
    sampled: Option<i64>,
) -> (ClusterMetrics, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/prom", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let log = log.clone();
            tokio::spawn(async move {
                let mut request = String::new();
                let mut buffer = [0; 4096];
                while !request.contains("&limit=2&timeout=") {
                    let n = stream.read(&mut buffer).await.unwrap();
                    if n == 0 {
                        return;
                    }
                    request.push_str(&String::from_utf8_lossy(&buffer[..n]));
                }
                let of_freshness = request.contains("timestamp%28");
                log.lock().unwrap().push(request);
                let (code, body) = match (of_freshness, sampled) {
                    (false, _) if value.starts_with('4') && value.len() > 3 => value.split_once(' ').unwrap(),
                    (false, _) => ("200", value),
                    (true, None) => {
                        ("200", r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)
                    }
                    (true, Some(_)) => ("200", "SAMPLED"),
                };
                let vector = |at: i64| {
                    format!(
                        r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{at}"]}}]}}}}"#
                    )
                };
                let body = if body == "SAMPLED" { vector(sampled.unwrap()) } else { body.to_owned() };
                let head = format!(
                    "HTTP/1.1 {code} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            });
        }
    });
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, std::io::Error>(
            Response::builder().status(StatusCode::NOT_FOUND).body(Body::empty()).unwrap(),
        )
    });
    let host = Host::simulated(NOW.parse().unwrap(), 1);
    let bounds = Bounds { deadline: Duration::from_secs(5), ..Bounds::default() };
    let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, bounds);
    let source = PrometheusSource {
        name: "main".into(),
        url,
        namespace_label: None,
        bearer_token_file: None,
        allow_insecure_token: false,
        ca_file: None,
    };
    metrics.declare(&[source]);
    (metrics, asked)
}

fn now_seconds() -> i64 {
    NOW.parse::<jiff::Timestamp>().unwrap().as_second()
}

pub(super) const SCALAR: &str = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#;

#[tokio::test]
async fn a_query_is_confined_and_its_value_has_the_time_of_its_sample() {
    let (metrics, asked) = prometheus(SCALAR, Some(now_seconds() - 20)).await;
    let sample = metrics.prometheus("prod", "main", "sum(rate(http_requests_total[2m]))").await.unwrap();
    assert_eq!(milli(&sample), 2500);
    assert_eq!(sample.at.map(|at| at.second().0), Some(now_seconds() - 20));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    for request in asked {
        assert!(request.starts_with("POST /prom/api/v1/query HTTP/1.1"), "{request}");
        assert!(request.contains("namespace%3D%22prod%22"), "{request}");
    }
}

#[tokio::test]
async fn each_way_of_not_knowing_a_query_is_distinguished() {
    let fresh = Some(now_seconds() - 20);
    for (reason, body, sampled) in [
        ("MetricsEmpty", r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#, None),
        ("MetricsAbsurd", r#"{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}"#, fresh),
        (
            "MetricsAbsurd",
            r#"{"status":"success","data":{"resultType":"scalar","result":[1,"+Inf"]}}"#,
            fresh,
        ),
        (
            "MetricsAbsurd",
            r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1e300"]}}"#,
            fresh,
        ),
        (
            "MetricsAbsurd",
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"2"]}]}}"#,
            fresh,
        ),
        ("MetricsStale", SCALAR, Some(now_seconds() - 301)),
        ("MetricsStale", SCALAR, None),
        ("MetricsQueryRefused", r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, fresh),
        (
            "MetricsQueryRefused",
            r#"400 {"status":"error","errorType":"bad_data","error":"parse error"}"#,
            fresh,
        ),
        ("MetricsNotPermitted", "401 Unauthorized", fresh),
        ("MetricsOutage", r#"422 {"status":"error","errorType":"execution","error":"many-to-many"}"#, fresh),
        ("MetricsOutage", "<html>", fresh),
    ] {
        let (metrics, _asked) = prometheus(body, sampled).await;
        let failure = metrics.prometheus("prod", "main", "sum(queue)").await.unwrap_err();
        assert_eq!(failure.reason(), reason, "{body}: {failure}");
    }
}

#[tokio::test]
async fn a_query_that_says_itself_what_no_sample_means_is_not_stale() {
    let (metrics, _asked) = prometheus(SCALAR, None).await;
    let sample = metrics.prometheus("prod", "main", "sum(queue) or vector(0)").await.unwrap();
    assert_eq!(sample.at.map(|at| at.second().0), Some(now_seconds()));
}

#[tokio::test]
async fn servers_that_are_gone_not_declared_or_badly_declared_are_distinguished() {
    let (metrics, _asked) = prometheus(SCALAR, None).await;
    let failure = metrics.prometheus("prod", "other", "sum(queue)").await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsNotRegistered");
    assert!(failure.to_string().contains("declare other in workloads.metricSources"), "{failure}");
    let failure = metrics.prometheus("prod", "main", "info(queue)").await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsQueryRefused");

    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let source = |name: &str, url: String| PrometheusSource {
        name: name.into(),
        url,
        namespace_label: None,
        bearer_token_file: None,
        allow_insecure_token: false,
        ca_file: None,
    };
    metrics.declare(&[source("gone", format!("http://{free}")), source("bad", "ftp://x".into())]);
    let failure = metrics.prometheus("prod", "gone", "sum(queue)").await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsOutage");
    assert!(failure.to_string().contains("refused"), "{failure}");
    let failure = metrics.prometheus("prod", "bad", "sum(queue)").await.unwrap_err();
    assert!(failure.to_string().contains("must begin with http://"), "{failure}");
    assert_eq!(metrics.prometheus("prod", "main", "up").await.unwrap_err().reason(), "MetricsNotRegistered");
}

// === Answers that are too large, and servers that send the operator elsewhere ===

/// A server on loopback that answers each request by `body`, again and again, until the client hangs up or `times` are over.
pub(super) async fn raw_server(
    head: String,
    body: Vec<u8>,
    times: usize,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (head, body, log) = (head.clone(), body.clone(), log.clone());
            tokio::spawn(async move {
                let mut request = String::new();
                let mut buffer = [0; 4096];
                while !request.contains("&timeout=") {
                    let n = stream.read(&mut buffer).await.unwrap_or(0);
                    if n == 0 {
                        break;
                    }
                    request.push_str(&String::from_utf8_lossy(&buffer[..n]));
                }
                log.lock().unwrap().push(request);
                if stream.write_all(head.as_bytes()).await.is_err() {
                    return;
                }
                for _ in 0..times {
                    if stream.write_all(&body).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, asked)
}

/// The answer to a query by a source at `url`, with a token if it is given.
async fn asked_at(url: &str, token: Option<std::path::PathBuf>) -> Answer<Sample> {
    let (metrics, _) = prometheus(SCALAR, None).await;
    metrics.declare(&[PrometheusSource {
        name: "raw".into(),
        url: url.to_owned(),
        namespace_label: None,
        bearer_token_file: token,
        allow_insecure_token: true,
        ca_file: None,
    }]);
    metrics.prometheus("prod", "raw", "sum(queue offset 1s)").await
}

/// As Prometheus writes it, with `n` series.
fn vector_of(n: usize) -> Vec<u8> {
    let series =
        |index: usize| serde_json::json!({"metric": {"pod": format!("web-{index}")}, "value": [1, "1"]});
    let all: Vec<_> = (0..n).map(series).collect();
    serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": all}})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn an_answer_of_more_than_64_kib_is_left() {
    let of_length =
        |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let large = vec![b' '; 1 << 20];
    let series = vector_of(10_000);
    let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned();
    for (head, body, times) in [
        (of_length(large.len()), large, 1),
        (of_length(series.len()), series, 1),
        (endless, vec![b' '; 4096], usize::MAX),
    ] {
        let (url, asked) = raw_server(head, body, times).await;
        let failure = asked_at(&url, None).await.unwrap_err();
        assert_eq!(failure.why, Why::Outage(Outage::Garbled("it has more than 64 KiB".to_owned())));
        assert!(
            asked.lock().unwrap()[0].contains("&limit=2&"),
            "a server that knows it sends two series at most"
        );
    }
    // What a server with the limit sends in place of ten thousand.
    let two = vector_of(2);
    let (url, _) = raw_server(of_length(two.len()), two, 1).await;
    let failure = asked_at(&url, None).await.unwrap_err();
    assert!(failure.to_string().ends_with("2 or more values where exactly one is needed"), "{failure}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_token_stays_with_its_server() {
    let (elsewhere, stolen) = raw_server("HTTP/1.1 200 OK\r\n\r\n".to_owned(), SCALAR.into(), 1).await;
    for status in ["301", "302", "307", "308"] {
        let head = format!(
            "HTTP/1.1 {status} X\r\nlocation: {elsewhere}/api/v1/query\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let (url, asked) = raw_server(head, Vec::new(), 0).await;
        let token = std::env::temp_dir().join(format!("headroom-token-{}-{status}", std::process::id()));
        std::fs::write(&token, "hunter2").unwrap();
        let failure = asked_at(&url, Some(token.clone())).await.unwrap_err();
        std::fs::remove_file(token).unwrap();
        assert!(failure.to_string().ends_with(&format!("(HTTP {status})")), "{failure}");
        assert!(asked.lock().unwrap()[0].to_lowercase().contains("authorization: bearer hunter2"));
    }
    assert_eq!(*stolen.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_token_is_not_sent_without_encryption_unless_that_is_wanted() {
    let (metrics, asked) = prometheus(SCALAR, None).await;
    let source = PrometheusSource {
        name: "main".into(),
        url: "http://127.0.0.1:9".into(),
        namespace_label: None,
        bearer_token_file: Some("/etc/headroom/metric-sources/main/token".into()),
        allow_insecure_token: false,
        ca_file: None,
    };
    metrics.declare(&[source]);
    let failure = metrics.prometheus("prod", "main", "sum(queue)").await.unwrap_err();
    assert_eq!(failure.reason(), "MetricsQueryRefused");
    assert!(failure.to_string().contains("use https://, or set allowInsecureToken"), "{failure}");
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_number_from_the_metrics_api_has_a_bound_of_its_own() {
    let many: Vec<(&str, &str)> = vec![("web", "1"); 10_000];
    let body = values(NOW, &many);
    let world = World::usual(move |_| (200, body.clone()));
    let failure = world.metrics.object_metric("prod", &deployment(), "queue", None).await.unwrap_err();
    assert_eq!(failure.why, Why::Outage(Outage::Garbled("it has more than 64 KiB".to_owned())));
    // A list of pods may be as long.
    assert!(world.metrics.pod_metric("prod", "queue", "", None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_external_metric_of_too_many_series_is_left_with_what_to_do() {
    let series = |n: usize| format!(r#"{{"items":[{}]}}"#, vec![r#"{"value":"1"}"#; n].join(","));
    for (body, words) in [
        (" ".repeat(4 << 20), "it has more than 256 KiB"),
        (series(1001), "it has more than 1000 series: narrow the metric's selector"),
    ] {
        let world = World::usual(move |_| (200, body.clone()));
        let failure = world.metrics.external_metric("prod", "queue", None).await.unwrap_err();
        assert_eq!(failure.why, Why::Outage(Outage::Garbled(words.to_owned())));
    }
    let body = series(1000);
    let world = World::usual(move |_| (200, body.clone()));
    assert_eq!(world.metrics.external_metric("prod", "queue", None).await.unwrap().len(), 1000);
}

type Chunk = Result<http_body::Frame<bytes::Bytes>, std::io::Error>;
type Chunks = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, std::io::Error>;

fn in_chunks(chunks: impl futures::Stream<Item = Chunk> + Send + 'static) -> Response<Chunks> {
    Response::new(http_body_util::StreamBody::new(chunks).boxed_unsync())
}

fn in_one(text: String) -> Response<Chunks> {
    in_chunks(futures::stream::iter([Ok(http_body::Frame::data(bytes::Bytes::from(text)))]))
}

/// Bytes that servers have sent and that nobody has let go of.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

/// One body's part of it.
struct Sent(Arc<Unread>, usize);

impl Sent {
    fn send(&mut self, chunk: bytes::Bytes) -> bytes::Bytes {
        self.1 += chunk.len();
        let bytes = self.0.bytes.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        self.0.peak.fetch_max(bytes, Ordering::Relaxed);
        chunk
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.bytes.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_large_answers_at_once_stay_within_the_memory_for_all_and_all_are_read() {
    const LOOKS: usize = 100;
    const MIB: usize = 1 << 20;
    let unread: Arc<Unread> = Arc::default();
    let sent_to_all = unread.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let sent = Sent(sent_to_all.clone(), 0);
        async move {
            if request.uri().path() == "/apis/custom.metrics.k8s.io" {
                return Ok(in_one(group("custom.metrics.k8s.io", &["v1beta2"])));
            }
            // 4 MiB that are no JSON, a chunk at a time: the answers come in beside each other.
            let chunks = futures::stream::unfold((sent, 64), |(mut sent, left)| async move {
                tokio::task::yield_now().await;
                let chunk = bytes::Bytes::from_static(&[b'x'; 64 << 10]);
                let frame = http_body::Frame::data(sent.send(chunk));
                (0 < left).then(|| (Ok(frame), (sent, left - 1)))
            });
            Ok::<_, std::io::Error>(in_chunks(chunks))
        }
    });
    let host = Host::simulated(NOW.parse().unwrap(), 1);
    let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, Bounds::default());
    let looks = (0..LOOKS).map(|look| {
        let metrics = &metrics;
        async move { metrics.pod_metric("prod", &format!("queue-{look}"), "", None).await.unwrap_err() }
    });
    for failure in futures::future::join_all(looks).await {
        assert!(failure.to_string().contains("the answer cannot be read: expected value"), "{failure}");
    }
    // 32 MiB for all, room for the one that is alone, and what is free of each; the chunk in hand is not yet charged.
    let peak = unread.peak.load(Ordering::Relaxed);
    assert!(8 * MIB < peak && peak < 44 * MIB, "{} MiB", peak / MIB);
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_which_there_is_no_memory_says_so() {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let path = request.uri().path().to_owned();
        if path == "/apis/custom.metrics.k8s.io" {
            return Ok(in_one(group("custom.metrics.k8s.io", &["v1beta2"])));
        }
        // More than all have together, and it does not end.
        let first = bytes::Bytes::from(vec![b' '; 33 << 20]);
        let first = futures::stream::iter([Ok(http_body::Frame::data(first))]);
        Ok::<_, std::io::Error>(in_chunks(first.chain(futures::stream::pending())))
    });
    let host = Host::simulated(NOW.parse().unwrap(), 1);
    let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, Bounds::default());
    // At their common deadline the one that waits is asked first, before the other gives its memory back.
    let waiting = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        metrics.pod_metric("prod", "b-stuck", "", None).await
    };
    let (crowded, alone) = futures::join!(waiting, metrics.pod_metric("prod", "a-stuck", "", None));
    let deadline = Duration::from_secs(10);
    assert_eq!(alone.unwrap_err().why, Why::Outage(Outage::Deadline(deadline)));
    assert_eq!(crowded.unwrap_err().why, Why::Outage(Outage::Crowded(deadline)));
}

#[test]
fn bounds_leave_room_within_a_period() {
    let bounds = Bounds::default();
    assert!(bounds.deadline < Duration::from_secs(15) && bounds.share_usage_for < Duration::from_secs(15));
    assert!(Seconds(0) < bounds.sample_age_max);
}
