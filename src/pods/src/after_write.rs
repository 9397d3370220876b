//! Effect of the outcome of the scale's write on a decision: event, conditions, status and memory.

use crate::behavior;
use crate::conditions::{self, ABLE_TO_SCALE};
use crate::decision::{
    ActionLabel, Decision, ErrorLabel, Event, EventType, Rescale, SurgeStep, Tick, WriteOutcome,
};

/// Completes a decision with what became of its write. Without a change to write the outcome is not looked at.
///
/// - Written: `SuccessfulRescale`, AbleToScale `SucceededRescale`, lastScaleTime, and the memory with the scale event.
/// - Failed: `FailedRescale`, AbleToScale False `FailedUpdateScale`; desiredReplicas stays what it was, no scale event.
/// - Not written on purpose: the status shows the size decided on, the memory holds no scale event.
///
/// Source: podautoscaler horizontal.go, reconcileAutoscaler, from the write of the scale on.
#[must_use]
pub fn after_write(decision: Decision, outcome: &WriteOutcome) -> Tick {
    let mut tick = Tick {
        status: decision.status,
        events: decision.events,
        events_after_status: decision.events_after_status,
        memory: decision.memory,
        action: ActionLabel::None,
        error: decision.error,
        failed_early: decision.failed_early,
    };
    let Some(Rescale { from, to, reason }) = decision.rescale else {
        tick.memory = decision.journal;
        return tick;
    };
    match outcome {
        WriteOutcome::NotWritten => {}
        WriteOutcome::Written { at } => {
            let words = format!("the target's scale was set to {to}");
            let (status, second) = (&mut tick.status, at.second());
            conditions::set(status, ABLE_TO_SCALE, true, conditions::SUCCEEDED_RESCALE, words, second);
            status.last_scale_time = Some(second);
            if let Some(to_zero) = decision.scaled_to_zero {
                conditions::set_scaled_to_zero(status, to_zero, second);
            }
            tick.events.push(Event {
                type_: EventType::Normal,
                reason: match decision.steps.surge {
                    Some(SurgeStep::Begins) => conditions::SURGE_FOR_DRAIN,
                    Some(SurgeStep::Ends) => conditions::SURGE_ENDED,
                    Some(SurgeStep::Holds) | None => conditions::SUCCESSFUL_RESCALE,
                },
                message: format!("New size: {to}; reason: {reason}"),
            });
            tick.action = if from < to { ActionLabel::ScaleUp } else { ActionLabel::ScaleDown };
            // The journal has the instant of the decision; retries after conflicts make the change younger.
            if let Some((from, to)) = decision.own_change {
                behavior::record(&mut tick.memory, decision.behavior.as_ref(), from, to, *at);
            }
            tick.memory.surged_from = decision.journal.surged_from;
            tick.memory.zero = decision.journal.zero;
            if let Some(zero) = tick.memory.zero.as_mut().filter(|_| 0 < to) {
                zero.scaled_at = None;
            }
        }
        WriteOutcome::Failed { message } => {
            tick.events.push(Event {
                type_: EventType::Warning,
                reason: conditions::FAILED_RESCALE,
                message: format!("New size: {to}; reason: {reason}; error: {message}"),
            });
            let words = format!("the target's scale could not be set: {message}");
            let (status, second) = (&mut tick.status, decision.now.second());
            conditions::set(status, ABLE_TO_SCALE, false, conditions::FAILED_UPDATE_SCALE, words, second);
            status.desired_replicas = decision.stored_desired;
            (tick.error, tick.failed_early) = (ErrorLabel::Internal, true);
        }
    }
    tick
}
