//! Of two API servers one has fallen behind: an operator that comes to it, running or anew, does nothing by its old view.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::link::Link;
use e2e::wait;
use jiff::Timestamp;

/// Time in which nothing must happen.
const QUIET: Duration = Duration::from_secs(6);

#[tokio::test]
async fn nothing_is_done_by_the_view_of_a_server_that_has_fallen_behind() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let first = cluster.api_server_port()?;
        let link = Link::to(first).await?;
        let operator = cluster.operator().flag("--lease-seconds=60").through(&link)?.start()?;
        operator.ready().await?;
        cluster.apply(pool("general").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        cluster.settles(7, 2).await?;

        // From here on the second server knows of two nodes and seven pods, and hears nothing more.
        let to_etcd = Link::to(cluster.etcd_port()?).await?;
        let (second, port) = cluster.second_api_server(to_etcd.port()).await?;
        to_etcd.freeze(true);
        cluster.scale_deployment("web", 3).await?;
        cluster.settles(3, 1).await?;

        // A running operator comes to it: by what it shows, a node that is gone has room for the new pods.
        link.turn_to(port);
        let since = Timestamp::now();
        cluster.scale_deployment("web", 7).await?;
        does_nothing(cluster, since).await?;
        // And one that starts there, as after a crash, with nothing but the old view.
        operator.restart()?;
        does_nothing(cluster, since).await?;

        to_etcd.freeze(false);
        cluster.settles(7, 2).await?;
        cluster.nodes_asked_for_are(3)?;
        cluster.nodes_deleted_are(1)?;
        second.check_running()?;
        operator.process().check_running()
    })
    .await;
}

async fn does_nothing(cluster: &ControlPlane, since: Timestamp) -> Result<()> {
    wait::stays("nothing is written", QUIET, async || {
        let writes = cluster.writes()?.by(User::Headroom).since(since).without("leases").accepted();
        ensure!(writes.is_empty(), "it wrote:\n{}", writes.describe());
        Ok(())
    })
    .await
}
