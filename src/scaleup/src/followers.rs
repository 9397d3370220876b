//! Pods that follow the first of their kind into a domain: no node is bought for them on a guess. It places none.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::context::Context;
use crate::demand::{Demand, PodGroup};
use headroom_cluster::scheduling::node_affinity::LabelledNode;
use headroom_cluster::scheduling::{NodeIx, PodRef};
use headroom_cluster::world::pod::PodClass;
use headroom_values::reason::Reason;
use headroom_values::time::Seconds;

/// Time that the scheduler may take to put a pod on a node that is there and has room: its longest pause between two
/// tries of one pod (podMaxBackoffSeconds).
pub const SCHEDULER_LOOKS: Seconds = Seconds(10);

/// Leaves only the first pod in the demand of each group whose pods follow it, where it may still go into more than one
/// domain; returns whether there was such a group, and whether pods are held back.
///
/// Pods with required affinity to their own kind all go where the first one goes, and among nodes that take it the
/// scheduler chooses by its scores and by lot, whatever was planned: nodes bought in another domain would stay empty. So
/// the others are bought for once the first has a node. Nothing is held back when all nodes that might take the first
/// pod, those bought for it included, are in one domain.
///
/// Only nodes count that the scheduler may yet choose: on their way, bought by this plan, or there for so short a time,
/// or for pods so young, that it may not have looked at them. So nobody is held back for ever by a node that the
/// scheduler refuses for a reason unknown here.
///
/// To be asked when nodes are bought only: where nothing is bought, nothing is bought in vain.
///
/// Differs from upstream, which buys in the domain of the first node that it tries. The snapshot is left without any
/// placement when there is a group to look at.
pub fn hold_back(ctx: &mut Context<'_>, wanted: &mut Demand) -> Held {
    // The scheduler places no first pod of a gang before all have room.
    let follows = |group: &PodGroup| {
        1 < group.pods.len()
            && ctx.snapshot.class(group.class).gang.is_none()
            && !ctx.snapshot.class(group.class).pod_affinity.is_empty()
            && !ctx.snapshot.shares.is_left_out(group.class)
    };
    let asked: Vec<usize> = (0..wanted.groups.len()).filter(|at| follows(&wanted.groups[*at])).collect();
    if asked.is_empty() {
        return Held::NoneAsked;
    }
    ctx.start_over();
    let mut held = Held::None;
    for at in asked {
        let group = &wanted.groups[at];
        if ctx.snapshot.is_unanchored(group.class) && may_go_apart(ctx, group) {
            let skipped = wanted.groups[at].set_aside(1, Reason::FollowsFirstPod, ctx.world);
            wanted.skipped.push(skipped);
            held = Held::Some;
        }
    }
    held
}

/// Result of holding pods back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No group is of this kind; the snapshot was not touched.
    NoneAsked,
    /// Nobody is held back; the snapshot is without placements.
    None,
    /// Some pods are held back; the snapshot is without placements.
    Some,
}

/// True if nodes of more than one domain might take the first pod.
fn may_go_apart(ctx: &mut Context<'_>, group: &PodGroup) -> bool {
    let class = ctx.snapshot.class(group.class).clone();
    let young = group.pods.iter().any(|pod| match pod {
        PodRef::Virtual(_) | PodRef::Standby(_) => true,
        PodRef::Real(id) => ctx.now < ctx.world.pod(*id).pod.created_at.plus(SCHEDULER_LOOKS),
    });
    let nodes: Vec<NodeIx> = ctx.snapshot.indexes().collect();
    let (mut domains, mut there) = (BTreeSet::new(), false);
    let limit = ctx.snapshot.search_limit(group.class);
    for node in nodes {
        if limit <= ctx.snapshot.work_units {
            break;
        }
        let coming = ctx.is_coming(node);
        if !(coming || young || has_just_started(ctx, node)) || !ctx.snapshot.fits(group.class, node) {
            continue;
        }
        there |= !coming;
        domains.insert(domain(ctx, &class, node));
        if 1 < domains.len() {
            if there {
                ctx.wake.note(ctx.now.plus(SCHEDULER_LOOKS));
            }
            return true;
        }
    }
    false
}

fn has_just_started(ctx: &Context<'_>, node: NodeIx) -> bool {
    let known = ctx.world.node_named(ctx.snapshot.node(node).name());
    known.is_some_and(|(_, node, _)| ctx.now < node.ready_changed_at.plus(SCHEDULER_LOOKS))
}

/// The values of the keys that the class's affinity asks for.
fn domain(ctx: &Context<'_>, class: &PodClass, node: NodeIx) -> Vec<Arc<str>> {
    let view = ctx.snapshot.node(node);
    class
        .pod_affinity
        .iter()
        .map(|term| Arc::from(view.label(&term.topology_key).unwrap_or_default()))
        .collect()
}
