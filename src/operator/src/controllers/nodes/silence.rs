//! Log throttle for providers that do not answer: a change is logged at once, an unchanged error at growing intervals.
//! It logs nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::time::UnixTime;

use crate::controllers::log_throttle::LogThrottle;

/// Pools whose provider did not answer when it was last asked.
#[derive(Debug, Default)]
pub(super) struct Silence {
    pools: BTreeMap<Arc<str>, LogThrottle>,
}

impl Silence {
    /// True if `error` of this pool is to be logged now. Errors that differ in numbers alone, such as a request's id or the
    /// seconds until the next attempt, are the same.
    pub(super) fn is_due(&mut self, pool: &Arc<str>, error: &str, now: UnixTime) -> bool {
        self.pools.entry(pool.clone()).or_default().due(&without_numbers(error), now)
    }

    /// True if the pool's provider was silent until now.
    pub(super) fn ends(&mut self, pool: &str) -> bool {
        self.pools.remove(pool).is_some()
    }

    /// Forgets pools that are not asked for any more.
    pub(super) fn keep(&mut self, asked: impl Fn(&str) -> bool) {
        self.pools.retain(|pool, _| asked(pool));
    }
}

/// The text with each word that holds a digit left out: ids are made of letters too.
fn without_numbers(text: &str) -> String {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '-');
    words.filter(|word| !word.contains(|it: char| it.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_provider_is_logged_at_growing_intervals_and_a_change_at_once() {
        let mut silence = Silence::default();
        let pool: Arc<str> = "general".into();
        // Asked every two seconds for an hour, with another request id each time.
        let logged: Vec<i64> = (0..3600)
            .step_by(2)
            .filter(|second| {
                let error = format!("no answer (request 6f1b{second}-aa, try again in {second} s)");
                silence.is_due(&pool, &error, UnixTime(*second))
            })
            .collect();
        assert_eq!(logged, [0, 30, 90, 210, 450, 930, 1530, 2130, 2730, 3330]);
        assert!(silence.is_due(&pool, "access denied", UnixTime(3601)), "news is logged at once");
        assert!(silence.is_due(&"other".into(), "access denied", UnixTime(3601)), "each pool has its own");
        assert!(silence.ends("general") && !silence.ends("general"));
        assert!(silence.is_due(&pool, "access denied", UnixTime(3602)), "what has come again is news");
    }

    #[test]
    fn a_pool_that_is_gone_is_forgotten() {
        let mut silence = Silence::default();
        silence.is_due(&"gone".into(), "no answer", UnixTime(0));
        silence.keep(|pool| pool != "gone");
        assert!(!silence.ends("gone"));
    }
}
