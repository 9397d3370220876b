//! Cluster Autoscaler's first-fit-decreasing, exactly: used under its profile and by the golden vectors. It buys nothing.

use std::sync::Arc;

use crate::nodes::packing::{Wanted, score};
use crate::scheduling::{ClassIx, NodeIx, PodRef, Refusal, Snapshot, TemplateNode};
use crate::world::node::HOSTNAME_LABEL;

/// What one group's template can host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Nodes that got a pod; an existing one that a spread retry used is among them.
    pub nodes: u32,
    /// Pods placed, by group of pods in the order given.
    pub scheduled: Vec<usize>,
    /// Groups of pods (by index) whose first pod does not fit an empty node; they are not packed.
    pub unfit: Vec<usize>,
}

/// Estimates how many nodes of `template` the pods need; the snapshot is left as it was.
///
/// For each group of pods, the largest first: its pods go on nodes already added; at the first that fits none, the
/// rest go on the last added node, or one more, until a pod does not fit a new node or the limit is reached. When the
/// last node refuses for a spread over hostnames, every node of the snapshot is tried. The search for a node goes
/// round, from behind the node that took the previous pod.
/// Source: estimator/binpacking_estimator.go, Estimate; `nodes_max` of `None` means no limit.
#[must_use]
pub fn estimate(
    snapshot: &mut Snapshot<'_>,
    template: &Arc<TemplateNode>,
    wanted: &[Wanted<'_>],
    nodes_max: Option<u32>,
) -> Estimate {
    let mark = snapshot.checkpoint();
    let unfit = unfit_groups(snapshot, template, wanted);
    let mut order: Vec<usize> = (0..wanted.len()).filter(|index| !unfit.contains(index)).collect();
    order.sort_by_cached_key(|index| std::cmp::Reverse(score(snapshot, wanted[*index].class, template)));
    let mut search = Search {
        snapshot,
        template,
        first_new: 0,
        next: 0,
        added: 0,
        last: None,
        used: Vec::new(),
        nodes_max,
    };
    search.first_new = search.snapshot.nodes_capacity();
    let mut scheduled = vec![0; wanted.len()];
    for index in order {
        let group = wanted[index];
        let on_added = search.on_added_nodes(group.class, group.pods);
        scheduled[index] = on_added + search.on_new_nodes(group.class, &group.pods[on_added..]);
    }
    let nodes = u32::try_from(search.used.len()).unwrap_or(u32::MAX);
    snapshot.rollback(mark);
    Estimate { nodes, scheduled, unfit }
}

/// The smallest of the limits on new nodes: 0 of `per_scale_up` is none; below zero is zero.
///
/// `cluster_left` is what the limit on all nodes leaves, `rooms` what each group that shares the nodes may still grow.
/// Source: estimator/{static,cluster_capacity,sng_capacity}_threshold.go.
#[must_use]
pub fn nodes_max(per_scale_up: u32, cluster_left: Option<i64>, rooms: impl Iterator<Item = i64>) -> u32 {
    let per_scale_up = (per_scale_up != 0).then_some(i64::from(per_scale_up));
    let room = rooms.map(|room| room.max(0)).sum();
    let least = per_scale_up.into_iter().chain(cluster_left).fold(room, i64::min);
    u32::try_from(least.max(0)).unwrap_or(u32::MAX)
}

fn unfit_groups(
    snapshot: &mut Snapshot<'_>,
    template: &Arc<TemplateNode>,
    wanted: &[Wanted<'_>],
) -> Vec<usize> {
    let mark = snapshot.checkpoint();
    let trial = snapshot.add_node(template, Arc::from("template-trial"));
    let unfit = (0..wanted.len()).filter(|index| !snapshot.fits(wanted[*index].class, trial)).collect();
    snapshot.rollback(mark);
    unfit
}

struct Search<'s, 'w> {
    snapshot: &'s mut Snapshot<'w>,
    template: &'s Arc<TemplateNode>,
    first_new: usize,
    next: usize,
    added: u32,
    last: Option<NodeIx>,
    used: Vec<NodeIx>,
    nodes_max: Option<u32>,
}

impl Search<'_, '_> {
    /// Step (1): pods on nodes added before; ends at the first that fits none.
    fn on_added_nodes(&mut self, class: ClassIx, pods: &[PodRef]) -> usize {
        let first_new = self.first_new;
        for (count, pod) in pods.iter().enumerate() {
            if !self.place_round(class, *pod, |node| first_new <= node) {
                return count;
            }
        }
        pods.len()
    }

    /// Step (2): pods on the last node, or on one more.
    fn on_new_nodes(&mut self, class: ClassIx, pods: &[PodRef]) -> usize {
        for (count, pod) in pods.iter().enumerate() {
            if !self.on_last_node(class, *pod) && !self.on_one_more(class, *pod) {
                return count;
            }
        }
        pods.len()
    }

    fn on_last_node(&mut self, class: ClassIx, pod: PodRef) -> bool {
        let Some(last) = self.last else { return false };
        match self.snapshot.check(class, last) {
            Ok(()) => {
                self.place(pod, last);
                true
            }
            Err(Refusal::TopologySpread { .. }) if self.spreads_over_hostnames(class) => {
                self.place_round(class, pod, |_| true)
            }
            Err(_) => false,
        }
    }

    fn on_one_more(&mut self, class: ClassIx, pod: PodRef) -> bool {
        let last_is_empty = self.last.is_some_and(|last| !self.used.contains(&last));
        let limited = self.nodes_max.is_some_and(|max| max <= self.added);
        if last_is_empty || limited {
            return false;
        }
        let name = format!("template-node-{}", self.added);
        let node = self.snapshot.add_node(self.template, name.into());
        self.added += 1;
        self.last = Some(node);
        if !self.snapshot.fits(class, node) {
            return false;
        }
        self.place(pod, node);
        true
    }

    /// Places a pod on the first node that takes it, going round; false when none does.
    fn place_round(&mut self, class: ClassIx, pod: PodRef, acceptable: impl Fn(usize) -> bool) -> bool {
        let nodes = self.snapshot.nodes_capacity();
        for step in 0..nodes {
            let at = (self.next + step) % nodes;
            let node = NodeIx(u32::try_from(at).expect("indexes of nodes fit 32 bits"));
            if acceptable(at) && self.snapshot.fits(class, node) {
                self.next = (at + 1) % nodes;
                self.place(pod, node);
                return true;
            }
        }
        false
    }

    fn place(&mut self, pod: PodRef, node: NodeIx) {
        self.snapshot.place(pod, node);
        if !self.used.contains(&node) {
            self.used.push(node);
        }
    }

    fn spreads_over_hostnames(&self, class: ClassIx) -> bool {
        let spread = &self.snapshot.class(class).topology_spread;
        spread.iter().any(|spread| &*spread.topology_key == HOSTNAME_LABEL)
    }
}
