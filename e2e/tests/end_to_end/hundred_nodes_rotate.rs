//! A hundred nodes with a thousand pods get a new template: in half an hour all are replaced, no pod waits for room, every workload
//! keeps what its budget promises, and an operator that is killed again and again buys nothing twice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{cluster_policy, deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

const NODES: u32 = 100;
const APPS: u32 = 10;
/// Ten on a node of four cores.
const PODS_OF_APP: u32 = 100;
/// Pods that the budgets of all apps let be down together, a fifth of each.
const AVAILABLE_OF_APP: usize = 80;
const MINUTE: Duration = Duration::from_secs(60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
const BETWEEN_KILLS: Duration = Duration::from_secs(45);

#[tokio::test]
#[ignore = "takes a quarter of an hour; in make soak-tests"]
async fn soak_hundred_nodes_rotate_in_half_an_hour_and_nobody_waits() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let mut operator = fill(cluster).await?;
        let change =
            json!({"spec": {"rotation": {"drift": "Replace"}, "template": {"labels": {"image": "next"}}}});
        cluster.edit_pool("general", change).await?;
        let (started, mut killed_at, mut kills) = (Instant::now(), Instant::now(), 0);
        while !is_over(cluster).await? {
            ensure!(
                started.elapsed() < HALF_AN_HOUR,
                "the rotation is not over after {:?}",
                started.elapsed()
            );
            nobody_waits(cluster).await?;
            if BETWEEN_KILLS < killed_at.elapsed() {
                operator.kill();
                operator = start(cluster).await?;
                (killed_at, kills) = (Instant::now(), kills + 1);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
        let made = creations.names().len();
        println!(
            "{NODES} nodes were replaced in {:?}, over {kills} kills; {made} were made in all",
            started.elapsed()
        );
        // The first hundred are pods' own.
        ensure!(
            made == usize::try_from(2 * NODES)?,
            "{made} nodes were asked for:\n{}",
            creations.describe()
        );
        ensure!(2 < kills, "the operator was killed {kills} times");
        operator.process().check_running()
    })
    .await;
}

async fn start(cluster: &ControlPlane) -> Result<Operator> {
    let operator = cluster.operator().flag("--lease-seconds=2").start()?;
    operator.ready().await?;
    Ok(operator)
}

/// Ten apps of a hundred pods on a hundred full nodes.
async fn fill(cluster: &ControlPlane) -> Result<Operator> {
    let at_once = json!({"nodes": {"removals": {"maxParallel": 10, "maxParallelDrains": 10}}});
    cluster.apply(cluster_policy(at_once)).await?;
    let budget = json!([{"name": "rotation", "maxNodes": "10%", "reasons": ["Drifted"]}]);
    cluster.apply(pool("general").nodes(0, NODES + 20).set("/spec/scaleDown/budgets", budget)).await?;
    for app in 0..APPS {
        let name = format!("app-{app}");
        cluster.apply(deployment(&name).requests("400m", "1Gi").replicas(PODS_OF_APP)).await?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": "20%", "selector": {"matchLabels": {"app": name}}},
        });
        cluster.apply(budget).await?;
    }
    let operator = start(cluster).await?;
    wait::until("a hundred nodes are full", 5 * MINUTE, async || {
        cluster.ready_nodes_are("general", usize::try_from(NODES)?).await?;
        for app in 0..APPS {
            let all = usize::try_from(PODS_OF_APP)?;
            cluster.running_pods_are("default", &format!("app=app-{app}"), all).await?;
        }
        Ok(())
    })
    .await?;
    Ok(operator)
}

/// True once all nodes are of the new template, and as many as before.
async fn is_over(cluster: &ControlPlane) -> Result<bool> {
    let label = |node: &Node| node.metadata.labels.as_ref()?.get("image").cloned();
    let nodes = cluster.nodes_of_pool("general").await?;
    let next = nodes.iter().filter(|node| label(node).as_deref() == Some("next")).count();
    Ok(next == nodes.len() && nodes.len() == usize::try_from(NODES)?)
}

/// No pod was found no place for, and of each app as many are ready as its budget promises.
async fn nobody_waits(cluster: &ControlPlane) -> Result<()> {
    let pods = cluster.pods("default", "").await?;
    let condition = |pod: &Pod, kind: &str| {
        let all = pod.status.as_ref()?.conditions.as_ref()?;
        all.iter().find(|one| one.type_ == kind).map(|one| one.status.clone())
    };
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let waiting: Vec<String> = pods
        .iter()
        .filter(|pod| condition(pod, "PodScheduled").as_deref() == Some("False"))
        .map(name)
        .collect();
    ensure!(waiting.is_empty(), "pods wait for room: {waiting:?}");
    for app in 0..APPS {
        let label = format!("app-{app}");
        let own = |pod: &&Pod| pod.metadata.labels.as_ref().and_then(|all| all.get("app")) == Some(&label);
        let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        let is_ready = |pod: &&Pod| condition(pod, "Ready").as_deref() == Some("True");
        let ready = pods.iter().filter(own).filter(stays).filter(is_ready).count();
        ensure!(AVAILABLE_OF_APP <= ready, "{ready} pods of {label} are ready");
    }
    pods.first().context("there are no pods").map(drop)
}
