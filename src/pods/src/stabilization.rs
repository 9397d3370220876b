//! Recent proposals: they hold a decrease, and with a behavior an increase, until their window has passed.

use crate::input::Options;
use crate::memory::{Memory, RECOMMENDATIONS_MAX, Recommendation};
use crate::moment::Moment;
use crate::spec::HpaSpec;
use headroom_values::time::Seconds;

/// Time that proposals count in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// Upwards; 0 without a behavior.
    pub(super) up: Seconds,
    /// Downwards.
    pub(super) down: Seconds,
}

impl Windows {
    pub(super) fn of(spec: &HpaSpec, options: &Options) -> Self {
        let behavior = spec.behavior.as_ref();
        let up = behavior.and_then(|b| b.scale_up.as_ref()).and_then(|r| r.stabilization_window_seconds);
        let down = behavior.and_then(|b| b.scale_down.as_ref()).and_then(|r| r.stabilization_window_seconds);
        let seconds = |window: i32| Seconds(i64::from(window));
        Self {
            up: up.map_or(Seconds(0), seconds),
            down: down.map_or(options.downscale_stabilization, seconds),
        }
    }
}

/// The present size is the first proposal of a workload that has none: it holds a first decrease for a whole window.
///
/// Source: podautoscaler horizontal.go, recordInitialRecommendation.
pub(super) fn begin(memory: &mut Memory, current: i32, now: Moment) {
    if memory.recommendations.is_empty() {
        memory.recommendations.push(Recommendation { replicas: current, at: now });
    }
}

/// Without a behavior: the highest proposal of the window, `desired` among them; `desired` is recorded.
///
/// Source: podautoscaler horizontal.go, stabilizeRecommendation.
pub(super) fn highest(memory: &mut Memory, desired: i32, windows: Windows, now: Moment) -> i32 {
    let cutoff = now.minus(windows.down);
    let recent = memory.recommendations.iter().filter(|earlier| cutoff <= earlier.at);
    let highest = recent.map(|earlier| earlier.replicas).fold(desired, i32::max);
    record(memory, Recommendation { replicas: desired, at: now }, cutoff);
    highest
}

/// With a behavior: the present size, raised to the lowest proposal of the window upwards and lowered to the highest of
/// the window downwards; `desired` is recorded. Unlike without a behavior, a proposal exactly as old as the window no
/// longer counts.
///
/// Source: podautoscaler horizontal.go, stabilizeRecommendationWithBehaviors.
pub(super) fn between(memory: &mut Memory, current: i32, desired: i32, windows: Windows, now: Moment) -> i32 {
    let (up_cutoff, down_cutoff) = (now.minus(windows.up), now.minus(windows.down));
    let (mut lowest, mut highest) = (desired, desired);
    for earlier in &memory.recommendations {
        if up_cutoff < earlier.at {
            lowest = lowest.min(earlier.replicas);
        }
        if down_cutoff < earlier.at {
            highest = highest.max(earlier.replicas);
        }
    }
    let cutoff = up_cutoff.min(down_cutoff);
    record(memory, Recommendation { replicas: desired, at: now }, cutoff);
    current.max(lowest).min(highest)
}

/// Remembers a proposal in the place of the last entry in the list that is older than `cutoff`. Other old entries stay,
/// and count again under a longer window.
fn record(memory: &mut Memory, proposal: Recommendation, cutoff: Moment) {
    match memory.recommendations.iter_mut().rev().find(|earlier| earlier.at < cutoff) {
        Some(slot) => *slot = proposal,
        None => memory.recommendations.push(proposal),
    }
    if RECOMMENDATIONS_MAX < memory.recommendations.len() {
        keep_extremes(&mut memory.recommendations);
    }
}

/// Drops proposals that no window of today's length can see: those with a later one that is at least as high, and a later one that is at
/// least as low. Beyond [`RECOMMENDATIONS_MAX`] the two oldest high ones (or low ones) become one, which counts as long
/// as the younger: the size holds a little longer, never shorter.
///
/// Differs from upstream, which keeps every entry: status holds a bounded list only. Every window that ends now sees the
/// same extremes.
fn keep_extremes(recommendations: &mut Vec<Recommendation>) {
    // A clock that was set back may have left later entries: the order of time counts, not that of the list.
    recommendations.sort_by_key(|recommendation| recommendation.at);
    let (mut highest, mut lowest) = (i32::MIN, i32::MAX);
    let mut kept: Vec<Recommendation> = Vec::with_capacity(recommendations.len());
    for recommendation in recommendations.iter().rev() {
        let extreme =
            kept.is_empty() || recommendation.replicas > highest || recommendation.replicas < lowest;
        highest = highest.max(recommendation.replicas);
        lowest = lowest.min(recommendation.replicas);
        if extreme {
            kept.push(*recommendation);
        }
    }
    kept.reverse();
    while kept.len() > RECOMMENDATIONS_MAX {
        merge_oldest(&mut kept);
    }
    *recommendations = kept;
}

/// Merges the two oldest entries of the longer side, above or below the newest entry.
fn merge_oldest(kept: &mut Vec<Recommendation>) {
    let Some((newest, older)) = kept.split_last() else { return };
    let above = |entry: &Recommendation| entry.replicas > newest.replicas;
    let n_above = older.iter().filter(|entry| above(entry)).count();
    let side = older.len() < 2 * n_above;
    let mut indices = (0..older.len()).filter(|index| above(&older[*index]) == side);
    let (first, second) = (indices.next(), indices.next());
    if let (Some(first), Some(second)) = (first, second) {
        kept[second].replicas = kept[first].replicas;
    }
    kept.remove(first.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use headroom_values::time::UnixTime;

    fn at(second: i64) -> Moment {
        UnixTime(second).into()
    }

    proptest! {
        #[test]
        fn dropped_proposals_change_no_window(
            proposals in proptest::collection::vec(0_i32..20, 1..40), up in 0_i64..300, down in 0_i64..300,
        ) {
            let windows = Windows { up: Seconds(up), down: Seconds(down) };
            let (mut all, mut ours) = (Memory::default(), Memory::default());
            for (tick, desired) in (0_i64..).zip(proposals) {
                let now = at(tick * 15);
                let theirs = between(&mut all, 10, desired, windows, now);
                prop_assert_eq!(between(&mut ours, 10, desired, windows, now), theirs);
                keep_extremes(&mut ours.recommendations);
            }
        }
    }

    #[test]
    fn a_full_list_holds_longer_and_never_shorter() {
        let mut memory = Memory::default();
        let windows = Windows { up: Seconds(0), down: Seconds(3600) };
        // A size that falls by one each second: every proposal is an extreme.
        for second in 0..1000 {
            let desired = 2000 - i32::try_from(second).unwrap();
            assert_eq!(highest(&mut memory, desired, windows, at(second)), 2000);
        }
        assert!(memory.recommendations.len() <= RECOMMENDATIONS_MAX);
        assert!(highest(&mut memory, 1, windows, at(3610)) >= 1990);
    }

    #[test]
    fn a_full_list_of_highs_and_lows_keeps_both_for_as_long() {
        // Swings that grow smaller: every proposal is an extreme, in turn a high one and a low one.
        let swing = |second: i64| {
            let width = 1000 - i32::try_from(second).unwrap();
            Recommendation {
                replicas: if second % 2 == 0 { 2000 + width } else { 2000 - width },
                at: at(second),
            }
        };
        let (mut all, mut kept) = (Vec::new(), Vec::new());
        for second in 0..600 {
            all.push(swing(second));
            kept.push(swing(second));
            keep_extremes(&mut kept);
        }
        assert!(kept.len() <= RECOMMENDATIONS_MAX);
        for second in 0..600 {
            let seen = |list: &[Recommendation]| {
                let sizes = list.iter().filter(|entry| at(second) <= entry.at).map(|entry| entry.replicas);
                (sizes.clone().max().unwrap(), sizes.min().unwrap())
            };
            let ((high, low), (highest, lowest)) = (seen(&kept), seen(&all));
            assert!(highest <= high && low <= lowest, "from second {second}: {low} to {high}");
        }
    }
}
