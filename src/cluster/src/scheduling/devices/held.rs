//! What claims hold: whole devices, and parts of devices that are shared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answer::AllocatedDevice;
use headroom_values::quantity::Quantity;

/// Which device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Its driver.
    pub driver: Arc<str>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name in the pool.
    pub device: Arc<str>,
}

/// Amounts by capacity.
pub(super) type Amounts = BTreeMap<Arc<str>, Quantity>;

/// What claims hold.
#[derive(Clone, Debug, Default)]
pub struct Held {
    whole: BTreeSet<DeviceId>,
    shares: BTreeMap<DeviceId, Amounts>,
}

impl Held {
    /// Adds a device of an allocation. With admin access it holds nothing, with a share only what is consumed.
    pub fn add(&mut self, taken: &AllocatedDevice) {
        if taken.admin_access {
            return;
        }
        if !taken.shared {
            self.whole.insert(taken.id.clone());
            return;
        }
        add_all(self.shares.entry(taken.id.clone()).or_default(), &taken.consumed_capacity);
    }

    pub(super) fn is_whole(&self, id: &DeviceId) -> bool {
        self.whole.contains(id)
    }

    pub(super) fn shares(&self, id: &DeviceId) -> Option<&Amounts> {
        self.shares.get(id)
    }

    pub(super) fn is_in_use(&self, id: &DeviceId) -> bool {
        self.is_whole(id) || self.shares.contains_key(id)
    }
}

pub(super) fn add_all(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

pub(super) fn take_all(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let rest = from.entry(name.clone()).or_default();
        *rest = rest.minus(*amount);
    }
}
