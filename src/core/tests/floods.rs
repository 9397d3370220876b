//! One namespace floods a plan with classes of pods: work is bounded, and what others need is served. Work is counted, not time.

use headroom_core::config::{ClusterSettings, Config};
use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::plan::{Plan, PodVerdict};
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::{LabelSelector, Operator, PodAffinityTerm};
use headroom_core::scheduling::{ClassIx, NodeIx, PodRef, Shares, Snapshot, TemplateNode};
use headroom_core::testing::{NOW, PodBuilder, config, controller, node, pod, pool, requirement, world};
use headroom_core::time::UnixTime;
use headroom_core::verdicts::NodeVerdict;
use headroom_core::world::World;
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};
use headroom_core::world::workload::ControllerKind;

const FLOOD: &str = "flood";

fn flood(index: usize) -> PodBuilder {
    let id = format!("id-{index}");
    pod(&format!("flood-{index}")).namespace(FLOOD).cpu("10m").label("app", "flood").label("id", &id)
}

/// Pods that all keep apart, in the same words.
fn apart(index: usize) -> PodBuilder {
    flood(index).away_from("app", "flood", HOSTNAME_LABEL)
}

/// Pods that all keep apart, each in words of its own.
fn unlike(index: usize) -> PodBuilder {
    let id = format!("id-{index}");
    let expressions =
        vec![requirement("app", Operator::In, &["flood"]), requirement("not", Operator::NotIn, &[&id])];
    let term = PodAffinityTerm {
        selector: Some(LabelSelector { match_expressions: expressions, ..LabelSelector::default() }),
        namespaces: Vec::new(),
        namespace_selector: Some(LabelSelector::default()),
        topology_key: HOSTNAME_LABEL.into(),
    };
    flood(index).with_class(|class| class.pod_anti_affinity.push(term))
}

/// Half-full nodes, `count` pods of the flood, and a pod in each of three namespaces that needs a new node.
fn flooded(nodes: usize, count: usize, one: fn(usize) -> PodBuilder) -> World {
    let mut builder = world();
    for index in 0..nodes {
        let name = format!("n{index:04}");
        let zone = ["a", "b", "c"][index % 3];
        builder = builder.node(node(&name).of("general", "g").zone(zone));
        builder = builder.pod(pod(&format!("there-{index}")).cpu("2").on(&name));
    }
    for team in ["red", "green", "blue"] {
        let wanted = pod(team).namespace(team).label("app", team).cpu("3");
        builder = builder.pod(wanted.away_from("app", team, HOSTNAME_LABEL));
    }
    let target = u32::try_from(nodes).expect("small");
    builder.pods((0..count).map(|index| one(index).build())).group("general", "g", "", target).build()
}

fn settings(max_work_units: u64) -> Config {
    let cluster = ClusterSettings { max_work_units, ..ClusterSettings::default() };
    Config { cluster, ..config([pool("general").bounds(0, 1000)]) }
}

fn planned(world: &World, config: &Config) -> Plan {
    plan(world, &History::default(), config, NOW)
}

/// Verdicts of the flood, and of the others.
fn verdicts(plan: &Plan) -> (Vec<&PodVerdict>, Vec<&PodVerdict>) {
    plan.reasons.pods.iter().partition(|verdict| &*verdict.namespace == FLOOD)
}

fn count(verdicts: &[&PodVerdict], skipped: Option<Reason>) -> u32 {
    let of = verdicts.iter().filter(|verdict| verdict.skipped == skipped);
    of.map(|verdict| verdict.pods_count - verdict.unplaced_count).sum()
}

#[test]
fn flood_of_classes_that_keep_apart_in_the_same_words_is_placed_as_a_whole() {
    let plan = planned(&flooded(30, 200, apart), &settings(ClusterSettings::default().max_work_units));
    let (flood, others) = verdicts(&plan);
    assert_eq!((count(&flood, None), count(&others, None)), (200, 3));
}

#[test]
fn pods_beyond_the_work_of_a_plan_are_left_out_with_a_reason_and_other_namespaces_are_served() {
    let plan = planned(&flooded(30, 600, unlike), &settings(200_000));
    let (flood, others) = verdicts(&plan);
    assert_eq!(count(&others, None), 3);
    let left_out = count(&flood, Some(Reason::WorkLimitReached));
    let unplaced: u32 = flood.iter().map(|verdict| verdict.unplaced_count).sum();
    assert!(100 < left_out, "{left_out} left out");
    assert_eq!(count(&flood, None) + unplaced + left_out, 600, "every pod is in one verdict");
    assert_eq!(unplaced, 0, "what is left out is not refused, too");
}

#[test]
fn same_flood_leaves_the_same_pods_out() {
    let (world, settings) = (flooded(30, 600, unlike), settings(200_000));
    assert_eq!(planned(&world, &settings), planned(&world, &settings));
}

/// Work units of putting one pod of each class onto the first node that takes it.
fn work_of_first_fit(world: &World, count: usize, one: fn(usize) -> PodBuilder) -> u64 {
    let mut snapshot = Snapshot::new(world);
    let classes: Vec<ClassIx> = (0..count).map(|index| snapshot.class_ix(&one(index).class())).collect();
    let nodes: Vec<NodeIx> = snapshot.nodes().map(|(node, _)| node).collect();
    for class in classes {
        if let Some(node) = nodes.iter().find(|node| snapshot.fits(class, **node)) {
            snapshot.place(PodRef::Virtual(class), *node);
        }
    }
    snapshot.work_units
}

#[test]
fn work_counts_the_terms_that_are_looked_at() {
    let world = flooded(20, 0, flood);
    let plain = work_of_first_fit(&world, 300, flood);
    let unlike = work_of_first_fit(&world, 300, unlike);
    assert!(plain < 10_000, "{plain}");
    assert!(300 * 300 <= unlike, "each class looks at the term of each: {unlike}");
}

/// Words of no node and no pod.
fn words(count: usize) -> Vec<String> {
    (0..count).map(|word| format!("word-{word}")).collect()
}

/// A pod that wants a node with one of many values of a label.
fn choosy(index: usize) -> PodBuilder {
    let words = words(1000);
    let values: Vec<&str> = words.iter().map(String::as_str).collect();
    flood(index).affinity("pick", Operator::In, &values)
}

/// A pod that keeps away from all pods without one of many values of a label.
fn picky(index: usize) -> PodBuilder {
    let (words, id) = (words(400), format!("id-{index}"));
    let values: Vec<&str> = words.iter().map(String::as_str).chain([&*id]).collect();
    let selector = LabelSelector {
        match_expressions: vec![requirement("app", Operator::NotIn, &values)],
        ..LabelSelector::default()
    };
    let term = PodAffinityTerm {
        selector: Some(selector),
        namespaces: Vec::new(),
        namespace_selector: None,
        topology_key: HOSTNAME_LABEL.into(),
    };
    flood(index).with_class(|class| class.pod_anti_affinity.push(term))
}

/// A pod with a hundred anti-affinity terms that no other has.
fn many_terms(index: usize) -> PodBuilder {
    (0..100).fold(flood(index), |pod, term| pod.away_from("foe", &format!("{index}-{term}"), HOSTNAME_LABEL))
}

#[test]
fn work_counts_the_values_of_node_affinity() {
    let work = work_of_first_fit(&flooded(20, 0, flood), 10, choosy);
    assert!(10 * 20 * 200 < work, "each check looks at a thousand values: {work}");
}

#[test]
fn work_counts_the_values_of_selectors() {
    let work = work_of_first_fit(&flooded(20, 0, flood), 20, picky);
    assert!(20 * 20 * 80 < work, "each class looks at the values of each: {work}");
}

#[test]
fn values_and_terms_beyond_the_work_of_a_plan_are_left_out_and_others_are_served() {
    for (one, count_of_pods, work) in [
        (choosy as fn(usize) -> PodBuilder, 100, 300_000),
        (picky, 100, 300_000),
        (many_terms, 300, 2_000_000),
    ] {
        let plan = planned(&flooded(30, count_of_pods, one), &settings(work));
        let (flood, others) = verdicts(&plan);
        assert_eq!(count(&others, None), 3);
        let left_out = count(&flood, Some(Reason::WorkLimitReached));
        assert!(50 < left_out, "{left_out} of {count_of_pods} left out");
    }
}

#[test]
fn rules_about_other_pods_beyond_their_bound_are_refused_and_keep_nobody_away() {
    let long = |index: usize| {
        flood(index).with_class(|class| {
            class.pod_anti_affinity =
                (0..3).flat_map(|_| picky(index).class().pod_anti_affinity.clone()).collect();
        })
    };
    let world = flooded(2, 0, flood);
    let mut snapshot = Snapshot::new(&world);
    let [long, other] = [long(0), flood(1)].map(|pod| snapshot.class_ix(&pod.class()));
    assert!(!snapshot.fits(long, NodeIx(0)));
    let refusal = snapshot.check(long, NodeIx(0)).expect_err("too long");
    assert_eq!(refusal.reason(), Reason::UnsupportedConstraint);
    assert!(refusal.to_string().contains("more than 512"), "{refusal}");
    snapshot.place(PodRef::Virtual(long), NodeIx(0));
    assert!(snapshot.fits(other, NodeIx(0)));
}

#[test]
fn a_message_names_the_first_of_many_values_alone() {
    let world = flooded(1, 0, flood);
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&choosy(0).class());
    let refusal = snapshot.check(class, NodeIx(0)).expect_err("no such label").to_string();
    assert!(refusal.len() < 300 && refusal.contains("word-15 and 984 more"), "{refusal}");
}

/// Nodes that are hardly used, each with a pod of the flood that could move, and one without pods.
fn running(nodes: usize) -> World {
    let mut builder = world().node(node("empty").of("general", "g"));
    for index in 0..nodes {
        let name = format!("n{index:04}");
        let one = || unlike(index).owner("ReplicaSet", &format!("web-{index}"));
        let owner = controller(ControllerKind::ReplicaSet, &format!("web-{index}"), 1, one());
        builder = builder.node(node(&name).of("general", "g")).controller(owner).pod(one().on(&name));
    }
    builder.group("general", "g", "", u32::try_from(nodes + 1).expect("small")).build()
}

#[test]
fn looking_for_nodes_that_go_stops_at_the_work_of_a_plan_and_goes_on_elsewhere_with_the_next() {
    let (world, settings) = (running(40), settings(10_000));
    let mut history = History::default();
    let mut looked_at = std::collections::BTreeSet::new();
    for second in 0..200 {
        let plan = plan(&world, &history, &settings, UnixTime(NOW.0 + second));
        assert!(plan.steps.is_empty(), "{:?}", plan.steps);
        let reached = |verdict: &NodeVerdict<'_>| verdict.reason != Reason::WorkLimitReached;
        let reached: Vec<_> = plan.reasons.nodes.iter().filter(reached).map(|v| v.node.clone()).collect();
        assert!(reached.len() < 30, "{} of 40 in one plan", reached.len());
        looked_at.extend(reached);
        history = plan.next_history;
    }
    assert_eq!(looked_at.len(), 41, "{looked_at:?}");
}

#[test]
fn nodes_without_pods_go_whatever_the_pods_of_others_cost() {
    let plan = planned(&running(40), &settings(10_000));
    let verdict = plan.reasons.nodes.of("empty").map(|v| v.reason);
    assert_eq!(verdict, Some(Reason::NotUnneededLongEnough), "its clock runs");
}

#[test]
fn equal_terms_are_looked_at_once() {
    let world = flooded(20, 0, flood);
    let checks: u64 = (0..20).sum::<u64>() + 280 * 20;
    let work = work_of_first_fit(&world, 300, apart);
    assert!(work < 3 * checks, "{work} for {checks} checks");
}

#[test]
fn classes_that_fit_the_same_nodes_have_one_shape_and_others_have_not() {
    let world = flooded(3, 0, flood);
    let mut snapshot = Snapshot::new(&world);
    let mut class = |pod: PodBuilder| snapshot.class_ix(&pod.class());
    let foe = class(pod("foe").namespace(FLOOD).away_from("id", "id-2", HOSTNAME_LABEL));
    let [first, alike] = [apart(0), apart(1)].map(&mut class);
    let unlike = [apart(2), apart(1).cpu("20m"), apart(1).host_port(80)].map(&mut class);
    let none = [apart(1).spread("app", "flood", ZONE_LABEL, 1), apart(1).claim("data")].map(&mut class);
    let first = snapshot.shape(first);
    assert!(first.is_some() && snapshot.shape(foe) != first);
    assert_eq!(snapshot.shape(alike), first);
    assert!(unlike.iter().all(|class| snapshot.shape(*class) != first));
    assert!(none.iter().all(|class| snapshot.shape(*class).is_none()));
}

#[test]
fn anti_affinity_of_the_flood_still_keeps_its_pods_apart() {
    for one in [apart, unlike] {
        let world = flooded(4, 0, flood);
        let mut snapshot = Snapshot::new(&world);
        let classes: Vec<ClassIx> = (0..6).map(|index| snapshot.class_ix(&one(index).class())).collect();
        let nodes: Vec<NodeIx> = snapshot.nodes().map(|(node, _)| node).collect();
        let mut takers = Vec::new();
        for class in classes {
            let taker = nodes.iter().position(|node| snapshot.fits(class, *node));
            takers.push(taker);
            if let Some(at) = taker {
                snapshot.place(PodRef::Virtual(class), nodes[at]);
            }
        }
        assert_eq!(takers, [Some(0), Some(1), Some(2), Some(3), None, None]);
    }
}

#[test]
fn host_ports_are_freed_by_a_rollback_and_by_a_removal() {
    let world = world().node(node("n1")).pod(pod("there").host_port(80).on("n1")).build();
    let mut snapshot = Snapshot::new(&world);
    let [http, other] = [80, 81].map(|port| snapshot.class_ix(&pod("p").host_port(port).class()));
    let node = NodeIx(0);
    assert_eq!((snapshot.fits(http, node), snapshot.fits(other, node)), (false, true));
    let mark = snapshot.checkpoint();
    snapshot.place(PodRef::Virtual(other), node);
    assert!(!snapshot.fits(other, node));
    snapshot.rollback(mark);
    assert!(snapshot.fits(other, node));
    let there = snapshot.pods(node).next().expect("a pod");
    snapshot.remove(there, node);
    assert!(snapshot.fits(http, node));
    snapshot.rollback(mark);
    assert!(!snapshot.fits(http, node));
}

#[test]
fn added_nodes_begin_without_the_ports_of_nodes_that_are_gone() {
    let world = world().build();
    let mut snapshot = Snapshot::new(&world);
    let class = snapshot.class_ix(&pod("p").host_port(80).class());
    let template = std::sync::Arc::new(TemplateNode { node: node("t").build(), ..TemplateNode::default() });
    for _ in 0..2 {
        let mark = snapshot.checkpoint();
        let added = snapshot.add_node(&template, "new".into());
        assert!(snapshot.fits(class, added));
        snapshot.place(PodRef::Virtual(class), added);
        assert!(!snapshot.fits(class, added));
        snapshot.rollback(mark);
    }
}

#[test]
fn namespace_that_spent_its_share_stops_and_the_others_keep_theirs() {
    let mut shares = Shares::new(32_000, 4);
    shares.begin_search(0);
    // An eighth for one search: half of it for all, and a quarter of the other half for each.
    assert_eq!(shares.limit("a", 0), 2000);
    shares.charge(&"a".into(), 2000);
    assert_eq!((shares.limit("a", 2000), shares.limit("b", 2000)), (2000, 2500));
    shares.begin_search(2000);
    assert_eq!(shares.limit("a", 2000), 4000);
    // When half of the plan's work is spent, each namespace has an eighth of the plan's, less what it took before.
    shares.begin_search(20_000);
    shares.charge(&"a".into(), 4000);
    assert_eq!((shares.limit("a", 20_000), shares.limit("b", 20_000)), (20_000, 22_000));
}
