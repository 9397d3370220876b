//! Two pools of different nodes: taints and selectors decide which one grows, and status gives the reason against the
//! other.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn taint_and_selector_choose_the_pool_and_status_names_what_spoke_against_the_other() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        cluster
            .apply(pool("accelerated").taint("dedicated", "training").label("example.com/accelerator", "x1"))
            .await?;

        // Tolerates no taint: only general can take it.
        cluster.apply(deployment("web").replicas(3)).await?;
        runs(cluster, "web", 3, "general").await?;
        // Asks for a label that only accelerated has.
        let train = deployment("train").replicas(5).toleration("dedicated", "training");
        cluster.apply(train.node_selector("example.com/accelerator", "x1")).await?;
        runs(cluster, "train", 5, "accelerated").await?;

        ensure!(cluster.nodes_of_pool("general").await?.len() == 1, "general has one node too many");
        ensure!(cluster.nodes_of_pool("accelerated").await?.len() == 2, "accelerated has not two nodes");
        said_no(cluster, "general", "accelerated", "TaintNotTolerated", "dedicated=training").await?;
        said_no(cluster, "accelerated", "general", "NodeSelectorMismatch", "example.com/accelerator=x1").await
    })
    .await;
}

#[tokio::test]
async fn pods_that_no_pool_can_take_stay_pending_and_each_pool_says_why() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        cluster.apply(pool("accelerated").taint("dedicated", "training")).await?;
        cluster.apply(deployment("huge").replicas(2).requests("32", "1Gi")).await?;
        cluster.apply(deployment("lost").node_selector("example.com/nowhere", "true")).await?;

        refuses(cluster, "general", "InsufficientResources", 2, "default/huge").await?;
        refuses(cluster, "general", "NodeSelectorMismatch", 1, "default/lost").await?;
        refuses(cluster, "accelerated", "TaintNotTolerated", 3, "default/huge").await?;
        wait::stays("no node is bought", Duration::from_secs(2), async || {
            let nodes = cluster.nodes().await?;
            ensure!(nodes.is_empty(), "{} nodes", nodes.len());
            Ok(())
        })
        .await
    })
    .await;
}

/// All pods of a Deployment run, each on a node of `pool`.
async fn runs(cluster: &ControlPlane, app: &str, count: usize, pool: &str) -> Result<()> {
    let selector = format!("app={app}");
    wait::until(&format!("{count} pods of {app} run"), MINUTE, async || {
        cluster.running_pods_are("default", &selector, count).await
    })
    .await?;
    let nodes = cluster.nodes_of_pool(pool).await?;
    let names: Vec<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
    for pod in cluster.pods("default", &selector).await? {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        ensure!(names.contains(&node.as_str()), "a pod of {app} runs on {node}, pool {pool} has {names:?}");
    }
    Ok(())
}

/// The decision of `pool` records that `other` could not take the pods, and the values.
async fn said_no(cluster: &ControlPlane, pool: &str, other: &str, reason: &str, values: &str) -> Result<()> {
    wait::until(&format!("status of {pool} says why not {other}"), MINUTE, async || {
        let status = cluster.pool_status(pool).await?;
        let considered = &status["decisions"][0]["considered"];
        let rows = considered.as_array().context("nothing was considered")?;
        let row = rows.iter().find(|row| row["pool"] == other).context("the other pool is not reported")?;
        let message = row["message"].as_str().unwrap_or_default();
        ensure!(row["verdict"] == "NoFit" && row["reason"] == reason && message.contains(values), "{row}");
        Ok(())
    })
    .await
}

/// The pool reports the number of pods that it cannot take for this reason, and one of them.
async fn refuses(cluster: &ControlPlane, pool: &str, reason: &str, pods: u32, example: &str) -> Result<()> {
    wait::until(&format!("{pool} says {reason}"), MINUTE, async || {
        let status = cluster.pool_status(pool).await?;
        let refusals = status["refusals"].as_array().map(Vec::as_slice).unwrap_or_default();
        let refusal = refusals.iter().find(|refusal| refusal["reason"] == reason);
        let refusal = refusal.with_context(|| format!("refusals are {}", status["refusals"]))?;
        let examples = refusal["pods"]["examples"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = examples.iter().filter_map(Value::as_str).any(|name| name.starts_with(example));
        ensure!(refusal["pods"]["count"] == pods && named, "{refusal}");
        Ok(())
    })
    .await
}
