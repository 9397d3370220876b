//! True if a plan may be left out: the last one left nothing to do, and nothing has come since.

use std::time::Duration;

use headroom_core::time::UnixTime;
use tokio::time::Instant;

/// Longest life of a plan that left nothing to do. Plans report when they would be others; this bounds the effect of a
/// plan that reports it wrongly.
const REST_MAX: Duration = Duration::from_secs(30);

/// Inputs of the last plan. It had no step, changed no memory, and its whole report is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// [`headroom_core::world::World::revision`].
    pub revision: u64,
    /// By the clock that never jumps.
    pub planned_at: Instant,
    /// Time at which the plan is another although nothing happens.
    pub wake_at: Option<UnixTime>,
    /// True if the view was too old to remove anything by.
    pub stale: bool,
}

impl Rest {
    /// True if a plan of this world at this time would be the same.
    pub(super) fn lasts(&self, revision: u64, stale: bool, now: UnixTime, clock: Instant) -> bool {
        self.revision == revision
            && self.stale == stale
            && self.wake_at.is_none_or(|at| now < at)
            && clock.saturating_duration_since(self.planned_at) < REST_MAX
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use super::*;

    #[test]
    fn it_ends_by_news_by_age_and_by_the_plans_own_time() {
        let clock = Instant::now();
        let rest = Rest { revision: 7, planned_at: clock, wake_at: Some(UnixTime(100)), stale: false };
        let later = |seconds| clock + Duration::from_secs(seconds);
        assert!(rest.lasts(7, false, UnixTime(99), later(29)));
        assert!(!rest.lasts(8, false, UnixTime(99), later(29)), "something came");
        assert!(!rest.lasts(7, true, UnixTime(99), later(29)), "the view is not to be trusted any more");
        assert!(!rest.lasts(7, false, UnixTime(100), later(29)), "its time has come");
        assert!(!rest.lasts(7, false, UnixTime(99), later(30)), "it is old");
        assert!(Rest { wake_at: None, ..rest }.lasts(7, false, UnixTime(5_000), later(1)));
    }
}
