//! Conditions and events of an HPA: their types and reasons as upstream names them, and how conditions are set.

use crate::status::{Condition, HpaStatus};
use headroom_values::time::UnixTime;

/// True if the scale can be read and written.
pub const ABLE_TO_SCALE: &str = "AbleToScale";
/// True if a size can be computed.
pub const SCALING_ACTIVE: &str = "ScalingActive";
/// True if the size is held back by bounds or rates.
pub const SCALING_LIMITED: &str = "ScalingLimited";
/// True if the size of 0 was set by whoever runs the HPA, and by nobody else. Also the reason of that.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";

/// AbleToScale: the scale was read.
pub const SUCCEEDED_GET_SCALE: &str = "SucceededGetScale";
/// AbleToScale: the scale could not be read. Also an event.
pub const FAILED_GET_SCALE: &str = "FailedGetScale";
/// AbleToScale: no recent proposal holds the size.
pub const READY_FOR_NEW_SCALE: &str = "ReadyForNewScale";
/// AbleToScale: a recent higher proposal holds a decrease.
pub const SCALE_DOWN_STABILIZED: &str = "ScaleDownStabilized";
/// AbleToScale: a recent lower proposal holds an increase.
pub const SCALE_UP_STABILIZED: &str = "ScaleUpStabilized";
/// AbleToScale: the size was written.
pub const SUCCEEDED_RESCALE: &str = "SucceededRescale";
/// AbleToScale: the size could not be written.
pub const FAILED_UPDATE_SCALE: &str = "FailedUpdateScale";
/// ScalingActive: somebody else has set the size to 0, which pauses a policy with `minReplicas: 0`.
pub const PAUSED_AT_ZERO: &str = "PausedAtZero";
/// ScalingActive: at least one metric gave a proposal.
pub const VALID_METRIC_FOUND: &str = "ValidMetricFound";
/// ScalingActive: the size is 0, which switches scaling off.
pub const SCALING_DISABLED: &str = "ScalingDisabled";
/// ScalingActive and event: the scale's selector can not be read; as a condition also that it has none.
pub const INVALID_SELECTOR: &str = "InvalidSelector";
/// Event: the scale has no selector.
pub const SELECTOR_REQUIRED: &str = "SelectorRequired";
/// ScalingActive and event: another HPA selects the same pods.
pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
/// ScalingActive and event: a Resource metric is unknown.
pub const FAILED_GET_RESOURCE_METRIC: &str = "FailedGetResourceMetric";
/// ScalingActive and event: a ContainerResource metric is unknown.
pub const FAILED_GET_CONTAINER_RESOURCE_METRIC: &str = "FailedGetContainerResourceMetric";
/// ScalingActive and event: a Pods metric is unknown.
pub const FAILED_GET_PODS_METRIC: &str = "FailedGetPodsMetric";
/// ScalingActive and event: an Object metric is unknown.
pub const FAILED_GET_OBJECT_METRIC: &str = "FailedGetObjectMetric";
/// ScalingActive and event: an External metric is unknown.
pub const FAILED_GET_EXTERNAL_METRIC: &str = "FailedGetExternalMetric";
/// ScalingActive and event: the formula has no value.
pub const FAILED_COMPUTE_FORMULA: &str = "FailedComputeFormula";
/// ScalingActive and event: a metric is of no known type.
pub const INVALID_METRIC_SOURCE_TYPE: &str = "InvalidMetricSourceType";
/// ScaledToZero: the last size that was written is another one.
pub const NOT_SCALED_TO_ZERO: &str = "NotScaledToZero";
/// ScalingLimited: nothing holds the size back.
pub const DESIRED_WITHIN_RANGE: &str = "DesiredWithinRange";
/// ScalingLimited: the rate upwards.
pub const SCALE_UP_LIMIT: &str = "ScaleUpLimit";
/// ScalingLimited: the rate downwards.
pub const SCALE_DOWN_LIMIT: &str = "ScaleDownLimit";
/// ScalingLimited: maxReplicas.
pub const TOO_MANY_REPLICAS: &str = "TooManyReplicas";
/// ScalingLimited: minReplicas.
pub const TOO_FEW_REPLICAS: &str = "TooFewReplicas";
/// ScalingLimited: the last replica stays until no metric has been active for long enough.
pub const TO_ZERO_AFTER: &str = "ToZeroAfter";
/// Decision: a workload leaves 0, since a metric is active.
pub const METRIC_ACTIVE: &str = "MetricActive";
/// Event: the size was written, one replica more for a drain.
pub const SURGE_FOR_DRAIN: &str = "SurgeForDrain";
/// Event: the size was written, without the replica that a drain needed.
pub const SURGE_ENDED: &str = "SurgeEnded";
/// Event: no size could be computed.
pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
/// Event: the size was written.
pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
/// Event: the size could not be written.
pub const FAILED_RESCALE: &str = "FailedRescale";
/// Event: the status could not be written.
pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";

/// Sets a condition: found by its type, or appended. Its transition time moves only when its status does.
///
/// Source: podautoscaler horizontal.go, setConditionInList.
pub fn set(
    status: &mut HpaStatus,
    type_: &str,
    holds: bool,
    reason: &'static str,
    message: String,
    now: UnixTime,
) {
    let text = if holds { "True" } else { "False" };
    let index = status.conditions.iter().position(|condition| condition.type_ == type_);
    let index = index.unwrap_or_else(|| {
        status.conditions.push(Condition { type_: type_.to_owned(), ..Condition::default() });
        status.conditions.len() - 1
    });
    let condition = &mut status.conditions[index];
    if condition.status != text {
        condition.last_transition_time = Some(now);
    }
    text.clone_into(&mut condition.status);
    reason.clone_into(&mut condition.reason);
    condition.message = message;
}

/// Sets the condition ScaledToZero.
///
/// Source: podautoscaler horizontal.go of 1.37, reconcileAutoscaler.
pub(crate) fn set_scaled_to_zero(status: &mut HpaStatus, to_zero: bool, now: UnixTime) {
    let (reason, words) = match to_zero {
        true => (
            SCALED_TO_ZERO,
            "the size of 0 was set by whoever runs this HPA: its metrics decide when it ends",
        ),
        false => (NOT_SCALED_TO_ZERO, "the last size that was set is not 0"),
    };
    set(status, SCALED_TO_ZERO, to_zero, reason, words.to_owned(), now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut status = HpaStatus::default();
        let mut set_to = |holds, reason, at| {
            set(&mut status, ABLE_TO_SCALE, holds, reason, String::new(), UnixTime(at));
            let [condition] = status.conditions.as_slice() else { panic!("one condition") };
            (condition.reason.clone(), condition.last_transition_time)
        };
        assert_eq!(set_to(true, "A", 1), ("A".into(), Some(UnixTime(1))));
        assert_eq!(set_to(true, "B", 2), ("B".into(), Some(UnixTime(1))));
        assert_eq!(set_to(false, "C", 3), ("C".into(), Some(UnixTime(3))));
    }
}
