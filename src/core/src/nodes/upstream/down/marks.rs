//! Taints that say what may happen to a node: soft ones on unneeded nodes, and leftovers of an earlier life.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Pass;
use super::status::Act;
use crate::nodes::context::Context;
use crate::scheduling::Presence;
use crate::world::node::{DELETION_TAINT, Node};

/// The taint of nodes that may go.
pub const CANDIDATE_TAINT: &str = "DeletionCandidateOfClusterAutoscaler";

fn has(node: &Node, key: &str) -> bool {
    node.taints.iter().any(|taint| &*taint.key == key)
}

/// Soft taints to put on unneeded nodes and to take off others, so many in one loop.
///
/// Nodes are looked at as they were before the loop: one that got its hard taint now gets the soft one too.
/// Source: scaledown/actuation/softtaint.go, UpdateSoftDeletionTaints.
pub fn soft_taints(ctx: &Context<'_>, pass: &Pass<'_>) -> Vec<Act> {
    let most = ctx.config.cluster.upstream.down.soft_taints_max;
    let mut on = Vec::new();
    let mut off = Vec::new();
    let owned: BTreeSet<&Arc<str>> =
        pass.seen.groups.values().flat_map(|group| group.instances.keys()).collect();
    for ((_, node, _), seen) in ctx.world.nodes().zip(&pass.seen.nodes) {
        let marked = ctx.next.shrinking.cleaned && has(node, DELETION_TAINT);
        if marked || pass.starting.contains(&node.name) || !owned.contains(&seen.instance) {
            continue;
        }
        let unneeded = ctx.next.shrinking.unneeded.contains_key(&node.name);
        match (unneeded, has(node, CANDIDATE_TAINT)) {
            (true, false) => on.push(Act::SoftTaint(node.name.clone())),
            (false, true) => off.push(Act::SoftUntaint(node.name.clone())),
            (true, true) | (false, false) => {}
        }
    }
    on.into_iter().chain(off).take(most).collect()
}

/// Takes off what an earlier life left behind, once; the snapshot goes on without it.
///
/// Source: static_autoscaler.go, cleanUpIfRequired.
pub fn clean_up(ctx: &mut Context<'_>) -> Vec<Act> {
    let mut acts = Vec::new();
    if ctx.next.shrinking.cleaned {
        return acts;
    }
    let soft_too = ctx.config.cluster.upstream.down.soft_taints_max == 0;
    let mut freed = Vec::new();
    for (id, node, _) in ctx.world.nodes() {
        if has(node, DELETION_TAINT) {
            acts.push(Act::HardUntaint(node.name.clone()));
            if ctx.config.cluster.upstream.down.cordon && node.unschedulable {
                acts.push(Act::Uncordon(node.name.clone()));
            }
            freed.extend(ctx.snapshot.index_of(id));
        }
        if soft_too && has(node, CANDIDATE_TAINT) {
            acts.push(Act::SoftUntaint(node.name.clone()));
        }
    }
    if !freed.is_empty() {
        ctx.change_base(|snapshot| {
            for ix in freed {
                let taints = snapshot.node(ix).taints().iter();
                let left = taints.filter(|taint| &*taint.key != DELETION_TAINT).cloned().collect();
                snapshot.set_presence(ix, Presence::Present);
                snapshot.expect_started(ix, left, None);
            }
        });
    }
    acts
}
