//! Pools whose groups are of several shapes: the shapes compete as pools do, and a group may not exist yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::testing::{NOW, WorldBuilder, config, pod, pool, world};
use headroom_core::world::Delta;
use headroom_core::world::pod::Pod;
use headroom_core::world::provider::{GroupState, GroupTemplate};
use headroom_core::world::template::NodeTemplate;
use headroom_core::{absorb, plan};

use crate::increases::increased;
use crate::scale_up::{answer, check, increases, plan_fresh};

/// A group that does not exist yet, of nodes with so many cores and four times as many GiB.
fn possible(rank: u32, zone: &str, cores: i64) -> GroupState {
    let amounts = Resources::new(cores * 1000, cores << 32).with_pods(110);
    let mut node =
        NodeTemplate { capacity: amounts.clone(), allocatable: amounts, ..NodeTemplate::default() };
    node.labels.insert("topology.kubernetes.io/zone", zone);
    GroupState {
        zone: Some(zone.into()),
        max: 100,
        template: Some(Arc::new(GroupTemplate { node, ..GroupTemplate::default() })),
        rank: Some(rank),
        possible: true,
        ..GroupState::default()
    }
}

/// Pool `any` of three shapes in two zones; the smaller the shape, the lower its rank.
fn shapes() -> WorldBuilder {
    [(0, 2), (1, 4), (2, 16)].into_iter().fold(world(), |world, (rank, cores)| {
        world.group_state("any", &format!("c{cores}-a"), possible(rank, "a", cores)).group_state(
            "any",
            &format!("c{cores}-b"),
            possible(rank, "b", cores),
        )
    })
}

fn any(min: u32) -> Config {
    config([pool("any").bounds(min, 100).with(|pool| pool.template = None)])
}

#[test]
fn the_shape_that_wastes_least_is_bought_in_all_its_zones() {
    let pods = || pod("web").cpu("4").memory("16Gi").times(3);
    check(
        &plan_fresh(&shapes().pods(pods()).build(), &any(0)),
        &[("any", "c4-a", 0, 2), ("any", "c4-b", 0, 1)],
    );
}

#[test]
fn each_size_of_pods_gets_the_shape_that_suits_it() {
    let world = shapes()
        .pods(pod("small").cpu("2").memory("8Gi").times(1))
        .pods(pod("large").cpu("16").memory("64Gi").times(1))
        .build();
    check(&plan_fresh(&world, &any(0)), &[("any", "c16-a", 0, 1), ("any", "c2-a", 0, 1)]);
}

#[test]
fn of_shapes_that_do_as_well_the_lowest_rank_is_bought() {
    let world = world()
        .group_state("any", "first-by-name", possible(7, "a", 4))
        .group_state("any", "second-by-name", possible(3, "a", 4))
        .pod(pod("web").cpu("3"))
        .build();
    check(&plan_fresh(&world, &any(0)), &[("any", "second-by-name", 0, 1)]);
}

#[test]
fn a_minimum_is_met_with_the_lowest_rank_in_all_its_zones() {
    check(&plan_fresh(&shapes().build(), &any(4)), &[("any", "c2-a", 0, 2), ("any", "c2-b", 0, 2)]);
}

/// Pool `any` of shapes in one zone, each with its price for an hour in thousandths.
fn priced(shapes: &[(u32, i64, Option<i64>)]) -> WorldBuilder {
    shapes.iter().fold(world(), |world, (rank, cores, milli)| {
        let state = GroupState {
            price_per_hour_micro: milli.map(|milli| milli * 1_000),
            ..possible(*rank, "a", *cores)
        };
        world.group_state("any", &format!("r{rank}-c{cores}"), state)
    })
}

#[test]
fn the_shape_that_costs_least_for_the_pods_is_bought() {
    let pods = || pod("web").cpu("2").memory("4Gi").times(4);
    let spot_is_cheap = priced(&[(0, 2, Some(30)), (1, 2, Some(100)), (2, 8, Some(400))]);
    check(&plan_fresh(&spot_is_cheap.pods(pods()).build(), &any(0)), &[("any", "r0-c2", 0, 4)]);
    let large_is_cheap = priced(&[(0, 2, Some(120)), (1, 2, Some(100)), (2, 8, Some(300))]);
    check(&plan_fresh(&large_is_cheap.pods(pods()).build(), &any(0)), &[("any", "r2-c8", 0, 1)]);
}

#[test]
fn a_large_shape_is_not_bought_for_a_small_pod_though_its_cores_cost_less() {
    let world = priced(&[(0, 2, Some(100)), (1, 16, Some(400))]).pod(pod("web").cpu("1")).build();
    check(&plan_fresh(&world, &any(0)), &[("any", "r0-c2", 0, 1)]);
}

#[test]
fn a_shape_without_a_price_comes_after_those_with_one() {
    let pods = || pod("web").cpu("4").memory("8Gi").times(1);
    let world = priced(&[(0, 4, None), (1, 8, Some(900))]).pods(pods()).build();
    let plan = plan_fresh(&world, &any(0));
    check(&plan, &[("any", "r1-c8", 0, 1)]);
    let said = |plan: &Plan| {
        let memory = &plan.next_history.pools["any"];
        memory.decisions.last().expect("it was decided").message.to_string()
    };
    assert!(said(&plan).ends_with("; 0.9 an hour each"), "{}", said(&plan));
    let unknown = plan_fresh(&priced(&[(0, 4, None)]).pods(pods()).build(), &any(0));
    assert!(said(&unknown).ends_with("; unknown price"), "{}", said(&unknown));
}

#[test]
fn a_price_is_no_reason_to_leave_pods_without_a_place() {
    let mut config = any(0);
    config.pools[0].max_nodes = 2;
    let world = priced(&[(0, 2, Some(10)), (1, 16, Some(400))]).pods(pod("web").cpu("2").times(8)).build();
    check(&plan_fresh(&world, &config), &[("any", "r1-c16", 0, 1)]);
}

/// Pool `any` of shapes in zones a and b, of 4 and 16 cores with 2, 4 and 8 GiB for each, at 38, 43 and 56 thousandths a core.
fn families() -> WorldBuilder {
    let shapes = [(4, 2, 38), (4, 4, 43), (4, 8, 56), (16, 2, 38), (16, 4, 43), (16, 8, 56)];
    let of_zone = |world: WorldBuilder, (rank, zone): (usize, &str)| {
        let (cores, gib, milli) = shapes[rank];
        let mut state = possible(u32::try_from(rank).expect("few"), zone, cores);
        let amounts = Resources::new(cores * 1000, (cores * gib) << 30).with_pods(110);
        let template = Arc::make_mut(state.template.as_mut().expect("it has one"));
        template.node.capacity = amounts.clone();
        template.node.allocatable = amounts;
        state.price_per_hour_micro = Some(cores * milli * 1_000);
        world.group_state("any", &format!("c{cores}-{gib}-{zone}"), state)
    };
    (0..6).flat_map(|rank| [(rank, "a"), (rank, "b")]).fold(world(), of_zone)
}

fn cores_and_memory() -> Vec<Pod> {
    let small = pod("cores").cpu("1").memory("512Mi").times(28);
    small.into_iter().chain(pod("memory").cpu("2").memory("15Gi").times(8)).collect()
}

#[test]
fn pods_that_are_unlike_get_shapes_that_are_unlike() {
    // 1.832 an hour; 2.064 on 3 nodes of 16 cores, which are the cheapest of one shape.
    let plan = plan_fresh(&families().pods(cores_and_memory()).build(), &any(0));
    let mut shapes = BTreeMap::new();
    for ((_, group), (from, to)) in increases(&plan) {
        *shapes.entry(group[..group.len() - 2].to_owned()).or_insert(0) += to - from;
    }
    assert_eq!(shapes, BTreeMap::from([("c16-4".to_owned(), 2), ("c4-2".to_owned(), 3)]));
}

#[test]
fn nodes_of_a_mixture_are_shared_out_among_zones() {
    let plan = plan_fresh(&families().pods(cores_and_memory()).build(), &any(0));
    let mut zones = BTreeMap::new();
    for ((_, group), (from, to)) in increases(&plan) {
        *zones.entry(group[group.len() - 1..].to_owned()).or_insert(0) += to - from;
    }
    assert_eq!(zones, BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 2)]));
}

#[test]
fn the_plan_after_a_mixture_buys_nothing() {
    let mut world = families().pods(cores_and_memory()).build();
    let first = plan_fresh(&world, &any(0));
    let mut history = first.next_history.clone();
    let answers: Vec<_> = first
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Increase { pool, intent, .. } => Some(increased(pool, intent)),
            _ => None,
        })
        .collect();
    assert!(!answers.is_empty());
    absorb(&mut history, &answers, &any(0), NOW);
    let second = plan(&world, &history, &any(0), NOW);
    assert!(increases(&second).is_empty(), "{:?}", increases(&second));
    world.apply(Delta::PodApplied(Box::new(pod("late").cpu("1").memory("512Mi").build())));
    let third = plan(&world, &history, &any(0), NOW);
    assert!(increases(&third).len() <= 1, "{:?}", increases(&third));
}

#[test]
fn a_mixture_beyond_a_limit_is_not_bought() {
    let mut config = any(0);
    config.pools[0].limit_cpu_milli = Some(43_000);
    let plan = plan_fresh(&families().pods(cores_and_memory()).build(), &config);
    assert!((28..=43).contains(&cores_bought(&plan)), "{:?}", increases(&plan));
    config.pools[0].limit_cpu_milli = Some(44_000);
    let plan = plan_fresh(&families().pods(cores_and_memory()).build(), &config);
    assert_eq!(cores_bought(&plan), 44);
}

/// The cores that a plan buys, of groups named by their cores as `c4-a`.
fn cores_bought(plan: &Plan) -> u32 {
    let bought = increases(plan).into_iter().map(|((_, group), (from, to))| {
        let cores = group[1..].split('-').next().and_then(|cores| cores.parse::<u32>().ok());
        (to - from) * cores.expect("the name has them")
    });
    bought.sum()
}

#[test]
fn limits_of_a_pool_count_each_node_by_its_own_shape() {
    let limited = |cores: i64| {
        let mut config = any(0);
        config.pools[0].limit_cpu_milli = Some(cores * 1000);
        config
    };
    let world = || {
        let large = pod("large").cpu("16").memory("64Gi").times(1);
        shapes().pods(pod("small").cpu("2").memory("8Gi").times(1)).pods(large)
    };
    check(&plan_fresh(&world().build(), &limited(18)), &[("any", "c16-a", 0, 1), ("any", "c2-a", 0, 1)]);
    let short = cores_bought(&plan_fresh(&world().build(), &limited(17)));
    assert!((1..=17).contains(&short), "{short} cores were bought");

    // A node of sixteen cores is on its way, and leaves room for one of four.
    let coming = GroupState { target: 1, possible: false, ..possible(2, "a", 16) };
    let pods = pod("web").cpu("4").memory("16Gi").times(6);
    let world = shapes().group_state("any", "c16-a", coming).pods(pods).build();
    assert_eq!(cores_bought(&plan_fresh(&world, &limited(20))), 4);
    assert_eq!(cores_bought(&plan_fresh(&world, &limited(24))), 8);
    let coming = GroupState { target: 1, possible: false, ..possible(2, "a", 16) };
    let world = shapes().group_state("any", "c16-a", coming).pod(pod("web").cpu("16"));
    let plan = plan_fresh(&world.pod(pod("other").cpu("2")).build(), &limited(16));
    check(&plan, &[]);
    let full = "cpu: 16000m of at most 16000m are used".to_owned();
    assert_eq!(answer(&plan, "other", "any"), (Reason::PoolLimitReached, full));
}

/// Pool `any` of spot shapes of four cores, to be spread over so many, and one on demand; each with its price in thousandths.
fn spot(fewest: u32, spot: &[i64], on_demand: i64) -> WorldBuilder {
    let group = |rank: usize, milli: i64, diversity| GroupState {
        price_per_hour_micro: Some(milli * 1_000),
        diversity,
        ..possible(u32::try_from(rank).expect("few"), "a", 4)
    };
    let world = world().group_state("any", "on-demand", group(9, on_demand, None));
    spot.iter().enumerate().fold(world, |world, (rank, milli)| {
        world.group_state("any", &format!("spot-{rank}"), group(rank, *milli, Some(fewest)))
    })
}

#[test]
fn spot_machines_are_bought_in_even_shares_of_the_cheapest_shapes() {
    let pods = |count| pod("web").cpu("4").memory("8Gi").times(count);
    let buys = |world: WorldBuilder, expected: &[(&str, u32, u32)]| {
        let expected: Vec<_> = expected.iter().map(|(group, from, to)| ("any", *group, *from, *to)).collect();
        check(&plan_fresh(&world.build(), &any(0)), &expected);
    };
    let four = [40, 30, 50, 35];
    buys(spot(1, &four, 100).pods(pods(7)), &[("spot-1", 0, 7)]);
    buys(spot(3, &four, 100).pods(pods(7)), &[("spot-0", 0, 1), ("spot-1", 0, 3), ("spot-3", 0, 3)]);
    // What is there counts: the shape that has its share gets none.
    let there = GroupState { target: 4, possible: false, diversity: Some(2), ..possible(1, "a", 4) };
    let busy = |world: WorldBuilder| world.pods(pods(4).into_iter().chain(pods(4)));
    buys(busy(spot(2, &four, 100).group_state("any", "spot-1", there)), &[("spot-3", 0, 4)]);
    // Where no other shape is left the share does not hold, and nothing dearer is bought for its sake.
    buys(spot(3, &[40, 30], 100).pods(pods(9)), &[("spot-0", 0, 3), ("spot-1", 0, 6)]);
    buys(spot(3, &[30], 100).pods(pods(5)), &[("spot-0", 0, 5)]);
    // Machines on demand need no spread.
    buys(spot(3, &[40, 30], 10).pods(pods(9)), &[("on-demand", 0, 9)]);
}

#[test]
fn a_minimum_is_spread_over_shapes_too() {
    check(
        &plan_fresh(&spot(2, &[40, 30, 50], 100).build(), &any(5)),
        &[("any", "spot-0", 0, 3), ("any", "spot-1", 0, 2)],
    );
}

#[test]
fn a_node_that_is_not_full_becomes_the_cheapest_shape_that_takes_its_pods() {
    let pods = pod("web").cpu("2").memory("4Gi").times(9);
    let large_is_cheap = priced(&[(0, 2, Some(120)), (1, 4, Some(200)), (2, 16, Some(600))]).pods(pods);
    check(&plan_fresh(&large_is_cheap.build(), &any(0)), &[("any", "r0-c2", 0, 1), ("any", "r2-c16", 0, 1)]);
    // One that has room for no more nodes takes none, and one of unknown price neither.
    let mut full = possible(0, "a", 2);
    (full.price_per_hour_micro, full.target, full.max, full.possible) = (Some(120_000), 1, 1, false);
    let pods = pod("web").cpu("2").memory("4Gi").times(10);
    let world = priced(&[(1, 4, Some(200)), (2, 16, Some(600)), (3, 2, None)]);
    let world = world.group_state("any", "r0-c2", full).pods(pods).build();
    check(&plan_fresh(&world, &any(0)), &[("any", "r1-c4", 0, 1), ("any", "r2-c16", 0, 1)]);
}

#[test]
fn where_amounts_are_limited_no_node_becomes_a_larger_one_that_costs_less() {
    // Alone the large shape is not bought: all of its limit would be one node.
    let world =
        || priced(&[(0, 2, Some(100)), (1, 16, Some(90))]).pods(pod("web").cpu("2").memory("4Gi").times(1));
    let mut limited = any(0);
    limited.pools[0].limit_cpu_milli = Some(15_000);
    check(&plan_fresh(&world().build(), &limited), &[("any", "r0-c2", 0, 1)]);
    check(&plan_fresh(&world().build(), &any(0)), &[("any", "r1-c16", 0, 1)]);
}
