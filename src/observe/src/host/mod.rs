//! Time, tasks and randomness: the only room that reads a clock, spawns or draws. The seam for simulation.

#![allow(clippy::disallowed_methods, reason = "the one place that reads clocks and spawns")]

pub mod files;
mod pause;
mod server_clock;

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use headroom_core::time::UnixTime;
use jiff::{SignedDuration, Timestamp};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::pause::{Pausable, Pause};
use self::server_clock::ServerClock;

/// The processor time that this thread has used, for speeds that a busy machine does not blur. Where the system does not
/// report it (anything but Linux), the time since the program first asked.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    static BEGAN_AT: OnceLock<std::time::Instant> = OnceLock::new();
    // Source: Documentation/scheduler/sched-stats.rst: nanoseconds on the processor come first.
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = schedstat.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| BEGAN_AT.get_or_init(std::time::Instant::now).elapsed(), Duration::from_nanos)
}

/// Host of a replica of the operator: the machine's clock, or a virtual one.
///
/// Dropping the host ends every task spawned through it: in a simulation that is a SIGKILL.
#[derive(Debug)]
pub struct Host {
    clock: Clock,
    tasks: Mutex<Vec<AbortHandle>>,
    random: Mutex<fastrand::Rng>,
    /// Offset of a virtual wall clock.
    offset: Mutex<SignedDuration>,
    /// The API server's clock, once an answer of it has carried a date.
    server: Mutex<Option<ServerClock>>,
    pause: Arc<Pause>,
}

/// Source of the wall clock.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// The machine's.
    Machine,
    /// `wall` at the tokio instant `started`, going with tokio's (paused) time, off by a replica's own error.
    Virtual { wall: Timestamp, started: Instant },
}

impl Host {
    /// The machine itself.
    #[must_use]
    pub fn machine() -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::Machine,
            tasks: Mutex::default(),
            random: Mutex::new(fastrand::Rng::new()),
            offset: Mutex::default(),
            server: Mutex::default(),
            pause: Arc::default(),
        })
    }

    /// A virtual host: its wall clock shows `wall` now and goes with tokio's time; its randomness is `seed`'s.
    ///
    /// Seeds fastrand's generator of this thread too, since kube's default backoff draws its jitter from it.
    #[must_use]
    pub fn simulated(wall: Timestamp, seed: u64) -> Arc<Self> {
        fastrand::seed(seed);
        Arc::new(Self {
            clock: Clock::Virtual { wall, started: Instant::now() },
            tasks: Mutex::default(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            offset: Mutex::default(),
            server: Mutex::default(),
            pause: Arc::default(),
        })
    }

    /// Sets a virtual wall clock off by `offset`, as an administrator or a bad time server would. The monotonic clock
    /// does not notice. Without effect on the machine's own.
    pub fn set_clock_off(&self, offset: SignedDuration) {
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner) = offset;
    }

    /// Stops a virtual host's tasks as SIGSTOP stops a process, or lets them go on. Time goes on meanwhile.
    pub fn pause(&self, paused: bool) {
        self.pause.set(paused);
    }

    /// The machine's wall clock. Decisions go by [`Host::time`].
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        match self.clock {
            Clock::Machine => Timestamp::now(),
            Clock::Virtual { wall, started } => {
                let offset = *self.offset.lock().unwrap_or_else(PoisonError::into_inner);
                let shown = wall + started.elapsed();
                shown.saturating_add(offset).unwrap_or(shown)
            }
        }
    }

    /// The time by which decisions are made: the API server's, since it stamps the times in objects and all replicas hear
    /// it; the machine's until the server has been heard. It goes on with the monotonic clock, so that a wall clock which
    /// is set wrong, or set at all, changes nothing.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        let server = *self.server.lock().unwrap_or_else(PoisonError::into_inner);
        match server {
            Some(clock) => clock.read(self.monotonic()),
            _ => self.wall(),
        }
    }

    /// [`Host::time`] in whole seconds, rounded down.
    #[must_use]
    pub fn now(&self) -> UnixTime {
        UnixTime::from_jiff(self.time())
    }

    /// The API server dated an answer, which came just now to a request sent at `sent_at`.
    pub fn heard(&self, date: Timestamp, sent_at: Instant) {
        let answered_at = self.monotonic();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = server.unwrap_or_else(|| ServerClock::new(self.wall(), answered_at));
        *server = Some(clock.corrected(date, sent_at, answered_at));
    }

    /// The clock that never jumps: for leases, deadlines and lengths of time.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        Instant::now()
    }

    /// Waits for `length` of (possibly virtual) time.
    pub async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }

    /// Runs `task` until it ends or the host is dropped.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = match self.clock {
            Clock::Machine => tokio::spawn(task).abort_handle(),
            Clock::Virtual { .. } => tokio::spawn(Pausable::new(task, self.pause.clone())).abort_handle(),
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(handle);
    }

    /// A random number.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// Ends every task spawned through this host, at its next await.
    pub fn stop(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}
