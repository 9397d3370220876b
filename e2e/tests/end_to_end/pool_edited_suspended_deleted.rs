//! A pool's life after its first nodes: an edit takes effect at once, a suspended pool rests, a deleted one leaves its nodes to
//! the next of its name.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Long beside the second after which an unneeded node would go.
const A_WHILE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_edit_takes_effect_suspend_changes_nothing_and_deletion_leaves_the_nodes_to_the_next() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(0, 1).quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(8)).await?;
        runs_on(cluster, 4, 1).await?;
        edit(cluster, json!({"maxNodes": 2})).await?;
        runs_on(cluster, 8, 2).await?;

        edit(cluster, json!({"mode": "Suspend", "maxNodes": 9})).await?;
        cluster.scale_deployment("web", 12).await?;
        says_suspended(cluster).await?;
        stays(cluster, 2, "nothing is bought while suspended").await?;
        cluster.scale_deployment("web", 1).await?;
        stays(cluster, 2, "nothing is removed while suspended").await?;

        edit(cluster, json!({"mode": "Apply"})).await?;
        cluster.scale_deployment("web", 12).await?;
        runs_on(cluster, 12, 3).await?;

        cluster.delete("NodePool", "headroom.dev/v1alpha1", "general").await?;
        cluster.scale_deployment("web", 0).await?;
        // The operator is alive and turns: it serves another pool meanwhile.
        cluster.apply(pool("heir").label("example.com/tier", "heir")).await?;
        cluster.apply(deployment("next").node_selector("example.com/tier", "heir")).await?;
        wait::until("the other pool grows", MINUTE, async || {
            cluster.running_pods_are("default", "app=next", 1).await
        })
        .await?;
        stays(cluster, 3, "nodes outlive their pool").await?;
        let nodes = cluster.nodes_of_pool("general").await?;
        let marked = nodes.iter().any(|node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_some()));
        ensure!(!marked, "a node of the deleted pool is tainted: {nodes:?}");

        // As GitOps tools do that prune and apply again: the nodes that are there serve, and the rest goes.
        cluster.scale_deployment("web", 4).await?;
        runs_on(cluster, 4, 3).await?;
        cluster.apply(pool("general").nodes(0, 9).quick_scale_down("1s")).await?;
        wait::until("the pool that came again lets go what it does not need", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 4).await?;
            cluster.ready_nodes_are("general", 1).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

async fn edit(cluster: &ControlPlane, spec: Value) -> Result<()> {
    cluster.patch("NodePool", "headroom.dev/v1alpha1", "general", json!({"spec": spec})).await?;
    Ok(())
}

async fn runs_on(cluster: &ControlPlane, pods: usize, nodes: usize) -> Result<()> {
    wait::until(&format!("{pods} pods run on {nodes} nodes"), MINUTE, async || {
        cluster.running_pods_are("default", "app=web", pods).await?;
        cluster.ready_nodes_are("general", nodes).await
    })
    .await
}

async fn says_suspended(cluster: &ControlPlane) -> Result<()> {
    wait::until("status says that the pool is suspended", MINUTE, async || {
        cluster.pool_condition_is("general", "Ready", "True", "Suspended").await?;
        let status = cluster.pool_status("general").await?;
        let refusals = status["refusals"].as_array().context("no refusals")?;
        let suspended = refusals.iter().any(|row| row["reason"] == "Suspended" && row["pods"]["count"] == 4);
        ensure!(suspended, "refusals are {}", status["refusals"]);
        Ok(())
    })
    .await
}

async fn stays(cluster: &ControlPlane, nodes: usize, what: &str) -> Result<()> {
    wait::stays(what, A_WHILE, async || cluster.ready_nodes_are("general", nodes).await).await
}
