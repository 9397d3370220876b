//! Devices of a new node, as a pool declares them: what drivers of dynamic resource allocation will publish there.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::common::Resources;
use super::node_pool::Taint;

/// Devices of one kind in one pool of a driver. Where a driver has several kinds in one pool, each is an item of its own with
/// the same `driver` and `pool`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.names) != has(self.count)")
    .message("template.devices needs names or count, and not both: keep one of the two"))]
pub struct TemplateDevices {
    /// Name of the driver that publishes them, as in ResourceSlices, for example `gpu.example.com`. Required.
    #[schemars(length(min = 1, max = 63))]
    pub driver: String,

    /// Name that distinguishes pools of one driver on one node. Default: empty, for drivers with one pool a node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub pool: String,

    /// Number of them; their names are `device-0` and on. Default: none; required without `names`. Range: 1 to 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub count: Option<i32>,

    /// Names of the devices in the order in which they are allocated. Default: none; required without `count`. At most 128.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 63)))]
    pub names: Vec<String>,

    /// Attributes of each, as `id` or `domain/id`; selectors of claims read them. Default: none. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub attributes: BTreeMap<String, TemplateAttribute>,

    /// Capacities of each, such as `memory`. Default: none. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub capacity: Resources,

    /// Taints of each, which claims tolerate or not. Default: none. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub taints: Vec<Taint>,

    /// True if several claims can share one by its capacities. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_multiple_allocations: bool,
}

/// The value of an attribute: exactly one of the fields.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.int), has(self.bool), has(self.string), has(self.version)].exists_one(is, is)")
    .message("an attribute of template.devices must have exactly one of int, bool, string and version: keep one"))]
pub struct TemplateAttribute {
    /// A number. Default: none. Range: -9007199254740991 to 9007199254740991.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -9_007_199_254_740_991_i64, max = 9_007_199_254_740_991_i64))]
    pub int: Option<i64>,

    /// A truth. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,

    /// A text. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub string: Option<String>,

    /// A semantic version. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
}
