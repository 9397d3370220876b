//! Groups that grow to their maximum at once and go as a whole (groupScaling ZeroOrMax), and pools that are balanced.

use std::sync::Arc;

use headroom_core::config::{Budget, Ceiling, Config, GroupScaling};
use headroom_core::history::{Action, History, PoolHistory, RemovalPhase};
use headroom_core::plan;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, PoolBuilder, WorldBuilder, config, controller, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::SCALE_DOWN_DISABLED_ANNOTATION;
use headroom_core::world::provider::GroupState;
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, World};

use crate::scale_up::{answer, check, plan_fresh};

/// A pool whose groups are scaled as a whole.
fn whole(name: &str) -> PoolBuilder {
    pool(name).with(|pool| {
        pool.group_scaling = GroupScaling::ZeroOrMax;
        pool.scale_down.delay_after_add = Seconds(0);
    })
}

fn empty_group(max: u32) -> GroupState {
    GroupState { max, ..GroupState::default() }
}

fn wanting(pods: usize) -> WorldBuilder {
    world().pods(pod("web").cpu("3").times(pods))
}

#[test]
fn group_grows_to_its_maximum_at_once() {
    let slices = wanting(1).group_state("tpu", "g", empty_group(4)).build();
    check(&plan_fresh(&slices, &config([whole("tpu")])), &[("tpu", "g", 0, 4)]);
    check(&plan_fresh(&slices, &config([pool("tpu")])), &[("tpu", "g", 0, 1)]);
    // What is left of a group is bought at once too.
    let rest = world().node(node("n1").of("tpu", "g").cpu("1")).pods(pod("web").cpu("3").times(1));
    let state = GroupState { target: 1, max: 4, ..GroupState::default() };
    check(
        &plan_fresh(&rest.group_state("tpu", "g", state).build(), &config([whole("tpu")])),
        &[("tpu", "g", 1, 4)],
    );
}

#[test]
fn group_that_would_pass_a_limit_as_a_whole_stays_at_zero_and_says_so() {
    let world = wanting(1).group_state("tpu", "g", empty_group(4)).build();
    let refusal = |config: Config| {
        let found = plan_fresh(&world, &config);
        check(&found, &[]);
        answer(&found, "web-0", "tpu")
    };
    let (reason, message) = refusal(config([whole("tpu").bounds(0, 3)]));
    assert_eq!(reason, Reason::MaxNodesReached);
    assert!(message.contains("4 nodes at once"), "{message}");
    let mut limited = config([whole("tpu")]);
    limited.cluster.max_nodes = Some(3);
    assert_eq!(refusal(limited).0, Reason::ClusterLimitReached);
}

#[test]
fn second_group_is_begun_only_when_the_first_is_not_enough() {
    let groups =
        |pods| wanting(pods).group_state("tpu", "a", empty_group(2)).group_state("tpu", "b", empty_group(2));
    let config = config([whole("tpu")]);
    check(&plan_fresh(&groups(2).build(), &config), &[("tpu", "a", 0, 2)]);
    let more = groups(3).build();
    let first = plan_fresh(&more, &config);
    check(&first, &[("tpu", "a", 0, 2), ("tpu", "b", 0, 2)]);
    let again = plan(&more, &first.next_history, &config, NOW);
    assert_eq!(again.next_history, first.next_history, "nothing is bought twice");
}

#[test]
fn all_nodes_of_a_whole_group_count_where_pools_are_compared() {
    let world = wanting(1)
        .group_state("general", "g", empty_group(9))
        .group_state("a-tpu", "g", empty_group(4))
        .build();
    check(&plan_fresh(&world, &config([whole("a-tpu"), pool("general")])), &[("general", "g", 0, 1)]);
}

#[test]
fn minimum_is_reached_by_whole_groups() {
    let world =
        world().group_state("tpu", "a", empty_group(4)).group_state("tpu", "b", empty_group(4)).build();
    check(&plan_fresh(&world, &config([whole("tpu").bounds(1, 100)])), &[("tpu", "a", 0, 4)]);
    check(&plan_fresh(&world, &config([whole("tpu").bounds(1, 3)])), &[]);
}

/// So many nodes of the group g of pool tpu, with these pods, beside a node of pool general with room.
fn slice(
    count: usize,
    change: impl Fn(usize, NodeBuilder) -> NodeBuilder,
    pods: Vec<PodBuilder>,
) -> WorldBuilder {
    let replicas = u32::try_from(pods.len() + 1).expect("few");
    let mut builder = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", replicas, pod("x")))
        .node(node("room").of("general", "r"));
    for index in 0..count {
        builder = builder.node(change(index, node(&format!("n{index:02}")).of("tpu", "g")));
    }
    for one in pods.into_iter().chain([pod("busy").cpu("2500m").on("room")]) {
        builder = builder.pod(one.owner("ReplicaSet", "web"));
    }
    builder.group("general", "r", "", 1).group("tpu", "g", "", u32::try_from(count).expect("few"))
}

fn settings() -> Config {
    config([whole("tpu"), pool("general")])
}

/// The memory in which all nodes of [`slice`] have been unneeded for an hour.
fn unneeded(count: usize) -> History {
    let since = UnixTime(NOW.0 - 3600);
    let unneeded = (0..count).map(|index| (Arc::from(format!("n{index:02}")), since)).collect();
    let memory = PoolHistory { unneeded, ..PoolHistory::default() };
    History { pools: [("tpu".into(), memory)].into() }
}

fn shrunk(world: WorldBuilder, count: usize, config: &Config) -> Plan {
    plan(&world.build(), &unneeded(count), config, NOW)
}

/// Number of nodes that each open removal names.
fn removals(plan: &Plan) -> Vec<usize> {
    plan.next_history.pools["tpu"].removals().map(|(_, removal)| removal.victims.len()).collect()
}

fn reason(plan: &Plan, node: &str) -> (Reason, Option<String>) {
    let verdict = plan.reasons.nodes.of(node).expect("judged");
    (verdict.reason, verdict.object.map(str::to_owned))
}

#[test]
fn group_goes_as_a_whole_in_one_action_though_some_of_its_nodes_are_drained() {
    let found = shrunk(slice(3, |_, node| node, vec![]), 3, &settings());
    assert_eq!(removals(&found), [3]);
    let light = vec![pod("p").cpu("500m").on("n01")];
    let found = shrunk(slice(3, |_, node| node, light), 3, &settings());
    assert_eq!(removals(&found), [3]);
    assert_eq!(reason(&found, "n00").0, Reason::Underutilized);
}

#[test]
fn group_stays_as_a_whole_while_one_of_its_nodes_is_needed_and_names_it() {
    let heavy = vec![pod("p").cpu("3500m").on("n01")];
    let found = shrunk(slice(3, |_, node| node, heavy), 3, &settings());
    assert_eq!(removals(&found), Vec::<usize>::new());
    assert_eq!(reason(&found, "n00"), (Reason::GroupGoesAsWhole, Some("node/n01".to_owned())));
    assert_eq!(reason(&found, "n01").0, Reason::NotUnderutilized);
    assert_eq!(found.next_history.pools["tpu"].unneeded.len(), 2, "the clocks of the others go on");
    // One that is not unneeded for long enough is as good a reason.
    let mut young = unneeded(3);
    young.pools.get_mut("tpu").expect("there").unneeded.insert("n02".into(), NOW);
    let found = plan(&slice(3, |_, node| node, vec![]).build(), &young, &settings(), NOW);
    assert_eq!(removals(&found), Vec::<usize>::new());
    assert_eq!(reason(&found, "n02").0, Reason::NotUnneededLongEnough);
    assert_eq!(reason(&found, "n00"), (Reason::GroupGoesAsWhole, Some("node/n02".to_owned())));
}

#[test]
fn large_group_goes_beyond_the_parallelism_of_the_cluster_and_not_beyond_a_budget() {
    let many = || slice(12, |_, node| node, vec![]);
    assert_eq!(removals(&shrunk(many(), 12, &settings())), [12]);
    let mut strict = settings();
    strict.pools[1].scale_down.budgets =
        vec![Budget { name: "few".into(), ceiling: Ceiling::Nodes(5), reasons: Vec::new(), window: None }];
    let found = shrunk(many(), 12, &strict);
    assert_eq!(removals(&found), Vec::<usize>::new());
    assert_eq!(reason(&found, "n11"), (Reason::BudgetExhausted, Some("budget/tpu/few".to_owned())));
}

#[test]
fn what_a_group_that_stays_had_taken_is_there_for_others() {
    // Ten removals at once: a group of twelve that cannot go must not use them up.
    let mut world = slice(
        12,
        |index, node| match index {
            11 => node.annotation(SCALE_DOWN_DISABLED_ANNOTATION, "true"),
            _ => node,
        },
        vec![],
    );
    for index in 0..3 {
        world = world.node(node(&format!("z{index}")).of("zeta", "z"));
    }
    let config = config([
        whole("tpu"),
        pool("general"),
        pool("zeta").with(|pool| pool.scale_down.unneeded_for = Seconds(0)),
    ]);
    let found = shrunk(world.group("zeta", "z", "", 3), 12, &config);
    assert_eq!(removals(&found), Vec::<usize>::new());
    let zeta = found.next_history.pools["zeta"].removals().map(|(_, one)| one.victims.len()).sum::<usize>();
    assert_eq!(zeta, 3);
}

#[test]
fn minimum_keeps_the_whole_group() {
    let mut config = settings();
    config.pools[1].min_nodes = 1;
    let found = shrunk(slice(3, |_, node| node, vec![]), 3, &config);
    assert_eq!(removals(&found), Vec::<usize>::new());
}

#[test]
fn removal_of_a_group_is_undone_as_a_whole_when_one_node_is_to_stay() {
    let found = shrunk(slice(3, |_, node| node, vec![]), 3, &settings());
    let mut spared: World = slice(3, |_, node| node, vec![]).build();
    let kept = node("n01").of("tpu", "g").annotation(SCALE_DOWN_DISABLED_ANNOTATION, "true");
    spared.apply(Delta::NodeApplied(Box::new(kept.build())));
    let after = plan(&spared, &found.next_history, &settings(), UnixTime(NOW.0 + 1));
    let memory = &after.next_history.pools["tpu"];
    let [intent] = &memory.intents[..] else { panic!("{:?}", memory.intents) };
    let Action::Remove(removal) = &intent.action else { panic!("{intent:?}") };
    assert_eq!((removal.phase, removal.victims.len()), (RemovalPhase::Undoing, 3));
    let unmarked = after.steps.iter().filter(|step| matches!(step, Step::Unmark { .. })).count();
    assert_eq!(unmarked, 3);
    assert!(memory.decisions[0].message.contains("as a whole"), "{}", memory.decisions[0].message);
}

#[test]
fn node_that_a_person_asks_to_go_goes_alone() {
    let ask = |index, node: NodeBuilder| match index {
        1 => node.annotation("headroom.dev/remove", "requested"),
        _ => node,
    };
    let heavy = vec![pod("p").cpu("3500m").on("n00")];
    let found = shrunk(slice(3, ask, heavy), 3, &settings());
    assert_eq!(removals(&found), [1]);
    assert_eq!(reason(&found, "n01").0, Reason::RemovalRequested);
}

// === pools whose nodes are alike ===

fn balanced<const COUNT: usize>(pools: [PoolBuilder; COUNT]) -> Config {
    let mut config = config(pools);
    config.cluster.balance_similar_pools = true;
    config
}

#[test]
fn pools_alike_share_what_one_of_them_would_get_where_that_is_switched_on() {
    let world = wanting(4).group("a", "g", "", 0).group("b", "g", "", 0).build();
    check(&plan_fresh(&world, &config([pool("a"), pool("b")])), &[("a", "g", 0, 4)]);
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b")])), &[("a", "g", 0, 2), ("b", "g", 0, 2)]);
}

#[test]
fn three_pools_alike_get_as_many_each() {
    let world = wanting(6).group("a", "g", "", 0).group("b", "g", "", 0).group("c", "g", "", 0).build();
    let expected = [("a", "g", 0, 2), ("b", "g", 0, 2), ("c", "g", 0, 2)];
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b"), pool("c")])), &expected);
}

#[test]
fn smaller_pool_of_those_alike_gets_more() {
    let mut builder = wanting(4);
    for name in ["n1", "n2"] {
        builder = builder.node(node(name).of("b", "g")).pod(pod(&format!("{name}-full")).cpu("4").on(name));
    }
    let world = builder.group("a", "g", "", 0).group("b", "g", "", 2).build();
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b")])), &[("a", "g", 0, 3), ("b", "g", 2, 3)]);
}

#[test]
fn pools_that_differ_or_cannot_take_the_pods_or_are_full_are_not_balanced() {
    let world = wanting(4).group("a", "g", "", 0).group("b", "g", "", 0).build();
    let only_a = [("a", "g", 0, 4)];
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b").shape("8", "32Gi").taint("x", "y")])), &only_a);
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b").taint("x", "y")])), &only_a);
    check(&plan_fresh(&world, &balanced([pool("a"), pool("b").label("disk", "fast")])), &only_a);
    check(
        &plan_fresh(&world, &balanced([pool("a"), pool("b").bounds(0, 1)])),
        &[("a", "g", 0, 3), ("b", "g", 0, 1)],
    );
    check(&plan_fresh(&world, &balanced([pool("a"), whole("b")])), &only_a);
}

/// Pool b comes to its maximum before it gets to the smaller pod.
#[test]
fn pool_that_is_full_before_it_has_some_of_all_pods_is_balanced_if_its_nodes_take_them() {
    let shared = |small: PodBuilder, expected: &[(&str, &str, u32, u32)]| {
        let builder = wanting(4).pod(small.cpu("2500m"));
        let world = builder.group("a", "g", "", 0).group("b", "g", "", 0).build();
        // The label is of those that do not make pools differ.
        let of = |name: &str| pool(name).label("eks.amazonaws.com/nodegroup", name);
        check(&plan_fresh(&world, &balanced([of("a"), of("b").bounds(0, 3)])), expected);
    };
    shared(pod("small"), &[("a", "g", 0, 3), ("b", "g", 0, 2)]);
    shared(pod("small").selector("eks.amazonaws.com/nodegroup", "a"), &[("a", "g", 0, 5)]);
}
