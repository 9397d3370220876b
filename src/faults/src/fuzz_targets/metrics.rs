//! Answers of metrics and clouds.

use headroom_core::time::UnixTime;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Understood, scanned};
use headroom_api::json_path::JsonPath;
use headroom_aws::xml;
use headroom_observe::host::Host;
use headroom_observe::metrics::{self, Bounds, ClusterMetrics, MetricsSource, QueryError};

/// One question to a metrics server that answers this.
fn asked<T>(answer: &Value, ask: impl AsyncFn(&ClusterMetrics) -> Result<T, String>) -> Understood {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let body = answer.to_string();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let versions = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "custom.metrics.k8s.io", "versions": [
                {"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"}]});
            let discovery = request.uri().path() == "/apis/custom.metrics.k8s.io";
            let body = if discovery { versions.to_string() } else { body.clone() };
            async move { Ok::<_, std::io::Error>(http::Response::new(Body::from(body.into_bytes()))) }
        });
        let host = Host::simulated(UnixTime(1_800_000_000).to_jiff(), 1);
        let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, Bounds::default());
        ask(&metrics).await.map(drop)
    })
}

/// Ten seconds before the question.
fn time() -> String {
    UnixTime(1_799_999_990).to_jiff().to_string()
}

pub(super) fn sane_pod_usage() -> String {
    json!({"kind": "PodMetricsList", "metadata": {}, "items": [
        {"metadata": {"name": "web-1", "namespace": "d"}, "timestamp": time(), "window": "14.997s", "containers": [
            {"name": "app", "usage": {"cpu": "700123456n", "memory": "128Mi"}}]},
        {"metadata": {"name": "web-2", "namespace": "d"}, "timestamp": time(), "window": "15s", "containers": []},
    ]})
    .to_string()
}

pub(super) fn pod_usage(answer: &Value) -> Understood {
    asked(answer, async |metrics| metrics.pod_usage("d").await.map_err(|failure| failure.to_string()))
}

pub(super) fn sane_pod_metric() -> String {
    let of_pod = |name: &str, value: &str| {
        json!({"describedObject": {"kind": "Pod", "name": name, "namespace": "d"}, "metric": {"name": "rps"},
            "timestamp": time(), "value": value})
    };
    json!({"kind": "MetricValueList", "metadata": {}, "items": [of_pod("web-1", "12"), of_pod("web-2", "1500m")]})
        .to_string()
}

pub(super) fn pod_metric(answer: &Value) -> Understood {
    asked(answer, async |metrics| {
        metrics.pod_metric("d", "rps", "app=web", None).await.map_err(|failure| failure.to_string())
    })
}

pub(super) fn sane_external_metric() -> String {
    let series = |value: &str| json!({"metricName": "queue", "metricLabels": {"q": "a"}, "timestamp": time(), "value": value});
    json!({"kind": "ExternalMetricValueList", "metadata": {}, "items": [series("3"), series("1k")]})
        .to_string()
}

pub(super) fn external_metric(answer: &Value) -> Understood {
    asked(answer, async |metrics| {
        metrics.external_metric("d", "queue", None).await.map_err(|failure| failure.to_string())
    })
}

pub(super) fn sane_prometheus() -> String {
    json!({"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": {"a": "b"}, "value": [1_760_000_000.5, "1.5e3"]}]}})
    .to_string()
}

pub(super) fn prometheus(body: &[u8]) -> Understood {
    metrics::number_in(body).map(drop).map_err(|failure| failure.to_string())
}

pub(super) fn sane_http_answer() -> String {
    json!({"queues": [{"name": "a", "ready": 1, "unacked": "2.5e1"}, {"name": "b", "ready": 3, "unacked": 4}]}).to_string()
}

/// An answer to XINFO GROUPS.
pub(super) fn sane_redis() -> String {
    "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:2\r\n$17\r\nlast-delivered-id\r\n\
     $3\r\n5-0\r\n$12\r\nentries-read\r\n:5\r\n$3\r\nlag\r\n:4\r\n"
        .to_owned()
}

pub(super) fn redis(body: &[u8]) -> Understood {
    metrics::count_in(body, "g").map(drop).map_err(|why| why.to_string())
}

pub(super) fn sane_json_path() -> String {
    "$.queues[?@.name=='a' && !(@.ready > 5)]['ready','unacked']".to_owned()
}

pub(super) fn http_answer(body: &[u8]) -> Understood {
    let place = JsonPath::parse(&sane_json_path())?;
    metrics::number_at(body, &place).map(drop).map_err(|failure| failure.to_string())
}

/// Checks that what a query that is let through finds is bounded by the document.
pub(super) fn json_path(text: &[u8]) -> Understood {
    let text = String::from_utf8_lossy(text);
    let place = JsonPath::parse(&text)?;
    let document: Value = serde_json::from_str(&sane_http_answer()).map_err(|error| error.to_string())?;
    let found = place.find(&document).len();
    assert!(found <= text.len().saturating_mul(16), "{text:?} finds {found} values among thirteen");
    Ok(())
}

pub(super) fn sane_query() -> String {
    "sum(rate(requests{app=\"web\"}[5m])) by (app) / on(app) group_left avg_over_time(pods[1h:5m] offset 1m)"
        .to_owned()
}

/// Checks that each query that is sent for one that is let through demands the namespace, by a reading of its own; it
/// can be read itself, and is confined in turn.
pub(super) fn query(text: &[u8]) -> Understood {
    let text = String::from_utf8_lossy(text);
    let confined = metrics::confine(&text, "namespace", "shop").map_err(|error| error.to_string())?;
    for sent in [Some(confined.query), confined.freshness].into_iter().flatten() {
        let scanned = scanned::is_confined(&sent, "namespace=\"shop\"");
        assert!(scanned.is_ok(), "{text:?} is sent as {sent:?}: {scanned:?}");
        let again = metrics::confine(&sent, "namespace", "shop");
        assert!(
            matches!(again, Ok(_) | Err(QueryError::TooLong(_))),
            "{text:?} is sent as {sent:?}: {again:?}"
        );
    }
    Ok(())
}

pub(super) fn sane_ec2() -> String {
    "<R><set><item><n>1 &lt; 2 &#38; &amp;</n><m><![CDATA[<x>]]></m></item><item a='1'/></set><!-- c --></R>"
        .to_owned()
}

pub(super) fn ec2(answer: &[u8]) -> Understood {
    xml::parse(&String::from_utf8_lossy(answer)).map(drop)
}
