//! etcd is put back to a backup under a running operator: it notices at once, removes nothing, and goes on from what is there.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::permissions::NAMESPACE;
use e2e::wait;
use jiff::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_restored_backup_is_noticed_and_nothing_is_removed_after_it() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        // A lease that outlasts the work on etcd: without it the process ends and starts anew.
        let operator = cluster.operator().flag("--lease-seconds=60").start()?;
        operator.ready().await?;
        cluster.apply(pool("general").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        cluster.settles(7, 2).await?;
        let backup = cluster.back_up_etcd().await?;
        let version = "jsonpath={.metadata.resourceVersion}";
        let lease = async || cluster.kubectl(&["get", "lease", "-n", NAMESPACE, "headroom", "-o", version]);
        let backed_up = lease().await?;
        cluster.scale_deployment("web", 15).await?;
        cluster.settles(15, 4).await?;
        // A backup is hours old as a rule; of one that is younger than the last renewal the lease shows nothing.
        wait::until("the lease is renewed", MINUTE, async || {
            ensure!(lease().await? != backed_up, "it is as it was backed up");
            Ok(())
        })
        .await?;

        cluster.restore_etcd(&backup).await?;
        let restored_at = Timestamp::now();
        wait::until("the operator has noticed", MINUTE, async || {
            let log = operator.log();
            ensure!(log.contains("the server went back to an older version"), "it has not");
            Ok(())
        })
        .await?;
        // Two of the nodes that it knew never were: it sees that, and buys for new pods what they need.
        cluster.settles(7, 2).await?;
        cluster.scale_deployment("web", 11).await?;
        cluster.settles(11, 3).await?;
        cluster.scale_deployment("web", 3).await?;
        wait::until("two nodes are not needed", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        wait::stays("nothing is removed", Duration::from_secs(6), async || {
            cluster.ready_nodes_are("general", 3).await?;
            cluster.no_node_is_marked().await
        })
        .await?;

        let ours = cluster.writes()?.by(User::Headroom).since(restored_at);
        let asked_for = ours.clone().to("nodes").with_verb("create").accepted();
        ensure!(asked_for.len() == 1, "nodes that were asked for:\n{}", asked_for.describe());
        ensure!(ours.clone().to("pods/eviction").is_empty(), "evictions:\n{}", ours.describe());
        operator.process().check_running()
    })
    .await;
}
