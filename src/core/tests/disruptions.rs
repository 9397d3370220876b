//! Evictions that PodDisruptionBudgets allow at once and in rounds, and the demand that a world holds.

use headroom_core::nodes::scale_down::drainability::Disruptions;
use headroom_core::nodes::scale_up::demand::{wanted_count, weight};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, budget, config, controller, node, pod, pool, world};
use headroom_core::time::Seconds;
use headroom_core::world::World;
use headroom_core::world::workload::ControllerKind;

use crate::scale_up::plan_fresh;

/// Four pods of one kind on a node, under a budget that allows so many of them to go.
fn guarded(allowed: u32) -> World {
    let pods = (0..4).map(|index| pod(&format!("p{index}")).label("app", "web").on("n").build());
    world().node(node("n")).pods(pods).budget(budget("web", "app", "web", allowed)).build()
}

#[test]
fn pods_may_go_at_once_if_no_budget_guards_more_of_them_than_it_allows() {
    let allowed = |allowed: u32, pods: usize| {
        let world = guarded(allowed);
        let (_, _, entry) = world.node_named("n").expect("delivered");
        let pods = entry.pods.iter().take(pods).map(|id| world.pod(*id));
        Disruptions::of(&world).allow_all(pods.map(|entry| (entry.class, &*entry.pod.class)))
    };
    assert!(allowed(0, 0) && allowed(2, 1) && allowed(2, 2));
    assert!(!allowed(2, 3) && !allowed(0, 1));
}

#[test]
fn pods_wait_for_as_many_rounds_as_those_take_that_stop_already() {
    let crowded = |allowed: u32, stopping: usize, waiting: usize| {
        let world = guarded(allowed);
        let (_, _, entry) = world.node_named("n").expect("delivered");
        let entry = world.pod(*entry.pods.first().expect("four pods"));
        let mut disruptions = Disruptions::of(&world);
        (0..stopping).for_each(|_| disruptions.note_stopping(entry.class, &entry.pod.class));
        (0..waiting).for_each(|_| disruptions.spend(entry.class, &entry.pod.class));
        disruptions.crowded(entry.class, &entry.pod.class, 2).is_some()
    };
    assert!(crowded(0, 0, 0), "nothing is under way and nothing is allowed");
    assert!(!crowded(1, 0, 1) && crowded(1, 0, 2));
    // Two that stop give their room back: two more at once, in two rounds.
    assert!(!crowded(0, 2, 3) && crowded(0, 2, 4));
    assert!(!crowded(1, 1, 3) && crowded(1, 1, 4));
}

#[test]
fn demand_is_what_controllers_want_or_have_and_pods_that_belong_to_none() {
    let web = |desired| controller(ControllerKind::ReplicaSet, "web", desired, pod("x"));
    let owned = |count| pod("web").owner("ReplicaSet", "web").times(count);
    assert_eq!(wanted_count(&world().build()), 0);
    assert_eq!(wanted_count(&world().controller(web(5)).pods(owned(2)).build()), 5);
    assert_eq!(wanted_count(&world().controller(web(1)).pods(owned(3)).build()), 3);
    let alone = world().controller(web(5)).pods(owned(2)).pods(pod("alone").times(3));
    assert_eq!(wanted_count(&alone.build()), 5 + 3);
}

#[test]
fn a_core_weighs_as_much_as_four_gibibytes() {
    let weight = |pod: PodBuilder| weight(&pod.class());
    assert_eq!(weight(pod("p").cpu("2")), 2000);
    // Thousandths of four gibibytes are cut to whole bytes.
    assert!((2000..=2001).contains(&weight(pod("p").memory("8Gi"))));
    assert_eq!(weight(pod("p").cpu("1").memory("4Gi")), weight(pod("p").cpu("2")));
}

#[test]
fn pods_below_the_cutoff_and_young_ones_are_bought_for_by_nobody() {
    let world = |pod: PodBuilder| world().group("general", "a", "", 0).pod(pod.cpu("1")).build();
    let outcome = |pod: PodBuilder, delay: i64| {
        let mut config = config([pool("general")]);
        config.cluster.new_pod_delay = Seconds(delay);
        let plan = plan_fresh(&world(pod), &config);
        (plan.steps.len(), plan.reasons.pods[0].skipped)
    };
    assert_eq!(outcome(pod("p").priority(-11), 0), (0, Some(Reason::Expendable)));
    assert_eq!(outcome(pod("p").priority(-10), 0), (1, None));
    let aged = |seconds: i64| pod("p").with(|pod| pod.created_at = NOW.plus(Seconds(-seconds)));
    assert_eq!(outcome(aged(29), 30), (0, Some(Reason::TooYoung)));
    assert_eq!(outcome(aged(30), 30), (1, None));
    assert_eq!(outcome(aged(-5), 0), (1, None), "a clock that differs delays nothing");
}
