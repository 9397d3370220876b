//! Scaling down as one loop of the reference: who may go, who is unneeded for long enough, how many at once.
//!
//! Source: core/scaledown/planner/planner.go, UpdateClusterState and NodesToDelete; core/static_autoscaler.go, RunOnce.
//! Deletions that have begun live on in [`actuation`], between loops too.

mod actuation;
mod choice;
mod eligibility;
mod marks;
mod memory;
mod simulation;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use actuation::{act, answer, next_act};
pub use marks::CANDIDATE_TAINT;
pub use memory::{Deletion, Shrinking, Stage};
pub use status::{Act, Answer, DeleteResult, ScaleDownResult, ScaleDownStatus, Unremovable, Why};

use super::status::{ScaleUpResult, ScaleUpStatus};
use super::templates::Group;
use crate::config::Pool;
use crate::nodes::context::Context;
use crate::nodes::drainability::Disruptions;
use crate::nodes::registry::{Report, Seen};
use crate::time::{Seconds, UnixTime};
use crate::world::NodeId;

/// Settings of scaling down that only the reference knows, with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownOptions {
    /// Whether nodes are removed at all. Upstream: scale-down-enabled.
    pub enabled: bool,
    /// Whether unready nodes may go. Upstream: scale-down-unready-enabled.
    pub unready_enabled: bool,
    /// The default of all groups, by which the unneeded nodes of one loop are bounded. Upstream: scale-down-unneeded-time.
    pub unneeded_for: Seconds,
    /// After the last increase. Upstream: scale-down-delay-after-add.
    pub delay_after_add: Seconds,
    /// After the last loop that deleted. Upstream: scale-down-delay-after-delete.
    pub delay_after_delete: Seconds,
    /// After marks that could not be put on. Upstream: scale-down-delay-after-failure.
    pub delay_after_failure: Seconds,
    /// Whether these delays hold for the group alone. Upstream: scale-down-delay-type-local.
    pub delay_is_local: bool,
    /// How long a failed simulation is believed. Upstream: unremovable-node-recheck-timeout.
    pub recheck_after: Seconds,
    /// From the hard taint to the first effect. Upstream: node-delete-delay-after-taint.
    pub delay_after_taint: Seconds,
    /// For how long deletions of a group are collected. Upstream: node-deletion-batcher-interval.
    pub batch_for: Seconds,
    /// Most soft taints put on or taken off in one loop; 0 for none. Upstream: max-bulk-soft-taint-count.
    pub soft_taints_max: usize,
    /// Whether DaemonSet pods are left out of utilization.
    pub ignore_daemon_sets: bool,
    /// Whether mirror pods are left out of utilization.
    pub ignore_mirror: bool,
    /// Whether DaemonSet pods are evicted from empty nodes.
    pub evict_daemon_sets_of_empty: bool,
    /// Whether DaemonSet pods are evicted from nodes that are drained.
    pub evict_daemon_sets_of_occupied: bool,
    /// Whether nodes are cordoned beside the hard taint. Upstream: cordon-node-before-terminating.
    pub cordon: bool,
    /// Fewest cores in the cluster, in milli-cores.
    pub min_cpu_milli: i64,
    /// Least memory in the cluster, in bytes.
    pub min_memory_bytes: i64,
}

impl Default for DownOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            unready_enabled: true,
            unneeded_for: Seconds::minutes(10),
            delay_after_add: Seconds::minutes(10),
            delay_after_delete: Seconds(0),
            delay_after_failure: Seconds::minutes(3),
            delay_is_local: false,
            recheck_after: Seconds::minutes(5),
            delay_after_taint: Seconds(5),
            batch_for: Seconds(0),
            soft_taints_max: 10,
            ignore_daemon_sets: false,
            ignore_mirror: false,
            evict_daemon_sets_of_empty: false,
            evict_daemon_sets_of_occupied: true,
            cordon: true,
            min_cpu_milli: 0,
            min_memory_bytes: 0,
        }
    }
}

/// A node that passes the prefilter.
#[derive(Clone, Debug)]
struct Candidate {
    id: NodeId,
    name: Arc<str>,
    /// Index into the loop's groups.
    group: usize,
}

/// What the steps of one loop share.
struct Pass<'p> {
    groups: &'p [Group],
    seen: &'p Seen,
    /// Nodes in deletion.
    in_flight: BTreeSet<Arc<str>>,
    /// Nodes that have registered and are still on their way.
    starting: BTreeSet<Arc<str>>,
    /// Groups that this loop grows.
    growing: BTreeSet<Arc<str>>,
}

/// One loop of scaling down, after pods have got their places in the snapshot.
///
/// `None` when scaling down is off. Marks to be put on or taken off at once are in the second part.
pub fn decide(
    ctx: &mut Context<'_>,
    groups: &[Group],
    seen: &Seen,
    report: &Report,
    grown: &ScaleUpStatus,
) -> (Option<ScaleDownStatus>, Vec<Act>) {
    let options = ctx.config.cluster.upstream.down.clone();
    if !options.enabled {
        return (None, Vec::new());
    }
    let in_flight = ctx.next.shrinking.deletions.iter().map(|one| one.node.clone()).collect();
    let growing = grown.increased.iter().map(|resized| resized.group.clone()).collect();
    let pass = Pass { groups, seen, in_flight, starting: starting(report), growing };
    let candidates = candidates(ctx, &pass);
    let mut disruptions = Disruptions::of(ctx.world);
    let (found, mut unremovable) = simulation::categorize(ctx, &pass, &candidates, &mut disruptions);
    let mut acts = Vec::new();
    let mut started = Vec::new();
    let result = if in_cooldown(ctx, grown.result) {
        ScaleDownResult::InCooldown
    } else if candidates.is_empty() {
        ScaleDownResult::NoCandidates
    } else {
        let (going, staying) = choice::removable(ctx, &pass, &found);
        unremovable.extend(staying);
        started = choice::within_budgets(ctx, &pass, going);
        if started.is_empty() { ScaleDownResult::NoNodeDeleted } else { ScaleDownResult::DeleteStarted }
    };
    if result == ScaleDownResult::DeleteStarted {
        ctx.next.shrinking.last_delete = Some(ctx.now);
        acts.extend(actuation::begin(ctx, &pass, &started));
    }
    acts.extend(marks::soft_taints(ctx, &pass));
    unremovable.sort();
    ctx.next.shrinking.unremovable.clone_from(&unremovable);
    let status = ScaleDownStatus {
        result,
        unneeded: ctx.next.shrinking.unneeded.keys().cloned().collect(),
        unremovable,
        started: started.into_iter().map(|one| one.node).collect(),
        results: std::mem::take(&mut ctx.next.shrinking.results),
    };
    (Some(status), acts)
}

/// What a loop tells that ended before it came to scaling down. An unhealthy cluster forgets all clocks.
pub fn not_tried(ctx: &mut Context<'_>, forget: bool) -> Option<ScaleDownStatus> {
    if !ctx.config.cluster.upstream.down.enabled {
        return None;
    }
    if forget {
        ctx.next.shrinking.unneeded.clear();
    }
    Some(ScaleDownStatus {
        result: ScaleDownResult::NotTried,
        unneeded: Vec::new(),
        unremovable: ctx.next.shrinking.unremovable.clone(),
        started: Vec::new(),
        results: std::mem::take(&mut ctx.next.shrinking.results),
    })
}

/// Marks that an earlier life of the process left behind: taken off before the first loop.
pub fn clean_up(ctx: &mut Context<'_>) -> Vec<Act> {
    marks::clean_up(ctx)
}

/// Registered nodes that still count as on their way: those not started of groups that expect nodes.
fn starting(report: &Report) -> BTreeSet<Arc<str>> {
    let groups = report.groups.values().filter(|group| 0 < group.upcoming);
    groups.filter_map(|group| group.readiness.as_ref()).flat_map(|told| told.not_started.clone()).collect()
}

/// Nodes of groups above their minimum. Source: processors/nodes/pre_filtering_processor.go; with local delays also
/// processors/scaledowncandidates/scale_down_candidates_delay_processor.go.
fn candidates(ctx: &Context<'_>, pass: &Pass<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for ((id, node, _), seen) in ctx.world.nodes().zip(&pass.seen.nodes) {
        if pass.starting.contains(&node.name) {
            continue;
        }
        let owner = |group: &&Group| {
            pass.seen.groups.get(&group.id).is_some_and(|told| told.instances.contains_key(&seen.instance))
        };
        let Some(group) = pass.groups.iter().position(|group| owner(&group)) else { continue };
        let told = &pass.groups[group];
        if told.target <= told.min || held_locally(ctx, pass, &told.id) {
            continue;
        }
        found.push(Candidate { id, name: node.name.clone(), group });
    }
    found
}

fn held_locally(ctx: &Context<'_>, pass: &Pass<'_>, group: &Arc<str>) -> bool {
    let options = &ctx.config.cluster.upstream.down;
    let memory = &ctx.next.shrinking;
    let recent = |at: Option<&UnixTime>, delay| at.is_some_and(|at| ctx.now < at.plus(delay));
    let grows = pass.growing.contains(group) && options.delay_after_add != Seconds(0);
    options.delay_is_local
        && (grows
            || recent(memory.adds.get(group), options.delay_after_add)
            || recent(memory.deletes.get(group), options.delay_after_delete))
}

/// Whether nothing may be begun in this loop. Source: static_autoscaler.go, isScaleDownInCooldown.
fn in_cooldown(ctx: &Context<'_>, grown: ScaleUpResult) -> bool {
    let options = &ctx.config.cluster.upstream.down;
    let memory = &ctx.next.shrinking;
    let recent = |at: Option<UnixTime>, delay| at.is_some_and(|at| ctx.now < at.plus(delay));
    grown == ScaleUpResult::InCooldown
        || !options.delay_is_local
            && (grown == ScaleUpResult::Successful && options.delay_after_add != Seconds(0)
                || recent(memory.last_add, options.delay_after_add)
                || recent(memory.last_failure, options.delay_after_failure)
                || recent(memory.last_delete, options.delay_after_delete))
}

/// The pool of a group.
fn pool_of<'c>(ctx: &Context<'c>, group: &Group) -> Option<&'c Pool> {
    ctx.config.pool(&group.pool)
}
