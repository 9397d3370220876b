//! A person asks for a node's removal: it goes at once, or status gives the reason why it does not.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{bare_pod, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn node_that_a_person_asked_for_goes_without_waiting_and_a_blocked_one_says_why() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // The defaults: nothing would go for ten minutes.
        cluster.apply(pool("general").nodes(3, 5)).await?;
        wait::until("three nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 3).await)
            .await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        let nodes: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
        cluster.apply(bare_pod("naked").node_name(&nodes[1])).await?;
        wait::until("the pod runs", MINUTE, async || {
            cluster.running_pods_are("default", "app=naked", 1).await
        })
        .await?;

        ask_for(cluster, &nodes[0]).await?;
        ask_for(cluster, &nodes[1]).await?;
        wait::until("the free one has gone, and no other", MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left == nodes[1..], "nodes are {left:?}");
            Ok(())
        })
        .await?;
        wait::until("the removal is reported with its reason", MINUTE, async || {
            cluster.removal_ended("general", "Done", "RemovalRequested").await
        })
        .await?;
        wait::until("status says why the other stays", MINUTE, async || {
            let row = cluster.blocked("general", "NotReplicated").await?;
            ensure!(
                row["examples"] == json!([nodes[1]]) && row["object"] == "pod/default/naked",
                "the row is {row}"
            );
            Ok(())
        })
        .await?;

        cluster.delete("Pod", "v1", "naked").await?;
        wait::until("it goes once nothing is in the way", MINUTE, async || {
            cluster.ready_nodes_are("general", 1).await
        })
        .await
    })
    .await;
}

async fn ask_for(cluster: &ControlPlane, node: &str) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"headroom.dev/remove": "requested"}}});
    cluster.patch("Node", "v1", node, change).await?;
    Ok(())
}
