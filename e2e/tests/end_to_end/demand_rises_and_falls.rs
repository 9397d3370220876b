//! Usage rises: replicas follow, nodes follow. It falls: the window holds, through a crash too, then both shrink.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads};
use jiff::Timestamp;

/// metrics-server reports a change up to 15 s later, and KWOK's usage is an average over time.
const PATIENCE: Duration = Duration::from_secs(120);
const WINDOW_SECONDS: i64 = 30;

#[tokio::test]
async fn replicas_and_nodes_follow_the_usage_and_a_crash_in_the_window_shrinks_nothing_early() {
    let options = Options::new().without_hpa_controller().with_metrics_server();
    cluster_test(options, async |cluster| {
        let operator = cluster.operator().flag("--lease-seconds=2").start()?;
        operator.ready().await?;
        cluster.apply(quick_workloads("Replace", &format!("{WINDOW_SECONDS}s"))).await?;
        cluster.apply(pool("general").capacity("2", "8Gi").quick_scale_down("5s")).await?;
        let web = deployment("web").replicas(1).requests("1", "1Gi");
        cluster.apply(web.pod_annotation("kwok.x-k8s.io/usage-cpu", "500m")).await?;
        cluster.apply(hpa("web", 1, 4)).await?;
        wait::until("the HPA reads its metric", PATIENCE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "True", "MetricsRead")
        })
        .await?;
        cluster.replicas_are("web", 1)?;

        cluster.use_cpu("web", "1900m")?;
        wait::until("the replicas follow, and the nodes follow them", PATIENCE, async || {
            cluster.replicas_are("web", 4)?;
            cluster.running_pods_are("default", "app=web", 4).await
        })
        .await?;
        let nodes = cluster.nodes_of_pool("general").await?.len();
        ensure!(2 <= nodes, "{nodes} nodes for 4 pods of 1 CPU on nodes of 2");

        cluster.use_cpu("web", "100m")?;
        wait::until("the window holds what the metrics ask back", PATIENCE, async || {
            cluster.scaling_condition_is("web", "AbleToScale", "True", "ScaleDownStabilized")
        })
        .await?;
        let held_since = Timestamp::now();
        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        wait::until("the replicas shrink", PATIENCE, async || {
            let replicas = cluster.replicas("web")?;
            ensure!(replicas < 4, "{replicas} replicas");
            Ok(())
        })
        .await?;
        let decision = cluster.scaling_status("web")?["decisions"][0].clone();
        let at: Timestamp = decision["time"].as_str().context("no time is reported")?.parse()?;
        // The highest proposal was made at most one sync period before it was first held back.
        let held = at.duration_since(held_since).as_secs();
        ensure!(WINDOW_SECONDS - 4 <= held, "shrunk {held} s after the window began: {decision}");
        wait::until("pods and nodes are few again", PATIENCE, async || {
            cluster.replicas_are("web", 1)?;
            cluster.ready_nodes_are("general", 1).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
