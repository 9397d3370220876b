//! Workloads at zero replicas: they go there in time, come back within one sync, and wherever the operator is killed nothing is
//! lost.

use std::path::Path;
use std::sync::Arc;

use headroom_simulator::cluster::Metric;
use headroom_simulator::run::{Options, Scene, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey, at, condition, number, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::examples::{nodes, play_with};

/// Minutes after the start at which the queue runs dry, and fills again.
const DRY: i64 = 20;
const FULL: i64 = 60;
const TO_ZERO_AFTER: i64 = 10;
/// A sync period and the time that a write takes.
const PATIENCE: SignedDuration = SignedDuration::from_secs(17);
/// The same after the operator was killed in mid-write, whose outcome has to be clear first.
const PATIENCE_AFTER_A_CRASH: SignedDuration = SignedDuration::from_secs(120);

fn key() -> ObjectKey {
    ObjectKey::new("default", "worker")
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// Watches the worker.
#[derive(Default)]
struct Watch {
    /// Time after the start from which it had each size.
    sizes: Vec<(SignedDuration, i64)>,
    policy: Arc<Value>,
    /// True if the operator was seen dead with the mark stored and the size not written yet.
    died_before_the_write: bool,
    /// True if it was seen dead with the size written and its outcome not stored yet.
    died_after_the_write: bool,
}

impl Watch {
    fn look(&mut self, scene: &Scene<'_>, start: Timestamp) {
        scene.cluster.store().with(|store| {
            let deployment = store.find(Kind::Deployment, &key()).expect("it stays");
            let size = number(deployment, &["spec", "replicas"]).unwrap_or(0);
            if self.sizes.last().is_none_or(|(_, last)| *last != size) {
                self.sizes.push((scene.now.duration_since(start), size));
            }
            self.policy = store.find(Kind::ScalingPolicy, &key()).cloned().unwrap_or_default();
            let last = &self.policy["status"]["decisions"][0];
            let under_way = last["outcome"] == "InProgress" && last["to"] == 0;
            if under_way && scene.lives.iter().all(Option::is_none) {
                self.died_before_the_write |= 0 < size && self.mark().is_some();
                self.died_after_the_write |= size == 0;
            }
        });
    }

    /// Times at which it went to 0.
    fn at_zero(&self) -> Vec<SignedDuration> {
        self.sizes.iter().filter(|(_, size)| *size == 0).map(|(at, _)| *at).collect()
    }

    /// Times at which it left 0.
    fn woken(&self) -> Vec<SignedDuration> {
        let pairs = self.sizes.iter().zip(self.sizes.iter().skip(1));
        pairs.filter(|((_, size), _)| *size == 0).map(|(_, (at, _))| *at).collect()
    }

    fn size(&self) -> i64 {
        self.sizes.last().map_or(-1, |(_, size)| *size)
    }

    fn mark(&self) -> Option<&str> {
        text(&self.policy, &["status", "zero", "scaledAt"])
    }
}

fn load(milli: i64) -> Action {
    let queue = Metric::of(&json!({"type": "External", "external": {"metric": {"name": "queue"}}}));
    Action::Load(Target { kind: Kind::Deployment, key: key() }, queue.expect("a metric"), milli * 1000)
}

fn scale(replicas: i64) -> Action {
    Action::Scale(Target { kind: Kind::Deployment, key: key() }, replicas)
}

/// The example, its queue full for a while, dry, and full again; and what else happens.
fn scenario(events: Vec<(SignedDuration, Action)>) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples/to-zero");
    let mut scenario = Scenario::load(&folder).expect("examples are valid");
    scenario.duration = minutes(75);
    let queue = [(minutes(0), load(40)), (minutes(DRY), load(2)), (minutes(FULL), load(30))];
    let all = queue.into_iter().chain(events);
    scenario.events = all.map(|(after, action)| Event { after, action }).collect();
    scenario.events.sort_by_key(|event| event.after);
    scenario
}

fn play(scenario: &Scenario, options: &Options) -> Watch {
    let mut watch = Watch::default();
    run(scenario, options, &mut |scene| watch.look(scene, scenario.start)).expect("a runtime can be built");
    watch
}

fn play_with_events(events: Vec<(SignedDuration, Action)>) -> Watch {
    let scenario = scenario(events);
    play(&scenario, &Options::of(&scenario))
}

/// Checks that it went to 0 once and came back once, each in time.
fn check(watch: &Watch, patience: SignedDuration, what: &str) {
    let (gone, woken) = (watch.at_zero(), watch.woken());
    assert!(gone.len() == 1 && woken.len() == 1, "{what}: {:?}", watch.sizes);
    let earliest = minutes(DRY + TO_ZERO_AFTER);
    assert!(earliest <= gone[0] && gone[0] <= earliest + patience + PATIENCE, "{what}: {:?}", watch.sizes);
    assert!(minutes(FULL) <= woken[0] && woken[0] <= minutes(FULL) + patience, "{what}: {:?}", watch.sizes);
    assert_eq!((watch.size(), watch.mark()), (6, None), "{what}: {:?}", watch.sizes);
}

#[test]
fn worker_goes_to_zero_in_time_and_comes_back_within_one_sync() {
    check(&play_with_events(Vec::new()), PATIENCE, "nothing happens");
}

#[test]
fn night_at_zero_needs_no_node_and_ends_with_the_first_jobs() {
    let mut at_night = (0, Arc::default());
    let midnight: Timestamp = "2026-03-03T01:20:00Z".parse().expect("a time");
    let seen = play_with("to-zero", &mut |scene| {
        if scene.now < midnight {
            let policy = scene.cluster.store().with(|store| store.find(Kind::ScalingPolicy, &key()).cloned());
            at_night = (scene.cluster.statistics.now().ready_nodes, policy.unwrap_or_default());
        }
    });
    let (ready_nodes, policy) = at_night;
    assert_eq!((ready_nodes, number(&policy, &["status", "currentReplicas"])), (0, Some(0)));
    let reason = |type_: &str| condition(&policy, type_).and_then(|one| text(one, &["reason"]));
    assert_eq!(reason("ScalingActive"), Some("FailedGetExternalMetric"), "the outage: {policy}");
    assert!(at(&policy, &["status", "zero", "scaledAt"]).is_some(), "{policy}");
    assert!(0 < nodes(&seen, "general"));
    assert_eq!(seen.outcome.deaths_count, 1);
}

#[test]
fn operator_that_is_killed_at_any_second_on_the_way_to_zero_or_back_loses_nothing() {
    let first = play_with_events(Vec::new());
    for (around, from, to) in [(first.at_zero()[0], -2, 3), (first.woken()[0], -2, 3)] {
        for second in from..=to {
            let killed_at = around + SignedDuration::from_secs(second);
            let watch = play_with_events(vec![(killed_at, Action::RestartOperator)]);
            check(&watch, PATIENCE_AFTER_A_CRASH, &format!("killed at {killed_at}"));
        }
    }
    let watch = play_with_events(vec![(minutes(45), Action::RestartOperator)]);
    check(&watch, PATIENCE, "killed at 0");
}

/// The same in ten minutes: dry after one, full after six, and a minute until the last replica goes.
fn short() -> Scenario {
    let mut scenario = scenario(Vec::new());
    for (_, object) in scenario.manifests.iter_mut().filter(|(kind, _)| *kind == Kind::ScalingPolicy) {
        object["spec"]["timing"] = json!({"toZeroAfter": "1m"});
        object["spec"]["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    }
    let queue = [(0, 5), (1, 2), (6, 5)];
    scenario.events = queue.map(|(at, jobs)| Event { after: minutes(at), action: load(jobs) }).into();
    scenario.duration = minutes(10);
    scenario
}

#[test]
fn operator_that_dies_before_and_after_the_mark_and_the_size_are_written_loses_nothing() {
    let scenario = short();
    let (mut before, mut after) = (0, 0);
    for seed in 1..=40 {
        let options =
            Options { effects_per_life_max: 8, calm_after: minutes(5), seed, ..Options::of(&scenario) };
        let watch = play(&scenario, &options);
        let (gone, woken) = (watch.at_zero(), watch.woken());
        assert!(gone.len() == 1 && woken.len() == 1, "seed {seed}: {:?}", watch.sizes);
        assert!(minutes(2) <= gone[0], "seed {seed}: {:?}", watch.sizes);
        let in_time = minutes(6) <= woken[0] && woken[0] <= minutes(6) + PATIENCE;
        assert!(in_time, "seed {seed}: {:?}", watch.sizes);
        assert_eq!((watch.size(), watch.mark()), (1, None), "seed {seed}: {}", watch.policy);
        before += u32::from(watch.died_before_the_write);
        after += u32::from(watch.died_after_the_write);
    }
    assert!(0 < before && 0 < after, "{before} deaths before the write of the size, {after} after it");
}

#[test]
fn worker_that_a_person_sets_to_zero_stays_there_through_a_restart_until_a_person_sets_it_to_one() {
    let by_hand = |more: Vec<(SignedDuration, Action)>| {
        let mut events = vec![(minutes(10), scale(0)), (minutes(15), Action::RestartOperator)];
        events.extend(more);
        play_with_events(events)
    };
    let watch = by_hand(Vec::new());
    assert_eq!((watch.size(), watch.woken().len()), (0, 0), "{:?}", watch.sizes);
    let reason = condition(&watch.policy, "ScalingActive").and_then(|one| text(one, &["reason"]));
    assert_eq!((reason, watch.mark()), (Some("PausedAtZero"), None), "{}", watch.policy);
    assert_eq!(text(&watch.policy, &["status", "reason"]), Some("PausedAtZero"));
    let watch = by_hand(vec![(minutes(61), scale(1))]);
    assert_eq!(watch.size(), 6, "{:?}", watch.sizes);
}

#[test]
fn preview_shows_the_way_to_zero_and_does_not_go_it() {
    let mut scenario = scenario(Vec::new());
    for (_, object) in scenario.manifests.iter_mut().filter(|(kind, _)| *kind == Kind::ScalingPolicy) {
        object["spec"]["mode"] = json!("Preview");
    }
    scenario.duration = minutes(FULL);
    let watch = play(&scenario, &Options::of(&scenario));
    assert_eq!((watch.sizes.len(), watch.mark()), (1, None), "{:?}", watch.sizes);
    let decision = &watch.policy["status"]["decisions"][0];
    assert_eq!((&decision["to"], &decision["outcome"]), (&json!(0), &json!("Preview")), "{}", watch.policy);
    assert_eq!(decision["reason"], "NoMetricActive");
}
