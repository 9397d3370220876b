//! A long run of a large cluster with daily load and faults, held against the invariants that can be checked at any size. The same
//! options are the same run, bit for bit.

mod cluster;
mod load;
mod report;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_operator::options::PLAN_INTERVAL_MIN;
use headroom_simulator::cluster::Timings;
use headroom_simulator::replica::{Life, PortKind};
use headroom_simulator::run::{Options, Outcome, Scene, run};
use headroom_simulator::scenario::{Happening, Scenario};
use headroom_simulator::store::{Author, DeleteOptions, Kind, ObjectKey, Store, text, timestamp};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::report::{Part, Report};

use self::trouble::Trouble;
use crate::account::{Account, SharedAccount};
use crate::checker::{Goal, SharedChecker, endless_intents, examine};
use crate::environment::FaultEnvironment;

/// A Monday, so that the weekend is at the end.
const START: &str = "2026-01-05T00:00:00Z";
/// An intent is open for a node's time to register, its time to become ready, and an outage of the API server.
const INTENT_OPEN_MAX: SignedDuration = SignedDuration::from_mins(75);
/// Period in which intents that do not end and pods that wait are looked for.
const LOOK_EVERY: SignedDuration = SignedDuration::from_mins(10);
/// Pods that have no node after so long are named.
const LONG_WAIT: SignedDuration = SignedDuration::from_mins(20);
/// Default of the API server's `--event-ttl`.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
const EXPIRY: Author<'static> = Author::actor("event-expiry");
/// Mutating calls within a minute that a cluster of any size may need, and those for each node on top: a node is made, marked
/// and deleted, and its pods are evicted.
const CALLS_PER_MINUTE: usize = 600;
const CALLS_PER_MINUTE_AND_NODE: usize = 4;

/// Size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeekOptions {
    /// Simulated hours.
    pub hours: i64,
    /// Nodes at most, some fourteen pods each.
    pub nodes: i64,
    /// Shapes names, uids and faults.
    pub seed: u64,
    /// Replicas of the operator.
    pub replicas: usize,
    /// No two plans of the operator are closer than so many seconds; 0 for as close as in production.
    pub tick_seconds: i64,
    /// True if anything goes wrong.
    pub faults: bool,
}

impl Default for WeekOptions {
    fn default() -> WeekOptions {
        WeekOptions { hours: 168, nodes: 15_000, seed: 1, replicas: 2, tick_seconds: 0, faults: true }
    }
}

/// The parts of a run: while it is busy the load changes and things go wrong, then it is calm to the end.
#[derive(Debug, Clone, Copy)]
struct Span {
    hours: i64,
}

impl Span {
    /// A run of less than a day has the curve of one.
    fn day_minutes(&self) -> i64 {
        self.hours.clamp(1, 24) * 60
    }

    fn busy_minutes(&self) -> i64 {
        self.hours * 60 - (self.hours * 60 / 4).clamp(30, 180)
    }
}

/// Runs it; each finished part is shown to `progress`.
///
/// # Errors
/// If the runtime cannot be built.
pub fn run_week(options: &WeekOptions, progress: &mut dyn FnMut(&Part)) -> std::io::Result<Report> {
    let span = Span { hours: options.hours };
    let trouble = match options.faults {
        true => Trouble::of(options.seed, &span, options.nodes, options.replicas),
        false => Trouble::default(),
    };
    let scenario = scenario(options, &span, &trouble);
    let checker = checker(options);
    let account = account(options);
    let environment =
        FaultEnvironment::new(checker.clone(), Some(account.clone()), scenario.start, &trouble.disturbances);
    let run_options = Options {
        port: PortKind::Typed,
        replicas_count: options.replicas,
        plan_interval_min: Duration::from_secs(options.tick_seconds.unsigned_abs()).max(PLAN_INTERVAL_MIN),
        faults: if options.faults { trouble::rates() } else { Default::default() },
        calm_after: SignedDuration::from_mins(span.busy_minutes()),
        environment: Some(Arc::new(environment)),
        ..Options::of(&scenario)
    };
    let mut watch = Watch::begin(&scenario, checker.clone());
    let outcome = run(&scenario, &run_options, &mut |scene| watch.look(scene, progress))?;
    let mut report = watch.end(&scenario, outcome);
    report.faults.extend(trouble::count(&trouble.events));
    Ok(report)
}

fn scenario(options: &WeekOptions, span: &Span, trouble: &Trouble) -> Scenario {
    let workloads = cluster::workloads(options.nodes);
    let mut events = load::events(&workloads, span);
    events.extend(trouble.events.iter().cloned());
    events.sort_by_key(|event| event.after);
    Scenario {
        name: "week".to_owned(),
        description: String::new(),
        start: START.parse().unwrap_or(Timestamp::UNIX_EPOCH),
        duration: SignedDuration::from_hours(options.hours),
        tick: SignedDuration::from_secs(options.tick_seconds.max(1)),
        seed: options.seed,
        timings: Timings {
            node_ready: SignedDuration::from_secs(40),
            pod_start: SignedDuration::from_secs(5),
            ..Timings::default()
        },
        manifests: cluster::manifests(options.nodes, &workloads),
        events,
    }
}

fn checker(options: &WeekOptions) -> SharedChecker {
    let checker = SharedChecker::default();
    let (removals, drains) = cluster::parallel_removals(options.nodes);
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    {
        let mut checker = checker.lock();
        checker.limits.removals_max = count(removals);
        checker.limits.drains_max = count(drains);
        checker.limits.calls_per_minute_max =
            CALLS_PER_MINUTE + CALLS_PER_MINUTE_AND_NODE * count(options.nodes);
    }
    checker
}

/// The account behind one of the pools: its machines may never become nodes, or others than were promised.
fn account(options: &WeekOptions) -> SharedAccount {
    let faults = if options.faults { trouble::account() } else { Default::default() };
    let mut account = Account::new(options.seed, faults);
    account.launches_at_once = true;
    let most = u32::try_from(cluster::cloud_nodes(options.nodes)).unwrap_or(u32::MAX);
    for (group, zone) in cluster::cloud_groups() {
        account.add_group("cloud", &group, zone, most);
    }
    SharedAccount::new(account)
}

/// The spectator of a run: parts of it, and what is looked for now and then because it costs a look at everything.
struct Watch {
    checker: SharedChecker,
    start: Timestamp,
    look_at: Timestamp,
    part_ends_at: Timestamp,
    ends_at: Timestamp,
    figures: Part,
    waiting: (usize, String),
    /// Number of violations that have been shown.
    shown_count: usize,
    refused: Vec<String>,
    steps_count: u64,
    plans: Plans,
    end: End,
}

/// Plans by replica: those of the process that lives, as its own metric counts them, and those of earlier ones.
#[derive(Default)]
struct Plans {
    alive: BTreeMap<usize, u64>,
    earlier: u64,
}

impl Plans {
    fn note(&mut self, replica: usize, life: &Life) {
        let text = life.metrics().exposition();
        let found = text.lines().find_map(|line| line.strip_prefix(PLANS_METRIC));
        let count = found.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        let before = self.alive.insert(replica, count).unwrap_or(0);
        // A new process counts from the beginning.
        self.earlier += if count < before { before } else { 0 };
    }

    fn count(&self) -> u64 {
        self.earlier + self.alive.values().sum::<u64>()
    }
}

/// The metric that counts plans, as a line of the exposition begins.
const PLANS_METRIC: &str = "headroom_plan_duration_seconds_count";

/// State at the end, as of the last step.
#[derive(Default)]
struct End {
    running: usize,
    pending: usize,
    wait_seconds: [i64; 3],
    requested_cpu_hours: f64,
}

/// Period in which figures are shown while the run goes on.
const PART: SignedDuration = SignedDuration::from_hours(6);

impl Watch {
    fn begin(scenario: &Scenario, checker: SharedChecker) -> Watch {
        Watch {
            checker,
            start: scenario.start,
            look_at: scenario.start + LOOK_EVERY,
            part_ends_at: scenario.start + PART,
            ends_at: scenario.start + scenario.duration,
            figures: Part::default(),
            waiting: (0, String::new()),
            shown_count: 0,
            refused: Vec::new(),
            steps_count: 0,
            plans: Plans::default(),
            end: End::default(),
        }
    }

    fn look(&mut self, scene: &Scene<'_>, progress: &mut dyn FnMut(&Part)) {
        self.steps_count += 1;
        let minute = scene.cluster.statistics.now();
        self.figures.nodes_max = self.figures.nodes_max.max(minute.nodes);
        self.figures.pods_max = self.figures.pods_max.max(minute.running_pods);
        self.figures.pending_max = self.figures.pending_max.max(minute.pending_pods);
        for one in scene.happened {
            if let Happening::Refused(message) = one {
                self.refused.push(message.clone());
            }
        }
        if self.look_at <= scene.now {
            self.look_at = scene.now + LOOK_EVERY;
            self.look_hard(scene);
        }
        if self.part_ends_at <= scene.now {
            self.part_ends_at = scene.now + PART;
            progress(&self.part(scene.now));
        }
        if self.ends_at <= scene.now {
            self.look_at_end(scene);
        }
    }

    /// Every pod runs, and no mark is left without an intent. Intents may be open: pods are moved to fewer nodes for hours.
    fn look_at_end(&mut self, scene: &Scene<'_>) {
        let (state, wrong) =
            scene.cluster.store().with(|store| examine(store, &[], &Goal::default(), scene.now));
        let mut checker = self.checker.lock();
        for one in wrong.into_iter().filter(|one| matches!(one.invariant, "I12" | "I16")) {
            checker.violated(one.at, one.invariant, one.message);
        }
        let statistics = &scene.cluster.statistics;
        self.end = End {
            running: state.running,
            pending: state.pending.len(),
            requested_cpu_hours: statistics.requested_cpu_hours(),
            wait_seconds: [500, 990, 1000].map(|permille| statistics.wait_seconds(permille)),
        };
    }

    /// Looks that cost as much as there is.
    fn look_hard(&mut self, scene: &Scene<'_>) {
        for (replica, life) in scene.lives.iter().enumerate() {
            if let Some(life) = life {
                self.plans.note(replica, life);
            }
        }
        let (endless, waiting) = scene.cluster.store().with(|store| {
            expire_events(store, scene.now);
            (endless_intents(store, INTENT_OPEN_MAX, scene.now), long_waiting(store, scene.now))
        });
        let mut checker = self.checker.lock();
        for one in endless {
            checker.violated(one.at, one.invariant, one.message);
        }
        if self.waiting.0 < waiting.0 {
            self.waiting = waiting;
        }
    }

    fn part(&mut self, now: Timestamp) -> Part {
        let checker = self.checker.lock();
        let figures = std::mem::take(&mut self.figures);
        let found = checker.violations()[self.shown_count..].to_vec();
        self.shown_count += found.len();
        Part {
            hours: now.duration_since(self.start).as_hours(),
            plans: self.plans.count(),
            purchases: checker.purchases_count,
            removals: checker.removed_count,
            evictions: checker.evictions_count,
            violations: checker.violations_count.values().sum(),
            found,
            waiting: std::mem::take(&mut self.waiting),
            ..figures
        }
    }

    fn end(self, scenario: &Scenario, outcome: Outcome) -> Report {
        let End { running, pending, wait_seconds, requested_cpu_hours } = self.end;
        let checker = self.checker.lock();
        Report {
            simulated: outcome.ended_at.duration_since(scenario.start),
            steps_count: self.steps_count,
            plans: self.plans.count(),
            objects_written: outcome.trace_count,
            hash: outcome.hash,
            faults: outcome.faults,
            purchases: checker.purchases_count,
            removals: checker.removals_count.clone(),
            evictions: checker.evictions_count,
            calls_count: checker.writes_count,
            late_calls_count: checker.late_calls_count,
            lower_bound_node_hours: requested_cpu_hours * 1000.0 / cluster::NODE_CPU_MILLI as f64,
            summary: outcome.summary,
            wait_seconds,
            running,
            pending,
            refused: self.refused,
            violations: checker.violations().to_vec(),
            violations_count: checker.violations_count.clone(),
        }
    }
}

/// Deletes events as API servers do after an hour: a week of them is more than the cluster.
fn expire_events(store: &mut Store, now: Timestamp) {
    let old = |event: &Value| {
        let created_at = timestamp(event, &["metadata", "creationTimestamp"]);
        created_at.is_some_and(|at| EVENT_TTL < now.duration_since(at))
    };
    let keys: Vec<ObjectKey> =
        store.all(Kind::Event).filter(|(_, event)| old(event)).map(|(key, _)| key.clone()).collect();
    for key in keys {
        // It was there a moment ago.
        let _ = store.delete(Kind::Event, &key, &DeleteOptions::now(), EXPIRY);
    }
}

/// Number of pods that have had no node for long; one of them, and what status reports of pods without a place.
fn long_waiting(store: &Store, now: Timestamp) -> (usize, String) {
    let (mut count, mut first) = (0, String::new());
    for (key, pod) in store.all(Kind::Pod) {
        // Almost all have a node, and a time costs more to read.
        let has_node = text(pod, &["spec", "nodeName"]).is_some();
        let created_at = || timestamp(pod, &["metadata", "creationTimestamp"]);
        if !has_node && created_at().is_some_and(|at| LONG_WAIT < now.duration_since(at)) {
            if count == 0 {
                first = format!("{key} at {now}");
            }
            count += 1;
        }
    }
    if count != 0 {
        first += &reported_reasons(store);
    }
    (count, first)
}

/// Why pods have no place, as the cluster's policy reports it.
fn reported_reasons(store: &Store) -> String {
    let policies = store.all(Kind::ClusterScalingPolicy);
    let rows = policies.filter_map(|(_, policy)| policy["status"]["unplaced"].as_array()).flatten();
    let reasons: Vec<String> = rows
        .map(|row| format!("{} pods {}", row["pods"], text(row, &["reason"]).unwrap_or("without a reason")))
        .collect();
    match reasons.is_empty() {
        true => " (status reports no reason)".to_owned(),
        false => format!(" (status reports {})", reasons.join(", ")),
    }
}
