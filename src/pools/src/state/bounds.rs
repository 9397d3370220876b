//! The bounds of a pool at an instant, schedules applied. It reads the spec only, never sizes.

use crate::config::{Pool, Schedule};
use crate::wake::Wake;
use headroom_values::time::UnixTime;

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
    if let Some(at) = next_change(pool, now) {
        wake.note(at);
    }
    at(pool, now)
}

/// The bounds of `pool` at `now`, for callers that do not wait for their change.
#[must_use]
pub fn at(pool: &Pool, now: UnixTime) -> Bounds {
    let open = open_schedules(pool, now);
    let scheduled_min = open.iter().filter_map(|schedule| schedule.min_nodes).max();
    let scheduled_max = open.iter().filter_map(|schedule| schedule.max_nodes).min();
    let max = scheduled_max.unwrap_or(pool.max_nodes);
    Bounds { min: scheduled_min.unwrap_or(pool.min_nodes).min(max), max }
}

/// The schedules whose windows are open at `now`, in the order of the spec.
#[must_use]
pub fn open_schedules(pool: &Pool, now: UnixTime) -> Vec<&Schedule> {
    let instant = now.to_jiff();
    pool.schedules.iter().filter(|schedule| schedule.window.active_at(instant).is_some()).collect()
}

/// The next instant at which a window of the pool's schedules opens or closes; `None` when none ever does again.
#[must_use]
pub fn next_change(pool: &Pool, now: UnixTime) -> Option<UnixTime> {
    let instant = now.to_jiff();
    let changes = pool.schedules.iter().filter_map(|schedule| schedule.window.next_change(instant));
    changes.map(UnixTime::from_jiff).min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::pool;
    use headroom_values::window::Window;

    /// Noon on a Monday, in UTC.
    const NOON: UnixTime = UnixTime(1_794_830_400);

    fn schedule(name: &str, start: &str, min_nodes: Option<u32>, max_nodes: Option<u32>) -> Schedule {
        let window = Window::new("UTC", start, 4 * 3600).expect("a valid window");
        Schedule { name: Arc::from(name), window, min_nodes, max_nodes }
    }

    fn scheduled(schedules: Vec<Schedule>) -> Pool {
        let mut pool = pool("general").build();
        (pool.min_nodes, pool.max_nodes, pool.schedules) = (1, 10, schedules);
        pool
    }

    #[test]
    fn a_closed_window_leaves_the_pools_own_bounds() {
        let pool = scheduled(vec![schedule("night", "0 20 * * *", Some(5), Some(50))]);
        assert_eq!(at(&pool, NOON), Bounds { min: 1, max: 10 });
    }

    #[test]
    fn of_overlapping_windows_the_highest_min_and_the_lowest_max_hold() {
        let day = schedule("day", "0 10 * * *", Some(3), Some(40));
        let lunch = schedule("lunch", "30 11 * * *", Some(5), Some(20));
        assert_eq!(at(&scheduled(vec![day, lunch]), NOON), Bounds { min: 5, max: 20 });
    }

    #[test]
    fn max_wins_over_min() {
        let pool = scheduled(vec![schedule("freeze", "0 10 * * *", Some(9), Some(2))]);
        assert_eq!(at(&pool, NOON), Bounds { min: 2, max: 2 });
    }

    #[test]
    fn the_next_opening_or_closing_wakes_the_loop() {
        let mut wake = Wake::new(NOON);
        let _ = bounds(&scheduled(vec![schedule("day", "0 10 * * *", Some(3), None)]), NOON, &mut wake);
        assert_eq!(wake.earliest(), Some(NOON.plus(headroom_values::time::Seconds::hours(2))));
    }
}
