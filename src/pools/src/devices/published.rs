//! Nodes that have not published their devices yet: a kubelet is ready minutes before its drivers are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Pool;
use headroom_cluster::history::{History, LearnedDevices};
use headroom_cluster::scheduling::devices::{PoolId, Slice};
use headroom_cluster::world::World;

/// Pools of devices by driver.
pub type PoolCounts = BTreeMap<Arc<str>, usize>;

/// True if no node is expected to publish devices: no pool declares any, no node has any, and none is remembered.
#[must_use]
pub fn is_unused<'p>(world: &World, mut pools: impl Iterator<Item = &'p Pool>, history: &History) -> bool {
    world.devices().has_no_local_slices()
        && pools.all(|pool| pool.devices.is_none())
        && history.pools.values().all(|memory| memory.learned_devices.is_empty())
}

/// Number of pools that a node of the group has once its drivers are there: as declared, as the first of these nodes has
/// that has published any, or as such nodes had.
#[must_use]
pub fn expected<'n>(
    pool: &Pool,
    nodes: impl Iterator<Item = &'n str>,
    remembered: Option<&LearnedDevices>,
    world: &World,
) -> PoolCounts {
    if let Some(declared) = &pool.devices {
        return counts_of(declared);
    }
    let living = nodes.map(|name| published(name, world)).find(|counts| !counts.is_empty());
    living.or_else(|| remembered.map(|known| counts_of(&known.slices()))).unwrap_or_default()
}

/// Number of pools that these slices are of.
#[must_use]
pub fn counts_of(slices: &[Slice]) -> PoolCounts {
    let id = |slice: &Slice| PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() };
    counted(slices.iter().map(id).collect::<std::collections::BTreeSet<_>>())
}

/// Number of pools that a node has published as a whole.
#[must_use]
pub fn published(node: &str, world: &World) -> PoolCounts {
    counted(world.devices().whole_pools_of(node))
}

fn counted(pools: impl IntoIterator<Item = PoolId>) -> PoolCounts {
    let mut counts = PoolCounts::new();
    for pool in pools {
        *counts.entry(pool.driver).or_default() += 1;
    }
    counts
}

/// The drivers that have published fewer pools than expected.
#[must_use]
pub fn missing<'e>(expected: &'e PoolCounts, found: &PoolCounts) -> Vec<&'e Arc<str>> {
    let lacks = |(driver, count): &(&Arc<str>, &usize)| found.get(*driver).copied().unwrap_or(0) < **count;
    expected.iter().filter(lacks).map(|(driver, _)| driver).collect()
}
