//! Budgets of calls, one per service and region: a bucket of tokens that fills at a steady rate. It counts and waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::calls::CallError;
use headroom_observe::host::Host;

/// Longest a call waits for its turn; then it is not made, and what is known stays as old as it is.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A budget of calls to one service. Quotas are per account and region and shared with every other tool: ours is low.
#[derive(Debug)]
pub(crate) struct Budget {
    host: Arc<Host>,
    burst: f64,
    per_second: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    at: Instant,
}

impl Budget {
    /// `burst` calls at once, and `per_second` in the long run.
    #[must_use]
    pub(crate) fn new(host: Arc<Host>, burst: u32, per_second: f64) -> Self {
        let (burst, at) = (f64::from(burst), host.monotonic());
        Self { host, burst, per_second, state: Mutex::new(State { tokens: burst, at }) }
    }

    /// Waits until one more call may be made.
    ///
    /// # Errors
    /// [`CallError`] of kind not sent when the wait would be longer than five seconds.
    pub(crate) async fn take(&self, action: &'static str) -> Result<(), CallError> {
        let wait = self.reserve();
        if WAIT_MAX < wait {
            self.give_back();
            return Err(CallError::not_sent(action, "the budget of calls to AWS is used up for the moment"));
        }
        if !wait.is_zero() {
            self.host.sleep(wait).await;
        }
        Ok(())
    }

    /// Takes one token, on credit if there is none, and returns how long until it is there.
    fn reserve(&self) -> Duration {
        let now = self.host.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = now.saturating_duration_since(state.at).as_secs_f64() * self.per_second;
        state.tokens = (state.tokens + filled).min(self.burst) - 1.0;
        state.at = now;
        if state.tokens < 0.0 {
            Duration::from_secs_f64(-state.tokens / self.per_second)
        } else {
            Duration::ZERO
        }
    }

    fn give_back(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).tokens += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_burst_come_at_the_steady_rate() {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let budget = Budget::new(host.clone(), 2, 2.0);
        let started = host.monotonic();
        for _ in 0..6 {
            budget.take("autoscaling:DescribeAutoScalingGroups").await.expect("within the wait");
        }
        assert_eq!((host.monotonic() - started).as_millis(), 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_would_wait_too_long_is_not_made() {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let budget = Budget::new(host, 1, 0.1);
        budget.take("a:B").await.expect("the first is free");
        let refused = budget.take("a:B").await.expect_err("ten seconds are too long");
        assert_eq!(refused.kind, super::super::calls::Trouble::NotSent);
    }
}
