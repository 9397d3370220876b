//! Turns: in a large cluster each plan tries to empty one part of the nodes, so that it takes no longer than in a small one. It
//! decides nothing about a node that has its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::candidates;
use crate::decide::Pass;
use crate::removal::Scene;
use headroom_cluster::world::digest::NodeDigest;
use headroom_cluster::world::node::Readiness;
use headroom_cluster::world::{NodeId, World};
use headroom_pools::state::foreign::Membership;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Pods of a cluster whose nodes all have their turn in each plan.
const PODS_AT_ONCE: usize = 10_000;
/// A plan for another part is made after this although nothing happens.
const NEXT_PART_AFTER: Seconds = Seconds(5);

/// The part of the nodes that has its turn.
///
/// Source: Cluster Autoscaler looks at 30 nodes with pods in each loop, flag scale-down-non-empty-candidates-count.
/// Differs from upstream: a part of all nodes and not the first of them, so that each has its turn whatever becomes of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    parts: usize,
    part: usize,
}

impl Turn {
    /// The turn at the instant `now` in a cluster of so many pods. It follows from them alone: nothing is remembered from plan to
    /// plan, and a plan that is made again says the same.
    pub(crate) fn at(now: UnixTime, pods_count: usize) -> Self {
        let parts = parts(pods_count);
        Self { parts, part: scattered(now, parts) }
    }

    /// True for the node at this place in the order of names. Nodes of a group stand together in it: each part has some of every
    /// group.
    pub(crate) fn has(self, place: usize) -> bool {
        place % self.parts == self.part
    }
}

/// The number of parts of a cluster of so many pods; at least 1.
#[must_use]
pub fn parts(pods_count: usize) -> usize {
    pods_count.div_ceil(PODS_AT_ONCE).max(1)
}

/// A number below `count`, which is not zero, by the instant. Plans may be made at any even pace: over time each number comes.
pub(crate) fn scattered(now: UnixTime, count: usize) -> usize {
    let number = now.0.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let below = number % u64::try_from(count).unwrap_or(u64::MAX);
    usize::try_from(below).unwrap_or(0)
}

impl<'s> Pass<'_, 's> {
    /// Reason why a node stays without a look at its pods: it is well used and does not go for its cost, or others have their turn;
    /// then its clock goes on. Only for members of pools that are [`candidates::open_to_removal`], and that are not outdated.
    pub(crate) fn stays_unseen(
        &mut self,
        (id, name, digest): (NodeId, &Arc<str>, &NodeDigest),
        member: &Membership<'s>,
        has_turn: bool,
        clocks: Option<&BTreeMap<Arc<str>, UnixTime>>,
    ) -> Option<Reason> {
        let Scene { config, world, now, .. } = *self.scene;
        let pool = &config.pools[member.pool];
        if world.devices().has_slices_of(name) {
            return None;
        }
        let above = candidates::is_digest_above(digest, self.settings.of(member, config, world), config)?;
        if above && !candidates::is_tight(pool) {
            return digest.is_ordinary().then_some(Reason::NotUnderutilized);
        }
        // What is asked for, dead, empty, or goes together with others has no turn to wait for.
        let goes_alone = !pool.scales_whole() && !self.replacing.names(name);
        if has_turn || !goes_alone || !is_plain(digest) || !above && !has_pods_to_move(id, world) {
            return None;
        }
        self.wake(now.plus(NEXT_PART_AFTER));
        let since = clocks.and_then(|clocks| clocks.get(name).copied());
        self.keep_clock(Some(member.pool), name, since);
        let waits = since.is_some() || !above;
        Some(if waits { Reason::NotUnneededLongEnough } else { Reason::NotUnderutilized })
    }
}

/// True if a node goes at most for its use or its cost.
fn is_plain(digest: &NodeDigest) -> bool {
    digest.ready == Readiness::Ready
        && !digest.deletion_taint
        && !digest.unschedulable
        && !digest.deleting
        && !digest.annotated
}

/// True if a pod is on the node that belongs to others.
fn has_pods_to_move(id: NodeId, world: &World) -> bool {
    world.node(id).pods.iter().any(|pod| {
        let pod = &world.pod(*pod).pod;
        !pod.class.daemon_set && !pod.class.mirror && !pod.phase.finished()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_of_a_small_cluster_have_their_turn_in_each_plan() {
        for pods_count in [0, PODS_AT_ONCE] {
            for now in 0..100 {
                let turn = Turn::at(UnixTime(now), pods_count);
                assert!((0..1000).all(|place| turn.has(place)));
            }
        }
    }

    #[test]
    fn each_node_of_a_large_cluster_has_its_turn_whatever_the_pace_of_plans() {
        // 45 parts, as of 15,000 nodes with 30 pods each.
        for pause in [1, 2, 3, 5, 9, 10, 15, 45, 60] {
            let mut waiting: Vec<usize> = (0..1000).collect();
            for plan in 1..=600 {
                let turn = Turn::at(UnixTime(1_800_000_000 + plan * pause), 450_000);
                let had = waiting.iter().filter(|place| turn.has(**place)).count();
                assert!(had <= 23, "a plan tries its part and no more");
                waiting.retain(|place| !turn.has(*place));
            }
            assert_eq!(waiting, [0_usize; 0], "after 600 plans with a pause of {pause} s");
        }
    }
}
