//! Spread of a pool's nodes over ranks, where the cloud takes machines of one kind back together: spot machines. It buys nothing.
//!
//! A rank gets no more than its even share, rounded up, of the nodes that are there and of those that are being bought. Where no
//! other rank takes the pods the share does not hold: pods do not wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::context::Context;
use crate::serve::PoolOption;
use headroom_pools::state::cluster_state::PoolState;

/// Nodes of a pool that are to be spread over ranks.
struct Spread {
    /// Fewest ranks over which they are spread; at least 2.
    fewest: u32,
    /// Their number, with those that this plan has bought.
    all: u32,
    /// Number of those of one rank.
    own: u32,
}

impl Spread {
    /// The spread of the pool's nodes, seen from this rank; `None` where its nodes need none.
    fn of(ctx: &Context<'_>, pool: &Arc<str>, rank: Option<u32>) -> Option<Self> {
        let state = ctx.cluster.pools.get(pool)?;
        let mut spread = Self { fewest: fewest_ranks(state, rank)?, all: 0, own: 0 };
        for (id, group) in &state.groups {
            if is_spread(state, id) {
                let nodes = group.target.saturating_add(ctx.purchased_of(pool, id));
                spread.all = spread.all.saturating_add(nodes);
                if state.rank_of(id) == rank {
                    spread.own = spread.own.saturating_add(nodes);
                }
            }
        }
        Some(spread)
    }

    /// Number of nodes that the rank may still get when `wanted` are bought.
    fn room(&self, wanted: u32) -> u32 {
        self.all.saturating_add(wanted).div_ceil(self.fewest).saturating_sub(self.own)
    }
}

fn is_spread(state: &PoolState<'_>, group: &Arc<str>) -> bool {
    state.groups.get(group).and_then(|group| group.state).is_some_and(|group| group.diversity.is_some())
}

/// Number of nodes that may still be bought in the rank of an option when all that it wants are; `u32::MAX` where they need no
/// spread.
fn room(ctx: &Context<'_>, option: &PoolOption) -> u32 {
    Spread::of(ctx, &option.pool, option.rank).map_or(u32::MAX, |spread| spread.room(option.nodes()))
}

/// True if `count` nodes of the group may come in place of these, each named by its pool and group: its rank keeps within its share, or has no more nodes than
/// before.
pub fn may_replace<'r>(
    ctx: &Context<'_>,
    (pool, group): (&Arc<str>, &Arc<str>),
    count: u32,
    replaced: impl Iterator<Item = (&'r Arc<str>, &'r Arc<str>)>,
) -> bool {
    let Some(state) = ctx.cluster.pools.get(pool) else { return true };
    let rank = state.rank_of(group);
    let Some(mut spread) = Spread::of(ctx, pool, rank) else { return true };
    let own = spread.own;
    for (_, group) in replaced.filter(|(of, _)| *of == pool) {
        spread.all = spread.all.saturating_sub(u32::from(is_spread(state, group)));
        spread.own = spread.own.saturating_sub(u32::from(state.rank_of(group) == rank));
    }
    count <= spread.room(count) || spread.own.saturating_add(count) <= own
}

/// Number of ranks over which the nodes of this rank are to be spread with others; `None` where it does not matter.
fn fewest_ranks(state: &PoolState<'_>, rank: Option<u32>) -> Option<u32> {
    let mut states = state.groups.values().filter_map(|group| group.state);
    let fewest = states.find(|group| group.rank == rank && group.diversity.is_some())?.diversity?;
    (1 < fewest).then_some(fewest)
}

/// Takes out the options of ranks that have their share, unless all that are to be spread have it.
pub(super) fn leave_out_full(ctx: &Context<'_>, options: &mut Vec<PoolOption>) {
    let is_open = |option: &PoolOption| (1..u32::MAX).contains(&room(ctx, option));
    if options.iter().any(is_open) {
        options.retain(|option| room(ctx, option) != 0);
    }
}

/// The most nodes of the option that are bought at once; what is cut goes to other ranks in the next round.
pub(super) fn most(ctx: &Context<'_>, option: &PoolOption) -> u32 {
    match room(ctx, option) {
        // It was not left out: no other rank takes the pods.
        0 => u32::MAX,
        most => most,
    }
}

/// The ranks in which nodes for a minimum without pods are bought: the lowest one, of those that are to be spread so many.
pub(super) fn for_minimum(state: &PoolState<'_>, open: &BTreeSet<Option<u32>>) -> BTreeSet<Option<u32>> {
    let Some(lowest) = open.first() else { return BTreeSet::new() };
    let Some(fewest) = fewest_ranks(state, *lowest) else { return [*lowest].into() };
    let alike = open.iter().filter(|rank| fewest_ranks(state, **rank).is_some());
    alike.take(usize::try_from(fewest).unwrap_or(usize::MAX)).copied().collect()
}
