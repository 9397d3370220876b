//! Results of increases and failures count in the plan that observes them, and an unchanged observation changes
//! nothing.

use headroom_core::config::Config;
use headroom_core::history::{Backoff, DecisionOutcome, History, Increase, IncreasePhase, PoolHistory};
use headroom_core::known::Known;
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::plan::Step;
use headroom_core::testing::{NOW, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{
    FailureClass, GroupState, Instance, InstanceState, LaunchFailure, ProviderState,
};
use headroom_core::world::{Delta, World};

use crate::increases::accepted_from;
use crate::scale_up::{check, plan_fresh};

fn later(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 + seconds)
}

fn key() -> BackoffKey {
    BackoffKey { group: "a".into(), ..BackoffKey::default() }
}

fn failure(at: UnixTime) -> LaunchFailure {
    let class = FailureClass::OutOfCapacity;
    LaunchFailure { key: key(), class, message: "none left".into(), at }
}

/// A group that the cloud has tried in vain to let grow.
fn failing(target: u32, at: UnixTime) -> GroupState {
    GroupState { target, max: 10, failures: vec![failure(at)], ..GroupState::default() }
}

fn remembered(memories: impl IntoIterator<Item = (&'static str, PoolHistory)>) -> History {
    let pools = memories.into_iter().map(|(pool, memory)| (pool.into(), memory)).collect();
    History { pools }
}

#[test]
fn failure_that_is_reported_now_sends_the_pods_to_another_pool_at_once() {
    let world = world()
        .group_state("first", "a", failing(0, later(-10)))
        .group("second", "b", "", 0)
        .pod(pod("web").cpu("4"))
        .build();
    let config = config([pool("first"), pool("second")]);
    check(&plan_fresh(&world, &config), &[("second", "b", 0, 1)]);
    // The other pool has its own memory, in which nothing has changed.
    let history = remembered([("second", PoolHistory::default())]);
    check(&plan(&world, &history, &config, NOW), &[("second", "b", 0, 1)]);
}

#[test]
fn failure_that_is_forgotten_now_lets_the_group_grow_at_once() {
    let held_back = Backoff {
        class: FailureClass::OutOfCapacity,
        failures: 1,
        since: later(-61),
        until: later(239),
        message: "none left".into(),
    };
    let memory = PoolHistory { backoffs: [(key(), held_back)].into(), ..PoolHistory::default() };
    let world = world().group("general", "a", "", 0).pod(pod("web").cpu("4")).build();
    let planned = |reset: i64| {
        let general = pool("general").with(|pool| pool.scale_up.backoff_reset_after = Seconds(reset));
        plan(&world, &remembered([("general", memory.clone())]), &config([general]), NOW)
    };
    check(&planned(60), &[("general", "a", 0, 1)]);
    check(&planned(61), &[]);
}

#[test]
fn failure_is_taken_up_as_long_as_it_would_be_remembered() {
    let reset = pool("general").build().scale_up.backoff_reset_after;
    let backoffs = |age: i64| {
        let world = world().group_state("general", "a", failing(0, later(-age))).build();
        let plan = plan_fresh(&world, &config([pool("general")]));
        plan.next_history.pools.get("general").map_or(0, |memory| memory.backoffs.len())
    };
    assert_eq!((backoffs(reset.0), backoffs(reset.0 + 1), backoffs(reset.0 + 3600)), (1, 0, 0));
}

fn web() -> WorldBuilder {
    world().pods(pod("web").cpu("4").times(2))
}

/// Returns a world after a read of the group at `at`.
fn shown(at: UnixTime, state: GroupState) -> World {
    let mut world = web().build();
    let value = ProviderState { groups: [("a".into(), state)].into(), ..ProviderState::default() };
    world.apply(Delta::ProviderObserved("general".into(), Known::Known { value, at }));
    world
}

fn outcome(plan: &Plan) -> DecisionOutcome {
    plan.next_history.pools["general"].decisions.last().expect("a decision").outcome
}

/// An increase of group a from 0 to 2 that the cloud has accepted.
fn accepted(config: &Config) -> History {
    accepted_from(&web().group("general", "a", "", 0).build(), config, NOW)
}

#[test]
fn older_failure_of_its_group_ends_no_increase_that_the_cloud_has_accepted() {
    let config = config([pool("general")]);
    let found = |at| plan(&shown(NOW, failing(2, at)), &accepted(&config), &config, later(1));
    let (before, after) = (found(later(-1)), found(NOW));
    assert_eq!((outcome(&before), outcome(&after)), (DecisionOutcome::InProgress, DecisionOutcome::Failed));
    let taken_back = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::Cancel { .. }));
    assert_eq!((taken_back(&before), taken_back(&after)), (false, true));
}

#[test]
fn increase_that_was_lowered_is_reported_as_such_at_its_deadline_too() {
    let config = config([pool("general")]);
    let instance = |node: Option<&str>| {
        let node = node.map(std::sync::Arc::from);
        Instance { state: InstanceState::Running, node, created_at: Some(later(900)) }
    };
    // One of two nodes is there and one instance too many: all that the cloud wants now has come.
    let instances = [("kwok://n1".into(), instance(Some("n1"))), ("i-2".into(), instance(None))].into();
    let state = GroupState { target: 1, max: 10, instances, ..GroupState::default() };
    let mut world = shown(later(901), state);
    world.apply(Delta::NodeApplied(Box::new(node("n1").of("general", "a").age(0).build())));
    let open = plan(&world, &accepted(&config), &config, later(900));
    assert_eq!(outcome(&open), DecisionOutcome::InProgress);
    let ended = plan(&world, &accepted(&config), &config, later(901));
    let first = ended.next_history.pools["general"].decisions.first().map(|made| made.outcome);
    assert_eq!(first, Some(DecisionOutcome::Superseded));
    assert!(ended.next_history.pools["general"].backoffs.is_empty());
}

/// Journalled increases of pool general, by group and sizes.
fn journal(increases: &[(&str, u32, u32)]) -> History {
    let config = config([pool("general")]);
    let template = plan_fresh(&web().group("general", "a", "", 0).build(), &config).next_history;
    let mut memory = template.pools["general"].clone();
    let (intent, decision) = (memory.intents.remove(0), memory.decisions.remove(0));
    for (index, (group, from, to)) in increases.iter().enumerate() {
        let (mut intent, mut decision) = (intent.clone(), decision.clone());
        intent.id = format!("1-{index}").into();
        let phase = IncreasePhase::Journalled;
        let increase = Increase { group: (*group).into(), from: *from, to: *to, phase, accepted_at: None };
        intent.action = headroom_core::history::Action::Increase(increase);
        decision.id = intent.id.clone();
        memory.intents.push(intent);
        memory.decisions.push(decision);
    }
    remembered([("general", memory)])
}

/// The increases that are still open once these nodes, whose names identify their increase, are there.
fn open(history: &History, nodes: &[(&str, &str)]) -> Vec<String> {
    let mut builder =
        nodes.iter().fold(world(), |world, (name, group)| world.node(node(name).of("general", group).age(0)));
    for group in ["a", "b"] {
        let target = nodes.iter().filter(|(_, of)| *of == group).count();
        builder = builder.group("general", group, "", u32::try_from(target).expect("few"));
    }
    let found = plan(&builder.build(), history, &config([pool("general")]), NOW);
    found.next_history.pools["general"].intents.iter().map(|intent| intent.id.to_string()).collect()
}

#[test]
fn increase_waits_for_an_earlier_one_of_its_own_group_and_for_none_that_ends_with_it() {
    let two = journal(&[("a", 0, 1), ("a", 1, 2)]);
    let (first, second) = (("general-1-0-0", "a"), ("general-1-1-0", "a"));
    assert_eq!(open(&two, &[second]), ["1-0", "1-1"]);
    assert!(open(&two, &[first, second]).is_empty(), "both end at once");
    // That one of another group ends changes nothing.
    let three = journal(&[("b", 0, 1), ("a", 0, 1), ("a", 1, 2)]);
    assert_eq!(open(&three, &[("general-1-0-0", "b"), ("general-1-2-0", "a")]), ["1-1", "1-2"]);
}

/// Five machines were bought for five pods: three are on their way, and two have failed to launch.
fn two_of_five_failed(failed: InstanceState, second: u32) -> World {
    let of = |index: u32| {
        let state = if index < 3 { InstanceState::Creating } else { failed };
        (format!("m-{index}").into(), Instance { state, node: None, created_at: Some(NOW) })
    };
    let state = GroupState { instances: (0..5).map(of).collect(), ..failing(5, NOW) };
    let other = GroupState { target: second, max: 10, ..GroupState::default() };
    world()
        .group_state("general", "a", state)
        .group_state("general", "b", other)
        .pods(pod("web").cpu("4").times(5))
        .build()
}

#[test]
fn failed_machines_are_bought_for_once_elsewhere_and_taken_back_at_once() {
    let config = config([pool("general")]);
    let world = two_of_five_failed(InstanceState::Failed, 0);
    let start =
        headroom_core::testing::world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5));
    let first = plan(&world, &accepted_from(&start.build(), &config, NOW), &config, NOW);
    check(&first, &[("general", "b", 0, 2)]);
    let deleted = |plan: &Plan| -> Vec<String> {
        let victims = plan.steps.iter().filter_map(|step| match step {
            Step::Delete { victims, .. } => Some(victims.iter().map(|victim| victim.id.to_string())),
            _ => None,
        });
        victims.flatten().collect()
    };
    assert_eq!(deleted(&first), ["m-3", "m-4"], "those on their way stay");

    // The cloud has taken the new size, and the failed machines are still there.
    let mut history = first.next_history.clone();
    let bought = |step: &Step| match step {
        Step::Increase { pool, intent, .. } => Some(crate::increases::increased(pool, intent)),
        _ => None,
    };
    let outcomes: Vec<_> = first.steps.iter().filter_map(bought).collect();
    let world = two_of_five_failed(InstanceState::Failed, 2);
    headroom_core::absorb(&mut history, &outcomes, &config, NOW);
    let second = plan(&world, &history, &config, NOW);
    check(&second, &[]);
    assert!(deleted(&second).is_empty(), "an open removal names them already");
}
