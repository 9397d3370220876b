//! The bounds of a pool at an instant, schedules applied. It reads the spec only, never sizes.

use crate::config::{Pool, Schedule};
use crate::nodes::wake::Wake;
use crate::time::UnixTime;

/// Lower and upper bound of a pool's size; `min <= max` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest nodes.
    pub min: u32,
    /// Most nodes.
    pub max: u32,
}

/// The bounds of `pool` at `now`; the next change of a schedule is noted in `wake`.
///
/// Active schedules replace the pool's own bounds; where several overlap the highest min and the lowest max
/// count, and max wins over min.
#[must_use]
pub fn bounds(pool: &Pool, now: UnixTime, wake: &mut Wake) -> Bounds {
    let open: Vec<&Schedule> = pool.schedules.iter().filter(|schedule| active(schedule, now)).collect();
    let scheduled_min = open.iter().filter_map(|schedule| schedule.min_nodes).max();
    let scheduled_max = open.iter().filter_map(|schedule| schedule.max_nodes).min();
    for schedule in &pool.schedules {
        if let Some(at) = next_change(schedule, now) {
            wake.note(at);
        }
    }
    let max = scheduled_max.unwrap_or(pool.max_nodes);
    Bounds { min: scheduled_min.unwrap_or(pool.min_nodes).min(max), max }
}

/// Whether a schedule's window is open at `now`.
///
/// Windows are read by [`crate::window`]; until they can be, a schedule never applies and the pool's own bounds hold.
fn active(_schedule: &Schedule, _now: UnixTime) -> bool {
    false
}

/// The next instant at which a schedule's window opens or closes.
fn next_change(_schedule: &Schedule, _now: UnixTime) -> Option<UnixTime> {
    None
}
