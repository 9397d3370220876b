//! Pods that nobody binds, and room that is about to be free: what is bought for them is bounded, and nobody is evicted for it.

use std::collections::BTreeSet;

use headroom_simulator::cluster::{REFUSED_ANNOTATION, Timings};
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey, text};
use jiff::SignedDuration;
use serde_json::{Value, json};

fn pool(max: i64, cpu: &str) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "flap"},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "1s"}}},
            "minNodes": 0, "maxNodes": max,
            "template": {"capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
            "scaleDown": {"unneededFor": "15s", "delayAfterAdd": "15s"},
        },
    })
}

fn deployment(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}],
                },
            },
        },
    })
}

fn scenario(minutes: i64, manifests: Vec<(Kind, Value)>, events: Vec<Event>) -> Scenario {
    Scenario {
        name: "refused".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_mins(minutes),
        tick: SignedDuration::from_millis(500),
        seed: 7,
        timings: Timings { node_ready: SignedDuration::from_secs(2), ..Timings::default() },
        manifests,
        events,
    }
}

/// Nodes that were made, and pods of `web` that there ever were.
fn played(scenario: &Scenario) -> (usize, usize) {
    let (mut nodes, mut pods) = (BTreeSet::new(), BTreeSet::new());
    run(scenario, &Options::of(scenario), &mut |scene| {
        scene.cluster.store().with(|store| {
            nodes.extend(store.all(Kind::Node).map(|(key, _)| key.clone()));
            let web = |pod: &Value| text(pod, &["metadata", "labels", "app"]) == Some("web");
            pods.extend(store.all(Kind::Pod).filter(|(_, pod)| web(pod)).map(|(key, _)| key.clone()));
        });
    })
    .expect("a runtime can be built");
    (nodes.len(), pods.len())
}

/// A pod of almost a whole node, which is changed by `odd`, and two small ones.
fn with_odd(odd: impl FnOnce(&mut Value)) -> Vec<(Kind, Value)> {
    let mut volcano = deployment("volcano", 1, "3500m");
    odd(&mut volcano["spec"]["template"]);
    vec![
        (Kind::NodePool, pool(5, "4")),
        (Kind::Deployment, volcano),
        (Kind::Deployment, deployment("web", 2, "600m")),
    ]
}

#[test]
fn pod_of_a_scheduler_that_does_not_exist_costs_nothing() {
    let manifests = with_odd(|template| template["spec"]["schedulerName"] = "volcano".into());
    assert_eq!(played(&scenario(30, manifests, Vec::new())), (1, 2), "nodes made, pods of web");
}

#[test]
fn pod_that_the_scheduler_refuses_costs_a_node_at_growing_intervals() {
    let manifests =
        with_odd(|template| template["metadata"]["annotations"] = json!({REFUSED_ANNOTATION: "100"}));
    let (nodes, pods) = played(&scenario(180, manifests, Vec::new()));
    assert!(nodes <= 6, "{nodes} nodes were made in three hours");
    assert!(pods <= 6, "pods of web were evicted {} times", pods - 2);
}

#[test]
fn load_that_goes_and_comes_back_within_seconds_buys_nothing_more() {
    let scale = |seconds: i64, replicas: i64| Event {
        after: SignedDuration::from_secs(seconds),
        action: Action::Scale(
            Target { kind: Kind::Deployment, key: ObjectKey::new("default", "web") },
            replicas,
        ),
    };
    let manifests = vec![(Kind::NodePool, pool(60, "8")), (Kind::Deployment, deployment("web", 600, "500m"))];
    // 16 pods of half a core fit a node of eight cores, less what the system takes: 600 need 38 to 40.
    let (before, _) = played(&scenario(2, manifests.clone(), Vec::new()));
    let (nodes, _) = played(&scenario(2, manifests, vec![scale(60, 10), scale(64, 500)]));
    assert!(nodes <= before, "{nodes} nodes were made, {before} for 600 pods");
}
