//! The sums that are kept: in all, and of the last hours. `Ledger::of(status)` is what `status` was rendered from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use headroom_api::{
    ScorecardDecision, ScorecardFigures, ScorecardHour, ScorecardPool, ScorecardPoolFigures, ScorecardStatus,
    ScorecardSummary,
};
use headroom_core::quantity::format_price;
use headroom_core::time::{Seconds, UnixTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::figures::{Figures, PoolFigures};

/// Hours that have a row: three days.
pub const HOURS_MAX: usize = 72;
/// Kinds of decisions that are counted; further ones are left out.
const DECISIONS_MAX: usize = 16;
const HOUR: i64 = 3600;

/// The sums of both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    since: Option<UnixTime>,
    until: Option<UnixTime>,
    measured: Seconds,
    actual: Figures,
    forecast: Figures,
    hours: VecDeque<Hour>,
    decisions: BTreeMap<(String, String), i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Hour {
    from: UnixTime,
    measured: Seconds,
    actual: Figures,
    forecast: Figures,
}

impl Ledger {
    /// Adds what both sides did between two looks; the row is that of the hour in which the first of them was.
    pub fn add(&mut self, since: UnixTime, until: UnixTime, actual: &Figures, forecast: &Figures) {
        let length = until.since(since);
        self.since.get_or_insert(since);
        self.until = Some(until);
        self.measured = Seconds(self.measured.0 + length.0);
        self.actual.add(actual);
        self.forecast.add(forecast);
        let from = UnixTime(since.0.div_euclid(HOUR) * HOUR);
        if self.hours.back().is_none_or(|hour| hour.from < from) {
            if self.hours.len() == HOURS_MAX {
                self.hours.pop_front();
            }
            let (actual, forecast) = (Figures::default(), Figures::default());
            self.hours.push_back(Hour { from, measured: Seconds(0), actual, forecast });
        }
        if let Some(hour) = self.hours.back_mut() {
            hour.measured = Seconds((hour.measured.0 + length.0).min(HOUR));
            hour.actual.add(&without_pools(actual));
            hour.forecast.add(&without_pools(forecast));
        }
    }

    /// Counts a decision of Headroom about so many nodes.
    pub fn decided(&mut self, action: &str, reason: &str, nodes: i64) {
        let kind = (action.to_owned(), reason.to_owned());
        if self.decisions.len() < DECISIONS_MAX || self.decisions.contains_key(&kind) {
            *self.decisions.entry(kind).or_default() += nodes;
        }
    }

    /// The sums as they are stored.
    #[must_use]
    pub fn status(&self) -> ScorecardStatus {
        let (actual, forecast) = (self.actual.stored(), self.forecast.stored());
        let mut decisions: Vec<ScorecardDecision> = (self.decisions.iter())
            .map(|((action, reason), nodes)| crate::decision(action, reason, *nodes))
            .collect();
        decisions.sort_by_key(|row| Reverse(row.nodes));
        ScorecardStatus {
            since: self.since.map(time),
            until: self.until.map(time),
            measured_seconds: self.measured.0,
            summary: Some(summary(&actual, &forecast)),
            pools: self.pools(),
            decisions,
            hours: self.hours.iter().map(Hour::stored).collect(),
            actual: Some(actual),
            forecast: Some(forecast),
            ..ScorecardStatus::default()
        }
    }

    fn pools(&self) -> Vec<ScorecardPool> {
        let names: BTreeSet<&Arc<str>> = self.actual.pools.keys().chain(self.forecast.pools.keys()).collect();
        let of = |side: &Figures, name| side.pools.get(name).copied().unwrap_or_default().stored();
        let pools = names.into_iter().map(|name| ScorecardPool {
            name: name.to_string(),
            actual: of(&self.actual, name),
            forecast: of(&self.forecast, name),
        });
        let mut pools: Vec<ScorecardPool> = pools.collect();
        pools.sort_by_key(|pool| Reverse(pool.actual.node_seconds.max(pool.forecast.node_seconds)));
        pools
    }

    /// The ledger that `status` was rendered from. Anything that is missing there is 0.
    #[must_use]
    pub fn of(status: &ScorecardStatus) -> Self {
        let side = |figures: &Option<ScorecardFigures>, of: fn(&ScorecardPool) -> &ScorecardPoolFigures| {
            let mut side = figures.as_ref().map(Figures::of).unwrap_or_default();
            for pool in &status.pools {
                let figures = PoolFigures::of(of(pool));
                if figures != PoolFigures::default() {
                    side.pools.insert(pool.name.as_str().into(), figures);
                }
            }
            side
        };
        let decisions = status.decisions.iter().take(DECISIONS_MAX);
        Self {
            since: status.since.as_ref().map(unix),
            until: status.until.as_ref().map(unix),
            measured: Seconds(status.measured_seconds.max(0)),
            actual: side(&status.actual, |pool| &pool.actual),
            forecast: side(&status.forecast, |pool| &pool.forecast),
            hours: status.hours.iter().filter_map(Hour::of).take(HOURS_MAX).collect(),
            decisions: decisions.map(|row| ((row.action.clone(), row.reason.clone()), row.nodes)).collect(),
        }
    }
}

impl Hour {
    fn stored(&self) -> ScorecardHour {
        ScorecardHour {
            from: Some(time(self.from)),
            measured_seconds: self.measured.0,
            actual: self.actual.stored(),
            forecast: self.forecast.stored(),
        }
    }

    fn of(stored: &ScorecardHour) -> Option<Self> {
        Some(Self {
            from: unix(stored.from.as_ref()?),
            measured: Seconds(stored.measured_seconds.clamp(0, HOUR)),
            actual: Figures::of(&stored.actual),
            forecast: Figures::of(&stored.forecast),
        })
    }
}

fn without_pools(figures: &Figures) -> Figures {
    Figures { pools: BTreeMap::new(), ..figures.clone() }
}

fn time(at: UnixTime) -> Time {
    Time(at.to_jiff())
}

fn unix(time: &Time) -> UnixTime {
    UnixTime::from_jiff(time.0)
}

fn summary(actual: &ScorecardFigures, forecast: &ScorecardFigures) -> ScorecardSummary {
    let both = |show: fn(&ScorecardFigures) -> String| format!("{} / {}", show(actual), show(forecast));
    ScorecardSummary {
        node_hours: both(|side| hours(side.node_seconds)),
        // Cents are enough for people.
        price: both(|side| format_price(side.price_micro / 10_000 * 10_000)),
        mean_wait: both(|side| format!("{}s", side.wait_seconds / side.waits_count().max(1))),
        evictions: both(|side| side.evictions.to_string()),
        replica_hours: both(|side| hours(side.replica_seconds)),
    }
}

/// Hours with one digit after the point, rounded down.
fn hours(seconds: i64) -> String {
    let tenths = seconds / (HOUR / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixTime = UnixTime(7_200);

    fn figures(node_seconds: i64) -> Figures {
        let mut figures = Figures { node_seconds, ..Figures::default() };
        figures.price_micro_seconds = node_seconds * 3600;
        figures.waits.note(Seconds(node_seconds % 50));
        figures.pool(&"general".into()).node_seconds = node_seconds;
        figures
    }

    #[test]
    fn a_ledger_is_what_its_status_says() {
        let mut ledger = Ledger::default();
        for step in 0..400 {
            let at = START.plus(Seconds(step * 60));
            ledger.add(at, at.plus(Seconds(60)), &figures(step), &figures(2 * step));
        }
        ledger.decided("ScaleUp", "PodsUnschedulable", 3);
        ledger.decided("ScaleDown", "Empty", 5);
        assert_eq!(Ledger::of(&ledger.status()), ledger);
        assert_eq!(ledger.status().decisions[0].reason, "Empty");
    }

    #[test]
    fn the_oldest_hour_goes_when_there_are_three_days_and_the_sums_stay() {
        let mut ledger = Ledger::default();
        for hour in 0..100 {
            let at = START.plus(Seconds(hour * HOUR));
            ledger.add(at, at.plus(Seconds(60)), &figures(60), &figures(60));
        }
        let status = ledger.status();
        assert_eq!((status.hours.len(), status.measured_seconds), (HOURS_MAX, 6_000));
        assert_eq!(status.hours[0].from, Some(time(START.plus(Seconds(28 * HOUR)))));
        assert_eq!(status.actual.map(|side| side.node_seconds), Some(6_000));
    }

    #[test]
    fn the_summary_names_what_was_done_first() {
        let mut ledger = Ledger::default();
        ledger.add(START, START.plus(Seconds(60)), &figures(7_400), &figures(3_600));
        let summary = ledger.status().summary.expect("always there");
        assert_eq!((&*summary.node_hours, &*summary.mean_wait), ("2.0 / 1.0", "0s / 0s"));
    }

    #[test]
    fn a_full_status_is_small_enough_to_be_written_each_minute() {
        let mut ledger = Ledger::default();
        let mut much = figures(3_600_000);
        much.waits.counts = [99_999; 24];
        for hour in 0..HOURS_MAX {
            let at = START.plus(Seconds(hour as i64 * HOUR));
            ledger.add(at, at.plus(Seconds(60)), &much, &much);
        }
        let bytes = serde_json::to_vec(&ledger.status()).expect("plain values").len();
        assert!(bytes < 80_000, "{bytes} bytes");
    }
}
