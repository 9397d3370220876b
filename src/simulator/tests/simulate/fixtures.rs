//! One big node, and Deployments of three pods named web that a policy or an HPA scales by their CPU.

use headroom_simulator::cluster::Timings;
use headroom_simulator::scenario::{Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A run in steps of a second.
pub(crate) fn scenario(
    name: &str,
    lasts: SignedDuration,
    manifests: Vec<(Kind, Value)>,
    events: Vec<Event>,
) -> Scenario {
    Scenario {
        name: name.to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("an instant"),
        duration: lasts,
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings::default(),
        manifests,
        events,
    }
}

pub(crate) fn node() -> (Kind, Value) {
    let size = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"capacity": size, "allocatable": size}});
    (Kind::Node, node)
}

/// The Deployment of a namespace.
pub(crate) fn target(namespace: &str) -> Target {
    Target { kind: Kind::Deployment, key: ObjectKey::new(namespace, "web") }
}

pub(crate) fn deployment(namespace: &str) -> (Kind, Value) {
    let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(namespace),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    (Kind::Deployment, deployment)
}

pub(crate) fn policy(namespace: &str) -> (Kind, Value) {
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": metadata(namespace), "spec": {"target": {"type": "Scale", "scale": scaled()},
            "minReplicas": 1, "maxReplicas": 9, "metrics": metrics()}});
    (Kind::ScalingPolicy, policy)
}

pub(crate) fn hpa(namespace: &str) -> (Kind, Value) {
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(namespace), "spec": {"scaleTargetRef": scaled(),
            "minReplicas": 1, "maxReplicas": 9, "metrics": metrics()}});
    (Kind::HorizontalPodAutoscaler, hpa)
}

fn metadata(namespace: &str) -> Value {
    json!({"name": "web", "namespace": namespace})
}

fn scaled() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn metrics() -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}}])
}
