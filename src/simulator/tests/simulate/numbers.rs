//! Numbers that change nothing else are written seldom: once a minute into an HPA's status, and once in ten into that of its policy.

use std::collections::BTreeMap;

use headroom_simulator::cluster::{Metric, Timings};
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::{Value, json};

const LASTS: SignedDuration = SignedDuration::from_mins(30);
/// The load changes so often, by less than the tolerance.
const EVERY: SignedDuration = SignedDuration::from_secs(15);

/// A Deployment of three whose load is never quite the same, and never so different that its size should be another one.
fn scenario(scaler: [(Kind, Value); 2]) -> Scenario {
    let size = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"capacity": size, "allocatable": size}});
    let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    let web = Target { kind: Kind::Deployment, key: ObjectKey::new("default", "web") };
    let load = |step: i64| Event {
        after: SignedDuration::from_secs(EVERY.as_secs() * step),
        action: Action::Load(web.clone(), Metric::Cpu, 1500 + 10 * (step % 5)),
    };
    Scenario {
        name: "numbers".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("an instant"),
        duration: LASTS,
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings::default(),
        manifests: [(Kind::Node, node), (Kind::Deployment, deployment)].into_iter().chain(scaler).collect(),
        events: (0..LASTS.as_secs() / EVERY.as_secs()).map(load).collect(),
    }
}

fn metadata() -> Value {
    json!({"name": "web", "namespace": "default"})
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn metrics() -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}}])
}

fn settings() -> (Kind, Value) {
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"}, "spec": {"workloads": {"hpaOwnership": "Replace"}}});
    (Kind::ClusterScalingPolicy, policy)
}

/// Writes by kind in the last twenty minutes, in which nothing happens.
fn writes(scaler: (Kind, Value)) -> BTreeMap<Kind, usize> {
    let scenario = scenario([settings(), scaler]);
    let from = scenario.start + SignedDuration::from_mins(10);
    let (mut cursor, mut writes) = (0, BTreeMap::new());
    run(&scenario, &Options::of(&scenario), &mut |scene| {
        scene.cluster.store().with(|store| {
            let entries = store.entries_after(cursor).expect("every step is looked at");
            for entry in entries.filter(|entry| from <= entry.at) {
                *writes.entry(entry.kind).or_default() += 1;
            }
            cursor = store.revision();
        });
    })
    .expect("a runtime can be built");
    writes
}

#[test]
fn numbers_of_an_hpa_are_in_its_status_each_minute_and_in_its_policys_now_and_then() {
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata(),
        "spec": {"scaleTargetRef": web(), "minReplicas": 1, "maxReplicas": 9, "metrics": metrics()}});
    let writes = writes((Kind::HorizontalPodAutoscaler, hpa));
    let of = |kind| writes.get(&kind).copied().unwrap_or(0);
    assert!((15..=20).contains(&of(Kind::HorizontalPodAutoscaler)), "{writes:?}");
    assert!((1..=3).contains(&of(Kind::ScalingPolicy)), "{writes:?}");
    assert_eq!(of(Kind::Deployment), 0, "{writes:?}");
}

#[test]
fn numbers_of_a_policy_without_an_hpa_are_in_its_status_each_minute() {
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": metadata(),
        "spec": {"target": {"type": "Scale", "scale": web()},
            "minReplicas": 1, "maxReplicas": 9, "metrics": metrics()}});
    let writes = writes((Kind::ScalingPolicy, policy));
    let count = writes.get(&Kind::ScalingPolicy).copied().unwrap_or(0);
    assert!((15..=20).contains(&count), "{writes:?}");
}
