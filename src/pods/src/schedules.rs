//! Floors and ceilings of a workload by time of day, and what holds while its metrics are unknown.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::spec::HpaSpec;
use headroom_values::time::{Seconds, UnixTime};
use headroom_values::window::Window;

/// Bounds that hold while a window is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Name, unique in its list.
    pub name: Arc<str>,
    /// Window in which it is active.
    pub window: Window,
    /// Fewest replicas, if it sets them.
    pub min_replicas: Option<i32>,
    /// Most replicas, if it sets them.
    pub max_replicas: Option<i32>,
}

/// Behavior once no decision could be made from the metrics for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fallback {
    /// Time for which nothing must have been known.
    pub after: Seconds,
    /// Size from then on.
    pub replicas: FallbackReplicas,
}

/// The size while nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FallbackReplicas {
    /// As it is.
    Hold,
    /// So many, in the direction given, within the bounds, at the rates of the behavior.
    Replicas {
        /// Number.
        count: i32,
        /// Direction in which the size may change.
        direction: FallbackDirection,
    },
}

/// Direction in which a fallback may change the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FallbackDirection {
    /// Only up: a larger size stays. What is unknown lowers nothing unless the user asks for it.
    #[default]
    Up,
    /// Up and down.
    Both,
}

/// The bounds that hold at an instant; `min <= max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Fewest replicas.
    pub min: i32,
    /// Most replicas.
    pub max: i32,
    /// Names of the schedules that are active, in the order of the spec.
    pub active: Vec<Arc<str>>,
    /// Time at which the next window opens or closes; `None` if none does within eight years.
    pub next_change: Option<UnixTime>,
    /// Message for a condition if the schedules ask for more than the HPA's max, or for a min above a max; `None` if
    /// nothing was clamped.
    pub clamped: Option<String>,
}

/// The bounds of a workload at `now`.
///
/// Active schedules replace the spec's own bounds; where several overlap the highest min and the lowest max count, and
/// max wins over min. Nothing goes beyond the spec's own max, and nothing below 1 unless the spec's own min is 0 (a
/// workload at 0 with a min above it counts as switched off, and would stay so when the window closes); `clamped`
/// reports what would have. Without active schedules the spec's bounds are given as they are, even when its min is
/// above its max: the reference looks at max first.
#[must_use]
pub fn bounds(spec: &HpaSpec, schedules: &[Schedule], now: UnixTime) -> Bounds {
    let own_min = spec.min_replicas.unwrap_or(1);
    let instant = now.to_jiff();
    let open: Vec<&Schedule> =
        schedules.iter().filter(|schedule| schedule.window.active_at(instant).is_some()).collect();
    let changes = schedules.iter().filter_map(|schedule| schedule.window.next_change(instant));
    let scheduled_min = open.iter().filter_map(|schedule| schedule.min_replicas).max();
    let scheduled_max = open.iter().filter_map(|schedule| schedule.max_replicas).min();
    let (min, max, clamped) = if scheduled_min.is_none() && scheduled_max.is_none() {
        (own_min, spec.max_replicas, None)
    } else {
        clamp(scheduled_min.unwrap_or(own_min), scheduled_max, own_min, spec.max_replicas)
    };
    Bounds {
        min,
        max,
        active: open.iter().map(|schedule| schedule.name.clone()).collect(),
        next_change: changes.map(UnixTime::from_jiff).min(),
        clamped,
    }
}

/// Clamps the bounds that the schedules ask for to the HPA's own; also returns a message on what was cut.
fn clamp(min: i32, max: Option<i32>, own_min: i32, own_max: i32) -> (i32, i32, Option<String>) {
    let least = own_min.min(1);
    let mut cut = Vec::new();
    let asked = max.unwrap_or(own_max);
    let max = asked.min(own_max).max(least);
    if asked != max {
        cut.push(format!(
            "a schedule's maxReplicas {asked} becomes {max}: it must be from {least} to {own_max}"
        ));
    }
    let within = min.max(least).min(max);
    if within != min {
        cut.push(format!("minReplicas {min} becomes {within}: it must be from {least} to {max}"));
    }
    (within, max, (!cut.is_empty()).then(|| cut.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon on a Monday, in UTC.
    const NOON: UnixTime = UnixTime(1_794_830_400);

    fn schedule(name: &str, start: &str, min: Option<i32>, max: Option<i32>) -> Schedule {
        let window = Window::new("UTC", start, 4 * 3600).unwrap();
        Schedule { name: Arc::from(name), window, min_replicas: min, max_replicas: max }
    }

    fn at_noon(min: i32, max: i32, schedules: &[Schedule]) -> Bounds {
        let spec = HpaSpec { min_replicas: Some(min), max_replicas: max, ..HpaSpec::default() };
        bounds(&spec, schedules, NOON)
    }

    #[test]
    fn a_closed_window_leaves_the_specs_own_bounds_and_gives_the_time_it_opens() {
        let night = schedule("night", "0 20 * * *", Some(5), Some(50));
        let found = at_noon(1, 10, &[night]);
        assert_eq!((found.min, found.max, found.active.len(), found.clamped), (1, 10, 0, None));
        assert_eq!(found.next_change, Some(NOON.plus(Seconds::hours(8))));
    }

    #[test]
    fn of_overlapping_windows_the_highest_min_and_the_lowest_max_hold() {
        let day = schedule("day", "0 10 * * *", Some(3), Some(40));
        let lunch = schedule("lunch", "30 11 * * *", Some(5), Some(20));
        let found = at_noon(1, 100, &[day, lunch]);
        assert_eq!((found.min, found.max, found.clamped), (5, 20, None));
        assert_eq!(found.active, [Arc::from("day"), Arc::from("lunch")]);
        assert_eq!(found.next_change, Some(NOON.plus(Seconds::hours(2))));
    }

    #[test]
    fn a_floor_above_the_specs_max_is_cut_to_it_and_said() {
        let found = at_noon(1, 10, &[schedule("lunch", "30 11 * * *", Some(20), Some(30))]);
        assert_eq!((found.min, found.max), (10, 10));
        let said = found.clamped.unwrap();
        assert!(
            said.contains("maxReplicas 30 becomes 10") && said.contains("minReplicas 20 becomes 10"),
            "{said}"
        );
    }

    #[test]
    fn max_wins_over_min() {
        let found = at_noon(1, 10, &[schedule("freeze", "0 10 * * *", Some(9), Some(2))]);
        assert_eq!((found.min, found.max, found.clamped.is_some()), (2, 2, true));
    }

    #[test]
    fn no_schedule_switches_a_workload_off_that_may_not_be_at_zero() {
        let found = at_noon(1, 10, &[schedule("off", "0 10 * * *", Some(0), Some(0))]);
        assert_eq!((found.min, found.max, found.clamped.is_some()), (1, 1, true));
        let found = at_noon(0, 10, &[schedule("off", "0 10 * * *", Some(0), Some(0))]);
        assert_eq!((found.min, found.max, found.clamped), (0, 0, None));
    }
}
