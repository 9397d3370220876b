//! A MachineHealthCheck deletes the very machine that is marked to leave. Lowering the size for it would take another node.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster_api::{self, NAMESPACE};
use e2e::wait;

use super::{MINUTES, SCALE, cluster_api_test, grown, nodes, pods, settles};

#[tokio::test]
async fn health_check_that_takes_the_marked_machine_costs_no_other_node() {
    cluster_api_test(async |cluster| {
        cluster_api::health_check(cluster).await?;
        let first = cluster.operator().start()?;
        first.ready().await?;
        grown(cluster, 3).await?;
        first.terminate(Duration::from_secs(15)).await?;

        // The operator marks the victim and is killed before it lowers the size.
        let doomed = cluster.operator().identity("doomed").crash_at(&format!("before {SCALE}")).start()?;
        cluster.scale_deployment("web", 2).await?;
        doomed.wait_exit(MINUTES).await?;
        let (stay, before) = (pods(cluster).await?, nodes(cluster).await?);
        let homes = cluster.pods_by_node("app=web").await?;
        let victim = before.iter().find(|node| !homes.contains_key(*node)).context("no node is empty")?;
        ensure!(!cluster_api::marked(cluster).await?.is_empty(), "no machine is marked");

        // The machine has the name of its node. By this annotation a MachineHealthCheck replaces it at once.
        let remediate = "cluster.x-k8s.io/remediate-machine=";
        cluster.kubectl(&["annotate", "machine", victim, "--namespace", NAMESPACE, remediate])?;
        wait::until("another machine is in its place", MINUTES, async || {
            let now = nodes(cluster).await?;
            ensure!(now.len() == 3 && !now.contains(victim), "nodes are {now:?}");
            Ok(())
        })
        .await?;

        let next = cluster.operator().identity("next").start()?;
        settles(cluster, 2).await?;
        ensure!(pods(cluster).await? == stay, "pods were disturbed: {stay:?} were to stay");
        ensure!(cluster_api::size(cluster, "web").await? == 2);
        next.process().check_running()
    })
    .await;
}
