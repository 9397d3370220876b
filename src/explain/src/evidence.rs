//! Facts that explanations read and decisions do not: events, times of pods, the scaler of each workload, reports in
//! status. Data and look-ups, no words.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hide::Hider;
use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use headroom_api::scaling_policy_status::RecommendationStatus;
use headroom_api::{NodePoolStatus, ScalingPolicyStatus};

/// Facts beside the inputs of decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Evidence {
    /// NodePools by name, with the status as stored.
    pub pools: BTreeMap<Arc<str>, PoolSeen>,
    /// Reason why the ClusterScalingPolicy cannot be used, if so.
    pub invalid_policy: Option<String>,
    /// Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets, in order of kind and key.
    pub workloads: Vec<WorkloadSeen>,
    /// HorizontalPodAutoscalers in order of their keys.
    pub hpas: Vec<HpaSeen>,
    /// ScalingPolicies in order of their keys.
    pub policies: Vec<PolicySeen>,
    /// Pods by namespace and name.
    pub pods: Vec<PodTimes>,
    /// Events, oldest first.
    pub events: Vec<EventSeen>,
    /// Messages on the parts that could not be read.
    pub gaps: Vec<String>,
}

/// A NodePool beside what decisions take from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSeen {
    /// Reason why its spec cannot be used, if so.
    pub invalid: Option<String>,
    /// `KWOK` or `AWS`.
    pub provider: String,
    /// The spec's generation.
    pub generation: i64,
    /// The status.
    pub status: NodePoolStatus,
}

/// A workload that can be scaled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSeen {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Pods asked for: replicas, a Job's parallelism, a DaemonSet's nodes.
    pub replicas: u32,
    /// Pods that are ready.
    pub ready: u32,
    /// Time at which it was made.
    pub created_at: UnixTime,
    /// The controller that owns it, as kind and name.
    pub owner: Option<(String, String)>,
}

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HpaSeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Kind and name of what it scales.
    pub target: (String, String),
    /// Fewest replicas.
    pub min: i64,
    /// Most replicas.
    pub max: i64,
    /// Replicas that it sees.
    pub current: Option<i64>,
    /// Replicas that it wants.
    pub desired: Option<i64>,
    /// Time at which it last changed the size.
    pub last_scale_at: Option<UnixTime>,
    /// Its spec as it was read: a simulation gives it to the object again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// Each metric of its status, as it was read: what a simulation begins with. `None` in files of programs that
    /// did not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_metrics: Option<Vec<Value>>,
    /// Each metric as one line: name, now, target.
    pub metrics: Vec<String>,
    /// Type, status, reason and message of its conditions.
    pub conditions: Vec<ConditionSeen>,
}

/// A ScalingPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Kind and name of what it scales; an HPA where it adopts one.
    pub target: (String, String),
    /// `Apply`, `Preview` or `Suspend`.
    pub mode: String,
    /// Its spec as it was read: a simulation gives it to the object again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// The status.
    pub status: ScalingPolicyStatus,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionSeen {
    /// Type of the condition.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Start.
    pub since: Option<UnixTime>,
}

/// Times at which a pod reached each step of its life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTimes {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Bound to a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<UnixTime>,
    /// Taken up by the kubelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<UnixTime>,
    /// Ready for traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<UnixTime>,
    /// Reason why the scheduler has not placed it, in its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unscheduled: Option<(UnixTime, String)>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventSeen {
    /// Time at which it was last seen.
    pub at: UnixTime,
    /// Kind of the object.
    pub kind: String,
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub note: String,
    /// Component that reported it.
    pub reporter: String,
    /// Number of occurrences.
    pub count: u32,
}

impl PoolSeen {
    /// True if status shows that the pool, as its spec is now, is only observed: under an operator with `--preview` it
    /// is so whatever the spec is.
    #[must_use]
    pub fn looks_on(&self) -> bool {
        self.status.conditions.iter().any(|condition| {
            condition.reason == "PreviewOnly" && condition.observed_generation == Some(self.generation)
        })
    }
}

impl HpaSeen {
    /// The replicas that whoever runs it wants; `None` where nobody has written its status yet, whose 0 was not asked for.
    #[must_use]
    pub fn wanted(&self) -> Option<i64> {
        self.desired.filter(|desired| *desired > 0 || self.current.is_some())
    }
}

impl PolicySeen {
    /// True if it only looks on: in mode Preview, under an operator with `--preview`, or beside the HPA controller.
    #[must_use]
    pub fn looks_on(&self) -> bool {
        let reasons = self.status.conditions.iter().map(|condition| condition.reason.as_str());
        self.mode == "Preview"
            || reasons.into_iter().any(|reason| matches!(reason, "PreviewOnly" | "Observed"))
    }
}

impl Evidence {
    /// Events about an object, oldest first.
    pub fn events_of<'a>(
        &'a self,
        kind: &'a str,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a EventSeen> + 'a {
        self.events.iter().filter(move |event| event.kind == kind && event.key == *key)
    }

    /// A workload.
    #[must_use]
    pub fn workload(&self, kind: &str, key: &ObjectKey) -> Option<&WorkloadSeen> {
        self.workloads.iter().find(|workload| workload.kind == kind && workload.key == *key)
    }

    /// The times of a pod.
    #[must_use]
    pub fn pod(&self, key: &ObjectKey) -> Option<&PodTimes> {
        self.pods.binary_search_by(|pod| pod.key.cmp(key)).ok().map(|place| &self.pods[place])
    }

    /// The HPA of a workload.
    #[must_use]
    pub fn hpa_of(&self, kind: &str, key: &ObjectKey) -> Option<&HpaSeen> {
        self.hpas.iter().find(|hpa| hpa.scales(kind, key))
    }

    /// The ScalingPolicy that matters most to a workload: the one that scales it, or that of its HPA.
    #[must_use]
    pub fn policy_of(&self, kind: &str, key: &ObjectKey) -> Option<&PolicySeen> {
        self.scalers_of(kind, key).policy()
    }

    /// Puts every list in its order, so that equal clusters give equal files.
    pub fn sort(&mut self) {
        self.workloads.sort_by(|a, b| (&a.kind, &a.key).cmp(&(&b.kind, &b.key)));
        self.hpas.sort_by(|a, b| a.key.cmp(&b.key));
        self.policies.sort_by(|a, b| a.key.cmp(&b.key));
        self.pods.sort_by(|a, b| a.key.cmp(&b.key));
        self.events.sort_by(|a, b| {
            (a.at, &a.kind, &a.key, &a.reason, &a.note).cmp(&(b.at, &b.kind, &b.key, &b.reason, &b.note))
        });
    }

    /// Replaces names by codes and removes sentences.
    pub fn hide(&mut self, hider: &Hider<'_>) {
        let text = |name: &mut String| *name = hider.name(name).to_string();
        let object = |key: &mut ObjectKey| {
            *key = ObjectKey::new(hider.name(&key.namespace), &*hider.name(&key.name));
        };
        for pool in self.pools.values_mut() {
            // The rest of the status is what history holds, and that is hidden there.
            let status = std::mem::take(&mut pool.status);
            pool.status = NodePoolStatus {
                observed_generation: status.observed_generation,
                bounds: status.bounds,
                nodes: status.nodes,
                reason: status.reason,
                last_decision: status.last_decision,
                ..NodePoolStatus::default()
            };
            pool.invalid = pool.invalid.take().map(|_| "(hidden)".to_owned());
        }
        for workload in &mut self.workloads {
            object(&mut workload.key);
            if let Some((_, name)) = &mut workload.owner {
                text(name);
            }
        }
        for hpa in &mut self.hpas {
            object(&mut hpa.key);
            text(&mut hpa.target.1);
            hpa.metrics.clear();
            hpa.spec = hpa.spec.take().map(|spec| plain(&spec));
            hpa.current_metrics.iter_mut().for_each(|metrics| metrics.retain(is_nameless));
            hpa.conditions.iter_mut().for_each(|condition| condition.message.clear());
        }
        for policy in &mut self.policies {
            object(&mut policy.key);
            text(&mut policy.target.1);
            policy.spec = policy.spec.take().map(|spec| plain_policy(&spec, &policy.target));
            let status = &mut policy.status;
            status.target = None;
            status.contest = None;
            status.recommendation = status.recommendation.take().map(without_names);
            status.conditions.clear();
            status.decisions.iter_mut().for_each(|decision| decision.message = None);
        }
        for pod in &mut self.pods {
            object(&mut pod.key);
            if let Some((_, words)) = &mut pod.unscheduled {
                words.clear();
            }
        }
        for event in &mut self.events {
            object(&mut event.key);
            event.note.clear();
        }
        self.gaps.clear();
        self.sort();
    }
}

/// True if a metric, of a spec or of a status, is one of CPU or memory of whole pods.
fn is_nameless(metric: &Value) -> bool {
    metric["type"] == "Resource"
}

/// The CPU and memory metrics of an HPA, which identify nobody; its other metrics have names and are removed.
fn plain(spec: &Value) -> Value {
    let metrics = spec["metrics"].as_array().into_iter().flatten();
    let metrics: Vec<&Value> = metrics.filter(|metric| is_nameless(metric)).collect();
    let mut plain = serde_json::json!({"metrics": metrics});
    for name in ["minReplicas", "maxReplicas", "behavior"] {
        if let Some(value) = spec.get(name) {
            plain[name] = value.clone();
        }
    }
    plain
}

/// Returns the part of a ScalingPolicy's recommendation that comes from CPU and memory; other metrics have names, and
/// steps have sentences.
fn without_names(mut recommendation: RecommendationStatus) -> RecommendationStatus {
    recommendation.steps.clear();
    recommendation
        .metrics
        .retain(|one| ["cpu resource", "memory resource"].iter().any(|own| one.metric.starts_with(own)));
    recommendation.metrics.iter_mut().for_each(|one| one.failure = None);
    recommendation
}

/// The same of a ScalingPolicy; its target is the one that has its code already, and schedules are numbered.
fn plain_policy(spec: &Value, target: &(String, String)) -> Value {
    let mut plain = plain(spec);
    let (kind, name) = target;
    plain["target"] = match kind.as_str() {
        "HPA" => serde_json::json!({"type": "HPA", "hpa": {"name": name}}),
        _ => serde_json::json!({"type": "Scale", "scale":
            {"apiVersion": spec["target"]["scale"]["apiVersion"], "kind": kind, "name": name}}),
    };
    for field in ["mode", "fallback"] {
        if let Some(value) = spec.get(field) {
            plain[field] = value.clone();
        }
    }
    let mut schedules = spec["schedules"].as_array().cloned().unwrap_or_default();
    for (place, schedule) in schedules.iter_mut().enumerate() {
        schedule["name"] = format!("schedule-{place}").into();
    }
    plain["schedules"] = schedules.into();
    plain
}

impl ConditionSeen {
    /// A condition of a status.
    #[must_use]
    pub fn of(condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition) -> Self {
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: Some(UnixTime::from_jiff(condition.last_transition_time.0)),
        }
    }
}
