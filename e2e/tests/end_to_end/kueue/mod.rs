//! ProvisioningRequests beside Kueue, which writes them, reads their conditions, and evicts what it must.

use std::time::Duration;

use anyhow::Result;
use e2e::control_plane::ControlPlane;
use serde_json::Value;

mod jobs_start_whole;
mod workload_gets_its_room;

const MINUTES: Duration = Duration::from_secs(180);
/// Long enough for several plans, and for what Kueue would do about a condition.
const SEVERAL_PLANS: Duration = Duration::from_secs(8);
const CHECK: &str = "room";

/// Objects of a kind in namespace `default`.
fn list(cluster: &ControlPlane, kind: &str) -> Result<Vec<Value>> {
    let text = cluster.kubectl(&["get", kind, "-o", "json"])?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// The condition of this type; null when there is none.
fn condition<'o>(object: &'o Value, kind: &str) -> &'o Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}
