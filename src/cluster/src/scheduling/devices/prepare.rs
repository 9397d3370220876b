//! Before the search: classes are looked up, `All` is spelt out, limits are checked. Also who counts the steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{DeviceError, DeviceName};
use super::capacity::{self, CapacityError};
use super::claim::{AllocationMode, Claim, Class, DeviceRequest, Request, Selector};
use super::constraint::Live;
use super::pools::{OfferedDevice, Pool, PoolState, may_use_device};
use super::selector::Selectors;
use super::{MAX_DEVICES, MAX_DEVICES_OF_CLAIM, MAX_STEPS};
use crate::scheduling::node_affinity::LabelledNode;

/// A claim, ready for the search.
pub(super) struct PreparedClaim<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) requests: Vec<PreparedRequest<'a>>,
    pub(super) constraints: Vec<Live<'a>>,
}

/// A request, ready for the search.
pub(super) struct PreparedRequest<'a> {
    pub(super) name: &'a Arc<str>,
    /// True if the ways are alternatives.
    pub(super) is_list: bool,
    /// The one way to meet it, or its alternatives.
    pub(super) ways: Vec<Way<'a>>,
}

/// One way to meet a request.
pub(super) struct Way<'a> {
    /// The name in results: `request` or `request/alternative`.
    pub(super) name: Arc<str>,
    pub(super) request: &'a DeviceRequest,
    pub(super) class: &'a Class,
    pub(super) admin: bool,
    /// Number of devices that it takes.
    pub(super) count: usize,
    /// The devices, if it wants all.
    pub(super) all: Option<Vec<usize>>,
    /// Results of the selectors, by device.
    matches: Vec<Option<bool>>,
}

impl Way<'_> {
    /// Returns the selectors' result for a device; `None` if they were not evaluated.
    pub(super) fn known(&self, device: usize) -> Option<bool> {
        self.matches[device]
    }
}

/// The node, its devices, and the work that is left.
pub(super) struct Work<'a, 's, N> {
    node: &'s N,
    devices: &'s [OfferedDevice<'a>],
    selectors: &'s mut Selectors,
    steps: u32,
}

impl<'a, 's, N: LabelledNode> Work<'a, 's, N> {
    pub(super) fn new(node: &'s N, devices: &'s [OfferedDevice<'a>], selectors: &'s mut Selectors) -> Self {
        Self { node, devices, selectors, steps: MAX_STEPS }
    }

    /// Counts one look at a device.
    pub(super) fn step(&mut self) -> Result<(), DeviceError> {
        self.steps = self.steps.checked_sub(1).ok_or(DeviceError::SearchTooLarge)?;
        Ok(())
    }

    /// Everything that can be known before the search.
    pub(super) fn prepare(
        &mut self,
        pools: &[Pool<'_>],
        classes: &'a BTreeMap<Arc<str>, Class>,
        claims: &'a [Claim],
    ) -> Result<Vec<PreparedClaim<'a>>, DeviceError> {
        let mut prepared = Vec::with_capacity(claims.len());
        let mut least_of_pod = 0;
        for claim in claims {
            let mut requests = Vec::with_capacity(claim.spec.devices.requests.len());
            let mut least_of_claim = 0;
            for request in &claim.spec.devices.requests {
                let request = self.request(pools, classes, claim, request)?;
                least_of_claim += request.ways.iter().map(|way| way.count).min().unwrap_or(0);
                if MAX_DEVICES_OF_CLAIM < least_of_claim {
                    let (claim, request) = (claim.name.clone(), request.name.clone());
                    return Err(DeviceError::TooManyDevices { claim, request });
                }
                requests.push(request);
            }
            let mut constraints = Vec::with_capacity(claim.spec.devices.constraints.len());
            for (number, constraint) in claim.spec.devices.constraints.iter().enumerate() {
                let unknown = || DeviceError::UnknownConstraint { claim: claim.name.clone(), number };
                constraints.push(Live::new(constraint).ok_or_else(unknown)?);
            }
            least_of_pod += least_of_claim.max(1);
            prepared.push(PreparedClaim { name: &claim.name, requests, constraints });
        }
        if MAX_DEVICES < least_of_pod { Err(DeviceError::SearchTooLarge) } else { Ok(prepared) }
    }

    fn request(
        &mut self,
        pools: &[Pool<'_>],
        classes: &'a BTreeMap<Arc<str>, Class>,
        claim: &'a Claim,
        request: &'a Request,
    ) -> Result<PreparedRequest<'a>, DeviceError> {
        let is_list = !request.first_available.is_empty();
        let asked: Vec<&DeviceRequest> = match &request.exactly {
            _ if is_list => request.first_available.iter().collect(),
            Some(exactly) => vec![exactly],
            None => {
                let (claim, request) = (claim.name.clone(), request.name.clone());
                return Err(DeviceError::UnknownRequest { claim, request });
            }
        };
        let mut ways = Vec::with_capacity(asked.len());
        for asked in asked {
            let name = if is_list {
                format!("{}/{}", request.name, asked.name).into()
            } else {
                request.name.clone()
            };
            ways.push(self.way(pools, classes, claim, asked, name, is_list)?);
        }
        Ok(PreparedRequest { name: &request.name, is_list, ways })
    }

    fn way(
        &mut self,
        pools: &[Pool<'_>],
        classes: &'a BTreeMap<Arc<str>, Class>,
        claim: &Claim,
        request: &'a DeviceRequest,
        name: Arc<str>,
        is_alternative: bool,
    ) -> Result<Way<'a>, DeviceError> {
        let Some(class) = classes.get(&request.device_class_name) else {
            let (claim, class) = (claim.name.clone(), request.device_class_name.clone());
            return Err(DeviceError::UnknownClass { claim, request: name, class });
        };
        let admin = !is_alternative && request.admin_access == Some(true);
        let count = usize::try_from(request.count).unwrap_or(usize::MAX);
        let matches = vec![None; self.devices.len()];
        let mut way = Way { name, request, class, admin, count, all: None, matches };
        if request.allocation_mode == AllocationMode::All {
            let all = self.all(pools, claim, &mut way)?;
            way.count = all.len();
            way.all = Some(all);
        }
        way.count = way.count.min(MAX_DEVICES_OF_CLAIM + 1);
        Ok(way)
    }

    /// All devices that the selectors accept, in use or not, and that could serve the request if they were free.
    fn all(
        &mut self,
        pools: &[Pool<'_>],
        claim: &Claim,
        way: &mut Way<'a>,
    ) -> Result<Vec<usize>, DeviceError> {
        let mut all = Vec::new();
        for (number, pool) in pools.iter().enumerate() {
            let (claim_name, request, pool_id) = (claim.name.clone(), way.name.clone(), pool.id.clone());
            match pool.state {
                PoolState::Complete => {}
                PoolState::Incomplete { .. } => {
                    let (claim, pool) = (claim_name, pool_id);
                    return Err(DeviceError::AllFromIncompletePool { claim, request, pool });
                }
                PoolState::Invalid(_) => {
                    let (claim, pool) = (claim_name, pool_id);
                    return Err(DeviceError::AllFromInvalidPool { claim, request, pool });
                }
            }
            // The devices are in the order of their pools.
            let start = self.devices.partition_point(|offered| offered.pool < number);
            let end = self.devices.partition_point(|offered| offered.pool <= number);
            for device in start..end {
                self.step()?;
                if self.is_selected(&claim.name, way, device)? {
                    let taken = capacity::taken(way.request, self.devices[device].device);
                    let taken = taken.map_err(|error| capacity_error(&claim.name, way, error))?;
                    let could =
                        |amounts| capacity::has_room(self.devices[device].device, &amounts, None, None);
                    all.extend(taken.is_some_and(could).then_some(device));
                }
            }
        }
        Ok(all)
    }

    /// True if the selectors of class and request accept a device, and the node may use it.
    pub(super) fn is_selected(
        &mut self,
        claim: &Arc<str>,
        way: &mut Way<'a>,
        device: usize,
    ) -> Result<bool, DeviceError> {
        if let Some(known) = way.matches[device] {
            return Ok(known);
        }
        let offered = &self.devices[device];
        let of_class = || format!("class {}", way.class.name);
        let of_request = || format!("claim {claim}, request {}", way.name);
        let accepted = self.accepts(of_class, &way.class.spec.selectors, offered)?
            && self.accepts(of_request, &way.request.selectors, offered)?
            && (!offered.slice.spec.per_device_node_selection || may_use_device(self.node, offered.device));
        way.matches[device] = Some(accepted);
        Ok(accepted)
    }

    fn accepts(
        &mut self,
        owner: impl Fn() -> String,
        selectors: &[Selector],
        offered: &OfferedDevice<'_>,
    ) -> Result<bool, DeviceError> {
        for (number, selector) in selectors.iter().enumerate() {
            let accepted =
                self.selectors.accepts(&selector.cel.expression, &offered.id.driver, offered.device);
            let failed = |error| DeviceError::Selector { owner: owner().into(), number, error };
            if !accepted.map_err(failed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An error of a capacity, with the request that met it.
pub(super) fn capacity_error(claim: &Arc<str>, way: &Way<'_>, error: CapacityError) -> DeviceError {
    let CapacityError { capacity, text } = error;
    DeviceError::Capacity { claim: claim.clone(), request: way.name.clone(), capacity, text }
}

/// The error of a device that is one of all and breaks a constraint.
pub(super) fn against_constraint(
    claim: &Arc<str>,
    way: &Way<'_>,
    offered: &OfferedDevice<'_>,
) -> DeviceError {
    let device = DeviceName(offered.id.clone());
    DeviceError::AllAgainstConstraint { claim: claim.clone(), request: way.name.clone(), device }
}
