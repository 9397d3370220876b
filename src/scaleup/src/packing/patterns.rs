//! Packing node by node: which mix of pods fills one node best, repeated as long as there are such pods.

use headroom_values::resources::Resources;

/// Most classes for which mixes are searched; beyond it the search costs more than it saves.
pub const CLASSES_MAX: usize = 64;

/// Rule for the choice of the next pod for a node that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The pod of which each node should take the most more, if all nodes took the same mix.
    Proportion,
    /// The pod whose shape points the same way as what is left of the node.
    DotProduct,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 2] = [Self::Proportion, Self::DotProduct];
}

/// So many nodes, each filled with these pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Number of nodes.
    pub nodes: usize,
    /// Classes by index, with the number of their pods on each node.
    pub pods: Vec<(usize, usize)>,
}

/// Fills up to `nodes_max` nodes of `empty` room with `counts` pods of each of the classes' `requests`.
///
/// Returns the patterns in order; pods that fit no empty node are left out. `work` is raised by the number of
/// comparisons. Source of the dot product: Panigrahy et al., "Heuristics for Vector Bin Packing", 2011.
#[must_use]
pub fn fill(
    requests: &[Resources],
    counts: &[usize],
    empty: &Resources,
    nodes_max: usize,
    rule: Rule,
    work: &mut u64,
) -> Vec<Pattern> {
    let mut left = counts.to_vec();
    let shapes: Vec<[f64; 4]> = requests.iter().map(|requests| shape(requests, empty)).collect();
    let mut patterns = Vec::new();
    let mut nodes = 0;
    while nodes < nodes_max {
        let pods = fill_one(requests, &shapes, &left, empty, empty.clone(), rule, work);
        let repeats = pods.iter().map(|(class, count)| left[*class] / count).min().unwrap_or(0);
        let repeats = repeats.min(nodes_max - nodes);
        if repeats == 0 {
            break;
        }
        for (class, count) in &pods {
            left[*class] -= count * repeats;
        }
        nodes += repeats;
        patterns.push(Pattern { nodes: repeats, pods });
    }
    patterns
}

/// Pods as parts of a node of certain amounts.
#[derive(Clone, Debug)]
pub struct Shapes {
    shapes: Vec<[f64; 4]>,
    whole: Resources,
}

impl Shapes {
    /// The shapes of pods with these `requests` beside a node that is `whole`.
    #[must_use]
    pub fn of(requests: &[Resources], whole: &Resources) -> Self {
        let shapes = requests.iter().map(|requests| shape(requests, whole)).collect();
        Self { shapes, whole: whole.clone() }
    }

    /// The mix of pods for one node with `free` room left, in proportion to what is `left` of each class: 0 for those
    /// that it may not take.
    #[must_use]
    pub fn fill_room(
        &self,
        requests: &[Resources],
        left: &[usize],
        free: Resources,
        work: &mut u64,
    ) -> Vec<(usize, usize)> {
        fill_one(requests, &self.shapes, left, &self.whole, free, Rule::Proportion, work)
    }
}

fn fill_one(
    requests: &[Resources],
    shapes: &[[f64; 4]],
    left: &[usize],
    empty: &Resources,
    mut free: Resources,
    rule: Rule,
    work: &mut u64,
) -> Vec<(usize, usize)> {
    let weights = weights(shapes, left);
    let nodes_needed = weights.into_iter().fold(1.0, f64::max);
    let mut taken = vec![0; requests.len()];
    loop {
        let room = if rule == Rule::DotProduct { shape(&free, empty) } else { [0.0; 4] };
        let mut best: Option<(usize, f64)> = None;
        for class in 0..requests.len() {
            if left[class] <= taken[class] {
                continue;
            }
            *work += 1;
            if !requests[class].fits(&free) {
                continue;
            }
            let pod = shapes[class];
            let score = match rule {
                Rule::Proportion => {
                    let largest = pod.into_iter().fold(0.0, f64::max);
                    (real(left[class]) / nodes_needed - real(taken[class])) * largest
                }
                Rule::DotProduct => (0..4).map(|index| weights[index] * pod[index] * room[index]).sum(),
            };
            if best.is_none_or(|(_, highest)| highest < score) {
                best = Some((class, score));
            }
        }
        let Some((class, _)) = best else { break };
        taken[class] += 1;
        free.subtract(&requests[class]);
    }
    taken.into_iter().enumerate().filter(|(_, count)| *count != 0).collect()
}

/// Returns the sum of all pods' requests for each resource, in nodes.
fn weights(shapes: &[[f64; 4]], counts: &[usize]) -> [f64; 4] {
    let mut weights = [0.0; 4];
    for (shape, count) in shapes.iter().zip(counts) {
        for (weight, part) in weights.iter_mut().zip(shape) {
            *weight += part * real(*count);
        }
    }
    weights
}

fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Cpu, memory, pods and ephemeral storage as parts of the whole; 0 where the whole is 0.
#[allow(clippy::cast_precision_loss)]
fn shape(amounts: &Resources, whole: &Resources) -> [f64; 4] {
    let part = |amount: i64, whole: i64| if whole <= 0 { 0.0 } else { amount as f64 / whole as f64 };
    [
        part(amounts.cpu_milli, whole.cpu_milli),
        part(amounts.memory_bytes, whole.memory_bytes),
        part(amounts.pods, whole.pods),
        part(amounts.ephemeral_bytes, whole.ephemeral_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu_milli: i64, memory_gib: i64) -> Resources {
        Resources::new(cpu_milli, memory_gib << 30).with_pods(1)
    }

    #[test]
    fn pods_of_opposite_shapes_share_a_node() {
        let empty = Resources::new(4000, 16 << 30).with_pods(110);
        let requests = [amounts(3000, 1), amounts(500, 14)];
        for rule in Rule::ALL {
            let patterns = fill(&requests, &[5, 5], &empty, 100, rule, &mut 0);
            assert_eq!(patterns, [Pattern { nodes: 5, pods: vec![(0, 1), (1, 1)] }], "{rule:?}");
        }
    }

    #[test]
    fn limit_on_nodes_ends_the_search() {
        let empty = Resources::new(1000, 1 << 30).with_pods(110);
        let patterns = fill(&[amounts(1000, 0)], &[5], &empty, 3, Rule::DotProduct, &mut 0);
        assert_eq!(patterns, [Pattern { nodes: 3, pods: vec![(0, 1)] }]);
    }

    #[test]
    fn pods_that_fit_no_node_are_left_out() {
        let empty = Resources::new(1000, 1 << 30).with_pods(110);
        assert!(fill(&[amounts(1001, 0)], &[5], &empty, 3, Rule::Proportion, &mut 0).is_empty());
    }
}
