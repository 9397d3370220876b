//! How many nodes a pool and its groups can spare: minimums of spec, schedules and cloud. It spares none itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::known::Known;
use crate::nodes::bounds::bounds;
use crate::nodes::removal::Scene;
use crate::nodes::wake::Wake;
use crate::reason::Reason;
use crate::world::provider::InstanceState;

/// Nodes that may still leave, by pool (no group) and by group of a pool.
pub(super) type Room = BTreeMap<(Arc<str>, Option<Arc<str>>), u32>;
/// Nodes that open removals name, with the reason.
pub(super) type Leaving = BTreeMap<Arc<str>, Reason>;

/// How many nodes may still leave each pool and each group: registered nodes, and what the cloud wants, both stay at
/// or above the minimum.
pub(super) fn of(scene: &Scene<'_>, leaving: &Leaving) -> Room {
    let mut counted: BTreeMap<(usize, &Arc<str>), u32> = BTreeMap::new();
    for (id, node, _) in scene.world.nodes() {
        let Some(member) = scene.members.member(id) else { continue };
        if node.deleting || leaving.contains_key(&node.name) {
            continue;
        }
        *counted.entry((member.pool, &member.group)).or_insert(0) += 1;
    }
    let mut registered = Room::new();
    for ((pool, group), count) in counted {
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
pub(super) fn size(scene: &Scene<'_>, pool: &str, leaving: &Leaving) -> u32 {
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
            let instance = state.instances.get(&member.instance);
            let stays = instance.is_some_and(|one| one.state != InstanceState::Deleting);
            &*member.group == group && &*scene.config.pools[member.pool].name == pool && stays
        })
    });
    state.target.saturating_sub(u32::try_from(counted.count()).unwrap_or(u32::MAX))
}
