//! Urgency of storing memory, and the memory that a restarted process takes from storage.

use crate::input::Options;
use crate::memory::{Memory, Recommendation, StoredMemory, parse};
use crate::moment::Moment;
use crate::spec::HpaSpec;
use crate::stabilization::Windows;
use headroom_values::time::{Seconds, UnixTime};

/// Urgency of storing memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The stored memory is the same.
    Unchanged,
    /// It may wait until the status is written anyway, a minute at most: until then a restart would at worst hold the
    /// size for longer.
    Soon,
    /// Before the next tick: after a restart from what is stored the size could change too early.
    Now,
}

/// Maximum difference between the clocks of two leaders. Stored times further in the future are invalid.
pub const CLOCKS_APART_MAX: Seconds = Seconds(60);

/// Returns how soon `live` must replace `stored`, which was written last.
///
/// While the proposal stays the same nothing is urgent, although its time moves on each tick: [`resumed`] takes the last
/// one stored as repeated until the restart. A higher proposal is urgent when a decrease is held by a window, a lower
/// one when an increase is.
#[must_use]
pub fn urgency(stored: &StoredMemory, live: &Memory, spec: &HpaSpec, options: &Options) -> Urgency {
    let stored = parse(stored);
    if stored == *live {
        return Urgency::Unchanged;
    }
    let windows = Windows::of(spec, options);
    // A new unknown clock may wait: it would only begin anew.
    let events_differ = stored.up_events != live.up_events || stored.down_events != live.down_events;
    let moved = match (newest(&stored), newest(live)) {
        (Some(old), Some(new)) => {
            (old < new && windows.down > Seconds(0)) || (new < old && windows.up > Seconds(0))
        }
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if events_differ || moved || stored.surged_from != live.surged_from || stored.zero != live.zero {
        Urgency::Now
    } else {
        Urgency::Soon
    }
}

/// Memory after a restart at `now`, from what was stored at `stored_at`.
///
/// The time between is added to all clocks but those of scale events, since nobody watched (design rule 9): windows hold longer,
/// never shorter. Scale events keep their times: those are facts, and none can be missing, since each is stored before
/// its write. The newest proposal counts as repeated at `now`. A `stored_at` in the future changes nothing.
///
/// A time in the future was edited by hand, or comes from a backup. Such a clock begins now, so that it holds for its
/// window and not for ever. A scale event more than [`CLOCKS_APART_MAX`] ahead is dropped, since it would stop one
/// direction for ever and open the other without a limit.
#[must_use]
pub fn resumed(stored: &StoredMemory, stored_at: UnixTime, now: UnixTime) -> Memory {
    let mut memory = parse(stored);
    let unwatched = Seconds(now.since(stored_at).0.max(0));
    let moved = |at: Moment| at.plus(unwatched).min(now.into()).max(at);
    for recommendation in &mut memory.recommendations {
        recommendation.at = moved(recommendation.at).min(now.into());
    }
    memory.unknown_since = memory.unknown_since.map(|since| moved(since).min(now.into()));
    if let Some(zero) = &mut memory.zero {
        zero.idle_since = zero.idle_since.map(|since| moved(since).min(now.into()));
        zero.scaled_at = zero.scaled_at.map(|at| at.min(now.into()));
    }
    let latest = Moment::from(now.plus(CLOCKS_APART_MAX));
    for events in [&mut memory.up_events, &mut memory.down_events] {
        events.retain(|event| event.at <= latest);
        events.iter_mut().for_each(|event| event.at = event.at.min(now.into()));
    }
    memory
}

/// The proposal with the latest time; of several the last in the list.
fn newest(memory: &Memory) -> Option<i32> {
    let latest = memory.recommendations.iter().max_by_key(|Recommendation { at, .. }| *at);
    latest.map(|recommendation| recommendation.replicas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{ScaleEvent, render};
    use crate::spec::Behavior;

    fn memory(proposals: &[(i32, i64)]) -> Memory {
        let recommendation =
            |(replicas, at): &(i32, i64)| Recommendation { replicas: *replicas, at: UnixTime(*at).into() };
        Memory { recommendations: proposals.iter().map(recommendation).collect(), ..Memory::default() }
    }

    fn check(old: &[(i32, i64)], new: &[(i32, i64)], spec: &HpaSpec) -> Urgency {
        urgency(&render(&memory(old)), &memory(new), spec, &Options::default())
    }

    #[test]
    fn a_repeated_proposal_is_not_urgent_and_a_higher_one_is() {
        let spec = HpaSpec::default();
        assert_eq!(check(&[(5, 0)], &[(5, 0)], &spec), Urgency::Unchanged);
        assert_eq!(check(&[(5, 0)], &[(5, 15)], &spec), Urgency::Soon);
        assert_eq!(check(&[(5, 0)], &[(5, 0), (4, 15)], &spec), Urgency::Soon);
        assert_eq!(check(&[(5, 0)], &[(6, 15)], &spec), Urgency::Now);
        assert_eq!(check(&[], &[(6, 15)], &spec), Urgency::Now);
    }

    #[test]
    fn a_lower_proposal_is_urgent_when_increases_are_held() {
        let rules =
            crate::spec::ScalingRules { stabilization_window_seconds: Some(60), ..Default::default() };
        let behavior = Some(Behavior { scale_up: Some(rules), scale_down: None });
        let spec = HpaSpec { behavior, ..HpaSpec::default() };
        assert_eq!(check(&[(5, 0)], &[(5, 0), (4, 15)], &spec), Urgency::Now);
    }

    #[test]
    fn time_that_nobody_watched_is_added_to_the_windows() {
        let stored = render(&memory(&[(9, 100), (5, 200)]));
        let resumed = resumed(&stored, UnixTime(200), UnixTime(500));
        assert_eq!(resumed, memory(&[(9, 400), (5, 500)]));
    }

    #[test]
    fn the_future_holds_nothing_up() {
        let event = |change: i32, at: i64| ScaleEvent { change, at: UnixTime(at).into(), outdated: false };
        let edited = Memory {
            up_events: vec![event(1, 100), event(2, 560), event(1_000_000, 561)],
            down_events: vec![event(1_000_000, 9_999_999)],
            unknown_since: Some(UnixTime(9_999_999).into()),
            ..memory(&[(9, 100), (1_000_000, 9_999_999)])
        };
        let expected = Memory {
            up_events: vec![event(1, 100), event(2, 500)],
            down_events: Vec::new(),
            unknown_since: Some(UnixTime(500).into()),
            ..memory(&[(9, 100), (1_000_000, 500)])
        };
        assert_eq!(resumed(&render(&edited), UnixTime(500), UnixTime(500)), expected);
    }
}
