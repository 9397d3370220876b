//! A user's spec for a workload's size, with the field names of autoscaling/v2. It checks nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amount::Amount;

/// The spec of a HorizontalPodAutoscaler, defaulted or not, admitted or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HpaSpec {
    /// The resource that is scaled.
    pub scale_target_ref: ScaleTargetRef,
    /// Fewest replicas; absent counts as 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Most replicas.
    pub max_replicas: i32,
    /// Metrics that the size is computed from; the largest proposal counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// Limits on the speed of change, by direction. Absent: the legacy rules, which have no policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,
}

/// The resource that is scaled: anything with a scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTargetRef {
    /// Group and version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// One metric. Exactly the member that `type_` names should be set; admission checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// Resource, ContainerResource, Pods, Object or External.
    #[serde(rename = "type")]
    pub type_: String,
    /// A resource of the pods, all containers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceSource>,
    /// A resource of one container of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceSource>,
    /// A custom metric of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsSource>,
    /// A custom metric of one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectSource>,
    /// A metric from outside of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSource>,
}

/// A resource of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSource {
    /// The resource, such as cpu or memory.
    pub name: String,
    /// averageUtilization or averageValue.
    pub target: MetricTarget,
}

/// A resource of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceSource {
    /// The resource, such as cpu or memory.
    pub name: String,
    /// The container.
    pub container: String,
    /// averageUtilization or averageValue.
    pub target: MetricTarget,
}

/// A custom metric of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsSource {
    /// The metric.
    pub metric: MetricIdentifier,
    /// averageValue.
    pub target: MetricTarget,
}

/// A custom metric of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// The object.
    pub described_object: ScaleTargetRef,
    /// The metric.
    pub metric: MetricIdentifier,
    /// value or averageValue, by its type.
    pub target: MetricTarget,
}

/// A metric from outside of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSource {
    /// The metric.
    pub metric: MetricIdentifier,
    /// value or averageValue.
    pub target: MetricTarget,
}

/// Name of a metric, and which of its series count.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricIdentifier {
    /// The name.
    pub name: String,
    /// Absent: no filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<MetricSelector>,
}

/// A metav1.LabelSelector as written: admission does not look at its operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSelector {
    /// Exact pairs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MetricSelectorRequirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist; anything else fails when the metric is asked for.
    pub operator: String,
    /// The values; empty for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Target of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// Utilization, Value or AverageValue. Only Object metrics look at it.
    #[serde(rename = "type")]
    pub type_: String,
    /// The metric as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Amount>,
    /// The metric divided by the number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Amount>,
    /// Percent of what the pods request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// Limits on the speed of change, by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Upwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Downwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// The rules of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Time that proposals are remembered, in seconds, 0 to 3600. Downwards absent: the operator's option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    /// Max, Min or Disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<String>,
    /// The rates; absent is defaulted, an empty list is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<ScalingPolicyRule>>,
    /// Deviation of the metric from its target, as a fraction, up to which the size is kept; absent: the operator's
    /// option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Amount>,
}

/// One rate: so many pods, or so many percent, in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicyRule {
    /// Pods or Percent.
    #[serde(rename = "type")]
    pub type_: String,
    /// Number of pods, or percent of the size.
    pub value: i32,
    /// The period, in seconds, 1 to 1800.
    pub period_seconds: i32,
}
