//! Number of nodes of one pool that a set of pods needs, before all pools and the existing nodes are considered again.

use std::sync::Arc;

use headroom_core::nodes::packing::{Growable, Packing, PackingLimits, RoomyNodes, Wanted, pack, pack_again};
use headroom_core::nodes::scale_up::balance::Size;
use headroom_core::scheduling::{ClassIx, NodeIx, PodRef, Snapshot, TemplateNode};
use headroom_core::testing::{PodBuilder, node, pod, world};
use headroom_core::world::World;
use headroom_core::world::node::ZONE_LABEL;

/// A group in a zone that may add up to `nodes_max` nodes of this size.
fn group(zone: &str, cpu: &str, memory: &str, nodes_max: u32) -> Growable {
    let node = node("template").cpu(cpu).memory(memory).zone(zone).build();
    Growable {
        id: format!("general-{zone}").into(),
        template: Arc::new(TemplateNode { node, ..TemplateNode::default() }),
        size: Size { current: 0, max: nodes_max },
    }
}

/// A group in zone a of nodes with 4 cores and 16 GiB.
fn small(nodes_max: u32) -> Vec<Growable> {
    vec![group("a", "4", "16Gi", nodes_max)]
}

fn plain(cpu: &str) -> PodBuilder {
    pod("p").cpu(cpu).memory("1Gi")
}

/// Pods that keep away from an app that nobody runs: they are packed by trial, not by amounts.
fn tried(cpu: &str) -> PodBuilder {
    plain(cpu).away_from("app", "nobody", ZONE_LABEL)
}

/// Pods that first-fit packs badly on nodes of 4 cores and 16 GiB: it puts three of most memory together, which leaves no
/// memory for the others. Two of each fill a node.
fn opposites() -> [(PodBuilder, usize); 2] {
    [(pod("m").cpu("300m").memory("5Gi"), 6), (pod("c").cpu("1").memory("2Gi"), 6)]
}

const PLENTY: PackingLimits = PackingLimits { nodes: 100, work_units: 1_000_000 };

fn pack_into(
    world: &World,
    groups: &[Growable],
    pods: &[(PodBuilder, usize)],
    limits: PackingLimits,
) -> Packing {
    let mut snapshot = Snapshot::new(world);
    let pods: Vec<(ClassIx, i32, Vec<PodRef>)> = pods
        .iter()
        .map(|(pod, count)| {
            let class = pod.clone().class();
            let ix = snapshot.class_ix(&class);
            (ix, class.priority, vec![PodRef::Virtual(ix); *count])
        })
        .collect();
    let wanted: Vec<Wanted<'_>> = pods
        .iter()
        .map(|(class, priority, pods)| Wanted { class: *class, priority: *priority, pods })
        .collect();
    let packing = pack(&mut snapshot, groups, &wanted, limits);
    let mut placed = vec![0; wanted.len()];
    let on_new = packing.nodes.iter().flat_map(|node| &node.pods).copied();
    let elsewhere = packing.elsewhere.iter().map(|(_, index)| (*index, 1));
    on_new.chain(elsewhere).for_each(|(index, count)| placed[index] += count);
    assert_eq!(placed, packing.placed, "every pod that counts as placed is on a node: {:?}", packing.nodes);
    packing
}

fn packed(groups: &[Growable], pods: &[(PodBuilder, usize)]) -> Packing {
    pack_into(&world().build(), groups, pods, PLENTY)
}

#[test]
fn full_pool_takes_the_pods_of_the_highest_priority() {
    for kind in [plain, tried] {
        let pods = [(kind("3"), 1), (kind("2").priority(10), 2)];
        assert_eq!(packed(&small(1), &pods).placed, [0, 2]);
    }
}

#[test]
fn pods_of_any_priority_share_the_fewest_nodes_where_there_is_room_for_all() {
    for kind in [plain, tried] {
        // The pods of one core alone would fill half a node and leave no room for one of three.
        let pods = [(kind("3"), 2), (kind("1").priority(10), 2)];
        assert_eq!(packed(&small(3), &pods).nodes.len(), 2);
    }
}

#[test]
fn pods_of_another_size_use_what_is_left_of_the_last_node() {
    for kind in [plain, tried] {
        let packing = packed(&small(1), &[(kind("2"), 1), (kind("1"), 2)]);
        assert_eq!((packing.nodes.len(), packing.placed), (1, vec![1, 2]));
    }
}

#[test]
fn no_node_takes_more_than_it_has_room_for() {
    for kind in [plain, tried] {
        let packing = packed(&small(10), &[(kind("3"), 2), (kind("2"), 2), (kind("1500m"), 1)]);
        let cpu = [3000, 2000, 1500];
        for node in &packing.nodes {
            let asked: usize = node.pods.iter().map(|(index, count)| cpu[*index] * count).sum();
            assert!(asked <= 4000, "{asked} of 4000 in {:?}", packing.nodes);
        }
        assert_eq!(packing.placed, [2, 2, 1]);
    }
}

#[test]
fn pods_of_opposite_shapes_share_nodes_though_another_pod_is_too_large() {
    let [memory, cpu] = opposites();
    for pods in [vec![memory.clone(), cpu.clone()], vec![memory, cpu, (plain("64"), 1)]] {
        let packing = packed(&small(10), &pods);
        assert_eq!((packing.nodes.len(), packing.limited), (3, false), "{:?}", packing.nodes);
    }
}

#[test]
fn mix_that_takes_more_nodes_than_another_is_not_taken() {
    // One of each fills a node. First-fit, and one rule for mixes, put two of the first together and take eight nodes.
    let pods = [(pod("m").cpu("1500m").memory("8Gi"), 5), (pod("c").cpu("2250m").memory("1Gi"), 6)];
    assert_eq!(packed(&small(10), &pods).nodes.len(), 6);
}

#[test]
fn nodes_of_a_mix_go_to_the_smallest_group() {
    let groups = [group("a", "4", "16Gi", 10), group("b", "4", "16Gi", 1)];
    let packing = packed(&groups, &opposites());
    let of: Vec<usize> = packing.nodes.iter().map(|node| node.group).collect();
    assert_eq!(of, [0, 1, 0]);
}

#[test]
fn mixes_for_large_nodes_are_not_put_on_small_ones() {
    let groups = [group("a", "8", "32Gi", 10), group("b", "4", "16Gi", 10)];
    let pods = [(pod("m").cpu("500m").memory("6Gi"), 8), (pod("c").cpu("1500m").memory("1Gi"), 8)];
    let packing = packed(&groups, &pods);
    for node in packing.nodes.iter().filter(|node| node.group == 1) {
        let asked: usize = node.pods.iter().map(|(index, count)| [500, 1500][*index] * count).sum();
        assert!(asked <= 4000, "{asked} of 4000 in {:?}", packing.nodes);
    }
}

#[test]
fn spent_budget_of_work_ends_the_search() {
    for kind in [plain, tried] {
        let world = world().build();
        let limits = PackingLimits { nodes: 100, work_units: 100 };
        let mut snapshot = Snapshot::new(&world);
        snapshot.work_units = 101;
        let class = snapshot.class_ix(&kind("1").class());
        let pods = [PodRef::Virtual(class); 8];
        let wanted = [Wanted { class, priority: 0, pods: &pods }];
        let packing = pack(&mut snapshot, &small(10), &wanted, limits);
        assert_eq!((packing.pods(), packing.limited), (0, true));
    }
}

#[test]
fn pool_that_has_room_for_more_is_not_limited_by_a_pod_that_is_too_large() {
    for kind in [plain, tried] {
        let of = |nodes_max| packed(&small(nodes_max), &[(kind("64"), 1), (kind("4"), 2)]).limited;
        assert_eq!((of(1), of(3)), (true, false));
    }
}

#[test]
fn pods_that_keep_away_from_another_app_fill_a_node_before_the_next() {
    let packing = packed(&small(10), &[(tried("1"), 8)]);
    let pods: Vec<_> = packing.nodes.iter().map(|node| node.pods.clone()).collect();
    assert_eq!(pods, [[(0, 4)], [(0, 4)]]);
}

/// Zone a has a pod of app web and a node with room, zone b a node without.
fn room_in_the_fuller_zone() -> World {
    world()
        .node(node("n-a").zone("a"))
        .node(node("n-b").zone("b").cpu("1"))
        .pods(pod("there").label("app", "web").on("n-a").times(1))
        .build()
}

/// Pods of app web, spread over the zones.
fn web(cpu: &str) -> PodBuilder {
    plain(cpu).label("app", "web").spread("app", "web", ZONE_LABEL, 1)
}

#[test]
fn pods_that_spread_use_old_nodes_again_once_new_ones_balance_them() {
    let old = room_in_the_fuller_zone();
    let packing = pack_into(&old, &[group("b", "4", "16Gi", 10)], &[(web("2"), 3)], PLENTY);
    let elsewhere: Vec<usize> = packing.elsewhere.iter().map(|(_, index)| *index).collect();
    assert_eq!((packing.nodes.len(), packing.placed, elsewhere), (1, vec![3], vec![0]));
}

/// What a packing does: pods of each new node, and those on nodes that were there.
type Done = (Vec<Vec<(usize, usize)>>, Vec<(NodeIx, usize)>);

/// Packs with what was found before, and says the same as when nothing was.
fn pack_twice(
    snapshot: &mut Snapshot<'_>,
    roomy: &mut RoomyNodes,
    groups: &[Growable],
    wanted: &[(ClassIx, usize)],
) -> Done {
    let pods: Vec<Vec<PodRef>> =
        wanted.iter().map(|(class, count)| vec![PodRef::Virtual(*class); *count]).collect();
    let of =
        |(at, (class, _)): (usize, &(ClassIx, usize))| Wanted { class: *class, priority: 0, pods: &pods[at] };
    let wanted: Vec<Wanted<'_>> = wanted.iter().enumerate().map(of).collect();
    let mut done = |roomy: &mut RoomyNodes| {
        let packing = pack_again((snapshot, roomy), groups, &wanted, PLENTY);
        (packing.nodes.into_iter().map(|node| node.pods).collect(), packing.elsewhere)
    };
    let known: Done = done(roomy);
    assert_eq!(known, done(&mut RoomyNodes::default()), "as without knowledge from packings before");
    known
}

#[test]
fn old_nodes_are_looked_for_once_while_nodes_are_bought() {
    let old = room_in_the_fuller_zone();
    let mut snapshot = Snapshot::new(&old);
    let [two, three] = ["2", "3"].map(|cpu| snapshot.class_ix(&web(cpu).class()));
    let in_b = [group("b", "4", "16Gi", 10)];
    let mut roomy = RoomyNodes::default();
    let n_a = snapshot.named("n-a").expect("a node of the world");

    // The first packing puts a large pod on n-a, and takes it off again: the next one finds n-a all the same.
    let both = pack_twice(&mut snapshot, &mut roomy, &in_b, &[(two, 1), (three, 2)]);
    assert_eq!(both.1, [(n_a, 1)]);
    let small = pack_twice(&mut snapshot, &mut roomy, &in_b, &[(two, 3)]);
    assert_eq!(small.1, [(n_a, 0)]);

    // n-a is filled and a node is bought in its zone: that one is found, and n-a is not used again.
    snapshot.place(PodRef::Virtual(three), n_a);
    let bought = snapshot.add_node(&group("a", "4", "16Gi", 10).template, Arc::from("bought"));
    let later = pack_twice(&mut snapshot, &mut roomy, &in_b, &[(two, 4)]);
    assert_eq!(later.1.iter().map(|(node, _)| *node).collect::<Vec<NodeIx>>(), [bought]);
}
