//! Pods with claims of devices get nodes from zero, kube-scheduler allocates what was planned, and nodes leave without a pod
//! losing its device. The test publishes the slices, as drivers would.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const TWO_MINUTES: Duration = Duration::from_secs(120);
pub(crate) const DRIVER: &str = "gpu.example.com";
/// Devices of each node.
const DEVICES: usize = 4;

#[tokio::test]
async fn pods_with_claims_are_bound_from_zero_and_keep_their_devices() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.apply(class()).await?;
        cluster.apply(template_of_two()).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let devices = json!([{"driver": DRIVER, "count": DEVICES}]);
        let gpus = pool("gpu").quick_scale_down("5s").set("/spec/template/devices", devices);
        cluster.apply(gpus).await?;
        let train = deployment("train").replicas(3).requests("100m", "64Mi");
        cluster.apply(train.set_in_pod("/spec/resourceClaims", claims_of_two())).await?;
        // Two pods a node by their devices, though forty would fit by their cpu.
        wait::until("all pods run on two nodes", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 3).await?;
            cluster.nodes_asked_for_are(2)
        })
        .await?;
        cluster.scale_deployment("train", 2).await?;
        wait::until("one node leaves, and both pods run on the other", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 2).await?;
            cluster.ready_nodes_are("gpu", 1).await
        })
        .await?;
        cluster.scale_deployment("train", 3).await?;
        wait::until("a third pod gets a node again", TWO_MINUTES, async || {
            publish(cluster).await?;
            cluster.running_pods_are("default", "app=train", 3).await?;
            cluster.ready_nodes_are("gpu", 2).await
        })
        .await?;
        cluster.nodes_asked_for_are(3)?;
        operator.process().check_running()
    })
    .await;
}

/// The class of all devices of the driver.
pub(crate) fn class() -> Value {
    let selector = json!({"cel": {"expression": format!("device.driver == '{DRIVER}'")}});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
}

/// A template of claims of two devices.
pub(crate) fn template_of_two() -> Value {
    let request = json!({"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 2}});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}}})
}

/// The claims of a pod by that template.
pub(crate) fn claims_of_two() -> Value {
    json!([{"name": "gpus", "resourceClaimTemplateName": "two"}])
}

/// Publishes the devices of nodes that have none yet.
pub(crate) async fn publish(cluster: &ControlPlane) -> Result<()> {
    for node in cluster.nodes_of_pool("gpu").await? {
        let (name, uid) = (node.metadata.name.unwrap_or_default(), node.metadata.uid.unwrap_or_default());
        ensure!(!name.is_empty(), "a node has no name");
        let devices: Vec<Value> =
            (0..DEVICES).map(|number| json!({"name": format!("device-{number}")})).collect();
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        cluster
            .apply(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": format!("{name}-gpu"), "ownerReferences": [owner]},
                "spec": {"driver": DRIVER, "nodeName": name, "devices": devices,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}}))
            .await?;
    }
    Ok(())
}
