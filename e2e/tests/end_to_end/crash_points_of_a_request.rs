//! The operator dies at each point around each of its writes for a ProvisioningRequest: the next one grants it, buys nothing twice,
//! and keeps the booked room.

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::harness::cluster_test;
use serde_json::{Value, json};

use crate::crash_points::{PODS, TIER, Work, survives_every_crash};
use crate::provisioning_request::{request, served, status};

const CLASS: &str = "atomic-scale-up.headroom.dev";

/// A request for room for pods.
struct Request;

impl Work for Request {
    async fn ask(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        cluster.apply(template(name)).await?;
        served(cluster, request(name, CLASS, name, i32::try_from(PODS)?)).await
    }

    async fn is_done(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        let status = status(cluster, name).await?;
        let conditions = status["conditions"].as_array().context("no conditions")?;
        let is = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
        let reason = |one: &Value| one["type"] == "Provisioned" && one["reason"] == "CapacityIsProvisioned";
        let granted = is("Accepted") && is("Provisioned") && conditions.iter().any(reason);
        ensure!(granted, "the request has {conditions:?}");
        ensure!(!is("BookingExpired") && !is("Failed") && !is("CapacityRevoked"), "it has {conditions:?}");
        Ok(())
    }

    async fn withdraw(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        cluster.delete("ProvisioningRequest", "autoscaling.x-k8s.io/v1", name).await
    }

    fn check_points(&self, points: &[&str]) -> Result<()> {
        let answers = points.iter().filter(|point| point.contains("/provisioningrequests/")).count();
        ensure!(2 <= answers, "a point before and after an answer is wanted: {points:#?}");
        Ok(())
    }
}

fn template(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "1"}}});
    let spec = json!({"nodeSelector": {TIER: name}, "containers": [container]});
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
    })
}

#[tokio::test]
async fn a_crash_at_any_point_grants_a_request_once_and_whole() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        survives_every_crash(cluster, &Request).await
    })
    .await;
}
