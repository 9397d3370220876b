//! Pods that their scheduler does not bind, for reasons unknown to us: no node is bought for them over and over.

use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::{History, Unbound};
use headroom_core::nodes::scale_up::unbound::{LATE_PURCHASES_MAX, PATIENCE, PAUSE, SETTLE, key_of};
use headroom_core::plan;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, config, controller, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::TEMPLATE_ANNOTATION;
use headroom_core::world::workload::ControllerKind;

use crate::scale_up::{check, plan_fresh, verdict};

/// A pod of another scheduler, which has not marked it.
fn foreign(name: &str) -> PodBuilder {
    pod(name)
        .cpu("3500m")
        .owner("ReplicaSet", "volcano")
        .with_class(|class| class.scheduler = "volcano".into())
        .with(|pod| pod.unschedulable = false)
}

fn general() -> Config {
    let quick = |pool: &mut headroom_core::config::Pool| {
        pool.scale_down.unneeded_for = Seconds(15);
        pool.scale_down.delay_after_add = Seconds(15);
    };
    config([pool("general").bounds(0, 5).with(quick)])
}

fn at(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 + seconds)
}

// === which schedulers ===

#[test]
fn pods_of_other_schedulers_buy_nothing_until_they_are_marked() {
    let empty = || world().group("general", "a", "", 0);
    let unmarked = plan_fresh(&empty().pod(foreign("v")).build(), &general());
    check(&unmarked, &[]);
    assert_eq!(verdict(&unmarked, "volcano").skipped, Some(Reason::AwaitsScheduler));
    let marked = foreign("v").with(|pod| pod.unschedulable = true);
    check(&plan_fresh(&empty().pod(marked).build(), &general()), &[("general", "a", 0, 1)]);
}

#[test]
fn pods_of_named_schedulers_are_demand_at_once() {
    let world = world().group("general", "a", "", 0).pod(foreign("v")).build();
    let mut config = general();
    config.cluster.immediate_schedulers = vec!["volcano".into()];
    check(&plan_fresh(&world, &config), &[("general", "a", 0, 1)]);
}

#[test]
fn pods_of_the_default_scheduler_wait_for_its_mark_where_the_list_is_empty() {
    let unmarked = pod("web").cpu("1").with(|pod| pod.unschedulable = false);
    let world = world().group("general", "a", "", 0).pod(unmarked).build();
    check(&plan_fresh(&world, &general()), &[("general", "a", 0, 1)]);
    let mut config = general();
    config.cluster.immediate_schedulers = Vec::new();
    check(&plan_fresh(&world, &config), &[]);
}

#[test]
fn replicas_of_other_schedulers_are_not_anticipated() {
    let missing = controller(ControllerKind::ReplicaSet, "volcano", 3, foreign("v"));
    let world = world().group("general", "a", "", 0).controller(missing).build();
    let plan = plan_fresh(&world, &general());
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "volcano").skipped, Some(Reason::AwaitsScheduler));
}

#[test]
fn pods_of_other_schedulers_take_no_room_before_they_are_demand() {
    let web = pod("web").cpu("1");
    let one = node("n").of("general", "a");
    let world = world().node(one).group("general", "a", "", 1).pod(foreign("v")).pod(web).build();
    let plan = plan_fresh(&world, &general());
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "web").on_existing_count, 1);
}

#[test]
fn unmarked_pod_that_was_nominated_for_a_node_that_is_gone_buys_nothing_and_keeps_its_room_on_one_that_exists()
 {
    let nominated = |pod: PodBuilder| pod.with(|pod| pod.nominated_node = Some("n".into()));
    let empty = world().group("general", "a", "", 0).pod(nominated(foreign("v"))).build();
    let gone = plan_fresh(&empty, &general());
    check(&gone, &[]);
    assert_eq!(verdict(&gone, "volcano").skipped, Some(Reason::AwaitsScheduler));
    let marked = nominated(foreign("v").with(|pod| pod.unschedulable = true));
    let marked = world().group("general", "a", "", 0).pod(marked).build();
    check(&plan_fresh(&marked, &general()), &[("general", "a", 0, 1)]);
    let exists = world().node(node("n").of("general", "a")).group("general", "a", "", 1);
    let exists = exists.pod(nominated(foreign("v"))).pod(pod("web").cpu("1")).build();
    check(&plan_fresh(&exists, &general()), &[("general", "a", 1, 2)]);
}

// === pods that stay unbound ===

/// One waiting pod of a ReplicaSet that fits a ready node, both made so many seconds ago.
fn refused(node_age: i64, pod_age: i64) -> World {
    with(refused_node(node_age), waiting("odd-0", pod_age))
}

fn refused_node(age: i64) -> NodeBuilder {
    node("n").of("general", "a").age(age)
}

fn waiting(name: &str, age: i64) -> PodBuilder {
    let made = move |pod: &mut headroom_core::world::pod::Pod| pod.created_at = at(-age);
    pod(name).cpu("3500m").owner("ReplicaSet", "odd").with(made)
}

fn with(node: NodeBuilder, pod: PodBuilder) -> World {
    world().node(node).group("general", "a", "", 1).pod(pod).build()
}

fn row(plan: &Plan) -> Option<&Unbound> {
    let memory = plan.next_history.pools.get("general")?;
    memory.unbound.iter().find(|(key, _)| &*key.owner == "ReplicaSet/default/odd").map(|(_, row)| row)
}

/// Plans at these instants one after the other, each with the memory of the one before.
fn plans(world: &World, history: History, instants: &[i64]) -> Plan {
    let mut last = Plan { next_history: history, ..Plan::default() };
    for seconds in instants {
        last = plan(world, &last.next_history, &general(), at(*seconds));
    }
    last
}

const HELD: i64 = SETTLE.0 + 1 + PATIENCE.0;

#[test]
fn ordinary_waits_leave_no_trace() {
    let plan = plans(&refused(0, 30), History::default(), &[0, SETTLE.0]);
    assert_eq!(row(&plan), None);
    assert_eq!(plan.wake_at, Some(at(SETTLE.0 + 1)));
}

#[test]
fn pods_with_room_on_a_ready_node_are_held_back_after_patience() {
    let world = refused(0, 0);
    let noted = plans(&world, History::default(), &[0, SETTLE.0 + 1]);
    assert_eq!(row(&noted).expect("a row").room_since, Some(at(SETTLE.0 + 1)));
    assert_eq!(verdict(&noted, "odd").on_existing_count, 1, "it still has its place");
    assert_eq!(noted.wake_at, Some(at(HELD)));

    let held = plans(&world, noted.next_history, &[HELD]);
    assert_eq!(verdict(&held, "odd").skipped, Some(Reason::RefusedByScheduler));
    let row = row(&held).expect("a row");
    assert_eq!((row.until, row.failures), (Some(at(HELD).plus(PAUSE)), 1));
    // Nothing is planned onto the node any more: it leaves like any other.
    assert!(
        held.reasons.nodes.iter().all(|node| node.reason != Reason::PlannedFor),
        "{:?}",
        held.reasons.nodes
    );
}

#[test]
fn pods_nominated_for_a_node_that_is_gone_are_held_back_like_others() {
    let stale = waiting("odd-0", 0).with(|pod| pod.nominated_node = Some("gone".into()));
    let world = with(refused_node(0), stale);
    let held = plans(&world, History::default(), &[SETTLE.0 + 1, HELD]);
    assert_eq!(verdict(&held, "odd").skipped, Some(Reason::RefusedByScheduler));
}

/// Reason why `second` does not count as demand where `first` is held back.
fn after(first: PodBuilder, second: PodBuilder) -> Option<Reason> {
    let history =
        plans(&with(refused_node(0), first), History::default(), &[SETTLE.0 + 1, HELD]).next_history;
    assert!(history.pools["general"].unbound.values().any(|row| row.until.is_some()), "{history:?}");
    let plan = plans(&with(refused_node(0), second), history, &[HELD + 1]);
    plan.reasons.pods[0].skipped
}

#[test]
fn pods_whose_owners_have_other_names_each_time_are_one_class() {
    let held = Some(Reason::RefusedByScheduler);
    let bare = |name: &str| waiting(name, 0).with(|pod| pod.owner = None);
    assert_eq!(after(bare("run-1"), bare("run-2")), held);
    assert_eq!(after(bare("run-1"), bare("run-2").cpu("3")), None, "another class");
    let of = |kind: &str, owner: &str, name: &str| waiting(name, 0).owner(kind, owner);
    assert_eq!(after(of("Pod", "driver-1", "a"), of("Pod", "driver-2", "b")), held);
    assert_eq!(after(of("Job", "night-29000000", "a"), of("Job", "night-29001440", "b")), held);
    assert_eq!(after(of("Job", "night-29000000", "a"), of("Job", "noon-29001440", "b")), None);
    assert_eq!(after(of("Job", "load-1", "a"), of("Job", "load-2", "b")), None, "Jobs without a CronJob");
    assert_eq!(
        after(of("ReplicaSet", "x-1", "a"), of("ReplicaSet", "x-2", "b")),
        None,
        "a change by the user"
    );
}

#[test]
fn held_pods_buy_nothing_and_are_tried_again_with_growing_pauses() {
    let held = plans(&refused(0, 0), History::default(), &[SETTLE.0 + 1, HELD]);
    let gone = world().group("general", "a", "", 0).pod(waiting("odd-0", 0)).build();
    check(&plans(&gone, held.next_history.clone(), &[HELD + 1]), &[]);
    let again = plans(&gone, held.next_history, &[HELD + PAUSE.0]);
    check(&again, &[("general", "a", 0, 1)]);

    let back = HELD + PAUSE.0 + 10;
    let bought = with(refused_node(-back), waiting("odd-0", 0));
    let twice = plans(&bought, again.next_history, &[back, back + SETTLE.0 + 1, back + HELD]);
    let row = row(&twice).expect("a row");
    assert_eq!((row.until, row.failures), (Some(at(back + HELD).plus(Seconds(PAUSE.0 * 4))), 2));
}

#[test]
fn class_is_forgotten_when_a_pod_that_is_named_is_bound() {
    let held = plans(&refused(0, 0), History::default(), &[SETTLE.0 + 1, HELD]).next_history;
    let named = with(refused_node(0), waiting("odd-0", 0).on("n"));
    assert_eq!(row(&plans(&named, held, &[HELD + 1])), None);
}

#[test]
fn backoff_of_a_class_of_which_others_are_bound_lasts_as_long_as_a_first_one_and_the_next_grows() {
    let mut held = plans(&refused(0, 0), History::default(), &[SETTLE.0 + 1, HELD]).next_history;
    let (key, mut second) = {
        let rows = &held.pools["general"].unbound;
        let (key, row) = rows.first_key_value().expect("a row");
        (key.clone(), row.clone())
    };
    second.failures = 2;
    second.until = Some(at(HELD).plus(Seconds(PAUSE.0 * 4)));
    held.pools.get_mut("general").expect("a memory").unbound.insert(key, second);
    let both = world().node(refused_node(0)).group("general", "a", "", 1);
    let both = both.pod(waiting("odd-0", 0)).pod(waiting("odd-1", 0).on("n")).build();
    let plan = plans(&both, held, &[HELD + 1]);
    let kept = row(&plan).expect("a row");
    assert_eq!((kept.until, kept.failures), (Some(at(HELD).plus(PAUSE)), 2));
    check(&plan, &[]);
    check(&plans(&both, plan.next_history, &[HELD + PAUSE.0]), &[("general", "a", 1, 2)]);
}

#[test]
fn another_class_of_the_owner_is_not_held_back() {
    let held = plans(&refused(0, 0), History::default(), &[SETTLE.0 + 1, HELD]).next_history;
    let smaller = with(refused_node(0), waiting("odd-0", 0).cpu("3"));
    let plan = plans(&smaller, held, &[HELD + 1]);
    assert_eq!(verdict(&plan, "odd").on_existing_count, 1);
}

#[test]
fn clock_starts_anew_when_others_take_the_room() {
    let noted = plans(&refused(0, 0), History::default(), &[SETTLE.0 + 1]).next_history;
    let taken = world().node(refused_node(0)).group("general", "a", "", 1);
    let taken = taken.pod(waiting("odd-0", 0)).pod(pod("web").cpu("1").on("n")).build();
    let plan = plans(&taken, noted, &[HELD - 2]);
    check(&plan, &[("general", "a", 1, 2)]);
    // The purchase counts although the pod is not old yet: it is not the first one for it.
    let row = row(&plan).expect("a row");
    assert_eq!((row.room_since, row.bought_at, row.bought_count), (None, Some(at(HELD - 2)), 1));
}

#[test]
fn pods_that_lose_the_room_bought_for_them_again_and_again_are_held_back() {
    let mut history = History::default();
    let mut bought = Vec::new();
    for round in 0..=i64::from(LATE_PURCHASES_MAX) {
        // Each time a node came, and another pod is on it.
        let now = HELD + round * PATIENCE.0;
        let fresh = refused_node(-(now - 30));
        let world = world().node(fresh).group("general", "a", "", 1).pod(waiting("odd-0", 0));
        let plan = plans(&world.pod(pod("web").cpu("1").on("n")).build(), history, &[now]);
        bought.push(plan.steps.iter().any(|step| matches!(step, Step::Increase { .. })));
        history = plan.next_history;
        history.pools.get_mut("general").expect("a memory").intents.clear();
    }
    assert_eq!(bought, [true, true, true, false]);
}

#[test]
fn purchases_that_brought_no_node_are_not_counted() {
    let mut history = History::default();
    let world = world().group("general", "a", "", 0).pod(waiting("odd-0", 0)).build();
    for round in 0..8 {
        let plan = plans(&world, history, &[HELD + round * PATIENCE.0]);
        check(&plan, &[("general", "a", 0, 1)]);
        history = plan.next_history;
        history.pools.get_mut("general").expect("a memory").intents.clear();
    }
}

// === drains ===

/// Two nodes that one pod each leaves half empty, and one that a pod which has waited for so long is waiting for.
fn beside_a_promise(pod_age: i64) -> World {
    let small = |name: &str, on: &str| pod(name).cpu("600m").owner("ReplicaSet", "web").on(on);
    let old = |name: &str| node(name).of("general", "a");
    world()
        .node(old("w1"))
        .node(old("w2"))
        .node(refused_node(5))
        .controller(controller(ControllerKind::ReplicaSet, "web", 2, pod("web").cpu("600m")))
        .group("general", "a", "", 3)
        .pod(small("web-0", "w1"))
        .pod(small("web-1", "w2"))
        .pod(waiting("odd-0", pod_age))
        .build()
}

#[test]
fn no_pod_is_drained_that_could_take_the_room_of_one_that_waits() {
    let unneeded: std::collections::BTreeMap<Arc<str>, UnixTime> =
        ["w1", "w2"].into_iter().map(|node| (Arc::from(node), at(-600))).collect();
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().unneeded = unneeded;
    let marks = |plan: &Plan| plan.steps.iter().filter(|step| !matches!(step, Step::Increase { .. })).count();
    let late = plan(&beside_a_promise(30), &history, &general(), NOW);
    assert_eq!(marks(&late), 0, "{:?}", late.steps);
    let kept = |node: &str| late.next_history.pools["general"].unneeded.get(node).copied();
    assert_eq!(kept("w1").or(kept("w2")), Some(at(-600)), "its clock goes on");
    assert!(
        late.reasons.nodes.iter().any(|node| node.reason == Reason::PromisedRoom),
        "{:?}",
        late.reasons.nodes
    );
    // A pod that has just come is about to be bound.
    assert_ne!(marks(&plan(&beside_a_promise(3), &history, &general(), NOW)), 0);
}

#[test]
fn no_pod_is_drained_while_a_node_is_on_its_way_for_one_that_was_bought_for_late() {
    let small = |name: &str, on: &str| pod(name).cpu("600m").owner("ReplicaSet", "web").on(on);
    let old = |name: &str| node(name).of("general", "a");
    let world = |pod_age: i64, target: u32| {
        world()
            .node(old("w1"))
            .node(old("w2"))
            .controller(controller(ControllerKind::ReplicaSet, "web", 2, pod("web").cpu("600m")))
            .group("general", "a", "", target)
            .pod(small("web-0", "w1"))
            .pod(small("web-1", "w2"))
            .pod(waiting("odd-0", pod_age))
            .build()
    };
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().unneeded =
        ["w1", "w2"].into_iter().map(|node| (Arc::from(node), at(-600))).collect();
    let removals = |pod_age: i64, history: &History| {
        let bought = plan(&world(pod_age, 2), history, &general(), NOW);
        check(&bought, &[("general", "a", 2, 3)]);
        let on_its_way = plan(&world(pod_age, 3), &bought.next_history, &general(), at(20));
        on_its_way.next_history.pools["general"].removals().count()
    };
    assert_eq!(removals(SETTLE.0 + PATIENCE.0, &history), 0);
    // An ordinary purchase holds no removal up.
    assert_eq!(removals(SETTLE.0, &history), 1);
    // Unless others have taken the room of an earlier one.
    let mut robbed = history.clone();
    robbed.pools.get_mut("general").expect("a memory").unbound = [(
        key_of(&waiting("odd-0", SETTLE.0).build()),
        Unbound { room_since: Some(at(-10)), ..Unbound::default() },
    )]
    .into();
    assert_eq!(removals(SETTLE.0, &robbed), 0);
}

/// Number of removals that begin beside a promise where the nodes that are drained are outdated, and why `w1` stays.
fn rotated(pod_age: i64) -> (usize, Vec<Reason>) {
    let made_by = |node: NodeBuilder, template: &str| node.annotation(TEMPLATE_ANNOTATION, template);
    let old = |name: &str| made_by(node(name).of("general", "a").age(7200), "1111");
    let small = |name: &str, on: &str| pod(name).cpu("600m").owner("ReplicaSet", "web").on(on);
    let world = world()
        .node(old("w1"))
        .node(old("w2"))
        .node(made_by(refused_node(5), "2222"))
        .node(made_by(node("spare").of("general", "a").age(5), "2222"))
        .controller(controller(ControllerKind::ReplicaSet, "web", 2, pod("web").cpu("600m")))
        .group("general", "a", "", 4)
        .pod(small("web-0", "w1"))
        .pod(small("web-1", "w2"))
        .pod(waiting("odd-0", pod_age))
        .build();
    let config = config([pool("general").bounds(0, 5).with(|pool| {
        pool.scale_down.rotation.replace_drifted = true;
        pool.scale_down.rotation.template = Some("2222".into());
    })]);
    let first = plan(&world, &History::default(), &config, NOW);
    let replacement = first.next_history.pools["general"].replacement.clone();
    assert!(replacement.is_some_and(|replacement| replacement.bought_count == 0), "{:?}", first.steps);
    let second = plan(&world, &first.next_history, &config, NOW);
    let removals = second.next_history.pools["general"].removals().count();
    assert!(second.next_history.pools["general"].replacement.is_some() || removals != 0, "it goes on");
    let kept = second.reasons.nodes.iter().filter(|node| node.node.starts_with('w'));
    (removals, kept.map(|node| node.reason).collect())
}

#[test]
fn no_outdated_node_is_drained_whose_pods_could_take_the_room_of_one_that_waits() {
    let (removals, kept) = rotated(30);
    assert_eq!(removals, 0);
    assert!(kept.contains(&Reason::PromisedRoom), "{kept:?}");
    assert_ne!(rotated(3).0, 0);
}

#[test]
fn nothing_is_drained_while_more_nodes_are_promised_than_are_looked_at() {
    let mut builder = world();
    for index in 0..101 {
        // Too small for what is drained, but for the last one.
        let (name, size) = (format!("n{index:03}"), if index == 100 { "4" } else { "500m" });
        let asks = if index == 100 { "3500m" } else { "400m" };
        let asked = waiting(&format!("odd-{index:03}"), 30).cpu(asks).selector("n", &name);
        builder = builder.node(node(&name).of("general", "a").label("n", &name).cpu(size).age(5)).pod(asked);
    }
    let small = |name: &str, on: &str| pod(name).cpu("600m").owner("ReplicaSet", "web").on(on);
    let world = builder
        .node(node("w1").of("general", "a"))
        .node(node("w2").of("general", "a"))
        .controller(controller(ControllerKind::ReplicaSet, "web", 2, pod("web").cpu("600m")))
        .group("general", "a", "", 103)
        .pod(small("web-0", "w1"))
        .pod(small("web-1", "w2"))
        .build();
    let mut history = History::default();
    history.pools.entry("general".into()).or_default().unneeded =
        ["w1", "w2"].into_iter().map(|node| (Arc::from(node), at(-600))).collect();
    let mut config = general();
    config.pools[0].max_nodes = 200;
    let plan = plan(&world, &history, &config, NOW);
    let kept = plan.reasons.nodes.iter().filter(|node| node.node.starts_with('w'));
    let kept: Vec<Reason> = kept.map(|node| node.reason).collect();
    assert!(kept.contains(&Reason::PromisedRoom), "{kept:?}");
    assert_eq!(plan.next_history.pools["general"].removals().count(), 0);
}
