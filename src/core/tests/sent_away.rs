//! Pods that a scale-in is about to take: they are not evicted, and nothing is drained for what is about to change.

use headroom_core::config::{Config, Consolidation, Policy};
use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::reason::Reason;
use headroom_core::testing::NOW;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;

use crate::scale_down::{cluster, marked, member, reasons, replica, run, settings, unneeded, with_pool};

/// Time at which a pod that was sent away at [`NOW`] counts as one that stays.
const UNTIL: UnixTime = UnixTime(NOW.0 + 120);

/// Nodes n and o with two replicas each, and m with one.
fn three_nodes() -> World {
    let pods = [("n1", "n"), ("n2", "n"), ("o1", "o"), ("o2", "o"), ("m1", "m")];
    let pods = pods.map(|(name, node)| replica(name).cpu("500m").on(node));
    cluster([member("n"), member("o"), member("m")], pods).build()
}

fn send_away(world: &mut World, pods: &[&str]) {
    let keys: Vec<ObjectKey> = pods.iter().map(|pod| ObjectKey::new("default", *pod)).collect();
    world.send_away(&keys, UNTIL, NOW);
}

/// Nodes of the pool get full, and all have been unneeded for long enough.
fn tight() -> Config {
    with_pool(|pool| {
        let at_once = Consolidation { consolidate_after: Seconds(0), ..Consolidation::default() };
        pool.scale_down.policy = Policy::WhenCheaper(at_once);
    })
}

/// Memory in which the nodes have been unneeded for so many seconds; 600 are needed.
fn unneeded_for(seconds: i64) -> History {
    let mut history = unneeded(&["n", "o", "m"]);
    let clocks = history.pools.values_mut().flat_map(|memory| memory.unneeded.values_mut());
    clocks.for_each(|since| *since = UnixTime(NOW.0 - seconds));
    history
}

fn decided(
    world: &World,
    config: &Config,
    seconds: i64,
    now: UnixTime,
) -> (Vec<String>, Vec<(String, Reason)>) {
    let mut history = unneeded_for(seconds);
    let decided = run(world, config, &mut history, now);
    let reasons = reasons(&decided).into_iter().map(|(node, reason, _)| (node, reason)).collect();
    (marked(&decided).concat(), reasons)
}

#[test]
fn node_waits_for_pods_that_a_scale_in_takes() {
    let mut world = three_nodes();
    send_away(&mut world, &["n1", "n2"]);
    let (marked, reasons) = decided(&world, &settings(), 3600, NOW);
    assert!(!marked.contains(&"n".to_owned()), "{marked:?}");
    assert!(reasons.contains(&("n".into(), Reason::AwaitsScaleIn)), "{reasons:?}");
    assert!(!marked.is_empty(), "the others are not concerned where nodes do not get full");
}

#[test]
fn pods_that_did_not_go_in_time_are_moved_as_others_are() {
    let mut world = three_nodes();
    send_away(&mut world, &["n1", "n2"]);
    let mut history = unneeded(&["n", "o", "m"]);
    let first = run(&world, &tight(), &mut history, NOW);
    assert!(first.wake_at.is_some_and(|at| at <= UNTIL), "{:?}", first.wake_at);
    let (_, reasons) = decided(&world, &settings(), 3600, UNTIL);
    assert!(reasons.iter().all(|(_, reason)| *reason != Reason::AwaitsScaleIn), "{reasons:?}");
}

#[test]
fn no_node_is_drained_onto_nodes_that_a_scale_in_empties() {
    let mut world = three_nodes();
    let (before, _) = decided(&world, &tight(), 620, NOW);
    assert_eq!(before, ["m"], "one drain at a time");
    send_away(&mut world, &["o1", "o2"]);
    let (marked, reasons) = decided(&world, &tight(), 620, NOW);
    assert_eq!(marked, Vec::<String>::new());
    let waits = |node: &str, reason| reasons.contains(&(node.to_owned(), reason));
    assert!(waits("o", Reason::AwaitsScaleIn), "{reasons:?}");
    assert!(
        waits("m", Reason::NotUnneededLongEnough) || waits("n", Reason::NotUnneededLongEnough),
        "{reasons:?}"
    );
}

#[test]
fn clock_of_a_node_runs_while_a_scale_in_takes_its_last_pods() {
    let full = replica("full").cpu("3500m").on("m");
    let mut world = cluster([member("n"), member("m")], [replica("p").cpu("1").on("n"), full]).build();
    let mut history = History::default();
    run(&world, &tight(), &mut history, NOW);
    assert!(
        history.pools.values().all(|memory| memory.unneeded.is_empty()),
        "neither has room for the other"
    );
    send_away(&mut world, &["full"]);
    run(&world, &tight(), &mut history, NOW);
    assert!(history.pools["a"].unneeded.contains_key("m"), "it becomes empty");
}

#[test]
fn node_that_a_person_asks_for_or_that_is_dead_waits_for_no_scale_in() {
    let mut world = three_nodes();
    send_away(&mut world, &["n1", "n2"]);
    let requested = member("n").annotation("headroom.dev/remove", "requested");
    for node in [requested, member("n").unready_for(3600)] {
        world.apply(headroom_core::world::Delta::NodeApplied(Box::new(node.build())));
        let (marked, reasons) = decided(&world, &settings(), 3600, NOW);
        assert!(marked.contains(&"n".to_owned()), "{reasons:?}");
    }
}
