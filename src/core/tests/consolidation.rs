//! Consolidation: what is bought in place of what, when the others leave, and what happens when it comes to nothing.

use headroom_core::config::{Config, Consolidation, Policy, Pool};
use headroom_core::history::{Action, Decision, DecisionOutcome, History, PoolHistory, RemovalPhase};
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, WorldBuilder, budget, config, controller, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::workload::ControllerKind;
use headroom_core::{absorb, plan};

use crate::increases::increased;

/// Dollars an hour: a large node costs as much as three small ones and has four times their room.
pub(crate) const SMALL: i64 = 200_000;
pub(crate) const LARGE: i64 = 600_000;

pub(crate) fn cheaper(pool: &mut Pool) {
    pool.scale_down.policy = Policy::WhenCheaper(Consolidation::default());
    pool.scale_down.delay_after_add = Seconds(0);
}

pub(crate) fn settings() -> Config {
    let large = pool("large").with(|pool| {
        cheaper(pool);
        pool.price_per_hour_micro = Some(LARGE);
        if let Some(template) = &mut pool.template {
            for amounts in [&mut template.capacity, &mut template.allocatable] {
                amounts.cpu_milli = 16_000;
                amounts.memory_bytes = 64 << 30;
            }
        }
    });
    let small = pool("small").with(|pool| {
        cheaper(pool);
        pool.price_per_hour_micro = Some(SMALL);
    });
    config([large, small])
}

pub(crate) fn large(name: &str) -> NodeBuilder {
    node(name).of("large", "large-1").zone("z1").cpu("16").memory("64Gi")
}

pub(crate) fn small(name: &str) -> NodeBuilder {
    node(name).of("small", "small-1").zone("z1")
}

/// A replica that has run for an hour.
pub(crate) fn replica(name: &str, cpu: &str, on: &str) -> PodBuilder {
    let pod = pod(name).cpu(cpu).memory("1Gi").label("app", "web").owner("ReplicaSet", "web").on(on);
    pod.with(|pod| pod.created_at = UnixTime(NOW.0 - 3600))
}

/// A world of so many large and small nodes.
pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
    (larges, smalls): (u32, u32),
) -> WorldBuilder {
    let pods: Vec<PodBuilder> = pods.into_iter().collect();
    let replicas = u32::try_from(pods.len()).expect("few pods");
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", replicas, pod("x")));
    builder = nodes.into_iter().fold(builder, WorldBuilder::node);
    builder = pods.into_iter().fold(builder, WorldBuilder::pod);
    builder.group("large", "large-1", "z1", larges).group("small", "small-1", "z1", smalls)
}

/// A large node for what a small one can do.
pub(crate) fn oversized() -> WorldBuilder {
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big"));
    cluster([large("big")], pods, (1, 0))
}

/// The same with the small node that was bought.
pub(crate) fn with_small(bought: NodeBuilder) -> WorldBuilder {
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big"));
    cluster([large("big"), bought], pods, (1, 1))
}

pub(crate) fn increases(plan: &Plan) -> Vec<(String, u32, u32)> {
    let increase = |step: &Step| match step {
        Step::Increase { group, from, to, .. } => Some((group.to_string(), *from, *to)),
        _ => None,
    };
    plan.steps.iter().filter_map(increase).collect()
}

pub(crate) fn marked(plan: &Plan) -> Vec<String> {
    let nodes = |step: &Step| match step {
        Step::Mark { nodes, .. } => Some(nodes.iter().map(ToString::to_string).collect::<Vec<_>>()),
        _ => None,
    };
    plan.steps.iter().filter_map(nodes).flatten().collect()
}

pub(crate) fn reason(plan: &Plan, node: &str) -> Reason {
    plan.reasons.nodes.of(node).expect("a verdict").reason
}

pub(crate) fn replaced(history: &History, pool: &str) -> Vec<String> {
    let memory = history.pools.get(pool);
    let replacement = memory.and_then(|memory| memory.replacement.as_ref());
    replacement.map_or(Vec::new(), |found| found.nodes.iter().map(|node| node.node.to_string()).collect())
}

/// The memory after the purchase in place of `big`, with the cloud's yes.
pub(crate) fn bought() -> History {
    let plan = plan(&oversized().build(), &History::default(), &settings(), NOW);
    assert_eq!(increases(&plan), [("small-1".into(), 0, 1)]);
    let mut history = plan.next_history;
    let intent = history.pools["small"].intents[0].id.clone();
    absorb(&mut history, &[increased("small", &intent)], &settings(), NOW);
    history
}

#[test]
fn a_cheaper_node_is_bought_first_and_nothing_leaves_before() {
    let plan = plan(&oversized().build(), &History::default(), &settings(), NOW);
    assert_eq!(increases(&plan), [("small-1".into(), 0, 1)]);
    assert!(marked(&plan).is_empty());
    assert_eq!(replaced(&plan.next_history, "small"), ["big"]);
    let decision = &plan.next_history.pools["small"].decisions[0];
    assert_eq!(decision.reason, Reason::CheaperNodes);
    assert_eq!(&*decision.message, "+1 node in place of 1 node (big), which saves 66% of their price");
}

#[test]
fn the_old_node_waits_until_the_new_one_is_ready_and_then_leaves_at_once() {
    let history = bought();
    let coming = small("new").age(0).unready_for(0);
    let waiting = plan(&with_small(coming).build(), &history, &settings(), NOW.plus(Seconds(5)));
    assert_eq!((marked(&waiting), reason(&waiting, "big")), (vec![], Reason::AwaitingReplacement));
    assert_eq!(replaced(&waiting.next_history, "small"), ["big"]);

    let there = with_small(small("new").age(0)).build();
    let ready = plan(&there, &waiting.next_history, &settings(), NOW.plus(Seconds(30)));
    assert_eq!(marked(&ready), ["big"]);
    assert_eq!((reason(&ready, "big"), reason(&ready, "new")), (Reason::Consolidated, Reason::PlannedFor));
    assert!(increases(&ready).is_empty(), "nothing is bought twice");
    let removal = ready.next_history.pools["large"].removals().next().expect("an open removal");
    assert_eq!((removal.0.reason, removal.1.phase), (Reason::Consolidated, RemovalPhase::Journalled));

    let gone = cluster([small("new").age(0)], [], (0, 1)).build();
    let done = plan(&gone, &ready.next_history, &settings(), NOW.plus(Seconds(90)));
    let memory = &done.next_history.pools["small"];
    assert_eq!((&memory.replacement, memory.consolidation_backoff), (&None, None));
}

#[test]
fn what_does_not_come_costs_nothing_and_holds_the_pool_back_longer_each_time() {
    let mut settings = settings();
    settings.pools[1].scale_up.backoff_initial = Seconds(20);
    let world = oversized().build();
    let mut history = bought();
    let memory = history.pools.get_mut("small").expect("it was bought for");
    // The cloud never brought it, and the increase has ended.
    memory.intents.clear();
    let id = memory.replacement.as_ref().expect("open").intent.clone();
    memory.conclude(&id, DecisionOutcome::Failed);
    let late = plan(&world, &history, &settings, NOW.plus(Seconds(10)));
    assert_eq!((marked(&late), increases(&late)), (vec![], vec![]));
    let held = late.next_history.pools["small"].consolidation_backoff.expect("held back");
    assert_eq!((held.failures, held.until), (1, NOW.plus(Seconds(10 + 20))));
    assert!(increases(&plan(&world, &late.next_history, &settings, held.until)).is_empty());
    let again = plan(&world, &late.next_history, &settings, held.until.plus(Seconds(1)));
    assert_eq!(increases(&again), [("small-1".into(), 0, 1)]);

    let mut twice = again.next_history;
    let memory = twice.pools.get_mut("small").expect("it was bought for");
    memory.intents.clear();
    let end = memory.replacement.as_ref().expect("open").until.plus(Seconds(1));
    let failed = plan(&world, &twice, &settings, end);
    let held = failed.next_history.pools["small"].consolidation_backoff.expect("held back");
    assert_eq!((held.failures, held.until), (2, end.plus(Seconds(40))));
}

#[test]
fn places_that_others_took_end_the_replacement_and_the_old_node_stays() {
    let history = bought();
    let taken = with_small(small("new").age(0)).pod(replica("rival", "2", "new")).build();
    let plan = plan(&taken, &history, &settings(), NOW.plus(Seconds(30)));
    assert!(marked(&plan).is_empty());
    let memory = &plan.next_history.pools["small"];
    assert_eq!(
        (&memory.replacement, memory.consolidation_backoff.map(|held| held.failures)),
        (&None, Some(1))
    );
}

#[test]
fn several_nodes_give_way_to_fewer_together() {
    let nodes = ["a", "b", "c", "d"];
    let pods = nodes.map(|node| replica(&format!("on-{node}"), "3", node));
    let world = cluster(nodes.map(small), pods, (0, 4)).build();
    let plan = plan(&world, &History::default(), &settings(), NOW);
    assert_eq!(increases(&plan), [("large-1".into(), 0, 1)]);
    assert_eq!(replaced(&plan.next_history, "large"), nodes);
}

#[test]
fn too_small_a_saving_is_none() {
    let nodes = ["a", "b", "c"];
    let pods = nodes.map(|node| replica(&format!("on-{node}"), "3", node));
    let world = cluster(nodes.map(small), pods, (0, 3)).build();
    let plan = plan(&world, &History::default(), &settings(), NOW);
    assert!(increases(&plan).is_empty(), "three small nodes cost as much as a large one");
}

#[test]
fn nothing_is_disturbed_before_it_is_old_enough() {
    let young = |pod: PodBuilder| pod.with(|pod| pod.created_at = UnixTime(NOW.0 - 599));
    let world = cluster([large("big")], [young(replica("p", "1", "big"))], (1, 0)).build();
    let early = plan(&world, &History::default(), &settings(), NOW);
    assert!(increases(&early).is_empty());
    let later = plan(&world, &History::default(), &settings(), NOW.plus(Seconds(1)));
    assert_eq!(increases(&later).len(), 1);
}

#[test]
fn budgets_of_pods_and_pools_are_asked_before_anything_is_bought() {
    let guarded = oversized().budget(budget("web", "app", "web", 0)).build();
    assert!(increases(&plan(&guarded, &History::default(), &settings(), NOW)).is_empty());
    let mut frozen = settings();
    frozen.cluster.voluntary_disruption_stopped = true;
    assert!(increases(&plan(&oversized().build(), &History::default(), &frozen, NOW)).is_empty());
}

#[test]
fn pool_without_the_policy_neither_replaces_nor_empties_well_used_nodes() {
    let mut settings = settings();
    settings.pools.iter_mut().for_each(|pool| pool.scale_down.policy = Policy::WhenUnderutilized);
    let plan = plan(&oversized().build(), &History::default(), &settings, NOW);
    assert!(increases(&plan).is_empty());
}

#[test]
fn without_prices_no_node_takes_over_from_one_of_the_other_market() {
    let mut unpriced = settings();
    unpriced.pools.iter_mut().for_each(|pool| pool.price_per_hour_micro = None);
    let bought = |world: &World| increases(&plan(world, &History::default(), &unpriced, NOW)).len();
    assert_eq!(bought(&oversized().build()), 1, "a large node in which a small one would do");
    assert_eq!(
        bought(&oversized().group_spot("large", "large-1").build()),
        0,
        "spot may be cheaper than the small one"
    );
    let both = oversized().group_spot("large", "large-1").group_spot("small", "small-1").build();
    assert_eq!(bought(&both), 1);
    let marked = |pool: &mut Pool| {
        let Some(template) = &mut pool.template else { return };
        template.labels.insert("cloud.google.com/gke-spot", "true");
    };
    unpriced.pools.iter_mut().filter(|pool| &*pool.name == "small").for_each(marked);
    let plan = plan(&oversized().build(), &History::default(), &unpriced, NOW);
    assert!(increases(&plan).is_empty(), "a label says it too");
    assert_eq!(increases(&plan_with_prices(&unpriced)).len(), 1, "prices of both are compared");
}

/// Plan for the large node in which a small one would do, with the prices of `settings`.
fn plan_with_prices(unpriced: &Config) -> Plan {
    let mut priced = unpriced.clone();
    for (pool, of) in priced.pools.iter_mut().zip(settings().pools) {
        pool.price_per_hour_micro = of.price_per_hour_micro;
    }
    plan(&oversized().build(), &History::default(), &priced, NOW)
}

/// Three small nodes, each above the threshold, that two can do.
fn roomy() -> WorldBuilder {
    let nodes = ["a", "b", "c"];
    let pods = nodes
        .iter()
        .flat_map(|node| (0..5).map(move |index| replica(&format!("{node}-{index}"), "500m", node)));
    cluster(nodes.map(small), pods, (0, 3))
}

#[test]
fn well_used_node_leaves_when_its_pods_fit_elsewhere_for_long_enough() {
    let first = plan(&roomy().build(), &History::default(), &settings(), NOW);
    assert_eq!(first.next_history.pools["small"].unneeded.len(), 1);
    assert!(increases(&first).is_empty() && marked(&first).is_empty());
    let mut history = first.next_history;
    for memory in history.pools.values_mut() {
        memory.unneeded.values_mut().for_each(|since| *since = UnixTime(NOW.0 - 601));
    }
    let due = plan(&roomy().build(), &history, &settings(), NOW);
    assert_eq!(marked(&due).len(), 1);
    assert_eq!(reason(&due, &marked(&due)[0]), Reason::Consolidated);
    let mut plain = settings();
    plain.pools.iter_mut().for_each(|pool| pool.scale_down.policy = Policy::WhenUnderutilized);
    let kept = plan(&roomy().build(), &history, &plain, NOW);
    assert_eq!((marked(&kept), reason(&kept, "a")), (vec![], Reason::NotUnderutilized));
}

/// Memory in which these nodes have been unneeded for an hour, by pool.
pub(crate) fn unneeded(nodes: &[(&str, &str)]) -> History {
    let mut history = History::default();
    for (pool, node) in nodes {
        let memory = history.pools.entry((*pool).into()).or_default();
        memory.unneeded.insert((*node).into(), UnixTime(NOW.0 - 3600));
    }
    history
}

#[test]
fn nodes_that_leave_together_wait_for_a_budget_in_rounds() {
    let mut pods = ["a", "b", "c"].map(|node| replica(&format!("on-{node}"), "1", node)).to_vec();
    pods.push(replica("load", "10", "stays"));
    let world = cluster(["a", "b", "c", "stays"].map(large), pods, (4, 0));
    let world = world.budget(budget("web", "app", "web", 1)).build();
    let history = unneeded(&[("large", "a"), ("large", "b"), ("large", "c")]);
    let mut settings = settings();
    settings.cluster.max_drains = 10;
    let mut together = marked(&plan(&world, &history, &settings, NOW));
    together.sort();
    assert_eq!(together, ["a", "b", "c"], "a pod that moved to one that goes next would move twice");

    settings.pools.iter_mut().for_each(|pool| pool.scale_down.policy = Policy::WhenUnderutilized);
    let plan = plan(&world, &history, &settings, NOW);
    assert_eq!(marked(&plan).len(), 1);
}

#[test]
fn more_pods_than_some_rounds_of_a_budget_do_not_wait_for_it() {
    let names: Vec<String> = (0..9).map(|index| format!("n{index}")).collect();
    let mut pods: Vec<PodBuilder> =
        names.iter().map(|node| replica(&format!("on-{node}"), "1", node)).collect();
    pods.push(replica("load", "2", "stays"));
    let nodes = names.iter().map(|name| large(name)).chain([large("stays")]);
    let world = cluster(nodes, pods, (10, 0)).budget(budget("web", "app", "web", 1)).build();
    let clocks: Vec<(&str, &str)> = names.iter().map(|name| ("large", name.as_str())).collect();
    let mut settings = settings();
    settings.cluster.max_drains = 10;
    let plan = plan(&world, &unneeded(&clocks), &settings, NOW);
    assert_eq!(marked(&plan).len(), 5);
    assert_eq!(reason(&plan, "n8"), Reason::NotEnoughPdb);
}

#[test]
fn nodes_whose_pods_have_room_one_by_one_but_not_in_any_order_do_not_go_together() {
    // Small pods that come first leave two holes of one core, and the pod of two cores has no place.
    let mut pods =
        vec![replica("two", "2", "x"), replica("full-1", "14", "s1"), replica("full-2", "13", "s2")];
    pods.extend((0..3).map(|index| replica(&format!("one-{index}"), "1", "y")));
    let world = cluster([large("x"), large("s1"), large("s2"), small("y")], pods, (3, 1)).build();
    let mut settings = settings();
    settings.cluster.max_drains = 10;
    let plan = plan(&world, &unneeded(&[("large", "x"), ("small", "y")]), &settings, NOW);
    assert_eq!(marked(&plan), ["x"]);
    assert_eq!(reason(&plan, "y"), Reason::NoPlaceToMovePods);
    assert!(plan.next_history.pools["small"].unneeded.contains_key("y"), "its clock goes on");
}

#[test]
fn nodes_are_let_go_of_until_the_rest_has_room_in_any_order() {
    // As above, beside two nodes whose pods have a node of their own: w goes in any case, and without z nothing is won.
    let apart =
        |name: &str, cpu: &str, on: &str| replica(name, cpu, on).tolerates("apart").selector("apart", "");
    let mut pods =
        vec![replica("two", "2", "x"), replica("full-1", "14", "s1"), replica("full-2", "13", "s2")];
    pods.extend((0..3).map(|index| replica(&format!("one-{index}"), "1", "y")));
    pods.extend((0..4).map(|index| apart(&format!("z-{index}"), "750m", "z")));
    pods.extend([apart("w-0", "1", "w"), replica("full-3", "12", "t")]);
    let (w, z) = (small("w").label("apart", ""), small("z").label("apart", ""));
    let t = large("t").label("apart", "").taint("apart", "");
    let nodes = [large("x"), large("s1"), large("s2"), t, small("y"), w, z];
    let world = cluster(nodes, pods, (4, 3)).build();
    let mut settings = settings();
    settings.cluster.max_drains = 10;
    let clocks = unneeded(&[("large", "x"), ("small", "y"), ("small", "w"), ("small", "z")]);
    let marked = marked(&plan(&world, &clocks, &settings, NOW));
    assert!(marked.contains(&"w".to_owned()), "{marked:?}");
    assert!(!marked.contains(&"x".to_owned()) || !marked.contains(&"y".to_owned()), "{marked:?}");
}

#[test]
fn removal_is_called_off_when_the_policy_changes() {
    let memory =
        PoolHistory { unneeded: [("a".into(), UnixTime(NOW.0 - 3600))].into(), ..PoolHistory::default() };
    let history = History { pools: [("small".into(), memory)].into() };
    let opened = plan(&roomy().build(), &history, &settings(), NOW);
    assert_eq!(marked(&opened), ["a"]);
    let mut plain = settings();
    plain.pools.iter_mut().for_each(|pool| pool.scale_down.policy = Policy::WhenUnderutilized);
    let undone = plan(&roomy().build(), &opened.next_history, &plain, NOW.plus(Seconds(1)));
    let memory = &undone.next_history.pools["small"];
    let Decision { outcome, reason, .. } = &memory.decisions[0];
    assert_eq!((*outcome, *reason), (DecisionOutcome::Cancelled, Reason::SpecChanged));
    let undoing =
        |action: &Action| matches!(action, Action::Remove(one) if one.phase == RemovalPhase::Undoing);
    assert!(memory.intents.iter().all(|intent| undoing(&intent.action)));
}
