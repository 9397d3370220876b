//! A node whose CSI driver has not registered yet takes no pod that requires it, and is not bought a second time.

use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{csi_node, deployment, pool, volume_and_claim};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const DRIVER: &str = "disks.example.com";

#[tokio::test]
async fn a_node_is_not_bought_twice_while_the_driver_that_a_pod_requires_has_not_registered() {
    cluster_test(Options::new(), async |cluster| {
        for object in volume_and_claim("data", DRIVER) {
            cluster.apply(object).await?;
        }
        let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {"preventPodSchedulingIfMissing": true}});
        cluster.apply(driver).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general")).await?;
        let claim = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        cluster.apply(deployment("db").set_in_pod("/spec/volumes", claim)).await?;
        wait::until("a node is bought", MINUTE, async || cluster.ready_nodes_are("general", 1).await).await?;
        wait::stays("the scheduler waits for the driver, and no second node comes", MINUTE / 6, async || {
            cluster.ready_nodes_are("general", 1).await?;
            cluster.running_pods_are("default", "app=db", 0).await
        })
        .await?;

        let node = cluster.nodes_of_pool("general").await?.pop().context("no node")?;
        let name = node.metadata.name.context("a node without a name")?;
        cluster.apply(csi_node(&name, DRIVER, 8)).await?;
        cluster.pods_come_to_run("default", "db", 1).await?;
        let nodes = cluster.nodes_of_pool("general").await?.len();
        ensure!(nodes == 1, "{nodes} nodes were bought");
        operator.process().check_running()
    })
    .await;
}
