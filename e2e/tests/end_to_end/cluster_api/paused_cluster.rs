//! Nothing of a paused Cluster is changed, neither sizes nor marks; afterwards the removal is made up for.

use anyhow::ensure;
use e2e::cluster_api;
use e2e::wait;

use super::{MINUTES, STAYS, cluster_api_test, grown, settles};

#[tokio::test]
async fn paused_cluster_neither_shrinks_nor_grows() {
    cluster_api_test(async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        grown(cluster, 2).await?;

        cluster_api::pause(cluster, true).await?;
        cluster.pool_condition_wait("general", "ProviderDegraded", "True").await?;
        cluster.scale_deployment("web", 1).await?;
        wait::until("the pause blocks removals", MINUTES, async || {
            cluster.blocked("general", "GroupPaused").await
        })
        .await?;
        let stays = async || {
            let now = cluster_api::size(cluster, "web").await?;
            ensure!(now == 2, "its size is {now}");
            let marked = cluster_api::marked(cluster).await?;
            ensure!(marked.is_empty(), "{marked:?} are marked");
            Ok(())
        };
        wait::stays("it does not shrink", STAYS, stays).await?;
        cluster.scale_deployment("web", 3).await?;
        wait::stays("it does not grow", STAYS, stays).await?;

        cluster_api::pause(cluster, false).await?;
        settles(cluster, 3).await?;
        cluster.scale_deployment("web", 1).await?;
        settles(cluster, 1).await?;
        operator.process().check_running()
    })
    .await;
}
