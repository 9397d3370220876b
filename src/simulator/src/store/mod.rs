//! The state of the simulated API server, synchronous and deterministic: it speaks no HTTP and reads no clock.

mod admission;
mod apply;
mod error;
mod kind;
mod log;
mod node_texts;
mod notifier;
mod object;
mod patch;
mod selector;
mod shared;
mod stamp;
mod subresource;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde_json::Value;

pub use self::error::ApiError;
pub use self::kind::{Kind, KindInfo};
pub use self::log::{Change, Entry};
pub use self::notifier::Subscription;
pub(crate) use self::object::seconds;
pub use self::object::{
    ObjectKey, at, condition, is_leaving, is_ready, labels, number, object_at, set_condition, text, timestamp,
};
pub use self::patch::Patch;
pub use self::selector::{FieldSelector, Filter, LabelSelector};
pub use self::shared::SharedStore;
pub use self::subresource::Eviction;
pub use self::write::{Author, DeleteOptions, Part};

use self::log::ChangeLog;
pub(crate) use self::node_texts::NodeTexts;
use crate::trace::Trace;

/// All objects of the cluster, one global resource version, and the log of changes that watches and actors read.
///
/// Every container is ordered, the time is that of the last `advance_to` and names are made from the seed, so the same
/// calls give the same state in every process.
#[derive(Debug)]
pub struct Store {
    objects: BTreeMap<Kind, BTreeMap<ObjectKey, Arc<Value>>>,
    /// The pods bound to each node: a live look at one node must not walk all pods.
    bound: FxHashMap<Arc<str>, BTreeSet<ObjectKey>>,
    log: ChangeLog,
    /// For lists of nodes.
    pub(crate) node_texts: NodeTexts,
    revision: u64,
    now: Timestamp,
    seed: u64,
    made_count: u64,
    /// Every write and its result, in order.
    pub trace: Trace,
}

impl Store {
    /// An empty cluster at `now`; `seed` shapes uids and generated names.
    pub fn new(seed: u64, now: Timestamp) -> Store {
        Store {
            objects: BTreeMap::new(),
            bound: FxHashMap::default(),
            log: ChangeLog::default(),
            node_texts: NodeTexts::default(),
            // Zero means "any version" to clients, so the first write is at 1.
            revision: 0,
            now,
            seed,
            made_count: 0,
            trace: Trace::default(),
        }
    }

    /// The time that new stamps carry.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the clock; a time before the last one is accepted, because wall clocks do jump.
    pub fn advance_to(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The resource version of the last write; 0 before the first.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object, or `None`.
    pub fn find(&self, kind: Kind, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(&kind)?.get(key)
    }

    /// The object; 404 where there is none.
    pub fn get(&self, kind: Kind, key: &ObjectKey) -> Result<&Arc<Value>, ApiError> {
        self.find(kind, key).ok_or_else(|| ApiError::not_found(kind, &key.name))
    }

    /// The objects of a kind that the filter lets through, in key order.
    pub fn list<'s: 'f, 'f>(
        &'s self,
        kind: Kind,
        filter: &'f Filter,
    ) -> Box<dyn Iterator<Item = (&'s ObjectKey, &'s Arc<Value>)> + 'f> {
        let Some(objects) = self.objects.get(&kind) else { return Box::new(std::iter::empty()) };
        if let Some(key) = filter.only_key(kind) {
            let named = objects.get_key_value(&key).into_iter();
            return Box::new(named.filter(|(_, object)| filter.matches(object)));
        }
        if let (Kind::Pod, Some(node)) = (kind, filter.fields.node()) {
            let keys = self.bound.get(node).into_iter().flatten().filter(|key| filter.matches_key(key));
            let pods = keys.filter_map(|key| objects.get_key_value(key));
            return Box::new(pods.filter(|(_, pod)| filter.matches(pod)));
        }
        let from = objects.range(ObjectKey::first_of(&filter.namespace)..);
        let inside = from.take_while(|(key, _)| filter.matches_key(key));
        Box::new(inside.filter(|(_, object)| filter.matches(object)))
    }

    /// Keeps the index of bound pods true to a change of an object.
    fn note_bound(&mut self, kind: Kind, key: &ObjectKey, before: Option<&Value>, after: Option<&Value>) {
        if kind != Kind::Pod {
            return;
        }
        let (was, is) = (node_of(before), node_of(after));
        if was == is {
            return;
        }
        if let Some(node) = was
            && let Some(pods) = self.bound.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.bound.remove(node);
            }
        }
        if let Some(node) = is {
            self.bound.entry(node.into()).or_default().insert(key.clone());
        }
    }

    /// All objects of a kind in key order.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.objects.get(&kind).into_iter().flatten()
    }

    /// The number of objects of a kind in all namespaces.
    pub fn count(&self, kind: Kind) -> usize {
        self.objects.get(&kind).map_or(0, BTreeMap::len)
    }

    /// The objects of a kind behind `after` in key order as they were at `revision`: those that the log names in their state from
    /// before its first change, all others as they are.
    ///
    /// 410 when the log no longer reaches back that far.
    pub fn list_at<'s>(
        &'s self,
        kind: Kind,
        revision: u64,
        after: Option<&ObjectKey>,
    ) -> Result<impl Iterator<Item = (&'s ObjectKey, &'s Arc<Value>)>, ApiError> {
        let behind = |key: &ObjectKey| after.is_none_or(|after| after < key);
        let mut then: BTreeMap<&ObjectKey, Option<&Arc<Value>>> = BTreeMap::new();
        for entry in self.log.after(revision)?.filter(|entry| entry.kind == kind && behind(&entry.key)) {
            then.entry(&entry.key).or_insert(entry.before.as_ref());
        }
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let mut now = self
            .objects
            .get(&kind)
            .into_iter()
            .flat_map(move |objects| objects.range((start.clone(), Bound::Unbounded)))
            .peekable();
        let mut then = then.into_iter().peekable();
        Ok(std::iter::from_fn(move || {
            loop {
                let Some((changed, _)) = then.peek() else { return now.next() };
                if let Some(other) = now.next_if(|(key, _)| key < changed) {
                    return Some(other);
                }
                let (key, before) = then.next()?;
                now.next_if(|(other, _)| *other == key);
                if let Some(before) = before {
                    return Some((key, before));
                }
            }
        }))
    }

    /// Returns the changes after `revision`, oldest first; 410 when that has been compacted away.
    pub fn entries_after(&self, revision: u64) -> Result<impl Iterator<Item = &Entry>, ApiError> {
        self.log.after(revision)
    }

    /// Forgets the changes up to and including `revision`; reads from before it get 410 from then on.
    pub fn compact(&mut self, revision: u64) {
        self.log.compact(revision.min(self.revision));
    }

    /// The oldest revision from which a watch may start.
    pub fn compacted(&self) -> u64 {
        self.log.compacted()
    }

    /// The revision of the last change made before `at`: what a time-based compaction may forget.
    pub fn revision_before(&self, at: Timestamp) -> u64 {
        self.log.revision_before(at)
    }
}

/// The node that a pod is bound to.
fn node_of(pod: Option<&Value>) -> Option<&str> {
    text(pod?, &["spec", "nodeName"]).filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests;
