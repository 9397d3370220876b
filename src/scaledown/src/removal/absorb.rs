//! Answers of the world to a removal's steps, noted in memory. The next plan looks at the world again.

use crate::removal::ending::{let_go, shortened};
use headroom_cluster::history::{Action, DecisionOutcome, PoolHistory, RemovalPhase};
use headroom_pools::config::Config;
use headroom_pools::plan::{Outcome, StepResult};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Notes the result of one step of a removal; results of increases are not looked at.
///
/// `Marked` and `Deleted` change nothing: that a mark is on, or a node gone, is believed when the world shows it.
/// Nor do `Refused` and `Unknown`: the next tick looks again, and deadlines bound how often.
pub fn absorb_one(memory: &mut PoolHistory, outcome: &Outcome, config: &Config, now: UnixTime) {
    let whole = config.scales_whole(&outcome.pool);
    let id = &*outcome.intent;
    match &outcome.result {
        StepResult::MarkFailed { node, message } => {
            let words = format!("node {node} could not be marked: {message}");
            // The clock of every reason starts anew: an unready node's own condition has begun long ago.
            memory.unneeded.insert(node.clone(), now);
            let_go(memory, id, node, whole, Reason::DeletionFailed, &words, DecisionOutcome::Cancelled, now);
        }
        StepResult::Evicted { node, refused, .. } => {
            let Some((pod, by_budget, message)) = refused.iter().min() else { return };
            let by = if *by_budget { "by a PodDisruptionBudget" } else { "by the API server" };
            let words = format!("eviction of pod {pod} on node {node} refused {by}: {message}");
            if let Some(decision) = memory.decisions.iter_mut().find(|decision| &*decision.id == id) {
                decision.message = shortened(&words);
            }
        }
        StepResult::NotEmpty { node, pod } => {
            let words = format!("pod {pod} came to node {node}");
            let_go(memory, id, node, whole, Reason::PodArrived, &words, DecisionOutcome::Cancelled, now);
        }
        StepResult::Protected { node, pod } => {
            let whose = pod
                .as_ref()
                .map_or_else(|| format!("node {node}"), |pod| format!("pod {pod} on node {node}"));
            let words = format!("{whose} is annotated do-not-disrupt");
            let reason = Reason::DoNotDisruptAnnotation;
            let_go(memory, id, node, whole, reason, &words, DecisionOutcome::Cancelled, now);
        }
        StepResult::DeleteFailed { node, message } => {
            let words = format!("the provider did not delete node {node}: {message}");
            let_go(memory, id, node, whole, Reason::DeletionFailed, &words, DecisionOutcome::Failed, now);
        }
        StepResult::Unmarked { node } => unmarked(memory, id, node),
        StepResult::Marked
        | StepResult::Deleted
        | StepResult::Refused { .. }
        | StepResult::Unknown { .. }
        | StepResult::Increased
        | StepResult::Pending(_)
        | StepResult::Superseded
        | StepResult::IncreaseFailed { .. } => {}
    }
}

/// A victim of a removal that is being undone is free again; the intent ends with the last one.
fn unmarked(memory: &mut PoolHistory, id: &str, node: &str) {
    memory.intents.retain_mut(|intent| {
        let Action::Remove(removal) = &mut intent.action else { return true };
        if &*intent.id != id || removal.phase != RemovalPhase::Undoing {
            return true;
        }
        removal.victims.retain(|victim| &*victim.node != node);
        !removal.victims.is_empty()
    });
}
