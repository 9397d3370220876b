//! Keeps the Leases of shards that this replica holds, takes those that are free and its own by rendezvous, and gives others
//! away once nothing is under way in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, join3};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, Preconditions};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::layout::{member_name, shard_name};
use super::observed::ObservedLeases;
use super::placement::holders;
use super::{KeeperPorts, Shard, shortened};
use crate::actuate::guard::Claim;
use crate::controllers::leader::LeaseOptions;
use crate::controllers::lease::{self, Problem, epoch_of, expiry};
use headroom_observe::host::Host;

/// Pause between two looks at whether the work in a shard that is given away has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(100);
/// Longest wait for that work: then nothing more may be written, and the Lease runs out.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Keeps the Leases of one replica.
pub(in super::super) struct Keeper {
    api: Api<Lease>,
    host: Arc<Host>,
    options: LeaseOptions,
    shards: Vec<Shard>,
    ready: Box<dyn Fn() -> bool + Send + Sync>,
    stop: watch::Receiver<bool>,
    /// Becomes true when everything is given back at a graceful stop.
    ended: watch::Sender<bool>,
    /// All Leases of this installation.
    seen: ObservedLeases,
    held: BTreeMap<usize, Held>,
    /// The Lease that says that this replica lives, as last written.
    membership: Option<Lease>,
}

/// A shard's Lease while it is this replica's.
#[derive(Debug)]
struct Held {
    lease: Lease,
    epoch: u64,
    taken_at: Instant,
    expires_at: Instant,
    /// Time that nobody had renewed it when it was taken.
    gap: Duration,
    /// Looks at all Leases before it was taken.
    looks: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Taken; whether another may run the same workloads is not known yet.
    Taken,
    /// Its workloads are run.
    Open,
    /// No work begins any more, since then.
    Leaving(Instant),
}

impl Keeper {
    /// A keeper that holds nothing, and the receiver of its end.
    pub(in super::super) fn new(ports: KeeperPorts, host: Arc<Host>) -> (Self, watch::Receiver<bool>) {
        let KeeperPorts { api, lease, shards, ready, stop } = ports;
        let (ended, receiver) = watch::channel(false);
        let duration = shortened(lease.duration);
        let retry = lease.retry.min(duration / 6);
        let options = LeaseOptions { duration, retry, ..lease };
        let seen = ObservedLeases::new(&options.name, shards.len(), duration / 2);
        let keeper = Self {
            api,
            host,
            options,
            shards,
            ready,
            stop,
            ended,
            seen,
            held: BTreeMap::new(),
            membership: None,
        };
        (keeper, receiver)
    }

    /// Keeps them until the task is ended, or all are given back at a stop.
    pub(in super::super) async fn run(mut self) {
        loop {
            self.turn().await;
            let stopping = self.is_stopping();
            if stopping && self.held.is_empty() {
                self.ended.send_replace(true);
                return;
            }
            let leaving = self.held.values().any(|held| matches!(held.phase, Phase::Leaving(_)));
            let pause = if leaving { DRAIN_LOOK } else { self.options.retry };
            tokio::select! {
                biased;
                changed = self.stop.changed(), if !stopping => if changed.is_err() { return },
                () = self.host.sleep(pause) => {}
            }
        }
    }

    /// One turn: renew and look, then give away, then take.
    async fn turn(&mut self) {
        self.renew().await;
        let wanted = self.wanted();
        self.leave(wanted.as_ref()).await;
        self.open();
        if let Some(wanted) = wanted
            && self.take(&wanted).await
        {
            // Another may have taken what excludes it at the same time: the later one sees the other's.
            let listed = self.seen.list(&self.api, &self.host).await;
            self.seen.take(listed, &self.host);
            if self.may_hold() {
                self.open();
            }
        }
        self.forget_members().await;
    }

    /// Renews everything that is held, and looks at all Leases, together.
    async fn renew(&mut self) {
        let sent_at = self.host.monotonic();
        let renewals = self.held.iter().filter(|(_, held)| sent_at < held.expires_at);
        let renewals = renewals.map(async |(shard, held)| (*shard, self.renew_shard(*shard, held).await));
        let (listed, renewed, membership) =
            join3(self.seen.list(&self.api, &self.host), join_all(renewals), self.renew_membership()).await;
        self.seen.take(listed, &self.host);
        if let Some(membership) = membership {
            self.membership = membership.ok().or_else(|| self.seen.lease(&self.own_name()).cloned());
        }
        for (shard, result) in renewed {
            match result {
                Ok(lease) => self.renewed(shard, lease, sent_at),
                Err(problem) => self.not_renewed(shard, &problem),
            }
        }
        let now = self.host.monotonic();
        let expired: Vec<usize> =
            self.held.iter().filter(|(_, held)| held.expires_at <= now).map(|(shard, _)| *shard).collect();
        for shard in expired {
            self.lose(shard, "it has run out");
        }
    }

    async fn renew_shard(&self, shard: usize, held: &Held) -> Result<Lease, Problem> {
        let acquired = held.lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
        let spec = LeaseSpec { acquire_time: acquired, ..self.spec(held.epoch) };
        let lease = Lease { metadata: held.lease.metadata.clone(), spec: Some(spec) };
        self.replace(&self.name(shard), &lease).await
    }

    /// Shows that this replica lives, once it could decide; `None` while it does not.
    async fn renew_membership(&self) -> Option<Result<Lease, Problem>> {
        if self.is_stopping() || !(self.ready)() {
            return None;
        }
        let name = self.own_name();
        let known = self.membership.as_ref().or_else(|| self.seen.lease(&name));
        Some(self.put(&name, known, known.map_or(1, epoch_of)).await)
    }

    fn renewed(&mut self, shard: usize, lease: Lease, sent_at: Instant) {
        let Some(held) = self.held.get_mut(&shard) else { return };
        held.lease = lease;
        held.expires_at = expiry(sent_at, self.options.duration);
        if held.phase != Phase::Taken {
            let claim = Claim { epoch: held.epoch, expires_at: held.expires_at };
            self.shards[shard].guard.set_claim(Some(claim));
        }
    }

    /// Our write may have come through all the same: what is stored decides.
    fn not_renewed(&mut self, shard: usize, problem: &Problem) {
        if let Problem::Failed(message) = problem {
            warn!(shard, %message, "failed to renew the lease of a shard");
        }
        if self.seen.age(&self.host).is_none_or(|age| self.options.retry < age) {
            return;
        }
        let stored = self.seen.lease(&self.name(shard)).cloned();
        let Some(held) = self.held.get_mut(&shard) else { return };
        let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        match stored {
            Some(stored)
                if holder(&stored).as_ref() == Some(&self.options.identity)
                    && epoch_of(&stored) == held.epoch =>
            {
                held.lease = stored;
            }
            _ => self.lose(shard, "another has it"),
        }
    }

    /// Nothing more may be written for its workloads.
    fn lose(&mut self, shard: usize, why: &'static str) {
        self.shards[shard].guard.set_claim(None);
        self.shards[shard].seat.close();
        self.held.remove(&shard);
        warn!(shard, why, "lost the lease of a shard");
    }

    /// False while it stops, may not run workloads, or has not seen for the time of a Lease who else does.
    fn may_hold(&self) -> bool {
        let has_seen = self.seen.age(&self.host).is_some_and(|age| age <= self.options.duration);
        has_seen && !self.is_stopping() && self.seen.is_in_force()
    }

    /// The shards that this replica should hold; `None` if it may hold none.
    fn wanted(&self) -> Option<BTreeSet<usize>> {
        if !self.may_hold() {
            return None;
        }
        let holders = holders(&self.seen.members(self.host.monotonic()), self.shards.len());
        let own = |(shard, holder)| (holder == self.options.identity).then_some(shard);
        Some(holders.into_iter().filter_map(own).collect())
    }

    /// Gives away what is held and not wanted, once the work in it has ended; `None` gives everything away.
    ///
    /// What has only just been taken stays for the time of a Lease: its workloads have waited, and would wait for another
    /// change of hands before anyone has decided on them.
    async fn leave(&mut self, wanted: Option<&BTreeSet<usize>>) {
        let now = self.host.monotonic();
        let stays = |shard, held: &Held| {
            wanted.is_some_and(|wanted| wanted.contains(shard) || now < held.taken_at + self.options.duration)
        };
        let mut given = Vec::new();
        for (shard, held) in &mut self.held {
            let Shard { seat, guard, .. } = &self.shards[*shard];
            // Nobody changes their mind about a shard that is given away: new work would be of the same term as the old.
            let since = match held.phase {
                Phase::Leaving(since) => since,
                Phase::Taken | Phase::Open if stays(shard, held) => continue,
                Phase::Taken | Phase::Open => now,
            };
            held.phase = Phase::Leaving(since);
            seat.close();
            if seat.is_idle() || since + DRAIN_MAX <= now {
                guard.set_claim(None);
                given.push(*shard);
            }
        }
        let released = given.iter().filter_map(|shard| {
            let held = self.held.remove(shard)?;
            info!(shard, "giving a shard away");
            // Work that has not ended may still be answered: then the Lease runs out by itself.
            self.shards[*shard].seat.is_idle().then_some((*shard, held.lease))
        });
        let released: Vec<(usize, Lease)> = released.collect();
        let writes = released.into_iter().map(|(shard, lease)| self.release(self.name(shard), lease));
        join_all(writes).await;
        if self.is_stopping() && self.membership.take().is_some() {
            let (name, params) = (self.own_name(), DeleteParams::default());
            // Best effort: it runs out anyway.
            let _ = tokio::time::timeout(self.options.retry, self.api.delete(&name, &params)).await;
        }
    }

    async fn release(&self, name: String, mut lease: Lease) {
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
        }
        if self.replace(&name, &lease).await.is_err() {
            debug!(name, "the lease of a shard was not released; it will expire");
        }
    }

    /// Opens what was taken, once a look since then has shown that nobody else may run the same workloads.
    fn open(&mut self) {
        if !self.seen.is_alone(self.host.monotonic()) {
            return;
        }
        for (shard, held) in &mut self.held {
            if held.phase == Phase::Taken && held.looks < self.seen.looks {
                held.phase = Phase::Open;
                let Held { epoch, expires_at, gap, .. } = *held;
                self.shards[*shard].guard.set_claim(Some(Claim { epoch, expires_at }));
                self.shards[*shard].seat.open(gap);
                info!(shard, epoch, gap_seconds = gap.as_secs(), "running the workloads of a shard");
            }
        }
    }

    /// Takes what is wanted and free. True if anything was taken.
    async fn take(&mut self, wanted: &BTreeSet<usize>) -> bool {
        if !self.seen.is_alone(self.host.monotonic()) {
            return false;
        }
        let sent_at = self.host.monotonic();
        let is_free = |shard: &usize| {
            let free = self.seen.is_free(&self.name(*shard), sent_at);
            // Work of an earlier term must have ended: the guard would let it through again.
            free && !self.held.contains_key(shard) && self.shards[*shard].seat.is_idle()
        };
        let due: Vec<usize> = wanted.iter().copied().filter(is_free).collect();
        let takes = due.iter().map(async |shard| (*shard, self.take_shard(*shard).await));
        let mut any = false;
        for (shard, taken) in join_all(takes).await {
            match taken {
                Ok((lease, gap)) => {
                    any = true;
                    let (epoch, expires_at) = (epoch_of(&lease), expiry(sent_at, self.options.duration));
                    let (looks, phase) = (self.seen.looks, Phase::Taken);
                    let held = Held { lease, epoch, taken_at: sent_at, expires_at, gap, looks, phase };
                    self.held.insert(shard, held);
                }
                Err(Problem::Conflict) => {}
                Err(Problem::Failed(message)) => warn!(shard, %message, "failed to take a shard"),
            }
        }
        any
    }

    /// Every acquisition is a new term, as with the leader's Lease.
    async fn take_shard(&self, shard: usize) -> Result<(Lease, Duration), Problem> {
        let name = self.name(shard);
        let known = self.seen.lease(&name);
        let gap = lease::gap(known, self.host.time());
        let epoch = known.map_or(0, epoch_of).saturating_add(1);
        Ok((self.put(&name, known, epoch).await?, gap))
    }

    /// Writes a Lease in our name over the `known` one; creates it if none is known.
    async fn put(&self, name: &str, known: Option<&Lease>, epoch: u64) -> Result<Lease, Problem> {
        let spec = Some(self.spec(epoch));
        match known {
            Some(known) => self.replace(name, &Lease { metadata: known.metadata.clone(), spec }).await,
            None => {
                let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec };
                lease::bounded(self.options.duration, self.api.create(&PostParams::default(), &lease)).await
            }
        }
    }

    /// Deletes Leases of members that are gone; the first of those that live does it.
    async fn forget_members(&self) {
        for (name, resource_version) in self.seen.gone(&self.own_name(), self.host.monotonic()) {
            let preconditions = Some(Preconditions { resource_version, uid: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            // Best effort: the next turn tries again.
            let _ = tokio::time::timeout(self.options.retry, self.api.delete(&name, &params)).await;
        }
    }

    async fn replace(&self, name: &str, lease: &Lease) -> Result<Lease, Problem> {
        lease::bounded(self.options.duration, self.api.replace(name, &PostParams::default(), lease)).await
    }

    fn spec(&self, epoch: u64) -> LeaseSpec {
        lease::spec(&self.options.identity, self.options.duration, epoch, self.host.time())
    }

    fn name(&self, shard: usize) -> String {
        shard_name(&self.options.name, shard, self.shards.len())
    }

    fn own_name(&self) -> String {
        member_name(&self.options.name, self.shards.len(), &self.options.identity)
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }
}
