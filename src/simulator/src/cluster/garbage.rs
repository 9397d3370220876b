//! Garbage: dependents of owners that are gone, and pods on nodes that are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::pods::{Pods, owner};
use super::queue::WorkQueue;
use crate::store::{Author, DeleteOptions, Entry, Kind, ObjectKey, Store, text};

const ME: Author<'static> = Author::actor("garbage-collector");
const POD_GC: Author<'static> = Author::actor("pod-garbage-collector");

/// Dependents by the uid of their controller, and pods whose node may be gone.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    dependents: BTreeMap<Arc<str>, BTreeSet<(Kind, ObjectKey)>>,
    orphans: BTreeSet<(Kind, ObjectKey)>,
    pub(super) homeless: WorkQueue<ObjectKey>,
}

impl Garbage {
    pub(super) fn observe(&mut self, entry: &Entry, store: &Store) {
        if entry.deleted {
            if let Some(uid) = text(&entry.object, &["metadata", "uid"])
                && let Some(dependents) = self.dependents.remove(uid)
            {
                self.orphans.extend(dependents);
            }
            if let Some(owner) = owner(&entry.object)
                && let Some(dependents) = self.dependents.get_mut(&owner.uid)
            {
                dependents.remove(&(entry.kind, entry.key.clone()));
            }
        } else if entry.before.is_none()
            && let Some(owner) = owner(&entry.object)
        {
            let dependent = (entry.kind, entry.key.clone());
            let there = store
                .find(owner.kind, &owner.key)
                .is_some_and(|object| text(object, &["metadata", "uid"]) == Some(&*owner.uid));
            if there {
                self.dependents.entry(owner.uid).or_default().insert(dependent);
            } else {
                self.orphans.insert(dependent);
            }
        }
    }

    /// The pods of a node that is gone, or a pod bound to one, are looked at after the quarantine.
    pub(super) fn observe_homeless(&mut self, key: &ObjectKey, store: &Store, quarantine: SignedDuration) {
        if let Ok(at) = store.now().checked_add(quarantine) {
            self.homeless.add_at(at, key.clone());
        }
    }

    pub(super) fn act(&mut self, store: &mut Store, pods: &Pods) {
        for (kind, key) in std::mem::take(&mut self.orphans) {
            // Gone already is as good.
            let _ = store.delete(kind, &key, &DeleteOptions::default(), ME);
        }
        for key in self.homeless.take_due(store.now()) {
            let Some(node) = pods.get(&key).and_then(|pod| pod.node.clone()) else { continue };
            if store.find(Kind::Node, &ObjectKey::new("", &node)).is_none() {
                let _ = store.delete(Kind::Pod, &key, &DeleteOptions::now(), POD_GC);
            }
        }
    }
}
