//! Workloads and PodGroups as the wire has them: how many pods are scheduled together. Four kinds have one form here.

use std::borrow::Cow;

use headroom_core::world::gang::GangKind;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::nullable;

/// A kind of gangs on the wire: API group, versions that are read (the preferred one first), and plural.
#[derive(Clone, Copy, Debug)]
pub struct GangWire {
    /// The kind.
    pub kind: GangKind,
    /// API group.
    pub group: &'static str,
    /// Versions that are read, the preferred one first. They differ in nothing that is read here.
    pub versions: &'static [&'static str],
    /// Plural name.
    pub plural: &'static str,
}

/// Every kind of gangs.
pub const GANG_WIRES: [GangWire; 4] = [
    GangWire {
        kind: GangKind::PodGroup,
        group: "scheduling.k8s.io",
        versions: &["v1beta1", "v1alpha2"],
        plural: "podgroups",
    },
    GangWire {
        kind: GangKind::Workload,
        group: "scheduling.k8s.io",
        versions: &["v1alpha1"],
        plural: "workloads",
    },
    GangWire {
        kind: GangKind::Coscheduling,
        group: "scheduling.x-k8s.io",
        versions: &["v1alpha1"],
        plural: "podgroups",
    },
    GangWire {
        kind: GangKind::Volcano,
        group: "scheduling.volcano.sh",
        versions: &["v1beta1"],
        plural: "podgroups",
    },
];

/// An object of the kind at place `KIND` of [`GANG_WIRES`], in the version at place `VERSION`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlimGang<const KIND: usize, const VERSION: usize = 0> {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: GangSpec,
    /// Status.
    #[serde(default, deserialize_with = "super::nullable")]
    pub status: GangStatus,
}

/// The specs of all kinds in one: each has its own field. Numbers are wider than definitions allow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangSpec {
    /// Of a Workload: its groups of pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_groups: Vec<WorkloadGroup>,
    /// Of a PodGroup of Kubernetes.
    pub scheduling_policy: Option<GangPolicy>,
    /// Of a PodGroup of Kubernetes: the unit of disruption, one of two spellings.
    pub disruption_mode: Option<serde_json::Value>,
    /// Of a PodGroup of Kubernetes: where its pods may run together.
    pub scheduling_constraints: Option<GangConstraints>,
    /// Of a PodGroup of others.
    pub min_member: Option<i64>,
}

/// Constraints on where the pods of a group may run together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GangConstraints {
    /// Labels of which their nodes must share one value; the API server lets one pass.
    #[serde(deserialize_with = "nullable")]
    pub topology: Vec<TopologyConstraint>,
}

/// A label of which the nodes of a group's pods must share one value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TopologyConstraint {
    /// The label's key.
    pub key: String,
}

/// A group of pods in a Workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadGroup {
    /// Name.
    pub name: String,
    /// Scheduling policy of its pods.
    pub policy: Option<GangPolicy>,
}

/// Scheduling policy of a group's pods: one by one, unless `gang` is set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GangPolicy {
    /// Together.
    pub gang: Option<GangMinimum>,
}

/// Number of pods that are scheduled together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangMinimum {
    /// Fewest pods.
    pub min_count: i64,
}

/// The part of the status that decisions read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GangStatus {
    /// Pods that have finished well (Volcano).
    #[serde(deserialize_with = "nullable")]
    pub succeeded: i64,
}

/// Reference of a pod to its PodGroup (Kubernetes 1.36 and later).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    /// Name.
    pub pod_group_name: Option<String>,
}

/// Reference of a pod to a group of pods in a Workload (Kubernetes 1.35).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRef {
    /// The Workload.
    pub name: String,
    /// The group of pods.
    pub pod_group: String,
    /// The replica of the group.
    #[serde(deserialize_with = "nullable")]
    pub pod_group_replica_key: String,
}

impl<const KIND: usize, const VERSION: usize> kube::Resource for SlimGang<KIND, VERSION> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        GANG_WIRES[KIND].kind.as_str().into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GANG_WIRES[KIND].group.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        GANG_WIRES[KIND].versions[VERSION].into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        GANG_WIRES[KIND].plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
