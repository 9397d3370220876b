//! Questions to external scalers against a scripted one: what an answer means, who may ask, and what silence costs.

#![allow(clippy::disallowed_methods, reason = "the scripted server of these tests runs beside them")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use headroom_core::pods::input::{Number, ScalerReading};
use kube::Client;
use kube::client::Body;

use super::*;
use crate::host::Host;

const SECOND: Duration = Duration::from_secs(1);

/// A scripted server: its metrics and the values of any of them, and the time that each call takes.
#[derive(Default)]
struct Server {
    specs: Vec<ScalerSpec>,
    values: Mutex<Vec<ScalerValue>>,
    active: Option<bool>,
    takes: Duration,
    calls: Mutex<Vec<String>>,
    open_count: AtomicUsize,
}

impl Server {
    async fn called(&self, call: String) {
        self.calls.lock().unwrap().push(call);
        self.open_count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        self.open_count.fetch_sub(1, Ordering::Relaxed);
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl ScalerCalls for Server {
    fn metric_specs<'a>(
        &'a self,
        of: &'a ScaledObject,
        _: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerSpec>>> {
        async move {
            self.called(format!("specs of {}/{}", of.namespace, of.name)).await;
            Ok(self.specs.clone())
        }
        .boxed()
    }

    fn metrics<'a>(
        &'a self,
        of: &'a ScaledObject,
        metric: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerValue>>> {
        async move {
            self.called(format!("{metric} of {}/{}", of.namespace, of.name)).await;
            Ok(self.values.lock().unwrap().clone())
        }
        .boxed()
    }

    fn is_active<'a>(&'a self, _: &'a ScaledObject, _: Duration) -> BoxFuture<'a, Called<bool>> {
        let active = self.active.ok_or_else(|| Why::Outage(Outage::Call("IsActive: unknown".to_owned())));
        async move { active }.boxed()
    }

    fn activity(&self, _: &ScaledObject) -> BoxStream<'static, Called<bool>> {
        stream::iter([Ok(true)]).boxed()
    }
}

fn spec(name: &str, target: f64, whole_target: i64) -> ScalerSpec {
    ScalerSpec { name: name.to_owned(), target, whole_target }
}

fn value(value: f64, whole: i64) -> ScalerValue {
    ScalerValue { value, whole }
}

/// Metrics with the source `q`, for namespace `shop` alone, and Prometheus server `p`.
fn metrics(server: &Arc<Server>) -> ClusterMetrics {
    let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let unused = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(Body::empty()))
    });
    let metrics = ClusterMetrics::new(Client::new(unused, "default"), &host, Bounds::default());
    let server = server.clone();
    let connect: ConnectScaler = Arc::new(move |_| server.clone() as Arc<dyn ScalerCalls>);
    let source =
        ScalerSource { name: "q".to_owned(), namespaces: vec!["shop".to_owned()], ..ScalerSource::default() };
    let metrics = metrics.with_scalers(&[source], &connect);
    metrics.declare(&[PrometheusSource {
        name: "p".to_owned(),
        url: "http://p".to_owned(),
        namespace_label: None,
        bearer_token_file: None,
        allow_insecure_token: false,
        ca_file: None,
    }]);
    metrics
}

fn query(name: &str, metric: Option<&str>) -> ScalerQuery {
    let object =
        ScaledObject { name: name.to_owned(), namespace: "shop".to_owned(), ..ScaledObject::default() };
    ScalerQuery { source: "q".to_owned(), object, metric: metric.map(str::to_owned), wants_target: true }
}

fn milli(reading: &ScalerReading) -> Vec<i64> {
    let of = |number: &Number| match number {
        Number::Quantity(quantity) => quantity.milli(),
        Number::NotFinite(text) => panic!("{text}"),
    };
    reading.values.iter().map(|sample| of(&sample.value)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_external_scaler_gives_values_target_and_activity_and_is_asked_for_its_metrics_once_a_minute() {
    let server = Arc::new(Server {
        specs: vec![spec("queue", 2.5, 0)],
        values: Mutex::new(vec![value(0.0, 12), value(0.5, 7)]),
        active: Some(true),
        ..Server::default()
    });
    let metrics = metrics(&server);
    let reading = metrics.external_scaler(&query("web", None)).await.unwrap();
    assert_eq!((milli(&reading), reading.active), (vec![12_000, 500], Some(true)));
    assert_eq!(reading.target.map(|target| target.milli()), Some(2500));
    tokio::time::sleep(6 * SECOND).await;
    metrics.external_scaler(&query("web", None)).await.unwrap();
    assert_eq!(server.calls(), ["specs of shop/web", "queue of shop/web", "queue of shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_tell_its_activity_is_read_all_the_same() {
    let server = Server { values: Mutex::new(vec![value(0.0, 1)]), ..Server::default() };
    let asked = ScalerQuery { wants_target: false, ..query("web", Some("queue")) };
    let server = Arc::new(server);
    let reading = metrics(&server).external_scaler(&asked).await.unwrap();
    assert_eq!((reading.active, reading.target), (None, None));
    assert_eq!(
        server.calls(),
        ["queue of shop/web"],
        "a target and a name that are written are not asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn each_way_of_not_knowing_a_scalers_metric_is_distinguished_and_names_the_field() {
    let both = || vec![spec("queue", 0.0, 5), spec("lag", 0.0, 5)];
    let one = || vec![spec("queue", 0.0, 5)];
    let fine = || vec![value(0.0, 1)];
    for (specs, metric, values, reason, words) in [
        (
            both(),
            None,
            fine(),
            "MetricsQueryRefused",
            "several metrics, queue, lag: name one as externalScaler.metricName",
        ),
        (
            both(),
            Some("length"),
            fine(),
            "MetricsQueryRefused",
            "has no metric length, it has queue, lag: correct external",
        ),
        (vec![], None, fine(), "MetricsEmpty", "no metrics returned"),
        (vec![spec("queue", 0.0, 0)], None, fine(), "MetricsQueryRefused", "set externalScaler.target"),
        (vec![spec("queue", f64::NAN, 5)], None, fine(), "MetricsAbsurd", "NaN"),
        (one(), None, vec![], "MetricsEmpty", "no metrics returned"),
        (one(), None, vec![value(0.0, 1), value(-0.5, 1)], "MetricsAbsurd", "negative"),
        (one(), None, vec![value(f64::INFINITY, 0)], "MetricsAbsurd", "infinite"),
        (one(), None, vec![value(0.0, i64::MAX)], "MetricsAbsurd", "out of range"),
        (one(), None, vec![value(0.0, 1); 1001], "MetricsOutage", "more than 1000 values"),
    ] {
        let server = Arc::new(Server { specs, values: Mutex::new(values), ..Server::default() });
        let failure = metrics(&server).external_scaler(&query("web", metric)).await.unwrap_err();
        assert_eq!(failure.reason(), reason, "{failure}");
        assert!(failure.to_string().contains(words), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_declared_scalers_are_asked_and_only_by_their_namespaces() {
    let server = Arc::new(Server::default());
    let metrics = metrics(&server);
    let with = |source: &str, namespace: &str| {
        let mut query = query("web", None);
        query.source = source.to_owned();
        query.object.namespace = namespace.to_owned();
        query
    };
    for (query, reason, words) in [
        (
            with("169.254.169.254:80", "shop"),
            "MetricsNotRegistered",
            "declare 169.254.169.254:80 in workloads.metricSources",
        ),
        (with("p", "shop"), "MetricsQueryRefused", "p is a Prometheus server"),
        (with("q", "other"), "MetricsNotPermitted", "externalScaler.namespaces"),
    ] {
        let failure = metrics.external_scaler(&query).await.unwrap_err();
        assert_eq!(failure.reason(), reason, "{failure}");
        assert!(failure.to_string().contains(words), "{failure}");
        assert!(metrics.activity(&query).is_err());
    }
    let failure = metrics.prometheus("shop", "q", "sum(a)").await.unwrap_err();
    assert!(failure.to_string().contains("q is an external scaler"), "{failure}");
    assert!(server.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_scaler_has_few_calls_in_flight_and_those_beyond_fail_within_a_second() {
    let server =
        Arc::new(Server { specs: vec![spec("queue", 0.0, 5)], takes: 3600 * SECOND, ..Server::default() });
    let metrics = metrics(&server);
    let began_at = tokio::time::Instant::now();
    let ask = async |index: usize| {
        let failure = metrics.external_scaler(&query(&format!("w{index}"), None)).await.unwrap_err();
        (failure.to_string(), began_at.elapsed())
    };
    let answers = futures::future::join_all((0..100).map(ask)).await;
    let (quick, slow): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, took)| *took <= SECOND);
    assert_eq!((quick.len(), slow.len()), (68, 32));
    assert!(quick[0].0.contains("32 calls in flight"), "{}", quick[0].0);
    assert!(slow.iter().all(|(words, took)| words.contains("no answer within 10 s") && *took == 10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_activity_lets_go_of_the_answer_that_is_shared() {
    let server = Arc::new(Server {
        specs: vec![spec("queue", 0.0, 5)],
        values: Mutex::new(vec![value(0.0, 1)]),
        ..Server::default()
    });
    let metrics = metrics(&server);
    let asked = query("web", None);
    let read = async || milli(&metrics.external_scaler(&asked).await.unwrap());
    assert_eq!(read().await, [1000]);
    *server.values.lock().unwrap() = vec![value(0.0, 2)];
    assert_eq!(read().await, [1000], "it serves for 5 s");
    assert_eq!(metrics.activity(&asked).unwrap().next().await, Some(Ok(true)));
    assert_eq!(read().await, [2000]);
}
