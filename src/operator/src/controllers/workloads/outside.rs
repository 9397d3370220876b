//! Decisions on replicas that would be made now, for a reader who may only read and does not ask the operator. It
//! decides nothing: values that only the operator can read are reported as unknown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use headroom_core::labels::ObjectKey;
use headroom_core::pods::input::{Options, Scale};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::needs_metrics;
use headroom_core::pods::record::ReplicaRecord;
use headroom_core::pods::schedules;
use headroom_core::pods::selector::{Registry, Selector};
use headroom_core::pods::surge::SurgeWish;
use headroom_core::pods::zero::ZeroOwner;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;

use super::evaluate::{acts, leave, phase_of, undecided};
use super::gather::{Load, ask};
use super::last::{EvaluationInput, Last, record};
use super::observation::pods_of;
use super::options_of;
use super::release::{says_who_scaled_to_zero, with_scaled_to_zero};
use super::resolve::{ResolvedWorkloads, Workload, resolve};
use super::state::{State, hpa_status};
use headroom_api::conditions::{get, types};
use headroom_api::validate::{ValidatedWorkloads, validate_policy};
use headroom_api::{Mode, PolicyObject, ScalingPolicySpec, ScalingPolicyStatus};
use headroom_observe::host::Host;
use headroom_observe::metrics::MetricsSource;
use headroom_observe::workloads::Selected;
use headroom_observe::{HpaObject, KubeFeed, ScaleKind, Workloads};
use headroom_report::PolicyPhase;

/// Workloads whose metrics are asked for at the same time: where no answer comes, each waits for its deadline.
const ASKED_AT_ONCE_MAX: usize = 16;

/// The record of all workloads that `feed` knows; it must keep workloads. Memory is what status remembers, and
/// what the metrics APIs serve is asked of `metrics`, with the reader's own permissions. Prometheus, external scalers, and scales of kinds that
/// are not watched, are the operator's alone to read: such workloads are named with why.
pub async fn looked_at(feed: &KubeFeed, metrics: &dyn MetricsSource, host: &Host) -> ReplicaRecord {
    let found = feed.workloads(|known| Found::of(known, host.now())).unwrap_or_default();
    let mut evaluations: BTreeMap<ObjectKey, Last> = found.undecided;
    let ask = async |mut sketch: Sketch| {
        let last = match load(metrics, &sketch).await {
            Ok(load) => {
                sketch.input.gathered = load.gathered;
                sketch.input.now = Moment::from_jiff(host.time()).whole();
                Last::Decided(Arc::new(sketch.input))
            }
            Err(why) => Last::Undecided(why),
        };
        (sketch.key, last)
    };
    let mut asked = stream::iter(found.sketches).map(ask).buffer_unordered(ASKED_AT_ONCE_MAX);
    while let Some((key, last)) = asked.next().await {
        evaluations.insert(key, last);
    }
    drop(asked);
    record(evaluations)
}

/// An evaluation without its metrics.
struct Sketch {
    key: ObjectKey,
    input: EvaluationInput,
    /// True if metrics play a part.
    asks: bool,
}

#[derive(Default)]
struct Found {
    sketches: Vec<Sketch>,
    undecided: BTreeMap<ObjectKey, Last>,
}

/// A workload whose scale and pods are known.
struct OutsideView {
    workload: Arc<Workload>,
    policy: Arc<PolicyObject<ScalingPolicySpec>>,
    hpa: Option<Arc<HpaObject>>,
    scale: Result<Scale, String>,
    selected: Selected,
}

impl Found {
    fn of(known: &Workloads, now: UnixTime) -> Self {
        let settings = settings(known);
        let options = options_of(&settings);
        let ResolvedWorkloads { workloads, homes } = resolve(known.policies(), known.hpas(), &settings);
        let mut found = Self::default();
        for hpa in homes.homeless {
            let why = "its HPA has no policy yet: the operator makes one once it runs";
            found.undecided.insert(hpa.key.clone(), Last::Undecided(why.to_owned()));
        }
        let (mut all, mut registry) = (Vec::new(), Registry::default());
        for (key, workload) in workloads {
            match see(known, workload) {
                Ok(seen) => {
                    let selector = seen.scale.as_ref().ok().and_then(|scale| readable(&scale.selector));
                    if let (Some(hpa), Some(selector)) = (&seen.workload.hpa, selector) {
                        registry.put(&hpa.namespace, &hpa.name, selector);
                    }
                    all.push(seen);
                }
                Err(why) => {
                    found.undecided.insert(key, Last::Undecided(why));
                }
            }
        }
        found.sketches = all.into_iter().map(|seen| sketch(seen, &registry, &options, now)).collect();
        found
    }
}

/// Returns the settings of the ClusterScalingPolicy; the defaults where it cannot be used.
fn settings(known: &Workloads) -> ValidatedWorkloads {
    let stored = known.cluster().and_then(|stored| stored.spec.as_ref().ok());
    let validated = stored.and_then(|spec| validate_policy(spec).ok());
    validated.map(|policy| policy.workloads).unwrap_or_default()
}

/// The selector of a scale, unless it is empty or invalid.
fn readable(selector: &str) -> Option<Selector> {
    Selector::parse(selector).ok().filter(|_| !selector.is_empty())
}

fn see(known: &Workloads, mut workload: Arc<Workload>) -> Result<OutsideView, String> {
    let policy = known.policies().get(&workload.key).cloned().ok_or("it has just gone")?;
    if is_previewed(&policy) && workload.mode == Mode::Apply {
        // An operator that is started with --preview does nothing, and shows by its word in status alone.
        Arc::make_mut(&mut workload).mode = Mode::Preview;
    }
    let phase = phase_of(&workload);
    let hpa = workload.hpa.as_ref().and_then(|key| known.hpas().get(key).cloned());
    let judged = matches!(phase, PolicyPhase::Accepted | PolicyPhase::Preview);
    if !judged || (workload.hpa.is_some() && hpa.is_none()) {
        return Err(undecided(&phase));
    }
    let Some(target) = &workload.target else {
        return Err("the apiVersion of what it scales cannot be read".to_owned());
    };
    let kind = ScaleKind::of(&target.group, &target.kind).ok_or_else(|| {
        format!("the operator alone reads the scale of a {}: ask it with --operator", target.kind)
    })?;
    let key = ObjectKey::new(target.namespace.clone(), &*target.name);
    let found = known.scale(kind, &key);
    let selector = found.as_ref().and_then(|seen| readable(&seen.scale.selector));
    let uid = found.as_ref().map(|seen| seen.uid.clone()).unwrap_or_default();
    let select =
        |selector: Selector| pods_of(known, &workload, &target.namespace, &selector, (&uid, Some(kind)));
    let selected = selector.map(select).unwrap_or_default();
    let scale = found.map(|seen| seen.scale.clone());
    let scale = scale.ok_or_else(|| format!("{} \"{}\" not found", target.kind, target.name));
    Ok(OutsideView { workload, policy, hpa, scale, selected })
}

fn is_previewed(policy: &PolicyObject<ScalingPolicySpec>) -> bool {
    let status: ScalingPolicyStatus = serde_json::from_value(policy.status.value()).unwrap_or_default();
    get(&status.conditions, types::READY).is_some_and(|ready| ready.reason == Reason::PreviewOnly.as_str())
}

fn sketch(seen: OutsideView, registry: &Registry, options: &Options, now: UnixTime) -> Sketch {
    let OutsideView { workload, policy, hpa, scale, selected } = seen;
    let mut state = State::restore(&policy, now, Duration::ZERO);
    if let Ok(scale) = &scale {
        // What became of a change of unknown outcome shows by the size.
        state.settle(scale.spec_replicas, "", now);
    }
    let owned = get(&state.stored.conditions, types::HPA_OWNED);
    let runs_hpa = owned.is_some_and(|owned| owned.status == "True");
    let bounds = schedules::bounds(&workload.spec, &workload.schedules, now);
    let held_until = state.held_until(now);
    let status = match hpa.as_deref().filter(|_| runs_hpa) {
        Some(hpa) => hpa_status(&hpa.status),
        None => with_scaled_to_zero(state.reported, hpa.as_deref()),
    };
    let mut options = workload.options(options);
    options.gates.scaled_to_zero = says_who_scaled_to_zero(&workload, &status);
    let owner = ZeroOwner::of(workload.zero.as_ref(), options.gates, &status, &state.memory.memory);
    let asks =
        scale.as_ref().is_ok_and(|scale| needs_metrics(&workload.spec, &bounds, scale.spec_replicas, owner));
    let rivals = workload.hpa.as_ref().map(|hpa| {
        registry.rivals(&hpa.namespace, &hpa.name, selected.labels.iter().map(|labels| &**labels))
    });
    let input = EvaluationInput {
        // Only the operator knows its drains: what is there stays.
        surge: SurgeWish::Unknown,
        leave: leave(&workload, acts(&workload, runs_hpa), held_until),
        now: now.into(),
        options,
        status,
        memory: state.memory.memory,
        scale,
        pods: selected.pods,
        rivals: rivals.unwrap_or_default(),
        gathered: Vec::new(),
        workload,
    };
    Sketch { key: input.workload.key.clone(), input, asks }
}

/// Returns the metrics, or a message that says why the operator's answer is not known.
async fn load(metrics: &dyn MetricsSource, sketch: &Sketch) -> Result<Load, String> {
    if !sketch.asks {
        return Ok(Load::default());
    }
    let workload = &sketch.input.workload;
    // A server is asked by an address of the cluster's own network and with the operator's certificates.
    if workload.queries.iter().any(Option::is_some) {
        return Err(
            "the operator alone reads metrics of type Prometheus, ExternalScaler, HTTP or Redis: ask it with --operator"
                .to_owned(),
        );
    }
    let selector = sketch.input.scale.as_ref().map(|scale| scale.selector.clone()).unwrap_or_default();
    let load = ask(metrics, workload, &selector, &sketch.input.pods).await;
    // No sample, or an old one, is the operator's answer too. A call that fails may fail for us alone.
    let known = ["MetricsEmpty", "MetricsStale", "MetricsAbsurd"];
    match load.troubles.iter().flatten().find(|trouble| !known.contains(&trouble.reason)) {
        Some(trouble) => Err(format!("{}: ask the operator with --operator", trouble.message)),
        None => Ok(load),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use headroom_core::pods::input::{ContainerUsage, PodUsage, PodValue, Sample};
    use headroom_core::pods::record::{Leave, ReplicaRecord};
    use headroom_core::pods::spec::{MetricSelector, ScaleTargetRef};
    use headroom_core::quantity::Quantity;
    use headroom_core::time::Seconds;
    use serde_json::{Value, json};

    use super::*;
    use headroom_api::{StoredClusterScalingPolicy, StoredScalingPolicy};
    use headroom_observe::metrics::{Answer, Question, Why};
    use headroom_observe::slim::{SlimDeployment, SlimPod};

    const NOW: UnixTime = UnixTime(1_800_000_000);

    /// Pod web-1 uses so many thousandths of a CPU, handles so many requests a second, and the queue and the ingress of
    /// the shop have so many times 1; without a number the reader may not ask. Prometheus may not be asked.
    struct Usage(Option<i64>);

    impl Usage {
        fn answer<T: Send + 'static>(
            &self,
            api: &'static str,
            of_value: impl FnOnce(Quantity) -> T,
        ) -> BoxFuture<'static, Answer<T>> {
            let refused = Question::new(api, "it").failure(Why::NotPermitted("you may not".to_owned()));
            let answer = self.0.map(Quantity::from_milli).map(of_value).ok_or(refused);
            async move { answer }.boxed()
        }
    }

    impl MetricsSource for Usage {
        fn pod_usage<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Answer<Arc<Vec<PodUsage>>>> {
            let question = Question::new("metrics.k8s.io", format_args!("usage in {namespace}"));
            let Some(milli) = self.0 else {
                let refused = Err(question.failure(Why::NotPermitted("you may not".to_owned())));
                return async move { refused }.boxed();
            };
            let usage = [("cpu", Quantity::from_milli(milli))].into_iter().collect();
            let containers = vec![ContainerUsage { name: "c".into(), usage }];
            let pod = PodUsage { pod: "web-1".into(), at: NOW.into(), window: Seconds(15), containers };
            async move { Ok(Arc::new(vec![pod])) }.boxed()
        }

        fn pod_metric<'a>(
            &'a self,
            namespace: &'a str,
            metric: &'a str,
            pods: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>> {
            assert_eq!((namespace, metric, pods), ("shop", "rps", "app=web"));
            let values = |value| Arc::new(vec![PodValue { pod: "web-1".into(), sample: Sample::of(value) }]);
            self.answer("custom.metrics.k8s.io", values)
        }

        fn object_metric<'a>(
            &'a self,
            namespace: &'a str,
            object: &'a ScaleTargetRef,
            metric: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Sample>> {
            assert_eq!((namespace, &*object.name, metric), ("shop", "front", "hits"));
            self.answer("custom.metrics.k8s.io", Sample::of)
        }

        fn external_metric<'a>(
            &'a self,
            namespace: &'a str,
            metric: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>> {
            assert_eq!((namespace, metric), ("shop", "queue"));
            self.answer("external.metrics.k8s.io", |value| Arc::new(vec![Sample::of(value)]))
        }

        fn prometheus<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, Answer<Sample>> {
            unreachable!("the operator alone asks for it")
        }
    }

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn policy(name: &str, target: &str, metric: Value, status: Value) -> StoredScalingPolicy {
        object(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"target": {"type": "Scale",
                    "scale": {"apiVersion": "apps/v1", "kind": target, "name": name}},
                "maxReplicas": 9, "metrics": [metric]},
            "status": status}))
    }

    fn cpu() -> Value {
        json!({"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}})
    }

    fn queue() -> Value {
        json!({"type": "External", "external": {"metric": {"name": "queue"},
            "target": {"type": "AverageValue", "averageValue": "5"}}})
    }

    fn requests() -> Value {
        json!({"type": "Pods", "pods": {"metric": {"name": "rps"},
            "target": {"type": "AverageValue", "averageValue": "5"}}})
    }

    fn ingress() -> Value {
        json!({"type": "Object", "object": {"metric": {"name": "hits"},
            "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"},
            "target": {"type": "Value", "value": "5"}}})
    }

    fn prometheus() -> Value {
        json!({"type": "Prometheus", "prometheus": {"source": "main", "query": "sum(hits)",
            "target": {"type": "Value", "value": "5"}}})
    }

    /// A Deployment of one pod that requests half a CPU.
    fn cluster(host: &Arc<Host>, policies: Vec<StoredScalingPolicy>) -> KubeFeed {
        let feed = KubeFeed::unfed_with_workloads(host);
        feed.port::<SlimDeployment>().applied::<SlimDeployment>(object(json!({"apiVersion": "apps/v1",
            "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "1"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 1}})));
        feed.port::<SlimPod>().applied::<SlimPod>(object(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "p", "resourceVersion": "1",
                "labels": {"app": "web"}, "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}]},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]}})));
        let cluster = feed.port::<StoredClusterScalingPolicy>();
        cluster.applied::<StoredClusterScalingPolicy>(object(json!({"apiVersion": "headroom.dev/v1alpha1",
            "kind": "ClusterScalingPolicy", "metadata": {"name": "default", "uid": "c", "resourceVersion": "1"},
            "spec": {"workloads": {"tolerance": "0.2"}}})));
        let port = feed.port::<StoredScalingPolicy>();
        policies.into_iter().for_each(|policy| port.applied(policy));
        feed
    }

    fn looked(policies: Vec<StoredScalingPolicy>, milli: Option<i64>) -> ReplicaRecord {
        let host = Host::simulated(NOW.to_jiff(), 1);
        let feed = cluster(&host, policies);
        looked_at(&feed, &Usage(milli), &host).now_or_never().expect("nothing is waited for")
    }

    #[test]
    fn one_who_may_only_read_decides_by_usage_and_what_status_remembers() {
        let status = json!({"recommendations": [{"time": "2027-01-15T07:59:00Z", "replicas": 1}]});
        let record = looked(vec![policy("web", "Deployment", cpu(), status)], Some(800));
        let decided = record.decide().expect("a record");
        let change = decided[0].rescale.as_ref().expect("160 percent of 50 is wanted");
        assert_eq!((change.from, change.to, decided[0].leave), (1, 4, Leave::Granted));
        assert_eq!(record.workloads[0].memory.recommendations.len(), 2);
        assert!((record.options[0].tolerance - 0.2).abs() < 1e-9, "{:?}", record.options);
        let previewed = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "PreviewOnly",
            "message": "", "lastTransitionTime": "2027-01-15T07:59:00Z"}]});
        let record = looked(vec![policy("web", "Deployment", cpu(), previewed)], Some(800));
        assert_eq!(record.workloads[0].leave, Leave::Preview);
    }

    #[test]
    fn what_the_operator_alone_can_read_is_said_and_not_guessed() {
        let why = |policy, milli| {
            let record = looked(vec![policy], milli);
            assert_eq!(record.workloads.len(), 0);
            record.undecided[0].why.clone()
        };
        let query = why(policy("web", "Deployment", prometheus(), Value::Null), Some(800));
        assert!(query.contains("metrics of type Prometheus") && query.contains("--operator"), "{query}");
        let rollout = why(policy("web", "Rollout", cpu(), Value::Null), Some(800));
        assert!(rollout.contains("the scale of a Rollout"), "{rollout}");
        for metric in [cpu(), requests(), ingress(), queue()] {
            let refused = why(policy("web", "Deployment", metric, Value::Null), None);
            assert!(refused.contains("not permitted") && refused.contains("--operator"), "{refused}");
        }
    }

    #[test]
    fn one_who_may_only_read_decides_by_custom_and_external_metrics() {
        let status = json!({"recommendations": [{"time": "2027-01-15T07:59:00Z", "replicas": 1}]});
        for metric in [requests(), ingress(), queue()] {
            let record = looked(vec![policy("web", "Deployment", metric, status.clone())], Some(20_000));
            assert!(record.undecided.is_empty(), "{:?}", record.undecided);
            let decided = record.decide().expect("a record");
            let change = decided[0].rescale.as_ref().map(|change| (change.from, change.to));
            assert_eq!(change, Some((1, 4)), "20 where 5 is the target");
        }
    }
}
