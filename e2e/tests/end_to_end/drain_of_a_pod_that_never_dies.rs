//! A pod is evicted and never stops: the drain is given up in time, and the node takes pods again.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn drain_of_a_pod_that_never_stops_is_undone_in_time() {
    let for_ever = Duration::from_secs(3600);
    cluster_test(Options::new().pods_stop_after(for_ever), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(2, 3)).await?;
        wait::until("two nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 2).await)
            .await?;
        let stubborn = deployment("web").set_in_pod("/spec/terminationGracePeriodSeconds", 1);
        cluster.apply(stubborn).await?;
        wait::until("the pod runs", MINUTE, async || cluster.running_pods_are("default", "app=web", 1).await)
            .await?;
        let home = cluster.pods_by_node("app=web").await?.into_keys().next().unwrap_or_default();
        // A drain waits for the longest grace, whatever the pod's own is.
        let spec = json!({"minNodes": 0, "scaleDown": {"drain": {"maxGracePeriod": "10s"}}});
        cluster.edit_pool("general", json!({"spec": spec})).await?;
        let ask = json!({"metadata": {"annotations": {"headroom.dev/remove": "requested"}}});
        cluster.patch("Node", "v1", &home, ask).await?;
        wait::until("the drain has failed for the pod that did not stop", 2 * MINUTE, async || {
            cluster.removal_ended("general", "Failed", "DrainTimeout").await
        })
        .await?;
        wait::until("the marks are off, the node is there, and status says why", MINUTE, async || {
            cluster.no_node_is_marked().await?;
            let blocked = cluster.pool_status("general").await?["blocked"].clone();
            let cooling =
                blocked.as_array().is_some_and(|rows| rows.iter().any(|row| row["reason"] == "InCooldown"));
            ensure!(cooling, "blocked is {blocked}");
            let nodes = cluster.nodes_of_pool("general").await?;
            ensure!(nodes.iter().any(|node| e2e::removal::name(node) == home), "node {home} has gone");
            Ok(())
        })
        .await
    })
    .await;
}
