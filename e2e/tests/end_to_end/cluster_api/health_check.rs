//! A MachineHealthCheck deletes the very machine that is marked to leave. Lowering the size for it would take another node.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster_api;
use e2e::control_plane::ControlPlane;
use e2e::wait;
use serde_json::json;

use super::{MINUTES, SCALE, cluster_api_test, grown, nodes, pods, settles};

#[tokio::test]
async fn health_check_that_takes_the_marked_machine_costs_no_other_node() {
    cluster_api_test(async |cluster| {
        cluster_api::health_check(cluster).await?;
        let first = cluster.operator().start()?;
        first.ready().await?;
        grown(cluster, 3).await?;
        first.terminate(Duration::from_secs(15)).await?;

        // The operator marks the victim and is killed before it lowers the size.
        let doomed = cluster.operator().identity("doomed").crash_at(&format!("before {SCALE}")).start()?;
        cluster.scale_deployment("web", 2).await?;
        doomed.wait_exit(MINUTES).await?;
        let (stay, before) = (pods(cluster).await?, nodes(cluster).await?);
        let homes = cluster.pods_by_node("app=web").await?;
        let victim = before.iter().find(|node| !homes.contains_key(*node)).context("no node is empty")?;
        ensure!(!cluster_api::marked(cluster).await?.is_empty(), "no machine is marked");

        breaks(cluster, victim).await?;
        replaced(cluster, victim, 3).await?;

        let next = cluster.operator().identity("next").start()?;
        settles(cluster, 2).await?;
        ensure!(pods(cluster).await? == stay, "pods were disturbed: {stay:?} were to stay");
        ensure!(cluster_api::size(cluster, "web").await? == 2);
        let marked = cluster_api::marked(cluster).await?;
        ensure!(marked.is_empty(), "{marked:?} are still marked");
        next.process().check_running()
    })
    .await;
}

/// The node has the condition that its MachineHealthCheck looks for.
pub(super) async fn breaks(cluster: &ControlPlane, node: &str) -> Result<()> {
    let broken = json!({"status": {"conditions": [{
        "type": "Broken", "status": "True", "reason": "Fuse",
        "lastTransitionTime": jiff::Timestamp::now().to_string(),
    }]}});
    cluster.kubectl(&["patch", "node", node, "--subresource=status", "-p", &broken.to_string()])?;
    Ok(())
}

/// Waits until the node is gone and there are `count` nodes again.
pub(super) async fn replaced(cluster: &ControlPlane, node: &str, count: usize) -> Result<()> {
    wait::until("another machine is in its place", MINUTES, async || {
        let now = nodes(cluster).await?;
        ensure!(now.len() == count && !now.contains(node), "nodes are {now:?}");
        Ok(())
    })
    .await
}
