//! Three pods of another workload carry the labels of `web` and use five times what they ask for: the size of `web` stays, and
//! follows them once labels alone are to count.

use std::time::Duration;

use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::json;

/// metrics-server reports a change up to 15 s later, and KWOK's usage is an average over time.
const PATIENCE: Duration = Duration::from_secs(120);
/// Two rounds of metrics-server.
const SEVERAL_LOOKS: Duration = Duration::from_secs(30);

#[tokio::test]
async fn pods_that_only_share_the_labels_change_no_size() {
    let options = Options::new().without_hpa_controller().with_metrics_server();
    cluster_test(options, async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(quick_workloads("Observe", "5s")).await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        let usage = "kwok.x-k8s.io/usage-cpu";
        let web = deployment("web").replicas(3).requests("100m", "64Mi").pod_annotation(usage, "50m");
        cluster.apply(web).await?;
        let batch = deployment("batch").replicas(3).requests("100m", "64Mi").pod_annotation(usage, "500m");
        let batch = batch.pod_label("app", "web").pod_label("role", "batch");
        cluster.apply(batch.set("/spec/selector/matchLabels", json!({"role": "batch"}))).await?;
        wait::until("all pods run", PATIENCE, async || {
            cluster.running_pods_are("default", "app=web", 6).await
        })
        .await?;

        let mut policy = scaling_policy("web", "web", 9);
        cluster.apply(policy.clone()).await?;
        wait::until("the policy reads its metric", PATIENCE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "True", "MetricsRead")
        })
        .await?;
        wait::stays("its own pods are at the target", SEVERAL_LOOKS, async || cluster.replicas_are("web", 3))
            .await?;
        policy["spec"]["selectionStrategy"] = "LabelSelector".into();
        cluster.apply(policy).await?;
        wait::until("the others count", PATIENCE, async || cluster.replicas_are("web", 9)).await?;
        operator.process().check_running()
    })
    .await;
}
