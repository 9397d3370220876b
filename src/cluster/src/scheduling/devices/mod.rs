//! DynamicResources: which devices of a node the claims of a pod get, by the rules and in the order of kube-scheduler.
//!
//! It follows Kubernetes 1.37 with every feature on whose fields are there. `allocate` is pure, and the golden vectors
//! of `headroom-conformance` run through it. `book` keeps the devices that claims hold in a snapshot, `plugin` asks
//! both for a pod and a node, `diagnosis` gives the reason for a refusal.
//!
//! Source: k8s.io/dynamic-resource-allocation v0.37.1, structured/internal/incubating.

mod answer;
pub(super) mod book;
mod capacity;
mod claim;
mod constraint;
mod counters;
mod diagnosis;
mod held;
mod plugin;
mod pools;
mod prepare;
mod search;
mod selector;
mod slice;
mod taint_rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scheduling::node_affinity::LabelledNode;

pub use answer::{AllocatedDevice, Answer, ClaimAllocation, DeviceError};
pub use claim::{
    AllocationMode, CapacityRequest, CelSelector, Claim, ClaimDevices, ClaimSpec, Class, ClassSpec,
    Constraint, DeviceRequest, Request, Selector, Toleration, TolerationOperator,
};
pub use held::{DeviceId, Held, InUse};
pub use plugin::COMING;
pub use pools::{Pool, PoolId, PoolState, pools_of};
pub use selector::{DeviceSelector, SelectorError, Selectors};
pub use slice::{
    Amount, Attribute, Capacity, CounterConsumption, CounterSet, Device, NodeSelector, PoolRef,
    RequestPolicy, Slice, SliceSpec, Taint, ValidRange,
};
pub use taint_rule::{TaintRule, TaintRuleSpec, TaintSelector};

/// Most steps of one allocation: one a device that is looked at. Beyond it the answer is
/// [`DeviceError::SearchTooLarge`].
pub const MAX_STEPS: u32 = 20_000;

/// Most devices that the claims of one pod may hold together; the search is as deep.
const MAX_DEVICES: usize = 512;

/// Most devices of one claim.
///
/// Source: api/resource/v1 types.go, AllocationResultsMaxSize.
const MAX_DEVICES_OF_CLAIM: usize = 32;

/// Devices that the cluster offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// All slices of the pools that may be of use, in any order.
    pub slices: &'a [&'a Slice],
    /// Classes by name.
    pub classes: &'a BTreeMap<Arc<str>, Class>,
    /// Rules that taint devices, by name.
    pub taint_rules: &'a BTreeMap<Arc<str>, TaintRule>,
    /// Devices that claims hold already.
    pub held: InUse<'a>,
}

/// Allocates the claims of one pod, none of which is allocated, on one node.
///
/// # Errors
/// If the claims cannot be looked at to the end. Most errors end the attempt of kube-scheduler on every node:
/// [`DeviceError::is_of_node`] is true for the others.
pub fn allocate(
    node: &impl LabelledNode,
    offer: Offer<'_>,
    claims: &[Claim],
    selectors: &mut Selectors,
) -> Result<Answer, DeviceError> {
    let pools = pools_of(node, offer.slices);
    let devices = pools::devices_of(&pools, offer.held, offer.taint_rules);
    let mut work = prepare::Work::new(node, &devices, selectors);
    let prepared = work.prepare(&pools, offer.classes, claims)?;
    let search = search::Search::new(&pools, offer.held, &devices, prepared, &mut work);
    match search.run()? {
        Some(found) => answer::results(node.node_name(), &devices, found).map(Answer::Allocated),
        None if pools.iter().any(Pool::is_invalid) => Err(DeviceError::InvalidPools),
        None => Ok(Answer::DoesNotFit),
    }
}

#[cfg(test)]
mod tests;
