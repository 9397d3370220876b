//! CapacityBuffers: the nodes that are free for what they reserve. It shares no code with the operator's own reckoning, and knows
//! only worlds of one pool in which each pod that a buffer reserves room for needs a node of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::truth::{self, Intent};
use super::{Checker, Violation};
use headroom_core::world::node::DELETION_TAINT;
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, condition, number, text};

/// Pods of a load that fit one node.
const PODS_PER_NODE: usize = 4;
/// Most nodes of the pool: where all are there, a buffer waits, and a node that goes makes room for it.
const NODES_MAX: usize = 12;

/// Records of the buffers.
#[derive(Debug, Default)]
pub struct Buffers {
    /// True if they are checked.
    pub checked: bool,
    /// Replicas of each buffer, with the time from which they are asked for.
    replicas: Vec<(Timestamp, ObjectKey, usize)>,
    /// Nodes as they were, with the time from which it was so.
    seen: Vec<(Timestamp, Vec<Room>)>,
}

/// A ready node that is not leaving, as far as buffers are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    node: String,
    pods: usize,
    /// Pods of the load that it can hold: fewer than [`PODS_PER_NODE`] if it came smaller than promised, too small for a buffer.
    places: usize,
}

impl Room {
    fn is_free(&self) -> bool {
        self.pods == 0 && PODS_PER_NODE <= self.places
    }
}

impl Buffers {
    /// The fewest replicas of all buffers together that were asked for at some time since `since`.
    fn fewest_since(&self, since: Timestamp) -> usize {
        let keys: BTreeSet<&ObjectKey> = self.replicas.iter().map(|(_, key, _)| key).collect();
        let fewest = |key: &ObjectKey| {
            let own: Vec<&(Timestamp, ObjectKey, usize)> =
                self.replicas.iter().filter(|(_, other, _)| other == key).collect();
            let first = own.iter().rposition(|(at, ..)| *at <= since);
            // One that came since then was not there before.
            first.map_or(0, |first| own[first..].iter().map(|(.., count)| *count).min().unwrap_or(0))
        };
        keys.into_iter().map(fewest).sum()
    }
}

impl Checker {
    /// A buffer came, changed or went.
    pub(super) fn note_buffer(&mut self, entry: &Entry) {
        let asked = number(&entry.object, &["spec", "replicas"]).filter(|_| !entry.deleted);
        let count = asked.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let last = self.buffers.replicas.iter().rev().find(|(_, key, _)| *key == entry.key);
        if last.is_none_or(|(.., last)| *last != count) {
            self.buffers.replicas.push((entry.at, entry.key.clone(), count));
        }
    }

    /// Notes which nodes are free.
    pub(super) fn note_rooms(&mut self, store: &Store, now: Timestamp) {
        if self.buffers.checked {
            let rooms = rooms(store);
            if self.buffers.seen.last().is_none_or(|(_, last)| *last != rooms) {
                self.buffers.seen.push((now, rooms));
            }
        }
    }

    /// I33: no removal takes the room of a buffer, by any state of the cluster that the operator may believe in when the removal is
    /// stored. Nodes that do not work, and those that somebody asks for, go all the same.
    pub(super) fn check_buffers(&mut self, now: Timestamp, opened: &[&Intent]) {
        if !self.buffers.checked || self.status_tampered {
            return;
        }
        let victims: BTreeSet<&str> = opened
            .iter()
            .filter(|intent| intent.removes() && !intent.forces() && intent.reason != "RemovalRequested")
            .flat_map(|intent| intent.instances.iter().map(|(node, _)| node.as_str()))
            .collect();
        if victims.is_empty() {
            return;
        }
        let since = self.workloads.believed_since(now);
        let wanted = self.buffers.fewest_since(since);
        let first = self.buffers.seen.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        let seen = &self.buffers.seen[first..];
        if seen.iter().any(|(_, rooms)| NODES_MAX <= rooms.len()) {
            return;
        }
        let left = seen.iter().map(|(_, rooms)| free_without(rooms, &victims)).max();
        if let Some(left) = left.filter(|left| *left < wanted) {
            let nodes: Vec<&str> = victims.into_iter().collect();
            let message = format!(
                "{} are removed, which leaves {left} free nodes for {wanted} replicas of buffers",
                nodes.join(", ")
            );
            self.violated(now, "I33", message);
        }
    }

    /// I16: at the end there is a free node for each replica.
    pub fn missing_room(&self, store: &Store, now: Timestamp) -> Vec<Violation> {
        if !self.buffers.checked {
            return Vec::new();
        }
        let (rooms, wanted) = (rooms(store), self.buffers.fewest_since(now));
        let free = free_without(&rooms, &BTreeSet::new());
        let message = format!("{free} free nodes at the end for {wanted} replicas of buffers");
        let missing = (free < wanted && rooms.len() < NODES_MAX).then_some(Violation {
            at: now,
            invariant: "I16",
            message,
        });
        missing.into_iter().collect()
    }
}

fn rooms(store: &Store) -> Vec<Room> {
    let works = |node: &serde_json::Value| {
        let ready = condition(node, "Ready").and_then(|ready| ready.get("status")?.as_str()) == Some("True");
        let taints = at(node, &["spec", "taints"]).and_then(|taints| taints.as_array());
        let leaves = taints.into_iter().flatten().any(|taint| taint["key"] == DELETION_TAINT);
        ready && !leaves && at(node, &["metadata", "deletionTimestamp"]).is_none()
    };
    let working = store.all(Kind::Node).filter(|(_, node)| truth::pool_of(node).is_some() && works(node));
    let room = |(key, node): (&ObjectKey, &Arc<serde_json::Value>)| {
        let name = key.name.to_string();
        let cpus = at(node, &["status", "allocatable", "cpu"]).and_then(|cpu| cpu.as_str()?.parse().ok());
        let on_it = store.all(Kind::Pod).filter(|(_, pod)| {
            truth::is_movable(pod) && text(pod, &["spec", "nodeName"]) == Some(name.as_str())
        });
        Room { pods: on_it.count(), node: name, places: cpus.unwrap_or(PODS_PER_NODE) }
    };
    working.map(room).collect()
}

/// Nodes without pods that are left when these go and their pods are bound as tightly as can be.
fn free_without(rooms: &[Room], victims: &BTreeSet<&str>) -> usize {
    let (gone, left): (Vec<&Room>, Vec<&Room>) =
        rooms.iter().partition(|room| victims.contains(room.node.as_str()));
    let moved: usize = gone.iter().map(|room| room.pods).sum();
    let (free, used): (Vec<&Room>, Vec<&Room>) = left.into_iter().partition(|room| room.is_free());
    let holes: usize = used.iter().map(|room| room.places.saturating_sub(room.pods)).sum();
    free.len().saturating_sub(moved.saturating_sub(holes).div_ceil(PODS_PER_NODE))
}
