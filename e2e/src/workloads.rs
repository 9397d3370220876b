//! Workloads and who scales them, in a test's words: policies, HPAs, replicas and usage; it waits for nothing.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::fixtures::cluster_policy;

/// A ScalingPolicy in namespace `default` of a Deployment of the same name, 1 to `max` replicas, by CPU at 50 percent.
pub fn scaling_policy(name: &str, deployment: &str, max: u32) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment}},
            "minReplicas": 1,
            "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    })
}

/// A ScalingPolicy in namespace `default` of the Deployment of the same name by the external metric `queue`: one replica
/// for each `each` in it.
pub fn queue_policy(name: &str, min: u32, max: u32, each: &str) -> Value {
    let mut policy = scaling_policy(name, name, max);
    policy["spec"]["minReplicas"] = min.into();
    policy["spec"]["metrics"] = json!([queue_metric(each)]);
    policy
}

/// The external metric `queue`, of which each replica should have `each`.
pub fn queue_metric(each: &str) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": each}}})
}

/// A HorizontalPodAutoscaler in namespace `default` of the Deployment of the same name, by CPU at 50 percent.
pub fn hpa(name: &str, min: u32, max: u32) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": min,
            "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    })
}

/// The ClusterScalingPolicy for tests: quick sync periods, short windows, CPU that counts from the start.
pub fn quick_workloads(ownership: &str, stabilization: &str) -> Value {
    cluster_policy(json!({"workloads": {
        "hpaOwnership": ownership,
        "syncPeriod": "2s",
        "downscaleStabilization": stabilization,
        "cpuInitializationPeriod": "0s",
        "initialReadinessDelay": "0s",
    }}))
}

impl ControlPlane {
    /// The status of the ScalingPolicy of that name in namespace `default`, or else of the one that the operator keeps for the
    /// HPA of that name; null when it has none yet.
    pub fn scaling_status(&self, name: &str) -> Result<Value> {
        let text = self.kubectl(&["get", "scalingpolicies.headroom.dev", "--output=json"])?;
        let list: Value = serde_json::from_str(&text)?;
        let all = || list["items"].as_array().into_iter().flatten();
        let named = all().find(|one| one["metadata"]["name"] == name);
        let kept = || {
            all().find(|one| {
                one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "headroom"
                    && one["spec"]["target"]["hpa"]["name"] == name
            })
        };
        let found = named.or_else(kept).with_context(|| format!("there is no policy {name}"))?;
        Ok(found["status"].clone())
    }

    /// For [`crate::wait::until`]: errors unless the ScalingPolicy has the condition with this status and reason; its
    /// message otherwise.
    pub fn scaling_condition_is(
        &self,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Result<String> {
        let found = self.scaling_status(name)?["conditions"].clone();
        let one = (found.as_array().into_iter().flatten()).find(|known| known["type"] == condition);
        let one = one.with_context(|| format!("policy {name} has no {condition} among {found}"))?;
        ensure!(one["status"] == status && one["reason"] == reason, "{condition} of {name} is {one}");
        Ok(one["message"].as_str().unwrap_or_default().to_owned())
    }

    /// `spec.replicas` of a Deployment in namespace `default`.
    pub fn replicas(&self, deployment: &str) -> Result<u64> {
        let text = self.kubectl(&["get", "deployment", deployment, "--output=jsonpath={.spec.replicas}"])?;
        text.parse().with_context(|| format!("{deployment} has {text:?} replicas"))
    }

    /// For [`crate::wait::until`]: errors unless the Deployment is asked for so many replicas.
    pub fn replicas_are(&self, deployment: &str, wanted: u64) -> Result<()> {
        let found = self.replicas(deployment)?;
        ensure!(found == wanted, "{deployment} has {found} replicas, {wanted} wanted");
        Ok(())
    }

    /// Sets the usage of the pods labelled `app: <name>` from now on, as metrics-server will report it.
    pub fn use_cpu(&self, name: &str, cpu: &str) -> Result<()> {
        let (selector, usage) = (format!("app={name}"), format!("kwok.x-k8s.io/usage-cpu={cpu}"));
        self.kubectl(&["annotate", "pods", "--selector", &selector, "--overwrite", &usage])?;
        Ok(())
    }
}
