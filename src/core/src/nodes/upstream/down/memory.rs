//! What scaling down remembers from loop to loop under profile ClusterAutoscaler: memory only, as there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::status::{DeleteResult, Unremovable};
use crate::labels::ObjectKey;
use crate::time::{Seconds, UnixTime};

/// Clocks, delays and deletions under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shrinking {
    /// Whether marks of an earlier life have been taken off.
    pub(super) cleaned: bool,
    /// Since when each node has been removable in every loop.
    pub(super) unneeded: BTreeMap<Arc<str>, UnixTime>,
    /// Nodes that are not simulated again before this instant.
    pub(super) rechecks: BTreeMap<Arc<str>, UnixTime>,
    /// Nodes that stay, as last listed.
    pub(super) unremovable: Vec<Unremovable>,
    /// The last loop that got here.
    pub(super) last_loop: Option<UnixTime>,
    /// The shortest time between two loops.
    pub(super) shortest_loop: Option<Seconds>,
    /// The last loop that grew a group.
    pub(super) last_add: Option<UnixTime>,
    /// The last loop that began a deletion.
    pub(super) last_delete: Option<UnixTime>,
    /// The last loop whose marks could not be put on.
    pub(super) last_failure: Option<UnixTime>,
    /// The last increase of each group.
    pub(super) adds: BTreeMap<Arc<str>, UnixTime>,
    /// The last deletion in each group.
    pub(super) deletes: BTreeMap<Arc<str>, UnixTime>,
    /// Where each pod was moved to in the last simulations.
    pub(super) hints: BTreeMap<ObjectKey, Arc<str>>,
    /// Deletions under way, in the order in which they were begun.
    pub(super) deletions: Vec<Deletion>,
    /// Until when the deletions of a group are collected.
    pub(super) batches: BTreeMap<Arc<str>, UnixTime>,
    /// Atomic groups of which one deletion has failed.
    pub(super) failed_groups: BTreeSet<Arc<str>>,
    /// How deletions ended that no report has told yet.
    pub(super) results: BTreeMap<Arc<str>, DeleteResult>,
}

impl Shrinking {
    /// Notes that no mark of an earlier life is left.
    pub(crate) fn set_cleaned(&mut self) {
        self.cleaned = true;
    }

    /// Nodes that are being drained.
    pub(crate) fn draining(&self) -> impl Iterator<Item = &Arc<str>> {
        self.deletions.iter().filter(|one| one.drain).map(|one| &one.node)
    }

    /// Notes that a group grows as the loop of `now` decided.
    pub(crate) fn grown(&mut self, group: &Arc<str>, now: UnixTime) {
        self.last_add = Some(now);
        self.adds.insert(group.clone(), now);
    }
}

/// One node on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The node.
    pub node: Arc<str>,
    /// The instance.
    pub instance: Arc<str>,
    /// The pool of the group.
    pub pool: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// Whether its pods must be moved.
    pub drain: bool,
    /// How many nodes of an atomic group go together; 0 for others.
    pub atomic: usize,
    /// How far it has come.
    pub stage: Stage,
}

/// The states of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Tainted: looked at again at this instant.
    Tainted(UnixTime),
    /// Pods are being evicted.
    Evicting {
        /// When it began.
        since: UnixTime,
        /// The next attempt.
        next: UnixTime,
        /// Not evicted yet.
        waiting: BTreeSet<ObjectKey>,
        /// DaemonSet pods not evicted yet; that they go is not waited for.
        daemon: BTreeSet<ObjectKey>,
        /// Evicted.
        evicted: BTreeSet<ObjectKey>,
        /// The longest grace of any of them.
        grace: Seconds,
    },
    /// All are evicted: looked for until they have gone.
    Leaving {
        /// Given up then.
        until: UnixTime,
        /// The next look.
        next: UnixTime,
        /// What is looked for.
        pods: BTreeSet<ObjectKey>,
    },
    /// Nothing is left on it: deleted with its batch.
    Ready,
}
