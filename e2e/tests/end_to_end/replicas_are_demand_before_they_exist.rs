//! Replicas that a controller has decided on are demand at once: nodes for all of them come in one purchase.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::fixtures::{pool, stateful_set};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_stateful_set_that_starts_one_pod_after_the_other_gets_nodes_ahead_of_its_pods_and_no_more_than_it_needs()
 {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        let set = stateful_set("db").replicas(5).requests("2", "1Gi");
        cluster.apply(set.set("/spec/podManagementPolicy", "OrderedReady")).await?;
        wait::until("all five run", MINUTE, async || {
            cluster.running_pods_are("default", "app=db", 5).await?;
            cluster.ready_nodes_are("general", 3).await
        })
        .await?;
        // One pod more than there are counts: no node is bought for a size that a quota may refuse.
        let status = cluster.pool_status("general").await?;
        let decisions = status["decisions"].as_array().cloned().unwrap_or_default();
        ensure!(decisions.iter().all(|one| one["pods"]["count"].as_u64() <= Some(2)), "{decisions:?}");
        let ahead =
            |one: &Value| one["message"].as_str().is_some_and(|text| text.contains("not created yet"));
        ensure!(decisions.iter().any(ahead), "{decisions:?}");
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn nodes_come_while_the_controller_has_not_created_a_single_pod() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        let controllers = cluster.component(Component::ControllerManager)?;
        controllers.pause()?;
        cluster.apply(replica_set("web", 10)).await?;
        wait::until("three nodes are there", MINUTE, async || {
            let nodes = cluster.nodes_of_pool("general").await?.len();
            ensure!(nodes == 3, "{nodes} nodes");
            Ok(())
        })
        .await?;
        ensure!(cluster.pods("default", "app=web").await?.is_empty(), "there are pods already");

        controllers.resume()?;
        wait::until("all ten run", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 10).await?;
            cluster.ready_nodes_are("general", 3).await
        })
        .await?;
        let decision = the_only_decision(cluster).await?;
        ensure!(decision["reason"] == "ReplicasAnticipated" && decision["to"] == 3, "{decision}");
        ensure!(decision["pods"]["count"] == 10, "{decision}");
        operator.process().check_running()
    })
    .await;
}

/// As a Deployment's controller makes it: what it asks for, and nothing done yet.
fn replica_set(name: &str, replicas: u32) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    })
}

async fn the_only_decision(cluster: &ControlPlane) -> Result<Value> {
    wait::until("one decision is reported, and done", MINUTE, async || {
        let status = cluster.pool_status("general").await?;
        let decisions = status["decisions"].as_array().context("no decisions")?;
        ensure!(decisions.len() == 1 && decisions[0]["outcome"] == "Done", "{}", status["decisions"]);
        Ok(decisions[0].clone())
    })
    .await
}
