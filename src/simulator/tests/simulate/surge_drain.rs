//! Drains by one replica more: the budget holds at every step, and nothing is left over wherever the operator is killed.

use std::collections::BTreeSet;
use std::path::Path;

use headroom_simulator::run::{Options, Outcome, Scene, run};
use headroom_simulator::scenario::{Action, Event, Scenario};
use headroom_simulator::store::{Kind, ObjectKey, Store, at, condition, number, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Fewest pods by the budget, and the size that the policy comes to.
const REPLICAS: i64 = 3;

fn key() -> ObjectKey {
    ObjectKey::new("default", "checkout")
}

/// Watches the checkout.
#[derive(Default)]
struct Watch {
    /// True once all pods were ready for the first time.
    began: bool,
    violations: Vec<String>,
    /// Times at which the size went up and down again.
    surges: Vec<(Timestamp, i64)>,
    size: i64,
    /// Times at which nodes were marked.
    marked_at: BTreeSet<(String, Timestamp)>,
    marked: BTreeSet<String>,
    /// Nodes there are, most and now.
    nodes: BTreeSet<String>,
    made: BTreeSet<String>,
    left_over: Vec<String>,
}

impl Watch {
    fn look(&mut self, scene: &Scene<'_>) {
        let now = scene.now;
        scene.cluster.store().with(|store| {
            let ready = store.all(Kind::Pod).filter(|(_, pod)| is_available(pod)).count();
            self.began |= i64::try_from(ready) == Ok(REPLICAS);
            if self.began && i64::try_from(ready).is_ok_and(|ready| ready < REPLICAS) {
                self.violations.push(format!("{now}: {ready} pods are available"));
            }
            let size = size(store);
            if size != self.size {
                self.size = size;
                self.surges.push((now, size));
            }
            if !(REPLICAS..=REPLICAS + 1).contains(&size) {
                self.violations.push(format!("{now}: size {size}"));
            }
            self.nodes = store.all(Kind::Node).map(|(key, _)| key.name.to_string()).collect();
            self.made.extend(self.nodes.iter().cloned());
            let marked: BTreeSet<String> = store
                .all(Kind::Node)
                .filter(|(_, node)| is_marked(node))
                .map(|(key, _)| key.name.to_string())
                .collect();
            self.marked_at.extend(marked.difference(&self.marked).map(|name| (name.clone(), now)));
            self.marked = marked;
            self.left_over = left_over(store, &self.marked);
        });
    }
}

fn size(store: &Store) -> i64 {
    let deployment = store.find(Kind::Deployment, &key()).expect("it stays");
    number(deployment, &["spec", "replicas"]).unwrap_or(0)
}

fn is_available(pod: &Value) -> bool {
    text(pod, &["metadata", "labels", "app"]) == Some("checkout")
        && at(pod, &["metadata", "deletionTimestamp"]).is_none()
        && condition(pod, "Ready").is_some_and(|one| text(one, &["status"]) == Some("True"))
}

fn is_marked(node: &Value) -> bool {
    let taints = at(node, &["spec", "taints"]).and_then(Value::as_array).into_iter().flatten();
    taints.into_iter().any(|taint| text(taint, &["key"]) == Some("ToBeDeletedByClusterAutoscaler"))
}

/// What a surge must not leave behind.
fn left_over(store: &Store, marked: &BTreeSet<String>) -> Vec<String> {
    let mut left: Vec<String> = marked.iter().map(|node| format!("mark on {node}")).collect();
    if size(store) != REPLICAS {
        left.push(format!("size {}", size(store)));
    }
    for (key, pool) in store.all(Kind::NodePool) {
        let intents = at(pool, &["status", "intents"]).and_then(Value::as_array).map_or(0, Vec::len);
        if intents != 0 {
            left.push(format!("{intents} intents of pool {}", key.name));
        }
    }
    if let Some(policy) = store.find(Kind::ScalingPolicy, &key())
        && let Some(from) = number(policy, &["status", "surgedFrom"])
    {
        left.push(format!("status.surgedFrom {from}"));
    }
    left
}

fn scenario() -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples/surge-drain");
    Scenario::load(&folder).expect("examples are valid")
}

fn play(scenario: &Scenario, options: &Options) -> (Watch, Outcome) {
    let mut watch = Watch::default();
    let outcome = run(scenario, options, &mut |scene| watch.look(scene)).expect("a runtime can be built");
    assert_eq!(watch.violations, Vec::<String>::new(), "seed {}", options.seed);
    (watch, outcome)
}

/// The same, with one event more at a time after the start.
fn play_with(after: SignedDuration, action: Action) -> (Watch, Outcome) {
    let mut scenario = scenario();
    scenario.events.push(Event { after, action });
    scenario.events.sort_by_key(|event| event.after);
    let options = Options::of(&scenario);
    play(&scenario, &options)
}

/// The time after the start at which the size goes up first.
fn first_surge() -> (SignedDuration, Watch) {
    let scenario = scenario();
    let (watch, _) = play(&scenario, &Options::of(&scenario));
    let (at, _) = *watch.surges.iter().find(|(_, size)| *size == REPLICAS + 1).expect("a surge");
    (at.duration_since(scenario.start), watch)
}

#[test]
fn nodes_leave_one_after_the_other_while_the_budget_holds() {
    let (_, watch) = first_surge();
    assert_eq!(watch.nodes.len(), 2, "{:?} of {:?}", watch.nodes, watch.made);
    assert_eq!(watch.left_over, Vec::<String>::new());
    // No node was bought for the extra pods.
    assert_eq!(watch.made.len(), 4, "{:?}", watch.made);
}

#[test]
fn without_the_field_the_budget_keeps_the_nodes() {
    let mut scenario = scenario();
    for (kind, object) in &mut scenario.manifests {
        if *kind == Kind::ScalingPolicy {
            object["spec"]["disruption"] = json!({"surge": "Never"});
        }
    }
    let (watch, _) = play(&scenario, &Options::of(&scenario));
    assert!(2 < watch.nodes.len(), "{:?}", watch.nodes);
    assert!(watch.surges.iter().all(|(_, size)| *size == REPLICAS), "{:?}", watch.surges);
}

#[test]
fn operator_that_is_killed_at_any_second_of_a_drain_leaves_nothing_over() {
    let (surge_at, _) = first_surge();
    for second in -6..=24 {
        let (watch, outcome) =
            play_with(surge_at + SignedDuration::from_secs(second), Action::RestartOperator);
        assert_eq!(outcome.deaths_count, 1);
        assert_eq!(watch.left_over, Vec::<String>::new(), "killed {second} s after the surge");
        assert_eq!(watch.nodes.len(), 2, "killed {second} s after the surge: {:?}", watch.nodes);
    }
}

#[test]
fn through_crashes_and_lost_requests_the_budget_holds() {
    let scenario = scenario();
    let mut deaths_count = 0;
    for seed in 1..=4 {
        let rough = Options::of(&scenario).rough(&scenario);
        let options = Options { seed, effects_per_life_max: 12, ..rough };
        let (watch, outcome) = play(&scenario, &options);
        deaths_count += outcome.deaths_count;
        assert!(0 < outcome.faults_count, "seed {seed}");
        assert_eq!(watch.left_over, Vec::<String>::new(), "seed {seed}");
    }
    assert!(48 < deaths_count, "{deaths_count}");
}

/// The checkout's policy with another value of the field.
fn policy_with(surge: &str) -> Action {
    let manifests = scenario().manifests;
    let found = manifests.into_iter().find(|(kind, _)| *kind == Kind::ScalingPolicy);
    let (kind, mut policy) = found.expect("the example has one");
    policy["spec"]["disruption"] = json!({"surge": surge});
    Action::Apply(vec![(kind, policy)])
}

#[test]
fn replica_goes_back_when_the_policy_is_set_to_never_or_is_deleted() {
    let (surge_at, _) = first_surge();
    for second in [-2, 0, 1, 3, 6, 9, 12] {
        let after = surge_at + SignedDuration::from_secs(second);
        let (watch, _) = play_with(after, policy_with("Never"));
        assert_eq!(watch.left_over, Vec::<String>::new(), "Never {second} s after the surge");
        let (watch, _) = play_with(after, Action::Delete(Kind::ScalingPolicy, key()));
        assert_eq!(watch.left_over, Vec::<String>::new(), "deleted {second} s after the surge");
        // A few seconds later the pod has been evicted, and the removal goes on.
        if second <= 3 {
            assert!(2 < watch.nodes.len(), "deleted {second} s after the surge: {:?}", watch.nodes);
        }
    }
}

#[test]
fn replica_goes_back_when_the_operator_is_down_while_the_policy_is_deleted() {
    let (surge_at, _) = first_surge();
    for second in [1, 3, 5] {
        let mut scenario = scenario();
        let after = surge_at + SignedDuration::from_secs(second);
        let delete = Action::Delete(Kind::ScalingPolicy, key());
        scenario.events.push(Event { after, action: Action::RestartOperator });
        scenario.events.push(Event { after: after + SignedDuration::from_secs(1), action: delete });
        scenario.events.sort_by_key(|event| event.after);
        let (watch, _) = play(&scenario, &Options::of(&scenario));
        assert_eq!(watch.left_over, Vec::<String>::new(), "{second} s after the surge");
    }
}

#[test]
fn replica_goes_back_when_the_node_dies_or_the_drain_is_called_off() {
    let (surge_at, first) = first_surge();
    let (node, _) = first.marked_at.iter().min_by_key(|(_, at)| *at).expect("a node was marked").clone();
    for second in [1, 4, 8] {
        let after = surge_at + SignedDuration::from_secs(second);
        let scenario = {
            let mut scenario = scenario();
            let delete = Action::Delete(Kind::Node, ObjectKey::new("", &node));
            scenario.events.push(Event { after, action: delete });
            scenario.events.sort_by_key(|event| event.after);
            scenario
        };
        // Pods that die with their node are not the budget's to keep.
        let mut watch = Watch::default();
        run(&scenario, &Options::of(&scenario), &mut |scene| watch.look(scene)).expect("a runtime");
        assert_eq!(watch.left_over, Vec::<String>::new(), "{second} s after the surge");
        let pools = scenario.manifests.iter().find(|(kind, _)| *kind == Kind::NodePool).expect("a pool");
        let mut suspended = pools.clone();
        suspended.1["spec"]["mode"] = json!("Suspend");
        let (watch, _) = play_with(after, Action::Apply(vec![suspended]));
        assert_eq!(watch.left_over, Vec::<String>::new(), "suspended {second} s after the surge");
    }
}
