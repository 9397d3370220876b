//! The only writer of the status of CapacityBuffers.

use headroom_api::capacity_buffer::{CapacityBufferStatus, GROUP, KIND, PLURAL, UsedTemplate, VERSIONS};
use headroom_core::labels::ObjectKey;
use headroom_core::world::buffer::BufferStatus;
use kube::Client;
use serde_json::Value;

use super::write::WriteError;
use super::write_foreign::{self, ForeignKind, ForeignObject};

const BUFFERS: ForeignKind = ForeignKind { group: GROUP, kind: KIND, plural: PLURAL, versions: &VERSIONS };

/// As [`write_foreign::apply_status`], of a buffer.
pub(crate) async fn apply_status(
    client: &Client,
    key: &ObjectKey,
    status: Option<&BufferStatus>,
) -> Result<(), WriteError> {
    let status = status.map(wire).transpose()?;
    let object = ForeignObject { kind: &BUFFERS, key, version: None };
    write_foreign::apply_status(client, &object, status.as_ref()).await
}

/// The status as it is on the wire.
fn wire(status: &BufferStatus) -> Result<Value, WriteError> {
    let status = CapacityBufferStatus {
        pod_template_ref: status.template.as_ref().map(|name| UsedTemplate { name: name.to_string() }),
        pod_template_generation: status.template_generation,
        replicas: status.replicas,
        provisioning_strategy: status.strategy.as_ref().map(ToString::to_string),
        conditions: write_foreign::conditions(&status.conditions),
    };
    serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))
}
