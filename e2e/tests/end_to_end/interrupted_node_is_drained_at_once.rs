//! A node with the taint of a spot interruption is cordoned and bought for within seconds, and its pod runs elsewhere before
//! the two minutes are over.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);
/// From the taint to the cordon.
const CORDON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn node_about_to_be_taken_is_cordoned_bought_for_and_drained() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(2, 5)).await?;
        // One a node, and well above the threshold.
        cluster.apply(deployment("web").requests("2500m", "1Gi").replicas(2)).await?;
        wait::until("both pods run", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;

        let nodes = cluster.nodes_of_pool("general").await?;
        let taken = name(nodes.first().context("the pool has no node")?);
        cluster.kubectl(&["taint", "node", &taken, "aws-node-termination-handler/spot-itn=1:NoSchedule"])?;
        wait::until("it is cordoned and another is wanted", CORDON, async || {
            let nodes = cluster.nodes_of_pool("general").await?;
            let node = nodes.iter().find(|node| name(node) == taken).context("it has gone")?;
            let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
            let status = cluster.pool_status("general").await?;
            let reasons: Vec<&str> = status["decisions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|decision| decision["reason"].as_str())
                .collect();
            ensure!(cordoned && reasons.contains(&"Interrupted"), "decisions are {reasons:?}");
            Ok(())
        })
        .await?;
        wait::until("it is gone, and both pods run on two others", 2 * MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left.len() == 2 && !left.contains(&taken), "nodes are {left:?}");
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;
        Ok(())
    })
    .await;
}
