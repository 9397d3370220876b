//! When a message that says the same for long is told again. It tells nothing itself.

use headroom_core::time::{Seconds, UnixTime};

/// First pause between two messages that say the same; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Seconds = Seconds(30);
/// Longest pause between two messages that say the same.
const PAUSE_MAX: Seconds = Seconds(600);

/// What was told last, and when.
#[derive(Clone, Debug, Default)]
pub struct LogThrottle {
    told: Option<Told>,
}

#[derive(Clone, Debug)]
struct Told {
    message: String,
    at: UnixTime,
    /// Until it is told again.
    pause: Seconds,
}

impl LogThrottle {
    /// True if `message` is to be told `now`: at once when it is another than the last, then after half a minute, one
    /// minute, two, and so on up to ten. A clock that was set back counts as no time passed.
    pub fn due(&mut self, message: &str, now: UnixTime) -> bool {
        let pause = match &self.told {
            Some(told) if told.message == message => {
                if now.since(told.at) < told.pause {
                    return false;
                }
                Seconds(told.pause.0.saturating_mul(2)).min(PAUSE_MAX)
            }
            _ => PAUSE_MIN,
        };
        self.told = Some(Told { message: message.to_owned(), at: now, pause });
        true
    }

    /// What was told no longer holds: should it come again, it is news.
    pub fn over(&mut self) {
        self.told = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_for_long_is_told_ever_more_seldom() {
        let mut log_throttle = LogThrottle::default();
        let told: Vec<i64> =
            (0..3000).filter(|second| log_throttle.due("missing", UnixTime(*second))).collect();
        assert_eq!(told, [0, 30, 90, 210, 450, 930, 1530, 2130, 2730]);
        assert!(log_throttle.due("another", UnixTime(3000)), "news is told at once");
        assert!(!log_throttle.due("another", UnixTime(3001)));
        log_throttle.over();
        assert!(log_throttle.due("another", UnixTime(3002)), "what has come again is news");
    }
}
