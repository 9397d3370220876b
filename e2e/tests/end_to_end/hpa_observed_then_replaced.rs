//! With Observe, the operator only reports on HPAs and their workloads; with Replace, it runs them.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn nothing_is_written_to_an_hpa_until_the_operator_is_configured_to_run_it() {
    cluster_test(Options::new().without_hpa_controller().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        cluster.apply(deployment("web").replicas(5).requests("100m", "64Mi")).await?;
        cluster.apply(hpa("web", 1, 3)).await?;
        wait::until("the policy that the HPA gets shows the decision", MINUTE, async || {
            let status = cluster.scaling_status("web")?;
            let decision = &status["decisions"][0];
            ensure!(decision["from"] == 5 && decision["to"] == 3, "{status}");
            ensure!(decision["outcome"] == "Observed" && decision["reason"] == "TooManyReplicas", "{status}");
            cluster.scaling_condition_is("web", "HPAOwned", "False", "Observed")
        })
        .await?;
        let effects = writes_of_scaling(cluster)?;
        ensure!(effects.is_empty(), "written while observing:\n{}", effects.describe());
        cluster.replicas_are("web", 5)?;

        cluster.apply(quick_workloads("Replace", "10s")).await?;
        wait::until("the workload has the size", MINUTE, async || cluster.replicas_are("web", 3)).await?;
        wait::until("the HPA's status says so", MINUTE, async || {
            let shown = cluster.kubectl(&["get", "hpa", "web", "--output=json"])?;
            let status = &serde_json::from_str::<serde_json::Value>(&shown)?["status"];
            ensure!(status["desiredReplicas"] == 3, "{status}");
            let able =
                status["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == "AbleToScale");
            ensure!(able, "{status}");
            cluster.scaling_condition_is("web", "HPAOwned", "True", "Replaced")
        })
        .await?;
        wait::until("the history shows the change", MINUTE, async || {
            let decisions = cluster.scaling_status("web")?["decisions"].clone();
            ensure!(decisions[0]["outcome"] == "Done" && decisions[0]["to"] == 3, "{decisions}");
            Ok(())
        })
        .await?;
        let described = wait::until("kubectl describe shows the event", MINUTE, async || {
            let described = cluster.kubectl(&["describe", "hpa", "web"])?;
            ensure!(described.contains("SuccessfulRescale"), "{described}");
            Ok(described)
        })
        .await?;
        ensure!(described.contains("AbleToScale"), "{described}");

        // A user's policy takes the place of the one that the operator keeps.
        cluster
            .apply(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
            "metadata": {"name": "mine", "namespace": "default"},
            "spec": {"target": {"type": "HPA", "hpa": {"name": "web"}}}}))
            .await?;
        wait::until("the operator's own policy is gone", MINUTE, async || {
            let names = cluster.kubectl(&["get", "scalingpolicies.headroom.dev", "--output=name"])?;
            ensure!(names.lines().count() == 1 && names.contains("/mine"), "{names}");
            cluster.scaling_condition_is("mine", "Ready", "True", "Accepted")
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

/// Returns the operator's writes to HPAs and to workloads.
fn writes_of_scaling(cluster: &ControlPlane) -> Result<e2e::audit::Writes> {
    let mut writes = cluster.writes()?.by(User::Headroom);
    writes.0.retain(|write| write.resource == "horizontalpodautoscalers" || write.subresource == "scale");
    Ok(writes)
}
