//! The policies of `behavior` are obeyed by the second: so many pods up, so many percent down, each a period.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::MetricsApi;
use e2e::wait;
use e2e::workloads::{queue_policy, quick_workloads};
use jiff::Timestamp;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const PERIOD_SECONDS: i64 = 4;

#[tokio::test]
async fn the_size_grows_and_shrinks_as_fast_as_the_policies_allow_and_no_faster() {
    cluster_test(Options::new().without_hpa_controller().with_audit_log(), async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        adapter.set_external("default", "queue", &["1"]);
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        let mut settings = quick_workloads("Observe", "0s");
        settings["spec"]["workloads"]["syncPeriod"] = "1s".into();
        cluster.apply(settings).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        let mut policy = queue_policy("web", 1, 10, "1");
        policy["spec"]["behavior"] = json!({
            "scaleUp": {"stabilizationWindowSeconds": 0,
                "policies": [{"type": "Pods", "value": 3, "periodSeconds": PERIOD_SECONDS}]},
            "scaleDown": {"stabilizationWindowSeconds": 0,
                "policies": [{"type": "Percent", "value": 50, "periodSeconds": PERIOD_SECONDS}]},
        });
        cluster.apply(policy).await?;
        wait::until("the metric is read", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "True", "MetricsRead")
        })
        .await?;

        adapter.set_external("default", "queue", &["30"]);
        wait::until("it has its most replicas", MINUTE, async || cluster.replicas_are("web", 10)).await?;
        // Until the last growth is out of its period: as long as it counts, it makes the base of a shrinkage smaller.
        wait::stays("the size", Duration::from_secs(PERIOD_SECONDS.unsigned_abs() + 1), async || {
            cluster.replicas_are("web", 10)
        })
        .await?;
        adapter.set_external("default", "queue", &["1"]);
        wait::until("it has its fewest replicas", MINUTE, async || cluster.replicas_are("web", 1)).await?;

        let changes = wait::until("the last change is reported", MINUTE, async || {
            let changes = changes(cluster)?;
            ensure!(changes.last().is_some_and(|change| change.to == 1), "{changes:?}");
            Ok(changes)
        })
        .await?;
        let sizes: Vec<i64> = changes.iter().map(|change| change.to).collect();
        ensure!(sizes == [4, 7, 10, 5, 2, 1], "{changes:?}");
        let writes = cluster.writes()?.by(User::Headroom).to("deployments/scale").accepted();
        ensure!(writes.len() == sizes.len(), "{}", writes.describe());
        for half in [&writes.0[..3], &writes.0[3..]] {
            for pair in half.windows(2) {
                // Times of scale events are whole seconds, as status holds them.
                let gap = pair[1].received_at.duration_since(pair[0].received_at).as_secs_f64();
                ensure!(
                    (PERIOD_SECONDS - 1) as f64 <= gap,
                    "{gap} s between two writes:\n{}",
                    writes.describe()
                );
            }
        }
        for pair in changes.windows(2).filter(|pair| (pair[0].to < 10) == (pair[1].to < 10)) {
            let gap = pair[1].at.duration_since(pair[0].at).as_secs();
            ensure!(PERIOD_SECONDS <= gap, "{gap} s between two changes: {changes:?}");
        }
        operator.process().check_running()
    })
    .await;
}

#[derive(Debug)]
struct Change {
    at: Timestamp,
    to: i64,
}

/// The changes of the history, oldest first.
fn changes(cluster: &ControlPlane) -> Result<Vec<Change>> {
    let decisions = cluster.scaling_status("web")?["decisions"].clone();
    let of = |decision: &serde_json::Value| {
        let at = decision["time"].as_str().context("a decision without a time")?.parse()?;
        Ok(Change { at, to: decision["to"].as_i64().context("a decision without a size")? })
    };
    decisions.as_array().into_iter().flatten().rev().map(of).collect()
}
