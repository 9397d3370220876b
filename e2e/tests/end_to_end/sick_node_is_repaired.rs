//! A node whose condition reports for a minute that its kernel has locked up is replaced: another is bought first, and
//! the pod on it keeps running within its budget.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn node_with_a_locked_up_kernel_is_replaced_and_its_pod_moves() {
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
        let rules = json!({"spec": {"repair": [{"condition": "KernelDeadlock", "for": "1m"}]}});
        cluster.edit_pool("general", rules).await?;

        let nodes = cluster.nodes_of_pool("general").await?;
        let sick = name(nodes.first().context("the pool has no node")?);
        let since = jiff::Timestamp::now().to_string();
        let condition = json!({"status": {"conditions": [{
            "type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "lastTransitionTime": since,
        }]}});
        cluster.kubectl(&["patch", "node", &sick, "--subresource=status", "-p", &condition.to_string()])?;

        wait::until("its replacement is bought", 2 * MINUTE, async || {
            let status = cluster.pool_status("general").await?;
            let replaced = status["replacement"]["nodes"].to_string();
            ensure!(replaced.contains(&sick), "status is {status}");
            Ok(())
        })
        .await?;
        wait::until("it is gone, and both pods run on two nodes", 2 * MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left.len() == 2 && !left.contains(&sick), "nodes are {left:?}");
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;
        let status = cluster.pool_status("general").await?;
        let removed = status["decisions"]
            .as_array()
            .context("no decisions")?
            .iter()
            .any(|decision| decision["action"] == "ScaleDown" && decision["reason"] == "Unhealthy");
        ensure!(removed, "no decision says Unhealthy: {status}");
        Ok(())
    })
    .await;
}
