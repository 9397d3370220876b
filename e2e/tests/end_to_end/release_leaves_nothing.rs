//! An uninstall leaves nothing behind: `headroom release` takes the marks off, pools and kinds can be deleted.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn release_takes_off_what_a_killed_operator_left_and_the_kinds_can_be_deleted() {
    cluster_test(Options::new().pods_stop_after(Duration::from_secs(10)), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.spread_web(pool("general").quick_scale_down("2s"), 3, 1).await?;
        // A cordon of a person's own is not ours to take off.
        let nodes = cluster.nodes_of_pool("general").await?;
        let cordoned = e2e::removal::name(&nodes[2]);
        cluster.patch("Node", "v1", &cordoned, json!({"spec": {"unschedulable": true}})).await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 2}})).await?;
        let marked = wait::until("a pod of a marked node is stopping", MINUTE, async || {
            let marked = cluster.marked_nodes().await?;
            let pods = cluster.pods("default", "app=web").await?;
            ensure!(pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_some()), "no pod is stopping");
            Ok(marked)
        })
        .await?;
        operator.kill();
        // As a killed operator leaves it on a node that would have gone next.
        let soft = json!([{"key": e2e::removal::CANDIDATE_TAINT, "effect": "PreferNoSchedule"}]);
        let unmarked =
            nodes.iter().map(e2e::removal::name).find(|name| *name != cordoned && !marked.contains(name));
        let unmarked = unmarked.context("a node without mark and cordon")?;
        cluster.patch("Node", "v1", &unmarked, json!({"spec": {"taints": soft}})).await?;

        let said = release(cluster)?;
        ensure!(said.contains("2 of 2 marked nodes released"), "release says {said}");
        no_trace_but_the_cordon(cluster, &cordoned).await?;
        let said = release(cluster)?;
        ensure!(said.contains("0 of 0 marked nodes released"), "release says {said}");

        cluster.delete("NodePool", "headroom.dev/v1alpha1", "general").await?;
        // At once: nothing holds it.
        let at_once = Duration::from_secs(10);
        cluster.is_gone("NodePool", "headroom.dev/v1alpha1", "general", at_once).await?;
        delete_kinds(cluster).await?;
        wait::until("the pods run as before", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        ensure!(cluster.nodes_of_pool("general").await?.len() == 3, "a node is missing");
        no_trace_but_the_cordon(cluster, &cordoned).await
    })
    .await;
}

/// Deletes all kinds. A busy API server may have the storage of a kind that nobody has used not open when it is to be emptied. Its
/// finalizer then forgets the kind for five minutes, or until it changes (apiextensions-apiserver 0.37, crd_finalizer.go: a conflict
/// after a failure is taken for a change by somebody else): so it is changed.
async fn delete_kinds(cluster: &ControlPlane) -> Result<()> {
    if cluster.kubectl(&["delete", "crd", "-l", "!none", "--timeout=20s"]).is_err() {
        cluster.kubectl(&["annotate", "crd", "--all", "example.com/looked-at=again"])?;
    }
    wait::until("the kinds are gone", MINUTE, async || {
        let left = cluster.kubectl(&["get", "crd", "-o", "name"])?;
        ensure!(left.is_empty(), "kinds are left: {left}");
        Ok(())
    })
    .await
}

/// Runs `headroom release` as the operator's user and returns its output.
fn release(cluster: &ControlPlane) -> Result<String> {
    let output = Command::new(binaries::operator()?)
        .arg("release")
        .env("KUBECONFIG", cluster.kubeconfig_of(User::Headroom))
        .output()
        .context("failed to run headroom release")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

async fn no_trace_but_the_cordon(cluster: &ControlPlane, cordoned: &str) -> Result<()> {
    for node in cluster.nodes().await? {
        let name = e2e::removal::name(&node);
        let traces = e2e::removal::traces(&node);
        ensure!(!e2e::removal::is_candidate(&node), "node {name} carries the soft taint");
        let expected: &[&str] = if name == cordoned { &["cordon"] } else { &[] };
        ensure!(traces == expected, "node {name} carries {traces:?}");
    }
    Ok(())
}
