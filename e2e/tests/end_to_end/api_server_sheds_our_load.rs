//! The API server answers most of the operator's requests with 429: it is slower, and neither buys twice nor forgets.

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use serde_json::json;

/// The priority level of the operator's requests: one seat, and no queue.
const LEVEL: &str = "one-seat";

#[tokio::test]
async fn nodes_are_bought_and_returned_once_although_most_requests_are_refused() {
    let options = Options::new()
        .with_audit_log()
        .api_server_flag("--max-requests-inflight=4")
        .api_server_flag("--max-mutating-requests-inflight=2");
    cluster_test(options, async |cluster| {
        let seats = json!({
            "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        });
        cluster
            .apply(json!({
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
                "metadata": {"name": LEVEL}, "spec": {"type": "Limited", "limited": seats},
            }))
            .await?;
        let who = json!({"kind": "User", "user": {"name": User::Headroom.name()}});
        let everything = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
        });
        cluster
            .apply(json!({
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": LEVEL},
                "spec": {
                    "priorityLevelConfiguration": {"name": LEVEL}, "matchingPrecedence": 2,
                    "rules": [{"subjects": [who], "resourceRules": [everything]}],
                },
            }))
            .await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(20)).await?;
        cluster.settles(20, 5).await?;
        cluster.scale_deployment("web", 3).await?;
        cluster.settles(3, 1).await?;

        cluster.nodes_asked_for_are(5)?;
        ensure!(0.0 < refused(cluster)?, "the API server has refused nothing: the test shows nothing");
        operator.process().check_running()
    })
    .await;
}

/// Returns how many requests of the operator the API server has refused for want of a seat.
fn refused(cluster: &ControlPlane) -> Result<f64> {
    let metrics = cluster.kubectl(&["get", "--raw", "/metrics"])?;
    let ours = format!("priority_level=\"{LEVEL}\"");
    let lines = metrics.lines().filter(|line| {
        line.starts_with("apiserver_flowcontrol_rejected_requests_total{") && line.contains(&ours)
    });
    lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>().context("no number")).sum()
}
