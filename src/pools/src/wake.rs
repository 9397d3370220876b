//! The earliest instant at which a plan may differ although nothing happens. It never looks at a clock.

use headroom_values::time::UnixTime;

/// Collects instants and keeps the earliest that lies ahead.
#[derive(Clone, Copy, Debug)]
pub struct Wake {
    now: UnixTime,
    at: Option<UnixTime>,
}

impl Wake {
    /// Nothing ahead yet.
    #[must_use]
    pub fn new(now: UnixTime) -> Self {
        Self { now, at: None }
    }

    /// Something may change at `at`. Instants that have passed are ignored: a plan already knows them.
    pub fn note(&mut self, at: UnixTime) {
        if self.now < at {
            self.at = Some(self.at.map_or(at, |earliest| earliest.min(at)));
        }
    }

    /// The earliest instant noted; `None` when nothing changes by time alone.
    #[must_use]
    pub fn earliest(&self) -> Option<UnixTime> {
        self.at
    }
}
