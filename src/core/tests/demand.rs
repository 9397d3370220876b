//! Pods and replicas that want a node, those that do not, and the report of both.

use std::collections::BTreeMap;

use headroom_core::config::Config;
use headroom_core::history::{Anticipation, History, PoolHistory};
use headroom_core::nodes::wake::Wake;
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, controller, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::Pod;
use headroom_core::world::workload::ControllerKind;

use crate::scale_up::{check, plan_fresh, verdict};

fn later(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 + seconds)
}

fn general() -> Config {
    config([pool("general")])
}

fn empty() -> WorldBuilder {
    world().group("general", "a", "", 0)
}

/// This many replicas of a core each, none of which exists.
fn decided_on(name: &str, replicas: u32) -> WorldBuilder {
    empty().controller(controller(ControllerKind::ReplicaSet, name, replicas, pod(name).cpu("1")))
}

/// Reason and number of those that did not count as demand.
fn skipped(plan: &Plan) -> Vec<(Reason, u32)> {
    let verdicts = plan.reasons.pods.iter();
    verdicts.filter_map(|verdict| Some((verdict.skipped?, verdict.pods_count))).collect()
}

// === pods ===

fn preemptor(node: &str) -> PodBuilder {
    pod("preemptor").cpu("4").with(|pod: &mut Pod| pod.nominated_node = Some(node.into()))
}

#[test]
fn pod_whose_preemption_is_under_way_buys_nothing_though_its_node_is_full_yet() {
    let world = empty().node(node("n1")).pod(pod("victim").cpu("4").on("n1")).pod(preemptor("n1")).build();
    check(&plan_fresh(&world, &general()), &[]);
}

#[test]
fn pod_nominated_for_a_node_that_is_gone_gets_a_new_one() {
    check(&plan_fresh(&empty().pod(preemptor("gone")).build(), &general()), &[("general", "a", 0, 1)]);
}

#[test]
fn pod_that_the_scheduler_has_not_looked_at_is_demand() {
    let unseen = pod("web").cpu("1").with(|pod| pod.unschedulable = false);
    check(&plan_fresh(&empty().pod(unseen).build(), &general()), &[("general", "a", 0, 1)]);
}

#[test]
fn pod_that_an_annotation_calls_one_of_a_daemon_set_buys_nothing() {
    let agent =
        pod("agent").cpu("1").owner("ReplicaSet", "agent").with_class(|class| class.daemon_set = true);
    let plan = plan_fresh(&empty().pod(agent).build(), &general());
    check(&plan, &[]);
    assert_eq!(skipped(&plan), [(Reason::DaemonSetPod, 1)]);
}

#[test]
fn pods_that_are_no_demand_are_reported_by_owner_namespace_and_reason_with_a_few_names() {
    let idle = |name: &str, owner: &str| pod(name).owner("ReplicaSet", owner).priority(-11);
    let world = empty()
        .pods(idle("a", "x").times(5))
        .pods(idle("b", "y").times(2))
        .pod(pod("c").owner("DaemonSet", "x"))
        .pod(idle("d", "x").namespace("other"))
        .build();
    let plan = plan_fresh(&world, &general());
    let mut skipped: Vec<_> = plan
        .reasons
        .pods
        .iter()
        .map(|one| (one.skipped, &*one.namespace, &*one.owner, one.pods_count, one.examples.len()))
        .collect();
    skipped.sort();
    let mut expected = [
        (Some(Reason::DaemonSetPod), "default", "x", 1, 1),
        (Some(Reason::Expendable), "default", "x", 5, 3),
        (Some(Reason::Expendable), "default", "y", 2, 2),
        (Some(Reason::Expendable), "other", "x", 1, 1),
    ];
    expected.sort();
    assert_eq!(skipped, expected);
}

#[test]
fn demand_is_reported_with_the_names_of_a_few_pods() {
    let plan = plan_fresh(&empty().pods(pod("web").cpu("1").times(5)).build(), &general());
    let examples: Vec<&str> = verdict(&plan, "web-0").examples.iter().map(|name| &**name).collect();
    assert_eq!(examples, ["default/web-0", "default/web-1", "default/web-2"]);
}

// === replicas that do not exist yet ===

#[test]
fn bound_on_replicas_that_do_not_exist_yet_holds_for_all_controllers_together() {
    let world = decided_on("a", 5)
        .controller(controller(ControllerKind::ReplicaSet, "b", 5, pod("b").cpu("1").memory("1Gi")))
        .controller(controller(ControllerKind::ReplicaSet, "c", 5, pod("c").cpu("1").memory("2Gi")))
        .build();
    let mut config = general();
    config.cluster.max_anticipated_pods = 8;
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("general", "a", 0, 2)]);
    let left_out = Reason::AnticipationLimit;
    // The same part of each.
    assert_eq!(skipped(&plan), [(left_out, 3), (left_out, 2), (left_out, 2)]);
}

#[test]
fn replicas_that_are_to_wait_before_nodes_are_bought_are_bought_for_when_they_exist() {
    let patient = pod("web").cpu("1").with_class(|class| class.scale_up_delay = Some(Seconds(30)));
    let web = controller(ControllerKind::ReplicaSet, "web", 4, patient);
    check(&plan_fresh(&empty().controller(web).build(), &general()), &[]);
}

fn remembered(entry: Anticipation) -> History {
    let anticipations = BTreeMap::from([("ReplicaSet/default/web".into(), entry)]);
    let memory = PoolHistory { anticipations, ..PoolHistory::default() };
    History { pools: BTreeMap::from([("general".into(), memory)]) }
}

fn entry(plan: &Plan) -> Option<Anticipation> {
    plan.next_history.pools["general"].anticipations.get("ReplicaSet/default/web").copied()
}

#[test]
fn replicas_have_a_minute_to_appear_before_they_are_paused() {
    let world = decided_on("web", 4).build();
    let bought = plan_fresh(&world, &general());
    let waiting = plan(&world, &bought.next_history, &general(), later(59));
    assert_eq!(skipped(&waiting), []);
    assert_eq!(verdict(&waiting, "web").on_existing_count, 4, "on the node that is on its way");
    assert_eq!(waiting.wake_at, Some(later(60)));
    let over = plan(&world, &bought.next_history, &general(), later(60));
    assert_eq!(skipped(&over), [(Reason::AnticipationBackoff, 4)]);
}

#[test]
fn each_pause_is_twice_as_long_as_the_one_before_up_to_half_an_hour() {
    for (failures, seconds) in [(0, 300), (1, 600), (2, 1200), (3, 1800), (20, 1800)] {
        let history = remembered(Anticipation { since: later(-60), until: None, failures });
        let paused = plan(&decided_on("web", 4).build(), &history, &general(), NOW);
        assert_eq!(entry(&paused).and_then(|entry| entry.until), Some(later(seconds)), "{failures} before");
        assert_eq!(paused.wake_at, Some(later(seconds)));
    }
}

#[test]
fn pause_is_over_at_the_instant_for_which_the_plan_wakes() {
    let history = remembered(Anticipation { since: later(-60), until: Some(later(300)), failures: 1 });
    let planned = |now| plan(&decided_on("web", 4).build(), &history, &general(), now);
    check(&planned(later(299)), &[]);
    check(&planned(later(300)), &[("general", "a", 0, 1)]);
}

#[test]
fn controller_whose_pods_have_appeared_starts_afresh_when_it_grows_again() {
    let full = |replicas: u32| {
        let pods = || pod("web").cpu("1").owner("ReplicaSet", "web");
        let on_n1 = pods().on("n1").times(4);
        world()
            .node(node("n1").of("general", "a"))
            .group("general", "a", "", 1)
            .controller(controller(ControllerKind::ReplicaSet, "web", replicas, pods()))
            .pods(on_n1)
            .build()
    };
    let history = remembered(Anticipation { since: NOW, until: None, failures: 0 });
    let settled = plan(&full(4), &history, &general(), later(30));
    assert_eq!(entry(&settled), None);
    let grown = plan(&full(8), &settled.next_history, &general(), later(600));
    check(&grown, &[("general", "a", 1, 2)]);
}

// === when to plan again ===

#[test]
fn plan_wakes_for_the_earliest_instant_ahead_and_never_for_its_own() {
    let mut wake = Wake::new(NOW);
    wake.note(NOW);
    wake.note(later(-5));
    assert_eq!(wake.earliest(), None, "a plan that woke for its own instant would run for ever");
    wake.note(later(5));
    wake.note(later(3));
    assert_eq!(wake.earliest(), Some(later(3)));
}
