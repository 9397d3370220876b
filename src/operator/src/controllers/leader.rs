//! Leader election by a Lease: who may act, by observed change and monotonic time, never by wall clocks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::lease::{self, ObservedLease, Problem, epoch_of, expiry};
use super::shards::seat::Seat;
use super::shards::{self, ObservedLeases};
use crate::actuate::guard::{Claim, Guard};
use headroom_observe::host::Host;

/// Settings of the lease.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Name of the Lease object.
    pub name: String,
    /// Identity of this process; must differ between two processes that are alive, restarts included.
    pub identity: String,
    /// Others wait this long after our last renewal. At least 2 s.
    pub duration: Duration,
    /// Pause between two attempts to get or renew it.
    pub retry: Duration,
}

/// Last result of the leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else leads, or nobody yet.
    Standby,
    /// This replica leads.
    Leading {
        /// The term.
        epoch: u64,
        /// Time that nobody had renewed the lease when we took it, by the wall clock; zero for a new lease.
        gap: Duration,
    },
    /// This replica led and has lost the lease: the process should end, since its memory may be behind.
    Lost,
}

/// The election of one replica.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    options: LeaseOptions,
    host: Arc<Host>,
    guard: Guard,
    leadership: watch::Sender<Leadership>,
    /// One for each other loop: a watch wakes its receivers in an order drawn at random, and equal seeds are equal runs.
    others: Vec<watch::Sender<Leadership>>,
    seen: Option<ObservedLease>,
    held: Option<Held>,
    /// The newest version of the lease that was observed, as a number; 0 when none, or when versions are not numbers.
    newest: u64,
    /// True if versions of the lease and of what watches show have been seen to grow together.
    comparable: bool,
    alarm: Alarm,
    /// The workloads, if the leader runs all of them.
    workloads: Option<AllWorkloads>,
    /// Number of shards of the workloads, which a leader declares; 1 if it runs all of them.
    shards_count: usize,
}

/// The seat of all workloads, and the Leases of shards that others may still hold.
#[derive(Debug)]
struct AllWorkloads {
    seat: Arc<Seat>,
    seen: ObservedLeases,
    /// Time that nobody had renewed the lease when it was taken.
    gap: Duration,
}

/// Detection and report of an API server that has gone back to an older state.
pub struct Alarm {
    /// The newest version that any watch has shown, as a number; 0 when none, or when versions are not numbers.
    pub shown: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Called when it has gone back.
    pub raise: Box<dyn Fn() + Send + Sync>,
}

/// True if the server has forgotten what a watch had `shown` before a write was sent that came out as version `written`:
/// whatever is written later has a higher version. A backup that is younger than the last renewal of the lease leaves the
/// lease as it was, and is seen by this.
///
/// If leases are stored apart from the rest (`--etcd-servers-overrides`), their versions cannot be compared. So a lower
/// version counts only after one write has come out higher: `comparable` remembers that.
fn forgot(shown: u64, written: u64, comparable: &mut bool) -> bool {
    let later = shown < written;
    let forgot = !later && *comparable;
    *comparable = later && 0 < shown;
    forgot
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").finish_non_exhaustive()
    }
}

/// The lease while it is ours.
#[derive(Debug)]
struct Held {
    epoch: u64,
    expires_at: Instant,
}

impl Election {
    /// An election over `api`, whose client must carry the guard's layer of kind `Lease` and not retry writes.
    ///
    /// `alarm` is called when the lease shows that the API server went back to an older state, as a restored backup does.
    /// The lease is read or written every few seconds and never from a cache, so it shows it first.
    pub fn new(
        api: Api<Lease>,
        options: LeaseOptions,
        host: Arc<Host>,
        guard: Guard,
        alarm: Alarm,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(Leadership::Standby);
        let election = Self {
            api,
            options,
            host,
            guard,
            leadership,
            others: Vec::new(),
            seen: None,
            held: None,
            newest: 0,
            comparable: false,
            alarm,
            workloads: None,
            shards_count: 1,
        };
        (election, receiver)
    }

    /// The same, with the seat of all workloads: it opens while this replica leads and nobody runs a shard of them.
    #[must_use]
    pub fn with_workloads(self, seat: Arc<Seat>) -> Self {
        // A list must leave time for the next renewal.
        let seen = ObservedLeases::new(&self.options.name, 1, self.options.retry);
        Self { workloads: Some(AllWorkloads { seat, seen, gap: Duration::ZERO }), ..self }
    }

    /// The same, with workloads in so many shards, which other Leases are for.
    #[must_use]
    pub fn with_shards(self, count: usize) -> Self {
        Self { shards_count: count, ..self }
    }

    /// A receiver of the same values for another loop.
    pub fn subscribe(&mut self) -> watch::Receiver<Leadership> {
        let (sender, receiver) = watch::channel(*self.leadership.borrow());
        self.others.push(sender);
        receiver
    }

    fn announce(&self, leadership: Leadership) {
        for sender in std::iter::once(&self.leadership).chain(&self.others) {
            sender.send_replace(leadership);
        }
    }

    /// Notes the version of a lease that the server has just shown.
    fn note_version(&mut self, lease: &Lease) {
        let Some(version) = version_of(lease) else { return };
        if version < self.newest {
            warn!(from = self.newest, to = version, "the API server went back to an older state");
            (self.alarm.raise)();
        }
        self.newest = version;
    }

    /// The same for a write of ours, before which watches had `shown` this.
    fn note_written(&mut self, lease: &Lease, shown: u64) {
        self.note_version(lease);
        let Some(version) = version_of(lease) else { return };
        if forgot(shown, version, &mut self.comparable) {
            warn!(from = shown, to = version, "the API server has forgotten what its watches had shown");
            (self.alarm.raise)();
        }
    }

    /// Competes for the lease and keeps it, until the task is ended or the lease is lost.
    pub async fn run(mut self) {
        loop {
            self.attempt().await;
            if *self.leadership.borrow() == Leadership::Lost {
                return;
            }
            self.host.sleep(self.options.retry).await;
        }
    }

    /// One attempt to get or renew the lease.
    async fn attempt(&mut self) {
        if self.seen.is_none() {
            self.read().await;
        }
        let (sent_at, shown) = (self.host.monotonic(), (self.alarm.shown)());
        let outcome = match &self.seen {
            None => self.create().await,
            Some(seen) if self.held.is_some() || seen.is_free(self.host.monotonic()) => self.replace().await,
            Some(_) => {
                self.read().await;
                return;
            }
        };
        match outcome {
            Ok(lease) => {
                self.note_written(&lease, shown);
                self.established(lease, sent_at);
                self.admit_workloads().await;
            }
            Err(problem) => self.failed(&problem).await,
        }
    }

    /// Reads the lease; what has changed since the last look restarts the wait for its expiry.
    async fn read(&mut self) {
        match tokio::time::timeout(self.options.retry * 2, self.api.get_opt(&self.options.name)).await {
            Ok(Ok(Some(lease))) => {
                self.note_version(&lease);
                self.seen = Some(ObservedLease::after(self.seen.as_ref(), lease, self.host.monotonic()));
            }
            Ok(Ok(None)) => self.seen = None,
            Ok(Err(error)) => warn!(%error, "failed to read the lease"),
            Err(_) => warn!("reading the lease took too long"),
        }
    }

    async fn create(&self) -> Result<Lease, Problem> {
        let mut lease = Lease {
            metadata: ObjectMeta { name: Some(self.options.name.clone()), ..ObjectMeta::default() },
            spec: Some(self.spec(1, self.host.time())),
        };
        shards::declare(&mut lease, self.shards_count, &self.options.identity);
        lease::bounded(self.options.duration, self.api.create(&PostParams::default(), &lease)).await
    }

    /// Writes the lease in our name with the resourceVersion last seen.
    async fn replace(&self) -> Result<Lease, Problem> {
        let Some(seen) = &self.seen else { return Err(Problem::Conflict) };
        let old = seen.lease.spec.clone().unwrap_or_default();
        let now = self.host.time();
        let spec = match &self.held {
            Some(held) => LeaseSpec { acquire_time: old.acquire_time, ..self.spec(held.epoch, now) },
            // Every acquisition is a new term, even by a holder of the same name: it has a new memory.
            None => self.spec(epoch_of(&seen.lease).saturating_add(1), now),
        };
        let mut lease = Lease { metadata: seen.lease.metadata.clone(), spec: Some(spec) };
        shards::declare(&mut lease, self.shards_count, &self.options.identity);
        lease::bounded(
            self.options.duration,
            self.api.replace(&self.options.name, &PostParams::default(), &lease),
        )
        .await
    }

    fn spec(&self, epoch: u64, now: Timestamp) -> LeaseSpec {
        lease::spec(&self.options.identity, self.options.duration, epoch, now)
    }

    /// The lease is ours as of `sent_at`: the server cannot have seen the renewal any earlier.
    fn established(&mut self, lease: Lease, sent_at: Instant) {
        let epoch = epoch_of(&lease);
        let expires_at = expiry(sent_at, self.options.duration);
        if self.held.is_none() {
            let gap = lease::gap(self.seen.as_ref().map(|seen| &seen.lease), self.host.time());
            info!(epoch, gap_seconds = gap.as_secs(), "leading");
            self.guard.set_claim(Some(Claim { epoch, expires_at }));
            if let Some(workloads) = &mut self.workloads {
                workloads.gap = gap;
                if !shards::is_declared(&lease) {
                    workloads.seat.open(gap);
                }
            }
            self.announce(Leadership::Leading { epoch, gap });
        } else {
            self.guard.set_claim(Some(Claim { epoch, expires_at }));
        }
        self.held = Some(Held { epoch, expires_at });
        self.seen = Some(ObservedLease { lease, changed_at: self.host.monotonic() });
    }

    /// Lets all workloads be run once nobody runs a shard of them: replicas with shards may have been there before.
    async fn admit_workloads(&mut self) {
        let Some(workloads) = self.workloads.as_mut().filter(|workloads| !workloads.seat.is_open()) else {
            return;
        };
        let listed = workloads.seen.list(&self.api, &self.host).await;
        let was_listed = listed.is_ok();
        workloads.seen.take(listed, &self.host);
        if was_listed && workloads.seen.is_alone(self.host.monotonic()) {
            workloads.seat.open(workloads.gap);
        }
    }

    /// A write failed: what the server has must be read before the next one.
    async fn failed(&mut self, problem: &Problem) {
        if let Problem::Failed(message) = problem {
            warn!(%message, "failed to write the lease");
        }
        self.read().await;
        let Some(held) = &self.held else { return };
        let usurped = self.seen.as_ref().is_some_and(|seen| {
            let holder = seen.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            holder != Some(&self.options.identity) || epoch_of(&seen.lease) != held.epoch
        });
        let deleted = self.seen.is_none() && *problem == Problem::Conflict;
        if usurped || deleted || self.host.monotonic() >= held.expires_at {
            warn!(epoch = held.epoch, usurped, "lost the lease");
            self.guard.set_claim(None);
            if let Some(workloads) = &self.workloads {
                workloads.seat.close();
            }
            self.announce(Leadership::Lost);
        }
    }
}

/// Gives the lease up at a graceful stop, so that the next replica need not wait. Best effort: it expires anyway.
pub async fn release(api: &Api<Lease>, options: &LeaseOptions, guard: &Guard) {
    guard.set_claim(None);
    let released = async {
        let mut lease = api.get_opt(&options.name).await.ok()??;
        let spec = lease.spec.as_mut()?;
        if spec.holder_identity.as_deref() != Some(&options.identity) {
            return None;
        }
        spec.holder_identity = None;
        api.replace(&options.name, &PostParams::default(), &lease).await.ok()
    };
    if tokio::time::timeout(options.retry * 2, released).await.is_err() {
        warn!("releasing the lease took too long; it will expire");
    }
}

/// Takes the lease from whoever holds it, by a person's order, so that no replica leads for `hold`. Returns how long the
/// last leader, and holders of shards, may still act on what they held: until then they may write.
///
/// A cluster without the lease has no leader; then one is made, which keeps a replica that starts now from leading.
///
/// # Errors
/// If the lease cannot be written, also after losing to its holder's renewals several times.
pub async fn usurp(
    api: &Api<Lease>,
    name: &str,
    identity: &str,
    hold: Duration,
    wall: Timestamp,
) -> Result<Duration, kube::Error> {
    let mut attempts_left = USURP_ATTEMPTS;
    loop {
        let stored = api.get_opt(name).await?;
        let old = stored.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let sharded = stored.as_ref().is_some_and(shards::is_declared);
        let epoch = stored.as_ref().map_or(0, epoch_of).saturating_add(1);
        let spec = lease::spec(identity, hold, epoch, wall);
        let metadata = stored.map_or_else(
            || ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            |l| l.metadata,
        );
        let lease = Lease { metadata, spec: Some(spec) };
        let written = match lease.metadata.resource_version {
            None => api.create(&PostParams::default(), &lease).await,
            Some(_) => api.replace(name, &PostParams::default(), &lease).await,
        };
        attempts_left -= 1;
        match written {
            Ok(_) => {
                let held = old.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty()) || sharded;
                // Holders of shards see it within the time of theirs, and end what is under way.
                let leases = if sharded { 2 } else { 1 };
                let seconds = u64::try_from(old.lease_duration_seconds.unwrap_or(0)).unwrap_or(0) * leases;
                return Ok(if held { Duration::from_secs(seconds) } else { Duration::ZERO });
            }
            Err(kube::Error::Api(status))
                if attempts_left > 0 && (status.is_conflict() || status.is_already_exists()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Number of times that [`usurp`] may lose to a renewal. A holder renews every few seconds, so losing twice is rare.
const USURP_ATTEMPTS: u32 = 10;

/// The lease's version, if it is a number.
fn version_of(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_comes_out_before_what_was_shown_reveals_a_restored_backup() {
        let mut comparable = false;
        assert!(!forgot(1_003, 1_005, &mut comparable));
        // The backup was made after 1,005 and before 1,009, which a watch had shown.
        assert!(forgot(1_009, 1_008, &mut comparable));
        assert!(!forgot(1_009, 1_009, &mut comparable), "reported once");
        assert!(!forgot(1_009, 1_010, &mut comparable));
        assert!(forgot(1_012, 1_012, &mut comparable), "two things cannot have one version");
    }

    #[test]
    fn versions_of_another_etcd_say_nothing() {
        // Leases are kept apart and have come less far, or no watch has shown anything yet.
        for (shown, written) in [(90_000, 12), (0, 12)] {
            let mut comparable = false;
            assert!((0..3).all(|later| !forgot(shown, written + later, &mut comparable)));
        }
    }
}
