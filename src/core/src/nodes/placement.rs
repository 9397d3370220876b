//! First fit on nodes that are there or on their way; placements stay in the snapshot. It adds no node.

use crate::config::Profile;
use crate::nodes::context::{Context, Part};
use crate::nodes::demand::{self, PodGroup};
use crate::nodes::patterns;
use crate::resources::Resources;
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
    let mark = ctx.snapshot.checkpoint();
    let wanted = ctx.demand.groups.clone();
    first_fit(ctx);
    let uniform = wanted.windows(2).all(|pair| pair[0].priority == pair[1].priority);
    let left = weight_left(ctx);
    if left == 0 || !uniform || ctx.config.profile == Profile::ClusterAutoscaler {
        return;
    }
    // First fit fails where memory-heavy pods use up nodes whose cpu others need: another way may place more.
    ctx.snapshot.rollback(mark);
    ctx.demand.groups = wanted.clone();
    mixed_fit(ctx);
    if left <= weight_left(ctx) {
        ctx.snapshot.rollback(mark);
        ctx.demand.groups = wanted;
        first_fit(ctx);
    }
}

/// How much is without a place, by cpu and memory on one scale.
fn weight_left(ctx: &Context<'_>) -> i64 {
    let weight = |group: &PodGroup| {
        let pods = i64::from(group.unplaced());
        pods.saturating_mul(demand::weight(ctx.snapshot.class(group.class)).max(1))
    };
    ctx.demand.groups.iter().map(weight).fold(0, i64::saturating_add)
}

/// Each group in order on the first node that takes it.
fn first_fit(ctx: &mut Context<'_>) {
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

/// Groups that look at other pods first; the others node by node, each with the mix that suits it.
fn mixed_fit(ctx: &mut Context<'_>) {
    let profile = ctx.config.profile;
    let mut simple = Vec::new();
    for index in 0..ctx.demand.groups.len() {
        let class = ctx.demand.groups[index].class;
        if !ctx.snapshot.is_plain(class) {
            ctx.working_on(Part::Class(ctx.snapshot.class(class).clone()));
            place_group(&mut ctx.snapshot, &mut ctx.demand.groups[index], 0, profile);
        } else {
            simple.push(index);
        }
    }
    ctx.working_on(Part::Whole);
    let nodes: Vec<NodeIx> = ctx.snapshot.nodes().map(|(node, _)| node).collect();
    for node in nodes {
        simple.retain(|index| !ctx.demand.groups[*index].pods.is_empty());
        if simple.is_empty() || patterns::CLASSES_MAX < simple.len() {
            return;
        }
        fill_node(ctx, node, &simple);
    }
}

/// Fills one node with pods of these groups.
fn fill_node(ctx: &mut Context<'_>, node: NodeIx, groups: &[usize]) {
    let fitting: Vec<usize> = groups
        .iter()
        .copied()
        .filter(|index| ctx.snapshot.fits(ctx.demand.groups[*index].class, node))
        .collect();
    if fitting.is_empty() {
        return;
    }
    let requests: Vec<Resources> = fitting
        .iter()
        .map(|index| ctx.snapshot.class(ctx.demand.groups[*index].class).requests.clone())
        .collect();
    let left: Vec<usize> = fitting.iter().map(|index| ctx.demand.groups[*index].pods.len()).collect();
    let whole = ctx.snapshot.node(node).allocatable().clone();
    let mut free = whole.clone();
    free.subtract(ctx.snapshot.node(node).requested());
    let mix = patterns::fill_room(&requests, &left, &whole, free, &mut ctx.snapshot.work_units);
    for (index, count) in mix {
        let group = &mut ctx.demand.groups[fitting[index]];
        for pod in group.pods.drain(..count) {
            ctx.snapshot.place(pod, node);
        }
        group.on_existing += u32::try_from(count).unwrap_or(u32::MAX);
    }
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
