//! Nodes and namespaces as the wire has them.

use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{Amounts, Condition, nullable};

/// A node. Images, addresses and system information are skipped.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = Node)]
pub struct SlimNode {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: NodeSpec,
    /// Status.
    #[serde(default)]
    pub status: NodeStatus,
}

/// A node's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The cloud's name of the machine.
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    pub provider_id: String,
    /// Cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    /// Taints.
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// A node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Amounts of the machine.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Amounts,
    /// Amounts that pods can use.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: Amounts,
    /// Conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// A namespace: only its labels matter.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = Namespace)]
pub struct SlimNamespace {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
}
