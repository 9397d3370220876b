//! A Preview pool beside an Apply pool touches nothing and reports what it would do; an Apply pool is never held up by it.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn preview_pool_reports_what_it_would_add_and_adds_nothing() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // The shadow is preferred by its priority, and yet takes no pod from the pool that acts.
        cluster.apply(pool("shadow").nodes(0, 5).mode("Preview").priority(100)).await?;
        cluster.apply(pool("general").nodes(0, 1)).await?;
        cluster.apply(deployment("web").replicas(12)).await?;
        wait::until("the pool that acts does what it can", MINUTE, async || {
            cluster.ready_nodes_are("general", 1).await?;
            cluster.running_pods_are("default", "app=web", 4).await
        })
        .await?;
        wait::until("the shadow reports what it would add for the rest", MINUTE, async || {
            let plan = cluster.pool_status("shadow").await?["preview"].clone();
            ensure!(
                plan["addNodes"] == 2 && plan["reason"] == "PodsUnschedulable",
                "the shadow's plan is {plan}"
            );
            Ok(())
        })
        .await?;
        wait::stays("no node of the shadow", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("shadow", 0).await
        })
        .await?;
        let creates = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
        ensure!(creates.len() == 1, "nodes were created:\n{}", creates.describe());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn preview_pool_reports_what_it_would_remove_and_writes_to_no_node() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("shadow").nodes(2, 5).quick_scale_down("2s")).await?;
        cluster.apply(pool("general").nodes(1, 5).quick_scale_down("2s")).await?;
        wait::until("all nodes are ready", MINUTE, async || {
            cluster.ready_nodes_are("shadow", 2).await?;
            cluster.ready_nodes_are("general", 1).await
        })
        .await?;
        let shadows: Vec<String> = cluster.nodes_of_pool("shadow").await?.iter().map(name).collect();
        cluster.edit_pool("shadow", json!({"spec": {"mode": "Preview", "minNodes": 0}})).await?;
        wait::until("the shadow reports what it would remove", MINUTE, async || {
            let plan = cluster.pool_status("shadow").await?["preview"].clone();
            ensure!(plan["removeNodes"] == 2 && plan["reason"] == "Empty", "the shadow's plan is {plan}");
            Ok(())
        })
        .await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("the pool that acts shrinks", MINUTE, async || {
            cluster.ready_nodes_are("general", 0).await?;
            cluster.ready_nodes_are("shadow", 2).await
        })
        .await?;
        for node in &shadows {
            let writes = cluster.writes()?.by(User::Headroom).to("nodes").named(node);
            let touched = writes.clone().with_verb("patch").len() + writes.clone().with_verb("delete").len();
            ensure!(touched == 0, "the shadow's node was written:\n{}", writes.describe());
        }
        Ok(())
    })
    .await;
}
