//! What scaling down tells of one loop, and the effects it asks for. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels::ObjectKey;
use crate::reason::Reason;

/// How scaling down ended in one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDownResult {
    /// Looked at, and no deletion was begun.
    NoNodeDeleted,
    /// Deletions were begun.
    DeleteStarted,
    /// A delay holds everything back.
    InCooldown,
    /// No node of a group above its minimum.
    NoCandidates,
    /// The loop ended before.
    NotTried,
}

/// One loop's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleDownStatus {
    /// How it ended.
    pub result: ScaleDownResult,
    /// Nodes found removable, by name.
    pub unneeded: Vec<Arc<str>>,
    /// Nodes that stay, and why; by name.
    pub unremovable: Vec<Unremovable>,
    /// Nodes whose deletion was begun.
    pub started: Vec<Arc<str>>,
    /// Deletions that ended since the last report.
    pub results: BTreeMap<Arc<str>, DeleteResult>,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unremovable {
    /// The node.
    pub node: Arc<str>,
    /// Why.
    pub why: Why,
    /// The pod in the way and its rule, for [`Why::BlockedByPod`].
    pub pod: Option<(ObjectKey, Reason)>,
}

/// Why a node stays. Source: simulator/cluster.go, UnremovableReason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its annotation says so.
    ScaleDownDisabledAnnotation,
    /// It is unready, and such nodes are left alone.
    ScaleDownUnreadyDisabled,
    /// Unneeded for too short a time.
    NotUnneededLongEnough,
    /// Unready for too short a time.
    NotUnreadyLongEnough,
    /// Its group would be below its minimum.
    NodeGroupMinSizeReached,
    /// Its group goes as a whole or not at all.
    AtomicScaleDownFailed,
    /// The cluster would have too few cores or too little memory.
    MinimalResourceLimitExceeded,
    /// Somebody is deleting it.
    CurrentlyBeingDeleted,
    /// It is used.
    NotUnderutilized,
    /// Its last simulation failed a short time ago.
    RecentlyUnremovable,
    /// Its pods have no other place.
    NoPlaceToMovePods,
    /// A pod keeps it.
    BlockedByPod,
    /// A pod must end first.
    BlockedByOnCompletionPod,
    /// It offers nothing to measure by.
    UnexpectedError,
}

impl Why {
    /// The word of the reference.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScaleDownDisabledAnnotation => "ScaleDownDisabledAnnotation",
            Self::ScaleDownUnreadyDisabled => "ScaleDownUnreadyDisabled",
            Self::NotUnneededLongEnough => "NotUnneededLongEnough",
            Self::NotUnreadyLongEnough => "NotUnreadyLongEnough",
            Self::NodeGroupMinSizeReached => "NodeGroupMinSizeReached",
            Self::AtomicScaleDownFailed => "AtomicScaleDownFailed",
            Self::MinimalResourceLimitExceeded => "MinimalResourceLimitExceeded",
            Self::CurrentlyBeingDeleted => "CurrentlyBeingDeleted",
            Self::NotUnderutilized => "NotUnderutilized",
            Self::RecentlyUnremovable => "RecentlyUnremovable",
            Self::NoPlaceToMovePods => "NoPlaceToMovePods",
            Self::BlockedByPod => "BlockedByPod",
            Self::BlockedByOnCompletionPod => "BlockedByOnCompletionPod",
            Self::UnexpectedError => "UnexpectedError",
        }
    }
}

/// How a deletion ended, with the reference's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteResult {
    /// The cloud deletes the node.
    Deleted = 0,
    /// Pods could not be evicted, or did not end.
    NotEvicted = 2,
    /// The cloud refused.
    Refused = 3,
    /// What runs on the node has changed, or another node of its atomic group failed.
    Internal = 4,
}

/// One effect on the world, done at the instant it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Put `ToBeDeletedByClusterAutoscaler:NoSchedule` on.
    HardTaint(Arc<str>),
    /// Take it off.
    HardUntaint(Arc<str>),
    /// Put `DeletionCandidateOfClusterAutoscaler:PreferNoSchedule` on.
    SoftTaint(Arc<str>),
    /// Take it off.
    SoftUntaint(Arc<str>),
    /// Cordon.
    Cordon(Arc<str>),
    /// Uncordon.
    Uncordon(Arc<str>),
    /// Evict a pod of a node.
    Evict {
        /// The node.
        node: Arc<str>,
        /// The pod.
        pod: ObjectKey,
    },
    /// Delete an instance of a group, lowering its target.
    Delete {
        /// The group.
        group: Arc<str>,
        /// The node; the provider id for an instance that is no node.
        node: Arc<str>,
        /// The instance's provider id.
        instance: Arc<str>,
    },
}

/// What the world said to an [`Act::Evict`] or [`Act::Delete`]; the others are not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Refused.
    Refused,
}
