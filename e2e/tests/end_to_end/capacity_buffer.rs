//! A CapacityBuffer keeps room without pods: it is bought, a burst binds in it at once, it is filled again, and it
//! holds its node; one that cannot be served reports why.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Three times `unneededFor` and more.
const SEVERAL_PERIODS: Duration = Duration::from_secs(12);

#[tokio::test]
async fn room_is_bought_a_burst_binds_in_it_and_it_holds_its_node() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let general = pool("general").join_delay("15s").quick_scale_down("3s");
        cluster.apply(general.set("/spec/scaleDown/delayAfterAdd", "0s")).await?;
        // The definition comes while the operator runs.
        cluster.install_crds(&repository().join("crds/optional")).await?;
        cluster.apply(deployment("web").replicas(2).requests("1", "1Gi")).await?;
        cluster.pods_come_to_run("default", "web", 2).await?;
        let web = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
        served(cluster, buffer("web", json!({"scalableRef": web, "replicas": 2}))).await?;
        provisioning_is(cluster, "web", "True", "FitsExistingCapacity").await?;
        cluster.ready_nodes_are("general", 1).await?;
        ensure!(cluster.pods("default", "").await?.len() == 2, "pods were made for the buffer");

        cluster.scale_deployment("web", 4).await?;
        wait::until("the burst runs on the node that was there", Duration::from_secs(5), async || {
            cluster.running_pods_are("default", "app=web", 4).await?;
            ensure!(cluster.nodes().await?.len() <= 2, "nodes were bought for the burst");
            Ok(())
        })
        .await?;
        wait::until("the room is filled again", MINUTE, async || cluster.ready_nodes_are("general", 2).await)
            .await?;
        provisioning_is(cluster, "web", "True", "FitsExistingCapacity").await?;
        let decision = cluster.newest_decision("general", "ScaleUp").await?;
        ensure!(decision["reason"] == "StandbyCapacity", "the room was filled again for {decision}");
        let table = cluster.kubectl(&["get", "capacitybuffers"])?;
        ensure!(table.contains("FitsExistingCapacity"), "kubectl shows\n{table}");

        cluster.scale_deployment("web", 2).await?;
        wait::until("the second node is not needed and goes", MINUTE, async || {
            cluster.ready_nodes_are("general", 1).await
        })
        .await?;
        cluster.scale_deployment("web", 0).await?;
        wait::until("the last node is held by the buffer", MINUTE, async || {
            let row = cluster.blocked("general", "HoldsBuffer").await?;
            ensure!(row["object"] == "capacitybuffer/default/web", "the row is {row}");
            Ok(())
        })
        .await?;
        wait::stays("the node that holds the room", SEVERAL_PERIODS, async || {
            cluster.ready_nodes_are("general", 1).await
        })
        .await?;
        cluster.delete("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1", "web").await?;
        wait::until("it goes when the buffer is gone", MINUTE, async || {
            cluster.ready_nodes_are("general", 0).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_buffer_that_cannot_be_served_says_why_and_the_others_go_on() {
    cluster_test(Options::new(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(0, 1)).await?;
        let of = |name: &str| json!({"podTemplateRef": {"name": name}, "replicas": 2});
        let mut everybodys = buffer("everybodys", of("small"));
        everybodys["spec"]["provisioningStrategy"] = json!("buffer.x-k8s.io/active-capacity");
        served(cluster, everybodys).await?;
        cluster.apply(buffer("early", of("small"))).await?;
        cluster.apply(buffer("huge", of("huge"))).await?;
        cluster.apply(template("huge", "64")).await?;
        wait::until("the missing template is named", MINUTE, async || {
            let ready = condition(cluster, "early", "ReadyForProvisioning").await?;
            ensure!(ready["status"] == "False" && ready["reason"] == "PodTemplateNotFound", "it is {ready}");
            let message = ready["message"].as_str().unwrap_or_default();
            ensure!(
                message.starts_with("namespace default has no PodTemplate small: create it"),
                "{message}"
            );
            Ok(())
        })
        .await?;
        provisioning_is(cluster, "huge", "False", "NoPoolFits").await?;
        let message = condition(cluster, "huge", "Provisioning").await?["message"].clone();
        let message = message.as_str().unwrap_or_default();
        ensure!(message.contains("pool general: InsufficientResources"), "{message}");

        cluster.apply(template("small", "1")).await?;
        provisioning_is(cluster, "early", "True", "FitsExistingCapacity").await?;
        cluster.ready_nodes_are("general", 1).await?;
        let left = status(cluster, "everybodys").await?;
        ensure!(left.is_null(), "the buffer of the default strategy has status {left}");
        operator.process().check_running()
    })
    .await;
}

fn buffer(name: &str, mut spec: Value) -> Value {
    spec["provisioningStrategy"] = json!("headroom.dev/active-capacity");
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    })
}

/// Applies the first object of the kind: it is served a moment after its definition is established.
async fn served(cluster: &ControlPlane, buffer: Value) -> Result<()> {
    wait::until("the kind is served", MINUTE, async || cluster.apply(buffer.clone()).await.map(drop)).await
}

fn template(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
    })
}

async fn status(cluster: &ControlPlane, name: &str) -> Result<Value> {
    let text = cluster.kubectl(&["get", "capacitybuffers", name, "-o", "json"])?;
    let object: Value = serde_json::from_str(&text).context("kubectl answers in JSON")?;
    Ok(object["status"].clone())
}

async fn condition(cluster: &ControlPlane, name: &str, kind: &str) -> Result<Value> {
    let status = status(cluster, name).await?;
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let found = conditions.iter().find(|one| one["type"] == kind);
    found.cloned().with_context(|| format!("no condition {kind} in {conditions:?}"))
}

async fn provisioning_is(cluster: &ControlPlane, name: &str, wanted: &str, reason: &str) -> Result<()> {
    wait::until("the condition Provisioning", MINUTE, async || {
        let found = condition(cluster, name, "Provisioning").await?;
        ensure!(found["status"] == wanted && found["reason"] == reason, "it is {found}");
        Ok(())
    })
    .await
}
