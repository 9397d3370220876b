//! An HPA with `minReplicas: 0` between the controller-manager and the operator: each wakes what the other has taken to 0, and
//! neither wakes what a person has set to 0.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::MetricsApi;
use e2e::wait;
use e2e::workloads::{hpa, queue_metric, quick_workloads};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const WITHOUT_HPAS: &str = "--controllers=-horizontal-pod-autoscaler-controller";

#[tokio::test]
async fn whoever_runs_an_hpa_wakes_what_the_other_took_to_zero_and_nobody_what_a_person_did() {
    let options = Options::new()
        .controller_manager_flag("--horizontal-pod-autoscaler-sync-period=1s")
        .controller_manager_flag("--horizontal-pod-autoscaler-downscale-stabilization=1s");
    cluster_test(options, async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        let queue = |length: &str| adapter.set_external("default", "queue", &[length]);
        queue("10");
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Replace", "0s")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        let mut web = hpa("web", 0, 10);
        web["spec"]["metrics"] = json!([queue_metric("5")]);
        if !admits_zero(cluster)? {
            let refused =
                cluster.apply(web).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(refused.contains("minReplicas"), "{refused}");
            return Ok(());
        }
        cluster.apply(web).await?;
        wait::until("the controller-manager has scaled", MINUTE, async || cluster.replicas_are("web", 2))
            .await?;
        queue("0");
        wait::until("the controller-manager has taken it to 0", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            scaled_to_zero_is(cluster, "True")
        })
        .await?;

        cluster.component(Component::ControllerManager)?.restart_with(WITHOUT_HPAS)?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        wait::until("the operator runs the HPA", MINUTE, async || {
            cluster.scaling_condition_is("web", "HPAOwned", "True", "Replaced")
        })
        .await?;
        queue("15");
        wait::until("the operator wakes it", MINUTE, async || {
            cluster.replicas_are("web", 3)?;
            scaled_to_zero_is(cluster, "False")
        })
        .await?;

        cluster.kubectl(&["scale", "deployment", "web", "--replicas=0"])?;
        wait::until("the HPA says so", MINUTE, async || {
            cluster.scaling_condition_is("web", "ScalingActive", "False", "ScalingDisabled")
        })
        .await?;
        wait::stays("what a person set to 0", Duration::from_secs(5), async || {
            cluster.replicas_are("web", 0)
        })
        .await?;
        cluster.kubectl(&["scale", "deployment", "web", "--replicas=1"])?;
        wait::until("it goes on from 1", MINUTE, async || cluster.replicas_are("web", 3)).await?;

        queue("0");
        wait::until("the operator takes it to 0", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            scaled_to_zero_is(cluster, "True")
        })
        .await?;
        operator.kill();
        queue("20");
        cluster.component(Component::ControllerManager)?.restart_with("--controllers=*")?;
        wait::until("the controller-manager wakes it", MINUTE, async || {
            cluster.replicas_are("web", 4)?;
            scaled_to_zero_is(cluster, "False")
        })
        .await
    })
    .await;
}

/// True if the API server lets `minReplicas` be 0 by default.
fn admits_zero(cluster: &ControlPlane) -> Result<bool> {
    let version: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/version"])?)?;
    let minor = version["minor"].as_str().unwrap_or_default().trim_end_matches('+');
    Ok(37 <= minor.parse::<u32>()?)
}

fn scaled_to_zero_is(cluster: &ControlPlane, wanted: &str) -> Result<()> {
    let found: Value = serde_json::from_str(&cluster.kubectl(&["get", "hpa", "web", "-o", "json"])?)?;
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let says: Vec<&Value> = conditions.filter(|one| one["type"] == "ScaledToZero").collect();
    ensure!(matches!(says.as_slice(), [one] if one["status"] == wanted), "{says:?}");
    Ok(())
}
