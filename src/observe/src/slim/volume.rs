//! Volumes, claims, storage classes, CSINodes and PriorityClasses as the wire has them.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Amounts, NodeSelector, QuantityText, Selector, nullable};

/// Set when the binding of a claim is complete.
pub const BIND_COMPLETED_ANNOTATION: &str = "pv.kubernetes.io/bind-completed";
/// Names the node for which a volume is being made.
pub const SELECTED_NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";
/// Marks the class that claims without one get.
pub const DEFAULT_CLASS_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";

/// A PersistentVolumeClaim.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct SlimClaim {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: Phase,
}

/// Requirements of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Access modes.
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<String>,
    /// Requests; only `storage` matters.
    pub resources: Option<ClaimNeeds>,
    /// Class; absent is not empty.
    pub storage_class_name: Option<String>,
    /// The volume.
    pub volume_name: Option<String>,
    /// `Filesystem` (default) or `Block`.
    pub volume_mode: Option<String>,
    /// Selector of the volumes that may be taken.
    pub selector: Option<Selector>,
}

/// Amounts that a claim requests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimNeeds {
    /// Requests.
    #[serde(deserialize_with = "nullable")]
    pub requests: Amounts,
}

/// `status.phase`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// The phase.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
}

/// A PersistentVolume.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolume)]
pub struct SlimVolume {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: VolumeSpec,
    /// Status.
    #[serde(default)]
    pub status: Phase,
}

/// Properties of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// Its size.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Amounts,
    /// Access modes.
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<String>,
    /// Its class.
    #[serde(deserialize_with = "nullable")]
    pub storage_class_name: String,
    /// `Filesystem` (default) or `Block`.
    pub volume_mode: Option<String>,
    /// The claim it is bound to.
    pub claim_ref: Option<IgnoredAny>,
    /// Nodes that can reach it.
    pub node_affinity: Option<VolumeAffinity>,
    /// Driver and handle of a CSI volume.
    pub csi: Option<CsiSource>,
}

/// Nodes that can reach a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAffinity {
    /// One of its terms must hold.
    pub required: Option<NodeSelector>,
}

/// A CSI volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// The driver.
    pub driver: String,
    /// The driver's own name of the volume.
    pub volume_handle: String,
}

/// A StorageClass.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = StorageClass)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimStorageClass {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Provisioner of its volumes.
    pub provisioner: String,
    /// `Immediate` (default) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// Topologies in which volumes can be made.
    #[serde(deserialize_with = "nullable")]
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// A term of allowed topologies.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// All of them must hold.
    #[serde(deserialize_with = "nullable")]
    pub match_label_expressions: Vec<TopologyRequirement>,
}

/// A key with the values allowed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement {
    /// The label.
    pub key: String,
    /// Its values.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

/// A CSINode.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = CSINode)]
pub struct SlimCsiNode {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: CsiNodeSpec,
}

/// The drivers of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "nullable")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// A driver of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver {
    /// Its name.
    pub name: String,
    /// Number of volumes that it can attach.
    pub allocatable: Option<CsiAllocatable>,
}

/// Number of volumes that a driver can attach to a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiAllocatable {
    /// So many; no limit when absent.
    pub count: Option<i32>,
}

/// A CSIDriver.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = CSIDriver)]
pub struct SlimCsiDriver {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: CsiDriverSpec,
}

/// Capabilities of a driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// True if it makes volumes only where it has reported free capacity.
    #[serde(deserialize_with = "nullable")]
    pub storage_capacity: bool,
    /// True if pods with its volumes are kept off nodes that it is not on. Absent before Kubernetes 1.37.
    #[serde(deserialize_with = "nullable")]
    pub prevent_pod_scheduling_if_missing: bool,
}

/// A CSIStorageCapacity.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = CSIStorageCapacity)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimStorageCapacity {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// The class of the volumes that there is room for.
    pub storage_class_name: String,
    /// The nodes; none when absent.
    pub node_topology: Option<Selector>,
    /// The room in all.
    pub capacity: Option<QuantityText>,
    /// The room for one volume.
    pub maximum_volume_size: Option<QuantityText>,
}

/// A VolumeAttachment.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = VolumeAttachment)]
pub struct SlimAttachment {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: AttachmentSpec,
}

/// What is attached where.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// Name of the node.
    pub node_name: String,
    /// The volume.
    pub source: AttachmentSource,
}

/// A volume that is attached. One that its pod describes itself has no name and counts nowhere.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// Name of the PersistentVolume.
    pub persistent_volume_name: Option<String>,
}

/// A PriorityClass.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PriorityClass)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPriorityClass {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// The priority.
    pub value: i32,
    /// True if pods without a class get it.
    #[serde(deserialize_with = "nullable")]
    pub global_default: bool,
}

/// A volume that a pod makes for itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralSource {
    /// The claim that is made.
    pub volume_claim_template: ClaimTemplate,
}

/// A claim that a controller makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimTemplate {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec of its claims.
    pub spec: ClaimSpec,
}
