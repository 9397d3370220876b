//! What all Leases have in common: who holds one, by observed change and monotonic time, never by wall clocks.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// The lease as last read, and when its content last changed before our eyes.
#[derive(Clone, Debug)]
pub(super) struct ObservedLease {
    /// The lease.
    pub(super) lease: Lease,
    /// Time of the read that first showed it so.
    pub(super) changed_at: Instant,
}

impl ObservedLease {
    /// Returns the lease after another read that ended at `now`: a change restarts the wait for the lease's expiry.
    #[must_use]
    pub(super) fn after(before: Option<&Self>, lease: Lease, now: Instant) -> Self {
        let unchanged = before.filter(|seen| seen.lease.spec == lease.spec);
        Self { lease, changed_at: unchanged.map_or(now, |seen| seen.changed_at) }
    }

    /// True if nothing has changed for longer than the lease lasts.
    fn is_silent(&self, now: Instant, duration: Duration) -> bool {
        self.changed_at + duration < now
    }

    /// The holder; `None` if nobody holds it.
    #[must_use]
    pub(super) fn holder(&self) -> Option<&str> {
        let holder = self.lease.spec.as_ref()?.holder_identity.as_deref()?;
        (!holder.is_empty()).then_some(holder)
    }

    /// True if nobody holds the lease, or its holder has been silent for its whole duration before our eyes.
    #[must_use]
    pub(super) fn is_free(&self, now: Instant) -> bool {
        if self.holder().is_none() {
            return true;
        }
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(15);
        self.is_silent(now, Duration::from_secs(seconds))
    }
}

/// Time at which a lease that was written ends for its holder: counted from before the write, since nobody can have seen it any
/// earlier.
pub(super) fn expiry(sent_at: Instant, duration: Duration) -> Instant {
    sent_at + duration
}

/// The spec of a lease that `holder` holds in term `epoch`, written at `now`.
pub(super) fn spec(holder: &str, duration: Duration, epoch: u64, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: i32::try_from(epoch).ok(),
        ..LeaseSpec::default()
    }
}

/// Waits for a write of a lease for at most half of its `duration`.
///
/// # Errors
/// [`Problem`]; whether the lease was written is unknown unless it is [`Problem::Conflict`].
pub(super) async fn bounded(
    duration: Duration,
    call: impl Future<Output = Result<Lease, kube::Error>>,
) -> Result<Lease, Problem> {
    match tokio::time::timeout(duration / 2, call).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(kube::Error::Api(status))) if status.is_conflict() || status.is_already_exists() => {
            Err(Problem::Conflict)
        }
        Ok(Err(error)) => Err(Problem::Failed(error.to_string())),
        Err(_) => Err(Problem::Failed("writing the lease took too long".to_owned())),
    }
}

/// Reason why the lease could not be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// It is no longer what was last seen.
    Conflict,
    /// The call failed, or its end is unknown.
    Failed(String),
}

/// The term a lease stands for.
pub(super) fn epoch_of(lease: &Lease) -> u64 {
    let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
    u64::try_from(transitions).unwrap_or(0)
}

/// Time that a lease had not been renewed; zero when its time lies in the future (clocks differ).
fn silence(renewed: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(renewed)).unwrap_or(Duration::ZERO)
}

/// Time that nobody had renewed a lease before it was taken over, by the wall clock; zero for one that was never renewed.
pub(super) fn gap(before: Option<&Lease>, now: Timestamp) -> Duration {
    let renewed = before.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    renewed.map_or(Duration::ZERO, |renewed| silence(renewed.0, now))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use super::*;

    /// The lease lasts for so many ticks.
    const LASTS: u64 = 2;
    /// Every history of so many ticks is tried.
    const TICKS: u64 = 5;
    const TICK: Duration = Duration::from_secs(1);

    /// A holder, the lease as it is stored, and somebody who looks at it. Both go by their own monotonic clocks, which run
    /// at one speed; no wall clock is anywhere.
    #[derive(Clone)]
    struct History {
        now: u64,
        origin: Instant,
        /// The holder acts until then.
        expires_at: Instant,
        /// Renewals under way: sent at, stored at, whether the answer comes.
        sent: Vec<(u64, u64, bool)>,
        /// Number of renewals of the stored lease.
        renewals: i32,
        /// The observer's look: ends at, what it will show.
        look: Option<(u64, i32)>,
        seen: Option<ObservedLease>,
    }

    impl History {
        fn at(&self, tick: u64) -> Instant {
            self.origin + TICK * u32::try_from(tick).expect("few ticks")
        }

        fn lasts() -> Duration {
            TICK * u32::try_from(LASTS).expect("few ticks")
        }

        /// Carries out all that is due: writes are stored and answered, reads end. Then nobody may take what its holder
        /// still holds.
        fn settle(&mut self) {
            let due = std::mem::take(&mut self.sent);
            for (sent_at, stored_at, answered) in due {
                if self.now < stored_at {
                    self.sent.push((sent_at, stored_at, answered));
                    continue;
                }
                self.renewals += 1;
                if answered {
                    self.expires_at = self.expires_at.max(expiry(self.at(sent_at), Self::lasts()));
                }
            }
            if let Some((_, renewals)) = self.look.take_if(|(ends_at, _)| *ends_at <= self.now) {
                let spec = LeaseSpec { lease_transitions: Some(renewals), ..LeaseSpec::default() };
                let lease = Lease { spec: Some(spec), ..Lease::default() };
                self.seen = Some(ObservedLease::after(self.seen.as_ref(), lease, self.at(self.now)));
            }
            let now = self.at(self.now);
            // The observer writes with the version that it saw: one that is not the stored one is refused.
            let stored = Some(self.renewals);
            let takes = self.seen.as_ref().is_some_and(|seen| {
                let spec = seen.lease.spec.as_ref();
                seen.is_silent(now, Self::lasts()) && spec.and_then(|spec| spec.lease_transitions) == stored
            });
            assert!(!takes || self.expires_at < now, "the lease is taken at tick {} and held", self.now);
        }

        /// Every way in which the next tick may go; the number of histories that were tried.
        fn try_all(&self) -> u64 {
            if self.now == TICKS {
                return 1;
            }
            let renewals =
                [None, Some((0, true)), Some((1, true)), Some((2, true)), Some((0, false)), Some((2, false))];
            let mut tried = 0;
            for renewal in renewals {
                for look in [None, Some(0), Some(1), Some(2)] {
                    let mut next = self.clone();
                    if let Some((delay, answered)) = renewal {
                        next.sent.push((next.now, next.now + delay, answered));
                    }
                    if let (Some(delay), None) = (look, next.look) {
                        // What a look shows is what is stored at any moment while it lasts; the oldest is the worst.
                        next.look = Some((next.now + delay, next.renewals));
                    }
                    next.settle();
                    next.now += 1;
                    next.settle();
                    tried += next.try_all();
                }
            }
            tried
        }
    }

    #[test]
    fn in_no_history_of_renewals_and_looks_is_a_lease_taken_that_its_holder_still_holds() {
        let origin = Instant::now();
        let start = History {
            now: 0,
            origin,
            expires_at: expiry(origin, History::lasts()),
            sent: Vec::new(),
            renewals: 0,
            look: None,
            seen: None,
        };
        assert_eq!(start.try_all(), 24_u64.pow(5));
    }
}
