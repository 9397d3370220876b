//! A pod of a scheduler that does not exist: no node is bought for it, and nobody is evicted because of it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{cluster_policy, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Five times `unneededFor` and more.
const SEVERAL_PERIODS: Duration = Duration::from_secs(20);

#[tokio::test]
async fn pod_that_its_scheduler_has_not_marked_buys_nothing_until_that_scheduler_is_named() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let general = pool("general").nodes(0, 5).quick_scale_down("3s");
        cluster.apply(general.set("/spec/scaleDown/delayAfterAdd", "3s")).await?;
        let foreign = deployment("gang").requests("3500m", "1Gi");
        cluster.apply(foreign.set("/spec/template/spec/schedulerName", "volcano")).await?;
        cluster.apply(deployment("web").replicas(2).requests("600m", "1Gi")).await?;
        cluster.pods_come_to_run("default", "web", 2).await?;
        let before = names(cluster).await?;

        wait::stays("one node serves the pods that can run", SEVERAL_PERIODS, async || {
            cluster.ready_nodes_are("general", 1).await?;
            ensure!(cluster.pods_in_phase("default", "app=gang", "Pending").await? == 1, "the pod has gone");
            Ok(())
        })
        .await?;
        cluster.nodes_asked_for_are(1)?;
        ensure!(names(cluster).await? == before, "pods of web were evicted");
        let evictions = cluster.writes()?.to("pods/eviction");
        ensure!(evictions.is_empty(), "evictions:\n{}", evictions.describe());

        // A user who trusts that scheduler to bind pods that it has not marked names it.
        let named = json!({"nodes": {"immediateSchedulers": ["default-scheduler", "volcano"]}});
        cluster.apply(cluster_policy(named)).await?;
        wait::until("a node is bought for it", MINUTE, async || cluster.ready_nodes_are("general", 2).await)
            .await?;
        operator.process().check_running()
    })
    .await;
}

async fn names(cluster: &ControlPlane) -> Result<Vec<String>> {
    let pods = cluster.pods("default", "app=web").await?;
    pods.into_iter().map(|pod| pod.metadata.name.context("a pod without a name")).collect()
}
