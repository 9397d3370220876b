//! Cuts the status of a ScalingPolicy to 32 KB: reports are shortened, memory never. Pure.

use std::io;

use headroom_api::ScalingPolicyStatus;
use headroom_core::text::cut;

/// Most bytes of a status as JSON, as design rule 9 bounds it.
pub const STATUS_BYTES_MAX: usize = 32 * 1024;
/// Characters of a text that had to become short.
const SHORT_MESSAGE: usize = 96;
/// Decisions and metrics that are left when there is little room.
const FEW: usize = 3;

/// The status with as many reports as fit: first the messages of failures become shorter, then those of earlier
/// decisions, then earlier decisions and further metrics go, then the messages of conditions become shorter, and last the
/// decisions and metrics go altogether. Recommendations, scale events and clocks are never touched: they are memory.
#[must_use]
pub fn fit(mut status: ScalingPolicyStatus) -> ScalingPolicyStatus {
    for shorten in [failures, messages, lists, conditions, all] {
        if bytes(&status) <= STATUS_BYTES_MAX {
            break;
        }
        shorten(&mut status);
    }
    status
}

fn failures(status: &mut ScalingPolicyStatus) {
    for metric in status.recommendation.iter_mut().flat_map(|one| &mut one.metrics) {
        shorten(&mut metric.failure);
    }
}

fn messages(status: &mut ScalingPolicyStatus) {
    for decision in status.decisions.iter_mut().skip(FEW) {
        decision.message = None;
    }
}

fn lists(status: &mut ScalingPolicyStatus) {
    status.decisions.truncate(FEW);
    if let Some(recommendation) = &mut status.recommendation {
        recommendation.metrics.truncate(FEW);
    }
}

fn conditions(status: &mut ScalingPolicyStatus) {
    for condition in &mut status.conditions {
        condition.message = cut(&condition.message, SHORT_MESSAGE).to_owned();
    }
    for decision in &mut status.decisions {
        shorten(&mut decision.message);
    }
}

fn all(status: &mut ScalingPolicyStatus) {
    status.decisions.clear();
    status.recommendation = None;
    for condition in &mut status.conditions {
        condition.message = cut(&condition.message, SHORT_MESSAGE / 3).to_owned();
    }
    if let Some(bounds) = &mut status.bounds {
        bounds.active_schedules.truncate(FEW);
    }
}

fn shorten(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = cut(text, SHORT_MESSAGE).to_owned();
    }
}

/// Bytes of the status as JSON.
fn bytes(status: &ScalingPolicyStatus) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing to a counter cannot fail, and the types hold nothing that JSON cannot.
    let _ = serde_json::to_writer(&mut count, status);
    count.0
}

#[cfg(test)]
mod tests {
    use headroom_core::pods::memory::{EVENTS_MAX, RECOMMENDATIONS_MAX};
    use headroom_core::time::UnixTime;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;
    use headroom_api::{
        ContestStatus, MetricProposal, RecommendationStatus, RecommendedReplicas, ReplicaBounds,
        ScaleEventStatus, ScalingDecision, ZeroStatus,
    };

    fn time(second: usize) -> Time {
        Time(UnixTime(1_800_000_000 + i64::try_from(second).unwrap()).to_jiff())
    }

    /// A status with every list and text at the longest that the operator writes.
    fn fullest() -> ScalingPolicyStatus {
        let metric = || MetricProposal {
            metric: "m".repeat(256),
            current: Some("1".repeat(64)),
            target: Some("1".repeat(64)),
            replicas: Some(i32::MIN),
            active: Some(true),
            failure: Some("f".repeat(512)),
        };
        let decision = |index| ScalingDecision {
            time: time(index),
            from: i32::MAX,
            to: i32::MAX,
            reason: "DesiredWithinRange".to_owned(),
            message: Some("w".repeat(512)),
            outcome: "InProgress".to_owned(),
        };
        let condition = |index: usize| Condition {
            type_: format!("ReplicasContested{index}"),
            status: "Unknown".to_owned(),
            reason: "FailedGetContainerResourceMetric".to_owned(),
            message: "c".repeat(4000),
            last_transition_time: time(0),
            observed_generation: Some(i64::MAX),
        };
        let event = |index| ScaleEventStatus { time: time(index), change: -1_000_000, outdated: true };
        ScalingPolicyStatus {
            observed_generation: Some(i64::MAX),
            conditions: (0..10).map(condition).collect(),
            target: Some("t".repeat(317)),
            last_decision: Some("1000000→1000000".to_owned()),
            reason: Some("r".repeat(128)),
            bounds: Some(ReplicaBounds {
                active_schedules: vec!["s".repeat(63); 32],
                next_schedule_change: Some(time(0)),
                ..ReplicaBounds::default()
            }),
            recommendation: Some(RecommendationStatus { metrics: vec![metric(); 32], steps: Vec::new() }),
            recommendations: (0..RECOMMENDATIONS_MAX)
                .map(|index| RecommendedReplicas { time: time(index), replicas: 1_000_000 })
                .collect(),
            scale_events: (0..2 * EVENTS_MAX).map(event).collect(),
            metrics_failing_since: Some(time(0)),
            zero: Some(ZeroStatus { idle_since: Some(time(0)), scaled_at: Some(time(0)) }),
            contest: Some(ContestStatus {
                manager: "m".repeat(128),
                last_time: time(0),
                count: i32::MAX,
                hold_until: time(0),
            }),
            decisions: (0..20).map(decision).collect(),
            ..ScalingPolicyStatus::default()
        }
    }

    #[test]
    fn the_fullest_status_fits_and_keeps_all_that_is_remembered() {
        let full = fullest();
        assert!(STATUS_BYTES_MAX < bytes(&full));
        let fitted = fit(full.clone());
        assert!(bytes(&fitted) <= STATUS_BYTES_MAX, "{} bytes", bytes(&fitted));
        // Too long to print.
        assert!(fitted.recommendations == full.recommendations);
        assert!(fitted.scale_events == full.scale_events);
        assert_eq!(fitted.metrics_failing_since, full.metrics_failing_since);
        assert_eq!((&fitted.contest, &fitted.zero), (&full.contest, &full.zero));
        assert_eq!(fitted.conditions.len(), full.conditions.len());
        assert!(fit(fitted.clone()) == fitted, "cutting twice is cutting once");
    }

    #[test]
    fn with_little_to_remember_all_decisions_stay() {
        let mut full = ScalingPolicyStatus {
            recommendations: Vec::new(),
            scale_events: Vec::new(),
            conditions: Vec::new(),
            ..fullest()
        };
        // As many as a ScalingPolicy may have.
        full.recommendation.iter_mut().for_each(|one| one.metrics.truncate(16));
        let fitted = fit(full.clone());
        assert!(bytes(&fitted) <= STATUS_BYTES_MAX);
        assert!(fitted.decisions == full.decisions);
        assert_eq!(fitted.recommendation.unwrap().metrics.len(), 16);
    }

    #[test]
    fn an_ordinary_status_is_left_alone() {
        let mut status = fullest();
        status.recommendation = None;
        status.recommendations.truncate(20);
        status.scale_events.clear();
        status.conditions.truncate(1);
        assert!(fit(status.clone()) == status);
    }
}
