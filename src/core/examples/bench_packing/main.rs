//! Quality of packings: 200 random instances, nodes beside a lower bound and beside first-fit-decreasing.
//!
//! `cargo run --release -p headroom-core --example bench_packing [SEED]`. The lower bound is the linear relaxation of each
//! resource alone: the sum of what pods ask over what one node has. First-fit-decreasing is that of Cluster
//! Autoscaler (binpacking_estimator.go, Estimate) for pods that ask for resources only.

use std::sync::Arc;

use headroom_core::nodes::packing::{Growable, PackingLimits, Wanted, pack};
use headroom_core::nodes::scale_up::balance::Size;
use headroom_core::resources::Resources;
use headroom_core::scheduling::{ClassIx, PodRef, Snapshot, TemplateNode};
use headroom_core::testing::{node, pod};
use headroom_core::world::World;

const INSTANCES: u64 = 200;
const GIB: i64 = 1 << 30;
/// Far more than any packing here needs; the units used are printed.
const WORK_UNITS_MAX: u64 = 100_000_000;

/// Pods of a few classes, and the node they are for.
struct Instance {
    node: Resources,
    classes: Vec<(Resources, usize)>,
}

impl Instance {
    fn random(random: &mut Random) -> Self {
        let cores = [4, 8, 16, 32][random.below(4) as usize];
        let memory = cores * GIB * [2, 4, 8][random.below(3) as usize];
        let classes = (0..2 + random.below(19)).map(|_| {
            // Half a hundredth to half of a node, each resource on its own.
            let part = |whole: i64, random: &mut Random| whole * i64::from(1 + random.below(100)) / 200;
            let requests = Resources::new(part(cores * 1000, random), part(memory, random)).with_pods(1);
            (requests, 1 + random.below(150) as usize)
        });
        let classes = classes.collect();
        Self { node: Resources::new(cores * 1000, memory).with_pods(110), classes }
    }

    fn lower_bound(&self) -> u64 {
        let sum = |amount: fn(&Resources) -> i64| -> i64 {
            let asked = self
                .classes
                .iter()
                .map(|(requests, count)| amount(requests) * i64::try_from(*count).expect("small counts fit"));
            let (asked, whole) = (asked.sum::<i64>(), amount(&self.node));
            (asked + whole - 1) / whole
        };
        let bounds = [sum(|all| all.cpu_milli), sum(|all| all.memory_bytes), sum(|all| all.pods)];
        u64::try_from(bounds.into_iter().max().unwrap_or(0)).unwrap_or(0)
    }
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut sums = [0u64; 3];
    let (mut better, mut worse, mut most_work) = (0, 0, 0);
    let mut over: Vec<f64> = Vec::new();
    for _ in 0..INSTANCES {
        let instance = Instance::random(&mut random);
        let bound = instance.lower_bound();
        let (ours, reference, work) = packings(&instance);
        for (sum, nodes) in sums.iter_mut().zip([bound, ours, reference]) {
            *sum += nodes;
        }
        better += u32::from(ours < reference);
        worse += u32::from(reference < ours);
        most_work = most_work.max(work);
        over.push(ours as f64 / bound.max(1) as f64);
    }
    over.sort_by(f64::total_cmp);
    let [bound, ours, reference] = sums;
    let percent = |nodes: u64| (nodes as f64 / bound as f64 - 1.0) * 100.0;
    println!("{INSTANCES} instances, seed {seed}");
    println!("lower bound             {bound:>7} nodes");
    println!("Headroom                {ours:>7} nodes  +{:.1} %", percent(ours));
    println!("first-fit-decreasing    {reference:>7} nodes  +{:.1} %", percent(reference));
    println!("Headroom is better in {better}, worse in {worse}");
    let at = |part: usize| (over[(over.len() - 1) * part / 100] - 1.0) * 100.0;
    println!(
        "above the bound: median {:.1} %, 90th percentile {:.1} %, most {:.1} %",
        at(50),
        at(90),
        at(100)
    );
    println!("work units of the largest packing: {most_work}");
}

/// Nodes of our packing and of the reference's, and the work units of ours.
fn packings(instance: &Instance) -> (u64, u64, u64) {
    let world = World::new();
    let mut snapshot = Snapshot::new(&world);
    let mut shape = node("template").build();
    shape.allocatable = instance.node.clone();
    shape.capacity = instance.node.clone();
    let template = Arc::new(TemplateNode { node: shape, ..TemplateNode::default() });
    let mut groups: Vec<(ClassIx, Vec<PodRef>)> = Vec::new();
    for (index, (requests, count)) in instance.classes.iter().enumerate() {
        let class =
            pod("p").label("app", &index.to_string()).with_class(|class| class.requests = requests.clone());
        let class = snapshot.class_ix(&class.class());
        groups.push((class, vec![PodRef::Virtual(class); *count]));
    }
    let wanted: Vec<Wanted<'_>> =
        groups.iter().map(|(class, pods)| Wanted { class: *class, priority: 0, pods }).collect();
    let size = Size { current: 0, max: u32::MAX };
    let growable = [Growable { id: "g".into(), template, size }];
    snapshot.work_units = 0;
    let limits = PackingLimits { nodes: u32::MAX, work_units: WORK_UNITS_MAX };
    let packing = pack(&mut snapshot, &growable, &wanted, limits);
    assert_eq!(
        packing.pods(),
        groups.iter().map(|(_, pods)| pods.len()).sum::<usize>(),
        "all pods have a place"
    );
    (packing.nodes.len() as u64, first_fit_decreasing(instance), snapshot.work_units)
}

/// Nodes by first-fit-decreasing: the largest class first, by its part of a node's CPU and memory. A search for a node goes
/// round, from behind the node that took the pod before; a pod that fits no node gets a new one.
fn first_fit_decreasing(instance: &Instance) -> u64 {
    let part = |requests: &Resources| {
        let of = |wanted: i64, whole: i64| wanted as f64 / whole as f64;
        of(requests.cpu_milli, instance.node.cpu_milli)
            + of(requests.memory_bytes, instance.node.memory_bytes)
    };
    let mut order: Vec<&(Resources, usize)> = instance.classes.iter().collect();
    order.sort_by(|(a, _), (b, _)| part(b).total_cmp(&part(a)));
    let mut left: Vec<[i64; 3]> = Vec::new();
    let mut next = 0;
    for (requests, count) in order {
        let wanted = [requests.cpu_milli, requests.memory_bytes, requests.pods];
        let fits = |left: &[i64; 3]| left.iter().zip(wanted).all(|(left, wanted)| wanted <= *left);
        for _ in 0..*count {
            let found =
                (0..left.len()).map(|step| (next + step) % left.len()).find(|index| fits(&left[*index]));
            let index = found.unwrap_or(left.len());
            if index == left.len() {
                left.push([instance.node.cpu_milli, instance.node.memory_bytes, instance.node.pods]);
            } else {
                next = (index + 1) % left.len();
            }
            left[index].iter_mut().zip(wanted).for_each(|(left, wanted)| *left -= wanted);
        }
    }
    left.len() as u64
}

/// SplitMix64: enough to scatter requests.
struct Random(u64);

impl Random {
    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }
}
