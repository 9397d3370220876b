//! Messages of KEDA's external scaler protocol. It decides nothing.
//!
//! Source: KEDA 2.21, pkg/scalers/externalscaler/externalscaler.proto, names and numbers of fields.

use std::collections::BTreeMap;

/// The path of an RPC begins with it.
pub const SCALER_SERVICE: &str = "/externalscaler.ExternalScaler/";

/// The workload of a question.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScaledObjectRef {
    /// Name of the ScaledObject.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Parameters of its trigger.
    #[prost(btree_map = "string, string", tag = "3")]
    pub scaler_metadata: BTreeMap<String, String>,
}

/// The activity of a workload.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IsActiveResponse {
    /// True if there is work for it.
    #[prost(bool, tag = "1")]
    pub result: bool,
}

/// The metrics of a workload.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricSpecResponse {
    /// The metrics.
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}

/// A metric and its target.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricSpec {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Its target, of servers of an older generation.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    /// Its target.
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}

/// Question for a metric.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetMetricsRequest {
    /// The workload.
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    /// Name of the metric.
    #[prost(string, tag = "2")]
    pub metric_name: String,
}

/// The values of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsResponse {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}

/// A value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricValue {
    /// Name of the metric.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// The value, of servers of an older generation.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    /// The value.
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}
