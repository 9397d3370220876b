//! Rules in the life of a removal, one a test: what is sent when, what calls it off, and what is noted.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{Config, Pool};
use headroom_core::history::{
    Action, Decision, DecisionAction, DecisionOutcome, History, Intent, PoolHistory, Removal, RemovalPhase,
    Victim,
};
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::removal::{Advance, absorb_one, advance};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, WorldBuilder, budget, config, controller, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{DELETION_TAINT, INTENT_ANNOTATION};
use headroom_core::world::pod::SafeToEvict;
use headroom_core::world::view::{Freshness, View};
use headroom_core::world::workload::ControllerKind;

use crate::scene::on_scene;

pub(crate) const ID: &str = "1-1";

pub(crate) fn later(seconds: i64) -> UnixTime {
    NOW.plus(Seconds(seconds))
}

pub(crate) fn member(name: &str) -> NodeBuilder {
    node(name).of("a", "a-1").zone("z1")
}

pub(crate) fn marked(name: &str) -> NodeBuilder {
    member(name)
        .taint(DELETION_TAINT, "")
        .annotation(INTENT_ANNOTATION, ID)
        .with(|node| node.unschedulable = true)
}

pub(crate) fn replica(name: &str) -> PodBuilder {
    pod(name).cpu("100m").label("app", "web").owner("ReplicaSet", "web")
}

pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
) -> WorldBuilder {
    let web = controller(ControllerKind::ReplicaSet, "web", 50, pod("x"));
    let nodes: Vec<NodeBuilder> = nodes.into_iter().collect();
    let target = u32::try_from(nodes.len()).expect("few");
    let builder = nodes.into_iter().fold(world().controller(web), WorldBuilder::node);
    pods.into_iter().fold(builder, WorldBuilder::pod).group("a", "a-1", "z1", target)
}

pub(crate) fn settings(change: impl FnOnce(&mut Pool)) -> Config {
    config([pool("a").with(change)])
}

/// An open removal of these nodes, in this phase since [`NOW`].
pub(crate) fn open(reason: Reason, phase: RemovalPhase, nodes: &[&str]) -> History {
    let victim = |name: &&str| Victim { node: (*name).into(), id: format!("kwok://{name}").into() };
    let removal = Removal {
        group: "a-1".into(),
        victims: nodes.iter().map(victim).collect(),
        phase,
        phase_since: NOW,
        surges: Vec::new(),
    };
    let intent = Intent {
        id: ID.into(),
        epoch: 1,
        action: Action::Remove(removal),
        reason,
        started_at: NOW,
        deadline: later(120),
    };
    let decision = Decision {
        id: ID.into(),
        time: NOW,
        action: DecisionAction::ScaleDown,
        group: "a-1".into(),
        from: 5,
        to: 5 - u32::try_from(nodes.len()).expect("few"),
        reason,
        message: "".into(),
        outcome: DecisionOutcome::InProgress,
        pods_count: 0,
        examples: Vec::new(),
        considered: Vec::new(),
    };
    let memory = PoolHistory {
        intents: vec![intent],
        decisions: vec![decision],
        sequence: 1,
        ..PoolHistory::default()
    };
    History { pools: BTreeMap::from([("a".into(), memory)]) }
}

pub(crate) fn draining() -> History {
    open(Reason::Underutilized, RemovalPhase::Draining, &["n"])
}

pub(crate) fn step<'w>(
    view: impl Into<View<'w>>,
    config: &Config,
    history: &mut History,
    now: UnixTime,
) -> Advance {
    on_scene(view, config, now, |scene| advance(history, scene))
}

pub(crate) fn phase(history: &History) -> Option<RemovalPhase> {
    history.pools["a"].removals().next().map(|(_, removal)| removal.phase)
}

pub(crate) fn victims(history: &History) -> Vec<String> {
    let removal = history.pools["a"].removals().next();
    removal.map_or(Vec::new(), |(_, removal)| {
        removal.victims.iter().map(|victim| victim.node.to_string()).collect()
    })
}

/// Returns the outcome of the decision, with its reason and message.
pub(crate) fn end(history: &History) -> (DecisionOutcome, Reason, String) {
    let decision = &history.pools["a"].decisions[0];
    (decision.outcome, decision.reason, decision.message.to_string())
}

/// Names of the pods that are evicted, a list a step.
pub(crate) fn evicted(advance: &Advance) -> Vec<Vec<String>> {
    let names = |step: &Step| match step {
        Step::Evict { pods, .. } => Some(pods.iter().map(|pod| pod.pod.name.to_string()).collect()),
        _ => None,
    };
    advance.steps.iter().filter_map(names).collect()
}

pub(crate) fn deletions(advance: &Advance) -> Vec<String> {
    let names = |step: &Step| match step {
        Step::Delete { victims, .. } => victims.iter().map(|victim| victim.node.to_string()).collect(),
        _ => Vec::new(),
    };
    advance.steps.iter().flat_map(names).collect()
}

#[test]
fn mark_is_put_on_until_the_world_shows_it() {
    let config = settings(|_| {});
    let mut history = open(Reason::Underutilized, RemovalPhase::Journalled, &["n"]);
    let first = step(&cluster([member("n")], []).build(), &config, &mut history, later(1));
    assert!(matches!(&first.steps[..], [Step::Mark { .. }]));
    let second = step(&cluster([marked("n")], []).build(), &config, &mut history, later(2));
    assert!(second.steps.is_empty());
    assert_eq!((phase(&history), second.wake_at), (Some(RemovalPhase::Marked), Some(later(4))));
}

#[test]
fn nothing_is_evicted_or_deleted_before_the_mark_has_settled() {
    let config = settings(|_| {});
    let world = cluster([marked("n"), marked("m")], [replica("p").on("n")]).build();
    let mut drain = open(Reason::Underutilized, RemovalPhase::Marked, &["n"]);
    // What is drained is looked at again before its deletion; what is empty is deleted right after the wait.
    assert!(evicted(&step(&world, &config, &mut drain, later(1))).is_empty());
    assert_eq!(evicted(&step(&world, &config, &mut drain, later(2))), [["p"]]);
    let mut empty = open(Reason::Empty, RemovalPhase::Marked, &["m"]);
    assert!(deletions(&step(&world, &config, &mut empty, later(4))).is_empty());
    assert_eq!(deletions(&step(&world, &config, &mut empty, later(5))), ["m"]);
}

#[test]
fn pod_that_came_to_an_empty_victim_saves_it_and_only_it() {
    let world = cluster([marked("n"), marked("m")], [replica("p").on("n")]).build();
    let mut history = open(Reason::Empty, RemovalPhase::Marked, &["m", "n"]);
    let advance = step(&world, &settings(|_| {}), &mut history, later(5));
    assert_eq!(deletions(&advance), ["m"]);
    assert!(matches!(&advance.steps[0], Step::Unmark { node, .. } if &**node == "n"));
    assert!(end(&history).2.contains("node n stays: pod default/p came"));
    assert_eq!(history.pools["a"].last_failure, None);
}

#[test]
fn removal_that_let_its_last_victim_go_is_reported_as_cancelled() {
    let world = cluster([marked("n")], [replica("p").on("n")]).build();
    let mut history = open(Reason::Empty, RemovalPhase::Marked, &["n"]);
    step(&world, &settings(|_| {}), &mut history, later(5));
    assert_eq!(phase(&history), None);
    let (outcome, reason, _) = end(&history);
    assert_eq!((outcome, reason), (DecisionOutcome::Cancelled, Reason::PodArrived));
}

#[test]
fn live_look_that_finds_a_pod_lets_go_of_the_node() {
    let mut history = open(Reason::Empty, RemovalPhase::Deleting, &["n"]);
    let result = StepResult::NotEmpty { node: "n".into(), pod: ObjectKey::new("default", "p") };
    let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
    absorb_one(
        history.pools.get_mut("a").expect("there"),
        &outcome,
        &headroom_core::testing::config([]),
        later(6),
    );
    assert_eq!(phase(&history), None);
    assert_eq!(end(&history).1, Reason::PodArrived);
    let advance = step(&cluster([marked("n")], []).build(), &settings(|_| {}), &mut history, later(7));
    assert!(matches!(&advance.steps[..], [Step::Unmark { .. }]));
}

/// A 403 on the mark shows nothing about the pool's other nodes: the removal ends, and the pool's cooldown after a
/// failure, which is for nodes that could not be drained or deleted, does not begin.
#[test]
fn a_mark_that_is_refused_ends_the_removal_and_starts_no_cooldown() {
    let mut history = open(Reason::Empty, RemovalPhase::Journalled, &["n"]);
    let message = "nodes \"n\" is forbidden".into();
    let result = StepResult::MarkFailed { node: "n".into(), message };
    let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
    let memory = history.pools.get_mut("a").expect("there");
    absorb_one(memory, &outcome, &headroom_core::testing::config([]), later(6));
    assert_eq!(phase(&history), None);
    let (end, reason, words) = end(&history);
    assert_eq!((end, reason), (DecisionOutcome::Cancelled, Reason::DeletionFailed));
    assert!(words.contains("forbidden"), "{words}");
    assert_eq!(history.pools["a"].last_failure, None);
    assert_eq!(history.pools["a"].unneeded["n"], later(6), "and its clock starts anew");
}

/// Nodes `n`, whose instance has gone from the provider's list, and `m` that is left.
#[test]
fn victim_that_the_provider_lists_no_more_takes_no_room_of_the_minimum() {
    let config = settings(|pool| pool.min_nodes = 1);
    // Without the group's label the provider of these tests does not list it.
    let gone = node("n").zone("z1").taint(DELETION_TAINT, "").annotation(INTENT_ANNOTATION, ID);
    let world = cluster([gone, member("m"), member("k")], []).build();
    let mut history = open(Reason::Unready, RemovalPhase::Deleting, &["n"]);
    let other = open(Reason::Empty, RemovalPhase::Journalled, &["m"]);
    let mut other = other.pools["a"].intents[0].clone();
    other.id = "1-2".into();
    history.pools.get_mut("a").expect("there").intents.push(other);
    step(&world, &config, &mut history, later(1));
    assert!(history.pools["a"].intent("1-2").is_some(), "two are counted, and one has to stay");
}

#[test]
fn refused_evictions_are_tried_again_every_ten_seconds_until_the_timeout() {
    let config = settings(|_| {});
    let world = cluster([marked("n")], [replica("p").on("n")]).budget(budget("web", "app", "web", 0)).build();
    let mut history = draining();
    assert!(evicted(&step(&world, &config, &mut history, later(9))).is_empty());
    assert_eq!(evicted(&step(&world, &config, &mut history, later(10))), [["p"]]);
    assert!(evicted(&step(&world, &config, &mut history, later(19))).is_empty());
    let over = step(&world, &config, &mut history, later(120));
    assert!(matches!(&over.steps[..], [Step::Unmark { .. }]));
    let words = "PodDisruptionBudget default/web allows no eviction of pod default/p on node n";
    assert_eq!(end(&history), (DecisionOutcome::Failed, Reason::NotEnoughPdb, words.into()));
    assert_eq!(history.pools["a"].last_failure, Some(later(120)));
}

#[test]
fn drain_whose_turn_has_not_come_ends_without_a_failure() {
    let mut history = draining();
    let memory = history.pools.get_mut("a").expect("an open removal");
    let (mut intent, mut decision) = (memory.intents[0].clone(), memory.decisions[0].clone());
    (intent.id, decision.id) = ("1-2".into(), "1-2".into());
    if let Action::Remove(removal) = &mut intent.action {
        removal.victims[0].node = "m".into();
        removal.victims[0].id = "kwok://m".into();
    }
    memory.intents[0].deadline = later(300);
    memory.intents.push(intent);
    memory.decisions.push(decision);
    let second = marked("m").annotation(INTENT_ANNOTATION, "1-2");
    let pods = [replica("p").on("n"), replica("q").on("m")];
    let world = cluster([marked("n"), second], pods).budget(budget("web", "app", "web", 0)).build();
    step(&world, &settings(|_| {}), &mut history, later(121));
    let memory = &history.pools["a"];
    let ends: Vec<_> = memory.decisions.iter().map(|one| (&*one.id, one.outcome)).collect();
    assert_eq!(ends, [("1-1", DecisionOutcome::InProgress), ("1-2", DecisionOutcome::Cancelled)]);
    assert_eq!(memory.last_failure, None);
    step(&world, &settings(|_| {}), &mut history, later(301));
    assert_eq!(history.pools["a"].last_failure, Some(later(301)), "the first in line has failed");
}

#[test]
fn refusal_of_a_webhook_is_reported_in_its_own_words() {
    let config = settings(|_| {});
    let world = cluster([marked("n")], [replica("p").on("n")]).build();
    let mut history = draining();
    let refused =
        vec![(ObjectKey::new("default", "p"), false, Arc::from("webhook keeper denied the request"))];
    let result = StepResult::Evicted { node: "n".into(), refused, accepted: Vec::new() };
    let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
    absorb_one(
        history.pools.get_mut("a").expect("there"),
        &outcome,
        &headroom_core::testing::config([]),
        later(1),
    );
    step(&world, &config, &mut history, later(120));
    let (_, reason, words) = end(&history);
    assert_eq!(reason, Reason::DrainTimeout);
    assert!(words.contains("webhook keeper denied the request"), "{words}");
}

#[test]
fn evicted_pod_is_waited_for_as_long_as_the_longest_grace_and_half_a_minute() {
    let config = settings(|_| {});
    // Evicted at 10 s with a grace of 30 s; the pool's longest is 600 s.
    let stopping = replica("p").on("n").with(|pod| pod.deletion_at = Some(later(40)));
    let world = cluster([marked("n")], [stopping]).build();
    let mut history = draining();
    for at in [70, 101, 639] {
        let advance = step(&world, &config, &mut history, later(at));
        assert_eq!(
            (phase(&history), deletions(&advance)),
            (Some(RemovalPhase::Draining), vec![]),
            "at {at} s"
        );
    }
    step(&world, &config, &mut history, later(640));
    assert_eq!((end(&history).0, end(&history).1), (DecisionOutcome::Failed, Reason::DrainTimeout));
}

#[test]
fn unready_node_goes_by_force_when_nobody_reports_its_pods_as_stopped() {
    let stopping = replica("p").on("n").with(|pod| pod.deletion_at = Some(later(40)));
    let nodes = (0..9).map(|index| member(&format!("other-{index}")));
    let world = cluster(nodes.chain([marked("n").unready_for(3600)]), [stopping]).build();
    let mut history = open(Reason::Unready, RemovalPhase::Draining, &["n"]);
    let advance = step(&world, &settings(|_| {}), &mut history, later(70));
    assert!(matches!(&advance.steps[..], [Step::Delete { force: true, .. }]));
}

#[test]
fn grace_is_the_pods_own_but_at_most_the_pools() {
    let config = settings(|pool| pool.scale_down.drain.max_grace_period = Seconds(60));
    let slow = replica("slow").on("n").with_class(|class| class.termination_grace = Seconds(3600));
    let world = cluster([marked("n")], [slow, replica("quick").on("n")]).build();
    let advance = step(&world, &config, &mut draining(), later(10));
    let Some(Step::Evict { pods, .. }) = advance.steps.first() else { panic!("an eviction") };
    assert_eq!(pods.iter().map(|pod| pod.grace).collect::<Vec<_>>(), [Seconds(30), Seconds(60)]);
}

#[test]
fn evictions_go_by_ascending_priority_and_critical_pods_wait_for_all_others() {
    let config = settings(|_| {});
    let pods = || {
        [
            replica("high").priority(100).on("n"),
            replica("low").priority(-5).on("n"),
            replica("critical").priority(2_000_000_000).on("n"),
        ]
    };
    let world = cluster([marked("n")], pods()).build();
    assert_eq!(evicted(&step(&world, &config, &mut draining(), later(10))), [["low", "high"]]);
    let stopping = pods().map(|pod| pod.with(|pod| pod.deletion_at = Some(later(40))));
    let [high, _, _] = stopping;
    let [_, _, critical] = pods();
    let world = cluster([marked("n")], [high, critical.clone()]).build();
    assert!(evicted(&step(&world, &config, &mut draining(), later(10))).is_empty());
    let world = cluster([marked("n")], [critical]).build();
    assert_eq!(evicted(&step(&world, &config, &mut draining(), later(10))), [["critical"]]);
}

#[test]
fn eviction_steps_are_bounded() {
    let pods = (0..45).map(|index| replica(&format!("p{index:02}")).on("n"));
    let advance = step(&cluster([marked("n")], pods).build(), &settings(|_| {}), &mut draining(), later(10));
    assert_eq!(evicted(&advance).iter().map(Vec::len).collect::<Vec<_>>(), [20, 20, 5]);
}

#[test]
fn pod_that_may_not_go_any_more_calls_the_drain_off_without_failure() {
    let kept = replica("p").on("n").with_class(|class| class.safe_to_evict = SafeToEvict::Never);
    let mut history = draining();
    step(&cluster([marked("n")], [kept]).build(), &settings(|_| {}), &mut history, later(1));
    assert_eq!(
        (end(&history).0, end(&history).1),
        (DecisionOutcome::Cancelled, Reason::NotSafeToEvictAnnotation)
    );
    assert_eq!(history.pools["a"].last_failure, None);
}

#[test]
fn second_budget_of_a_pod_calls_the_drain_off_at_once() {
    let guarded = || cluster([marked("n")], [replica("p").on("n")]).budget(budget("web", "app", "web", 1));
    let mut history = draining();
    step(
        &guarded().budget(budget("more", "app", "web", 1)).build(),
        &settings(|_| {}),
        &mut history,
        later(1),
    );
    assert_eq!((end(&history).0, end(&history).1), (DecisionOutcome::Cancelled, Reason::NotEnoughPdb));
}

#[test]
fn node_annotated_to_stay_is_let_go_of_in_mid_drain() {
    let kept = marked("n").annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true");
    let mut history = draining();
    let advance =
        step(&cluster([kept], [replica("p").on("n")]).build(), &settings(|_| {}), &mut history, later(10));
    assert!(matches!(&advance.steps[..], [Step::Unmark { .. }]));
    assert_eq!(end(&history).1, Reason::ScaleDownDisabledAnnotation);
}

#[test]
fn raised_minimum_calls_back_what_is_not_deleted_yet() {
    let config = settings(|pool| pool.min_nodes = 2);
    let world = cluster([marked("n"), marked("m"), member("k")], []).build();
    let mut marks = open(Reason::Empty, RemovalPhase::Marked, &["m", "n"]);
    step(&world, &config, &mut marks, later(1));
    assert_eq!(victims(&marks), ["m"]);
    let mut deleting = open(Reason::Empty, RemovalPhase::Deleting, &["m", "n"]);
    step(&world, &config, &mut deleting, later(1));
    assert_eq!(victims(&deleting), ["m", "n"]);
}

#[test]
fn kill_switch_undoes_drains_and_leaves_deletions_to_end() {
    let mut stopped = settings(|_| {});
    stopped.cluster.voluntary_disruption_stopped = true;
    let world = cluster([marked("n")], []).build();
    let mut drain = draining();
    step(&world, &stopped, &mut drain, later(1));
    assert_eq!((phase(&drain), end(&drain).1), (Some(RemovalPhase::Undoing), Reason::DisruptionStopped));
    let mut deleting = open(Reason::Empty, RemovalPhase::Deleting, &["n"]);
    step(&world, &stopped, &mut deleting, later(1));
    assert_eq!(phase(&deleting), Some(RemovalPhase::Deleting));
}

#[test]
fn deletion_is_repeated_until_the_node_has_left() {
    let config = settings(|_| {});
    let world = cluster([marked("n")], []).build();
    let mut history = open(Reason::Empty, RemovalPhase::Deleting, &["n"]);
    assert!(deletions(&step(&world, &config, &mut history, later(9))).is_empty());
    assert_eq!(deletions(&step(&world, &config, &mut history, later(10))), ["n"]);
    let gone = cluster([], []).build();
    step(&gone, &config, &mut history, later(11));
    assert_eq!((phase(&history), end(&history).0), (None, DecisionOutcome::Done));
}

#[test]
fn refused_deletion_starts_the_cooldown_and_frees_the_node() {
    let mut history = open(Reason::Empty, RemovalPhase::Deleting, &["m", "n"]);
    let result = StepResult::DeleteFailed { node: "n".into(), message: "protected".into() };
    let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
    absorb_one(
        history.pools.get_mut("a").expect("there"),
        &outcome,
        &headroom_core::testing::config([]),
        later(6),
    );
    assert_eq!(victims(&history), ["m"]);
    assert_eq!(history.pools["a"].last_failure, Some(later(6)));
}

#[test]
fn instances_that_never_became_nodes_are_let_go_of_one_by_one() {
    let mut history = open(Reason::NeverRegistered, RemovalPhase::Deleting, &["i-1", "i-2"]);
    let memory = history.pools.get_mut("a").expect("there");
    let Action::Remove(removal) = &mut memory.intents[0].action else { unreachable!() };
    for victim in &mut removal.victims {
        victim.id = std::mem::take(&mut victim.node);
    }
    let refuse = |memory: &mut PoolHistory, id: &str| {
        let result = StepResult::DeleteFailed { node: id.into(), message: "not found".into() };
        let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
        absorb_one(memory, &outcome, &headroom_core::testing::config([]), later(6));
    };
    refuse(memory, "i-1");
    let left: Vec<&str> =
        memory.removals().flat_map(|(_, removal)| &removal.victims).map(|one| &*one.id).collect();
    assert_eq!((left, memory.decisions[0].outcome), (vec!["i-2"], DecisionOutcome::InProgress));
    // The other one goes with the last that is refused.
    let mut partly = memory.clone();
    partly.decisions[0].to -= 1;
    for (memory, end) in [(memory, DecisionOutcome::Failed), (&mut partly, DecisionOutcome::Done)] {
        refuse(memory, "i-2");
        assert_eq!((memory.intents.len(), memory.decisions[0].outcome), (0, end));
    }
}

#[test]
fn undone_removal_ends_when_its_marks_are_off() {
    let config = settings(|_| {});
    let mut history = open(Reason::Underutilized, RemovalPhase::Undoing, &["n"]);
    let advance = step(&cluster([marked("n")], []).build(), &config, &mut history, later(60));
    assert!(matches!(&advance.steps[..], [Step::Unmark { intent: Some(_), .. }]));
    let result = StepResult::Unmarked { node: "n".into() };
    let outcome = Outcome { pool: "a".into(), intent: ID.into(), result };
    absorb_one(
        history.pools.get_mut("a").expect("there"),
        &outcome,
        &headroom_core::testing::config([]),
        later(61),
    );
    assert_eq!(phase(&history), None);
}

#[test]
fn pool_that_is_gone_leaves_no_mark() {
    let world = cluster([marked("n")], []).build();
    let mut history = draining();
    let advance = step(&world, &config([]), &mut history, later(1));
    assert!(matches!(&advance.steps[..], [Step::Unmark { intent: None, .. }]));
    assert!(history.pools["a"].intents.is_empty());
}

#[test]
fn stale_view_moves_nothing() {
    let world = cluster([marked("n")], [replica("p").on("n")]).build();
    let stale = Freshness { stale: true, ..Freshness::default() };
    let mut history = draining();
    let before = history.clone();
    let view = View::new(&world, &stale);
    assert!(step(view, &settings(|_| {}), &mut history, later(500)).steps.is_empty());
    assert_eq!(history, before);
}

#[test]
fn daemon_set_pods_are_evicted_once_beside_the_others_and_never_waited_for() {
    let config = settings(|_| {});
    let daemon = || pod("agent").owner("DaemonSet", "agent").on("n");
    let set = headroom_core::world::workload::DaemonSet {
        key: ObjectKey::new("default", "agent"),
        uid: "u".into(),
        class: Arc::default(),
        priority_class: headroom_core::world::workload::PrioritySource::Template,
        desired: 0,
    };
    let world = cluster([marked("n")], [replica("p").on("n"), daemon()]).daemon_set(set.clone()).build();
    let mut history = open(Reason::Underutilized, RemovalPhase::Marked, &["n"]);
    assert_eq!(evicted(&step(&world, &config, &mut history, later(5))), [["p", "agent"]]);
    assert_eq!(evicted(&step(&world, &config, &mut history, later(15))), [["p"]]);
    let world = cluster([marked("n")], [daemon()]).daemon_set(set).build();
    assert_eq!(deletions(&step(&world, &config, &mut history, later(25))), ["n"]);
}

/// Two nodes under one intent in mid-drain.
fn draining_both() -> History {
    open(Reason::Underutilized, RemovalPhase::Draining, &["m", "n"])
}

#[test]
fn nodes_that_are_drained_together_are_evicted_from_at_once_and_deleted_together() {
    let config = settings(|_| {});
    let pods = [replica("p").on("m"), replica("q").on("n")];
    let world = cluster([marked("m"), marked("n")], pods).build();
    let mut history = draining_both();
    assert_eq!(evicted(&step(&world, &config, &mut history, later(10))), [["p"], ["q"]]);
    let half = cluster([marked("m"), marked("n")], [replica("q").on("n")]).build();
    let waiting = step(&half, &config, &mut history, later(20));
    assert_eq!((deletions(&waiting), evicted(&waiting)), (vec![], vec![vec!["q".to_owned()]]));
    let empty = cluster([marked("m"), marked("n")], []).build();
    assert_eq!(deletions(&step(&empty, &config, &mut history, later(21))), ["m", "n"]);
}

#[test]
fn node_that_cannot_be_drained_holds_up_no_other() {
    let config = settings(|_| {});
    let stopping = replica("q").on("n").with(|pod| pod.deletion_at = Some(later(40)));
    let world = cluster([marked("m"), marked("n")], [stopping]).build();
    let mut history = draining_both();
    assert!(deletions(&step(&world, &config, &mut history, later(639))).is_empty());
    let over = step(&world, &config, &mut history, later(640));
    assert_eq!((deletions(&over), victims(&history)), (vec!["m".to_owned()], vec!["m".to_owned()]));
    let unmarked = |step: &Step| matches!(step, Step::Unmark { node, .. } if &**node == "n");
    assert!(over.steps.iter().any(unmarked), "the other's mark comes off: {:?}", over.steps);
    assert!(end(&history).2.contains("pod default/q on node n did not stop within"));
}

#[test]
fn refused_evictions_of_one_node_let_the_others_go() {
    let config = settings(|_| {});
    let world = cluster([marked("m"), marked("n")], [replica("q").on("n")])
        .budget(budget("web", "app", "web", 0))
        .build();
    let mut history = draining_both();
    let over = step(&world, &config, &mut history, later(120));
    assert_eq!((deletions(&over), victims(&history)), (vec!["m".to_owned()], vec!["m".to_owned()]));
    assert_eq!(history.pools["a"].last_failure, Some(later(120)));
}

#[test]
fn annotation_holds_the_deletion_up_for_two_minutes_at_most() {
    let config = settings(|_| {});
    let key = "delay-deletion.cluster-autoscaler.kubernetes.io/volumes";
    let held = cluster([marked("n").annotation(key, "true")], []).build();
    let mut history = draining();
    assert!(deletions(&step(&held, &config, &mut history, later(10))).is_empty());
    assert_eq!(phase(&history), Some(RemovalPhase::Deleting));
    assert!(deletions(&step(&held, &config, &mut history, later(129))).is_empty());
    let mut released = history.clone();
    let free = cluster([marked("n")], []).build();
    assert_eq!(deletions(&step(&free, &config, &mut released, later(139))), ["n"]);
    assert_eq!(deletions(&step(&held, &config, &mut history, later(139))), ["n"]);
}
