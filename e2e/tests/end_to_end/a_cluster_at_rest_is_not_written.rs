//! Nothing happens, so nothing is written: five minutes of a steady cluster, by the API server's own audit log.
//!
//! It is the longest test, and its name is the first: it begins first, and nobody waits for it alone.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Time in which nothing may be written.
const IDLE: Duration = Duration::from_secs(300);
/// Without a write for this long, what was begun is over; longer than the longest pause between two plans.
const QUIET: SignedDuration = SignedDuration::from_secs(15);

#[tokio::test]
async fn a_steady_cluster_sees_no_write_for_five_minutes_but_the_lease() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        everything_that_could_tempt_it(cluster).await?;
        wait::until("the cluster is steady", 2 * MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 9).await?;
            cluster.ready_nodes_are("general", 3).await?;
            let last = own_writes(cluster)?.0.last().map(|write| write.received_at);
            let quiet = last.map(|last| Timestamp::now().duration_since(last));
            ensure!(quiet.is_some_and(|quiet| QUIET < quiet), "the last write was {quiet:?} ago");
            Ok(())
        })
        .await?;

        let steady_since = Timestamp::now();
        wait::stays("the operator runs", IDLE, async || operator.process().check_running()).await?;
        let writes = own_writes(cluster)?.since(steady_since);
        ensure!(writes.is_empty(), "{} writes in {IDLE:?}:\n{}", writes.len(), writes.describe());
        // It was alive and leading all the time: the Lease was renewed.
        let renewals = cluster.writes()?.by(User::Headroom).to("leases").since(steady_since).accepted();
        ensure!(60 <= renewals.len(), "only {} renewals", renewals.len());
        operator.get("/readyz").await?;
        Ok(())
    })
    .await;
}

/// Pods that run, pods that nobody can take, a pool at its limit, a pool in Preview with a plan, a bad pool, an empty
/// node with its clock running.
async fn everything_that_could_tempt_it(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(pool("general").zones(&["a", "b"]).label("example.com/tier", "general")).await?;
    // Nowhere else, or it fills the room beside the others' pods and needs a node less.
    cluster.apply(deployment("web").replicas(9).node_selector("example.com/tier", "general")).await?;
    cluster.apply(deployment("lost").node_selector("example.com/nowhere", "true")).await?;
    cluster.apply(pool("full").nodes(0, 1).label("example.com/tier", "full")).await?;
    cluster.apply(deployment("many").replicas(6).node_selector("example.com/tier", "full")).await?;
    cluster.apply(pool("trial").mode("Preview").label("example.com/tier", "trial")).await?;
    cluster.apply(deployment("tried").node_selector("example.com/tier", "trial")).await?;
    cluster.apply(pool("spare").nodes(0, 2).label("example.com/tier", "spare")).await?;
    cluster.apply(deployment("gone").node_selector("example.com/tier", "spare")).await?;
    let window = json!({"timeZone": "Mars/Olympus", "start": "0 8 * * 1", "duration": "1h"});
    let schedules = json!([{"name": "office", "window": window, "maxNodes": 5}]);
    cluster.apply(pool("bad").set("/spec/schedules", schedules)).await?;
    wait::until("the spare node has its pod", MINUTE, async || {
        cluster.running_pods_are("default", "app=gone", 1).await
    })
    .await?;
    cluster.scale_deployment("gone", 0).await
}

/// Returns the writes of the operator, tried ones included, its Lease apart.
fn own_writes(cluster: &ControlPlane) -> Result<e2e::audit::Writes> {
    Ok(cluster.writes()?.by(User::Headroom).without("leases"))
}
