//! A large node runs what a small one could: the small one is bought first, and the large one leaves when it is ready.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, disruption_budget, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn cheaper_node_is_bought_first_and_the_other_leaves_within_budgets() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let cheapest = |name: &str, price: &str| {
            pool(name)
                .quick_scale_down("1s")
                .set("/spec/price/perHour", price)
                .set("/spec/scaleDown/policy", "WhenCheaper")
                .set("/spec/scaleDown/consolidateAfter", "0s")
        };
        cluster.apply(cheapest("large", "0.8").capacity("16", "64Gi").nodes(1, 5)).await?;
        cluster.apply(deployment("web").replicas(3)).await?;
        cluster.apply(disruption_budget("web", 2)).await?;
        wait::until("three pods run on a large node", MINUTE, async || {
            cluster.ready_nodes_are("large", 1).await?;
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;

        cluster.apply(cheapest("small", "0.2").nodes(0, 5)).await?;
        cluster.edit_pool("large", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("the small node has taken over", MINUTE, async || {
            cluster.ready_nodes_are("small", 1).await?;
            cluster.ready_nodes_are("large", 0).await?;
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        let bought = cluster.newest_decision("small", "ScaleUp").await?;
        ensure!(bought["reason"] == "CheaperNodes", "the decision is {bought}");
        wait::until("both are reported as done", MINUTE, async || {
            cluster.removal_ended("large", "Done", "Consolidated").await?;
            let status = cluster.pool_status("small").await?;
            ensure!(status["replacement"].is_null(), "still open: {}", status["replacement"]);
            Ok(())
        })
        .await?;
        let ours = cluster.writes()?.by(User::Headroom).accepted();
        ensure!(ours.clone().to("pods").is_empty(), "pods were written to:\n{}", ours.describe());
        let n_evictions = ours.to("pods/eviction").len();
        ensure!(n_evictions == 3, "{n_evictions} evictions");
        Ok(())
    })
    .await;
}
