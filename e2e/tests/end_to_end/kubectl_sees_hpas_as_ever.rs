//! `kubectl autoscale`, `get hpa` and `describe hpa` look as they do with the controller-manager; without metrics the
//! replicas hold and the status gives the reason.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::quick_workloads;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn kubectl_shows_an_hpa_that_cannot_read_its_metrics_and_the_replicas_hold() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Replace", "10s")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.kubectl(&["autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu=50%"])?;
        wait::until("it has its fewest replicas", MINUTE, async || cluster.replicas_are("web", 2)).await?;
        let described = wait::until("describe says what is wrong", MINUTE, async || {
            let described = cluster.kubectl(&["describe", "hpa", "web"])?;
            ensure!(described.contains("FailedGetResourceMetric"), "{described}");
            ensure!(described.contains("SuccessfulRescale"), "{described}");
            Ok(described)
        })
        .await?;
        for word in ["AbleToScale", "ScalingActive", "False", "Deployment/web", "2 current / 2 desired"] {
            ensure!(described.contains(word), "no {word:?} in\n{described}");
        }
        let table = cluster.kubectl(&["get", "hpa", "web", "--no-headers"])?;
        ensure!(table.contains("<unknown>/50%") && table.contains("Deployment/web"), "{table}");
        let message =
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsNotRegistered")?;
        ensure!(message.contains("metrics.k8s.io"), "{message}");
        cluster.replicas_are("web", 2)?;
        operator.process().check_running()
    })
    .await;
}
