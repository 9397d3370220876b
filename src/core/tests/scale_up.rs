//! Rules of the scale-up plan, one a test. It tests decisions only, no wire and no cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{Config, Expander, Mode};
use headroom_core::history::{DecisionOutcome, History};
use headroom_core::plan::{Plan, PodVerdict, Step};
use headroom_core::reason::Reason;
use headroom_core::testing::{
    BROKEN, NOW, WorldBuilder, config, cpu, daemon_set, memory, no_schedule, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::{GROUP_LABEL, HOSTNAME_LABEL, POOL_LABEL, ZONE_LABEL};
use headroom_core::world::provider::{GroupState, Instance, InstanceState};
use headroom_core::{absorb, plan};

use crate::increases::{failed, increased};

pub(crate) fn plan_fresh(world: &World, config: &Config) -> Plan {
    plan(world, &History::default(), config, NOW)
}

/// `(pool, group) -> (from, to)` of every step.
pub(crate) fn increases(plan: &Plan) -> BTreeMap<(String, String), (u32, u32)> {
    plan.steps
        .iter()
        .filter_map(|step| match step {
            Step::Increase { pool, group, from, to, .. } => {
                Some(((pool.to_string(), group.to_string()), (*from, *to)))
            }
            _ => None,
        })
        .collect()
}

pub(crate) fn check(plan: &Plan, expected: &[(&str, &str, u32, u32)]) {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(pool, group, from, to)| ((pool.to_string(), group.to_string()), (*from, *to)))
        .collect();
    assert_eq!(increases(plan), expected, "reasons: {:#?}", plan.reasons);
}

/// So many nodes of a group of pool `general`, each with a pod that takes all of its cpu.
pub(crate) fn busy(world: WorldBuilder, group: &str, count: u32) -> WorldBuilder {
    (0..count).map(|index| format!("{group}-{index}")).fold(world, |world, name| {
        world.node(node(&name).of("general", group)).pod(pod(&format!("busy-{name}")).cpu("4").on(&name))
    })
}

pub(crate) fn verdict<'p>(plan: &'p Plan, owner: &str) -> &'p PodVerdict {
    plan.reasons.pods.iter().find(|verdict| &*verdict.owner == owner).expect("a verdict on this owner")
}

/// The reason and message by which `pool` answered to the pods of `owner`.
pub(crate) fn answer(plan: &Plan, owner: &str, pool: &str) -> (Reason, String) {
    let verdict = verdict(plan, owner);
    let answer = verdict.pools.iter().find(|answer| &*answer.pool == pool).expect("an answer of this pool");
    (answer.reason, answer.message.to_string())
}

// === from pods to nodes ===

#[test]
fn pods_that_fit_nothing_get_new_nodes() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("1").times(9)).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[("general", "a", 0, 3)]);
    let memory = &plan.next_history.pools["general"];
    assert_eq!(memory.decisions[0].reason, Reason::PodsUnschedulable);
    assert_eq!((memory.decisions[0].pods_count, memory.decisions[0].to), (9, 3));
    assert_eq!(memory.intents[0].id, Arc::from("1-1"));
    assert_eq!(memory.last_scale_up, None, "nothing is added before the cloud accepts it");
}

#[test]
fn pods_that_fit_existing_nodes_get_none() {
    let world = world()
        .node(node("n1").of("general", "a"))
        .group("general", "a", "", 1)
        .pods(pod("web").cpu("1").times(4))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(plan.reasons.pods[0].on_existing_count, 4);
}

#[test]
fn foreign_nodes_take_pods_too() {
    let world = world().node(node("n1")).group("general", "a", "", 0).pod(pod("web").cpu("1")).build();
    check(&plan_fresh(&world, &config([pool("general")])), &[]);
}

#[test]
fn highest_priority_gets_the_room_there_is() {
    let world = world()
        .node(node("n1").cpu("1"))
        .group("general", "a", "", 0)
        .pod(pod("low").cpu("1").memory("4Gi"))
        .pod(pod("high").cpu("1").priority(10))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    assert_eq!(verdict(&plan, "high").on_existing_count, 1);
    assert_eq!(verdict(&plan, "low").on_new.values().sum::<u32>(), 1);
}

#[test]
fn what_one_pool_cannot_take_is_planned_for_another_in_the_same_pass() {
    let world = world()
        .group("blue", "a", "", 0)
        .group("red", "a", "", 0)
        .pod(pod("x").cpu("1").selector("colour", "blue"))
        .pod(pod("y").cpu("1").selector("colour", "red"))
        .build();
    let pools = [pool("blue").label("colour", "blue"), pool("red").label("colour", "red")];
    check(&plan_fresh(&world, &config(pools)), &[("blue", "a", 0, 1), ("red", "a", 0, 1)]);
}

#[test]
fn large_pods_go_first_and_small_ones_fill_up() {
    let world = world()
        .group("general", "a", "", 0)
        .pods(pod("a-small").cpu("1").times(2))
        .pods(pod("b-large").cpu("3").times(2))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 0, 2)]);
}

#[test]
fn daemon_sets_take_their_part_of_new_nodes() {
    let world = world()
        .group("general", "a", "", 0)
        .daemon_set(daemon_set("agent", pod("agent").cpu("500m").priority(2_000_000_000)))
        .pods(pod("web").cpu("2").times(2))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 0, 2)]);
}

#[test]
fn daemon_set_that_does_not_want_the_node_takes_nothing() {
    let world = world()
        .group("general", "a", "", 0)
        .daemon_set(daemon_set(
            "agent",
            pod("agent").cpu("500m").priority(2_000_000_000).selector("disk", "ssd"),
        ))
        .pods(pod("web").cpu("2").times(2))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 0, 1)]);
}

// === pods that do not count as demand ===

#[test]
fn gated_deleted_and_finished_pods_want_nothing() {
    let world = world()
        .group("general", "a", "", 0)
        .pod(pod("gated").cpu("1").with(|pod| pod.gated = true))
        .pod(pod("deleted").cpu("1").with(|pod| pod.deletion_at = Some(NOW)))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert!(plan.reasons.pods.is_empty());
}

#[test]
fn expendable_pods_buy_nothing() {
    let world = world().group("general", "a", "", 0).pod(pod("idle").cpu("1").priority(-11)).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "idle").skipped, Some(Reason::Expendable));
}

#[test]
fn daemon_set_pods_buy_nothing() {
    let world = world().group("general", "a", "", 0).pod(pod("d").cpu("1").owner("DaemonSet", "d")).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "d").skipped, Some(Reason::DaemonSetPod));
}

#[test]
fn young_pods_wait_and_the_plan_wakes_for_them() {
    let young = pod("web").cpu("1").with(|pod| pod.created_at = UnixTime(NOW.0 - 10));
    let world = world().group("general", "a", "", 0).pod(young).build();
    let mut config = config([pool("general")]);
    config.cluster.new_pod_delay = Seconds(30);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "web").skipped, Some(Reason::TooYoung));
    assert_eq!(plan.wake_at, Some(UnixTime(NOW.0 + 20)));
}

#[test]
fn nominated_pods_hold_their_node() {
    let world = world()
        .node(node("n1"))
        .group("general", "a", "", 0)
        .pod(pod("preemptor").cpu("4").with(|pod| pod.nominated_node = Some("n1".into())))
        .pod(pod("web").cpu("1"))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 0, 1)]);
}

// === sizes, limits ===

#[test]
fn pool_grows_up_to_its_maximum_and_says_so() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5)).build();
    let plan = plan_fresh(&world, &config([pool("general").bounds(0, 3)]));
    check(&plan, &[("general", "a", 0, 3)]);
    assert_eq!(verdict(&plan, "web-0").unplaced_count, 2);
    let (reason, message) = answer(&plan, "web-0", "general");
    assert_eq!((reason, &*message), (Reason::MaxNodesReached, "pool has 3 of at most 3 nodes"));
    let refusals = &plan.next_history.pools["general"].refusals;
    assert_eq!((refusals[0].reason, refusals[0].pods_count), (Reason::MaxNodesReached, 2));
}

#[test]
fn a_full_pool_says_so_itself_when_its_group_is_full_with_it() {
    let world = world()
        .group_state("general", "a", GroupState { max: 3, ..GroupState::default() })
        .pods(pod("web").cpu("4").times(5))
        .build();
    let config = config([pool("general").bounds(0, 3)]);
    let bought = plan_fresh(&world, &config);
    let next = plan(&world, &bought.next_history, &config, UnixTime(NOW.0 + 1));
    for plan in [bought, next] {
        assert_eq!(answer(&plan, "web-0", "general").0, Reason::MaxNodesReached);
    }
}

#[test]
fn most_important_pods_get_the_last_nodes() {
    let world = world()
        .group("general", "a", "", 0)
        .pod(pod("large").cpu("4").memory("8Gi"))
        .pod(pod("important").cpu("3").priority(5))
        .build();
    let plan = plan_fresh(&world, &config([pool("general").bounds(0, 1)]));
    assert_eq!(verdict(&plan, "important").unplaced_count, 0);
    assert_eq!(verdict(&plan, "large").unplaced_count, 1);
}

#[test]
fn pool_limit_on_cpu_holds() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5)).build();
    let limited = pool("general").with(|pool| pool.limit_cpu_milli = Some(11_000));
    let plan = plan_fresh(&world, &config([limited]));
    check(&plan, &[("general", "a", 0, 2)]);
    assert_eq!(answer(&plan, "web-0", "general").0, Reason::PoolLimitReached);
}

#[test]
fn cluster_limit_counts_foreign_nodes() {
    let world = world()
        .node(node("foreign").cpu("0"))
        .group("general", "a", "", 0)
        .pods(pod("web").cpu("4").times(5))
        .build();
    let mut config = config([pool("general")]);
    config.cluster.max_nodes = Some(3);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("general", "a", 0, 2)]);
    assert_eq!(answer(&plan, "web-0", "general").0, Reason::ClusterLimitReached);
}

#[test]
fn cluster_limits_on_amounts_hold_over_pools() {
    let world = world()
        .group("a", "g", "", 0)
        .group("b", "g", "", 0)
        .pods(pod("x").cpu("4").selector("p", "a").times(3))
        .pods(pod("y").cpu("4").selector("p", "b").times(3))
        .build();
    let mut config = config([pool("a").label("p", "a"), pool("b").label("p", "b")]);
    config.cluster.max_cpu_milli = Some(cpu("16"));
    config.cluster.max_memory_bytes = Some(memory("48Gi"));
    let total: u32 = increases(&plan_fresh(&world, &config)).values().map(|(from, to)| to - from).sum();
    assert_eq!(total, 3);
}

#[test]
fn one_plan_adds_no_more_than_the_limit_to_a_group() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5)).build();
    let mut config = config([pool("general")]);
    config.cluster.max_nodes_per_scale_up = 2;
    check(&plan_fresh(&world, &config), &[("general", "a", 0, 2)]);
}

#[test]
fn limit_on_new_nodes_ends_them_for_pods_of_all_kinds_and_for_those_that_spread_over_nodes() {
    let spread = pod("spread").cpu("1").label("app", "s").spread("app", "s", HOSTNAME_LABEL, 1);
    let old = node("old").of("general", "a").cpu("4");
    let world = world()
        .node(old)
        .group("general", "a", "", 1)
        .pods(pod("large").cpu("4").times(3))
        .pods(pod("small").cpu("3").times(3))
        .pods(spread.times(4))
        .build();
    for most in 1..=4 {
        let mut config = config([pool("general")]);
        config.cluster.max_nodes_per_scale_up = most;
        check(&plan_fresh(&world, &config), &[("general", "a", 1, 1 + most)]);
    }
}

#[test]
fn pool_below_its_minimum_is_filled_up_and_pods_use_those_nodes() {
    let world = busy(world(), "a", 1).group("general", "a", "", 1).pods(pod("web").cpu("4").times(2)).build();
    let plan = plan_fresh(&world, &config([pool("general").bounds(3, 10)]));
    check(&plan, &[("general", "a", 1, 3)]);
    assert_eq!(plan.next_history.pools["general"].decisions[0].reason, Reason::BelowMinNodes);
}

#[test]
fn new_nodes_go_to_the_smallest_group_first() {
    let world = busy(world(), "a", 3)
        .group("general", "a", "za", 3)
        .group("general", "b", "zb", 0)
        .group("general", "c", "zc", 0)
        .pods(pod("web").cpu("4").times(4))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "b", 0, 2), ("general", "c", 0, 2)]);
}

#[test]
fn decisions_of_one_plan_report_the_pools_size_one_after_the_other() {
    let world = world()
        .group("general", "a", "za", 0)
        .group("general", "b", "zb", 0)
        .pods(pod("web").cpu("4").times(3))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    let sizes: Vec<(u32, u32)> =
        plan.next_history.pools["general"].decisions.iter().map(|made| (made.from, made.to)).collect();
    assert_eq!(sizes, [(2, 3), (0, 2)]);
}

#[test]
fn pods_bound_to_a_zone_grow_that_zone() {
    let world = busy(world(), "b", 5)
        .group("general", "a", "za", 0)
        .group("general", "b", "zb", 5)
        .pods(pod("web").cpu("4").selector(ZONE_LABEL, "zb").times(2))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "b", 5, 7)]);
}

#[test]
fn group_that_is_held_back_leaves_growth_to_the_others() {
    let world = world()
        .group("general", "a", "za", 0)
        .group("general", "b", "zb", 0)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    let mut history = first.next_history.clone();
    absorb(&mut history, &[failed("general", "1-1"), failed("general", "1-2")][..1], &config, NOW);
    let second = plan(&world, &history, &config, NOW);
    check(&second, &[("general", "b", 1, 2)]);
}

// === modes ===

#[test]
fn suspended_pool_does_not_grow() {
    let world = world().group("general", "a", "", 0).pod(pod("web").cpu("1")).build();
    let plan = plan_fresh(&world, &config([pool("general").mode(Mode::Suspend)]));
    check(&plan, &[]);
    assert_eq!(answer(&plan, "web", "general").0, Reason::Suspended);
}

#[test]
fn preview_pool_reports_and_does_nothing() {
    let world = world().group("trial", "a", "", 0).pods(pod("web").cpu("4").times(2)).build();
    let plan = plan_fresh(&world, &config([pool("trial").mode(Mode::Preview)]));
    check(&plan, &[]);
    assert_eq!((plan.reasons.preview[0].from, plan.reasons.preview[0].to), (0, 2));
    assert_eq!(answer(&plan, "web-0", "trial").0, Reason::PreviewOnly);
    assert!(plan.next_history.pools["trial"].intents.is_empty());
}

#[test]
fn preview_pool_takes_no_pods_from_apply_pools() {
    let world = world()
        .group("apply", "a", "", 0)
        .group("trial", "a", "", 0)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let pools = [pool("apply"), pool("trial").shape("8", "32Gi").mode(Mode::Preview)];
    let plan = plan_fresh(&world, &config(pools));
    check(&plan, &[("apply", "a", 0, 2)]);
    assert!(plan.reasons.preview.is_empty());
}

#[test]
fn journalled_increase_of_a_suspended_pool_is_cancelled() {
    let world = world().group("general", "a", "", 0).pod(pod("web").cpu("1")).build();
    let first = plan_fresh(&world, &config([pool("general")]));
    let suspended = config([pool("general").mode(Mode::Suspend)]);
    let second = plan(&world, &first.next_history, &suspended, NOW);
    check(&second, &[]);
    let memory = &second.next_history.pools["general"];
    assert!(memory.intents.is_empty());
    assert_eq!(memory.decisions[0].outcome, DecisionOutcome::Cancelled);
}

#[test]
fn requested_increase_of_a_suspended_pool_is_watched_to_its_end() {
    let world = world().group("general", "a", "", 0).pod(pod("web").cpu("1")).build();
    let first = plan_fresh(&world, &config([pool("general")]));
    let suspended = config([pool("general").mode(Mode::Suspend)]);
    let mut history = first.next_history;
    absorb(&mut history, &[increased("general", "1-1")], &suspended, NOW);
    let second = plan(&world, &history, &suspended, NOW);
    assert_eq!(second.next_history.pools["general"].intents.len(), 1);
    check(&second, &[]);
}

#[test]
fn increase_beyond_an_edited_maximum_is_cancelled_and_planned_anew() {
    let world = world().group("general", "a", "", 0).pods(pod("web").cpu("4").times(5)).build();
    let first = plan_fresh(&world, &config([pool("general")]));
    let second = plan(&world, &first.next_history, &config([pool("general").bounds(0, 2)]), NOW);
    check(&second, &[("general", "a", 0, 2)]);
    assert_eq!(second.next_history.pools["general"].decisions[1].outcome, DecisionOutcome::Cancelled);
}

// === instances that are not nodes yet, or not any more ===

#[test]
fn instances_that_are_no_nodes_yet_take_pods() {
    let instance = |node: Option<&str>| Instance {
        state: InstanceState::Creating,
        node: node.map(Arc::from),
        created_at: Some(NOW),
    };
    let state = GroupState {
        target: 2,
        max: 10,
        instances: [("i-1".into(), instance(None)), ("i-2".into(), instance(Some("n2")))].into(),
        ..GroupState::default()
    };
    let world = world().group_state("general", "a", state).pods(pod("web").cpu("4").times(2)).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
}

#[test]
fn starting_nodes_take_pods_as_if_started() {
    let starting = node("n1").of("general", "a").age(30).with(|node| {
        node.ready = headroom_core::world::node::Readiness::NotReady;
        node.taints.push(no_schedule("node.kubernetes.io/not-ready", ""));
        node.taints.push(no_schedule("init", ""));
    });
    let world = world().node(starting).group("general", "a", "", 1).pod(pod("web").cpu("4")).build();
    let with_taint = pool("general").with(|pool| pool.startup_taints.push(no_schedule("init", "")));
    let plan = plan_fresh(&world, &config([with_taint]));
    check(&plan, &[]);
    assert_eq!(plan.wake_at, Some(UnixTime(NOW.0 - 30 + 900)));
}

#[test]
fn nodes_on_their_way_out_take_no_pods() {
    let leaving = node("n1").of("general", "a").taint("ToBeDeletedByClusterAutoscaler", "");
    let world = world().node(leaving).group("general", "a", "", 1).pod(pod("web").cpu("1")).build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 1, 2)]);
}

#[test]
fn a_mark_that_a_pod_tolerates_makes_no_room_on_a_node_on_its_way_out() {
    let mark = "ToBeDeletedByClusterAutoscaler";
    let leaving = node("n1").of("general", "a").taint(mark, "");
    let web = pod("web").cpu("1").tolerates(mark);
    let world = world().node(leaving).group("general", "a", "", 1).pod(web).build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 1, 2)]);
}

#[test]
fn undeclared_template_is_taken_from_a_live_node_and_learned() {
    let live = node("n1").of("general", "a").cpu("8").label("disk", "ssd");
    let undeclared = || config([pool("general").with(|pool| pool.template = None)]);
    let pods = || pod("web").cpu("8").times(2);
    let filled = world()
        .node(live)
        .group("general", "a", "", 1)
        .pod(pod("old").cpu("8").on("n1"))
        .pods(pods())
        .build();
    let first = plan_fresh(&filled, &undeclared());
    check(&first, &[("general", "a", 1, 3)]);
    assert_eq!(first.next_history.pools["general"].learned["a"].cpu_milli, 8000);

    let mut history = History::default();
    history.pools.insert(
        "general".into(),
        headroom_core::history::PoolHistory {
            learned: first.next_history.pools["general"].learned.clone(),
            ..Default::default()
        },
    );
    let empty = world().group("general", "a", "", 0).pods(pods()).build();
    check(&plan(&empty, &history, &undeclared(), NOW), &[("general", "a", 0, 2)]);

    let unknown = plan_fresh(&empty, &undeclared());
    check(&unknown, &[]);
    assert_eq!(answer(&unknown, "web-0", "general").0, Reason::TemplateUnknown);
}

// === idle ===

#[test]
fn steady_cluster_plans_nothing_and_remembers_nothing_new() {
    let world = world()
        .node(node("n1").of("general", "a"))
        .pod(pod("web").cpu("3").on("n1"))
        .group("general", "a", "", 1)
        .build();
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    assert_eq!((first.steps.len(), &first.next_history, first.wake_at), (0, &History::default(), None));
}

#[test]
fn refusal_keeps_its_since() {
    let world = world().group("gpu", "a", "", 0).pod(pod("web").cpu("1")).build();
    let config = config([pool("gpu").taint("gpu", "only")]);
    let first = plan_fresh(&world, &config);
    let later = plan(&world, &first.next_history, &config, UnixTime(NOW.0 + 100));
    assert_eq!(later.next_history, first.next_history);
    assert_eq!(later.next_history.pools["gpu"].refusals[0].since, NOW);
}

// === expanders ===

#[test]
fn chain_of_expanders_decides() {
    let start = || {
        world().group("big", "g", "", 0).group("small", "g", "", 0).pods(pod("web").cpu("1").times(3)).build()
    };
    let with = |expanders: Vec<Expander>| {
        let mut config = config([
            pool("big").shape("16", "64Gi").with(|pool| pool.priority = 5),
            pool("small").shape("4", "16Gi"),
        ]);
        config.cluster.expanders = expanders;
        config
    };
    check(&plan_fresh(&start(), &with(vec![Expander::LeastWaste])), &[("small", "g", 0, 1)]);
    check(&plan_fresh(&start(), &with(vec![Expander::Priority])), &[("big", "g", 0, 1)]);
}

#[test]
fn prices_decide_where_there_are_any_and_keep_no_pod_waiting_where_there_are_none() {
    let world =
        || world().group("big", "g", "", 0).group("small", "g", "", 0).pod(pod("web").cpu("1")).build();
    let with = |big: Option<i64>, small: Option<i64>| {
        let mut config = config([
            pool("big").shape("16", "64Gi").with(|pool| pool.price_per_hour_micro = big),
            pool("small").shape("4", "16Gi").with(|pool| pool.price_per_hour_micro = small),
        ]);
        config.cluster.expanders = vec![Expander::Price, Expander::LeastWaste];
        config
    };
    check(&plan_fresh(&world(), &with(Some(100_000), Some(200_000))), &[("big", "g", 0, 1)]);
    check(&plan_fresh(&world(), &with(Some(900_000), None)), &[("big", "g", 0, 1)]);
    check(&plan_fresh(&world(), &with(None, None)), &[("small", "g", 0, 1)]);
}

/// The burst of the benchmark: the documented mix of four Deployments.
fn burst(count: usize) -> World {
    let share = |percent: usize| count * percent / 100;
    world()
        .group("large", "g", "", 0)
        .group("small", "g", "", 0)
        .pods(pod("a").cpu("250m").memory("512Mi").times(share(50)))
        .pods(pod("b").cpu("1").memory("2Gi").times(share(30)))
        .pods(pod("c").cpu("2").memory("12Gi").times(share(15)))
        .pods(pod("d").cpu("3500m").memory("4Gi").times(share(5)))
        .build()
}

#[test]
fn burst_over_two_shapes_needs_few_nodes() {
    let pools = || {
        config([
            pool("large").shape("16", "64Gi").bounds(0, 1000),
            pool("small").shape("4", "16Gi").bounds(0, 1000),
        ])
    };
    for (count, most) in [(1000, 60), (5000, 290)] {
        let plan = plan_fresh(&burst(count), &pools());
        let nodes: u32 = increases(&plan).values().map(|(from, to)| to - from).sum();
        assert!(nodes <= most, "{count} pods: {:?}", increases(&plan));
    }
}

#[test]
fn labels_of_pool_and_group_are_on_the_template() {
    let world = world()
        .group("general", "a", "", 0)
        .pod(pod("web").cpu("1").selector(POOL_LABEL, "general").selector(GROUP_LABEL, "a"))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[("general", "a", 0, 1)]);
}

// === quarantine ===

#[test]
fn pool_that_panics_is_set_aside_and_the_others_grow() {
    let world = world()
        .group(BROKEN, "g", "", 0)
        .group("good", "g", "", 0)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let plan = plan_fresh(&world, &config([pool(BROKEN).bounds(3, 9), pool("good")]));
    check(&plan, &[("good", "g", 0, 2)]);
    assert!(plan.reasons.pools[BROKEN].iter().any(|reason| reason.reason == Reason::Internal));
}

#[test]
fn pod_class_that_panics_is_set_aside_and_other_pods_are_served() {
    let broken = pod("bad").cpu("4").with_class(|class| class.scheduler = BROKEN.into());
    let world = world().group("good", "g", "", 0).pod(broken).pod(pod("web").cpu("4")).build();
    let plan = plan_fresh(&world, &config([pool("good")]));
    check(&plan, &[("good", "g", 0, 1)]);
    assert_eq!(verdict(&plan, "bad").skipped, Some(Reason::Internal));
}
