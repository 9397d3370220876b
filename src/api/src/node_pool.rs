//! NodePool, what the user asks for: nodes of one shape, how they are bought and how they are returned.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::aws_managed::AwsManaged;
use super::cluster_api::ClusterApiProvider;
use super::common::{Duration, MAX_NODES, NAME_PATTERN, NodeBudget, Quantity, Resources, Window};
use super::external_grpc::ExternalGrpcProvider;
use super::node_pool_status::NodePoolStatus;
use super::template_devices::TemplateDevices;

/// The form of a label's value, of a taint's value and of a zone.
pub const LABEL_VALUE_PATTERN: &str = r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$";

/// The form of a zone's name: a label value that is not empty.
pub const ZONE_PATTERN: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";

/// The form of a label's or taint's key: an optional DNS prefix and a name.
pub const QUALIFIED_NAME_PATTERN: &str =
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";

/// The form of a price: up to six digits, and up to six after the point.
pub const PRICE_PATTERN: &str = r"^[0-9]{1,6}(\.[0-9]{1,6})?$";

/// The form of a region's name.
pub const AWS_REGION_PATTERN: &str = r"^[a-z]{2,}(-[a-z0-9]+)+$";

/// The form of the ARN of a role.
pub const AWS_ROLE_PATTERN: &str = r"^arn:aws[a-z0-9-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$";

/// The form of an external id, as STS takes it.
pub const AWS_EXTERNAL_ID_PATTERN: &str = r"^[A-Za-z0-9_+=,.@:/-]+$";

/// The form of a queue's name, as SQS takes it.
pub const AWS_QUEUE_PATTERN: &str = r"^[0-9A-Za-z_-]+$";

/// The form of a cluster's name, as EKS takes it.
pub const AWS_CLUSTER_PATTERN: &str = r"^[0-9A-Za-z][A-Za-z0-9_-]*$";

/// The form of an Auto Scaling group's name: no colon, no control characters, no space at the ends.
pub const AWS_GROUP_PATTERN: &str = r"^[^\s:]([^:\x00-\x1f]*[^\s:])?$";

/// Longest name of a pool: it becomes a label value and the beginning of its nodes' names.
pub const MAX_POOL_NAME_LENGTH: usize = 40;

/// A pool of nodes of one shape: between which bounds it may grow and shrink, and how its nodes are bought and
/// returned. Deleting a pool stops managing its nodes; it never deletes them.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "hnp",
    category = "headroom",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "A pool of nodes of one shape: between which bounds it may grow and shrink, and how its nodes are bought and returned. Deleting a pool stops managing its nodes; it never deletes them.",
    validation = Rule::new("size(self.metadata.name) <= 40")
        .message("metadata.name must have at most 40 characters: it becomes a label and the beginning of node names; choose a shorter name"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".status.bounds.minNodes", description = "Fewest nodes now, schedules and the provider's own bounds applied"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".status.bounds.maxNodes", description = "Most nodes now, schedules and the provider's own bounds applied"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.nodes.desired", description = "Nodes asked of the provider"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.nodes.ready", description = "Nodes that take pods"),
    printcolumn(name = "Last decision", type_ = "string", json_path = ".status.lastDecision", description = "What was decided last"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", description = "Why, or what holds the pool back now"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode", description = "Apply when empty", priority = 1),
    printcolumn(name = "Backing off until", type_ = "string", json_path = ".status.backoffs[0].until", description = "When the first group may be tried again", priority = 1),
    printcolumn(name = "Price", type_ = "string", json_path = ".spec.price.perHour", description = "Price of one node for one hour", priority = 1),
    printcolumn(name = "Outdated", type_ = "integer", json_path = ".status.nodes.outdated", description = "Nodes that rotation is to replace", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minNodes) || self.minNodes <= self.maxNodes")
    .message("minNodes must not be greater than maxNodes: lower spec.minNodes or raise spec.maxNodes").field_path(".minNodes"))]
#[x_kube(validation = Rule::new("self.provider.type != 'KWOK' || (has(self.template) && has(self.template.capacity))")
    .message("template.capacity is required for provider KWOK, which has no machine to ask: set spec.template.capacity with cpu and memory").field_path(".provider"))]
#[x_kube(validation = Rule::new("!has(self.schedules) || self.schedules.all(s, !has(s.minNodes) || has(s.maxNodes) || s.minNodes <= self.maxNodes)")
    .message("schedules[].minNodes must not be greater than spec.maxNodes: lower it, or set maxNodes in the same schedule").field_path(".schedules"))]
#[x_kube(validation = Rule::new("!has(self.groupScaling) || self.groupScaling != 'ZeroOrMax' || !has(self.scaleDown) \
    || ((!has(self.scaleDown.policy) || self.scaleDown.policy != 'WhenCheaper') && !has(self.scaleDown.minSaving) && !has(self.scaleDown.consolidateAfter))")
    .message("groupScaling: ZeroOrMax can not be combined with scaleDown.policy: WhenCheaper and its minSaving and consolidateAfter, which take single nodes: remove one or the other").field_path(".groupScaling"))]
#[x_kube(validation = Rule::new("!has(self.groupScaling) || self.groupScaling != 'ZeroOrMax' || !has(self.rotation)")
    .message("groupScaling: ZeroOrMax can not be combined with rotation, which replaces single nodes: remove one of the two").field_path(".groupScaling"))]
#[x_kube(validation = Rule::new("!has(self.groupScaling) || self.groupScaling != 'ZeroOrMax' || !has(self.repair) || size(self.repair) == 0")
    .message("groupScaling: ZeroOrMax can not be combined with repair, which replaces single nodes: remove one of the two").field_path(".groupScaling"))]
#[x_kube(validation = Rule::new("!has(self.provider.aws) || !has(self.provider.aws.managed) || (!has(self.price) \
    && !(has(self.template) && has(self.template.capacity)) && !(has(self.groupScaling) && self.groupScaling == 'ZeroOrMax'))")
    .message("provider.aws.managed chooses among machines of several sizes: remove price, template.capacity and groupScaling: ZeroOrMax, which suppose that all nodes are alike").field_path(".provider"))]
pub struct NodePoolSpec {
    /// Mode in which the operator handles this pool. `Apply`: plan and act. `Preview`: plan as if, report the plan in
    /// `status.preview`, change nothing. `Suspend`: change nothing and undo removals under way; increases already
    /// sent are watched to their end, and the nodes still count as capacity. Default: `Apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,

    /// Source of nodes. Required. `provider.type` can not be changed later.
    pub provider: Provider,

    /// Fewest nodes that the pool keeps, over all its groups. The pool grows to it and never shrinks under it.
    /// Default: 0. Range: 0 to `maxNodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: Option<i32>,

    /// Most nodes that the pool may have, over all its groups. Nodes above it are not removed for that alone.
    /// Required. Range: 0 to 100000.
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: i32,

    /// Ceilings on the sum of what the pool's nodes have, those to come too; a node counts as a new one of its group. A
    /// scale-up that would pass one is cut to what fits. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<PoolLimits>,

    /// Shape of a new node, before there is one to look at. What is omitted is asked of the provider, then
    /// learned from live nodes. Default: everything is asked and learned; provider KWOK needs `capacity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<NodeTemplate>,

    /// Price of a node; the `Price` expander compares pools by it. Default: unknown, which the `Price` expander
    /// leaves out of the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,

    /// Rank among pools that fit the same pods: the `Priority` expander takes the highest. Default: 0. Range: -1000000
    /// to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub priority: Option<i32>,

    /// Steps by which each node group of the pool grows and shrinks. `PerNode`: by any number of nodes. `ZeroOrMax`: to
    /// its maximum at once, and away as a whole or not at all, for machines that are of use together only; it is not
    /// combined with `scaleDown.policy: WhenCheaper`. A node that a person asks to go still goes alone. Default:
    /// `PerNode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GroupScaling")]
    pub group_scaling: Option<GroupScaling>,

    /// Growth of the pool. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,

    /// Removals from the pool. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,

    /// Nodes that are replaced because they are outdated: others are bought first, and only when they are ready do the
    /// outdated ones leave. Budgets, PodDisruptionBudgets and what protects pods hold; `scaleDown.enabled: false` stops it.
    /// It is not combined with `groupScaling: ZeroOrMax`. Default: none is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,

    /// Conditions that call for the replacement of a node, as the node problem detector or a node agent of the cloud sets
    /// them. Such a node is replaced like an outdated one: others are bought first, and budgets and PodDisruptionBudgets
    /// hold. Of a pool at most a fifth of the ready nodes, or one, is replaced at once, and none while a zone fails. Nodes
    /// that are not ready are the matter of `scaleDown.unreadyFor`. It is not combined with `groupScaling: ZeroOrMax`. At
    /// most 20. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new("self.all(r, self.exists_one(o, o.condition == r.condition \
        && (has(o.status) ? o.status : 'True') == (has(r.status) ? r.status : 'True')))")
        .message("repair must not name a condition with the same status twice: remove one of the two"))]
    pub repair: Vec<RepairRule>,

    /// Other bounds at certain times. Where several windows are open the highest `minNodes` and the lowest `maxNodes`
    /// hold, and the maximum wins over the minimum. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(o, o.name == s.name))")
        .message("schedules[].name must be unique: rename one of the two schedules"))]
    pub schedules: Vec<Schedule>,
}

/// Steps by which node groups grow and shrink.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupScaling {
    /// By any number of nodes.
    #[default]
    PerNode,
    /// To the maximum at once, and away as a whole.
    ZeroOrMax,
}

/// Mode in which the operator handles an object.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Plan and act.
    #[default]
    Apply,
    /// Plan as if, report, change nothing.
    Preview,
    /// Change nothing, undo removals under way.
    Suspend,
}

/// Source of nodes: `type` names the one member that is set.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'KWOK') == has(self.kwok)")
    .message("provider.kwok must be set when provider.type is KWOK, and no other member: add spec.provider.kwok").field_path(".type"))]
#[x_kube(validation = Rule::new("(self.type == 'AWS') == has(self.aws)")
    .message("provider.aws must be set when provider.type is AWS, and no other member: add spec.provider.aws").field_path(".type"))]
#[x_kube(validation = Rule::new("(self.type == 'ExternalGrpc') == has(self.externalGrpc)")
    .message("provider.externalGrpc must be set when provider.type is ExternalGrpc, and no other member: add spec.provider.externalGrpc").field_path(".type"))]
#[x_kube(validation = Rule::new("(self.type == 'ClusterApi') == has(self.clusterApi)")
    .message("provider.clusterApi must be set when provider.type is ClusterApi, and no other member: add spec.provider.clusterApi").field_path(".type"))]
pub struct Provider {
    /// The kind of provider. `AWS`: Auto Scaling groups. `ClusterApi`: MachineDeployments, MachineSets and MachinePools of
    /// Cluster API. `ExternalGrpc`: node groups of a server of Cluster Autoscaler's externalgrpc protocol. `KWOK`: Node
    /// objects that KWOK brings to life, for trials and tests. Required. Can not be changed later.
    #[serde(rename = "type")]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("provider.type is immutable: create another NodePool for the other provider"))]
    pub type_: ProviderType,

    /// Settings of provider KWOK. Default: none; required when `type` is `KWOK`, and only allowed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kwok: Option<KwokProvider>,

    /// Settings of provider AWS. Default: none; required when `type` is `AWS`, and only allowed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsProvider>,

    /// Settings of provider ExternalGrpc. Default: none; required when `type` is `ExternalGrpc`, and only allowed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_grpc: Option<ExternalGrpcProvider>,

    /// Settings of provider ClusterApi. Default: none; required when `type` is `ClusterApi`, and only allowed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api: Option<ClusterApiProvider>,
}

/// The kinds of provider.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderType {
    /// Auto Scaling groups.
    #[serde(rename = "AWS")]
    Aws,
    /// MachineDeployments, MachineSets and MachinePools of Cluster API.
    ClusterApi,
    /// Node groups of a server of Cluster Autoscaler's externalgrpc protocol.
    ExternalGrpc,
    /// Node objects that KWOK brings to life.
    #[serde(rename = "KWOK")]
    Kwok,
}

/// Provider KWOK: one node group a zone, whose machines are Node objects only.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.simulation) || !has(self.simulation.failures) || self.simulation.failures.all(f, !has(f.zone) || f.zone in self.zones)")
    .message("kwok.simulation.failures[].zone must be one of kwok.zones: correct the zone or add it to kwok.zones").field_path(".simulation"))]
pub struct KwokProvider {
    /// The zones, one node group each; a node carries its zone as label `topology.kubernetes.io/zone`. Required. 1 to 16,
    /// no two alike.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63), regex(pattern = ZONE_PATTERN)))]
    #[x_kube(validation = Rule::new("self.all(z, self.exists_one(o, o == z))")
        .message("kwok.zones must not repeat a zone: remove the second one"))]
    pub zones: Vec<String>,

    /// Slow and failing launches, for tests and simulations only. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulation: Option<KwokSimulation>,
}

/// Slow and failing launches of provider KWOK, for tests and simulations only.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KwokSimulation {
    /// Time from the request of a node to its Node object, for tests. Default: `1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_delay: Option<Duration>,

    /// Launches that fail, to test backoff. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub failures: Vec<KwokFailure>,
}

/// Provider AWS: Auto Scaling groups, by name, by tags, or both, or made by the operator. Credentials come by the SDK's usual
/// chain.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.nodeGroups) || has(self.tagSelector) || has(self.managed)")
    .message("provider.aws must name groups in nodeGroups, or find them by tagSelector, or have them made by managed: add one of the three"))]
#[x_kube(validation = Rule::new("!has(self.managed) || !(has(self.nodeGroups) || has(self.tagSelector) || has(self.anyCluster) || has(self.mixedTypes))")
    .message("provider.aws.managed excludes nodeGroups, tagSelector, anyCluster and mixedTypes: remove them, or make another pool of them").field_path(".managed"))]
#[x_kube(validation = Rule::new("!has(self.managed) || has(self.clusterName)")
    .message("provider.aws.managed needs clusterName, by whose tag the groups of this cluster are known: set clusterName").field_path(".managed"))]
#[x_kube(validation = Rule::new("!has(self.tagSelector) || has(self.clusterName) || (has(self.anyCluster) && self.anyCluster)")
    .message("provider.aws.tagSelector needs clusterName, so that it does not take the groups of other clusters: set clusterName, or anyCluster: true").field_path(".tagSelector"))]
#[x_kube(validation = Rule::new("!(has(self.anyCluster) && self.anyCluster && has(self.clusterName))")
    .message("provider.aws.anyCluster contradicts clusterName: remove one of the two").field_path(".anyCluster"))]
pub struct AwsProvider {
    /// The region of the groups, for example `eu-west-1`. Default: the environment's (`AWS_REGION`, the profile, the
    /// instance's metadata).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = AWS_REGION_PATTERN))]
    pub region: Option<String>,

    /// Role that is assumed for all calls of this pool, in another account or in the same one. Default: the operator's own
    /// identity makes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assume_role: Option<AwsRole>,

    /// Name of the cluster. With it `tagSelector` finds only groups that also have the tag
    /// `k8s.io/cluster-autoscaler/<clusterName>`. Default: none; required with `managed`, and with `tagSelector` unless
    /// `anyCluster` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = AWS_CLUSTER_PATTERN))]
    pub cluster_name: Option<String>,

    /// True if `tagSelector` may find groups whatever cluster they belong to. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_cluster: Option<bool>,

    /// Groups by name. One group may belong to one pool only: of two claims the older pool's holds. Default: none. At
    /// most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("size(self) > 0 && self.all(g, self.exists_one(o, o.name == g.name))")
        .message("aws.nodeGroups must name at least one group, and none twice: remove the second one"))]
    pub node_groups: Vec<AwsNodeGroup>,

    /// Groups by their tags: all of these must match, and an empty value matches any. Groups that gain or lose the tags
    /// join or leave the pool. Default: none. 1 to 10 tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "aws_tags")]
    pub tag_selector: BTreeMap<String, String>,

    /// Groups that the operator makes when they are needed, of machines that meet conditions. They are known by their tags
    /// `k8s.io/cluster-autoscaler/<clusterName>=owned` and `headroom.dev/managed=<name of the pool>`. It needs `clusterName`
    /// and excludes `nodeGroups` and `tagSelector`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<AwsManaged>,

    /// Assumed shape of a new node of a group that launches several types of machine. `Smallest`: the least of each
    /// resource over all its types, so that pods fit whatever comes. `First`: the first type it names, as Cluster
    /// Autoscaler takes it. Default: `Smallest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MixedTypes")]
    pub mixed_types: Option<MixedTypes>,

    /// Name of the SQS queue to which EventBridge sends EC2's notices of instances that go: the queue that Karpenter's
    /// `interruptionQueue` names. Spot interruption warnings, state changes and scheduled changes make a node
    /// `Interrupted`: it is bought for and drained at once. The queue must be this cluster's alone, since what has been
    /// read is deleted. Default: no queue is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80), regex(pattern = AWS_QUEUE_PATTERN))]
    pub interruption_queue: Option<String>,
}

/// A role that is assumed.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsRole {
    /// ARN of the role. Its trust policy must let the operator's identity assume it, and that needs `sts:AssumeRole` on it.
    #[schemars(length(min = 20, max = 2048), regex(pattern = AWS_ROLE_PATTERN))]
    pub arn: String,

    /// External id that the role's trust policy asks for. Default: none is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 1224), regex(pattern = AWS_EXTERNAL_ID_PATTERN))]
    pub external_id: Option<String>,
}

/// Assumed shape of a new node of a group with several types of machine.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MixedTypes {
    /// The least of each resource over all types.
    #[default]
    Smallest,
    /// The first type.
    First,
}

/// An Auto Scaling group by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes")
    .message("nodeGroups[].minNodes must not be greater than its maxNodes: lower minNodes or raise maxNodes").field_path(".minNodes"))]
pub struct AwsNodeGroup {
    /// Name of the Auto Scaling group. Required.
    #[schemars(length(min = 1, max = 255), regex(pattern = AWS_GROUP_PATTERN))]
    pub name: String,

    /// Fewest nodes of this group. The group's own MinSize holds where it is higher. Default: the group's MinSize.
    /// Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: Option<i32>,

    /// Most nodes of this group. The group's own MaxSize holds where it is lower. Default: the group's MaxSize. Range:
    /// 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: Option<i32>,
}

fn aws_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 10,
        "additionalProperties": { "type": "string", "maxLength": 256 },
    })
}

/// A launch failure to play: what a cloud would answer.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KwokFailure {
    /// The zone whose launches fail. Default: every zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,

    /// Kind of the failure; it decides what is backed off and for how long. Required.
    pub class: FailureClass,

    /// The text of the failure, reported in status as a cloud's own would be. Default: the name of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,

    /// Number of nodes of each request that fail; the others of the request start. Default: all of them. Range: 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub count: Option<i32>,
}

/// The kinds of launch failure that lead to different reactions.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    /// The cloud has no machine of that type there now: that group backs off.
    OutOfCapacity,
    /// An account's quota is used up: every group of it backs off.
    QuotaExceeded,
    /// The launch can not succeed before someone changes its configuration.
    InvalidConfiguration,
    /// A permission is missing: likewise.
    PermissionDenied,
    /// The cloud asks for fewer calls: tried again soon.
    Throttled,
    /// Anything else: that group backs off.
    Other,
}

/// Ceilings on the sum over a pool's nodes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolLimits {
    /// Most CPU of all nodes together, for example `"1600"`. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,

    /// Most memory of all nodes together, for example `6400Gi`. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// Shape of a new node of the pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.reserved) || !has(self.capacity) || self.reserved.all(k, k in self.capacity && quantity(self.reserved[k]).compareTo(quantity(self.capacity[k])) <= 0)")
    .message("template.reserved must not name a resource that template.capacity lacks, nor exceed it: lower it or raise the capacity").field_path(".reserved"))]
#[x_kube(validation = Rule::new("!has(self.reserved) || has(self.capacity)")
    .message("template.reserved needs template.capacity to be taken from: set spec.template.capacity").field_path(".reserved"))]
pub struct NodeTemplate {
    /// Labels of a new node, besides the ones that the operator and the provider set (hostname, zone, `headroom.dev/`).
    /// Pods select nodes by them. Default: none. At most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "label_values")]
    #[x_kube(validation = Rule::new("self.all(k, size(k) <= 316 && k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))")
        .message("template.labels has a key that is no label key: use name or prefix/name, with letters, digits, '-', '_' and '.'"))]
    #[x_kube(validation = Rule::new("!self.exists(k, k == 'kubernetes.io/hostname' || k == 'topology.kubernetes.io/zone' || k.startsWith('headroom.dev/'))")
        .message("template.labels must not set kubernetes.io/hostname, topology.kubernetes.io/zone or headroom.dev/ labels: they are set for each node; remove them"))]
    pub labels: BTreeMap<String, String>,

    /// Taints that a new node has and keeps. Default: none. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(t, self.exists_one(o, o.key == t.key && o.effect == t.effect))")
        .message("template.taints must not repeat a key with the same effect: remove the second one"))]
    pub taints: Vec<Taint>,

    /// Taints that a new node has until it is set up; something else removes them. A node with one is starting, not
    /// ready, and pods are planned onto it as if it had none. Default: none. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(t, self.exists_one(o, o.key == t.key && o.effect == t.effect))")
        .message("template.startupTaints must not repeat a key with the same effect: remove the second one"))]
    pub startup_taints: Vec<Taint>,

    /// Capacity of a new node, by resource: `cpu` and `memory` are required here, `pods` defaults to 110. Default:
    /// asked of the provider, then learned; required for provider KWOK.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = Rule::new("'cpu' in self && 'memory' in self")
        .message("template.capacity must have cpu and memory: add what is missing"))]
    #[x_kube(validation = Rule::new("self.all(k, size(k) <= 316 && k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$'))")
        .message("template.capacity has a key that is no resource name: use a name such as cpu or vendor.example/gpu"))]
    #[x_kube(validation = Rule::new("!('cpu' in self) || !('memory' in self) || (quantity(self['cpu']).isGreaterThan(quantity('0')) && quantity(self['memory']).isGreaterThan(quantity('0')))")
        .message("template.capacity cpu and memory must be more than 0: no pod fits such a node"))]
    pub capacity: Option<Resources>,

    /// Part of the capacity that the system keeps; pods get the rest. Default: nothing. At most the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub reserved: Option<Resources>,

    /// Devices that drivers of dynamic resource allocation publish on a new node: pods with ResourceClaims are planned onto it
    /// by them, also while there is no node to look at, and a node is starting until each driver has published as many
    /// pools. An empty list declares that there are none. Default: learned from live nodes of the group, and remembered. At
    /// most 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub devices: Option<Vec<TemplateDevices>>,

    /// Number of volumes of each CSI driver that a new node attaches, by the name of the driver, for example
    /// `ebs.csi.aws.com: 25`. It stands for a group until a living node of it shows its own numbers, as in a pool at zero.
    /// An empty map declares that there are no drivers. Default: learned from the living nodes of the group; without one
    /// there are no limits. Range: 0 to 1000. At most 32 drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "driver_counts")]
    #[x_kube(validation = Rule::new("self.all(d, size(d) <= 63 && d.matches('^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$'))")
        .message("template.attachLimits has a key that is no name of a driver: use a name such as ebs.csi.aws.com"))]
    pub attach_limits: Option<BTreeMap<String, i32>>,
}

fn driver_counts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 1000 },
    })
}

fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE_PATTERN },
    })
}

/// A taint: pods without a toleration for it stay away.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint: a name, or prefix/name. Required.
    #[schemars(length(min = 1, max = 316), regex(pattern = QUALIFIED_NAME_PATTERN))]
    pub key: String,

    /// Value of the taint. Default: empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = LABEL_VALUE_PATTERN))]
    pub value: Option<String>,

    /// Effect on pods that do not tolerate it. Required.
    pub effect: TaintEffect,
}

/// Effect of a taint on pods that do not tolerate it.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaintEffect {
    /// They are not scheduled there.
    NoSchedule,
    /// They are scheduled there only if there is no other place.
    PreferNoSchedule,
    /// They are not scheduled there, and those that run there are evicted.
    NoExecute,
}

/// Price of a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Price of one node for one hour, a decimal number in any currency, the same for all pools, for example `"0.768"`.
    /// Required.
    #[schemars(length(max = 13), regex(pattern = PRICE_PATTERN))]
    pub per_hour: String,
}

/// Growth of a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// True if pods may make the pool grow. `minNodes` is kept either way. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// Time that a node may take from the request until it registers. After that the launch has failed and its group
    /// backs off. Default: `15m`. More than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s')")
        .message("scaleUp.provisionTimeout must be more than 0: every launch would fail at once"))]
    pub provision_timeout: Option<Duration>,

    /// Time that a registered node may take until it is ready. Until then it counts as capacity that is on its way,
    /// after that as unready. Default: `15m`. More than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s')")
        .message("scaleUp.startupTimeout must be more than 0: every new node would be unready at once"))]
    pub startup_timeout: Option<Duration>,

    /// Time that a group is left alone after a failed launch. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

/// Time that a group is left alone after a failed launch.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("duration(has(self.initial) ? self.initial : '5m') <= duration(has(self.max) ? self.max : '30m')")
    .message("backoff.initial (default 5m) must not be longer than backoff.max (default 30m): lower initial or raise max").field_path(".initial"))]
pub struct Backoff {
    /// Backoff after the first failure; each further one doubles it. Default: `5m`. More than 0, at most `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s')")
        .message("backoff.initial must be more than 0: the group would be asked again at once and without end"))]
    pub initial: Option<Duration>,

    /// Longest backoff. Default: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Duration>,

    /// Time after the last failure at which the failures are forgotten. Default: `3h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_after: Option<Duration>,
}

/// Nodes of a pool that may go.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScaleDownPolicy {
    /// Nodes up to `utilizationThreshold` whose pods fit elsewhere, as Cluster Autoscaler does it.
    WhenUnderutilized,
    /// Besides those, every node whose pods fit elsewhere, and nodes whose pods fit on new nodes that cost less.
    WhenCheaper,
}

/// Removals from a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.policy) || self.policy != 'WhenUnderutilized' || (!has(self.minSaving) && !has(self.consolidateAfter))")
    .message("scaleDown.minSaving and scaleDown.consolidateAfter have no effect with policy: WhenUnderutilized: remove it, or them").field_path(".policy"))]
pub struct ScaleDown {
    /// True if nodes of the pool may be removed. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// Nodes that may go. `WhenUnderutilized`: those up to `utilizationThreshold` whose pods fit elsewhere, as Cluster
    /// Autoscaler does it. `WhenCheaper`: besides those every node whose pods fit elsewhere, whatever its use, and nodes
    /// whose pods fit on new nodes that cost less; these are bought first, and only when they are ready do the others
    /// leave. Default: `WhenCheaper`, and `WhenUnderutilized` with `groupScaling: ZeroOrMax`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScaleDownPolicy")]
    pub policy: Option<ScaleDownPolicy>,

    /// Saving that new nodes must bring to replace others, as a percentage of the price of what they replace. Nodes are
    /// compared by `price` where all pools concerned declare one, else by what their CPU and memory are worth, spot machines with spot
    /// machines only. Not with `policy: WhenUnderutilized`. Default: 15. Range: 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub min_saving: Option<i32>,

    /// Minimum age of a node above `utilizationThreshold`, and of each pod on it that must move, before the node may be
    /// removed to save costs: no pod is moved twice for that within this time, and no new node is removed. Not with
    /// `policy: WhenUnderutilized`. Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidate_after: Option<Duration>,

    /// Percentage of a node's allocatable CPU or memory, the larger of the two, up to which its requests leave it
    /// underutilized. Default: 50. Range: 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub utilization_threshold: Option<i32>,

    /// Percentage of a node's GPUs up to which its requests leave it underutilized; the CPU and memory of a node with
    /// GPUs do not count. Default: 50. Range: 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub gpu_utilization_threshold: Option<i32>,

    /// True if pods of DaemonSets are left out when a node is measured: their requests, and the part of the node that they
    /// take. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_daemon_sets_utilization: Option<bool>,

    /// True if mirror pods, the static pods of the kubelet, are left out when a node is measured. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_mirror_pods_utilization: Option<bool>,

    /// Time that a node must have been unneeded without a break before it is removed. Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unneeded_for: Option<Duration>,

    /// Time that an unneeded node must have been unready before it is removed. Default: `20m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_for: Option<Duration>,

    /// Time that removals in this pool wait after the pool grew. Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_after_add: Option<Duration>,

    /// Time that removals in this pool wait after a removal. Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_after_delete: Option<Duration>,

    /// Time that removals in this pool wait after a failed removal. Default: `3m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_after_failure: Option<Duration>,

    /// Time for which a pod that came in place of an evicted one is not evicted again for what its node costs. Its node stays for that long,
    /// unless it is asked to leave, unready, interrupted or replaced by `rotation`. `0s`: pods may be moved again at once. Default: `30m`
    /// with `policy: WhenCheaper`, else `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_cooldown: Option<Duration>,

    /// Ceilings on how many nodes of the pool may be leaving at once. All active ones apply, the smallest wins. Where
    /// none is active only the cluster's own ceilings hold. Default: none. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(b, self.exists_one(o, o.name == b.name))")
        .message("budgets[].name must be unique: rename one of the two budgets"))]
    pub budgets: Vec<NodeBudget>,

    /// Move of pods off a node before it goes. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

/// Move of pods off a node before it goes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Longest grace period that a pod gets to stop; a pod's own shorter one holds. Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_grace_period: Option<Duration>,

    /// Time that evictions that a PodDisruptionBudget refuses are tried again before the removal is given up. Default:
    /// `2m`. More than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) > duration('0s')")
        .message("drain.evictionTimeout must be more than 0: no eviction could ever succeed"))]
    pub eviction_timeout: Option<Duration>,

    /// True if a node is kept while a pod on it uses `hostPath` or an `emptyDir` on disk. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_local_storage: Option<bool>,

    /// True if a node is kept while it has a pod of `kube-system` that no PodDisruptionBudget covers. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_system_pods: Option<bool>,

    /// A node is kept while a pod on it belongs to a ReplicaSet or ReplicationController with fewer replicas than this.
    /// Default: 0. Range: 0 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_replicas: Option<i32>,
}

/// Policy for nodes that something else made than what makes nodes now.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftPolicy {
    /// They stay.
    #[default]
    Ignore,
    /// They are replaced.
    Replace,
}

/// Nodes of a pool that are replaced because they are outdated.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.maxAge) || has(self.drift) || has(self.preferredPool)")
    .message("rotation must set maxAge, drift or preferredPool: without them no node is replaced"))]
pub struct Rotation {
    /// Age from which a node is replaced, less or more by up to 10 %: the part follows from its name, so that nodes made
    /// together do not leave together. Budgets know such removals as `Expired`. Default: nodes are never too old. At least
    /// `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1h')")
        .message("rotation.maxAge must be at least 1h: nodes would be replaced before their replacements are ready"))]
    pub max_age: Option<Duration>,

    /// Policy for a node that something else made than what makes nodes now. Provider KWOK: other labels, taints,
    /// capacity or reserved amounts of `template`. Provider AWS: another launch template, another version of it, or another
    /// launch configuration than the group's. A node of which this is not known has not drifted. `Ignore`: it stays.
    /// `Replace`: it is replaced, and budgets know its removal as `Drifted`. Default: `Ignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DriftPolicy")]
    pub drift: Option<DriftPolicy>,

    /// Policy for a node whose pods fit a pool that `nodes.expanders` of the ClusterScalingPolicy prefer to this one: by
    /// `priority`, or by `price`, where the chain begins with `Priority` or `Price`. Such nodes are there after a shortage of
    /// the preferred pool. `Ignore`: it stays. `Replace`: it is replaced once the preferred pool has been quiet for as long
    /// again as its last backoff. The node and each pod on it that must move have to be 1 hour old. Budgets know its removal
    /// as `NotPreferred`. Default: `Ignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PreferredPoolPolicy")]
    pub preferred_pool: Option<PreferredPoolPolicy>,
}

/// Policy for nodes whose pods fit a pool that is preferred to theirs.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferredPoolPolicy {
    /// They stay.
    #[default]
    Ignore,
    /// They are replaced.
    Replace,
}

/// A condition that calls for the replacement of a node.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairRule {
    /// Type of the condition, such as `KernelDeadlock`. Required. Not `Ready`.
    #[schemars(length(min = 1, max = 316))]
    #[x_kube(validation = Rule::new("self != 'Ready'")
        .message("repair[].condition must not be Ready: nodes that are not ready are removed after scaleDown.unreadyFor"))]
    pub condition: String,

    /// The status that means that something is wrong. Default: `True`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ConditionWord")]
    pub status: Option<ConditionWord>,

    /// Time that the condition must have had this status. Default: `10m`. At least `1m`.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1m')")
        .message("repair[].for must be at least 1m: conditions can be wrong for a moment"))]
    pub lasts: Option<Duration>,
}

/// The status of a condition.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionWord {
    /// The condition holds.
    #[default]
    True,
    /// It does not hold.
    False,
    /// Nobody knows.
    Unknown,
}

/// Other bounds while a window is open.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.minNodes) || has(self.maxNodes)")
    .message("schedules[] must set minNodes or maxNodes or both: without them the schedule has no effect"))]
#[x_kube(validation = Rule::new("!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes")
    .message("schedules[].minNodes must not be greater than its maxNodes: lower minNodes or raise maxNodes").field_path(".minNodes"))]
pub struct Schedule {
    /// Name of the schedule, unique in the pool; status names the active ones by it. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,

    /// Window in which the schedule holds. Required.
    pub window: Window,

    /// Fewest nodes while the window is open. Default: the pool's own `minNodes`. Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: Option<i32>,

    /// Most nodes while the window is open. Default: the pool's own `maxNodes`. Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: Option<i32>,
}
