//! Removals beside a CapacityBuffer: the scheduler puts what is evicted into its room, so nodes must not go for that.

use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::Kind;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::inspector::{End, Inspector};

fn pool(policy: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "1s"}}},
            "minNodes": 0, "maxNodes": 30,
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
            "price": {"perHour": "0.2"},
            "scaleDown": {
                "unneededFor": "5s", "delayAfterAdd": "0s", "delayAfterDelete": "0s", "delayAfterFailure": "0s",
                "policy": policy,
            },
        },
    })
}

fn pods_of(cpu: &str, memory: &str) -> Value {
    let container =
        json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})
}

/// A buffer of so many pods of its own template.
fn buffer(name: &str, pod: Value, replicas: u32) -> [(Kind, Value); 2] {
    let meta = json!({"name": name, "namespace": "default"});
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": pod});
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": meta,
        "spec": {
            "provisioningStrategy": "headroom.dev/active-capacity",
            "podTemplateRef": {"name": name}, "replicas": replicas,
        },
    });
    [(Kind::PodTemplate, template), (Kind::CapacityBuffer, buffer)]
}

/// Twenty minutes, in which all of this comes at once.
fn scenario(manifests: Vec<(Kind, Value)>) -> Scenario {
    Scenario {
        name: "buffers".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_mins(20),
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings { node_ready: SignedDuration::from_secs(2), ..Timings::default() },
        manifests,
        events: Vec::new(),
    }
}

/// Runs a scenario and returns the numbers of nodes made and left.
fn nodes_of(scenario: &Scenario) -> (usize, usize) {
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    run(scenario, &Options::of(scenario), &mut |scene| {
        inspector.look(scene);
        end = End::of(scene.cluster);
    })
    .expect("a runtime can be built");
    assert_eq!(inspector.violations, Vec::<String>::new());
    assert_eq!((&end.wrong, &end.pending), (&vec![], &vec![]));
    (inspector.made.values().sum(), end.nodes.values().sum())
}

/// Thirty small pods on nodes of four cores, and a buffer of two chunks that nearly fill a node each.
#[test]
fn removals_come_to_rest_beside_a_buffer() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 30, "selector": {"matchLabels": {"app": "web"}}, "template": pods_of("100m", "64Mi")},
    });
    for policy in ["WhenUnderutilized", "WhenCheaper"] {
        let mut manifests = vec![(Kind::NodePool, pool(policy)), (Kind::Deployment, deployment.clone())];
        manifests.extend(buffer("room", pods_of("3500m", "64Mi"), 2));
        let (made, left) = nodes_of(&scenario(manifests));
        // Two for the chunks and one for the pods would be enough, if the scheduler packed them.
        assert!(made <= 6, "{policy}: {made} nodes were made");
        assert!((3..=5).contains(&left), "{policy}: {left} nodes are left");
    }
}

/// Buffers that fit on three nodes if they are moved one by one, and need four as a plan places them.
#[test]
fn removals_come_to_rest_among_buffers_of_several_shapes() {
    for policy in ["WhenUnderutilized", "WhenCheaper"] {
        let mut pool = pool(policy);
        pool["spec"]["template"]["reserved"] = json!({"cpu": "100m", "memory": "10Mi"});
        let mut manifests = vec![(Kind::NodePool, pool)];
        for (name, cpu, memory, replicas) in
            [("b0", "3", "2Gi", 2), ("b1", "900m", "1Gi", 2), ("b2", "100m", "6Gi", 3)]
        {
            manifests.extend(buffer(name, pods_of(cpu, memory), replicas));
        }
        let (made, left) = nodes_of(&scenario(manifests));
        assert!(made <= 6, "{policy}: {made} nodes were made");
        assert!((3..=5).contains(&left), "{policy}: {left} nodes are left");
    }
}
