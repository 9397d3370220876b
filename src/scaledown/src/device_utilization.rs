//! Utilization of the devices of a node. It decides nothing.
//!
//! Source: Cluster Autoscaler, simulator/dynamicresources/utils/utilization.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::utilization::Share;
use headroom_cluster::scheduling::devices::{CounterSet, Device, DeviceId, Held, PoolId, Slice};
use headroom_cluster::world::devices::Devices;
use headroom_values::quantity::Quantity;

/// The driver of domains that span nodes: it keeps one device for its own use on each, which does not count as use of
/// the node.
///
/// Differs from upstream, which reports such nodes at 100 % for ever.
const BOOKKEEPING_DRIVER: &str = "compute-domain.nvidia.com";

/// Unit of a share: parts of a million, so that pools of different kinds compare.
const WHOLE: i64 = 1_000_000;

/// The share of a node's devices that claims hold: that of its fullest pool. `None` if it has no devices of its own.
#[must_use]
pub(crate) fn share(node: &str, devices: &Devices, held: &Held) -> Option<Share> {
    let mut pools: BTreeMap<(&Arc<str>, &Arc<str>), Vec<&Slice>> = BTreeMap::new();
    for slice in devices.slices_of(node).filter(|slice| &*slice.spec.driver != BOOKKEEPING_DRIVER) {
        pools.entry((&slice.spec.driver, &slice.spec.pool.name)).or_default().push(slice);
    }
    let fullest = pools.values().map(|slices| share_of_pool(slices, held)).max()?;
    Some(Share { requested: fullest, allocatable: WHOLE })
}

/// True if all pools of a node are complete: else its utilization is unknown.
#[must_use]
pub(crate) fn is_measurable(node: &str, devices: &Devices) -> bool {
    if !devices.has_slices_of(node) {
        return true;
    }
    let whole = devices.whole_pools_of(node);
    let is_whole = |slice: &Slice| {
        whole.contains(&PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() })
    };
    devices.slices_of(node).all(is_whole)
}

/// Returns the share of a pool's devices in use, in parts of [`WHOLE`]; a pool with shared counters is measured by
/// them.
fn share_of_pool(slices: &[&Slice], held: &Held) -> i64 {
    let id = |slice: &Slice, device: &Device| DeviceId {
        driver: slice.spec.driver.clone(),
        pool: slice.spec.pool.name.clone(),
        device: device.name.clone(),
    };
    let devices: Vec<(DeviceId, &Device)> = (slices.iter())
        .flat_map(|slice| slice.spec.devices.iter().map(move |device| (id(slice, device), device)))
        .collect();
    let in_use: Vec<&Device> =
        devices.iter().filter(|(id, _)| held.is_in_use(id)).map(|(_, device)| *device).collect();
    let sets: Vec<_> = slices.iter().flat_map(|slice| &slice.spec.shared_counters).collect();
    if sets.is_empty() {
        return part(in_use.len(), devices.len());
    }
    let of_set = |set: &&CounterSet| {
        let parts = set.counters.iter().map(|(name, all)| {
            let taken = in_use.iter().flat_map(|device| &device.consumes_counters);
            let taken = taken.filter(|used| used.counter_set == set.name);
            let taken = taken.filter_map(|used| used.counters.get(name)).map(|amount| amount.value);
            part_of(taken.fold(Quantity::default(), Quantity::plus), all.value)
        });
        parts.max().unwrap_or(0)
    };
    let sum: i64 = sets.iter().map(of_set).sum();
    sum / i64::try_from(sets.len()).unwrap_or(i64::MAX)
}

fn part(some: usize, all: usize) -> i64 {
    let parts = (some as u128 * u128::from(WHOLE.unsigned_abs())).checked_div(all as u128).unwrap_or(0);
    i64::try_from(parts).unwrap_or(WHOLE)
}

fn part_of(some: Quantity, all: Quantity) -> i64 {
    let (some, all) = (i128::from(some.milli()), i128::from(all.milli()));
    i64::try_from((some * i128::from(WHOLE)).checked_div(all).unwrap_or(0)).unwrap_or(WHOLE)
}
