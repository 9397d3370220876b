//! Pools that go for the lowest price: the load falls and rises, and the nodes change with it without hurting anybody.

use std::collections::BTreeMap;

use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::inspector::{End, Inspector};

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

fn pool(name: &str, cpu: &str, memory: &str, per_hour: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "10s"}}},
            "minNodes": 0, "maxNodes": 30,
            "template": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}},
            "price": {"perHour": per_hour},
            "scaleDown": {
                "unneededFor": "1m", "delayAfterAdd": "1m",
                "policy": "WhenCheaper", "minSaving": 10, "consolidateAfter": "2m",
            },
        },
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                ]},
            },
        },
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    })
}

/// Many pods, few, and then more and more, three at a time.
fn scenario() -> Scenario {
    let scale = |after: i64, replicas: i64| Event {
        after: minutes(after),
        action: Action::Scale(
            Target { kind: Kind::Deployment, key: ObjectKey::new("default", "web") },
            replicas,
        ),
    };
    let mut events = vec![scale(0, 15), scale(10, 3)];
    events.extend((2..=5).map(|step| scale(30 + step, 3 * step)));
    Scenario {
        name: "consolidation".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: minutes(100),
        tick: SignedDuration::from_secs(1),
        seed: 5,
        timings: Timings { node_ready: SignedDuration::from_secs(20), ..Timings::default() },
        manifests: vec![
            (Kind::NodePool, pool("large", "16", "64Gi", "0.6")),
            (Kind::NodePool, pool("small", "4", "16Gi", "0.2")),
            (Kind::Deployment, deployment()),
            (Kind::PodDisruptionBudget, budget()),
        ],
        events,
    }
}

#[test]
fn nodes_follow_the_price_and_no_pod_waits_for_it() {
    let scenario = scenario();
    let options = Options { keep_trace: true, ..Options::of(&scenario) };
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    let mut nodes_at: BTreeMap<i64, BTreeMap<String, usize>> = BTreeMap::new();
    let (mut waiting_since, mut waits): (Option<Timestamp>, Vec<String>) = (None, Vec::new());
    let loads: Vec<SignedDuration> = scenario.events.iter().map(|event| event.after).collect();
    run(&scenario, &options, &mut |scene| {
        inspector.look(scene);
        end = End::of(scene.cluster);
        let passed = scene.now.duration_since(scenario.start);
        nodes_at.insert(passed.as_secs() / 60, end.nodes.clone());
        // New replicas may wait for a node to be bought; those that consolidation moves may not.
        let grows = loads.iter().any(|at| *at <= passed && passed < *at + minutes(1));
        waiting_since =
            if end.pending.is_empty() || grows { None } else { waiting_since.or(Some(scene.now)) };
        if waiting_since.is_some_and(|since| SignedDuration::from_secs(5) < scene.now.duration_since(since)) {
            waits.push(format!("{}: {:?}", scene.now, end.pending));
        }
    })
    .expect("a runtime can be built");
    assert_eq!(inspector.violations, Vec::<String>::new());
    assert_eq!(waits, Vec::<String>::new());
    assert_eq!((&end.wrong, &end.pending), (&vec![], &vec![]));

    let nodes = |minute: i64| {
        let of = |pool: &str| nodes_at[&minute].get(pool).copied().unwrap_or(0);
        (of("large"), of("small"))
    };
    assert_eq!(nodes(30), (0, 1), "three pods are cheapest on a small node");
    assert_eq!(nodes(99), (1, 0), "fifteen pods are cheaper on a large node than on four small ones");
    assert!((60..100).all(|minute| nodes(minute) == nodes(99)), "{nodes_at:?}");
    let made: usize = inspector.made.values().sum();
    assert!(made <= 9, "{made} nodes were made: {:?}", inspector.made);
}
