//! The life of an increase: journalled, asked for, done, failed, superseded or taken back.

use headroom_core::config::{Config, Mode};
use headroom_core::history::{Action, Decision, DecisionOutcome, History, INTENTS_MAX, IncreasePhase};
use headroom_core::known::Known;
use headroom_core::nodes::increase;
use headroom_core::nodes::scale_up::limits::{Limit, Room, pool_barrier, whole_barrier};
use headroom_core::nodes::state::cluster_state::ClusterState;
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{
    FailureClass, GroupState, Instance, InstanceState, LaunchFailure, ProviderState,
};
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};

use crate::scale_up::{answer, check, plan_fresh};

/// The world after kwok has made the nodes of all open increases of `history`, ready a moment ago.
fn with_nodes_made(mut world: World, history: &History, config: &Config) -> World {
    for (name, memory) in &history.pools {
        for intent in &memory.intents {
            let Action::Increase(increase) = &intent.action else { continue };
            let template = config.pool(name).and_then(|pool| pool.template.clone()).expect("a template");
            for node_name in increase.node_names(name, &intent.id) {
                let made = node(&node_name).of(name, &increase.group).age(0).with(|node| {
                    node.allocatable = template.allocatable.clone();
                    node.capacity = template.capacity.clone();
                });
                world.apply(Delta::NodeApplied(Box::new(made.build())));
            }
        }
    }
    world
}

pub(crate) fn increased(pool: &str, intent: &str) -> Outcome {
    Outcome { pool: pool.into(), intent: intent.into(), result: StepResult::Increased }
}

pub(crate) fn failed(pool: &str, intent: &str) -> Outcome {
    let result =
        StepResult::IncreaseFailed { class: FailureClass::QuotaExceeded, message: "no".into(), created: 0 };
    Outcome { pool: pool.into(), intent: intent.into(), result }
}

#[test]
fn replanning_after_the_journal_buys_nothing_twice() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("1").times(9)).build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    let second = plan(&world, &first.next_history, &config, NOW);
    assert_eq!(second.steps, first.steps, "the unanswered step is repeated");
    assert_eq!(second.next_history, first.next_history);
}

#[test]
fn more_pods_open_a_second_increase_of_the_same_group() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = plan_fresh(&world, &config).next_history;
    absorb(&mut history, &[increased("general", "1-1")], &config, NOW);
    let mut world = world;
    for pod in pod("api").cpu("4").times(3) {
        world.apply(Delta::PodApplied(Box::new(pod)));
    }
    check(&plan(&world, &history, &config, NOW), &[("general", "a", 2, 5)]);
}

#[test]
fn increase_is_done_when_its_named_nodes_are_there() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    let made = with_nodes_made(world, &first.next_history, &config);
    let second = plan(&made, &first.next_history, &config, NOW);
    let memory = &second.next_history.pools["general"];
    assert!(memory.intents.is_empty());
    assert_eq!(memory.decisions[0].outcome, DecisionOutcome::Done);
    check(&second, &[]);
    assert_eq!(second.reasons.pods[0].on_existing_count, 2);
}

#[test]
fn increase_of_a_cloud_group_is_done_when_all_instances_are_nodes() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = plan_fresh(&world, &config).next_history;
    absorb(&mut history, &[increased("general", "1-1")], &config, NOW);
    let after = |count: u32| {
        let mut builder = headroom_core::testing::world();
        for index in 0..count {
            builder = builder.node(node(&format!("ip-{index}")).of("general", "a").age(0));
        }
        builder.group("general", "a", "", 2).pods(pod("web").cpu("4").times(2)).build()
    };
    let partly = plan(&after(1), &history, &config, NOW);
    assert_eq!(partly.next_history.pools["general"].intents.len(), 1);
    check(&partly, &[]);
    let wholly = plan(&after(2), &history, &config, NOW);
    assert!(wholly.next_history.pools["general"].intents.is_empty());
}

#[test]
fn increase_that_nobody_answered_is_done_at_its_deadline_if_all_is_there() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let history = plan_fresh(&world, &config).next_history;
    let came = headroom_core::testing::world()
        .node(node("ip-0").of("general", "a").age(0))
        .node(node("ip-1").of("general", "a").age(0))
        .group("general", "a", "", 2)
        .build();
    let deadline = history.pools["general"].intents[0].deadline;
    let waiting = plan(&came, &history, &config, deadline);
    assert_eq!(waiting.next_history.pools["general"].intents.len(), 1, "it is asked for once more");
    let ended = plan(&came, &history, &config, deadline.plus(Seconds(1)));
    let memory = &ended.next_history.pools["general"];
    assert!(memory.intents.is_empty() && memory.backoffs.is_empty());
    assert_eq!(memory.decisions[0].outcome, DecisionOutcome::Done);
}

#[test]
fn increase_that_misses_its_deadline_fails_and_holds_the_group_back() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = plan_fresh(&world, &config).next_history;
    absorb(&mut history, &[increased("general", "1-1")], &config, NOW);
    let at_deadline = UnixTime(NOW.0 + 900);
    let waiting = plan(&world, &history, &config, at_deadline);
    assert_eq!(waiting.next_history.pools["general"].intents.len(), 1);
    assert_eq!(waiting.wake_at, Some(UnixTime(at_deadline.0 + 1)));

    let late = UnixTime(at_deadline.0 + 1);
    let over = plan(&world, &history, &config, late);
    check(&over, &[]);
    let memory = &over.next_history.pools["general"];
    assert_eq!(memory.decisions[0].outcome, DecisionOutcome::Failed);
    let backoff = memory.backoffs.values().next().expect("a backoff");
    assert_eq!((backoff.class, backoff.until), (FailureClass::ProvisionTimeout, UnixTime(late.0 + 300)));
    assert_eq!(answer(&over, "web-0", "general").0, Reason::BackingOff);
}

#[test]
fn refused_increase_is_tried_on_the_next_pool_at_once() {
    let world =
        world().group("a", "g", "", 0).group("b", "g", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("a"), pool("b")]);
    let first = plan_fresh(&world, &config);
    check(&first, &[("a", "g", 0, 2)]);
    let mut history = first.next_history;
    absorb(&mut history, &[failed("a", "1-1")], &config, NOW);
    let second = plan(&world, &history, &config, NOW);
    check(&second, &[("b", "g", 0, 2)]);
    assert_eq!(second.wake_at, Some(UnixTime(NOW.0 + 301)));
}

#[test]
fn superseded_increase_is_planned_anew() {
    let start = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = plan_fresh(&start, &config).next_history;
    let outcome = Outcome { pool: "general".into(), intent: "1-1".into(), result: StepResult::Superseded };
    absorb(&mut history, &[outcome], &config, NOW);
    let moved = world().node(node("n").of("general", "a")).group("general", "a", "", 1);
    let busy = moved.pod(pod("busy").cpu("4").on("n")).pods(pod("web").cpu("4").times(2)).build();
    let second = plan(&busy, &history, &config, NOW);
    check(&second, &[("general", "a", 1, 3)]);
}

#[test]
fn purchases_that_are_overtaken_one_after_the_other_hold_their_group_back() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = headroom_core::history::History::default();
    for number in 1..=3 {
        let found = plan(&world, &history, &config, NOW);
        check(&found, &[("general", "a", 0, 2)]);
        history = found.next_history;
        let intent = format!("1-{number}");
        let outcome = Outcome {
            pool: "general".into(),
            intent: intent.as_str().into(),
            result: StepResult::Superseded,
        };
        absorb(&mut history, &[outcome], &config, NOW);
    }
    let held = plan(&world, &history, &config, NOW);
    check(&held, &[]);
    let backoff = history.pools["general"].backoffs.values().next().expect("held back");
    assert!(backoff.message.contains("overtaken"), "{}", backoff.message);
}

#[test]
fn failure_reported_by_the_cloud_is_counted_once() {
    let mut state = GroupState { max: 10, ..GroupState::default() };
    state.failures.push(headroom_core::world::provider::LaunchFailure {
        key: headroom_core::world::provider::BackoffKey { group: "a".into(), ..Default::default() },
        class: FailureClass::OutOfCapacity,
        message: "none left".into(),
        at: UnixTime(NOW.0 - 10),
    });
    let world = world().group_state("general", "a", state).build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    let second = plan(&world, &first.next_history, &config, UnixTime(NOW.0 + 5));
    assert_eq!(second.next_history, first.next_history);
    let backoff = second.next_history.pools["general"].backoffs.values().next().expect("a backoff");
    assert_eq!((backoff.failures, backoff.until), (1, UnixTime(NOW.0 + 290)));
}

#[test]
fn failure_from_before_an_increase_says_nothing_about_it() {
    let config = config([pool("general")]);
    let first =
        plan_fresh(&world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(1)).build(), &config);
    check(&first, &[("general", "a", 0, 1)]);
    let backoffs_after = |at: UnixTime| {
        let mut state = GroupState { target: 1, max: 10, ..GroupState::default() };
        state.failures.push(headroom_core::world::provider::LaunchFailure {
            key: headroom_core::world::provider::BackoffKey { group: "a".into(), ..Default::default() },
            class: FailureClass::OutOfCapacity,
            message: "none left".into(),
            at,
        });
        let world = world().group_state("general", "a", state).pods(pod("web").cpu("4").times(1)).build();
        plan(&world, &first.next_history, &config, UnixTime(NOW.0 + 1)).next_history.pools["general"]
            .backoffs
            .len()
    };
    assert_eq!((backoffs_after(UnixTime(NOW.0 - 1)), backoffs_after(NOW)), (0, 1));
}

#[test]
fn full_journal_means_no_new_action() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5)).build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    let mut history = first.next_history;
    let memory = history.pools.get_mut("general").expect("memory");
    let intent = memory.intents[0].clone();
    memory.intents = (0..50)
        .map(|index| {
            let mut intent = intent.clone();
            intent.id = format!("1-{index}").into();
            if let Action::Increase(increase) = &mut intent.action {
                increase.group = "other".into();
                increase.to = 1;
                increase.phase = IncreasePhase::Requested;
            }
            intent
        })
        .collect();
    let plan = plan(&world, &history, &config, NOW);
    assert_eq!(answer(&plan, "web-0", "general").0, Reason::JournalFull);
}

#[test]
fn what_a_failed_increase_did_not_get_is_taken_back_before_it_is_forgotten() {
    let start = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let config = config([pool("general")]);
    let mut history = plan_fresh(&start, &config).next_history;
    let outcome = |result| Outcome { pool: "general".into(), intent: "1-1".into(), result };
    absorb(&mut history, &[outcome(StepResult::Increased)], &config, NOW);
    let mut state = GroupState { target: 2, max: 10, ..GroupState::default() };
    state.failures.push(headroom_core::world::provider::LaunchFailure {
        key: headroom_core::world::provider::BackoffKey { group: "a".into(), ..Default::default() },
        class: FailureClass::OutOfCapacity,
        message: "none left".into(),
        at: UnixTime(NOW.0 + 1),
    });
    let failed = world().group_state("general", "a", state).pods(pod("web").cpu("4").times(2)).build();
    let second = plan(&failed, &history, &config, UnixTime(NOW.0 + 5));
    let cancels = second
        .steps
        .iter()
        .filter(|step| matches!(step, headroom_core::plan::Step::Cancel { from: 0, to: 2, .. }));
    assert_eq!((cancels.count(), second.steps.len()), (1, 1), "{:?}", second.steps);
    let mut history = second.next_history;
    assert_eq!(history.pools["general"].backoffs.len(), 1);
    absorb(&mut history, &[outcome(StepResult::Increased)], &config, UnixTime(NOW.0 + 6));
    assert!(history.pools["general"].intents.is_empty());
}

/// The two pods of most tests here, and group a of pool general as a read of `at` shows it.
fn shown(at: UnixTime, state: GroupState) -> World {
    let mut world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let groups = [("a".into(), GroupState { max: 10, ..state })].into();
    let value = ProviderState { groups, ..ProviderState::default() };
    world.apply(Delta::ProviderObserved("general".into(), Known::Known { value, at }));
    world
}

/// The memory after an increase that `start` asks for, which the cloud accepted at `at`.
pub(crate) fn accepted_from(start: &World, config: &Config, at: UnixTime) -> History {
    let mut history = plan_fresh(start, config).next_history;
    absorb(&mut history, &[increased("general", "1-1")], config, at);
    history
}

/// The same for a from 0 to 2, at [`NOW`].
fn accepted(config: &Config) -> History {
    accepted_from(&shown(NOW, GroupState::default()), config, NOW)
}

#[test]
fn accepted_increase_that_was_lowered_afterwards_is_superseded_and_its_pods_are_planned_anew() {
    let config = config([pool("general")]);
    let history = accepted(&config);
    let later = UnixTime(NOW.0 + 61);
    let found = plan(&shown(later, GroupState::default()), &history, &config, later);
    let memory = &found.next_history.pools["general"];
    assert_eq!(memory.decisions[1].outcome, DecisionOutcome::Superseded);
    check(&found, &[("general", "a", 0, 2)]);
    assert!(memory.backoffs.is_empty(), "what somebody took back is no failure");
}

#[test]
fn view_that_is_hardly_newer_than_the_acceptance_ends_no_increase() {
    let config = config([pool("general")]);
    let history = accepted(&config);
    let later = UnixTime(NOW.0 + 300);
    for read_at in [UnixTime(NOW.0 - 5), NOW, UnixTime(NOW.0 + 60)] {
        let found = plan(&shown(read_at, GroupState::default()), &history, &config, later);
        assert_eq!(found.next_history, history, "read at {read_at}");
        check(&found, &[]);
    }
}

#[test]
fn increase_in_a_group_that_shrinks_meanwhile_ends_when_all_that_is_wanted_is_there() {
    let config = config([pool("general")]);
    let history = accepted(&config);
    let later = UnixTime(NOW.0 + 120);
    // One of the two did not start yet: it still counts as coming, though less is wanted than was accepted.
    let waiting = shown(later, GroupState { target: 1, ..GroupState::default() });
    let found = plan(&waiting, &history, &config, later);
    assert_eq!(found.next_history.pools["general"].intents.len(), 2, "one for the other pod");
    check(&found, &[("general", "a", 1, 2)]);

    let one = world().node(node("ip-1").of("general", "a").age(0)).group("general", "a", "", 1).build();
    let Some(Known::Known { value, .. }) = one.provider("general").cloned() else { panic!("known") };
    let mut there = one;
    there.apply(Delta::ProviderObserved("general".into(), Known::Known { value, at: later }));
    let found = plan(&there, &history, &config, later);
    let memory = &found.next_history.pools["general"];
    assert_eq!((memory.intents.len(), memory.decisions[0].outcome), (0, DecisionOutcome::Superseded));
}

#[test]
fn only_what_the_cloud_accepted_counts_as_added_from_the_moment_it_was_decided() {
    let start = shown(NOW, GroupState::default());
    let config = config([pool("general")]);
    let decided = plan_fresh(&start, &config).next_history;
    let later = UnixTime(NOW.0 + 7);
    let after = |outcome| {
        let mut history = decided.clone();
        absorb(&mut history, &[outcome], &config, later);
        history.pools["general"].last_scale_up
    };
    assert_eq!(after(increased("general", "1-1")), Some(NOW));
    assert_eq!(after(failed("general", "1-1")), None);
}

#[test]
fn what_the_cloud_has_accepted_is_neither_asked_for_again_nor_taken_back() {
    let config = config([pool("general")]);
    let found = plan(&shown(NOW, GroupState::default()), &accepted(&config), &config, NOW);
    assert_eq!(found.steps, []);
}

#[test]
fn nothing_is_asked_for_in_a_pool_that_is_not_worked_on() {
    let world = shown(NOW, GroupState::default());
    let config = config([pool("general")]);
    let history = plan_fresh(&world, &config).next_history;
    let asked = |world: &World, change: fn(&mut headroom_core::config::Pool)| {
        let mut config = config.clone();
        change(&mut config.pools[0]);
        let cluster = ClusterState::new(world, &history, &config, NOW, &mut Wake::new(NOW));
        increase::steps(&history, &cluster).len()
    };
    assert_eq!(asked(&world, |_| {}), 1);
    assert_eq!(asked(&world, |pool| pool.mode = Mode::Preview), 0);
    assert_eq!(asked(&world, |pool| pool.deleting = true), 0);
    let mut unknown = world.clone();
    unknown.apply(Delta::ProviderObserved("general".into(), Known::Unknown { why: "timeout".into() }));
    assert_eq!(asked(&unknown, |_| {}), 0);
}

/// Two were accepted at [`NOW`], and the cloud reports a failure a second later.
fn after_a_failure(target: u32, instances: u32) -> headroom_core::plan::Plan {
    let config = config([pool("general")]);
    let failure = LaunchFailure {
        key: BackoffKey { group: "a".into(), ..BackoffKey::default() },
        class: FailureClass::OutOfCapacity,
        message: "none left".into(),
        at: UnixTime(NOW.0 + 1),
    };
    let instance = Instance { state: InstanceState::Running, node: None, created_at: Some(NOW) };
    let instances = (0..instances).map(|index| (format!("i-{index}").into(), instance.clone())).collect();
    let state = GroupState { target, instances, failures: vec![failure], ..GroupState::default() };
    plan(&shown(UnixTime(NOW.0 + 5), state), &accepted(&config), &config, UnixTime(NOW.0 + 5))
}

#[test]
fn a_size_is_taken_back_only_while_the_cloud_wants_more_than_there_is() {
    assert!(matches!(after_a_failure(2, 1).steps[..], [Step::Cancel { .. }]));
    let all_there = after_a_failure(2, 2);
    assert_eq!((all_there.steps.len(), all_there.next_history.pools["general"].intents.len()), (0, 0));
}

#[test]
fn a_size_is_taken_back_until_nothing_is_missing_or_its_time_is_over() {
    let config = config([pool("general")]);
    let history = after_a_failure(2, 1).next_history;
    let deadline = history.pools["general"].intents[0].deadline;
    let open = |target: u32, instances: u32, at: UnixTime| {
        let instance = Instance { state: InstanceState::Running, node: None, created_at: Some(at) };
        let instances = (0..instances).map(|index| (format!("i-{index}").into(), instance.clone())).collect();
        let state = GroupState { target, instances, ..GroupState::default() };
        let found = plan(&shown(at, state), &history, &config, at);
        found.steps.iter().any(|step| matches!(step, Step::Cancel { .. }))
    };
    let soon = UnixTime(NOW.0 + 10);
    assert!(open(2, 1, soon));
    assert!(!open(2, 2, soon), "all came after all");
    assert!(!open(0, 0, soon), "the size is what it was");
    assert!(open(2, 1, deadline));
    assert!(!open(2, 1, deadline.plus(Seconds(1))));
}

/// Whatever state they are in, they have registered.
#[test]
fn nodes_of_every_state_are_there_at_the_deadline() {
    let config = config([pool("general")]);
    let history = accepted(&config);
    let late = UnixTime(NOW.0 + 901);
    let outcome = |second: headroom_core::testing::NodeBuilder| {
        let world = world().node(node("ip-0").of("general", "a")).node(second.of("general", "a"));
        let mut found = plan(&world.group("general", "a", "", 3).build(), &history, &config, late);
        found.next_history.pools.remove("general").expect("memory").decisions[0].outcome
    };
    assert_eq!(outcome(node("ip-1")), DecisionOutcome::Done);
    assert_eq!(outcome(node("ip-1").unready_for(3600)), DecisionOutcome::Done);
    assert_eq!(outcome(node("ip-1").age(-900).unready_for(0)), DecisionOutcome::Done);
    assert_eq!(outcome(node("ip-1").with(|node| node.deleting = true)), DecisionOutcome::Done);
}

#[test]
fn a_refused_increase_ends_what_was_decided_on_top_of_it_and_not_what_was_accepted_before() {
    let start = shown(NOW, GroupState::default());
    let config = config([pool("general")]);
    let mut history = plan_fresh(&start, &config).next_history;
    let memory = history.pools.get_mut("general").expect("memory");
    for (id, phase) in [("1-2", IncreasePhase::Requested), ("1-3", IncreasePhase::Journalled)] {
        let mut intent = memory.intents[0].clone();
        intent.id = id.into();
        let Action::Increase(increase) = &mut intent.action else { panic!("an increase") };
        increase.phase = phase;
        memory.intents.push(intent);
    }
    absorb(&mut history, &[failed("general", "1-1")], &config, NOW);
    let left: Vec<&str> = history.pools["general"].intents.iter().map(|intent| &*intent.id).collect();
    assert_eq!(left, ["1-2"]);
}

#[test]
fn only_purchases_of_the_group_that_were_overtaken_within_a_minute_hold_it_back() {
    let start = shown(NOW, GroupState::default());
    let config = config([pool("general")]);
    let held = |change: fn(&mut Decision)| {
        let mut history = plan_fresh(&start, &config).next_history;
        let memory = history.pools.get_mut("general").expect("memory");
        for id in ["0-1", "0-2"] {
            let mut before = memory.decisions[0].clone();
            (before.id, before.outcome) = (id.into(), DecisionOutcome::Superseded);
            change(&mut before);
            memory.decisions.push(before);
        }
        let result = StepResult::Superseded;
        let outcome = Outcome { pool: "general".into(), intent: "1-1".into(), result };
        absorb(&mut history, &[outcome], &config, NOW);
        !history.pools["general"].backoffs.is_empty()
    };
    assert!(held(|_| {}));
    assert!(held(|before| before.time = UnixTime(NOW.0 - 60)));
    assert!(!held(|before| before.time = UnixTime(NOW.0 - 61)));
    assert!(!held(|before| before.group = "b".into()));
    assert!(!held(|before| before.outcome = DecisionOutcome::Done));
}

#[test]
fn a_group_that_grows_as_a_whole_needs_room_for_all_that_it_lacks() {
    let room = |nodes| Room { nodes, limit: Limit::new(Reason::MaxNodesReached, "full") };
    let barred =
        |most, nodes| whole_barrier("g", 4, most, vec![room(9), room(nodes)]).map(|found| found.reason);
    assert_eq!(barred(4, 4), None);
    assert_eq!(barred(3, 4), Some(Reason::PoolLimitReached));
    assert_eq!(barred(4, 3), Some(Reason::MaxNodesReached));
}

#[test]
fn a_pool_grows_while_its_journal_has_room_for_an_intent() {
    let world = world().group("general", "a", "", 0).group("general", "b", "", 0);
    let world = world.pods(pod("web").cpu("4").times(1)).build();
    let config = config([pool("general")]);
    let history = plan_fresh(&world, &config).next_history;
    let barred = |intents: usize| {
        let mut memory = history.pools["general"].clone();
        memory.intents = vec![memory.intents[0].clone(); intents];
        let state = ClusterState::new(&world, &history, &config, NOW, &mut Wake::new(NOW));
        pool_barrier(&state.pools["general"], Some(&memory)).map(|limit| limit.reason)
    };
    assert_eq!(barred(INTENTS_MAX - 1), None);
    assert_eq!(barred(INTENTS_MAX), Some(Reason::JournalFull));
}

/// More groups than the journal has intents, each with room for one node, and pods for all of them.
#[test]
fn a_plan_buys_in_no_more_groups_than_its_journal_takes() {
    let groups = INTENTS_MAX + 10;
    let world = (0..groups).fold(world(), |world, index| {
        let one = GroupState { max: 1, ..GroupState::default() };
        world.group_state("general", &format!("g{index:02}"), one)
    });
    let world = world.pods(pod("web").cpu("4").times(groups));
    let plan = plan_fresh(&world.build(), &config([pool("general").bounds(0, 100)]));
    assert_eq!(plan.next_history.pools["general"].intents.len(), INTENTS_MAX);
    let bought = plan.steps.iter().filter(|step| matches!(step, Step::Increase { .. })).count();
    assert_eq!(bought, INTENTS_MAX);
}

#[test]
fn a_minimum_over_more_groups_than_the_journal_takes_is_met_in_turns() {
    let world = (0..INTENTS_MAX + 10).fold(world(), |world, index| {
        let one = GroupState { max: 1, ..GroupState::default() };
        world.group_state("general", &format!("g{index:02}"), one)
    });
    let plan = plan_fresh(&world.build(), &config([pool("general").bounds(55, 100)]));
    assert_eq!(plan.next_history.pools["general"].intents.len(), INTENTS_MAX);
}
