//! Order of the writes of one group's size: a write waits for those decided before it, while they may come yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::history::{IncreasePhase, PoolHistory};
use headroom_core::plan::Step;
use headroom_core::world::IntentId;

/// True if a step would change the size of a group on which another write is still to come, for providers that write sizes.
///
/// An increase asks for a size, and is asked for again until it is answered. Whoever lowers the size meanwhile has it bought
/// once more, and one that counts from the size of an increase before it finds that size missing. So:
/// - An increase waits until the increases that it counts from are answered, and until no deletion in the group is under way.
/// - A deletion waits until every increase of the group is answered. Each of these ends by its deadline at the latest.
///
/// `deleting` are pools and intents of the deletions whose call is under way.
#[must_use]
pub(super) fn waits(step: &Step, memory: &PoolHistory, deleting: &BTreeSet<(Arc<str>, IntentId)>) -> bool {
    let unanswered = |group: &str| {
        let growing = memory.growing(group);
        growing
            .filter(|(_, increase)| increase.phase == IncreasePhase::Journalled)
            .map(|(intent, increase)| (intent.id.clone(), increase.to))
            .collect::<Vec<_>>()
    };
    match step {
        Step::Increase { pool, intent, group, from, .. } => {
            let mut removals = memory.removals().filter(|(_, removal)| removal.group == *group);
            unanswered(group).iter().any(|(id, to)| id != intent && to <= from)
                || removals.any(|(intent, _)| deleting.contains(&(pool.clone(), intent.id.clone())))
        }
        Step::Delete { group, .. } => !unanswered(group).is_empty(),
        Step::Cancel { .. } | Step::Mark { .. } | Step::Evict { .. } | Step::Unmark { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::history::{Action, Increase, Intent, Removal, RemovalPhase};
    use headroom_core::reason::Reason;
    use headroom_core::testing::NOW;

    use super::*;

    fn intent(id: &str, action: Action) -> Intent {
        let reason = Reason::Empty;
        Intent { id: id.into(), epoch: 1, action, reason, started_at: NOW, deadline: NOW }
    }

    fn increase(id: &str, from: u32, to: u32) -> Intent {
        intent(id, Action::Increase(Increase::journalled("a".into(), from, to)))
    }

    fn removal(id: &str) -> Intent {
        let phase = RemovalPhase::Deleting;
        let removal = Removal { group: "a".into(), victims: vec![], phase, phase_since: NOW, surges: vec![] };
        intent(id, Action::Remove(removal))
    }

    fn memory(intents: Vec<Intent>) -> PoolHistory {
        PoolHistory { intents, ..PoolHistory::default() }
    }

    fn ask(id: &str, group: &str, from: u32, to: u32) -> Step {
        let (pool, intent, group) = ("general".into(), id.into(), group.into());
        Step::Increase { pool, intent, group, from, to, started_at: NOW }
    }

    fn delete(group: &str) -> Step {
        let (pool, intent, group) = ("general".into(), "1-9".into(), group.into());
        Step::Delete { pool, intent, group, victims: vec![], force: false }
    }

    /// Returns an increase after the cloud has accepted it.
    fn accepted(mut intent: Intent) -> Intent {
        if let Action::Increase(increase) = &mut intent.action {
            increase.phase = IncreasePhase::Requested;
        }
        intent
    }

    #[test]
    fn an_increase_waits_for_the_answer_to_the_one_it_counts_from() {
        let none = BTreeSet::new();
        let open = memory(vec![increase("1-1", 1, 2), increase("1-2", 2, 3)]);
        assert!(!waits(&ask("1-1", "a", 1, 2), &open, &none), "the first is asked for");
        assert!(
            waits(&ask("1-2", "a", 2, 3), &open, &none),
            "the group has not got the size that it counts from"
        );
        assert!(!waits(&ask("1-3", "b", 0, 1), &open, &none), "other groups wait for nobody");
        let answered = memory(vec![accepted(increase("1-1", 1, 2)), increase("1-2", 2, 3)]);
        assert!(!waits(&ask("1-2", "a", 2, 3), &answered, &none));
    }

    #[test]
    fn a_deletion_waits_while_a_size_is_asked_for_again() {
        let none = BTreeSet::new();
        let open = memory(vec![removal("1-9"), increase("1-10", 2, 3)]);
        assert!(waits(&delete("a"), &open, &none), "the increase would buy once more what goes");
        assert!(!waits(&delete("b"), &open, &none));
        assert!(!waits(&ask("1-10", "a", 2, 3), &open, &none), "one of the two goes first");
        let answered = memory(vec![removal("1-9"), accepted(increase("1-10", 2, 3))]);
        assert!(!waits(&delete("a"), &answered, &none));
    }

    #[test]
    fn an_increase_waits_for_a_deletion_that_is_under_way() {
        let open = memory(vec![removal("1-9"), increase("1-10", 2, 3)]);
        let under_way: BTreeSet<(Arc<str>, IntentId)> = [("general".into(), "1-9".into())].into();
        assert!(waits(&ask("1-10", "a", 2, 3), &open, &under_way));
        assert!(!waits(&ask("1-11", "b", 0, 1), &open, &under_way));
    }
}
