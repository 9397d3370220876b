//! The part of the ClusterScalingPolicy about workloads: parsed, in range, every default filled in.

use std::time::Duration;

use headroom_core::quantity::Quantity;

use super::Checker;
use crate::api::cluster_scaling_policy::{HpaOwnership, MetricSource, WorkloadScaling};
use crate::api::common;

/// How workloads are scaled in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedWorkloads {
    /// Who runs HorizontalPodAutoscalers.
    pub ownership: HpaOwnership,
    /// How often each workload is looked at, 1 s to 10 min.
    pub sync_period: Duration,
    /// How far a metric may be off its target, in thousandths, 0 to 1000.
    pub tolerance_milli: i64,
    /// The window of a workload whose behavior names none, at most 1 h.
    pub downscale_stabilization: Duration,
    /// For how long after its start the CPU of a pod that is not ready does not count, at most 1 h.
    pub cpu_initialization_period: Duration,
    /// A pod that became unready within this time after its start has never been ready, at most 1 h.
    pub initial_readiness_delay: Duration,
    /// Prometheus servers that policies may ask, no two of one name.
    pub metric_sources: Vec<MetricSource>,
}

impl Default for ValidatedWorkloads {
    /// The defaults of the controller-manager's flags.
    fn default() -> Self {
        Self {
            ownership: HpaOwnership::Observe,
            sync_period: Duration::from_secs(15),
            tolerance_milli: 100,
            downscale_stabilization: Duration::from_secs(300),
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            metric_sources: Vec::new(),
        }
    }
}

/// Longest of the periods that are no sync period.
const HOUR: Duration = Duration::from_secs(3600);
/// Longest sync period.
const SYNC_PERIOD_MAX: Duration = Duration::from_secs(600);

pub(super) fn read_workloads(check: &mut Checker, written: &WorkloadScaling) -> ValidatedWorkloads {
    // Without `..`: a new field that nobody reads here must not compile.
    let WorkloadScaling {
        hpa_ownership,
        sync_period,
        tolerance,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        metric_sources,
    } = written;
    let path = |field: &str| format!("spec.workloads.{field}");
    let sync_period = check.positive_duration(sync_period.as_ref(), 15, &path("syncPeriod"));
    check.require(sync_period <= SYNC_PERIOD_MAX, &path("syncPeriod"), "is longer than 10m", "use 1s to 10m");
    let tolerance_milli = tolerance.as_ref().map_or(100, |text| fraction(check, text, &path("tolerance")));
    let mut at_most_an_hour = |written: &Option<common::Duration>, default: u64, field: &str| {
        let length = check.duration(written.as_ref(), default, &path(field));
        check.require(length <= HOUR, &path(field), "is longer than 1h", "shorten it to at most 1h");
        length.min(HOUR)
    };
    let downscale_stabilization = at_most_an_hour(downscale_stabilization, 300, "downscaleStabilization");
    let cpu_initialization_period =
        at_most_an_hour(cpu_initialization_period, 300, "cpuInitializationPeriod");
    let initial_readiness_delay = at_most_an_hour(initial_readiness_delay, 30, "initialReadinessDelay");
    check.unique(metric_sources.iter().map(|source| source.name.as_str()), &path("metricSources"));
    ValidatedWorkloads {
        ownership: hpa_ownership.unwrap_or_default(),
        sync_period: sync_period.clamp(Duration::from_secs(1), SYNC_PERIOD_MAX),
        tolerance_milli,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        metric_sources: metric_sources.clone(),
    }
}

/// A fraction from 0 to 1, in thousandths.
fn fraction(check: &mut Checker, written: &common::Quantity, path: &str) -> i64 {
    let milli = match Quantity::parse(&written.0) {
        Ok(quantity) => quantity.milli(),
        Err(problem) => {
            check.error(
                path,
                format!("{:?} is no quantity: {problem}", written.0),
                "use a fraction such as \"0.1\"",
            );
            0
        }
    };
    check.require((0..=1000).contains(&milli), path, "is out of range", "use a fraction from 0 to 1");
    milli.clamp(0, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<ValidatedWorkloads, Vec<String>> {
        let written: WorkloadScaling = serde_saphyr::from_str(yaml).unwrap();
        let mut check = Checker::default();
        let read = read_workloads(&mut check, &written);
        check.finish(read).map_err(|errors| errors.into_iter().map(|error| error.path).collect())
    }

    #[test]
    fn nothing_written_means_the_defaults_of_the_controller_manager() {
        assert_eq!(read("{}"), Ok(ValidatedWorkloads::default()));
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let found = read(
            "{syncPeriod: 0s, tolerance: '1.5', downscaleStabilization: 2h, initialReadinessDelay: soon}",
        );
        let expected = [
            "spec.workloads.syncPeriod",
            "spec.workloads.tolerance",
            "spec.workloads.downscaleStabilization",
            "spec.workloads.initialReadinessDelay",
        ];
        assert_eq!(found.unwrap_err(), expected);
    }
}
