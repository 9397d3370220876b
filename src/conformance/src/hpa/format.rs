//! The format of the vectors of the horizontal pod autoscaler. Unknown fields are errors, so that nothing is skipped.

use std::collections::BTreeMap;

use headroom_core::pods::amount::Amount;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Scenario {
    pub(crate) name: String,
    #[serde(default, rename = "desc")]
    pub(crate) _desc: String,
    pub(crate) options: Options,
    pub(crate) admitted: bool,
    #[serde(default)]
    pub(crate) admission_errors: Vec<AdmissionError>,
    pub(crate) hpa_submitted: Option<Hpa>,
    pub(crate) hpa: Hpa,
    #[serde(default)]
    pub(crate) other_hpas: Vec<OtherHpa>,
    #[serde(default)]
    pub(crate) default_containers: Vec<Container>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Options {
    pub(crate) downscale_stabilization_seconds: i64,
    pub(crate) tolerance: f64,
    pub(crate) cpu_initialization_period_seconds: i64,
    pub(crate) delay_of_initial_readiness_status_seconds: i64,
    pub(crate) sync_period_seconds: i64,
    pub(crate) feature_gates: Gates,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gates {
    #[serde(rename = "HPAConfigurableTolerance")]
    pub(crate) configurable_tolerance: bool,
    #[serde(rename = "HPAScaleToZero")]
    pub(crate) scale_to_zero: bool,
    #[serde(rename = "PodLevelResources")]
    pub(crate) pod_level_resources: bool,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdmissionError {
    pub(crate) field: String,
    #[serde(rename = "type")]
    pub(crate) type_: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Hpa {
    #[serde(rename = "apiVersion")]
    pub(crate) _api_version: String,
    #[serde(rename = "kind")]
    pub(crate) _kind: String,
    pub(crate) metadata: Metadata,
    pub(crate) spec: Value,
    pub(crate) status: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherHpa {
    pub(crate) name: String,
    pub(crate) selector: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Step {
    pub(crate) at: f64,
    pub(crate) before: Option<String>,
    pub(crate) hpa_spec: Option<Value>,
    pub(crate) scale: Option<Scale>,
    pub(crate) pods: Option<Vec<Pod>>,
    pub(crate) metrics: Option<Metrics>,
    #[serde(default)]
    pub(crate) faults: Faults,
    #[serde(default)]
    pub(crate) unportable: Vec<String>,
    pub(crate) expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Scale {
    pub(crate) spec_replicas: i32,
    pub(crate) status_replicas: i32,
    #[serde(default)]
    pub(crate) selector: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) phase: Option<String>,
    pub(crate) deletion_timestamp: Option<f64>,
    pub(crate) start_time_offset: Option<f64>,
    pub(crate) ready: Option<String>,
    pub(crate) ready_transition_offset: Option<f64>,
    pub(crate) containers: Option<Vec<Container>>,
    #[serde(default)]
    pub(crate) sidecars: Vec<Container>,
    #[serde(default)]
    pub(crate) init_containers: Vec<Container>,
    pub(crate) pod_requests: Option<Container>,
    pub(crate) overhead: Option<Container>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) cpu_request_milli: Option<i64>,
    pub(crate) mem_request_bytes: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    #[serde(default)]
    pub(crate) resource: ResourceMetrics,
    #[serde(default)]
    pub(crate) custom: CustomMetrics,
    #[serde(default)]
    pub(crate) external: BTreeMap<String, ExternalMetric>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceMetrics {
    #[serde(default)]
    pub(crate) pods: BTreeMap<String, PodMetrics>,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PodMetrics {
    #[serde(default)]
    pub(crate) containers: BTreeMap<String, Usage>,
    pub(crate) timestamp_offset: Option<f64>,
    pub(crate) window: Option<i64>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) cpu: Option<i64>,
    pub(crate) memory: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomMetrics {
    #[serde(default)]
    pub(crate) pods: BTreeMap<String, PodsMetric>,
    #[serde(default)]
    pub(crate) objects: Vec<ObjectMetric>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PodsMetric {
    #[serde(default)]
    pub(crate) values: BTreeMap<String, MetricValue>,
    #[serde(default)]
    pub(crate) metric_labels: BTreeMap<String, String>,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ObjectMetric {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) metric: String,
    #[serde(default)]
    pub(crate) metric_labels: BTreeMap<String, String>,
    pub(crate) value: Option<MetricValue>,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExternalMetric {
    #[serde(default)]
    pub(crate) values: Vec<ExternalValue>,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExternalValue {
    pub(crate) value: MetricValue,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

/// Thousandths, or a quantity.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum MetricValue {
    Milli(i64),
    Quantity(Amount),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Faults {
    pub(crate) get_scale: Option<String>,
    pub(crate) update_scale: Option<String>,
    pub(crate) update_status: Option<String>,
    #[serde(default)]
    pub(crate) update_scale_conflicts: i64,
    /// The read after a conflict is ignored when it fails.
    #[serde(rename = "getScaleOnRetry")]
    pub(crate) _get_scale_on_retry: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    pub(crate) desired_replicas: Option<i32>,
    pub(crate) status: ExpectedStatus,
    pub(crate) status_written: bool,
    pub(crate) events: Vec<ExpectedEvent>,
    pub(crate) action: String,
    pub(crate) error: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ExpectedStatus {
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    pub(crate) current_metrics: Vec<Value>,
    pub(crate) last_scale_time: Option<i64>,
    pub(crate) conditions: Vec<Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedEvent {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
}
