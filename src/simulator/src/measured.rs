//! The simulated metrics: what workloads carry is shared by their running pods, and measured every 15 s. What no workload
//! carries is not served. It decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use headroom_core::pods::input::{
    ContainerUsage, Number, PodUsage, PodValue, ResourceAmounts, Sample, ScalerReading,
};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::spec::{MetricIdentifier, MetricSelector, ScaleTargetRef};
use headroom_core::quantity::Quantity;
use headroom_core::time::{Seconds, UnixTime};
use jiff::Timestamp;
use serde_json::Value;

use super::cluster::{Carried, Metric, SimCluster};
use super::simulated_cloud::SharedCluster;
use super::store::{Filter, Kind, LabelSelector, ObjectKey, Store, at, condition, text};
use super::wire::ApiServer;
use headroom_observe::host::Host;
use headroom_observe::metrics::{
    Answer, Called, HttpQuery, MetricsSource, Outage, Question, RedisCount, RedisQuery, ScalerQuery, Why,
};

/// Period in which usage is measured, and the span of a measurement. Source: metrics-server's --metric-resolution.
const RESOLUTION: Seconds = Seconds(15);

/// The metrics of the simulated cluster.
pub struct Measured {
    cluster: SharedCluster,
    host: Arc<Host>,
    /// The API server as the caller sees it, whose auditor learns of every answer.
    server: Option<ApiServer>,
}

impl Measured {
    /// Measures `cluster` by the clock of `host`; the auditor of `server` learns of every answer to its caller.
    pub fn new(cluster: SharedCluster, host: Arc<Host>, server: Option<ApiServer>) -> Measured {
        Measured { cluster, host, server }
    }

    fn report(&self, cluster: &SimCluster, namespace: &str, answered: bool) {
        if let Some(server) = &self.server {
            server.measured(cluster, namespace, answered, self.host.wall());
        }
    }

    fn usage(&self, namespace: &str) -> Answer<Arc<Vec<PodUsage>>> {
        let question = Question::new("metrics.k8s.io", format_args!("pod metrics of namespace {namespace}"));
        let now = self.host.wall();
        let cluster = self.cluster.lock();
        if !cluster.load.is_measured(now) {
            self.report(&cluster, namespace, false);
            let words = "the scenario has taken metrics-server away".to_owned();
            return Err(question.failure(Why::Outage(Outage::Unavailable(words))));
        }
        let taken_at = taken_at(now);
        let mut usage: Vec<PodUsage> = cluster.store().with(|store| {
            let loads = cluster.load.in_namespace(namespace);
            let measured = |(kind, key, carried): (Kind, &ObjectKey, &Carried)| {
                let missing = cluster.load.missing_count(kind, key, now);
                let usage = usage_of(&running(store, kind, key), carried, taken_at);
                usage.into_iter().skip(missing)
            };
            loads.flat_map(measured).collect()
        });
        self.report(&cluster, namespace, !usage.is_empty());
        if usage.is_empty() {
            return Err(question.failure(Why::Empty));
        }
        usage.sort_by(|a, b| a.pod.cmp(&b.pod));
        Ok(Arc::new(usage))
    }

    /// A metric that each pod has: of every running pod that `pods` selects its share of what its workload carries.
    fn of_pods(&self, namespace: &str, metric: &Metric, pods: &str) -> Answer<Arc<Vec<PodValue>>> {
        let question = question(CUSTOM, namespace, metric);
        let selector = LabelSelector::parse(pods);
        let selector = selector.map_err(|error| question.failure(Why::Refused(error.message)))?;
        let mut values = self.read(&question, namespace, metric, |store, loads, taken_at| {
            let mut values = Vec::new();
            for (kind, key, milli) in loads {
                let running = running(store, *kind, key);
                let sample = sample(share(*milli, running.len()), taken_at);
                let selected = running.into_iter().filter(|(_, pod)| selector.matches(pod));
                values.extend(
                    selected.map(|(key, _)| PodValue { pod: key.name.clone(), sample: sample.clone() }),
                );
            }
            values
        })?;
        if values.is_empty() {
            return Err(question.failure(Why::Empty));
        }
        values.sort_by(|a, b| a.pod.cmp(&b.pod));
        Ok(Arc::new(values))
    }

    /// A metric that is one number, whoever asks: where several workloads carry it, the largest of what they do.
    fn whole(&self, source: &str, namespace: &str, metric: &Metric) -> Answer<Sample> {
        let question = question(source, namespace, metric);
        self.read(&question, namespace, metric, |_, loads, taken_at| {
            let milli = loads.iter().map(|(_, _, milli)| *milli).max();
            sample(milli.unwrap_or_default(), taken_at)
        })
    }

    /// Calls `found` with the workloads that carry a metric, at least one; fails if none does, and while nothing is
    /// measured.
    fn read<T>(
        &self,
        question: &Question,
        namespace: &str,
        metric: &Metric,
        found: impl FnOnce(&Store, &[(Kind, &ObjectKey, i64)], Moment) -> T,
    ) -> Answer<T> {
        let now = self.host.wall();
        let cluster = self.cluster.lock();
        let loads: Vec<(Kind, &ObjectKey, i64)> = cluster.load.of(namespace, metric).collect();
        if loads.is_empty() {
            let words = "no workload of the simulation carries it: write a load event with this metric";
            return Err(question.failure(Why::NotRegistered(words.to_owned())));
        }
        if !cluster.load.is_measured(now) {
            let words = "the scenario has taken the metrics away".to_owned();
            return Err(question.failure(Why::Outage(Outage::Unavailable(words))));
        }
        Ok(cluster.store().with(|store| found(store, &loads, taken_at(now))))
    }
}

/// API group of metrics of pods and objects.
const CUSTOM: &str = "custom.metrics.k8s.io";

fn question(source: &str, namespace: &str, metric: &Metric) -> Question {
    Question::new(source, format_args!("{metric} in namespace {namespace}"))
}

fn sample(milli: i64, taken_at: Moment) -> Sample {
    Sample { value: Number::Quantity(Quantity::from_milli(milli)), at: Some(taken_at) }
}

/// Returns the time of the newest sample at `now`.
fn taken_at(now: Timestamp) -> Moment {
    Moment::from(UnixTime(now.as_second().div_euclid(RESOLUTION.0) * RESOLUTION.0))
}

/// The running pods of a workload, in the order of their names; none of one that is not there.
fn running<'a>(store: &'a Store, kind: Kind, key: &ObjectKey) -> Vec<(&'a ObjectKey, &'a Arc<Value>)> {
    let in_namespace = Filter { namespace: key.namespace.to_string(), ..Filter::default() };
    let Some(uid) = store.find(kind, key).and_then(|object| text(object, &["metadata", "uid"])) else {
        return Vec::new();
    };
    let mut owners = BTreeSet::from([uid.to_owned()]);
    if kind == Kind::Deployment {
        let sets = store.list(Kind::ReplicaSet, &in_namespace).filter(|(_, set)| owned(set, &owners));
        let sets: Vec<String> =
            sets.filter_map(|(_, set)| text(set, &["metadata", "uid"]).map(str::to_owned)).collect();
        owners.extend(sets);
    }
    store.list(Kind::Pod, &in_namespace).filter(|(_, pod)| owned(pod, &owners) && runs(pod)).collect()
}

/// Returns the share of each of so many pods in a load, in thousandths, rounded down.
fn share(milli: i64, pods_count: usize) -> i64 {
    milli / i64::try_from(pods_count.max(1)).unwrap_or(i64::MAX)
}

/// Returns each pod's usage of the resources that its workload carries; none if it carries no resource.
fn usage_of(pods: &[(&ObjectKey, &Arc<Value>)], carried: &Carried, taken_at: Moment) -> Vec<PodUsage> {
    let resources = carried.iter().filter_map(|(metric, milli)| Some((metric.resource()?, *milli)));
    let shares: Vec<(&'static str, i64)> =
        resources.map(|(name, milli)| (name, share(milli, pods.len()))).collect();
    if shares.is_empty() {
        return Vec::new();
    }
    pods.iter().map(|(key, pod)| usage_of_one(key, pod, &shares, taken_at)).collect()
}

/// The first container uses everything, the others nothing.
fn usage_of_one(key: &ObjectKey, pod: &Value, shares: &[(&'static str, i64)], taken_at: Moment) -> PodUsage {
    let containers = at(pod, &["spec", "containers"]).and_then(Value::as_array).into_iter().flatten();
    let usage = containers.enumerate().map(|(index, container)| {
        let of = |milli: i64| Quantity::from_milli(if index == 0 { milli } else { 0 });
        ContainerUsage {
            name: text(container, &["name"]).unwrap_or_default().into(),
            usage: shares.iter().map(|(name, milli)| (*name, of(*milli))).collect::<ResourceAmounts>(),
        }
    });
    PodUsage { pod: key.name.clone(), at: taken_at, window: RESOLUTION, containers: usage.collect() }
}

fn owned(object: &Value, owners: &BTreeSet<String>) -> bool {
    let references = at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    references.into_iter().flatten().any(|one| text(one, &["uid"]).is_some_and(|uid| owners.contains(uid)))
}

fn runs(pod: &Value) -> bool {
    let ready = condition(pod, "Ready").and_then(|ready| ready.get("status")?.as_str());
    text(pod, &["status", "phase"]) == Some("Running") && ready == Some("True")
}

impl MetricsSource for Measured {
    fn pod_usage<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Answer<Arc<Vec<PodUsage>>>> {
        async move { self.usage(namespace) }.boxed()
    }

    fn pod_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        pods: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>> {
        let metric = Metric::Pods(identifier(metric, selector));
        async move { self.of_pods(namespace, &metric, pods) }.boxed()
    }

    fn object_metric<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a ScaleTargetRef,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Sample>> {
        let metric = Metric::Object(object.clone(), identifier(metric, selector));
        async move { self.whole(CUSTOM, namespace, &metric) }.boxed()
    }

    fn external_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>> {
        async move {
            #[cfg(test)]
            assert_ne!(metric, "panic", "a source with a bug");
            let metric = Metric::External(identifier(metric, selector));
            Ok(Arc::new(vec![self.whole("external.metrics.k8s.io", namespace, &metric)?]))
        }
        .boxed()
    }

    fn prometheus<'a>(
        &'a self,
        namespace: &'a str,
        source: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Answer<Sample>> {
        let metric = Metric::Prometheus { source: source.to_owned(), query: query.to_owned() };
        async move { self.whole(source, namespace, &metric) }.boxed()
    }

    fn http<'a>(&'a self, namespace: &'a str, query: &'a HttpQuery) -> BoxFuture<'a, Answer<Sample>> {
        let HttpQuery { source, path, value } = query.clone();
        let metric = Metric::Http { source, path, value };
        async move { self.whole(&query.source, namespace, &metric) }.boxed()
    }

    fn redis<'a>(&'a self, namespace: &'a str, query: &'a RedisQuery) -> BoxFuture<'a, Answer<Sample>> {
        let RedisQuery { source, key, database, count } = query.clone();
        let group = match count {
            RedisCount::Elements => None,
            RedisCount::Pending(group) | RedisCount::Lag(group) => Some(group),
        };
        let metric = Metric::Redis { source, key, database, group };
        async move { self.whole(&query.source, namespace, &metric) }.boxed()
    }

    /// A simulated server has a load, and no targets of its own. There is work while there is a load.
    fn external_scaler<'a>(&'a self, query: &'a ScalerQuery) -> BoxFuture<'a, Answer<ScalerReading>> {
        async move {
            let ScalerQuery { source, object, metric, wants_target } = query;
            if *wants_target {
                let words = "a simulated server has no targets: set externalScaler.target of the metric";
                return Err(query.question().refused(words));
            }
            let metric = Metric::ExternalScaler {
                source: source.clone(),
                metric: metric.clone(),
                metadata: object.metadata.clone(),
            };
            let sample = self.whole(source, &object.namespace, &metric)?;
            let active = matches!(&sample.value, Number::Quantity(load) if !load.is_zero());
            Ok(ScalerReading { values: vec![sample], target: None, active: Some(active) })
        }
        .boxed()
    }

    fn activity(&self, _: &ScalerQuery) -> Answer<BoxStream<'static, Called<bool>>> {
        Ok(stream::pending().boxed())
    }
}

fn identifier(name: &str, selector: Option<&MetricSelector>) -> MetricIdentifier {
    MetricIdentifier { name: name.to_owned(), selector: selector.cloned() }
}

#[cfg(test)]
mod tests {
    use headroom_core::pods::input::ResourceAmounts;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::cluster::Timings;
    use crate::store::{Author, SharedStore};

    fn identifier(name: &str) -> MetricIdentifier {
        super::identifier(name, None)
    }

    /// Two pods of ReplicaSet web and one of ReplicaSet other run; each set carries the given loads.
    fn measured(loads: &[(&str, Metric, i64)]) -> Measured {
        let start = Timestamp::from_second(1_000_000_007).unwrap();
        let mut cluster = SimCluster::new(SharedStore::new(1, start), Timings::default());
        cluster.store().with(|store| {
            let room = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
            let node = json!({"metadata": {"name": "n1", "labels": {"type": "kwok"}},
                "status": {"capacity": room, "allocatable": room}});
            store.create(Kind::Node, node, Author::actor("test")).unwrap();
            for (name, replicas) in [("web", 2), ("other", 1)] {
                let labels = json!({"app": name});
                let containers = json!([{"name": "app", "image": "a"}, {"name": "sidecar", "image": "s"}]);
                let set = json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
                store.create(Kind::ReplicaSet, set, Author::actor("test")).unwrap();
            }
        });
        for second in 0..10 {
            cluster.step(start + SignedDuration::from_secs(second));
        }
        for (name, metric, milli) in loads {
            cluster.load.put(Kind::ReplicaSet, ObjectKey::new("shop", name), metric.clone(), *milli);
        }
        Measured::new(SharedCluster::new(cluster), Host::simulated(start, 1), None)
    }

    fn milli(sample: &Sample) -> i64 {
        assert_eq!(sample.at, Some(Moment::from(UnixTime(1_000_000_005))), "every 15 s");
        match &sample.value {
            Number::Quantity(quantity) => quantity.milli(),
            Number::NotFinite(text) => panic!("{text}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_share_the_resources_that_their_workload_carries_and_no_others() {
        let measured = measured(&[
            ("web", Metric::Cpu, 501),
            ("web", Metric::Memory, 4_000),
            ("web", Metric::Pods(identifier("rps")), 9),
            ("other", Metric::Pods(identifier("rps")), 9),
        ]);
        let usage = measured.pod_usage("shop").await.unwrap();
        let amounts = |cpu, memory| {
            let amounts = [("cpu", Quantity::from_milli(cpu)), ("memory", Quantity::from_milli(memory))];
            amounts.into_iter().collect::<ResourceAmounts>()
        };
        let of_each: Vec<Vec<ResourceAmounts>> = usage
            .iter()
            .map(|pod| pod.containers.iter().map(|container| container.usage.clone()).collect())
            .collect();
        let pod = vec![amounts(250, 2_000), amounts(0, 0)];
        assert_eq!(of_each, [pod.clone(), pod]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_metric_of_pods_is_returned_for_the_selected_pods() {
        let rps = || Metric::Pods(identifier("rps"));
        let measured = measured(&[("web", rps(), 9_000), ("other", rps(), 7_000)]);
        let asked = async |pods| {
            let values = measured.pod_metric("shop", "rps", pods, None).await.unwrap();
            values.iter().map(|value| milli(&value.sample)).collect::<Vec<_>>()
        };
        assert_eq!(asked("app=web").await, [4_500, 4_500]);
        assert_eq!(asked("app=other").await, [7_000]);
        let nobody = measured.pod_metric("shop", "rps", "app=nobody", None).await.unwrap_err();
        assert_eq!(nobody.reason(), "MetricsEmpty");
    }

    #[tokio::test(start_paused = true)]
    async fn what_belongs_to_no_pod_is_one_number_whoever_asks() {
        let ingress =
            ScaleTargetRef { kind: "Ingress".into(), name: "front".into(), ..ScaleTargetRef::default() };
        let query = Metric::Prometheus { source: "main".into(), query: "sum(queue)".into() };
        let measured = measured(&[
            ("web", Metric::External(identifier("queue")), 40_000),
            ("other", Metric::External(identifier("queue")), 39_999),
            ("web", Metric::Object(ingress.clone(), identifier("rps")), 30_000),
            ("web", query, 20_000),
        ]);
        let external = measured.external_metric("shop", "queue", None).await.unwrap();
        assert_eq!(external.iter().map(milli).collect::<Vec<_>>(), [40_000]);
        assert_eq!(milli(&measured.object_metric("shop", &ingress, "rps", None).await.unwrap()), 30_000);
        assert_eq!(milli(&measured.prometheus("shop", "main", "sum(queue)").await.unwrap()), 20_000);
    }

    #[tokio::test(start_paused = true)]
    async fn an_external_scaler_has_the_load_of_its_parameters_and_no_target_of_its_own() {
        let metadata: std::collections::BTreeMap<String, String> = [("queue".into(), "a".into())].into();
        let metric = Metric::ExternalScaler { source: "q".into(), metric: None, metadata: metadata.clone() };
        let measured = measured(&[("web", metric, 40_000)]);
        let mut query = ScalerQuery { source: "q".into(), ..ScalerQuery::default() };
        query.object.namespace = "shop".into();
        let other = measured.external_scaler(&query).await.unwrap_err();
        assert_eq!(other.reason(), "MetricsNotRegistered");
        query.object.metadata = metadata;
        let reading = measured.external_scaler(&query).await.unwrap();
        assert_eq!((milli(&reading.values[0]), reading.target, reading.active), (40_000, None, Some(true)));
        query.wants_target = true;
        let failure = measured.external_scaler(&query).await.unwrap_err();
        assert!(failure.to_string().contains("set externalScaler.target"), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_carries_is_not_served_and_nothing_is_while_the_metrics_are_away() {
        let measured = measured(&[("web", Metric::External(identifier("queue")), 40_000)]);
        let selector =
            MetricSelector { match_labels: [("of".into(), "b".into())].into(), ..Default::default() };
        let asked = async |namespace, name, selector| {
            measured
                .external_metric(namespace, name, selector)
                .await
                .map_or_else(|failure| failure.reason(), |_| "")
        };
        assert_eq!(asked("shop", "queue", None).await, "");
        assert_eq!(asked("shop", "queue", Some(&selector)).await, "MetricsNotRegistered");
        assert_eq!(asked("shop", "backlog", None).await, "MetricsNotRegistered");
        assert_eq!(asked("other", "queue", None).await, "MetricsNotRegistered");
        measured.cluster.lock().load.cut_off(Timestamp::MAX);
        assert_eq!(asked("shop", "queue", None).await, "MetricsOutage");
    }
}
