//! The pools that offer devices to a node, in the order in which they are tried; which are incomplete or invalid.
//!
//! Source: pools_incubating.go, GatherPools.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::held::{Amounts, DeviceId, InUse};
use super::slice::{CounterSet, Device, NodeSelector, Slice, Taint};
use super::taint_rule::TaintRule;
use crate::scheduling::node_affinity::{LabelledNode, any_term_holds};

/// Unique name of a pool of devices: its name is unique within its driver only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId {
    /// The driver.
    pub driver: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {} of driver {}", self.name, self.driver)
    }
}

/// True if a pool can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// All of it is known.
    Complete,
    /// Slices are missing: the driver has not published all of this generation.
    Incomplete {
        /// Slices that are there.
        found: usize,
        /// Number of slices that the pool declares.
        wanted: i64,
        /// The generation.
        generation: i64,
    },
    /// It contradicts itself.
    Invalid(String),
}

/// A pool, as a node sees it.
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    /// Unique name of the pool.
    pub id: PoolId,
    /// True if it can be used.
    pub state: PoolState,
    /// Slices whose devices the node may use.
    slices: Vec<&'a Slice>,
    /// Its slices with devices for other nodes.
    elsewhere: Vec<&'a Slice>,
    /// Shared counters, by name.
    counters: BTreeMap<&'a str, &'a CounterSet>,
}

/// A device of a complete pool.
#[derive(Clone, Debug)]
pub(super) struct OfferedDevice<'a> {
    pub(super) id: DeviceId,
    pub(super) pool: usize,
    pub(super) slice: &'a Slice,
    pub(super) device: &'a Device,
    /// True if a claim holds all of it.
    pub(super) whole: bool,
    /// Amounts of it that claims hold, if it is shared.
    pub(super) shares: Option<&'a Amounts>,
    /// Taints that rules give it, beside its own.
    pub(super) ruled: Vec<&'a Taint>,
}

impl<'a> OfferedDevice<'a> {
    /// Its own taints and those of rules.
    pub(super) fn taints(&self) -> impl Iterator<Item = &'a Taint> {
        self.device.taints.iter().chain(self.ruled.iter().copied())
    }
}

impl<'a> Pool<'a> {
    /// True if it contradicts itself.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(self.state, PoolState::Invalid(_))
    }

    fn has_binding_conditions(&self) -> bool {
        let mut devices = self.slices.iter().flat_map(|slice| &slice.spec.devices);
        devices.any(|device| !device.binding_conditions.is_empty())
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = &'a CounterSet> {
        self.counters.values().copied()
    }

    /// All devices of the pool, on whatever node.
    pub(super) fn all_devices(&self) -> impl Iterator<Item = &'a Device> {
        self.slices.iter().chain(&self.elsewhere).flat_map(|slice| &slice.spec.devices)
    }
}

/// True if a node is selected by the fields of a slice or a device.
fn is_meant(
    node: &impl LabelledNode,
    name: Option<&str>,
    all_nodes: bool,
    selector: Option<&NodeSelector>,
) -> bool {
    match (name, selector) {
        (Some(name), _) => node.node_name() == name,
        (None, _) if all_nodes => true,
        (None, Some(selector)) => any_term_holds(&selector.node_selector_terms, node),
        (None, None) => false,
    }
}

/// True if a node may use a device of a slice that selects nodes per device.
pub(super) fn may_use_device(node: &impl LabelledNode, device: &Device) -> bool {
    is_meant(node, device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref())
}

fn may_use_slice(node: &impl LabelledNode, slice: &Slice) -> bool {
    let spec = &slice.spec;
    if spec.node_name.is_some() || spec.all_nodes || spec.node_selector.is_some() {
        return is_meant(node, spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref());
    }
    spec.per_device_node_selection && spec.devices.iter().any(|device| may_use_device(node, device))
}

/// The pools of a node, in the order in which they are tried.
pub fn pools_of<'a>(node: &impl LabelledNode, slices: &[&'a Slice]) -> Vec<Pool<'a>> {
    let mut kept: BTreeMap<PoolId, Vec<&'a Slice>> = BTreeMap::new();
    // Those of one node come first: where slices of a pool contradict each other, the first of them is believed.
    let (own, shared): (Vec<&'a Slice>, Vec<&'a Slice>) =
        slices.iter().partition(|slice| slice.spec.node_name.is_some());
    for slice in own.into_iter().chain(shared).filter(|slice| may_use_slice(node, slice)) {
        let id = PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() };
        let of_pool = kept.entry(id).or_default();
        let newest = of_pool.first().map_or(i64::MIN, |first| first.spec.pool.generation);
        if newest < slice.spec.pool.generation {
            of_pool.clear();
        }
        if newest <= slice.spec.pool.generation {
            of_pool.push(slice);
        }
    }
    let pools = kept.into_iter().filter_map(|(id, of_pool)| pool(id, of_pool, slices));
    // Sorted by driver and name, which a stable partition keeps.
    let (last, mut first): (Vec<_>, Vec<_>) = pools.partition(Pool::has_binding_conditions);
    first.extend(last);
    first
}

/// The pool of its slices that a node may use; none if the node sees an old generation only.
fn pool<'a>(id: PoolId, mut slices: Vec<&'a Slice>, all: &[&'a Slice]) -> Option<Pool<'a>> {
    let reference = &slices.first()?.spec.pool;
    let (generation, wanted) = (reference.generation, reference.resource_slice_count);
    slices.sort_by(|a, b| a.name.cmp(&b.name));
    let is_whole = |found: usize| i64::try_from(found).is_ok_and(|found| found == wanted);
    let mut elsewhere: Vec<&'a Slice> = Vec::new();
    if !is_whole(slices.len()) {
        let of_pool = |slice: &&'a Slice| slice.spec.driver == id.driver && slice.spec.pool.name == id.name;
        if all.iter().copied().filter(of_pool).any(|slice| generation < slice.spec.pool.generation) {
            return None;
        }
        let same =
            all.iter().copied().filter(of_pool).filter(|slice| slice.spec.pool.generation == generation);
        let found = same.clone().count();
        if !is_whole(found) {
            let state = PoolState::Incomplete { found, wanted, generation };
            let (slices, counters) = (Vec::new(), BTreeMap::new());
            return Some(Pool { id, state, slices, elsewhere, counters });
        }
        elsewhere = same.filter(|slice| !slices.iter().any(|kept| kept.name == slice.name)).collect();
    }
    let with_counters = |slice: &&Slice| !slice.spec.shared_counters.is_empty();
    let (counting, slices): (Vec<_>, Vec<_>) = slices.into_iter().partition(with_counters);
    let (counting_elsewhere, elsewhere): (Vec<_>, Vec<_>) = elsewhere.into_iter().partition(with_counters);
    let sets = counting.into_iter().chain(counting_elsewhere).flat_map(|slice| &slice.spec.shared_counters);
    let state = match validated(sets, &slices, &elsewhere) {
        Ok(counters) => {
            return Some(Pool { id, state: PoolState::Complete, slices, elsewhere, counters });
        }
        Err(text) => PoolState::Invalid(text),
    };
    Some(Pool { id, state, slices: Vec::new(), elsewhere: Vec::new(), counters: BTreeMap::new() })
}

/// The sets of counters by name, if the pool does not contradict itself.
fn validated<'a>(
    sets: impl Iterator<Item = &'a CounterSet>,
    slices: &[&'a Slice],
    elsewhere: &[&'a Slice],
) -> Result<BTreeMap<&'a str, &'a CounterSet>, String> {
    let mut names = BTreeSet::new();
    for device in slices.iter().flat_map(|slice| &slice.spec.devices) {
        if !names.insert(&device.name) {
            return Err(format!("device {} twice", device.name));
        }
    }
    let mut counters: BTreeMap<&str, &CounterSet> = BTreeMap::new();
    for set in sets {
        if counters.insert(&set.name, set).is_some() {
            return Err(format!("counter set {} twice", set.name));
        }
    }
    for device in slices.iter().chain(elsewhere).flat_map(|slice| &slice.spec.devices) {
        for used in &device.consumes_counters {
            let Some(set) = counters.get(&*used.counter_set) else {
                return Err(format!(
                    "device {} uses the unknown counter set {}",
                    device.name, used.counter_set
                ));
            };
            if let Some(unknown) = used.counters.keys().find(|name| !set.counters.contains_key(*name)) {
                return Err(format!("device {} uses the unknown counter {unknown}", device.name));
            }
        }
    }
    Ok(counters)
}

/// The devices of complete pools, in the order in which they are tried.
pub(super) fn devices_of<'a>(
    pools: &[Pool<'a>],
    held: InUse<'a>,
    rules: &'a BTreeMap<Arc<str>, TaintRule>,
) -> Vec<OfferedDevice<'a>> {
    let mut devices = Vec::new();
    for (number, pool) in pools.iter().enumerate() {
        for slice in &pool.slices {
            devices.extend(slice.spec.devices.iter().map(|device| {
                let (driver, name) = (pool.id.driver.clone(), pool.id.name.clone());
                let id = DeviceId { driver, pool: name, device: device.name.clone() };
                let (whole, shares) = (held.is_whole(&id), held.shares(&id));
                let ruled = rules.values().filter_map(|rule| rule.taint_of(&id)).collect();
                OfferedDevice { id, pool: number, slice, device, whole, shares, ruled }
            }));
        }
    }
    devices
}
