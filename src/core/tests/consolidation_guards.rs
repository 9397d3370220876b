//! Conditions in which consolidation does not buy, the amount that it buys, and the conditions that it waits for before
//! a node leaves.

use headroom_core::config::{Config, Mode, Policy, Pool};
use headroom_core::history::{Action, History, IncreasePhase, PoolHistory};
use headroom_core::plan;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, node, pod};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::pod::SafeToEvict;

use crate::consolidation::{
    LARGE, bought, cluster, increases, large, marked, oversized, reason, replaced, replica, settings, small,
    unneeded, with_small,
};

/// A change of the spec, with its name.
type Change = (&'static str, fn(&mut Config));

/// Returns the purchases in `world` at [`NOW`].
fn purchases(world: &World, config: &Config) -> Vec<(String, u32, u32)> {
    increases(&plan(world, &History::default(), config, NOW))
}

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = settings();
    change(&mut config);
    config
}

/// Pools are in order of their names.
fn large_pool(config: &mut Config) -> &mut Pool {
    &mut config.pools[0]
}

fn small_pool(config: &mut Config) -> &mut Pool {
    &mut config.pools[1]
}

fn one_small() -> Vec<(String, u32, u32)> {
    vec![("small-1".into(), 0, 1)]
}

#[test]
fn nothing_is_bought_in_place_of_others_against_a_bound() {
    let world = oversized().build();
    assert_eq!(purchases(&world, &settings()), one_small());
    let refused: [Change; 6] = [
        ("the old pool keeps its minimum", |config| large_pool(config).min_nodes = 1),
        ("the cluster keeps its cpu", |config| config.cluster.min_cpu_milli = Some(15_000)),
        ("the old pool is in Preview", |config| large_pool(config).mode = Mode::Preview),
        ("the new pool is in Preview", |config| small_pool(config).mode = Mode::Preview),
        ("the new pool grows as a whole", |config| {
            small_pool(config).group_scaling = headroom_core::config::GroupScaling::ZeroOrMax;
        }),
        ("the new pool is full", |config| small_pool(config).max_nodes = 0),
    ];
    for (why, change) in refused {
        assert_eq!(purchases(&world, &with(change)), [], "{why}");
    }
}

#[test]
fn nothing_is_bought_in_place_of_others_while_anything_else_is_bought_or_removed() {
    // Where it has a place already, a new pod changes nothing.
    let aside = node("aside").taint("aside", "").label("aside", "yes");
    let asking = |cpu: &str| pod("more").cpu(cpu).tolerates("aside").selector("aside", "yes");
    let placed = oversized().node(aside).pod(asking("1")).build();
    assert_eq!(purchases(&placed, &settings()), one_small());
    let served = oversized().pod(pod("more").cpu("14")).build();
    assert_eq!(purchases(&served, &settings()), [("large-1".into(), 1, 2)], "a node is bought for it");
    let unserved = oversized().pod(asking("100")).build();
    assert_eq!(purchases(&unserved, &settings()), []);

    // An increase of the other pool that the cloud has not carried out yet.
    let mut history = bought();
    let intent = history.pools.get_mut("small").expect("it was bought for").intents.remove(0);
    let memory = PoolHistory { intents: vec![intent], ..PoolHistory::default() };
    let history = History { pools: [("small".into(), memory)].into() };
    assert_eq!(increases(&plan(&oversized().build(), &history, &settings(), NOW)), []);
}

#[test]
fn after_a_failure_nothing_of_its_pool_is_replaced_for_a_while() {
    let memory = PoolHistory { last_failure: Some(NOW), ..PoolHistory::default() };
    let history = History { pools: [("large".into(), memory)].into() };
    let delay = settings().pools[0].scale_down.delay_after_failure;
    assert!(0 < delay.0);
    let at = |seconds: i64| {
        increases(&plan(&oversized().build(), &history, &settings(), NOW.plus(Seconds(seconds))))
    };
    assert_eq!(at(0), []);
    assert_eq!(at(delay.0 - 1), []);
    assert_eq!(at(delay.0), one_small());
}

#[test]
fn a_node_whose_pod_must_run_to_its_end_is_not_replaced() {
    let job = replica("job", "1", "big").with_class(|class| class.safe_to_evict = SafeToEvict::OnCompletion);
    assert_eq!(purchases(&oversized().pod(job).build(), &settings()), []);
}

/// A large node with these pods.
fn big_with(pods: &[(&str, &str)]) -> World {
    let pods: Vec<PodBuilder> = pods.iter().map(|(name, cpu)| replica(name, cpu, "big")).collect();
    cluster([large("big")], pods, (1, 0)).build()
}

#[test]
fn as_many_nodes_are_bought_as_the_pods_need_and_no_more_than_there_may_be() {
    let two = big_with(&[("p", "3"), ("q", "3")]);
    assert_eq!(purchases(&two, &settings()), [("small-1".into(), 0, 2)]);
    assert_eq!(purchases(&two, &with(|config| small_pool(config).max_nodes = 1)), []);
    let plan = plan(&two, &History::default(), &settings(), NOW);
    assert_eq!(plan.next_history.pools["small"].decisions[0].pods_count, 2);
}

/// A pod that nobody would start again: it keeps its node.
fn stuck(cpu: &str) -> PodBuilder {
    pod("load").cpu(cpu).on("stays")
}

#[test]
fn what_has_a_place_on_nodes_that_stay_needs_no_new_node() {
    let pods = [replica("p", "3", "big"), replica("q", "3", "big")];
    let world = cluster([large("big"), small("stays")], pods, (1, 1)).pod(stuck("1")).build();
    assert_eq!(purchases(&world, &settings()), [("small-1".into(), 1, 2)]);
}

#[test]
fn what_may_be_spread_in_a_way_that_leaves_one_pod_out_is_not_replaced() {
    // One core stays free, and four are new: enough only if the pods of one core leave two cores together.
    let pods = |big: &[(&str, &str)]| {
        let pods = big.iter().map(|(name, cpu)| replica(name, cpu, "big"));
        cluster([large("big"), small("stays")], pods, (1, 1)).pod(stuck("3")).build()
    };
    let tight = pods(&[("one-0", "1"), ("one-1", "1"), ("one-2", "1"), ("two", "2")]);
    assert_eq!(purchases(&tight, &settings()), []);
    let loose = pods(&[("one-0", "1"), ("one-1", "1"), ("one-2", "1")]);
    assert_eq!(purchases(&loose, &settings()), [("small-1".into(), 1, 2)]);
}

#[test]
fn a_saving_counts_in_prices_if_all_are_declared_and_else_by_amounts() {
    let purchase = |config: &Config, world: &World| {
        let plan = plan(world, &History::default(), config, NOW);
        plan.next_history
            .pools
            .values()
            .find_map(|memory| Some(memory.decisions.first()?.message.to_string()))
    };
    let half = with(|config| small_pool(config).price_per_hour_micro = None);
    let words = purchase(&half, &oversized().build()).expect("a purchase");
    assert!(words.ends_with("saves 75% of their price"), "{words}");
    // Three small ones for one large one that is 4 % cheaper: less than a saving must be.
    let nodes = ["a", "b", "c"];
    let pods = nodes.map(|node| replica(&format!("on-{node}"), "3", node));
    let three = cluster(nodes.map(small), pods, (0, 3)).build();
    assert_eq!(
        purchase(&with(|config| large_pool(config).price_per_hour_micro = Some(576_000)), &three),
        None
    );
    let nodes = ["a", "b", "c", "d"];
    let pods = nodes.map(|node| replica(&format!("on-{node}"), "3", node));
    let four = cluster(nodes.map(small), pods, (0, 4)).build();
    let words = purchase(&settings(), &four).expect("a purchase");
    assert!(words.contains("in place of 4 nodes (a, b, c and others)"), "{words}");
}

#[test]
fn a_price_of_a_group_that_moves_replaces_nodes_only_by_the_saving_that_is_asked_for() {
    let priced = |small: i64| {
        let world = oversized().group_price("large", "large-1", LARGE);
        world.group_price("small", "small-1", small).build()
    };
    let unpriced = with(|config| config.pools.iter_mut().for_each(|pool| pool.price_per_hour_micro = None));
    for config in [&settings(), &unpriced] {
        assert_eq!(purchases(&priced(LARGE * 84 / 100), config), [("small-1".into(), 0, 1)]);
        assert_eq!(purchases(&priced(LARGE * 86 / 100), config), []);
    }
    let still = with(|config| {
        for pool in &mut config.pools {
            pool.scale_down.policy = Policy::WhenUnderutilized;
        }
    });
    assert_eq!(purchases(&priced(1), &still), []);
}

/// The plan half a minute after the purchase, when this node has come for it.
fn after(history: &History, config: &Config, new: NodeBuilder) -> Plan {
    plan(&with_small(new).build(), history, config, NOW.plus(Seconds(30)))
}

fn new() -> NodeBuilder {
    small("new").age(0)
}

#[test]
fn the_old_node_leaves_only_when_pods_are_let_onto_the_new_one() {
    let leaving = |new| marked(&after(&bought(), &settings(), new));
    assert_eq!(leaving(new()), ["big"]);
    assert!(leaving(new().taint("node.kubernetes.io/network-unavailable", "")).is_empty());
    assert!(leaving(new().with(|node| node.unschedulable = true)).is_empty());
    assert!(leaving(new().unready_for(0)).is_empty());
}

#[test]
fn only_a_new_node_of_the_same_group_is_the_one_that_was_bought() {
    let waits = |plan: &Plan| {
        assert!(marked(plan).is_empty());
        assert_eq!(reason(plan, "big"), Reason::AwaitingReplacement);
    };
    let other_group = node("new").of("small", "small-2").zone("z1").age(0);
    let world = with_small(other_group).group("small", "small-2", "z1", 1).build();
    waits(&plan(&world, &bought(), &settings(), NOW.plus(Seconds(30))));
    let full = [replica("load", "3", "old")];
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big")).chain(full);
    let world = cluster([large("big"), small("old")], pods, (1, 1)).build();
    waits(&plan(&world, &bought(), &settings(), NOW.plus(Seconds(30))));
}

#[test]
fn a_replacement_that_the_spec_does_not_want_any_more_is_forgotten() {
    assert_eq!(replaced(&after(&bought(), &settings(), new()).next_history, "small"), ["big"]);
    let dropped: [Change; 4] = [
        ("mode", |config| large_pool(config).mode = Mode::Preview),
        ("deleting", |config| large_pool(config).deleting = true),
        ("enabled", |config| large_pool(config).scale_down.enabled = false),
        ("policy", |config| large_pool(config).scale_down.policy = Policy::WhenUnderutilized),
    ];
    for (what, change) in dropped {
        let memory = &after(&bought(), &with(change), new()).next_history.pools["small"];
        assert_eq!((&memory.replacement, memory.consolidation_backoff), (&None, None), "{what}");
    }
}

#[test]
fn a_replacement_has_failed_when_its_time_is_over_or_its_purchase_is_taken_back() {
    let failures = |history: &History, at: UnixTime| {
        let plan = plan(&oversized().build(), history, &settings(), at);
        let memory = &plan.next_history.pools["small"];
        (memory.replacement.is_some(), memory.consolidation_backoff.map_or(0, |held| held.failures))
    };
    let mut history = bought();
    let memory = history.pools.get_mut("small").expect("it was bought for");
    let until = memory.replacement.as_ref().expect("open").until;
    let mut cancelling = history.clone();
    history.pools.get_mut("small").expect("there").intents[0].deadline = until.plus(Seconds(1000));
    assert_eq!(failures(&history, until), (true, 0));
    assert_eq!(failures(&history, until.plus(Seconds(1))), (false, 1));

    let soon = NOW.plus(Seconds(30));
    assert_eq!(failures(&cancelling, soon), (true, 0));
    let intent = &mut cancelling.pools.get_mut("small").expect("there").intents[0];
    let Action::Increase(increase) = &mut intent.action else { unreachable!("it was bought for") };
    increase.phase = IncreasePhase::Cancelling;
    assert_eq!(failures(&cancelling, soon), (false, 1));
}

#[test]
fn empty_nodes_go_while_others_wait_for_their_replacement() {
    let mut history = bought();
    let clocks = unneeded(&[("large", "idle")]).pools.remove("large").expect("made");
    history.pools.insert("large".into(), clocks);
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big"));
    let world = cluster([large("big"), large("idle")], pods, (2, 0)).build();
    let plan = plan(&world, &history, &settings(), NOW.plus(Seconds(30)));
    assert_eq!(marked(&plan), ["idle"]);
    assert_eq!(reason(&plan, "big"), Reason::AwaitingReplacement);
}
