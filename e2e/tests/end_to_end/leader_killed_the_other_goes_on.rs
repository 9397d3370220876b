//! Two replicas: when the leader is killed or hangs in the middle of its work the other finishes it, and only one ever writes.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;
use jiff::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_other_replica_finishes_what_a_killed_leader_began() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let replicas = two_replicas(cluster).await?;
        begin(cluster).await?;
        let (leader, standby) = by_role(cluster, &replicas)?;
        leader.kill();
        finished(cluster, 2).await?;
        standby.process().check_running()?;
        let holder = leader_name(cluster)?;
        ensure!(holder.starts_with(standby.process().name()), "{holder} leads");
        let status = cluster.pool_status("general").await?;
        let decisions = status["decisions"].as_array().context("no decisions")?;
        ensure!(decisions.len() == 1 && decisions[0]["to"] == 2, "decided anew: {}", status["decisions"]);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_hung_past_its_lease_writes_nothing_more_and_ends() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let replicas = two_replicas(cluster).await?;
        begin(cluster).await?;
        let (old, new) = by_role(cluster, &replicas)?;
        old.pause()?;
        finished(cluster, 2).await?;
        let holder = leader_name(cluster)?;
        ensure!(holder.starts_with(new.process().name()), "{holder} leads");

        // With the new leader hanging too, whatever is written now is written by the old one, and there is work
        // enough to tempt it.
        new.pause()?;
        let paused_at = Timestamp::now();
        cluster.scale_deployment("web", 20).await?;
        old.resume()?;
        let status = old.wait_exit(MINUTE).await?;
        ensure!(!status.success(), "a replica that lost its lease must say so");
        let writes = cluster.writes()?.by(User::Headroom).since(paused_at);
        let renewals = writes.clone().to("leases").accepted();
        ensure!(renewals.is_empty(), "the old leader took the lease back:\n{}", renewals.describe());
        // Not even an attempt: that the server would refuse most of them is the second line of defence.
        let attempts = writes.without("leases");
        ensure!(attempts.is_empty(), "the old leader tried to write:\n{}", attempts.describe());

        new.resume()?;
        drop(replicas);
        let fresh = cluster.operator().identity("headroom-2").flag("--lease-seconds=2").start()?;
        finished(cluster, 5).await?;
        fresh.process().check_running()
    })
    .await;
}

async fn two_replicas(cluster: &ControlPlane) -> Result<[Operator; 2]> {
    let start = |name: &str| cluster.operator().identity(name).flag("--lease-seconds=2").start();
    let replicas = [start("headroom-0")?, start("headroom-1")?];
    for replica in &replicas {
        replica.ready().await?;
    }
    wait::until("one of them leads", MINUTE, async || by_role(cluster, &replicas).map(|_| ())).await?;
    Ok(replicas)
}

/// Makes the leader decide on two nodes, and returns while the decision is written down and no node is there.
async fn begin(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(pool("general").join_delay("4s")).await?;
    cluster.apply(deployment("web").replicas(7)).await?;
    wait::until("the purchase is written down", MINUTE, async || {
        let intents = cluster.pool_status("general").await?["intents"].clone();
        ensure!(intents.as_array().is_some_and(|intents| intents.len() == 1), "intents are {intents}");
        Ok(())
    })
    .await?;
    ensure!(cluster.nodes_of_pool("general").await?.is_empty(), "the test comes too late: nodes are there");
    Ok(())
}

/// No pod waits, on exactly so many nodes, each bought once.
async fn finished(cluster: &ControlPlane, nodes: usize) -> Result<()> {
    wait::until(&format!("{nodes} nodes have all pods"), MINUTE, async || {
        let pending = cluster.pods_in_phase("default", "app=web", "Pending").await?;
        ensure!(pending == 0, "{pending} pods are pending");
        cluster.ready_nodes_are("general", nodes).await?;
        let status = cluster.pool_status("general").await?;
        ensure!(status["intents"].is_null(), "still under way: {}", status["intents"]);
        Ok(())
    })
    .await?;
    // Refused ones too: a call whose caller dies takes effect without a trace in the log.
    let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
    let asked_for = creations.names().len();
    ensure!(asked_for == nodes, "{asked_for} nodes were asked for:\n{}", creations.describe());
    Ok(())
}

/// The replica that the Lease names, and the other one.
fn by_role<'a>(cluster: &ControlPlane, replicas: &'a [Operator; 2]) -> Result<(&'a Operator, &'a Operator)> {
    let holder = leader_name(cluster)?;
    let [first, second] = replicas;
    if holder.starts_with(first.process().name()) {
        return Ok((first, second));
    }
    if holder.starts_with(second.process().name()) {
        return Ok((second, first));
    }
    bail!("{holder} leads")
}

fn leader_name(cluster: &ControlPlane) -> Result<String> {
    cluster.kubectl(&[
        "--namespace=headroom-system",
        "get",
        "lease",
        "headroom",
        "--output=jsonpath={.spec.holderIdentity}",
    ])
}
