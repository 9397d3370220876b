//! The operator is cut off for longer than the API server remembers: it lists anew (410), and finishes what it had begun.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::link::Link;
use e2e::wait;
use jiff::Timestamp;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_operator_whose_versions_are_forgotten_lists_anew_and_goes_on() {
    let options = Options::new()
        .with_audit_log()
        .with_reads_audited()
        .api_server_flag("--etcd-compaction-interval=1s")
        // Without it the API server itself remembers more than etcd.
        .api_server_flag("--watch-cache=false");
    cluster_test(options, async |cluster| {
        let link = Link::to(cluster.api_server_port()?).await?;
        let operator = cluster.operator().flag("--lease-seconds=60").through(&link)?.start()?;
        operator.ready().await?;
        cluster.apply(pool("general").join_delay("4s").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(7)).await?;
        cluster.one_action_begins().await?;
        let back_at = cut_off(cluster, &link, 11).await?;
        cluster.settles(11, 3).await?;
        lists_anew(cluster, back_at).await?;

        cluster.scale_deployment("web", 7).await?;
        wait::until("a node is marked", MINUTE, async || cluster.marked_nodes().await).await?;
        let back_at = cut_off(cluster, &link, 3).await?;
        cluster.settles(3, 1).await?;
        lists_anew(cluster, back_at).await?;

        cluster.nodes_asked_for_are(3)?;
        cluster.nodes_deleted_are(2)?;
        operator.process().check_running()
    })
    .await;
}

/// Cuts the operator off until the API server has forgotten all that it knows, and changes the load meanwhile. Returns when
/// it may come back.
async fn cut_off(cluster: &ControlPlane, link: &Link, replicas: u32) -> Result<Timestamp> {
    link.cut(true);
    let change = json!({"spec": {"replicas": replicas}});
    let changed = cluster.patch("Deployment", "apps/v1", "web", change).await?;
    let known = changed.metadata.resource_version.context("no version")?;
    wait::until("what the operator knows is forgotten", MINUTE, async || {
        let watch = format!("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion={known}");
        let said =
            cluster.kubectl(&["get", "--raw", &watch]).unwrap_or_else(|refusal| format!("{refusal:#}"));
        ensure!(["410", "too old", "compacted"].iter().any(|word| said.contains(word)), "it says {said}");
        Ok(())
    })
    .await?;
    let now = Timestamp::now();
    link.cut(false);
    Ok(now)
}

/// Each kind is listed anew, after a pause of its own: the cluster may have settled before the last one is.
async fn lists_anew(cluster: &ControlPlane, since: Timestamp) -> Result<()> {
    for kind in ["pods", "nodes", "nodepools"] {
        wait::until(&format!("{kind} are listed anew"), MINUTE, async || {
            let lists = cluster.calls()?.by(User::Headroom).with_verb("list").to(kind).since(since);
            lists.0.first().map(|_| ()).context("not yet")
        })
        .await?;
    }
    Ok(())
}
