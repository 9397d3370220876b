//! The status of a HorizontalPodAutoscaler in the words of autoscaling/v2. It decides nothing.

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::spec::{MetricIdentifier, ScaleTargetRef};
use headroom_values::time::UnixTime;

/// Status of an HPA. Equality is semantic: quantities by value, times in whole seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HpaStatus {
    /// Time at which the size was last changed.
    #[serde(default, with = "rfc3339_option", skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<UnixTime>,
    /// The size in the scale's spec before this tick's change.
    #[serde(default)]
    pub current_replicas: i32,
    /// The size written, or the current one when nothing was.
    #[serde(default)]
    pub desired_replicas: i32,
    /// One entry a metric in the order of the spec; those that failed are empty ([`MetricStatus::default`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub current_metrics: Vec<MetricStatus>,
    /// In the order in which they were first set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl HpaStatus {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// True if there is a condition of this type, and it holds.
    #[must_use]
    pub fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// AbleToScale, ScalingActive, ScalingLimited or ScaledToZero.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Time at which the status last changed.
    #[serde(default, with = "rfc3339_option", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<UnixTime>,
    /// One word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// One sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Current value of one metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricStatus {
    /// The type of the metric; empty for one that failed.
    #[serde(rename = "type")]
    pub type_: String,
    /// For type Resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceStatus>,
    /// For type ContainerResource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceStatus>,
    /// For type Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsStatus>,
    /// For type Object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectStatus>,
    /// For type External.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStatus>,
}

/// A resource of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// The resource.
    pub name: String,
    /// Current value.
    pub current: MetricValueStatus,
}

/// A resource of one container of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerResourceStatus {
    /// The resource.
    pub name: String,
    /// The container.
    pub container: String,
    /// Current value.
    pub current: MetricValueStatus,
}

/// A custom metric of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodsStatus {
    /// The metric.
    pub metric: MetricIdentifier,
    /// Current value.
    pub current: MetricValueStatus,
}

/// A custom metric of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// The object.
    pub described_object: ScaleTargetRef,
    /// The metric.
    pub metric: MetricIdentifier,
    /// Current value.
    pub current: MetricValueStatus,
}

/// A metric from outside of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalStatus {
    /// The metric.
    pub metric: MetricIdentifier,
    /// Current value.
    pub current: MetricValueStatus,
}

/// The value of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricValueStatus {
    /// As it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Amount>,
    /// Divided by the number of pods; absent while there is no pod to divide by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Amount>,
    /// Percent of what the pods request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// Times as RFC 3339 in whole seconds.
mod rfc3339_option {
    use serde::{Deserialize, Deserializer, Serializer};

    use headroom_values::time::UnixTime;

    #[allow(clippy::ref_option)] // The signature is serde's.
    pub(super) fn serialize<S: Serializer>(at: &Option<UnixTime>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.collect_str(at),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<UnixTime>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.map(|text| {
            let wrong =
                || serde::de::Error::custom(format!("{text:?} is no time such as 2026-01-31T12:00:00Z"));
            UnixTime::parse(&text).ok_or_else(wrong)
        })
        .transpose()
    }
}
