//! A canary of Argo Rollouts runs beside all of the stable pods at a constant load: the size stays, and the canary does not become part of
//! it. Where labels alone count, as for a HorizontalPodAutoscaler, the size grows.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::node;
use e2e::harness::cluster_test;
use e2e::metrics_api::MetricsApi;
use e2e::rollouts::{Rollouts, canary, change, promote, replicas_are};
use e2e::wait;
use e2e::workloads::{queue_policy, quick_workloads};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// At one evaluation in 2 s as many as a HorizontalPodAutoscaler makes in ten minutes.
const TEN_MINUTES_OF_15_S: Duration = Duration::from_secs(80);

const STABLE: u64 = 10;

/// A policy of the Rollout of the same name: a replica for each 10 in the queue.
fn policy(name: &str) -> Value {
    let mut policy = queue_policy(name, 1, 40, "10");
    policy["spec"]["target"]["scale"] =
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": name});
    policy
}

/// By a load of 10 for each pod instead, and never fewer pods than there are.
fn by_pods(mut policy: Value) -> Value {
    policy["spec"]["minReplicas"] = STABLE.into();
    policy["spec"]["metrics"] = json!([{"type": "Pods", "pods": {"metric": {"name": "load"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    policy
}

async fn pods_are(cluster: &ControlPlane, name: &str, count: usize) -> Result<()> {
    wait::until(&format!("{count} pods of {name} run"), MINUTE, async || {
        cluster.running_pods_are("default", &format!("app={name}"), count).await
    })
    .await
}

/// Each pod of `cache` has a load of 8.5, as of memory: however many there are.
async fn load_each_pod(cluster: &ControlPlane, adapter: &MetricsApi) -> Result<()> {
    let pods = cluster.pods("default", "app=cache").await?;
    let names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
    let values: Vec<(&str, &str)> = names.map(|name| (name, "8500m")).collect();
    adapter.set_custom("default", "pods/*/load", &values);
    Ok(())
}

fn both_are(cluster: &ControlPlane, wanted: u64) -> Result<()> {
    replicas_are(cluster, "web", wanted)?;
    replicas_are(cluster, "cache", wanted)
}

#[tokio::test]
async fn a_canary_at_constant_load_changes_no_size_from_its_first_pod_to_its_promotion() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let rollouts = Rollouts::start(cluster).await?;
        let adapter = MetricsApi::start(cluster, &["v1beta2"]).await?;
        // 9.9 pods' worth for all: within tolerance of ten pods, and of eleven.
        adapter.set_external("default", "queue", &["99"]);
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(quick_workloads("Observe", "2s")).await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply_all(&canary("web", 10, 10)).await?;
        cluster.apply_all(&canary("cache", 10, 100)).await?;
        for name in ["web", "cache"] {
            pods_are(cluster, name, 10).await?;
            rollouts.reaches(cluster, name, "Healthy").await?;
        }
        load_each_pod(cluster, &adapter).await?;
        cluster.apply(policy("web")).await?;
        cluster.apply(by_pods(policy("cache"))).await?;
        for name in ["web", "cache"] {
            wait::until(&format!("the metric of {name} is read"), MINUTE, async || {
                cluster.scaling_condition_is(name, "MetricsAvailable", "True", "MetricsRead")
            })
            .await?;
            change(cluster, name, "next")?;
            rollouts.reaches(cluster, name, "Paused").await?;
        }
        // A tenth of ten, and as many again.
        pods_are(cluster, "web", 11).await?;
        pods_are(cluster, "cache", 20).await?;
        load_each_pod(cluster, &adapter).await?;
        wait::stays("both sizes are as they were", TEN_MINUTES_OF_15_S, async || both_are(cluster, STABLE))
            .await?;
        let why = cluster.headroom(&["explain", "scalingpolicy", "cache"])?;
        println!("$ headroom explain scalingpolicy cache\n{why}");
        ensure!(why.contains("KeptInRollout"), "{why}");

        let mut as_an_hpa = by_pods(policy("cache"));
        as_an_hpa["spec"]["selectionStrategy"] = "LabelSelector".into();
        cluster.apply(as_an_hpa).await?;
        wait::until("pods of the canary count as an HPA counts them", MINUTE, async || {
            replicas_are(cluster, "cache", 17)
        })
        .await?;

        promote(cluster, "web")?;
        rollouts.reaches(cluster, "web", "Healthy").await?;
        pods_are(cluster, "web", 10).await?;
        replicas_are(cluster, "web", STABLE)?;
        let decisions = cluster.scaling_status("web")?["decisions"].clone();
        ensure!(decisions.as_array().is_none_or(Vec::is_empty), "nothing was changed: {decisions}");
        rollouts.process().check_running()?;
        operator.process().check_running()
    })
    .await;
}
