//! A zone without machines: the other zone takes the nodes, and the backoff is in status, through a crash too.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_other_zone_takes_the_nodes_and_a_killed_operator_does_not_forget_the_backoff() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let failure = json!([{"zone": "a", "class": "OutOfCapacity", "message": "no machine left in a"}]);
        let general = pool("general")
            .zones(&["a", "b"])
            .set("/spec/provider/kwok/simulation/failures", failure)
            .set("/spec/scaleUp/backoff", json!({"initial": "20s", "max": "1m"}));
        cluster.apply(general).await?;
        cluster.apply(deployment("web").replicas(8)).await?;
        let operator = cluster.operator().flag("--lease-seconds=2").start()?;

        runs_in(cluster, 8, 0, 2).await?;
        let backoff = backoff(cluster).await?;
        ensure!(backoff["group"] == "a" && backoff["class"] == "OutOfCapacity", "{backoff}");
        ensure!(backoff["failures"] == 1 && backoff["message"] == "no machine left in a", "{backoff}");
        cluster.pool_condition_is("general", "BackingOff", "True", "LaunchFailed").await?;
        let message = cluster.pool_condition("general", "BackingOff").await?["message"].to_string();
        ensure!(message.contains("no machine left in a"), "BackingOff says {message}");
        cluster.pool_condition_is("general", "Ready", "True", "Accepted").await?;

        operator.kill();
        let operator = cluster.operator().flag("--lease-seconds=2").start()?;
        cluster.scale_deployment("web", 12).await?;
        runs_in(cluster, 12, 0, 3).await?;
        let remembered = self::backoff(cluster).await?;
        ensure!(remembered == backoff, "before the crash {backoff}, after it {remembered}");

        // The zone is mended and the backoff over: it is tried again, and is the smaller group now.
        let mended = json!({"spec": {"provider": {"kwok": {"simulation": {"failures": null}}}}});
        cluster.patch("NodePool", "headroom.dev/v1alpha1", "general", mended).await?;
        let until: Timestamp = backoff["until"].as_str().context("no end")?.parse()?;
        wait::until("the backoff is over", MINUTE, async || {
            ensure!(until < Timestamp::now(), "it lasts until {until}");
            ensure!(cluster.pool_condition("general", "BackingOff").await.is_err(), "still backing off");
            Ok(())
        })
        .await?;
        cluster.scale_deployment("web", 20).await?;
        runs_in(cluster, 20, 2, 3).await?;
        let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create").accepted();
        ensure!(creations.len() == 5, "nodes were bought that nobody needs:\n{}", creations.describe());
        operator.process().check_running()
    })
    .await;
}

/// So many pods run, on so many nodes in zone a and in zone b.
async fn runs_in(cluster: &ControlPlane, pods: usize, in_a: usize, in_b: usize) -> Result<()> {
    wait::until(&format!("{pods} pods run on {in_a} nodes in a and {in_b} in b"), MINUTE, async || {
        cluster.running_pods_are("default", "app=web", pods).await?;
        cluster.ready_nodes_are("general", in_a + in_b).await?;
        let nodes = cluster.nodes_of_pool("general").await?;
        let zone = |node: &k8s_openapi::api::core::v1::Node| {
            node.metadata.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned()
        };
        let of_a = nodes.iter().filter(|node| zone(node).as_deref() == Some("a")).count();
        ensure!(of_a == in_a, "{of_a} nodes are in zone a");
        Ok(())
    })
    .await
}

/// The only backoff in status.
async fn backoff(cluster: &ControlPlane) -> Result<Value> {
    wait::until("one backoff is reported", MINUTE, async || {
        let backoffs = cluster.pool_status("general").await?["backoffs"].clone();
        let rows = backoffs.as_array().context("no backoffs")?;
        ensure!(rows.len() == 1, "backoffs are {backoffs}");
        Ok(rows[0].clone())
    })
    .await
}
