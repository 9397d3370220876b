//! Nodes of several shapes for a set of pods, at the lowest price: `worth` values cpu and memory, `candidates` are the mixtures
//! that are looked at, and `landing` finds which pods are left over when kube-scheduler places them. It knows amounts and
//! prices only, no pools and no cluster.

mod candidates;
mod landing;
mod worth;

use std::collections::BTreeSet;

use crate::packing::pack::copies;
use crate::packing::patterns::CLASSES_MAX;
use headroom_values::resources::Resources;
use worth::Worth;

/// Mixtures that cost this many hundredths more than the cheapest one are not looked at.
const DEARER_MAX_PERCENT: i64 = 25;
/// Most mixtures whose landing is looked at.
const LANDINGS_MAX: usize = 40;
/// Most looks of a pod at a node in all landings of one choice: a few milliseconds.
const LOOKS_MAX: usize = 1_000_000;

/// Pods that are alike.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Requests of one of them.
    pub requests: Resources,
    /// Their number.
    pub count: usize,
}

/// A shape of which nodes can be bought.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What an empty node has for pods.
    pub room: Resources,
    /// Price of a node for an hour in millionths; 0 or more.
    pub price_micro: i64,
    /// For each kind of pods: true if the node's labels and taints suit them.
    pub hosts: Vec<bool>,
    /// Most new nodes of the shape.
    pub most: usize,
}

impl Shape {
    /// Number of pods of the kind that an empty node takes.
    pub(crate) fn takes(&self, at: usize, kind: &Kind) -> usize {
        if self.hosts[at] { copies(&kind.requests, &self.room) } else { 0 }
    }
}

/// Pods that want nodes, and the shapes that they may get.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The pods; each kind has a shape that takes one of it.
    pub kinds: Vec<Kind>,
    /// The shapes, the cheapest first.
    pub shapes: Vec<Shape>,
    /// Most nodes together.
    pub nodes_max: usize,
    /// The pods, each by its kind, in the order in which they wait for the scheduler.
    pub waiting: Vec<usize>,
}

impl Problem {
    /// The shapes than which no other one has as much room for as many kinds at the same price or less.
    fn undominated(&self) -> Vec<usize> {
        let shapes = &self.shapes;
        let better = |one: &Shape, other: &Shape| {
            let hosts = one.hosts.iter().zip(&other.hosts).all(|(one, other)| *one || !other);
            hosts
                && other.room.fits(&one.room)
                && one.price_micro <= other.price_micro
                && other.most <= one.most
        };
        let stays = |at: &usize| {
            let is_worse = |other: usize| {
                // Of two that are the same the first stays.
                better(&shapes[other], &shapes[*at]) && (other < *at || !better(&shapes[*at], &shapes[other]))
            };
            !(0..shapes.len()).any(|other| other != *at && is_worse(other))
        };
        (0..shapes.len()).filter(stays).collect()
    }
}

/// A node with its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Index of its shape.
    pub shape: usize,
    /// Kinds, by index, with the number of their pods.
    pub pods: Vec<(usize, usize)>,
}

/// The nodes that are expected to cost least once all pods run: their own price, and that of the nodes for pods that
/// kube-scheduler leaves over, since it spreads pods and follows no plan. `None` where no mixture takes all pods within the
/// bounds.
///
/// `work` is raised by the number of comparisons; once it is at `work_max` no further mixtures are looked for, nor packed for what is
/// left over. `None` too for more kinds than mixes are searched for.
#[must_use]
pub fn cheapest(problem: &Problem, work: &mut u64, work_max: u64) -> Option<Vec<Filled>> {
    if CLASSES_MAX < problem.kinds.len() {
        return None;
    }
    let (worth, useful) = (Worth::of(problem), problem.undominated());
    let mut found: Vec<(i64, Vec<Filled>)> =
        candidates::all(problem, (&worth, &useful), (&mut *work, work_max))
            .into_iter()
            .filter(|nodes| is_within_bounds(problem, nodes))
            .map(|nodes| (price(problem, &nodes), nodes))
            .collect();
    // Stable: of equal prices the one that was found first.
    found.sort_by_key(|(price, nodes)| (*price, nodes.len()));
    let mut seen = BTreeSet::new();
    found.retain(|(_, nodes)| seen.insert(counts(problem, nodes)));
    let most = found.first()?.0;
    let most = most.saturating_add(most.saturating_mul(DEARER_MAX_PERCENT) / 100);
    let landing = landing::Landing::of(problem, useful);
    let looks = landing.looks(found.first().map_or(0, |(_, nodes)| nodes.len()));
    let tried = (LOOKS_MAX / looks.max(1)).clamp(1, LANDINGS_MAX);
    let expected = |(price, nodes): &(i64, Vec<Filled>), work: &mut u64| {
        price.saturating_add(landing.price_of_left(problem, nodes, &worth, (work, work_max)))
    };
    let tried = found.into_iter().take(tried).take_while(|(price, _)| *price <= most);
    let tried = tried.map(|one| (expected(&one, work), one.1));
    tried.min_by_key(|(expected, _)| *expected).map(|(_, nodes)| nodes)
}

fn price(problem: &Problem, nodes: &[Filled]) -> i64 {
    nodes.iter().map(|node| problem.shapes[node.shape].price_micro).fold(0, i64::saturating_add)
}

/// Number of nodes of each shape.
fn counts(problem: &Problem, nodes: &[Filled]) -> Vec<usize> {
    let mut counts = vec![0; problem.shapes.len()];
    nodes.iter().for_each(|node| counts[node.shape] += 1);
    counts
}

fn is_within_bounds(problem: &Problem, nodes: &[Filled]) -> bool {
    let counts = counts(problem, nodes);
    nodes.len() <= problem.nodes_max
        && counts.iter().zip(&problem.shapes).all(|(count, shape)| *count <= shape.most)
}

/// An amount as a fraction's part; exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
fn real(amount: i64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn kind(cpu_milli: i64, memory_gib: i64, count: usize) -> Kind {
        Kind { requests: Resources::new(cpu_milli, memory_gib * GIB).with_pods(1), count }
    }

    /// A shape of so many cores and GiB that suits all of so many kinds.
    fn shape(cores: i64, gib: i64, price_micro: i64, kinds: usize) -> Shape {
        let room = Resources::new(cores * 1000, gib * GIB).with_pods(110);
        Shape { room, price_micro, hosts: vec![true; kinds], most: 100 }
    }

    fn problem(kinds: Vec<Kind>, shapes: Vec<Shape>) -> Problem {
        let waiting = (0..kinds.len()).flat_map(|at| std::iter::repeat_n(at, kinds[at].count)).collect();
        Problem { kinds, shapes, nodes_max: 100, waiting }
    }

    fn bought(problem: &Problem) -> Option<Vec<usize>> {
        cheapest(problem, &mut 0, u64::MAX).map(|nodes| counts(problem, &nodes))
    }

    #[test]
    fn pods_of_opposite_shapes_get_a_shape_each() {
        let shapes = vec![shape(4, 8, 150, 2), shape(4, 16, 170, 2), shape(4, 32, 220, 2)];
        let of = |kinds| bought(&problem(kinds, shapes.clone()));
        assert_eq!(of(vec![kind(2000, 4, 20), kind(2000, 16, 10)]), Some(vec![10, 0, 5]));
    }

    #[test]
    fn a_node_that_takes_all_costs_less_than_one_for_the_easy_and_one_for_the_others() {
        let shapes = vec![shape(2, 4, 80, 2), shape(8, 16, 310, 2), shape(8, 32, 340, 2)];
        let pods = vec![kind(500, 0, 8), kind(1000, 14, 2)];
        assert_eq!(bought(&problem(pods, shapes)), Some(vec![0, 0, 1]));
    }

    #[test]
    fn bounds_of_shapes_and_of_all_nodes_hold() {
        let mut of_one = problem(vec![kind(4000, 4, 3)], vec![shape(4, 16, 100, 1), shape(16, 64, 450, 1)]);
        assert_eq!(bought(&of_one), Some(vec![3, 0]));
        of_one.shapes[0].most = 2;
        assert_eq!(bought(&of_one), Some(vec![0, 1]));
        of_one.nodes_max = 0;
        assert_eq!(bought(&of_one), None);
    }

    #[test]
    fn a_mixture_that_the_scheduler_spoils_is_left_for_one_that_it_cannot() {
        // Three small pods and a large one fit on two nodes of unlike sizes, if none of the small ones is on the large node. The
        // scheduler puts them there.
        let shapes = vec![shape(3, 12, 100, 2), shape(8, 32, 250, 2), shape(12, 48, 380, 2)];
        assert_eq!(bought(&problem(vec![kind(1000, 1, 3), kind(8000, 1, 1)], shapes)), Some(vec![0, 0, 1]));
    }

    #[test]
    fn kinds_go_only_where_they_may() {
        let mut shapes = vec![shape(4, 16, 100, 2), shape(4, 16, 200, 2)];
        shapes[0].hosts[1] = false;
        assert_eq!(bought(&problem(vec![kind(4000, 4, 1), kind(4000, 4, 2)], shapes)), Some(vec![1, 2]));
    }

    #[test]
    fn spent_work_ends_the_search_without_a_mixture() {
        let shapes = vec![shape(4, 16, 100, 1), shape(16, 64, 450, 1)];
        let of_one = problem(vec![kind(4000, 4, 3)], shapes);
        assert!(cheapest(&of_one, &mut 0, 0).is_none());
    }

    #[test]
    fn work_is_bounded_for_many_kinds_and_pods() {
        let kinds: Vec<Kind> = (1..=64).map(|at| kind(50 * at, at % 7, 150)).collect();
        let shapes =
            (1..=45).map(|size| shape(size, size * (2 + size % 5), size * 40 + size % 7, 64)).collect();
        let mut many = problem(kinds, shapes);
        many.nodes_max = 9_000;
        many.shapes.iter_mut().for_each(|shape| shape.most = 9_000);
        let mut work = 0;
        assert!(cheapest(&many, &mut work, 4_000_000).is_some());
        assert!((1_000_000..6_000_000).contains(&work), "{work}");
        many.kinds.push(kind(1, 0, 1));
        assert!(cheapest(&many, &mut 0, u64::MAX).is_none());
    }

    #[test]
    fn a_shape_that_another_one_beats_in_all_is_left_out() {
        let mut all =
            vec![shape(4, 16, 100, 1), shape(4, 16, 100, 1), shape(4, 8, 120, 1), shape(8, 16, 150, 1)];
        let useful = |shapes: &[Shape]| problem(vec![kind(1000, 1, 1)], shapes.to_vec()).undominated();
        assert_eq!(useful(&all), [0, 3]);
        all[0].most = 1;
        assert_eq!(useful(&all), [1, 3], "of the first there may be too few");
        all[1].hosts[0] = false;
        assert_eq!(useful(&all), [0, 1, 2, 3], "the second hosts no pod");
    }

    /// Shapes of 2 to 32 cores with 2, 4 and 8 GiB for each, and a price for each core.
    fn families() -> Vec<Shape> {
        let sizes = [2, 4, 8, 16, 32];
        let of = |(gib, micro): (i64, i64)| sizes.map(|cores| (cores, cores * gib, cores * micro));
        let mut all: Vec<_> = [(2, 38_000), (4, 43_000), (8, 56_000)].into_iter().flat_map(of).collect();
        all.sort_by_key(|(_, _, micro)| *micro);
        all.into_iter().map(|(cores, gib, micro)| shape(cores, gib, micro, 5)).collect()
    }

    /// One to five kinds of up to thirty pods of an eighth of a core to six, with half a GiB to seven for each core.
    fn random_kinds(seed: u64) -> Vec<Kind> {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let kinds = 1 + random(5);
        let mut kind = || {
            let cpu_milli = [125, 250, 500, 1000, 2000, 3000, 6000][random(7) as usize];
            let mib_for_core = [512, 1024, 2048, 4096, 7168][random(5) as usize];
            let requests = Resources::new(cpu_milli, (cpu_milli * mib_for_core / 1000) << 20).with_pods(1);
            Kind { requests, count: 1 + random(30) as usize }
        };
        (0..kinds).map(|_| kind()).collect()
    }

    #[test]
    fn random_mixes_cost_at_most_a_tenth_more_than_parts_of_nodes_would() {
        let (mut paid, mut bound) = (0.0, 0.0);
        for seed in 0..40 {
            let kinds = random_kinds(seed);
            let of_all = problem(kinds.clone(), families());
            let nodes = cheapest(&of_all, &mut 0, u64::MAX).expect("the largest shape takes each pod");
            for (at, kind) in kinds.iter().enumerate() {
                let placed = nodes.iter().flat_map(|node| &node.pods).filter(|(kind, _)| *kind == at);
                assert_eq!(placed.map(|(_, count)| count).sum::<usize>(), kind.count, "seed {seed}");
            }
            paid += price(&of_all, &nodes) as f64;
            let worth = Worth::of(&of_all);
            bound +=
                kinds.iter().map(|kind| worth.value(&kind.requests.times(kind.count as i64))).sum::<f64>();
        }
        let ratio = paid / bound;
        assert!((1.0..1.1).contains(&ratio), "{ratio}");
    }
}
