//! The operator takes an HPA over from the controller-manager: not while that still runs it, whether it writes or has
//! nothing to write, and then without a jump.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::MetricsApi;
use e2e::wait;
use e2e::workloads::{hpa, queue_metric, quick_workloads};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_replicas_do_not_jump_when_the_operator_takes_an_hpa_over() {
    let options = Options::new()
        .with_audit_log()
        .controller_manager_flag("--horizontal-pod-autoscaler-sync-period=1s")
        .controller_manager_flag("--horizontal-pod-autoscaler-downscale-stabilization=5m");
    cluster_test(options, async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        adapter.set_external("default", "queue", &["20"]);
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Replace", "120s")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        let mut web = hpa("web", 1, 10);
        web["spec"]["metrics"] = json!([queue_metric("5")]);
        cluster.apply(web).await?;
        wait::until("the controller-manager has scaled", MINUTE, async || cluster.replicas_are("web", 4))
            .await?;

        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let mut steps = (0..250).cycle();
        // The controller-manager writes the status each time that the metric is another than it read last, so no value comes
        // twice; a step is a thousandth for each of four pods, and all of them are within the tolerance.
        let mut move_on = || {
            let value = format!("{}m", 20_000 + 4 * steps.next().unwrap_or(0));
            adapter.set_external("default", "queue", &[value.as_str()]);
        };
        let message = wait::until("the operator sees who runs the HPA", MINUTE, async || {
            move_on();
            cluster.scaling_condition_is("web", "HPAOwned", "False", "AnotherWriter")
        })
        .await?;
        ensure!(message.contains("kube-controller-manager"), "{message}");
        wait::stays("the operator's restraint", Duration::from_secs(6), async || {
            move_on();
            ensure_not_owned(cluster)?;
            ensure_only_asked(cluster, 3)
        })
        .await?;

        // Nothing changes any more, so the controller-manager writes nothing; it runs the HPA all the same.
        adapter.set_external("default", "queue", &["20"]);
        let message = wait::until("the controller-manager shows itself when asked", MINUTE, async || {
            let message = cluster.scaling_condition_is("web", "HPAOwned", "False", "AnotherWriter")?;
            ensure!(message.contains("changed observedGeneration"), "{message}");
            Ok(message)
        })
        .await?;
        ensure!(message.contains("kube-controller-manager"), "{message}");
        ensure_only_asked(cluster, 4)?;

        cluster
            .component(Component::ControllerManager)?
            .restart_with("--controllers=-horizontal-pod-autoscaler-controller")?;
        // Half of the pods would do now: the window holds, in the operator's memory too.
        adapter.set_external("default", "queue", &["10"]);
        wait::until("the operator runs the HPA", MINUTE, async || {
            cluster.replicas_are("web", 4)?;
            cluster.scaling_condition_is("web", "HPAOwned", "True", "Replaced")?;
            cluster.scaling_condition_is("web", "AbleToScale", "True", "ScaleDownStabilized")
        })
        .await?;
        wait::stays("the size", Duration::from_secs(5), async || cluster.replicas_are("web", 4)).await?;
        ensure_nothing_is_scaled(cluster)?;

        adapter.set_external("default", "queue", &["40"]);
        wait::until("the operator scales", MINUTE, async || cluster.replicas_are("web", 8)).await?;
        let scaled = cluster.writes()?.by(User::Headroom).to("deployments/scale").accepted();
        ensure!(scaled.len() == 1, "{}", scaled.describe());
        let shown = cluster.kubectl(&["describe", "hpa", "web"])?;
        ensure!(shown.contains("New size: 8"), "{shown}");
        operator.process().check_running()
    })
    .await;
}

fn ensure_not_owned(cluster: &ControlPlane) -> Result<()> {
    let conditions = cluster.scaling_status("web")?["conditions"].clone();
    let owned = conditions.as_array().into_iter().flatten().find(|one| one["type"] == "HPAOwned");
    ensure!(owned.is_some_and(|owned| owned["status"] == "False"), "{conditions}");
    Ok(())
}

fn ensure_nothing_is_scaled(cluster: &ControlPlane) -> Result<()> {
    let writes = cluster.writes()?.by(User::Headroom).to("deployments/scale");
    ensure!(writes.is_empty(), "{}", writes.describe());
    Ok(())
}

/// The operator has asked at most so often who runs the HPA, by a write that the other one undoes, and done nothing else.
fn ensure_only_asked(cluster: &ControlPlane, most: usize) -> Result<()> {
    let asked = cluster.writes()?.by(User::Headroom).to("horizontalpodautoscalers/status").accepted();
    ensure!(asked.len() <= most, "{}", asked.describe());
    ensure_nothing_is_scaled(cluster)
}
