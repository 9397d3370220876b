//! Nodes that go next carry a soft taint, which is taken off when they are needed again.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::{is_candidate, name};
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn node_has_it_late_in_its_time_and_loses_it_when_it_is_needed() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // The last quarter of its time is long enough to be met, and no node goes within this test.
        cluster.spread_web(pool("general").quick_scale_down("40s"), 2, 1).await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 1}})).await?;
        let candidate = wait::until("one node carries the soft taint", MINUTE, async || {
            let nodes = cluster.nodes_of_pool("general").await?;
            let tainted: Vec<String> = nodes.iter().filter(|node| is_candidate(node)).map(name).collect();
            ensure!(tainted.len() == 1, "tainted are {tainted:?}");
            Ok(tainted[0].clone())
        })
        .await?;
        // One of them has room on that node alone: both nodes are needed.
        cluster.apply(deployment("more").replicas(2).requests("2500m", "64Mi")).await?;
        wait::until("both nodes are full and none carries it", MINUTE, async || {
            cluster.running_pods_are("default", "app=more", 2).await?;
            let nodes = cluster.nodes_of_pool("general").await?;
            ensure!(nodes.len() == 2 && !nodes.iter().any(is_candidate), "node {candidate} has it");
            Ok(())
        })
        .await?;
        let writes = cluster.writes()?.by(User::Headroom).accepted().to("nodes").with_verb("patch");
        ensure!(writes.len() <= 4, "{}", writes.describe());
        operator.process().check_running()
    })
    .await;
}
