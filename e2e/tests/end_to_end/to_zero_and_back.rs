//! An external metric of 0 takes the last pod away, and what comes in brings pods again; what is not known does neither.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::{MetricsApi, Mood};
use e2e::wait;
use e2e::workloads::{queue_policy, quick_workloads};

const MINUTE: Duration = Duration::from_secs(60);
/// Several sync periods.
const A_WHILE: Duration = Duration::from_secs(7);

#[tokio::test]
async fn an_empty_queue_needs_no_pod_and_an_unknown_one_changes_nothing() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        adapter.set_external("default", "queue", &["0"]);
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "2s")).await?;
        cluster.apply(deployment("web").replicas(2).requests("100m", "64Mi")).await?;
        cluster.apply(queue_policy("web", 0, 10, "5")).await?;
        wait::until("nothing is left", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            cluster.running_pods_are("default", "app=web", 0).await
        })
        .await?;

        adapter.set_external("default", "queue", &["4", "8"]);
        wait::until("three pods take twelve", MINUTE, async || {
            cluster.replicas_are("web", 3)?;
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        let decision = cluster.scaling_status("web")?["decisions"][0].clone();
        ensure!(decision["from"] == 0 && decision["to"] == 3, "{decision}");

        adapter.set_external("default", "queue", &["0"]);
        adapter.set_mood(Mood::Failing(500));
        wait::until("status says that nothing is known", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsOutage")?;
            cluster.scaling_condition_is("web", "ScalingActive", "False", "FailedGetExternalMetric")
        })
        .await?;
        wait::stays("the size, while nothing is known", A_WHILE, async || cluster.replicas_are("web", 3))
            .await?;

        adapter.set_mood(Mood::Well);
        wait::until("nothing is left again", MINUTE, async || cluster.replicas_are("web", 0)).await?;
        adapter.set_mood(Mood::Garbled);
        wait::until("status says so at size 0 too", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsOutage")
        })
        .await?;
        wait::stays("no pod", A_WHILE, async || cluster.replicas_are("web", 0)).await?;
        operator.process().check_running()
    })
    .await;
}
