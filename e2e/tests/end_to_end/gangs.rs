//! Pods that are scheduled together get nodes together: nothing is bought for two of three, and pods report why they
//! wait.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for several plans.
const SEVERAL_PLANS: Duration = Duration::from_secs(8);

#[tokio::test]
async fn nodes_come_for_all_pods_of_a_gang_or_for_none() {
    cluster_test(Options::new(), async |cluster| {
        cluster.apply(definition()).await?;
        wait::until("the kind is served", MINUTE, async || {
            cluster.apply(pod_group("train", 3)).await.map(drop)
        })
        .await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // Nodes of four cores, and pods of three.
        cluster.apply(pool("general").join_delay("5s").nodes(0, 2)).await?;
        for name in ["w-0", "w-1", "w-2"] {
            cluster.apply(pod(name, "train")).await?;
        }
        wait::until("a pod says why it waits", MINUTE, async || {
            let events = cluster.kubectl(&["get", "events.events.k8s.io", "-o", "json"])?;
            ensure!(
                events.contains("PodGroup default/train needs 3 pods at once"),
                "the events are {events}"
            );
            Ok(())
        })
        .await?;
        wait::stays("no node is bought for a part", SEVERAL_PLANS, async || {
            cluster.ready_nodes_are("general", 0).await
        })
        .await?;
        cluster.apply(pool("general").join_delay("5s").nodes(0, 3)).await?;
        wait::until("all pods run", MINUTE, async || {
            cluster.ready_nodes_are("general", 3).await?;
            cluster.running_pods_are("default", "app=train", 3).await
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

/// As much of the definition of coscheduling's PodGroup as is read.
pub(crate) fn definition() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.x-k8s.io", "annotations": {
            // A group of this domain wants to be approved.
            "api-approved.kubernetes.io": "unapproved, for a test",
        }},
        "spec": {
            "group": "scheduling.x-k8s.io",
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": any}}}}],
        },
    })
}

/// A PodGroup in namespace `default` that needs `min` pods at once.
pub(crate) fn pod_group(name: &str, min: i32) -> Value {
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": min},
    })
}

fn pod(name: &str, group: &str) -> Value {
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": {"cpu": "3"}}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default",
            "labels": {"app": group, "scheduling.x-k8s.io/pod-group": group}},
        "spec": {"containers": [container]},
    })
}
