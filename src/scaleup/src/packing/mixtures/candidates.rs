//! Mixtures that take all pods: of one shape, of one with another for what it does not take, and node by node of the shape that
//! is worth most beside its price. Each node then becomes the cheapest shape that takes its pods.

use super::worth::Worth;
use super::{Filled, Problem, real};
use crate::packing::pack::copies;
use crate::packing::patterns::{self, Rule};
use headroom_values::resources::Resources;

/// All mixtures, in the order in which they are found. Each of the three ways has a third of the work.
pub(super) fn all(
    problem: &Problem,
    (worth, useful): (&Worth, &[usize]),
    (work, work_max): (&mut u64, u64),
) -> Vec<Vec<Filled>> {
    let counts: Vec<usize> = problem.kinds.iter().map(|kind| kind.count).collect();
    let begin = *work;
    let third = |part: u64| begin.saturating_add(work_max.saturating_sub(begin) / 3 * part);
    let mut found = Vec::new();
    // Of large nodes there are few, so that looking at them costs least.
    for main in useful.iter().rev() {
        let open = |at: usize| problem.shapes[*main].takes(at, &problem.kinds[at]) == 0;
        let others: Vec<usize> = (0..problem.kinds.len()).filter(|at| open(*at)).collect();
        let takes_others = |second: usize| {
            others.iter().all(|at| problem.shapes[second].takes(*at, &problem.kinds[*at]) != 0)
        };
        let seconds = if others.is_empty() { std::slice::from_ref(main) } else { useful };
        for second in seconds.iter().filter(|second| takes_others(**second)) {
            if *work < third(1) {
                found.extend(first_fit(problem, [*main, *second], work));
            }
        }
    }
    for rules in [&Rule::ALL[..], &Rule::ALL[..1], &Rule::ALL[1..]] {
        found.extend(by_worth(problem, &counts, (worth, useful, rules), (&mut *work, third(2))));
    }
    for shape in useful.iter().copied() {
        let mut kinds = problem.kinds.iter().enumerate();
        if *work < third(3) && kinds.all(|(at, kind)| problem.shapes[shape].takes(at, kind) != 0) {
            found.extend(Rule::ALL.into_iter().filter_map(|rule| repeated(problem, shape, rule, work)));
        }
    }
    found.iter_mut().for_each(|nodes| make_cheaper(problem, nodes, work));
    found
}

/// Nodes one after the other, each of one of the `useful` shapes, and with the mix of pods that is worth most beside its price.
/// `None` if a kind is left that no shape takes, or the work ends it.
pub(super) fn by_worth(
    problem: &Problem,
    counts: &[usize],
    (worth, useful, rules): (&Worth, &[usize], &[Rule]),
    (work, work_max): (&mut u64, u64),
) -> Option<Vec<Filled>> {
    let requests: Vec<Resources> = problem.kinds.iter().map(|kind| kind.requests.clone()).collect();
    let mut left = counts.to_vec();
    let mut nodes = Vec::new();
    while left.iter().any(|left| *left != 0) {
        if work_max <= *work {
            return None;
        }
        let mut best: Option<(f64, Filled)> = None;
        for at in useful {
            let shape = &problem.shapes[*at];
            let hosted: Vec<usize> =
                left.iter().zip(&shape.hosts).map(|(left, hosts)| if *hosts { *left } else { 0 }).collect();
            for rule in rules {
                let filled = patterns::fill(&requests, &hosted, &shape.room, 1, *rule, work);
                let Some(pattern) = filled.into_iter().next() else { continue };
                let value = worth.value(&sum(problem, &pattern.pods));
                let value = value / real(shape.price_micro.max(1));
                if best.as_ref().is_none_or(|(most, _)| *most < value) {
                    best = Some((value, Filled { shape: *at, pods: pattern.pods }));
                }
            }
        }
        let (_, filled) = best?;
        let repeats = filled.pods.iter().map(|(kind, count)| left[*kind] / count).min().unwrap_or(0);
        filled.pods.iter().for_each(|(kind, count)| left[*kind] -= count * repeats);
        nodes.extend(std::iter::repeat_n(filled, repeats));
    }
    Some(nodes)
}

/// The kinds one after the other, those first that the first shape does not take, then the largest: each pod on the first node
/// that takes it, or on one more of the first shape, or of the second. `None` if both refuse a pod.
fn first_fit(problem: &Problem, shapes: [usize; 2], work: &mut u64) -> Option<Vec<Filled>> {
    let main = &problem.shapes[shapes[0]];
    let part = |asked: i64, all: i64| i128::from(asked) * 1_000_000 / i128::from(all.max(1));
    let size = |at: usize| {
        let requests = &problem.kinds[at].requests;
        part(requests.cpu_milli, main.room.cpu_milli) + part(requests.memory_bytes, main.room.memory_bytes)
    };
    let mut order: Vec<usize> = (0..problem.kinds.len()).collect();
    order.sort_by_key(|at| (main.takes(*at, &problem.kinds[*at]) != 0, std::cmp::Reverse(size(*at))));
    let mut nodes: Vec<Filled> = Vec::new();
    let mut free: Vec<Resources> = Vec::new();
    for at in order {
        let kind = &problem.kinds[at];
        let mut left = kind.count;
        let mut next = 0;
        while left != 0 {
            if next == nodes.len() {
                let shape = *shapes.iter().find(|shape| problem.shapes[**shape].takes(at, kind) != 0)?;
                nodes.push(Filled { shape, pods: Vec::new() });
                free.push(problem.shapes[shape].room.clone());
            }
            *work += 1;
            let hosts = problem.shapes[nodes[next].shape].hosts[at];
            let count = if hosts { copies(&kind.requests, &free[next]).min(left) } else { 0 };
            if count != 0 {
                nodes[next].pods.push((at, count));
                free[next].subtract(&kind.requests.times(i64::try_from(count).unwrap_or(i64::MAX)));
                left -= count;
            }
            next += 1;
        }
    }
    Some(nodes)
}

/// Nodes of one shape, filled by the rule.
fn repeated(problem: &Problem, shape: usize, rule: Rule, work: &mut u64) -> Option<Vec<Filled>> {
    let requests: Vec<Resources> = problem.kinds.iter().map(|kind| kind.requests.clone()).collect();
    let counts: Vec<usize> = problem.kinds.iter().map(|kind| kind.count).collect();
    let found =
        patterns::fill(&requests, &counts, &problem.shapes[shape].room, problem.nodes_max, rule, work);
    let on_one = |pods: &[(usize, usize)]| pods.iter().map(|(_, count)| count).sum::<usize>();
    let placed: usize = found.iter().map(|pattern| pattern.nodes * on_one(&pattern.pods)).sum();
    let nodes = found
        .into_iter()
        .flat_map(|pattern| std::iter::repeat_n(Filled { shape, pods: pattern.pods }, pattern.nodes));
    (placed == counts.iter().sum::<usize>()).then(|| nodes.collect())
}

/// Makes each node one of the cheapest shape that takes its pods.
pub(super) fn make_cheaper(problem: &Problem, nodes: &mut [Filled], work: &mut u64) {
    for node in nodes {
        let asked = sum(problem, &node.pods);
        let holds = |shape: &super::Shape| {
            node.pods.iter().all(|(kind, _)| shape.hosts[*kind]) && asked.fits(&shape.room)
        };
        *work += 1;
        if let Some(at) = problem.shapes.iter().position(holds) {
            node.shape = at.min(node.shape);
        }
    }
}

fn sum(problem: &Problem, pods: &[(usize, usize)]) -> Resources {
    let mut sum = Resources::default();
    for (kind, count) in pods {
        sum.add(&problem.kinds[*kind].requests.times(i64::try_from(*count).unwrap_or(i64::MAX)));
    }
    sum
}
