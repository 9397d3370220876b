//! Rules of the snapshot: forks leave no trace, order is fixed. It tests nothing of the plan.

use std::sync::Arc;

use headroom_core::resources::Resources;
use headroom_core::scheduling::{NodeIx, PodRef, Presence, Refusal, Snapshot, TemplateNode};
use headroom_core::testing::{node, pod, world};
use headroom_core::world::node::ZONE_LABEL;

/// Everything observable of a snapshot.
fn state(snapshot: &Snapshot<'_>) -> Vec<(String, Presence, Resources, Vec<PodRef>)> {
    snapshot
        .nodes()
        .map(|(ix, view)| {
            (
                view.name().to_string(),
                snapshot.presence(ix),
                view.requested().clone(),
                snapshot.pods(ix).collect(),
            )
        })
        .collect()
}

#[test]
fn rollback_takes_back_every_kind_of_change() {
    let world = world()
        .node(node("a"))
        .node(node("b"))
        .pod(pod("p").cpu("1").on("a"))
        .pod(pod("q").cpu("2").on("a"))
        .build();
    let mut snapshot = Snapshot::new(&world);
    let before = state(&snapshot);
    let mark = snapshot.checkpoint();

    let a = snapshot.named("a").expect("node a");
    let b = snapshot.named("b").expect("node b");
    let pods: Vec<PodRef> = snapshot.pods(a).collect();
    assert!(snapshot.remove(pods[0], a));
    snapshot.place(pods[0], b);
    snapshot.set_presence(a, Presence::Ghost);
    let template = Arc::new(TemplateNode { node: node("template").build(), ..TemplateNode::default() });
    let added = snapshot.add_node(&template, "new-1".into());
    assert!(snapshot.remove(pods[1], a));
    snapshot.place(pods[1], added);
    assert_ne!(state(&snapshot), before);

    snapshot.rollback(mark);
    assert_eq!(state(&snapshot), before);
}

#[test]
fn nodes_come_by_name_and_added_ones_last() {
    let world = world().node(node("b")).node(node("c")).node(node("a")).build();
    let mut snapshot = Snapshot::new(&world);
    let template = Arc::new(TemplateNode { node: node("template").build(), ..TemplateNode::default() });
    snapshot.add_node(&template, "0-new".into());
    let names: Vec<String> = snapshot.nodes().map(|(_, view)| view.name().to_string()).collect();
    assert_eq!(names, ["a", "b", "c", "0-new"]);
}

#[test]
fn placed_pods_use_up_room() {
    let world = world().node(node("a").cpu("1")).build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("p").cpu("600m").class());
    let a = snapshot.named("a").expect("node a");
    assert!(snapshot.fits(class, a));
    snapshot.place(PodRef::Virtual(class), a);
    assert!(!snapshot.fits(class, a));
    let refusal = snapshot.check(class, a).expect_err("full");
    assert_eq!(refusal.to_string(), "cpu: asks 600m, 400m free");
}

#[test]
fn ghost_takes_no_pods() {
    let world = world().node(node("a")).build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("p").class());
    let a = snapshot.named("a").expect("node a");
    snapshot.set_presence(a, Presence::Ghost);
    assert_eq!(snapshot.check(class, a), Err(Refusal::Unschedulable));
    assert!(!snapshot.fits(class, a));
}

#[test]
fn finished_pods_hold_nothing() {
    let world = world()
        .node(node("a").cpu("1"))
        .pod(pod("p").cpu("1").on("a").with(|pod| pod.phase = headroom_core::world::pod::PodPhase::Succeeded))
        .build();
    let mut snapshot = Snapshot::new(&world);
    let a = snapshot.named("a").expect("node a");
    let class = snapshot.class_ix(&pod("q").cpu("1").class());
    assert_eq!(snapshot.pods(a).count(), 0);
    assert!(snapshot.fits(class, a));
}

#[test]
fn a_look_at_a_node_finds_the_same_each_time_and_what_a_check_with_reasons_finds() {
    let mut builder = world();
    for index in 0..6 {
        let made = node(&format!("n{index}")).zone(["a", "b", "c"][index % 3]);
        builder = builder.node(if index % 2 == 0 { made.taint("spot", "yes") } else { made });
    }
    let world = builder.build();
    let mut snapshot = Snapshot::new(&world);
    // More than there are answers kept for.
    let mut classes = Vec::new();
    for index in 0..150 {
        let made = pod("p").selector(ZONE_LABEL, ["a", "b", "c", "d"][index % 4]);
        let made = if index % 3 == 0 { made.tolerates("spot") } else { made };
        let made = if index % 5 == 0 { made.selector("number", &index.to_string()) } else { made };
        let made = if index % 7 == 0 { pod("p").tolerates(&format!("key-{index}")) } else { made };
        classes.push(snapshot.class_ix(&made.class()));
    }
    let nodes: Vec<NodeIx> = snapshot.indexes().collect();
    let mut accepted = 0;
    for _ in 0..2 {
        for class in &classes {
            for node in &nodes {
                let expected = snapshot.check(*class, *node).is_ok();
                assert_eq!(snapshot.fits(*class, *node), expected, "{class:?} on {node:?}");
                accepted += usize::from(expected);
            }
        }
    }
    assert!(100 < accepted, "{accepted} looks found a place");
}

#[test]
fn an_added_node_is_not_taken_for_one_that_was_added_before() {
    let world = world().node(node("a")).build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("p").selector(ZONE_LABEL, "b").class());
    for (zone, fits) in [("a", false), ("b", true), ("a", false)] {
        let mark = snapshot.checkpoint();
        let template = node("template").zone(zone).build();
        let template = Arc::new(TemplateNode { node: template, ..TemplateNode::default() });
        let added = snapshot.add_node(&template, "new-1".into());
        assert_eq!(snapshot.fits(class, added), fits, "zone {zone}");
        snapshot.rollback(mark);
    }
}

#[test]
fn a_node_that_is_starting_is_looked_at_as_it_will_be_from_then_on() {
    let world = world().node(node("a").taint("starting", "")).build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("p").class());
    let a = snapshot.named("a").expect("node a");
    assert!(!snapshot.fits(class, a));
    snapshot.expect_started(a, Vec::new(), None);
    assert!(snapshot.fits(class, a));
}
