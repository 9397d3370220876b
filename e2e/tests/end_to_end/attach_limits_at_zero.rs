//! A pool without a node buys as many as its declared attach limits ask for.

use std::time::Duration;

use e2e::control_plane::Options;
use e2e::fixtures::{csi_node, pool, stateful_set, volume_and_claim};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
const DRIVER: &str = "disks.example.com";

#[tokio::test]
async fn a_pool_at_zero_buys_by_the_attach_limits_that_it_declares() {
    cluster_test(Options::new(), async |cluster| {
        for index in 0..4 {
            for object in volume_and_claim(&format!("data-db-{index}"), DRIVER) {
                cluster.apply(object).await?;
            }
        }
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let limits = json!({DRIVER: 2});
        let general = pool("general").zones(&["a"]).join_delay("5s");
        cluster.apply(general.set("/spec/template/attachLimits", limits)).await?;
        let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}]);
        // All four would fit on one node of 4 CPU. All at once, so that they are one purchase.
        let databases = stateful_set("db").replicas(4).requests("100m", "64Mi");
        let databases = databases.set("/spec/podManagementPolicy", "Parallel");
        cluster.apply(databases.set("/spec/volumeClaimTemplates", claims)).await?;
        wait::until("two nodes are there", MINUTE, async || {
            for node in cluster.nodes_of_pool("general").await? {
                let name = node.metadata.name.unwrap_or_default();
                cluster.apply(csi_node(&name, DRIVER, 2)).await?;
            }
            cluster.ready_nodes_are("general", 2).await?;
            cluster.running_pods_are("default", "app=db", 4).await
        })
        .await?;
        wait::stays("no third one comes", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
