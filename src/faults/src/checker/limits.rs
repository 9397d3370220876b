//! Limits that people set: budgets of removals and the kill switch; and pools that are deleted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Checker;
use super::truth::{self, Intent};
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, text};

/// Maximum time between the decision on a removal and the storage of it, with the difference of clocks: the replica
/// that decides knows the cluster's time to three seconds, and stores it within the ten of the lease.
const DECIDED_BEFORE: SignedDuration = SignedDuration::from_secs(15);
const CLOCK_ERROR: SignedDuration = SignedDuration::from_secs(3);

/// Defaults of the operator, which most worlds leave alone.
const REMOVALS_MAX: usize = 10;
const DRAINS_MAX: usize = 1;
/// One a second and pool for reports, and a few for each of the two dozen nodes and pods of the small worlds. A loop that spins
/// makes thousands.
const CALLS_MAX: usize = 300;

/// Most nodes that may be leaving at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalLimit {
    /// Pool that it limits; `None` for the whole cluster.
    pub pool: Option<String>,
    /// Number.
    pub most: usize,
    /// Only reason that it counts; `None` for every one.
    pub reason: Option<&'static str>,
    /// Start and end of the time in which it holds; `None` for always.
    pub active: Option<(Timestamp, Timestamp)>,
}

/// Limits, the state of the kill switch, and deleted pools.
#[derive(Debug)]
pub struct Limits {
    /// Removals at once in all pools (`nodes.removals.maxParallel`).
    pub removals_max: usize,
    /// Drains among them (`nodes.removals.maxParallelDrains`).
    pub drains_max: usize,
    /// Most mutating calls within a minute.
    pub calls_per_minute_max: usize,
    /// The budgets.
    pub budgets: Vec<RemovalLimit>,
    /// True if a new process may be shown an older list of pools, as no real API server does to a list that names no
    /// version: then it cannot know what goes in other pools, and budgets of the whole cluster are not checked.
    pub lists_are_old: bool,
    /// Pools that are deleted, and the time of the deletion.
    gone: BTreeMap<String, Timestamp>,
    /// Pools that were deleted at least once.
    born_again: BTreeSet<String>,
    /// Time since which nothing may be removed.
    stopped_since: Option<Timestamp>,
}

impl Default for Limits {
    /// The operator's defaults, and a rate of calls for a cluster of a dozen nodes.
    fn default() -> Limits {
        Limits {
            removals_max: REMOVALS_MAX,
            drains_max: DRAINS_MAX,
            calls_per_minute_max: CALLS_MAX,
            budgets: Vec::new(),
            lists_are_old: false,
            gone: BTreeMap::new(),
            born_again: BTreeSet::new(),
            stopped_since: None,
        }
    }
}

impl RemovalLimit {
    fn counts(&self, intent: &Intent) -> bool {
        let reason = if intent.reason == "Consolidated" { "Underutilized" } else { &intent.reason };
        disturbs(intent) && self.reason.is_none_or(|only| only == reason)
    }

    fn is_of(&self, pool: &str) -> bool {
        self.pool.as_ref().is_none_or(|only| only == pool)
    }

    fn held_throughout(&self, from: Timestamp, until: Timestamp) -> bool {
        self.active.is_none_or(|(opens, closes)| opens <= from && until <= closes)
    }
}

impl Checker {
    /// A pool came, changed or went.
    pub(super) fn note_pool(&mut self, entry: &Entry) {
        let name = entry.key.name.to_string();
        if !entry.deleted {
            self.limits.gone.remove(&name);
            return;
        }
        // The next of this name begins with nothing: its clocks are at zero.
        for node in super::status::unneeded(&entry.object) {
            self.unneeded.remove(&node);
        }
        self.limits.born_again.insert(name.clone());
        self.limits.gone.insert(name, entry.at);
    }

    /// True if an id may be given once more: somebody has laid hands on status, or it has gone with its pool.
    pub(super) fn may_repeat_ids(&self, pool: &str) -> bool {
        self.status_tampered || self.limits.born_again.contains(pool)
    }

    /// The kill switch.
    pub(super) fn note_settings(&mut self, entry: &Entry) {
        let word = text(&entry.object, &["spec", "nodes", "voluntaryDisruption"]);
        let stopped = !entry.deleted && word == Some("Stopped");
        self.limits.stopped_since = stopped.then(|| self.limits.stopped_since.unwrap_or(entry.at));
    }

    /// I27: nothing is done for a pool that is there no more, once that must be known.
    pub(super) fn check_gone(&mut self, now: Timestamp, pool: &str, what: &str) {
        if let Some(since) = self.limits.gone.get(pool).copied()
            && since < self.workloads.believed_since(now)
        {
            self.violated(now, "I27", format!("{what} although pool {pool} has been gone since {since}"));
        }
    }

    /// I7: no removal begins that a budget or the kill switch forbids.
    pub(super) fn check_limits(&mut self, store: &Store, now: Timestamp, pool: &str, opened: &[&Intent]) {
        if self.status_tampered {
            return;
        }
        if let Some(since) = self.limits.stopped_since
            && since < self.workloads.believed_since(now)
            && let Some(removal) = opened.iter().find(|intent| disturbs(intent))
        {
            let message = format!(
                "removal {} ({}) is begun although all are stopped since {since}",
                removal.id, removal.reason
            );
            self.violated(now, "I7", message);
        }
        let (from, until) = (
            now.saturating_sub(DECIDED_BEFORE).unwrap_or(now),
            now.saturating_add(CLOCK_ERROR).unwrap_or(now),
        );
        let mut exceeded = Vec::new();
        let holds = |limit: &&RemovalLimit| {
            let checked = limit.pool.is_some() || !self.limits.lists_are_old;
            checked && limit.is_of(pool) && limit.held_throughout(from, until)
        };
        for limit in self.limits.budgets.iter().filter(holds) {
            if opened.iter().any(|intent| limit.counts(intent)) {
                let leaving = leaving(store, limit);
                if limit.most < leaving.len() {
                    let nodes: Vec<String> = leaving.into_iter().collect();
                    exceeded.push(format!("{} are leaving against {limit:?}", nodes.join(", ")));
                }
            }
        }
        for message in exceeded {
            self.violated(now, "I7", message);
        }
    }
}

/// True if it removes nodes: where something never became one, nothing is disturbed.
fn disturbs(intent: &Intent) -> bool {
    intent.removes() && intent.reason != "NeverRegistered"
}

/// Nodes that are on their way out as a budget counts them. One plan may end a removal in one pool and begin the next
/// in another, whose journals are two writes: nodes that have gone, and those whose removal is being called back, do
/// not count.
fn leaving(store: &Store, limit: &RemovalLimit) -> BTreeSet<String> {
    let pools = store.all(Kind::NodePool).filter(|(key, _)| limit.is_of(&key.name));
    let open = pools.flat_map(|(_, pool)| truth::intents(pool));
    let counted = open.filter(|intent| limit.counts(intent) && !truth::is_called_back(store, intent));
    let names = counted.flat_map(|intent| {
        let message = format!("{} by {} for {}", intent.phase, intent.id, intent.reason);
        intent.instances.into_iter().map(move |(node, _)| (node, message.clone()))
    });
    let there = |node: &String| store.find(Kind::Node, &ObjectKey::new("", node)).is_some();
    names.filter(|(node, _)| there(node)).map(|(node, message)| format!("{node} ({message})")).collect()
}
