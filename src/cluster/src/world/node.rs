//! Nodes as decisions see them: the watch's payload.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::scheduling::constraints::Taint;
use crate::world::pod::DO_NOT_DISRUPT_ANNOTATION;
use headroom_values::labels::Labels;
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// Label that names the pool a node belongs to.
pub const POOL_LABEL: &str = "headroom.dev/pool";
/// Label that names the node group inside the pool.
pub const GROUP_LABEL: &str = "headroom.dev/group";
/// Annotation by which our mark names the intent it belongs to (design rule 8).
pub const INTENT_ANNOTATION: &str = "headroom.dev/intent";
/// Annotation of a cordon that came with our mark and goes with it.
pub const CORDONED_ANNOTATION: &str = "headroom.dev/cordoned";
/// Annotation that names what a node was made of, where the operator makes nodes itself.
pub const TEMPLATE_ANNOTATION: &str = "headroom.dev/template";
/// Annotation by which a person asks for a node's removal; the only value is `requested`.
pub const REMOVE_ANNOTATION: &str = "headroom.dev/remove";
/// Key of the hard taint on nodes that are leaving; kube-proxy and the service controller drain by it.
pub const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Key of the soft taint on nodes that go next, its effect PreferNoSchedule: what is evicted elsewhere shall not come here.
pub const CANDIDATE_TAINT: &str = "headroom.dev/removal-candidate";
/// Cluster Autoscaler's annotation that keeps a node for ever.
pub const SCALE_DOWN_DISABLED_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Annotations by which others ask to wait with the deletion of an empty node begin so.
pub const DELAY_DELETION_PREFIX: &str = "delay-deletion.cluster-autoscaler.kubernetes.io/";
/// Labels and annotations that Karpenter puts on its nodes begin so.
pub const KARPENTER_PREFIX: &str = "karpenter.sh/";
/// The label that carries a node's own name.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The label that carries a node's zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A node as the watch delivers it: the payload of [`super::Delta::NodeApplied`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// Unique id.
    pub uid: Arc<str>,
    /// `spec.providerID`; empty when the cloud has not named it yet.
    pub provider_id: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// The annotations that decisions read, and no others (see [`keeps_annotation`]).
    pub annotations: Labels,
    /// Taints, without the operator's own [`CANDIDATE_TAINT`]: a plan's own mark is in nobody's way.
    pub taints: Vec<Taint>,
    /// True if it carries [`CANDIDATE_TAINT`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub candidate: bool,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// Amounts that pods can use.
    pub allocatable: Resources,
    /// Amounts of the machine.
    pub capacity: Resources,
    /// The Ready condition.
    pub ready: Readiness,
    /// Last transition of the Ready condition; the creation time when the condition is missing.
    pub ready_changed_at: UnixTime,
    /// `metadata.creationTimestamp`.
    pub created_at: UnixTime,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// The other conditions that can report an error, in order of their types (see [`keeps_condition`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
}

/// A condition of a node other than Ready.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeCondition {
    /// Its type, such as `KernelDeadlock`.
    pub kind: Arc<str>,
    /// Its status.
    pub status: ConditionStatus,
    /// Its last transition; the creation time of the node when that is missing.
    pub since: UnixTime,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or a word that Kubernetes does not define.
    #[default]
    Unknown,
}

impl ConditionStatus {
    /// The status that the API's word stands for.
    #[must_use]
    pub fn of(word: &str) -> Self {
        match word {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Node {
    /// The zone that its label names; empty when it has none.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.labels.get(ZONE_LABEL).unwrap_or("")
    }

    /// True if it carries an annotation about it alone, not only about its template.
    #[must_use]
    pub fn is_annotated(&self) -> bool {
        self.annotations.iter().any(|(key, _)| key != TEMPLATE_ANNOTATION)
    }

    /// True if the annotation `karpenter.sh/do-not-disrupt` keeps the node; on nodes only `"true"` counts.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.annotations.get(DO_NOT_DISRUPT_ANNOTATION) == Some("true")
    }
}

/// The status of a node's Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Readiness {
    /// Condition is True.
    Ready,
    /// Condition is False.
    NotReady,
    /// The condition `Suspended` is True, whatever Ready is: the cloud has suspended the machine and can resume it.
    Suspended,
    /// Condition is Unknown or missing: the kubelet has not been heard.
    #[default]
    Unknown,
}

/// True if a label or annotation is one that Karpenter puts on its own nodes; people put
/// [`DO_NOT_DISRUPT_ANNOTATION`] on nodes of anybody.
#[must_use]
pub fn is_karpenters(key: &str) -> bool {
    key.starts_with(KARPENTER_PREFIX) && key != DO_NOT_DISRUPT_ANNOTATION
}

/// True if decisions read a condition: not Ready and Suspended, which [`Node::ready`] holds, and not those that every
/// kubelet reports of a healthy node.
#[must_use]
pub fn keeps_condition(kind: &str, status: ConditionStatus) -> bool {
    match kind {
        "Ready" | "Suspended" => false,
        "MemoryPressure" | "DiskPressure" | "PIDPressure" | "NetworkUnavailable" => {
            status != ConditionStatus::False
        }
        _ => true,
    }
}

/// True if decisions read the annotation `key`; all others are dropped at the edge.
#[must_use]
pub fn keeps_annotation(key: &str) -> bool {
    key.starts_with("headroom.dev/")
        || key.starts_with("cluster-autoscaler.kubernetes.io/")
        || key.starts_with(KARPENTER_PREFIX)
        || key.starts_with(DELAY_DELETION_PREFIX)
}
