//! Turns: in a cluster of more than 10,000 pods each plan tries to empty one part of the nodes.

use std::collections::BTreeSet;

use headroom_core::config::{Config, Consolidation, GroupScaling, Policy};
use headroom_core::history::{History, PoolHistory};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, node, pod};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::REMOVE_ANNOTATION;

use crate::scale_down::{cluster, marked, member, reasons, replica, run, unneeded, with_pool};

/// 420 nodes with 25 pods each, of which two thirds suffice, and these beside them: six parts.
fn large(beside: impl IntoIterator<Item = NodeBuilder>) -> WorldBuilder {
    let names = || (0..420).map(|index| format!("n{index:03}"));
    let pods = names().flat_map(|node| {
        (0..25).map(move |number| replica(&format!("{node}-{number}")).cpu("100m").memory("64Mi").on(&node))
    });
    let aged = pods.map(|pod| pod.with(|pod| pod.created_at = UnixTime(NOW.0 - 7200)));
    cluster(names().map(|name| member(&name)).chain(beside), aged)
}

fn when_cheaper() -> Config {
    with_pool(|pool| {
        pool.scale_down.policy = Policy::WhenCheaper(Consolidation::default());
        pool.scale_down.eviction_cooldown = Seconds(0);
        pool.max_nodes = 1000;
    })
}

fn clocks(history: &History) -> BTreeSet<String> {
    history.pools["a"].unneeded.keys().map(ToString::to_string).collect()
}

/// The clocks after plans that are made one second after another.
fn clocks_after_each(world: &World, config: &Config, plans: i64) -> Vec<BTreeSet<String>> {
    let mut history = History::default();
    (0..plans)
        .map(|second| {
            let decided = run(world, config, &mut history, NOW.plus(Seconds(second)));
            assert!(decided.wake_at.is_some_and(|at| at <= NOW.plus(Seconds(second + 1))));
            clocks(&history)
        })
        .collect()
}

#[test]
fn a_plan_tries_one_part_of_a_large_cluster_and_keeps_the_clocks_of_the_others() {
    let world = large([]).build();
    // Two rounds of six parts, each of which has a second.
    let clocks = clocks_after_each(&world, &when_cheaper(), 12);
    let sixth = |name: &String| name[1..].parse::<u32>().expect("a number") % 6;
    let parts: BTreeSet<u32> = clocks[0].iter().map(sixth).collect();
    assert_eq!(parts.len(), 1, "of the first plan");
    let last = clocks.last().expect("twelve plans");
    assert!(clocks[0].is_subset(last), "a clock is kept while others have their turn");
    assert_eq!(last.iter().map(sixth).collect::<BTreeSet<u32>>().len(), 6, "all parts had theirs");
}

#[test]
fn underutilized_nodes_of_a_large_cluster_take_turns_whatever_the_policy() {
    // Their 62 % are under this threshold.
    let config = with_pool(|pool| {
        pool.scale_down.utilization_threshold_percent = 70;
        pool.max_nodes = 1000;
    });
    let world = large([]).build();
    let mut history = History::default();
    let decided = run(&world, &config, &mut history, NOW);
    let found = reasons(&decided);
    assert!(found.iter().all(|(_, reason, _)| *reason != Reason::NotUnderutilized), "none is well used");
    let waiting = found.iter().filter(|(_, reason, _)| *reason == Reason::NotUnneededLongEnough).count();
    assert!(clocks(&history).len() <= 70 && 350 <= waiting, "{} of {waiting}", clocks(&history).len());
}

#[test]
fn nodes_that_are_empty_or_asked_for_go_in_any_plan_of_a_large_cluster() {
    let beside = [member("empty"), member("requested").annotation(REMOVE_ANNOTATION, "requested")];
    let world = large(beside).pod(replica("small").cpu("100m").on("requested")).build();
    for second in 0..8 {
        let mut history = unneeded(&["empty"]);
        let decided = run(&world, &when_cheaper(), &mut history, NOW.plus(Seconds(second)));
        let gone: BTreeSet<String> = marked(&decided).into_iter().flatten().collect();
        let wanted = ["empty", "requested"].map(String::from);
        assert!(wanted.iter().all(|node| gone.contains(node)), "{gone:?} in second {second}");
    }
}

#[test]
fn a_daemon_is_no_reason_to_wait_for_a_turn() {
    let daemon = pod("agent").namespace("kube-system").cpu("100m").owner("DaemonSet", "agent").on("empty");
    let daemon = daemon.with_class(|class| class.daemon_set = true);
    let set = headroom_core::testing::daemon_set("agent", pod("x").cpu("100m"));
    let world = large([member("empty")]).daemon_set(set).pod(daemon).build();
    for second in 0..8 {
        let mut history = unneeded(&["empty"]);
        let decided = run(&world, &when_cheaper(), &mut history, NOW.plus(Seconds(second)));
        let empty = reasons(&decided).into_iter().find(|(node, _, _)| node == "empty").expect("a verdict");
        assert_eq!(empty.1, Reason::Empty, "in second {second}: {empty:?}");
    }
}

#[test]
fn cordoned_and_dead_nodes_of_a_large_cluster_get_their_clocks_in_any_plan() {
    let cordoned = member("cordoned").with(|node| node.unschedulable = true);
    let world = large([cordoned, member("dead").unready_for(60)]);
    let pods = ["cordoned", "dead"].map(|node| replica(&format!("on-{node}")).cpu("100m").on(node));
    let world = pods.into_iter().fold(world, WorldBuilder::pod).build();
    for second in 0..12 {
        let mut history = History::default();
        run(&world, &when_cheaper(), &mut history, NOW.plus(Seconds(second)));
        let found = clocks(&history);
        assert!(found.contains("cordoned") && found.contains("dead"), "{found:?} in second {second}");
    }
}

#[test]
fn nodes_of_a_group_that_goes_as_a_whole_wait_for_no_turn_in_a_large_cluster() {
    let names: Vec<String> = (0..6).map(|index| format!("whole-{index}")).collect();
    let world = large([]);
    let world = names.iter().fold(world, |world, name| world.node(node(name).of("whole", "w").age(7200)));
    let pods = names.iter().map(|name| replica(&format!("on-{name}")).cpu("100m").on(name));
    let aged = pods.map(|pod| pod.with(|pod| pod.created_at = UnixTime(NOW.0 - 7200)));
    let world = aged.fold(world, WorldBuilder::pod).group("whole", "w", "", 6).build();
    let mut config = when_cheaper();
    let whole = config.pools[0].clone();
    config.pools.push(headroom_core::config::Pool {
        name: "whole".into(),
        group_scaling: GroupScaling::ZeroOrMax,
        ..whole
    });
    for second in 0..12 {
        let mut history = unneeded(&[]);
        let clocks = names.iter().map(|name| (name.as_str().into(), UnixTime(NOW.0 - 3600))).collect();
        let memory = PoolHistory { unneeded: clocks, ..PoolHistory::default() };
        history.pools.insert("whole".into(), memory);
        let decided = run(&world, &config, &mut history, NOW.plus(Seconds(second)));
        let gone: BTreeSet<String> = marked(&decided).into_iter().flatten().collect();
        let why: Vec<_> = reasons(&decided).into_iter().filter(|(node, ..)| names.contains(node)).collect();
        assert!(names.iter().all(|name| gone.contains(name)), "{why:?} in second {second}");
    }
}
