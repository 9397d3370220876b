//! Pools that can have no node: one node takes more than `spec.limits` allows.

use headroom_core::quantity::Quantity;
use serde_json::Value;

use super::{Finding, Manifest, Severity};

/// A warning for each amount of a declared template that is above the pool's limit.
#[must_use]
pub(super) fn check(manifests: &[Manifest]) -> Vec<Finding> {
    let pools = manifests.iter().filter(|one| one.ours() && one.kind() == "NodePool");
    pools.flat_map(|pool| ["cpu", "memory"].into_iter().filter_map(|name| too_small(pool, name))).collect()
}

fn too_small(pool: &Manifest, name: &str) -> Option<Finding> {
    let spec = &pool.object["spec"];
    let (limit, each) = (&spec["limits"][name], &spec["template"]["capacity"][name]);
    if amount(each)? <= amount(limit)? {
        return None;
    }
    let message = format!(
        "spec.limits.{name} ({}) is less than one node has ({}): the pool can never have a node; raise the limit",
        text(limit)?,
        text(each)?
    );
    Some(pool.finding(Severity::Warning, message))
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(&text(value)?).ok()
}

/// A quantity as written: a string or a number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
