//! Reads what explanations need beside decisions: workloads, their scalers, times of pods, events. It explains nothing.

use std::borrow::Cow;
use std::marker::PhantomData;

use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gather::{Need, Reader};
use headroom_api::StoredScalingPolicy;
use headroom_explain::Evidence;
use headroom_explain::evidence::{ConditionSeen, EventSeen, HpaSeen, PodTimes, PolicySeen, WorkloadSeen};
use headroom_observe::KubeFeed;
use headroom_observe::slim::{SlimDeployment, SlimHpa};
use headroom_simulator::cluster::member;

/// Most events that are kept, the newest of them.
const EVENTS_MAX: usize = 20_000;
/// Kinds whose events report scaling.
const KINDS: [&str; 8] = [
    "Pod",
    "Node",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "NodePool",
    "ScalingPolicy",
];

/// An object that explanations read and decisions do not, or otherwise.
pub(crate) trait EvidenceSource: Resource<DynamicType = ()> + DeserializeOwned {
    /// Adds the data of the object.
    fn add_to(&self, evidence: &mut Evidence);
}

/// A Deployment, ReplicaSet, StatefulSet, Job or DaemonSet as far as its size goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Scaled<K> {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ScaledSpec,
    #[serde(default)]
    status: ScaledStatus,
    #[serde(skip)]
    kind: PhantomData<K>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ScaledSpec {
    replicas: Option<i32>,
    /// The size of a Job.
    parallelism: Option<i32>,
    /// Pods of a Job that are to succeed.
    completions: Option<i32>,
    /// True while a Job makes no pods.
    suspend: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScaledStatus {
    ready_replicas: Option<i32>,
    /// Ready pods of a Job.
    ready: Option<i32>,
    /// Pods of a Job that have succeeded.
    succeeded: Option<i32>,
    conditions: Option<Vec<ScaledCondition>>,
    /// The size of a DaemonSet: nodes that it is meant for.
    desired_number_scheduled: Option<i32>,
    /// Ready pods of a DaemonSet.
    number_ready: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
struct ScaledCondition {
    r#type: String,
    status: String,
}

/// Pods that a Job wants now.
///
/// Source: pkg/controller/job, manageJob.
fn wanted_of_job(spec: ScaledSpec, status: &ScaledStatus) -> i32 {
    let ends = |condition: &ScaledCondition| {
        matches!(&*condition.r#type, "Complete" | "Failed" | "SuccessCriteriaMet" | "FailureTarget")
            && condition.status == "True"
    };
    if spec.suspend == Some(true) || status.conditions.iter().flatten().any(ends) {
        return 0;
    }
    let parallelism = spec.parallelism.unwrap_or(1);
    // Without a number of completions the first success is the last.
    match (spec.completions, status.succeeded.unwrap_or(0)) {
        (Some(completions), succeeded) => parallelism.min(completions.saturating_sub(succeeded)).max(0),
        (None, 0) => parallelism,
        (None, _) => 0,
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Scaled<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(t: &()) -> Cow<'_, str> {
        K::kind(t)
    }

    fn group(t: &()) -> Cow<'_, str> {
        K::group(t)
    }

    fn version(t: &()) -> Cow<'_, str> {
        K::version(t)
    }

    fn plural(t: &()) -> Cow<'_, str> {
        K::plural(t)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K> EvidenceSource for Scaled<K>
where
    K: Resource<DynamicType = ()>,
{
    fn add_to(&self, evidence: &mut Evidence) {
        let (kind, status) = (K::kind(&()), &self.status);
        let (wanted, ready) = match &*kind {
            "Job" => (Some(wanted_of_job(self.spec, status)), status.ready),
            // Until its controller has counted the nodes it is meant for none.
            "DaemonSet" => (status.desired_number_scheduled.or(Some(0)), status.number_ready),
            _ => (self.spec.replicas, status.ready_replicas),
        };
        // Old ReplicaSets of a Deployment are ten to each, and explain nothing.
        if kind != "ReplicaSet" || wanted != Some(0) {
            evidence.workloads.push(workload(&kind, &self.metadata, wanted, ready));
        }
    }
}

impl EvidenceSource for TimedPod {
    fn add_to(&self, evidence: &mut Evidence) {
        evidence.pods.push(times(self));
    }
}

/// A pod with the times of its conditions, and nothing else.
#[derive(kube::Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Pod)]
pub(crate) struct TimedPod {
    metadata: ObjectMeta,
    #[serde(default)]
    status: TimedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TimedStatus {
    start_time: Option<Time>,
    conditions: Option<Vec<TimedCondition>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TimedCondition {
    r#type: String,
    status: String,
    message: Option<String>,
    last_transition_time: Option<Time>,
}

/// Adds to `evidence` what nothing else reads; what cannot be read is noted by the reader.
///
/// Inputs of decisions on replicas from the same lists go into `feed`.
pub(crate) async fn gather(reader: &mut Reader, feed: &KubeFeed, evidence: &mut Evidence) {
    // What may be read and cannot is noted, and no error.
    let _ = reader.feed_seen::<SlimDeployment, Scaled<Deployment>>(feed, Need::May, evidence).await;
    let hpas = reader.list::<SlimHpa>(Need::May, "").await.unwrap_or_default();
    evidence.hpas.extend(hpas.iter().map(hpa));
    let port = feed.port::<SlimHpa>();
    hpas.into_iter().for_each(|object| port.applied(object));
    let policies = reader.list::<StoredScalingPolicy>(Need::May, "").await.unwrap_or_default();
    evidence.policies.extend(policies.iter().map(policy));
    let port = feed.port::<StoredScalingPolicy>();
    policies.into_iter().for_each(|object| port.applied(object));
    let events = reader.list::<Event>(Need::May, "").await.unwrap_or_default();
    evidence.events.extend(events.iter().filter_map(event));
    evidence.sort();
    let excess = evidence.events.len().saturating_sub(EVENTS_MAX);
    evidence.events.drain(..excess);
}

fn key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn second(time: &Time) -> UnixTime {
    UnixTime::from_jiff(time.0)
}

fn workload(kind: &str, meta: &ObjectMeta, wanted: Option<i32>, ready: Option<i32>) -> WorkloadSeen {
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    WorkloadSeen {
        kind: kind.to_owned(),
        key: key(meta),
        replicas: u32::try_from(wanted.unwrap_or(1)).unwrap_or(0),
        ready: u32::try_from(ready.unwrap_or(0)).unwrap_or(0),
        created_at: meta.creation_timestamp.as_ref().map(second).unwrap_or_default(),
        owner: owner.map(|owner| (owner.kind.clone(), owner.name.clone())),
    }
}

fn times(pod: &TimedPod) -> PodTimes {
    let mut times = PodTimes {
        key: key(&pod.metadata),
        started_at: pod.status.start_time.as_ref().map(second),
        ..PodTimes::default()
    };
    for condition in pod.status.conditions.iter().flatten() {
        let at = condition.last_transition_time.as_ref().map(second);
        match (condition.r#type.as_str(), condition.status.as_str()) {
            ("PodScheduled", "True") => times.scheduled_at = at,
            ("PodScheduled", _) => {
                times.unscheduled = at.map(|at| (at, condition.message.clone().unwrap_or_default()));
            }
            ("Ready", "True") => times.ready_at = at,
            _ => {}
        }
    }
    times
}

fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn hpa(object: &SlimHpa) -> HpaSeen {
    let number = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_i64);
    let list = |value: &Value, path: &str| -> Vec<Value> {
        value.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let current = list(&object.status, "/currentMetrics");
    let metrics = list(&object.spec, "/metrics");
    HpaSeen {
        key: key(&object.metadata),
        target: (text(&object.spec, "/scaleTargetRef/kind"), text(&object.spec, "/scaleTargetRef/name")),
        min: number(&object.spec, "/minReplicas").unwrap_or(1),
        max: number(&object.spec, "/maxReplicas").unwrap_or(0),
        spec: Some(object.spec.clone()),
        current_metrics: Some(current.clone()),
        current: number(&object.status, "/currentReplicas"),
        desired: number(&object.status, "/desiredReplicas"),
        last_scale_at: UnixTime::parse(&text(&object.status, "/lastScaleTime")),
        metrics: metrics.iter().enumerate().map(|(at, spec)| metric(spec, current.get(at))).collect(),
        conditions: list(&object.status, "/conditions").iter().map(condition).collect(),
    }
}

/// `cpu: now 85%, target 60%`.
fn metric(spec: &Value, current: Option<&Value>) -> String {
    let body = member(spec).unwrap_or(&Value::Null);
    let name = ["/name", "/metric/name"].map(|path| text(body, path)).join("");
    let target = amount(&body["target"]);
    let now = current.and_then(member).map(|status| amount(&status["current"])).unwrap_or_default();
    let now = if now.is_empty() { "unknown".to_owned() } else { now };
    format!("{name}: now {now}, target {target}")
}

fn amount(value: &Value) -> String {
    if let Some(percent) = value["averageUtilization"].as_i64() {
        return format!("{percent}%");
    }
    let average = text(value, "/averageValue");
    if average.is_empty() { text(value, "/value") } else { average + " a pod" }
}

fn condition(value: &Value) -> ConditionSeen {
    ConditionSeen {
        kind: text(value, "/type"),
        status: text(value, "/status"),
        reason: text(value, "/reason"),
        message: text(value, "/message"),
        since: UnixTime::parse(&text(value, "/lastTransitionTime")),
    }
}

fn policy(object: &StoredScalingPolicy) -> PolicySeen {
    let spec = &object.spec;
    let target = match text(spec, "/target/type").as_str() {
        "HPA" => ("HPA".to_owned(), text(spec, "/target/hpa/name")),
        _ => (text(spec, "/target/scale/kind"), text(spec, "/target/scale/name")),
    };
    let mode = text(spec, "/mode");
    PolicySeen {
        key: key(&object.metadata),
        target,
        mode: if mode.is_empty() { "Apply".to_owned() } else { mode },
        spec: Some(spec.clone()),
        // A status of another version, or one edited by hand, is ignored.
        status: serde_json::from_value(object.status.clone()).unwrap_or_default(),
    }
}

fn event(event: &Event) -> Option<EventSeen> {
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default();
    if !KINDS.contains(&kind) {
        return None;
    }
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let at = last
        .or_else(|| event.last_timestamp.as_ref().map(|time| time.0))
        .or_else(|| event.event_time.as_ref().map(|time| time.0))
        .or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0))?;
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    let source = event.source.as_ref().and_then(|source| source.component.clone());
    // Events about objects without a namespace are kept in `default`.
    let namespace = about.namespace.as_deref().filter(|_| !["Node", "NodePool"].contains(&kind));
    Some(EventSeen {
        at: UnixTime::from_jiff(at),
        kind: kind.to_owned(),
        key: ObjectKey::new(namespace.unwrap_or_default(), about.name.as_deref().unwrap_or_default()),
        reason: event.reason.clone().unwrap_or_default(),
        note: event.message.clone().unwrap_or_default(),
        reporter: event
            .reporting_component
            .clone()
            .filter(|name| !name.is_empty())
            .or(source)
            .unwrap_or_default(),
        count: u32::try_from(count).unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: &Value, status: &Value) -> WorkloadSeen {
        let object = json!({"metadata": {"name": "j", "namespace": "n"}, "spec": spec, "status": status});
        let job: Scaled<Job> = serde_json::from_value(object).unwrap();
        let mut evidence = Evidence::default();
        job.add_to(&mut evidence);
        evidence.workloads.remove(0)
    }

    #[test]
    fn job_wants_the_pods_that_are_missing_and_none_once_it_has_finished() {
        let wanted = |spec: Value, status: Value| job(&spec, &status).replicas;
        assert_eq!(wanted(json!({}), json!({})), 1);
        assert_eq!(wanted(json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 1})), 3);
        assert_eq!(wanted(json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 4})), 1);
        let ended = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
        assert_eq!(wanted(json!({"parallelism": 1, "completions": 1}), ended("Complete")), 0);
        assert_eq!(wanted(json!({"parallelism": 2}), ended("Failed")), 0);
        assert_eq!(wanted(json!({"parallelism": 2}), json!({"succeeded": 1})), 0);
        assert_eq!(wanted(json!({"parallelism": 2, "suspend": true}), json!({})), 0);
    }
}
