//! CSI drivers of the node that a group would add, and of nodes on which they may not all have registered yet. It asks
//! nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Pool;
use crate::state::cluster_state::{ClusterState, PoolState};
use crate::state::template;
use headroom_cluster::scheduling::ComingDrivers;
use headroom_cluster::world::volume::AttachLimits;
use headroom_cluster::world::{NodeId, World};
use headroom_values::time::{Seconds, UnixTime};

/// Time that drivers of volumes may take to put their labels on a new node: pulling their images takes most of it.
const DRIVERS_START: Seconds = Seconds::minutes(3);

/// Drivers of groups, by pool and group.
type ByGroup<'c> = BTreeMap<(&'c Arc<str>, &'c Arc<str>), ComingDrivers>;

/// Drivers of a new node of the group. Limits are, by driver, the least that one of its nodes reports; else those that its
/// pool declares.
///
/// A required driver is missing if nodes of the group have had time to register it and none did. Without such a node it is
/// missing if the pool declares its drivers and does not name it. A group of which nothing at all is known misses none:
/// unknown is not missing, and a group at zero could never begin.
#[must_use]
pub fn of_group(
    state: &PoolState<'_>,
    group_id: &Arc<str>,
    cluster: &ClusterState<'_>,
    world: &World,
    now: UnixTime,
) -> ComingDrivers {
    let reported = reported(state, group_id, world);
    let declared = state.pool.attach_limits.as_ref();
    if declared.is_none() && world.storage().required_drivers.is_empty() {
        return ComingDrivers { limits: reported, missing: Vec::new() };
    }
    // A ready node has had time to register all drivers that it will have.
    let age = time_to_register(state.pool);
    let settled =
        template::ready_at_age(state.groups.get(group_id), cluster, world, (age, now)).next().is_some();
    let is_missing = |driver: &&Arc<str>| {
        let declares = declared.map(|declared| declared.names(driver));
        let comes = if settled { Some(false) } else { declares };
        comes == Some(false) && !reported.as_ref().is_some_and(|reported| reported.names(driver))
    };
    let missing = world.storage().required_drivers.iter().filter(is_missing).cloned().collect();
    let limits = match (&reported, declared) {
        (Some(reported), Some(declared)) if !settled => Some(Arc::new(reported.or(declared))),
        (Some(reported), _) => Some(reported.clone()),
        (None, declared) => declared.cloned().map(Arc::new),
    };
    ComingDrivers { limits, missing }
}

/// Drivers that nodes of the group report, each with the least limit.
fn reported(state: &PoolState<'_>, group_id: &Arc<str>, world: &World) -> Option<Arc<AttachLimits>> {
    let known = &world.storage().attach_limits;
    let group = state.groups.get(group_id).filter(|_| !known.is_empty())?;
    let mut reported = group.nodes.iter().filter_map(|node| known.get(&world.node(*node).name));
    let first = reported.next()?.clone();
    // Nodes of one shape share one set of limits.
    let less = |least: Arc<AttachLimits>, other: &Arc<AttachLimits>| {
        if Arc::ptr_eq(&least, other) || least == *other { least } else { Arc::new(least.least(other)) }
    };
    Some(reported.fold(first, less))
}

/// Time from the creation of a node until its drivers have registered: a driver that pods require may come last.
fn time_to_register(pool: &Pool) -> Seconds {
    pool.scale_up.startup_timeout.max(DRIVERS_START)
}

/// Nodes on which drivers may still have to register, each with those that it will have.
#[must_use]
pub fn awaited(cluster: &ClusterState<'_>, world: &World, now: UnixTime) -> Vec<(NodeId, ComingDrivers)> {
    let none_required = world.storage().required_drivers.is_empty();
    let mut of_groups = ByGroup::new();
    let mut awaited = Vec::new();
    for (id, digest) in world.digests_unordered() {
        let is_young = now < digest.created_at.plus(DRIVERS_START);
        if is_young || !none_required && awaits_required(id, cluster, world, now) {
            awaited.push((id, coming(id, &mut of_groups, cluster, world, now)));
        }
    }
    awaited.sort_by(|(a, _), (b, _)| world.node(*a).name.cmp(&world.node(*b).name));
    awaited
}

/// True if a driver that pods require is not on a node of a pool yet, and may still register.
fn awaits_required(id: NodeId, cluster: &ClusterState<'_>, world: &World, now: UnixTime) -> bool {
    let Some(state) = cluster.member(id).and_then(|member| cluster.pools.get(member.pool)) else {
        return false;
    };
    if world.digest(id).created_at.plus(time_to_register(state.pool)) <= now {
        return false;
    }
    let storage = world.storage();
    let own = storage.attach_limits.get(&world.node(id).name);
    storage.required_drivers.iter().any(|driver| !own.is_some_and(|own| own.names(driver)))
}

/// Drivers that a node will have: its own, and those of its group that it has not reported. `of_groups` are the drivers of
/// groups that were looked at before.
fn coming<'c>(
    id: NodeId,
    of_groups: &mut ByGroup<'c>,
    cluster: &'c ClusterState<'_>,
    world: &World,
    now: UnixTime,
) -> ComingDrivers {
    let Some(member) = cluster.member(id) else { return ComingDrivers::default() };
    let Some(state) = cluster.pools.get(member.pool) else { return ComingDrivers::default() };
    let of_group = of_groups.entry((member.pool, member.group));
    let of_group = of_group.or_insert_with(|| self::of_group(state, member.group, cluster, world, now));
    let own = world.storage().attach_limits.get(&world.node(id).name);
    let limits = match (own, &of_group.limits) {
        (Some(own), Some(of_group)) if own != of_group => Some(Arc::new(own.or(of_group))),
        (Some(_), _) => None,
        (None, of_group) => of_group.clone(),
    };
    ComingDrivers { limits, missing: of_group.missing.clone() }
}
