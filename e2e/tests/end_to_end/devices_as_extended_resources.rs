//! A pod that asks for an extended resource, without a claim, gets devices of the class that serves it, and a node for them.

use std::time::Duration;

use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

use crate::devices::{DRIVER, class, publish};

const TWO_MINUTES: Duration = Duration::from_secs(120);
const GATES: &str = "--feature-gates=DRAExtendedResource=true";

#[tokio::test]
async fn pods_that_ask_for_an_extended_resource_run_on_the_devices_of_its_class() {
    let options = Options::new()
        .with_audit_log()
        .api_server_flag(GATES)
        .controller_manager_flag(GATES)
        .scheduler_flag(GATES);
    cluster_test(options, async |cluster| {
        let mut served = class();
        served["spec"]["extendedResourceName"] = json!("example.com/gpu");
        cluster.apply(served).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let devices = json!([{"driver": DRIVER, "count": 4}]);
        cluster.apply(pool("gpu").set("/spec/template/devices", devices)).await?;
        let train = deployment("train").replicas(3).requests("100m", "64Mi");
        let devices = json!({"example.com/gpu": "2"});
        let train = train
            .set_in_pod("/spec/containers/0/resources/limits", devices)
            .set_in_pod("/spec/containers/0/resources/requests/example.com~1gpu", json!("2"));
        cluster.apply(train).await?;
        // Two pods a node by their devices, though forty would fit by their cpu.
        wait::until("all pods run on two nodes", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 3).await?;
            cluster.nodes_asked_for_are(2)
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
