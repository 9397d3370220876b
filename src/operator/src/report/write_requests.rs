//! The only writer of the status of ProvisioningRequests: server-side apply without force, so that what another controller
//! writes stays its own.

use headroom_api::capacity_buffer::BufferCondition as Condition;
use headroom_api::provisioning_request::{GROUP, KIND, PLURAL, ProvisioningRequestStatus, VERSIONS};
use headroom_core::labels::ObjectKey;
use headroom_core::world::request::RequestStatus;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::write::{FIELD_MANAGER, WriteError};

/// Writes the status of a request, or with `None` gives up what this operator has written there.
///
/// # Errors
/// [`WriteError::Conflict`] where another manager has written other values: nothing is written then.
pub(super) async fn apply_status(
    client: &Client,
    key: &ObjectKey,
    status: Option<&RequestStatus>,
) -> Result<(), WriteError> {
    let mut answer = Err(WriteError::Gone);
    // A definition may serve the older version alone.
    for version in VERSIONS {
        answer = apply_as(client, key, status, version).await;
        if answer != Err(WriteError::Gone) {
            break;
        }
    }
    answer
}

#[allow(clippy::disallowed_methods, reason = "this is the writer")]
async fn apply_as(
    client: &Client,
    key: &ObjectKey,
    status: Option<&RequestStatus>,
    version: &str,
) -> Result<(), WriteError> {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        api_version: format!("{GROUP}/{version}"),
        kind: KIND.to_owned(),
        plural: PLURAL.to_owned(),
    };
    let mut body = json!({"apiVersion": resource.api_version, "kind": KIND,
        "metadata": {"name": &*key.name, "namespace": &*key.namespace}});
    if let Some(status) = status {
        body["status"] = wire(status)?;
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &resource);
    api.patch_status(&key.name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&body)).await?;
    Ok(())
}

/// The status as it is on the wire.
fn wire(status: &RequestStatus) -> Result<Value, WriteError> {
    let conditions = status.conditions.iter().map(|(kind, condition)| Condition {
        type_: kind.to_string(),
        status: if condition.holds { "True" } else { "False" }.to_owned(),
        reason: condition.reason.to_string(),
        message: condition.message.to_string(),
        last_transition_time: condition.changed_at.to_rfc3339(),
        observed_generation: condition.observed_generation,
    });
    let details = status.details.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let status = ProvisioningRequestStatus {
        conditions: conditions.collect(),
        provisioning_class_details: details.collect(),
    };
    serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))
}
