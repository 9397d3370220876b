//! What profile ClusterAutoscaler does to the nodes that go, and when: waits, evictions, batches, and giving up.

use headroom_core::config::Config;
use headroom_core::nodes::upstream::{Act, DeleteResult, ScaleUpResult};
use headroom_core::testing::{NOW, controller, no_schedule, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::{DELETION_TAINT, SCALE_DOWN_DISABLED_ANNOTATION};
use headroom_core::world::pod::{Pod, PodPhase, SafeToEvict};
use headroom_core::world::workload::ControllerKind;

use crate::upstream_cloud::{Cloud, at_once, web};

/// Empty nodes `a-0` and on of one group, beside a large node of nobody.
fn nodes(count: usize) -> (World, Config) {
    let mut scene = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", 99, web("web")))
        .node(node("spare").cpu("64").memory("256Gi"));
    for index in 0..count {
        scene = scene.node(node(&format!("a-{index}")).of("general", "a"));
    }
    let scene = scene.group("general", "a", "", u32::try_from(count).expect("few nodes"));
    (scene.build(), at_once([pool("general")]))
}

fn cloud(count: usize) -> Cloud {
    let (world, config) = nodes(count);
    Cloud::new(world, config)
}

fn hold(cloud: &mut Cloud, name: &str, held: bool) {
    cloud.change_node(name, |node| {
        if held {
            node.annotations.insert(SCALE_DOWN_DISABLED_ANNOTATION, "true");
        } else {
            node.annotations.remove(SCALE_DOWN_DISABLED_ANNOTATION);
        }
    });
}

fn at(second: i64, name: &str) -> (i64, String) {
    (second, name.to_owned())
}

#[test]
fn a_node_is_not_touched_before_its_wait_is_over_and_late_is_no_reason_to_stay() {
    let mut cloud = cloud(1);
    cloud.tick(0);
    cloud.act(4);
    assert_eq!(cloud.deletions(), []);
    cloud.act(9);
    assert_eq!(cloud.deletions(), [at(9, "a-0")]);
}

#[test]
fn what_runs_on_a_node_is_evicted_but_what_cannot_move_or_does_not_count() {
    let mut cloud = cloud(1);
    let ending = |pod: &mut Pod| pod.deletion_at = Some(UnixTime(NOW.0 - 3600));
    cloud.put_pod(web("web").cpu("100m").on("a-0"));
    cloud.put_pod(web("ending").on("a-0").with(ending));
    cloud.put_pod(web("at-the-cutoff").priority(-10).on("a-0"));
    cloud.put_pod(web("expendable").priority(-11).on("a-0"));
    cloud.put_pod(pod("mirror").owner("Node", "a-0").with_class(|class| class.mirror = true).on("a-0"));
    cloud.tick(0);
    cloud.until(5);
    assert_eq!(cloud.evictions(), [at(5, "at-the-cutoff"), at(5, "ending"), at(5, "web")]);
    assert_eq!(cloud.deletions(), [at(5, "a-0")]);
}

#[test]
fn an_empty_node_goes_with_the_pods_that_have_been_ending_for_long() {
    let mut cloud = cloud(1);
    let ending = |pod: &mut Pod| pod.deletion_at = Some(UnixTime(NOW.0 - 3600));
    cloud.put_pod(web("ending").on("a-0").with(ending));
    cloud.tick(0);
    cloud.until(5);
    assert_eq!(cloud.evictions(), []);
    assert_eq!(cloud.deletions(), [at(5, "a-0")]);
}

#[test]
fn pods_are_asked_to_go_at_least_once() {
    let mut cloud = cloud(1);
    cloud.put_pod(web("web").cpu("100m").on("a-0"));
    cloud.config.pools[0].scale_down.drain.eviction_timeout = Seconds(0);
    cloud.tick(0);
    cloud.until(5);
    assert_eq!(cloud.evictions(), [at(5, "web")]);
    assert_eq!(cloud.deletions(), [at(5, "a-0")]);
}

#[test]
fn a_refused_eviction_is_tried_every_ten_seconds_until_its_time_is_over() {
    let mut cloud = cloud(1);
    cloud.put_pod(web("clinging").cpu("100m").on("a-0"));
    cloud.put_pod(web("yielding").cpu("100m").on("a-0"));
    cloud.clinging.insert("clinging".to_owned());
    cloud.tick(0);
    cloud.until(300);
    let mut expected: Vec<(i64, String)> = (0..12).map(|round| at(5 + 10 * round, "clinging")).collect();
    expected.insert(1, at(5, "yielding"));
    assert_eq!(cloud.evictions(), expected);
    assert!(cloud.asked.contains(&(125, Act::HardUntaint("a-0".into()))), "{:?}", cloud.asked);
    assert_eq!(cloud.deletions(), []);
}

#[test]
fn daemon_set_pods_are_asked_again_no_sooner_although_others_have_gone() {
    let mut cloud = cloud(1);
    cloud.put_pod(web("web").cpu("100m").on("a-0"));
    cloud.put_daemon_set("agent");
    cloud.put_pod(pod("agent").namespace("kube-system").owner("DaemonSet", "agent").on("a-0"));
    cloud.clinging.insert("agent".to_owned());
    cloud.tick(0);
    cloud.until(24);
    assert_eq!(cloud.evictions(), [at(5, "web"), at(5, "agent"), at(15, "agent")]);
}

/// A group that goes as a whole, of an empty node and one whose pod does not go.
fn whole_with_a_clinging_pod(count: usize) -> Cloud {
    let mut cloud = cloud(count);
    cloud.config.cluster.upstream.zero_or_max = ["a".into()].into();
    cloud.put_pod(web("clinging").cpu("100m").on("a-0"));
    cloud.clinging.insert("clinging".to_owned());
    cloud
}

#[test]
fn a_whole_group_stays_as_a_whole_when_one_node_of_it_cannot_go() {
    let mut cloud = whole_with_a_clinging_pod(2);
    cloud.tick(0);
    cloud.until(300);
    assert_eq!(cloud.deletions(), []);
    for name in ["a-0", "a-1"] {
        assert!(cloud.asked.contains(&(125, Act::HardUntaint(name.into()))), "{:?}", cloud.asked);
    }
    let results = cloud.scale_down(400).results;
    assert_eq!(results["a-0"], DeleteResult::NotEvicted);
    assert_eq!(results["a-1"], DeleteResult::Internal);
}

#[test]
fn a_whole_group_that_failed_once_may_go_later() {
    let mut cloud = whole_with_a_clinging_pod(2);
    cloud.tick(0);
    cloud.until(300);
    cloud.clinging.clear();
    cloud.tick(400);
    cloud.until(500);
    assert_eq!(cloud.deletions(), [at(405, "a-1"), at(405, "a-0")]);
}

#[test]
fn a_drain_goes_on_although_its_whole_group_has_failed() {
    let mut cloud = whole_with_a_clinging_pod(2);
    cloud.tick(0);
    // The empty node is empty no more when it is looked at again.
    cloud.put_pod(web("new").cpu("100m").on("a-1"));
    cloud.until(20);
    assert!(cloud.asked.contains(&(5, Act::HardUntaint("a-1".into()))), "{:?}", cloud.asked);
    assert_eq!(cloud.evictions(), [at(5, "clinging"), at(15, "clinging")]);
}

#[test]
fn nodes_of_a_group_are_collected_and_go_together() {
    let mut cloud = cloud(3);
    cloud.config.cluster.upstream.down.batch_for = Seconds(30);
    for name in ["a-1", "a-2"] {
        hold(&mut cloud, name, true);
    }
    cloud.tick(0);
    hold(&mut cloud, "a-1", false);
    cloud.tick(10);
    hold(&mut cloud, "a-2", false);
    cloud.tick(40);
    cloud.until(200);
    assert_eq!(cloud.deletions(), [at(35, "a-0"), at(35, "a-1"), at(75, "a-2")]);
}

#[test]
fn a_batch_that_is_late_is_over_all_the_same() {
    let mut cloud = cloud(2);
    cloud.config.cluster.upstream.down.batch_for = Seconds(30);
    hold(&mut cloud, "a-1", true);
    cloud.tick(0);
    cloud.act(5);
    cloud.act(50);
    hold(&mut cloud, "a-1", false);
    cloud.tick(60);
    cloud.until(200);
    assert_eq!(cloud.deletions(), [at(50, "a-0"), at(95, "a-1")]);
}

#[test]
fn leftover_marks_come_off_and_the_node_takes_pods_at_once() {
    let mut cloud = cloud(0);
    cloud.put_node(node("left").taint(DELETION_TAINT, "1").taint("own", "yes"));
    cloud.put_pod(web("web").cpu("1").selector("kubernetes.io/hostname", "left").tolerates("own"));
    let status = cloud.tick(0);
    assert_eq!(cloud.asked, [(0, Act::HardUntaint("left".into()))]);
    assert_eq!(status.scale_up.expect("a report").result, ScaleUpResult::NotNeeded);
}

#[test]
fn a_cordon_is_left_on_where_nodes_are_not_cordoned() {
    for cordon in [true, false] {
        let mut cloud = cloud(0);
        cloud.config.cluster.upstream.down.cordon = cordon;
        cloud.put_node(node("left").taint(DELETION_TAINT, "1").with(|node| node.unschedulable = true));
        cloud.tick(0);
        let freed = cloud.asked.contains(&(0, Act::Uncordon("left".into())));
        assert_eq!(freed, cordon);
    }
}

/// A node that is being drained of a small pod, and a second one that has just room for it.
fn draining() -> Cloud {
    let mut cloud = cloud(0);
    cloud.put_node(node("a-0").of("general", "a"));
    cloud.put_pod(web("web").cpu("500m").on("a-0"));
    cloud.change_node("spare", |node| node.allocatable.cpu_milli = 4000);
    cloud.put_pod(web("filler").cpu("3500m").on("spare"));
    cloud.put_group("a", 1);
    assert_eq!(cloud.scale_down(0).started.len(), 1);
    cloud
}

#[test]
fn pods_of_a_node_that_is_drained_want_a_place_already() {
    let mut cloud = draining();
    assert_eq!(cloud.scale_up(1).result, ScaleUpResult::NotNeeded);
    cloud.put_pod(web("quick").cpu("500m").priority(1));
    assert_eq!(cloud.scale_up(2).increased.len(), 1);
}

#[test]
fn pods_that_will_not_come_back_from_a_drained_node_want_no_place() {
    let large = |name: &str| web(name).cpu("2").priority(1).on("a-0");
    let naked = |name: &str| pod(name).cpu("2").priority(1).on("a-0");
    for (name, odd) in [
        ("mirror", large("odd").with_class(|class| class.mirror = true)),
        ("mirror of nobody", naked("odd").with_class(|class| class.mirror = true)),
        ("naked", naked("odd").with_class(|class| class.safe_to_evict = SafeToEvict::Always)),
        ("ending", large("odd").with(|pod| pod.deletion_at = Some(NOW))),
        ("finished", large("odd").with(|pod| pod.phase = PodPhase::Succeeded)),
        ("expendable", large("odd").priority(-11)),
    ] {
        let mut cloud = draining();
        cloud.put_pod(odd);
        assert_eq!(cloud.scale_up(1).result, ScaleUpResult::NotNeeded, "{name}");
    }
    let mut cloud = draining();
    cloud.put_pod(pod("agent").owner("DaemonSet", "agent").cpu("500m").priority(1).on("a-0"));
    assert_eq!(cloud.scale_up(1).result, ScaleUpResult::NotNeeded, "the room is for others");
    cloud.put_pod(large("more").priority(-10));
    assert_eq!(cloud.scale_up(2).increased.len(), 1, "at the cutoff a pod counts");
}

#[test]
fn taints_of_a_node_besides_the_leftover_one_keep_pods_off() {
    let mut cloud = cloud(0);
    cloud.put_node(node("left").with(|node| {
        node.taints = vec![no_schedule(DELETION_TAINT, "1"), no_schedule("own", "yes")];
    }));
    cloud.put_pod(web("web").cpu("1").selector("kubernetes.io/hostname", "left"));
    assert_eq!(cloud.scale_up(0).result, ScaleUpResult::NoOptionsAvailable);
}
