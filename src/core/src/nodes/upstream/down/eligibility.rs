//! Which candidates are looked at closely: each node by itself, without moving a pod.

use super::status::{Unremovable, Why};
use super::{Candidate, Pass, pool_of};
use crate::nodes::context::Context;
use crate::nodes::drainability::{Disruptions, Drainability, Rules};
use crate::nodes::registry::NodeCondition;
use crate::nodes::utilization::{Measure, utilization};
use crate::scheduling::{NodeIx, PodRef};
use crate::time::Seconds;
use crate::world::PodId;
use crate::world::node::{DELETION_TAINT, Node, SCALE_DOWN_DISABLED_ANNOTATION};
use crate::world::pod::Pod;

/// A hard taint older than this is taken for forgotten. Upstream: the same 5 min.
const FORGOTTEN_AFTER: Seconds = Seconds(300);

/// Why the node is not looked at, if it is not.
///
/// Source: scaledown/eligibility/eligibility.go, unremovableReasonAndNodeUtilization.
pub fn ineligible(ctx: &Context<'_>, pass: &Pass<'_>, candidate: &Candidate) -> Option<Why> {
    let node = ctx.world.node(candidate.id).node.as_ref()?;
    if ctx.next.shrinking.rechecks.contains_key(&candidate.name) {
        return Some(Why::RecentlyUnremovable);
    }
    if being_deleted(node, ctx) {
        return Some(Why::CurrentlyBeingDeleted);
    }
    if is_disabled(node) {
        return Some(Why::ScaleDownDisabledAnnotation);
    }
    let options = &ctx.config.cluster.upstream;
    if !options.down.unready_enabled && !is_ready(pass, candidate) {
        return Some(Why::ScaleDownUnreadyDisabled);
    }
    let measure = Measure {
        ignore_daemon_sets: options.down.ignore_daemon_sets,
        ignore_mirror: options.down.ignore_mirror,
        gpu_label: options.gpu_label.clone(),
        priority_cutoff: Some(ctx.config.cluster.expendable_pods_priority_cutoff),
    };
    let ix = ctx.snapshot.index_of(candidate.id)?;
    let scale_down = &pool_of(ctx, &pass.groups[candidate.group])?.scale_down;
    match utilization(node, pods(ctx, ix), &measure, ctx.now) {
        Err(_) => Some(Why::UnexpectedError),
        Ok(found) => {
            let percent = if found.on_gpu {
                scale_down.gpu_utilization_threshold_percent
            } else {
                scale_down.utilization_threshold_percent
            };
            found.share().exceeds_percent(percent).then_some(Why::NotUnderutilized)
        }
    }
}

/// Whether the node says that it stays.
pub fn is_disabled(node: &Node) -> bool {
    node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true")
}

/// Whether the node is ready as the loop saw it.
pub fn is_ready(pass: &Pass<'_>, candidate: &Candidate) -> bool {
    let seen = pass.seen.nodes.iter().find(|seen| seen.name == candidate.name);
    seen.is_some_and(|seen| seen.condition == NodeCondition::Ready)
}

fn being_deleted(node: &Node, ctx: &Context<'_>) -> bool {
    let since = node.taints.iter().find(|taint| &*taint.key == DELETION_TAINT);
    let since = since.and_then(|taint| taint.value.parse::<i64>().ok());
    since.is_some_and(|since| ctx.now.0 - since < FORGOTTEN_AFTER.0) && ctx.next.shrinking.cleaned
}

fn pods<'c>(ctx: &'c Context<'_>, ix: NodeIx) -> impl Iterator<Item = &'c Pod> {
    ctx.snapshot.pods(ix).filter_map(|pod| match pod {
        PodRef::Real(id) => Some(&ctx.world.pod(id).pod),
        PodRef::Virtual(_) | PodRef::Standby(_) => None,
    })
}

/// The pods on a node that must move, and whether one must end first.
///
/// # Errors
/// The pod that keeps the node.
///
/// Source: simulator/drain.go, GetPodsToMove.
pub fn load(
    ctx: &Context<'_>,
    pass: &Pass<'_>,
    candidate: &Candidate,
    disruptions: &mut Disruptions<'_>,
) -> Result<(Vec<PodId>, bool), Unremovable> {
    let mut movable = Vec::new();
    let mut waits = false;
    let Some(pool) = pool_of(ctx, &pass.groups[candidate.group]) else { return Ok((movable, waits)) };
    let Some(ix) = ctx.snapshot.index_of(candidate.id) else { return Ok((movable, waits)) };
    let rules = Rules::of(&pool.scale_down.drain);
    for pod in ctx.snapshot.pods(ix) {
        let PodRef::Real(id) = pod else { continue };
        let entry = ctx.world.pod(id);
        match rules.judge(entry, ctx.world, disruptions, ctx.now) {
            Drainability::Skip | Drainability::DaemonSet => {}
            Drainability::Move => movable.push(id),
            Drainability::OnCompletion => waits = true,
            Drainability::Block(block) => {
                return Err(Unremovable {
                    node: candidate.name.clone(),
                    why: Why::BlockedByPod,
                    pod: Some((entry.pod.key.clone(), block.reason)),
                });
            }
        }
    }
    Ok((movable, waits))
}
