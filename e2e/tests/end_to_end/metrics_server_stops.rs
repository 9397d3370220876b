//! metrics-server is stopped at low and at high load: the replicas hold, the status gives the reason, and scaling goes
//! on afterwards.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Component, Options};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads};

/// metrics-server reports a change up to 15 s later, and KWOK's usage is an average over time.
const PATIENCE: Duration = Duration::from_secs(120);
/// Ten sync periods.
const OUTAGE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn without_metrics_server_nothing_grows_or_shrinks_and_with_it_both_go_on() {
    let options = Options::new().without_hpa_controller().with_metrics_server();
    cluster_test(options, async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Replace", "4s")).await?;
        for (name, usage) in [("busy", "950m"), ("idle", "500m")] {
            let load = deployment(name).replicas(2).requests("1", "1Gi");
            cluster.apply(load.pod_annotation("kwok.x-k8s.io/usage-cpu", usage)).await?;
            cluster.apply(hpa(name, 1, 4)).await?;
        }
        wait::until("the busy one is at its most and the other stays", PATIENCE, async || {
            cluster.replicas_are("busy", 4)?;
            cluster.replicas_are("idle", 2)?;
            for name in ["busy", "idle"] {
                cluster.scaling_condition_is(name, "MetricsAvailable", "True", "MetricsRead")?;
            }
            Ok(())
        })
        .await?;

        cluster.component(Component::MetricsServer)?.kill();
        // What would shrink one and make the other grow, if it were known.
        cluster.use_cpu("busy", "10m")?;
        cluster.use_cpu("idle", "1500m")?;
        wait::until("both say what is wrong", PATIENCE, async || {
            for name in ["busy", "idle"] {
                cluster.scaling_condition_is(name, "MetricsAvailable", "False", "MetricsOutage")?;
                let described = cluster.kubectl(&["describe", "hpa", name])?;
                ensure!(described.contains("FailedGetResourceMetric"), "{described}");
                ensure!(described.contains("<unknown> / 50%"), "{described}");
            }
            Ok(())
        })
        .await?;
        wait::stays("both sizes", OUTAGE, async || {
            cluster.replicas_are("busy", 4)?;
            cluster.replicas_are("idle", 2)
        })
        .await?;
        let failed = operator.metric("headroom_metric_reads_total", r#"outcome="MetricsOutage""#).await?;
        ensure!(failed.is_some_and(|count| 1.0 <= count), "failed reads: {failed:?}");

        cluster.component(Component::MetricsServer)?.restart()?;
        wait::until("both go where the load is", PATIENCE, async || {
            cluster.replicas_are("busy", 1)?;
            cluster.replicas_are("idle", 4)?;
            cluster.scaling_condition_is("busy", "MetricsAvailable", "True", "MetricsRead")
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
