//! Devices held by claims: whole devices, and parts of devices that are shared.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer::AllocatedDevice;
use headroom_values::quantity::Quantity;

/// Unique name of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
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

/// Devices held by claims.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Devices that claims hold as a whole, with the number of these claims: one, unless objects contradict each other.
    whole: BTreeMap<DeviceId, u32>,
    /// Devices that claims share: what is taken of them, and the number of parts.
    shares: BTreeMap<DeviceId, (Amounts, u32)>,
}

impl Held {
    /// Adds a device of an allocation. With admin access it holds nothing, with a share only what is consumed.
    pub fn add(&mut self, taken: &AllocatedDevice) {
        if taken.admin_access {
            return;
        }
        if !taken.shared {
            *self.whole.entry(taken.id.clone()).or_default() += 1;
            return;
        }
        let (amounts, parts) = self.shares.entry(taken.id.clone()).or_default();
        add_all(amounts, &taken.consumed_capacity);
        *parts += 1;
    }

    /// Takes a device of an allocation out again that was added before.
    pub fn remove(&mut self, taken: &AllocatedDevice) {
        if taken.admin_access {
            return;
        }
        if !taken.shared {
            if let Entry::Occupied(mut held) = self.whole.entry(taken.id.clone()) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
            return;
        }
        if let Entry::Occupied(mut held) = self.shares.entry(taken.id.clone()) {
            let (amounts, parts) = held.get_mut();
            take_all(amounts, &taken.consumed_capacity);
            *parts -= 1;
            if *parts == 0 {
                held.remove();
            }
        }
    }

    /// True if nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.shares.is_empty()
    }

    /// True if a claim holds all of a device.
    #[must_use]
    pub fn is_whole(&self, id: &DeviceId) -> bool {
        self.whole.contains_key(id)
    }

    pub(super) fn shares(&self, id: &DeviceId) -> Option<&Amounts> {
        self.shares.get(id).map(|(amounts, _)| amounts)
    }

    /// True if a claim holds a device or a part of it.
    #[must_use]
    pub fn is_in_use(&self, id: &DeviceId) -> bool {
        self.is_whole(id) || self.shares.contains_key(id)
    }
}

/// Devices in use as a node sees them: devices of its own, and those that other nodes can use too.
#[derive(Clone, Copy, Debug)]
pub struct InUse<'a> {
    /// Devices that only this node can use.
    pub own: &'a Held,
    /// All others.
    pub wide: &'a Held,
}

impl<'a> InUse<'a> {
    pub(super) fn is_whole(&self, id: &DeviceId) -> bool {
        self.own.is_whole(id) || self.wide.is_whole(id)
    }

    pub(super) fn shares(&self, id: &DeviceId) -> Option<&'a Amounts> {
        self.own.shares(id).or_else(|| self.wide.shares(id))
    }

    pub(super) fn is_in_use(&self, id: &DeviceId) -> bool {
        self.own.is_in_use(id) || self.wide.is_in_use(id)
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
