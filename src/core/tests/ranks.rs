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
