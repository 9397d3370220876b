//! Pools whose groups are of several shapes: the shapes compete as pools do, and a group may not exist yet.

use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::resources::Resources;
use headroom_core::testing::{WorldBuilder, config, pod, pool, world};
use headroom_core::world::provider::{GroupState, GroupTemplate};
use headroom_core::world::template::NodeTemplate;

use crate::scale_up::{check, plan_fresh};

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
    let said = |plan: &headroom_core::plan::Plan| {
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
