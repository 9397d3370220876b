//! Every kind with a scale subresource can be scaled: the built-in kinds, and a kind of another operator after a role
//! is added for it.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{node, stateful_set, window};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const FLOOR: u64 = 3;

#[tokio::test]
async fn each_is_raised_to_the_floor_of_its_schedule() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        cluster.apply(stateful_set("ledger").requests("100m", "64Mi")).await?;
        cluster
            .apply(template_owner("apps/v1", "ReplicaSet", "cache", json!({"matchLabels": {"app": "cache"}})))
            .await?;
        cluster
            .apply(template_owner("v1", "ReplicationController", "relic", json!({"app": "relic"})))
            .await?;
        let kinds = [
            ("apps/v1", "StatefulSet", "ledger", "statefulsets"),
            ("apps/v1", "ReplicaSet", "cache", "replicasets"),
            ("v1", "ReplicationController", "relic", "replicationcontrollers"),
        ];
        for (api_version, kind, name, _) in kinds {
            cluster.apply(policy_with_floor(api_version, kind, name)).await?;
        }
        for (_, _, name, plural) in kinds {
            raised(cluster, plural, name).await?;
        }

        cluster.apply(definition()).await?;
        wait::until("the definition of farms is served", MINUTE, async || cluster.apply(farm()).await)
            .await?;
        cluster.apply(policy_with_floor("example.com/v1", "Farm", "sheep")).await?;
        wait::until("the missing permission is named", MINUTE, async || {
            let status = cluster.scaling_status("sheep")?.to_string();
            ensure!(status.contains("forbidden") && status.contains("farms"), "{status}");
            Ok(())
        })
        .await?;
        cluster.apply(role_for_farms()).await?;
        raised(cluster, "farms.example.com", "sheep").await?;
        operator.process().check_running()
    })
    .await;
}

async fn raised(cluster: &ControlPlane, plural: &str, name: &str) -> Result<()> {
    wait::until("the floor of the open window holds", 2 * MINUTE, async || {
        let replicas = cluster.kubectl(&["get", plural, name, "--output=jsonpath={.spec.replicas}"])?;
        ensure!(replicas == FLOOR.to_string(), "{plural}/{name} has {replicas} replicas");
        Ok(())
    })
    .await
}

fn policy_with_floor(api_version: &str, kind: &str, name: &str) -> Value {
    let mut policy = scaling_policy(name, name, 10);
    policy["spec"]["target"]["scale"] = json!({"apiVersion": api_version, "kind": kind, "name": name});
    policy["spec"]["schedules"] = json!([{"name": "rush", "minReplicas": FLOOR, "window": window(true)}]);
    policy
}

fn template_owner(api_version: &str, kind: &str, name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": selector,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main",
                    "image": "example/none",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }]},
            },
        },
    })
}

/// A kind of somebody else, with the scale subresource that custom resources may have.
fn definition() -> Value {
    let number = json!({"type": "integer"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "farms.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Farm", "plural": "farms", "singular": "farm"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"replicas": number}},
                    "status": {"type": "object", "properties": {
                        "replicas": number, "selector": {"type": "string"},
                    }},
                }}},
            }],
        },
    })
}

fn farm() -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Farm",
        "metadata": {"name": "sheep", "namespace": "default"},
        "spec": {"replicas": 1},
    })
}

fn role_for_farms() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "farms-for-headroom", "labels": {"headroom.dev/aggregate-to-operator": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["farms/scale"], "verbs": ["get", "update"]}],
    })
}
