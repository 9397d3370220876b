//! At a limit pods stay pending: status reports which pool hit which limit, and when the limit is lifted they run.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, cluster_policy, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";
const POOL: (&str, &str) = ("NodePool", "headroom.dev/v1alpha1");

#[tokio::test]
async fn status_says_which_limit_keeps_pods_waiting_and_lifting_it_lets_them_run() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;

        cluster.apply(tier_pool("bounded").zones(&["a", "b"]).nodes(0, 2)).await?;
        cluster.apply(tier_pods("bounded", 12)).await?;
        runs(cluster, "bounded", 8).await?;
        waits(cluster, "bounded", 4, "MaxNodesReached", "2 of at most 2 nodes").await?;

        cluster.apply(tier_pool("sized").set("/spec/limits/cpu", "10")).await?;
        cluster.apply(tier_pods("sized", 9)).await?;
        runs(cluster, "sized", 8).await?;
        waits(cluster, "sized", 1, "PoolLimitReached", "cpu").await?;

        cluster.apply(policy(5)).await?;
        cluster.apply(tier_pool("third")).await?;
        cluster.apply(tier_pods("third", 6)).await?;
        runs(cluster, "third", 4).await?;
        waits(cluster, "third", 2, "ClusterLimitReached", "5 of at most 5 nodes").await?;
        ensure!(cluster.nodes().await?.len() == 5, "the cluster has more nodes than its limit");

        cluster.apply(policy(20)).await?;
        cluster.patch(POOL.0, POOL.1, "bounded", json!({"spec": {"maxNodes": 3}})).await?;
        cluster.patch(POOL.0, POOL.1, "sized", json!({"spec": {"limits": {"cpu": "12"}}})).await?;
        for (tier, pods, nodes) in [("bounded", 12, 3), ("sized", 9, 3), ("third", 6, 2)] {
            runs(cluster, tier, pods).await?;
            cluster.ready_nodes_are(tier, nodes).await?;
            no_one_waits(cluster, tier).await?;
        }
        Ok(())
    })
    .await;
}

/// A pool whose nodes carry its name as their tier.
fn tier_pool(name: &str) -> Pool {
    pool(name).label(TIER, name)
}

/// Pods of one CPU that go to this tier only.
fn tier_pods(tier: &str, count: u32) -> Workload {
    deployment(tier).replicas(count).node_selector(TIER, tier)
}

fn policy(max_nodes: u32) -> serde_json::Value {
    cluster_policy(json!({"nodes": {"limits": {"nodes": max_nodes}}}))
}

async fn runs(cluster: &ControlPlane, tier: &str, count: usize) -> Result<()> {
    wait::until(&format!("{count} pods of {tier} run"), MINUTE, async || {
        cluster.running_pods_are("default", &format!("app={tier}"), count).await
    })
    .await
}

/// So many pods wait, and condition, column and refusal name the same limit.
async fn waits(cluster: &ControlPlane, pool: &str, pods: u32, reason: &str, values: &str) -> Result<()> {
    wait::until(&format!("{pool} says {reason}"), MINUTE, async || {
        cluster.pool_condition_is(pool, "AtLimit", "True", reason).await?;
        let message = cluster.pool_condition(pool, "AtLimit").await?["message"].to_string();
        ensure!(message.contains(values), "AtLimit says {message}");
        let status = cluster.pool_status(pool).await?;
        ensure!(status["reason"] == reason, "the column says {}", status["reason"]);
        let refusals = status["refusals"].as_array().context("no refusals")?;
        let refusal = refusals.iter().find(|refusal| refusal["reason"] == reason);
        let refusal = refusal.with_context(|| format!("refusals are {}", status["refusals"]))?;
        ensure!(refusal["pods"]["count"] == pods, "{refusal}");
        // A limit is not a fault of the pool.
        cluster.pool_condition_is(pool, "Ready", "True", "Accepted").await
    })
    .await
}

async fn no_one_waits(cluster: &ControlPlane, pool: &str) -> Result<()> {
    wait::until(&format!("{pool} is at no limit"), MINUTE, async || {
        let status = cluster.pool_status(pool).await?;
        ensure!(status["refusals"].is_null(), "refusals are {}", status["refusals"]);
        ensure!(cluster.pool_condition(pool, "AtLimit").await.is_err(), "{}", status["conditions"]);
        Ok(())
    })
    .await
}
