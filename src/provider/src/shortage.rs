//! Time that a group has gone without instances that its size asks for and that it launches by itself.

use headroom_core::time::{Seconds, UnixTime};

/// A shortage that has lasted for so long is not waited for. A cloud replaces an instance within a minute of its loss, and a
/// controller of Cluster API needs less to start again.
const LONG: Seconds = Seconds(120);

/// Time since which a group has had fewer instances than its size; `default` has all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage(Option<UnixTime>);

impl Shortage {
    /// The same after a read that found so many instances missing.
    #[must_use]
    pub fn after(self, missing: u32, at: UnixTime) -> Self {
        Self((0 < missing).then(|| self.0.unwrap_or(at)))
    }

    /// True if nobody should wait for its end: it has lasted for two minutes.
    #[must_use]
    pub fn is_long(self, now: UnixTime) -> bool {
        self.0.is_some_and(|since| since.plus(LONG) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_is_long_after_two_minutes_without_a_read_that_found_none() {
        let at = |second: i64| UnixTime(1_000 + second);
        let short = Shortage::default().after(1, at(0)).after(2, at(60));
        assert_eq!([119, 120].map(|second| short.is_long(at(second))), [false, true]);
        assert!(!short.after(0, at(100)).after(1, at(101)).is_long(at(120)));
        assert!(!Shortage::default().is_long(at(1_000)));
    }
}
