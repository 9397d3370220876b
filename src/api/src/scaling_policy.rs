//! ScalingPolicy, what the user asks for: how one workload is scaled, with or without a HorizontalPodAutoscaler.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Duration, NAME_PATTERN, Window};
use super::metric::{Behavior, Formula, MetricSpec, ObjectName};
use super::node_pool::Mode;
use super::scaling_policy_status::ScalingPolicyStatus;

/// Largest number of replicas that any field accepts.
pub const MAX_REPLICAS: i64 = 1_000_000;

/// The form of `fallback.replicas`.
pub const FALLBACK_PATTERN: &str = "^(Hold|[0-9]{1,6})$";

/// Scaling of one workload. Either it adopts a HorizontalPodAutoscaler and adds fields that an HPA does not have, or it
/// brings its own metrics. Deleting it stops the scaling; the workload stays as it is.
// Each column has words of the same names.
#[allow(clippy::duplicated_attributes)]
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "ScalingPolicy",
    plural = "scalingpolicies",
    shortname = "hsp",
    category = "headroom",
    namespaced,
    status = "ScalingPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "How one workload is scaled. Either it adopts a HorizontalPodAutoscaler and adds what that cannot say, or it brings its own metrics. Deleting it stops the scaling; the workload stays as it is.",
    printcolumn(
        name = "Min",
        type_ = "integer",
        json_path = ".status.bounds.minReplicas",
        description = "Fewest replicas now, schedules applied"
    ),
    printcolumn(
        name = "Max",
        type_ = "integer",
        json_path = ".status.bounds.maxReplicas",
        description = "Most replicas now, schedules applied"
    ),
    printcolumn(
        name = "Current",
        type_ = "integer",
        json_path = ".status.currentReplicas",
        description = "Replicas asked of the workload when it was last looked at"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".status.desiredReplicas",
        description = "Replicas that it should have"
    ),
    printcolumn(
        name = "Last decision",
        type_ = "string",
        json_path = ".status.lastDecision",
        description = "What was decided last"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why, or what holds the workload now"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Target",
        type_ = "string",
        json_path = ".status.target",
        description = "The workload",
        priority = 1
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        description = "Apply when empty",
        priority = 1
    ),
    printcolumn(
        name = "Next schedule",
        type_ = "string",
        json_path = ".status.bounds.nextScheduleChange",
        description = "When a schedule opens or closes next",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.target.type != 'Scale' || has(self.maxReplicas)")
    .message("maxReplicas is required for a target of type Scale: set spec.maxReplicas").field_path(".maxReplicas"))]
#[x_kube(validation = Rule::new("self.target.type != 'HPA' || !(has(self.minReplicas) || has(self.maxReplicas) || has(self.metrics) || has(self.behavior))")
    .message("minReplicas, maxReplicas, metrics and behavior are the HPA's own where the target is of type HPA: remove them, or use a target of type Scale").field_path(".target"))]
#[x_kube(validation = Rule::new("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas")
    .message("minReplicas must not be greater than maxReplicas: lower spec.minReplicas or raise spec.maxReplicas").field_path(".minReplicas"))]
#[x_kube(validation = Rule::new("!has(self.disruption) || !has(self.disruption.surge) || self.disruption.surge != 'Allow' || self.target.type != 'Scale' || !has(self.target.scale) || self.target.scale.kind == 'Deployment'")
    .message("disruption.surge Allow needs a target of kind Deployment: other workloads keep what an extra pod leaves; remove spec.disruption.surge").field_path(".disruption"))]
#[x_kube(validation = Rule::new("!has(self.minReplicas) || self.minReplicas != 0 || (has(self.metrics) && self.metrics.exists(m, m.type == 'Object' || m.type == 'External' || m.type == 'Prometheus' || m.type == 'ExternalScaler' || m.type == 'HTTP' || m.type == 'Redis'))")
    .message("minReplicas 0 needs a metric that does not come from the pods (Object, External, Prometheus, ExternalScaler, HTTP or Redis): add one, or raise spec.minReplicas").field_path(".minReplicas"))]
#[x_kube(validation = Rule::new("has(self.formula) == (has(self.metrics) && self.metrics.exists(m, has(m.name)))")
    .message("formula and metrics with a name need each other: set spec.formula and the name of each metric that it uses, or remove both").field_path(".formula"))]
#[x_kube(validation = Rule::new("self.target.type != 'HPA' || !has(self.timing) || !has(self.timing.toZeroAfter)")
    .message("timing.toZeroAfter is for policies with metrics of their own: remove it, or use a target of type Scale").field_path(".timing"))]
pub struct ScalingPolicySpec {
    /// Mode in which the operator handles this workload. `Apply`: decide and act. `Preview`: decide and report, change nothing.
    /// `Suspend`: neither decide nor change anything. Default: `Apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,

    /// Workload that is scaled. Required.
    pub target: Target,

    /// Fewest replicas. 0 needs a metric that does not come from the pods; the workload then goes to 0 once no such metric has been
    /// active for `timing.toZeroAfter`, and comes back when one is. Default: 1. Range: 0 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub min_replicas: Option<i32>,

    /// Most replicas. Default: none; a target of type Scale needs it. Range: 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_REPLICAS))]
    pub max_replicas: Option<i32>,

    /// Metrics that the replicas are computed from; the metric that asks for the most counts. Default: CPU at 80 percent of the
    /// requests. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(m, !has(m.name) || self.exists_one(o, has(o.name) && o.name == m.name))")
        .message("metrics[].name must be unique in a policy: rename one of the two metrics"))]
    pub metrics: Vec<MetricSpec>,

    /// One number out of the metrics that have a name, with one target: it asks for replicas in their place, beside the metrics
    /// without a name. Default: none; each metric asks for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<Formula>,

    /// Rates at which the workload may grow and shrink. Default: growth to at most twice the replicas or 4 at once; shrinking
    /// after the default stabilization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,

    /// Other bounds at certain times. Of several open at once the highest `minReplicas` and the lowest `maxReplicas`
    /// hold, and `maxReplicas` wins over `minReplicas`. They narrow the workload's own bounds and never go beyond its
    /// `maxReplicas`. Default: none. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(o, o.name == s.name))")
        .message("schedules[].name must be unique in a policy: rename one of the two schedules"))]
    pub schedules: Vec<ReplicaSchedule>,

    /// Behavior when the metrics have been unusable for a while. Default: hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,

    /// Pods that count as the workload's among those that its selector selects. `OwnerReferences`: those that it controls, itself
    /// or through its ReplicaSets, so that other pods with the same labels change nothing; and pods beyond the size, those of a
    /// rollout's surge or of a canary, change none by themselves. `LabelSelector`: all, as HorizontalPodAutoscalers count. Default:
    /// `OwnerReferences` for a target of type Scale, `LabelSelector` for one of type HPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SelectionStrategy")]
    pub selection_strategy: Option<SelectionStrategy>,

    /// Times of this workload in place of those of `spec.workloads` of the ClusterScalingPolicy. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,

    /// Conduct of the workload while nodes are drained. Default: no change of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
}

/// Conduct of a workload while nodes are drained.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disruption {
    /// Replicas while a node is drained. `Never`: a PodDisruptionBudget that allows no disruption keeps the nodes of its pods.
    /// `Allow`: where one replica more makes room in the budget, it is added elsewhere, then the pod is evicted and the size
    /// goes back; never above `maxReplicas`, one at a time, and only for a Deployment whose replicas are all ready and whose
    /// budget has a number as `minAvailable`. Default: `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SurgePolicy")]
    pub surge: Option<SurgePolicy>,
}

/// Replicas of a workload while a node is drained.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SurgePolicy {
    /// No more than the workload needs.
    #[default]
    Never,
    /// One more where a budget would keep the node otherwise.
    Allow,
}

/// Pods that count as a workload's among those that its selector selects.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectionStrategy {
    /// All of them.
    #[default]
    LabelSelector,
    /// Those that the workload controls, itself or through its ReplicaSets.
    OwnerReferences,
}

/// Workload that is scaled. Exactly the member that `type` names is set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("(self.type == 'HPA') == has(self.hpa) && (self.type == 'Scale') == has(self.scale)")
    .message("target must have exactly the member that its type names (hpa or scale): set that one and remove the other").field_path(".type"))]
pub struct Target {
    /// `HPA`: the workload of a HorizontalPodAutoscaler, by its metrics and behavior. `Scale`: any object with a scale
    /// subresource, by this policy's. Required.
    #[serde(rename = "type")]
    pub type_: TargetType,

    /// For type HPA. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa: Option<HpaName>,

    /// For type Scale. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<ObjectName>,
}

/// Kind of the workload that is scaled.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetType {
    /// The workload of a HorizontalPodAutoscaler.
    #[default]
    HPA,
    /// An object with a scale subresource.
    Scale,
}

/// A HorizontalPodAutoscaler in the policy's namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HpaName {
    /// Its name. Required.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Other bounds while a window is open.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.minReplicas) || has(self.maxReplicas)")
    .message("schedules[] must set minReplicas or maxReplicas or both: without them the schedule has no effect"))]
#[x_kube(validation = Rule::new("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas")
    .message("schedules[].minReplicas must not be greater than its maxReplicas: lower minReplicas or raise maxReplicas").field_path(".minReplicas"))]
pub struct ReplicaSchedule {
    /// Name of the schedule, unique in the policy; status names the active ones by it. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,

    /// Window in which the schedule holds. Required.
    pub window: Window,

    /// Fewest replicas while the window is open. Default: the workload's own. Range: 0 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub min_replicas: Option<i32>,

    /// Most replicas while the window is open. Default: the workload's own. Range: 0 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub max_replicas: Option<i32>,
}

/// Behavior when the metrics cannot be used: no answer, an empty one, stale samples or absurd values.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fallback {
    /// Time that the metrics must have been unusable. Until then the replicas hold. Default: `3m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,

    /// `Hold`: keep the replicas as they are. A number: go there, within the bounds. Default: `Hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 6), regex(pattern = FALLBACK_PATTERN))]
    pub replicas: Option<String>,

    /// Direction in which a number may move the workload: `Up` never takes replicas away, `Both` goes to the number
    /// whatever the size is. Default: `Up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FallbackDirection")]
    pub direction: Option<FallbackDirection>,
}

/// Times of one workload. Each one that is not set is that of `spec.workloads` of the ClusterScalingPolicy, where that has it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// Time between two evaluations. One below `workloads.minSyncPeriod` of the ClusterScalingPolicy is lengthened to that,
    /// which condition Ready shows. Default: `syncPeriod` of the cluster. Range: `1s` to `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_period: Option<Duration>,

    /// Time after its start for which the CPU of a pod that is not ready, or whose sample is older than its readiness,
    /// does not count. Default: that of the cluster. At most `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_initialization_period: Option<Duration>,

    /// A pod that has become unready within this time after its start is taken to have never been ready. Default: that of the
    /// cluster. At most `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_readiness_delay: Option<Duration>,

    /// Time for which no metric must have been active before the last replica goes; rates and windows of `behavior` hold besides.
    /// Only with `minReplicas: 0`, and only for a target of type Scale. Default: `5m`. At most `168h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_zero_after: Option<Duration>,
}

/// Direction in which a fallback may move a workload.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FallbackDirection {
    /// It only adds replicas.
    #[default]
    Up,
    /// It adds replicas or takes them away.
    Both,
}
