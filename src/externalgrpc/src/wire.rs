//! Messages of the externalgrpc protocol, in the generations of Cluster Autoscaler 1.24 to 1.37. It decides nothing.
//!
//! Numbers of the old generation (to 1.34) and of the new one (from 1.35) lie side by side: what is written carries both, and
//! what is read prefers the new one.

use std::collections::BTreeMap;

/// The path of an RPC begins with it.
pub const SERVICE: &str = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/";
/// Out of resources, stock or quota.
pub const CLASS_OUT_OF_RESOURCES: i32 = 1;

/// A message without fields.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

/// A node group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGroup {
    /// Its id, opaque.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Lower bound.
    #[prost(int32, tag = "2")]
    pub min_size: i32,
    /// Upper bound.
    #[prost(int32, tag = "3")]
    pub max_size: i32,
}

/// A node as servers know it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Node {
    /// `spec.providerID`.
    #[prost(string, tag = "1")]
    pub provider_id: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its labels.
    #[prost(btree_map = "string, string", tag = "3")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
}

/// All groups.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGroups {
    /// The groups.
    #[prost(message, repeated, tag = "1")]
    pub node_groups: Vec<NodeGroup>,
}

/// Question for the group of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGroupForNodeRequest {
    /// The node.
    #[prost(message, optional, tag = "1")]
    pub node: Option<Node>,
}

/// The group of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGroupForNode {
    /// Absent or with an empty id: the node belongs to no group.
    #[prost(message, optional, tag = "1")]
    pub node_group: Option<NodeGroup>,
}

/// The label of nodes with GPUs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GpuLabel {
    /// Its key.
    #[prost(string, tag = "1")]
    pub label: String,
}

/// A question about one group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GroupRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
}

/// The size of a group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TargetSize {
    /// Instances wanted.
    #[prost(int32, tag = "1")]
    pub target_size: i32,
}

/// A change of a group's size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResizeRequest {
    /// Positive to increase, negative to decrease.
    #[prost(int32, tag = "1")]
    pub delta: i32,
    /// The group.
    #[prost(string, tag = "2")]
    pub id: String,
}

/// A deletion of nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteNodesRequest {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
    /// The group.
    #[prost(string, tag = "2")]
    pub id: String,
}

/// Instances of a group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Instances {
    /// The instances.
    #[prost(message, repeated, tag = "1")]
    pub instances: Vec<Instance>,
}

/// An instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Instance {
    /// Its id: the `spec.providerID` of its node.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its status.
    #[prost(message, optional, tag = "2")]
    pub status: Option<InstanceStatus>,
}

/// The status of an instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceStatus {
    /// One of [`State`].
    #[prost(enumeration = "State", tag = "1")]
    pub state: i32,
    /// An error of its launch.
    #[prost(message, optional, tag = "2")]
    pub error: Option<InstanceError>,
}

/// The life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum State {
    /// Not set.
    Unspecified = 0,
    /// There.
    Running = 1,
    /// On its way.
    Creating = 2,
    /// Leaving.
    Deleting = 3,
}

/// Error of an instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceError {
    /// Empty for no error.
    #[prost(string, tag = "1")]
    pub code: String,
    /// Its words.
    #[prost(string, tag = "2")]
    pub message: String,
    /// [`CLASS_OUT_OF_RESOURCES`], or another.
    #[prost(int32, tag = "3")]
    pub class: i32,
}

/// The template of a group: a core/v1 Node, in whichever generation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Template {
    /// To 1.34; as a message and as bytes it is the same on the wire.
    #[prost(bytes = "vec", tag = "1")]
    pub node_info: Vec<u8>,
    /// From 1.34.2.
    #[prost(bytes = "vec", tag = "2")]
    pub node_bytes: Vec<u8>,
}

/// Question for the scale-down settings of a group.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionsRequest {
    /// The group.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The settings that hold without an answer.
    #[prost(message, optional, tag = "2")]
    pub defaults: Option<Options>,
}

/// The scale-down settings of a group.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionsAnswer {
    /// The settings.
    #[prost(message, optional, tag = "1")]
    pub options: Option<Options>,
}

/// Scale-down settings.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Options {
    /// As a fraction.
    #[prost(double, tag = "1")]
    pub utilization_threshold: f64,
    /// As a fraction.
    #[prost(double, tag = "2")]
    pub gpu_utilization_threshold: f64,
    /// Old.
    #[prost(message, optional, tag = "3")]
    pub unneeded_time: Option<Nanoseconds>,
    /// Old.
    #[prost(message, optional, tag = "4")]
    pub unready_time: Option<Nanoseconds>,
    /// Old.
    #[prost(message, optional, tag = "5")]
    pub provision_time: Option<Nanoseconds>,
    /// Scaled as a whole.
    #[prost(bool, tag = "6")]
    pub zero_or_max: bool,
    /// DaemonSets do not count.
    #[prost(bool, tag = "7")]
    pub ignore_daemon_sets: bool,
    /// New.
    #[prost(message, optional, tag = "8")]
    pub unneeded: Option<Length>,
    /// New.
    #[prost(message, optional, tag = "9")]
    pub unready: Option<Length>,
    /// New.
    #[prost(message, optional, tag = "10")]
    pub provision: Option<Length>,
}

/// A duration of the old generation.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Nanoseconds {
    /// In nanoseconds.
    #[prost(int64, tag = "1")]
    pub duration: i64,
}

/// A duration of the new generation.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Length {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The rest.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// The part of a core/v1 Node that a template is made of.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreNode {
    /// Labels.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<CoreMetadata>,
    /// Taints.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<CoreNodeSpec>,
    /// Amounts.
    #[prost(message, optional, tag = "3")]
    pub status: Option<CoreNodeStatus>,
}

/// Metadata of an object.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreMetadata {
    /// Its labels.
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
}

/// Spec of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreNodeSpec {
    /// Its taints.
    #[prost(message, repeated, tag = "5")]
    pub taints: Vec<CoreTaint>,
}

/// A taint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreTaint {
    /// Its key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Its effect, as in JSON.
    #[prost(string, tag = "3")]
    pub effect: String,
}

/// Status of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreNodeStatus {
    /// Amounts of the machine.
    #[prost(btree_map = "string, message", tag = "1")]
    pub capacity: BTreeMap<String, CoreQuantity>,
    /// Amounts for pods.
    #[prost(btree_map = "string, message", tag = "2")]
    pub allocatable: BTreeMap<String, CoreQuantity>,
}

/// An amount.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreQuantity {
    /// As in JSON.
    #[prost(string, tag = "1")]
    pub string: String,
}
