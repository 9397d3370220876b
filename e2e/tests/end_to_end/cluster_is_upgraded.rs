//! The cluster is upgraded under a running operator: nothing is bought twice or removed meanwhile, and everything goes on after it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::metrics_api::MetricsApi;
use e2e::wait;
use e2e::workloads::{hpa, queue_metric, quick_workloads};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs the release to upgrade from in HEADROOM_UPGRADE_FROM: run by make test-matrix"]
async fn nodes_and_replicas_go_on_over_an_upgrade_of_the_cluster() {
    let from = std::env::var("HEADROOM_UPGRADE_FROM").expect("HEADROOM_UPGRADE_FROM=1.36");
    let options = Options::new().release(&from).with_audit_log().without_hpa_controller();
    cluster_test(options, async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        let queue = |length: &str| adapter.set_external("default", "queue", &[length]);
        queue("35");
        cluster.apply(quick_workloads("Replace", "0s")).await?;
        cluster.apply(pool("general").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(1)).await?;
        let mut web = hpa("web", 1, 20);
        web["spec"]["metrics"] = json!([queue_metric("5")]);
        cluster.apply(web).await?;
        // A lease that outlasts the upgrade: without it the process ends and starts anew.
        let operator = cluster.operator().flag("--lease-seconds=60").start()?;
        operator.ready().await?;
        cluster.settles(7, 2).await?;
        let before = release_of(cluster)?;

        cluster.upgrade(MINUTE).await?;
        let after = release_of(cluster)?;
        ensure!(before != after, "{before} was not upgraded");
        wait::stays("nothing changes by the upgrade", Duration::from_secs(6), async || {
            cluster.ready_nodes_are("general", 2).await
        })
        .await?;

        queue("70");
        cluster.settles(14, 4).await?;
        queue("15");
        cluster.settles(3, 1).await?;
        let ours = cluster.writes()?.by(User::Headroom);
        let bought = ours.clone().to("nodes").with_verb("create").accepted();
        ensure!(
            bought.len() == 4,
            "from {before} to {after}, nodes that were asked for:\n{}",
            bought.describe()
        );
        operator.process().check_running()
    })
    .await;
}

/// The release that the API server names.
fn release_of(cluster: &ControlPlane) -> Result<String> {
    let version: serde_json::Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/version"])?)?;
    Ok(version["gitVersion"].as_str().context("no gitVersion")?.to_owned())
}
