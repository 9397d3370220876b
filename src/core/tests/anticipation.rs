//! Replicas that controllers have decided on are demand before they exist, within bounds.

use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, WorldBuilder, config, controller, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::buffer::Quota;
use headroom_core::world::volume::PriorityClass;
use headroom_core::world::workload::{ControllerKind, PrioritySource};
use headroom_core::world::{Delta, World};

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

// === replicas that may never exist ===

/// A controller that wants two billion pods and has these.
fn greedy(kind: ControllerKind, name: &str, existing: usize) -> WorldBuilder {
    let word = if kind == ControllerKind::Job { "Job" } else { "StatefulSet" };
    let pods = || pod(name).cpu("1").owner(word, name);
    world()
        .group("general", "a", "", 0)
        .controller(controller(kind, name, 2_000_000_000, pods()))
        .pods(pods().times(existing))
}

#[test]
fn stateful_sets_and_jobs_buy_nothing_until_a_first_pod_exists() {
    let config = config([pool("general")]);
    for kind in [ControllerKind::StatefulSet, ControllerKind::Job] {
        check(&plan_fresh(&greedy(kind, "db", 0).build(), &config), &[]);
        let plan = plan_fresh(&greedy(kind, "db", 1).build(), &config);
        assert_eq!(plan.steps.len(), 1, "{kind:?}");
    }
}

#[test]
fn a_stateful_set_that_makes_its_pods_in_order_has_one_on_its_way() {
    let pods = || pod("db").cpu("3").owner("StatefulSet", "db");
    let mut set = controller(ControllerKind::StatefulSet, "db", 50, pods());
    set.in_order = true;
    let cluster = world().group("general", "a", "", 0).controller(set).pods(pods().times(2)).build();
    let plan = plan_fresh(&cluster, &config([pool("general")]));
    let verdict = verdict(&plan, "db");
    assert_eq!((verdict.pods_count, verdict.anticipated_count), (3, 1));
    check(&plan, &[("general", "a", 0, 3)]);
}

#[test]
fn one_namespace_has_no_more_replicas_on_their_way_than_its_limit() {
    let of = |namespace: &str| {
        controller(ControllerKind::ReplicaSet, namespace, 100, pod("web").cpu("1").namespace(namespace))
    };
    let cluster =
        world().group("general", "a", "", 0).controller(of("greedy")).controller(of("shop")).build();
    let mut config = config([pool("general")]);
    config.cluster.max_anticipated_pods_per_namespace = 6;
    let plan = plan_fresh(&cluster, &config);
    let left_out: Vec<(&str, u32)> = plan
        .reasons
        .pods
        .iter()
        .filter(|verdict| verdict.skipped == Some(Reason::AnticipationLimit))
        .map(|verdict| (&*verdict.namespace, verdict.pods_count))
        .collect();
    assert_eq!(left_out, [("greedy", 94), ("shop", 94)]);
}

#[test]
fn where_a_namespace_wants_more_than_its_limit_each_controller_has_the_same_part_on_its_way() {
    let of = |name: &str, desired: u32| {
        controller(ControllerKind::ReplicaSet, name, desired, pod(name).cpu("1").namespace("shop"))
    };
    let cluster = world()
        .group("general", "a", "", 0)
        .controller(of("api", 1000))
        .controller(of("cart", 500))
        .controller(of("web", 3))
        .build();
    let mut config = config([pool("general")]);
    config.cluster.max_anticipated_pods_per_namespace = 60;
    let plan = plan_fresh(&cluster, &config);
    // One that wants more than the limit wants no more than it, so that the small one is not left without any.
    let limited =
        plan.reasons.pods.iter().filter(|verdict| verdict.skipped == Some(Reason::AnticipationLimit));
    let left_out: Vec<u32> = limited.map(|verdict| verdict.pods_count).collect();
    assert_eq!(left_out, [1000 - 29, 500 - 29, 3 - 2]);
}

#[test]
fn replicas_that_appear_one_after_the_other_are_waited_for() {
    let web = || controller(ControllerKind::ReplicaSet, "web", 8, pod("web").cpu("1"));
    let config = config([pool("general")]);
    let bought = plan_fresh(&world().group("general", "a", "", 0).controller(web()).build(), &config);
    let made = UnixTime(NOW.0 + 50);
    let first = pod("web").cpu("1").with(|pod| pod.created_at = made).owner("ReplicaSet", "web");
    let cluster = world().group("general", "a", "", 0).controller(web()).pods(first.times(1)).build();
    let paused_at = |at: i64| {
        let plan = plan(&cluster, &bought.next_history, &config, UnixTime(at));
        plan.reasons.pods.iter().any(|verdict| verdict.skipped == Some(Reason::AnticipationBackoff))
    };
    assert_eq!([NOW.0 + 60, made.0 + 59, made.0 + 60].map(paused_at), [false, false, true]);
}

#[test]
fn one_pod_does_not_vouch_for_two_billion() {
    let config = config([pool("general")]);
    for kind in [ControllerKind::StatefulSet, ControllerKind::Job] {
        let expected = |existing: usize| {
            let plan = plan_fresh(&greedy(kind, "db", existing).build(), &config);
            verdict(&plan, "db").anticipated_count
        };
        assert_eq!((expected(1), expected(5), expected(20)), (10, 10, 40), "{kind:?}");
    }
    let plan = plan_fresh(&greedy(ControllerKind::Job, "db", 1).build(), &config);
    let limited = |verdict: &&headroom_core::plan::PodVerdict| {
        verdict.skipped == Some(Reason::AnticipationLimit) && verdict.pods_count == 1_999_999_989
    };
    assert!(plan.reasons.pods.iter().any(|verdict| limited(&verdict)));
}

#[test]
fn replicas_beyond_the_quota_of_their_namespace_buy_nothing() {
    let quota = |name: &str, hard: &[(&str, i64)], used: &[(&str, i64)]| {
        let amounts =
            |of: &[(&str, i64)]| of.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
        let key = headroom_core::labels::ObjectKey::new("default", name);
        let quota = Quota { key, hard: amounts(hard), used: amounts(used), scopes: Vec::new() };
        Delta::QuotaApplied(Box::new(quota))
    };
    let of = |name: &str| controller(ControllerKind::ReplicaSet, name, 100, pod(name).cpu("3"));
    let elsewhere = controller(ControllerKind::ReplicaSet, "c", 2, pod("c").cpu("3").namespace("shop"));
    let cluster = world()
        .group("general", "a", "", 0)
        .controller(of("a"))
        .controller(of("b"))
        .controller(elsewhere)
        .delta(quota("cpu", &[("requests.cpu", 15_000)], &[("requests.cpu", 2000)]))
        .delta(quota("pods", &[("pods", 50)], &[]))
        .build();
    let config = config([pool("general")]);
    // 13 CPU are left for four replicas of three CPU, and nothing is for the second controller.
    let plan = plan_fresh(&cluster, &config);
    check(&plan, &[("general", "a", 0, 6)]);
    let refused =
        plan.reasons.pods.iter().filter(|verdict| verdict.skipped == Some(Reason::AnticipationLimit));
    assert_eq!(refused.map(|verdict| verdict.pods_count).collect::<Vec<_>>(), [96, 100]);
    // A record of the world decides the same.
    let snapshot = Snapshot::of(&cluster, &History::default(), &config, NOW);
    assert_eq!(snapshot.replay().expect("a world"), plan);
}

/// A ReplicaSet whose pods never appear, of a name of its own.
fn phantom(name: &str) -> World {
    let made = controller(ControllerKind::ReplicaSet, name, 4, pod(name).cpu("3"));
    world().group("general", "a", "", 0).controller(made).build()
}

fn skipped(plan: &headroom_core::plan::Plan) -> bool {
    plan.reasons.pods.iter().any(|verdict| verdict.skipped == Some(Reason::AnticipationBackoff))
}

#[test]
fn a_name_that_changes_each_minute_buys_nothing_more() {
    let config = config([pool("general")]);
    let mut history = plan_fresh(&phantom("web-0"), &config).next_history;
    let mut bought = 0;
    for minute in 1..60 {
        let now = UnixTime(NOW.0 + 60 * minute);
        let plan = plan(&phantom(&format!("web-{minute}")), &history, &config, now);
        let begun = plan.steps.iter().any(|step| {
            matches!(step, headroom_core::plan::Step::Increase { started_at, .. } if *started_at == now)
        });
        bought += u32::from(begun);
        // What was asked for ends in itself: only what is remembered of replicas is looked at here.
        history = plan.next_history;
        history.pools.get_mut("general").expect("bought").intents.clear();
    }
    // After pauses of 5, 10, 20 and 30 minutes, not each minute.
    assert!(bought <= 4, "bought {bought} times in an hour");
}

#[test]
fn replicas_that_are_taken_back_before_they_appear_pause_their_namespace_alone() {
    let config = config([pool("general")]);
    let bought = plan_fresh(&phantom("web"), &config);
    // Gone at once, and another one there instead.
    let soon = UnixTime(NOW.0 + 10);
    let next = plan(&phantom("other"), &bought.next_history, &config, soon);
    assert!(skipped(&next));
    let of_namespace = next.next_history.pools["general"].anticipations["Namespace/default"];
    assert_eq!((of_namespace.failures, of_namespace.until), (1, Some(UnixTime(soon.0 + 300))));
    let elsewhere = controller(ControllerKind::ReplicaSet, "web", 4, pod("web").cpu("3").namespace("shop"));
    let shop = world().group("general", "a", "", 0).controller(elsewhere).build();
    assert!(!skipped(&plan(&shop, &bought.next_history, &config, soon)));
}

#[test]
fn a_namespace_without_failures_for_half_an_hour_begins_anew() {
    let config = config([pool("general")]);
    let bought = plan_fresh(&phantom("web"), &config);
    let paused = plan(&phantom("other"), &bought.next_history, &config, UnixTime(NOW.0 + 10));
    let until = NOW.0 + 310;
    let kept = plan(&phantom("other"), &paused.next_history, &config, UnixTime(until + 1799));
    assert!(kept.next_history.pools["general"].anticipations.contains_key("Namespace/default"));
    let forgotten = plan(&phantom("other"), &paused.next_history, &config, UnixTime(until + 1800));
    assert!(!forgotten.next_history.pools["general"].anticipations.contains_key("Namespace/default"));
}

#[test]
fn replicas_that_do_not_exist_come_after_every_real_pod_whatever_they_claim() {
    let critical = PriorityClass { value: 2_000_000_000, is_default: false };
    let mut phantom = controller(ControllerKind::ReplicaSet, "phantom", 20, pod("phantom").cpu("3"));
    phantom.priority_class = PrioritySource::Named("system-cluster-critical".into());
    let cluster = world()
        .group("general", "a", "", 0)
        .controller(phantom)
        .pods(pod("real").cpu("3").priority(-5).times(2))
        .delta(Delta::PriorityClassApplied("system-cluster-critical".into(), critical))
        .build();
    let plan = plan_fresh(&cluster, &config([pool("general").with(|pool| pool.max_nodes = 3)]));
    let placed = |owner: &str| verdict(&plan, owner).unplaced_count;
    assert_eq!((placed("real-0"), placed("phantom")), (0, 19));
    check(&plan, &[("general", "a", 0, 3)]);
}

#[test]
fn pods_that_exist_are_served_before_equal_replicas_that_do_not_beside_other_pods() {
    let web = || pod("web").cpu("3").owner("ReplicaSet", "web");
    let cluster = world()
        .group("general", "a", "", 0)
        .controller(controller(ControllerKind::ReplicaSet, "web", 20, web()))
        .pods(web().times(1))
        .pods(pod("small").cpu("2").times(1))
        .build();
    let plan = plan_fresh(&cluster, &config([pool("general").with(|pool| pool.max_nodes = 2)]));
    let of = |owner: &str, anticipated: bool| {
        let mine = |verdict: &&headroom_core::plan::PodVerdict| {
            &*verdict.owner == owner && (verdict.anticipated_count != 0) == anticipated
        };
        plan.reasons.pods.iter().find(mine).map(|verdict| verdict.unplaced_count)
    };
    assert_eq!((of("web", false), of("small-0", false), of("web", true)), (Some(0), Some(0), Some(19)));
}
