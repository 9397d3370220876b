//! The rates of a behavior: how far the size may go now, and the changes that count against them.

use crate::config::Profile;
use crate::pods::memory::{EVENTS_MAX, Memory, ScaleEvent};
use crate::pods::moment::Moment;
use crate::pods::numbers::Numbers;
use crate::pods::spec::{Behavior, ScalingPolicyRule, ScalingRules};
use crate::time::Seconds;

/// The longest period that a policy may have; no older event can ever count.
const LONGEST_PERIOD: Seconds = Seconds(1800);

/// Which way a size goes.
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
    numbers: Numbers,
) -> i32 {
    let select = rules.and_then(|rules| rules.select_policy.as_deref());
    let policies = rules.and_then(|rules| rules.policies.as_deref()).unwrap_or_default();
    if select == Some("Disabled") {
        return current;
    }
    let results = policies.iter().map(|policy| {
        let period = Seconds(i64::from(policy.period_seconds));
        let added = changes(&memory.up_events, now.minus(period), numbers);
        let deleted = changes(&memory.down_events, now.minus(period), numbers);
        let base = numbers.plus(numbers.minus(current, added), deleted);
        allowed(direction, base, policy, numbers)
    });
    let smallest = (select == Some("Min")) == (direction == Direction::Up);
    let result = if smallest { results.min() } else { results.max() };
    result.unwrap_or(current)
}

fn allowed(direction: Direction, base: i32, policy: &ScalingPolicyRule, numbers: Numbers) -> i32 {
    let fraction = f64::from(policy.value) / 100.0;
    match (direction, policy.type_.as_str()) {
        (Direction::Up, "Pods") => numbers.plus(base, policy.value),
        (Direction::Down, "Pods") => numbers.minus(base, policy.value),
        // The sum is rounded before the product: 9 percent of 100 allow 110.
        (Direction::Up, _) => numbers.ceil_replicas(f64::from(base) * (1.0 + fraction)),
        (Direction::Down, _) => numbers.truncated_replicas(f64::from(base) * (1.0 - fraction)),
    }
}

/// The sum of the changes after `cutoff`.
fn changes(events: &[ScaleEvent], cutoff: Moment, numbers: Numbers) -> i32 {
    events.iter().filter(|event| cutoff < event.at).fold(0, |sum, event| numbers.plus(sum, event.change))
}

/// Records a change of the size; without a behavior nothing is recorded.
///
/// The reference marks events older than the longest period of that direction, and the new one takes the place of the
/// last one marked. We drop what is older than any period can be instead, so that status can hold the list.
///
/// Source: podautoscaler horizontal.go, storeScaleEvent.
pub(super) fn record(
    memory: &mut Memory,
    behavior: Option<&Behavior>,
    from: i32,
    to: i32,
    at: Moment,
    profile: Profile,
) {
    let Some(behavior) = behavior.filter(|_| from != to) else { return };
    let (events, rules) = if from < to {
        (&mut memory.up_events, behavior.scale_up.as_ref())
    } else {
        (&mut memory.down_events, behavior.scale_down.as_ref())
    };
    let change = i32::try_from(from.abs_diff(to)).unwrap_or(i32::MAX);
    let event = ScaleEvent { change, at, outdated: false };
    match profile {
        Profile::ClusterAutoscaler => {
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
        }
        Profile::Headroom => {
            events.retain(|old| at.minus(LONGEST_PERIOD) < old.at);
            events.push(event);
            while events.len() > EVENTS_MAX {
                // Two become one that counts as long as the younger.
                let oldest = events.remove(0);
                if let Some(next) = events.first_mut() {
                    next.change = next.change.saturating_add(oldest.change);
                    next.at = next.at.max(oldest.at);
                }
            }
        }
    }
}
