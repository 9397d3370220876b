//! NodePool, provider ClusterApi: MachineDeployments, MachineSets and MachinePools of a cluster made by Cluster API.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::MAX_NODES;

/// The form of names of Cluster API's objects and of namespaces.
pub const OBJECT_NAME_PATTERN: &str = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$";

/// The form of a kubeconfig's file name: no path.
pub const KUBECONFIG_PATTERN: &str = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$";

/// Provider ClusterApi: machine groups of one cluster that Cluster API runs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.groups) || has(self.selector)")
    .message("provider.clusterApi must name groups in groups, or find them by selector: add one of the two"))]
pub struct ClusterApiProvider {
    /// Name of the Cluster whose machines are nodes of this cluster. Required: groups of other clusters are never taken.
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_NAME_PATTERN))]
    pub cluster_name: String,

    /// Namespace of the Cluster in the management cluster. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_NAME_PATTERN))]
    pub namespace: String,

    /// The management cluster. Default: the cluster that the operator runs against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management: Option<ClusterApiManagement>,

    /// Groups by kind and name. A group may belong to one pool only: the older pool precedes. Default: none. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("size(self) > 0 && self.all(g, self.exists_one(o, o.name == g.name && (has(o.kind) ? o.kind : 'MachineDeployment') == (has(g.kind) ? g.kind : 'MachineDeployment')))")
        .message("clusterApi.groups must name at least one group, and none twice: remove the second one"))]
    pub groups: Vec<ClusterApiGroup>,

    /// Labels by which further groups are found. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<ClusterApiSelector>,
}

/// The management cluster, where Cluster API's objects are.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApiManagement {
    /// Name of a kubeconfig file below `/etc/headroom/management/`; no path. It is read again when it changes; `exec` and
    /// `auth-provider` are refused. Required.
    #[schemars(length(min = 1, max = 128), regex(pattern = KUBECONFIG_PATTERN))]
    pub kubeconfig: String,
}

/// A machine group.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes")
    .message("groups[].minNodes must not be greater than its maxNodes: lower minNodes or raise maxNodes").field_path(".minNodes"))]
pub struct ClusterApiGroup {
    /// Kind of the group. A MachineSet must not belong to a MachineDeployment. Default: `MachineDeployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClusterApiKind")]
    pub kind: Option<ClusterApiKind>,

    /// Name of the group. Required.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME_PATTERN))]
    pub name: String,

    /// Fewest nodes of this group. The minimum of its annotation holds where it is higher. Default: the annotation's, or 0.
    /// Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: Option<i32>,

    /// Most nodes of this group. The maximum of its annotation holds where it is lower. Default: the annotation's, or the
    /// pool's. Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: Option<i32>,
}

/// The kinds of machine groups.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterApiKind {
    /// A MachineDeployment.
    #[default]
    MachineDeployment,
    /// A MachineSet without a MachineDeployment.
    MachineSet,
    /// A MachinePool.
    MachinePool,
}

/// Labels of groups.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApiSelector {
    /// Labels that a MachineDeployment, a stand-alone MachineSet or a MachinePool of the cluster must have, all of them.
    /// Required. 1 to 16.
    #[schemars(schema_with = "group_labels")]
    pub match_labels: BTreeMap<String, String>,
}

fn group_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}
