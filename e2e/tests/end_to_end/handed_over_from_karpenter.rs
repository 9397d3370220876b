//! Nodes of a real Karpenter are handed over to Headroom by the steps of docs/migration.md, whose commands are read from the page
//! and run: no pod moves, no node goes, and from then on Headroom buys and removes.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::cluster::is_ready;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{Workload, deployment};
use e2e::harness::cluster_test;
use e2e::karpenter::{self, Karpenter};
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
/// The pods of a node of four CPUs: ten of 380m leave no room for another one.
const PODS_OF_NODE: u32 = 10;
const SECTION: &str = "### Hand over the nodes as they are";

#[tokio::test]
async fn twenty_nodes_with_two_hundred_pods_change_hands() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        hand_over(cluster, 20, Duration::from_secs(10)).await
    })
    .await;
}

#[tokio::test]
#[ignore = "more than half an hour; in make soak-tests"]
async fn soak_hundred_nodes_with_a_thousand_pods_change_hands() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        hand_over(cluster, 100, HALF_AN_HOUR).await
    })
    .await;
}

/// Hands `count` full nodes over, watches them for `watched`, and has Headroom buy and remove.
async fn hand_over(cluster: &ControlPlane, count: u32, watched: Duration) -> Result<()> {
    let n_nodes = usize::try_from(count)?;
    let operator = cluster.operator().start()?;
    operator.ready().await?;
    let karpenter = Karpenter::start(cluster, &[("c-4", 4, 16)]).await?;
    karpenter.serve(cluster, karpenter::node_pool("general", 4, 16)).await?;
    fill(cluster, count).await?;
    let (pods, nodes) = (uids_of_pods(cluster).await?, names_of_nodes(cluster).await?);
    ensure!(nodes.len() == n_nodes, "Karpenter made {} nodes, not {count}", nodes.len());

    // Step 1, then 2, for which a process of the test stands in the place of the Deployment.
    let (began, since) = (Instant::now(), Timestamp::now());
    for pool in printed(cluster)? {
        cluster.apply(pool).await?;
    }
    cluster.pool_condition_wait("general", "Ready", "True").await?;
    karpenter.stop().await?;
    let (release, delete) =
        (commands("finalizers\":null,\"ownerReferences")?, commands("nodeclaims.karpenter.sh -l")?);
    run(cluster, &release)?;
    let marks = cluster.kubectl(&["get", "nodes", "-l", "headroom-move=general", "-o", "yaml"])?;
    let left: Vec<&str> = marks.lines().filter(|line| line.trim().starts_with("karpenter.sh/")).collect();
    ensure!(left.is_empty(), "marks of Karpenter are left: {left:?}");
    run(cluster, &delete)?;
    run(cluster, &commands("headroom.dev/group")?)?;
    let no_delays = json!({"delayAfterAdd": "0s", "delayAfterDelete": "0s"});
    cluster.edit_pool("general", json!({"spec": {"mode": "Apply", "scaleDown": no_delays}})).await?;
    wait::until("the pool counts the nodes", MINUTE, async || {
        let status = cluster.pool_status("general").await?;
        ensure!(status["nodes"]["ready"] == count, "the status is {status}");
        Ok(())
    })
    .await?;
    let took = began.elapsed();
    // With other pools it would go on.
    karpenter.process().restart()?;

    wait::stays("every pod and node", watched, async || {
        ensure!(uids_of_pods(cluster).await? == pods, "pods have changed");
        ensure!(names_of_nodes(cluster).await? == nodes, "nodes have changed");
        karpenter.process().check_running()?;
        nothing_went(cluster, since)
    })
    .await?;
    println!(
        "{count} nodes with {} pods changed hands in {took:?} and were watched for {watched:?}",
        pods.len()
    );
    buys_and_removes(cluster, count, &nodes).await?;
    operator.process().check_running()
}

/// Pods for all nodes but one, and pods that fill the last one and can be taken away.
async fn fill(cluster: &ControlPlane, count: u32) -> Result<()> {
    for (app, pods, nodes) in [("web", (count - 1) * PODS_OF_NODE, count - 1), ("alone", PODS_OF_NODE, count)]
    {
        cluster.apply(filling(app, pods)).await?;
        all_run(cluster, app, pods).await?;
        // Of a burst it makes a node more now and then, which it takes back by itself.
        let what = format!("Karpenter keeps {nodes} nodes");
        wait::until(&what, 5 * MINUTE, async || {
            let made = karpenter::nodes(cluster).await?;
            let n_ready = made.iter().filter(|node| is_ready(node)).count();
            ensure!(
                n_ready == usize::try_from(nodes)? && n_ready == made.len(),
                "{n_ready} of {}",
                made.len()
            );
            Ok(())
        })
        .await?;
        all_run(cluster, app, pods).await?;
    }
    Ok(())
}

fn filling(name: &str, replicas: u32) -> Workload {
    deployment(name).replicas(replicas).requests("380m", "1Gi")
}

async fn all_run(cluster: &ControlPlane, app: &str, count: u32) -> Result<()> {
    let selector = format!("app={app}");
    wait::until(&format!("{count} pods of {app} run"), 5 * MINUTE, async || {
        cluster.running_pods_are("default", &selector, usize::try_from(count)?).await
    })
    .await
}

/// Objects that the import prints, without what step 1 takes out.
fn printed(cluster: &ControlPlane) -> Result<Vec<Value>> {
    let text = cluster.headroom(&["import", "karpenter", "--live", "--preview"])?;
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(&text).context("failed to read what was printed")?;
    for object in &mut objects {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("rotation");
        }
    }
    Ok(objects)
}

/// The commands of the one block of the section that has this text.
fn commands(part: &str) -> Result<String> {
    let page = std::fs::read_to_string(repository().join("docs/migration.md"))?;
    let section = page.split(SECTION).nth(1).context("the page has no such section")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let found: Vec<&str> = blocks.filter(|block| block.contains(part)).collect();
    ensure!(found.len() == 1, "{} blocks have {part}", found.len());
    Ok(found.concat())
}

/// Runs commands of the page as a person would, with the kubectl of the control plane.
fn run(cluster: &ControlPlane, commands: &str) -> Result<()> {
    let kubectl = cluster.kubectl_path();
    let tools = kubectl.parent().context("kubectl has no folder")?;
    let path = format!("{}:{}", tools.display(), std::env::var("PATH")?);
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", commands])
        .env("PATH", path)
        .env("KUBECONFIG", cluster.kubeconfig());
    let output = shell.output().context("failed to run bash")?;
    ensure!(output.status.success(), "{commands}ended with {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Errors if a pod was evicted or deleted, or a node deleted, by anybody since then.
fn nothing_went(cluster: &ControlPlane, since: Timestamp) -> Result<()> {
    let writes = cluster.writes()?.since(since);
    let evictions = writes.clone().to("pods/eviction");
    ensure!(evictions.is_empty(), "pods were evicted:\n{}", evictions.describe());
    for resource in ["pods", "nodes"] {
        let deletions = writes.clone().to(resource).with_verb("delete");
        ensure!(deletions.is_empty(), "{resource} were deleted:\n{}", deletions.describe());
    }
    Ok(())
}

/// More pods get a node of Headroom's, which goes with them; so does one that Karpenter made, once it is empty.
async fn buys_and_removes(cluster: &ControlPlane, count: u32, old: &BTreeSet<String>) -> Result<()> {
    cluster.apply(filling("late", PODS_OF_NODE)).await?;
    all_run(cluster, "late", PODS_OF_NODE).await?;
    let bought = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
    ensure!(bought.names().len() == 1, "Headroom bought\n{}", bought.describe());
    cluster.scale_deployment("late", 0).await?;
    cluster.scale_deployment("alone", 0).await?;
    wait::until("both empty nodes go", 5 * MINUTE, async || {
        let left = names_of_nodes(cluster).await?;
        ensure!(left.len() == usize::try_from(count - 1)?, "{} nodes are left", left.len());
        ensure!(left.is_subset(old), "the nodes are {left:?}");
        Ok(())
    })
    .await?;
    let removed = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("delete").accepted();
    ensure!(removed.names().len() == 2, "Headroom removed\n{}", removed.describe());
    all_run(cluster, "web", (count - 1) * PODS_OF_NODE).await
}

async fn uids_of_pods(cluster: &ControlPlane) -> Result<BTreeSet<String>> {
    let pods = cluster.pods("default", "").await?;
    Ok(pods.into_iter().filter_map(|pod| pod.metadata.uid).collect())
}

async fn names_of_nodes(cluster: &ControlPlane) -> Result<BTreeSet<String>> {
    Ok(cluster.nodes().await?.into_iter().filter_map(|node| node.metadata.name).collect())
}
