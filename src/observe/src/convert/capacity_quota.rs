//! CapacityQuotas as the core's. A field that cannot be read is a fault with its remedy: such a quota bounds nothing,
//! and reports that.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::capacity_quota::{CapacityQuotaSpec, CapacityQuotaStatus};
use headroom_core::quantity::Quantity;
use headroom_core::world::capacity_quota::{CapacityQuota, PRICE, QuotaStatus};
use serde::Deserialize;
use serde_json::Value;

use super::buffer::condition;
use super::{class, name_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{Selector, SlimCapacityQuota};

/// A CapacityQuota.
///
/// # Errors
/// If it has no name. All other errors in it are its fault, for its own status to report.
pub fn capacity_quota<const ALPHA: bool>(
    slim: &SlimCapacityQuota<ALPHA>,
    decoder: &mut Decoder,
) -> Result<CapacityQuota, Error> {
    let meta = &slim.metadata;
    let mut quota = CapacityQuota {
        name: name_of(meta, decoder)?,
        uid: uid_of(meta),
        generation: meta.generation.unwrap_or(0),
        status: status(&slim.status),
        ..CapacityQuota::default()
    };
    if let Err(fault) = read(&slim.spec, &mut quota, decoder) {
        quota.fault = Some(fault.into());
        quota.limits.clear();
    }
    Ok(quota)
}

fn read(spec: &Value, quota: &mut CapacityQuota, decoder: &mut Decoder) -> Result<(), String> {
    if let Some(wire) = spec.get("selector").filter(|wire| !wire.is_null()) {
        let remedy = "write a label selector with the operators In, NotIn, Exists or DoesNotExist";
        let fault =
            |error: &dyn std::fmt::Display| format!("spec.selector cannot be read: {error}: {remedy}");
        let wire = Selector::deserialize(wire).map_err(|error| fault(&error))?;
        quota.selector = class::selector(&wire, decoder).map_err(|error| fault(&error))?;
    }
    let read = CapacityQuotaSpec::deserialize(spec)
        .map_err(|error| format!("spec.limits cannot be read: {error}: correct it"))?;
    for (name, value) in &read.limits.resources {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let amount = Quantity::parse(&text).ok().filter(|amount| !amount.is_negative()).ok_or_else(|| {
            format!(
                "spec.limits.resources.{name} is {text}: write a quantity that is not negative, such as 64 or 512Gi"
            )
        })?;
        quota.limits.insert(decoder.text(name), amount_of(name, amount));
    }
    Ok(())
}

/// Thousandths of a core, millionths of a currency unit, whole units of all else. A part of a unit is given away, since
/// nothing fits into it.
fn amount_of(name: &str, amount: Quantity) -> i64 {
    match name {
        "cpu" => amount.milli(),
        PRICE => amount.milli().saturating_mul(1_000),
        _ => {
            let units = amount.units();
            if Quantity::from_units(units) == amount { units } else { units.saturating_sub(1) }
        }
    }
}

/// Reads the status; the default if it cannot be read.
fn status(value: &Value) -> QuotaStatus {
    let Ok(status) = CapacityQuotaStatus::deserialize(value) else { return QuotaStatus::default() };
    let used = status.used.unwrap_or_default().resources;
    let used: BTreeMap<Arc<str>, i64> = used
        .iter()
        .filter_map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some((name.as_str().into(), amount_of(name, Quantity::parse(&text).ok()?)))
        })
        .collect();
    QuotaStatus {
        observed_generation: status.observed_generation,
        used,
        conditions: status.conditions.into_iter().map(condition).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(spec: Value) -> CapacityQuota {
        let object = json!({"metadata": {"name": "gpus", "uid": "u", "generation": 4}, "spec": spec,
            "status": {"used": {"resources": {"cpu": "1500m", "nvidia.com/gpu": "8"}}, "observedGeneration": 3}});
        let slim: SlimCapacityQuota = serde_json::from_value(object).expect("always decodes");
        capacity_quota(&slim, &mut Decoder::default()).expect("it has a name")
    }

    #[test]
    fn limits_of_any_resource_are_read_in_their_units() {
        let found = quota(json!({"limits": {"resources": {"cpu": "64", "memory": "1Gi", "nodes": 12,
            "nvidia.com/gpu": "16", "headroom.dev/price-per-hour": "40"}}}));
        let limit = |name: &str| found.limits[name];
        assert_eq!((limit("cpu"), limit("memory"), limit("nodes")), (64_000, 1 << 30, 12));
        assert_eq!((limit("nvidia.com/gpu"), limit(PRICE)), (16, 40_000_000));
        assert_eq!((&*found.name, found.generation, found.fault.is_none()), ("gpus", 4, true));
        assert_eq!(found.status.used["cpu"], 1_500);
    }

    #[test]
    fn what_cannot_be_read_bounds_nothing_and_says_why() {
        let odd = json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]},
            "limits": {"resources": {"cpu": "1"}}});
        for (spec, words) in
            [(odd, "spec.selector"), (json!({"limits": {"resources": {"cpu": "-1"}}}), "is -1: write")]
        {
            let found = quota(spec);
            assert!(found.fault.as_ref().is_some_and(|fault| fault.contains(words)), "{:?}", found.fault);
            assert!(found.limits.is_empty());
        }
    }

    #[test]
    fn without_a_selector_every_node_counts() {
        let found = quota(json!({"limits": {"resources": {"nodes": "3"}}}));
        assert!(found.counts(&headroom_core::labels::Labels::default(), |_| false));
    }
}
