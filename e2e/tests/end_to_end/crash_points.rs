//! The operator dies at each point around each of its writes: the next one finishes the work and buys nothing twice.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::OperatorBuilder;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);
/// The label by which the pods of a run are kept to its pool.
pub(crate) const TIER: &str = "example.com/tier";
/// Number of pods of one CPU that each run is for, on nodes of four.
pub(crate) const PODS: u32 = 6;
/// Nodes for them.
pub(crate) const NODES: usize = 2;
/// All crashes together, which take a minute and a half on a quiet machine.
const ALL_MAX: Duration = Duration::from_secs(300);

/// Work in which operators die. Each run of it has a name, which its pool has too.
pub(crate) trait Work {
    /// Asks for it, with the pool there.
    async fn ask(&self, cluster: &ControlPlane, name: &str) -> Result<()>;

    /// For [`wait::until`]: errors unless everything is done, its nodes and intents apart.
    async fn is_done(&self, cluster: &ControlPlane, name: &str) -> Result<()>;

    /// Deletes the object by which it was asked for.
    async fn withdraw(&self, cluster: &ControlPlane, name: &str) -> Result<()>;

    /// Errors unless the crash points of an undisturbed run are those that the test is about.
    fn check_points(&self, points: &[&str]) -> Result<()>;
}

/// Does the work undisturbed to list the crash points, and once more for each of them: an operator dies there, and the next one
/// goes on.
pub(crate) async fn survives_every_crash(cluster: &ControlPlane, work: &impl Work) -> Result<()> {
    let started = Instant::now();
    let points = cluster.folder().join("crash-points");
    want(cluster, work, "undisturbed").await?;
    let operator = quick(cluster).env("HEADROOM_CRASH_LOG", &points.display().to_string()).start()?;
    settled(cluster, work, "undisturbed").await?;
    operator.terminate(MINUTE).await?;
    clear(cluster, work, "undisturbed").await?;
    let points = fs::read_to_string(&points).context("the operator lists no crash points")?;
    let points: Vec<&str> = points.lines().collect();
    work.check_points(&points)?;

    let mut crashed = BTreeSet::new();
    for (number, point) in (1..).zip(&points) {
        let name = format!("crash-{number}");
        let log = cluster.folder().join(format!("{name}-points"));
        want(cluster, work, &name).await?;
        let doomed = quick(cluster)
            .crash_at(&number.to_string())
            .env("HEADROOM_CRASH_LOG", &log.display().to_string())
            .start()?;
        // The work may be done without reaching the point.
        let dies = async || match doomed.process().exit_status() {
            Some(_) => Ok(true),
            None => is_settled(cluster, work, &name).await.map(|()| false),
        };
        if wait::until("the operator dies, or has done its work", MINUTE, dies).await? {
            let reached =
                fs::read_to_string(&log).context("the operator died before it listed its crash points")?;
            crashed.extend(reached.lines().last().map(|point| kind(point, &name)));
        }
        drop(doomed);
        let next = quick(cluster).start()?;
        settled(cluster, work, &name).await.with_context(|| format!("after a crash at {point}"))?;
        drop(next);
        clear(cluster, work, &name).await?;
    }
    // How reports fall together differs from run to run, so the last numbers may not come; each kind of write does.
    let kinds: BTreeSet<String> = points.iter().map(|point| kind(point, "undisturbed")).collect();
    let missed: Vec<&String> = kinds.difference(&crashed).collect();
    ensure!(missed.is_empty(), "no operator died {missed:?}, but {crashed:?}");
    ensure!(started.elapsed() < ALL_MAX, "{} crashes took {:?}", points.len(), started.elapsed());
    Ok(())
}

/// Side and operation of a crash point, as those of any run of the work.
fn kind(point: &str, name: &str) -> String {
    let operation = point.split_once(' ').map_or(point, |(_number, operation)| operation);
    operation.replace(name, "RUN")
}

/// An operator that is soon followed by another one.
fn quick(cluster: &ControlPlane) -> OperatorBuilder {
    cluster.operator().flag("--lease-seconds=2")
}

/// A pool of two groups, and work that only it can take.
async fn want(cluster: &ControlPlane, work: &impl Work, name: &str) -> Result<()> {
    cluster.apply(pool(name).zones(&["a", "b"]).label(TIER, name)).await?;
    work.ask(cluster, name).await
}

/// All is done, on exactly as many nodes as without a crash, each bought once, and nothing is under way any more.
async fn settled(cluster: &ControlPlane, work: &impl Work, name: &str) -> Result<()> {
    let what = format!("{name} is settled");
    wait::until(&what, MINUTE, async || is_settled(cluster, work, name).await).await?;
    // Refused ones too: a call whose caller dies takes effect without a trace in the log.
    let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
    let names = creations.names();
    let own = names.iter().filter(|node| node.starts_with(&format!("{name}-"))).count();
    ensure!(own == NODES, "{own} nodes were asked for:\n{}", creations.describe());
    Ok(())
}

async fn is_settled(cluster: &ControlPlane, work: &impl Work, name: &str) -> Result<()> {
    work.is_done(cluster, name).await?;
    cluster.ready_nodes_are(name, NODES).await?;
    let status = cluster.pool_status(name).await?;
    ensure!(status["intents"].is_null(), "still under way: {}", status["intents"]);
    Ok(())
}

/// Takes away what a run has left, so that the next one meets nothing of it.
async fn clear(cluster: &ControlPlane, work: &impl Work, name: &str) -> Result<()> {
    work.withdraw(cluster, name).await?;
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

/// Pods of a Deployment that wait for nodes.
struct Pods;

impl Work for Pods {
    async fn ask(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        cluster.apply(deployment(name).replicas(PODS).node_selector(TIER, name)).await?;
        Ok(())
    }

    async fn is_done(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        let selector = format!("app={name}");
        cluster.running_pods_are("default", &selector, usize::try_from(PODS)?).await?;
        let status = cluster.pool_status(name).await?;
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

    async fn withdraw(&self, cluster: &ControlPlane, name: &str) -> Result<()> {
        cluster.delete("Deployment", "apps/v1", name).await
    }

    fn check_points(&self, points: &[&str]) -> Result<()> {
        let creations = points.iter().filter(|point| point.ends_with("POST /api/v1/nodes")).count();
        ensure!(creations == 2 * NODES, "a point before and after each purchase is wanted: {points:#?}");
        Ok(())
    }
}

#[tokio::test]
async fn a_crash_at_any_point_neither_buys_twice_nor_forgets() {
    cluster_test(Options::new().with_audit_log(), async |cluster| survives_every_crash(cluster, &Pods).await)
        .await;
}
