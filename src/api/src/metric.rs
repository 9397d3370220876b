//! Metrics, targets and scaling behavior in the very words of autoscaling/v2, with bounds of our own; decides nothing.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::{NAME_PATTERN, Quantity};
use super::json_path::JSON_PATH_MAX;

/// Source of the number that a workload is scaled by.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MetricType {
    /// CPU or memory of whole pods.
    #[default]
    Resource,
    /// CPU or memory of one container of each pod.
    ContainerResource,
    /// A metric that each pod has.
    Pods,
    /// A metric of one Kubernetes object.
    Object,
    /// A metric that belongs to no Kubernetes object.
    External,
    /// The answer to a query to a Prometheus server that the ClusterScalingPolicy names.
    Prometheus,
    /// The answer of a server of KEDA's external scaler protocol that the ClusterScalingPolicy names.
    ExternalScaler,
    /// A number in the JSON that an HTTP server gives which the ClusterScalingPolicy names.
    #[serde(rename = "HTTP")]
    Http,
    /// The number of elements or entries that a Redis server counts which the ClusterScalingPolicy names.
    Redis,
}

/// One metric and its target. Exactly the member that `type` names is set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'Resource') == has(self.resource) && (self.type == 'ContainerResource') == has(self.containerResource) && (self.type == 'Pods') == has(self.pods) && (self.type == 'Object') == has(self.object) && (self.type == 'External') == has(self.external) && (self.type == 'Prometheus') == has(self.prometheus) && (self.type == 'ExternalScaler') == has(self.externalScaler) && (self.type == 'HTTP') == has(self.http) && (self.type == 'Redis') == has(self.redis)")
    .message("metrics[] must have exactly the member that its type names: set that one and remove the others").field_path(".type"))]
#[x_kube(validation = Rule::new("!has(self.activation) || self.type == 'Object' || self.type == 'External' || self.type == 'Prometheus' || self.type == 'ExternalScaler' || self.type == 'HTTP' || self.type == 'Redis'")
    .message("activation needs a metric that does not come from the pods (Object, External, Prometheus, ExternalScaler, HTTP or Redis): remove it from this one").field_path(".activation"))]
#[x_kube(validation = Rule::new("!has(self.name) || self.type == 'Object' || self.type == 'External' || self.type == 'Prometheus' || self.type == 'ExternalScaler' || self.type == 'HTTP' || self.type == 'Redis'")
    .message("metrics[].name makes a metric a variable of the formula, which needs a metric that does not come from the pods (Object, External, Prometheus, ExternalScaler, HTTP or Redis): remove it from this one").field_path(".name"))]
#[x_kube(validation = Rule::new("has(self.name) || (!has(self.object) || has(self.object.target)) && (!has(self.external) || has(self.external.target)) && (!has(self.prometheus) || has(self.prometheus.target)) && (!has(self.http) || has(self.http.target)) && (!has(self.redis) || has(self.redis.target))")
    .message("a metric without a name needs a target: set it, or make the metric a variable of the formula by a name"))]
#[x_kube(validation = Rule::new("!has(self.name) || !(has(self.activation) || has(self.object) && has(self.object.target) || has(self.external) && has(self.external.target) || has(self.prometheus) && has(self.prometheus.target) || has(self.http) && has(self.http.target) || has(self.redis) && has(self.redis.target) || has(self.externalScaler) && (has(self.externalScaler.target) || has(self.externalScaler.targetType)))")
    .message("a metric with a name is a variable of the formula, which has the target and the activation: remove target, targetType and activation from the metric").field_path(".name"))]
#[x_kube(validation = Rule::new("!has(self.fallbackValue) || has(self.name)")
    .message("fallbackValue is the number of a variable of the formula while its metric is missing: give the metric a name, or remove it").field_path(".fallbackValue"))]
pub struct MetricSpec {
    /// Kind of the metric. Required.
    #[serde(rename = "type")]
    pub type_: MetricType,

    /// Name of the metric in `formula`, unique in the policy. A metric with a name has no target and proposes nothing itself: the
    /// formula does. Only for the types Object, External, Prometheus, ExternalScaler, HTTP and Redis. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = VARIABLE_PATTERN))]
    pub name: Option<String>,

    /// Number that the formula takes in place of the metric while that is missing. Only with a name. Default: none; the formula then
    /// has no value while the metric is missing, and nothing shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_value: Option<Quantity>,

    /// Value of the metric as a whole, not divided by the pods, above which it is active: with `minReplicas: 0` a workload leaves 0 as
    /// soon as one of its metrics is active, and goes to 0 once none has been for `timing.toZeroAfter`. An external scaler that says
    /// itself whether it is active is believed. Only for the types Object, External, Prometheus, ExternalScaler, HTTP and Redis; not below 0.
    /// Default: `0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Quantity>,

    /// For type Resource. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,

    /// For type ContainerResource. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceMetric>,

    /// For type Pods. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsMetric>,

    /// For type Object. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMetric>,

    /// For type External. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetric>,

    /// For type Prometheus. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusMetric>,

    /// For type ExternalScaler. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_scaler: Option<ExternalScalerMetric>,

    /// For type HTTP. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpMetric>,

    /// For type Redis. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisMetric>,
}

/// Form of a name in a formula.
pub const VARIABLE_PATTERN: &str = "^[a-zA-Z_][a-zA-Z0-9_]*$";

/// One number out of the metrics that have a name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("self.target.type != 'Utilization'")
    .message("formula.target must be of type Value or AverageValue: a formula has no requests").field_path(".target"))]
pub struct Formula {
    /// Expression over the names of metrics, in CEL, in which all numbers are floating-point: `+`, `-`, `*`, `/`, comparisons, `&&`,
    /// `||`, `!`, `a ? b : c`, and `max`, `min` and `sum` of several numbers. It uses each metric that has a name. A result below 0
    /// counts as 0; one that is infinite or not a number, as by a division by 0, counts as unknown. Required.
    #[schemars(length(min = 1, max = 1024))]
    pub expression: String,

    /// Target of the result: `value`, or `averageValue` over the replicas. Required.
    pub target: MetricTarget,

    /// Result, not divided by the pods, above which the formula is active, as `metrics[].activation`. Not below 0. Default: `0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Quantity>,
}

/// CPU or memory of the pods, from metrics.k8s.io.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceMetric {
    /// `cpu` or `memory`. Required.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Target. Required.
    pub target: MetricTarget,
}

/// CPU or memory of one container of the pods, from metrics.k8s.io.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerResourceMetric {
    /// `cpu` or `memory`. Required.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Name of the container. Required.
    #[schemars(length(min = 1, max = 63))]
    pub container: String,

    /// Target. Required.
    pub target: MetricTarget,
}

/// A metric that each pod has, from custom.metrics.k8s.io; averaged over the pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodsMetric {
    /// Metric by its name. Required.
    pub metric: MetricIdentifier,

    /// Target; only `averageValue` makes sense. Required.
    pub target: MetricTarget,
}

/// A metric of one object, from custom.metrics.k8s.io.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetric {
    /// The object, in the policy's namespace. Required.
    pub described_object: ObjectName,

    /// Metric by its name. Required.
    pub metric: MetricIdentifier,

    /// Target: `value`, or `averageValue` over the replicas. Required, unless the metric has a name. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
}

/// A metric that belongs to no object, from external.metrics.k8s.io.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternalMetric {
    /// Metric by its name. Required.
    pub metric: MetricIdentifier,

    /// Target: `value`, or `averageValue` over the replicas. Required, unless the metric has a name. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
}

/// The answer to a query of Prometheus, confined to the policy's namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrometheusMetric {
    /// Name of the server among `workloads.metricSources` of the ClusterScalingPolicy. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub source: String,

    /// A query that has one number as its answer. Comments, control characters, ranges that look back over 7 days in all
    /// and subqueries of over 11000 steps are refused. Required.
    #[schemars(length(min = 1, max = 1024))]
    pub query: String,

    /// Target: `value`, or `averageValue` over the replicas. Required, unless the metric has a name. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
}

/// A number in the JSON that an HTTP server gives, such as the length of a queue that a broker's own API reports. It is asked by
/// GET, and the answer may have 64 KiB.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpMetric {
    /// Name of the server among `workloads.metricSources` of the ClusterScalingPolicy. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub source: String,

    /// Path, and query, below the `url` of the source, such as `/api/queues/%2F/orders`. It begins with `/`, has no part that is `.`
    /// or `..`, and other than letters, digits and `-._~!$&'()*+,;=:@/?` is written as `%XX`. Required.
    #[schemars(length(min = 1, max = 1024), regex(pattern = HTTP_PATH_PATTERN))]
    pub path: String,

    /// Place of the number in the answer, a JSONPath (RFC 9535) of names, indices, `[*]` and filters that compare with a constant, such
    /// as `$.messages` or `$.queues[?@.name=='orders'].messages`; several names may stand at the end. What is there are numbers, or texts
    /// that are numbers; several are added up, as those of an external metric are. Required.
    #[schemars(length(min = 1, max = JSON_PATH_MAX))]
    pub value: String,

    /// Target: `value`, or `averageValue` over the replicas. Required, unless the metric has a name. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
}

/// The number of elements of a key in Redis, or of entries of a stream that a consumer group has not done. No element is read.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.group) == (has(self.count) && self.count != 'Elements')")
    .message("redis.group is the consumer group of which count: Pending or Lag is asked: set both, or remove both").field_path(".group"))]
pub struct RedisMetric {
    /// Name of the server among `workloads.metricSources` of the ClusterScalingPolicy. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub source: String,

    /// The key. Required.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,

    /// Number of the database. Default: 0. Range: 0 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub database: Option<i32>,

    /// What is counted. `Elements`: elements of a list, set, sorted set or hash, entries of a stream; a key that is not there has
    /// none. `Pending`: entries of a stream that `group` has been given and not acknowledged. `Lag`: entries that it has not
    /// been given yet (Redis 7 and later). Default: `Elements`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RedisCount")]
    pub count: Option<RedisCount>,

    /// Consumer group of a stream. Required with `count: Pending` and `Lag`, and only allowed then. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub group: Option<String>,

    /// Target: `value`, or `averageValue` over the replicas. Required, unless the metric has a name. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
}

/// What is counted of a key.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedisCount {
    /// Elements of it.
    #[default]
    Elements,
    /// Entries that a group has been given and not acknowledged.
    Pending,
    /// Entries that a group has not been given yet.
    Lag,
}

/// Form of a path below the address of an HTTP server.
pub const HTTP_PATH_PATTERN: &str = "^/([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*$";

/// The answer of a server of KEDA's external scaler protocol. The server gets name and namespace of the policy as those of the
/// ScaledObject.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.target) || !has(self.targetType)")
    .message("externalScaler.targetType is the form of the server's own target: remove it, or remove target").field_path(".targetType"))]
pub struct ExternalScalerMetric {
    /// Name of the server among `workloads.metricSources` of the ClusterScalingPolicy. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub source: String,

    /// Name of the metric, as the server has it in its answer to GetMetricSpec. Default: the only one that the server has;
    /// required where it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub metric_name: Option<String>,

    /// Parameters that the server gets with each question, as `triggers[].metadata` of a ScaledObject. Default: none. At most
    /// 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "scaler_metadata")]
    pub metadata: BTreeMap<String, String>,

    /// Target: `value`, or `averageValue` over the replicas. Default: the one that the server has for the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,

    /// Form of the server's own target: `AverageValue` or `Value`, as `metricType` of a trigger. Default: `AverageValue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScalerTargetType")]
    pub target_type: Option<ScalerTargetType>,

    /// True to keep a stream of the server's activity open (StreamIsActive): a change of it evaluates the workload within a
    /// second. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<bool>,
}

/// Form of a target that comes from a server.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScalerTargetType {
    /// The metric divided by the pods.
    #[default]
    AverageValue,
    /// The metric as it is.
    Value,
}

fn scaler_metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": SCALER_METADATA_MAX,
        "additionalProperties": { "type": "string", "maxLength": SCALER_VALUE_MAX },
    })
}

/// Most parameters of one external scaler metric.
pub const SCALER_METADATA_MAX: usize = 32;
/// Longest value of a parameter, in characters.
pub const SCALER_VALUE_MAX: usize = 1024;

/// An object in the policy's namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Group and version, such as `apps/v1`. Default: `v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub api_version: Option<String>,

    /// Kind, such as `Deployment`. Required.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// Name. Required.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A metric by name, and a choice among its series.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricIdentifier {
    /// Name of the metric. Required.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Series that count. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<MetricSelector>,
}

/// A choice by labels; everything given must hold.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSelector {
    /// Labels with their values. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selected_labels")]
    pub match_labels: BTreeMap<String, String>,

    /// Conditions on labels. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<MetricSelectorRequirement>,
}

fn selected_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 253 },
    })
}

/// A condition on one label.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricSelectorRequirement {
    /// The label. Required.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. Required.
    #[schemars(length(min = 1, max = 16))]
    pub operator: String,

    /// The values that `In` and `NotIn` compare with. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 253)))]
    pub values: Vec<String>,
}

/// Form of a target.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MetricTargetType {
    /// A percentage of the requests.
    #[default]
    Utilization,
    /// A number as it is.
    Value,
    /// A number divided by the pods.
    AverageValue,
}

/// Target of a metric. Exactly the member that `type` names is set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'Utilization') == has(self.averageUtilization) && (self.type == 'Value') == has(self.value) && (self.type == 'AverageValue') == has(self.averageValue)")
    .message("target must have exactly the member that its type names (averageUtilization, value or averageValue): set that one and remove the others").field_path(".type"))]
pub struct MetricTarget {
    /// Member that is given, of the three. Required.
    #[serde(rename = "type")]
    pub type_: MetricTargetType,

    /// Percentage of the requests of the pods that they use on average; for CPU and memory only. Default: none.
    /// Range: 1 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub average_utilization: Option<i32>,

    /// The metric as it is. More than 0. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,

    /// The metric divided by the pods. More than 0. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
}

/// Rates at which a workload may grow and shrink, as in autoscaling/v2. What a side leaves out has the defaults of
/// autoscaling/v2.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Rate at which it may grow. Default: no stabilization; the larger of 4 pods and 100 percent per 15 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,

    /// Rate at which it may shrink. Default: the stabilization of the ClusterScalingPolicy (5 min); 100 percent per 15 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// The rules of one direction.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Stabilization window, in seconds: growth takes the lowest recommendation of the window, shrinking the highest.
    /// Default: 0 for growth, that of the ClusterScalingPolicy for shrinking. Range: 0 to 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<i32>,

    /// Policy that counts: `Max` lets the most change through, `Min` the least, `Disabled` none. Default: `Max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SelectPolicy")]
    pub select_policy: Option<SelectPolicy>,

    /// Change that is allowed within a period. Default: those of autoscaling/v2. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub policies: Vec<RatePolicy>,

    /// Deviation of the metric from its target, as a fraction such as `"0.05"`, up to which the number of replicas is
    /// kept. Default: that of the ClusterScalingPolicy (0.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
}

/// Choice among several policies.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectPolicy {
    /// The one that lets the most change through.
    #[default]
    Max,
    /// The one that lets the least change through.
    Min,
    /// No change in this direction.
    Disabled,
}

/// Change that is allowed within a period.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RatePolicy {
    /// True if `value` is a count or a percentage. Required.
    #[serde(rename = "type")]
    pub type_: RateType,

    /// Number of pods, or how many percent of them. Required. Range: 1 to 1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub value: i32,

    /// Length of the period. Required. Range: 1 to 1800.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: i32,
}

/// Unit of a rate.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateType {
    /// Pods.
    #[default]
    Pods,
    /// Percent of the pods at the beginning of the period.
    Percent,
}
