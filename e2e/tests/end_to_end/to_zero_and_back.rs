//! An external metric of 0 takes the last pod away, and what comes in brings pods again; what is not known does neither.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::{MetricsApi, Mood};
use e2e::wait;
use e2e::workloads::{queue_policy, quick_workloads};
use jiff::Timestamp;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Several sync periods.
const A_WHILE: Duration = Duration::from_secs(7);
/// One sync period and the whole seconds of a decision's time; the adapter's answer is asked for anew each time.
const ONE_SYNC_SECONDS: i64 = 4;
const TO_ZERO_AFTER_SECONDS: i64 = 6;

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
        let mut policy = queue_policy("web", 0, 10, "5");
        policy["spec"]["timing"] = json!({"toZeroAfter": format!("{TO_ZERO_AFTER_SECONDS}s")});
        policy["spec"]["metrics"][0]["activation"] = "3".into();
        cluster.apply(policy).await?;
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

#[tokio::test]
async fn workload_survives_a_restart_at_zero_wakes_within_one_sync_and_stays_where_a_person_sets_it_to_zero()
{
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        adapter.set_external("default", "queue", &["8"]);
        let operator = cluster.operator().flag("--lease-seconds=2").start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "2s")).await?;
        cluster.apply(deployment("web").replicas(2).requests("100m", "64Mi")).await?;
        let mut policy = queue_policy("web", 0, 10, "5");
        policy["spec"]["timing"] = json!({"toZeroAfter": format!("{TO_ZERO_AFTER_SECONDS}s")});
        policy["spec"]["metrics"][0]["activation"] = "3".into();
        cluster.apply(policy).await?;
        wait::until("the metrics are read", MINUTE, async || {
            cluster.scaling_condition_is("web", "ScalingActive", "True", "ValidMetricFound")
        })
        .await?;

        let dry_at = Timestamp::now();
        adapter.set_external("default", "queue", &["3"]);
        wait::until("the last replica waits", MINUTE, async || {
            cluster.replicas_are("web", 1)?;
            cluster.scaling_condition_is("web", "ScalingLimited", "True", "ToZeroAfter")
        })
        .await?;
        wait::until("nothing is left", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            cluster.scaling_condition_is("web", "ScaledToZero", "True", "NoMetricActive")
        })
        .await?;
        let status = cluster.scaling_status("web")?;
        let decision = &status["decisions"][0];
        let at: Timestamp = decision["time"].as_str().context("no time is reported")?.parse()?;
        let waited = at.duration_since(dry_at).as_secs();
        ensure!(TO_ZERO_AFTER_SECONDS <= waited, "{waited} s after the queue ran dry: {decision}");
        ensure!(decision["reason"] == "NoMetricActive" && decision["outcome"] == "Done", "{decision}");
        ensure!(status["zero"]["scaledAt"].is_string(), "{status}");

        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        wait::stays("the size, through a restart", A_WHILE, async || cluster.replicas_are("web", 0)).await?;
        let full_at = Timestamp::now();
        adapter.set_external("default", "queue", &["9"]);
        wait::until("two pods take nine", MINUTE, async || cluster.replicas_are("web", 2)).await?;
        wait::until("the mark is gone", MINUTE, async || {
            let status = cluster.scaling_status("web")?;
            let decision = &status["decisions"][0];
            ensure!(decision["reason"] == "MetricActive", "{status}");
            let at: Timestamp = decision["time"].as_str().context("no time is reported")?.parse()?;
            let waited = at.duration_since(full_at).as_secs();
            ensure!(waited <= ONE_SYNC_SECONDS, "{waited} s after the queue was filled: {decision}");
            ensure!(status["zero"].is_object() && status["zero"]["scaledAt"].is_null(), "{status}");
            Ok(())
        })
        .await?;

        cluster.kubectl(&["scale", "deployment", "web", "--replicas=0"])?;
        wait::until("status says who has set it to 0", MINUTE, async || {
            cluster.scaling_condition_is("web", "ScalingActive", "False", "PausedAtZero")
        })
        .await?;
        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        wait::stays("what a person has set to 0", A_WHILE, async || cluster.replicas_are("web", 0)).await?;
        let explained = cluster.headroom(&["explain", "scalingpolicy", "web"])?;
        ensure!(explained.contains("PausedAtZero"), "{explained}");
        cluster.kubectl(&["scale", "deployment", "web", "--replicas=1"])?;
        wait::until("the metrics decide again", MINUTE, async || cluster.replicas_are("web", 2)).await?;
        operator.process().check_running()
    })
    .await;
}
