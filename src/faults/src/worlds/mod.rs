//! Random worlds with random trouble, each drawn from one seed and held against the invariants; the same seed is the
//! same run, bit for bit.
//!
//! Every kind of fault is on or off per seed, and its rate is drawn too: combinations that a fixed mix would never show
//! come up by themselves. Each run ends with a long time without faults, in which the system must reach its goal and stay.

mod buffers;
mod capacity;
mod fault_plan;
mod gangs;
mod handover;
mod load;
mod panics;
mod pools;
mod refused;
mod requests;
mod shards;
mod theme;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

pub use self::fault_plan::FaultPlan;
pub use self::theme::Theme;
pub use self::world::World;

use crate::account::{Account, SharedAccount, Truth};
use crate::checker::{Cycles, End, SharedChecker, Violation, Workloads, examine};
use crate::environment::FaultEnvironment;
use crate::seams::SeamFault;
use headroom_simulator::replica::PortKind;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::trace::{Line, StableHash};

/// Options of a seed's run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeedOptions {
    /// Interface by which the operator observes; `None` for the one that the seed decides.
    pub port: Option<PortKind>,
    /// True if the run is held against one without faults too.
    pub differential: bool,
    /// Time that the goal must hold without a write; `None` for a minute and a half.
    pub stay: Option<SignedDuration>,
    /// True if the report holds what happened, line by line.
    pub keeps_log: bool,
    /// Violation at which the run may end early, because it is the one that was looked for.
    pub until: Option<Until>,
    /// Theme of the world, if any.
    pub theme: Option<Theme>,
    /// An incident at a seam of the operator, which the checker is to find.
    pub seam: Option<SeamFault>,
}

/// Violation that ends a run early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// Any violation.
    Any,
    /// A violation of this invariant.
    Invariant(String),
}

impl Until {
    fn is_found(&self, violations: &[Violation]) -> bool {
        let looked_for = |violation: &Violation| match self {
            Until::Any => true,
            Until::Invariant(invariant) => violation.invariant == invariant,
        };
        violations.iter().any(looked_for)
    }
}

/// Result of one seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Interface by which the operator observed.
    pub port: PortKind,
    /// Time that the run was, in simulated time.
    pub simulated: SignedDuration,
    /// Number of faults that struck, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Violations of invariants.
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
    pub log: Vec<String>,
}

/// Period between two examinations of the end.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// One run of a world.
struct Run {
    end: End,
    checker: SharedChecker,
    report: Report,
}

/// Runs one seed.
///
/// # Errors
/// If the runtime cannot be built.
pub fn run_seed(seed: u64, seed_options: &SeedOptions) -> std::io::Result<Report> {
    let mut world = seed_options.theme.map_or_else(|| World::of(seed), |theme| World::on(theme, seed));
    world.stay = seed_options.stay.unwrap_or(world.stay);
    world.scenario.duration += world.stay;
    let fault_plan = match seed_options.theme {
        None => FaultPlan::of(seed, &world),
        Some(theme) => FaultPlan::on(theme, seed, &world),
    };
    let port =
        seed_options.port.unwrap_or(if seed.is_multiple_of(4) { PortKind::Wire } else { PortKind::Typed });
    let mut faulty = play(seed, &world, &fault_plan, port, seed_options)?;
    if seed_options.differential {
        let calm = play(seed, &world, &FaultPlan::none(), port, &SeedOptions::default())?;
        compare(&mut faulty, &calm, &world, &fault_plan);
    }
    faulty.report.violations = faulty.checker.lock().violations().to_vec();
    Ok(faulty.report)
}

fn play(
    seed: u64,
    world: &World,
    fault_plan: &FaultPlan,
    port: PortKind,
    seed_options: &SeedOptions,
) -> std::io::Result<Run> {
    let checker = SharedChecker::default();
    {
        let mut checker = checker.lock();
        checker.status_tampered = fault_plan.status_tampered();
        checker.cycles = (seed_options.theme == Some(Theme::Refused)).then(Cycles::default);
        checker.alternatives.clone_from(&world.alternatives);
        checker.workloads = Workloads::of(&world.scaled, world.runs_hpas);
        checker.quotas.checked = seed_options.theme == Some(Theme::Capacity);
        checker.rooms.checked = matches!(seed_options.theme, Some(Theme::Buffers | Theme::Requests));
        checker.shards.checked = seed_options.theme == Some(Theme::Shards);
        checker.gangs.checked = seed_options.theme == Some(Theme::Gangs);
        checker.limits.budgets.clone_from(&world.removal_limits);
        checker.limits.lists_are_old = 0 < fault_plan.requests.old_list;
        checker.workloads.others.clone_from(&world.hpas_run_by_others);
    }
    let mut scenario = world.scenario.clone();
    scenario.events.extend(fault_plan.events.iter().cloned());
    scenario.events.sort_by_key(|event| event.after);
    let account = world.account(seed, fault_plan).map(SharedAccount::new);
    let disturbances = &fault_plan.disturbances;
    let environment = FaultEnvironment::new(checker.clone(), account.clone(), scenario.start, disturbances)
        .with_seam(seed_options.seam);
    let options = Options {
        port,
        keep_trace: seed_options.keeps_log,
        faults: fault_plan.requests,
        effects_per_life_max: fault_plan.effects_per_life_max,
        replicas_count: fault_plan.replicas_count,
        shards: world.shards.iter().map(|(after, count)| (scenario.start + *after, *count)).collect(),
        calm_after: world.calm_after(),
        environment: Some(Arc::new(environment)),
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
            wrong.extend(scene.cluster.store().with(|store| checker.lock().wrong_sizes(store, scene.now)));
            wrong.extend(scene.cluster.store().with(|store| checker.lock().idle_quotas(store, scene.now)));
            wrong.extend(scene.cluster.store().with(|store| checker.lock().missing_room(store, scene.now)));
            wrong.extend(scene.cluster.store().with(|store| checker.lock().wrong_answers(store, scene.now)));
            checker.lock().rate(wrong.is_empty(), world.stay, scene.now);
        }
        if let Some(until) = &seed_options.until {
            let mut checker = checker.lock();
            checker.over |= until.is_found(checker.violations());
        }
    })?;
    for message in panics.end() {
        checker.lock().violated(outcome.ended_at, "I24", format!("the operator panicked: {message}"));
    }
    if !checker.lock().over {
        let mut checker = checker.lock();
        if wrong.is_empty() {
            let message = "the goal is reached, and the operator still writes: it does not come to rest";
            checker.violated(outcome.ended_at, "I29", message);
        }
        wrong.iter().for_each(|one| checker.violated(one.at, one.invariant, one.message.clone()));
    }
    world.check_purchases(&mut checker.lock(), fault_plan, outcome.ended_at);
    let report = {
        let checker = checker.lock();
        Report {
            seed,
            port,
            simulated: outcome.ended_at.duration_since(scenario.start),
            faults: outcome.faults,
            violations: Vec::new(),
            hash: outcome.hash,
            writes_count: checker.writes_count,
            made_count: checker.made.values().sum(),
            removed_count: checker.removed_count,
            late_calls_count: checker.late_calls_count,
            log: if seed_options.keeps_log {
                describe(&scenario, fault_plan, &outcome.trace)
            } else {
                Vec::new()
            },
        }
    };
    Ok(Run { end, checker, report })
}

/// Describes the world, its faults and the writes of the run, for the replay of a seed.
fn describe(scenario: &Scenario, fault_plan: &FaultPlan, trace: &[Line]) -> Vec<String> {
    let manifests = scenario.manifests.iter().map(|(_, object)| object.to_string());
    let events = scenario.events.iter().map(|event| format!("at {:#} {:?}", event.after, event.action));
    let disturbances = fault_plan.disturbances.iter().map(|(at, one)| format!("at {at:#} {one:?}"));
    let rates = [format!("{:?}", fault_plan.requests), format!("{:?}", fault_plan.account)];
    let writes = trace.iter().filter(|line| !line.object.starts_with("leases") && line.actor != "kubelet");
    manifests.chain(events).chain(disturbances).chain(rates).chain(writes.map(ToString::to_string)).collect()
}

fn truths(account: Option<&SharedAccount>) -> Vec<(String, Truth)> {
    let Some(account) = account else { return Vec::new() };
    account.lock().truth().map(|(name, truth)| (name.to_string(), truth)).collect()
}

/// The differential oracle: differences that a run with faults may have from the run of the same world without.
///
/// The pods that run are the same. Nodes and purchases are the same where demand only grows and no machine failed;
/// writes grow by what faults explain and no more.
fn compare(faulty: &mut Run, calm: &Run, world: &World, fault_plan: &FaultPlan) {
    let at = world.scenario.start + world.scenario.duration;
    let mut checker = faulty.checker.lock();
    for violation in calm.checker.lock().violations() {
        checker.violated(at, "calm", format!("without any fault: {violation}"));
    }
    // Which of two pools has what a quota leaves is a matter of time.
    if faulty.end.running != calm.end.running && !world.goal.pods_wait_for_quotas {
        let message =
            format!("{} pods run at the end, {} without faults", faulty.end.running, calm.end.running);
        checker.violated(at, "oracle", message);
    }
    if world.grows_only && !fault_plan.machines_fail && faulty.end.nodes != calm.end.nodes {
        let message = format!("nodes {:?} at the end, {:?} without faults", faulty.end.nodes, calm.end.nodes);
        checker.violated(at, "oracle", message);
    }
    let faults: u64 = faulty.report.faults.values().sum();
    let bound = calm.report.writes_count * 2 + faults * WRITES_PER_FAULT + WRITES_FREE;
    if bound < faulty.report.writes_count {
        let message = format!(
            "{} writes, {} without faults, and {faults} faults explain {bound} at most",
            faulty.report.writes_count, calm.report.writes_count
        );
        checker.violated(at, "oracle", message);
    }
}

/// Writes that one fault may cause: an intent that fails is journalled, reported, withdrawn and planned anew, and its
/// nodes are marked and unmarked.
const WRITES_PER_FAULT: u64 = 12;
/// Writes that differ by mere timing.
const WRITES_FREE: u64 = 40;

impl World {
    /// The account of its pools, if one is of AWS.
    fn account(&self, seed: u64, fault_plan: &FaultPlan) -> Option<Account> {
        if self.groups.is_empty() {
            return None;
        }
        let mut account = Account::new(seed, fault_plan.account);
        account.launches_at_once = self.launches_at_once;
        for (pool, group, zone) in &self.groups {
            account.add_group(pool, group, zone, 20);
        }
        Some(account)
    }
}
