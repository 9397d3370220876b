//! ResourceSlices of resource.k8s.io/v1: pools and their devices, in Kubernetes' words. Data only.
//!
//! A device with a field that is not here is refused when it is read: the field may be what decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::scheduling::constraints::NodeSelectorTerm;
use headroom_values::quantity::Quantity;

/// A ResourceSlice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its name.
    pub name: Arc<str>,
    /// Spec of the slice.
    pub spec: SliceSpec,
}

/// The spec of a ResourceSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceSpec {
    /// The driver that published it.
    pub driver: Arc<str>,
    /// The pool that it is a part of.
    pub pool: PoolRef,
    /// The only node that can use its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Selector of the nodes that can use its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// True if all nodes can use its devices.
    #[serde(skip_serializing_if = "is_false")]
    pub all_nodes: bool,
    /// True if each device selects the nodes that can use it.
    #[serde(skip_serializing_if = "is_false")]
    pub per_device_node_selection: bool,
    /// The devices, in the order in which they are tried.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Counters that devices of the pool share.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub shared_counters: Vec<CounterSet>,
}

/// Reference to the pool that a slice is a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolRef {
    /// The name of the pool.
    pub name: Arc<str>,
    /// The version of the pool; only the newest counts.
    pub generation: i64,
    /// Slices that the pool has at this generation.
    pub resource_slice_count: i64,
}

/// A node selector: one of its terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms; the API server lets one pass.
    #[serde(deserialize_with = "or_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Device {
    /// Its name, unique in the pool.
    pub name: Arc<str>,
    /// Its attributes, by `id` or `domain/id`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<Arc<str>, Attribute>,
    /// Its capacities, by `id` or `domain/id`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<Arc<str>, Capacity>,
    /// Amounts that it takes of shared counters while it is in use.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// The only node that can use it, where the slice selects nodes per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Selector of the nodes that can use it, if the slice has one per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// True if all nodes can use it, where the slice selects nodes per device.
    #[serde(skip_serializing_if = "is_false")]
    pub all_nodes: bool,
    /// Taints, which claims tolerate or not.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// True if its allocation is bound to one node, whatever node it can be used from.
    #[serde(skip_serializing_if = "is_false")]
    pub binds_to_node: bool,
    /// Conditions that must hold before a pod is bound.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<Arc<str>>,
    /// Conditions that make binding fail.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_failure_conditions: Vec<Arc<str>>,
    /// True if several claims can share it by its capacities.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_multiple_allocations: bool,
}

/// The value of an attribute. Lists are not supported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A text.
    String(Arc<str>),
    /// A semantic version. For constraints it is a text.
    Version(Arc<str>),
    /// A text that another machine will have instead: on a node to come it is not known. Equal ones on the node that it was
    /// learned from are equal there too.
    #[serde(skip)]
    Unknown(Arc<str>),
}

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capacity {
    /// All of it.
    pub value: Quantity,
    /// Policy for the amount that a claim may take of it, if several can share the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_policy: Option<RequestPolicy>,
}

/// Policy for the amount that a claim may take of a capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RequestPolicy {
    /// Amount taken if none is requested.
    pub default: Option<Quantity>,
    /// The amounts that can be taken, ascending.
    #[serde(deserialize_with = "or_default")]
    pub valid_values: Vec<Quantity>,
    /// The range of amounts that can be taken.
    pub valid_range: Option<ValidRange>,
}

/// A range of amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ValidRange {
    /// The least.
    pub min: Option<Quantity>,
    /// The most.
    pub max: Option<Quantity>,
    /// The distance of two amounts.
    pub step: Option<Quantity>,
}

/// An amount of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The amount.
    pub value: Quantity,
}

/// Counters that devices of a pool share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterSet {
    /// Its name, unique in the pool.
    pub name: Arc<str>,
    /// Amount of each counter.
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<Arc<str>, Amount>,
}

/// Amounts that a device takes of a set of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CounterConsumption {
    /// The set.
    pub counter_set: Arc<str>,
    /// Amount of each counter.
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<Arc<str>, Amount>,
}

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Taint {
    /// The key.
    pub key: Arc<str>,
    /// The value; may be empty.
    pub value: Arc<str>,
    /// The effect; only NoSchedule and NoExecute keep claims off.
    pub effect: Arc<str>,
    /// Time at which it was added; it has no effect here.
    #[serde(skip_serializing)]
    pub time_added: Option<IgnoredAny>,
}

/// True if a switch is off, so that it need not be written.
pub(super) fn is_false(switch: &bool) -> bool {
    !switch
}

/// A list or map, for which Go writes null when it is empty.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
