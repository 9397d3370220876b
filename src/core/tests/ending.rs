//! Pods that are ending: what they hold up has its clock running, and leaves together with the rest.

use headroom_core::config::{Config, Consolidation, Policy};
use headroom_core::history::History;
use headroom_core::nodes::scale_down::ScaleDown;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;

use crate::scale_down::{cluster, marked, member, reasons, replica, run, settings, unneeded, with_pool};

/// A replica on `node` that takes up most of it, and that has been terminating for so many seconds.
fn ending(node: &str, seconds_ago: i64) -> PodBuilder {
    let pod = replica(&format!("ending-{node}")).cpu("3500m").on(node);
    pod.with(|pod| pod.deletion_at = Some(UnixTime(NOW.0 - seconds_ago)))
}

fn reason(decided: &ScaleDown, wanted: &str) -> Reason {
    let found = reasons(decided).into_iter().find(|(node, _, _)| node == wanted);
    found.expect("a verdict on the node").1
}

fn has_clock(history: &History, node: &str) -> bool {
    history.pools.get("a").is_some_and(|memory| memory.unneeded.contains_key(node))
}

/// Node n with one replica, beside m, which has no room for it until its pod has ended.
fn full_beside(full: PodBuilder) -> World {
    cluster([member("n"), member("m")], [replica("p").cpu("1").on("n"), full]).build()
}

#[test]
fn clock_runs_while_pods_that_are_ending_hold_the_room() {
    let (world, config) = (full_beside(ending("m", 1)), settings());
    let mut history = History::default();
    let decided = run(&world, &config, &mut history, NOW);
    assert_eq!(reason(&decided, "n"), Reason::NotUnneededLongEnough);
    assert!(has_clock(&history, "n"));

    let mut history = unneeded(&["n"]);
    let decided = run(&world, &config, &mut history, NOW);
    assert_eq!(reason(&decided, "n"), Reason::NoPlaceToMovePods, "its pod has no room yet");
    assert!(marked(&decided).is_empty() && has_clock(&history, "n"));
}

#[test]
fn no_clock_runs_for_room_that_pods_keep_or_do_not_give_back_in_time() {
    let config = settings();
    // 30 s of grace once more, and 30 s: it is taken for stuck then.
    for full in [ending("m", 61), ending("m", 1).with(|pod| pod.deletion_at = None)] {
        let mut history = unneeded(&["n"]);
        let decided = run(&full_beside(full), &config, &mut history, NOW);
        assert_eq!(reason(&decided, "n"), Reason::NoPlaceToMovePods);
        assert!(!has_clock(&history, "n"));
    }
}

#[test]
fn no_clock_runs_for_room_that_others_keep_on_a_node_that_stays_where_a_pod_ends() {
    let ends = |cpu: &str, seconds_ago: i64| ending("m", seconds_ago).cpu(cpu);
    let stays = |cpu: &str| replica("stays").cpu(cpu).on("m");
    for on_m in [[stays("3500m"), ends("100m", 1)], [stays("2500m"), ends("1", 61)]] {
        let pods = [replica("p").cpu("1").on("n")].into_iter().chain(on_m);
        let mut history = unneeded(&["n"]);
        let decided = run(&cluster([member("n"), member("m")], pods).build(), &settings(), &mut history, NOW);
        assert_eq!(reason(&decided, "n"), Reason::NoPlaceToMovePods);
        assert!(!has_clock(&history, "n"));
    }
}

/// A pool whose nodes get full, and that waits for nothing but the clock of 10 min.
fn tight() -> Config {
    with_pool(|pool| {
        let at_once = Consolidation { consolidate_after: Seconds(0), ..Consolidation::default() };
        pool.scale_down.policy = Policy::WhenCheaper(at_once);
    })
}

/// Nodes n, k and m with half their room in use, beside l, of which this pod takes most: p of n has room on m, and q of k
/// has if that of l is free. The decision so many seconds after the clocks of n, k and m have run out.
fn decided_beside(on_l: PodBuilder, seconds: i64) -> ScaleDown {
    let large = |name: &str, node: &str| replica(name).cpu("2").on(node);
    let nodes = [member("n"), member("k"), member("m"), member("l")];
    let pods = [large("p", "n"), large("q", "k"), large("r", "m"), on_l];
    let mut history = unneeded(&["n", "k", "m"]);
    let since = UnixTime(NOW.0 - tight().pools[0].scale_down.unneeded_for.0 - seconds);
    let memory = history.pools.get_mut("a").expect("pool a");
    memory.unneeded.values_mut().for_each(|at| *at = since);
    run(&cluster(nodes, pods).build(), &tight(), &mut history, NOW)
}

#[test]
fn what_can_leave_waits_a_minute_for_what_pods_that_are_ending_hold_up() {
    let decided = decided_beside(ending("l", 1), 59);
    assert!(marked(&decided).is_empty());
    assert!(decided.replaceable.is_empty(), "there will be room, and nothing is bought for any");
    assert_eq!(marked(&decided_beside(ending("l", 1), 60)).concat().len(), 1, "the wait is over");
}

#[test]
fn nothing_waits_for_pods_that_stay() {
    let decided = decided_beside(ending("l", 1).with(|pod| pod.deletion_at = None), 1);
    assert_eq!(marked(&decided).concat().len(), 1);
    assert!(!decided.replaceable.is_empty());
}
