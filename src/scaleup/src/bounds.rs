//! Bounds of a pool in a plan: its own limits, the cluster's, and CapacityQuotas. It buys nothing.

use std::sync::Arc;

use crate::context::Context;
use crate::limits::{self, Limit};
use crate::quotas;
use headroom_cluster::history::INTENTS_MAX;
use headroom_pools::state::cluster_state::PoolState;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Number of nodes that the pool may still get by its own and the cluster's limits.
pub fn room(ctx: &Context<'_>, pool: &Arc<str>, capacity: &Resources) -> u32 {
    rooms(ctx, pool, capacity).iter().map(|room| room.nodes).min().unwrap_or(0)
}

/// Returns the capacity of a new node of the pool, by the first group with a template, of groups of several shapes by the
/// lowest rank; nothing without one, and then only limits that are reached hold it back.
pub fn new_capacity(ctx: &mut Context<'_>, pool: &Arc<str>) -> Resources {
    let Some(state) = ctx.cluster.pools.get(pool) else { return Resources::default() };
    let mut groups: Vec<Arc<str>> = state.groups.keys().cloned().collect();
    groups.sort_by_key(|group| state.rank_of(group));
    let template = groups.into_iter().find_map(|group| ctx.template(pool, &group));
    template.map(|template| template.node.capacity.clone()).unwrap_or_default()
}

/// The rooms that bound a pool: its own, the cluster's, and those of CapacityQuotas.
pub fn rooms(ctx: &Context<'_>, pool: &Arc<str>, capacity: &Resources) -> Vec<limits::Room> {
    let Some(state) = ctx.cluster.pools.get(pool) else { return Vec::new() };
    let own = limits::pool_room(state, ctx.purchased(pool), &used(ctx, state, capacity), capacity);
    let all = limits::cluster_room(
        &ctx.config.cluster,
        &ctx.cluster,
        ctx.purchased_total(),
        &ctx.unseen_capacity,
        capacity,
    );
    let mut rooms = vec![own, all];
    rooms.extend(quotas::rooms_of_pool(ctx, pool));
    rooms
}

/// What the nodes of a pool with limits have together: those that its groups are asked for and those that this plan has bought,
/// each as a new node of its group. A node of a group whose shape is not known counts as `capacity`, the node that is asked
/// about.
fn used(ctx: &Context<'_>, state: &PoolState<'_>, capacity: &Resources) -> Resources {
    let mut used = Resources::default();
    if !state.pool.limits_amounts() {
        return used;
    }
    for (group, counts) in &state.groups {
        let nodes = counts.target.saturating_add(ctx.purchased_of(&state.pool.name, group));
        let shape = ctx.known_template(&state.pool.name, group);
        used.add(&shape.map_or(capacity, |shape| &shape.node.capacity).times(i64::from(nodes)));
    }
    used
}

/// Reads the shapes of the groups whose pools have limits, by which their nodes count.
pub fn prepare(ctx: &mut Context<'_>) {
    let limited = ctx.cluster.pools.values().filter(|state| state.pool.limits_amounts());
    let groups: Vec<(Arc<str>, Arc<str>)> = limited
        .flat_map(|state| state.groups.keys().map(|group| (state.pool.name.clone(), group.clone())))
        .collect();
    for (pool, group) in groups {
        ctx.template(&pool, &group);
    }
}

/// Number of groups for which the journal has room in this plan, besides those that it buys for already: each has an intent.
pub(crate) fn intents_room(ctx: &Context<'_>, pool: &Arc<str>) -> usize {
    let open = ctx.next.pools.get(pool).map_or(0, |memory| memory.intents.len());
    INTENTS_MAX.saturating_sub(open).saturating_sub(ctx.purchased_groups(pool))
}

/// Reason why a group that grows as a whole cannot do so now; `None` for others.
pub(crate) fn whole_barrier(ctx: &mut Context<'_>, pool: &Arc<str>, group: &Arc<str>) -> Option<Limit> {
    if !ctx.cluster.pools.get(pool)?.pool.scales_whole() {
        return None;
    }
    let capacity = new_capacity(ctx, pool);
    let state = ctx.cluster.pools.get(pool)?;
    let counts = state.groups.get(group)?;
    let size = counts.target.saturating_add(ctx.purchased_of(pool, group));
    let missing = counts.state.map_or(0, |state| state.max).saturating_sub(size);
    let mut rooms = rooms(ctx, pool, &capacity);
    rooms.extend(quotas::room_of_group(ctx, pool, group));
    limits::whole_barrier(group, missing, limits::per_scale_up(ctx.config), rooms)
}

/// Reason why a group of the pool cannot take part; for verdicts.
#[must_use]
pub fn barrier(ctx: &mut Context<'_>, pool: &Arc<str>) -> Option<Limit> {
    let state = ctx.cluster.pools.get(pool)?;
    if let Some(barrier) = limits::pool_barrier(state, ctx.next.pools.get(pool)) {
        return Some(barrier);
    }
    if state.groups.is_empty() {
        return Some(Limit::new(Reason::ProviderUnknown, "the provider has no group for this pool"));
    }
    let barriers: Vec<Limit> =
        state.groups.iter().filter_map(|(id, group)| limits::group_barrier(id, group)).collect();
    if barriers.len() != state.groups.len() {
        let open = state.groups.iter().filter(|(id, group)| limits::group_barrier(id, group).is_none());
        let open: Vec<Arc<str>> = open.map(|(id, _)| id.clone()).collect();
        let whole: Vec<Option<Limit>> = open.iter().map(|id| whole_barrier(ctx, pool, id)).collect();
        return whole.into_iter().collect::<Option<Vec<Limit>>>()?.into_iter().next();
    }
    // A full pool says so itself: its groups' maximum may be no more than the pool's, seen from inside the cloud.
    let full = state.bounds.max <= state.target();
    if full && barriers.iter().all(|barrier| barrier.reason == Reason::GroupMaxNodesReached) {
        let none = Resources::default();
        return Some(limits::pool_room(state, 0, &none, &none).limit);
    }
    barriers.into_iter().next()
}
