//! The seat of a shard in its loop: open while its workloads may be worked on, and the work under way. Pure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The seat of one shard.
#[derive(Debug)]
pub struct Seat {
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    gap: Duration,
    in_flight: usize,
}

/// Leave to work on one workload; the work has ended when it is dropped.
#[derive(Debug)]
#[must_use = "the work ends when this is dropped"]
pub struct Working(Arc<Seat>);

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

impl Seat {
    /// A closed seat; `changed` is notified when it opens or closes.
    #[must_use]
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { state: Mutex::default(), changed }
    }

    /// Opens it, after `gap` in which nobody worked.
    pub(in super::super) fn open(&self, gap: Duration) {
        let mut state = self.lock();
        (state.open, state.gap) = (true, gap);
        drop(state);
        self.changed.notify_one();
    }

    /// Lets no further work begin. Work under way goes on.
    pub(in super::super) fn close(&self) {
        if std::mem::take(&mut self.lock().open) {
            self.changed.notify_one();
        }
    }

    /// True if work may begin.
    pub(in super::super) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Time in which nobody worked before it was opened.
    pub(in super::super) fn gap(&self) -> Duration {
        self.lock().gap
    }

    /// True if no work is under way.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.lock().in_flight == 0
    }

    /// Begins some work; `None` if it is closed.
    pub(in super::super) fn begin(self: &Arc<Self>) -> Option<Working> {
        let mut state = self.lock();
        if !state.open {
            return None;
        }
        state.in_flight += 1;
        Some(Working(self.clone()))
    }

    /// Resolves when a seat of the same loop has opened or closed. One loop waits.
    pub(in super::super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one step, so what a panic leaves is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_begins_at_a_closed_seat_and_what_has_begun_is_waited_for() {
        let seat = Arc::new(Seat::new(Arc::default()));
        assert!(seat.begin().is_none());
        seat.open(Duration::from_secs(3));
        let working = seat.begin();
        seat.close();
        assert!(seat.begin().is_none() && !seat.is_idle());
        drop(working);
        assert!(seat.is_idle() && !seat.is_open());
    }
}
