//! Wall time in the simulated world: a base plus tokio's (pausable) time plus an offset; it never asks the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A wall clock that moves with tokio's clock; each replica may have one with an offset of its own.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    base: Timestamp,
    started: Instant,
    offset_millis: Arc<AtomicI64>,
}

impl VirtualClock {
    /// A clock that shows `base` now. Must be called inside the runtime whose time it follows.
    pub fn starting_at(base: Timestamp) -> VirtualClock {
        VirtualClock { base, started: Instant::now(), offset_millis: Arc::new(AtomicI64::new(0)) }
    }

    /// The wall time; saturates at the ends of time.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        let offset = SignedDuration::from_millis(self.offset_millis.load(Ordering::Relaxed));
        let elapsed = elapsed.checked_add(offset).unwrap_or(elapsed);
        self.base.saturating_add(elapsed).unwrap_or(self.base)
    }

    /// The same clock with its own offset, for a replica whose clock is wrong.
    pub fn replica(&self, offset: SignedDuration) -> VirtualClock {
        let clock = VirtualClock { offset_millis: Arc::default(), ..self.clone() };
        clock.jump(offset);
        clock
    }

    /// Sets the offset from true time; clones of this clock jump with it.
    pub fn jump(&self, offset: SignedDuration) {
        let millis = i64::try_from(offset.as_millis()).unwrap_or(i64::MAX);
        self.offset_millis.store(millis, Ordering::Relaxed);
    }

    /// The instant at which this clock will show `at`; now when that has passed.
    pub fn instant_of(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.now());
        Instant::now() + std::time::Duration::try_from(ahead).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wall_time_follows_paused_time_and_its_own_offset() {
        let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = VirtualClock::starting_at(base);
        let skewed = clock.replica(SignedDuration::from_hours(-1));
        tokio::time::sleep(std::time::Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
        assert_eq!(skewed.now().to_string(), "2025-12-31T23:01:30Z");
    }
}
