//! Corrections on every tick: victims beyond the pool's minimum, and marks that no open intent stands for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::removal::ending::let_go;
use crate::removal::{Advance, Scene};
use headroom_cluster::history::{DecisionOutcome, History, PoolHistory, RemovalPhase};
use headroom_cluster::world::NodeId;
use headroom_cluster::world::node::POOL_LABEL;
use headroom_pools::config::Pool;
use headroom_pools::plan::Step;
use headroom_pools::state::bounds::bounds;
use headroom_pools::state::foreign::marked_by;
use headroom_pools::wake::Wake;
use headroom_values::reason::Reason;

/// Lets go of victims, youngest intent first, until the pool keeps its minimum without them.
pub(super) fn keep_within_min(scene: &Scene<'_>, pool: &Pool, memory: &mut PoolHistory) {
    if memory.removals().next().is_none() {
        return;
    }
    let min = bounds(pool, scene.now, &mut Wake::new(scene.now)).min;
    let counts = |id: NodeId| {
        scene.members.member(id).is_some_and(|member| scene.config.pools[member.pool].name == pool.name)
    };
    let registered = scene.world.nodes().filter(|(id, _, _)| counts(*id));
    let mut room = registered.count().saturating_sub(usize::try_from(min).unwrap_or(usize::MAX));
    let mut too_many = Vec::new();
    // Removals that cannot be called back take their room first.
    for called_back in [false, true] {
        for (intent, removal) in memory.removals() {
            // Nor can what the cloud takes.
            let open = intent.reason != Reason::Interrupted
                && matches!(
                    removal.phase,
                    RemovalPhase::Journalled | RemovalPhase::Marked | RemovalPhase::Draining
                );
            if open != called_back || intent.reason == Reason::NeverRegistered {
                continue;
            }
            for victim in &removal.victims {
                // A node whose instance the provider lists no more is not among those that the minimum counts: it takes
                // no room either, or a removal that has room when it is decided is called back at once, for ever.
                let there = scene.world.node_named(&victim.node).is_some_and(|(id, _, _)| counts(id));
                match (there, room) {
                    (false, _) => {}
                    (true, 0) if open => too_many.push((intent.id.clone(), victim.node.clone())),
                    (true, _) => room = room.saturating_sub(1),
                }
            }
        }
    }
    for (id, node) in too_many {
        let words = "the pool keeps its minimum";
        let (whole, reason) = (pool.scales_whole(), Reason::MinNodesReached);
        let_go(memory, &id, &node, whole, reason, words, DecisionOutcome::Cancelled, scene.now);
    }
}

/// Takes off every mark whose intent is not open or does not name the node. Marks without our annotation are others'.
pub(super) fn take_orphans_off(history: &History, scene: &Scene<'_>, advance: &mut Advance) {
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    for memory in history.pools.values() {
        for (intent, removal) in memory.removals() {
            open.extend(removal.victims.iter().map(|victim| (&*victim.node, &*intent.id)));
        }
    }
    for (id, node) in scene.world.annotated_nodes() {
        let Some(mark) = marked_by(node) else { continue };
        if open.get(&*node.name) != Some(&mark) {
            let pool = match scene.members.member(id) {
                Some(member) => Some(scene.config.pools[member.pool].name.clone()),
                None => node.labels.get(POOL_LABEL).map(Arc::from),
            };
            advance.steps.push(Step::Unmark { pool, intent: None, node: node.name.clone() });
        }
    }
}
