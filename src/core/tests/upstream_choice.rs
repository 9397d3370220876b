//! Which nodes profile ClusterAutoscaler removes at once: budgets, minima, whole groups, and how many are unneeded.

use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::nodes::upstream::Why;
use headroom_core::testing::{budget, controller, node, pool, world};
use headroom_core::time::Seconds;
use headroom_core::world::World;
use headroom_core::world::node::{DELETION_TAINT, SCALE_DOWN_DISABLED_ANNOTATION};
use headroom_core::world::workload::ControllerKind;

use crate::upstream_cloud::{Cloud, at_once, second, web};

/// Nodes `<group>-0` and on, the first ones empty and the last ones with a small pod, beside a large node of nobody.
fn groups(groups: &[(&str, usize, usize)]) -> (World, Config) {
    let mut scene = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", 99, web("web")))
        .node(node("spare").cpu("64").memory("256Gi"));
    for (group, empty, drained) in groups {
        for index in 0..empty + drained {
            let name = format!("{group}-{index}");
            scene = scene.node(node(&name).of("general", group));
            if *empty <= index {
                scene = scene.pod(web(&format!("on-{name}")).cpu("100m").on(&name));
            }
        }
    }
    for (group, empty, drained) in groups {
        scene = scene.group("general", group, "", u32::try_from(empty + drained).expect("few nodes"));
    }
    (scene.build(), at_once([pool("general")]))
}

fn names(nodes: &[Arc<str>]) -> Vec<&str> {
    nodes.iter().map(|name| &**name).collect()
}

#[test]
fn deletions_in_flight_use_up_the_budget() {
    let (world, mut config) = groups(&[("a", 4, 0)]);
    config.cluster.max_removals = 2;
    let mut cloud = Cloud::new(world, config);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-0", "a-1"]);
    assert_eq!(names(&cloud.scale_down(1).started), Vec::<&str>::new());
}

#[test]
fn a_drain_in_flight_uses_up_the_budget_of_drains() {
    let (world, config) = groups(&[("a", 0, 2)]);
    let mut cloud = Cloud::new(world, config);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-0"]);
    assert_eq!(names(&cloud.scale_down(1).started), Vec::<&str>::new());
}

#[test]
fn deletions_in_flight_count_against_the_minimum() {
    let (world, config) = groups(&[("a", 3, 0)]);
    let mut cloud = Cloud::new(world, config);
    cloud.change_minimum("a", 2);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-0"]);
    let after = cloud.scale_down(1);
    assert_eq!(names(&after.started), Vec::<&str>::new());
    assert!(after.unremovable.iter().all(|one| one.why == Why::NodeGroupMinSizeReached), "{after:?}");
}

/// The groups that begin to go, of those that go as a whole.
fn whole(max_removals: u32, max_drains: u32, all: &[(&str, usize, usize)]) -> Vec<String> {
    let (world, mut config) = groups(all);
    config.cluster.max_removals = max_removals;
    config.cluster.max_drains = max_drains;
    config.cluster.upstream.zero_or_max = all.iter().map(|(group, _, _)| (*group).into()).collect();
    let started = Cloud::new(world, config).scale_down(0).started;
    let begins = |group: &&(&str, usize, usize)| {
        let there = started.iter().filter(|name| name.starts_with(group.0)).count();
        assert!(there == 0 || there == group.1 + group.2, "{started:?}");
        there != 0
    };
    all.iter().filter(begins).map(|(group, _, _)| (*group).to_owned()).collect()
}

#[test]
fn one_whole_group_may_overflow_the_budgets_and_others_must_fit() {
    let none: [&str; 0] = [];
    for (max_removals, max_drains, all, expected) in [
        (6, 1, &[("a", 2, 0), ("b", 4, 0)][..], &["a", "b"][..]),
        (5, 1, &[("a", 2, 0), ("b", 4, 0)], &["a"]),
        (1, 1, &[("a", 3, 0)], &["a"]),
        (1, 0, &[("a", 3, 0)], &["a"]),
        (10, 6, &[("a", 0, 2), ("b", 0, 4)], &["a", "b"]),
        (10, 5, &[("a", 0, 2), ("b", 0, 4)], &["a"]),
        (10, 1, &[("a", 0, 2)], &["a"]),
        (10, 0, &[("a", 0, 2)], &none),
        (0, 1, &[("a", 2, 0)], &none),
        (2, 5, &[("a", 0, 2), ("b", 2, 0)], &["b"]),
    ] {
        assert_eq!(whole(max_removals, max_drains, all), expected, "{max_removals} {max_drains} {all:?}");
    }
}

#[test]
fn no_whole_group_begins_to_go_while_a_budget_is_used_up() {
    for (drained, max_removals) in [(0, 1), (1, 10)] {
        let (world, mut config) = groups(&[("first", 1 - drained, drained), ("whole", 2 - drained, drained)]);
        config.cluster.max_removals = max_removals;
        config.cluster.upstream.zero_or_max = ["whole".into()].into();
        let mut cloud = Cloud::new(world, config);
        for name in ["whole-0", "whole-1"] {
            cloud.change_node(name, |node| {
                node.annotations.insert(SCALE_DOWN_DISABLED_ANNOTATION, "true");
            });
        }
        assert_eq!(names(&cloud.scale_down(0).started), ["first-0"]);
        for name in ["whole-0", "whole-1"] {
            cloud.change_node(name, |node| {
                node.annotations.remove(SCALE_DOWN_DISABLED_ANNOTATION);
            });
        }
        assert_eq!(names(&cloud.scale_down(1).started), Vec::<&str>::new());
    }
}

#[test]
fn a_group_goes_as_a_whole_when_all_that_registered_may_go() {
    let (world, mut config) = groups(&[("a", 2, 0)]);
    config.cluster.upstream.zero_or_max = ["a".into()].into();
    let mut cloud = Cloud::new(world, config);
    cloud.change_group("a", |state| state.target = 3);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-0", "a-1"]);
}

#[test]
fn unneeded_nodes_of_one_loop_are_bounded_by_growth_and_by_time() {
    let (world, mut config) = groups(&[("a", 14, 0)]);
    config.cluster.max_removals = 3;
    config.cluster.upstream.down.unneeded_for = Seconds(20);
    config.pools[0].scale_down.unneeded_for = Seconds(1000);
    let mut cloud = Cloud::new(world, config);
    assert_eq!(cloud.scale_down(0).unneeded.len(), 6, "twice as many as may go at once");
    assert_eq!(cloud.scale_down(10).unneeded.len(), 9, "as many as two loops remove, and once more");
}

#[test]
fn two_loops_in_one_second_keep_the_bound_of_one() {
    let (world, mut config) = groups(&[("a", 14, 0)]);
    config.cluster.max_removals = 3;
    config.pools[0].scale_down.unneeded_for = Seconds(1000);
    let mut cloud = Cloud::new(world, config);
    let first = cloud.scale_down(0).unneeded;
    assert_eq!(cloud.scale_down(0).unneeded, first);
}

#[test]
fn a_node_whose_pods_one_budget_guards_together_goes_after_others() {
    let (world, config) = groups(&[("a", 0, 2)]);
    let mut cloud = Cloud::new(world, config);
    for name in ["db-0", "db-1"] {
        cloud.put_pod(web(name).label("app", "db").cpu("100m").on("a-0"));
    }
    cloud.put_budget(budget("db", "app", "db", 1));
    // It takes no pods of the other one.
    cloud.change_node("a-1", |node| node.unschedulable = true);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-1"]);
}

#[test]
fn a_node_that_others_mark_for_deletion_is_left_to_them_for_five_minutes() {
    for (age, started) in [(60, 0), (299, 0), (300, 1)] {
        let (world, config) = groups(&[("a", 1, 0)]);
        let mut cloud = Cloud::new(world, config);
        cloud.config.cluster.upstream.down.delay_after_add = Seconds(0);
        cloud.change_node("a-0", |node| {
            node.annotations.insert(SCALE_DOWN_DISABLED_ANNOTATION, "true");
        });
        cloud.scale_down(0);
        cloud.change_node("a-0", |node| {
            node.annotations.remove(SCALE_DOWN_DISABLED_ANNOTATION);
            let since = second(10 - age).0.to_string();
            node.taints.push(headroom_core::testing::no_schedule(DELETION_TAINT, &since));
        });
        let told = cloud.scale_down(10);
        assert_eq!(told.started.len(), started, "{age} s ago: {told:?}");
        let left = told.unremovable.iter().any(|one| one.why == Why::CurrentlyBeingDeleted);
        assert_eq!(left, started == 0, "{age} s ago: {told:?}");
    }
}

/// Nodes `a` and `b` to be emptied onto `x` and `y`, which are nobody's; `x` has room for `room` small pods.
fn places(room: i64, pods_on_a: usize) -> Cloud {
    let mut scene = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", 99, web("web")))
        .node(node("a").of("general", "g"))
        .node(node("b").of("general", "g"))
        .node(node("x").label("x", "yes").with(|node| node.allocatable.pods = room))
        .node(node("y"))
        .pod(web("b-0").cpu("100m").selector("x", "yes").on("b"));
    for index in 0..pods_on_a {
        scene =
            scene.pod(web(&format!("a-{index}")).cpu("100m").selector("kubernetes.io/os", "linux").on("a"));
    }
    let mut config = at_once([pool("general")]);
    config.pools[0].scale_down.unneeded_for = Seconds(1000);
    let mut cloud = Cloud::new(scene.group("general", "g", "", 2).build(), config);
    for name in ["x", "y"] {
        cloud.change_node(name, |node| {
            node.labels.insert("kubernetes.io/os", "linux");
        });
    }
    cloud
}

#[test]
fn pods_that_move_go_round_the_nodes() {
    // Two pods of `a` on `x` would leave no room for that of `b`.
    assert_eq!(names(&places(2, 2).scale_down(0).unneeded), ["a", "b"]);
}

#[test]
fn a_pod_that_moves_goes_where_it_went_in_the_loop_before() {
    let mut cloud = places(1, 1);
    cloud.change_node("x", |node| node.unschedulable = true);
    assert_eq!(names(&cloud.scale_down(0).unneeded), ["a"]);
    cloud.change_node("x", |node| node.unschedulable = false);
    cloud.config.cluster.upstream.down.recheck_after = Seconds(10);
    // With the pod of `a` on `x` there would be no room for that of `b`.
    assert_eq!(names(&cloud.scale_down(400).unneeded), ["a", "b"]);
}

/// Source: budgets.go, CropNodes: groups with empty nodes and groups without are two rounds.
#[test]
fn a_whole_group_to_be_drained_goes_although_an_empty_one_before_it_did_not_fit() {
    assert_eq!(whole(4, 4, &[("a", 2, 0), ("b", 3, 0), ("c", 0, 1)]), ["a", "c"]);
}

/// Source: budgets.go, CropNodes: a budget below zero is not one of zero.
#[test]
fn a_whole_group_overflows_a_budget_that_another_has_overdrawn() {
    let (world, mut config) = groups(&[("a", 3, 0), ("b", 2, 0)]);
    config.cluster.upstream.zero_or_max = ["a".into(), "b".into()].into();
    config.cluster.max_removals = 1;
    let mut cloud = Cloud::new(world, config);
    assert_eq!(names(&cloud.scale_down(0).started), ["a-0", "a-1", "a-2"]);
    assert_eq!(names(&cloud.scale_down(1).started), ["b-0", "b-1"]);
}
