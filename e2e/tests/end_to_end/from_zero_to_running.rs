//! The first test of a user: a pool, a Deployment that does not fit, nodes that arrive, and status that gives the
//! reason.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn pods_get_exactly_the_nodes_they_need_and_kubectl_says_why() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").capacity("4", "16Gi").nodes(0, 10)).await?;
        cluster.apply(deployment("web").replicas(7).requests("1", "1Gi")).await?;
        web_runs_on(cluster, 7, 2).await?;
        last_decision_is(cluster, 0, 2).await?;
        kubectl_shows_the_purchase(cluster)?;

        cluster.scale_deployment("web", 9).await?;
        web_runs_on(cluster, 9, 3).await?;
        last_decision_is(cluster, 2, 3).await?;
        wait::stays("the pool has three nodes", Duration::from_secs(3), async || {
            cluster.ready_nodes_are("general", 3).await
        })
        .await?;

        let status = cluster.pool_status("general").await?;
        let n_decisions = status["decisions"].as_array().map_or(0, Vec::len);
        ensure!(n_decisions == 2, "one decision a purchase is wanted: {}", status["decisions"]);
        cluster.pool_condition_is("general", "Ready", "True", "Accepted").await?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_pool_is_filled_to_its_minimum_without_any_pod() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("warm").zones(&["a", "b"]).nodes(3, 5)).await?;
        wait::until("three nodes are ready", MINUTE, async || cluster.ready_nodes_are("warm", 3).await)
            .await?;
        wait::until("status says why", MINUTE, async || {
            let status = cluster.pool_status("warm").await?;
            let decisions = status["decisions"].as_array().context("no decisions yet")?;
            let why = decisions.iter().all(|decision| decision["reason"] == "BelowMinNodes");
            ensure!(why && !decisions.is_empty(), "{}", status["decisions"]);
            ensure!(status["nodes"]["desired"] == 3 && status["nodes"]["ready"] == 3, "{}", status["nodes"]);
            Ok(())
        })
        .await
    })
    .await;
}

/// So many pods of web run, on exactly so many nodes of the pool.
async fn web_runs_on(cluster: &ControlPlane, pods: usize, nodes: usize) -> Result<()> {
    wait::until(&format!("{pods} pods run on {nodes} nodes"), MINUTE, async || {
        cluster.running_pods_are("default", "app=web", pods).await?;
        cluster.ready_nodes_are("general", nodes).await
    })
    .await
}

/// The newest decision went from one size to the other, is done, and status shows nothing under way any more.
async fn last_decision_is(cluster: &ControlPlane, from: u32, to: u32) -> Result<()> {
    wait::until(&format!("status says that {from} became {to}"), MINUTE, async || {
        let status = cluster.pool_status("general").await?;
        let decision = &status["decisions"][0];
        let sizes = decision["from"] == from && decision["to"] == to && decision["action"] == "ScaleUp";
        ensure!(sizes && decision["outcome"] == "Done", "the last decision is {decision}");
        // Both are right: the plan may run before or after the controller-manager has created the pods.
        let reasons = ["PodsUnschedulable", "ReplicasAnticipated"];
        ensure!(
            reasons.iter().any(|reason| decision["reason"] == *reason),
            "the last decision is {decision}"
        );
        ensure!(status["intents"].is_null(), "still under way: {}", status["intents"]);
        let nodes = &status["nodes"];
        ensure!(nodes["desired"] == to && nodes["ready"] == to, "status counts {nodes}");
        Ok(())
    })
    .await
}

/// Checks the output that the README shows: columns that answer at a glance, and a description that gives the reason.
fn kubectl_shows_the_purchase(cluster: &ControlPlane) -> Result<()> {
    let table = cluster.kubectl(&["get", "nodepools"])?;
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().context("no header")?.split_whitespace().collect();
    ensure!(
        header == ["NAME", "MIN", "MAX", "DESIRED", "READY", "LAST", "DECISION", "REASON", "AGE"],
        "kubectl shows\n{table}"
    );
    let row: Vec<&str> = lines.next().context("no row")?.split_whitespace().collect();
    let status: Vec<&str> = row.iter().take(7).copied().collect();
    ensure!(status == ["general", "0", "10", "2", "2", "ScaleUp", "0→2"], "kubectl shows\n{table}");
    let reason = row.get(7).copied().unwrap_or_default();
    ensure!(["PodsUnschedulable", "ReplicasAnticipated"].contains(&reason), "kubectl shows\n{table}");

    let described = cluster.kubectl(&["describe", "nodepool", "general"])?;
    println!("{table}\n{described}");
    let described = described.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in
        ["Message: +2 nodes for 7", "most of default/web", "Type: Ready", "Last Decision: ScaleUp 0→2"]
    {
        ensure!(described.contains(words), "no {words:?} in {described}");
    }
    Ok(())
}
