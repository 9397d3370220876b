//! The loop of workloads in virtual time: bounds hold, schedules keep the local time, and nothing shrinks on what is not known.

use std::collections::BTreeMap;
use std::path::Path;

use headroom_core::history::History;
use headroom_core::pods::decision::Branch;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{Leave, ReplicaDecision};
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::config;
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_explain::{Case, Evidence, ProviderView};
use headroom_simulator::cluster::Metric;
use headroom_simulator::run::{Options, Outcome, Scene, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey, at as within, number};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The kitchen's own bounds.
const BOUNDS: (i64, i64) = (2, 30);
/// A sync period and the time that a write takes.
const PATIENCE: SignedDuration = SignedDuration::from_secs(20);

/// Watches the sizes of the Deployments.
#[derive(Default)]
struct Overseer {
    cursor: u64,
    /// The kitchen's size from each time on.
    sizes: BTreeMap<Timestamp, i64>,
    violations: Vec<String>,
}

impl Overseer {
    fn look(&mut self, scene: &Scene<'_>) {
        let measured = scene.cluster.load.is_measured(scene.now);
        scene.cluster.store().with(|store| {
            let entries = store.entries_after(self.cursor).expect("every step is looked at");
            for entry in entries.filter(|entry| entry.kind == Kind::Deployment) {
                let Some(after) = number(&entry.object, &["spec", "replicas"]) else { continue };
                let before = self.sizes.values().next_back().copied().unwrap_or(after);
                if !(BOUNDS.0..=BOUNDS.1).contains(&after) {
                    self.violations.push(format!("{}: {after} replicas are out of bounds", scene.now));
                }
                if after < before && !measured {
                    self.violations.push(format!("{}: {before}→{after} while nothing is known", scene.now));
                }
                if after != before || self.sizes.is_empty() {
                    self.sizes.insert(entry.at, after);
                }
            }
            self.cursor = store.revision();
        });
    }

    fn size_at(&self, at: Timestamp) -> i64 {
        self.sizes.range(..=at).next_back().map_or(0, |(_, size)| *size)
    }

    /// Fewest replicas between two times.
    fn least(&self, from: Timestamp, to: Timestamp) -> i64 {
        let inside = self.sizes.range(from..to).map(|(_, size)| *size);
        inside.fold(self.size_at(from), i64::min)
    }
}

fn lunch_time() -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples/lunch-time");
    Scenario::load(&folder).expect("examples are valid")
}

/// A part of it, with a load of `milli_cpu` and what else happens.
fn part(start: &str, length: SignedDuration, milli_cpu: i64, events: Vec<Event>) -> Scenario {
    let mut scenario = lunch_time();
    scenario.start = at(start);
    scenario.duration = length;
    scenario.events = vec![Event { after: SignedDuration::ZERO, action: load(milli_cpu) }];
    scenario.events.extend(events);
    scenario
}

fn load(milli_cpu: i64) -> Action {
    let kitchen = Target { kind: Kind::Deployment, key: ObjectKey::new("default", "kitchen") };
    Action::Load(kitchen, Metric::Cpu, milli_cpu)
}

/// The load goes while nobody can see it, and the operator dies in the meantime.
fn blind_at_lunch() -> Scenario {
    let event = |minute, action| Event { after: minutes(minute), action };
    let events = vec![
        event(15, Action::MetricsOutage(minutes(15))),
        event(17, load(600)),
        event(20, Action::RestartOperator),
    ];
    part("2026-03-28T11:00:00Z", minutes(60), 7000, events)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

fn play(scenario: &Scenario, options: &Options) -> (Overseer, Outcome) {
    let (overseer, outcome) = watch(scenario, options);
    assert_eq!(overseer.violations, Vec::<String>::new());
    (overseer, outcome)
}

fn watch(scenario: &Scenario, options: &Options) -> (Overseer, Outcome) {
    let mut overseer = Overseer::default();
    let outcome = run(scenario, options, &mut |scene| overseer.look(scene)).expect("a runtime can be built");
    (overseer, outcome)
}

/// Returns the violations while the metrics are away for some minutes of a busy lunch.
pub(crate) fn violations_at_lunch() -> Vec<String> {
    let events = vec![Event { after: minutes(8), action: Action::MetricsOutage(minutes(8)) }];
    let scenario = part("2026-03-28T11:00:00Z", minutes(16), 7000, events);
    watch(&scenario, &Options::of(&scenario)).0.violations
}

#[test]
fn nothing_goes_wrong_while_the_metrics_are_away() {
    assert_eq!(violations_at_lunch(), Vec::<String>::new());
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// The kitchen's size a second before a window opens, and the least from then on, a sync period left for it.
fn before_and_after(opens_at: &str) -> (i64, i64) {
    let opens_at = at(opens_at);
    let start = (opens_at - minutes(5)).to_string();
    let scenario = part(&start, minutes(12), 300, Vec::new());
    let (seen, _) = play(&scenario, &Options::of(&scenario));
    let over = scenario.start + scenario.duration;
    (seen.size_at(opens_at - SignedDuration::from_secs(1)), seen.least(opens_at + PATIENCE, over))
}

#[test]
fn windows_open_at_the_local_time_on_both_sides_of_the_clock_change() {
    // 11:30 in Berlin is 10:30 UTC in winter and 09:30 UTC in summer.
    assert_eq!(before_and_after("2026-03-28T10:30:00Z"), (2, 12));
    assert_eq!(before_and_after("2026-03-29T09:30:00Z"), (2, 12));
    // 02:30 is skipped that night: the window opens when the skipped hour ends, at 03:00, which is 01:00 UTC.
    assert_eq!(before_and_after("2026-03-29T01:00:00Z"), (2, 4));
}

#[test]
fn nothing_shrinks_on_what_is_not_known_and_then_it_does() {
    let scenario = blind_at_lunch();
    let (seen, outcome) = play(&scenario, &Options::of(&scenario));
    let busy = seen.size_at(scenario.start + minutes(15));
    assert!((22..=26).contains(&busy), "{:?}", seen.sizes);
    assert_eq!(
        seen.least(scenario.start + minutes(15), scenario.start + minutes(30)),
        busy,
        "{:?}",
        seen.sizes
    );
    assert_eq!(seen.size_at(scenario.start + minutes(60)), 12, "{:?}", seen.sizes);
    assert_eq!(outcome.deaths_count, 1);
}

#[test]
fn through_crashes_and_lost_requests_the_bounds_hold_and_the_end_is_the_same() {
    let scenario = blind_at_lunch();
    for seed in [3, 8] {
        let options = Options { seed, ..Options::of(&scenario).rough(&scenario) };
        let (seen, outcome) = play(&scenario, &options);
        assert!(1 < outcome.deaths_count && 0 < outcome.faults_count, "seed {seed}: {:?}", outcome.summary);
        assert_eq!(seen.size_at(scenario.start + minutes(60)), 12, "seed {seed}: {:?}", seen.sizes);
    }
}

/// Takes a snapshot of what each decision was made from, while the run goes on, and decides again from the file.
#[derive(Default)]
struct Stenographer {
    replayed: BTreeMap<Moment, ReplicaDecision>,
    violations: Vec<String>,
}

impl Stenographer {
    fn look(&mut self, scene: &Scene<'_>) {
        for life in scene.lives.iter().flatten() {
            let record = life.health().evaluations.record();
            let Some(workload) = record.workloads.first() else { continue };
            if self.replayed.contains_key(&workload.now) {
                continue;
            }
            let now = UnixTime::from_jiff(scene.now);
            let input = Snapshot::of(&World::new(), &History::default(), &config([]), now);
            let case = Case::new(input.with_replicas(record), Evidence::default(), ProviderView::Operator);
            let file = case.render().expect("a case is JSON");
            let read = Case::parse(&file).expect("what was written can be read");
            let again = read.open().expect("a case").replicas.expect("they were noted");
            let [again] = <[ReplicaDecision; 1]>::try_from(again).expect("there is one workload");
            let status = scene.cluster.store().with(|store| {
                let key = ObjectKey::new("default", "kitchen");
                let policy = store.find(Kind::ScalingPolicy, &key).expect("the policy stays");
                within(policy, &["status"]).cloned().unwrap_or_default()
            });
            let (live, ours) = (proposal_of_status(&status), proposal_of_decision(&again));
            if live != ours {
                self.violations.push(format!("{}: status says {live}, the file {ours}", again.at));
            }
            self.replayed.insert(again.at, again);
        }
    }
}

/// Returns the part of the last decision in a policy's status that is written at once.
fn proposal_of_status(status: &Value) -> Value {
    let proposals = status["recommendation"]["metrics"].as_array().into_iter().flatten();
    let proposals: Vec<&Value> = proposals.map(|one| &one["replicas"]).collect();
    json!({"desired": status["desiredReplicas"], "proposals": proposals,
        "min": status["bounds"]["minReplicas"], "max": status["bounds"]["maxReplicas"]})
}

/// The same of a decision.
fn proposal_of_decision(decision: &ReplicaDecision) -> Value {
    let steps = &decision.steps;
    let proposals: Vec<Option<i32>> = steps.metrics.iter().map(|one| one.proposal).collect();
    json!({"desired": steps.desired.or(steps.current), "proposals": proposals,
        "min": steps.bounds.min, "max": steps.bounds.max})
}

#[test]
fn a_snapshot_in_the_middle_decides_as_the_live_loop_did() {
    let scenario = blind_at_lunch();
    let (mut overseer, mut stenographer) = (Overseer::default(), Stenographer::default());
    let mut spectate = |scene: &Scene<'_>| {
        overseer.look(scene);
        stenographer.look(scene);
    };
    run(&scenario, &Options::of(&scenario), &mut spectate).expect("a runtime can be built");
    assert_eq!(stenographer.violations, Vec::<String>::new());
    // Every change of size that was made is in a file, and no other.
    let first = overseer.sizes.pop_first();
    let made: Vec<i64> = overseer.sizes.values().copied().collect();
    let granted = stenographer.replayed.values().filter(|one| one.leave == Leave::Granted);
    let again: Vec<i64> = granted.filter_map(|one| one.rescale.as_ref()).map(|one| one.to.into()).collect();
    assert_eq!(again, made, "{first:?} {:?}", overseer.sizes);
    // One each 15 s of an hour, but for the time after the restart; with and without metrics.
    let count = |branch| stenographer.replayed.values().filter(|one| one.steps.branch == branch).count();
    assert!(230 <= stenographer.replayed.len(), "{}", stenographer.replayed.len());
    assert!(40 <= count(Branch::Unknown) && 150 <= count(Branch::Metrics), "{:?}", count(Branch::Unknown));
}

#[test]
fn the_same_seed_decides_the_same() {
    let scenario = part("2026-03-28T10:20:00Z", minutes(15), 3000, Vec::new());
    let hash = || play(&scenario, &Options::of(&scenario)).1.hash;
    assert_eq!(hash(), hash());
}

#[test]
#[ignore = "a minute in debug mode; run by make soak"]
fn soak_two_lunches_are_served_with_a_night_between_them() {
    let scenario = lunch_time();
    let (seen, outcome) = play(&scenario, &Options::of(&scenario));
    for (opens_at, closes_at) in
        [("2026-03-28T10:30:00Z", "2026-03-28T13:00:00Z"), ("2026-03-29T09:30:00Z", "2026-03-29T12:00:00Z")]
    {
        let (opens_at, closes_at) = (at(opens_at), at(closes_at));
        assert!(seen.size_at(opens_at - SignedDuration::from_secs(1)) < 12, "{:?}", seen.sizes);
        assert!(12 <= seen.least(opens_at + PATIENCE, closes_at), "{:?}", seen.sizes);
    }
    // The load of each lunch needs more than the schedule's floor, and is served.
    for noon in ["2026-03-28T12:20:00Z", "2026-03-29T11:20:00Z"] {
        assert!((22..=30).contains(&seen.size_at(at(noon))), "{:?}", seen.sizes);
    }
    assert_eq!(seen.size_at(at("2026-03-29T17:59:00Z")), 2, "{:?}", seen.sizes);
    assert_eq!(outcome.deaths_count, 1);
}
