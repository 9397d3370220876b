//! Places each pod on the node whose free cpu and memory are to each other as the pod asks for them. Nodes of several shapes keep
//! room for all kinds of pods that way: memory-heavy ones do not use up what small ones would fit in beside others.

use crate::context::Context;
use crate::demand::PodGroup;
use crate::placement::LOOKS_PER_UNIT;
use headroom_cluster::scheduling::NodeIx;
use headroom_cluster::world::digest::Amounts;

/// Most looks of a pod at a node; beyond it the search costs more than it saves.
pub(super) const LOOKS_MAX: usize = 300_000;

/// Looks that all pods without a place cost on so many nodes.
pub(super) fn looks(groups: &[PodGroup], nodes: usize) -> usize {
    groups.iter().map(|group| group.pods.len()).sum::<usize>().saturating_mul(nodes)
}

/// Places the pods of one group, for which nothing but amounts decides between nodes that host it; what has no place stays in
/// the group.
pub(super) fn place(ctx: &mut Context<'_>, index: usize, nodes: &[NodeIx]) {
    let class = ctx.demand.groups[index].class;
    let (before, limit) = (ctx.snapshot.work_units, ctx.snapshot.search_limit(class));
    // Room first, which most nodes of a large cluster do not have, and which costs least to look at.
    let mut open: Vec<NodeIx> =
        nodes.iter().copied().filter(|node| ctx.snapshot.roomy(class, *node)).collect();
    open.retain(|node| ctx.snapshot.could_host_within(class, *node, limit));
    let asked = slope(&Amounts::of(&ctx.snapshot.class(class).requests));
    let pods = std::mem::take(&mut ctx.demand.groups[index].pods);
    let mut placed = 0;
    for pod in &pods {
        let looked_at = u64::try_from(open.len() / LOOKS_PER_UNIT).unwrap_or(u64::MAX);
        ctx.snapshot.work_units = ctx.snapshot.work_units.saturating_add(looked_at);
        let distance = |node: &NodeIx| (slope(&ctx.snapshot.room(*node)) - asked).abs();
        let nearest = open.iter().map(|node| (distance(node), *node)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, node)) = nearest.filter(|_| ctx.snapshot.work_units < limit) else { break };
        let fits = ctx.snapshot.fits(class, node);
        if fits {
            ctx.snapshot.place(*pod, node);
            placed += 1;
        }
        if !fits || !ctx.snapshot.roomy(class, node) {
            open.retain(|other| *other != node);
        }
    }
    ctx.snapshot.charge(class, before);
    let group = &mut ctx.demand.groups[index];
    group.pods = pods;
    group.pods.drain(..placed);
    group.on_existing += u32::try_from(placed).unwrap_or(u32::MAX);
}

/// Milli-cores for a MiB, where nothing is taken for very little.
#[allow(clippy::cast_precision_loss)]
fn slope(amounts: &Amounts) -> f64 {
    amounts.cpu_milli as f64 / ((amounts.memory_bytes >> 20).max(0) + 1) as f64
}
