//! Conditions in which pools do not grow, the size that they grow to, and the messages on both.

use headroom_core::config::{GroupScaling, Mode};
use headroom_core::history::{Backoff, Decision, History, PoolHistory};
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, config, controller, node, pod, pool, world,
};
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::node::HOSTNAME_LABEL;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{FailureClass, GroupState};
use headroom_core::world::workload::ControllerKind;

use crate::scale_up::{answer, busy, check, plan_fresh};

fn group_of(target: u32, max: u32) -> GroupState {
    GroupState { target, max, ..GroupState::default() }
}

fn full_node(name: &str, pool: &str) -> (NodeBuilder, PodBuilder) {
    (node(name).of(pool, "g"), pod(&format!("{name}-full")).cpu("4").on(name))
}

// === minimums ===

#[test]
fn pool_that_may_not_grow_is_not_filled_up_to_its_minimum() {
    let world = world().group("general", "a", "", 0).build();
    for change in [(|pool| pool.scale_up.enabled = false) as fn(&mut headroom_core::config::Pool), |pool| {
        pool.deleting = true
    }] {
        check(&plan_fresh(&world, &config([pool("general").bounds(3, 10).with(change)])), &[]);
    }
}

#[test]
fn group_that_grows_as_a_whole_gets_what_it_lacks_and_no_more_for_the_minimum() {
    let whole = pool("tpu").bounds(2, 100).with(|pool| pool.group_scaling = GroupScaling::ZeroOrMax);
    let world = world().node(node("n1").of("tpu", "g")).group_state("tpu", "g", group_of(1, 4)).build();
    check(&plan_fresh(&world, &config([whole])), &[("tpu", "g", 1, 4)]);
}

// === names ===

#[test]
fn purchase_takes_no_name_of_a_node_that_a_pool_of_the_same_name_has_left_behind() {
    let waiting = pod("web").cpu("1").times(8);
    let orphans = ["general-1-1-1", "general-1-2-0"].map(|name| node(name).cpu("100m"));
    let base = world().pods(waiting).group("general", "g", "", 0);
    let config = config([pool("general").shape("4", "8Gi")]);
    let ids = |plan: Plan| -> Vec<String> {
        plan.next_history.pools["general"].intents.iter().map(|intent| intent.id.to_string()).collect()
    };
    let world = orphans.into_iter().fold(base, WorldBuilder::node).build();
    let first = plan_fresh(&world, &config);
    check(&first, &[("general", "g", 0, 2)]);
    assert_eq!(ids(first), ["1-3"], "1-1 and 1-2 would ask for names that are taken");
}

// === several pools ===

fn ten_kinds() -> (WorldBuilder, Vec<PoolBuilder>) {
    let names: Vec<String> = (0..10).map(|index| format!("p{index}")).collect();
    let world = names.iter().fold(world(), |world, name| {
        let wanting = pod(&format!("for-{name}")).cpu("1").selector("kind", name);
        world.group(name, "g", "", 0).pod(wanting)
    });
    (world, names.iter().map(|name| pool(name).label("kind", name)).collect())
}

#[test]
fn one_plan_grows_as_many_pools_as_the_pods_need() {
    let (world, pools) = ten_kinds();
    assert_eq!(plan_fresh(&world.build(), &config(pools)).steps.len(), 10);
}

#[test]
fn all_pools_in_preview_report_what_they_would_do() {
    let (world, pools) = ten_kinds();
    let pools = pools.into_iter().map(|pool| pool.mode(Mode::Preview));
    let plan = plan_fresh(&world.build(), &config(pools));
    let sizes: Vec<(u32, u32)> = plan.reasons.preview.iter().map(|action| (action.from, action.to)).collect();
    assert_eq!(sizes, [(0, 1); 10]);
}

#[test]
fn larger_pool_of_those_alike_gets_less_though_it_was_chosen() {
    let mut builder = world().pods(pod("web").cpu("3").times(4));
    for (node, load) in [full_node("n1", "a"), full_node("n2", "a")] {
        builder = builder.node(node).pod(load);
    }
    let world = builder.group("a", "g", "", 2).group("b", "g", "", 0).build();
    let mut config = config([pool("a"), pool("b")]);
    config.cluster.balance_similar_pools = true;
    check(&plan_fresh(&world, &config), &[("a", "g", 2, 3), ("b", "g", 0, 3)]);
}

// === messages ===

/// The one decision on pool general.
fn decision(world: WorldBuilder, pool: PoolBuilder) -> Decision {
    let plan = plan_fresh(&world.build(), &config([pool]));
    let decisions = &plan.next_history.pools["general"].decisions;
    assert_eq!(decisions.len(), 1);
    decisions[0].clone()
}

fn reason_and_message(world: WorldBuilder) -> (Reason, String) {
    let decision = decision(world.group("general", "a", "", 0), pool("general"));
    (decision.reason, decision.message.to_string())
}

fn replicas(count: usize) -> Vec<headroom_core::world::pod::Pod> {
    pod("web").cpu("1").owner("ReplicaSet", "web").times(count)
}

fn wanted(replicas: u32) -> WorldBuilder {
    world().controller(controller(
        ControllerKind::ReplicaSet,
        "web",
        replicas,
        pod("web").cpu("1").owner("ReplicaSet", "web"),
    ))
}

#[test]
fn decision_names_the_number_of_its_pods_and_their_largest_owner() {
    let large = pod("db").cpu("2").owner("StatefulSet", "db");
    let (reason, message) = reason_and_message(world().pod(large).pods(replicas(6)));
    assert_eq!(reason, Reason::PodsUnschedulable);
    assert_eq!(message, "+2 nodes for 7 pods that fit no node, most of default/web");
    let (_, message) = reason_and_message(world().pods(replicas(1)));
    assert_eq!(message, "+1 node for 1 pod that fits no node, most of default/web");
}

#[test]
fn decision_names_how_many_of_the_pods_do_not_exist_yet() {
    let (reason, message) = reason_and_message(wanted(8).pods(replicas(3)));
    assert_eq!(reason, Reason::PodsUnschedulable);
    assert_eq!(
        message,
        "+2 nodes for 8 pods that fit no node, 5 of them not created yet, most of default/web"
    );
    let (reason, message) = reason_and_message(wanted(5));
    assert_eq!(reason, Reason::ReplicasAnticipated);
    assert_eq!(message, "+2 nodes for 5 replicas that do not exist yet, most of default/web");
    let (_, message) = reason_and_message(wanted(1));
    assert_eq!(message, "+1 node for 1 replica that does not exist yet, most of default/web");
}

#[test]
fn decision_names_the_minimum_that_it_is_for() {
    let decision = decision(world().group("general", "a", "", 0), pool("general").bounds(3, 10));
    assert_eq!(decision.reason, Reason::BelowMinNodes);
    assert_eq!(&*decision.message, "+3 nodes: the pool is to have at least 3");
}

#[test]
fn decision_names_a_few_of_its_pods() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("1").times(5));
    let decision = decision(world, pool("general"));
    assert_eq!(decision.examples.len(), 3);
    assert!(decision.examples.iter().all(|name| name.starts_with("default/web-")), "{decision:?}");
}

fn refused(world: &World, history: &History, pool: PoolBuilder) -> (Reason, String) {
    let found: Plan = plan(world, history, &config([pool]), NOW);
    check(&found, &[]);
    answer(&found, "web", "general")
}

#[test]
fn pool_reports_that_its_groups_are_full_unless_it_is_full_itself() {
    let wanting = || world().pod(pod("web").cpu("1"));
    let full = busy(busy(wanting(), "a", 3), "b", 2);
    let full = full.group_state("general", "a", group_of(3, 3)).group_state("general", "b", group_of(2, 2));
    let world = full.build();
    let none = History::default();
    assert_eq!(refused(&world, &none, pool("general")).0, Reason::GroupMaxNodesReached);
    assert_eq!(refused(&world, &none, pool("general").bounds(0, 5)).0, Reason::MaxNodesReached);
    // A group that is held back may be asked again later: that is the whole report.
    let failure = Backoff {
        class: FailureClass::OutOfCapacity,
        failures: 1,
        since: NOW,
        until: UnixTime(NOW.0 + 300),
        message: "none left".into(),
    };
    let key = BackoffKey { group: "a".into(), ..BackoffKey::default() };
    let memory = PoolHistory { backoffs: [(key, failure)].into(), ..PoolHistory::default() };
    let history = History { pools: [("general".into(), memory)].into() };
    assert_eq!(refused(&world, &history, pool("general").bounds(0, 5)).0, Reason::BackingOff);
}

#[test]
fn limits_on_amounts_are_reported_with_their_unit_and_after_the_number_of_nodes() {
    let world =
        busy(world(), "a", 2).group_state("general", "a", group_of(2, 100)).pod(pod("web").cpu("4")).build();
    let limited = |cpu_milli, memory_bytes, max| {
        pool("general").bounds(0, max).with(|pool| {
            pool.limit_cpu_milli = cpu_milli;
            pool.limit_memory_bytes = memory_bytes;
        })
    };
    let none = History::default();
    let refusal = |pool| refused(&world, &none, pool);
    assert_eq!(
        refusal(limited(Some(11_000), None, 100)),
        (Reason::PoolLimitReached, "cpu: 8000m of at most 11000m are used".to_owned())
    );
    assert_eq!(
        refusal(limited(None, Some(40 << 30), 100)),
        (
            Reason::PoolLimitReached,
            "memory: 34359738368 bytes of at most 42949672960 bytes are used".to_owned()
        )
    );
    assert_eq!(refusal(limited(Some(8_000), None, 2)).0, Reason::MaxNodesReached);
}

#[test]
fn pods_get_their_nodes_though_others_that_spread_over_nodes_have_fewer_places_by_it() {
    // Nodes without a pod of theirs, which have no room for any, are domains of the spread like others.
    let spread = pod("spread").cpu("250m").memory("4Gi").label("app", "spread");
    let world = world()
        .node(node("n1").cpu("2"))
        .node(node("n2").cpu("2"))
        .group("general", "a", "", 0)
        .pods(spread.spread("app", "spread", HOSTNAME_LABEL, 1).times(4))
        .pod(pod("web").cpu("3500m"))
        .build();
    let plan = plan_fresh(&world, &config([pool("general").shape("4", "3Gi")]));
    check(&plan, &[("general", "a", 0, 1)]);
}
