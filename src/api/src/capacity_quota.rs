//! CapacityQuota of `autoscaling.x-k8s.io`, a kind of SIG Autoscaling: read as it is stored, and its status as it is written.
//! Its definition is not ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capacity_buffer::BufferCondition;

/// API group.
pub const GROUP: &str = "autoscaling.x-k8s.io";
/// Kind.
pub const KIND: &str = "CapacityQuota";
/// Plural name.
pub const PLURAL: &str = "capacityquotas";
/// Versions that are read, the preferred one first. They differ in nothing that is read here.
pub const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// Spec as an administrator writes it, but for the selector.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CapacityQuotaSpec {
    /// Most of each resource that all nodes together have which the selector chooses.
    pub limits: QuotaResources,
}

/// Amounts by resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaResources {
    /// Quantities.
    pub resources: BTreeMap<String, Value>,
}

/// The status of a CapacityQuota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityQuotaStatus {
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Use of each limited resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<QuotaResources>,
    /// Conditions, one of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<BufferCondition>,
}
