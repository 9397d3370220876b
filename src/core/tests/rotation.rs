//! Rotation: which nodes are outdated, what is bought in their place, when they leave, and what stops it.

use headroom_core::config::{Budget, Ceiling, Config};
use headroom_core::history::{Action, History, RotationStop};
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, WorldBuilder, budget, config, controller, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::TEMPLATE_ANNOTATION;
use headroom_core::world::pod::PROTECTED_FOREVER;
use headroom_core::world::provider::GroupState;
use headroom_core::world::surge::SurgeWorkload;
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};

use crate::consolidation::{increases, marked, reason, replaced};
use crate::increases::increased;

const OLD: &str = "1111";
pub(crate) const PRESENT: &str = "2222";
const HOUR: i64 = 3600;

/// Pool a, whose nodes are made of [`PRESENT`] and which replaces others.
pub(crate) fn settings() -> Config {
    let mut config = config([pool("a").bounds(0, 20).with(|pool| {
        pool.scale_down.rotation.replace_drifted = true;
        pool.scale_down.rotation.template = Some(PRESENT.into());
    })]);
    config.cluster.max_drains = 10;
    config
}

pub(crate) fn member(name: &str, template: &str) -> NodeBuilder {
    let member = node(name).of("a", "a-1").zone("z1").age(2 * HOUR);
    if template.is_empty() { member } else { member.annotation(TEMPLATE_ANNOTATION, template) }
}

/// A replica that fills a node well beyond the threshold: three of a node's four cores.
fn replica(name: &str, on: &str) -> PodBuilder {
    pod(name).cpu("3").memory("1Gi").label("app", "web").owner("ReplicaSet", "web").on(on)
}

/// These nodes, each full.
pub(crate) fn cluster(nodes: impl IntoIterator<Item = NodeBuilder>) -> WorldBuilder {
    let nodes: Vec<NodeBuilder> = nodes.into_iter().collect();
    let count = u32::try_from(nodes.len()).expect("few");
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", count, pod("x")));
    for (index, one) in nodes.into_iter().enumerate() {
        let name = one.clone().build().name;
        builder = builder.node(one).pod(replica(&format!("p{index}"), &name));
    }
    builder.group("a", "a-1", "z1", count)
}

/// Three outdated nodes beside one of the present template.
fn three_of_four() -> WorldBuilder {
    cluster([member("o1", OLD), member("o2", OLD), member("o3", OLD), member("young", PRESENT)])
}

pub(crate) fn first(world: WorldBuilder, config: &Config) -> Plan {
    plan(&world.build(), &History::default(), config, NOW)
}

/// The memory after a purchase, with the cloud's yes.
fn bought(world: WorldBuilder, config: &Config) -> History {
    let world = world.build();
    let mut history = plan(&world, &History::default(), config, NOW).next_history;
    let intent = history.pools["a"].intents[0].id.clone();
    absorb(&mut history, &[increased("a", &intent)], config, NOW);
    history
}

fn fresh(name: &str) -> NodeBuilder {
    node(name).of("a", "a-1").zone("z1").age(-30).annotation(TEMPLATE_ANNOTATION, PRESENT)
}

/// The world of [`three_of_four`] a minute later, with these bought nodes.
fn joined(bought: impl IntoIterator<Item = NodeBuilder>) -> WorldBuilder {
    let mut builder = three_of_four();
    let mut count = 4;
    for one in bought {
        builder = builder.node(one);
        count += 1;
    }
    builder.group("a", "a-1", "z1", count)
}

/// The same world, of which the provider has just been asked.
fn asked_at(mut world: World, now: UnixTime) -> World {
    let value = world.provider("a").and_then(Known::value).expect("known").clone();
    world.apply(Delta::ProviderObserved("a".into(), Known::Known { value, at: now }));
    world
}

pub(crate) fn later(seconds: i64) -> UnixTime {
    NOW.plus(Seconds(seconds))
}

#[test]
fn outdated_nodes_are_bought_for_first_and_none_leaves_before() {
    let plan = first(three_of_four(), &settings());
    assert_eq!(increases(&plan), [("a-1".into(), 4, 7)]);
    assert!(marked(&plan).is_empty());
    assert_eq!(replaced(&plan.next_history, "a"), ["o1", "o2", "o3"]);
    let decision = &plan.next_history.pools["a"].decisions[0];
    assert_eq!(decision.reason, Reason::OutdatedNodes);
    assert_eq!(&*decision.message, "+3 nodes in place of 3 that have drifted (o1, o2, o3); 3 pods move");
    assert_eq!(plan.reasons.outdated["a"], 3);
}

#[test]
fn nothing_rotates_unless_it_is_set_and_unknown_templates_have_not_drifted() {
    let mut off = settings();
    off.pools[0].scale_down.rotation.replace_drifted = false;
    let plan = first(three_of_four(), &off);
    assert!(increases(&plan).is_empty() && plan.reasons.outdated.is_empty());
    assert_eq!(reason(&plan, "o1"), Reason::NotUnderutilized);
    let unknown = first(cluster([member("n", ""), member("young", PRESENT)]), &settings());
    assert!(increases(&unknown).is_empty());
    assert_eq!((reason(&unknown, "n"), unknown.reasons.outdated["a"]), (Reason::NotUnderutilized, 0));
}

#[test]
fn instances_that_the_provider_calls_outdated_have_drifted() {
    let mut config = settings();
    config.pools[0].scale_down.rotation.template = None;
    let world = || cluster([member("n1", ""), member("n2", "")]);
    assert!(increases(&first(world(), &config)).is_empty());
    let mut state: GroupState =
        world().build().provider("a").and_then(|known| known.value()).expect("known").groups["a-1"].clone();
    state.outdated.insert("kwok://n2".into());
    let plan = first(world().group_state("a", "a-1", state), &config);
    assert_eq!(replaced(&plan.next_history, "a"), ["n2"]);
}

#[test]
fn old_nodes_expire_and_the_plan_wakes_when_the_next_one_does() {
    let mut config = settings();
    config.pools[0].scale_down.rotation.replace_drifted = false;
    config.pools[0].scale_down.rotation.max_age = Some(Seconds(100 * HOUR));
    let old = || cluster([member("old", OLD).age(111 * HOUR), member("young", OLD).age(HOUR)]);
    let plan = first(old(), &config);
    assert_eq!(replaced(&plan.next_history, "a"), ["old"]);
    assert_eq!(reason(&plan, "young"), Reason::NotUnderutilized);
    let soon = first(cluster([member("soon", OLD).age(89 * HOUR)]), &config);
    assert!(increases(&soon).is_empty());
    let wake = soon.wake_at.expect("it expires").0 - NOW.0;
    assert!((HOUR..=21 * HOUR).contains(&wake), "{wake}");
}

#[test]
fn outdated_nodes_leave_when_all_that_was_bought_is_ready() {
    let (config, history) = (settings(), bought(three_of_four(), &settings()));
    let starting = joined([fresh("b1"), fresh("b2"), fresh("b3").unready_for(30)]).build();
    let waiting = plan(&starting, &history, &config, later(60));
    assert!(marked(&waiting).is_empty() && increases(&waiting).is_empty());
    assert_eq!(reason(&waiting, "o1"), Reason::AwaitingReplacement);
    let ready = joined([fresh("b1"), fresh("b2"), fresh("b3")]).build();
    let leaving = plan(&ready, &waiting.next_history, &config, later(70));
    assert_eq!(marked(&leaving), ["o1", "o2", "o3"]);
    assert!(leaving.next_history.pools["a"].removals().all(|(intent, _)| intent.reason == Reason::Drifted));
    assert_eq!(reason(&leaving, "b1"), Reason::PlannedFor, "what was bought stays for the pods");
}

#[test]
fn node_that_joined_just_before_the_purchase_is_not_the_one_that_was_bought() {
    let world = || cluster([member("o1", OLD), member("o2", PRESENT).age(3)]);
    let (config, history) = (settings(), bought(world(), &settings()));
    let starting = world().node(fresh("b1").age(-1).unready_for(1)).group("a", "a-1", "z1", 3).build();
    let waiting = plan(&starting, &history, &config, later(2));
    assert_eq!(reason(&waiting, "o1"), Reason::AwaitingReplacement);
    assert_eq!(waiting.next_history.pools["a"].consolidation_backoff, None);
    let ready = world().node(fresh("b1").age(-1)).group("a", "a-1", "z1", 3).build();
    assert_eq!(marked(&plan(&ready, &waiting.next_history, &config, later(4))), ["o1"]);
}

#[test]
fn planning_again_from_memory_buys_nothing_twice() {
    let (config, world) = (settings(), three_of_four().build());
    let mut history = History::default();
    let mut asked = 0;
    for second in 0..5 {
        let plan = plan(&world, &history, &config, later(second));
        asked = asked.max(increases(&plan).iter().map(|(_, _, to)| *to).max().unwrap_or(0));
        history = plan.next_history;
        assert_eq!(history.pools["a"].intents.len(), 1, "at second {second}");
    }
    assert_eq!(asked, 7);
}

#[test]
fn budgets_for_drifted_nodes_bound_the_turn() {
    let mut config = settings();
    let ceiling = Ceiling::Nodes(2);
    config.pools[0].scale_down.budgets =
        vec![Budget { name: "b".into(), ceiling, reasons: vec![Reason::Drifted], window: None }];
    let plan = first(three_of_four(), &config);
    assert_eq!(replaced(&plan.next_history, "a"), ["o1", "o2"]);
    assert_eq!(reason(&plan, "o3"), Reason::AwaitsRotation);
}

#[test]
fn one_node_is_bought_as_long_as_no_node_of_the_template_is_known_to_start() {
    let plan = first(cluster([member("o1", OLD), member("o2", OLD), member("o3", OLD)]), &settings());
    assert_eq!(increases(&plan), [("a-1".into(), 3, 4)]);
}

#[test]
fn nodes_that_do_not_get_ready_stop_the_rotation_until_the_template_changes() {
    let (config, history) = (settings(), bought(three_of_four(), &settings()));
    let bad = joined([fresh("b1").unready_for(30), fresh("b2"), fresh("b3")]).build();
    let bad = asked_at(bad, later(1_801));
    // 15 min to provision and 15 to start.
    let failed = plan(&bad, &history, &config, later(1_801));
    let stop = RotationStop { group: "a-1".into(), template: PRESENT.into(), since: later(1_801) };
    assert_eq!(failed.next_history.pools["a"].rotation_stop, Some(stop));
    let stopped = plan(&bad, &failed.next_history, &config, later(1_802));
    assert!(increases(&stopped).is_empty());
    assert!(marked(&stopped).iter().all(|node| node == "b1"), "what never got ready goes, and nothing else");
    assert_eq!(reason(&stopped, "o1"), Reason::RotationStopped);
    assert!(stopped.next_history.pools["a"].blocked.iter().any(|row| row.reason == Reason::RotationStopped));
    let day = plan(&bad, &stopped.next_history, &config, later(1_801 + 24 * HOUR));
    assert_eq!(day.next_history.pools["a"].rotation_stop, None);
    let mut corrected = config.clone();
    corrected.pools[0].scale_down.rotation.template = Some("3333".into());
    let again = plan(&bad, &stopped.next_history, &corrected, later(1_803));
    assert_eq!(again.next_history.pools["a"].rotation_stop, None);
}

#[test]
fn a_template_of_which_no_node_starts_costs_one_node_and_then_nothing_until_the_next_day() {
    let old = || cluster([member("o1", OLD), member("o2", OLD), member("o3", OLD)]);
    let (config, mut history) = (settings(), bought(old(), &settings()));
    let bad = || old().node(fresh("b1").unready_for(30)).group("a", "a-1", "z1", 4).build();
    let mut most = 0;
    for at in (0..24 * HOUR).step_by(600) {
        let plan = plan(&asked_at(bad(), later(at)), &history, &config, later(at));
        most = most.max(increases(&plan).iter().map(|(_, _, to)| *to).max().unwrap_or(0));
        assert!(marked(&plan).iter().all(|node| node == "b1"), "at {at}");
        history = plan.next_history;
    }
    assert!(most <= 4, "{most}");
    assert!(history.pools["a"].rotation_stop.is_some());
}

#[test]
fn nothing_is_bought_where_the_pods_fit_on_nodes_that_are_not_outdated() {
    let spare = || fresh("spare").age(HOUR);
    let world = || cluster([member("o1", OLD)]).node(spare()).group("a", "a-1", "z1", 2);
    let config = settings();
    let decided = first(world(), &config);
    assert!(increases(&decided).is_empty());
    let leaving = plan(&world().build(), &decided.next_history, &config, later(1));
    assert_eq!(marked(&leaving), ["o1"]);
    let mut minimum = settings();
    minimum.pools[0].min_nodes = 2;
    assert_eq!(increases(&first(world(), &minimum)), [("a-1".into(), 2, 3)], "the pool keeps its minimum");
}

#[test]
fn pool_at_its_maximum_replaces_nothing_and_says_so() {
    let mut config = settings();
    config.pools[0].max_nodes = 4;
    let plan = first(three_of_four(), &config);
    assert!(increases(&plan).is_empty());
    assert_eq!(reason(&plan, "o1"), Reason::NoRoomToRotate);
    config.pools[0].max_nodes = 5;
    assert_eq!(
        increases(&first(three_of_four(), &config)),
        [("a-1".into(), 4, 5)],
        "as much as there is room for"
    );
}

#[test]
fn protected_pods_and_spent_budgets_keep_outdated_nodes() {
    let protected =
        three_of_four().pod(replica("p0", "o1").with(|pod| pod.protected_until = Some(PROTECTED_FOREVER)));
    let plan = first(protected, &settings());
    assert_eq!(replaced(&plan.next_history, "a"), ["o2", "o3"]);
    assert_eq!(reason(&plan, "o1"), Reason::DoNotDisruptAnnotation);
    let guarded = first(three_of_four().budget(budget("web", "app", "web", 2)), &settings());
    assert_eq!(replaced(&guarded.next_history, "a"), ["o1", "o2"], "as many as the budget lets go at once");
    let none = first(three_of_four().budget(budget("web", "app", "web", 0)), &settings());
    assert!(increases(&none).is_empty());
    assert_eq!(reason(&none, "o1"), Reason::NotEnoughPdb);
}

#[test]
fn node_that_something_keeps_by_now_does_not_hold_up_the_others() {
    let (config, history) = (settings(), bought(three_of_four(), &settings()));
    let kept = replica("p0", "o1").with(|pod| pod.protected_until = Some(PROTECTED_FOREVER));
    let ready = joined([fresh("b1"), fresh("b2"), fresh("b3")]).pod(kept).build();
    let leaving = plan(&ready, &history, &config, later(60));
    assert_eq!(marked(&leaving), ["o2", "o3"]);
    assert_eq!(replaced(&leaving.next_history, "a"), ["o2", "o3"]);
}

#[test]
fn rotation_that_is_switched_off_drops_its_replacement_and_its_removals() {
    let (config, history) = (settings(), bought(three_of_four(), &settings()));
    let ready = joined([fresh("b1"), fresh("b2"), fresh("b3")]).build();
    let leaving = plan(&ready, &history, &config, later(60));
    let mut off = settings();
    off.pools[0].scale_down.rotation.replace_drifted = false;
    let after = plan(&ready, &leaving.next_history, &off, later(61));
    let memory = &after.next_history.pools["a"];
    assert_eq!(memory.replacement, None);
    assert!(memory.intents.iter().all(|intent| match &intent.action {
        Action::Remove(removal) => removal.phase == headroom_core::history::RemovalPhase::Undoing,
        Action::Increase(_) => true,
    }));
}

/// All pods are wanted by their budget, and their policy allows one replica more where `allowed`.
fn guarded(builder: WorldBuilder, allowed: bool) -> World {
    let mut guard = budget("web", "app", "web", 0);
    guard.one_short = true;
    let mut world = builder.budget(guard).build();
    let workload = SurgeWorkload {
        policy: ObjectKey::new("default", "web"),
        deployment: "web".into(),
        replicas: 4,
        pods: ["p0", "p1", "p2", "p3"].map(Into::into).into(),
    };
    world.set_surge_workloads(Some(if allowed { vec![workload] } else { Vec::new() }));
    world
}

#[test]
fn node_that_a_budget_keeps_is_replaced_by_one_replica_more() {
    let kept = plan(&guarded(three_of_four(), false), &History::default(), &settings(), NOW);
    assert_eq!((increases(&kept), reason(&kept, "o1")), (vec![], Reason::NotEnoughPdb));
    // One node of the workload at a time; a place for the pod that moves and one for the replica more.
    let turn = plan(&guarded(three_of_four(), true), &History::default(), &settings(), NOW);
    assert_eq!(increases(&turn), [("a-1".into(), 4, 6)]);
    assert_eq!(replaced(&turn.next_history, "a"), ["o1"]);
    let mut history = turn.next_history;
    let intent = history.pools["a"].intents[0].id.clone();
    absorb(&mut history, &[increased("a", &intent)], &settings(), NOW);
    let world = asked_at(guarded(joined([fresh("f1"), fresh("f2")]), true), later(60));
    let goes = plan(&world, &history, &settings(), later(60));
    assert_eq!(marked(&goes), ["o1"]);
    let (_, removal) = goes.next_history.pools["a"].removals().next().expect("a removal");
    assert_eq!(removal.surges.len(), 1);
}
