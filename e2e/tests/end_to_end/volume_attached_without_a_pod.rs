//! A volume that is still attached to a node takes up a place there for the scheduler, and so it does for us: the pod that finds
//! no other place gets a node.

use std::time::Duration;

use anyhow::Context;
use e2e::control_plane::Options;
use e2e::fixtures::{csi_node, deployment, pool, volume_and_claim};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const DRIVER: &str = "disks.example.com";

#[tokio::test]
async fn a_pod_gets_a_node_when_a_volume_that_no_pod_uses_takes_the_last_place() {
    cluster_test(Options::new(), async |cluster| {
        for object in ["left-over", "data"].into_iter().flat_map(|name| volume_and_claim(name, DRIVER)) {
            cluster.apply(object).await?;
        }
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").zones(&["a"]).nodes(1, 5)).await?;
        wait::until("the pool has its node", MINUTE, async || cluster.ready_nodes_are("general", 1).await)
            .await?;
        let node = cluster.nodes_of_pool("general").await?.pop().context("no node")?;
        let node = node.metadata.name.context("a node without a name")?;
        cluster.apply(csi_node(&node, DRIVER, 1)).await?;
        cluster
            .apply(json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
                "metadata": {"name": "csi-left-over"}, "spec": {"attacher": DRIVER, "nodeName": node,
                    "source": {"persistentVolumeName": "left-over"}}}))
            .await?;

        let claim = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        cluster.apply(deployment("db").set_in_pod("/spec/volumes", claim)).await?;
        wait::until("the pod runs on a second node", MINUTE, async || {
            // The scheduler tries such a pod again when the driver of the new node reports.
            for node in cluster.nodes_of_pool("general").await? {
                cluster.apply(csi_node(&node.metadata.name.unwrap_or_default(), DRIVER, 1)).await?;
            }
            cluster.ready_nodes_are("general", 2).await?;
            cluster.running_pods_are("default", "app=db", 1).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
