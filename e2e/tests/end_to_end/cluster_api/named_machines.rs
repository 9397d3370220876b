//! A MachineDeployment grows from 0 to 20 machines and shrinks to 5: the machines of the emptied nodes leave and no other.

use anyhow::ensure;
use e2e::cluster_api;

use super::{cluster_api_test, grown, nodes, pods, settles};

#[tokio::test]
async fn group_grows_from_zero_and_only_the_emptied_machines_leave() {
    cluster_api_test(async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        grown(cluster, 20).await?;

        cluster.scale_deployment("web", 5).await?;
        e2e::wait::until("five pods are left", super::MINUTES, async || {
            cluster.running_pods_are("default", "app=web", 5).await
        })
        .await?;
        let (stay, homes) = (pods(cluster).await?, cluster.pods_by_node("app=web").await?);
        settles(cluster, 5).await?;
        ensure!(pods(cluster).await? == stay, "pods were disturbed: {stay:?} were to stay");
        ensure!(nodes(cluster).await?.iter().eq(homes.keys()), "other nodes than {homes:?} are left");
        ensure!(cluster_api::size(cluster, "web").await? == 5);
        let marked = cluster_api::marked(cluster).await?;
        ensure!(marked.is_empty(), "{marked:?} are still marked");
        operator.process().check_running()
    })
    .await;
}
