//! Two policies for one workload: the older one scales it, the other reports that and writes nothing until it is alone.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_older_policy_scales_and_the_other_stands_back_until_it_is_alone() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.apply(at_least("old", 3)).await?;
        wait::until("the first policy scales", MINUTE, async || cluster.replicas_are("web", 3)).await?;
        cluster.apply(at_least("young", 5)).await?;
        let message = wait::until("the second one stands back", MINUTE, async || {
            cluster.scaling_condition_is("young", "Ready", "False", "Conflict")?;
            cluster.scaling_condition_is("young", "Stalled", "True", "Conflict")
        })
        .await?;
        ensure!(message.contains("default/old"), "{message}");
        cluster.replicas_are("web", 3)?;

        cluster.delete("ScalingPolicy", "headroom.dev/v1alpha1", "old").await?;
        wait::until("the other one scales now", MINUTE, async || {
            cluster.replicas_are("web", 5)?;
            cluster.scaling_condition_is("young", "Ready", "True", "Accepted")
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

fn at_least(name: &str, min: u32) -> Value {
    let mut policy = scaling_policy(name, "web", 10);
    policy["spec"]["minReplicas"] = min.into();
    policy
}
