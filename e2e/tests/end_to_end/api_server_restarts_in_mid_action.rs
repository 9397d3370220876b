//! The API server goes away in the middle of a purchase, and again in the middle of a removal: each is finished, once.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_was_begun_is_finished_once_when_the_api_server_is_back() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        // A lease that outlasts the outage: without it the process ends and starts anew, as another test shows.
        let operator = cluster.operator().flag("--lease-seconds=60").start()?;
        operator.ready().await?;
        // A server that has just started refuses everything with 403 until it has read its roles. That costs no backoff,
        // which would last longer than this test waits.
        cluster.apply(pool("general").join_delay("4s").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        cluster.one_action_begins().await?;
        outage(cluster, &operator).await?;
        cluster.settles(7, 2).await?;

        cluster.scale_deployment("web", 3).await?;
        wait::until("a node is marked", MINUTE, async || cluster.marked_nodes().await).await?;
        outage(cluster, &operator).await?;
        cluster.settles(3, 1).await?;

        cluster.nodes_asked_for_are(2)?;
        cluster.nodes_deleted_are(1)?;
        operator.process().check_running()
    })
    .await;
}

/// The API server is killed, stays away until the operator has noticed, and comes back.
async fn outage(cluster: &ControlPlane, operator: &Operator) -> Result<()> {
    let troubles = || operator.log().matches("watch is in trouble").count();
    let before = troubles();
    let server = cluster.component(Component::ApiServer)?;
    server.kill();
    wait::until("the operator has noticed", MINUTE, async || {
        ensure!(before < troubles(), "no watch is in trouble");
        Ok(())
    })
    .await?;
    server.restart()?;
    cluster.ready(MINUTE).await
}
