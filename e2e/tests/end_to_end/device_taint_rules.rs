//! Devices that an administrator taints by a rule serve nobody who does not tolerate it: kube-scheduler leaves them out, and nodes
//! are bought, or not bought, accordingly.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

use crate::devices::{DRIVER, claims_of_two, class, publish, template_of_two};

const TWO_MINUTES: Duration = Duration::from_secs(120);
/// Long enough for several plans.
const SEVERAL_PLANS: Duration = Duration::from_secs(8);
const GATES: &str = "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true";

#[tokio::test]
async fn devices_that_rules_taint_are_bought_around_and_not_bought_in_vain() {
    let options = Options::new()
        .with_audit_log()
        .api_server_flag(GATES)
        // The scheduler of 1.36 watches the later one.
        .api_server_flag("--runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true")
        .scheduler_flag(GATES);
    cluster_test(options, async |cluster| {
        cluster.apply(class()).await?;
        cluster.apply(template_of_two()).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let devices = json!([{"driver": DRIVER, "count": 4}]);
        cluster.apply(pool("gpu").set("/spec/template/devices", devices)).await?;
        let train = deployment("train").replicas(1).requests("100m", "64Mi");
        cluster.apply(train.set_in_pod("/spec/resourceClaims", claims_of_two())).await?;
        wait::until("the first pod runs on a node of four devices", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 1).await
        })
        .await?;

        let first = cluster.nodes_of_pool("gpu").await?.pop().and_then(|node| node.metadata.name);
        cluster.apply(rule("worn-out", json!({"driver": DRIVER, "pool": first}))).await?;
        cluster.scale_deployment("train", 2).await?;
        wait::until("the second pod runs on a node of its own", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 2).await?;
            cluster.nodes_asked_for_are(2)
        })
        .await?;

        // One rule for them all: the devices of a new node would be tainted as well.
        cluster.apply(rule("recalled", json!({"driver": DRIVER}))).await?;
        cluster.scale_deployment("train", 3).await?;
        wait::until("the third pod says what no new node would change", TWO_MINUTES, async || {
            let events = cluster.kubectl(&["get", "events.events.k8s.io", "-o", "json"])?;
            ensure!(events.contains("DeviceTaint"), "the events are {events}");
            Ok(())
        })
        .await?;
        // The rules are known again after a restart, before anything is bought.
        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        wait::stays("no node is bought in vain", SEVERAL_PLANS, async || cluster.nodes_asked_for_are(2))
            .await?;

        cluster.kubectl(&["delete", "devicetaintrules", "worn-out", "recalled"])?;
        wait::until("the third pod runs where two devices were free", TWO_MINUTES, async || {
            cluster.running_pods_are("default", "app=train", 3).await
        })
        .await?;
        cluster.nodes_asked_for_are(2)?;
        operator.process().check_running()
    })
    .await;
}

fn rule(name: &str, devices: Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": devices, "taint": {"key": "example.com/worn", "value": "yes", "effect": "NoSchedule"}},
    })
}
