//! Changes of a size that a ScalingPolicy or an HPA allows, read from the stored object in the plainest way. It shares
//! no code with the operator's own reading, so that an error of either shows.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use headroom_simulator::store::{at, number, text};

/// Rules for the sizes of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    /// Fewest and most replicas, schedules apart.
    pub bounds: (i64, i64),
    /// True if it has a behavior.
    pub behaves: bool,
    /// Rules of growth.
    pub up: Rules,
    /// Rules of shrinking.
    pub down: Rules,
    /// Minimum number of replicas while nothing is known; `None` without a fallback.
    pub fallback: Option<i64>,
}

/// The rules of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// Stabilization window: time for which earlier proposals hold a change.
    pub window: SignedDuration,
    /// Changes that are allowed: true if the value is in percent, the value, the period. None without a behavior.
    rates: Option<Vec<(bool, i64, SignedDuration)>>,
    /// `Max`, `Min` or `Disabled`.
    select: String,
}

/// A change of size that was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// Time of the decision.
    pub at: Timestamp,
    /// The size before.
    pub from: i64,
    /// The size since.
    pub to: i64,
    /// True if the operator knows of it.
    pub known: Knowledge,
}

/// True if the operator can know that a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// It has not stored yet that it was answered; the size shows it.
    BySize,
    /// It has stored that it was answered.
    Answered,
    /// It had not, and somebody else has put the size back: that looks as if it had never been made.
    Undone,
}

impl Change {
    /// A change that has just been made, or is about to be.
    pub(super) fn new(at: Timestamp, from: i64, to: i64) -> Change {
        Change { at, from, to, known: Knowledge::BySize }
    }
}

/// Maximum error between the times of two decisions: the clocks of two replicas know the API server's time to three
/// seconds each.
pub(super) const CLOCKS: SignedDuration = SignedDuration::from_secs(6);

impl Terms {
    /// Of the spec of a policy with a target of type Scale, or of an HPA.
    pub(super) fn of(spec: &Value) -> Terms {
        let behavior = at(spec, &["behavior"]);
        let none = Value::Null;
        let rules = |field: &str, defaults: (&[_], i64)| {
            Rules::of(behavior.map(|all| all.get(field).unwrap_or(&none)), defaults)
        };
        let seconds = SignedDuration::from_secs;
        Terms {
            bounds: (
                number(spec, &["minReplicas"]).unwrap_or(1),
                number(spec, &["maxReplicas"]).unwrap_or(0),
            ),
            behaves: behavior.is_some(),
            up: rules("scaleUp", (&[(false, 4, seconds(15)), (true, 100, seconds(15))], 0)),
            down: rules("scaleDown", (&[(true, 100, seconds(15))], 300)),
            fallback: text(spec, &["fallback", "replicas"]).and_then(|count| count.parse().ok()),
        }
    }

    /// The largest size to which the rates let `from` grow at `now`, given all changes so far.
    pub(super) fn highest(&self, from: i64, changes: &[Change], now: Timestamp) -> i64 {
        let Some(rates) = &self.up.rates else { return (from * 2).max(4) };
        let reach = |(percent, value, period): &(bool, i64, SignedDuration)| {
            // Increases count while they certainly do, decreases while they may.
            let base =
                from - sum(changes, now, *period - CLOCKS, true) + sum(changes, now, *period + CLOCKS, false);
            // Upstream's floats make one more of some whole results: 9 percent of 100 allow 110.
            if *percent { base * (100 + value) / 100 + 1 } else { base + value }
        };
        self.up.pick(rates.iter().map(reach), true).unwrap_or(from).max(from)
    }

    /// The smallest size to which the rates let `from` shrink at `now`.
    pub(super) fn lowest(&self, from: i64, changes: &[Change], now: Timestamp) -> i64 {
        let Some(rates) = &self.down.rates else { return 0 };
        let reach = |(percent, value, period): &(bool, i64, SignedDuration)| {
            let base =
                from - sum(changes, now, *period + CLOCKS, true) + sum(changes, now, *period - CLOCKS, false);
            if *percent { (base * (100 - value)).max(0).div_euclid(100) } else { base - value }
        };
        self.down.pick(rates.iter().map(reach), false).unwrap_or(from).min(from)
    }
}

impl Rules {
    fn of(rules: Option<&Value>, (rates, window): (&[(bool, i64, SignedDuration)], i64)) -> Rules {
        let given = rules.unwrap_or(&Value::Null);
        let rate = |one: &Value| {
            let period = SignedDuration::from_secs(number(one, &["periodSeconds"]).unwrap_or(0));
            (text(one, &["type"]) == Some("Percent"), number(one, &["value"]).unwrap_or(0), period)
        };
        let list = at(given, &["policies"]).and_then(Value::as_array);
        let list = list.filter(|list| !list.is_empty()).map(|list| list.iter().map(rate).collect());
        Rules {
            window: SignedDuration::from_secs(
                number(given, &["stabilizationWindowSeconds"]).unwrap_or(window),
            ),
            rates: rules.map(|_| list.unwrap_or_else(|| rates.to_vec())),
            select: text(given, &["selectPolicy"]).unwrap_or("Max").to_owned(),
        }
    }

    /// The result that counts: `Max` is the one that changes most.
    fn pick(&self, mut results: impl Iterator<Item = i64>, upwards: bool) -> Option<i64> {
        let first = results.next().filter(|_| self.select != "Disabled")?;
        let larger = (self.select == "Min") != upwards;
        Some(results.fold(first, |picked, one| if larger { picked.max(one) } else { picked.min(one) }))
    }
}

/// Returns the sum of the increases within `period` before `now`; of the decreases unless `upwards`.
fn sum(changes: &[Change], now: Timestamp, period: SignedDuration, upwards: bool) -> i64 {
    let counts = |one: &&Change| now.duration_since(one.at) < period && (one.from < one.to) == upwards;
    changes.iter().filter(counts).map(|one| (one.to - one.from).abs()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn terms(behavior: Value) -> Terms {
        Terms::of(&json!({"minReplicas": 2, "maxReplicas": 20, "behavior": behavior}))
    }

    #[test]
    fn without_a_behavior_a_size_doubles_at_most_and_shrinks_at_will() {
        let terms = terms(Value::Null);
        assert_eq!((terms.highest(1, &[], at_second(0)), terms.highest(6, &[], at_second(0))), (4, 12));
        assert_eq!(terms.lowest(6, &[], at_second(0)), 0);
        assert_eq!(terms.down.window, SignedDuration::from_secs(300));
    }

    #[test]
    fn what_was_added_within_the_period_is_not_added_again() {
        let terms =
            terms(json!({"scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]}}));
        let added = [Change::new(at_second(100), 4, 6)];
        assert_eq!(terms.highest(6, &added, at_second(120)), 7);
        assert_eq!(terms.highest(6, &added, at_second(170)), 9);
        // Near the period's end either may be: the larger counts.
        assert_eq!(terms.highest(6, &added, at_second(157)), 9);
    }

    #[test]
    fn the_policy_that_counts_is_the_one_selected() {
        let rates = json!([{"type": "Pods", "value": 1, "periodSeconds": 15},
            {"type": "Percent", "value": 50, "periodSeconds": 15}]);
        let lowest = |select: &str| {
            let terms = terms(json!({"scaleDown": {"selectPolicy": select, "policies": rates}}));
            terms.lowest(9, &[], at_second(0))
        };
        assert_eq!((lowest("Max"), lowest("Min"), lowest("Disabled")), (4, 8, 9));
    }
}
