//! Turns: in a large cluster each plan tries to empty one part of the nodes, so that it takes no longer than in a small one. It
//! decides nothing about a node that has its turn.

use std::sync::Arc;

use crate::candidates;
use crate::decide::Pass;
use crate::removal::Scene;
use headroom_cluster::world::digest::NodeDigest;
use headroom_cluster::world::node::Readiness;
use headroom_cluster::world::{NodeId, World};
use headroom_pools::state::foreign::Membership;
use headroom_values::mixing::mixed;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Pods of a cluster whose nodes all have their turn in each plan.
const SMALL_CLUSTER_PODS: usize = 10_000;
/// Pods of a part of a larger cluster.
const PODS_AT_ONCE: usize = 2_000;
/// Most parts, so that a round takes ten minutes at most, as long as clocks run by default: above 1,200,000 pods parts are larger.
const PARTS_MAX: usize = 600;
/// A plan for another part is made after this although nothing happens.
const NEXT_PART_AFTER: Seconds = Seconds(1);

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
    ///
    /// Parts follow one another, and each round of all of them begins with another one: at the pace of a cluster at rest each part
    /// has its turn within two rounds, and at any other even pace none is passed over for ever.
    pub(crate) fn at(now: UnixTime, pods_count: usize) -> Self {
        let parts = parts(pods_count);
        let (step, count) = (now.0.unsigned_abs() / NEXT_PART_AFTER.0.unsigned_abs(), parts as u64);
        let first = mixed(step / count) % count;
        Self { parts, part: below(step % count + first, parts) }
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
    match pods_count {
        ..=SMALL_CLUSTER_PODS => 1,
        _ => pods_count.div_ceil(PODS_AT_ONCE).min(PARTS_MAX),
    }
}

/// A number below `count`, which is not zero, by the instant.
pub(crate) fn scattered(now: UnixTime, count: usize) -> usize {
    below(mixed(now.0.unsigned_abs()), count)
}

fn below(number: u64, count: usize) -> usize {
    usize::try_from(number % count as u64).unwrap_or(0)
}

impl<'s> Pass<'_, 's> {
    /// Reason why a node stays without a look at its pods: it is well used and does not go for its cost, or others have their turn;
    /// then its clock goes on. Only for members of pools that are [`candidates::open_to_removal`], and that are not outdated.
    pub(crate) fn stays_unseen(
        &mut self,
        (id, name, digest): (NodeId, &Arc<str>, &NodeDigest),
        member: &Membership<'s>,
        has_turn: bool,
        since: Option<UnixTime>,
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
        for pods_count in [0, SMALL_CLUSTER_PODS] {
            for now in 0..100 {
                let turn = Turn::at(UnixTime(now), pods_count);
                assert!((0..1000).all(|place| turn.has(place)));
            }
        }
    }

    /// The number of plans, one in so many seconds, after which each of 1,000 nodes has had its turn in a cluster of 225 parts, as of
    /// 15,000 nodes with 30 pods each. Begun at any time of two rounds.
    fn plans_until_all(pause: i64) -> usize {
        let begins = (0..450).step_by(50);
        let plans = begins.map(|begin| {
            let mut waiting: Vec<usize> = (0..1000).collect();
            let mut plans = 0;
            while !waiting.is_empty() && plans < 3000 {
                plans += 1;
                let turn = Turn::at(UnixTime(1_800_000_000 + begin + plans * pause), 450_000);
                let had = waiting.iter().filter(|place| turn.has(**place)).count();
                assert!(had <= 5, "a plan tries its part and no more");
                waiting.retain(|place| !turn.has(*place));
            }
            assert_eq!(waiting, [0_usize; 0], "with a pause of {pause} s from {begin}");
            usize::try_from(plans).expect("a number of plans")
        });
        plans.max().expect("some begin")
    }

    #[test]
    fn each_node_of_a_large_cluster_at_rest_has_its_turn_within_two_rounds() {
        assert_eq!(parts(450_000), 225);
        assert_eq!(parts(3_000_000), 600, "a round of ten minutes");
        let plans = plans_until_all(NEXT_PART_AFTER.0);
        assert!(plans <= 2 * 225, "{plans} plans");
    }

    #[test]
    fn each_node_of_a_large_cluster_has_its_turn_whatever_the_pace_of_plans() {
        for pause in [1, 3, 4, 5, 8, 9, 10, 13, 15, 20, 34, 45, 55, 60, 89, 120, 144] {
            plans_until_all(pause);
        }
    }
}
