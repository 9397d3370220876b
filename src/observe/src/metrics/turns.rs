//! A bound on the calls of one server that are in flight: one that is silent holds few evaluations, and no others wait for it.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::answer::{Outage, Why};

/// Most calls of one server at once.
const IN_FLIGHT_MAX: usize = 32;
/// Longest wait for a turn.
const TURN_DEADLINE: Duration = Duration::from_secs(1);

/// The turns of one server.
pub(super) struct Turns(Semaphore);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(IN_FLIGHT_MAX))
    }

    /// Makes a call once fewer than the most are in flight.
    ///
    /// # Errors
    /// `Outage` if that takes more than a second.
    pub(super) async fn take<T>(&self, call: impl Future<Output = Result<T, Why>>) -> Result<T, Why> {
        let turn = tokio::time::timeout(TURN_DEADLINE, self.0.acquire()).await;
        let Ok(_turn) = turn else {
            let words = format!("it has {IN_FLIGHT_MAX} calls in flight that it does not answer");
            return Err(Why::Outage(Outage::Call(words)));
        };
        call.await
    }
}
