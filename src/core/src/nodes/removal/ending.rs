//! How a removal ends before its node does: given up as a whole, or letting go of one victim, with the reason noted.

use std::sync::Arc;

use crate::history::{Action, DecisionOutcome, Intent, PoolHistory, RemovalPhase};
use crate::nodes::removal::removal_of_mut;
use crate::reason::Reason;
use crate::time::UnixTime;

/// Longest message of a decision, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// Gives the whole removal up: its marks come off, and the decision says why. A failure starts the pool's cooldown.
pub(super) fn undo(
    memory: &mut PoolHistory,
    intent: &mut Intent,
    reason: Reason,
    words: &str,
    outcome: DecisionOutcome,
    now: UnixTime,
) {
    let removal = removal_of_mut(intent);
    if removal.phase == RemovalPhase::Undoing {
        return;
    }
    removal.phase = RemovalPhase::Undoing;
    removal.phase_since = now;
    conclude(memory, &intent.id, reason, words, outcome);
    note_failure(memory, outcome, now);
}

/// Drops one victim of an intent that is held outside of `memory`; its mark is then an orphan and comes off.
pub(super) fn release(
    memory: &mut PoolHistory,
    intent: &mut Intent,
    node: &str,
    reason: Reason,
    words: &str,
    outcome: DecisionOutcome,
    now: UnixTime,
) {
    let victims = &mut removal_of_mut(intent).victims;
    let before = victims.len();
    victims.retain(|victim| &*victim.node != node);
    if victims.len() == before {
        return;
    }
    note_failure(memory, outcome, now);
    let Some(decision) = memory.decisions.iter_mut().find(|decision| decision.id == intent.id) else {
        return;
    };
    decision.to = decision.to.saturating_add(1).min(decision.from);
    if decision.to == decision.from {
        return conclude(memory, &intent.id, reason, words, outcome);
    }
    let longer = format!("{}; node {node} stays: {words}", decision.message);
    if longer.len() <= MESSAGE_BYTES_MAX {
        decision.message = longer.into();
    }
}

/// The same for an intent of `memory`; it is closed when it has no victims left.
pub(super) fn let_go(
    memory: &mut PoolHistory,
    id: &str,
    node: &str,
    reason: Reason,
    words: &str,
    outcome: DecisionOutcome,
    now: UnixTime,
) {
    let Some(index) = memory.intents.iter().position(|intent| &*intent.id == id) else { return };
    if !matches!(memory.intents[index].action, Action::Remove(_)) {
        return;
    }
    let mut intent = memory.intents.remove(index);
    release(memory, &mut intent, node, reason, words, outcome, now);
    if !removal_of_mut(&mut intent).victims.is_empty() {
        memory.intents.insert(index, intent);
    }
}

/// The decision's end, with what stood in the way.
fn conclude(memory: &mut PoolHistory, id: &str, reason: Reason, words: &str, outcome: DecisionOutcome) {
    if let Some(decision) = memory.decisions.iter_mut().find(|decision| &*decision.id == id) {
        decision.outcome = outcome;
        decision.reason = reason;
        decision.message = shortened(words);
    }
}

fn note_failure(memory: &mut PoolHistory, outcome: DecisionOutcome, now: UnixTime) {
    if outcome == DecisionOutcome::Failed {
        memory.last_failure = Some(now);
    }
}

/// The words, cut at a character's boundary.
pub(super) fn shortened(words: &str) -> Arc<str> {
    let mut end = words.len().min(MESSAGE_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].into()
}
