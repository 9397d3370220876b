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

fn pods_of(cpu: &str) -> Value {
    let container =
        json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})
}

/// Thirty small pods on nodes of four cores, and a buffer of two chunks that nearly fill a node each, all at once.
fn scenario(policy: &str) -> Scenario {
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"),
        "spec": {"replicas": 30, "selector": {"matchLabels": {"app": "web"}}, "template": pods_of("100m")},
    });
    let template = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": meta("chunk"), "template": pods_of("3500m"),
    });
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": meta("room"),
        "spec": {
            "provisioningStrategy": "headroom.dev/active-capacity",
            "podTemplateRef": {"name": "chunk"}, "replicas": 2,
        },
    });
    Scenario {
        name: "buffers".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_mins(20),
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings { node_ready: SignedDuration::from_secs(2), ..Timings::default() },
        manifests: vec![
            (Kind::NodePool, pool(policy)),
            (Kind::Deployment, deployment),
            (Kind::PodTemplate, template),
            (Kind::CapacityBuffer, buffer),
        ],
        events: Vec::new(),
    }
}

#[test]
fn removals_come_to_rest_beside_a_buffer() {
    for policy in ["WhenUnderutilized", "WhenCheaper"] {
        let scenario = scenario(policy);
        let (mut inspector, mut end) = (Inspector::default(), End::default());
        run(&scenario, &Options::of(&scenario), &mut |scene| {
            inspector.look(scene);
            end = End::of(scene.cluster);
        })
        .expect("a runtime can be built");
        assert_eq!(inspector.violations, Vec::<String>::new());
        assert_eq!((&end.wrong, &end.pending), (&vec![], &vec![]));
        // Two for the chunks and one for the pods would be enough, if the scheduler packed them.
        let made: usize = inspector.made.values().sum();
        assert!(made <= 6, "{policy}: {made} nodes were made: {:?}", inspector.made);
        let left: usize = end.nodes.values().sum();
        assert!((3..=5).contains(&left), "{policy}: {:?}", end.nodes);
    }
}
