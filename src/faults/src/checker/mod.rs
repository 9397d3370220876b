//! Ground-truth records, out of the operator's reach: every write of the operator is held against the invariants of
//! `docs/development/invariants.md` with the cluster and the cloud as they truly are at that instant. It changes nothing.

mod buffers;
mod calls;
mod cloud;
mod cycles;
mod end;
mod gangs;
mod limits;
mod nodes;
mod observations;
mod quotas;
mod refusals;
mod requests;
mod rooms;
mod shards;
mod status;
mod terms;
mod truth;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

pub use self::buffers::Buffers;
pub use self::cloud::{CloudWrite, Wrote};
pub use self::cycles::Cycles;
pub use self::end::{End, Goal, endless_intents, examine};
pub use self::gangs::Gangs;
pub use self::limits::{Limits, RemovalLimit};
pub use self::observations::Weight;
pub use self::quotas::{CloudGroup, Quotas};
pub use self::requests::{ASKS_TOO_MUCH, Requests};
pub use self::rooms::{NODES_MAX, Rooms};
pub use self::shards::Shards;
pub use self::workloads::{Scaled, Workloads};

use self::truth::Intent;
use headroom_simulator::cluster::Load;
use headroom_simulator::store::{Entry, Kind, Store};
use headroom_simulator::wire::{Audit, Call, Caller};

/// Time that others wait after a leader's last sign of life; the same as every replica's.
pub const LEASE: SignedDuration = SignedDuration::from_secs(10);
/// Time for which the operator may believe what is no longer true: its view may be that old before removals stop
/// ([`headroom_operator::options::VIEW_AGE_MAX`]), and a step may be under way.
const BELIEF: SignedDuration = SignedDuration::from_secs(200);
/// Time after waking within which a replica reports what it knew before it was stopped.
const REPORTED_ON_WAKING: SignedDuration = SignedDuration::from_secs(5);
/// Violations kept; one is enough to fail a run.
const VIOLATIONS_MAX: usize = 30;
/// Unready nodes that hold no removal back: the default of `okUnreadyCount`.
const UNREADY_FEW: usize = 3;

/// Something that must never happen, and did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Time.
    pub at: Timestamp,
    /// The invariant, such as `I5`.
    pub invariant: &'static str,
    /// Description of the violation.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.at, self.invariant, self.message)
    }
}

/// Record of one life of a replica.
#[derive(Debug, Default)]
struct LifeLog {
    /// The term in which it leads or led.
    epoch: Option<i64>,
    /// Time at which its last lease write was committed.
    renewed_at: Option<Timestamp>,
    /// Time at which the term began.
    leads_since: Option<Timestamp>,
}

/// A stop of a replica, as by a signal: what it knew before it reports when it wakes.
#[derive(Debug, Default)]
struct Awake {
    stopped_at: Option<Timestamp>,
    woken_at: Option<Timestamp>,
}

impl Awake {
    /// The earliest time at which it may have known what it reports now.
    fn known_since(&self, now: Timestamp) -> Timestamp {
        match (self.stopped_at, self.woken_at) {
            (Some(stopped), Some(woken)) if now.duration_since(woken) < REPORTED_ON_WAKING => stopped,
            _ => now,
        }
    }
}

/// A pool's bounds, those of late among them.
#[derive(Debug, Default)]
struct Bounds {
    now: (i64, i64),
    /// Earlier ones, and the time at which each was changed.
    before: Vec<(Timestamp, (i64, i64))>,
}

/// The records.
#[derive(Debug, Default)]
pub struct Checker {
    violations: Vec<Violation>,
    lives: BTreeMap<Caller, LifeLog>,
    /// The highest term in which a status was written.
    status_epoch: i64,
    bounds: BTreeMap<String, Bounds>,
    /// Number of nodes by which each increase has raised its group, by pool and intent.
    raised: BTreeMap<(String, String), u32>,
    /// Start of each increase as it was opened, by pool and intent: after somebody's edit its id may be another's.
    begun: BTreeMap<(String, String), String>,
    /// The open intents of each pool as the operator last wrote them.
    journals: BTreeMap<String, (Caller, Vec<Intent>)>,
    /// Time at which somebody else first changed the intents of a pool since then.
    struck: BTreeMap<String, Timestamp>,
    /// Ids of intents that were open once and are not any more.
    closed: BTreeSet<(String, String)>,
    /// Time, by the true clock, since which a status has named each node as unneeded.
    unneeded: BTreeMap<String, Timestamp>,
    /// Time at which the status of each pool was last written.
    reported: BTreeMap<String, Timestamp>,
    /// Time at which the removal that named each node ended.
    let_go: BTreeMap<String, Timestamp>,
    /// Time at which too many nodes seemed to be leaving, and the removals that name them.
    crowded: Option<(Timestamp, BTreeSet<(String, String)>)>,
    /// Last stop of the operator.
    awake: Awake,
    /// Instances that the operator has ended.
    terminated: BTreeSet<String>,
    /// Groups whose wanted size is below what runs, the time since then, and the message of the violation.
    lowered: BTreeMap<String, (Timestamp, String)>,
    /// Time since which watches have been silent for everybody.
    silent_since: Option<Timestamp>,
    /// Time since which more than a few nodes and more than a fifth of all have been unready.
    unwell_since: Option<Timestamp>,
    /// Time at which each life last received all objects of a kind, however silent watches are otherwise.
    heard: BTreeMap<(Caller, Kind), Timestamp>,
    /// Caller of the call that is checked.
    caller: Option<Caller>,
    /// The object before a call that changes it.
    before: Option<Arc<serde_json::Value>>,
    /// Nodes that were made, by pool.
    pub made: BTreeMap<String, usize>,
    /// Machines, by pool, that the cloud brought after it had said that it has none, while that was being taken back.
    pub late: BTreeMap<String, usize>,
    /// Nodes of which somebody else took the machine away.
    pub lost_count: usize,
    /// Writes of the operator that took effect, the lease and events apart.
    pub writes_count: u64,
    /// Time at which the last of them was.
    pub last_write_at: Option<Timestamp>,
    /// Calls that took effect after another leader had written: harmless by design, and counted.
    pub late_calls_count: u64,
    /// Nodes that the operator deleted, or whose instances it terminated.
    pub removed_count: u64,
    cursor: u64,
    /// Time at which calls came in during the last minute; the lease and events apart.
    recent_calls: VecDeque<Timestamp>,
    /// Time since which the goal has held without a write.
    good_since: Option<Timestamp>,
    /// True if the goal has held for so long that the run may end.
    pub over: bool,
    /// True if somebody tampers with status in this run.
    pub status_tampered: bool,
    /// Pools each of which can serve every pod, in runs in which nobody is stopped or cut off.
    pub alternatives: Vec<String>,
    /// The refused increase for which nobody else has been asked so far.
    refused: Option<refusals::Refused>,
    /// Purchases for pods that stay unbound; counted in runs in which nothing else goes wrong.
    pub cycles: Option<Cycles>,
    /// Limits that people set.
    pub limits: Limits,
    /// CapacityQuotas.
    pub quotas: Quotas,
    /// CapacityBuffers.
    pub buffers: Buffers,
    /// ProvisioningRequests.
    pub requests: Requests,
    /// Pods that start together.
    pub gangs: Gangs,
    /// Nodes that are free for buffers and requests.
    pub rooms: Rooms,
    /// Records of the workloads whose sizes are checked.
    pub workloads: Workloads,
    /// Counts of the nodes as they are.
    nodes: nodes::Nodes,
    /// Number of violations of each invariant, those that were not kept among them.
    pub violations_count: BTreeMap<&'static str, u64>,
    /// Increases that were opened.
    pub purchases_count: u64,
    /// Removals that were opened, by reason.
    pub removals_count: BTreeMap<String, u64>,
    /// Evictions that were granted.
    pub evictions_count: u64,
    /// Records of the Leases of their shards.
    pub shards: Shards,
}

/// The stretch of time over which calls are counted.
const RATE_WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// The checker behind a lock that is never held over an await.
#[derive(Clone, Debug, Default)]
pub struct SharedChecker(Arc<Mutex<Checker>>);

impl SharedChecker {
    /// The checker.
    pub fn lock(&self) -> MutexGuard<'_, Checker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit for SharedChecker {
    fn before(&mut self, store: &Store, call: &Call) {
        self.lock().call_begins(store, call);
    }

    fn after(&mut self, store: &Store, call: &Call, code: u16) {
        self.lock().call_ends(store, call, code);
    }

    fn heard(&mut self, caller: Caller, kind: Kind, now: Timestamp) {
        self.lock().heard.insert((caller, kind), now);
    }

    fn measured(
        &mut self,
        store: &Store,
        load: &Load,
        asked: (Caller, &str),
        answered: bool,
        now: Timestamp,
    ) {
        self.lock().is_asked(store, load, asked, answered, now);
    }
}

impl Checker {
    /// Returns the violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Notes a violation.
    pub fn violated(&mut self, at: Timestamp, invariant: &'static str, message: impl Into<String>) {
        *self.violations_count.entry(invariant).or_default() += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { at, invariant, message: message.into() });
        }
    }

    /// Notes whether the goal holds; the run is over when it has held for `stay` without a write.
    pub fn rate(&mut self, good: bool, stay: SignedDuration, now: Timestamp) {
        let wrote = |since: Timestamp| self.last_write_at.is_some_and(|at| since < at);
        self.good_since = match self.good_since {
            Some(since) if good && !wrote(since) => Some(since),
            _ => good.then_some(now),
        };
        // A run that is over stays over: it may be looked at once more before it ends.
        self.over |= self.good_since.is_some_and(|since| stay <= now.duration_since(since));
    }

    /// Watches fall silent for everybody, or speak again.
    pub fn watches_silent(&mut self, silent: bool, now: Timestamp) {
        self.silent_since = silent.then_some(now);
    }

    /// A replica is stopped, or woken.
    pub fn stopped(&mut self, stopped: bool, now: Timestamp) {
        if stopped {
            self.awake = Awake { stopped_at: Some(now), woken_at: None };
        } else {
            self.awake.woken_at = Some(now);
        }
    }

    /// A replica or all watches hear nothing, or again: what decisions on workloads may believe depends on it.
    pub fn hears_nothing(&mut self, deaf: bool, now: Timestamp) {
        self.workloads.deaf(deaf, now);
    }

    /// From now on nobody is kept from hearing anything.
    pub fn hears_all(&mut self, now: Timestamp) {
        self.workloads.hears_all(now);
    }

    /// The cloud has brought what it had refused. By then another group may have been asked, as is promised (I15): that is
    /// nobody's fault as long as an increase of the group is open, of which the operator would take back what is missing.
    pub fn came_late(&mut self, store: &Store, pool: &str, group: &str) {
        let of_group = |intent: &Intent| intent.increases() && intent.group == group;
        if truth::intents_of(store, pool).iter().any(of_group) {
            *self.late.entry(pool.to_owned()).or_default() += 1;
        }
    }

    /// Reads what has changed since the last step; called after each.
    pub fn step(&mut self, store: &Store, now: Timestamp) {
        self.check_lowered(now);
        self.check_crowded(store, now);
        self.check_refused(store, now);
        let entries: Vec<Entry> = match store.entries_after(self.cursor) {
            Ok(entries) => {
                let matters = |entry: &&Entry| {
                    use Kind::{
                        CapacityBuffer, CapacityQuota, ClusterScalingPolicy, Deployment,
                        HorizontalPodAutoscaler, Node, NodePool, ProvisioningRequest, ScalingPolicy,
                    };
                    let scaled = entry.kind == Deployment
                        && (self.cycles.is_some() || self.workloads.checks(&entry.key));
                    let others =
                        matches!(entry.kind, ClusterScalingPolicy | ScalingPolicy | HorizontalPodAutoscaler);
                    scaled
                        || others
                        || matches!(
                            entry.kind,
                            CapacityBuffer | CapacityQuota | Node | NodePool | ProvisioningRequest
                        )
                };
                entries.filter(matters).cloned().collect()
            }
            Err(_) => Vec::new(),
        };
        self.cursor = store.revision();
        let nodes_changed = entries.iter().any(|entry| entry.kind == Kind::Node);
        for entry in &entries {
            self.note_cycle(store, entry);
            if entry.kind == Kind::Deployment && !self.workloads.checks(&entry.key) {
                continue;
            }
            match entry.kind {
                Kind::NodePool => {
                    let name = &*entry.key.name;
                    let known = self.journals.get(name);
                    if known.is_some_and(|(_, known)| *known != truth::intents_of(store, name)) {
                        self.struck.entry(name.to_owned()).or_insert(entry.at);
                    }
                    self.note_bounds(entry);
                    self.note_pool(entry);
                }
                Kind::CapacityQuota => self.note_quota(entry),
                Kind::CapacityBuffer => self.note_buffer(entry),
                Kind::ProvisioningRequest => self.note_request(store, entry),
                Kind::ClusterScalingPolicy => self.note_settings(entry),
                Kind::ScalingPolicy | Kind::HorizontalPodAutoscaler => self.note_owner(entry),
                Kind::Deployment => self.note_size(entry),
                _ if entry.before.is_none() => {
                    let pool = truth::pool_of(&entry.object).unwrap_or_default();
                    *self.made.entry(pool).or_default() += 1;
                }
                _ => {}
            }
        }
        self.note_rooms(store, now);
        self.note_gangs(store, now);
        if nodes_changed {
            self.nodes.catch_up(store);
            let (all, unready) = self.nodes.readiness();
            let unwell = UNREADY_FEW < unready && all < unready * 5;
            self.unwell_since = if unwell { Some(self.unwell_since.unwrap_or(now)) } else { None };
        }
    }

    fn note_bounds(&mut self, entry: &Entry) {
        if entry.deleted {
            self.bounds.remove(&*entry.key.name);
            return;
        }
        let found = truth::bounds(&entry.object);
        let bounds = self
            .bounds
            .entry(entry.key.name.to_string())
            .or_insert_with(|| Bounds { now: found, before: Vec::new() });
        if bounds.now != found {
            bounds.before.push((entry.at, bounds.now));
            bounds.now = found;
        }
    }

    /// The smallest minimum and the largest maximum that the operator may believe in.
    fn believed_bounds(&self, pool: &str, now: Timestamp) -> Option<(i64, i64)> {
        let bounds = self.bounds.get(pool)?;
        let recent = bounds.before.iter().filter(|(at, _)| now.duration_since(*at) < BELIEF);
        Some(recent.fold(bounds.now, |(min, max), (_, (other_min, other_max))| {
            (min.min(*other_min), max.max(*other_max))
        }))
    }

    /// The open intents that `caller` may act on: those that are stored, and those that the operator stored last and
    /// somebody else has taken out while the caller led. Of that it learns by its next write, which is refused for its
    /// version; until then, and with calls under way, it cannot know. A later leader has read what is stored.
    fn intents_for(&self, store: &Store, pool: &str, caller: Caller) -> Vec<Intent> {
        let mut intents = truth::intents_of(store, pool);
        let leads_since = self.lives.get(&caller).and_then(|life| life.leads_since);
        let unaware = leads_since.zip(self.struck.get(pool)).is_some_and(|(since, struck)| since < *struck);
        if let Some((_, written)) = self.journals.get(pool).filter(|_| unaware) {
            let taken: Vec<&Intent> =
                written.iter().filter(|one| intents.iter().all(|other| other.id != one.id)).collect();
            intents.extend(taken.into_iter().cloned());
        }
        intents
    }

    /// I10, I11: the caller leads, by the true clock, when its write comes in.
    fn check_claim(&mut self, caller: Caller, what: &str, arrived_at: Timestamp) {
        let renewed_at = self.lives.get(&caller).and_then(|life| life.renewed_at);
        let since = renewed_at.map(|at| arrived_at.duration_since(at));
        if since.is_none_or(|since| LEASE < since) {
            let message = match since {
                None => {
                    format!("{what} by life {} of replica {}, which never led", caller.life, caller.replica)
                }
                Some(since) => format!(
                    "{what} by life {} of replica {}, {since:#} after its last renewal",
                    caller.life, caller.replica
                ),
            };
            self.violated(arrived_at, "I11", message);
        }
    }

    /// I28: calls come at a bounded rate, whatever goes wrong.
    fn check_rate(&mut self, now: Timestamp) {
        self.recent_calls.push_back(now);
        while self.recent_calls.front().is_some_and(|at| RATE_WINDOW < now.duration_since(*at)) {
            self.recent_calls.pop_front();
        }
        let count = self.recent_calls.len();
        if self.limits.calls_per_minute_max < count {
            self.violated(now, "I28", format!("{count} mutating calls within a minute"));
        }
    }

    /// I8: nothing is removed by a view that silent watches have left behind.
    ///
    /// Checked for the life that acts: one that listed nodes and pods anew, after a restart or for another reason, or
    /// whose watches delivered all they knew as they ended, has left the silence behind, and another may still suffer
    /// from it. The older of the two kinds counts, since either decides what may go.
    fn check_freshness(&mut self, what: &str, now: Timestamp) {
        let Some(silent_since) = self.silent_since else { return };
        let heard = |kind| self.heard.get(&(self.caller?, kind)).copied();
        let since = heard(Kind::Node).min(heard(Kind::Pod)).map_or(silent_since, |at| at.max(silent_since));
        let silence = now.duration_since(since);
        if BELIEF < silence {
            let message = format!("{what} although nothing has been heard of nodes or pods for {silence:#}");
            self.violated(now, "I8", message);
        }
    }

    /// The open removal that names this node or instance: one that is stored, or that the caller has stored itself and
    /// somebody else has taken out since. Of that it learns by its next write, which is refused for its version; with a
    /// call under way it cannot know.
    fn removal_named(&self, store: &Store, node: &str, instance: &str) -> Option<Intent> {
        truth::removal_of(store, node, instance).or_else(|| {
            let own = self.journals.values().filter(|(caller, _)| Some(*caller) == self.caller);
            let mut own = own.flat_map(|(_, intents)| intents);
            own.find(|intent| intent.removes() && intent.names(node, instance)).cloned()
        })
    }
}
