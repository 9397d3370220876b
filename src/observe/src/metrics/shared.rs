//! One answer for all who ask the same at about the same time: single-flight, kept for a while, failures too.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::answer::Answer;
use crate::host::Host;

/// Fewest keys at which those that nobody asks for any more are looked for.
const SWEEP_MIN: usize = 1024;
/// A key that nobody asked for in so long is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Answers by question.
pub(super) struct Shared<K, T> {
    host: Arc<Host>,
    keep: Keep,
    slots: Mutex<Slots<K, T>>,
}

/// Time that an answer serves those who ask later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// A success.
    pub(super) success: Duration,
    /// The first failure; each further one in a row doubles it.
    pub(super) failure: Duration,
    /// Longest for a failure.
    pub(super) failure_max: Duration,
}

struct Slots<K, T> {
    by_key: BTreeMap<K, Arc<Slot<T>>>,
    sweep_at: usize,
    /// Time at which answers that serve nobody any more are let go of next.
    expire_at: Instant,
}

struct Slot<T> {
    /// Held while the question is on its way, so that whoever asks meanwhile waits for the same answer.
    last: tokio::sync::Mutex<Option<Kept<T>>>,
    asked_at: Mutex<Instant>,
}

struct Kept<T> {
    answer: Answer<T>,
    at: Instant,
    n_failures: u32,
}

impl<K: Ord + Clone, T: Clone> Shared<K, T> {
    pub(super) fn new(host: Arc<Host>, keep: Keep) -> Self {
        let expire_at = host.monotonic();
        let slots = Mutex::new(Slots { by_key: BTreeMap::new(), sweep_at: SWEEP_MIN, expire_at });
        Self { host, keep, slots }
    }

    /// The kept answer if it is young enough, and a success not older than `age_max`, else that of `ask`. A caller that is
    /// dropped while it asks leaves the question to the next in line.
    pub(super) async fn get(
        &self,
        key: &K,
        age_max: Duration,
        ask: impl Future<Output = Answer<T>>,
    ) -> Answer<T> {
        let slot = self.slot(key);
        let mut last = slot.last.lock().await;
        let now = self.host.monotonic();
        let too_old = |kept: &Kept<T>| kept.answer.is_ok() && age_max <= now.duration_since(kept.at);
        if let Some(kept) = last.as_ref()
            && !self.has_expired(kept, now)
            && !too_old(kept)
        {
            return kept.answer.clone();
        }
        let answer = ask.await;
        let before = last.as_ref().map_or(0, |kept| kept.n_failures);
        let n_failures = if answer.is_ok() { 0 } else { before.saturating_add(1) };
        *last = Some(Kept { answer: answer.clone(), at: self.host.monotonic(), n_failures });
        answer
    }

    /// Forgets the answer to one question; one on its way is not touched.
    pub(super) fn forget(&self, key: &K) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).by_key.remove(key);
    }

    fn slot(&self, key: &K) -> Arc<Slot<T>> {
        let now = self.host.monotonic();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.expire_at <= now {
            slots.by_key.values().for_each(|slot| self.expire(slot, now));
            slots.expire_at = now + self.keep.success;
        }
        if let Some(slot) = slots.by_key.get(key) {
            *slot.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
            return slot.clone();
        }
        if slots.sweep_at <= slots.by_key.len() {
            slots.by_key.retain(|_, slot| {
                let asked_at = *slot.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
                now.duration_since(asked_at) < FORGOTTEN_AFTER
            });
            slots.sweep_at = SWEEP_MIN.max(slots.by_key.len() * 2);
        }
        let slot = Arc::new(Slot { last: tokio::sync::Mutex::new(None), asked_at: Mutex::new(now) });
        slots.by_key.insert(key.clone(), slot.clone());
        slot
    }

    /// Lets go of a success that serves nobody any more. A failure stays: it is small, and the next one counts from it.
    fn expire(&self, slot: &Slot<T>, now: Instant) {
        // Whoever holds it asks anew.
        let Ok(mut last) = slot.last.try_lock() else { return };
        if last.as_ref().is_some_and(|kept| kept.answer.is_ok() && self.has_expired(kept, now)) {
            *last = None;
        }
    }

    fn has_expired(&self, kept: &Kept<T>, now: Instant) -> bool {
        self.keep.how_long(kept) <= now.duration_since(kept.at)
    }
}

impl Keep {
    fn how_long<T>(&self, kept: &Kept<T>) -> Duration {
        match kept.n_failures {
            0 => self.success,
            n => self.failure.saturating_mul(1 << (n - 1).min(16)).min(self.failure_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::answer::{Question, Why};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shared() -> (Arc<Host>, Shared<u8, u32>) {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let keep = Keep { success: 10 * SECOND, failure: SECOND, failure_max: 3 * SECOND };
        (host.clone(), Shared::new(host, keep))
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_at_the_same_time_shares_one_call() {
        let (_host, shared) = shared();
        let n_calls = AtomicU32::new(0);
        let ask = async || {
            shared
                .get(&1, Duration::MAX, async {
                    tokio::time::sleep(SECOND).await;
                    Ok(n_calls.fetch_add(1, Ordering::Relaxed))
                })
                .await
        };
        let answers = futures::join!(ask(), ask(), ask());
        assert_eq!(answers, (Ok(0), Ok(0), Ok(0)));
        tokio::time::sleep(8 * SECOND).await;
        assert_eq!(ask().await, Ok(0));
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(ask().await, Ok(1), "the answer has become too old");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_more_often_is_served_by_younger_answers_and_shares_them() {
        let (_host, shared) = shared();
        let n_calls = AtomicU32::new(0);
        let ask = async |age_max: Duration| {
            shared.get(&1, age_max, async { Ok(n_calls.fetch_add(1, Ordering::Relaxed)) }).await
        };
        assert_eq!(ask(Duration::MAX).await, Ok(0));
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(ask(3 * SECOND).await, Ok(0));
        assert_eq!(ask(2 * SECOND).await, Ok(1), "the answer is as old as its limit");
        assert_eq!(ask(Duration::MAX).await, Ok(1), "the others get the younger one");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_serve_nobody_any_more_do_not_stay_in_memory() {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let keep = Keep { success: 10 * SECOND, failure: SECOND, failure_max: 3 * SECOND };
        let shared: Shared<u8, Arc<str>> = Shared::new(host, keep);
        let answer: Arc<str> = Arc::from("a long list");
        shared.get(&1, Duration::MAX, async { Ok(answer.clone()) }).await.unwrap();
        tokio::time::sleep(9 * SECOND).await;
        shared.get(&2, Duration::MAX, async { Ok("another".into()) }).await.unwrap();
        assert_eq!(Arc::strong_count(&answer), 2, "it serves for a second more");
        tokio::time::sleep(11 * SECOND).await;
        shared.get(&2, Duration::MAX, async { Ok("another".into()) }).await.unwrap();
        assert_eq!(Arc::strong_count(&answer), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_leaves_the_call_to_the_next() {
        let (_host, shared) = shared();
        let stuck = shared.get(&1, Duration::MAX, std::future::pending());
        assert!(tokio::time::timeout(SECOND, stuck).await.is_err());
        assert_eq!(shared.get(&1, Duration::MAX, async { Ok(7) }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_are_kept_longer_each_time_up_to_a_bound() {
        let (_host, shared) = shared();
        let n_calls = AtomicU32::new(0);
        let ask = async || {
            shared
                .get(&1, Duration::MAX, async {
                    n_calls.fetch_add(1, Ordering::Relaxed);
                    Err(Question::new("s", "q").failure(Why::Empty))
                })
                .await
        };
        let mut calls_by_second = Vec::new();
        for _ in 0..12 {
            assert!(ask().await.is_err());
            calls_by_second.push(n_calls.load(Ordering::Relaxed));
            tokio::time::sleep(SECOND).await;
        }
        assert_eq!(calls_by_second, [1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
    }
}
