//! The only writer of the status of ScalingPolicies and of HPAs; every write names the version it was made from.

use headroom_core::labels::ObjectKey;
use headroom_core::pods::status::HpaStatus;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::write::{FIELD_MANAGER, WriteError, read_live, replace_status};
use headroom_api::{PolicyObject, ScalingPolicySpec, ScalingPolicyStatus, StoredScalingPolicy};

/// Destination of the status of workloads: the API server.
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
        read_live(&self.policies(key), &key.name).await
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
        replace_status(&self.policies(key), &key.name, resource_version, status).await
    }

    /// Replaces the status of an HPA, if it still has that version; returns the new one.
    ///
    /// Its `observedGeneration` is `generation`, that of the spec that the status was made from.
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
        generation: i64,
    ) -> Result<String, WriteError> {
        self.patch_hpa(key, hpa_patch(resource_version, status, generation)?).await
    }

    /// Sets `observedGeneration` in the status of an HPA to `value` and leaves the rest as it is, if it still has that version;
    /// returns the new one.
    ///
    /// # Errors
    /// [`WriteError`]; nothing was written on [`WriteError::Conflict`].
    pub async fn mark_hpa(
        &self,
        key: &ObjectKey,
        resource_version: &str,
        value: i64,
    ) -> Result<String, WriteError> {
        let body = json!({"metadata": {"resourceVersion": resource_version},
            "status": {"observedGeneration": value}});
        self.patch_hpa(key, body).await
    }

    #[allow(clippy::disallowed_methods, reason = "this is the writer")]
    async fn patch_hpa(&self, key: &ObjectKey, body: Value) -> Result<String, WriteError> {
        let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let stored = api.patch_status(&key.name, &params, &Patch::Merge(&body)).await?;
        Ok(stored.metadata.resource_version.unwrap_or_default())
    }

    fn policies(&self, key: &ObjectKey) -> Api<StoredScalingPolicy> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// The patch that leaves exactly this status: what it does not have is taken away.
fn hpa_patch(resource_version: &str, status: &HpaStatus, generation: i64) -> Result<Value, WriteError> {
    let written = serde_json::to_value(status).map_err(|error| WriteError::Invalid(error.to_string()))?;
    let mut body = json!({"metadata": {"resourceVersion": resource_version},
        "status": {"currentMetrics": null, "conditions": null, "observedGeneration": generation}});
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
        let patch = hpa_patch("7", &status, 3).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(
            (&patch["status"]["desiredReplicas"], &patch["status"]["observedGeneration"]),
            (&json!(4), &json!(3))
        );
        assert!(patch["status"].as_object().unwrap().contains_key("currentMetrics"));
        assert!(patch["status"]["currentMetrics"].is_null());
    }
}
