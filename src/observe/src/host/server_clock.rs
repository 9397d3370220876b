//! The API server's clock, read from the dates of its answers: the clock that all replicas and the times in objects share.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Maximum difference between the clock and an answer's date before the clock follows: dates are whole seconds, and the
/// servers of one cluster differ by a little.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);
/// Dates are rounded down to whole seconds.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// A clock that was right once and has gone on with the monotonic one since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerClock {
    shown: Timestamp,
    at: Instant,
}

impl ServerClock {
    /// A clock that shows `shown` at `at`.
    pub(super) fn new(shown: Timestamp, at: Instant) -> Self {
        Self { shown, at }
    }

    /// Returns the time at `instant`, before or after it was set.
    pub(super) fn read(&self, instant: Instant) -> Timestamp {
        let shown = match instant.checked_duration_since(self.at) {
            Some(since) => self.shown + since,
            None => self.shown - self.at.saturating_duration_since(instant),
        };
        shown.max(Timestamp::UNIX_EPOCH)
    }

    /// The clock after an answer dated `date` to a request that was sent and answered at these instants.
    ///
    /// However long either way took, the server's clock showed at most `date` and a second when the request was sent,
    /// and at least `date` when the answer had come. A clock that differs is set to the nearer of the two.
    pub(super) fn corrected(self, date: Timestamp, sent_at: Instant, answered_at: Instant) -> Self {
        let latest = date.saturating_add(ROUNDING).unwrap_or(date);
        if TOLERANCE < date.duration_since(self.read(answered_at)) {
            Self::new(date, answered_at)
        } else if TOLERANCE < self.read(sent_at).duration_since(latest) {
            Self::new(latest, sent_at)
        } else {
            self
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("in range")
    }

    /// Returns the time of the clock, set to second 0, at instant `asked` after an answer to a request of these
    /// instants.
    fn shown(date: i64, sent: u64, answered: u64, asked: u64) -> i64 {
        let start = Instant::now() + Duration::from_secs(1_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let clock = ServerClock::new(at(0), start).corrected(at(date), after(sent), after(answered));
        clock.read(after(asked)).as_second() - 1_700_000_000
    }

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        assert_eq!(shown(5, 5, 5, 10), 10);
        assert_eq!(shown(7, 5, 5, 10), 10, "two seconds are within tolerance");
        assert_eq!(shown(2, 5, 5, 10), 10);
    }

    #[test]
    fn a_clock_that_is_behind_or_ahead_follows() {
        assert_eq!(shown(3_605, 5, 5, 10), 3_610);
        assert_eq!(shown(-3_595, 5, 5, 10), -3_589, "the latest that the answer allows");
    }

    #[test]
    fn an_answer_that_took_long_says_nothing_of_the_time_in_between() {
        assert_eq!(shown(10, 10, 70, 70), 70, "dated when it was sent, sixty seconds on its way");
        assert_eq!(shown(70, 10, 70, 70), 70, "dated when it came");
    }
}
