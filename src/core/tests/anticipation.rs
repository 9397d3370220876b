//! Replicas that controllers have decided on are demand before they exist, within bounds.

use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, config, controller, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::Delta;
use headroom_core::world::volume::PriorityClass;
use headroom_core::world::workload::{ControllerKind, PrioritySource};

use crate::scale_up::{check, plan_fresh, verdict};

#[test]
fn replicas_decided_on_are_demand_before_they_exist() {
    let pods = || pod("web").cpu("1").owner("ReplicaSet", "web");
    let world = world()
        .group("general", "a", "", 0)
        .controller(controller(ControllerKind::ReplicaSet, "web", 8, pods()))
        .pods(pods().times(3))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[("general", "a", 0, 2)]);
    let verdict = verdict(&plan, "web");
    assert_eq!((verdict.pods_count, verdict.anticipated_count), (8, 5));
}

#[test]
fn stalled_controllers_are_not_anticipated() {
    let mut web = controller(ControllerKind::ReplicaSet, "web", 8, pod("web").cpu("1"));
    web.stalled = Some("quota".into());
    let world = world().group("general", "a", "", 0).controller(web).build();
    check(&plan_fresh(&world, &config([pool("general")])), &[]);
}

#[test]
fn anticipation_can_be_turned_off() {
    let web = controller(ControllerKind::ReplicaSet, "web", 8, pod("web").cpu("1"));
    let world = world().group("general", "a", "", 0).controller(web).build();
    let mut config = config([pool("general")]);
    config.cluster.anticipation = false;
    check(&plan_fresh(&world, &config), &[]);
}

#[test]
fn anticipation_is_capped() {
    let web = controller(ControllerKind::ReplicaSet, "web", 100, pod("web").cpu("1"));
    let world = world().group("general", "a", "", 0).controller(web).build();
    let mut config = config([pool("general")]);
    config.cluster.max_anticipated_pods = 8;
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("general", "a", 0, 2)]);
    assert!(
        plan.reasons.pods.iter().any(|verdict| {
            verdict.skipped == Some(Reason::AnticipationLimit) && verdict.pods_count == 92
        })
    );
}

#[test]
fn replicas_that_do_not_appear_are_paused_with_doubling() {
    let web = controller(ControllerKind::ReplicaSet, "web", 4, pod("web").cpu("1"));
    let world = world().group("general", "a", "", 0).controller(web).build();
    let config = config([pool("general")]);
    let bought = plan_fresh(&world, &config);
    assert_eq!(bought.wake_at, Some(UnixTime(NOW.0 + 60)));

    let late = UnixTime(NOW.0 + 60);
    let paused = plan(&world, &bought.next_history, &config, late);
    let entry = paused.next_history.pools["general"].anticipations["ReplicaSet/default/web"];
    assert_eq!((entry.failures, entry.until), (1, Some(UnixTime(late.0 + 300))));
    assert!(paused.reasons.pods.iter().any(|verdict| verdict.skipped == Some(Reason::AnticipationBackoff)));
}

#[test]
fn priority_class_of_a_template_decides_whether_its_replicas_are_anticipated() {
    let low = PriorityClass { value: -100, is_default: false };
    let made = |source| {
        let mut web = controller(ControllerKind::ReplicaSet, "web", 4, pod("web").cpu("1"));
        web.priority_class = source;
        let world = world().group("general", "a", "", 0).controller(web);
        world.delta(Delta::PriorityClassApplied("low".into(), low)).build()
    };
    let config = config([pool("general")]);
    check(&plan_fresh(&made(PrioritySource::Named("low".into())), &config), &[]);
    check(&plan_fresh(&made(PrioritySource::Default), &config), &[("general", "a", 0, 1)]);
}
