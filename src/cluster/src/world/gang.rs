//! Gangs: pods that are scheduled all together or not at all, as their schedulers know them. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

/// The label by which a pod names its PodGroup of `scheduling.x-k8s.io`, which the coscheduling plugin reads.
pub const COSCHEDULING_LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// The annotation by which a pod names its PodGroup of `scheduling.volcano.sh`.
pub const VOLCANO_ANNOTATION: &str = "scheduling.k8s.io/group-name";

/// Kinds of objects that declare how many pods of a gang are scheduled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GangKind {
    /// `Workload` of `scheduling.k8s.io` (Kubernetes 1.35): several groups of pods in one object.
    Workload,
    /// `PodGroup` of `scheduling.k8s.io` (Kubernetes 1.36 and later).
    PodGroup,
    /// `PodGroup` of `scheduling.x-k8s.io`.
    Coscheduling,
    /// `PodGroup` of `scheduling.volcano.sh`.
    Volcano,
}

impl GangKind {
    /// Every kind, in the order in which a pod's references are looked at.
    pub const ALL: [Self; 4] = [Self::PodGroup, Self::Workload, Self::Coscheduling, Self::Volcano];

    /// Resource and group, as `kubectl get` takes it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Workload => "workloads.scheduling.k8s.io",
            Self::PodGroup => "podgroups.scheduling.k8s.io",
            Self::Coscheduling => "podgroups.scheduling.x-k8s.io",
            Self::Volcano => "podgroups.scheduling.volcano.sh",
        }
    }

    /// The kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workload => "Workload",
            Self::PodGroup | Self::Coscheduling | Self::Volcano => "PodGroup",
        }
    }
}

/// Reference of a pod to its gang; the object is in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangRef {
    /// Kind of the object.
    pub kind: GangKind,
    /// Name of the object.
    pub name: Arc<str>,
    /// The group of pods in the object; empty for kinds that are one group.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub group: Arc<str>,
    /// The replica of that group, each of which is a gang; empty for the only one.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub replica: Arc<str>,
}

impl GangRef {
    /// A gang that is named by its object alone.
    #[must_use]
    pub fn new(kind: GangKind, name: Arc<str>) -> Self {
        Self { kind, name, group: "".into(), replica: "".into() }
    }

    /// For a person: `PodGroup shop/train`, `Workload shop/train, group workers`.
    #[must_use]
    pub fn describe(&self, namespace: &str) -> String {
        let mut words = format!("{} {namespace}/{}", self.kind.as_str(), self.name);
        for (word, part) in [("group", &self.group), ("replica", &self.replica)] {
            if !part.is_empty() {
                words.push_str(&format!(", {word} {part}"));
            }
        }
        words
    }
}

/// An object that makes pods a gang.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gang {
    /// Kind.
    pub kind: GangKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.creationTimestamp`.
    pub created_at: UnixTime,
    /// Fewest pods that are scheduled together, by group of pods; the only group of other kinds has an empty name. 0 for
    /// pods that are scheduled one by one.
    pub minimums: BTreeMap<Arc<str>, u32>,
    /// Pods that have finished and count as scheduled (Volcano).
    #[serde(default)]
    pub done_count: u32,
    /// True if its pods are disrupted all at once or not at all: `disruptionMode` of a PodGroup of `scheduling.k8s.io`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disrupted_at_once: bool,
    /// Label of which the nodes of all its pods must share one value: `schedulingConstraints.topology` of a PodGroup of
    /// `scheduling.k8s.io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_key: Option<Arc<str>>,
}

/// Gangs of the cluster, and the kinds of objects that define them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gangs {
    /// By kind and key.
    pub objects: BTreeMap<(GangKind, ObjectKey), Gang>,
    /// Kinds that the server has and that may be read. A pod that refers to another kind is like one without a gang: no
    /// scheduler can act on it.
    pub served: BTreeSet<GangKind>,
}
