//! `karpenter.sh/do-not-disrupt` on a pod or on a node keeps the node, with its reason in status; taken back, the node goes. A
//! duration ends by itself.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

#[tokio::test]
async fn do_not_disrupt_keeps_nodes_until_it_is_taken_back_or_over() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(4, 5).quick_scale_down("2s")).await?;
        wait::until("four nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 4).await)
            .await?;
        let nodes: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
        let keep = deployment("keep").requests("500m", "1Gi").node_name(&nodes[0]);
        cluster.apply(keep.pod_annotation(DO_NOT_DISRUPT, "true")).await?;
        wait::until("the protected pod runs", MINUTE, async || {
            cluster.running_pods_are("default", "app=keep", 1).await
        })
        .await?;
        // The scheduler chooses an empty node for it, and the pod in its place may go elsewhere.
        let short = deployment("short").requests("500m", "1Gi");
        cluster.apply(short.pod_annotation(DO_NOT_DISRUPT, "25s")).await?;
        wait::until("the other runs", MINUTE, async || {
            cluster.running_pods_are("default", "app=short", 1).await
        })
        .await?;
        let of_short = cluster.pods_by_node("app=short").await?;
        let forever = &nodes[0];
        let (for_a_while, empty): (Vec<&String>, Vec<&String>) =
            nodes[1..].iter().partition(|node| of_short.contains_key(*node));
        let ([for_a_while], [marked, unprotected]) = (&for_a_while[..], &empty[..]) else {
            bail!("pods are on {of_short:?}");
        };
        annotate(cluster, marked, json!("true")).await?;

        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("the unprotected node has gone", MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(!left.contains(unprotected), "nodes are {left:?}");
            Ok(())
        })
        .await?;
        wait::until("status names what protects", MINUTE, async || {
            let row = cluster.blocked("general", "DoNotDisruptAnnotation").await?;
            ensure!(row["count"].as_i64() >= Some(2), "the row is {row}");
            Ok(())
        })
        .await?;
        wait::until("the duration is over, and its node gone", MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(!left.contains(for_a_while) && left.len() == 2, "nodes are {left:?}");
            Ok(())
        })
        .await?;
        wait::stays("two nodes, unmarked", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await?;

        annotate(cluster, marked, Value::Null).await?;
        wait::until("only the protected pod's node is left", MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left == [forever.clone()], "nodes are {left:?}");
            Ok(())
        })
        .await
    })
    .await;
}

async fn annotate(cluster: &ControlPlane, node: &str, value: Value) -> Result<()> {
    let change = json!({"metadata": {"annotations": {DO_NOT_DISRUPT: value}}});
    cluster.patch("Node", "v1", node, change).await?;
    Ok(())
}
