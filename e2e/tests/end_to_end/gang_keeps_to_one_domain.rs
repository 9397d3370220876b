//! A gang whose PodGroup names a topology key gets all its nodes in one domain, and the scheduler binds it there.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const TWO_MINUTES: Duration = Duration::from_secs(120);
/// Long enough for several plans.
const SEVERAL_PLANS: Duration = Duration::from_secs(8);
const ZONE: &str = "topology.kubernetes.io/zone";
const GATES: &str = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true";

#[tokio::test]
async fn nodes_of_a_gang_come_in_one_zone() {
    // The first release with the key, on any run.
    let options = Options::new()
        .release("1.37")
        .with_audit_log()
        .api_server_flag(GATES)
        .api_server_flag("--runtime-config=scheduling.k8s.io/v1beta1=true")
        .controller_manager_flag(GATES)
        .scheduler_flag(GATES);
    cluster_test(options, async |cluster| {
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": ZONE}]}},
        });
        cluster.apply(group).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // New nodes are spread over both zones, unless pods want something else.
        cluster.apply(pool("general").zones(&["a", "b"]).join_delay("2s")).await?;
        for name in ["w-0", "w-1"] {
            cluster.apply(member(name)).await?;
        }
        wait::stays("no node is bought for a part", SEVERAL_PLANS, async || cluster.nodes_asked_for_are(0))
            .await?;
        cluster.apply(member("w-2")).await?;
        wait::until("all pods run", TWO_MINUTES, async || {
            cluster.running_pods_are("default", "app=train", 3).await
        })
        .await?;
        let mut zones = BTreeSet::new();
        for node in cluster.nodes_of_pool("general").await? {
            zones.extend(node.metadata.labels.and_then(|labels| labels.get(ZONE).cloned()));
        }
        ensure!(zones.len() == 1, "the nodes are in {zones:?}");
        cluster.nodes_asked_for_are(3)?;
        operator.process().check_running()
    })
    .await;
}

/// A pod of the gang that leaves no room on a node of four cores for another one.
fn member(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "3"}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "train"}},
        "spec": {"containers": [container], "schedulingGroup": {"podGroupName": "train"}},
    })
}
