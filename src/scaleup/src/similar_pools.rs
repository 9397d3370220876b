//! Nodes that one pool would get, spread over all pools whose nodes are alike. It chooses no pool, and buys nothing.

use std::sync::Arc;

use crate::balance::{self, Size};
use crate::bounds;
use crate::context::Context;
use crate::serve::PoolOption;
use headroom_cluster::scheduling::TemplateNode;
use headroom_cluster::similarity::{Comparator, Shape, Similarity};
use headroom_cluster::world::node::{GROUP_LABEL, POOL_LABEL};

/// Returns the number of nodes of the option `best` that each pool gets, that of `best` first. Only `best` gets nodes
/// where no other pool is like it.
///
/// A pool is like it if its nodes are ([`Similarity`], with the labels of pools themselves apart) and if a new one takes each
/// class of pods that `best` takes, whether or not the pool has room for all. Nodes are given one by one to the smallest pool
/// with room. Pools whose groups grow as a whole, or are of
/// several shapes, are never balanced.
///
/// Source: nodegroupset/balancing_node_group_set_processor.go, FindSimilarNodeGroups and BalanceScaleUpBetweenGroups.
/// Differs from upstream: whole pools are compared and balanced and not groups, since those of one pool always are.
pub(crate) fn shares(ctx: &mut Context<'_>, options: &[PoolOption], best: usize) -> Vec<(usize, u32)> {
    let wanted = options[best].offer.nodes;
    let alike = |other: &usize| *other != best && alike(ctx, &options[best], &options[*other]);
    let mut members = vec![best];
    members.extend((0..options.len()).filter(alike));
    if members.len() == 1 {
        return vec![(best, wanted)];
    }
    let sizes: Vec<Size> = members.iter().map(|at| size(ctx, &options[*at])).collect();
    let grown = balance::balance(&sizes, wanted);
    let share = |((at, size), grown): ((&usize, &Size), u32)| (*at, grown.saturating_sub(size.current));
    members.iter().zip(&sizes).zip(grown).map(share).collect()
}

fn alike(ctx: &mut Context<'_>, best: &PoolOption, other: &PoolOption) -> bool {
    let whole = |option: &PoolOption| ctx.config.scales_whole(&option.pool);
    let rule = Similarity {
        // Its labels mean the same wherever they stand.
        comparator: Comparator::Aws,
        ignored_labels: vec![Arc::from(POOL_LABEL), Arc::from(GROUP_LABEL)],
        ..Similarity::default()
    };
    let shapes = best.groups.first().zip(other.groups.first());
    !whole(best)
        && !whole(other)
        && best.rank.is_none()
        && other.rank.is_none()
        && shapes.is_some_and(|(a, b)| rule.similar(shape(&a.template), shape(&b.template)))
        && hosts(ctx, best, other)
}

/// True if a new node of the other pool takes each class of pods that `best` takes.
fn hosts(ctx: &mut Context<'_>, best: &PoolOption, other: &PoolOption) -> bool {
    let placed = best.wanted.iter().zip(best.packing.placed.iter().zip(&other.packing.placed));
    let open: Vec<usize> =
        placed.filter(|(_, (best, other))| **best != 0 && **other == 0).map(|(index, _)| *index).collect();
    if open.is_empty() || !other.packing.limited {
        return open.is_empty();
    }
    // It has run out of room before it came to them.
    let Some(group) = other.groups.first() else { return false };
    let mark = ctx.snapshot.checkpoint();
    let node = ctx.snapshot.add_node(&group.template, Arc::from("alike"));
    let all = open.iter().all(|index| ctx.snapshot.fits(ctx.demand.groups[*index].class, node));
    ctx.snapshot.rollback(mark);
    all
}

fn shape(template: &TemplateNode) -> Shape<'_> {
    Shape { node: &template.node, requested: &template.daemon_requested }
}

/// A pool's size in this plan, and the most nodes that it may have.
fn size(ctx: &Context<'_>, option: &PoolOption) -> Size {
    let target = ctx.cluster.pools.get(&option.pool).map_or(0, |state| state.target());
    let current = target.saturating_add(ctx.purchased(&option.pool));
    let groups = option.groups.iter().map(|group| group.size.max.saturating_sub(group.size.current));
    let open = groups.fold(0, u32::saturating_add);
    let room = bounds::room(ctx, &option.pool, &option.offer.node);
    Size { current, max: current.saturating_add(room.min(open)) }
}
