//! Numbers on replica decisions for Prometheus: how late workloads are looked at, what was decided, what the sources of
//! metrics answered. Labels are words of closed sets, never a workload's name.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use headroom_api::ScalingDecision;

/// Buckets of lateness in seconds: from on time to a few sync periods; what is promised is under a second.
const LATENESS_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 15.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvaluationLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabel {
    direction: &'static str,
    reason: String,
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReadLabel {
    source: &'static str,
    outcome: &'static str,
}

/// Result of an evaluation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationResult {
    /// As it should.
    Done,
    /// Something was in the way, so that it is made again soon.
    Again,
    /// By a panic.
    Panicked,
}

/// The metrics of the loop of workloads.
pub struct WorkloadMetrics {
    lateness: Histogram,
    evaluations: Family<EvaluationLabel, Counter>,
    decisions: Family<DecisionLabel, Counter>,
    reads: Family<ReadLabel, Counter>,
    shards: Gauge,
}

impl std::fmt::Debug for WorkloadMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkloadMetrics").finish_non_exhaustive()
    }
}

impl Default for WorkloadMetrics {
    fn default() -> Self {
        Self {
            lateness: Histogram::new(LATENESS_BUCKETS),
            evaluations: Family::default(),
            decisions: Family::default(),
            reads: Family::default(),
            shards: Gauge::default(),
        }
    }
}

impl WorkloadMetrics {
    /// Registers them, and returns their names as queries have them, without the registry's prefix.
    pub fn register(&self, registry: &mut Registry) -> [&'static str; 5] {
        registry.register_with_unit(
            "workload_lateness",
            "From when a workload was due to when it was looked at",
            Unit::Seconds,
            self.lateness.clone(),
        );
        registry.register("workload_looks", "Looks at workloads, by result", self.evaluations.clone());
        registry.register(
            "replica_decisions",
            "Changes of a workload's size that were decided, by direction, reason and outcome",
            self.decisions.clone(),
        );
        registry.register(
            "metric_reads",
            "Questions to sources of metrics, by source and outcome",
            self.reads.clone(),
        );
        registry.register(
            "workload_shards",
            "Shards of workloads that this replica runs; the only one where they are not divided",
            self.shards.clone(),
        );
        [
            "workload_lateness_seconds",
            "workload_looks_total",
            "replica_decisions_total",
            "metric_reads_total",
            "workload_shards",
        ]
    }

    /// This replica runs so many shards.
    pub fn runs(&self, shards_count: usize) {
        self.shards.set(i64::try_from(shards_count).unwrap_or(i64::MAX));
    }

    /// An evaluation began so long after it was due.
    pub fn began(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }

    /// An evaluation ended.
    pub fn ended(&self, result: EvaluationResult) {
        let result = match result {
            EvaluationResult::Done => "done",
            EvaluationResult::Again => "again",
            EvaluationResult::Panicked => "panicked",
        };
        self.evaluations.get_or_create(&EvaluationLabel { result }).inc();
    }

    /// A change of size was decided, and made or not.
    pub fn decided(&self, decision: &ScalingDecision) {
        let direction = if decision.from < decision.to { "up" } else { "down" };
        let label =
            DecisionLabel { direction, reason: decision.reason.clone(), outcome: decision.outcome.clone() };
        self.decisions.get_or_create(&label).inc();
    }

    /// A source was asked and answered: `MetricsRead`, or the reason of the failure.
    pub fn read(&self, source: &'static str, outcome: &'static str) {
        self.reads.get_or_create(&ReadLabel { source, outcome }).inc();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn lateness_decisions_and_reads_are_counted_without_names_of_workloads() {
        let metrics = WorkloadMetrics::default();
        metrics.began(Duration::from_millis(30));
        metrics.ended(EvaluationResult::Done);
        metrics.read("external", "MetricsOutage");
        metrics.decided(&ScalingDecision {
            time: Time(jiff::Timestamp::UNIX_EPOCH),
            from: 5,
            to: 2,
            reason: "AllMetricsBelowTarget".to_owned(),
            message: None,
            outcome: "Done".to_owned(),
        });
        let (mut registry, mut text) = (Registry::with_prefix("headroom"), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"headroom_workload_lateness_seconds_bucket{le="0.05"} 1"#,
            r#"headroom_workload_lateness_seconds_bucket{le="0.025"} 0"#,
            r#"headroom_workload_looks_total{result="done"} 1"#,
            r#"headroom_replica_decisions_total{direction="down",reason="AllMetricsBelowTarget",outcome="Done"} 1"#,
            r#"headroom_metric_reads_total{source="external",outcome="MetricsOutage"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
