//! CapacityQuotas in a plan: what of each is in use, and how many more nodes it leaves. It buys nothing.
//!
//! In use is what registered nodes have, foreign and leaving ones too, what is on its way, and what this plan has bought.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Context;
use crate::limits::{Limit, Room};
use headroom_cluster::world::capacity_quota::CapacityQuota;
use headroom_cluster::world::quota_use::{GroupKey, QuotaUse, Registered};
use headroom_pools::plan::QuotaVerdict;
use headroom_pools::state::cluster_state::Stage;
use headroom_values::reason::Reason;

/// Sums up what is in use of each quota, and which groups it bounds.
pub fn prepare(ctx: &mut Context<'_>) {
    let quotas = ctx.world.capacity_quotas().values();
    ctx.quotas = quotas.map(|quota| in_use(ctx, quota)).collect();
}

fn in_use<'w>(ctx: &mut Context<'w>, quota: &'w CapacityQuota) -> QuotaUse<'w> {
    let mut found = QuotaUse::new(quota);
    for (key, is_read) in groups(ctx) {
        let template = ctx.template(&key.0, &key.1);
        let price = ctx.cluster.price_per_hour_micro(&key.0, &key.1);
        found.note_group(key.clone(), template.as_deref(), knows_labels(ctx, &key), price);
        if !is_read {
            found.note_unread(&key);
        }
    }
    for (id, node, _) in ctx.world.nodes() {
        let member = ctx.cluster.member(id);
        found.count_node(&Registered {
            labels: &node.labels,
            capacity: &node.capacity,
            price_micro: member
                .and_then(|member| ctx.cluster.price_per_hour_micro(member.pool, member.group)),
            group: member.map(|member| (member.pool.clone(), member.group.clone())),
            starts: member.is_some_and(|member| member.stage == Stage::NotStarted),
        });
    }
    found
}

/// All groups, and whether the cloud of each has been read since the start. Before that those count that had nodes, or are asked
/// for some.
fn groups(ctx: &Context<'_>) -> BTreeMap<GroupKey, bool> {
    let mut groups = BTreeMap::new();
    for (pool, state) in &ctx.cluster.pools {
        let is_read = state.provider.is_some();
        let learned = ctx.history.pools.get(pool).filter(|_| !is_read).map(|memory| memory.learned.keys());
        let names = state.groups.keys().chain(learned.into_iter().flatten());
        groups.extend(names.map(|group| ((pool.clone(), group.clone()), is_read)));
    }
    groups
}

/// True if the labels of a new node are known: what was learned from earlier nodes holds amounts alone.
fn knows_labels(ctx: &Context<'_>, (pool, group): &GroupKey) -> bool {
    let Some(state) = ctx.cluster.pools.get(pool) else { return false };
    let group = state.groups.get(group);
    let described = group.and_then(|group| group.state).is_some_and(|state| state.template.is_some());
    state.pool.template.is_some() || described || group.is_some_and(|group| 0 < group.ready)
}

/// Nodes of a group that its cloud has or is asked for besides the registered ones, with those that this plan has bought. What
/// is not expected any more may come until it is taken back.
fn coming(ctx: &Context<'_>, (pool, group): &GroupKey) -> u32 {
    let counts = ctx.cluster.pools.get(pool).and_then(|state| state.groups.get(group));
    counts.map_or(0, |counts| counts.not_registered).saturating_add(ctx.purchased_of(pool, group))
}

fn room(ctx: &Context<'_>, quota: &QuotaUse<'_>, key: &GroupKey) -> Option<Room> {
    let (nodes, message) = quota.room(key, |key| coming(ctx, key))?;
    Some(Room { nodes, limit: Limit::new(Reason::CapacityQuotaReached, message) })
}

/// Returns the number of nodes that quotas leave to a pool as a whole: those that count all its groups, by the group
/// with the most room, and one that keeps every group from growing.
pub fn rooms_of_pool(ctx: &Context<'_>, pool: &Arc<str>) -> Vec<Room> {
    let Some(state) = ctx.cluster.pools.get(pool).filter(|_| !ctx.quotas.is_empty()) else {
        return Vec::new();
    };
    let keys: Vec<GroupKey> = state.groups.keys().map(|group| (pool.clone(), group.clone())).collect();
    let most = |quota: &QuotaUse<'_>| {
        let rooms: Option<Vec<Room>> = keys.iter().map(|key| room(ctx, quota, key)).collect();
        rooms?.into_iter().max_by_key(|room| room.nodes)
    };
    let mut rooms: Vec<Room> = ctx.quotas.iter().filter_map(most).collect();
    let groups = keys.iter().map(|(_, group)| room_of_group(ctx, pool, group));
    let full: Option<Vec<Room>> = groups.map(|room| room.filter(|room| room.nodes == 0)).collect();
    rooms.extend(full.into_iter().flatten().next());
    rooms
}

/// Returns the number of nodes that quotas leave to one group; `None` if none bounds it.
pub fn room_of_group(ctx: &Context<'_>, pool: &Arc<str>, group: &Arc<str>) -> Option<Room> {
    let key = (pool.clone(), group.clone());
    let rooms = ctx.quotas.iter().filter_map(|quota| room(ctx, quota, &key));
    rooms.min_by_key(|room| room.nodes)
}

/// Returns the use of each quota after this plan is carried out, in order of names.
#[must_use]
pub fn verdicts(ctx: &Context<'_>) -> Vec<QuotaVerdict> {
    let used = |quota: &QuotaUse<'_>, resource: &Arc<str>| quota.used(resource, |key| coming(ctx, key));
    let verdict = |quota: &QuotaUse<'_>| QuotaVerdict {
        name: quota.quota.name.clone(),
        used: quota.quota.limits.keys().map(|name| (name.clone(), used(quota, name))).collect(),
    };
    ctx.quotas.iter().map(verdict).collect()
}
