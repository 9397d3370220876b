//! MachineHealthChecks delete Machines and MachineSets replace them: nothing is bought for that, and no other node leaves.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use e2e::cluster_api::{self, NAMESPACE};
use e2e::wait;

use super::health_check::{breaks, replaced};
use super::{MINUTES, STAYS, cluster_api_test, grown, nodes, pods, settles};

#[tokio::test]
async fn machine_that_a_health_check_replaces_is_neither_bought_for_nor_followed_by_another() {
    cluster_api_test(async |cluster| {
        cluster_api::health_check(cluster).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        grown(cluster, 3).await?;
        let (before, pods_before) = (nodes(cluster).await?, pods(cluster).await?);
        let homes = cluster.pods_by_node("app=web").await?;
        let (sick, moved) = homes.iter().next().context("no node has a pod")?;

        // Its deletion waits until status has been read.
        let hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/test";
        let annotate = async |change: &str| {
            cluster.kubectl(&["annotate", "machine", sick, "--namespace", NAMESPACE, change]).map(|_| ())
        };
        annotate(&format!("{hook}=test")).await?;
        breaks(cluster, sick).await?;
        wait::until("status counts a node that leaves", MINUTES, async || {
            let counts = cluster.pool_status("general").await?["nodes"].clone();
            ensure!(counts["deleting"] == 1 && counts["desired"] == 3, "it counts {counts}");
            Ok(())
        })
        .await?;
        annotate(&format!("{hook}-")).await?;
        replaced(cluster, sick, 3).await?;
        settles(cluster, 3).await?;
        let now = nodes(cluster).await?;
        ensure!(before.difference(&now).eq([sick]), "of {before:?} only {sick} may go, there are {now:?}");
        let stay: BTreeSet<String> = pods_before.into_iter().filter(|pod| !moved.contains(pod)).collect();
        ensure!(stay.is_subset(&pods(cluster).await?), "pods of other nodes were disturbed: {stay:?}");
        wait::stays("nothing is bought or removed besides", STAYS, async || {
            let size = cluster_api::size(cluster, "web").await?;
            ensure!(size == 3, "its size is {size}");
            ensure!(nodes(cluster).await? == now, "nodes were {now:?}");
            let decisions = cluster.pool_status("general").await?["decisions"].clone();
            let actions = decisions.as_array().map_or(0, Vec::len);
            ensure!(actions == 1, "one purchase was all there was to do: {decisions}");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
