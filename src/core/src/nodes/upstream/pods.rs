//! Which pods wait for a node once all that fits has a place on nodes that exist or are on their way.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::nodes::context::Context;
use crate::scheduling::{ClassIx, NodeIx, PodRef};
use crate::time::Seconds;
use crate::world::PodId;
use crate::world::pod::Pod;

/// Places what fits and returns the pods that want a node, in order of priority and name.
///
/// Expendable pods neither want a node nor keep room. Pods whose preemption is under way take their nominated node.
/// DaemonSet pods and those that are too young take room on existing nodes but want no new one.
/// Source: core/podlistprocessor; core/static_autoscaler.go.
pub fn place(ctx: &mut Context<'_>) -> Vec<PodId> {
    drop_expendable(ctx);
    let mut candidates: Vec<(PodId, &Pod)> = Vec::new();
    for (id, entry) in ctx.world.unbound() {
        let pod = &entry.pod;
        if !is_candidate(ctx, pod) {
            continue;
        }
        match pod.nominated_node.as_ref().and_then(|node| ctx.snapshot.named(node)) {
            Some(node) => ctx.snapshot.place(PodRef::Real(id), node),
            None => candidates.push((id, pod)),
        }
    }
    candidates.extend(drained(ctx));
    candidates.sort_by_key(|(_, pod)| std::cmp::Reverse(pod.class.priority));
    let mut next = 0;
    let mut failed: BTreeSet<(Arc<str>, ClassIx)> = BTreeSet::new();
    let mut waiting = Vec::new();
    for (id, pod) in candidates {
        let class = ctx.snapshot.class_of(PodRef::Real(id));
        let alike = pod.owner.as_ref().map(|owner| (owner.uid.clone(), class));
        let hopeless = alike.as_ref().is_some_and(|alike| failed.contains(alike));
        if !hopeless && place_round(ctx, id, class, &mut next) {
            continue;
        }
        failed.extend(alike);
        if wants_node(ctx, pod) {
            waiting.push(id);
        }
    }
    waiting
}

/// Takes pods off their nodes whose priority is under the cutoff: others may have their room.
fn drop_expendable(ctx: &mut Context<'_>) {
    let cutoff = ctx.config.cluster.expendable_pods_priority_cutoff;
    let mut expendable = Vec::new();
    for (node, _) in ctx.snapshot.nodes() {
        for pod in ctx.snapshot.pods(node) {
            if ctx.snapshot.class(ctx.snapshot.class_of(pod)).priority < cutoff {
                expendable.push((pod, node));
            }
        }
    }
    for (pod, node) in expendable {
        ctx.snapshot.remove(pod, node);
    }
}

/// Pods of nodes that are being drained, which their controllers will make anew: they need a place already.
///
/// Source: core/podlistprocessor/currently_drained_nodes.go.
fn drained<'w>(ctx: &Context<'w>) -> Vec<(PodId, &'w Pod)> {
    let cutoff = ctx.config.cluster.expendable_pods_priority_cutoff;
    let nodes = ctx.next.shrinking.draining().filter_map(|node| ctx.world.node_named(node));
    let pods = nodes.flat_map(|(_, _, entry)| &entry.pods).map(|id| (*id, &ctx.world.pod(*id).pod));
    let comes_back = |pod: &Pod| {
        let class = &pod.class;
        let lasting = !class.mirror && !class.daemon_set && pod.owner.is_some();
        lasting && pod.deletion_at.is_none() && !pod.phase.finished() && cutoff <= class.priority
    };
    pods.filter(|(_, pod)| comes_back(pod)).collect()
}

fn is_candidate(ctx: &Context<'_>, pod: &Pod) -> bool {
    let cluster = &ctx.config.cluster;
    let bypassed = || cluster.upstream.bypassed_schedulers.contains(&pod.class.scheduler);
    !pod.phase.finished()
        && pod.deletion_at.is_none()
        && !pod.gated
        && cluster.expendable_pods_priority_cutoff <= pod.class.priority
        && (pod.unschedulable || bypassed())
}

fn wants_node(ctx: &Context<'_>, pod: &Pod) -> bool {
    let delay = ctx.config.cluster.new_pod_delay.max(pod.class.scale_up_delay.unwrap_or(Seconds(0)));
    !pod.class.daemon_set && pod.created_at.plus(delay) < ctx.now
}

/// Places a pod on the first node that takes it, going round from behind the one that took the last pod.
fn place_round(ctx: &mut Context<'_>, pod: PodId, class: ClassIx, next: &mut usize) -> bool {
    let nodes = ctx.snapshot.nodes_capacity();
    for step in 0..nodes {
        let at = (*next + step) % nodes;
        let node = NodeIx(u32::try_from(at).expect("indexes of nodes fit 32 bits"));
        if ctx.snapshot.fits(class, node) {
            ctx.snapshot.place(PodRef::Real(pod), node);
            *next = (at + 1) % nodes;
            return true;
        }
    }
    false
}
