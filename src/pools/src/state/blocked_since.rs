//! Time since which each node has been kept by its present reason, as far as one process has watched. It decides
//! nothing, and no plan reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::verdicts::NodeVerdicts;
use headroom_cluster::world::World;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// A clock for each node that was checked, kept beside the memory of the pools.
///
/// One entry a node of the last plan and no more, so it is bounded by the cluster. It is not in status: a write for
/// each change of each of thousands of nodes would be thousands of writes, and their names alone more than an object
/// may take. A process that begins to lead begins to watch; until a reason changes its clock means "at least since
/// then", and the row of the reason in status shows since when any node of the pool has been kept by it, which is never
/// later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedSince {
    /// By id of the node.
    clocks: Vec<Option<NodeClock>>,
    /// Plans that were noted.
    rounds: u64,
}

/// The clock of one node. Ids are given anew once a node is gone: a node of another age is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeClock {
    created_at: UnixTime,
    clock: Clock,
    /// The last plan with a verdict on it, as counted by [`BlockedSince::rounds`].
    round: u64,
}

/// One node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Clock {
    reason: Reason,
    since: UnixTime,
    seen: bool,
}

/// Nodes that have been kept by one reason since one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptNodes {
    /// Reason why they stay, or that they are on their way out.
    pub reason: Reason,
    /// Start, without a break.
    pub since: UnixTime,
    /// True if that was seen to begin. If not, the watch began then, and they may have been kept for longer.
    pub seen: bool,
    /// The nodes, sorted.
    pub nodes: Vec<Arc<str>>,
}

impl BlockedSince {
    /// Takes in the verdicts of a plan for `world`, at most one a node. A clock goes on while the reason is the same; that
    /// of a node without a verdict ends.
    ///
    /// A plan that checked no node, because the view was stale, must not be noted: it shows nothing about any node.
    pub fn note(&mut self, verdicts: &NodeVerdicts, world: &World, now: UnixTime) {
        let last = self.rounds;
        self.rounds += 1;
        self.clocks.resize(world.node_capacity(), None);
        for verdict in verdicts.iter() {
            let created_at = world.digest(verdict.id).created_at;
            let entry = &mut self.clocks[verdict.id.0 as usize];
            let before = entry.filter(|known| known.round == last && known.created_at == created_at);
            let clock = match before {
                Some(known) if known.clock.reason == verdict.reason => known.clock,
                // A node that comes while somebody watches begins then.
                _ => Clock { reason: verdict.reason, since: now, seen: 0 < last },
            };
            *entry = Some(NodeClock { created_at, clock, round: self.rounds });
        }
    }

    /// Moves every clock by `by`, for a wall clock that was set.
    pub fn shift(&mut self, by: Seconds) {
        for known in self.clocks.iter_mut().flatten() {
            known.clock.since = known.clock.since.plus(by);
        }
    }

    /// The clocks by reason and instant, of the nodes of `world` that the last plan spoke of.
    #[must_use]
    pub fn rows(&self, world: &World) -> Vec<KeptNodes> {
        let mut rows: BTreeMap<Clock, Vec<Arc<str>>> = BTreeMap::new();
        for (id, name, digest) in world.digests() {
            let known = self.clocks.get(id.0 as usize).copied().flatten();
            let current =
                known.filter(|known| known.round == self.rounds && known.created_at == digest.created_at);
            if let Some(known) = current {
                rows.entry(known.clock).or_default().push(name.clone());
            }
        }
        let row = |(Clock { reason, since, seen }, nodes)| KeptNodes { reason, since, seen, nodes };
        rows.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, config, node, pool, world};
    use headroom_cluster::world::Delta;

    fn three_nodes() -> World {
        ["a", "b", "c"].into_iter().fold(world(), |world, name| world.node(node(name))).build()
    }

    fn noted(
        blocked_since: &mut BlockedSince,
        verdicts: &[(&str, Reason)],
        at: i64,
    ) -> Vec<(String, Reason, i64, bool)> {
        let world = three_nodes();
        let mut said = NodeVerdicts::new(&world, &config([pool("a")]));
        for (name, reason) in verdicts {
            let (id, _, _) = world.node_named(name).expect("one of the three");
            said.push(id, Some(0), *reason, None);
        }
        blocked_since.note(&said, &world, UnixTime(NOW.0 + at));
        let mut rows: Vec<_> = blocked_since
            .rows(&world)
            .into_iter()
            .flat_map(|row| {
                let since = row.since.0 - NOW.0;
                row.nodes.into_iter().map(move |node| (node.to_string(), row.reason, since, row.seen))
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn each_node_has_a_clock_of_its_own_reason() {
        let mut blocked_since = BlockedSince::default();
        let (pdb, used) = (Reason::NotEnoughPdb, Reason::NotUnderutilized);
        noted(&mut blocked_since, &[("a", pdb), ("b", used)], 0);
        // Another node is kept by the same reason from now on, and a third one comes.
        let rows = noted(&mut blocked_since, &[("a", pdb), ("b", pdb), ("c", used)], 60);
        let row = |node: &str, reason, since, seen| (node.to_owned(), reason, since, seen);
        assert_eq!(rows, [row("a", pdb, 0, false), row("b", pdb, 60, true), row("c", used, 60, true)]);
        // A break begins it anew, and a node that goes takes its clock along.
        noted(&mut blocked_since, &[("a", used), ("b", pdb)], 70);
        let rows = noted(&mut blocked_since, &[("a", pdb), ("b", pdb), ("c", used)], 80);
        assert_eq!(rows, [row("a", pdb, 80, true), row("b", pdb, 60, true), row("c", used, 80, true)]);
    }

    #[test]
    fn another_node_with_the_id_of_one_that_is_gone_has_a_clock_of_its_own() {
        let (mut blocked_since, mut world) = (BlockedSince::default(), world().node(node("old")).build());
        let id = |world: &World, name: &str| world.node_named(name).expect("delivered").0;
        let verdict = |world: &World, name: &str| {
            let mut said = NodeVerdicts::new(world, &config([pool("a")]));
            said.push(id(world, name), Some(0), Reason::NotReplicated, None);
            said
        };
        blocked_since.note(&verdict(&world, "old"), &world, NOW);
        let old = id(&world, "old");
        world.apply(Delta::NodeDeleted("old".into()));
        assert!(blocked_since.rows(&world).is_empty());
        world.apply(Delta::NodeApplied(Box::new(node("new").age(0).build())));
        assert_eq!(id(&world, "new"), old, "the id is given again");
        assert!(blocked_since.rows(&world).is_empty());
        let later = UnixTime(NOW.0 + 60);
        blocked_since.note(&verdict(&world, "new"), &world, later);
        let rows = blocked_since.rows(&world);
        assert_eq!((&*rows[0].nodes[0], rows[0].since, rows[0].seen), ("new", later, true));
    }

    #[test]
    fn a_clock_that_is_set_takes_them_along() {
        let mut blocked_since = BlockedSince::default();
        noted(&mut blocked_since, &[("a", Reason::Empty)], 0);
        blocked_since.shift(Seconds(-3600));
        assert_eq!(blocked_since.rows(&three_nodes())[0].since, UnixTime(NOW.0 - 3600));
    }
}
