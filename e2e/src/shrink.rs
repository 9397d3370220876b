//! Common parts of the measurements of scale-down: pools, budgets and the count of nodes; it checks nothing.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::binaries;
use crate::burst::MIX;
use crate::control_plane::ControlPlane;
use crate::fixtures::{Pool, cluster_policy, pool};
use crate::operator::Operator;
use crate::wait;

/// Settings of scale-down.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Time for which a node must be unneeded.
    #[arg(long, default_value = "20s")]
    pub unneeded: String,
    /// `scaleDown.policy` of the pools.
    #[arg(long, value_enum, default_value = "when-cheaper")]
    pub policy: Policy,
    /// `maxUnavailable` of each Deployment's PodDisruptionBudget, in percent of its replicas.
    #[arg(long, default_value_t = 20)]
    pub max_unavailable_percent: u32,
    /// Most nodes that drain at once.
    #[arg(long, default_value_t = 300)]
    pub drains: u32,
}

/// `scaleDown.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    WhenUnderutilized,
    WhenCheaper,
}

/// A shape of nodes: the pool's name, cpu and memory.
pub type Shape = (&'static str, &'static str, &'static str);

/// The operator, optimized unless `debug`, with a ClusterScalingPolicy and one pool for each shape.
pub async fn start_operator(
    settings: &Settings,
    cluster: &ControlPlane,
    shapes: &[Shape],
    debug: bool,
) -> Result<Operator> {
    let mut operator = cluster.operator();
    if !debug {
        operator = operator.binary(binaries::release_operator()?);
    }
    let operator = operator.start()?;
    operator.ready().await?;
    set_up(settings, cluster, shapes).await?;
    Ok(operator)
}

async fn set_up(settings: &Settings, cluster: &ControlPlane, shapes: &[Shape]) -> Result<()> {
    let removals = json!({"maxParallel": 1000, "maxParallelDrains": settings.drains});
    cluster.apply(cluster_policy(json!({"nodes": {"removals": removals}}))).await?;
    for (name, cpu, memory) in shapes {
        let mut pool = pool(name).capacity(cpu, memory).nodes(0, 2000).quick_scale_down(&settings.unneeded);
        if settings.policy == Policy::WhenCheaper {
            pool = when_cheaper(pool, "0s");
        }
        cluster.apply(pool).await?;
    }
    Ok(())
}

/// The pool with `scaleDown.policy: WhenCheaper` and this `consolidateAfter`.
pub fn when_cheaper(pool: Pool, consolidate_after: &str) -> Pool {
    pool.set("/spec/scaleDown/policy", "WhenCheaper")
        .set("/spec/scaleDown/consolidateAfter", consolidate_after)
        .set("/spec/scaleDown/evictionCooldown", "0s")
}

/// A budget for each Deployment of the mix, of so many percent of its pods, and the wait until their status counts all of
/// `n_pods`.
pub async fn protect(max_unavailable_percent: u32, cluster: &ControlPlane, n_pods: u32) -> Result<()> {
    let max_unavailable = format!("{max_unavailable_percent}%");
    for share in &MIX {
        cluster
            .apply(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": share.name, "namespace": "default"},
                "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": share.name}}},
            }))
            .await?;
    }
    wait::until("the budgets count all pods", Duration::from_secs(120), async || {
        let text = cluster.kubectl(&["get", "pdb", "-o", "json"])?;
        let list: Value = serde_json::from_str(&text)?;
        let budgets = list["items"].as_array().context("a list")?.iter();
        let healthy: u64 = budgets.filter_map(|one| one["status"]["currentHealthy"].as_u64()).sum();
        ensure!(healthy == u64::from(n_pods), "{healthy} of {n_pods} are counted");
        Ok(())
    })
    .await
}

/// Waits until exactly so many pods run in namespace `default`; looks seldom and at names alone, because a look at
/// thousands of pods costs the shared machine something.
pub async fn run_exactly(cluster: &ControlPlane, n_pods: usize, most: Duration) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let running = ListParams::default().fields("status.phase=Running");
    let start = Instant::now();
    loop {
        let n_running = pods.list_metadata(&running).await?.items.len();
        if n_running == n_pods {
            return Ok(());
        }
        ensure!(start.elapsed() < most, "{n_running} pods run after {most:?}, and {n_pods} should");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// All nodes there are.
pub async fn count_nodes(cluster: &ControlPlane) -> Result<usize> {
    let nodes: Api<Node> = Api::all(cluster.client());
    Ok(nodes.list_metadata(&ListParams::default()).await?.items.len())
}

/// CPUs of all nodes together; the shapes here have whole ones.
pub async fn count_cpus(cluster: &ControlPlane) -> Result<u64> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let of = |node: Node| -> Result<u64> {
        let capacity = node.status.unwrap_or_default().capacity.unwrap_or_default();
        let cpu = capacity.get("cpu").context("a node has no CPU in its capacity")?;
        cpu.0.parse().with_context(|| format!("CPU {:?} is no whole number", cpu.0))
    };
    nodes.list(&ListParams::default()).await?.items.into_iter().map(of).sum()
}

/// The number of nodes once it has not changed for `calm`, or after `most`.
pub async fn settled(cluster: &ControlPlane, calm: Duration, most: Duration) -> Result<usize> {
    let (start, mut calm_since, mut before) = (Instant::now(), Instant::now(), 0);
    while start.elapsed() < most && calm_since.elapsed() < calm {
        let now = count_nodes(cluster).await?;
        if now != before {
            (before, calm_since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok(before)
}
