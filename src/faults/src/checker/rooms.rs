//! Room that buffers and booked requests have: nodes that are free for them. It shares no code with the operator's own reckoning, and
//! knows only worlds of one pool in which each pod that has its room kept needs a node of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Checker;
use super::truth::{self, Intent};
use headroom_core::world::node::DELETION_TAINT;
use headroom_simulator::store::{Kind, ObjectKey, Store, at, condition, text};

/// Pods of a load that fit one node.
pub(super) const PODS_PER_NODE: usize = 4;
/// Most nodes of the pool: where all are there, somebody waits, and a node that goes makes room.
pub const NODES_MAX: usize = 12;

/// Records of the nodes.
#[derive(Debug, Default)]
pub struct Rooms {
    /// True if they are checked.
    pub checked: bool,
    /// Nodes as they were, with the time from which it was so.
    seen: Vec<(Timestamp, Vec<Room>)>,
}

/// A ready node that is not leaving, as far as buffers are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    node: String,
    pods: usize,
    /// Pods of the load that it can hold: fewer than [`PODS_PER_NODE`] if it came smaller than promised, too small for a pod of a buffer.
    places: usize,
}

impl Room {
    fn is_free(&self) -> bool {
        self.pods == 0 && PODS_PER_NODE <= self.places
    }
}

impl Rooms {
    /// The states of the cluster that may still be believed in.
    fn since(&self, since: Timestamp) -> &[(Timestamp, Vec<Room>)] {
        let first = self.seen.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        &self.seen[first..]
    }

    /// The most nodes that were free at some time since `since`, when these go and their pods are bound as tightly as can be.
    /// `None` if the pool was at its maximum at some time.
    pub(super) fn most_free(&self, since: Timestamp, victims: &BTreeSet<&str>) -> Option<usize> {
        let seen = self.since(since);
        if seen.iter().any(|(_, rooms)| NODES_MAX <= rooms.len()) {
            return None;
        }
        seen.iter().map(|(_, rooms)| free_without(rooms, victims)).max()
    }
}

impl Checker {
    /// Notes which nodes are free.
    pub(super) fn note_rooms(&mut self, store: &Store, now: Timestamp) {
        if self.rooms.checked {
            let rooms = rooms(store);
            if self.rooms.seen.last().is_none_or(|(_, last)| *last != rooms) {
                self.rooms.seen.push((now, rooms));
            }
        }
    }

    /// I33, I35: no removal takes the room of a buffer or of a booked request, by any state of the cluster that the operator may
    /// believe in when the removal is stored. Nodes that do not work, and those that somebody asks for, go all the same.
    pub(super) fn check_rooms(&mut self, now: Timestamp, opened: &[&Intent]) {
        if !self.rooms.checked || self.status_tampered {
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
        let (buffers, requests) = (self.buffers.fewest_since(since), self.requests.booked_since(since, now));
        let wanted = buffers + requests;
        // A node that came too small for what waits has no room to take.
        let had = self.rooms.most_free(since, &BTreeSet::new()).unwrap_or(0);
        let least = wanted.min(had);
        if let Some(left) = self.rooms.most_free(since, &victims).filter(|left| *left < least) {
            let nodes: Vec<&str> = victims.into_iter().collect();
            let message = format!(
                "{} are removed, which leaves {left} free nodes for {buffers} replicas of buffers and {requests} pods of \
                 booked requests",
                nodes.join(", ")
            );
            self.violated(now, if requests == 0 { "I33" } else { "I35" }, message);
        }
    }
}

/// All rooms, and the free ones among them.
pub(super) fn count(store: &Store) -> (usize, usize) {
    let rooms = rooms(store);
    (rooms.len(), free_without(&rooms, &BTreeSet::new()))
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
            // The room of one that ends within seconds counts as free.
            let ends = text(pod, &["metadata", "deletionTimestamp"]).is_some();
            truth::is_movable(pod) && !ends && text(pod, &["spec", "nodeName"]) == Some(name.as_str())
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
