//! Rules for memory that was read back: clocks after a takeover, and caps on what a hand may have written.

use headroom_cluster::history::fit::trim_unneeded;
use headroom_cluster::history::{
    Action, Backoff, EXAMPLES_MAX, Evicted, History, Increase, PoolHistory, REPLACED_MAX, RemovalPhase,
    Unbound, Victim,
};
use headroom_cluster::world::World;
use headroom_cluster::world::provider::GroupOptions;
use headroom_pods::durability::CLOCKS_APART_MAX;
use headroom_pools::config::{Config, Pool};
use headroom_pools::state::foreign::carries_mark;
use headroom_scaledown::consolidation;
use headroom_scaledown::removal::DELETE_TIMEOUT;
use headroom_scaleup::unbound;
use headroom_values::time::{Seconds, UnixTime};

/// A leader may be missing this long before its clocks are set back (design rule 9).
pub const TAKEOVER_GRACE: Seconds = Seconds(120);

/// Farthest deadline of a pool that is not known.
const DEADLINE_MAX: Seconds = Seconds(86_400);
/// Longest time that a spec can contain: three numbers of five digits, in hours.
const WRITTEN_MAX: Seconds = Seconds(3 * 99_999 * 3600);

/// Longest times that a stored instant may lie in the future.
struct Longest {
    increase: Seconds,
    removal: Seconds,
    /// `None` if it is not known.
    backoff: Option<Seconds>,
}

impl Longest {
    /// Whatever the settings are.
    const OF_ANY: Self = Self {
        increase: WRITTEN_MAX,
        removal: Seconds(2 * WRITTEN_MAX.0 + DELETE_TIMEOUT.0),
        backoff: Some(WRITTEN_MAX),
    };

    fn of(pool: Option<&Pool>) -> Self {
        let Some(pool) = pool else {
            return Self { increase: DEADLINE_MAX, removal: DEADLINE_MAX, backoff: None };
        };
        let drain = &pool.scale_down.drain;
        Self {
            // A group's own marks may set a longer one than the pool does.
            increase: pool.scale_up.provision_timeout.max(GroupOptions::LENGTH_MAX),
            removal: Seconds(drain.eviction_timeout.0 + drain.max_grace_period.0 + DELETE_TIMEOUT.0),
            backoff: Some(pool.scale_up.backoff_max.max(pool.scale_up.backoff_initial)),
        }
    }
}

/// Moves every unneeded clock forward by the time nobody watched, if that is more than [`TAKEOVER_GRACE`]: a node is
/// unneeded only for as long as somebody looked. Cooldowns and backoffs count time that has passed, and stay.
pub fn age_clocks(history: &mut History, by: Seconds) {
    if by <= TAKEOVER_GRACE {
        return;
    }
    for memory in history.pools.values_mut() {
        for since in memory.unneeded.values_mut() {
            *since = since.plus(by);
        }
    }
}

/// Moves every clock, cooldown, backoff and deadline by `by`, which may be negative: for a wall clock that was set while
/// the process ran. What has lasted a minute has lasted a minute after it too, and a deadline is as far away as before.
///
/// Instants that people read (decisions, refusals) stay as they were.
pub fn shift_clocks(history: &mut History, by: Seconds) {
    for memory in history.pools.values_mut() {
        for intent in &mut memory.intents {
            intent.started_at = intent.started_at.plus(by);
            intent.deadline = intent.deadline.plus(by);
            match &mut intent.action {
                Action::Remove(removal) => removal.phase_since = removal.phase_since.plus(by),
                Action::Increase(increase) => {
                    increase.accepted_at = increase.accepted_at.map(|at| at.plus(by));
                }
            }
        }
        for backoff in memory.backoffs.values_mut() {
            backoff.since = backoff.since.plus(by);
            backoff.until = backoff.until.plus(by);
        }
        memory.unneeded.values_mut().for_each(|since| *since = since.plus(by));
        for evicted in memory.evicted.values_mut() {
            evicted.since = evicted.since.plus(by);
            evicted.last = evicted.last.plus(by);
        }
        for anticipation in memory.anticipations.values_mut() {
            anticipation.since = anticipation.since.plus(by);
            anticipation.until = anticipation.until.map(|until| until.plus(by));
        }
        for row in memory.unbound.values_mut() {
            for at in [&mut row.room_since, &mut row.bought_at, &mut row.until] {
                *at = at.map(|at| at.plus(by));
            }
        }
        for last in [&mut memory.last_scale_up, &mut memory.last_scale_down, &mut memory.last_failure] {
            *last = last.map(|at| at.plus(by));
        }
        if let Some(stop) = &mut memory.rotation_stop {
            stop.since = stop.since.plus(by);
        }
    }
}

/// Sends deletions that were read back to [`RemovalPhase::Marked`] where a victim's node is there and does not carry the
/// intent's mark: a deletion of ours follows its mark, so the memory is another's, or of another time. The node is marked
/// and drained like any other. A victim whose node is gone stays in its phase: the deletion may have begun, and the live
/// look before each call refuses one whose machine is another node's.
pub fn recheck_deletions(memory: &mut PoolHistory, world: &World, now: UnixTime) {
    for intent in &mut memory.intents {
        let Action::Remove(removal) = &mut intent.action else { continue };
        let unmarked = |victim: &Victim| {
            let node = world.node_named(&victim.node);
            node.is_some_and(|(_, node, _)| !carries_mark(node, &intent.id))
        };
        if removal.phase == RemovalPhase::Deleting && removal.victims.iter().any(unmarked) {
            removal.phase = RemovalPhase::Marked;
            removal.phase_since = now;
        }
    }
}

/// Caps what no plan of ours could have written: instants in the future become `now`, a backoff ends at most its
/// pool's longest backoff from now, a deadline is no farther away than the longest phase, and the youngest clocks beyond
/// [`headroom_cluster::history::UNNEEDED_MAX`] go (design rule 9).
pub fn sanitize(history: &mut History, config: &Config, now: UnixTime) {
    for (name, memory) in &mut history.pools {
        sanitize_pool(memory, &Longest::of(config.pool(name)), now);
    }
}

/// True if a decision under some settings, by a clock that was a minute ahead at most, may have left this memory.
#[must_use]
pub fn is_possible(memory: &PoolHistory, now: UnixTime) -> bool {
    let mut capped = memory.clone();
    sanitize_pool(&mut capped, &Longest::OF_ANY, now.plus(CLOCKS_APART_MAX));
    capped == *memory
}

fn sanitize_pool(memory: &mut PoolHistory, longest: &Longest, now: UnixTime) {
    let PoolHistory {
        intents,
        sequence: _,
        backoffs,
        unneeded,
        evicted,
        anticipations,
        unbound,
        learned: _,
        learned_devices: _,
        refusals,
        blocked,
        replacement,
        consolidation_backoff,
        rotation_stop,
        last_scale_up,
        last_scale_down,
        last_failure,
        decisions,
    } = memory;
    for intent in intents {
        cap(&mut intent.started_at, now);
        if let Action::Increase(Increase { accepted_at: Some(at), .. }) = &mut intent.action {
            cap(at, now);
        }
        let longest = match &mut intent.action {
            Action::Increase(_) => longest.increase,
            Action::Remove(removal) => {
                cap(&mut removal.phase_since, now);
                longest.removal
            }
        };
        cap(&mut intent.deadline, now.plus(longest));
    }
    for backoff in backoffs.values_mut() {
        let Backoff { class: _, failures, since, until, message: _ } = backoff;
        cap(since, now);
        *failures = (*failures).max(1);
        if let Some(longest) = longest.backoff {
            cap(until, now.plus(longest));
        }
    }
    if let Some(replacement) = replacement {
        cap(&mut replacement.since, now);
        cap(&mut replacement.until, now.plus(consolidation::OPEN_MAX));
        if !replacement.rotates() {
            replacement.bought_count = replacement.bought_count.max(1);
        }
        replacement.nodes.truncate(REPLACED_MAX);
    }
    if let (Some(backoff), Some(longest)) = (consolidation_backoff, longest.backoff) {
        cap(&mut backoff.until, now.plus(longest));
        backoff.failures = backoff.failures.max(1);
    }
    if let Some(stop) = rotation_stop {
        cap(&mut stop.since, now);
    }
    unneeded.values_mut().for_each(|since| cap(since, now));
    trim_unneeded(unneeded);
    for Evicted { since, last } in evicted.values_mut() {
        cap(last, now);
        cap(since, *last);
    }
    anticipations.values_mut().for_each(|anticipation| cap(&mut anticipation.since, now));
    unbound.values_mut().for_each(|row| sanitize_unbound(row, now));
    refusals.iter_mut().for_each(|refusal| cap(&mut refusal.since, now));
    blocked.iter_mut().for_each(|blocked| cap(&mut blocked.since, now));
    decisions.iter_mut().for_each(|decision| cap(&mut decision.time, now));
    for last in [last_scale_up, last_scale_down, last_failure].into_iter().flatten() {
        cap(last, now);
    }
}

fn sanitize_unbound(row: &mut Unbound, now: UnixTime) {
    let Unbound { room_since, bought_count: _, bought_at, until, failures, bound_count: _, examples } = row;
    for at in [room_since, bought_at].into_iter().flatten() {
        cap(at, now);
    }
    if let Some(until) = until {
        cap(until, now.plus(unbound::PAUSE_MAX));
        *failures = (*failures).max(1);
    }
    examples.truncate(EXAMPLES_MAX);
}

fn cap(instant: &mut UnixTime, latest: UnixTime) {
    *instant = (*instant).min(latest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::world::provider::BackoffKey;
    use headroom_cluster::world::provider::FailureClass;
    use headroom_pools::testing::{NOW, config, pool};

    fn history(change: impl FnOnce(&mut PoolHistory)) -> History {
        let mut history = History::default();
        change(history.pools.entry("a".into()).or_default());
        history
    }

    #[test]
    fn a_short_absence_leaves_the_clocks_alone() {
        let before = history(|memory| memory.unneeded = [("n".into(), NOW)].into());
        let mut after = before.clone();
        age_clocks(&mut after, TAKEOVER_GRACE);
        assert_eq!(after, before);
    }

    #[test]
    fn time_without_a_leader_is_added_to_each_clock() {
        let mut memory = history(|memory| memory.unneeded = [("n".into(), NOW)].into());
        age_clocks(&mut memory, Seconds(121));
        assert_eq!(memory.pools["a"].unneeded["n"], NOW.plus(Seconds(121)));
    }

    #[test]
    fn a_clock_that_is_set_leaves_every_length_as_it_was() {
        let before = history(|memory| {
            memory.unneeded.insert("n".into(), NOW);
            memory.last_scale_up = Some(NOW);
        });
        let mut after = before.clone();
        shift_clocks(&mut after, Seconds(-86_400));
        assert_eq!(after.pools["a"].unneeded["n"], NOW.plus(Seconds(-86_400)));
        shift_clocks(&mut after, Seconds(86_400));
        assert_eq!(after, before);
    }

    #[test]
    fn instants_of_the_future_become_now_and_backoffs_end_in_bounds() {
        let far = NOW.plus(Seconds::hours(1000));
        let mut memory = history(|memory| {
            memory.unneeded.insert("n".into(), far);
            memory.last_failure = Some(far);
            let backoff = Backoff {
                class: FailureClass::Other,
                failures: 0,
                since: far,
                until: far,
                message: "".into(),
            };
            memory.backoffs.insert(BackoffKey::default(), backoff);
        });
        sanitize(&mut memory, &config([pool("a")]), NOW);
        let memory = &memory.pools["a"];
        assert_eq!((memory.unneeded["n"], memory.last_failure), (NOW, Some(NOW)));
        let backoff = &memory.backoffs[&BackoffKey::default()];
        assert_eq!((backoff.failures, backoff.until), (1, NOW.plus(Seconds::minutes(30))));
    }

    #[test]
    fn memory_of_other_settings_or_of_a_clock_that_was_ahead_is_possible_and_that_of_a_far_future_is_not() {
        let backing_off = |until: UnixTime| {
            let (class, message) = (FailureClass::Other, "".into());
            let backoff = Backoff { class, failures: 1, since: NOW, until, message };
            history(|memory| memory.backoffs = [(BackoffKey::default(), backoff)].into()).pools["a"].clone()
        };
        assert!(
            is_possible(&backing_off(NOW.plus(Seconds::hours(100))), NOW),
            "a pool may have waited so long"
        );
        assert!(!is_possible(&backing_off(UnixTime(4_070_908_800)), NOW));
        let ahead = |seconds: i64| {
            history(|memory| memory.unneeded = [("n".into(), NOW.plus(Seconds(seconds)))].into()).pools["a"]
                .clone()
        };
        assert!(is_possible(&ahead(CLOCKS_APART_MAX.0), NOW));
        assert!(!is_possible(&ahead(CLOCKS_APART_MAX.0 + 1), NOW));
    }
}
