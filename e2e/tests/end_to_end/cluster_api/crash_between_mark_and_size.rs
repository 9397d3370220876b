//! The operator is killed between the mark and the lower size: the next one removes the same machines.

use std::time::Duration;

use anyhow::ensure;
use e2e::cluster_api;

use super::{MINUTES, SCALE, cluster_api_test, grown, pods, settles};

#[tokio::test]
async fn next_operator_removes_the_machines_that_were_marked() {
    cluster_api_test(async |cluster| {
        let first = cluster.operator().start()?;
        first.ready().await?;
        grown(cluster, 4).await?;
        first.terminate(Duration::from_secs(15)).await?;

        let doomed = cluster.operator().identity("doomed").crash_at(&format!("before {SCALE}")).start()?;
        cluster.scale_deployment("web", 2).await?;
        doomed.wait_exit(MINUTES).await?;
        ensure!(cluster_api::size(cluster, "web").await? == 4, "the size was lowered");
        ensure!(!cluster_api::marked(cluster).await?.is_empty(), "no machine is marked");
        let stay = pods(cluster).await?;

        let next = cluster.operator().identity("next").start()?;
        settles(cluster, 2).await?;
        ensure!(pods(cluster).await? == stay, "pods were disturbed: {stay:?} were to stay");
        let marked = cluster_api::marked(cluster).await?;
        ensure!(marked.is_empty(), "{marked:?} are still marked");
        next.process().check_running()
    })
    .await;
}
