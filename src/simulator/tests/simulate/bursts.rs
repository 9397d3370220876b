//! Many pods within a few seconds: the nodes that are bought for them are hardly more than their sums need.

use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::inspector::{End, Inspector};

/// The mix of the benchmark `bench-burst` at 5,000 pods: replicas, cpu and memory of each Deployment.
const MIX: [(&str, i64, &str, &str); 4] = [
    ("tiny", 2500, "250m", "512Mi"),
    ("medium", 1500, "1", "2Gi"),
    ("memory", 750, "2", "12Gi"),
    ("compute", 250, "3500m", "4Gi"),
];
/// Large nodes whose cpu holds the mix: 4,500 cores of 16 each.
const BOUND: usize = 282;
/// Maximum number of nodes for a burst of this size.
const NODES_MAX: usize = 290;

fn pool(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "5s"}}},
            "minNodes": 0, "maxNodes": 2000,
            "template": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}},
        },
    })
}

fn deployment(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [
                    {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}},
                ]},
            },
        },
    })
}

/// The Deployments of the mix a fifth of a second after one another, as a client creates them. Each gets so many pods a second.
fn scenario(pods_per_second: Option<usize>, seconds: i64) -> Scenario {
    let mut manifests =
        vec![(Kind::NodePool, pool("small", "4", "16Gi")), (Kind::NodePool, pool("large", "16", "64Gi"))];
    let mut events = Vec::new();
    for ((name, replicas, cpu, memory), fifth) in MIX.into_iter().zip(25..) {
        manifests.push((Kind::Deployment, deployment(name, cpu, memory)));
        events.push(Event {
            after: SignedDuration::from_millis(200 * fifth),
            action: Action::Scale(
                Target { kind: Kind::Deployment, key: ObjectKey::new("default", name) },
                replicas,
            ),
        });
    }
    Scenario {
        name: "burst".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_secs(seconds),
        tick: SignedDuration::from_millis(100),
        seed: 7,
        timings: Timings { node_ready: SignedDuration::from_secs(5), pods_per_second, ..Timings::default() },
        manifests,
        events,
    }
}

/// The number of nodes that were made until the end, when all pods have a node.
fn nodes_made(scenario: &Scenario) -> usize {
    let options = Options { keep_trace: true, ..Options::of(scenario) };
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    run(scenario, &options, &mut |scene| {
        inspector.look(scene);
        end = End::of(scene.cluster);
    })
    .expect("a runtime can be built");
    assert_eq!(inspector.violations, Vec::<String>::new());
    assert_eq!(end.pending, Vec::<String>::new());
    inspector.made.values().sum()
}

#[test]
fn burst_that_arrives_over_seconds_is_bought_for_as_one() {
    let made = nodes_made(&scenario(None, 30));
    assert!((BOUND..=NODES_MAX).contains(&made), "{made} nodes were made");
}

#[test]
fn burst_whose_pods_appear_over_a_minute_and_a_half_is_bought_for_as_one() {
    let made = nodes_made(&scenario(Some(30), 110));
    assert!((BOUND..=NODES_MAX).contains(&made), "{made} nodes were made");
}
