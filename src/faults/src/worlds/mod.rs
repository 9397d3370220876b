//! Random worlds with random trouble, each drawn from one seed and held against the invariants; the same seed is the
//! same run, bit for bit.
//!
//! Every kind of fault is on or off per seed, and its rate is drawn too: combinations that a fixed mix would never show
//! come up by themselves. Each run ends with a long time without faults, in which the system must reach its goal and stay.

mod blows;
mod handover;
mod load;
mod panics;
mod pools;
mod refused;
mod theme;
mod world;

use std::collections::BTreeMap;

use jiff::SignedDuration;

pub use self::blows::Blows;
pub use self::theme::Theme;
pub use self::world::World;

use super::account::{Account, SharedAccount, Truth};
use super::judge::{Cycles, End, SharedJudge, Violation, Workloads, examine};
use super::replica::PortKind;
use super::run::{Options, run};
use super::scenario::Scenario;
use super::trace::{Line, StableHash};

/// How a seed is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trial {
    /// How the operator observes; drawn by the seed if not said.
    pub port: Option<PortKind>,
    /// Whether the run is held against one without faults too.
    pub differential: bool,
    /// How long the goal must hold without a write; a minute and a half if not said.
    pub stay: Option<SignedDuration>,
    /// Whether the report tells what happened, line by line.
    pub story: bool,
    /// When the run may end early, because what was looked for is found.
    pub until: Option<Until>,
    /// What the world is directed at, if anything.
    pub theme: Option<Theme>,
}

/// What ends a run early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Any violation.
    Any,
    /// A violation of this promise.
    Promise(&'static str),
}

impl Until {
    fn is_found(self, violations: &[Violation]) -> bool {
        let looked_for = |violation: &Violation| match self {
            Until::Any => true,
            Until::Promise(promise) => violation.invariant == promise,
        };
        violations.iter().any(looked_for)
    }
}

/// What one seed came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How the operator observed.
    pub port: PortKind,
    /// How long the run was, in simulated time.
    pub simulated: SignedDuration,
    /// What went wrong by itself, and how often.
    pub faults: BTreeMap<&'static str, u64>,
    /// What must never happen, and did.
    pub violations: Vec<Violation>,
    /// The hash of everything that happened.
    pub hash: StableHash,
    /// Writes of the operator that took effect.
    pub writes_count: u64,
    /// Nodes that were made.
    pub made_count: usize,
    /// Nodes that the operator removed.
    pub removed_count: u64,
    /// Calls that landed after the next leader had begun to write.
    pub late_calls_count: u64,
    /// The world, its trouble and every write, if asked for.
    pub story: Vec<String>,
}

/// How often the end is looked at.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// One run of a world.
struct Run {
    end: End,
    judge: SharedJudge,
    report: Report,
}

/// Runs one seed.
///
/// # Errors
/// When the runtime cannot be built.
pub fn try_seed(seed: u64, trial: &Trial) -> std::io::Result<Report> {
    let mut world = trial.theme.map_or_else(|| World::of(seed), |theme| World::on(theme, seed));
    world.stay = trial.stay.unwrap_or(world.stay);
    world.scenario.duration += world.stay;
    let blows = match trial.theme {
        None => Blows::of(seed, &world),
        Some(theme) => Blows::on(theme, seed, &world),
    };
    let port = trial.port.unwrap_or(if seed.is_multiple_of(4) { PortKind::Wire } else { PortKind::Typed });
    let mut faulty = play(seed, &world, &blows, port, trial)?;
    if trial.differential {
        let calm = play(seed, &world, &Blows::none(), port, &Trial::default())?;
        compare(&mut faulty, &calm, &world, &blows);
    }
    faulty.report.violations = faulty.judge.lock().violations().to_vec();
    Ok(faulty.report)
}

fn play(seed: u64, world: &World, blows: &Blows, port: PortKind, trial: &Trial) -> std::io::Result<Run> {
    let judge = SharedJudge::default();
    {
        let mut judge = judge.lock();
        judge.status_tampered = blows.status_tampered();
        judge.cycles = (trial.theme == Some(Theme::Refused)).then(Cycles::default);
        judge.alternatives.clone_from(&world.alternatives);
        judge.workloads = Workloads::of(&world.scaled, world.runs_hpas);
        judge.limits.budgets.clone_from(&world.removal_limits);
        judge.limits.lists_are_old = 0 < blows.requests.old_list;
        judge.workloads.others.clone_from(&world.hpas_run_by_others);
    }
    let mut scenario = world.scenario.clone();
    scenario.events.extend(blows.events.iter().cloned());
    scenario.events.sort_by_key(|event| event.after);
    let account = world.account(seed, blows).map(SharedAccount::new);
    let options = Options {
        port,
        keep_trace: trial.story,
        faults: blows.requests,
        effects_per_life_max: blows.effects_per_life_max,
        replicas_count: blows.replicas_count,
        calm_after: world.calm_after(),
        disturbances: blows.disturbances.clone(),
        account: account.clone(),
        judge: Some(judge.clone()),
        ..Options::of(&scenario)
    };
    let mut look_at = scenario.start + world.calm_after();
    let (mut end, mut wrong) = (End::default(), Vec::new());
    let panics = panics::Watch::begin();
    let outcome = run(&scenario, &options, &mut |scene| {
        if look_at <= scene.now {
            look_at = scene.now + LOOK_EVERY;
            let cloud = truths(account.as_ref());
            (end, wrong) = scene.cluster.store().with(|store| examine(store, &cloud, &world.goal, scene.now));
            wrong.extend(scene.cluster.store().with(|store| judge.lock().wrong_sizes(store, scene.now)));
            judge.lock().rate(wrong.is_empty(), world.stay, scene.now);
        }
        if let Some(until) = trial.until {
            let mut judge = judge.lock();
            judge.over |= until.is_found(judge.violations());
        }
    })?;
    for words in panics.end() {
        judge.lock().blame(outcome.ended_at, "I24", format!("the operator panicked: {words}"));
    }
    if !judge.lock().over {
        let mut judge = judge.lock();
        if wrong.is_empty() {
            let words = "the goal is reached, and the operator still writes: it does not come to rest";
            judge.blame(outcome.ended_at, "I29", words);
        }
        wrong.iter().for_each(|one| judge.blame(one.at, one.invariant, one.words.clone()));
    }
    world.check_purchases(&mut judge.lock(), blows, outcome.ended_at);
    let report = {
        let judge = judge.lock();
        Report {
            seed,
            port,
            simulated: outcome.ended_at.duration_since(scenario.start),
            faults: outcome.faults,
            violations: Vec::new(),
            hash: outcome.hash,
            writes_count: judge.writes_count,
            made_count: judge.made.values().sum(),
            removed_count: judge.removed_count,
            late_calls_count: judge.late_calls_count,
            story: if trial.story { tell(&scenario, blows, &outcome.trace) } else { Vec::new() },
        }
    };
    Ok(Run { end, judge, report })
}

/// The world, its trouble and what came of it, for whoever replays a seed.
fn tell(scenario: &Scenario, blows: &Blows, trace: &[Line]) -> Vec<String> {
    let manifests = scenario.manifests.iter().map(|(_, object)| object.to_string());
    let events = scenario.events.iter().map(|event| format!("at {:#} {:?}", event.after, event.action));
    let disturbances = blows.disturbances.iter().map(|(at, one)| format!("at {at:#} {one:?}"));
    let rates = [format!("{:?}", blows.requests), format!("{:?}", blows.account)];
    let writes = trace.iter().filter(|line| !line.object.starts_with("leases") && line.actor != "kubelet");
    manifests.chain(events).chain(disturbances).chain(rates).chain(writes.map(ToString::to_string)).collect()
}

fn truths(account: Option<&SharedAccount>) -> Vec<(String, Truth)> {
    let Some(account) = account else { return Vec::new() };
    account.lock().truth().map(|(name, truth)| (name.to_string(), truth)).collect()
}

/// The differential oracle: what a run with faults may differ in from the run of the same world without.
///
/// The pods that run are the same. Nodes and purchases are the same where demand only grows and no machine failed;
/// writes grow by what faults explain and no more.
fn compare(faulty: &mut Run, calm: &Run, world: &World, blows: &Blows) {
    let at = world.scenario.start + world.scenario.duration;
    let mut judge = faulty.judge.lock();
    for violation in calm.judge.lock().violations() {
        judge.blame(at, "calm", format!("without any fault: {violation}"));
    }
    if faulty.end.running != calm.end.running {
        let words =
            format!("{} pods run at the end, {} without faults", faulty.end.running, calm.end.running);
        judge.blame(at, "oracle", words);
    }
    if world.grows_only && !blows.machines_fail && faulty.end.nodes != calm.end.nodes {
        let words = format!("nodes {:?} at the end, {:?} without faults", faulty.end.nodes, calm.end.nodes);
        judge.blame(at, "oracle", words);
    }
    let faults: u64 = faulty.report.faults.values().sum();
    let bound = calm.report.writes_count * 2 + faults * WRITES_PER_FAULT + WRITES_FREE;
    if bound < faulty.report.writes_count {
        let words = format!(
            "{} writes, {} without faults, and {faults} faults explain {bound} at most",
            faulty.report.writes_count, calm.report.writes_count
        );
        judge.blame(at, "oracle", words);
    }
}

/// Writes that one fault may cause: an intent that fails is journalled, reported, withdrawn and planned anew, and its
/// nodes are marked and unmarked.
const WRITES_PER_FAULT: u64 = 12;
/// Writes that differ by mere timing.
const WRITES_FREE: u64 = 40;

impl World {
    /// The account of its pools, if one is of AWS.
    fn account(&self, seed: u64, blows: &Blows) -> Option<Account> {
        if self.groups.is_empty() {
            return None;
        }
        let mut account = Account::new(seed, blows.account);
        account.launches_at_once = self.launches_at_once;
        for (pool, group, zone) in &self.groups {
            account.add_group(pool, group, zone, 20);
        }
        Some(account)
    }
}
