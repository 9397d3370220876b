//! A pool that is suspended, or deleted, in the middle of a drain gets its node back as it was.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Long beside what an undo takes, so that the drain is surely still under way.
const SLOW_DEATH: Duration = Duration::from_secs(15);

#[tokio::test]
async fn suspending_the_pool_mid_drain_takes_the_marks_off_and_keeps_the_node() {
    cluster_test(Options::new().pods_stop_after(SLOW_DEATH), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.spread_web(pool("general").quick_scale_down("2s"), 2, 1).await?;
        drain_begins(cluster).await?;

        cluster.edit_pool("general", json!({"spec": {"mode": "Suspend"}})).await?;
        wait::until("the marks are off", Duration::from_secs(10), async || cluster.no_node_is_marked().await)
            .await?;
        ensure!(stopping_pods(cluster).await? == 1, "the drain should still be under way at this time");
        wait::until("the decision is reported as taken back", Duration::from_secs(10), async || {
            cluster.removal_ended("general", "Cancelled", "Suspended").await?;
            let intents = cluster.pool_status("general").await?["intents"].clone();
            ensure!(intents.is_null(), "intents are {intents}");
            Ok(())
        })
        .await?;
        wait::until("the evicted pod has ended and its successor runs", MINUTE, async || {
            ensure!(stopping_pods(cluster).await? == 0, "a pod is still stopping");
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;
        wait::stays("both nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn deleting_the_pool_mid_drain_takes_the_marks_off_and_keeps_the_node() {
    cluster_test(Options::new().pods_stop_after(SLOW_DEATH), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.spread_web(pool("general").quick_scale_down("2s"), 2, 1).await?;
        drain_begins(cluster).await?;

        cluster.delete("NodePool", "headroom.dev/v1alpha1", "general").await?;
        wait::until("the marks are off", Duration::from_secs(10), async || cluster.no_node_is_marked().await)
            .await?;
        wait::stays("both nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await
    })
    .await;
}

/// Lets one node go, and waits until its pod has been evicted and is stopping.
async fn drain_begins(cluster: &ControlPlane) -> Result<()> {
    cluster.edit_pool("general", json!({"spec": {"minNodes": 1}})).await?;
    wait::until("a pod of a marked node is stopping", MINUTE, async || {
        cluster.marked_nodes().await?;
        ensure!(stopping_pods(cluster).await? == 1, "no pod is stopping");
        Ok(())
    })
    .await
}

async fn stopping_pods(cluster: &ControlPlane) -> Result<usize> {
    let pods = cluster.pods("default", "app=web").await?;
    Ok(pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count())
}
