//! NodePool, provider AWS: Auto Scaling groups that the operator makes and removes itself.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::Duration;
use super::node_pool::{PRICE_PATTERN, Price};

/// The form of a launch template's id.
pub const LAUNCH_TEMPLATE_ID_PATTERN: &str = "^lt-[0-9a-f]{1,32}$";

/// The form of a launch template's name.
pub const LAUNCH_TEMPLATE_NAME_PATTERN: &str = r"^[A-Za-z0-9(). /_-]+$";

/// The form of a launch template's version.
pub const LAUNCH_TEMPLATE_VERSION_PATTERN: &str = r"^(\$Default|\$Latest|[1-9][0-9]{0,9})$";

/// The form of a subnet's id.
pub const SUBNET_ID_PATTERN: &str = "^subnet-[0-9a-f]{1,32}$";

/// The form of a type of machine, or of all types of a family.
pub const INSTANCE_TYPE_PATTERN: &str = r"^[a-z0-9-]+\.([a-z0-9-]+|\*)$";

/// Greatest `minSpotTypes`: a pool considers at most 45 groups, and a type has one for each zone.
pub const MIN_SPOT_TYPES_MAX: i32 = 20;

/// Groups that the operator makes: one for each type of machine, zone and market that is needed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsManaged {
    /// Launch template of the groups. It names image, security groups, instance profile and user data; its instance type is
    /// replaced, and it must not ask for spot instances itself. Required.
    pub launch_template: AwsLaunchTemplate,

    /// Subnets of the groups: each group is in one. Of several subnets of one zone the first by id is taken. Required. 1 to
    /// 20.
    #[schemars(length(min = 1, max = 20))]
    pub subnets: Vec<AwsSubnets>,

    /// Conditions that a machine must meet, all of them. Without one on `kubernetes.io/arch` machines are `amd64`, without
    /// one on `karpenter.sh/capacity-type` they are `on-demand`. Bare metal and, unless a condition names the type, the
    /// family or GPUs, types with GPUs and previous generations are left out. Default: none. At most 30.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 30))]
    #[x_kube(validation = Rule::new("self.all(r, r.key != 'kubernetes.io/arch' || (r.operator == 'In' && size(r.values) == 1))")
        .message("managed.requirements on kubernetes.io/arch must be operator In with one value: a launch template has one image; make another pool for the other architecture"))]
    pub requirements: Vec<AwsRequirement>,

    /// Prices of machines, in place of those that are known otherwise: spot prices are read from EC2, and prices on demand are
    /// known for common families in us-east-1. The first entry that names a machine counts. Among the types of the pool the
    /// lowest price for what they take is bought; one without a price comes after those with one. Default: none. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub prices: Vec<AwsPrice>,

    /// Highest price of a machine. Dearer ones, and those whose price is unknown, are not bought; nodes that are there stay.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price: Option<Price>,

    /// Fewest types over which spot machines are spread, as far as so many types suit the pods: AWS takes machines of one type
    /// back together. No type gets more than its even share, rounded up, of the spot machines that are there and those that
    /// are bought. Default: 1. Range: 1 to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MIN_SPOT_TYPES_MAX))]
    pub min_spot_types: Option<i32>,

    /// Time after which a group without instances is deleted. It begins anew when the operator does. Default: `10m`. At least
    /// `1m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1m')")
        .message("managed.deleteEmptyAfter must be at least 1m: groups would be made and deleted by turns"))]
    pub delete_empty_after: Option<Duration>,
}

/// A launch template, by id or by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.id) != has(self.name)")
    .message("managed.launchTemplate must have exactly one of id and name: add one, or remove the other"))]
pub struct AwsLaunchTemplate {
    /// Id of the launch template. Default: none; required unless `name` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = LAUNCH_TEMPLATE_ID_PATTERN))]
    pub id: Option<String>,

    /// Name of the launch template. Default: none; required unless `id` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 128), regex(pattern = LAUNCH_TEMPLATE_NAME_PATTERN))]
    pub name: Option<String>,

    /// Version of the launch template: a number, `$Default` or `$Latest`. Groups of another version grow no more. Default:
    /// `$Default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10), regex(pattern = LAUNCH_TEMPLATE_VERSION_PATTERN))]
    pub version: Option<String>,
}

/// Subnets, by id or by tags.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.id) != has(self.tags)")
    .message("managed.subnets[] must have exactly one of id and tags: add one, or remove the other"))]
pub struct AwsSubnets {
    /// Id of one subnet. Default: none; required unless `tags` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = SUBNET_ID_PATTERN))]
    pub id: Option<String>,

    /// Tags that subnets must have, all of these; an empty value matches any. Default: none; required unless `id` is set. 1
    /// to 10 tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "subnet_tags")]
    pub tags: BTreeMap<String, String>,
}

fn subnet_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 10,
        "additionalProperties": { "type": "string", "maxLength": 256 },
    })
}

/// A condition that a machine must meet.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(self.operator in ['Gt', 'Lt']) || (size(self.values) == 1 && self.values[0].matches('^[0-9]{1,9}$') \
    && self.key in ['karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-generation'])")
    .message("managed.requirements[] with operator Gt or Lt must have one whole number as its value, and a key that is a number: use In or NotIn for the others").field_path(".values"))]
#[x_kube(validation = Rule::new("self.key != 'karpenter.sh/capacity-type' || self.values.all(v, v in ['spot', 'on-demand'])")
    .message("managed.requirements[] on karpenter.sh/capacity-type must name spot or on-demand: correct the value").field_path(".values"))]
#[x_kube(validation = Rule::new("self.key != 'kubernetes.io/arch' || self.values.all(v, v in ['amd64', 'arm64'])")
    .message("managed.requirements[] on kubernetes.io/arch must name amd64 or arm64: correct the value").field_path(".values"))]
pub struct AwsRequirement {
    /// The property, in Karpenter's words. `instance-cpu`: virtual CPUs. `instance-memory`: MiB as sold.
    /// `instance-gpu-count`: NVIDIA GPUs. Of type `m7g.2xlarge`: category `m`, generation `7`, family `m7g`, size `2xlarge`.
    /// Required.
    pub key: AwsRequirementKey,

    /// Relation of the machine's property to `values`. `In`: one of them. `NotIn`: none of them. `Gt`: greater. `Lt`: less.
    /// Required.
    pub operator: AwsOperator,

    /// Values. Required. 1 to 60.
    #[schemars(length(min = 1, max = 60), inner(length(min = 1, max = 63)))]
    pub values: Vec<String>,
}

/// Price of a type of machine, or of all types of a family.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.perHour) != has(self.perCpuHour)")
    .message("managed.prices[] must have exactly one of perHour and perCpuHour: add one, or remove the other"))]
#[x_kube(validation = Rule::new("!self.instanceType.endsWith('*') || has(self.perCpuHour)")
    .message("managed.prices[] of a whole family must have perCpuHour: its types differ in size, and so in perHour").field_path(".instanceType"))]
pub struct AwsPrice {
    /// Type, such as `m7i.large`, or all types of a family, as `m7i.*`. Required.
    #[schemars(length(max = 40), regex(pattern = INSTANCE_TYPE_PATTERN))]
    pub instance_type: String,

    /// Market in which the price holds. Default: `on-demand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AwsCapacityType")]
    pub capacity_type: Option<AwsCapacityType>,

    /// Price of one machine for one hour, a decimal number in the currency of all other prices: spot prices that are read are
    /// in US dollars. Default: none; required unless `perCpuHour` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 13), regex(pattern = PRICE_PATTERN))]
    pub per_hour: Option<String>,

    /// Price for one hour of each virtual CPU of a machine. Default: none; required unless `perHour` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 13), regex(pattern = PRICE_PATTERN))]
    pub per_cpu_hour: Option<String>,
}

/// Markets in which machines are bought.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AwsCapacityType {
    /// At the list price.
    #[default]
    OnDemand,
    /// At the price of the spot market; AWS may take the machine back.
    Spot,
}

/// Properties of machines that conditions are about.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AwsRequirementKey {
    /// Virtual CPUs.
    #[serde(rename = "karpenter.k8s.aws/instance-cpu")]
    Cpu,
    /// Memory in MiB, as sold.
    #[serde(rename = "karpenter.k8s.aws/instance-memory")]
    Memory,
    /// NVIDIA GPUs.
    #[serde(rename = "karpenter.k8s.aws/instance-gpu-count")]
    Gpus,
    /// The letters before the generation.
    #[serde(rename = "karpenter.k8s.aws/instance-category")]
    Category,
    /// The first number in the name.
    #[serde(rename = "karpenter.k8s.aws/instance-generation")]
    Generation,
    /// The name before the point.
    #[serde(rename = "karpenter.k8s.aws/instance-family")]
    Family,
    /// The name after the point.
    #[serde(rename = "karpenter.k8s.aws/instance-size")]
    Size,
    /// The whole name.
    #[serde(rename = "node.kubernetes.io/instance-type")]
    InstanceType,
    /// `amd64` or `arm64`.
    #[serde(rename = "kubernetes.io/arch")]
    Architecture,
    /// `spot` or `on-demand`.
    #[serde(rename = "karpenter.sh/capacity-type")]
    Market,
    /// The zone.
    #[serde(rename = "topology.kubernetes.io/zone")]
    Zone,
}

impl AwsRequirementKey {
    /// True if its values are numbers.
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Self::Cpu | Self::Memory | Self::Gpus | Self::Generation)
    }
}

/// Relations of properties to values.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwsOperator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Greater than the value.
    Gt,
    /// Less than the value.
    Lt,
}
