//! Protection from disruption, one rule a test: the annotation `karpenter.sh/do-not-disrupt` on pods and on nodes.

use headroom_core::history::{DecisionOutcome, RemovalPhase};
use headroom_core::nodes::removal::{absorb_one, holds_node};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, node};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::REMOVE_ANNOTATION;
use headroom_core::world::pod::{DO_NOT_DISRUPT_ANNOTATION, PROTECTED_FOREVER, PodPhase};

use crate::removal::{draining, end, marked, open, settings as drain_settings, step};
use crate::scale_down::{self, cluster, member, run, settings, unneeded};

/// A replica on node n.
fn replica(name: &str) -> PodBuilder {
    scale_down::replica(name).on("n")
}

fn protected(pod: PodBuilder, until: UnixTime) -> PodBuilder {
    pod.with(|pod| pod.protected_until = Some(until))
}

/// Reason why node n stays, or leaves, beside a node with room, and when the next decision may be due.
fn verdict(n: NodeBuilder, pod: PodBuilder) -> (Reason, Option<String>, Option<UnixTime>) {
    let taker = member("taker").with(|node| node.annotations.insert(DO_NOT_DISRUPT_ANNOTATION, "true"));
    let world = cluster([n, taker], [pod]).build();
    let found = run(&world, &settings(), &mut unneeded(&["n"]), NOW);
    let verdict = found.verdicts.of("n").expect("judged");
    (verdict.reason, verdict.object.map(|object| object.to_string()), found.wake_at)
}

#[test]
fn protected_pod_keeps_its_node_whatever_else_it_is() {
    let pods = [
        replica("p"),
        replica("p").with_class(|class| class.daemon_set = true),
        replica("p").with_class(|class| class.mirror = true),
        replica("p").priority(-100),
    ];
    for pod in pods {
        let (reason, object, _) = verdict(member("n"), protected(pod, PROTECTED_FOREVER));
        assert_eq!((reason, object.as_deref()), (Reason::DoNotDisruptAnnotation, Some("pod/default/p")));
    }
    assert_eq!(verdict(member("n"), replica("p")).0, Reason::Underutilized, "it is the annotation");
}

#[test]
fn pod_that_has_ended_or_is_being_deleted_protects_nothing() {
    let finished = replica("p").with(|pod| pod.phase = PodPhase::Succeeded);
    let leaving = replica("p").with(|pod| pod.deletion_at = Some(NOW.plus(Seconds(10))));
    for pod in [finished, leaving] {
        assert_ne!(verdict(member("n"), protected(pod, PROTECTED_FOREVER)).0, Reason::DoNotDisruptAnnotation);
    }
}

#[test]
fn protection_for_a_time_ends_by_itself_and_the_plan_wakes_for_it() {
    let end = NOW.plus(Seconds(90));
    let (reason, _, wake_at) = verdict(member("n"), protected(replica("p"), end));
    assert_eq!((reason, wake_at), (Reason::DoNotDisruptAnnotation, Some(end)));
    assert_eq!(verdict(member("n"), protected(replica("p"), NOW)).0, Reason::Underutilized);
}

#[test]
fn protected_node_stays_unless_a_person_asks_for_its_removal_and_its_pods_are_free_to_go() {
    let kept = || member("n").annotation(DO_NOT_DISRUPT_ANNOTATION, "true");
    assert_eq!(verdict(kept(), replica("p")).0, Reason::DoNotDisruptAnnotation);
    let duration = member("n").annotation(DO_NOT_DISRUPT_ANNOTATION, "1h");
    assert_eq!(verdict(duration, replica("p")).0, Reason::Underutilized, "durations are for pods");
    let asked = || kept().annotation(REMOVE_ANNOTATION, "requested");
    assert_eq!(verdict(asked(), replica("p")).0, Reason::RemovalRequested);
    let pod = protected(replica("p"), PROTECTED_FOREVER);
    assert_eq!(verdict(asked(), pod).0, Reason::DoNotDisruptAnnotation);
}

#[test]
fn status_names_the_protected_pod() {
    let world = cluster([member("n")], [protected(replica("p"), PROTECTED_FOREVER)]).build();
    let mut history = unneeded(&["n"]);
    run(&world, &settings(), &mut history, NOW);
    let blocked = &history.pools["a"].blocked[0];
    let object = blocked.object.as_deref();
    assert_eq!((blocked.reason, object), (Reason::DoNotDisruptAnnotation, Some("pod/default/p")));
}

#[test]
fn protection_that_comes_in_mid_drain_calls_it_off_before_the_next_eviction() {
    let pods = [replica("p"), protected(replica("late"), PROTECTED_FOREVER)];
    let by_node = marked("n").annotation(DO_NOT_DISRUPT_ANNOTATION, "true");
    let worlds =
        [cluster([marked("n")], pods.clone()), cluster([by_node], [replica("p")])].map(|world| world.build());
    for world in worlds {
        let mut history = draining();
        let advance = step(&world, &drain_settings(|_| {}), &mut history, NOW.plus(Seconds(10)));
        assert!(matches!(&advance.steps[..], [Step::Unmark { .. }]), "{:?}", advance.steps);
        assert_eq!(
            (end(&history).0, end(&history).1),
            (DecisionOutcome::Cancelled, Reason::DoNotDisruptAnnotation)
        );
    }
}

#[test]
fn node_found_empty_is_let_go_of_for_a_protected_pod_of_a_daemon_set() {
    let daemon = protected(replica("d").with_class(|class| class.daemon_set = true), PROTECTED_FOREVER);
    assert!(holds_node(&daemon.clone().build(), NOW));
    let mut history = open(Reason::Empty, RemovalPhase::Marked, &["n"]);
    let world = cluster([marked("n")], [daemon]).build();
    let advance = step(&world, &drain_settings(|_| {}), &mut history, NOW.plus(Seconds(10)));
    assert!(matches!(&advance.steps[..], [Step::Unmark { .. }]), "{:?}", advance.steps);
}

#[test]
fn live_look_that_finds_protection_ends_the_removal_without_failure() {
    let mut history = draining();
    let result = StepResult::Protected { node: "n".into(), pod: None };
    let outcome = Outcome { pool: "a".into(), intent: crate::removal::ID.into(), result };
    let memory = history.pools.get_mut("a").expect("there");
    absorb_one(memory, &outcome, &drain_settings(|_| {}), NOW);
    assert_eq!(
        (end(&history).0, end(&history).1),
        (DecisionOutcome::Cancelled, Reason::DoNotDisruptAnnotation)
    );
    assert_eq!(history.pools["a"].last_failure, None);
}

#[test]
fn annotation_alone_does_not_make_a_node_karpenters() {
    let kept = node("n").annotation(DO_NOT_DISRUPT_ANNOTATION, "true").build();
    assert!(!headroom_core::nodes::state::foreign::is_foreign(&kept));
}
