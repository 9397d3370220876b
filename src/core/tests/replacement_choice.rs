//! Choice of the nodes that are replaced by nodes that cost less, and their number: the best that every bound lets
//! leave.

use headroom_core::config::{Config, Policy};
use headroom_core::history::{Action, ConsolidationBackoff, History, IncreasePhase, PoolHistory};
use headroom_core::known::Known;
use headroom_core::plan;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, controller, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use headroom_core::world::workload::ControllerKind;

use crate::consolidation::{
    LARGE, bought, cheaper, cluster, increases, large, marked, replaced, replica, settings, small,
};

/// A replica of three cores that takes no node with another one.
fn apart(name: &str, on: &str) -> PodBuilder {
    replica(name, "3", on).host_port(80)
}

/// Two large nodes, each for what a small one can do.
fn two_oversized() -> WorldBuilder {
    cluster([large("big-1"), large("big-2")], [apart("p", "big-1"), apart("q", "big-2")], (2, 0))
}

/// Returns the purchases, and the nodes that they replace.
fn replacement(world: WorldBuilder, config: &Config) -> (Vec<(String, u32, u32)>, Vec<String>) {
    let found = plan(&world.build(), &History::default(), config, NOW);
    (increases(&found), replaced(&found.next_history, "small"))
}

fn bought_small(count: u32, in_place_of: &[&str]) -> (Vec<(String, u32, u32)>, Vec<String>) {
    (vec![("small-1".into(), 0, count)], in_place_of.iter().map(ToString::to_string).collect())
}

#[test]
fn what_saves_most_is_bought() {
    assert_eq!(replacement(two_oversized(), &settings()), bought_small(2, &["big-1", "big-2"]));
}

#[test]
fn nothing_is_bought_while_more_than_one_node_in_fifty_may_leave_before_long() {
    let mut config = settings();
    config.pools.push(pool("c").bounds(0, 1).build());
    let clock = [("idle".into(), UnixTime(NOW.0 - 60))].into();
    let memory = PoolHistory { unneeded: clock, ..PoolHistory::default() };
    let history = History { pools: [("c".into(), memory)].into() };
    let of_others = |count: usize| {
        let world = two_oversized().node(node("idle").of("c", "c-1").cpu("1")).group("c", "c-1", "z1", 1);
        let names = (0..count).map(|number| format!("other-{number}"));
        let world = names.fold(world, |world, name| world.node(node(&name).cpu("1")));
        increases(&plan(&world.build(), &history, &config, NOW))
    };
    assert_eq!(of_others(46), []);
    assert_eq!(of_others(47), [("small-1".into(), 0, 2)]);
}

#[test]
fn of_two_nodes_that_save_the_same_the_emptier_one_goes() {
    let mut config = settings();
    config.pools[1].max_nodes = 1;
    let fuller = |name: &str, on: &str| apart(name, on).memory("2Gi");
    let first_fuller = [fuller("p", "big-1"), apart("q", "big-2")];
    let world = cluster([large("big-1"), large("big-2")], first_fuller, (2, 0));
    assert_eq!(replacement(world, &config), bought_small(1, &["big-2"]));
    let second_fuller = [apart("p", "big-1"), fuller("q", "big-2")];
    let world = cluster([large("big-1"), large("big-2")], second_fuller, (2, 0));
    assert_eq!(replacement(world, &config), bought_small(1, &["big-1"]));
}

#[test]
fn no_more_nodes_are_replaced_together_than_minimums_let_leave() {
    let mut at_least_one = settings();
    at_least_one.pools[0].min_nodes = 1;
    assert_eq!(replacement(two_oversized(), &at_least_one), bought_small(1, &["big-1"]));
    let mut least_cpu = settings();
    least_cpu.cluster.min_cpu_milli = Some(16_000);
    assert_eq!(replacement(two_oversized(), &least_cpu), bought_small(1, &["big-1"]));
    // Eight cores are bought for the thirty-two that leave.
    least_cpu.cluster.min_cpu_milli = Some(8_000);
    assert_eq!(replacement(two_oversized(), &least_cpu), bought_small(2, &["big-1", "big-2"]));
}

#[test]
fn nodes_bought_for_the_same_pool_and_group_count_for_their_minimum() {
    let web = controller(ControllerKind::ReplicaSet, "web", 2, pod("x"));
    let big = |name: &str| node(name).of("p", "g").zone("z1").cpu("16").memory("64Gi");
    let builder = world().controller(web).node(big("big-1")).node(big("big-2"));
    let builder = builder.pod(apart("p", "big-1")).pod(apart("q", "big-2")).group("p", "g", "z1", 2);
    let mut world = builder.build();
    let mut provider = world.provider("p").and_then(Known::value).expect("known").clone();
    provider.groups.get_mut("g").expect("there").min = 1;
    world.apply(Delta::ProviderObserved("p".into(), Known::Known { value: provider, at: NOW }));
    let config = config([pool("p").bounds(1, 10).with(cheaper)]);
    let found = plan(&world, &History::default(), &config, NOW);
    assert_eq!(increases(&found), [("g".into(), 2, 4)]);
    assert_eq!(replaced(&found.next_history, "p"), ["big-1", "big-2"]);
}

#[test]
fn node_of_a_pool_without_the_policy_is_not_replaced_along_with_others() {
    let mut config = settings();
    let plain = pool("plain").with(|pool| {
        pool.scale_down.policy = Policy::WhenUnderutilized;
        pool.price_per_hour_micro = Some(LARGE);
    });
    config.pools.insert(1, plain.build());
    let world = cluster([large("big")], [apart("p", "big"), apart("q", "other")], (1, 0));
    let other = node("other").of("plain", "plain-1").zone("z1").cpu("16").memory("64Gi");
    let world = world.node(other).group("plain", "plain-1", "z1", 1);
    assert_eq!(replacement(world, &config), bought_small(1, &["big"]));
}

#[test]
fn node_that_was_replaced_goes_before_others_take_what_was_bought_for_it() {
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big"));
    let pods = pods.chain([replica("idle-pod", "1500m", "idle")]);
    let world = cluster([large("big"), small("new").age(0), small("idle")], pods, (1, 2)).build();
    let mut history = bought();
    let memory = history.pools.get_mut("small").expect("it was bought for");
    memory.unneeded.insert("idle".into(), UnixTime(NOW.0 - 3600));
    let mut config = settings();
    config.cluster.max_drains = 10;
    assert_eq!(marked(&plan(&world, &history, &config, NOW.plus(Seconds(30)))), ["big"]);
}

#[test]
fn replacement_fails_as_soon_as_its_purchase_is_taken_back_though_the_cloud_is_slow() {
    let mut history = bought();
    let memory = history.pools.get_mut("small").expect("it was bought for");
    let Action::Increase(increase) = &mut memory.intents[0].action else { unreachable!("bought") };
    increase.phase = IncreasePhase::Cancelling;
    // The cloud still wants the node.
    let pods = (0..3).map(|index| replica(&format!("p{index}"), "1", "big"));
    let world = cluster([large("big")], pods, (1, 1)).build();
    let found = plan(&world, &history, &settings(), NOW.plus(Seconds(30)));
    let memory = &found.next_history.pools["small"];
    assert_eq!(memory.intents.len(), 1, "it is being taken back");
    let failures = memory.consolidation_backoff.map(|held| held.failures);
    assert_eq!((&memory.replacement, failures), (&None, Some(1)));
}

#[test]
fn the_plan_looks_again_when_a_replacement_may_be_tried_anew_or_has_taken_too_long() {
    let quiet = world().build();
    let wake_at = |history: &History| plan(&quiet, history, &settings(), NOW).wake_at;
    let held = ConsolidationBackoff { failures: 1, until: NOW.plus(Seconds(500)) };
    let memory = PoolHistory { consolidation_backoff: Some(held), ..PoolHistory::default() };
    let history = History { pools: [("small".into(), memory)].into() };
    assert_eq!(wake_at(&history), Some(NOW.plus(Seconds(501))));

    let mut history = bought();
    let memory = history.pools.get_mut("small").expect("it was bought for");
    memory.intents.clear();
    let until = memory.replacement.as_ref().expect("open").until;
    let world = crate::consolidation::oversized().build();
    assert_eq!(plan(&world, &history, &settings(), NOW).wake_at, Some(until.plus(Seconds(1))));
}
