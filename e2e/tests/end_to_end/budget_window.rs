//! A budget of zero holds removals while its window is open; the kill switch stops them at once and undoes drains.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{cluster_policy, pool, window};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn nodes_stay_while_the_budgets_window_is_open_and_go_when_it_is_closed() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let freeze = |open| json!([{"name": "freeze", "maxNodes": 0, "window": window(open)}]);
        let frozen = pool("general").nodes(2, 5).quick_scale_down("2s");
        cluster.apply(frozen.set("/spec/scaleDown/budgets", freeze(true))).await?;
        wait::until("two nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 2).await)
            .await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("status names the budget", MINUTE, async || {
            let row = cluster.blocked("general", "BudgetExhausted").await?;
            ensure!(row["object"] == "budget/general/freeze" && row["count"] == 2, "the row is {row}");
            Ok(())
        })
        .await?;
        wait::stays("both nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await?;

        let thaw = json!({"spec": {"scaleDown": {"budgets": freeze(false)}}});
        cluster.edit_pool("general", thaw).await?;
        wait::until("they go", MINUTE, async || cluster.ready_nodes_are("general", 0).await).await
    })
    .await;
}

#[tokio::test]
async fn kill_switch_undoes_the_drain_under_way_and_begins_no_other() {
    cluster_test(Options::new().pods_stop_after(Duration::from_secs(15)), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.spread_web(pool("general").quick_scale_down("2s"), 2, 1).await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("a pod of a marked node is stopping", MINUTE, async || {
            cluster.marked_nodes().await?;
            let pods = cluster.pods("default", "app=web").await?;
            ensure!(pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_some()), "no pod is stopping");
            Ok(())
        })
        .await?;

        switch(cluster, json!("Stopped")).await?;
        wait::until("the marks are off", Duration::from_secs(10), async || cluster.no_node_is_marked().await)
            .await?;
        wait::until("the removal is reported as taken back", Duration::from_secs(10), async || {
            cluster.removal_ended("general", "Cancelled", "DisruptionStopped").await
        })
        .await?;
        wait::until("the evicted pod's successor runs", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;
        wait::until("status says what holds removals", MINUTE, async || {
            cluster.blocked("general", "DisruptionStopped").await
        })
        .await?;
        wait::stays("both nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await?;

        switch(cluster, json!("Allowed")).await?;
        wait::until("one node goes after all", MINUTE, async || cluster.ready_nodes_are("general", 1).await)
            .await
    })
    .await;
}

async fn switch(cluster: &ControlPlane, to: Value) -> Result<()> {
    cluster.apply(cluster_policy(json!({"nodes": {"voluntaryDisruption": to}}))).await?;
    Ok(())
}
