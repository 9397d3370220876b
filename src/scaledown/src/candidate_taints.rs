//! Nodes that are to take pods only if no others can, because they go next. It writes nothing, and chooses no node.
//!
//! Pods that leave a node are put by the scheduler on the emptiest one, and that is the next one to go: without a mark a pod
//! may be evicted again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::removal::Scene;
use headroom_cluster::history::{History, RemovalPhase};
use headroom_cluster::world::node::Readiness;
use headroom_pools::config::Mode;
use headroom_pools::plan::CandidateTaints;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Most nodes that one plan names. Source: Cluster Autoscaler, flag max-bulk-soft-taint-count, the same.
pub const WRITES_MAX: usize = 10;
/// The last part of the time that a node must be unneeded, as a divisor: before it a node that is only unneeded for a while
/// costs no write.
const LAST_PART: i64 = 4;

/// The nodes whose soft taint, [`headroom_cluster::world::node::CANDIDATE_TAINT`], differs from what `history` asks for, at most [`WRITES_MAX`]; and when more
/// nodes are to get it although nothing happens.
///
/// A node gets it when it has been unneeded for three quarters of its time; at once while nodes are being drained, since their pods are
/// on their way to somewhere; and when it waits for one that was bought in its place. It loses it when it is needed again. A
/// node with an open removal is left as it is: the hard taint keeps pods away. Only ready nodes of pools that act get it; it
/// is taken off everywhere. A stale view changes nothing.
///
/// Source: Cluster Autoscaler, core/scaledown/actuation/softtaint.go, UpdateSoftDeletionTaints.
/// Differs from upstream: there each node gets it as soon as it is unneeded; and its key is Cluster Autoscaler's own, which two
/// autoscalers would take off each other's nodes.
pub fn of(scene: &Scene<'_>, history: &History) -> (CandidateTaints, Option<UnixTime>) {
    if scene.freshness.stale {
        return Default::default();
    }
    let removals = || history.pools.values().flat_map(|memory| memory.removals());
    let victims = removals().flat_map(|(_, removal)| &removal.victims);
    let leaving: BTreeSet<&Arc<str>> = victims.map(|victim| &victim.node).collect();
    let draining = removals().any(|(intent, removal)| {
        intent.reason != Reason::Empty
            && matches!(
                removal.phase,
                RemovalPhase::Journalled | RemovalPhase::Marked | RemovalPhase::Draining
            )
    });
    let next = Next::of(scene, history, draining);
    let mut named = CandidateTaints::default();
    for (_, node) in scene.world.candidate_nodes() {
        if !next.keep.contains(node) && !leaving.contains(node) {
            named.off.push(node.clone());
        }
    }
    named.off.truncate(WRITES_MAX);
    let lacks = |node: &Arc<str>| {
        let found = scene.world.node_named(node).map(|(_, node, _)| node);
        found.is_some_and(|node| {
            !node.candidate && !node.deleting && !node.unschedulable && node.ready == Readiness::Ready
        })
    };
    let mut on: Vec<(UnixTime, Arc<str>)> = next.on.into_iter().map(|(node, since)| (since, node)).collect();
    on.retain(|(_, node)| !leaving.contains(node) && lacks(node));
    on.sort();
    on.truncate(WRITES_MAX - named.off.len());
    named.on = on.into_iter().map(|(_, node)| node).collect();
    (named, next.wake_at)
}

/// Nodes that go next.
#[derive(Debug, Default)]
struct Next {
    /// Those that have been unneeded for long enough for the taint, with since when.
    on: BTreeMap<Arc<str>, UnixTime>,
    /// Those that do not lose it.
    keep: BTreeSet<Arc<str>>,
    wake_at: Option<UnixTime>,
}

impl Next {
    fn of(scene: &Scene<'_>, history: &History, draining: bool) -> Self {
        let mut next = Self::default();
        for pool in &scene.config.pools {
            let acts = pool.mode == Mode::Apply && !pool.deleting && pool.scale_down.enabled;
            let Some(memory) = history.pools.get(&pool.name).filter(|_| acts) else { continue };
            for replaced in memory.replacement.iter().flat_map(|replacement| &replacement.nodes) {
                next.on.insert(replaced.node.clone(), scene.now);
                next.keep.insert(replaced.node.clone());
            }
            for (node, since) in &memory.unneeded {
                let member = scene.world.node_named(node).and_then(|(id, _, _)| scene.members.member(id));
                let Some(member) = member else { continue };
                next.keep.insert(node.clone());
                let unneeded_for = GroupSettings::of(pool, member.group, scene.world).unneeded_for();
                let due = since.plus(Seconds(unneeded_for.0 - unneeded_for.0 / LAST_PART));
                if draining || due <= scene.now {
                    next.on.insert(node.clone(), *since);
                } else {
                    next.wake_at = Some(next.wake_at.map_or(due, |before| before.min(due)));
                }
            }
        }
        next
    }
}
