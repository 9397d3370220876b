//! How many nodes of each state a pool is said to have.

use headroom_core::history::History;
use headroom_core::nodes::cluster_state::ClusterState;
use headroom_core::nodes::wake::Wake;
use headroom_core::testing::{NOW, NodeBuilder, config, no_schedule, node, pool, world};
use headroom_core::world::node::Readiness;

/// Ready, starting, unready and leaving nodes of a pool with a taint `init` that goes by itself, and 15 minutes to start.
fn counts(node: NodeBuilder) -> [u32; 4] {
    let world = world().node(node).group("general", "a", "", 1).build();
    let config = config([pool("general").with(|pool| pool.startup_taints.push(no_schedule("init", "")))]);
    let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
    let group = &state.pools["general"].groups["a"];
    [group.ready, group.not_started, group.unready, group.leaving]
}

fn aged(seconds: i64) -> NodeBuilder {
    node("n1").of("general", "a").age(seconds)
}

#[test]
fn a_node_with_a_startup_taint_starts_and_when_its_time_is_over_it_is_unready() {
    assert_eq!(counts(aged(899)), [1, 0, 0, 0]);
    assert_eq!(counts(aged(899).taint("init", "")), [0, 1, 0, 0]);
    assert_eq!(counts(aged(900).taint("init", "")), [0, 0, 1, 0]);
    assert_eq!(counts(aged(900).taint("another", "")), [1, 0, 0, 0]);
}

#[test]
fn a_node_that_is_not_ready_starts_until_its_time_is_over() {
    let not_ready = |seconds| aged(seconds).with(|node| node.ready = Readiness::NotReady);
    assert_eq!(counts(not_ready(899)), [0, 1, 0, 0]);
    assert_eq!(counts(not_ready(900)), [0, 0, 1, 0]);
}

#[test]
fn a_node_that_is_to_go_is_leaving_whoever_has_marked_it() {
    assert_eq!(counts(aged(9000).taint("ToBeDeletedByClusterAutoscaler", "")), [0, 0, 0, 1]);
    let deleting = aged(9000).with(|node| node.deleting = true);
    assert_eq!(counts(deleting), [0, 0, 0, 1]);
}
