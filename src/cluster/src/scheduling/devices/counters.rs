//! Shared counters of partitionable devices: what is free of them in a pool, and what the search takes.

use std::collections::BTreeMap;

use super::held::{DeviceId, InUse};
use super::pools::Pool;
use super::slice::Device;
use headroom_values::quantity::Quantity;

/// A counter of a set.
type Counter<'a> = (&'a str, &'a str);

/// The counters of one pool.
#[derive(Debug, Default)]
pub(super) struct Counters<'a> {
    /// Amounts free before the search.
    free: BTreeMap<Counter<'a>, Quantity>,
    /// Amounts that the search has taken.
    taken: BTreeMap<Counter<'a>, Quantity>,
}

fn used(device: &Device) -> impl Iterator<Item = (Counter<'_>, Quantity)> {
    let sets = device.consumes_counters.iter();
    sets.flat_map(|set| {
        set.counters.iter().map(|(name, amount)| ((&*set.counter_set, &**name), amount.value))
    })
}

impl<'a> Counters<'a> {
    /// Counts the counters of the pool, without those used by allocated devices, on any node.
    pub(super) fn of(pool: &Pool<'a>, held: InUse<'_>) -> Self {
        let mut free: BTreeMap<Counter<'a>, Quantity> = BTreeMap::new();
        for set in pool.counters() {
            free.extend(set.counters.iter().map(|(name, amount)| ((&*set.name, &**name), amount.value)));
        }
        for device in pool.all_devices().filter(|device| !device.consumes_counters.is_empty()) {
            let (driver, name) = (pool.id.driver.clone(), pool.id.name.clone());
            if !held.is_in_use(&DeviceId { driver, pool: name, device: device.name.clone() }) {
                continue;
            }
            for (counter, amount) in used(device) {
                if let Some(rest) = free.get_mut(&counter) {
                    *rest = rest.minus(amount);
                }
            }
        }
        Self { free, taken: BTreeMap::new() }
    }

    /// Takes what a device uses; false if it is not there. Then nothing is taken. A counter of the pool that is
    /// overdrawn lets no device pass that uses any.
    pub(super) fn take(&mut self, device: &'a Device) -> bool {
        for (counter, amount) in used(device) {
            let sum = self.taken.entry(counter).or_default();
            *sum = sum.plus(amount);
        }
        let zero = Quantity::default();
        if self.free.iter().all(|(counter, free)| self.taken.get(counter).unwrap_or(&zero) <= free) {
            return true;
        }
        self.give_back(device);
        false
    }

    pub(super) fn give_back(&mut self, device: &'a Device) {
        for (counter, amount) in used(device) {
            let sum = self.taken.entry(counter).or_default();
            *sum = sum.minus(amount);
        }
    }
}
