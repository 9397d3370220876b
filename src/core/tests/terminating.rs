//! Room that terminating pods hold: free when they end soon, for a bounded time.

use headroom_core::nodes::context::TERMINATING_EXTRA;
use headroom_core::plan;
use headroom_core::testing::{NOW, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;

use crate::scale_up::{check, plan_fresh};

/// A node that terminating pods fill, whose grace is over so many seconds from [`NOW`], and waiting pods of the same size.
fn replaced(over_in: i64) -> World {
    let old = pod("old").cpu("1").on("n").with(|pod| pod.deletion_at = Some(UnixTime(NOW.0 + over_in)));
    world()
        .node(node("n").of("general", "a"))
        .group("general", "a", "", 1)
        .pods(old.times(4))
        .pods(pod("new").cpu("1").times(4))
        .build()
}

#[test]
fn no_node_is_bought_for_pods_that_fit_once_terminating_ones_have_ended() {
    for over_in in [30, 5, 0, -10, 1 - TERMINATING_EXTRA.0] {
        let plan = plan_fresh(&replaced(over_in), &config([pool("general")]));
        check(&plan, &[]);
        let bound = UnixTime(NOW.0 + over_in).plus(TERMINATING_EXTRA);
        assert!(plan.wake_at.is_some_and(|at| at <= bound), "{:?}", plan.wake_at);
    }
}

#[test]
fn pods_that_have_time_left_or_never_end_hold_their_room() {
    for over_in in [31, 600, -TERMINATING_EXTRA.0, -3600] {
        check(&plan_fresh(&replaced(over_in), &config([pool("general")])), &[("general", "a", 1, 2)]);
    }
}

#[test]
fn pods_on_a_node_that_is_not_ready_end_for_nobody() {
    let old = pod("old").cpu("1").on("n").with(|pod| pod.deletion_at = Some(NOW));
    let world = world()
        .node(node("n").of("general", "a").unready_for(60))
        .group("general", "a", "", 1)
        .pods(old.times(4))
        .pods(pod("new").cpu("1").times(4))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 1, 2)]);
}

#[test]
fn wait_for_pods_past_their_grace_is_bounded() {
    let (world, config) = (replaced(0), config([pool("general")]));
    let first = plan_fresh(&world, &config);
    check(&first, &[]);
    let later = plan(&world, &first.next_history, &config, NOW.plus(TERMINATING_EXTRA).plus(Seconds(0)));
    check(&later, &[("general", "a", 1, 2)]);
}

#[test]
fn nothing_is_drained_to_where_terminating_pods_still_are() {
    let old = pod("old").cpu("3500m").on("n").with(|pod| pod.deletion_at = Some(NOW));
    let world = world()
        .node(node("n").of("general", "a"))
        .node(node("m").of("general", "a"))
        .group("general", "a", "", 2)
        .pod(old)
        .pod(pod("web").cpu("1").on("m"))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
}
