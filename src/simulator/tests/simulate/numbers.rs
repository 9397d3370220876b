//! Numbers that change nothing else are written seldom: once a minute into an HPA's status, and once in ten into that of its policy.

use std::collections::BTreeMap;

use headroom_simulator::cluster::Metric;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario};
use headroom_simulator::store::Kind;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::fixtures;

const LASTS: SignedDuration = SignedDuration::from_mins(30);
/// The load changes so often, by less than the tolerance.
const EVERY: SignedDuration = SignedDuration::from_secs(15);

/// A Deployment of three whose load is never quite the same, and never so different that its size should be another one.
fn scenario(scaler: (Kind, Value)) -> Scenario {
    let load = |step: i64| Event {
        after: SignedDuration::from_secs(EVERY.as_secs() * step),
        action: Action::Load(fixtures::target("default"), Metric::Cpu, 1500 + 10 * (step % 5)),
    };
    let manifests = vec![fixtures::node(), fixtures::deployment("default"), settings(), scaler];
    let events = (0..LASTS.as_secs() / EVERY.as_secs()).map(load).collect();
    fixtures::scenario("numbers", LASTS, manifests, events)
}

fn settings() -> (Kind, Value) {
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"}, "spec": {"workloads": {"hpaOwnership": "Replace"}}});
    (Kind::ClusterScalingPolicy, policy)
}

/// Writes by kind in the last twenty minutes, in which nothing happens.
fn writes(scaler: (Kind, Value)) -> BTreeMap<Kind, usize> {
    let scenario = scenario(scaler);
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
    let writes = writes(fixtures::hpa("default"));
    let of = |kind| writes.get(&kind).copied().unwrap_or(0);
    assert!((15..=20).contains(&of(Kind::HorizontalPodAutoscaler)), "{writes:?}");
    assert!((1..=3).contains(&of(Kind::ScalingPolicy)), "{writes:?}");
    assert_eq!(of(Kind::Deployment), 0, "{writes:?}");
}

#[test]
fn numbers_of_a_policy_without_an_hpa_are_in_its_status_each_minute() {
    let writes = writes(fixtures::policy("default"));
    let count = writes.get(&Kind::ScalingPolicy).copied().unwrap_or(0);
    assert!((15..=20).contains(&count), "{writes:?}");
}
