//! The operator dies at each point around each of its writes: the next one finishes the work and buys nothing twice.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::{Operator, OperatorBuilder};
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";
/// Number of the Deployment's pods: six pods of one CPU on nodes of four.
const PODS: u32 = 6;
const NODES: usize = 2;
/// All crashes together, which take a minute and a half on a quiet machine.
const ALL_MAX: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_crash_at_any_point_neither_buys_twice_nor_forgets() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let started = Instant::now();
        let points = cluster.folder().join("crash-points");
        want(cluster, "undisturbed").await?;
        let operator = quick(cluster).env("HEADROOM_CRASH_LOG", &points.display().to_string()).start()?;
        settled(cluster, "undisturbed").await?;
        operator.terminate(MINUTE).await?;
        clear(cluster, "undisturbed").await?;
        let points = fs::read_to_string(&points).context("the operator lists no crash points")?;
        let points: Vec<&str> = points.lines().collect();
        let creations = points.iter().filter(|point| point.ends_with("POST /api/v1/nodes")).count();
        ensure!(creations == 2 * NODES, "a point before and after each purchase is wanted: {points:#?}");

        let mut n_crashes = 0;
        for (number, point) in (1..).zip(&points) {
            let name = format!("crash-{number}");
            want(cluster, &name).await?;
            let doomed = quick(cluster).crash_at(&number.to_string()).start()?;
            if crashes(cluster, &doomed, &name).await? {
                n_crashes += 1;
            }
            drop(doomed);
            let next = quick(cluster).start()?;
            settled(cluster, &name).await.with_context(|| format!("after a crash at {point}"))?;
            drop(next);
            clear(cluster, &name).await?;
        }
        // How reports fall together differs a little from run to run, so the last points may not come.
        ensure!(points.len() <= n_crashes + 2, "{n_crashes} crashes at {} points", points.len());
        ensure!(started.elapsed() < ALL_MAX, "{} crashes took {:?}", n_crashes, started.elapsed());
        Ok(())
    })
    .await;
}

/// An operator that is soon followed by another one.
fn quick(cluster: &ControlPlane) -> OperatorBuilder {
    cluster.operator().flag("--lease-seconds=2")
}

/// A pool of two groups, and pods that only it can take.
async fn want(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.apply(pool(name).zones(&["a", "b"]).label(TIER, name)).await?;
    cluster.apply(deployment(name).replicas(PODS).node_selector(TIER, name)).await?;
    Ok(())
}

/// Waits until the operator dies at its crash point; false when it has done everything without reaching it.
async fn crashes(cluster: &ControlPlane, operator: &Operator, name: &str) -> Result<bool> {
    wait::until("the operator dies, or has done its work", MINUTE, async || {
        match operator.process().exit_status() {
            Some(_) => Ok(true),
            None => is_settled(cluster, name).await.map(|()| false),
        }
    })
    .await
}

/// All pods run, on exactly as many nodes as without a crash, each bought once, and nothing is under way any more.
async fn settled(cluster: &ControlPlane, name: &str) -> Result<()> {
    wait::until(&format!("{name} is settled"), MINUTE, async || is_settled(cluster, name).await).await?;
    // Refused ones too: a call whose caller dies takes effect without a trace in the log.
    let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
    let names = creations.names();
    let own = names.iter().filter(|node| node.starts_with(&format!("{name}-"))).count();
    ensure!(own == NODES, "{own} nodes were asked for:\n{}", creations.describe());
    Ok(())
}

async fn is_settled(cluster: &ControlPlane, name: &str) -> Result<()> {
    let selector = format!("app={name}");
    cluster.running_pods_are("default", &selector, usize::try_from(PODS)?).await?;
    cluster.ready_nodes_are(name, NODES).await?;
    let status = cluster.pool_status(name).await?;
    ensure!(status["intents"].is_null(), "still under way: {}", status["intents"]);
    ensure!(status["nodes"]["ready"] == NODES, "status counts {}", status["nodes"]);
    let decisions = status["decisions"].as_array().context("no decision is reported")?;
    let bought: i64 = decisions
        .iter()
        .filter_map(|decision| Some(decision["to"].as_i64()? - decision["from"].as_i64()?))
        .sum();
    let done = decisions.iter().all(|decision| decision["outcome"] == "Done");
    ensure!(usize::try_from(bought)? == NODES && done, "decisions are {}", status["decisions"]);
    Ok(())
}

/// Takes away what a run has left, so that the next one meets nothing of it.
async fn clear(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.delete("Deployment", "apps/v1", name).await?;
    cluster.delete("NodePool", "headroom.dev/v1alpha1", name).await?;
    // Pods first: those on a node that is gone are stopped by nobody but the pod collector, and late.
    wait::until(&format!("no pod of {name} is left"), MINUTE, async || {
        let pods = cluster.pods("default", &format!("app={name}")).await?.len();
        ensure!(pods == 0, "{pods} pods are left");
        Ok(())
    })
    .await?;
    for node in cluster.nodes_of_pool(name).await? {
        cluster.delete("Node", "v1", node.metadata.name.as_deref().unwrap_or_default()).await?;
    }
    wait::until(&format!("no node of {name} is left"), MINUTE, async || {
        let nodes = cluster.nodes_of_pool(name).await?.len();
        ensure!(nodes == 0, "{nodes} nodes are left");
        Ok(())
    })
    .await
}
