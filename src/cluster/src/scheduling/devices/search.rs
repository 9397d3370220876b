//! The search: depth first over claims, requests and devices; the first full solution wins.
//!
//! Source: allocator_incubating.go, allocateOne and allocateDevice.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::DeviceError;
use super::capacity;
use super::constraint::Live;
use super::counters::Counters;
use super::held::{Amounts, add_all, take_all};
use super::pools::{OfferedDevice, Pool};
use super::prepare::{PreparedClaim, Work, against_constraint, capacity_error};
use super::{MAX_DEVICES, MAX_DEVICES_OF_CLAIM};
use crate::scheduling::node_affinity::LabelledNode;

/// A device that the search has taken.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) device: usize,
    /// The name of the request in results.
    pub(super) request: Arc<str>,
    pub(super) admin_access: bool,
    /// Amounts taken of a shared device.
    pub(super) consumed: Amounts,
    /// True if shared counters were taken with it.
    counted: bool,
}

/// Reason why a branch ends without an answer.
enum Stop {
    /// The claim would have too many devices: another alternative may have fewer.
    TooMany,
    /// The attempt ends.
    Error(DeviceError),
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Self::Error(error)
    }
}

/// Position of the search.
#[derive(Clone, Copy)]
struct Place {
    claim: usize,
    request: usize,
    way: usize,
    /// Devices that this way has already.
    had: usize,
    /// The first device to look at.
    from: usize,
}

/// Most devices that failed at one place and are compared with those after them.
const MAX_FAILED: usize = 16;

/// A search and what it has taken.
pub(super) struct Search<'w, 'a, 's, N> {
    work: &'w mut Work<'a, 's, N>,
    devices: &'s [OfferedDevice<'a>],
    claims: Vec<PreparedClaim<'a>>,
    counters: Vec<Counters<'a>>,
    /// Claims that have taken a device as a whole, by device.
    whole: Vec<Vec<usize>>,
    /// Number of uses and amounts taken, by shared device.
    shared: BTreeMap<usize, (usize, Amounts)>,
    results: Vec<Vec<Taken>>,
    depth: usize,
}

impl<'w, 'a, 's, N: LabelledNode> Search<'w, 'a, 's, N> {
    pub(super) fn new(
        pools: &[Pool<'a>],
        held: super::InUse<'_>,
        devices: &'s [OfferedDevice<'a>],
        claims: Vec<PreparedClaim<'a>>,
        work: &'w mut Work<'a, 's, N>,
    ) -> Self {
        let counters = pools.iter().map(|pool| Counters::of(pool, held)).collect();
        let results = claims.iter().map(|_| Vec::new()).collect();
        let whole = vec![Vec::new(); devices.len()];
        Self { work, devices, claims, counters, whole, shared: BTreeMap::new(), results, depth: 0 }
    }

    /// Returns the devices of each claim; `None` if not all of them can be met.
    pub(super) fn run(mut self) -> Result<Option<Vec<Vec<Taken>>>, DeviceError> {
        match self.request(0, 0) {
            Ok(true) => Ok(Some(self.results)),
            Ok(false) => Ok(None),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::TooMany) => {
                let claim = self.claims.first().map(|claim| claim.name.clone()).unwrap_or_default();
                Err(DeviceError::TooManyDevices { claim, request: Arc::default() })
            }
        }
    }

    /// Meets this request and all that come after it.
    fn request(&mut self, claim: usize, request: usize) -> Result<bool, Stop> {
        let Some(prepared) = self.claims.get(claim) else { return Ok(true) };
        let Some(asked) = prepared.requests.get(request) else {
            // What the next claim has too many of does not make another choice in this one.
            return match self.request(claim + 1, 0) {
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        };
        if !asked.is_list {
            return self.way(Place { claim, request, way: 0, had: 0, from: 0 });
        }
        let ways = asked.ways.len();
        let mut all_too_many = true;
        for way in 0..ways {
            match self.way(Place { claim, request, way, had: 0, from: 0 }) {
                Err(Stop::TooMany) => continue,
                Ok(false) => all_too_many = false,
                other => return other,
            }
        }
        if all_too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// Takes the next device of a way, and all that comes after it.
    fn way(&mut self, place: Place) -> Result<bool, Stop> {
        let way = &self.claims[place.claim].requests[place.request].ways[place.way];
        let (count, one_of_all) = (way.count, way.all.as_ref().map(|all| all.get(place.had).copied()));
        if one_of_all == Some(None) && place.had == 0 {
            return Ok(false);
        }
        if count <= place.had {
            return self.request(place.claim, place.request + 1);
        }
        if MAX_DEVICES_OF_CLAIM < self.results[place.claim].len() + (count - place.had) {
            return Err(Stop::TooMany);
        }
        if self.depth == MAX_DEVICES {
            return Err(DeviceError::SearchTooLarge.into());
        }
        self.depth += 1;
        let found = match one_of_all.flatten() {
            Some(device) => {
                self.work.step()?;
                self.with(place, device, true)
            }
            None => self.some_device(place),
        };
        self.depth -= 1;
        found
    }

    fn some_device(&mut self, place: Place) -> Result<bool, Stop> {
        let mut failed: Vec<usize> = Vec::new();
        for device in place.from..self.devices.len() {
            self.work.step()?;
            let prepared = &mut self.claims[place.claim];
            let way = &mut prepared.requests[place.request].ways[place.way];
            let in_use = if way.admin {
                self.whole[device].contains(&place.claim)
            } else {
                self.devices[device].whole || !self.whole[device].is_empty()
            };
            if in_use || !self.work.is_selected(prepared.name, way, device)? {
                continue;
            }
            if failed.iter().any(|one| self.are_twins(place, *one, device)) {
                continue;
            }
            if self.with(place, device, false)? {
                return Ok(true);
            }
            if failed.len() < MAX_FAILED {
                failed.push(device);
            }
        }
        Ok(false)
    }

    /// True if all that is left of the search is the same with either of two devices taken. Then what fails with the
    /// first fails with the second, which comes later and leaves fewer devices to choose from.
    fn are_twins(&self, place: Place, first: usize, second: usize) -> bool {
        let (a, b) = (&self.devices[first], &self.devices[second]);
        let same_device = a.id.driver == b.id.driver
            && a.whole == b.whole
            && a.shares == b.shares
            && a.device.allow_multiple_allocations == b.device.allow_multiple_allocations
            && a.device.capacity == b.device.capacity
            && a.device.taints == b.device.taints
            && a.ruled == b.ruled
            && a.device.consumes_counters == b.device.consumes_counters
            && (a.pool == b.pool || a.device.consumes_counters.is_empty());
        let same_state =
            self.whole[first] == self.whole[second] && self.shared.get(&first) == self.shared.get(&second);
        let left = self.claims.iter().enumerate().skip(place.claim);
        same_device
            && same_state
            && left.into_iter().all(|(number, claim)| {
                let done = if number == place.claim { place.request + 1 } else { 0 };
                claim.constraints.iter().all(|one| one.value_of(a) == one.value_of(b))
                    && claim.requests.iter().skip(done).flat_map(|one| &one.ways).all(|way| {
                        // What was not looked at may be an error.
                        way.known(first).is_some() && way.known(first) == way.known(second)
                    })
            })
    }

    /// Takes a device and goes on; gives it back if that leads nowhere.
    fn with(&mut self, place: Place, device: usize, must: bool) -> Result<bool, Stop> {
        if !self.take(place, device, must)? {
            return Ok(false);
        }
        let next = Place { had: place.had + 1, from: device + 1, ..place };
        match self.way(next) {
            Ok(true) => Ok(true),
            other => {
                self.give_back(place, device);
                other
            }
        }
    }

    /// Takes a device, if it can be had.
    fn take(&mut self, place: Place, device: usize, must: bool) -> Result<bool, DeviceError> {
        let devices = self.devices;
        let offered = &devices[device];
        let prepared = &mut self.claims[place.claim];
        let asked = &prepared.requests[place.request];
        let way = &asked.ways[place.way];
        let shareable = offered.device.allow_multiple_allocations;
        if way.admin && !shareable && self.whole[device].contains(&place.claim) {
            return Ok(false);
        }
        if !way.admin && (offered.whole || !self.whole[device].is_empty()) {
            return Ok(false);
        }
        let amounts = capacity::taken(way.request, offered.device);
        let amounts = amounts.map_err(|error| capacity_error(prepared.name, way, error))?;
        let in_search = self.shared.get(&device).map(|(_, amounts)| amounts);
        let room = |amounts: &Amounts| capacity::has_room(offered.device, amounts, offered.shares, in_search);
        let amounts = amounts.filter(room);
        if !must && amounts.is_none() {
            return Ok(false);
        }
        // The counters of a shared device were taken with its first part.
        let counted = !(offered.device.consumes_counters.is_empty()
            || shareable && (offered.shares.is_some() || in_search.is_some()));
        if counted && !self.counters[offered.pool].take(offered.device) {
            return Ok(false);
        }
        let tolerated = way.request.kept_off_by(offered).is_none();
        let mut added = 0;
        if tolerated {
            let mut constraints = prepared.constraints.iter_mut();
            let breaks = |one: &mut Live<'a>| !one.add(asked.name, &way.name, offered);
            added = constraints.position(breaks).unwrap_or(prepared.constraints.len());
        }
        let broken = tolerated && added < prepared.constraints.len();
        let Some(amounts) = amounts.filter(|_| tolerated && !broken) else {
            for one in prepared.constraints.iter_mut().take(added) {
                one.remove_last(asked.name, &way.name);
            }
            if counted {
                self.counters[offered.pool].give_back(offered.device);
            }
            return if must && broken {
                Err(against_constraint(prepared.name, way, offered))
            } else {
                Ok(false)
            };
        };
        let consumed = if shareable { amounts } else { Amounts::new() };
        let (request, admin_access) = (way.name.clone(), way.admin);
        if shareable {
            let (count, sum) = self.shared.entry(device).or_default();
            *count += 1;
            add_all(sum, &consumed);
        } else {
            self.whole[device].push(place.claim);
        }
        self.results[place.claim].push(Taken { device, request, admin_access, consumed, counted });
        Ok(true)
    }

    /// Gives back the device that was taken last.
    fn give_back(&mut self, place: Place, device: usize) {
        let Some(taken) = self.results[place.claim].pop() else { return };
        let devices = self.devices;
        let offered = &devices[device];
        if offered.device.allow_multiple_allocations {
            if let Some((count, sum)) = self.shared.get_mut(&device) {
                *count -= 1;
                take_all(sum, &taken.consumed);
                if *count == 0 {
                    self.shared.remove(&device);
                }
            }
        } else {
            self.whole[device].pop();
        }
        let prepared = &mut self.claims[place.claim];
        let asked = &prepared.requests[place.request];
        for one in &mut prepared.constraints {
            one.remove_last(asked.name, &taken.request);
        }
        if taken.counted {
            self.counters[offered.pool].give_back(offered.device);
        }
    }
}
