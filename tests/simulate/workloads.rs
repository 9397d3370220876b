//! The loop of workloads in virtual time: bounds hold, schedules keep the local time, and nothing shrinks on what is not known.

use std::collections::BTreeMap;
use std::path::Path;

use headroom::simulate::run::{Options, Outcome, Scene, run};
use headroom::simulate::scenario::{Action, Event, Scenario, Target};
use headroom::simulate::store::{Kind, ObjectKey, number};
use jiff::{SignedDuration, Timestamp};

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
    offences: Vec<String>,
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
                    self.offences.push(format!("{}: {after} replicas are out of bounds", scene.now));
                }
                if after < before && !measured {
                    self.offences.push(format!("{}: {before}→{after} while nothing is known", scene.now));
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lunch-time");
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
    Action::Load(kitchen, milli_cpu)
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
    assert_eq!(overseer.offences, Vec::<String>::new());
    (overseer, outcome)
}

fn watch(scenario: &Scenario, options: &Options) -> (Overseer, Outcome) {
    let mut overseer = Overseer::default();
    let outcome = run(scenario, options, &mut |scene| overseer.look(scene)).expect("a runtime can be built");
    (overseer, outcome)
}

/// What goes wrong while the metrics are away for some minutes of a busy lunch.
pub fn offences_at_lunch() -> Vec<String> {
    let events = vec![Event { after: minutes(8), action: Action::MetricsOutage(minutes(8)) }];
    let scenario = part("2026-03-28T11:00:00Z", minutes(16), 7000, events);
    watch(&scenario, &Options::of(&scenario)).0.offences
}

#[test]
fn nothing_goes_wrong_while_the_metrics_are_away() {
    assert_eq!(offences_at_lunch(), Vec::<String>::new());
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
