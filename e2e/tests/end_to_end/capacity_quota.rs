//! A CapacityQuota bounds what is bought, by nodes and by cost: pods report why they wait, and the quota how much of it
//! is in use.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for several plans.
const SEVERAL_PLANS: Duration = Duration::from_secs(6);
const API: &str = "autoscaling.x-k8s.io/v1beta1";

#[tokio::test]
async fn a_quota_bounds_purchases_and_reports_its_use_and_pods_say_why_they_wait() {
    cluster_test(Options::new(), async |cluster| {
        cluster.install_crds(&repository().join("crds/optional")).await?;
        let one = json!({"nodes": "1", "nvidia.com/gpu": "4"});
        wait::until("the kind is served", MINUTE, async || cluster.apply(quota(one.clone())).await.map(drop))
            .await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let priced = |name: &str| pool(name).set("/spec/price", json!({"perHour": "0.40"}));
        cluster.apply(priced("research").label("team", "research").nodes(0, 9)).await?;
        // Four nodes for four pods, of a pool that the quota counts.
        let train = deployment("train").replicas(4).requests("3", "1Gi").node_selector("team", "research");
        cluster.apply(train).await?;
        bounded(cluster, 1, "capacityquota/research: nodes: 1 of at most 1 in use").await?;
        used_is(cluster, &json!({"nodes": "1", "nvidia.com/gpu": "0"})).await?;
        // A pool that the quota does not count is not bounded.
        cluster.apply(priced("other").nodes(0, 1)).await?;
        cluster.apply(deployment("web").node_selector("headroom.dev/pool", "other")).await?;
        cluster.pods_come_to_run("default", "web", 1).await?;

        // At 0.40 an hour, two nodes cost less than 1 and three more.
        cluster.apply(quota(json!({"headroom.dev/price-per-hour": "1"}))).await?;
        let why = "capacityquota/research: headroom.dev/price-per-hour: 800m of at most 1 in use";
        bounded(cluster, 2, why).await?;
        used_is(cluster, &json!({"headroom.dev/price-per-hour": "800m"})).await?;

        cluster.apply(odd()).await?;
        wait::until("the quota says what is wrong with it", MINUTE, async || {
            let reconciled = reconciled(cluster).await?;
            ensure!(reconciled["reason"] == "ReconciliationFailed", "it is {reconciled}");
            let message = reconciled["message"].as_str().unwrap_or_default();
            ensure!(message.starts_with("spec.selector"), "{message}");
            Ok(())
        })
        .await?;
        // What cannot be read bounds nothing.
        cluster.pods_come_to_run("default", "train", 4).await?;
        cluster.ready_nodes_are("research", 4).await?;
        operator.process().check_running()
    })
    .await;
}

fn quota(limits: Value) -> Value {
    json!({
        "apiVersion": API,
        "kind": "CapacityQuota",
        "metadata": {"name": "research"},
        "spec": {"selector": {"matchLabels": {"team": "research"}}, "limits": {"resources": limits}},
    })
}

/// A quota with an operator that no selector has, and no room for more nodes.
fn odd() -> Value {
    let mut quota = quota(json!({"nodes": "2"}));
    let near = json!({"key": "team", "operator": "Near", "values": ["research"]});
    quota["spec"]["selector"] = json!({"matchExpressions": [near]});
    quota
}

/// So many nodes of the pool run a pod each, no more come, and pool, pods and `explain` name the quota that keeps the
/// others waiting.
async fn bounded(cluster: &ControlPlane, nodes: usize, why: &str) -> Result<()> {
    wait::until(&format!("{nodes} nodes run a pod"), MINUTE, async || {
        cluster.ready_nodes_are("research", nodes).await?;
        cluster.running_pods_are("default", "app=train", nodes).await
    })
    .await?;
    wait::until("the pool names the quota", MINUTE, async || {
        cluster.pool_condition_is("research", "AtLimit", "True", "CapacityQuotaReached").await?;
        let message = cluster.pool_condition("research", "AtLimit").await?["message"].to_string();
        ensure!(message.contains(why), "AtLimit says {message}");
        Ok(())
    })
    .await?;
    let pending = cluster
        .pods("default", "app=train")
        .await?
        .into_iter()
        .find(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()));
    let pending = pending.and_then(|pod| pod.metadata.name).context("no pod waits")?;
    let explained = cluster.headroom(&["explain", "pod", &pending])?;
    // Lines are broken anywhere between words.
    let words = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(words.contains("CapacityQuotaReached") && words.contains(why), "{explained}");
    wait::stays("no more nodes", SEVERAL_PLANS, async || cluster.ready_nodes_are("research", nodes).await)
        .await
}

async fn used_is(cluster: &ControlPlane, used: &Value) -> Result<()> {
    wait::until(&format!("the quota reports {used}"), MINUTE, async || {
        let status = status(cluster).await?;
        ensure!(status["used"]["resources"] == *used, "status is {status}");
        let reconciled = reconciled(cluster).await?;
        ensure!(reconciled["reason"] == "ReconciliationSucceeded", "it is {reconciled}");
        Ok(())
    })
    .await
}

async fn reconciled(cluster: &ControlPlane) -> Result<Value> {
    let status = status(cluster).await?;
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == "Reconciled");
    found.cloned().with_context(|| format!("no condition Reconciled in {status}"))
}

async fn status(cluster: &ControlPlane) -> Result<Value> {
    let text = cluster.kubectl(&["get", "capacityquotas", "research", "-o", "json"])?;
    let object: Value = serde_json::from_str(&text).context("kubectl answers in JSON")?;
    Ok(object["status"].clone())
}
