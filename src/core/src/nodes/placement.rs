//! First fit on nodes that are there or on their way; placements stay in the snapshot. It adds no node.

use crate::config::Profile;
use crate::nodes::context::{Context, Part};
use crate::nodes::demand::PodGroup;
use crate::scheduling::{NodeIx, PodRef, Snapshot};

/// Places what fits, group by group in the order given; what does not stays in the groups.
///
/// Pods whose preemption is under way are put on their nominated node first, unchecked: the scheduler is making room.
pub fn place(ctx: &mut Context<'_>) {
    for (pod, node) in std::mem::take(&mut ctx.demand.nominated) {
        if let Some(node) = ctx.snapshot.named(&node) {
            ctx.snapshot.place(PodRef::Real(pod), node);
        }
    }
    let profile = ctx.config.profile;
    let mut start = 0;
    for index in 0..ctx.demand.groups.len() {
        let class = ctx.snapshot.class(ctx.demand.groups[index].class).clone();
        ctx.working_on(Part::Class(class));
        let first = if profile == Profile::ClusterAutoscaler { start } else { 0 };
        start = place_group(&mut ctx.snapshot, &mut ctx.demand.groups[index], first, profile);
    }
    ctx.working_on(Part::Whole);
}

/// Places pods of one group, going round from `start`; returns the node after the last that took one.
///
/// Under profile ClusterAutoscaler the search goes on behind the node that took the previous pod, as upstream's
/// does; under Headroom it stays there, which packs tighter.
fn place_group(snapshot: &mut Snapshot<'_>, group: &mut PodGroup, start: usize, profile: Profile) -> usize {
    let nodes = snapshot.nodes_capacity();
    let mut at = start;
    let mut after_last = start;
    let mut misses = 0;
    let mut taken = 0;
    while taken < group.pods.len() && misses < nodes {
        let node = NodeIx(u32::try_from(at % nodes).expect("indexes of nodes fit 32 bits"));
        if snapshot.fits(group.class, node) {
            snapshot.place(group.pods[taken], node);
            taken += 1;
            misses = 0;
            after_last = (at + 1) % nodes;
            at = if profile == Profile::ClusterAutoscaler { after_last } else { at };
        } else {
            misses += 1;
            at = (at + 1) % nodes;
        }
    }
    group.pods.drain(..taken);
    group.on_existing += u32::try_from(taken).unwrap_or(u32::MAX);
    after_last
}
