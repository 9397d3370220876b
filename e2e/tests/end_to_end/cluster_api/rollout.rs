//! While a MachineDeployment rolls out, its nodes stay: a lower size could take a machine of either MachineSet.

use anyhow::ensure;
use e2e::cluster_api;
use e2e::wait;
use serde_json::json;

use super::{MINUTES, STAYS, cluster_api_test, grown, nodes, settles};

#[tokio::test]
async fn rollout_holds_removals_until_it_has_ended() {
    cluster_api_test(async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        grown(cluster, 3).await?;
        let before = nodes(cluster).await?;

        // Its first machine never joins, so the rollout does not get ahead.
        cluster_api::template(cluster, "lost", json!({"neverJoins": true})).await?;
        cluster_api::roll_out(cluster, "web", "lost").await?;
        cluster.scale_deployment("web", 1).await?;
        wait::until("the rollout blocks removals", MINUTES, async || {
            cluster.blocked("general", "GroupRollingOut").await
        })
        .await?;
        wait::stays("the nodes stay", STAYS, async || {
            let now = nodes(cluster).await?;
            ensure!(now == before, "nodes are {now:?}, they were {before:?}");
            ensure!(cluster_api::size(cluster, "web").await? == 3);
            let marked = cluster_api::marked(cluster).await?;
            ensure!(marked.is_empty(), "{marked:?} are marked");
            Ok(())
        })
        .await?;

        cluster_api::template(cluster, "next", json!({})).await?;
        cluster_api::roll_out(cluster, "web", "next").await?;
        settles(cluster, 1).await?;
        let left = nodes(cluster).await?;
        ensure!(left.is_disjoint(&before), "{left:?} is of the old template");
        operator.process().check_running()
    })
    .await;
}
