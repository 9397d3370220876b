//! Order in which nodes are removed, their number, and the space that leaving nodes already take from the others.

use std::sync::Arc;

use headroom_core::config::{Budget, Ceiling, Config, Mode};
use headroom_core::history::{
    Action, History, INTENTS_MAX, Intent, PoolHistory, Removal, RemovalPhase, Victim,
};
use headroom_core::memory::sanitize;
use headroom_core::nodes::removal::DELETE_TIMEOUT;
use headroom_core::nodes::scale_down::unregistered::remove_never_registered;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, node, pod, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::window::Window;
use headroom_core::world::World;
use headroom_core::world::node::REMOVE_ANNOTATION;
use headroom_core::world::provider::{GroupState, Instance, InstanceState};

use crate::scale_down::{cluster, marked, member, reasons, replica, run, settings, unneeded, with_pool};
use crate::scene::on_scene;

/// Adds an open removal of this node to the memory of pool a.
fn removing(mut history: History, node: &str, phase: RemovalPhase) -> History {
    let victims = vec![Victim { node: node.into(), id: format!("kwok://{node}").into() }];
    let removal = Removal { group: "a-1".into(), victims, phase, phase_since: NOW, surges: Vec::new() };
    let intent = Intent {
        id: "1-1".into(),
        epoch: 1,
        action: Action::Remove(removal),
        reason: Reason::Empty,
        started_at: NOW,
        deadline: NOW.plus(Seconds(300)),
    };
    history.pools.entry("a".into()).or_default().intents.push(intent);
    history
}

/// Nodes whose removal begins.
fn leaving(world: &World, config: &Config, mut history: History) -> Vec<String> {
    let mut leaving = marked(&run(world, config, &mut history, NOW)).concat();
    leaving.sort();
    leaving
}

fn empties() -> [NodeBuilder; 4] {
    ["n1", "n2", "n3", "n4"].map(member)
}

/// Nodes n1 to n4, empty and unneeded, the last of them leaving already, in a cloud with this target.
fn four(target: u32, last: InstanceState) -> World {
    let instances = ["n1", "n2", "n3", "n4"].map(|name| {
        let state = if name == "n4" { last } else { InstanceState::Running };
        (format!("kwok://{name}").into(), Instance { state, node: Some(name.into()), created_at: None })
    });
    let state =
        GroupState { target, instances: instances.into_iter().collect(), max: 100, ..GroupState::default() };
    cluster(empties(), []).group_state("a", "a-1", state).build()
}

#[test]
fn the_minimum_is_kept_of_nodes_and_of_the_clouds_size_without_those_that_leave() {
    let history = || removing(unneeded(&["n1", "n2", "n3"]), "n4", RemovalPhase::Deleting);
    let count =
        |target, last| leaving(&four(target, last), &with_pool(|pool| pool.min_nodes = 2), history()).len();
    assert_eq!(count(10, InstanceState::Running), 1, "three nodes are left");
    assert_eq!(count(3, InstanceState::Running), 0, "the cloud still counts the one that leaves");
    assert_eq!(count(3, InstanceState::Deleting), 1, "the cloud counts it no more");
    let none = with_pool(|pool| pool.min_nodes = 0);
    assert_eq!(leaving(&four(10, InstanceState::Running), &none, history()).len(), 3);
}

#[test]
fn the_clusters_least_cpu_is_kept_by_all_that_go_together() {
    let world = cluster(empties(), []).build();
    let count = |least: i64, history: History| {
        let mut config = settings();
        config.cluster.min_cpu_milli = Some(least);
        leaving(&world, &config, history).len()
    };
    let all = || unneeded(&["n1", "n2", "n3", "n4"]);
    assert_eq!((count(16_000, all()), count(12_000, all()), count(4_000, all())), (0, 1, 3));
    assert_eq!(count(12_000, removing(all(), "n4", RemovalPhase::Deleting)), 0, "one leaves already");
}

#[test]
fn those_asked_for_go_before_empty_ones_and_these_before_dead_ones_and_others() {
    let mut config = with_pool(|pool| pool.scale_down.unready_for = Seconds(60));
    (config.cluster.max_removals, config.cluster.max_drains) = (1, 1);
    let asked = member("z-asked").annotation(REMOVE_ANNOTATION, "requested");
    let nodes = [
        (asked, Some(replica("asked").on("z-asked"))),
        (member("y-empty"), None),
        (member("x-dead").unready_for(3600), Some(replica("dead").on("x-dead"))),
        (member("w-idle"), Some(replica("idle").on("w-idle"))),
    ];
    let mut first = Vec::new();
    for from in 0..nodes.len() {
        let (hosts, pods): (Vec<_>, Vec<_>) = nodes[from..].iter().cloned().unzip();
        let names = ["z-asked", "y-empty", "x-dead", "w-idle"];
        let busy = ["b-1", "b-2", "b-3", "b-4"].map(member);
        let load =
            ["b-1", "b-2", "b-3", "b-4"].map(|node| replica(&format!("load-{node}")).cpu("2500m").on(node));
        let world = cluster(hosts.into_iter().chain(busy), pods.into_iter().flatten().chain(load)).build();
        first.push(leaving(&world, &config, unneeded(&names)).concat());
    }
    assert_eq!(first, ["z-asked", "y-empty", "x-dead", "w-idle"]);
}

#[test]
fn places_for_pods_of_nodes_that_leave_are_taken_until_their_removal_is_given_up() {
    // The busy node has room for one pod of a core and a half.
    let load = replica("load").cpu("2500m").on("busy");
    let pods = [replica("p").cpu("1500m").on("n"), replica("q").cpu("1500m").on("m"), load];
    let world = cluster(["n", "m", "busy"].map(member), pods).build();
    let after = |phase| {
        let mut history = removing(unneeded(&["n"]), "m", phase);
        let decided = run(&world, &settings(), &mut history, NOW);
        reasons(&decided).into_iter().find(|(node, _, _)| node == "n").expect("a verdict").1
    };
    assert_eq!(after(RemovalPhase::Draining), Reason::NoPlaceToMovePods);
    // A node whose removal is given up does not take other pods yet, and its pods stay where they are.
    assert_ne!(after(RemovalPhase::Undoing), Reason::NoPlaceToMovePods);
}

/// The verdict on node n beside a node with much room.
fn verdict(pod: PodBuilder, other: NodeBuilder) -> Reason {
    let load = replica("load").cpu("12").on("other");
    let world = cluster([member("n"), other.of("a", "a-1").cpu("16")], [pod.on("n"), load]).build();
    let decided = run(&world, &settings(), &mut unneeded(&["n"]), NOW);
    reasons(&decided).into_iter().find(|(node, _, _)| node == "n").expect("a verdict").1
}

#[test]
fn pods_below_the_cutoff_neither_fill_nor_keep_a_node() {
    let alone = |cpu: &str, priority: i32| verdict(pod("batch").cpu(cpu).priority(priority), node("other"));
    assert_eq!(alone("100m", -11), Reason::Underutilized);
    assert_eq!(alone("100m", -10), Reason::NotReplicated);
    let full = |priority: i32| verdict(replica("p").cpu("3").priority(priority), node("other"));
    assert_eq!((full(-11), full(-10)), (Reason::Underutilized, Reason::NotUnderutilized));
}

#[test]
fn a_node_that_is_not_ready_is_no_place_for_pods() {
    assert_eq!(verdict(replica("p"), node("other")), Reason::Underutilized);
    assert_eq!(verdict(replica("p"), node("other").unready_for(60)), Reason::NoPlaceToMovePods);
}

#[test]
fn the_plan_looks_again_when_a_budget_opens() {
    // NOW is 1970-01-12T13:46:40Z, 800 seconds before 14:00.
    let window = Window::new("Etc/UTC", "0 14 * * *", 3600).expect("valid");
    let (ceiling, name) = (Ceiling::Nodes(0), Arc::from("freeze"));
    let freeze = Budget { name, ceiling, reasons: Vec::new(), window: Some(window) };
    let config = with_pool(|pool| pool.scale_down.budgets = vec![freeze]);
    let quiet = run(&cluster([], []).build(), &config, &mut History::default(), NOW);
    assert_eq!(quiet.wake_at, Some(UnixTime(NOW.0 + 800)));
}

#[test]
fn what_never_became_a_node_is_deleted_only_where_there_is_work_and_room_for_it() {
    let late =
        Instance { state: InstanceState::Creating, node: None, created_at: Some(UnixTime(NOW.0 - 9000)) };
    let instances = [("i-1".into(), late)].into_iter().collect();
    let world =
        world().group_state("a", "a-1", GroupState { target: 1, instances, ..GroupState::default() }).build();
    let deleted = |config: &Config, intents: usize| {
        let open = removing(History::default(), "another", RemovalPhase::Draining);
        let intent = open.pools["a"].intents[0].clone();
        let memory = PoolHistory { intents: vec![intent; intents], ..PoolHistory::default() };
        let mut history = History { pools: [("a".into(), memory)].into() };
        let steps = on_scene(&world, config, NOW, |scene| remove_never_registered(scene, &mut history));
        matches!(&steps[..], [Step::Delete { .. }])
    };
    assert!(deleted(&settings(), 0));
    assert!(!deleted(&with_pool(|pool| pool.mode = Mode::Preview), 0));
    assert!(!deleted(&with_pool(|pool| pool.deleting = true), 0));
    // Ten intents are kept free, so that the pool can always grow.
    assert!(deleted(&settings(), INTENTS_MAX - 11));
    assert!(!deleted(&settings(), INTENTS_MAX - 10));
}

#[test]
fn pods_move_to_ready_nodes_only_and_those_that_nobody_waits_for_need_no_place() {
    let of_n1 = |priority| replica("p").cpu("1").priority(priority).on("n1");
    let goes = |n2: NodeBuilder, load: &str, p: PodBuilder| {
        let world = cluster([member("n1"), n2], [p, replica("load").cpu(load).on("n2")]).build();
        leaving(&world, &settings(), unneeded(&["n1"])) == ["n1"]
    };
    assert!(goes(member("n2"), "2500m", of_n1(0)), "there is room");
    assert!(!goes(member("n2").unready_for(60), "2500m", of_n1(0)), "room on a node that is not ready");
    assert!(!goes(member("n2"), "3900m", of_n1(0)), "no room");
    assert!(goes(member("n2"), "3900m", of_n1(-100)), "no room is needed for what is expendable");
}

#[test]
fn a_removals_deadline_is_as_far_away_as_its_longest_phase_at_most() {
    let config = settings();
    let drain = &config.pools[0].scale_down.drain;
    let longest = drain.eviction_timeout.0 + drain.max_grace_period.0 + DELETE_TIMEOUT.0;
    for (written, expected) in [(longest - 1, longest - 1), (longest, longest), (longest + 1, longest)] {
        let mut history = removing(History::default(), "n1", RemovalPhase::Draining);
        let pool = history.pools.get_mut("a").expect("it has a removal");
        pool.intents[0].deadline = NOW.plus(Seconds(written));
        sanitize(&mut history, &config, NOW);
        assert_eq!(history.pools["a"].intents[0].deadline, NOW.plus(Seconds(expected)), "{written}");
    }
}
