//! A third and then more than half of the nodes stop being ready: nothing is removed, needed or not, until they are well
//! again. One node that stays unready for long, alone, is removed for that, and its pods run elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::is_ready;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const ZONE: &str = "topology.kubernetes.io/zone";
/// On a node: not ready since then, as [`OUTAGE`] makes it.
const OUT_SINCE: &str = "example.com/out-since";
/// KWOK's chaos: a node with the annotation is not ready. Without it KWOK's own stage makes it ready again; the weight
/// keeps that one away until then.
const OUTAGE: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-outage
spec:
  resourceRef:
    apiGroup: v1
    kind: Node
  selector:
    matchExpressions:
    - key: '.metadata.annotations["example.com/out-since"]'
      operator: Exists
  delay:
    durationMilliseconds: 500
  weight: 10000
  next:
    statusTemplate: |
      conditions:
      - type: Ready
        status: "False"
        reason: Outage
        message: the zone is out of order
        lastHeartbeatTime: {{ Now | Quote }}
        lastTransitionTime: {{ index .metadata.annotations "example.com/out-since" | Quote }}
"#;

#[tokio::test]
async fn nothing_leaves_while_a_zone_is_out_and_everything_unneeded_does_afterwards() {
    cluster_test(Options::new().kwok_config(OUTAGE), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(quick().zones(&["a", "b", "c"]).nodes(10, 12)).await?;
        wait::until("ten nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 10).await)
            .await?;

        let mut nodes = cluster.nodes_of_pool("general").await?;
        nodes.sort_by_key(|node| node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE)).cloned());
        let nodes: Vec<String> = nodes.iter().map(name).collect();
        out(cluster, &nodes[..3]).await?;
        out_of_ten(cluster, 3).await?;
        // All are empty: each would go now.
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        nothing_leaves(cluster, 3).await?;
        out(cluster, &nodes[3..6]).await?;
        out_of_ten(cluster, 6).await?;
        nothing_leaves(cluster, 6).await?;

        for node in &nodes[..6] {
            annotate(cluster, node, Value::Null).await?;
        }
        wait::until("all nodes have gone", MINUTE, async || {
            let left = cluster.nodes_of_pool("general").await?.len();
            ensure!(left == 0, "{left} nodes are left");
            Ok(())
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn node_that_stays_unready_is_removed_and_its_pods_run_elsewhere() {
    cluster_test(Options::new().kwok_config(OUTAGE), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let nodes = cluster.spread_web(quick().set("/spec/scaleDown/unreadyFor", "5s"), 6, 2).await?;
        let sick: String = nodes[0].clone();
        out(cluster, std::slice::from_ref(&sick)).await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 5}})).await?;
        wait::until("the unready node has gone, for that reason", 2 * MINUTE, async || {
            let left: BTreeSet<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(
                !left.contains(&sick),
                "{sick} is still there: {}",
                cluster.pool_status("general").await?
            );
            let others = nodes.iter().filter(|node| **node != sick).cloned().collect();
            ensure!(left == others, "{left:?} are left of {nodes:?}");
            cluster.removal_ended("general", "Done", "Unready").await
        })
        .await?;
        wait::until("all pods run on the others", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 12).await?;
            let by_node = cluster.pods_by_node("app=web").await?;
            ensure!(by_node.len() == 5 && !by_node.contains_key(&sick), "pods are on {by_node:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// A pool whose nodes count as started, and as unneeded, within seconds.
fn quick() -> Pool {
    pool("general").quick_scale_down("2s").set("/spec/scaleUp/startupTimeout", "1s")
}

async fn out(cluster: &ControlPlane, nodes: &[String]) -> Result<()> {
    for node in nodes {
        annotate(cluster, node, json!(Timestamp::now().to_string())).await?;
    }
    Ok(())
}

async fn annotate(cluster: &ControlPlane, node: &str, since: Value) -> Result<()> {
    let change = json!({"metadata": {"annotations": {OUT_SINCE: since}}});
    cluster.patch("Node", "v1", node, change).await?;
    Ok(())
}

async fn out_of_ten(cluster: &ControlPlane, n_out: usize) -> Result<()> {
    wait::until(&format!("{n_out} of ten are not ready"), MINUTE, async || are_out(cluster, n_out).await)
        .await
}

async fn are_out(cluster: &ControlPlane, n_out: usize) -> Result<()> {
    let nodes = cluster.nodes_of_pool("general").await?;
    let n_ready = nodes.iter().filter(|node| is_ready(node)).count();
    ensure!(nodes.len() == 10 && n_ready == 10 - n_out, "{n_ready} of {} nodes are ready", nodes.len());
    Ok(())
}

/// Status reports that the cluster is not well enough, and all ten nodes stay, without a mark.
async fn nothing_leaves(cluster: &ControlPlane, n_out: usize) -> Result<()> {
    wait::until("status says why nothing leaves", MINUTE, async || {
        let row = cluster.blocked("general", "ClusterUnhealthy").await?;
        ensure!(row["count"].as_u64() >= u64::try_from(10 - n_out).ok(), "the row is {row}");
        Ok(())
    })
    .await?;
    wait::stays("every node, unmarked", Duration::from_secs(6), async || {
        are_out(cluster, n_out).await?;
        cluster.no_node_is_marked().await
    })
    .await
}
