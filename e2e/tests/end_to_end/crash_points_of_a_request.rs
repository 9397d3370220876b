//! The operator dies at each point around each of its writes for a ProvisioningRequest: the next one grants it, buys nothing twice,
//! and keeps the booked room.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::operator::OperatorBuilder;
use e2e::wait;
use serde_json::{Value, json};

use crate::provisioning_request::{condition_is, request, served, status};

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";
const CLASS: &str = "atomic-scale-up.headroom.dev";
/// Six pods of one CPU on nodes of four.
const PODS: i32 = 6;
const NODES: usize = 2;
/// All crashes together, which take a minute on a quiet machine.
const ALL_MAX: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_crash_at_any_point_grants_a_request_once_and_whole() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let started = Instant::now();
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let points = cluster.folder().join("crash-points");
        ask(cluster, "undisturbed").await?;
        let operator = quick(cluster).env("HEADROOM_CRASH_LOG", &points.display().to_string()).start()?;
        granted(cluster, "undisturbed").await?;
        operator.terminate(MINUTE).await?;
        clear(cluster, "undisturbed").await?;
        let points = fs::read_to_string(&points).context("the operator lists no crash points")?;
        let points: Vec<&str> = points.lines().collect();
        let answers = points.iter().filter(|point| point.contains("/provisioningrequests/")).count();
        ensure!(2 <= answers, "a point before and after an answer is wanted: {points:#?}");

        let mut n_crashes = 0;
        for (number, point) in (1..).zip(&points) {
            let name = format!("crash-{number}");
            ask(cluster, &name).await?;
            let doomed = quick(cluster).crash_at(&number.to_string()).start()?;
            let dies = async || match doomed.process().exit_status() {
                Some(_) => Ok(true),
                None => is_granted(cluster, &name).await.map(|()| false),
            };
            if wait::until("the operator dies, or has done its work", MINUTE, dies).await? {
                n_crashes += 1;
            }
            drop(doomed);
            let next = quick(cluster).start()?;
            granted(cluster, &name).await.with_context(|| format!("after a crash at {point}"))?;
            drop(next);
            clear(cluster, &name).await?;
        }
        // How reports fall together differs a little from run to run, so the last points may not come.
        ensure!(points.len() <= n_crashes + 2, "{n_crashes} crashes at {} points", points.len());
        ensure!(started.elapsed() < ALL_MAX, "{n_crashes} crashes took {:?}", started.elapsed());
        Ok(())
    })
    .await;
}

/// An operator that is soon followed by another one.
fn quick(cluster: &ControlPlane) -> OperatorBuilder {
    cluster.operator().flag("--lease-seconds=2")
}

/// A pool of two groups, and a request for pods that only it can take.
async fn ask(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.apply(pool(name).zones(&["a", "b"]).label(TIER, name)).await?;
    cluster.apply(template(name)).await?;
    served(cluster, request(name, CLASS, name, PODS)).await
}

fn template(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "1"}}});
    let spec = json!({"nodeSelector": {TIER: name}, "containers": [container]});
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
    })
}

/// The request has its booked room, on exactly as many nodes as without a crash, each bought once.
async fn granted(cluster: &ControlPlane, name: &str) -> Result<()> {
    condition_is(cluster, name, "Provisioned", "True", "CapacityIsProvisioned").await?;
    wait::until(&format!("{name} is settled"), MINUTE, async || is_granted(cluster, name).await).await?;
    // Refused ones too: a call whose caller dies takes effect without a trace in the log.
    let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
    let names = creations.names();
    let own = names.iter().filter(|node| node.starts_with(&format!("{name}-"))).count();
    ensure!(own == NODES, "{own} nodes were asked for:\n{}", creations.describe());
    Ok(())
}

async fn is_granted(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.ready_nodes_are(name, NODES).await?;
    let of_request = status(cluster, name).await?;
    let conditions = of_request["conditions"].as_array().context("no conditions")?;
    let is = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
    ensure!(is("Accepted") && is("Provisioned"), "the request has {conditions:?}");
    ensure!(!is("BookingExpired") && !is("Failed") && !is("CapacityRevoked"), "it has {conditions:?}");
    let of_pool = cluster.pool_status(name).await?;
    ensure!(of_pool["intents"].is_null(), "still under way: {}", of_pool["intents"]);
    Ok(())
}

/// Takes away what a run has left, so that the next one meets nothing of it.
async fn clear(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.delete("ProvisioningRequest", "autoscaling.x-k8s.io/v1", name).await?;
    cluster.delete("NodePool", "headroom.dev/v1alpha1", name).await?;
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
