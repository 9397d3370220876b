//! ProvisioningRequest of `autoscaling.x-k8s.io`, a kind of SIG Autoscaling: read as it is stored, and its status as it is
//! written. Its definition is not ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capacity_buffer::{BufferCondition, TemplateRef};

/// API group.
pub const GROUP: &str = "autoscaling.x-k8s.io";
/// Kind.
pub const KIND: &str = "ProvisioningRequest";
/// Plural name.
pub const PLURAL: &str = "provisioningrequests";
/// Versions that are read, the preferred one first. They differ in nothing that is read here.
pub const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Spec as a user writes it: counts are wider than the definition allows, so that a wrong one is reported instead of lost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningRequestSpec {
    /// The pods, by shape.
    pub pod_sets: Vec<PodSet>,
    /// Name of the provisioning class, which selects the controller that serves the request, and the service.
    pub provisioning_class_name: String,
    /// Further parameters, read by the provisioning class.
    pub parameters: Option<BTreeMap<String, Value>>,
}

/// Pods of one shape.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSet {
    /// A PodTemplate of the same namespace.
    pub pod_template_ref: TemplateRef,
    /// Number.
    pub count: i64,
}

/// The status of a ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningRequestStatus {
    /// Conditions, one of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<BufferCondition>,
    /// Further details, written by the provisioning class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub provisioning_class_details: BTreeMap<String, String>,
}
