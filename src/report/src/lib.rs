//! What users read of the operator: status from memory and back, events, metrics. It decides nothing, and writes nothing but status
//! and events.

mod ca_metrics;
mod conditions;
pub mod events;
pub mod fit_workload;
mod learned_devices;
pub mod metrics;
pub mod news;
pub mod otlp;
pub mod parse;
pub mod policy;
pub mod render;
pub mod replica_traces;
#[cfg(test)]
mod round_trip_tests;
pub mod traces;
mod words;
pub mod workload;
pub mod workload_metrics;
pub mod write;
mod write_buffers;
mod write_capacity_quotas;
mod write_foreign;
mod write_requests;
pub mod write_scaling;
pub mod write_scorecard;

pub use events::{EventNote, EventRecorder};
pub use metrics::Metrics;
pub use parse::{parse, scaling_status_of, status_of};
pub use policy::{ClusterView, render_cluster};
pub use render::{Acceptance, GroupView, PoolView, TemplateSource, render};
pub use workload::{HpaOwned, MetricTrouble, PolicyPhase, WorkloadMemory, WorkloadView};
pub use workload_metrics::{EvaluationResult, WorkloadMetrics};
pub use write::{KubeSink, StatusSink, WriteError};
pub use write_scaling::ScalingSink;
pub use write_scorecard::ScorecardSink;
