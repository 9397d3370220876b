//! Interruptions: what calls for them, what is done at once, what holds them back, and what becomes of the pods.

use headroom_core::config::{Budget, Ceiling, Config, Mode};
use headroom_core::history::{Action, DecisionOutcome, History, Intent, RemovalPhase};
use headroom_core::known::Known;
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, budget, config, pool};
use headroom_core::world::node::INTENT_ANNOTATION;
use headroom_core::world::pod::SafeToEvict;

use crate::consolidation::{increases, marked, reason};
use crate::removal::{self, deletions, evicted, open, phase, replica, step};
use crate::rotation::{PRESENT, cluster, first, later, member};

const SPOT: &str = "aws-node-termination-handler/spot-itn";

/// Pool a with the defaults: one drain at once.
fn settings() -> Config {
    config([pool("a").bounds(0, 20)])
}

fn well(name: &str) -> NodeBuilder {
    member(name, PRESENT)
}

fn warned(name: &str) -> NodeBuilder {
    well(name).taint(SPOT, "")
}

/// Two of four full nodes are about to be taken.
fn half_taken() -> WorldBuilder {
    cluster([well("w1"), warned("t1"), well("w2"), warned("t2")])
}

fn draining() -> History {
    open(Reason::Interrupted, RemovalPhase::Draining, &["n"])
}

#[test]
fn nodes_about_to_be_taken_are_marked_and_bought_for_in_one_plan_whatever_the_drains_allow() {
    let plan = first(half_taken(), &settings());
    assert_eq!(marked(&plan), ["t1", "t2"]);
    assert_eq!(increases(&plan), [("a-1".into(), 4, 6)]);
    assert_eq!((reason(&plan, "t1"), reason(&plan, "w1")), (Reason::Interrupted, Reason::NotUnderutilized));
    let decisions = &plan.next_history.pools["a"].decisions;
    let removal = decisions.iter().find(|one| one.reason == Reason::Interrupted).expect("a removal");
    let words = format!("node t1 about to be taken by the cloud (taint {SPOT}); 1 pod moves");
    assert!(decisions.iter().any(|one| *one.message == *words), "{}", removal.message);
}

#[test]
fn planning_again_buys_nothing_twice_until_the_nodes_have_gone() {
    let (config, world) = (settings(), half_taken().build());
    let mut history = History::default();
    let mut asked = Vec::new();
    for second in 0..5 {
        let plan = plan(&world, &history, &config, later(second));
        asked.extend(increases(&plan).into_iter().map(|(_, _, to)| to));
        history = plan.next_history;
        assert_eq!(history.pools["a"].removals().count(), 2, "at second {second}");
    }
    assert!(asked.iter().all(|to| *to == 6), "{asked:?}");
}

#[test]
fn nothing_is_bought_where_the_pods_fit_on_other_nodes() {
    let empty = || well("spare");
    let world = cluster([well("w1"), warned("t1")]).node(empty()).group("a", "a-1", "z1", 3);
    let plan = first(world, &settings());
    assert_eq!(marked(&plan), ["t1"]);
    assert!(increases(&plan).is_empty());
    assert_eq!(reason(&plan, "spare"), Reason::PlannedFor);
}

#[test]
fn known_taints_and_notices_of_the_cloud_count_and_other_taints_do_not() {
    for key in [
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "cloud.google.com/impending-node-termination",
    ] {
        let plan = first(cluster([well("w1"), well("t1").taint(key, "")]), &settings());
        assert_eq!(marked(&plan), ["t1"], "{key}");
    }
    let other = first(cluster([well("w1"), well("t1").taint("example.com/spot-itn", "")]), &settings());
    assert!(marked(&other).is_empty());
    let world = || cluster([well("w1"), well("t1")]);
    let built = world().build();
    let mut state = built.provider("a").and_then(Known::value).expect("known").groups["a-1"].clone();
    state.interrupted.insert("kwok://t1".into(), "Spot interruption warning".into());
    let plan = first(world().group_state("a", "a-1", state), &settings());
    assert_eq!((marked(&plan), increases(&plan)), (vec!["t1".to_owned()], vec![("a-1".to_owned(), 2, 3)]));
}

#[test]
fn neither_budgets_nor_minimum_nor_switched_off_scale_down_hold_it_back() {
    let mut config = settings();
    let none = Budget { name: "none".into(), ceiling: Ceiling::Nodes(0), reasons: Vec::new(), window: None };
    config.pools[0].scale_down.budgets = vec![none.clone()];
    config.pools[0].scale_down.enabled = false;
    config.pools[0].min_nodes = 4;
    assert_eq!(marked(&first(half_taken(), &config)), ["t1", "t2"]);
    config.pools[0].scale_down.budgets = vec![Budget { reasons: vec![Reason::Interrupted], ..none }];
    let held = first(half_taken(), &config);
    assert_eq!((marked(&held), reason(&held, "t1")), (Vec::new(), Reason::BudgetExhausted));
    assert_eq!(increases(&held), [("a-1".into(), 4, 6)], "the pods need other nodes all the same");
}

#[test]
fn kill_switch_annotations_and_other_modes_leave_it_alone() {
    let mut stopped = settings();
    stopped.cluster.voluntary_disruption_stopped = true;
    let plan = first(half_taken(), &stopped);
    assert_eq!((marked(&plan), reason(&plan, "t1")), (Vec::new(), Reason::DisruptionStopped));
    let kept = cluster([well("w1"), warned("t1").annotation("karpenter.sh/do-not-disrupt", "true")]);
    let kept = first(kept, &settings());
    assert_eq!((marked(&kept), reason(&kept, "t1")), (Vec::new(), Reason::DoNotDisruptAnnotation));
    for mode in [Mode::Preview, Mode::Suspend] {
        let mut config = settings();
        config.pools[0].mode = mode;
        let plan = first(half_taken(), &config);
        assert!(marked(&plan).is_empty() && increases(&plan).is_empty(), "{mode:?}");
    }
}

#[test]
fn pool_at_its_minimum_buys_before_the_cloud_has_taken_the_node() {
    let config = config([pool("a").bounds(2, 5)]);
    let empty = removal::cluster([removal::member("n").taint(SPOT, ""), removal::member("m")], []);
    let plan = first(empty, &config);
    assert_eq!((marked(&plan), increases(&plan)), (vec!["n".to_owned()], vec![("a-1".to_owned(), 2, 3)]));
}

#[test]
fn drained_node_is_deleted_only_if_pool_and_group_keep_their_minimum() {
    let minimum = |min: u32| config([pool("a").bounds(min, 5)]);
    let world = || removal::cluster([removal::marked("n"), removal::member("m")], []);
    assert_eq!(deletions(&step(&world().build(), &minimum(1), &mut draining(), later(1))), ["n"]);
    let mut kept = draining();
    let advance = step(&world().build(), &minimum(2), &mut kept, later(1));
    assert!(advance.steps.is_empty() && advance.wake_at == Some(later(11)), "{advance:?}");
    assert_eq!(phase(&kept), Some(RemovalPhase::Draining), "it waits for the cloud to take the node");
}

#[test]
fn drain_is_not_given_up_while_budgets_refuse() {
    let world = removal::cluster([removal::marked("n")], [replica("p").on("n")])
        .budget(budget("web", "app", "web", 0));
    let (world, mut history) = (world.build(), draining());
    for second in [10, 200, 2_000] {
        step(&world, &settings(), &mut history, later(second));
        let intent = &history.pools["a"].intents[0];
        assert!(later(second) < intent.deadline, "at second {second}");
        assert_eq!(history.pools["a"].decisions[0].outcome, DecisionOutcome::InProgress);
    }
}

#[test]
fn drain_goes_before_older_removals_for_other_reasons() {
    let mut history = open(Reason::Underutilized, RemovalPhase::Draining, &["n"]);
    let memory = history.pools.get_mut("a").expect("an open removal");
    let mut urgent: Intent = memory.intents[0].clone();
    (urgent.id, urgent.reason) = ("1-2".into(), Reason::Interrupted);
    if let Action::Remove(removal) = &mut urgent.action {
        removal.victims[0].node = "m".into();
        removal.victims[0].id = "kwok://m".into();
    }
    memory.intents.push(urgent);
    let second = removal::marked("m").annotation(INTENT_ANNOTATION, "1-2");
    let pods = [replica("p").on("n"), replica("q").on("m")];
    let world = removal::cluster([removal::marked("n"), second, removal::member("k")], pods)
        .budget(budget("web", "app", "web", 1))
        .build();
    let advance = step(&world, &settings(), &mut history, later(5));
    assert_eq!(evicted(&advance), [["q"]]);
}

#[test]
fn local_storage_is_given_up_and_what_says_not_to_be_evicted_stays_until_the_node_is_taken() {
    let local = replica("local").on("n").with_class(|class| class.local_volumes = vec!["cache".into()]);
    let kept = replica("kept").on("n").with_class(|class| class.safe_to_evict = SafeToEvict::Never);
    let mut history = draining();
    let world = removal::cluster([removal::marked("n"), removal::member("m")], [local, kept.clone()]);
    assert_eq!(evicted(&step(&world.build(), &settings(), &mut history, later(10))), [["local"]]);
    let world = removal::cluster([removal::marked("n"), removal::member("m")], [kept]);
    let advance = step(&world.build(), &settings(), &mut history, later(20));
    assert!(advance.steps.is_empty(), "{advance:?}");
    assert_eq!(phase(&history), Some(RemovalPhase::Draining));
}

#[test]
fn what_has_begun_goes_on_though_the_notice_is_not_known_any_more() {
    let config = settings();
    let begun = first(half_taken(), &config).next_history;
    let world = cluster([well("w1"), well("t1"), well("w2"), well("t2")]).build();
    let plan = plan(&world, &begun, &config, NOW);
    assert_eq!(marked(&plan), ["t1", "t2"]);
    let bought: Vec<u32> = increases(&plan).into_iter().map(|(_, _, to)| to).collect();
    assert!(bought.iter().all(|to| *to == 6), "{bought:?}");
}
