//! Pods that follow the first of their kind into its zone are bought for when it is certain which zone that is.

use headroom_core::config::Config;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::pod::Pod;
use headroom_core::world::provider::GroupState;

use crate::scale_up::{check, plan_fresh, verdict};

/// Pods that all go into one zone, one a node.
fn series() -> PodBuilder {
    pod("db").cpu("3").label("app", "db").owner("ReplicaSet", "db").near("app", "db", ZONE_LABEL)
}

/// Pods that take a node of zone b each.
fn others() -> Vec<Pod> {
    pod("web").cpu("3").selector(ZONE_LABEL, "b").times(2)
}

fn zones() -> WorldBuilder {
    world().group("general", "a", "a", 0).group("general", "b", "b", 0)
}

fn settings() -> Config {
    config([pool("general")])
}

fn in_b(name: &str) -> headroom_core::testing::NodeBuilder {
    node(name).of("general", "b").zone("b")
}

#[test]
fn followers_wait_while_the_scheduler_may_choose_among_zones() {
    let plan = plan_fresh(&zones().pods(others()).pods(series().times(3)).build(), &settings());
    check(&plan, &[("general", "a", 0, 1), ("general", "b", 0, 2)]);
    let held: Vec<_> =
        plan.reasons.pods.iter().filter_map(|verdict| Some((verdict.skipped?, verdict.pods_count))).collect();
    assert_eq!(held, [(Reason::FollowsFirstPod, 2)]);
    assert_eq!(verdict(&plan, "db").pods_count, 1);
}

#[test]
fn followers_are_bought_for_in_the_zone_of_the_first() {
    let world = world()
        .node(in_b("n1"))
        .group("general", "a", "a", 0)
        .group("general", "b", "b", 1)
        .pod(series().on("n1"))
        .pods(others())
        .pods(series().times(2));
    check(&plan_fresh(&world.build(), &settings()), &[("general", "b", 1, 5)]);
}

#[test]
fn series_that_comes_alone_is_bought_for_at_once() {
    check(&plan_fresh(&zones().pods(series().times(3)).build(), &settings()), &[("general", "a", 0, 3)]);
}

#[test]
fn node_that_the_scheduler_has_passed_by_holds_nobody_back() {
    let with = |created_at: UnixTime| {
        let young = |pod: &mut Pod| pod.created_at = created_at;
        let world = world()
            .node(in_b("n1"))
            .node(node("n2").of("general", "a").zone("a"))
            .group("general", "a", "a", 1)
            .group("general", "b", "b", 1)
            .pods(series().with(young).times(3));
        plan_fresh(&world.build(), &settings())
    };
    let held = with(UnixTime(NOW.0 - 9));
    check(&held, &[]);
    assert_eq!(held.wake_at, Some(UnixTime(NOW.0 + 10)));
    assert_eq!(with(UnixTime(NOW.0 - 10)).steps.len(), 1);
}

#[test]
fn first_pod_of_a_series_is_shown_and_its_followers_apart_from_it() {
    let plan = plan_fresh(&zones().pods(others()).pods(series().times(3)).build(), &settings());
    let named = |held: bool| {
        let verdict = plan
            .reasons
            .pods
            .iter()
            .find(|verdict| &*verdict.owner == "db" && verdict.skipped.is_some() == held);
        verdict.map(|verdict| verdict.examples.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(named(false), Some(vec!["default/db-0".to_owned()]));
    assert_eq!(named(true), Some(vec!["default/db-1".to_owned(), "default/db-2".to_owned()]));
}

#[test]
fn pod_that_comes_alone_has_no_followers_that_wait() {
    let alone = pod("solo").cpu("3").label("app", "solo").near("app", "solo", ZONE_LABEL);
    let world = zones().pods(others()).pods(series().times(3)).pod(alone).build();
    let plan = plan_fresh(&world, &settings());
    let held = plan.reasons.pods.iter().filter(|verdict| verdict.skipped.is_some());
    assert_eq!(held.map(|verdict| &*verdict.owner).collect::<Vec<_>>(), ["db"]);
}

#[test]
fn nobody_is_held_back_where_all_have_room_and_nothing_is_bought() {
    let small =
        || pod("db").cpu("1").label("app", "db").owner("ReplicaSet", "db").near("app", "db", ZONE_LABEL);
    let young = |pod: &mut Pod| pod.created_at = NOW;
    let world = world()
        .node(in_b("n1"))
        .node(node("n2").of("general", "a").zone("a"))
        .group("general", "a", "a", 1)
        .group("general", "b", "b", 1)
        .pods(small().with(young).times(3));
    let plan = plan_fresh(&world.build(), &settings());
    check(&plan, &[]);
    assert_eq!((verdict(&plan, "db").skipped, verdict(&plan, "db").on_existing_count), (None, 3));
}

#[test]
fn nodes_that_have_just_started_hold_old_pods_back_until_the_scheduler_has_looked_at_them() {
    let started = |seconds: i64| {
        let world = world()
            .node(in_b("n1").age(seconds))
            .node(node("n2").of("general", "a").zone("a").age(seconds))
            .group("general", "a", "a", 1)
            .group("general", "b", "b", 1)
            .pods(series().times(3));
        plan_fresh(&world.build(), &settings())
    };
    check(&started(9), &[]);
    assert_eq!(started(10).steps.len(), 1);
}

#[test]
fn followers_wait_though_other_nodes_would_do_as_well() {
    let group = |zone: &str, max| GroupState { zone: Some(zone.into()), max, ..GroupState::default() };
    let first = pod("db").cpu("1").label("app", "db").owner("ReplicaSet", "db").near("app", "db", ZONE_LABEL);
    let world = world()
        .group_state("general", "a", group("a", 4))
        .group_state("general", "c1", group("c", 3))
        .group_state("general", "c2", group("c", 1))
        .pods(pod("web").cpu("3").memory("2560Mi").priority(2).times(7))
        .pods(pod("nowhere").cpu("3").memory("2560Mi").selector(ZONE_LABEL, "b").times(6))
        .pods(first.times(5));
    let plan = plan_fresh(&world.build(), &config([pool("general").shape("8", "10Gi")]));
    let held: Vec<_> =
        plan.reasons.pods.iter().filter_map(|verdict| Some((verdict.skipped?, verdict.pods_count))).collect();
    assert_eq!(held, [(Reason::FollowsFirstPod, 4)]);
}
