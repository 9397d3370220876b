//! Consumable capacity: how much of each capacity of a device a request takes, and whether that is there.
//!
//! Source: consumable_capacity.go, without fractional ranges, which are off in 1.37.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claim::DeviceRequest;
use super::held::Amounts;
use super::slice::{Capacity, Device, RequestPolicy, ValidRange};
use headroom_values::quantity::Quantity;

/// A capacity of which an amount cannot be computed, and why.
pub(super) struct CapacityError {
    pub(super) capacity: Arc<str>,
    pub(super) text: &'static str,
}

/// Returns the amounts that a request takes of each capacity of a device, by its policies; `None` if the device cannot
/// serve it even when it is free.
pub(super) fn taken(request: &DeviceRequest, device: &Device) -> Result<Option<Amounts>, CapacityError> {
    let none = BTreeMap::new();
    let asked = request.capacity.as_ref().map_or(&none, |request| &request.requests);
    if asked.keys().any(|name| !device.capacity.contains_key(name)) {
        return Ok(None);
    }
    let mut amounts = Amounts::new();
    for (name, capacity) in &device.capacity {
        let amount = amount(asked.get(name).copied(), capacity);
        let amount = amount.map_err(|text| CapacityError { capacity: name.clone(), text })?;
        if amount.is_negative() {
            return Err(CapacityError { capacity: name.clone(), text: "the amount is negative" });
        }
        amounts.insert(name.clone(), amount);
    }
    let breaks = |(name, amount): (&Arc<str>, &Quantity)| {
        device.capacity[name].request_policy.as_ref().is_some_and(|policy| breaks_policy(*amount, policy))
    };
    Ok(if amounts.iter().any(breaks) { None } else { Some(amounts) })
}

/// True if the amounts are there, beside what others and the search itself have taken.
pub(super) fn has_room(
    device: &Device,
    amounts: &Amounts,
    others: Option<&Amounts>,
    search: Option<&Amounts>,
) -> bool {
    let of = |taken: Option<&Amounts>, name: &str| {
        taken.and_then(|taken| taken.get(name)).copied().unwrap_or_default()
    };
    amounts.iter().all(|(name, amount)| {
        let sum = of(others, name).plus(*amount).plus(of(search, name));
        device.capacity.get(name).is_some_and(|capacity| sum <= capacity.value)
    })
}

fn amount(asked: Option<Quantity>, capacity: &Capacity) -> Result<Quantity, &'static str> {
    let policy = capacity.request_policy.as_ref();
    let Some(asked) = asked else {
        return Ok(policy.and_then(|policy| policy.default).unwrap_or(capacity.value));
    };
    let Some(policy) = policy else { return Ok(asked) };
    match &policy.valid_range {
        Some(ValidRange { min: Some(min), step, .. }) => rounded_to_step(asked, *min, *step),
        _ => Ok(policy.valid_values.iter().copied().find(|value| asked <= *value).unwrap_or(asked)),
    }
}

/// The least amount, or the next one that is a whole number of steps above it. Steps are counted in whole units.
fn rounded_to_step(asked: Quantity, min: Quantity, step: Option<Quantity>) -> Result<Quantity, &'static str> {
    if asked < min {
        return Ok(min);
    }
    let Some(step) = step else { return Ok(asked) };
    let (asked, min, step) = (asked.units(), min.units(), step.units());
    if step <= 0 {
        return Err("the step is not positive");
    }
    let steps = asked.checked_sub(min).map(|above| above / step + i64::from(above % step != 0));
    let sum = steps.and_then(|steps| steps.checked_mul(step)).and_then(|above| above.checked_add(min));
    sum.map(Quantity::from_units).ok_or("the next step is beyond the range of 64 bits")
}

fn breaks_policy(amount: Quantity, policy: &RequestPolicy) -> bool {
    if policy.default == Some(amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        let over = range.max.is_some_and(|max| max < amount);
        let min = range.min.map_or(0, Quantity::units);
        let between = |step: Quantity| {
            step.units() <= 0
                || (i128::from(amount.units()) - i128::from(min)) % i128::from(step.units()) != 0
        };
        return over || range.step.is_some_and(between);
    }
    !policy.valid_values.is_empty() && !policy.valid_values.contains(&amount)
}
