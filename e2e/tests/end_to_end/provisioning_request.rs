//! A ProvisioningRequest gets room for all of its pods or for none: nothing is bought for seven of eight, the grant waits for
//! ready nodes, pods take the places, and a leader that is killed leaves nothing to be forgotten.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for several plans.
const SEVERAL_PLANS: Duration = Duration::from_secs(8);

#[tokio::test]
async fn all_room_or_none_and_the_grant_waits_for_ready_nodes() {
    cluster_test(Options::new(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // Nodes of four cores, and pods of three.
        cluster.apply(pool("general").join_delay("5s").nodes(0, 1)).await?;
        cluster.apply(template("worker", "3")).await?;
        served(cluster, request("train", "atomic-scale-up.headroom.dev", "worker", 2)).await?;
        condition_is(cluster, "train", "Accepted", "True", "Accepted").await?;
        condition_is(cluster, "train", "Provisioned", "False", "LimitReached").await?;
        let message = condition(cluster, "train", "Provisioned").await?["message"].clone();
        ensure!(message.as_str().unwrap_or_default().contains("MaxNodesReached"), "the message is {message}");
        wait::stays("no node is bought for a part", SEVERAL_PLANS, async || {
            cluster.ready_nodes_are("general", 0).await
        })
        .await?;

        cluster.apply(pool("general").join_delay("5s").nodes(0, 2)).await?;
        condition_is(cluster, "train", "Provisioned", "True", "CapacityIsProvisioned").await?;
        cluster.ready_nodes_are("general", 2).await?;
        let decision = cluster.newest_decision("general", "ScaleUp").await?;
        ensure!(decision["reason"] == "RequestedCapacity", "nodes were bought for {decision}");
        ensure!(cluster.pods("default", "").await?.is_empty(), "pods were made for the request");

        for name in ["w-0", "w-1"] {
            cluster.apply(pod(name, "train")).await?;
        }
        condition_is(cluster, "train", "BookingExpired", "True", "CapacityBookingConsumed").await?;
        let status = status(cluster, "train").await?;
        ensure!(status["provisioningClassDetails"]["servedBy"] == "headroom", "the status is {status}");
        cluster.ready_nodes_are("general", 2).await?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn requests_that_cannot_be_served_say_why_and_others_are_left_alone() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // The definition comes while the operator runs.
        cluster.install_crds(&repository().join("crds/optional")).await?;
        cluster.apply(pool("general").nodes(0, 3)).await?;
        cluster.apply(template("small", "1")).await?;
        cluster.apply(template("huge", "64")).await?;
        served(cluster, request("early", "atomic-scale-up.headroom.dev", "none", 1)).await?;
        cluster.apply(request("huge", "atomic-scale-up.headroom.dev", "huge", 1)).await?;
        cluster.apply(request("ask", "check-capacity.headroom.dev", "small", 1)).await?;
        let theirs = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
        cluster.apply(request("theirs", theirs, "small", 1)).await?;
        condition_is(cluster, "early", "Provisioned", "False", "PodTemplateMissing").await?;
        condition_is(cluster, "huge", "Provisioned", "False", "CapacityIsNotFound").await?;
        condition_is(cluster, "ask", "Provisioned", "False", "CapacityIsNotFound").await?;
        ensure!(status(cluster, "theirs").await?.is_null(), "a request of another class was written");
        cluster.ready_nodes_are("general", 0).await?;
        operator.process().check_running()
    })
    .await;
}

pub(crate) fn request(name: &str, class: &str, template: &str, count: i32) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": class,
            "podSets": [{"podTemplateRef": {"name": template}, "count": count}],
        },
    })
}

fn container(cpu: &str) -> Value {
    json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": cpu}}})
}

fn template(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(cpu)]}},
    })
}

/// A pod that takes a place of a request.
fn pod(name: &str, request: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {
            "autoscaling.x-k8s.io/consume-provisioning-request": request,
            "autoscaling.x-k8s.io/provisioning-class-name": "atomic-scale-up.headroom.dev",
        }},
        "spec": {"containers": [container("3")]},
    })
}

/// Applies the first object of the kind: it is served a moment after its definition is established.
pub(crate) async fn served(cluster: &ControlPlane, request: Value) -> Result<()> {
    wait::until("the kind is served", MINUTE, async || cluster.apply(request.clone()).await.map(drop)).await
}

pub(crate) async fn status(cluster: &ControlPlane, name: &str) -> Result<Value> {
    let text = cluster.kubectl(&["get", "provisioningrequests", name, "-o", "json"])?;
    let object: Value = serde_json::from_str(&text).context("kubectl answers in JSON")?;
    Ok(object["status"].clone())
}

async fn condition(cluster: &ControlPlane, name: &str, kind: &str) -> Result<Value> {
    let status = status(cluster, name).await?;
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let found = conditions.iter().find(|one| one["type"] == kind);
    found.cloned().with_context(|| format!("no condition {kind} in {status}"))
}

async fn condition_is(
    cluster: &ControlPlane,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
) -> Result<()> {
    wait::until(&format!("{name}: {kind} is {status}, {reason}"), MINUTE, async || {
        let found = condition(cluster, name, kind).await?;
        ensure!(found["status"] == status && found["reason"] == reason, "it is {found}");
        Ok(())
    })
    .await
}
