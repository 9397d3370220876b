//! Two hundred nodes are emptied at once: they go in bulk, and never more of them at a time than the budget allows.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{cluster_policy, pool};
use e2e::harness::cluster_test;
use e2e::removal::traces;
use e2e::wait;
use serde_json::json;

const NODES: u32 = 200;
const AT_ONCE: usize = 60;

#[tokio::test]
async fn two_hundred_empty_nodes_go_within_the_budget() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(cluster_policy(json!({"nodes": {"removals": {"maxParallel": 1000}}}))).await?;
        let budget = json!([{"name": "slowly", "maxNodes": AT_ONCE}]);
        let general = pool("general").nodes(NODES, NODES).quick_scale_down("1s");
        cluster.apply(general.set("/spec/scaleDown/budgets", budget)).await?;
        wait::until("all nodes are ready", Duration::from_secs(180), async || {
            cluster.ready_nodes_are("general", usize::try_from(NODES)?).await
        })
        .await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        let mut most = 0;
        wait::until("all have gone", Duration::from_secs(180), async || {
            let nodes = cluster.nodes_of_pool("general").await?;
            let leaving = nodes.iter().filter(|node| !traces(node).is_empty()).count();
            most = most.max(leaving);
            ensure!(nodes.is_empty(), "{} are left, {leaving} of them leaving", nodes.len());
            Ok(())
        })
        .await?;
        ensure!(10 < most && most <= AT_ONCE, "{most} nodes were leaving at once");
        Ok(())
    })
    .await;
}
