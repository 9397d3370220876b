//! More of a removal's life: which node is still the victim, what keeps a node from its deletion, and how it ends.

use headroom_core::config::{GroupScaling, Policy};
use headroom_core::history::{DecisionOutcome, History, RemovalPhase};
use headroom_core::known::Known;
use headroom_core::nodes::removal::absorb_one;
use headroom_core::plan::{Outcome, StepResult};
use headroom_core::reason::Reason;
use headroom_core::testing::{NodeBuilder, PodBuilder, WorldBuilder, budget, daemon_set, node, pod, world};
use headroom_core::time::UnixTime;
use headroom_core::world::node::{DELETION_TAINT, INTENT_ANNOTATION, REMOVE_ANNOTATION};
use headroom_core::world::pod::{Pod, PodPhase};
use headroom_core::world::provider::{GroupState, Instance, InstanceState};
use headroom_core::world::{Delta, World};

use crate::removal::{
    ID, cluster, deletions, draining, end, evicted, later, marked, open, phase, replica, settings, step,
    victims,
};

/// No node, and a cloud that lists instance `kwok://n` in this state, or does not.
fn without_node(state: Option<InstanceState>) -> World {
    let instance = |state| Instance { state, node: Some("n".into()), created_at: None };
    let instances = state.map(|state| ("kwok://n".into(), instance(state))).into_iter().collect();
    world().group_state("a", "a-1", GroupState { instances, ..GroupState::default() }).build()
}

#[test]
fn a_victim_is_gone_with_its_node_and_from_a_deletion_on_with_its_instance() {
    let unknown = || {
        let delta = Delta::ProviderObserved("a".into(), Known::Unknown { why: "timeout".into() });
        world().delta(delta).build()
    };
    let (running, going) = (Some(InstanceState::Running), Some(InstanceState::Deleting));
    let cases = [
        (RemovalPhase::Draining, without_node(running), true),
        (RemovalPhase::Undoing, without_node(running), true),
        (RemovalPhase::Deleting, without_node(running), false),
        (RemovalPhase::Deleting, without_node(going), true),
        (RemovalPhase::Deleting, without_node(None), true),
        (RemovalPhase::Deleting, unknown(), true),
    ];
    for (index, (in_phase, world, gone)) in cases.into_iter().enumerate() {
        let mut history = open(Reason::Empty, in_phase, &["n"]);
        let advance = step(&world, &settings(|_| {}), &mut history, later(10));
        assert_eq!(phase(&history).is_none(), gone, "case {index}");
        assert_eq!(deletions(&advance).is_empty(), gone, "case {index}");
    }
}

/// A name is used again: what came after the node that was chosen is another one.
#[test]
fn a_node_that_came_under_the_name_of_a_victim_is_not_touched() {
    let went_on = |node: NodeBuilder| {
        let mut history = draining();
        step(&cluster([node], []).build(), &settings(|_| {}), &mut history, later(10));
        phase(&history) == Some(RemovalPhase::Deleting)
    };
    assert!(went_on(marked("n")));
    assert!(!went_on(marked("n").with(|node| node.provider_id = "kwok://n-again".into())));
    // A node that does not report its id is identified by its name.
    assert!(went_on(marked("n").with(|node| node.provider_id = "".into())));
}

#[test]
fn a_node_that_reports_another_id_is_the_victim_if_the_cloud_lists_it_so_by_its_name() {
    let node = marked("n").with(|node| node.provider_id = "other-form/n".into());
    let instance = Instance { state: InstanceState::Running, node: Some("n".into()), created_at: None };
    let instances = [("kwok://n".into(), instance)].into_iter().collect();
    let state = GroupState { target: 1, instances, ..GroupState::default() };
    let world = world().node(node).group_state("a", "a-1", state).build();
    let mut history = draining();
    assert_eq!(deletions(&step(&world, &settings(|_| {}), &mut history, later(10))), ["n"]);
}

#[test]
fn an_empty_node_goes_with_its_daemons_and_with_what_has_ended_and_not_with_what_runs() {
    let deleted = |pod: PodBuilder| {
        let agent = daemon_set("agent", headroom_core::testing::pod("x"));
        let world = cluster([marked("n")], [pod.on("n")]).daemon_set(agent).build();
        let mut history = open(Reason::Empty, RemovalPhase::Marked, &["n"]);
        deletions(&step(&world, &settings(|_| {}), &mut history, later(5))) == ["n"]
    };
    let ended = |phase| replica("p").on("n").with(move |pod| pod.phase = phase);
    let stopping = |seconds: i64| replica("p").with(move |pod| pod.deletion_at = Some(later(-seconds)));
    assert!(!deleted(replica("p")));
    assert!(!deleted(stopping(40)), "it may still be writing");
    assert!(deleted(pod("p").owner("DaemonSet", "agent").namespace("kube-system")));
    assert!(deleted(replica("p").with_class(|class| class.mirror = true)));
    assert!(deleted(stopping(3600)), "its kubelet is long gone");
    for phase in [PodPhase::Succeeded, PodPhase::Failed] {
        let world = cluster([marked("n")], [ended(phase)]).build();
        let mut history = open(Reason::Empty, RemovalPhase::Marked, &["n"]);
        assert_eq!(deletions(&step(&world, &settings(|_| {}), &mut history, later(5))), ["n"]);
    }
}

fn guarded(allowed: u32, pods: &[&str]) -> World {
    let pods = pods.iter().map(|name| replica(name).on("n"));
    cluster([marked("n")], pods).budget(budget("web", "app", "web", allowed)).build()
}

#[test]
fn what_a_budget_allows_again_is_evicted_a_second_after_the_last_round() {
    let mut history = draining();
    let evicted_at = |history: &mut History, seconds| {
        evicted(&step(&guarded(1, &["p", "q"]), &settings(|_| {}), history, later(seconds)))
    };
    assert!(evicted_at(&mut history.clone(), 0).is_empty());
    assert_eq!(evicted_at(&mut history, 1), [["p"]]);
}

#[test]
fn the_api_server_is_asked_for_one_pod_of_a_budget_that_says_no() {
    let advance = step(&guarded(0, &["p", "q", "r"]), &settings(|_| {}), &mut draining(), later(10));
    assert_eq!(evicted(&advance), [["p"]]);
}

#[test]
fn a_pod_that_stops_is_waited_for_until_the_longest_grace_and_half_a_minute_are_over() {
    let world = |pod: PodBuilder| {
        cluster([marked("n")], [pod.on("n").with(|pod| pod.deletion_at = Some(later(60)))]).build()
    };
    let mut history = draining();
    // Evicted 30 s after the beginning, and 600 s and 30 s of patience.
    let advance = step(&world(replica("p")), &settings(|_| {}), &mut history, later(10));
    assert_eq!((phase(&history), advance.wake_at), (Some(RemovalPhase::Draining), Some(later(660))));
    let advance = step(&world(replica("p")), &settings(|_| {}), &mut history, later(659));
    assert_eq!((phase(&history), advance.wake_at), (Some(RemovalPhase::Draining), Some(later(660))));
    step(&world(replica("p")), &settings(|_| {}), &mut history, later(660));
    assert_eq!((phase(&history), end(&history).1), (Some(RemovalPhase::Undoing), Reason::DrainTimeout));
}

#[test]
fn a_pod_that_nobody_would_start_again_is_evicted_only_below_the_cutoff() {
    let drained = |priority: i32| {
        let world = cluster([marked("n")], [pod("batch").priority(priority).on("n")]).build();
        let mut history = draining();
        let evicted = evicted(&step(&world, &settings(|_| {}), &mut history, later(10)));
        (evicted.concat(), end(&history).1)
    };
    assert_eq!(drained(-11), (vec!["batch".to_owned()], Reason::Underutilized));
    assert_eq!(drained(-10), (vec![], Reason::NotReplicated));
    assert_eq!(drained(0), (vec![], Reason::NotReplicated));
}

#[test]
fn a_daemon_is_not_evicted_when_it_is_annotated_so_nor_when_it_goes_already() {
    let drained = |daemon: PodBuilder| {
        let agent = daemon_set("agent", pod("x"));
        let daemon = daemon.owner("DaemonSet", "agent").namespace("kube-system").on("n");
        let world = cluster([marked("n")], [replica("p").on("n"), daemon]).daemon_set(agent).build();
        let mut history = open(Reason::Underutilized, RemovalPhase::Marked, &["n"]);
        evicted(&step(&world, &settings(|_| {}), &mut history, later(5))).concat()
    };
    assert_eq!(drained(pod("agent")), ["p", "agent"]);
    assert_eq!(
        drained(pod("agent").with_class(|class| class.daemon_set_eviction = Some(true))),
        ["p", "agent"]
    );
    assert_eq!(drained(pod("agent").with_class(|class| class.daemon_set_eviction = Some(false))), ["p"]);
    assert_eq!(drained(pod("agent").with(|pod| pod.deletion_at = Some(later(30)))), ["p"]);
}

#[test]
fn a_deletion_that_the_cloud_does_not_carry_out_is_given_up_at_its_deadline() {
    let mut history = open(Reason::Empty, RemovalPhase::Deleting, &["m", "n"]);
    let world = cluster([marked("m"), marked("n")], []).build();
    step(&world, &settings(|_| {}), &mut history, later(119));
    assert_eq!(victims(&history), ["m", "n"]);
    step(&world, &settings(|_| {}), &mut history, later(120));
    assert_eq!((phase(&history), history.pools["a"].last_failure), (None, Some(later(120))));
    assert_eq!(end(&history).1, Reason::DeletionFailed);
    // A deletion that the cloud does not report on is not known to have failed.
    let unknown = Delta::ProviderObserved("a".into(), Known::Unknown { why: "timeout".into() });
    let world = world_of([marked("n")]).delta(unknown).build();
    let mut history = open(Reason::Empty, RemovalPhase::Deleting, &["n"]);
    step(&world, &settings(|_| {}), &mut history, later(120));
    assert_eq!((victims(&history), history.pools["a"].last_failure), (vec!["n".to_owned()], None));
}

fn world_of(nodes: impl IntoIterator<Item = NodeBuilder>) -> WorldBuilder {
    cluster(nodes, [])
}

#[test]
fn a_pool_that_stops_to_shrink_keeps_its_nodes_but_those_that_a_person_wants_gone() {
    let asked = || marked("n").annotation(REMOVE_ANNOTATION, "requested");
    let off = settings(|pool| pool.scale_down.enabled = false);
    for (reason, called_off) in [(Reason::RemovalRequested, false), (Reason::Underutilized, true)] {
        let mut history = open(reason, RemovalPhase::Draining, &["n"]);
        step(&world_of([asked()]).build(), &off, &mut history, later(10));
        let expected = if called_off { RemovalPhase::Undoing } else { RemovalPhase::Deleting };
        assert_eq!(phase(&history), Some(expected), "{reason:?}");
    }
}

#[test]
fn a_request_that_was_taken_back_frees_its_node() {
    let after = |reason, node| {
        let mut history = open(reason, RemovalPhase::Draining, &["n"]);
        let advance = step(&world_of([node]).build(), &settings(|_| {}), &mut history, later(10));
        (deletions(&advance).len(), end(&history).1)
    };
    let asked = marked("n").annotation(REMOVE_ANNOTATION, "requested");
    assert_eq!(after(Reason::RemovalRequested, asked), (1, Reason::RemovalRequested));
    assert_eq!(after(Reason::RemovalRequested, marked("n")), (0, Reason::SpecChanged));
    assert_eq!(after(Reason::Underutilized, marked("n")), (1, Reason::Underutilized));
}

#[test]
fn marks_that_come_off_are_looked_at_again_when_they_must_show() {
    let mut history = open(Reason::Empty, RemovalPhase::Undoing, &["n"]);
    let advance = step(&world_of([marked("n")]).build(), &settings(|_| {}), &mut history, later(60));
    assert_eq!(advance.wake_at, Some(later(65)));
    let unmarked = crate::removal::member("n");
    let advance = step(&world_of([unmarked]).build(), &settings(|_| {}), &mut history, later(65));
    assert_eq!((phase(&history), advance.wake_at), (None, None));
}

/// Two removals under way, the older one draining.
fn draining_and_deleting() -> (World, History) {
    let mut history = open(Reason::Underutilized, RemovalPhase::Draining, &["n"]);
    let mut second = open(Reason::Underutilized, RemovalPhase::Deleting, &["m"]);
    let from = second.pools.get_mut("a").expect("a pool");
    let (mut intent, mut decision) = (from.intents.remove(0), from.decisions.remove(0));
    (intent.id, decision.id) = ("1-2".into(), "1-2".into());
    let memory = history.pools.get_mut("a").expect("a pool");
    memory.intents.push(intent);
    memory.decisions.push(decision);
    let kept = [crate::removal::member("b"), marked("n")];
    let going = node("m").of("a", "a-1").taint(DELETION_TAINT, "").annotation(INTENT_ANNOTATION, "1-2");
    let world = cluster(kept.into_iter().chain([going]), [replica("p").on("n")]).build();
    (world, history)
}

#[test]
fn a_raised_minimum_counts_what_cannot_be_called_back_first() {
    for (min, called_back) in [(1, false), (2, true), (3, true)] {
        let (world, mut history) = draining_and_deleting();
        step(&world, &settings(|pool| pool.min_nodes = min), &mut history, later(1));
        let left: Vec<&str> =
            history.pools["a"].removals().flat_map(|(_, one)| &one.victims).map(|one| &*one.node).collect();
        let expected: &[&str] = if called_back { &["m"] } else { &["n", "m"] };
        assert_eq!(left, expected, "a minimum of {min}");
    }
}

#[test]
fn an_answer_frees_only_a_victim_of_the_removal_that_is_being_undone() {
    let unmarked = |history: &mut History, id: &str, node: &str| {
        let result = StepResult::Unmarked { node: node.into() };
        let outcome = Outcome { pool: "a".into(), intent: id.into(), result };
        let memory = history.pools.get_mut("a").expect("there");
        absorb_one(memory, &outcome, &headroom_core::testing::config([]), later(6));
        victims(history)
    };
    let both = |phase| open(Reason::Underutilized, phase, &["m", "n"]);
    assert_eq!(unmarked(&mut both(RemovalPhase::Undoing), ID, "n"), ["m"]);
    assert_eq!(unmarked(&mut both(RemovalPhase::Undoing), "1-2", "n"), ["m", "n"]);
    assert_eq!(unmarked(&mut both(RemovalPhase::Draining), ID, "n"), ["m", "n"]);
}

/// Once machines are being deleted the group cannot be whole again: who is left out of it frees nobody else.
#[test]
fn a_group_that_goes_as_a_whole_stays_as_a_whole_only_before_its_deletion() {
    let mut config = settings(|pool| pool.group_scaling = GroupScaling::ZeroOrMax);
    config.pools[0].scale_down.policy = Policy::WhenUnderutilized;
    let after = |phase, node: &str| {
        let mut history = open(Reason::Empty, phase, &["m", "n"]);
        let result = StepResult::DeleteFailed { node: node.into(), message: "protected".into() };
        let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
        absorb_one(history.pools.get_mut("a").expect("there"), &outcome, &config, later(6));
        (crate::removal::phase(&history), victims(&history).len())
    };
    assert_eq!(after(RemovalPhase::Marked, "n"), (Some(RemovalPhase::Undoing), 2));
    assert_eq!(after(RemovalPhase::Deleting, "n"), (Some(RemovalPhase::Deleting), 1));
    assert_eq!(after(RemovalPhase::Marked, "stranger"), (Some(RemovalPhase::Marked), 2));
}

#[test]
fn long_words_of_the_api_server_are_cut_between_two_letters() {
    for start in ["", "x"] {
        let mut history = open(Reason::Empty, RemovalPhase::Journalled, &["n"]);
        let message = format!("{start}{}", "é".repeat(600)).into();
        let result = StepResult::MarkFailed { node: "n".into(), message };
        let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
        let memory = history.pools.get_mut("a").expect("there");
        absorb_one(memory, &outcome, &headroom_core::testing::config([]), later(6));
        let (outcome, _, words) = end(&history);
        assert_eq!(outcome, DecisionOutcome::Cancelled);
        assert!((511..=512).contains(&words.len()) && words.ends_with('é'), "{} bytes", words.len());
    }
}

/// Node n with this pod, guarded by a budget that allows nothing.
fn shut(pod: PodBuilder) -> World {
    cluster([marked("n")], [pod]).budget(budget("web", "app", "web", 0)).build()
}

#[test]
fn an_expendable_pod_is_asked_to_go_until_the_eviction_timeout_and_goes_with_its_node_then() {
    let (config, mut history) = (settings(|_| {}), draining());
    let expendable = || replica("p").priority(-11).on("n");
    assert_eq!(evicted(&step(&shut(expendable()), &config, &mut history, later(10))), [["p"]]);
    assert!(deletions(&step(&shut(expendable()), &config, &mut history, later(119))).is_empty());
    assert_eq!(deletions(&step(&shut(expendable()), &config, &mut history, later(120))), ["n"]);
    let mut history = draining();
    step(&shut(replica("p").priority(-10).on("n")), &config, &mut history, later(120));
    assert_eq!((end(&history).0, end(&history).1), (DecisionOutcome::Failed, Reason::NotEnoughPdb));
}

#[test]
fn an_expendable_pod_that_does_not_stop_or_that_two_budgets_guard_keeps_no_node() {
    let config = settings(|_| {});
    let stopping = |priority: i32| {
        let pod = replica("p").priority(priority).on("n").with(|pod| pod.deletion_at = Some(later(40)));
        let mut history = draining();
        let advance = step(&cluster([marked("n")], [pod]).build(), &config, &mut history, later(640));
        (deletions(&advance), end(&history).0)
    };
    assert_eq!(stopping(-11), (vec!["n".to_owned()], DecisionOutcome::InProgress));
    assert_eq!(stopping(-10), (vec![], DecisionOutcome::Failed));
    let twice = cluster([marked("n")], [replica("p").priority(-11).on("n")]);
    let twice = twice.budget(budget("web", "app", "web", 1)).budget(budget("more", "app", "web", 1)).build();
    assert_eq!(deletions(&step(&twice, &config, &mut draining(), later(10))), ["n"]);
}

#[test]
fn an_expendable_pod_that_came_to_an_empty_node_keeps_it_only_if_it_is_protected() {
    let goes = |pod: PodBuilder| {
        let world = cluster([marked("n")], [pod.on("n")]).build();
        let mut history = open(Reason::Empty, RemovalPhase::Marked, &["n"]);
        deletions(&step(&world, &settings(|_| {}), &mut history, later(5))) == ["n"]
    };
    assert!(goes(replica("p").priority(-11)));
    assert!(!goes(replica("p").priority(-10)));
    let protected = |pod: &mut Pod| pod.protected_until = Some(UnixTime(i64::MAX));
    assert!(!goes(replica("p").priority(-11).with(protected)));
}
