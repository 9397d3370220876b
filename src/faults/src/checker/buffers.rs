//! CapacityBuffers: the replicas that they ask for.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::rooms::{self, NODES_MAX};
use super::{Checker, Violation};
use headroom_simulator::store::{Entry, ObjectKey, Store, number};

/// Records of the buffers.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Replicas of each buffer, with the time from which they are asked for.
    replicas: Vec<(Timestamp, ObjectKey, usize)>,
}

impl Buffers {
    /// The fewest replicas of all buffers together that were asked for at some time since `since`.
    pub(super) fn fewest_since(&self, since: Timestamp) -> usize {
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

    /// I16: at the end there is a free node for each replica.
    pub fn missing_room(&self, store: &Store, now: Timestamp) -> Vec<Violation> {
        if !self.rooms.checked {
            return Vec::new();
        }
        let ((all, free), wanted) = (rooms::count(store), self.buffers.fewest_since(now));
        let message = format!("{free} free nodes at the end for {wanted} replicas of buffers");
        let missing =
            (free < wanted && all < NODES_MAX).then_some(Violation { at: now, invariant: "I16", message });
        missing.into_iter().collect()
    }
}
