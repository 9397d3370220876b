//! Beside a real Karpenter an operator that previews keeps a Scorecard, whose figures are those of the API and come soon after the
//! install, and writes nothing else of the cluster.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, node, pool};
use e2e::harness::cluster_test;
use e2e::karpenter::{self, Karpenter};
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Resources of which the operator may write something while it previews.
const WRITTEN: [&str; 5] = ["leases", "scorecards", "nodepools", "clusterscalingpolicies", "events"];

#[tokio::test]
async fn beside_karpenter_both_sides_are_counted_and_nothing_is_done() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.revoke_actions()?;
        let operator = cluster.operator().flag("--preview").flag("--scorecard").start()?;
        operator.pause()?;
        let none = cluster.headroom(&["scorecard"]).expect_err("there is none yet");
        let advice = "there is no Scorecard: run the operator with --scorecard";
        ensure!(format!("{none:#}").contains(advice), "{none:#}");
        operator.resume()?;
        operator.ready().await?;
        let ours = pool("general").nodes(0, 10).capacity("4", "16Gi").quick_scale_down("20s");
        cluster.apply(ours.set("/spec/price", json!({"perHour": "0.04"}))).await?;
        let karpenter = Karpenter::start(cluster, &[("c-4", 4, 16)]).await?;
        karpenter.serve(cluster, karpenter::node_pool("theirs", 4, 16)).await?;
        first_figures(cluster).await?;

        let mut count = Recount::default();
        cluster.apply(deployment("web").replicas(12).requests("1", "1Gi")).await?;
        count
            .until("the pods run", cluster, async || cluster.running_pods_are("default", "app=web", 12).await)
            .await?;
        let most = karpenter::nodes(cluster).await?.len();
        cluster.scale_deployment("web", 3).await?;
        count
            .until("Karpenter removes nodes", cluster, async || {
                let left = karpenter::nodes(cluster).await?.len();
                ensure!(left < most && left < 3, "{left} nodes of {most} are left");
                Ok(())
            })
            .await?;
        let after = Timestamp::now();
        let status = count
            .until("the scorecard has it all", cluster, async || {
                let status = stored(cluster)?;
                let until: Timestamp = status["until"].as_str().context("nothing was measured")?.parse()?;
                ensure!(after < until, "it goes to {until}");
                Ok(status)
            })
            .await?;
        check(&status, &count)?;

        let text = cluster.headroom(&["scorecard"])?;
        ensure!(text.contains("node hours") && text.contains("karpenter/theirs"), "{text}");
        ensure!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        println!("{text}");
        let report: Value = serde_json::from_str(&cluster.headroom(&["scorecard", "-o", "json"])?)?;
        ensure!(report["figures"][0]["figure"] == "node hours", "{report:#}");
        let page = cluster.headroom(&["scorecard", "-o", "html"])?;
        ensure!(page.starts_with("<!doctype html>") && page.contains("karpenter/theirs"), "{page}");
        nothing_else_was_written(cluster)?;
        operator.process().check_running()
    })
    .await;
}

/// Waits until the scorecard has its first figures: what comes from here on is counted.
async fn first_figures(cluster: &ControlPlane) -> Result<()> {
    wait::until("the scorecard has its first figures", MINUTE, async || {
        let status = stored(cluster)?;
        ensure!(status["since"].is_string(), "the status is {status}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn figures_come_within_five_minutes_of_an_install_beside_karpenter() {
    cluster_test(Options::new().without_crds().without_roles(), async |cluster| {
        // For the operator's own pods.
        cluster.apply(node("system-1", "4", "16Gi")).await?;
        let karpenter = Karpenter::start(cluster, &[("c-4", 4, 16)]).await?;
        karpenter.serve(cluster, karpenter::node_pool("theirs", 4, 16)).await?;
        cluster.apply(deployment("web").replicas(12).requests("1", "1Gi")).await?;
        wait::until("the pods run", 2 * MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 12).await
        })
        .await?;

        let begun = Instant::now();
        let place = "--namespace=headroom-system";
        cluster.helm(&["install", "headroom-crds", "charts/headroom-crds", place, "--create-namespace"])?;
        let values = "--set=preview=true,scorecard=true";
        cluster.helm(&[
            "install",
            "headroom",
            "charts/headroom",
            place,
            values,
            "--wait",
            "--timeout=60s",
        ])?;
        let ours = pool("general").nodes(0, 10).capacity("4", "16Gi");
        cluster.apply(ours.set("/spec/price", json!({"perHour": "0.04"}))).await?;
        let operator = cluster.operator().flag("--preview").flag("--scorecard").start()?;
        wait::until("both sides have figures", 5 * MINUTE, async || {
            let status = stored(cluster)?;
            for side in ["actual", "forecast"] {
                let seconds = status[side]["nodeSeconds"].as_i64().unwrap_or_default();
                ensure!(0 < seconds, "{side} has no node: {status:#}");
            }
            Ok(())
        })
        .await?;
        let report = cluster.headroom(&["scorecard"])?;
        let took = begun.elapsed();
        println!("{} s after the beginning of the install:\n{report}", took.as_secs());
        ensure!(took < 5 * MINUTE, "it took {took:?}");
        ensure!(report.contains("karpenter/theirs") && report.contains("general"), "{report}");
        operator.process().check_running()
    })
    .await;
}

fn stored(cluster: &ControlPlane) -> Result<Value> {
    let object = cluster.kubectl(&["get", "scorecards.headroom.dev", "default", "-o", "json"])?;
    Ok(serde_json::from_str::<Value>(&object)?["status"].clone())
}

fn check(status: &Value, count: &Recount) -> Result<()> {
    let actual = |figure: &str| status["actual"][figure].as_i64().unwrap_or_default();
    let forecast = |figure: &str| status["forecast"][figure].as_i64().unwrap_or_default();
    let until: Timestamp = status["until"].as_str().context("no end")?.parse()?;
    let recounted = count.node_seconds(until);
    println!("{} node seconds were stored, {recounted:.0} recounted: {status:#}", actual("nodeSeconds"));
    let apart = (actual("nodeSeconds") as f64 - recounted).abs();
    // The scorecard looks every two seconds or less often, and knows creations by the second.
    ensure!(apart <= recounted * 0.03 + 6.0, "{} are stored, {recounted} recounted", actual("nodeSeconds"));
    ensure!(
        actual("unpricedNodeSeconds") == 0 && 0 < actual("priceMicro"),
        "c-4 costs what general does: {status:#}"
    );
    ensure!(3 <= actual("nodesAdded") && 1 <= actual("nodesRemoved"), "{status:#}");
    ensure!(3 <= forecast("nodesAdded") && 0 < forecast("nodeSeconds"), "{status:#}");
    let waits = |side: &str| {
        let rows = status[side]["waits"].as_array().into_iter().flatten();
        rows.filter_map(Value::as_i64).sum::<i64>()
    };
    ensure!(0 < waits("actual") && 0 < waits("forecast"), "pods got nodes: {status:#}");
    // The forecast learns of a change of replicas one look later.
    let (done, simulated) = (actual("replicaSeconds"), forecast("replicaSeconds"));
    ensure!((done - simulated).abs() <= done / 5 + 40, "{status:#}");
    Ok(())
}

fn nothing_else_was_written(cluster: &ControlPlane) -> Result<()> {
    let mut writes = cluster.writes()?.by(User::Headroom);
    let scorecards = writes.clone().to("scorecards/status").accepted();
    ensure!(scorecards.len() <= 1 + 10, "{} writes", scorecards.len());
    for resource in WRITTEN {
        writes = writes.without(resource);
    }
    ensure!(writes.is_empty(), "the operator wrote\n{}", writes.describe());
    Ok(())
}

/// The nodes of Karpenter as the API has them, looked at twice a second.
#[derive(Default)]
struct Recount {
    /// Names with creation, and the time at which each was last seen.
    nodes: std::collections::BTreeMap<String, (Timestamp, Timestamp)>,
    last: Option<Timestamp>,
}

impl Recount {
    /// Waits for a condition, and counts meanwhile.
    async fn until<T>(
        &mut self,
        what: &str,
        cluster: &ControlPlane,
        mut condition: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + 4 * MINUTE;
        loop {
            self.look(cluster).await?;
            match condition().await {
                Ok(value) => return Ok(value),
                Err(error) if deadline < Instant::now() => return Err(error.context(what.to_owned())),
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    async fn look(&mut self, cluster: &ControlPlane) -> Result<()> {
        let now = Timestamp::now();
        for node in karpenter::nodes(cluster).await? {
            let created = node.metadata.creation_timestamp.context("a node without a creation")?.0;
            let name = node.metadata.name.unwrap_or_default();
            self.nodes.entry(name).or_insert((created, now)).1 = now;
        }
        self.last = Some(now);
        Ok(())
    }

    /// Nodes times seconds up to `until`.
    fn node_seconds(&self, until: Timestamp) -> f64 {
        let lived = self.nodes.values().map(|(created, seen)| {
            // Whatever was there at the last look was there until then.
            let end = if Some(*seen) == self.last { until } else { (*seen).min(until) };
            end.duration_since(*created).as_secs_f64().max(0.0)
        });
        lived.sum()
    }
}
