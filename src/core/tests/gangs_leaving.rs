//! Gangs that run: no removal takes pods that they need at once.

use std::sync::Arc;

use headroom_core::config::{Config, Policy, Rotation};
use headroom_core::history::{Action, History};
use headroom_core::labels::ObjectKey;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, WorldBuilder};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use headroom_core::world::gang::{Gang, GangKind, GangRef};
use headroom_core::world::node::{DELETION_TAINT, INTENT_ANNOTATION, Readiness, TEMPLATE_ANNOTATION};

use crate::scale_down::{cluster, marked, member, reasons, replica, run, settings, unneeded, with_pool};

const RACK: &str = "example.com/rack";

fn object(min: u32, whole: bool) -> Delta {
    Delta::GangApplied(Box::new(Gang {
        kind: GangKind::PodGroup,
        key: ObjectKey::new("default", "train"),
        created_at: UnixTime(NOW.0 - 7200),
        minimums: [("".into(), min)].into(),
        done_count: 0,
        disrupted_at_once: whole,
        topology_key: None,
    }))
}

/// The same, with pods that share one rack.
fn in_one_rack(min: u32) -> Delta {
    let Delta::GangApplied(gang) = object(min, false) else { unreachable!("an object of a gang") };
    Delta::GangApplied(Box::new(Gang { topology_key: Some(RACK.into()), ..*gang }))
}

fn of(name: &str) -> PodBuilder {
    let gang = Arc::new(GangRef::new(GangKind::PodGroup, "train".into()));
    replica(name).with_class(|class| class.gang = Some(gang))
}

/// Settings by which any number of nodes may leave at once.
fn unbounded() -> Config {
    let mut config = settings();
    config.cluster.budgets.clear();
    config.cluster.max_drains = 10;
    config.pools[0].scale_down.budgets.clear();
    config
}

fn nodes() -> [NodeBuilder; 4] {
    ["a", "b", "c", "spare"].map(member)
}

/// Nodes a, b and c with a pod of the gang each, beside a busy node that has room for all of them.
fn running(min: u32, whole: bool) -> WorldBuilder {
    running_on(nodes(), min, whole)
}

fn running_on(nodes: impl IntoIterator<Item = NodeBuilder>, min: u32, whole: bool) -> WorldBuilder {
    let pods = ["a", "b", "c"].map(|node| of(&format!("w-{node}")).on(node));
    let busy = replica("load").cpu("2200m").on("spare");
    cluster(nodes, pods.into_iter().chain([busy])).delta(object(min, whole))
}

fn old() -> History {
    unneeded(&["a", "b", "c"])
}

/// The verdicts on a, b and c, and the nodes that are marked.
fn decided(world: WorldBuilder, config: &Config, history: &mut History) -> (Vec<Reason>, Vec<String>) {
    let decided = run(&world.build(), config, history, NOW);
    let found = reasons(&decided).into_iter().filter(|(node, _, _)| node.len() == 1);
    (found.map(|(_, reason, _)| reason).collect(), marked(&decided).concat())
}

#[test]
fn a_gang_that_needs_all_its_pods_keeps_their_nodes_whatever_room_there_is_elsewhere() {
    let world = running(3, false).build();
    let decided = run(&world, &unbounded(), &mut old(), NOW);
    assert!(marked(&decided).is_empty());
    let first = reasons(&decided).remove(0);
    assert_eq!(first, ("a".into(), Reason::GangWouldBreak, Some("pod/default/w-a".into())));
}

#[test]
fn one_plan_takes_as_many_pods_as_the_gang_can_spare_and_the_next_no_more() {
    let mut history = old();
    let (found, gone) = decided(running(2, false), &unbounded(), &mut history);
    assert_eq!(gone, ["a"]);
    assert_eq!(found[1..], [Reason::GangWouldBreak; 2]);
    assert!(history.pools["a"].unneeded.contains_key("b"), "its clock goes on: another plan may let it go");
    // The removal under way counts, before anything has been evicted.
    let (found, gone) = decided(running(2, false), &unbounded(), &mut history);
    assert_eq!((gone, found[2]), (vec!["a".to_owned()], Reason::GangWouldBreak));
    assert_eq!(decided(running(1, false), &unbounded(), &mut old()).1, ["a", "b", "c"], "an ordinary pod");
}

#[test]
fn a_pod_moves_only_within_the_rack_of_its_gang() {
    let gone = |rack_of_spare: &str| {
        let nodes = [("a", "r1"), ("b", "r1"), ("spare", rack_of_spare)];
        let nodes = nodes.map(|(name, rack)| member(name).label(RACK, rack));
        // Node b is full, and the other one has room.
        let others = [replica("load-b").cpu("3500m").on("b"), replica("load").cpu("2200m").on("spare")];
        let pods = [of("w-a").on("a"), of("w-b").on("b")].into_iter().chain(others);
        decided(cluster(nodes, pods).delta(in_one_rack(1)), &unbounded(), &mut unneeded(&["a"]))
    };
    assert_eq!(gone("r1").1, ["a"]);
    let (found, gone) = gone("r2");
    assert_eq!((found[0], gone), (Reason::NoPlaceToMovePods, vec![]));
}

#[test]
fn a_gang_under_its_minimum_keeps_the_pods_that_it_has() {
    assert_eq!(
        decided(running(8, false), &unbounded(), &mut old()),
        (vec![Reason::GangWouldBreak; 3], vec![])
    );
}

#[test]
fn pods_that_are_on_their_way_out_or_on_nodes_that_are_do_not_count() {
    let leaving = || of("leaving").on("spare").with(|pod| pod.deletion_at = Some(UnixTime(NOW.0 + 30)));
    let with = running(3, false).pod(leaving());
    assert_eq!(decided(with, &unbounded(), &mut old()).0, [Reason::GangWouldBreak; 3]);
    let there = running(3, false).pod(of("there").on("spare"));
    assert_eq!(decided(there, &unbounded(), &mut old()).1, ["a"]);
    let deleting = |change: fn(NodeBuilder) -> NodeBuilder| {
        let nodes = nodes().into_iter().chain([change(member("d"))]);
        running_on(nodes, 3, false).pod(of("w-d").on("d"))
    };
    let gone = deleting(|node| node.with(|node| node.deleting = true));
    assert!(decided(gone, &unbounded(), &mut old()).1.is_empty());
    let dead = deleting(|node| node.with(|node| node.ready = Readiness::NotReady));
    assert!(decided(dead, &unbounded(), &mut old()).1.is_empty());
    assert_eq!(decided(deleting(|node| node), &unbounded(), &mut old()).1.len(), 1);
}

#[test]
fn a_gang_that_is_disrupted_at_once_moves_whole_or_stays() {
    assert_eq!(decided(running(3, true), &unbounded(), &mut old()).1, ["a", "b", "c"]);
    let held = running(3, true).pod(of("stuck").owner("Other", "x").on("c"));
    let (found, gone) = decided(held, &unbounded(), &mut old());
    assert_eq!((&found[..2], gone.len()), (&[Reason::GangWouldBreak; 2][..], 0));
}

#[test]
fn a_dead_node_goes_and_an_unhealthy_or_too_old_one_is_replaced_although_a_gang_needs_its_pods() {
    let dead = || {
        let mut nodes = nodes();
        nodes[0] = member("a").with(|node| node.ready = Readiness::NotReady);
        running_on(nodes, 3, false)
    };
    assert_eq!(decided(dead(), &unbounded(), &mut old()).1, ["a"]);
    let drifted = || {
        let mut nodes = nodes();
        nodes[0] = member("a").annotation(TEMPLATE_ANNOTATION, "old");
        running_on(nodes, 3, false)
    };
    let rotating = |max_age: Option<Seconds>| {
        with_pool(|pool| {
            pool.scale_down.rotation = Rotation {
                replace_drifted: true,
                max_age,
                template: Some("new".into()),
                ..Rotation::default()
            };
        })
    };
    assert_eq!(decided(drifted(), &rotating(None), &mut old()).0[0], Reason::GangWouldBreak);
    let too_old = rotating(Some(Seconds(60)));
    assert_eq!(decided(drifted(), &too_old, &mut old()).0[0], Reason::AwaitsRotation);
}

#[test]
fn nothing_is_bought_in_place_of_a_node_that_a_gang_keeps() {
    let config = with_pool(|pool| pool.scale_down.policy = Policy::WhenCheaper(Default::default()));
    let decided = run(&running(3, false).build(), &config, &mut old(), NOW);
    assert!(decided.replaceable.is_empty() && marked(&decided).is_empty());
    let split = running(3, true).pod(of("stuck").owner("Other", "x").on("c"));
    let decided = run(&split.build(), &config, &mut old(), NOW);
    assert!(decided.replaceable.is_empty() && marked(&decided).is_empty());
}

#[test]
fn a_drain_ends_when_its_gang_has_come_to_need_the_pod() {
    let mut history = old();
    let draining = |world: WorldBuilder, history: &mut History, at: i64| {
        run(&world.build(), &unbounded(), history, UnixTime(NOW.0 + at))
    };
    draining(running(2, false), &mut history, 0);
    let intent = history.pools["a"].intents[0].id.clone();
    let marked_node = |min: u32| {
        let mut nodes = nodes();
        nodes[0] = member("a")
            .taint(DELETION_TAINT, "")
            .annotation(INTENT_ANNOTATION, &intent)
            .with(|node| node.unschedulable = true);
        running_on(nodes, min, false)
    };
    let first = draining(marked_node(2), &mut history, 10);
    let second = draining(marked_node(2), &mut history, 20);
    let evicts = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Evict { .. }));
    assert!(evicts(&first.steps) || evicts(&second.steps));
    let spared = draining(marked_node(3), &mut history, 40);
    assert!(!evicts(&spared.steps));
    let open = history.pools["a"].intents.iter().filter(|intent| match &intent.action {
        Action::Remove(removal) => removal.phase != headroom_core::history::RemovalPhase::Undoing,
        Action::Increase(_) => false,
    });
    assert_eq!(open.count(), 0);
    assert_eq!(
        history.pools["a"].decisions.last().map(|decision| decision.reason),
        Some(Reason::GangWouldBreak)
    );
}
