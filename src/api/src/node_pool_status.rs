//! NodePool, what the operator reports and remembers: only it writes these fields, and it writes only what changed.
//!
//! Words from closed lists (reasons, actions, phases, classes) are text here, not enums: status may have been written
//! by a later version or edited by hand, and a word that is not understood must not make the whole pool unreadable.
//! Every list and every text is bounded. No field changes while nothing happens.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::common::Quantity;

/// Report of the operator about a pool, and all that it remembers of it: after a restart the next operator goes on
/// from here.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// The `metadata.generation` that this status speaks of. Lower than it: the last edit has not been seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: the spec is accepted, its inputs can be read and the loop runs. Stalled: only an edit can help. Others,
    /// present while they hold: ScalingUp, ScalingDown, BackingOff, ProviderAvailable, ClampedByProvider, AtLimit,
    /// ProviderDegraded, PriceUnknown, DevicesNotLearned, AZRebalanceActive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Last action of the operator, for people, such as `ScaleUp 6→7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_decision: Option<String>,

    /// Reason: what holds the pool back now, or else the reason of the last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub reason: Option<String>,

    /// The bounds that hold now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,

    /// Number of nodes, by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// The pool's node groups and what was learned of their nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub groups: Vec<GroupStatus>,

    /// Devices of the pool's nodes, learned from ready ones: what a new node has once the last one has left. Groups with
    /// equal devices share a row. Absent where `spec.template.devices` declares them. Memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub learned_devices: Vec<LearnedDevicesStatus>,

    /// The highest number that an intent or a decision of this pool has had; the next one gets a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub sequence: Option<i64>,

    /// Groups that are left alone after a failed launch, and until when; the one that ends first comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub backoffs: Vec<BackoffStatus>,

    /// Actions under way. Each was written here before its first effect, so that a crash neither repeats nor loses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub intents: Vec<Intent>,

    /// Controllers of which pods were evicted a short time ago: `scaleDown.evictionCooldown` holds for the pods that they have made since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub evicted: Vec<EvictedStatus>,

    /// Controllers whose missing replicas this pool has bought nodes for before the pods existed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub anticipations: Vec<AnticipationStatus>,

    /// Classes of pods that their scheduler did not bind although they had room on a ready node, or that lost the room
    /// bought for them again and again. Rows with `until` back off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub unbound: Vec<UnboundStatus>,

    /// Nodes that are not needed, grouped by the time since which they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2000))]
    pub unneeded: Vec<UnneededNodes>,

    /// Pods that this pool could not help, grouped by why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub refusals: Vec<RefusalStatus>,

    /// Nodes that can not be removed, grouped by what keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub blocked: Vec<BlockedNodes>,

    /// Nodes that leave as soon as those that this pool has bought in their place are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementStatus>,

    /// Failures that keep this pool from buying nodes in place of others: it did not come to anything before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation_backoff: Option<ConsolidationBackoffStatus>,

    /// Reason why no more outdated nodes are replaced: nodes that were bought in their place did not get ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_stop: Option<RotationStopStatus>,

    /// Time at which the pool last grew; `scaleDown.delayAfterAdd` counts from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up: Option<Time>,

    /// Time at which a node was last removed; `scaleDown.delayAfterDelete` counts from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_down: Option<Time>,

    /// Time at which a removal last failed; `scaleDown.delayAfterFailure` counts from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Time>,

    /// Actions that would be taken if `mode` were `Apply`; only with `mode: Preview`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewPlan>,

    /// The last decisions, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub decisions: Vec<Decision>,

    /// Number of rows that were left out of the lists above because status would have become too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub truncated: Option<i32>,
}

/// The bounds that hold now: the spec's, changed by the schedules that are open and narrowed by the provider.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Fewest nodes now.
    #[schemars(range(min = 0))]
    pub min_nodes: i32,

    /// Most nodes now.
    #[schemars(range(min = 0))]
    pub max_nodes: i32,

    /// Source of the tighter bound when it is not `spec.minNodes` and `spec.maxNodes`: `Schedule` or `Provider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub limited_by: Option<String>,

    /// Names of the schedules whose windows are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub active_schedules: Vec<String>,

    /// Time at which a schedule opens or closes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_change: Option<Time>,
}

/// Number of nodes that a pool has, by state.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// Nodes asked of the provider, over all groups.
    #[schemars(range(min = 0))]
    pub desired: i32,

    /// Nodes that take pods.
    #[schemars(range(min = 0))]
    pub ready: i32,

    /// Nodes that were ready, or should be by now, and are not.
    #[schemars(range(min = 0))]
    pub unready: i32,

    /// Nodes that have registered and are not ready yet.
    #[schemars(range(min = 0))]
    pub starting: i32,

    /// Machines that were asked for and have not registered as a node yet.
    #[schemars(range(min = 0))]
    pub unregistered: i32,

    /// Nodes that are being removed.
    #[schemars(range(min = 0))]
    pub deleting: i32,

    /// Nodes that `spec.rotation` calls outdated, of all registered ones; absent without `spec.rotation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub outdated: Option<i32>,
}

/// One node group of the pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The provider's name of the group.
    #[schemars(length(max = 255))]
    pub id: String,

    /// The zone of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,

    /// The zones among which the provider chooses for each new node, where there are several: pods that need one of
    /// them are not helped by this group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub zones: Vec<String>,

    /// Nodes asked of the provider for this group.
    #[schemars(range(min = 0))]
    pub target: i32,

    /// Nodes of this group that take pods.
    #[schemars(range(min = 0))]
    pub ready: i32,

    /// True when the pool's spec names the group no more: its nodes count until they have left, and it never grows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,

    /// Price of one node of the group for one hour, where the groups of the pool differ in it and it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub price_per_hour: Option<String>,

    /// Assumed shape of a new node of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<GroupTemplate>,
}

/// Assumed shape of a new node of a group, and how that is known.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTemplate {
    /// Source of it: `Spec`, `Provider` or `Learned` (from a live node).
    #[schemars(length(max = 64))]
    pub source: String,

    /// The provider's version of the template that it was learned from, where the provider has versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,

    /// Amounts that pods can request of a new node, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub allocatable: BTreeMap<String, Quantity>,
}

/// Devices that nodes of some groups have published.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedDevicesStatus {
    /// The provider's names of the groups.
    #[schemars(length(max = 64), inner(length(max = 255)))]
    pub groups: Vec<String>,

    /// The devices in JSON: `models`, each once; and `slices`, whose devices are a name, the place of a model, and numbers
    /// in place of values that are other ones on each machine, equal where these were equal.
    #[schemars(length(max = 16384))]
    pub devices: String,
}

/// A group that is left alone for a while.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackoffStatus {
    /// The group whose launches failed.
    #[schemars(length(max = 255))]
    pub group: String,

    /// The zone, if the failure speaks of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,

    /// The type of machine, if the failure speaks of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance_type: Option<String>,

    /// The market (`OnDemand`, `Spot`), if the failure speaks of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub market: Option<String>,

    /// Kind of the failure, such as `OutOfCapacity` or `Timeout`.
    #[schemars(length(max = 64))]
    pub class: String,

    /// Number of times in a row that it failed; the length of the backoff follows from it.
    #[schemars(range(min = 1))]
    pub failures: i32,

    /// Time at which this backoff began: the last failure.
    pub since: Time,

    /// Time at which the group may be tried again.
    pub until: Time,

    /// Message of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}

/// An action under way: decided, written here, and then carried out step by step.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Name of the action, never used again; it is also the token that keeps the provider from acting twice.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,

    /// Leadership that has it in hand; it grows with every change of leader.
    #[schemars(range(min = 0))]
    pub epoch: i64,

    /// `Increase` or `Remove`.
    #[schemars(length(max = 64))]
    pub action: String,

    /// The step that the action has reached, such as `Journalled`, `Requested`, `Marked` or `Draining`.
    #[schemars(length(max = 64))]
    pub phase: String,

    /// The group it acts on.
    #[schemars(length(max = 255))]
    pub group: String,

    /// Size of the group before. Increase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub from: Option<i32>,

    /// Size of the group that is asked for. Increase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub to: Option<i32>,

    /// The machines it is about: the victims of a removal, the names given to new nodes where the provider lets us.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub instances: Vec<Instance>,

    /// Reason why it was decided, such as `PodsUnschedulable` or `Underutilized`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// Number of pods that it is for. Increase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pods: Option<i32>,

    /// Time at which it was decided.
    pub started_at: Time,

    /// Time at which it reached the present step, where a limit counts from that; of an increase: when the provider accepted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Time>,

    /// Workloads that have one replica more until their pods have left. Removals only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub surges: Vec<SurgeStatus>,

    /// Time at which it has failed if it is not done.
    pub deadline: Time,

    /// Thing that it waits for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// One replica more of a workload, for a drain.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SurgeStatus {
    /// The workload's namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// Name of the ScalingPolicy.
    #[schemars(length(max = 253))]
    pub policy: String,

    /// Name of the Deployment.
    #[schemars(length(max = 253))]
    pub deployment: String,

    /// Unique id of the ReplicaSet whose pods leave.
    #[schemars(length(max = 64))]
    pub owner: String,

    /// Replicas before.
    #[schemars(range(min = 0))]
    pub from: i32,
}

/// A machine by its two names; at least one is known.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Name of the Node object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,

    /// The provider's name of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub id: Option<String>,
}

/// Controllers of which pods were evicted at the same times.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictedStatus {
    /// The first eviction; there is less than a cooldown from each to the next.
    pub since: Time,

    /// The last eviction.
    pub last: Time,

    /// Kind/namespace/name of each controller.
    #[schemars(length(max = 500), inner(length(max = 600)))]
    pub controllers: Vec<String>,
}

/// Replicas of one controller that nodes were bought for before the pods existed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnticipationStatus {
    /// Kind/namespace/name of the controller, or Namespace/name of a paused namespace.
    #[schemars(length(max = 600))]
    pub controller: String,

    /// Time at which its missing replicas were first planned for.
    pub since: Time,

    /// Time until which they are not planned for again, once the pods have failed to appear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,

    /// Number of times in a row that the pods failed to appear.
    #[schemars(range(min = 0))]
    pub failures: i32,
}

/// Pods of one owner that are alike and that their scheduler does not bind.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnboundStatus {
    /// The controller, as kind/namespace/name; Pod/namespace where it has none or another pod has made it. CronJobs count, not each of their Jobs.
    #[schemars(length(max = 600))]
    pub owner: String,

    /// Fingerprint of what decides where these pods may run; another one is another class.
    #[schemars(length(max = 64))]
    pub class: String,

    /// Time since which a ready node has had room for them without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_since: Option<Time>,

    /// Purchases for them after they had waited for minutes, whose nodes other pods took.
    #[schemars(range(min = 0))]
    pub bought_count: i32,

    /// The last of these purchases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bought_at: Option<Time>,

    /// Time until which no node is bought for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,

    /// Number of times in a row that they backed off; each time is four times as long, 12 hours at most.
    #[schemars(range(min = 0))]
    pub failures: i32,

    /// Bound pods of the class. When there are more, the row is dropped.
    #[schemars(range(min = 0))]
    pub bound_count: i32,

    /// The pods that have waited longest, as namespace/name. When one is bound, the row is dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), inner(length(max = 317)))]
    pub examples: Vec<String>,
}

/// Pods that a pool could not help, all for the same reason.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusalStatus {
    /// Reason, such as `TaintNotTolerated` or `MaxNodesReached`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence, with the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// The pods.
    pub pods: PodSample,

    /// Start.
    pub since: Time,
}

/// Nodes that wait for those bought in their place.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementStatus {
    /// The increase that bought them, as among `intents` and `decisions`.
    #[schemars(length(max = 64))]
    pub intent: String,

    /// Reason: `CheaperNodes`, `OutdatedNodes` or `PreferredNodes`. Absent: `CheaperNodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,

    /// The group that grew.
    #[schemars(length(max = 512))]
    pub group: String,

    /// Number of nodes that were bought.
    pub bought: i32,

    /// The nodes that leave.
    #[schemars(length(max = 10))]
    pub nodes: Vec<ReplacedNode>,

    /// Nodes of the group that were created then or later were bought for it.
    pub since: Time,

    /// Time at which it has failed, if they have not left by then.
    pub until: Time,
}

/// A rotation that has stopped.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationStopStatus {
    /// The group whose new nodes did not get ready.
    #[schemars(length(max = 512))]
    pub group: String,

    /// Source of the nodes: a fingerprint of `spec.template`, or the version of the launch template. Another one starts
    /// the rotation again. Absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub template: Option<String>,

    /// Start; a day later the rotation starts again.
    pub since: Time,
}

/// A node that waits for its replacement.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedNode {
    /// Its pool.
    #[schemars(length(max = 253))]
    pub pool: String,

    /// Its name.
    #[schemars(length(max = 253))]
    pub node: String,
}

/// Replacements that failed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsolidationBackoffStatus {
    /// Number of them in a row.
    pub failures: i32,

    /// Time until which no node is bought in place of others.
    pub until: Time,
}

/// Nodes that have not been needed since the same moment.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnneededNodes {
    /// Start; `unneededFor` and `unreadyFor` count from it.
    pub since: Time,

    /// Their names.
    #[schemars(length(max = 2000), inner(length(max = 253)))]
    pub nodes: Vec<String>,
}

/// Nodes that the same thing keeps from being removed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedNodes {
    /// Reason that keeps them, such as `NotEnoughPdb` or `NoPlaceToMovePods`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// Number of nodes.
    #[schemars(range(min = 1))]
    pub count: i32,

    /// Some of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 253)))]
    pub examples: Vec<String>,

    /// The object that is in the way, as kind/namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 600))]
    pub object: Option<String>,

    /// Start.
    pub since: Time,

    /// The same in a sentence, with what would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// Actions that would be taken if the pool's mode were `Apply`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewPlan {
    /// Nodes that would be bought.
    #[schemars(range(min = 0))]
    pub add_nodes: i32,

    /// Nodes that would be removed.
    #[schemars(range(min = 0))]
    pub remove_nodes: i32,

    /// Reason for the plan, or for doing nothing.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,

    /// The pods that the new nodes would be for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodSample>,

    /// Time since which the plan is this one.
    pub since: Time,
}

/// Number of pods, and a few of their names.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSample {
    /// Number.
    #[schemars(range(min = 0))]
    pub count: i32,

    /// Some of them, as namespace/name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 317)))]
    pub examples: Vec<String>,
}

/// Something that was decided, and why.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Name of the decision; logs and events carry it too.
    #[schemars(length(max = 128))]
    pub id: String,

    /// Time.
    pub time: Time,

    /// `ScaleUp`, `ScaleDown`, or `None` where wanting to act and not being able is the news.
    #[schemars(length(max = 64))]
    pub action: String,

    /// The group that it acted on; none if it concerns the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub group: Option<String>,

    /// Nodes of the pool before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub from: Option<i32>,

    /// Nodes of the pool after.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub to: Option<i32>,

    /// Reason.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence, with the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// Outcome: `InProgress`, `Done`, `Failed`, `Superseded` (the world had moved on) or `Cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub outcome: Option<String>,

    /// The pods that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodSample>,

    /// Cause of it, such as an object or a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub cause: Option<String>,

    /// The other pools that were looked at, and why each was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub considered: Vec<ConsideredPool>,
}

/// A pool that was looked at for a decision.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsideredPool {
    /// Name of the pool.
    #[schemars(length(max = 253))]
    pub pool: String,

    /// `NotChosen` (it fits, another was better), `NoFit` or `Skipped` (not tried).
    #[schemars(length(max = 64))]
    pub verdict: String,

    /// Reason, such as `TaintNotTolerated` or `BackingOff`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
}
