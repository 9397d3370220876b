//! Counts of the nodes as they truly are, kept from the change log: a look at one node must not walk all. It checks nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::truth;
use headroom_simulator::store::{Kind, Store};

/// The nodes by pool, and those that are not ready although they have been.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    cursor: u64,
    known: BTreeMap<Arc<str>, Seen>,
    by_pool: BTreeMap<String, usize>,
    unready_count: usize,
}

#[derive(Debug)]
struct Seen {
    pool: String,
    unready: bool,
}

impl Nodes {
    /// Reads what has changed since the last call.
    pub(super) fn catch_up(&mut self, store: &Store) {
        if self.cursor == store.revision() {
            return;
        }
        match store.entries_after(self.cursor) {
            Ok(entries) => {
                for entry in entries.filter(|entry| entry.kind == Kind::Node) {
                    self.note(&entry.key.name, (!entry.deleted).then_some(&*entry.object));
                }
            }
            Err(_) => {
                *self = Nodes::default();
                store.all(Kind::Node).for_each(|(key, node)| self.note(&key.name, Some(node)));
            }
        }
        self.cursor = store.revision();
    }

    fn note(&mut self, name: &Arc<str>, node: Option<&Value>) {
        let seen = node.map(|node| Seen {
            pool: truth::pool_of(node).unwrap_or_default(),
            unready: truth::is_unready(node),
        });
        if let Some(seen) = &seen {
            *self.by_pool.entry(seen.pool.clone()).or_default() += 1;
            self.unready_count += usize::from(seen.unready);
        }
        let before = match seen {
            Some(seen) => self.known.insert(name.clone(), seen),
            None => self.known.remove(name),
        };
        if let Some(before) = before {
            self.unready_count -= usize::from(before.unready);
            if let Some(count) = self.by_pool.get_mut(&before.pool) {
                *count -= 1;
            }
        }
    }

    /// Number of nodes that the pool has.
    pub(super) fn of_pool(&self, pool: &str) -> usize {
        self.by_pool.get(pool).copied().unwrap_or(0)
    }

    /// All nodes, and those that are not ready although they have been.
    pub(super) fn readiness(&self) -> (usize, usize) {
        (self.known.len(), self.unready_count)
    }
}
