//! The only writer of the status of ScalingPolicies and of HPAs; every write names the version it was made from.

use headroom_core::labels::ObjectKey;
use headroom_core::pods::status::HpaStatus;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::write::{FIELD_MANAGER, WriteError};
use crate::api::{GROUP, PolicyObject, ScalingPolicySpec, ScalingPolicyStatus, StoredScalingPolicy, VERSION};

/// Where the status of workloads goes: the API server.
#[derive(Clone)]
pub struct ScalingSink {
    client: Client,
}

impl std::fmt::Debug for ScalingSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScalingSink").finish_non_exhaustive()
    }
}

impl ScalingSink {
    /// Writes through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// One ScalingPolicy, read live; `None` when it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<PolicyObject<ScalingPolicySpec>>, WriteError> {
        let stored = self.policies(key).get_opt(&key.name).await?;
        Ok(stored.map(|stored| PolicyObject::read(stored.metadata, stored.spec, stored.status)))
    }

    /// Replaces the status of a ScalingPolicy, if it still has that version; returns the new one.
    ///
    /// # Errors
    /// [`WriteError`]; nothing was written on [`WriteError::Conflict`].
    pub async fn write(
        &self,
        key: &ObjectKey,
        resource_version: &str,
        status: &ScalingPolicyStatus,
    ) -> Result<String, WriteError> {
        let params = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let status = serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))?;
        let metadata = ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            resource_version: Some(resource_version.to_owned()),
            ..ObjectMeta::default()
        };
        let body = StoredScalingPolicy {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "ScalingPolicy".to_owned(),
            metadata,
            spec: Value::Null,
            status,
        };
        let stored = self.policies(key).replace_status(&key.name, &params, &body).await?;
        Ok(stored.metadata.resource_version.unwrap_or_default())
    }

    /// Replaces the status of an HPA, if it still has that version; returns the new one.
    ///
    /// A merge patch and no update: an update of this kind's status would take labels and annotations along.
    ///
    /// # Errors
    /// [`WriteError`]; nothing was written on [`WriteError::Conflict`].
    pub async fn write_hpa(
        &self,
        key: &ObjectKey,
        resource_version: &str,
        status: &HpaStatus,
    ) -> Result<String, WriteError> {
        let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let body = hpa_patch(resource_version, status)?;
        let stored = api.patch_status(&key.name, &params, &Patch::Merge(&body)).await?;
        Ok(stored.metadata.resource_version.unwrap_or_default())
    }

    fn policies(&self, key: &ObjectKey) -> Api<StoredScalingPolicy> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// The patch that leaves exactly this status: what it does not have is taken away.
fn hpa_patch(resource_version: &str, status: &HpaStatus) -> Result<Value, WriteError> {
    let written = serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))?;
    let mut body = json!({"metadata": {"resourceVersion": resource_version},
        "status": {"currentMetrics": null, "conditions": null}});
    for (field, value) in written.as_object().into_iter().flatten() {
        body["status"][field] = value.clone();
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_metrics_takes_the_old_ones_away() {
        let status = HpaStatus { current_replicas: 3, desired_replicas: 4, ..HpaStatus::default() };
        let patch = hpa_patch("7", &status).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"]["desiredReplicas"], 4);
        assert!(patch["status"].as_object().unwrap().contains_key("currentMetrics"));
        assert!(patch["status"]["currentMetrics"].is_null());
    }
}
