//! Increases with an unknown result: calls without an answer, nodes that are not visible, requests taken back.

use headroom_core::config::Config;
use headroom_core::history::{Action, Backoff, DecisionOutcome, History, IncreasePhase};
use headroom_core::known::Known;
use headroom_core::plan::Step;
use headroom_core::testing::{NOW, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{FailureClass, GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::view::{FRESH, Freshness, View};
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};

use crate::increases::{accepted_from, increased};
use crate::scale_up::{check, plan_fresh};

/// Two pods for which group a of pool general has to get two nodes.
fn start() -> World {
    world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(2)).build()
}

fn later(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 + seconds)
}

/// The memory after an increase of a from 0 to 2, accepted at `at`.
fn accepted(config: &Config, at: UnixTime) -> History {
    accepted_from(&start(), config, at)
}

#[test]
fn increase_is_not_done_by_the_nodes_of_a_later_one() {
    let config = config([pool("general")]);
    let mut world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(1)).build();
    let mut history = plan_fresh(&world, &config).next_history;
    world.apply(Delta::PodApplied(Box::new(pod("api").cpu("4").build())));
    history = plan(&world, &history, &config, NOW).next_history;
    assert_eq!(history.pools["general"].intents.len(), 2);
    // The creation of general-1-1-0 is still on its way to the server, and general-1-2-0 is there.
    let world = headroom_core::testing::world()
        .node(node("general-1-2-0").of("general", "a").age(0))
        .group("general", "a", "", 1)
        .pods([pod("web").cpu("4").build(), pod("api").cpu("4").build()])
        .build();
    let found = plan(&world, &history, &config, NOW);
    let open: Vec<&str> =
        found.next_history.pools["general"].intents.iter().map(|intent| &*intent.id).collect();
    assert_eq!(open, ["1-1", "1-2"], "the size that both come to is still to be reached");
    assert!(
        found.steps.iter().any(|step| matches!(step, Step::Increase { intent, .. } if &**intent == "1-1"))
    );
}

#[test]
fn what_an_earlier_term_has_opened_is_another_intent_until_this_term_has_stored_it() {
    let mut config = config([pool("general")]);
    let history = plan_fresh(&start(), &config).next_history;
    let stored = &history.pools["general"].intents[0];
    config.epoch += 1;
    let found = plan(&start(), &history, &config, NOW);
    let in_hand = &found.next_history.pools["general"].intents[0];
    assert_eq!((in_hand.epoch, &in_hand.id, &in_hand.action), (config.epoch, &stored.id, &stored.action));
    assert_ne!(in_hand, stored, "it is written again before its call is repeated");
}

#[test]
fn what_is_still_asked_for_in_a_group_that_is_held_back_is_not_bought_elsewhere_too() {
    let config = config([pool("general")]);
    let mut history = plan_fresh(&start(), &config).next_history;
    let held_back = Backoff {
        class: FailureClass::ProvisionTimeout,
        failures: 1,
        since: NOW,
        until: later(60),
        message: "1 of 1 nodes did not register in time".into(),
    };
    let memory = history.pools.get_mut("general").expect("a pool with an open increase");
    memory.backoffs.insert(BackoffKey { group: "a".into(), ..BackoffKey::default() }, held_back);
    let world = world()
        .group("general", "a", "", 0)
        .group("general", "b", "", 0)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let found = plan(&world, &history, &config, NOW);
    let asked: Vec<&str> = found
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Increase { group, .. } => Some(&**group),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["a"], "the call may land as often as it is repeated");

    accept_all(&mut history);
    let found = plan(&world, &history, &config, NOW);
    let elsewhere =
        found.steps.iter().any(|step| matches!(step, Step::Increase { group, .. } if &**group == "b"));
    assert!(elsewhere, "what was accepted before the failure is not waited for");
}

fn accept_all(history: &mut History) {
    for intent in history.pools.values_mut().flat_map(|memory| &mut memory.intents) {
        if let Action::Increase(increase) = &mut intent.action {
            (increase.phase, increase.accepted_at) = (IncreasePhase::Requested, Some(NOW));
        }
    }
}

#[test]
fn increase_does_not_end_while_its_call_is_under_way() {
    let before = config([pool("general")]);
    let history = plan_fresh(&start(), &before).next_history;
    let unwanted = config([pool("general").with(|pool| pool.scale_up.enabled = false)]);
    let world = start();
    let outcome = |freshness: &Freshness| {
        plan(View::new(&world, freshness), &history, &unwanted, NOW).next_history.pools["general"].decisions
            [0]
        .outcome
    };
    assert_eq!(outcome(&FRESH), DecisionOutcome::Cancelled);
    let asking = [("general".into(), "1-1".into())].into();
    assert_eq!(outcome(&Freshness { asking, ..Freshness::default() }), DecisionOutcome::InProgress);
}

#[test]
fn nodes_have_their_whole_time_from_the_acceptance_on() {
    let config = config([pool("general")]);
    // Between the decision and the call the operator was stopped for ten minutes.
    let history = accepted(&config, later(600));
    let outcome = |at| {
        let found = plan(&start(), &history, &config, at);
        found.next_history.pools["general"].decisions[0].outcome
    };
    assert_eq!(outcome(later(901)), DecisionOutcome::InProgress);
    assert_eq!(outcome(later(1_501)), DecisionOutcome::Failed);
}

#[test]
fn time_in_which_nothing_is_heard_of_nodes_is_not_counted_against_them() {
    let config = config([pool("general")]);
    let history = accepted(&config, NOW);
    let slow = |name: &str| node(name).of("general", "a").age(0).taint("node.kubernetes.io/not-ready", "");
    let made = world()
        .node(slow("ip-0"))
        .node(slow("ip-1"))
        .group("general", "a", "", 2)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let silent = Freshness { nodes_silent_for: Seconds(800), ..Freshness::default() };
    // They started long ago, and the watch has fallen silent before it could show that.
    let late = later(901);
    check(&plan(View::new(&made, &silent), &history, &config, late), &[]);
    check(&plan(&made, &history, &config, late), &[("general", "a", 2, 4)]);

    let nothing = start();
    let waiting = plan(View::new(&nothing, &silent), &history, &config, late);
    assert!(waiting.next_history.pools["general"].backoffs.is_empty(), "a node may have come unseen");
}

#[test]
fn what_is_being_taken_back_and_may_come_yet_is_not_bought_on_top() {
    let config = config([pool("general")]);
    let mut history = accepted(&config, NOW);
    for intent in &mut history.pools.get_mut("general").expect("memory").intents {
        if let Action::Increase(increase) = &mut intent.action {
            increase.phase = IncreasePhase::Cancelling;
        }
    }
    let wanted = world().group("general", "a", "", 2).pods(pod("web").cpu("4").times(2)).build();
    let found = plan(&wanted, &history, &config, NOW);
    assert!(found.steps.iter().all(|step| matches!(step, Step::Cancel { .. })), "{:?}", found.steps);
    assert_eq!(found.next_history.pools["general"].intents.len(), 1);
}

#[test]
fn node_on_its_way_in_a_group_of_unknown_shape_takes_pods_as_its_siblings_do() {
    // After a restart the cloud has reported the template of group a and not yet that of group b.
    let config = config([pool("general").with(|pool| pool.template = None)]);
    let known = node("ip-0").of("general", "a").zone("a").age(3_600);
    let world = world()
        .node(known)
        .pod(pod("big").cpu("4").on("ip-0"))
        .group("general", "a", "a", 1)
        .group("general", "b", "b", 0)
        .pods(pod("web").cpu("1").times(2))
        .build();
    let mut history = plan_fresh(&world, &config).next_history;
    let memory = history.pools.get_mut("general").expect("memory");
    let [intent] = &mut *memory.intents else { panic!("one increase: {:?}", memory.intents) };
    let Action::Increase(increase) = &mut intent.action else { panic!("an increase") };
    (increase.group, increase.from, increase.to) = ("b".into(), 0, 1);
    assert_eq!(plan(&world, &history, &config, NOW).next_history.pools["general"].intents.len(), 1);
}

#[test]
fn instance_that_never_became_a_node_stays_while_a_size_is_asked_for_again() {
    let config = config([pool("general")]);
    let dead = Instance { state: InstanceState::Running, node: None, created_at: Some(NOW) };
    let state =
        GroupState { target: 1, max: 10, instances: [("i-1".into(), dead)].into(), ..GroupState::default() };
    let late = later(901);
    let mut world = world().pods(pod("web").cpu("4").times(1)).build();
    let value = ProviderState { groups: [("a".into(), state)].into(), ..ProviderState::default() };
    world.apply(Delta::ProviderObserved("general".into(), Known::Known { value, at: late }));
    let removals = |history: &History| history.pools["general"].removals().count();
    let mut history = plan(&world, &History::default(), &config, late).next_history;
    assert_eq!((history.pools["general"].growing("a").count(), removals(&history)), (1, 0));
    let intent = history.pools["general"].intents[0].id.clone();
    absorb(&mut history, &[increased("general", &intent)], &config, late);
    assert_eq!(removals(&plan(&world, &history, &config, late).next_history), 1);
}
