//! Number of nodes that a pool and its groups can spare: minimums of spec, schedules and cloud. It spares none itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::removal::Scene;
use headroom_cluster::world::node::Node;
use headroom_cluster::world::provider::InstanceState;
use headroom_pools::state::bounds::bounds;
use headroom_pools::wake::Wake;
use headroom_values::known::Known;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Nodes that may still leave, by pool (no group) and by group of a pool.
pub(crate) type Room = BTreeMap<(Arc<str>, Option<Arc<str>>), u32>;
/// Nodes that open removals name, with the reason.
pub(crate) type Leaving = BTreeMap<Arc<str>, Reason>;

/// Cpu and memory that the cluster has beyond its minimum; what has no minimum is not counted.
///
/// Source: Cluster Autoscaler, core/scaledown/unneeded/nodes.go, with the minima of cores-total and memory-total. Differs
/// from upstream: cpu counts in milli-cores, not in whole cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spare {
    cpu_milli: Option<i64>,
    memory_bytes: Option<i64>,
}

impl Spare {
    /// Returns the capacity of all nodes that are not leaving, foreign ones included, less the minimum.
    pub(crate) fn of(scene: &Scene<'_>, leaving: &Leaving) -> Self {
        let cluster = &scene.config.cluster;
        let mut spare = Self {
            cpu_milli: cluster.min_cpu_milli.map(|least| -least),
            memory_bytes: cluster.min_memory_bytes.map(|least| -least),
        };
        if spare.cpu_milli.is_some() || spare.memory_bytes.is_some() {
            let stays = |node: &&Node| !node.deleting && !leaving.contains_key(&node.name);
            let nodes = scene.world.nodes().map(|(_, node, _)| node);
            nodes.filter(stays).for_each(|node| spare.give(&node.capacity));
        }
        spare
    }

    /// True if a node with this capacity may go.
    pub(crate) fn has(&self, capacity: &Resources) -> bool {
        self.cpu_milli.is_none_or(|left| capacity.cpu_milli <= left)
            && self.memory_bytes.is_none_or(|left| capacity.memory_bytes <= left)
    }

    /// A node with this capacity goes.
    pub(crate) fn take(&mut self, capacity: &Resources) {
        self.add(capacity, -1);
    }

    /// A node with this capacity comes, or is counted.
    pub(crate) fn give(&mut self, capacity: &Resources) {
        self.add(capacity, 1);
    }

    fn add(&mut self, capacity: &Resources, times: i64) {
        let cpu_milli = capacity.cpu_milli.saturating_mul(times);
        let memory_bytes = capacity.memory_bytes.saturating_mul(times);
        self.cpu_milli = self.cpu_milli.map(|left| left.saturating_add(cpu_milli));
        self.memory_bytes = self.memory_bytes.map(|left| left.saturating_add(memory_bytes));
    }
}

/// Number of nodes that may still leave each pool and each group: registered nodes, and what the cloud wants, both stay at
/// or above the minimum.
pub(crate) fn of(scene: &Scene<'_>, leaving: &Leaving) -> Room {
    // Few: the groups of all pools. A group's id is one and the same pointer for all its members.
    let mut counted: Vec<(usize, &Arc<str>, u32)> = Vec::new();
    for (id, digest) in scene.world.digests_unordered() {
        let Some(member) = scene.members.member(id) else { continue };
        if digest.deleting || !leaving.is_empty() && leaving.contains_key(&scene.world.node(id).name) {
            continue;
        }
        let same = |(pool, group, _): &&mut (usize, &Arc<str>, u32)| {
            *pool == member.pool && Arc::ptr_eq(group, member.group)
        };
        match counted.iter_mut().find(same) {
            Some((_, _, count)) => *count += 1,
            None => counted.push((member.pool, member.group, 1)),
        }
    }
    let mut registered = Room::new();
    for (pool, group, count) in counted {
        let pool = &scene.config.pools[pool].name;
        for group in [None, Some(group.clone())] {
            *registered.entry((pool.clone(), group)).or_insert(0) += count;
        }
    }
    for ((name, group), count) in &mut registered {
        let Some(pool) = scene.config.pool(name) else { continue };
        let state = scene.world.provider(name).and_then(Known::value);
        let (min, target) = match group {
            None => (bounds(pool, scene.now, &mut Wake::new(scene.now)).min, size(scene, name, leaving)),
            Some(group) => {
                let state = state.and_then(|state| state.groups.get(group));
                let min = state.map_or(0, |state| state.min);
                (min, group_size(scene, name, group, leaving))
            }
        };
        *count = (*count).min(target).saturating_sub(min);
    }
    registered
}

/// Nodes that the cloud will have in a pool once open removals have ended.
pub(crate) fn size(scene: &Scene<'_>, pool: &str, leaving: &Leaving) -> u32 {
    let Some(state) = scene.world.provider(pool).and_then(Known::value) else { return 0 };
    state.groups.keys().map(|group| group_size(scene, pool, group, leaving)).fold(0, u32::saturating_add)
}

/// The same for one group: its target less the victims that it still counts.
fn group_size(scene: &Scene<'_>, pool: &str, group: &str, leaving: &Leaving) -> u32 {
    let state = scene.world.provider(pool).and_then(Known::value);
    let Some(state) = state.and_then(|state| state.groups.get(group)) else { return 0 };
    let counted = leaving.keys().filter(|node| {
        let Some((id, _, _)) = scene.world.node_named(node) else { return false };
        scene.members.member(id).is_some_and(|member| {
            let instance = state.instances.get(member.instance);
            let stays = instance.is_some_and(|one| one.state != InstanceState::Deleting);
            &**member.group == group && &*scene.config.pools[member.pool].name == pool && stays
        })
    });
    state.target.saturating_sub(u32::try_from(counted.count()).unwrap_or(u32::MAX))
}
