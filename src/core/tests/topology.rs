//! Rules that look at pods on other nodes, one a test. It tests fit and the plans that follow from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::scheduling::{PodRef, Presence, Refusal, Snapshot, TemplateNode};
use headroom_core::testing::{NOW, PodBuilder, config, node, pod, pool, world};
use headroom_core::world::World;
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};

/// Names of the nodes that take one more such pod.
fn takers(world: &World, pod: PodBuilder) -> Vec<String> {
    let mut snapshot = Snapshot::new(world);
    let class = snapshot.class_ix(&pod.class());
    let nodes: Vec<_> = snapshot.nodes().map(|(ix, view)| (ix, view.name().to_string())).collect();
    nodes
        .into_iter()
        .filter(|(ix, _)| {
            let fits = snapshot.fits(class, *ix);
            assert_eq!(fits, snapshot.check(class, *ix).is_ok(), "fits and check agree");
            fits
        })
        .map(|(_, name)| name)
        .collect()
}

fn three_zones() -> headroom_core::testing::WorldBuilder {
    world().node(node("a1").zone("a")).node(node("b1").zone("b")).node(node("c1").zone("c"))
}

fn increases(world: &World, config: &headroom_core::config::Config) -> BTreeMap<String, u32> {
    plan(world, &History::default(), config, NOW)
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Increase { group, from, to, .. } => Some((group.to_string(), to - from)),
            _ => None,
        })
        .collect()
}

// === spread ===

#[test]
fn spread_allows_no_more_than_its_skew() {
    let world = three_zones().pod(pod("w").label("app", "w").on("a1")).build();
    assert_eq!(takers(&world, pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1)), ["b1", "c1"]);
    assert_eq!(
        takers(&world, pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 2)),
        ["a1", "b1", "c1"]
    );
}

#[test]
fn spread_refuses_nodes_without_the_key() {
    let world = three_zones().node(node("nowhere")).build();
    assert_eq!(takers(&world, pod("w").spread("app", "w", ZONE_LABEL, 1)), ["a1", "b1", "c1"]);
}

#[test]
fn too_few_domains_make_the_lowest_count_zero() {
    let running = || three_zones().pod(pod("1").label("app", "w").on("a1"));
    let world =
        running().pod(pod("2").label("app", "w").on("b1")).pod(pod("3").label("app", "w").on("c1")).build();
    let wanted = |min| {
        pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1).with_class(|class| {
            class.topology_spread[0].min_domains = min;
        })
    };
    assert_eq!(takers(&world, wanted(3)).len(), 3);
    assert_eq!(takers(&world, wanted(4)), Vec::<String>::new());
}

#[test]
fn nodes_outside_of_the_pods_affinity_count_only_when_configured() {
    let world = three_zones().pod(pod("1").label("app", "w").on("a1")).build();
    let wanted = |honor| {
        pod("w")
            .label("app", "w")
            .selector(ZONE_LABEL, "a")
            .spread("app", "w", ZONE_LABEL, 1)
            .with_class(|class| class.topology_spread[0].honor_node_affinity = honor)
    };
    assert_eq!(takers(&world, wanted(true)), ["a1"]);
    assert_eq!(takers(&world, wanted(false)), Vec::<String>::new());
}

#[test]
fn tainted_nodes_are_left_out_only_when_configured() {
    let world = three_zones()
        .node(node("d1").zone("d").taint("x", ""))
        .pod(pod("1").label("app", "w").on("a1"))
        .pod(pod("2").label("app", "w").on("b1"))
        .pod(pod("3").label("app", "w").on("c1"))
        .build();
    let wanted = |honor| {
        pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1).with_class(|class| {
            class.topology_spread[0].honor_node_taints = honor;
        })
    };
    assert_eq!(takers(&world, wanted(true)).len(), 3);
    assert_eq!(takers(&world, wanted(false)), Vec::<String>::new());
}

#[test]
fn terminating_and_foreign_pods_do_not_count_for_spread() {
    let world = three_zones()
        .pod(pod("1").label("app", "w").on("a1").with(|pod| pod.deletion_at = Some(NOW)))
        .pod(pod("2").label("app", "w").namespace("other").on("a1"))
        .build();
    assert_eq!(
        takers(&world, pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1)),
        ["a1", "b1", "c1"]
    );
}

#[test]
fn ghost_keeps_its_domain_for_spread() {
    let world = three_zones()
        .pod(pod("1").label("app", "w").on("a1"))
        .pod(pod("2").label("app", "w").on("b1"))
        .build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1).class());
    let (a, c) = (snapshot.named("a1").expect("a1"), snapshot.named("c1").expect("c1"));
    assert!(!snapshot.fits(class, a));
    snapshot.set_presence(c, Presence::Ghost);
    assert!(!snapshot.fits(class, a), "zone c still counts as empty");
    snapshot.set_presence(c, Presence::Gone);
    assert!(snapshot.fits(class, a), "zone c is no more");
}

#[test]
fn ghost_counts_as_tainted_where_spread_leaves_tainted_nodes_out() {
    let world = three_zones()
        .node(node("d1").zone("d"))
        .pod(pod("1").label("app", "w").on("a1"))
        .pod(pod("2").label("app", "w").on("b1"))
        .pod(pod("3").label("app", "w").on("c1"))
        .build();
    let fits = |honor: bool| {
        let wanted = pod("w").label("app", "w").spread("app", "w", ZONE_LABEL, 1);
        let wanted = wanted.with_class(|class| class.topology_spread[0].honor_node_taints = honor);
        let mut snapshot = Snapshot::new(&world);
        let class = snapshot.class_ix(&wanted.class());
        let (a, d) = (snapshot.named("a1").expect("a1"), snapshot.named("d1").expect("d1"));
        assert!(!snapshot.fits(class, a), "zone d counts as empty");
        let before = snapshot.checkpoint();
        snapshot.set_presence(d, Presence::Ghost);
        let fits = snapshot.fits(class, a);
        snapshot.rollback(before);
        assert!(!snapshot.fits(class, a), "the node stays after all");
        fits
    };
    assert!(fits(true), "a node that leaves carries the mark");
    assert!(!fits(false), "zone d still counts as empty");
}

// === affinity ===

#[test]
fn affinity_needs_a_matching_pod_in_the_domain() {
    let world = three_zones().node(node("a2").zone("a")).pod(pod("db").label("app", "db").on("a1")).build();
    assert_eq!(takers(&world, pod("w").near("app", "db", ZONE_LABEL)), ["a1", "a2"]);
    assert_eq!(takers(&world, pod("w").near("app", "db", HOSTNAME_LABEL)), ["a1"]);
}

#[test]
fn first_pod_of_its_own_kind_may_go_anywhere() {
    let world = three_zones().build();
    assert_eq!(takers(&world, pod("w").label("app", "w").near("app", "w", ZONE_LABEL)).len(), 3);
    assert_eq!(takers(&world, pod("w").label("app", "x").near("app", "w", ZONE_LABEL)).len(), 0);
}

#[test]
fn pods_that_keep_apart_from_others_share_a_new_node_among_themselves() {
    let web = pod("web").cpu("1").label("app", "web").away_from("app", "db", HOSTNAME_LABEL).times(8);
    let db = pod("db").cpu("1").label("app", "db");
    let world = world().group("general", "a", "", 0).pods(web).pod(db).build();
    let bought = increases(&world, &config([pool("general")]));
    assert_eq!(bought, BTreeMap::from([("a".to_owned(), 3)]), "four on each of two, and one for the other");
}

#[test]
fn anti_affinity_works_in_both_directions() {
    let world = three_zones()
        .pod(pod("db").label("app", "db").on("a1"))
        .pod(pod("hermit").away_from("app", "w", ZONE_LABEL).on("b1"))
        .build();
    assert_eq!(takers(&world, pod("w").label("app", "w").away_from("app", "db", ZONE_LABEL)), ["c1"]);
    assert_eq!(takers(&world, pod("v").label("app", "v")), ["a1", "b1", "c1"]);
}

#[test]
fn namespace_selector_widens_a_term() {
    let world = three_zones()
        .namespace("team", [("tier", "back")].into_iter().collect())
        .pod(pod("db").namespace("team").label("app", "db").on("a1"))
        .build();
    let wanted = |selector| {
        pod("w").away_from("app", "db", ZONE_LABEL).with_class(|class| {
            class.pod_anti_affinity[0].namespace_selector = selector;
        })
    };
    assert_eq!(takers(&world, wanted(None)).len(), 3);
    assert_eq!(takers(&world, wanted(Some(headroom_core::testing::label_selector("tier", "back")))).len(), 2);
    assert_eq!(takers(&world, wanted(Some(Default::default()))).len(), 2, "an empty selector means all");
}

#[test]
fn placements_that_are_taken_back_leave_no_count() {
    let world = three_zones().build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("w").label("app", "w").away_from("app", "w", ZONE_LABEL).class());
    let a = snapshot.named("a1").expect("a1");
    assert!(snapshot.fits(class, a));
    let mark = snapshot.checkpoint();
    snapshot.place(PodRef::Virtual(class), a);
    assert!(matches!(snapshot.check(class, a), Err(Refusal::PodAntiAffinity { .. })));
    let template = Arc::new(TemplateNode { node: node("t").zone("a").build(), ..TemplateNode::default() });
    let added = snapshot.add_node(&template, "new".into());
    assert!(!snapshot.fits(class, added), "the same zone");
    snapshot.rollback(mark);
    assert!(snapshot.fits(class, a));
}

// === plans ===

#[test]
fn one_pod_a_node_buys_as_many_nodes_as_pods() {
    let pods = pod("w").label("app", "w").away_from("app", "w", HOSTNAME_LABEL).times(4);
    let world = world().group("general", "a", "za", 0).pods(pods).build();
    assert_eq!(increases(&world, &config([pool("general")])), BTreeMap::from([("a".into(), 4)]));
}

#[test]
fn zone_spread_is_planned_over_all_groups_in_one_pass() {
    let pods = pod("w").cpu("4").label("app", "w").spread("app", "w", ZONE_LABEL, 1).times(6);
    let world = world()
        .group("general", "a", "za", 0)
        .group("general", "b", "zb", 0)
        .group("general", "c", "zc", 0)
        .pods(pods)
        .build();
    let expected = BTreeMap::from([("a".into(), 2), ("b".into(), 2), ("c".into(), 2)]);
    assert_eq!(increases(&world, &config([pool("general")])), expected);
}

#[test]
fn spread_uses_room_on_nodes_that_new_ones_make_legal() {
    let pods = pod("w").cpu("1").label("app", "w").spread("app", "w", ZONE_LABEL, 1).times(6);
    let world = world()
        .node(node("a1").zone("za").of("general", "a"))
        .group("general", "a", "za", 1)
        .group("general", "b", "zb", 0)
        .pods(pods)
        .build();
    // Zone b appears with its first node: from then on three pods belong into each zone.
    assert_eq!(increases(&world, &config([pool("general")])).values().sum::<u32>(), 1);
}

#[test]
fn spread_that_no_new_node_can_meet_is_named() {
    let world = world()
        .node(node("a1").zone("za").cpu("0"))
        .node(node("b1").zone("zb").cpu("0"))
        .group("general", "a", "za", 0)
        .pod(pod("1").label("app", "w").on("a1"))
        .pod(pod("w").cpu("1").label("app", "w").spread("app", "w", ZONE_LABEL, 1))
        .build();
    let plan = plan(&world, &History::default(), &config([pool("general")]), NOW);
    assert!(plan.steps.is_empty());
    let answer = &plan.reasons.pods[0].pools[0];
    assert_eq!(answer.reason, Reason::TopologySpreadViolation);
    assert_eq!(&*answer.message, "spread over topology.kubernetes.io/zone: skew would be 2, allowed 1");
}

#[test]
fn host_port_is_held_once_a_node() {
    let world = world().group("general", "a", "", 0).pods(pod("w").host_port(80).times(3)).build();
    assert_eq!(increases(&world, &config([pool("general")])), BTreeMap::from([("a".into(), 3)]));
}
