//! A schedule that is open raises the fewest replicas, reports until when, and gives nothing back while nothing is
//! known.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node, window};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_open_window_raises_the_replicas_and_status_shows_the_next_change() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        let mut policy = scaling_policy("web", "web", 10);
        policy["spec"]["schedules"] = json!([
            {"name": "rush", "minReplicas": 4, "window": window(true)},
            {"name": "later", "minReplicas": 9, "window": window(false)},
            {"name": "wish", "minReplicas": 3, "window": window(true)},
        ]);
        cluster.apply(policy.clone()).await?;
        wait::until("the highest open floor holds", MINUTE, async || cluster.replicas_are("web", 4)).await?;
        wait::until("status shows the bounds", MINUTE, async || {
            let bounds = cluster.scaling_status("web")?["bounds"].clone();
            ensure!(bounds["minReplicas"] == 4 && bounds["limitedBy"] == "Schedule", "{bounds}");
            ensure!(bounds["activeSchedules"] == json!(["rush", "wish"]), "{bounds}");
            ensure!(bounds["nextScheduleChange"].is_string(), "{bounds}");
            Ok(())
        })
        .await?;
        policy["spec"]["schedules"] = json!([{"name": "later", "minReplicas": 9, "window": window(false)}]);
        cluster.apply(policy).await?;
        wait::until("the floor is gone and the metrics are not known", MINUTE, async || {
            let bounds = cluster.scaling_status("web")?["bounds"].clone();
            ensure!(bounds["minReplicas"] == 1, "{bounds}");
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsNotRegistered")
        })
        .await?;
        cluster.replicas_are("web", 4)?;
        operator.process().check_running()
    })
    .await;
}
