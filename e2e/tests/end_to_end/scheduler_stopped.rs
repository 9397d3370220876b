//! The scheduler stands still: pods that fit what is there buy nothing, and what is bought is bought once.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn pods_that_nobody_schedules_buy_what_they_need_and_no_more() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        run_on(cluster, 7, 2).await?;

        let scheduler = cluster.component(Component::Scheduler)?;
        scheduler.pause()?;
        // The eighth fits the second node, whoever would put it there.
        cluster.scale_deployment("web", 8).await?;
        wait::until("the eighth pod waits", MINUTE, async || {
            let pending = cluster.pods_in_phase("default", "app=web", "Pending").await?;
            ensure!(pending == 1, "{pending} pods wait");
            Ok(())
        })
        .await?;
        wait::stays("two nodes are enough", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("general", 2).await
        })
        .await?;
        cluster.scale_deployment("web", 11).await?;
        scheduler.resume()?;
        run_on(cluster, 11, 3).await?;

        cluster.nodes_asked_for_are(3)?;
        operator.process().check_running()
    })
    .await;
}

async fn run_on(cluster: &ControlPlane, pods: usize, nodes: usize) -> Result<()> {
    wait::until(&format!("{pods} pods run on {nodes} nodes"), MINUTE, async || {
        cluster.running_pods_are("default", "app=web", pods).await?;
        cluster.ready_nodes_are("general", nodes).await
    })
    .await
}
