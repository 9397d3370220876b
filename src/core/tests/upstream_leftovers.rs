//! What profile ClusterAutoscaler does in its first loop with marks that an earlier life left on nodes.

use headroom_core::history::History;
use headroom_core::nodes::upstream::{Act, ScaleUpResult};
use headroom_core::testing::{controller, node, pool, world};
use headroom_core::world::node::DELETION_TAINT;
use headroom_core::world::workload::ControllerKind;

use crate::upstream_cloud::{Cloud, at_once, web};

fn left_over() -> Cloud {
    let scene = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", 99, web("web")))
        .node(node("left").of("general", "a").taint(DELETION_TAINT, "1"))
        .group("general", "a", "", 1);
    Cloud::new(scene.build(), at_once([pool("general")]))
}

/// Source: static_autoscaler.go, RunOnce: cleanUpIfRequired runs before nodes are listed.
#[test]
fn a_node_of_a_group_takes_pods_in_the_loop_that_takes_its_leftover_mark_off() {
    let mut cloud = left_over();
    cloud.put_pod(web("web").cpu("1"));
    assert_eq!(cloud.scale_up(0).result, ScaleUpResult::NotNeeded);
}

/// The process started anew while an increase was not answered yet: its journal is there, its memory is not.
#[test]
fn leftover_marks_come_off_although_an_increase_is_open_in_the_first_loop() {
    let mut cloud = left_over();
    cloud.put_pod(web("web").cpu("3"));
    cloud.put_pod(web("other").cpu("3"));
    cloud.change_node("left", |node| node.taints.clear());
    cloud.tick(0);
    assert_eq!(cloud.steps.len(), 1, "an increase");
    let journal = cloud.history.pools.clone();
    cloud.history = History { pools: journal, ..History::default() };
    let taint = headroom_core::testing::no_schedule(DELETION_TAINT, "1");
    cloud.change_node("left", |node| node.taints.push(taint));
    cloud.tick(10);
    cloud.grow(10);
    cloud.tick(20);
    cloud.tick(30);
    let off = cloud.asked.iter().any(|(_, act)| *act == Act::HardUntaint("left".into()));
    assert!(off, "{:?}", cloud.asked);
}

#[test]
fn leftover_marks_come_off_although_no_node_is_ready_and_the_cluster_does_not_grow_from_zero() {
    let mut cloud = left_over();
    cloud.config.cluster.upstream.scale_up_from_zero = false;
    cloud.change_node("left", |node| node.ready = headroom_core::world::node::Readiness::NotReady);
    cloud.tick(0);
    cloud.change_node("left", |node| node.ready = headroom_core::world::node::Readiness::Ready);
    cloud.tick(10);
    let off = cloud.asked.iter().any(|(_, act)| *act == Act::HardUntaint("left".into()));
    assert!(off, "{:?}", cloud.asked);
}
