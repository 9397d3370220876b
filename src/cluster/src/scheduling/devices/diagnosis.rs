//! Reason why claims cannot be met on a node, with the names of the request, the selector and the nearest class. It
//! decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity;
use super::claim::{AllocationMode, Claim, Class, DeviceRequest, Selector};
use super::counters::Counters;
use super::held::Amounts;
use super::pools::{OfferedDevice, Pool, PoolState, devices_of, may_use_device, pools_of};
use super::selector::Selectors;
use super::{DeviceError, Offer, SelectorError};
use crate::scheduling::node_affinity::LabelledNode;
use crate::scheduling::refusal::Refusal;
use headroom_values::reason::Reason;

/// Most characters of a selector that are shown.
const SELECTOR_SHOWN: usize = 80;

/// The refusal of a search that was not looked at to the end.
pub(super) fn of_error(error: &DeviceError) -> Refusal {
    let text = error.to_string();
    match error {
        DeviceError::Selector { .. } => {
            let text = format!("{text} (kube-scheduler stops there on every node)");
            Refusal::devices(Reason::SelectorFails, text)
        }
        DeviceError::UnknownClass { .. } => Refusal::devices(Reason::ClaimNotReady, text),
        DeviceError::AllFromIncompletePool { .. } => Refusal::devices(Reason::DevicePoolIncomplete, text),
        DeviceError::AllFromInvalidPool { .. } | DeviceError::InvalidPools => {
            Refusal::devices(Reason::DevicePoolInvalid, text)
        }
        DeviceError::AllAgainstConstraint { .. } => Refusal::devices(Reason::DeviceConstraint, text),
        DeviceError::SearchTooLarge => Refusal::devices(Reason::DeviceSearchTooLarge, text),
        DeviceError::TooManyDevices { .. }
        | DeviceError::UnknownRequest { .. }
        | DeviceError::UnknownConstraint { .. }
        | DeviceError::Capacity { .. }
        | DeviceError::UnknownNodeSelector => Refusal::Unsupported { what: text.into() },
    }
}

/// A node's offer while it is looked at.
struct Look<'a, 'n, N> {
    node: &'n N,
    pools: &'n [Pool<'a>],
    devices: &'n [OfferedDevice<'a>],
    classes: &'n BTreeMap<Arc<str>, Class>,
    offer: Offer<'a>,
    selectors: Selectors,
}

/// The refusal of a node that does not have the devices: the first request that it cannot meet by itself.
pub(super) fn of_miss(node: &impl LabelledNode, offer: Offer<'_>, claims: &[Claim]) -> Refusal {
    let pools = pools_of(node, offer.slices);
    let devices = devices_of(&pools, offer.held, offer.taint_rules);
    let (classes, selectors) = (offer.classes, Selectors::default());
    let mut look = Look { node, pools: &pools, devices: &devices, classes, offer, selectors };
    let found = claims.iter().find_map(|claim| look.claim(claim));
    found.unwrap_or_else(|| together(claims))
}

/// Returns the refusal if each request by itself could be met.
fn together(claims: &[Claim]) -> Refusal {
    let constrained = claims.iter().find_map(|claim| Some((claim, claim.spec.devices.constraints.first()?)));
    match constrained {
        Some((claim, constraint)) => {
            let shared = constraint.match_attribute.as_ref().map(|attribute| ("share", attribute));
            let distinct = constraint.distinct_attribute.as_ref().map(|attribute| ("differ in", attribute));
            let (verb, attribute) = match shared.or(distinct) {
                Some((verb, attribute)) => (verb, &**attribute),
                None => ("share", ""),
            };
            let text = format!("claim {}: no free devices {verb} {attribute}", claim.name);
            Refusal::devices(Reason::DeviceConstraint, text)
        }
        None => {
            let text = "the claims of the pod together want more devices than are free";
            Refusal::devices(Reason::DevicesInsufficient, text)
        }
    }
}

impl<'a, N: LabelledNode> Look<'a, '_, N> {
    fn claim(&mut self, claim: &Claim) -> Option<Refusal> {
        claim.spec.devices.requests.iter().find_map(|request| {
            let ways: Vec<&DeviceRequest> = request.exactly.iter().chain(&request.first_available).collect();
            let name = format!("claim {}, request {}", claim.name, request.name);
            let mut refusals: Vec<Refusal> = ways.iter().filter_map(|way| self.request(&name, way)).collect();
            // One alternative that can be had is enough.
            if refusals.len() == ways.len() { refusals.drain(..).next() } else { None }
        })
    }

    /// Reason why a request cannot be met though nothing else of the pod takes devices.
    fn request(&mut self, name: &str, request: &DeviceRequest) -> Option<Refusal> {
        let class = self.classes.get(&request.device_class_name)?;
        let mut unknown = None;
        let matching: Vec<usize> = (0..self.devices.len())
            .filter(|at| {
                let selectors = class.spec.selectors.iter().chain(&request.selectors);
                self.is_selected(*at, selectors, &mut unknown)
            })
            .collect();
        let wanted = match request.allocation_mode {
            AllocationMode::All => matching.len().max(1),
            AllocationMode::ExactCount => usize::try_from(request.count).unwrap_or(usize::MAX),
        };
        if matching.is_empty() {
            return Some(self.nothing_matches(name, class, request, unknown));
        }
        let tolerated = self.those(&matching, |one| request.kept_off_by(one).is_none());
        let taint = matching.iter().find_map(|at| request.kept_off_by(&self.devices[*at]));
        if let Some(taint) = taint.filter(|_| tolerated.len() < wanted && wanted <= matching.len()) {
            let text = format!("{name}: taint {}:{} of devices is not tolerated", taint.key, taint.effect);
            return Some(Refusal::devices(Reason::DeviceTaint, text));
        }
        let fits = |one: &OfferedDevice<'_>, shares: Option<&Amounts>| {
            let amounts = capacity::taken(request, one.device).ok().flatten();
            amounts.is_some_and(|amounts| capacity::has_room(one.device, &amounts, shares, None))
        };
        let large = self.those(&tolerated, |one| fits(one, None));
        let free = self.those(&large, |one| !one.whole || request.admin_access == Some(true));
        let roomy = self.those(&free, |one| fits(one, one.shares));
        let too_small = large.len() < wanted && wanted <= tolerated.len();
        if too_small || (wanted <= free.len() && roomy.len() < wanted) {
            let text = format!("{name}: no {wanted} devices have the capacity that is asked for free");
            return Some(Refusal::devices(Reason::DeviceCapacity, text));
        }
        if free.len() < wanted {
            let (matching, taken) = (matching.len(), large.len() - free.len());
            let text = format!(
                "{name}: wants {wanted} of class {}; {matching} match, {taken} are taken",
                class.name
            );
            return Some(Refusal::devices(Reason::DevicesInsufficient, text));
        }
        self.counters(name, wanted, &roomy)
    }

    /// Reason why the counters of partitions do not let so many of these devices be taken.
    fn counters(&self, name: &str, wanted: usize, devices: &[usize]) -> Option<Refusal> {
        let mut counters: Vec<Counters<'_>> =
            self.pools.iter().map(|pool| Counters::of(pool, self.offer.held)).collect();
        let mut taken = 0;
        let mut short = None;
        for at in devices {
            let one = &self.devices[*at];
            if counters[one.pool].take(one.device) {
                taken += 1;
            } else {
                short = short.or_else(|| one.device.consumes_counters.first());
            }
        }
        let set = short.filter(|_| taken < wanted)?;
        let text =
            format!("{name}: wants {wanted}, and counter set {} is used up after {taken}", set.counter_set);
        Some(Refusal::devices(Reason::DeviceCounters, text))
    }

    /// Returns the refusal if no device matches.
    fn nothing_matches(
        &mut self,
        name: &str,
        class: &Class,
        request: &DeviceRequest,
        unknown: Option<String>,
    ) -> Refusal {
        if let Some(unknown) = unknown {
            let text = format!("{name}: {unknown}: only once the node is there");
            return Refusal::devices(Reason::DevicesUnknown, text);
        }
        let incomplete = self.pools.iter().find_map(|pool| match &pool.state {
            PoolState::Incomplete { found, wanted, generation } => {
                Some(format!("{}: {found} of {wanted} slices at generation {generation}", pool.id))
            }
            PoolState::Complete | PoolState::Invalid(_) => None,
        });
        if let Some(incomplete) = incomplete {
            return Refusal::devices(Reason::DevicePoolIncomplete, format!("{name}: {incomplete}"));
        }
        let all = self.devices.len();
        if all == 0 {
            let text = format!("{name}: wants class {}; the node has no devices", class.name);
            return Refusal::devices(Reason::DevicesDoNotMatch, text);
        }
        let of_class = self.count(class);
        let (selectors, nearest) = match (of_class, request.selectors.is_empty()) {
            (0, _) | (_, true) => (&class.spec.selectors, self.nearest_class(class)),
            (of_class, false) => (&request.selectors, format!("; class {} alone has {of_class}", class.name)),
        };
        let shown = selectors.first().map_or_else(String::new, shown);
        let text = format!("{name}: none of {all} devices passes `{shown}`{nearest}");
        Refusal::devices(Reason::DevicesDoNotMatch, text)
    }

    /// The class that accepts most of the devices, if another one accepts any.
    fn nearest_class(&mut self, asked: &Class) -> String {
        let classes: Vec<&Class> = self.classes.values().filter(|class| class.name != asked.name).collect();
        let counts = classes.into_iter().map(|class| (self.count(class), std::cmp::Reverse(&class.name)));
        match counts.max() {
            Some((count, std::cmp::Reverse(name))) if 0 < count => {
                format!("; nearest class: {name} ({count})")
            }
            Some(_) | None => String::new(),
        }
    }

    /// Number of devices that a class accepts.
    fn count(&mut self, class: &Class) -> usize {
        let all = 0..self.devices.len();
        all.filter(|at| self.is_selected(*at, class.spec.selectors.iter(), &mut None)).count()
    }

    fn is_selected<'s>(
        &mut self,
        at: usize,
        mut selectors: impl Iterator<Item = &'s Selector>,
        unknown: &mut Option<String>,
    ) -> bool {
        let one = &self.devices[at];
        let usable = !one.slice.spec.per_device_node_selection || may_use_device(self.node, one.device);
        usable
            && selectors.all(|selector| {
                let answer = self.selectors.answer(&selector.cel.expression, &one.id.driver, one.device);
                if let Err(SelectorError::Runtime(error)) = &answer
                    && error.is_unknown()
                {
                    *unknown = Some(format!("`{}`: {error}", shown(selector)));
                }
                answer.unwrap_or(false)
            })
    }

    fn those(&self, of: &[usize], hold: impl Fn(&OfferedDevice<'a>) -> bool) -> Vec<usize> {
        of.iter().copied().filter(|at| hold(&self.devices[*at])).collect()
    }
}

/// The beginning of an expression, on one line.
fn shown(selector: &Selector) -> String {
    let line: Vec<&str> = selector.cel.expression.split_whitespace().collect();
    let line = line.join(" ");
    if line.chars().count() <= SELECTOR_SHOWN {
        return line;
    }
    let mut cut: String = line.chars().take(SELECTOR_SHOWN).collect();
    cut.push('…');
    cut
}
