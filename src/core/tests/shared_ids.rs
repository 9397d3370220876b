//! Two nodes with one provider id: neither is removed, nothing counts twice. And deletions that nobody here began.

use headroom_core::history::{DecisionOutcome, History, RemovalPhase, Victim};
use headroom_core::memory::recheck_deletions;
use headroom_core::nodes::state::cluster_state::ClusterState;
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, node};
use headroom_core::world::{Delta, World};

use crate::removal::{cluster, end, later, marked, member, open, phase, replica, settings, step, victims};
use crate::scale_down::{reasons, run, unneeded};

/// A node of no labels that carries the provider id of `n`.
fn twin() -> NodeBuilder {
    node("twin").with(|twin| {
        twin.provider_id = "kwok://n".into();
        twin.created_at = later(60);
    })
}

#[test]
fn nodes_that_share_a_provider_id_stay_and_name_each_other() {
    let world = cluster([member("n"), member("other"), twin()], []).build();
    let decided = run(&world, &settings(|_| {}), &mut unneeded(&["n", "other", "twin"]), NOW);
    let object = |name: &str| {
        let verdict = decided.verdicts.of(name).expect("judged");
        (verdict.reason, verdict.object)
    };
    assert_eq!(object("n"), (Reason::ProviderIdShared, Some("node/twin")));
    assert_eq!(object("twin"), (Reason::ProviderIdShared, Some("node/n")));
    assert!(
        !reasons(&decided)
            .iter()
            .any(|(node, reason, _)| { node == "other" && *reason == Reason::ProviderIdShared })
    );
    let marks = decided.steps.iter().filter_map(|step| match step {
        Step::Mark { nodes, .. } => Some(nodes),
        _ => None,
    });
    assert!(marks.flatten().all(|node| &**node == "other"));
}

#[test]
fn a_node_is_known_again_when_its_twin_is_gone() {
    let mut world = cluster([member("n"), twin()], []).build();
    let twins = |world: &World| world.twins().count();
    assert_eq!(twins(&world), 2);
    world.apply(Delta::NodeDeleted("twin".into()));
    assert_eq!(twins(&world), 0);
    let decided = run(&world, &settings(|_| {}), &mut unneeded(&["n"]), NOW);
    assert!(reasons(&decided).iter().all(|(_, reason, _)| *reason != Reason::ProviderIdShared));
}

#[test]
fn a_machine_of_two_nodes_counts_once() {
    let counted = |nodes: Vec<NodeBuilder>| {
        let world = cluster(nodes, []).build();
        let config = settings(|_| {});
        let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
        (state.pools["a"].registered(), state.foreign_count)
    };
    assert_eq!(counted(vec![member("n"), twin()]), counted(vec![member("n")]));
    // Its labels may be copied too.
    let copied = member("twin").with(|twin| {
        twin.provider_id = "kwok://n".into();
        twin.created_at = later(60);
    });
    assert_eq!(counted(vec![member("n"), copied]), counted(vec![member("n")]));
}

#[test]
fn a_removal_lets_go_of_a_node_whose_twin_came_after_the_plan() {
    let config = settings(|_| {});
    for phase in [RemovalPhase::Marked, RemovalPhase::Draining, RemovalPhase::Deleting] {
        let world = cluster([marked("n"), twin()], []).build();
        let mut history = open(Reason::Underutilized, phase, &["n"]);
        let found = step(&world, &config, &mut history, later(60));
        assert!(!found.steps.iter().any(|step| matches!(step, Step::Delete { .. })), "{phase:?}");
        let (outcome, reason, message) = end(&history);
        assert_eq!((outcome, reason), (DecisionOutcome::Cancelled, Reason::ProviderIdShared));
        assert!(message.contains("node twin"), "{message}");
    }
}

#[test]
fn a_deletion_under_the_name_of_another_node_is_let_go_of() {
    let world = cluster([member("n")], [replica("p").on("n")]).build();
    let mut history = forged("ghost", "kwok://n");
    let found = step(&world, &settings(|_| {}), &mut history, later(1));
    assert!(!found.steps.iter().any(|step| matches!(step, Step::Delete { .. })), "{:?}", found.steps);
    assert!(victims(&history).is_empty());
}

/// A removal in the memory that is deleting this node, by this id.
fn forged(node: &str, id: &str) -> History {
    let mut history = open(Reason::Underutilized, RemovalPhase::Deleting, &[node]);
    let memory = history.pools.get_mut("a").expect("opened");
    for intent in &mut memory.intents {
        if let headroom_core::history::Action::Remove(removal) = &mut intent.action {
            removal.victims = vec![Victim { node: node.into(), id: id.into() }];
        }
    }
    history
}

fn rechecked(world: &World, mut history: History) -> Option<RemovalPhase> {
    recheck_deletions(history.pools.get_mut("a").expect("opened"), world, later(1));
    phase(&history)
}

#[test]
fn a_deletion_that_was_read_back_is_marked_and_drained_first_unless_the_mark_is_there() {
    let deleting = || open(Reason::Underutilized, RemovalPhase::Deleting, &["n"]);
    let plain = cluster([member("n")], [replica("p").on("n")]).build();
    assert_eq!(rechecked(&plain, deleting()), Some(RemovalPhase::Marked));
    let begun = cluster([marked("n")], []).build();
    assert_eq!(rechecked(&begun, deleting()), Some(RemovalPhase::Deleting));
    // A machine whose node is gone has still to be ended.
    let gone = cluster([member("other")], []).build();
    assert_eq!(rechecked(&gone, deleting()), Some(RemovalPhase::Deleting));
}
