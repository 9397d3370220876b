//! CapacityBuffer of `autoscaling.x-k8s.io`, a kind of SIG Autoscaling: read as it is stored, and its status as it is
//! written. Its definition is not ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// API group.
pub const GROUP: &str = "autoscaling.x-k8s.io";
/// Kind.
pub const KIND: &str = "CapacityBuffer";
/// Plural name.
pub const PLURAL: &str = "capacitybuffers";
/// Versions that are read, the preferred one first. They differ in nothing that is read here.
pub const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// Spec as a user writes it: counts are wider than the definition allows, so that a wrong one is reported instead of lost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferSpec {
    /// Strategy by which the room is kept.
    pub provisioning_strategy: Option<String>,
    /// A PodTemplate of the same namespace.
    pub pod_template_ref: Option<TemplateRef>,
    /// A workload of the same namespace.
    pub scalable_ref: Option<ScalableRef>,
    /// Pods for which room is kept.
    pub replicas: Option<i64>,
    /// The same as a percentage of the workload's pods.
    pub percentage: Option<i64>,
    /// Most of each resource that the buffer takes.
    pub limits: Option<BTreeMap<String, Value>>,
}

/// A reference to a PodTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TemplateRef {
    /// Its name.
    pub name: String,
}

/// A reference to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalableRef {
    /// API group; empty for core.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// The status of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<UsedTemplate>,
    /// Its generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Pods for which room is to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The strategy by which the buffer is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Conditions, one of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<BufferCondition>,
}

/// The PodTemplate in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsedTemplate {
    /// Its name.
    pub name: String,
}

/// A condition, see `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BufferCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Time at which the status last changed, as RFC 3339.
    pub last_transition_time: String,
    /// Generation that it was evaluated by.
    pub observed_generation: i64,
}
