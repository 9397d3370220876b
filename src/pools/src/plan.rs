//! The shape of a plan: the next steps, the memory they need, and every reason why not more.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::verdicts::NodeVerdicts;
use headroom_cluster::history::{History, Victim};
use headroom_cluster::question::Question;
use headroom_cluster::world::IntentId;
use headroom_cluster::world::gang::GangRef;
use headroom_cluster::world::provider::FailureClass;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Result of `headroom_core::plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Bounded steps, in order; each belongs to a journalled intent of `next_history`, or takes a mark off.
    pub steps: Vec<Step>,
    /// Reasons for these steps, and for those that were not taken.
    pub reasons: Reasons,
    /// The memory after this plan; its journal is written before any step runs.
    pub next_history: History,
    /// Time at which something may change although nothing happens; `None` for never.
    pub wake_at: Option<UnixTime>,
    /// Nodes that get or lose the soft taint of those that go next.
    #[serde(skip_serializing_if = "CandidateTaints::is_empty")]
    pub candidate_taints: CandidateTaints,
    /// Question to the server of expander `Grpc`; `None` where nothing is open. The pods of its options wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// Keys of the questions whose answers this plan was made with, in order of use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers_used: Vec<Arc<str>>,
}

/// Nodes whose soft taint ([`headroom_cluster::world::node::CANDIDATE_TAINT`]) is to change; few at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateTaints {
    /// Nodes that get it, those that go soonest first.
    pub on: Vec<Arc<str>>,
    /// Nodes that lose it.
    pub off: Vec<Arc<str>>,
}

impl CandidateTaints {
    /// True if none is to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.on.is_empty() && self.off.is_empty()
    }
}

/// One effect on the outside world. The executor has no choices left, but refuses a step that no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all_fields = "camelCase")]
pub enum Step {
    /// Raise a group's target to `to`.
    Increase {
        /// The pool.
        pool: Arc<str>,
        /// The intent, and the cloud's client token.
        intent: IntentId,
        /// The group.
        group: Arc<str>,
        /// The target it was decided on.
        from: u32,
        /// The target wanted.
        to: u32,
        /// Time at which the intent was decided: providers that simulate a delay count from here.
        started_at: UnixTime,
    },
    /// Take back what an increase asked for and what did not come: never an instance, never below `from`.
    Cancel {
        /// The pool.
        pool: Arc<str>,
        /// The intent of the increase.
        intent: IntentId,
        /// The group.
        group: Arc<str>,
        /// The target it was decided on.
        from: u32,
        /// The target it asked for.
        to: u32,
        /// Time at which it was decided.
        started_at: UnixTime,
    },
    /// Put our taint and annotation on these nodes, and cordon them.
    Mark {
        /// The pool.
        pool: Arc<str>,
        /// The intent.
        intent: IntentId,
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// Evict these pods of one marked node, after a live look at the node.
    Evict {
        /// The pool.
        pool: Arc<str>,
        /// The intent.
        intent: IntentId,
        /// The node.
        node: Arc<str>,
        /// The pods, with the unique id each must still have and the grace it gets.
        pods: Vec<Eviction>,
        /// True if the cloud takes the node: a protected pod on it stays, and keeps no other pod.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        taken: bool,
    },
    /// Delete these instances by id, after a live look that nothing movable runs there.
    Delete {
        /// The pool.
        pool: Arc<str>,
        /// The intent.
        intent: IntentId,
        /// The group.
        group: Arc<str>,
        /// The instances.
        victims: Vec<Victim>,
        /// True if pods that have no other place may be lost with the node (unready nodes).
        force: bool,
    },
    /// Take our taint, annotation and cordon off.
    Unmark {
        /// The pool whose intent it was, if known.
        pool: Option<Arc<str>>,
        /// The intent, if it is still open.
        intent: Option<IntentId>,
        /// The node.
        node: Arc<str>,
    },
}

impl Step {
    /// The pool and the intent that it is for; both may be missing for the mark of an intent that nobody knows any more.
    #[must_use]
    pub fn address(&self) -> (Option<&Arc<str>>, Option<&IntentId>) {
        match self {
            Self::Increase { pool, intent, .. }
            | Self::Cancel { pool, intent, .. }
            | Self::Mark { pool, intent, .. }
            | Self::Evict { pool, intent, .. }
            | Self::Delete { pool, intent, .. } => (Some(pool), Some(intent)),
            Self::Unmark { pool, intent, .. } => (pool.as_ref(), intent.as_ref()),
        }
    }

    /// Returns the kind of the step, in one word of a closed set.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Increase { .. } => "Increase",
            Self::Cancel { .. } => "Cancel",
            Self::Mark { .. } => "Mark",
            Self::Evict { .. } => "Evict",
            Self::Delete { .. } => "Delete",
            Self::Unmark { .. } => "Unmark",
        }
    }
}

/// One pod to evict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// Namespace and name.
    pub pod: ObjectKey,
    /// The unique id it must still have.
    pub uid: Arc<str>,
    /// The grace it gets.
    pub grace: Seconds,
    /// The first PodDisruptionBudget that guards it. Evictions under one are asked for a few at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ObjectKey>,
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The pool.
    pub pool: Arc<str>,
    /// The intent.
    pub intent: IntentId,
    /// Result of the step.
    pub result: StepResult,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The cloud accepted the increase; nodes will come.
    Increased,
    /// Not yet: the provider works on it, ask again at the instant given.
    Pending(UnixTime),
    /// The group's size had moved past `to`, or away from `from`.
    Superseded,
    /// The increase failed; `created` nodes came all the same.
    IncreaseFailed {
        /// The class of trouble.
        class: FailureClass,
        /// The provider's words.
        message: Arc<str>,
        /// Nodes that were created before the failure.
        created: u32,
    },
    /// The marks are on all nodes named.
    Marked,
    /// A node could not be marked: it is gone, or changed by somebody.
    MarkFailed {
        /// The node.
        node: Arc<str>,
        /// Reason.
        message: Arc<str>,
    },
    /// Each pod's answer.
    Evicted {
        /// The node.
        node: Arc<str>,
        /// Pods refused, each with whether a PDB refused it and the API server's words.
        refused: Vec<(ObjectKey, bool, Arc<str>)>,
        /// Pods whose eviction the API server accepted, with their unique ids. Only events report them: a plan learns from
        /// the pods themselves that they are going.
        accepted: Vec<(ObjectKey, Arc<str>)>,
    },
    /// The provider accepted the deletion of all victims.
    Deleted,
    /// A live look found movable pods: the node is let go of.
    NotEmpty {
        /// The node.
        node: Arc<str>,
        /// The pod.
        pod: ObjectKey,
    },
    /// A live look found the node, or a pod on it, protected from disruption: the node is let go of.
    Protected {
        /// The node.
        node: Arc<str>,
        /// The pod that is protected; `None` for the node itself.
        pod: Option<ObjectKey>,
    },
    /// The provider failed to delete.
    DeleteFailed {
        /// The node, or the instance where it never became one ([`Victim::name`]).
        node: Arc<str>,
        /// The provider's words.
        message: Arc<str>,
    },
    /// The mark is off.
    Unmarked {
        /// The node.
        node: Arc<str>,
    },
    /// The guard refused: claim lost, stale view or bounds. Nothing was sent.
    Refused {
        /// Reason.
        message: Arc<str>,
    },
    /// The call failed or its end is unknown; the next tick looks again.
    Unknown {
        /// Observation that the result is based on.
        message: Arc<str>,
    },
}

/// Every reason of one plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasons {
    /// Per group of equal pending pods.
    pub pods: Vec<PodVerdict>,
    /// Per pool: what keeps it from growing or shrinking as a whole.
    pub pools: BTreeMap<Arc<str>, Vec<PoolReason>>,
    /// Per node that stays or goes, in order of names.
    pub nodes: NodeVerdicts,
    /// Actions that Preview pools would have taken.
    pub preview: Vec<PreviewAction>,
    /// Per CapacityBuffer that is served, in the order of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferVerdict>,
    /// Use of each CapacityQuota after the plan is carried out, in order of names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaVerdict>,
    /// Per ProvisioningRequest that is served and has not ended, in the order of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestVerdict>,
    /// Per gang with a pod that waits, in the order of service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gangs: Vec<GangVerdict>,
    /// Outdated nodes of each pool that rotates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outdated: BTreeMap<Arc<str>, u32>,
    /// Rows of each pool's memory that status cannot hold and that are forgotten therefore; pools without any are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<Arc<str>, u32>,
}

/// Use of a CapacityQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaVerdict {
    /// Name.
    pub name: Arc<str>,
    /// Amounts of the nodes that exist, are on their way or bought by this plan, by resource in the units of its
    /// limits.
    pub used: BTreeMap<Arc<str>, i64>,
}

/// The verdict on one CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferVerdict {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Name and generation of its PodTemplate.
    pub template: Option<(Arc<str>, i64)>,
    /// Pods that its workload has; `None` for a template.
    pub live_count: Option<u32>,
    /// `spec.replicas`.
    pub replicas: Option<u32>,
    /// `spec.percentage`, where it is of a workload's pods.
    pub percentage: Option<u32>,
    /// The resource in `spec.limits` that allows fewest pods, and how many.
    pub limit: Option<(Arc<str>, u32)>,
    /// Pods that the spec asks for.
    pub before_quotas_count: u32,
    /// The ResourceQuota that leaves fewer, in words.
    pub quota: Option<Arc<str>>,
    /// Pods for which room is to be kept.
    pub wanted_count: u32,
    /// True if its shape and size are known.
    pub resolved: bool,
    /// Reason why it is not, or why some pods are not looked at.
    pub fault: Option<BufferFault>,
    /// Pods with room on ready nodes.
    pub ready_count: u32,
    /// Names of some of those nodes, in order.
    pub nodes: Vec<Arc<str>>,
    /// Pods with room on nodes that are on their way, by pool.
    pub on_new: BTreeMap<Arc<str>, u32>,
    /// Pods without room.
    pub unplaced_count: u32,
    /// Each pool that gives these no room, with its first failing rule.
    pub pools: Vec<PoolReason>,
}

impl BufferVerdict {
    /// Of this buffer nothing is known yet.
    #[must_use]
    pub fn of(key: &ObjectKey) -> Self {
        Self { namespace: key.namespace.clone(), name: Arc::from(&*key.name), ..Self::default() }
    }
}

/// Reason why a CapacityBuffer is not served, or not wholly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferFault {
    /// Reason.
    pub reason: Reason,
    /// For a person, with what to do.
    pub message: Arc<str>,
}

impl BufferFault {
    /// A fault in words.
    pub fn new(reason: Reason, message: impl Into<Arc<str>>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The verdict on one ProvisioningRequest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestVerdict {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// True if nodes are bought for it.
    pub buys: bool,
    /// True if its room had been granted before this plan.
    pub is_booked: bool,
    /// The answer that its status gets.
    pub answer: RequestAnswer,
    /// Pods that it asks for.
    pub pods_count: u32,
    /// Number of them that are real pods by now.
    pub consumed_count: u32,
    /// Pods with room on ready nodes.
    pub ready_count: u32,
    /// Pods with room on nodes that are on their way.
    pub coming_count: u32,
    /// Pods with room on nodes that this plan buys, by pool.
    pub on_new: BTreeMap<Arc<str>, u32>,
    /// Pods without room.
    pub unplaced_count: u32,
    /// Reason why it waits or ends.
    pub fault: Option<BufferFault>,
    /// Each pool that gives no room, with its first failing rule.
    pub pools: Vec<PoolReason>,
    /// Time at which it ends: by its validity, or by the end of its booking.
    pub until: UnixTime,
    /// Names of parameters whose value cannot be used.
    pub wrong_parameters: Vec<Arc<str>>,
}

/// The answer to a ProvisioningRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RequestAnswer {
    /// Not yet.
    Waits,
    /// All of its room is there.
    Granted,
    /// It ends without room.
    Failed,
    /// Its room is held no more.
    Expired,
}

impl RequestVerdict {
    /// Of this request nothing is known yet.
    #[must_use]
    pub fn of(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: Arc::from(&*key.name),
            buys: false,
            is_booked: false,
            answer: RequestAnswer::Waits,
            pods_count: 0,
            consumed_count: 0,
            ready_count: 0,
            coming_count: 0,
            on_new: BTreeMap::new(),
            unplaced_count: 0,
            fault: None,
            pools: Vec::new(),
            until: UnixTime(0),
            wrong_parameters: Vec::new(),
        }
    }
}

/// The verdict on one gang.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangVerdict {
    /// Namespace.
    pub namespace: Arc<str>,
    /// The object, and the part of it.
    pub gang: Arc<GangRef>,
    /// Fewest pods that are scheduled together.
    pub min_count: u32,
    /// Pods that have a node, or have finished and count as such.
    pub bound_count: u32,
    /// Pods that want a node, those that are expected included.
    pub pods_count: u32,
    /// Most of these that found room at once.
    pub fit_count: u32,
    /// Label of which all of its pods must share one value, if there is one.
    pub topology_key: Option<Arc<str>>,
    /// Reason why nothing is bought for them; `None` if all that are needed have room or get it.
    pub reason: Option<Reason>,
    /// Names of some of the pods, sorted.
    pub examples: Vec<Arc<str>>,
    /// Each pool that did not take the others, with its first failing rule.
    pub pools: Vec<PoolReason>,
}

impl GangVerdict {
    /// For a person: which gang, how many it needs, and how many have room.
    #[must_use]
    pub fn describe(&self) -> String {
        let (name, min) = (self.gang.describe(&self.namespace), self.min_count);
        let (bound, pods) = (self.bound_count, self.pods_count);
        let domain = self.topology_key.as_ref().map(|key| format!(" in one domain of {key}"));
        let domain = domain.unwrap_or_default();
        match self.reason {
            Some(Reason::GangNotFound) => {
                format!("{name} does not exist: create it, or take the reference off its pods")
            }
            Some(Reason::GangIncomplete) => {
                format!(
                    "{name} needs {min} pods at once: {bound} run, and {pods} of the others wait for a node"
                )
            }
            Some(Reason::GangDoesNotFit) => {
                let (fit, need) = (self.fit_count, min.saturating_sub(bound));
                format!(
                    "{name} needs {min} pods at once{domain}: {bound} run, and {fit} of the {need} others fit"
                )
            }
            _ => format!(
                "{name} needs {min} pods at once{domain}: {bound} run, and {} of the others have room",
                self.fit_count
            ),
        }
    }
}

/// The verdict on one group of equal pending pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVerdict {
    /// Namespace.
    pub namespace: Arc<str>,
    /// The controller, or the pod's own name.
    pub owner: Arc<str>,
    /// Number of pods, anticipated ones included.
    pub pods_count: u32,
    /// Number of them that do not exist yet.
    pub anticipated_count: u32,
    /// Some of their names, sorted.
    pub examples: Vec<Arc<str>>,
    /// Number of pods that found a place on nodes that exist or are on their way.
    pub on_existing_count: u32,
    /// Number of pods that got a new node, by pool.
    pub on_new: BTreeMap<Arc<str>, u32>,
    /// Number of pods without a place.
    pub unplaced_count: u32,
    /// Reason why they were not demand at all, if so.
    pub skipped: Option<Reason>,
    /// Each pool that did not take them, with its first failing rule.
    pub pools: Vec<PoolReason>,
}

/// A reason that concerns a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReason {
    /// The pool.
    pub pool: Arc<str>,
    /// The reason.
    pub reason: Reason,
    /// The values, for a person.
    pub message: Arc<str>,
}

/// Action that a Preview pool would have taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewAction {
    /// The pool.
    pub pool: Arc<str>,
    /// Nodes it has.
    pub from: u32,
    /// Nodes it would want.
    pub to: u32,
    /// Reason.
    pub reason: Reason,
    /// For a person.
    pub message: Arc<str>,
}
