//! One loop as Cluster Autoscaler runs it, under its profile: what is seen, where pods go, which groups grow.
//!
//! The rules that both profiles share live elsewhere (estimator, expanders, balancing, similarity, backoff); here is
//! what only the reference does. Its memory is the registry in History.

mod down;
mod grow;
mod observe;
mod pods;
mod quota;
mod status;
mod templates;
mod trial;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use down::{
    Act, Answer, DeleteResult, Deletion, DownOptions, ScaleDownResult, ScaleDownStatus, Shrinking, Stage,
    Unremovable, Why, act, answer, next_act,
};
pub use status::{
    Fix, LoopStatus, Offered, RefusedPods, Rejection, Resized, ScaleUpResult, ScaleUpStatus, Skip,
};

use crate::config::Config;
use crate::history::{Action, History, Increase, Intent};
use crate::nodes::context::Context;
use crate::nodes::similarity::Similarity;
use crate::plan::{Outcome, Step, StepResult};
use crate::reason::Reason;
use crate::time::UnixTime;

/// Settings that only the reference knows, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamOptions {
    /// How groups are found that are balanced together; `None` when they are not.
    pub balancing: Option<Similarity>,
    /// Groups that go from nothing to their maximum only.
    pub zero_or_max: BTreeSet<Arc<str>>,
    /// Keys of taints that a node loses once it is started.
    pub startup_taints: Vec<Arc<str>>,
    /// Keys of taints that tell a node's status: its template goes without.
    pub status_taints: Vec<Arc<str>>,
    /// Whether templates made from nodes get the DaemonSets that do not run there yet.
    pub force_daemon_sets: bool,
    /// Whether a cluster without ready nodes grows.
    pub scale_up_from_zero: bool,
    /// Whether groups below their minimum are filled up.
    pub enforce_min: bool,
    /// Schedulers whose pods count before they have looked at them.
    pub bypassed_schedulers: Vec<Arc<str>>,
    /// Whether groups that cannot grow are tried all the same, for better reasons.
    pub simulate_skipped: bool,
    /// The label of nodes with GPUs, which are not ready before their devices are there.
    pub gpu_label: Option<Arc<str>>,
    /// How it scales down.
    pub down: DownOptions,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            balancing: None,
            zero_or_max: BTreeSet::new(),
            startup_taints: Vec::new(),
            status_taints: Vec::new(),
            force_daemon_sets: false,
            scale_up_from_zero: true,
            enforce_min: false,
            bypassed_schedulers: Vec::new(),
            simulate_skipped: false,
            gpu_label: None,
            down: DownOptions::default(),
        }
    }
}

/// One loop; intents for what is to grow are journalled, and what is to shrink is in the status.
///
/// Source: core/static_autoscaler.go, RunOnce.
pub fn run_once(ctx: &mut Context<'_>) -> LoopStatus {
    let cleaning = down::clean_up(ctx);
    let mut status = looped(ctx);
    // However early the loop ends: it is done in the first one only.
    status.acts.splice(0..0, cleaning);
    ctx.next.shrinking.set_cleaned();
    status
}

fn looped(ctx: &mut Context<'_>) -> LoopStatus {
    let seen = observe::seen(ctx);
    let report = ctx.next.registry.update(&seen, ctx.now);
    let mut status = LoopStatus::default();
    let reverts = report.reverts.iter().map(|(group, by)| Fix { group: group.clone(), by: *by });
    status.fixes.extend(reverts);
    if has_open_increase(&ctx.next) {
        // The reference waits for the cloud before its loop goes on: what is not answered is asked again first.
        status.scale_up = Some(ScaleUpStatus::of(ScaleUpResult::NotTried));
        return status;
    }
    let ready = observe::ready_count(&seen);
    if !ctx.config.cluster.upstream.scale_up_from_zero && ready == 0 {
        return status;
    }
    status.acts = observe::never_registered(ctx, &seen, &report);
    if !report.cluster_healthy {
        return ended_early(ctx, status, true);
    }
    let sizes = observe::wrong_sizes(&seen, &report, ctx.now);
    if !sizes.is_empty() {
        status.fixes.extend(sizes);
        return ended_early(ctx, status, false);
    }
    let groups = templates::prepare(ctx, &seen, &report);
    let waiting = pods::place(ctx);
    let decided = grow::decide(ctx, &groups, &report, &waiting, ready);
    let least =
        ctx.config.cluster.upstream.enforce_min.then(|| grow::fill_up(ctx, &groups, &report, &decided));
    for resized in decided.increased.iter().chain(least.iter().flat_map(|least| &least.increased)) {
        if let Some(group) = groups.iter().find(|group| group.id == resized.group) {
            journal(ctx, &group.pool, resized);
        }
    }
    let (shrunk, marks) = down::decide(ctx, &groups, &seen, &report, &decided);
    status.acts.extend(marks);
    status.scale_down = shrunk;
    // Where no group was looked at for pods, the second report takes the place of the first.
    status.scale_up = (least.is_none() || decided.looked_at_groups()).then_some(decided);
    status.min_size = least;
    status
}

fn ended_early(ctx: &mut Context<'_>, mut status: LoopStatus, forget: bool) -> LoopStatus {
    status.scale_up = Some(ScaleUpStatus::of(ScaleUpResult::NotTried));
    status.scale_down = down::not_tried(ctx, forget);
    status
}

fn has_open_increase(history: &History) -> bool {
    let intents = history.pools.values().flat_map(|memory| &memory.intents);
    intents.into_iter().any(|intent| matches!(intent.action, Action::Increase(_)))
}

/// Writes an increase down, so that its step can be carried out.
fn journal(ctx: &mut Context<'_>, pool: &Arc<str>, resized: &Resized) {
    let size = |size: i64| u32::try_from(size.max(0)).unwrap_or(u32::MAX);
    let timeout = ctx.config.pool(pool).map(|pool| pool.scale_up).unwrap_or_default().provision_timeout;
    let memory = ctx.next.pools.entry(pool.clone()).or_default();
    let id = memory.next_intent_id(ctx.config.epoch);
    memory.intents.push(Intent {
        id,
        epoch: ctx.config.epoch,
        action: Action::Increase(Increase::journalled(
            resized.group.clone(),
            size(resized.current),
            size(resized.new),
        )),
        reason: Reason::PodsUnschedulable,
        started_at: ctx.now,
        deadline: ctx.now.plus(timeout),
    });
}

/// Puts increases in the order in which the loop decided on them: the first failure drops the rest.
pub fn sort(steps: &mut [Step], status: &LoopStatus) {
    let reports = || status.scale_up.iter().chain(&status.min_size).flat_map(|report| &report.increased);
    steps.sort_by_key(|step| match step {
        Step::Increase { group, from, .. } => reports()
            .position(|resized| resized.group == *group && resized.current == i64::from(*from))
            .unwrap_or(usize::MAX),
        _ => usize::MAX,
    });
}

/// Takes up what the cloud answered: the registry remembers it, the intent has done its work.
///
/// The first failure drops what was still to be done: an intent that is gone is no longer carried out.
/// Source: core/scaleup/orchestrator/executor.go, executeScaleUpsSync.
pub fn absorb(history: &mut History, outcomes: &[Outcome], config: &Config, now: UnixTime) {
    for outcome in outcomes {
        let Some(memory) = history.pools.get_mut(&outcome.pool) else { continue };
        let Some(intent) = memory.intent(&outcome.intent).cloned() else { continue };
        let Action::Increase(increase) = &intent.action else { continue };
        let settings = config.pool(&outcome.pool).map(|pool| pool.scale_up).unwrap_or_default();
        match &outcome.result {
            StepResult::Increased => {
                memory.intents.retain(|other| other.id != intent.id);
                let delta = i64::from(increase.to) - i64::from(increase.from);
                history.registry.register_scale_up(&increase.group, delta, now, &settings);
                history.shrinking.grown(&increase.group, now);
            }
            StepResult::IncreaseFailed { class, message, .. } => {
                history.registry.register_failed_scale_up(&increase.group, *class, message, now, &settings);
                for memory in history.pools.values_mut() {
                    memory.intents.retain(|intent| !matches!(intent.action, Action::Increase(_)));
                }
            }
            StepResult::Superseded => memory.intents.retain(|other| other.id != intent.id),
            StepResult::Pending(_)
            | StepResult::Refused { .. }
            | StepResult::Unknown { .. }
            | StepResult::Marked
            | StepResult::MarkFailed { .. }
            | StepResult::Evicted { .. }
            | StepResult::Deleted
            | StepResult::NotEmpty { .. }
            | StepResult::Protected { .. }
            | StepResult::DeleteFailed { .. }
            | StepResult::Unmarked { .. } => {}
        }
    }
}
