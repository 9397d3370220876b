//! One replica more for a drain that a budget without room would not allow: which nodes go by it, and how it ends.

use std::sync::Arc;

use headroom_core::config::{Config, Consolidation, Policy};
use headroom_core::history::{History, RemovalPhase, Surge};
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::removal::surges_wanted;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, budget, controller, pod};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::surge::SurgeWorkload;
use headroom_core::world::workload::ControllerKind;

use crate::removal::{end, evicted, marked as marked_node, open, phase, step};
use crate::scale_down::{cluster, marked, member, reasons, run, settings, unneeded, with_pool};

fn web(name: &str, node: &str) -> PodBuilder {
    pod(name).cpu("500m").memory("1Gi").label("app", "api").owner("ReplicaSet", "api").on(node)
}

fn steady(pods: &[&str]) -> SurgeWorkload {
    SurgeWorkload {
        policy: ObjectKey::new("default", "api"),
        deployment: "api".into(),
        replicas: u32::try_from(pods.len()).expect("few"),
        pods: pods.iter().map(|name| Arc::from(*name)).collect(),
    }
}

/// Three pods of one workload on nodes n, m and o, all of which its budget wants, and a node with room.
fn guarded() -> WorldBuilder {
    guarded_with(["n", "m", "o"], true)
}

fn guarded_with(nodes: [&str; 3], one_short: bool) -> WorldBuilder {
    let mut guard = budget("api", "app", "api", 0);
    guard.one_short = one_short;
    let pods = [web("p1", nodes[0]), web("p2", nodes[1]), web("p3", nodes[2])];
    cluster([member("n"), member("m"), member("o"), member("q")], pods)
        .controller(controller(ControllerKind::ReplicaSet, "api", 3, pod("x")))
        .budget(guard)
}

fn with_surge(builder: WorldBuilder) -> World {
    let mut world = builder.build();
    world.set_surge_workloads(Some(vec![steady(&["p1", "p2", "p3"])]));
    world
}

/// The nodes that are marked, and the reason of node n.
fn decided(world: &World, config: &Config, history: &mut History) -> (Vec<String>, Reason) {
    let decided = run(world, config, history, NOW);
    let of_n = reasons(&decided).into_iter().find(|(node, ..)| node == "n").expect("a verdict").1;
    (marked(&decided).concat(), of_n)
}

/// Only node n has been unneeded for long enough.
fn only_n() -> History {
    unneeded(&["n"])
}

#[test]
fn budget_keeps_the_node_while_no_policy_allows_a_surge() {
    let (marked, reason) = decided(&guarded().build(), &settings(), &mut only_n());
    assert_eq!((marked, reason), (vec![], Reason::NotEnoughPdb));
    let mut nobody = guarded().build();
    nobody.set_surge_workloads(Some(Vec::new()));
    assert_eq!(decided(&nobody, &settings(), &mut only_n()).1, Reason::NotEnoughPdb);
}

#[test]
fn node_goes_by_one_replica_more_of_a_steady_workload() {
    let mut history = only_n();
    let (marked, reason) = decided(&with_surge(guarded()), &settings(), &mut history);
    assert_eq!((marked, reason), (vec!["n".to_owned()], Reason::Underutilized));
    let (_, removal) = history.pools["a"].removals().next().expect("a removal");
    let surge = &removal.surges[0];
    assert_eq!((&*surge.policy.name, &*surge.deployment, surge.from), ("api", "api", 3));
    assert_eq!(&*surge.owner, "uid-ReplicaSet-api");
}

#[test]
fn nodes_that_get_full_go_by_it_too() {
    let tight = with_pool(|pool| {
        let at_once = Consolidation { consolidate_after: Seconds(0), ..Consolidation::default() };
        pool.scale_down.policy = Policy::WhenCheaper(at_once);
    });
    assert_eq!(decided(&with_surge(guarded()), &tight, &mut only_n()).0, ["n"]);
}

#[test]
fn budget_that_one_pod_more_gives_no_room_keeps_the_node() {
    let world = with_surge(guarded_with(["n", "m", "o"], false));
    assert_eq!(decided(&world, &settings(), &mut only_n()), (vec![], Reason::NotEnoughPdb));
}

#[test]
fn workload_that_is_not_steady_gets_none() {
    let mut busy = guarded().build();
    busy.set_surge_workloads(Some(vec![SurgeWorkload { pods: Vec::new(), ..steady(&["p1", "p2", "p3"]) }]));
    assert_eq!(decided(&busy, &settings(), &mut only_n()).1, Reason::NotEnoughPdb);
    // The workload loop has seen less than the watches of this loop.
    let mut older = guarded().build();
    older.set_surge_workloads(Some(vec![steady(&["p1", "p2"])]));
    assert_eq!(decided(&older, &settings(), &mut only_n()).1, Reason::NotEnoughPdb);
    let gone = guarded().pod(web("p4", "m").with(|pod| pod.deletion_at = Some(UnixTime(NOW.0 + 30))));
    let mut leaving = gone.build();
    leaving.set_surge_workloads(Some(vec![steady(&["p1", "p2", "p4"])]));
    assert_eq!(decided(&leaving, &settings(), &mut only_n()).1, Reason::NotEnoughPdb);
}

#[test]
fn one_workload_has_one_surge_at_a_time() {
    let world = with_surge(guarded());
    let mut history = unneeded(&["n", "m", "o", "q"]);
    let (first, _) = decided(&world, &settings(), &mut history);
    let drained: Vec<&String> = first.iter().filter(|node| *node != "q").collect();
    assert_eq!(drained.len(), 1, "{first:?}");
    let again = run(&world, &settings(), &mut history, NOW);
    let begun: Vec<String> = marked(&again).concat();
    assert!(begun.iter().all(|node| first.contains(node)), "{begun:?}");
}

#[test]
fn node_stays_where_the_extra_pod_has_no_place() {
    // Each other node takes one pod of the three sizes, and there is no fourth place.
    let mut guard = budget("api", "app", "api", 0);
    guard.one_short = true;
    let big = |name: &str, node: &str| web(name, node).cpu("1600m");
    let full = |name: &str, node: &str| {
        pod(name).cpu("2300m").label("app", "web").owner("ReplicaSet", "web").on(node)
    };
    let room_for = |places: usize| {
        let mut nodes = vec![member("n"), member("m"), member("o")];
        nodes.extend((0..places).map(|index| member(&format!("q{index}"))));
        let pods = [big("p1", "n"), big("p2", "m"), big("p3", "o"), full("f1", "m"), full("f2", "o")];
        let fillers = (0..places).map(|index| full(&format!("g{index}"), &format!("q{index}")));
        let world = cluster(nodes, pods.into_iter().chain(fillers))
            .controller(controller(ControllerKind::ReplicaSet, "api", 3, pod("x")))
            .budget(guard.clone());
        decided(&with_surge(world), &settings(), &mut only_n())
    };
    assert_eq!(room_for(1), (vec![], Reason::NotEnoughPdb));
    assert_eq!(room_for(2).0, ["n"]);
}

/// A removal of node n with a surge, in this phase.
fn surging(reason: Reason, phase: RemovalPhase) -> History {
    let mut history = open(reason, phase, &["n"]);
    let surge = Surge {
        policy: ObjectKey::new("default", "api"),
        deployment: "api".into(),
        owner: "uid-ReplicaSet-api".into(),
        from: 3,
    };
    for intent in history.pools.values_mut().flat_map(|memory| &mut memory.intents) {
        if let headroom_core::history::Action::Remove(removal) = &mut intent.action {
            removal.surges = vec![surge.clone()];
        }
    }
    history
}

fn marked_world(pods: Vec<PodBuilder>, allowed: u32) -> World {
    let mut guard = budget("api", "app", "api", allowed);
    guard.one_short = allowed == 0;
    let world = cluster([marked_node("n"), member("m")], pods)
        .controller(controller(ControllerKind::ReplicaSet, "api", 4, pod("x")))
        .budget(guard);
    with_surge(world)
}

#[test]
fn replica_is_wanted_from_the_mark_until_the_pods_have_left() {
    for phase in [RemovalPhase::Journalled, RemovalPhase::Deleting, RemovalPhase::Undoing] {
        assert_eq!(surges_wanted(&surging(Reason::Underutilized, phase)).len(), 0, "{phase:?}");
    }
    for phase in [RemovalPhase::Marked, RemovalPhase::Draining] {
        assert_eq!(surges_wanted(&surging(Reason::Underutilized, phase)).len(), 1, "{phase:?}");
    }
}

#[test]
fn drain_waits_for_the_budget_and_evicts_once_it_has_room() {
    let mut history = surging(Reason::Underutilized, RemovalPhase::Draining);
    let waits = step(&marked_world(vec![web("p1", "n"), web("p2", "m")], 0), &settings(), &mut history, NOW);
    assert_eq!(evicted(&waits), Vec::<Vec<String>>::new());
    assert_eq!(surges_wanted(&history).len(), 1);
    let later = UnixTime(NOW.0 + 2);
    let goes = step(&marked_world(vec![web("p1", "n"), web("p2", "m")], 1), &settings(), &mut history, later);
    assert_eq!(evicted(&goes).concat(), ["p1"]);
    assert_eq!(surges_wanted(&history).len(), 1, "the pod is still there");
}

#[test]
fn replica_is_given_back_when_the_pod_is_gone_and_not_while_it_stops() {
    let mut history = surging(Reason::Underutilized, RemovalPhase::Draining);
    let stopping = web("p1", "n").with(|pod| pod.deletion_at = Some(UnixTime(NOW.0 + 30)));
    step(&marked_world(vec![stopping, web("p2", "m")], 0), &settings(), &mut history, NOW);
    assert_eq!(surges_wanted(&history).len(), 1);
    let other = pod("slow").cpu("100m").owner("ReplicaSet", "web").label("app", "web").on("n");
    step(&marked_world(vec![other, web("p2", "m")], 0), &settings(), &mut history, NOW);
    assert_eq!(surges_wanted(&history), [], "another pod of the node has no part in it");
    assert_eq!(phase(&history), Some(RemovalPhase::Draining));
}

#[test]
fn removal_is_called_off_when_the_policy_allows_it_no_longer() {
    let mut world = marked_world(vec![web("p1", "n"), web("p2", "m")], 0);
    let mut history = surging(Reason::Underutilized, RemovalPhase::Draining);
    world.set_surge_workloads(None);
    step(&world, &settings(), &mut history, NOW);
    assert_eq!(phase(&history), Some(RemovalPhase::Draining), "not known yet");
    world.set_surge_workloads(Some(Vec::new()));
    let undone = step(&world, &settings(), &mut history, NOW);
    assert_eq!(phase(&history), Some(RemovalPhase::Undoing));
    assert_eq!(end(&history).1, Reason::SurgeEnded);
    assert_eq!(surges_wanted(&history), []);
    assert!(undone.steps.iter().any(|step| matches!(step, Step::Unmark { .. })));
}

#[test]
fn drain_that_is_given_up_wants_no_replica() {
    let world = marked_world(vec![web("p1", "n"), web("p2", "m")], 0);
    let mut history = surging(Reason::Underutilized, RemovalPhase::Draining);
    step(&world, &settings(), &mut history, UnixTime(NOW.0 + 3600));
    assert_eq!(phase(&history), Some(RemovalPhase::Undoing));
    assert_eq!(surges_wanted(&history), []);
    assert!(history.pools["a"].removals().all(|(_, removal)| removal.surges.is_empty()));
}

#[test]
fn replica_of_a_node_that_died_is_not_wanted() {
    let mut history = surging(Reason::Underutilized, RemovalPhase::Draining);
    let gone = cluster([member("m")], [web("p2", "m")]).build();
    step(&gone, &settings(), &mut history, NOW);
    assert_eq!(surges_wanted(&history), []);
}
