//! Behavior of the workload loop on its own bugs, on the simulated cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::{Metric, Timings};
use super::run::{Options, run};
use super::scenario::{Action, Event, Scenario, Target};
use super::store::{Kind, ObjectKey, Store, condition, number};

fn deployment(name: &str) -> (Kind, Value) {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
    });
    (Kind::Deployment, object)
}

fn policy(name: &str, metric: Value) -> (Kind, Value) {
    let object = json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
            "minReplicas": 1, "maxReplicas": 9, "metrics": [metric]},
    });
    (Kind::ScalingPolicy, object)
}

/// A node for all pods of a scenario.
fn large_node() -> (Kind, Value) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}});
    (Kind::Node, node)
}

/// Twelve minutes from seven in the morning, in steps of a second.
fn scenario(name: &str, manifests: Vec<(Kind, Value)>, events: Vec<Event>) -> Scenario {
    Scenario {
        name: name.to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().unwrap(),
        duration: SignedDuration::from_mins(12),
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings::default(),
        manifests,
        events,
    }
}

/// From the beginning on the pods of a Deployment use so much of this.
fn load(name: &str, metric: Metric, milli: i64) -> Event {
    load_after(SignedDuration::ZERO, name, metric, milli)
}

fn load_after(after: SignedDuration, name: &str, metric: Metric, milli: i64) -> Event {
    let target = Target { kind: Kind::Deployment, key: ObjectKey::new("default", name) };
    Event { after, action: Action::Load(target, metric, milli) }
}

/// Replicas that a Deployment is to have.
fn size(store: &Store, name: &str) -> Option<i64> {
    let found = store.find(Kind::Deployment, &ObjectKey::new("default", name));
    found.and_then(|found| number(found, &["spec", "replicas"]))
}

/// A metric that keeps the CPU of pods at half of what they request.
fn half_of_cpu() -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}})
}

#[test]
fn a_reconcile_that_panics_is_reported_and_costs_no_other_workload() {
    let poison = json!({"type": "External", "external": {"metric": {"name": "panic"},
        "target": {"type": "AverageValue", "averageValue": "1"}}});
    let manifests = vec![
        large_node(),
        deployment("bad"),
        deployment("well"),
        policy("bad", poison),
        policy("well", half_of_cpu()),
    ];
    let scenario = scenario("poison", manifests, vec![load("well", Metric::Cpu, 3000)]);
    let mut seen = (None, None, None);
    run(&scenario, &Options::of(&scenario), &mut |scene| {
        scene.cluster.store().with(|store| {
            let status = |name| store.find(Kind::ScalingPolicy, &ObjectKey::new("default", name)).cloned();
            seen = (status("bad"), size(store, "bad"), size(store, "well"));
        });
    })
    .unwrap();
    let (bad, bad_size, well_size) = seen;
    let bad = bad.unwrap();
    let ready = condition(&bad, "Ready").unwrap();
    assert_eq!(
        (ready["status"].as_str(), ready["reason"].as_str()),
        (Some("False"), Some("Internal")),
        "{bad}"
    );
    assert!(ready["message"].as_str().unwrap().contains("tried again every 60 s"), "{ready}");
    assert!(condition(&bad, "Stalled").is_none(), "{bad}");
    assert_eq!(bad["status"]["reason"], "Internal");
    assert_eq!((bad_size, well_size), (Some(3), Some(6)));
}

/// All workloads are looked at every 15 s, and those whose policies say so down to every 2 s.
fn periods_down_to_2_s() -> (Kind, Value) {
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"}, "spec": {"workloads": {"syncPeriod": "15s", "minSyncPeriod": "2s"}}});
    (Kind::ClusterScalingPolicy, policy)
}

/// From then on so much stands in the `queue` of all.
fn in_queue(after: SignedDuration, milli: i64) -> Event {
    let queue = Metric::of(&json!({"type": "External", "external": {"metric": {"name": "queue"}}})).unwrap();
    load_after(after, "quick-0", queue, milli)
}

/// A Deployment and its policy, sized by the external metric `queue`.
fn queued(name: &str, timing: Value) -> [(Kind, Value); 2] {
    let queue = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "1"}}});
    let (kind, mut policy) = policy(name, queue);
    policy["spec"]["timing"] = timing;
    [deployment(name), (kind, policy)]
}

#[test]
fn policies_with_a_period_of_their_own_follow_sooner_and_the_others_keep_theirs() {
    let mut manifests = vec![periods_down_to_2_s()];
    let names = |group: &str| (0..6).map(|index| format!("{group}-{index}")).collect::<Vec<_>>();
    for name in names("quick") {
        manifests.extend(queued(&name, json!({"syncPeriod": "2s"})));
    }
    for name in names("usual") {
        manifests.extend(queued(&name, json!({})));
    }
    manifests.extend(queued("hasty", json!({"syncPeriod": "1s"})));
    let rises_at = SignedDuration::from_secs(100);
    let events = vec![in_queue(SignedDuration::ZERO, 3000), in_queue(rises_at, 5000)];
    let scenario = Scenario {
        duration: SignedDuration::from_mins(3),
        tick: SignedDuration::from_millis(500),
        ..scenario("periods", manifests, events)
    };
    let mut grown_after: BTreeMap<String, SignedDuration> = BTreeMap::new();
    let mut hasty = Arc::default();
    run(&scenario, &Options::of(&scenario), &mut |scene| {
        scene.cluster.store().with(|store| {
            for name in names("quick").into_iter().chain(names("usual")) {
                if size(store, &name) == Some(5) {
                    let after = scene.now.duration_since(scenario.start + rises_at);
                    grown_after.entry(name).or_insert(after);
                }
            }
            let found = store.find(Kind::ScalingPolicy, &ObjectKey::new("default", "hasty"));
            hasty = found.cloned().unwrap_or_default();
        });
    })
    .unwrap();
    assert_eq!(grown_after.len(), 12, "all follow: {grown_after:?}");
    let latest = |group: &str| {
        grown_after.iter().filter(|(name, _)| name.starts_with(group)).map(|(_, after)| *after).max()
    };
    assert!(latest("quick").unwrap() <= SignedDuration::from_secs(3), "{grown_after:?}");
    let usual = latest("usual").unwrap();
    assert!(
        SignedDuration::from_secs(4) < usual && usual <= SignedDuration::from_secs(16),
        "{grown_after:?}"
    );
    let ready = condition(&hasty, "Ready").unwrap();
    assert!(ready["message"].as_str().unwrap().contains("every 2 s"), "{ready}");
}

/// The times at which six workloads with a period of 2 s have grown after a rise of their load, by name; `edits` of another
/// policy come each 400 ms.
fn growth_beside(edits: i64) -> BTreeMap<String, Timestamp> {
    let mut manifests = vec![periods_down_to_2_s()];
    let names: Vec<String> = (0..6).map(|index| format!("quick-{index}")).collect();
    for name in &names {
        manifests.extend(queued(name, json!({"syncPeriod": "2s"})));
    }
    manifests.extend(queued("edited", json!({})));
    let edit = |number: i64| {
        let [_, (kind, mut policy)] = queued("edited", json!({}));
        policy["spec"]["maxReplicas"] = json!(10 + number % 2);
        let after = SignedDuration::from_secs(50) + SignedDuration::from_millis(400 * number);
        Event { after, action: Action::Apply(vec![(kind, policy)]) }
    };
    let mut events =
        vec![in_queue(SignedDuration::ZERO, 3000), in_queue(SignedDuration::from_secs(60), 5000)];
    events.extend((0..edits).map(edit));
    events.sort_by_key(|event| event.after);
    let scenario = Scenario {
        duration: SignedDuration::from_secs(70),
        tick: SignedDuration::from_millis(20),
        ..scenario("edits", manifests, events)
    };
    let mut grown = BTreeMap::new();
    run(&scenario, &Options::of(&scenario), &mut |scene| {
        scene.cluster.store().with(|store| {
            for name in names.iter().filter(|name| size(store, name) == Some(5)) {
                grown.entry(name.clone()).or_insert(scene.now);
            }
        });
    })
    .unwrap();
    grown
}

#[test]
fn edits_of_other_policies_make_no_look_late() {
    let (quiet, noisy) = (growth_beside(0), growth_beside(40));
    assert_eq!(quiet.len(), 6);
    let late = |(name, at): (&String, &Timestamp)| noisy[name].duration_since(*at);
    let latest = quiet.iter().map(late).max().unwrap();
    assert!(latest <= SignedDuration::from_millis(100), "{latest} later, at {noisy:?} and not {quiet:?}");
}

/// Size of a Deployment `web` at its target, beside another one whose pods have its labels too and run at ten times that.
fn size_beside_a_namesake(strategy: Option<&str>) -> Option<i64> {
    let (_, mut namesake) = deployment("namesake");
    namesake["spec"]["selector"]["matchLabels"] = json!({"app": "web", "role": "batch"});
    namesake["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "role": "batch"});
    let (kind, mut policy) = policy("web", half_of_cpu());
    if let Some(strategy) = strategy {
        policy["spec"]["selectionStrategy"] = strategy.into();
    }
    let manifests = vec![large_node(), deployment("web"), (Kind::Deployment, namesake), (kind, policy)];
    let events = vec![load("web", Metric::Cpu, 1_500), load("namesake", Metric::Cpu, 15_000)];
    let scenario = scenario("namesake", manifests, events);
    let mut last = None;
    run(&scenario, &Options::of(&scenario), &mut |scene| {
        last = scene.cluster.store().with(|store| size(store, "web"));
    })
    .unwrap();
    last
}

#[test]
fn pods_of_another_workload_with_the_same_labels_change_nothing_unless_labels_are_to_count() {
    assert_eq!(size_beside_a_namesake(None), Some(3));
    assert_eq!(size_beside_a_namesake(Some("OwnerReferences")), Some(3));
    assert_eq!(size_beside_a_namesake(Some("LabelSelector")), Some(9));
}
