//! What profile ClusterAutoscaler takes a group's next node for: a good node, else what is declared, else any node.

use headroom_core::nodes::upstream::ScaleUpResult;
use headroom_core::scheduling::constraints::Operator;
use headroom_core::testing::{NodeBuilder, PodBuilder, daemon_set, no_schedule, node, pod, pool, world};
use headroom_core::world::node::DELETION_TAINT;

use crate::upstream_cloud::{Cloud, at_once, web};

/// A group of one small node, in a pool whose nodes are declared large; a pod waits that only a large one takes.
fn grows_beside(small: NodeBuilder) -> bool {
    let scene = world()
        .node(small.cpu("1").of("general", "general"))
        .group("general", "general", "", 1)
        .pod(web("web").cpu("3"));
    Cloud::new(scene.build(), at_once([pool("general")])).scale_up(0).result == ScaleUpResult::Successful
}

#[test]
fn only_a_good_node_is_taken_for_the_next_one() {
    assert!(!grows_beside(node("good").age(61)));
    for (why, bad) in [
        ("young", node("bad").age(60)),
        ("unready", node("bad").unready_for(3600)),
        ("cordoned", node("bad").with(|node| node.unschedulable = true)),
        ("leaving", node("bad").taint(DELETION_TAINT, "1")),
    ] {
        assert!(grows_beside(bad), "{why}");
    }
}

#[test]
fn a_node_that_leaves_is_an_example_without_its_mark_where_there_is_no_other() {
    let scene = world()
        .node(node("leaving").of("general", "general").with(|node| {
            node.taints.push(no_schedule(DELETION_TAINT, "1"));
            node.unschedulable = true;
        }))
        .group("general", "general", "", 1)
        .pod(web("web").cpu("3"));
    let mut config = at_once([pool("general")]);
    config.pools[0].template = None;
    assert_eq!(Cloud::new(scene.build(), config).scale_up(0).result, ScaleUpResult::Successful);
}

/// How many nodes two pods of two cores get, on nodes of four cores that run this DaemonSet where it belongs.
fn nodes_beside(set: PodBuilder) -> i64 {
    let pods = web("web").cpu("2").times(2);
    let scene = world().group("general", "general", "", 0).daemon_set(daemon_set("agent", set)).pods(pods);
    let config = at_once([pool("general").label("kind", "general").taint("own", "yes")]);
    let mut cloud = Cloud::new(scene.build(), config);
    for name in ["web-0", "web-1"] {
        cloud.take_pod(name);
        cloud.put_pod(web(name).cpu("2").tolerates("own"));
    }
    cloud.scale_up(0).increased.iter().map(|resized| resized.new).sum()
}

#[test]
fn daemon_sets_take_their_room_on_the_nodes_where_they_belong() {
    let agent = || pod("agent").cpu("1").tolerates("own");
    assert_eq!(nodes_beside(agent()), 2);
    assert_eq!(nodes_beside(agent().selector("kind", "general")), 2);
    assert_eq!(nodes_beside(agent().affinity("kind", Operator::In, &["general"])), 2);
    assert_eq!(nodes_beside(agent().selector("kind", "other")), 1);
    assert_eq!(nodes_beside(agent().affinity("kind", Operator::In, &["other"])), 1);
    assert_eq!(nodes_beside(pod("agent").cpu("1")), 1, "it does not tolerate the taint");
}

#[test]
fn a_port_that_a_daemon_set_takes_is_taken_on_every_new_node() {
    let scene = world()
        .group("general", "general", "", 0)
        .daemon_set(daemon_set("agent", pod("agent").host_port(9100)))
        .pod(web("web").host_port(9100));
    let mut cloud = Cloud::new(scene.build(), at_once([pool("general")]));
    assert_eq!(cloud.scale_up(0).result, ScaleUpResult::NoOptionsAvailable);
}
