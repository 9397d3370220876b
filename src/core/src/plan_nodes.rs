//! The plan for nodes, straight line: settle, count, place, buy, explain, shrink. Pure, total and deterministic (design rule 1).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::learn;
use headroom_cluster::history::History;
use headroom_cluster::scheduling::Shares;
use headroom_cluster::world::view::View;
use headroom_pools::config::{Config, Mode};
use headroom_pools::increase;
use headroom_pools::plan::{Outcome, Plan, PoolReason, Step};
use headroom_pools::quarantine::{Part, Quarantine};
use headroom_pools::state::foreign::Members;
use headroom_pools::state::health::Health;
use headroom_scaledown::removal::{self, Scene};
use headroom_scaledown::standby::Waiting;
use headroom_scaledown::{self as scale_down, consolidation, rotation};
use headroom_scaledown::{candidate_taints, eviction_cooldown, unregistered};
use headroom_scaleup::anticipation;
use headroom_scaleup::context::Context;
use headroom_scaleup::demand::{self, Skipped};
use headroom_scaleup::unbound;
use headroom_scaleup::{self as scale_up, buffers, explain, gangs, preview, quotas, requests};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Parts of the work of a plan of which looking for nodes that go may take one, and so may looking for others in their place.
const SHRINK_PART: u64 = 2;

/// Most parts that are set aside before a plan is given up: a bug that hits more is not a matter of one odd object.
const QUARANTINED_MAX: usize = 16;

/// The next steps for `world` as it is, with every reason why not more.
///
/// Replanning with the `next_history` of a plan buys nothing twice. A panic in the part of one pool or pod class sets
/// that part aside and the rest is planned again (design rule 7).
///
/// ```
/// use headroom_core::history::History;
/// use headroom_core::plan::Step;
/// use headroom_core::testing::{NOW, config, pod, pool, world};
///
/// // Nine pods of one CPU, and a pool of four-CPU nodes that has none yet.
/// let world = world().group("general", "a", "", 0).pods(pod("web").cpu("1").times(9)).build();
/// let config = config([pool("general")]);
/// let first = headroom_core::plan(&world, &History::default(), &config, NOW);
/// assert!(matches!(first.steps[..], [Step::Increase { from: 0, to: 3, .. }]));
///
/// // The nodes that are on their way are counted: their number is not raised again.
/// let again = headroom_core::plan(&world, &first.next_history, &config, NOW);
/// let raised = again.steps.iter().any(|step| matches!(step, Step::Increase { to, .. } if 3 < *to));
/// assert!(!raised);
/// ```
#[must_use]
pub fn plan<'w>(view: impl Into<View<'w>>, history: &History, config: &Config, now: UnixTime) -> Plan {
    let view = view.into();
    let mut quarantine = Quarantine::default();
    for _ in 0..QUARANTINED_MAX {
        let part = RefCell::new(Part::Whole);
        let attempt =
            catch_unwind(AssertUnwindSafe(|| plan_once(view, history, config, now, &quarantine, &part)));
        match attempt {
            Ok(plan) => return plan,
            Err(_) => match part.take() {
                Part::Pool(pool) if !quarantine.pools.contains(&pool) => {
                    quarantine.pools.insert(pool);
                }
                Part::Class(class) => quarantine.classes.push(class),
                Part::Whole | Part::Pool(_) => break,
            },
        }
    }
    given_up(history, config)
}

/// Takes up what the world answered to earlier steps; the next plan goes on from there.
pub fn absorb(history: &mut History, outcomes: &[Outcome], config: &Config, now: UnixTime) {
    increase::absorb(history, outcomes, config, now);
    for outcome in outcomes {
        if let Some(memory) = history.pools.get_mut(&outcome.pool) {
            removal::absorb_one(memory, outcome, config, now);
        }
    }
}

fn plan_once(
    view: View<'_>,
    history: &History,
    config: &Config,
    now: UnixTime,
    quarantine: &Quarantine,
    part: &RefCell<Part>,
) -> Plan {
    let mut ctx = Context::new(view, history, config, now, quarantine, part);
    let longest = eviction_cooldown::longest(config);
    for memory in ctx.next.pools.values_mut() {
        memory.take_in_hand(config.epoch);
        eviction_cooldown::forget(memory, longest, now);
    }
    let View { world, freshness } = view;
    let members = Members::of(world, config);
    let health = Health::of(world, config, &members, now);
    let guard = Some((quarantine, part));
    let scene = Scene { world, freshness, config, members: &members, health: &health, now, guard };
    let advanced = removal::advance(&mut ctx.next, &scene);
    learn::learn(&mut ctx);
    learn::learn_devices(&mut ctx);
    quotas::prepare(&mut ctx);
    scale_up::bounds::prepare(&mut ctx);
    grow(&mut ctx);

    ctx.steps = increase::steps(&ctx.next, &ctx.cluster);
    ctx.steps.retain(|step| {
        !matches!(step, Step::Increase { pool, .. } | Step::Cancel { pool, .. } if quarantine.pools.contains(pool))
    });
    shrink(&mut ctx, &scene, advanced);
    ctx.reasons.quotas = quotas::verdicts(&ctx);
    let (taints, due) = candidate_taints::of(&scene, &ctx.next);
    ctx.candidate_taints = taints;
    due.into_iter().for_each(|at| ctx.wake.note(at));
    note_deadlines(&mut ctx);
    ctx.finish()
}

/// Gives every pod a place that can have one, and reports why the others have none.
fn grow(ctx: &mut Context<'_>) {
    scale_up::enforce_min(ctx, Mode::Apply);
    collect(ctx);
    unbound::hold_back(ctx);
    gangs::serve_all(ctx);
    unbound::note(ctx);

    let answers = explain::answers(ctx);
    ctx.reasons.pods = explain::verdicts(ctx, &answers);
    explain::pools(ctx);
    let considered = explain::considered(&answers);
    requests::serve(ctx);
    buffers::serve(ctx);
    scale_up::journal(ctx, &considered);
    explain::remember_refusals(ctx, &answers);
    preview::shadow(ctx);
}

/// Leads open removals on and begins new ones, after all pods have a place: nodes planned for are not removed.
fn shrink(ctx: &mut Context<'_>, scene: &Scene<'_>, advanced: removal::Advance) {
    ctx.steps.extend(advanced.steps);
    ctx.keep_ending();
    ctx.steps.extend(unregistered::remove_never_registered(scene, &mut ctx.next));
    let work = ctx.config.cluster.max_work_units / SHRINK_PART;
    ctx.snapshot.allow_work(work);
    let mark = ctx.snapshot.checkpoint();
    let waiting = Waiting::of(&ctx.standby_left);
    let decided = scale_down::decide(scene, &mut ctx.snapshot, &mut ctx.next, waiting);
    ctx.snapshot.rollback(mark);
    ctx.steps.extend(decided.steps);
    ctx.reasons.nodes = decided.verdicts;
    ctx.reasons.preview.extend(decided.preview);
    ctx.reasons.outdated = decided.outdated_counts;
    ctx.snapshot.allow_work(work);
    rotation::consider(ctx, scene, decided.outdated);
    rotation::preferred::consider(ctx, scene, decided.second_choice);
    consolidation::consider(ctx, scene, decided.replaceable);
    for at in advanced.wake_at.into_iter().chain(decided.wake_at) {
        ctx.wake.note(at);
    }
}

/// Collects demand; classes that were set aside do not count.
fn collect(ctx: &mut Context<'_>) {
    let displaced = std::mem::take(&mut ctx.displaced);
    ctx.demand =
        demand::collect(&mut ctx.snapshot, &displaced, &mut ctx.next, ctx.config, ctx.now, &mut ctx.wake);
    let namespaces: BTreeSet<&Arc<str>> =
        ctx.demand.groups.iter().map(|group| &group.key.namespace).collect();
    if !namespaces.is_empty() {
        ctx.snapshot.find_guards();
    }
    let left = ctx.config.cluster.max_work_units;
    ctx.snapshot.shares = Shares::new(left, namespaces.len());
    if ctx.quarantine.classes.is_empty() {
        return;
    }
    let groups = std::mem::take(&mut ctx.demand.groups);
    for group in groups {
        if ctx.quarantined(group.class) {
            ctx.demand.skipped.push(Skipped {
                reason: Reason::Internal,
                namespace: group.key.namespace.clone(),
                owner: group.owner,
                pods_count: group.pods_count,
                anticipated_count: group.anticipated_count,
                examples: group.examples,
            });
        } else {
            ctx.demand.groups.push(group);
        }
    }
}

fn note_deadlines(ctx: &mut Context<'_>) {
    for memory in ctx.next.pools.values() {
        for intent in &memory.intents {
            ctx.wake.note(UnixTime(intent.deadline.0.saturating_add(1)));
        }
        for entry in memory.anticipations.values().filter(|entry| entry.until.is_none()) {
            ctx.wake.note(entry.since.plus(anticipation::APPEARANCE_TIMEOUT));
        }
    }
}

/// No step, memory as it was, and a reason for every pool.
fn given_up(history: &History, config: &Config) -> Plan {
    let mut plan = Plan { next_history: history.clone(), ..Plan::default() };
    for pool in &config.pools {
        let reason = PoolReason {
            pool: pool.name.clone(),
            reason: Reason::Internal,
            message: "the plan failed as a whole; nothing is done".into(),
        };
        plan.reasons.pools.insert(pool.name.clone(), vec![reason]);
    }
    plan
}
