//! The format of the vectors of the horizontal pod autoscaler. Unknown fields are errors, so that nothing is skipped.

use std::collections::BTreeMap;

use headroom_core::pods::amount::Amount;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    pub name: String,
    #[serde(default, rename = "desc")]
    pub _desc: String,
    pub options: Options,
    pub admitted: bool,
    #[serde(default)]
    pub admission_errors: Vec<AdmissionError>,
    pub hpa_submitted: Option<Hpa>,
    pub hpa: Hpa,
    #[serde(default)]
    pub other_hpas: Vec<OtherHpa>,
    #[serde(default)]
    pub default_containers: Vec<Container>,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Options {
    pub downscale_stabilization_seconds: i64,
    pub tolerance: f64,
    pub cpu_initialization_period_seconds: i64,
    pub delay_of_initial_readiness_status_seconds: i64,
    pub sync_period_seconds: i64,
    pub feature_gates: Gates,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    #[serde(rename = "HPAConfigurableTolerance")]
    pub configurable_tolerance: bool,
    #[serde(rename = "HPAScaleToZero")]
    pub scale_to_zero: bool,
    #[serde(rename = "PodLevelResources")]
    pub pod_level_resources: bool,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdmissionError {
    pub field: String,
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hpa {
    #[serde(rename = "apiVersion")]
    pub _api_version: String,
    #[serde(rename = "kind")]
    pub _kind: String,
    pub metadata: Metadata,
    pub spec: Value,
    pub status: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherHpa {
    pub name: String,
    pub selector: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    pub at: f64,
    pub before: Option<String>,
    pub hpa_spec: Option<Value>,
    pub scale: Option<Scale>,
    pub pods: Option<Vec<Pod>>,
    pub metrics: Option<Metrics>,
    #[serde(default)]
    pub faults: Faults,
    #[serde(default)]
    pub unportable: Vec<String>,
    pub expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scale {
    pub spec_replicas: i32,
    pub status_replicas: i32,
    #[serde(default)]
    pub selector: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pod {
    pub name: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub phase: Option<String>,
    pub deletion_timestamp: Option<f64>,
    pub start_time_offset: Option<f64>,
    pub ready: Option<String>,
    pub ready_transition_offset: Option<f64>,
    pub containers: Option<Vec<Container>>,
    #[serde(default)]
    pub sidecars: Vec<Container>,
    #[serde(default)]
    pub init_containers: Vec<Container>,
    pub pod_requests: Option<Container>,
    pub overhead: Option<Container>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub cpu_request_milli: Option<i64>,
    pub mem_request_bytes: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    #[serde(default)]
    pub resource: ResourceMetrics,
    #[serde(default)]
    pub custom: CustomMetrics,
    #[serde(default)]
    pub external: BTreeMap<String, ExternalMetric>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceMetrics {
    #[serde(default)]
    pub pods: BTreeMap<String, PodMetrics>,
    pub error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodMetrics {
    #[serde(default)]
    pub containers: BTreeMap<String, Usage>,
    pub timestamp_offset: Option<f64>,
    pub window: Option<i64>,
    pub labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    pub cpu: Option<i64>,
    pub memory: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomMetrics {
    #[serde(default)]
    pub pods: BTreeMap<String, PodsMetric>,
    #[serde(default)]
    pub objects: Vec<ObjectMetric>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodsMetric {
    #[serde(default)]
    pub values: BTreeMap<String, MetricValue>,
    #[serde(default)]
    pub metric_labels: BTreeMap<String, String>,
    pub error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectMetric {
    pub kind: String,
    pub name: String,
    pub metric: String,
    #[serde(default)]
    pub metric_labels: BTreeMap<String, String>,
    pub value: Option<MetricValue>,
    pub error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalMetric {
    #[serde(default)]
    pub values: Vec<ExternalValue>,
    pub error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalValue {
    pub value: MetricValue,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Thousandths, or a quantity.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum MetricValue {
    Milli(i64),
    Quantity(Amount),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Faults {
    pub get_scale: Option<String>,
    pub update_scale: Option<String>,
    pub update_status: Option<String>,
    #[serde(default)]
    pub update_scale_conflicts: i64,
    /// The read after a conflict is ignored when it fails.
    #[serde(rename = "getScaleOnRetry")]
    pub _get_scale_on_retry: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expect {
    pub desired_replicas: Option<i32>,
    pub status: ExpectedStatus,
    pub status_written: bool,
    pub events: Vec<ExpectedEvent>,
    pub action: String,
    pub error: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedStatus {
    pub current_replicas: i32,
    pub desired_replicas: i32,
    pub current_metrics: Vec<Value>,
    pub last_scale_time: Option<i64>,
    pub conditions: Vec<Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEvent {
    #[serde(rename = "type")]
    pub type_: String,
    pub reason: String,
    pub message: Option<String>,
}
