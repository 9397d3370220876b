//! Log throttle: decides when an unchanged message is logged again. It logs nothing itself.

use headroom_core::time::{Seconds, UnixTime};

/// First pause between two equal messages; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Seconds = Seconds(30);
/// Longest pause between two equal messages.
const PAUSE_MAX: Seconds = Seconds(600);

/// The message that was logged last, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct LogThrottle {
    last: Option<Logged>,
}

#[derive(Clone, Debug)]
struct Logged {
    message: String,
    at: UnixTime,
    /// Time until it is logged again.
    pause: Seconds,
}

impl LogThrottle {
    /// True if `message` is to be logged `now`: at once when it is another than the last, then after half a minute, one
    /// minute, two, and so on up to ten. A clock that was set back counts as no time passed.
    pub(super) fn due(&mut self, message: &str, now: UnixTime) -> bool {
        let pause = match &self.last {
            Some(last) if last.message == message => {
                if now.since(last.at) < last.pause {
                    return false;
                }
                Seconds(last.pause.0.saturating_mul(2)).min(PAUSE_MAX)
            }
            _ => PAUSE_MIN,
        };
        self.last = Some(Logged { message: message.to_owned(), at: now, pause });
        true
    }

    /// The last message no longer holds: should it come again, it is news.
    pub(super) fn over(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_stays_the_same_is_logged_ever_more_seldom() {
        let mut log_throttle = LogThrottle::default();
        let logged_at: Vec<i64> =
            (0..3000).filter(|second| log_throttle.due("missing", UnixTime(*second))).collect();
        assert_eq!(logged_at, [0, 30, 90, 210, 450, 930, 1530, 2130, 2730]);
        assert!(log_throttle.due("another", UnixTime(3000)), "news is logged at once");
        assert!(!log_throttle.due("another", UnixTime(3001)));
        log_throttle.over();
        assert!(log_throttle.due("another", UnixTime(3002)), "what has come again is news");
    }
}
