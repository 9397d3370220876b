//! Where kube-scheduler would put the pods of a mixture, if all its nodes came at once: it takes pods in the order in which they
//! wait and gives each the node that is used least and most evenly, so that a pod may be left over though a plan had a place for
//! it.

use super::candidates;
use super::worth::Worth;
use super::{Filled, Problem, real};
use crate::packing::patterns::Rule;
use headroom_values::resources::Resources;

/// Looks of a pod at a node in one landing; where there would be more, every second, third, … pod and node stands for all.
const LOOKS_MAX: usize = 20_000;

/// Landings of one problem's mixtures.
pub(super) struct Landing {
    /// Orders of the pods, each by its kind. No one can know which of them it will be: those in which they wait, three by chance in
    /// which each kind comes as a whole, two of all pods by chance, and the worst for most mixtures, the smallest first.
    orders: Vec<Vec<usize>>,
    /// Shapes of which nodes for what is left over may be.
    useful: Vec<usize>,
}

impl Landing {
    pub(super) fn of(problem: &Problem, useful: Vec<usize>) -> Self {
        let kinds: Vec<usize> = (0..problem.kinds.len()).collect();
        let whole = |kinds: Vec<usize>| -> Vec<usize> {
            let pods = |kind: usize| std::iter::repeat_n(kind, problem.kinds[kind].count);
            kinds.into_iter().flat_map(pods).collect()
        };
        let mut smallest_first = kinds.clone();
        smallest_first.sort_by_key(|kind| {
            let requests = &problem.kinds[*kind].requests;
            (requests.cpu_milli, requests.memory_bytes)
        });
        let mut orders = vec![problem.waiting.clone(), whole(smallest_first)];
        orders.extend((0..3).map(|seed| whole(shuffled(kinds.clone(), seed))));
        orders.extend((0..2).map(|seed| shuffled(problem.waiting.clone(), seed)));
        Self { orders, useful }
    }

    /// Looks that a mixture of so many nodes costs.
    pub(super) fn looks(&self, nodes: usize) -> usize {
        let pods = self.orders.first().map_or(0, Vec::len);
        pods.saturating_mul(nodes).min(LOOKS_MAX).saturating_mul(self.orders.len())
    }

    /// Price for an hour of the nodes that are bought for pods that are left over, in millionths: the mean of all orders. Once the
    /// work is at `work_max` it is what these pods are worth.
    pub(super) fn price_of_left(
        &self,
        problem: &Problem,
        nodes: &[Filled],
        worth: &Worth,
        (work, work_max): (&mut u64, u64),
    ) -> i64 {
        let pods = self.orders.first().map_or(0, Vec::len);
        let thin = thinning(pods.saturating_mul(nodes.len()));
        let shapes: Vec<usize> = nodes.iter().step_by(thin).map(|node| node.shape).collect();
        let mut sum = 0_i64;
        for order in &self.orders {
            let left = left(problem, &shapes, order.iter().step_by(thin).copied(), work);
            if left.iter().all(|left| *left == 0) {
                continue;
            }
            let (rules, limits) = ((worth, &self.useful[..], &Rule::ALL[..]), (&mut *work, work_max));
            let more = candidates::by_worth(problem, &left, rules, limits).map(|mut nodes| {
                candidates::make_cheaper(problem, &mut nodes, work);
                super::price(problem, &nodes)
            });
            sum = sum.saturating_add(more.unwrap_or_else(|| worth.price_of(problem, &left)));
        }
        let [thin, orders] = [thin, self.orders.len()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        sum.saturating_mul(thin) / orders
    }
}

/// Every how manieth pod and node is looked at, so that the looks stay within their bound.
fn thinning(looks: usize) -> usize {
    let mut thin = 1;
    while LOOKS_MAX < looks / (thin * thin) {
        thin += 1;
    }
    thin
}

/// A node while pods land on it.
struct Landed<'p> {
    whole: &'p Resources,
    free: Resources,
    hosts: &'p [bool],
}

/// Number of pods of each kind that find no node.
fn left(
    problem: &Problem,
    shapes: &[usize],
    order: impl Iterator<Item = usize>,
    work: &mut u64,
) -> Vec<usize> {
    let node = |shape: &usize| {
        let shape = &problem.shapes[*shape];
        Landed { whole: &shape.room, free: shape.room.clone(), hosts: &shape.hosts }
    };
    let mut nodes: Vec<Landed<'_>> = shapes.iter().map(node).collect();
    let mut left = vec![0; problem.kinds.len()];
    for kind in order {
        let requests = &problem.kinds[kind].requests;
        let mut best: Option<(f64, usize)> = None;
        for (at, node) in nodes.iter().enumerate() {
            if node.hosts[kind] && requests.fits(&node.free) {
                let score = score(requests, node);
                if best.is_none_or(|(most, _)| most < score) {
                    best = Some((score, at));
                }
            }
        }
        match best {
            Some((_, at)) => nodes[at].free.subtract(requests),
            None => left[kind] += 1,
        }
    }
    *work += u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    left
}

/// Parts of cpu and memory that stay free, and how alike they are.
///
/// Source: noderesources/least_allocated.go and balanced_allocation.go, which count alike by default.
fn score(requests: &Resources, node: &Landed<'_>) -> f64 {
    let part = |free: i64, asked: i64, all: i64| real(free - asked) / real(all.max(1));
    let cpu = part(node.free.cpu_milli, requests.cpu_milli, node.whole.cpu_milli);
    let memory = part(node.free.memory_bytes, requests.memory_bytes, node.whole.memory_bytes);
    f64::midpoint(cpu, memory) + 1.0 - (cpu - memory).abs() / 2.0
}

/// The same in an order that the seed chooses.
fn shuffled(mut order: Vec<usize>, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    for last in (1..order.len()).rev() {
        // Knuth's MMIX generator; its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).unwrap_or(0) % (last + 1);
        order.swap(last, at);
    }
    order
}
