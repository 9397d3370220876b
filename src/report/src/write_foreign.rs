//! Status of objects whose kinds others define: server-side apply without force, so that what another controller writes stays
//! its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::capacity_buffer::BufferCondition as Condition;
use headroom_core::labels::ObjectKey;
use headroom_core::world::buffer::BufferCondition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::write::{FIELD_MANAGER, WriteError};

/// A kind that a definition may serve in its older version alone.
pub(crate) struct ForeignKind {
    /// Its API group.
    pub(crate) group: &'static str,
    /// Its name.
    pub(crate) kind: &'static str,
    /// Its name in paths.
    pub(crate) plural: &'static str,
    /// Its versions, the newest first.
    pub(crate) versions: &'static [&'static str],
}

/// An object of such a kind.
pub(crate) struct ForeignObject<'a> {
    /// Its kind.
    pub(crate) kind: &'a ForeignKind,
    /// Its key; without a namespace for an object of the whole cluster.
    pub(crate) key: &'a ObjectKey,
    /// The version that is written to; any if `None`.
    pub(crate) version: Option<&'a str>,
}

/// Writes the status of an object, or with `None` gives up what this operator has written there.
///
/// # Errors
/// [`WriteError::Owned`] where another manager has written other values, [`WriteError::Conflict`] where the object has another
/// version: nothing is written then.
pub(crate) async fn apply_status(
    client: &Client,
    object: &ForeignObject<'_>,
    status: Option<&Value>,
) -> Result<(), WriteError> {
    let mut answer = Err(WriteError::Gone);
    for version in object.kind.versions {
        answer = apply_as(client, object, version, status).await;
        if answer != Err(WriteError::Gone) {
            break;
        }
    }
    answer
}

#[allow(clippy::disallowed_methods, reason = "this is the writer")]
async fn apply_as(
    client: &Client,
    object: &ForeignObject<'_>,
    version: &str,
    status: Option<&Value>,
) -> Result<(), WriteError> {
    let ForeignObject { kind, key, version: written_to } = object;
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", kind.group),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    let mut body = json!({"apiVersion": resource.api_version, "kind": kind.kind,
        "metadata": {"name": &*key.name}});
    if !key.namespace.is_empty() {
        body["metadata"]["namespace"] = Value::from(&*key.namespace);
    }
    if let Some(written_to) = written_to.filter(|version| !version.is_empty()) {
        body["metadata"]["resourceVersion"] = Value::from(written_to);
    }
    if let Some(status) = status {
        body["status"] = status.clone();
    }
    let api: Api<DynamicObject> = match &*key.namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    api.patch_status(&key.name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&body)).await?;
    Ok(())
}

/// Conditions as they are on the wire.
pub(crate) fn conditions(conditions: &BTreeMap<Arc<str>, BufferCondition>) -> Vec<Condition> {
    let wire = |(kind, condition): (&Arc<str>, &BufferCondition)| Condition {
        type_: kind.to_string(),
        status: if condition.holds { "True" } else { "False" }.to_owned(),
        reason: condition.reason.to_string(),
        message: condition.message.to_string(),
        last_transition_time: condition.changed_at.to_rfc3339(),
        observed_generation: condition.observed_generation,
    };
    conditions.iter().map(wire).collect()
}
