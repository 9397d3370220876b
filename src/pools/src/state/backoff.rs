//! Length of a group's backoff after a failure, and the time at which it is reset. It does not decide what failed.

use std::sync::Arc;

use crate::config::ScaleUp;
use headroom_cluster::history::{Backoff, PoolHistory};
use headroom_cluster::world::provider::BackoffKey;
use headroom_cluster::world::provider::FailureClass;
use headroom_values::time::{Seconds, UnixTime};

/// Longest message kept, in characters; the provider's words can be pages.
const MESSAGE_CHARS_MAX: usize = 512;

/// The backoff after one more failure at `now`, given the one before, if any.
///
/// The first lasts `backoff_initial`, even when the maximum is smaller. A failure inside the window slides it by the
/// same length; one after it doubles the length, up to `backoff_max`. The caller decides whether the one before is
/// still to be remembered: see [`forgotten`].
/// Source: utils/backoff/exponential_backoff.go, Backoff.
#[must_use]
pub fn after_failure(
    before: Option<&Backoff>,
    class: FailureClass,
    message: &str,
    now: UnixTime,
    settings: &ScaleUp,
) -> Backoff {
    let (length, failures) = match before {
        None => (settings.backoff_initial, 1),
        Some(backoff) => {
            // What somebody has written into status may be shorter than any, or end before it begins.
            let least = settings.backoff_initial.min(settings.backoff_max);
            let length = backoff.until.since(backoff.since).max(least);
            let length = if backoff.until < now { doubled(length, settings.backoff_max) } else { length };
            (length, backoff.failures.saturating_add(1))
        }
    };
    Backoff { class, failures, since: now, until: now.plus(length), message: shortened(message) }
}

/// True if the last failure is so long ago that it no longer counts.
#[must_use]
pub fn forgotten(backoff: &Backoff, now: UnixTime, settings: &ScaleUp) -> bool {
    settings.backoff_reset_after < now.since(backoff.since)
}

/// Time until which a group is not bought from in place of others after its last failure: as long again as it was held back.
/// `None` if no failure of it is remembered. With the defaults that is 10 minutes to an hour after the failure.
#[must_use]
pub fn quiet_until(memory: &PoolHistory, group: &str) -> Option<UnixTime> {
    let of_group = memory.backoffs.iter().filter(|(key, _)| &*key.group == group);
    let ends = of_group.map(|(_, backoff)| {
        let length = backoff.until.since(backoff.since).max(Seconds(0));
        backoff.until.plus(length)
    });
    ends.max()
}

/// Notes a failure of `key` in a pool's memory.
///
/// It is not a failed removal: [`PoolHistory::last_failure`] stays, and removals in the pool do not wait for it.
/// Source: clusterstate.go, RegisterFailedScaleUp, does not touch lastScaleDownFailTime of static_autoscaler.go.
pub fn register(
    memory: &mut PoolHistory,
    key: BackoffKey,
    class: FailureClass,
    message: &str,
    now: UnixTime,
    settings: &ScaleUp,
) {
    let before = memory.backoffs.get(&key).filter(|backoff| !forgotten(backoff, now, settings));
    let backoff = after_failure(before, class, message, now, settings);
    memory.backoffs.insert(key, backoff);
}

fn doubled(length: Seconds, max: Seconds) -> Seconds {
    Seconds(length.0.saturating_mul(2)).min(max)
}

/// The first characters of a message; never cuts one in two.
fn shortened(message: &str) -> Arc<str> {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => Arc::from(&message[..end]),
        None => Arc::from(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(before: Option<&Backoff>, at: i64) -> Backoff {
        after_failure(before, FailureClass::Other, "no", UnixTime(at), &ScaleUp::default())
    }

    #[test]
    fn failure_after_the_window_doubles_it() {
        let first = fail(None, 0);
        assert_eq!(first.until, UnixTime(300));
        assert_eq!(fail(Some(&first), 301).until, UnixTime(301 + 600));
    }

    #[test]
    fn failure_inside_the_window_slides_it() {
        let first = fail(None, 0);
        assert_eq!(fail(Some(&first), 300).until, UnixTime(600));
    }

    #[test]
    fn length_that_somebody_has_written_is_never_shorter_than_the_first() {
        let edited = Backoff { since: UnixTime(900), until: UnixTime(100), ..fail(None, 0) };
        assert_eq!(fail(Some(&edited), 1000).until, UnixTime(1000 + 600));
    }

    #[test]
    fn length_is_bounded() {
        let mut backoff = fail(None, 0);
        for _ in 0..10 {
            backoff = fail(Some(&backoff), backoff.until.0 + 1);
        }
        assert_eq!(backoff.until.since(backoff.since), Seconds::minutes(30));
    }

    #[test]
    fn old_failures_are_forgotten() {
        let (mut memory, key) = (PoolHistory::default(), BackoffKey::default());
        for at in [0, 3 * 3600 + 1] {
            let settings = ScaleUp::default();
            register(&mut memory, key.clone(), FailureClass::Other, "no", UnixTime(at), &settings);
        }
        let again = &memory.backoffs[&key];
        assert_eq!((again.failures, again.until.since(again.since)), (1, Seconds::minutes(5)));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let message = "ä".repeat(600);
        let backoff = after_failure(None, FailureClass::Other, &message, UnixTime(0), &ScaleUp::default());
        assert_eq!(backoff.message.chars().count(), 512);
    }
}
