//! What people do in the long run: Deployments that follow the hours of the day and the days of the week, and rollouts.

use jiff::SignedDuration;

use super::Span;
use super::cluster::Workload;
use headroom_simulator::scenario::{Action, Event};

/// Between two changes of one Deployment's size, as a slow HPA would make them.
const STEP_MINUTES: i64 = 10;
/// Pods of the night, in thousandths of those of the peak.
const NIGHT_PERMILLE: f64 = 400.0;
/// Peak of Saturday and Sunday.
const WEEKEND_PERMILLE: f64 = 600.0;
/// The cluster is filled within so many minutes, so that it is the week that is measured and not one burst.
const FILLED_AFTER_MINUTES: i64 = 180;
/// Of so many Deployments one is rolled out each day.
const ROLLOUT_EVERY: usize = 10;

/// Changes of size and of templates within `span`.
pub(super) fn events(workloads: &[Workload], span: &Span) -> Vec<Event> {
    let mut events = Vec::new();
    for workload in workloads {
        let mut current = 0;
        let index = i64::try_from(workload.index).unwrap_or(0);
        // Not all change in the same minute.
        let mut minute = index % STEP_MINUTES;
        while minute < span.busy_minutes() {
            let replicas = workload.peak * permille(minute, index, span) / 1000;
            if replicas != current {
                current = replicas;
                let after = SignedDuration::from_mins(minute);
                events.push(Event { after, action: Action::Scale(workload.target.clone(), replicas) });
            }
            minute += STEP_MINUTES;
        }
    }
    events.extend(rollouts(workloads, span));
    events
}

/// Each day between a third and two thirds of it, the next tenth of the Deployments.
fn rollouts(workloads: &[Workload], span: &Span) -> Vec<Event> {
    let day = span.day_minutes();
    let mut events = Vec::new();
    for number in 0..span.busy_minutes().div_euclid(day) + 1 {
        let turn = usize::try_from(number).unwrap_or(0) % ROLLOUT_EVERY;
        let chosen: Vec<&Workload> = workloads.iter().skip(turn).step_by(ROLLOUT_EVERY).collect();
        let count = i64::try_from(chosen.len()).unwrap_or(1).max(1);
        for (place, workload) in (0_i64..).zip(chosen) {
            let minute = number * day + day / 3 + place * day / 3 / count;
            if minute < span.busy_minutes() {
                let after = SignedDuration::from_mins(minute);
                events.push(Event { after, action: Action::Deploy(workload.target.clone(), None) });
            }
        }
    }
    events
}

/// Share of its peak that a Deployment has at a minute of the run. Three regions rise two hours after each other.
fn permille(minute: i64, index: i64, span: &Span) -> i64 {
    let day = span.day_minutes();
    let peak = if 5 <= minute / day % 7 { WEEKEND_PERMILLE } else { 1000.0 };
    let at = (minute + index % 3 * day / 12).rem_euclid(day) as f64 / day as f64;
    let rise = (1.0 - (at * std::f64::consts::TAU).cos()) / 2.0;
    let level = NIGHT_PERMILLE + (peak - NIGHT_PERMILLE) * rise;
    let filled = minute.min(FILLED_AFTER_MINUTES.min(day / 4)).max(1) as f64
        / FILLED_AFTER_MINUTES.min(day / 4) as f64;
    // Whole thousandths: a fraction of a replica is none.
    (level * filled.min(1.0)).round() as i64
}
