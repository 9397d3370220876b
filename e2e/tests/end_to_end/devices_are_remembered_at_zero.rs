//! A pool that declares no devices and has lost its last node buys for claims by what that node had published, after a restart
//! of the operator too. The test publishes the slices, as drivers would.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;

use crate::devices::{claims_of_two, class, publish, template_of_two};

const TWO_MINUTES: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_pool_at_zero_buys_by_the_devices_of_its_last_node() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.apply(class()).await?;
        cluster.apply(template_of_two()).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let gpus = |min| pool("gpu").quick_scale_down("5s").nodes(min, 10);
        cluster.apply(gpus(1)).await?;
        wait::until("the first node is known by its devices", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.ready_nodes_are("gpu", 1).await
        })
        .await?;
        cluster.apply(gpus(0)).await?;
        wait::until("the node has left and its devices are remembered", TWO_MINUTES, async || {
            cluster.ready_nodes_are("gpu", 0).await?;
            let status = cluster.pool_status("gpu").await?;
            ensure!(status["learnedDevices"][0]["devices"].is_string(), "{status}");
            Ok(())
        })
        .await?;
        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        let train = deployment("train").replicas(3).requests("100m", "64Mi");
        cluster.apply(train.set_in_pod("/spec/resourceClaims", claims_of_two())).await?;
        // Four devices a node: two pods on it, though forty would fit by their CPU.
        wait::until("all pods run on two nodes", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 3).await
        })
        .await?;
        cluster.nodes_asked_for_are(3)?;
        operator.process().check_running()
    })
    .await;
}
