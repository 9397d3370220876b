//! Messages of the expander protocol, in both generations, and the part of core/v1 Pod that is sent. It decides nothing.

use std::collections::BTreeMap;

use crate::wire::{CoreNode, CoreQuantity};

/// The path of the one RPC begins with it.
pub const EXPANDER_SERVICE: &str = "/grpcplugin.Expander/";

/// The question.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BestOptionsRequest {
    /// The options.
    #[prost(message, repeated, tag = "1")]
    pub options: Vec<WireOption>,
    /// A new node of each group, to 1.34.
    #[prost(btree_map = "string, message", tag = "2")]
    pub nodes: BTreeMap<String, CoreNode>,
    /// The same since 1.34.2.
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub nodes_bytes: BTreeMap<String, Vec<u8>>,
}

/// New nodes of one group.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WireOption {
    /// The group.
    #[prost(string, tag = "1")]
    pub node_group_id: String,
    /// Number of new nodes.
    #[prost(int32, tag = "2")]
    pub node_count: i32,
    /// For people.
    #[prost(string, tag = "3")]
    pub debug: String,
    /// The pods that they take, to 1.34.
    #[prost(message, repeated, tag = "4")]
    pub pods: Vec<CorePod>,
    /// The same since 1.34.2.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub pods_bytes: Vec<Vec<u8>>,
}

/// The answer. What is read of it is names alone.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BestOptionsResponse {
    /// The options that are left.
    #[prost(message, repeated, tag = "1")]
    pub options: Vec<NamedOption>,
}

/// An option of an answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NamedOption {
    /// The group.
    #[prost(string, tag = "1")]
    pub node_group_id: String,
}

/// A pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CorePod {
    /// Name and namespace.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodMetadata>,
    /// Spec of the pod.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<PodSpec>,
    /// Status: the pod is pending.
    #[prost(message, optional, tag = "3")]
    pub status: Option<PodStatus>,
}

/// Metadata of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodMetadata {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Namespace.
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// Unique id.
    #[prost(string, tag = "5")]
    pub uid: String,
    /// Labels.
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    /// The controller.
    #[prost(message, repeated, tag = "13")]
    pub owners: Vec<OwnerReference>,
}

/// The controller of a pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OwnerReference {
    /// Kind.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Unique id.
    #[prost(string, tag = "4")]
    pub uid: String,
    /// True.
    #[prost(bool, optional, tag = "6")]
    pub controller: Option<bool>,
}

/// Spec of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSpec {
    /// Claims.
    #[prost(message, repeated, tag = "1")]
    pub volumes: Vec<Volume>,
    /// One container that asks for what all of the pod's do.
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    /// Labels that the node must have.
    #[prost(btree_map = "string, string", tag = "7")]
    pub node_selector: BTreeMap<String, String>,
    /// Required affinity to nodes and to other pods.
    #[prost(message, optional, tag = "18")]
    pub affinity: Option<Affinity>,
    /// Scheduler.
    #[prost(string, tag = "19")]
    pub scheduler_name: String,
    /// Tolerations.
    #[prost(message, repeated, tag = "22")]
    pub tolerations: Vec<Toleration>,
    /// Priority.
    #[prost(int32, optional, tag = "25")]
    pub priority: Option<i32>,
    /// Constraints that block.
    #[prost(message, repeated, tag = "33")]
    pub topology_spread: Vec<TopologySpread>,
}

/// A container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Container {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Ports of the host.
    #[prost(message, repeated, tag = "6")]
    pub ports: Vec<ContainerPort>,
    /// Requests.
    #[prost(message, optional, tag = "8")]
    pub resources: Option<ResourceRequirements>,
}

/// A port of the host.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerPort {
    /// Its number.
    #[prost(int32, tag = "2")]
    pub host_port: i32,
    /// The same.
    #[prost(int32, tag = "3")]
    pub container_port: i32,
    /// Protocol.
    #[prost(string, tag = "4")]
    pub protocol: String,
    /// Address; empty for all.
    #[prost(string, tag = "5")]
    pub host_ip: String,
}

/// Requests of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceRequirements {
    /// Amounts by resource.
    #[prost(btree_map = "string, message", tag = "2")]
    pub requests: BTreeMap<String, CoreQuantity>,
}

/// A toleration.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Toleration {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Operator.
    #[prost(string, tag = "2")]
    pub operator: String,
    /// Value.
    #[prost(string, tag = "3")]
    pub value: String,
    /// Effect; empty for all.
    #[prost(string, tag = "4")]
    pub effect: String,
}

/// Required affinity to nodes and to other pods.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Affinity {
    /// Of nodes.
    #[prost(message, optional, tag = "1")]
    pub node: Option<NodeAffinity>,
    /// Pods to be near to.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodAffinity>,
    /// Pods to be away from.
    #[prost(message, optional, tag = "3")]
    pub anti: Option<PodAffinity>,
}

/// Required node affinity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeAffinity {
    /// One of its terms must hold.
    #[prost(message, optional, tag = "1")]
    pub required: Option<NodeSelector>,
}

/// Terms of which one must hold.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSelector {
    /// The terms.
    #[prost(message, repeated, tag = "1")]
    pub terms: Vec<NodeSelectorTerm>,
}

/// Requirements that all must hold.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSelectorTerm {
    /// On labels.
    #[prost(message, repeated, tag = "1")]
    pub expressions: Vec<Requirement>,
    /// On fields.
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<Requirement>,
}

/// Key, operator, values.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Requirement {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Operator.
    #[prost(string, tag = "2")]
    pub operator: String,
    /// Values.
    #[prost(string, repeated, tag = "3")]
    pub values: Vec<String>,
}

/// Required pod affinity or anti-affinity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodAffinity {
    /// All must hold.
    #[prost(message, repeated, tag = "1")]
    pub required: Vec<PodAffinityTerm>,
}

/// Pods by label within a domain.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodAffinityTerm {
    /// Selector of the pods.
    #[prost(message, optional, tag = "1")]
    pub selector: Option<LabelSelector>,
    /// Names of the namespaces.
    #[prost(string, repeated, tag = "2")]
    pub namespaces: Vec<String>,
    /// The label of the domain.
    #[prost(string, tag = "3")]
    pub topology_key: String,
    /// Selector of the namespaces.
    #[prost(message, optional, tag = "4")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Labels that must hold.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelSelector {
    /// Exact pairs.
    #[prost(btree_map = "string, string", tag = "1")]
    pub labels: BTreeMap<String, String>,
    /// Requirements.
    #[prost(message, repeated, tag = "2")]
    pub expressions: Vec<Requirement>,
}

/// A constraint on the spread over domains.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TopologySpread {
    /// Highest difference.
    #[prost(int32, tag = "1")]
    pub max_skew: i32,
    /// The label of the domain.
    #[prost(string, tag = "2")]
    pub topology_key: String,
    /// `DoNotSchedule`.
    #[prost(string, tag = "3")]
    pub when_unsatisfiable: String,
    /// Selector of the pods that count.
    #[prost(message, optional, tag = "4")]
    pub selector: Option<LabelSelector>,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Volume {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Source of the volume.
    #[prost(message, optional, tag = "2")]
    pub source: Option<VolumeSource>,
}

/// Source of a volume.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VolumeSource {
    /// A claim.
    #[prost(message, optional, tag = "10")]
    pub claim: Option<ClaimSource>,
}

/// A claim.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClaimSource {
    /// Its name.
    #[prost(string, tag = "1")]
    pub claim_name: String,
}

/// Status of a pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodStatus {
    /// `Pending`.
    #[prost(string, tag = "1")]
    pub phase: String,
}
