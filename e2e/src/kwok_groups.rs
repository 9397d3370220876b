//! The ConfigMaps by which upstream's KWOK provider of Cluster Autoscaler knows its groups; sends nothing.

use serde_json::{Value, json};

/// Namespace of the ConfigMaps, which the provider finds by `POD_NAMESPACE`.
pub const NAMESPACE: &str = "kube-system";
/// The label by which templates name their group.
const GROUP_LABEL: &str = "example.com/group";

/// A group of equal machines, of 0 to `max` nodes.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    /// Quantities by resource.
    pub capacity: Value,
    pub allocatable: Value,
    pub max: u32,
}

/// The provider's configuration and its groups.
pub fn config_maps(groups: &[Group]) -> Vec<Value> {
    let items: Vec<Value> = groups.iter().map(template).collect();
    let templates = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let config = json!({
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP_LABEL},
        "nodes": {"skipTaint": true},
        "configmap": {"name": "kwok-provider-templates"},
    });
    let config_map = |name: &str, key: &str, value: &Value| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key: value.to_string()},
        })
    };
    vec![
        config_map("kwok-provider-config", "config", &config),
        config_map("kwok-provider-templates", "templates", &templates),
    ]
}

/// Environment of a program that holds the provider, outside of a cluster.
pub fn env(kubeconfig: &std::path::Path) -> Vec<(String, String)> {
    [
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("KWOK_PROVIDER_MODE", "local".to_owned()),
        ("POD_NAMESPACE", NAMESPACE.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn template(group: &Group) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": format!("template-{}", group.name),
            "labels": {
                GROUP_LABEL: group.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": "z",
                "type": "kwok",
            },
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                "cluster-autoscaler.kwok.nodegroup/min-count": "0",
                "cluster-autoscaler.kwok.nodegroup/max-count": group.max.to_string(),
            },
        },
        "spec": {},
        "status": {"capacity": group.capacity, "allocatable": group.allocatable},
    })
}
