//! What a plan says of each node. One verdict a node and plan: in a large cluster a copy of each name would be most of what a
//! plan costs, so names stand in a table that the world shares.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::config::Config;
use headroom_cluster::world::names::NodeNames;
use headroom_cluster::world::{NodeId, World};
use headroom_values::reason::Reason;

/// Verdicts on nodes of one world, at most one each. Equal if they say the same of nodes of the same names, in the same order.
#[derive(Clone, Debug, Default)]
pub struct NodeVerdicts {
    names: NodeNames,
    /// By index into [`Config::pools`].
    pools: Arc<[Arc<str>]>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    id: NodeId,
    pool: Option<u32>,
    reason: Reason,
    object: Option<Arc<str>>,
}

/// The verdict on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict<'v> {
    /// Its id in the world that was planned for.
    #[serde(skip)]
    pub id: NodeId,
    /// The node.
    pub node: &'v Arc<str>,
    /// Its pool; `None` for foreign nodes.
    pub pool: Option<&'v str>,
    /// Reason why it stays, or that it is on its way out.
    pub reason: Reason,
    /// The object in the way, as `kind/namespace/name`.
    pub object: Option<&'v str>,
}

impl NodeVerdicts {
    /// No verdict yet on any node of `world`.
    #[must_use]
    pub fn new(world: &World, config: &Config) -> Self {
        let pools = config.pools.iter().map(|pool| pool.name.clone()).collect();
        Self { names: world.node_names().clone(), pools, rows: Vec::new() }
    }

    /// Makes room for the verdicts on so many nodes.
    pub fn reserve(&mut self, count: usize) {
        self.rows.reserve(count);
    }

    /// One verdict more. `pool` is an index into [`Config::pools`], `object` what is in the way, as `kind/namespace/name`.
    pub fn push(&mut self, id: NodeId, pool: Option<usize>, reason: Reason, object: Option<Arc<str>>) {
        let pool = pool.and_then(|pool| u32::try_from(pool).ok());
        self.rows.push(Row { id, pool, reason, object });
    }

    /// Replaces reason and object of verdicts by what `changed` returns for their node and reason.
    pub fn change(&mut self, changed: impl Fn(NodeId, Reason) -> Option<(Reason, Option<Arc<str>>)>) {
        for row in &mut self.rows {
            if let Some((reason, object)) = changed(row.id, row.reason) {
                (row.reason, row.object) = (reason, object);
            }
        }
    }

    /// Puts the verdicts in order of `key`.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(NodeId) -> K) {
        self.rows.sort_by_key(|row| key(row.id));
    }

    /// The verdicts, in order of the nodes' names where a plan made them.
    pub fn iter(&self) -> impl Iterator<Item = NodeVerdict<'_>> + Clone {
        self.rows.iter().map(|row| self.verdict(row))
    }

    /// The verdict on the node of this name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<NodeVerdict<'_>> {
        self.iter().find(|verdict| **verdict.node == *name)
    }

    fn verdict<'v>(&'v self, row: &'v Row) -> NodeVerdict<'v> {
        NodeVerdict {
            id: row.id,
            node: self.names.get(row.id),
            pool: row.pool.map(|pool| &*self.pools[pool as usize]),
            reason: row.reason,
            object: row.object.as_deref(),
        }
    }
}

impl PartialEq for NodeVerdicts {
    fn eq(&self, other: &Self) -> bool {
        // An id means something in its own world alone.
        let same = |one: NodeVerdict<'_>, other: NodeVerdict<'_>| one == NodeVerdict { id: one.id, ..other };
        self.rows.len() == other.rows.len()
            && self.iter().zip(other.iter()).all(|(one, other)| same(one, other))
    }
}

impl Serialize for NodeVerdicts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
