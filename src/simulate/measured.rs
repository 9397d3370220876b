//! The simulated metrics API: the running pods of a workload under load share it, and are measured every 15 s. It knows
//! CPU only, serves no custom or external metrics, and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use headroom_core::pods::input::{ContainerUsage, PodUsage, PodValue, ResourceAmounts, Sample};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::spec::{MetricSelector, ScaleTargetRef};
use headroom_core::quantity::Quantity;
use headroom_core::time::{Seconds, UnixTime};
use serde_json::Value;

use super::cluster::SimCluster;
use super::judge::SharedJudge;
use super::sky::SharedCluster;
use super::store::{Filter, Kind, ObjectKey, Store, at, condition, text};
use super::wire::Caller;
use crate::host::Host;
use crate::metrics::{Answer, MetricsSource, Outage, Question, Why};

/// How often usage is measured, and over how long. Source: metrics-server's --metric-resolution.
const RESOLUTION: Seconds = Seconds(15);

/// The metrics of the simulated cluster.
pub struct Measured {
    cluster: SharedCluster,
    host: Arc<Host>,
    /// Who is told of every answer, and who asks.
    audit: Option<(SharedJudge, Caller)>,
}

impl Measured {
    /// Measures `cluster` by the clock of `host`; a judge is told of every answer to `audit`'s caller.
    pub fn new(cluster: SharedCluster, host: Arc<Host>, audit: Option<(SharedJudge, Caller)>) -> Measured {
        Measured { cluster, host, audit }
    }

    fn tell(&self, cluster: &SimCluster, namespace: &str, answered: bool) {
        let Some((judge, caller)) = &self.audit else { return };
        let now = self.host.wall();
        cluster.store().with(|store| {
            judge.lock().is_asked(store, &cluster.load, (*caller, namespace), answered, now);
        });
    }

    fn usage(&self, namespace: &str) -> Answer<Arc<Vec<PodUsage>>> {
        let question = Question::new("metrics.k8s.io", format_args!("pod metrics of namespace {namespace}"));
        let now = self.host.wall();
        let cluster = self.cluster.lock();
        if !cluster.load.is_measured(now) {
            self.tell(&cluster, namespace, false);
            let words = "the scenario has taken metrics-server away".to_owned();
            return Err(question.failure(Why::Outage(Outage::Unavailable(words))));
        }
        let taken_at = now.as_second().div_euclid(RESOLUTION.0) * RESOLUTION.0;
        let taken_at = Moment::from(UnixTime(taken_at));
        let mut usage: Vec<PodUsage> = cluster.store().with(|store| {
            let loads = cluster.load.in_namespace(namespace);
            let measured = |(kind, key, load)| {
                let missing = cluster.load.missing_count(kind, key, now);
                shares(store, kind, key, load, taken_at).into_iter().skip(missing)
            };
            loads.flat_map(measured).collect()
        });
        self.tell(&cluster, namespace, !usage.is_empty());
        if usage.is_empty() {
            return Err(question.failure(Why::Empty));
        }
        usage.sort_by(|a, b| a.pod.cmp(&b.pod));
        Ok(Arc::new(usage))
    }
}

/// What each running pod of a workload uses of its load: the first container everything, the others nothing.
fn shares(store: &Store, kind: Kind, key: &ObjectKey, milli_cpu: i64, taken_at: Moment) -> Vec<PodUsage> {
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
    let running: Vec<(&ObjectKey, &Arc<Value>)> =
        store.list(Kind::Pod, &in_namespace).filter(|(_, pod)| owned(pod, &owners) && runs(pod)).collect();
    let share = milli_cpu / i64::try_from(running.len().max(1)).unwrap_or(i64::MAX);
    running.into_iter().map(|(key, pod)| share_of(key, pod, share, taken_at)).collect()
}

fn share_of(key: &ObjectKey, pod: &Value, milli_cpu: i64, taken_at: Moment) -> PodUsage {
    let containers = at(pod, &["spec", "containers"]).and_then(Value::as_array).into_iter().flatten();
    let usage = containers.enumerate().map(|(index, container)| {
        let cpu = Quantity::from_milli(if index == 0 { milli_cpu } else { 0 });
        ContainerUsage {
            name: text(container, &["name"]).unwrap_or_default().into(),
            usage: BTreeMap::from([("cpu", cpu)]).into_iter().collect::<ResourceAmounts>(),
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
        _namespace: &'a str,
        metric: &'a str,
        _pods: &'a str,
        _selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>> {
        async move { not_served("custom.metrics.k8s.io", metric) }.boxed()
    }

    fn object_metric<'a>(
        &'a self,
        _namespace: &'a str,
        _object: &'a ScaleTargetRef,
        metric: &'a str,
        _selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Sample>> {
        async move { not_served("custom.metrics.k8s.io", metric) }.boxed()
    }

    fn external_metric<'a>(
        &'a self,
        _namespace: &'a str,
        metric: &'a str,
        _selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>> {
        async move {
            #[cfg(test)]
            assert_ne!(metric, "panic", "a source with a bug");
            not_served("external.metrics.k8s.io", metric)
        }
        .boxed()
    }

    fn prometheus<'a>(
        &'a self,
        _namespace: &'a str,
        source: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Answer<Sample>> {
        async move { not_served(source, query) }.boxed()
    }
}

fn not_served<T>(group: &str, metric: &str) -> Answer<T> {
    let why = Why::NotRegistered("the simulation measures CPU usage only".to_owned());
    Err(Question::new(group, format_args!("metric {metric}")).failure(why))
}
