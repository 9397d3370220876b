//! Result of an allocation with the field names of a claim's status, or the error that prevents it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::held::DeviceId;
use super::pools::{OfferedDevice, PoolId};
use super::search::Taken;
use super::selector::SelectorError;
use super::{MAX_DEVICES_OF_CLAIM, MAX_STEPS};
use crate::scheduling::constraints::{NodeSelectorTerm, Operator, Requirement};
use headroom_values::quantity::Quantity;

/// Result of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Each claim got its devices, in the order of the claims.
    Allocated(Vec<ClaimAllocation>),
    /// The node does not have the devices.
    DoesNotFit,
}

/// Devices allocated to one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimAllocation {
    /// The devices, in the order of the requests.
    pub devices: Vec<AllocatedDevice>,
    /// Nodes from which they can be used; all if none.
    pub node_selector: Option<NodeSelectorTerm>,
}

/// One device of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// The request, or `request/alternative`.
    pub request: Arc<str>,
    /// The device.
    pub id: DeviceId,
    /// True if it may be held by others.
    pub admin_access: bool,
    /// True if others may get other parts of it.
    pub shared: bool,
    /// Amounts taken of it, if it is shared.
    pub consumed_capacity: BTreeMap<Arc<str>, Quantity>,
    /// Conditions that must hold before the pod is bound.
    pub binding_conditions: Vec<Arc<str>>,
}

/// Reason why an allocation was not looked at to the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The class of a request does not exist.
    #[error("claim {claim}, request {request}: class {class} does not exist")]
    UnknownClass {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
        /// The class.
        class: Arc<str>,
    },
    /// A request is neither exact nor a list of alternatives.
    #[error("claim {claim}, request {request}: has neither exactly nor firstAvailable")]
    UnknownRequest {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
    },
    /// A selector does not compile, or fails on a device.
    #[error("{owner}, selector #{number}: {error}")]
    Selector {
        /// The class or claim that has it.
        owner: Arc<str>,
        /// Its place, counted from 0.
        number: usize,
        /// Error of the selector.
        error: SelectorError,
    },
    /// All devices are wanted while a pool of the node is being updated.
    #[error("claim {claim}, request {request}: wants all devices, but {pool} is incomplete")]
    AllFromIncompletePool {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
        /// The pool.
        pool: PoolId,
    },
    /// All devices are wanted while a pool of the node is invalid.
    #[error("claim {claim}, request {request}: wants all devices, but {pool} is invalid")]
    AllFromInvalidPool {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
        /// The pool.
        pool: PoolId,
    },
    /// A claim wants more devices than a claim may have.
    #[error(
        "claim {claim}, request {request}: the claim would have more than {MAX_DEVICES_OF_CLAIM} devices"
    )]
    TooManyDevices {
        /// The claim.
        claim: Arc<str>,
        /// The request with which the limit is passed.
        request: Arc<str>,
    },
    /// All devices are wanted, and one of them breaks a constraint.
    #[error("claim {claim}, request {request}: {device} is one of all devices and breaks a constraint")]
    AllAgainstConstraint {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
        /// The device.
        device: DeviceName,
    },
    /// A constraint is of no known kind.
    #[error("claim {claim}, constraint #{number}: has neither matchAttribute nor distinctAttribute")]
    UnknownConstraint {
        /// The claim.
        claim: Arc<str>,
        /// Its place, counted from 0.
        number: usize,
    },
    /// An amount of capacity cannot be computed.
    #[error("claim {claim}, request {request}: capacity {capacity}: {text}")]
    Capacity {
        /// The claim.
        claim: Arc<str>,
        /// The request.
        request: Arc<str>,
        /// The capacity.
        capacity: Arc<str>,
        /// Description of the error.
        text: &'static str,
    },
    /// Nothing was found, and a pool of the node is invalid.
    #[error("no devices were found, and a pool of the node is invalid")]
    InvalidPools,
    /// A node selector that devices carry has several terms.
    #[error("the node selector of a slice has several terms")]
    UnknownNodeSelector,
    /// The search would take too long.
    #[error("looking for devices takes more than {MAX_STEPS} steps")]
    SearchTooLarge,
}

impl DeviceError {
    /// True if other nodes may serve the pod all the same.
    #[must_use]
    pub fn is_of_node(&self) -> bool {
        matches!(self, Self::InvalidPools | Self::SearchTooLarge)
    }
}

/// A device as texts name it: `driver/pool/device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName(pub DeviceId);

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.0.driver, self.0.pool, self.0.device)
    }
}

/// Converts the devices found to the form of a claim's status.
pub(super) fn results(
    node: &str,
    devices: &[OfferedDevice<'_>],
    found: Vec<Vec<Taken>>,
) -> Result<Vec<ClaimAllocation>, DeviceError> {
    let of_claim = |taken: Vec<Taken>| {
        let node_selector = node_selector(node, devices, &taken)?;
        let devices = taken.into_iter().map(|taken| result(devices, taken)).collect();
        Ok(ClaimAllocation { devices, node_selector })
    };
    found.into_iter().map(of_claim).collect()
}

fn result(devices: &[OfferedDevice<'_>], taken: Taken) -> AllocatedDevice {
    let offered = &devices[taken.device];
    AllocatedDevice {
        request: taken.request,
        id: offered.id.clone(),
        admin_access: taken.admin_access,
        shared: offered.device.allow_multiple_allocations,
        consumed_capacity: taken.consumed,
        binding_conditions: offered.device.binding_conditions.clone(),
    }
}

/// The nodes from which all of the devices can be used.
///
/// Source: allocator_incubating.go, createNodeSelector.
fn node_selector(
    node: &str,
    devices: &[OfferedDevice<'_>],
    taken: &[Taken],
) -> Result<Option<NodeSelectorTerm>, DeviceError> {
    let mut joined = NodeSelectorTerm::default();
    for taken in taken {
        let OfferedDevice { slice, device, .. } = &devices[taken.device];
        let (name, selector) = if slice.spec.per_device_node_selection {
            (&device.node_name, &device.node_selector)
        } else {
            (&slice.spec.node_name, &slice.spec.node_selector)
        };
        if name.is_some() || device.binds_to_node {
            let values = vec![node.into()];
            let named = Requirement { key: "metadata.name".into(), operator: Operator::In, values };
            let match_fields = vec![named];
            return Ok(Some(NodeSelectorTerm { match_fields, match_expressions: Vec::new() }));
        }
        match selector.as_ref().map_or(&[][..], |selector| &selector.node_selector_terms) {
            [] => {}
            [term] => {
                add_new(&mut joined.match_fields, &term.match_fields);
                add_new(&mut joined.match_expressions, &term.match_expressions);
            }
            _ => return Err(DeviceError::UnknownNodeSelector),
        }
    }
    Ok((joined != NodeSelectorTerm::default()).then_some(joined))
}

/// Adds the requirements that are not there yet, in whatever order their values are.
fn add_new(to: &mut Vec<Requirement>, from: &[Requirement]) {
    let same_set = |a: &[Arc<str>], b: &[Arc<str>]| {
        a.iter().all(|value| b.contains(value)) && b.iter().all(|value| a.contains(value))
    };
    for one in from {
        let known = to.iter().any(|known| {
            known.key == one.key && known.operator == one.operator && same_set(&known.values, &one.values)
        });
        if !known {
            to.push(one.clone());
        }
    }
}
