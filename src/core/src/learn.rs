//! Templates and devices learned from the live nodes of a group, for the time when it has none. It overrides nothing that
//! is declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_cluster::history::fit::fit_devices;
use headroom_cluster::history::{
    DEVICES_BYTES_MAX, LearnedDevices, LearnedTemplate, POOL_DEVICES_BYTES_MAX, PoolHistory,
};
use headroom_pools::devices::template;
use headroom_pools::plan::PoolReason;
use headroom_pools::state::cluster_state::{PoolState, Stage};
use headroom_scaleup::context::Context;
use headroom_values::reason::Reason;

/// Remembers the amounts of the first ready node of each group whose pool declares no template.
pub(crate) fn learn(ctx: &mut Context<'_>) {
    let mut learned: Vec<(Arc<str>, Arc<str>, LearnedTemplate)> = Vec::new();
    for (name, state) in &ctx.cluster.pools {
        if state.pool.template.is_some() {
            continue;
        }
        for (id, group) in &state.groups {
            let ready = group.nodes.iter().find(|node| ctx.cluster.is_ready(**node));
            if let Some(node) = ready.and_then(|node| ctx.world.node(*node).node.as_ref()) {
                let amounts = &node.allocatable;
                let template = LearnedTemplate {
                    cpu_milli: amounts.cpu_milli,
                    memory_bytes: amounts.memory_bytes,
                    pods: amounts.pods,
                };
                learned.push((name.clone(), id.clone(), template));
            }
        }
    }
    for (pool, group, template) in learned {
        ctx.next.pools.entry(pool).or_default().learned.insert(group, template);
    }
}

/// Names of ready nodes with slices of their own, in order, by pool and group.
type DeviceNodes<'w> = BTreeMap<(Arc<str>, Arc<str>), Vec<&'w str>>;

/// Devices of a pool's groups, by group.
type KnownDevices = BTreeMap<Arc<str>, Arc<LearnedDevices>>;

/// Remembers the devices of each group whose pool declares none, and forgets those of groups whose ready nodes have none or
/// that the provider no longer has. What status cannot hold is not kept, reason `DevicesNotLearned`.
pub(crate) fn learn_devices(ctx: &mut Context<'_>) {
    let forgotten = |memory: &PoolHistory| memory.learned_devices.is_empty();
    if ctx.world.devices().has_no_local_slices() && ctx.next.pools.values().all(forgotten) {
        return;
    }
    let nodes = device_nodes(ctx);
    let mut learned: Vec<(Arc<str>, KnownDevices, Vec<Arc<str>>)> = Vec::new();
    for (name, state) in &ctx.cluster.pools {
        let before = ctx.next.pools.get(name).map(|memory| &memory.learned_devices);
        let mut known = known_devices(ctx, name, state, &nodes);
        let dropped = fit_devices(&mut known);
        let same = before.map_or(known.is_empty(), |before| *before == known);
        if !same || !dropped.is_empty() {
            learned.push((name.clone(), known, dropped));
        }
    }
    for (pool, known, dropped) in learned {
        let reasons = dropped.into_iter().map(|group| not_learned(&pool, &group));
        ctx.reasons.pools.entry(pool.clone()).or_default().extend(reasons);
        ctx.next.pools.entry(pool).or_default().learned_devices = known;
    }
}

fn device_nodes<'w>(ctx: &Context<'w>) -> DeviceNodes<'w> {
    let mut nodes = DeviceNodes::new();
    for name in ctx.world.devices().nodes_with_slices() {
        let Some((id, _, _)) = ctx.world.node_named(name) else { continue };
        let Some(member) = ctx.cluster.member(id).filter(|member| member.stage == Stage::Ready) else {
            continue;
        };
        nodes.entry((member.pool.clone(), member.group.clone())).or_default().push(name);
    }
    nodes
}

fn known_devices(
    ctx: &Context<'_>,
    pool: &Arc<str>,
    state: &PoolState<'_>,
    nodes: &DeviceNodes<'_>,
) -> KnownDevices {
    if state.pool.devices.is_some() {
        return KnownDevices::new();
    }
    let memory = ctx.next.pools.get(pool);
    let mut known = memory.map(|memory| memory.learned_devices.clone()).unwrap_or_default();
    known.retain(|id, _| match state.groups.get(id) {
        Some(group) => !template::has_none(group, &ctx.cluster, ctx.world),
        None => state.provider.is_none(),
    });
    for group in state.groups.keys() {
        let Some(names) = nodes.get(&(pool.clone(), group.clone())) else { continue };
        let before = known.get(group).map(|before| &**before);
        if let Some(slices) = template::living(names.iter().copied(), before, ctx.world) {
            known.insert(group.clone(), Arc::new(LearnedDevices::of(&slices)));
        }
    }
    known
}

fn not_learned(pool: &Arc<str>, group: &Arc<str>) -> PoolReason {
    let message = format!(
        "group {group} has more devices than status holds ({} KiB a group, {} KiB a pool): they are forgotten with its last \
         node; declare spec.template.devices if it goes to zero",
        DEVICES_BYTES_MAX / 1024,
        POOL_DEVICES_BYTES_MAX / 1024
    );
    PoolReason { pool: pool.clone(), reason: Reason::DevicesNotLearned, message: message.into() }
}
