//! The devices of a node, in the form in which status holds what was learned of them: equal devices are written once,
//! and a value that each machine has for itself is a number. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_values::quantity::Quantity;
use serde::{Deserialize, Serialize};

use crate::scheduling::devices::{
    Amount, Attribute, COMING, Capacity, CounterConsumption, CounterSet, Device, PoolRef, Slice, SliceSpec,
    Taint,
};

/// Most bytes that the devices of one group take in status.
pub const DEVICES_BYTES_MAX: usize = 16 * 1024;
/// Most bytes that the devices of all groups of a pool take in status, where groups with equal devices count once. The
/// other parts of status keep to their 32 KiB beside it.
pub const POOL_DEVICES_BYTES_MAX: usize = 32 * 1024;
/// Most devices of one node that are read back: a text within the limit could name more than any driver publishes.
const DEVICES_MAX: usize = 1024;
/// Most models or sets of counters that a device is compared with.
const PLACES_MAX: usize = 512;

/// Devices of a new node of a group, as living nodes of it had them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LearnedDevices {
    /// Devices without what differs between equal ones, each once.
    models: Vec<Model>,
    /// Names of the sets of counters that devices take from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counter_sets: Vec<Arc<str>>,
    /// The slices, in the order in which they are tried.
    slices: Vec<LearnedSlice>,
}

/// A device without its name, the values of its machine and the names of its sets of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Model {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<Arc<str>, Attribute>,
    /// Attributes whose value is another on each machine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    capacity: BTreeMap<Arc<str>, Capacity>,
    /// Amounts that it takes of each of its sets of counters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counters: Vec<BTreeMap<Arc<str>, Quantity>>,
    /// Key, value and effect of each taint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<(Arc<str>, Arc<str>, Arc<str>)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    binds_to_node: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    binding_conditions: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    binding_failure_conditions: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    allow_multiple_allocations: bool,
}

/// A slice of a node's own pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LearnedSlice {
    driver: Arc<str>,
    /// Name of the pool, with [`COMING`] in place of the node's name.
    pool: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<LearnedDevice>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared_counters: Vec<CounterSet>,
}

/// A device: its name, the place of its model, and numbers: one for each unknown attribute, then the place of each set of
/// counters. Equal numbers of unknown attributes stand for equal values; 0 is unlike any other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LearnedDevice(Arc<str>, u32, #[serde(default, skip_serializing_if = "Vec::is_empty")] Vec<u32>);

impl LearnedDevices {
    /// The devices of slices for a node named [`COMING`], whose unknown values are [`Attribute::Unknown`].
    #[must_use]
    pub fn of(slices: &[Slice]) -> Self {
        let mut writer = Writer { numbers: shared_values(slices), ..Writer::default() };
        let slices = slices.iter().map(|slice| writer.slice(slice)).collect();
        Self { models: writer.models, counter_sets: writer.counter_sets, slices }
    }

    /// The slices of a node named [`COMING`]. A device whose model or set of counters is not there is left out.
    #[must_use]
    pub fn slices(&self) -> Vec<Slice> {
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for slice in &self.slices {
            *counts.entry((&slice.driver, &slice.pool)).or_insert(0) += 1;
        }
        let mut alone = 0;
        let each = self.slices.iter().zip(0usize..).map(|(slice, number)| {
            let resource_slice_count = counts[&(&*slice.driver, &*slice.pool)];
            let pool = PoolRef { name: slice.pool.clone(), generation: 1, resource_slice_count };
            let spec = SliceSpec {
                driver: slice.driver.clone(),
                pool,
                node_name: Some(COMING.into()),
                devices: slice.devices.iter().filter_map(|row| self.device(row, &mut alone)).collect(),
                shared_counters: slice.shared_counters.clone(),
                ..SliceSpec::default()
            };
            Slice { name: format!("{number:04}").into(), spec }
        });
        each.collect()
    }

    /// True if an attribute of a device is known to differ from machine to machine.
    #[must_use]
    pub fn is_unknown(&self, driver: &str, pool: &str, device: &str, attribute: &str) -> bool {
        let model = self.model_of(driver, pool, device);
        model.is_some_and(|model| model.unknown.iter().any(|id| **id == *attribute))
    }

    /// True if a device is there without a taint of this key and effect.
    #[must_use]
    pub fn lacks_taint(&self, driver: &str, pool: &str, device: &str, taint: &Taint) -> bool {
        let is_it =
            |(key, _, effect): &(Arc<str>, Arc<str>, Arc<str>)| *key == taint.key && *effect == taint.effect;
        self.model_of(driver, pool, device).is_some_and(|model| !model.taints.iter().any(is_it))
    }

    /// Every known text of an attribute, to be replaced where it may identify a machine.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut Arc<str>> {
        let values = self.models.iter_mut().flat_map(|model| model.attributes.values_mut());
        values.filter_map(|value| if let Attribute::String(text) = value { Some(text) } else { None })
    }

    fn model_of(&self, driver: &str, pool: &str, device: &str) -> Option<&Model> {
        let of_pool = self.slices.iter().filter(|slice| *slice.driver == *driver && *slice.pool == *pool);
        let row = of_pool.flat_map(|slice| &slice.devices).find(|row| *row.0 == *device)?;
        self.models.get(usize::try_from(row.1).ok()?)
    }

    /// The same, if each row can be read.
    ///
    /// # Errors
    /// What is wrong with it, for a note.
    pub fn checked(self) -> Result<Self, String> {
        let rows = || self.slices.iter().flat_map(|slice| &slice.devices);
        if DEVICES_MAX < rows().count() {
            return Err(format!("more than {DEVICES_MAX} devices"));
        }
        match rows().find(|row| self.device(row, &mut 0).is_none()) {
            Some(row) => Err(format!("device {:?} lacks a model or a number", row.0)),
            None => Ok(self),
        }
    }

    fn device(&self, row: &LearnedDevice, alone: &mut u32) -> Option<Device> {
        let LearnedDevice(name, model, numbers) = row;
        let model = self.models.get(usize::try_from(*model).ok()?)?;
        let (values, sets) = numbers.split_at_checked(model.unknown.len())?;
        if sets.len() != model.counters.len() {
            return None;
        }
        let set = |(place, counters): (&u32, &BTreeMap<Arc<str>, Quantity>)| {
            let amount = |(name, value): (&Arc<str>, &Quantity)| (name.clone(), Amount { value: *value });
            Some(CounterConsumption {
                counter_set: self.counter_sets.get(usize::try_from(*place).ok()?)?.clone(),
                counters: counters.iter().map(amount).collect(),
            })
        };
        let consumes_counters: Option<Vec<_>> = sets.iter().zip(&model.counters).map(set).collect();
        let mut attributes = model.attributes.clone();
        for (id, number) in model.unknown.iter().zip(values) {
            attributes.insert(id.clone(), Attribute::Unknown(value_of(*number, alone)));
        }
        let taint = |(key, value, effect): &(Arc<str>, Arc<str>, Arc<str>)| Taint {
            key: key.clone(),
            value: value.clone(),
            effect: effect.clone(),
            time_added: None,
        };
        Some(Device {
            name: name.clone(),
            attributes,
            capacity: model.capacity.clone(),
            consumes_counters: consumes_counters?,
            taints: model.taints.iter().map(taint).collect(),
            binds_to_node: model.binds_to_node,
            binding_conditions: model.binding_conditions.clone(),
            binding_failure_conditions: model.binding_failure_conditions.clone(),
            allow_multiple_allocations: model.allow_multiple_allocations,
            ..Device::default()
        })
    }

    /// The text that stands for it in status.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// Bytes that its text takes in status, which is JSON itself.
    #[must_use]
    pub fn bytes(&self) -> usize {
        json(&self.to_json()).len()
    }
}

/// JSON of names, numbers and texts, which have a form in it always.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A text that stands for the value of a number; `alone` is how often 0 has been met.
fn value_of(number: u32, alone: &mut u32) -> Arc<str> {
    if number == 0 {
        *alone = alone.saturating_add(1);
        return format!("alone-{alone}").into();
    }
    format!("shared-{number}").into()
}

/// Numbers of the unknown values that are there more than once, in the order in which they first come.
fn shared_values(slices: &[Slice]) -> BTreeMap<Arc<str>, u32> {
    let devices = slices.iter().flat_map(|slice| &slice.spec.devices);
    let values = devices.flat_map(|device| device.attributes.values());
    let (mut met, mut order): (BTreeSet<&Arc<str>>, Vec<&Arc<str>>) = (BTreeSet::new(), Vec::new());
    let mut counts: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
    for value in values {
        let Attribute::Unknown(text) = value else { continue };
        *counts.entry(text).or_insert(0) += 1;
        if met.insert(text) {
            order.push(text);
        }
    }
    let shared = order.into_iter().filter(|text| 1 < counts[text]);
    shared.cloned().zip(1..).collect()
}

/// A [`LearnedDevices`] in the making.
#[derive(Default)]
struct Writer {
    numbers: BTreeMap<Arc<str>, u32>,
    models: Vec<Model>,
    counter_sets: Vec<Arc<str>>,
}

impl Writer {
    fn slice(&mut self, slice: &Slice) -> LearnedSlice {
        LearnedSlice {
            driver: slice.spec.driver.clone(),
            pool: slice.spec.pool.name.clone(),
            devices: slice.spec.devices.iter().map(|device| self.device(device)).collect(),
            shared_counters: slice.spec.shared_counters.clone(),
        }
    }

    fn device(&mut self, device: &Device) -> LearnedDevice {
        // Without `..`: a new field that is forgotten must not compile. Nodes are selected by the slice.
        let Device {
            name,
            attributes,
            capacity,
            consumes_counters,
            node_name: _,
            node_selector: _,
            all_nodes: _,
            taints,
            binds_to_node,
            binding_conditions,
            binding_failure_conditions,
            allow_multiple_allocations,
        } = device;
        let mut numbers = Vec::new();
        let mut model = Model {
            capacity: capacity.clone(),
            taints: taints.iter().map(|t| (t.key.clone(), t.value.clone(), t.effect.clone())).collect(),
            binds_to_node: *binds_to_node,
            binding_conditions: binding_conditions.clone(),
            binding_failure_conditions: binding_failure_conditions.clone(),
            allow_multiple_allocations: *allow_multiple_allocations,
            ..Model::default()
        };
        for (id, value) in attributes {
            if let Attribute::Unknown(text) = value {
                model.unknown.push(id.clone());
                numbers.push(self.numbers.get(text).copied().unwrap_or(0));
            } else {
                model.attributes.insert(id.clone(), value.clone());
            }
        }
        for CounterConsumption { counter_set, counters } in consumes_counters {
            model.counters.push(counters.iter().map(|(id, amount)| (id.clone(), amount.value)).collect());
            numbers.push(place(&mut self.counter_sets, counter_set.clone()));
        }
        LearnedDevice(name.clone(), place(&mut self.models, model), numbers)
    }
}

/// The place of a value in a list of different ones; it is added if it is not there. Beyond [`PLACES_MAX`] nothing is looked
/// up, since the whole does not fit into status anyway.
fn place<T: PartialEq>(list: &mut Vec<T>, value: T) -> u32 {
    let found = list.iter().take(PLACES_MAX).position(|one| *one == value);
    let at = found.unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
