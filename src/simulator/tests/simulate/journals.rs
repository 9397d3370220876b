//! The journal of each pool while writes of statuses fail: an intent that has ended stays ended.

use std::collections::BTreeSet;
use std::time::Duration;

use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Entry, Kind, ObjectKey, at, text};
use headroom_simulator::wire::FaultRates;
use jiff::SignedDuration;
use serde_json::{Value, json};

const POOLS: [&str; 4] = ["a", "b", "c", "d"];
const SECONDS: i64 = 240;

/// A pool, and pods that fit nowhere else.
fn pool_with_pods(name: &str) -> [(Kind, Value); 2] {
    let pool = json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": "1s"}}},
            "minNodes": 0, "maxNodes": 200,
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "labels": {"tier": name}},
        },
    });
    let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": "2500m"}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": {"tier": name}, "containers": [container]},
            },
        },
    });
    [(Kind::NodePool, pool), (Kind::Deployment, deployment)]
}

/// Each second each pool wants a node more.
fn scenario() -> Scenario {
    let grow = |second: i64| {
        POOLS.map(|name| {
            let target = Target { kind: Kind::Deployment, key: ObjectKey::new("default", name) };
            Event { after: SignedDuration::from_secs(5 + second), action: Action::Scale(target, second + 1) }
        })
    };
    Scenario {
        name: "journals".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_secs(SECONDS),
        tick: SignedDuration::from_millis(100),
        seed: 7,
        timings: Timings { node_ready: SignedDuration::from_secs(2), ..Timings::default() },
        manifests: POOLS.into_iter().flat_map(pool_with_pods).collect(),
        events: (0..SECONDS - 60).flat_map(grow).collect(),
    }
}

/// Intents that were stored, and those that were not stored any more.
#[derive(Default)]
struct Journals {
    cursor: u64,
    opened: BTreeSet<(String, String)>,
    ended: BTreeSet<(String, String)>,
    opened_again: BTreeSet<(String, String)>,
}

impl Journals {
    fn note(&mut self, entry: &Entry) {
        let before = entry.before.as_ref().map(|pool| intents(pool)).unwrap_or_default();
        let after = intents(&entry.object);
        self.ended.extend(before.difference(&after).cloned());
        let opened: BTreeSet<_> = after.difference(&before).cloned().collect();
        self.opened_again.extend(opened.intersection(&self.ended).cloned());
        self.opened.extend(opened);
    }
}

fn intents(pool: &Value) -> BTreeSet<(String, String)> {
    let name = text(pool, &["metadata", "name"]).unwrap_or_default();
    let all = at(pool, &["status", "intents"]).and_then(Value::as_array);
    let ids = all.into_iter().flatten().filter_map(|intent| text(intent, &["id"]));
    ids.map(|id| (name.to_owned(), id.to_owned())).collect()
}

#[test]
fn increases_that_have_ended_stay_ended_while_a_tenth_of_all_writes_is_refused() {
    let scenario = scenario();
    let faults = FaultRates { refuse: 1000, ..FaultRates::default() };
    let calm_after = SignedDuration::from_secs(SECONDS - 40);
    // So far apart each plan ends increases of the one before, and begins others.
    let plan_interval_min = Duration::from_secs(4);
    let options = Options { faults, calm_after, plan_interval_min, ..Options::of(&scenario) };
    let mut journals = Journals::default();
    run(&scenario, &options, &mut |scene| {
        scene.cluster.store().with(|store| {
            let entries = store.entries_after(journals.cursor).expect("every step is looked at");
            entries.filter(|entry| entry.kind == Kind::NodePool).for_each(|entry| journals.note(entry));
            journals.cursor = store.revision();
        });
    })
    .expect("a runtime can be built");
    let (opened, ended) = (journals.opened.len(), journals.ended.len());
    assert!(100 < opened && opened == ended, "{opened} opened, {ended} ended");
    assert_eq!(journals.opened_again, BTreeSet::new());
}
