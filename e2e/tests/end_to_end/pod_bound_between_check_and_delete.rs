//! A pod that comes to an empty node after it was chosen and marked keeps the node, and the mark comes off.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Component, Options};
use e2e::fixtures::{bare_pod, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn pod_bound_to_a_marked_empty_node_keeps_it() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(1, 3).quick_scale_down("1s")).await?;
        wait::until("a node is ready", MINUTE, async || cluster.ready_nodes_are("general", 1).await).await?;
        cluster.component(Component::Scheduler)?.pause()?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        let marked =
            wait::until("the empty node is marked", MINUTE, async || cluster.marked_nodes().await).await?;

        // What a scheduler that had not seen the mark would do.
        let late = bare_pod("late").node_name(&marked[0]);
        cluster.create(late.set_in_pod("/spec/tolerations", json!([{"operator": "Exists"}]))).await?;
        wait::until("the mark is off", Duration::from_secs(20), async || cluster.no_node_is_marked().await)
            .await?;
        wait::until("the removal is reported as taken back", Duration::from_secs(10), async || {
            cluster.removal_ended("general", "Cancelled", "PodArrived").await?;
            let message = cluster.newest_decision("general", "ScaleDown").await?["message"].clone();
            ensure!(
                message.as_str().is_some_and(|text| text.contains("default/late")),
                "the message is {message}"
            );
            Ok(())
        })
        .await?;
        wait::stays("the node with its pod", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 1).await?;
            cluster.no_node_is_marked().await?;
            cluster.running_pods_are("default", "app=late", 1).await
        })
        .await
    })
    .await;
}
