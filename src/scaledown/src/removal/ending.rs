//! End of a removal before its node's: given up as a whole, or letting go of one victim, with the reason noted.

use std::sync::Arc;

use crate::removal::removal_of_mut;
use headroom_cluster::history::{Action, DecisionOutcome, Intent, PoolHistory, RemovalPhase};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Longest message of a decision, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// Gives the whole removal up: its marks come off, and the decision records the reason. A failure starts the pool's
/// cooldown.
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
    removal.surges.clear();
    conclude(memory, &intent.id, reason, words, outcome);
    note_failure(memory, outcome, now);
}

/// Drops one victim of an intent that is held outside of `memory`, by its [`Victim::name`]; its mark is then an orphan and
/// comes off.
///
/// If groups go as a whole (`whole`), the others stay with it, unless the deletion has begun: a node that is gone is
/// gone.
#[allow(clippy::too_many_arguments)] // Where it ends, which node, and all that the record says of it.
pub(super) fn release(
    memory: &mut PoolHistory,
    intent: &mut Intent,
    node: &str,
    whole: bool,
    reason: Reason,
    words: &str,
    outcome: DecisionOutcome,
    now: UnixTime,
) {
    let removal = removal_of_mut(intent);
    let stays = removal.victims.iter().any(|victim| &**victim.name() == node);
    let open = removal.phase < RemovalPhase::Deleting;
    if whole && open && stays && intent.reason != Reason::RemovalRequested {
        let words = format!("its group goes as a whole, and node {node} stays: {words}");
        return undo(memory, intent, reason, &words, outcome, now);
    }
    let victims = &mut removal_of_mut(intent).victims;
    let before = victims.len();
    victims.retain(|victim| &**victim.name() != node);
    if victims.len() == before {
        return;
    }
    let none_left = victims.is_empty();
    note_failure(memory, outcome, now);
    let Some(decision) = memory.decisions.iter_mut().find(|decision| decision.id == intent.id) else {
        return;
    };
    decision.to = decision.to.saturating_add(1).min(decision.from);
    if decision.to == decision.from {
        return conclude(memory, &intent.id, reason, words, outcome);
    }
    if none_left {
        // The others have gone.
        decision.outcome = DecisionOutcome::Done;
    }
    let longer = format!("{}; node {node} stays: {words}", decision.message);
    if longer.len() <= MESSAGE_BYTES_MAX {
        decision.message = longer.into();
    }
}

/// The same for an intent of `memory`; it is closed when it has no victims left.
#[allow(clippy::too_many_arguments)] // As above.
pub(super) fn let_go(
    memory: &mut PoolHistory,
    id: &str,
    node: &str,
    whole: bool,
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
    release(memory, &mut intent, node, whole, reason, words, outcome, now);
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

/// The message, cut at a character's boundary.
pub(super) fn shortened(words: &str) -> Arc<str> {
    let mut end = words.len().min(MESSAGE_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].into()
}
