//! The rates of a behavior: how far the size may go now, and the changes that count against them.

use crate::memory::{EVENTS_MAX, Memory, ScaleEvent};
use crate::moment::Moment;
use crate::numbers::{ceil_replicas, truncated_replicas};
use crate::spec::{Behavior, ScalingPolicyRule, ScalingRules};
use headroom_values::time::Seconds;

/// Direction in which a size changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The size that the rates of one direction allow. May lie on the other side of `current`; callers cut it there.
///
/// Upwards `Min` takes the smallest result of the policies, anything else the largest; downwards the reverse. `Disabled`,
/// and a list without policies, leaves the size as it is.
///
/// Source: podautoscaler horizontal.go, calculateScaleUpLimitWithScalingRules and
/// calculateScaleDownLimitWithBehaviors.
pub(super) fn limit(
    direction: Direction,
    current: i32,
    rules: Option<&ScalingRules>,
    memory: &Memory,
    now: Moment,
) -> i32 {
    let select = rules.and_then(|rules| rules.select_policy.as_deref());
    let policies = rules.and_then(|rules| rules.policies.as_deref()).unwrap_or_default();
    if select == Some("Disabled") {
        return current;
    }
    let results = policies.iter().map(|policy| {
        let period = Seconds(i64::from(policy.period_seconds));
        let added = changes(&memory.up_events, now.minus(period));
        let deleted = changes(&memory.down_events, now.minus(period));
        let base = current.wrapping_sub(added).wrapping_add(deleted);
        allowed(direction, base, policy)
    });
    let smallest = (select == Some("Min")) == (direction == Direction::Up);
    let result = if smallest { results.min() } else { results.max() };
    result.unwrap_or(current)
}

fn allowed(direction: Direction, base: i32, policy: &ScalingPolicyRule) -> i32 {
    let fraction = f64::from(policy.value) / 100.0;
    match (direction, policy.type_.as_str()) {
        (Direction::Up, "Pods") => base.wrapping_add(policy.value),
        (Direction::Down, "Pods") => base.wrapping_sub(policy.value),
        // The sum is rounded before the product: 9 percent of 100 allow 110.
        (Direction::Up, _) => ceil_replicas(f64::from(base) * (1.0 + fraction)),
        (Direction::Down, _) => truncated_replicas(f64::from(base) * (1.0 - fraction)),
    }
}

/// The sum of the changes after `cutoff`; it wraps.
fn changes(events: &[ScaleEvent], cutoff: Moment) -> i32 {
    events.iter().filter(|event| cutoff < event.at).fold(0_i32, |sum, event| sum.wrapping_add(event.change))
}

/// Records a change of the size; without a behavior nothing is recorded.
///
/// Events older than the longest period of that direction are marked, and the new one takes the place of the last one
/// marked. Others that are marked stay, and count again under a longer period. Beyond [`EVENTS_MAX`] the two oldest become
/// one that counts as long as the younger.
///
/// Source: podautoscaler horizontal.go, storeScaleEvent.
pub(super) fn record(memory: &mut Memory, behavior: Option<&Behavior>, from: i32, to: i32, at: Moment) {
    let Some(behavior) = behavior.filter(|_| from != to) else { return };
    let (events, rules) = if from < to {
        (&mut memory.up_events, behavior.scale_up.as_ref())
    } else {
        (&mut memory.down_events, behavior.scale_down.as_ref())
    };
    let change = i32::try_from(from.abs_diff(to)).unwrap_or(i32::MAX);
    let event = ScaleEvent { change, at, outdated: false };
    let policies = rules.and_then(|rules| rules.policies.as_deref()).unwrap_or_default();
    let longest = policies.iter().map(|policy| policy.period_seconds).max().unwrap_or(0);
    let cutoff = at.minus(Seconds(i64::from(longest)));
    for old in events.iter_mut().filter(|old| old.at < cutoff) {
        old.outdated = true;
    }
    match events.iter_mut().rev().find(|old| old.outdated) {
        Some(slot) => *slot = event,
        None => events.push(event),
    }
    while EVENTS_MAX < events.len() {
        merge_oldest(events);
    }
}

/// Makes the two oldest events one that counts as long as the younger.
fn merge_oldest(events: &mut Vec<ScaleEvent>) {
    let oldest = |events: &[ScaleEvent]| {
        let place = events.iter().enumerate().min_by_key(|(index, event)| (event.at, *index));
        place.map(|(index, _)| index)
    };
    let Some(first) = oldest(events) else { return };
    let merged = events.remove(first);
    if let Some(next) = oldest(events).and_then(|next| events.get_mut(next)) {
        next.change = next.change.saturating_add(merged.change);
    }
}
