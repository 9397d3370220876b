//! The only writer of the status of ProvisioningRequests.

use headroom_api::provisioning_request::{GROUP, KIND, PLURAL, ProvisioningRequestStatus, VERSIONS};
use headroom_core::labels::ObjectKey;
use headroom_core::world::request::RequestStatus;
use kube::Client;
use serde_json::Value;

use super::write::WriteError;
use super::write_foreign::{self, ForeignKind, ForeignObject};

const REQUESTS: ForeignKind = ForeignKind { group: GROUP, kind: KIND, plural: PLURAL, versions: &VERSIONS };

/// As [`write_foreign::apply_status`], of a request in the version named. Answers are final: one that was made from an older
/// version is refused by the API server.
pub(crate) async fn apply_status(
    client: &Client,
    key: &ObjectKey,
    status: Option<(&str, &RequestStatus)>,
) -> Result<(), WriteError> {
    let object = ForeignObject { kind: &REQUESTS, key, version: status.map(|(version, _)| version) };
    let status = status.map(|(_, status)| wire(status)).transpose()?;
    write_foreign::apply_status(client, &object, status.as_ref()).await
}

/// The status as it is on the wire.
fn wire(status: &RequestStatus) -> Result<Value, WriteError> {
    let details = status.details.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let status = ProvisioningRequestStatus {
        conditions: write_foreign::conditions(&status.conditions),
        provisioning_class_details: details.collect(),
    };
    serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))
}
