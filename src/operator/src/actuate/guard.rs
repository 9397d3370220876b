//! The only entry point of every mutation: claim, deadline, crash points and call log under each API and cloud call.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use headroom_observe::host::Host;

/// Longest time one bounded step may take (design rule 4).
pub const STEP_DEADLINE: Duration = Duration::from_secs(10);
/// Longest time a read may take, its body included.
pub const READ_DEADLINE: Duration = Duration::from_secs(60);
/// Calls are refused when less than this is left of the lease: they could land after its end.
pub const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// The right to act, as the leader election last established it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The leader term: the lease's number of transitions.
    pub epoch: u64,
    /// The claim is void from this instant on, whatever the election has since tried.
    pub expires_at: Instant,
}

/// Reason why the guard did not let a call through, or did not wait for its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This replica does not lead, or no longer.
    #[error("refused {operation}: this replica does not hold the lease")]
    NoClaim {
        /// Verb and path of the call, or the cloud call's name.
        operation: String,
    },
    /// The call did not end in time; whether it took effect is unknown.
    #[error("{operation} did not end within {deadline:?}; its effect is unknown")]
    Deadline {
        /// Verb and path of the call, or the cloud call's name.
        operation: String,
        /// Time that it was waited for.
        deadline: Duration,
    },
}

/// One line of the call log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Verb and path, or the cloud call's name.
    pub operation: String,
    /// Result of the call: an HTTP status, or a word.
    pub result: String,
}

/// Sees every mutating call and its end: metrics in production, the trace in a simulation.
pub type Observer = Box<dyn Fn(&Call) + Send + Sync>;

/// Sees the end of each call to a cloud, reads too: its action, how it ended, and how long it took.
pub type CloudObserver = Box<dyn Fn(&'static str, &'static str, Duration) + Send + Sync>;

/// The layer's shared state; cheap to clone.
#[derive(Clone)]
pub struct Guard {
    shared: Arc<Shared>,
    claim: Arc<Mutex<Option<Claim>>>,
}

struct Shared {
    host: Arc<Host>,
    effects: AtomicU64,
    calls: AtomicU64,
    crash: CrashPoint,
    observer: Option<Observer>,
    cloud_observer: OnceLock<CloudObserver>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("claim", &self.claim()).finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard without a claim: it lets reads through and nothing else.
    ///
    /// `observer` sees every mutating call and its end: metrics in production, the trace in a simulation.
    #[must_use]
    pub fn new(host: Arc<Host>, crash: CrashPoint, observer: Option<Observer>) -> Self {
        Self {
            claim: Arc::default(),
            shared: Arc::new(Shared {
                host,
                effects: AtomicU64::new(0),
                calls: AtomicU64::new(0),
                crash,
                observer,
                cloud_observer: OnceLock::new(),
            }),
        }
    }

    /// A guard with a claim of its own, without one at first; calls through both are counted and observed together.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { shared: self.shared.clone(), claim: Arc::default() }
    }

    /// Returns the host of the process: clocks and timers.
    #[must_use]
    pub fn host(&self) -> Arc<Host> {
        self.shared.host.clone()
    }

    /// Sets or withdraws the claim. Only the leader election and the keeper of shards call this.
    pub fn set_claim(&self, claim: Option<Claim>) {
        *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = claim;
    }

    /// The claim if it is still good at this instant, with the margin kept.
    #[must_use]
    pub fn claim(&self) -> Option<Claim> {
        let claim = *self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |claim: &Claim| self.shared.host.monotonic() + LEASE_MARGIN < claim.expires_at;
        claim.filter(holds)
    }

    /// Returns the number of mutating calls that have been let through; crash points count the same way.
    #[must_use]
    pub fn calls_count(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Lets one mutating call through if the claim holds, for at most the rest of the lease and
    /// [`STEP_DEADLINE`].
    ///
    /// # Errors
    /// [`Refusal`] when nothing was sent, or when the end was not seen in time.
    pub async fn mutate<T>(
        &self,
        operation: &str,
        describe: impl FnOnce(&T) -> String,
        call: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        self.admit(operation.to_owned())?.see_through(describe, call).await
    }

    /// The leave to make one mutating call, now.
    ///
    /// # Errors
    /// [`Refusal::NoClaim`]: then nothing may be sent.
    pub fn admit(&self, operation: String) -> Result<Leave, Refusal> {
        let Some(claim) = self.claim() else {
            self.note(&operation, "refused");
            return Err(Refusal::NoClaim { operation });
        };
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        self.crash_point(&operation, "before");
        let rest = claim.expires_at.saturating_duration_since(self.shared.host.monotonic());
        let deadline = rest.saturating_sub(LEASE_MARGIN).min(STEP_DEADLINE);
        Ok(Leave { guard: self.clone(), operation, deadline })
    }

    /// Reports a call, or its end, to the observer.
    pub fn note(&self, operation: &str, result: &str) {
        if let Some(observer) = &self.shared.observer {
            observer(&Call { operation: operation.to_owned(), result: result.to_owned() });
        }
    }

    /// From now on `observer` sees the end of each call to a cloud; the first one given stays.
    pub fn observe_clouds(&self, observer: CloudObserver) {
        // A second one would count everything twice.
        let _ = self.shared.cloud_observer.set(observer);
    }

    /// Reports the end of a call to a cloud.
    pub fn note_cloud(&self, action: &'static str, outcome: &'static str, took: Duration) {
        if let Some(observer) = self.shared.cloud_observer.get() {
            observer(action, outcome, took);
        }
    }

    /// Counts one effect point and dies there if it is the one asked for.
    fn crash_point(&self, operation: &str, side: &str) {
        let number = self.shared.effects.fetch_add(1, Ordering::Relaxed) + 1;
        self.shared.crash.reached(number, operation, side);
    }
}

/// The leave to make one mutating call, for a limited time.
#[derive(Debug)]
#[must_use = "a call that was admitted is to be made"]
pub struct Leave {
    guard: Guard,
    operation: String,
    deadline: Duration,
}

impl Leave {
    /// Waits for the call's end, no longer than the leave lasts.
    ///
    /// # Errors
    /// [`Refusal::Deadline`] when the end was not seen in time; whether the call took effect is then unknown.
    pub async fn see_through<T>(
        self,
        describe: impl FnOnce(&T) -> String,
        call: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        let Self { guard, operation, deadline } = self;
        let result = tokio::time::timeout(deadline, call).await;
        guard.crash_point(&operation, "after");
        match result {
            Ok(value) => {
                guard.note(&operation, &describe(&value));
                Ok(value)
            }
            Err(_) => {
                guard.note(&operation, "deadline");
                Err(Refusal::Deadline { operation, deadline })
            }
        }
    }
}

/// Point at which the process is to die, for tests of the state after a crash.
pub struct CrashPoint(Option<Reached>);

/// Callback for each effect point: its number, the operation, and `before` or `after`.
type Reached = Box<dyn Fn(u64, &str, &str) + Send + Sync>;

impl fmt::Debug for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CrashPoint").field(&self.0.is_some()).finish()
    }
}

impl CrashPoint {
    /// Nowhere: production.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Wherever `reached` decides (by number, operation and side): simulations end the replica there.
    pub fn new(reached: impl Fn(u64, &str, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(reached)))
    }

    /// As set by the environment: `HEADROOM_CRASH_AT` is the number of an effect point, or the beginning of its side
    /// and operation, such as `after DELETE /api/v1/nodes/`, and `HEADROOM_CRASH_LOG` a file to which each point is
    /// appended. Compiled for tests only.
    #[cfg(feature = "failpoints")]
    #[must_use]
    pub fn from_environment() -> Self {
        use std::io::Write;
        let at = std::env::var("HEADROOM_CRASH_AT").ok().filter(|at| !at.is_empty());
        let log = std::env::var("HEADROOM_CRASH_LOG").ok();
        Self::new(move |number, operation, side| {
            if let Some(path) = &log
                && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
            {
                // The log is a help for the test's reader; a full disk must not change where the process dies.
                let _ = writeln!(file, "{number} {side} {operation}");
            }
            let here = |at: &String| {
                *at == number.to_string() || format!("{side} {operation}").starts_with(at.as_str())
            };
            if at.as_ref().is_some_and(here) {
                eprintln!("crash point {number} reached {side} {operation}");
                std::process::abort();
            }
        })
    }

    /// Nowhere: this build has no crash points.
    #[cfg(not(feature = "failpoints"))]
    #[must_use]
    pub fn from_environment() -> Self {
        Self::none()
    }

    fn reached(&self, number: u64, operation: &str, side: &str) {
        if let Some(reached) = &self.0 {
            reached(number, operation, side);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> (Arc<Host>, Guard) {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let guard = Guard::new(host.clone(), CrashPoint::none(), None);
        (host, guard)
    }

    fn claim(host: &Host, length: Duration) -> Option<Claim> {
        Some(Claim { epoch: 1, expires_at: host.monotonic() + length })
    }

    async fn call(guard: &Guard, length: Duration) -> Result<u8, Refusal> {
        guard
            .mutate("POST nodes", |_| "201".to_owned(), async {
                tokio::time::sleep(length).await;
                7
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_claim_nothing_is_sent() {
        let (_host, guard) = guard();
        let refused = call(&guard, Duration::ZERO).await;
        assert!(matches!(refused, Err(Refusal::NoClaim { .. })), "{refused:?}");
        assert_eq!(guard.calls_count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn claim_of_one_shard_lets_nothing_of_another_through() {
        let (host, guard) = guard();
        let [own, other] = [guard.apart(), guard.apart()];
        own.set_claim(claim(&host, Duration::from_secs(15)));
        assert_eq!(call(&own, Duration::ZERO).await, Ok(7));
        for refused in [call(&other, Duration::ZERO).await, call(&guard, Duration::ZERO).await] {
            assert!(matches!(refused, Err(Refusal::NoClaim { .. })), "{refused:?}");
        }
        assert_eq!(guard.calls_count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_ran_out_while_paused_sends_nothing() {
        let (host, guard) = guard();
        guard.set_claim(claim(&host, Duration::from_secs(15)));
        assert_eq!(call(&guard, Duration::ZERO).await, Ok(7));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(matches!(call(&guard, Duration::ZERO).await, Err(Refusal::NoClaim { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_never_outlives_the_lease() {
        let (host, guard) = guard();
        guard.set_claim(claim(&host, Duration::from_secs(3)));
        let started = host.monotonic();
        let refused = call(&guard, Duration::from_secs(60)).await;
        assert!(matches!(refused, Err(Refusal::Deadline { .. })), "{refused:?}");
        assert!(host.monotonic() - started < Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_has_a_crash_point_on_either_side() {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let crash = CrashPoint::new(move |number, _, side| {
            log.lock().expect("no panic inside").push((number, side.to_owned()));
        });
        let guard = Guard::new(host.clone(), crash, None);
        guard.set_claim(claim(&host, Duration::from_secs(15)));
        call(&guard, Duration::ZERO).await.expect("claim holds");
        assert_eq!(
            *seen.lock().expect("no panic inside"),
            [(1, "before".to_owned()), (2, "after".to_owned())]
        );
    }
}
