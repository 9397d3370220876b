//! Annotations of a user on a pod or a node keep the node, and so do pods that cannot move, each with its reason; once
//! the annotation is removed the node goes.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{bare_pod, deployment, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

#[tokio::test]
async fn annotated_pods_annotated_nodes_and_naked_pods_keep_their_nodes_until_they_are_gone() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(6, 7).quick_scale_down("2s")).await?;
        wait::until("six nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 6).await)
            .await?;
        let nodes: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
        let (naked, annotated, pinned, local, system) =
            (&nodes[0], &nodes[1], &nodes[2], &nodes[3], &nodes[4]);
        cluster.apply(bare_pod("naked").requests("500m", "1Gi").node_name(naked)).await?;
        annotate(cluster, annotated, json!("true")).await?;
        let keep = deployment("keep").requests("500m", "1Gi").node_name(pinned);
        cluster.apply(keep.pod_annotation(SAFE_TO_EVICT, "false")).await?;
        let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
        let data = deployment("data").requests("500m", "1Gi").node_name(local);
        cluster.apply(data.set_in_pod("/spec/volumes", scratch)).await?;
        let dns = deployment("dns").namespace("kube-system").requests("500m", "1Gi").node_name(system);
        cluster.apply(dns).await?;
        wait::until("all pods run", MINUTE, async || {
            cluster.running_pods_are("default", "app=naked", 1).await?;
            cluster.running_pods_are("default", "app=keep", 1).await?;
            cluster.running_pods_are("default", "app=data", 1).await?;
            cluster.running_pods_are("kube-system", "app=dns", 1).await
        })
        .await?;

        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("the sixth node has gone", MINUTE, async || cluster.ready_nodes_are("general", 5).await)
            .await?;
        kept(cluster, naked, "NotReplicated", json!("pod/default/naked")).await?;
        kept(cluster, annotated, "ScaleDownDisabledAnnotation", Value::Null).await?;
        for (node, reason, pod) in [
            (pinned, "NotSafeToEvictAnnotation", "pod/default/keep-"),
            (local, "LocalStorageRequested", "pod/default/data-"),
            (system, "UnmovableKubeSystemPod", "pod/kube-system/dns-"),
        ] {
            let row = kept(cluster, node, reason, Value::Null).await?;
            ensure!(row["object"].as_str().is_some_and(|object| object.starts_with(pod)), "the row is {row}");
        }
        wait::stays("five nodes, unmarked", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("general", 5).await?;
            cluster.no_node_is_marked().await
        })
        .await?;

        // Each cause taken back is a node that goes: it was this, and nothing else, that kept it.
        annotate(cluster, annotated, Value::Null).await?;
        cluster.delete("Deployment", "apps/v1", "keep").await?;
        cluster.delete("Deployment", "apps/v1", "data").await?;
        cluster.kubectl(&["delete", "deployment", "dns", "--namespace", "kube-system"])?;
        wait::until("only the naked pod's node is left", MINUTE, async || {
            let left: Vec<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left == [naked.clone()], "nodes are {left:?}");
            Ok(())
        })
        .await?;
        cluster.delete("Pod", "v1", "naked").await?;
        wait::until("no node is left", MINUTE, async || cluster.ready_nodes_are("general", 0).await).await
    })
    .await;
}

async fn annotate(cluster: &ControlPlane, node: &str, value: Value) -> Result<()> {
    let change = json!({"metadata": {"annotations": {SCALE_DOWN_DISABLED: value}}});
    cluster.patch("Node", "v1", node, change).await?;
    Ok(())
}

/// Waits until status reports that this node alone is kept for this reason, by this object unless it is null.
async fn kept(cluster: &ControlPlane, node: &str, reason: &str, object: Value) -> Result<Value> {
    wait::until(&format!("{reason} is reported for {node}"), MINUTE, async || {
        let row = cluster.blocked("general", reason).await?;
        ensure!(row["examples"] == json!([node]) && row["count"] == 1, "the row is {row}");
        ensure!(object.is_null() || row["object"] == object, "the row is {row}");
        Ok(row)
    })
    .await
}
