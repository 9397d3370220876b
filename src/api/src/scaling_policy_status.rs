//! ScalingPolicy, what the operator reports and remembers of one workload: only it writes these fields.
//!
//! Words from closed lists are text here, not enums, for the reason that [`super::node_pool_status`] gives. Every list and
//! every text is bounded. The windows' extremes, the scale events and the decisions are memory: after a restart the next
//! operator goes on from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Report of the operator about a workload, and all that it remembers of it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicyStatus {
    /// The `metadata.generation` that this status speaks of. Lower than it: the last edit has not been seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: the spec is accepted and the loop runs. Stalled: only an edit can help. AbleToScale, ScalingActive and
    /// ScalingLimited: as on a HorizontalPodAutoscaler. MetricsAvailable: whether every metric can be read. Present
    /// while they hold: FallbackActive, ReplicasContested, ScaledToZero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The workload, as kind/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub target: Option<String>,

    /// Replicas asked of the workload when it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub current_replicas: Option<i32>,

    /// Replicas that it should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub desired_replicas: Option<i32>,

    /// Time at which its size was last changed by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,

    /// Last decision, for people, such as `3→6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_decision: Option<String>,

    /// Reason, in one word: what holds the workload now, or else the reason of the last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,

    /// The bounds that hold now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<ReplicaBounds>,

    /// The last recommendation, step by step. Numbers of metrics that change nothing else are written once a minute; once in
    /// ten where the status of an HPA shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<RecommendationStatus>,

    /// The recommendations that the stabilization windows still depend on, oldest first. Memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub recommendations: Vec<RecommendedReplicas>,

    /// Changes of size that the policies of `behavior` still count, oldest first. Written before the change. Memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub scale_events: Vec<ScaleEventStatus>,

    /// Time since which the metrics have been unusable without a break. Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_failing_since: Option<Time>,

    /// Replicas without the one that a drain needs, while there is one more. Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub surged_from: Option<i32>,

    /// The way to 0 replicas and the time there, of a policy with `minReplicas: 0`. Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero: Option<ZeroStatus>,

    /// Somebody else who has been changing the size back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<ContestStatus>,

    /// The last changes of size, newest first, each with its cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub decisions: Vec<ScalingDecision>,
}

/// The way to 0 replicas and the time there.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZeroStatus {
    /// Time since which no metric has been active, without a break, while there are replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Time>,

    /// Time at which the operator set the workload to 0; written before that, and gone once it has replicas. A workload at 0
    /// without it was set to 0 by somebody else and stays there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled_at: Option<Time>,
}

/// The bounds that hold now.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaBounds {
    /// Fewest replicas.
    #[schemars(range(min = 0))]
    pub min_replicas: i32,

    /// Most replicas.
    #[schemars(range(min = 0))]
    pub max_replicas: i32,

    /// Cause that made them other than the workload's own: `Schedule`, or `ScheduleClamped` where a schedule asks for more than
    /// `maxReplicas` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub limited_by: Option<String>,

    /// Names of the schedules that are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub active_schedules: Vec<String>,

    /// Time at which a schedule opens or closes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_change: Option<Time>,
}

/// Derivation of the last recommendation.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecommendationStatus {
    /// Proposal of each metric, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub metrics: Vec<MetricProposal>,

    /// The steps from the highest proposal to the result, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub steps: Vec<RecommendationStep>,
}

/// Proposal of one metric.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricProposal {
    /// The metric, such as `cpu resource utilization (percentage of request)`.
    #[schemars(length(max = 256))]
    pub metric: String,

    /// Present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub current: Option<String>,

    /// Target value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub target: Option<String>,

    /// Replicas that it proposes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// True if it is above its activation, where the policy has `minReplicas: 0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,

    /// Reason why it proposes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub failure: Option<String>,
}

/// One step of a recommendation.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecommendationStep {
    /// Step: `Metrics`, `Stabilization`, `Policies`, `Bounds`, `Fallback`, `Schedule` or `Zero`.
    #[schemars(length(max = 64))]
    pub step: String,

    /// Replicas after it.
    pub replicas: i32,

    /// Reason, in one word.
    #[schemars(length(max = 128))]
    pub reason: String,
}

/// A recommendation that a window depends on.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecommendedReplicas {
    /// Time.
    pub time: Time,

    /// Number.
    pub replicas: i32,
}

/// A change of size.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEventStatus {
    /// Time.
    pub time: Time,

    /// Change of the number of replicas; negative when it shrank.
    pub change: i32,

    /// True if it was once older than the longest period, so that its place may be taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// Somebody else who has been changing the size back.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContestStatus {
    /// The name under which they write, as the workload's managedFields name it.
    #[schemars(length(max = 128))]
    pub manager: String,

    /// Time at which they last did.
    pub last_time: Time,

    /// Number of times that they have done so.
    #[schemars(range(min = 0))]
    pub count: i32,

    /// Time until which the operator writes nothing.
    pub hold_until: Time,
}

/// A change of size, and what caused it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalingDecision {
    /// Time.
    pub time: Time,

    /// Replicas before.
    pub from: i32,

    /// Replicas after.
    pub to: i32,

    /// Limit or cause of it, in one word.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence, with the metric and the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// Outcome: `InProgress`, `Done` or `Failed`; `Unknown` while it is not known whether the write was carried out;
    /// `Preview` where nothing is to be changed, `Observed` where somebody else runs the HPA, and `Held` while somebody keeps
    /// changing the size back.
    #[schemars(length(max = 64))]
    pub outcome: String,
}
