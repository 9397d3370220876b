//! The load goes and the nodes follow: empty ones at once, underused ones by eviction, down to the minimum and no lower.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_load_goes_and_the_nodes_follow() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(1, 6).quick_scale_down("2s")).await?;
        cluster.apply(deployment("web").replicas(16)).await?;
        wait::until("16 pods run on 4 nodes", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 16).await?;
            cluster.ready_nodes_are("general", 4).await
        })
        .await?;

        // What stays is one pod on each of three nodes; the fourth is left empty.
        let keepers = one_pod_of_each_node(cluster).await?;
        for pod in &keepers[..3] {
            let cost =
                json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}});
            cluster.patch("Pod", "v1", pod, cost).await?;
        }
        cluster.scale_deployment("web", 3).await?;
        wait::until("one node is left with all three pods on it", MINUTE, async || {
            cluster.ready_nodes_are("general", 1).await?;
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        wait::until("the last removal is reported as done", MINUTE, async || {
            cluster.removal_ended("general", "Done", "Underutilized").await
        })
        .await?;

        let ours = cluster.writes()?.by(User::Headroom).accepted();
        let deletions = ours.clone().to("pods").with_verb("delete").len()
            + ours.clone().to("pods").with_verb("deletecollection").len();
        ensure!(deletions == 0, "pods were deleted beside the eviction API:\n{}", ours.describe());
        // Two nodes had a pod each to move; the scheduler may have put the first one onto the second node.
        let n_evictions = ours.clone().to("pods/eviction").len();
        ensure!((2..=3).contains(&n_evictions), "{n_evictions} evictions:\n{}", ours.describe());
        ensure!(ours.clone().to("nodes").with_verb("delete").len() == 3, "{}", ours.describe());

        // Nothing runs any more, and yet the minimum is kept and reported as the reason.
        cluster.scale_deployment("web", 0).await?;
        wait::until("the minimum is reported as what keeps the last node", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 0).await?;
            cluster.blocked("general", "MinNodesReached").await
        })
        .await?;
        wait::stays("the last node", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("general", 1).await?;
            cluster.no_node_is_marked().await
        })
        .await
    })
    .await;
}

async fn one_pod_of_each_node(cluster: &e2e::control_plane::ControlPlane) -> Result<Vec<String>> {
    let by_node = cluster.pods_by_node("app=web").await?;
    ensure!(by_node.len() == 4, "pods are placed as {by_node:?}");
    Ok(by_node.into_values().filter_map(|pods| pods.into_iter().next()).collect())
}
