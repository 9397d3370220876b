//! The API server answers late, and for a while not at all: what was begun is finished once, also by calls that land late.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::link::Link;
use e2e::wait;

/// Each way; a call on an open connection takes twice as long.
const DELAY: Duration = Duration::from_millis(300);
/// Between two steps of a removal lie some of these, so that the test sees the first before the last has been sent.
const LONG_DELAY: Duration = Duration::from_millis(1500);
/// Longer than the operator waits for one call: it gives up, and the call lands when the link is free again.
const SILENCE: Duration = Duration::from_secs(16);

#[tokio::test]
async fn late_answers_and_calls_that_land_late_neither_buy_twice_nor_forget() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let link = Link::to(cluster.api_server_port()?).await?;
        link.slow_down(DELAY);
        let operator = cluster.operator().flag("--lease-seconds=60").through(&link)?.start()?;
        operator.ready().await?;
        cluster.apply(pool("general").join_delay("8s").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        cluster.one_action_begins().await?;
        // The nodes are due in eight seconds: the calls that make them wait in the link.
        link.freeze(true);
        wait::stays("no node comes", SILENCE, async || cluster.ready_nodes_are("general", 0).await).await?;
        link.freeze(false);
        cluster.settles(7, 2).await?;

        link.slow_down(LONG_DELAY);
        cluster.scale_deployment("web", 3).await?;
        wait::until("a node is marked", Duration::from_secs(60), async || cluster.marked_nodes().await)
            .await?;
        link.freeze(true);
        let both = async || {
            let nodes = cluster.nodes_of_pool("general").await?.len();
            ensure!(nodes == 2, "{nodes} nodes are left");
            Ok(())
        };
        wait::stays("both nodes are there", SILENCE, both).await?;
        link.slow_down(DELAY);
        link.freeze(false);
        cluster.settles(3, 1).await?;

        cluster.nodes_asked_for_are(2)?;
        cluster.nodes_deleted_are(1)?;
        operator.process().check_running()
    })
    .await;
}
