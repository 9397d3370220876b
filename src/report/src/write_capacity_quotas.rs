//! The only writer of the status of CapacityQuotas.

use headroom_api::capacity_quota::{CapacityQuotaStatus, GROUP, KIND, PLURAL, QuotaResources, VERSIONS};
use headroom_core::labels::ObjectKey;
use headroom_core::world::capacity_quota::{QuotaStatus, format_amount};
use kube::Client;
use serde_json::Value;

use super::write::WriteError;
use super::write_foreign::{self, ForeignKind, ForeignObject};

const QUOTAS: ForeignKind = ForeignKind { group: GROUP, kind: KIND, plural: PLURAL, versions: &VERSIONS };

/// As [`write_foreign::apply_status`], of a quota.
pub(crate) async fn apply_status(
    client: &Client,
    name: &str,
    status: Option<&QuotaStatus>,
) -> Result<(), WriteError> {
    let status = status.map(wire).transpose()?;
    let object = ForeignObject { kind: &QUOTAS, key: &ObjectKey::new("", name), version: None };
    write_foreign::apply_status(client, &object, status.as_ref()).await
}

/// The status as it is on the wire.
fn wire(status: &QuotaStatus) -> Result<Value, WriteError> {
    let amount = |(resource, amount): (&std::sync::Arc<str>, &i64)| {
        (resource.to_string(), Value::String(format_amount(resource, *amount)))
    };
    let status = CapacityQuotaStatus {
        observed_generation: status.observed_generation,
        used: (!status.used.is_empty())
            .then(|| QuotaResources { resources: status.used.iter().map(amount).collect() }),
        conditions: write_foreign::conditions(&status.conditions),
    };
    serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))
}
