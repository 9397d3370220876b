//! Groups whose node shape nobody has reported: the shapes of the pool's other nodes count.

use headroom_core::config::Config;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::testing::{PodBuilder, WorldBuilder, config, no_schedule, node, pod, pool, world};
use headroom_core::world::node::{Node, ZONE_LABEL};
use headroom_core::world::provider::{GroupState, GroupTemplate, TemplateTrust};

use crate::scale_up::{check, increases, plan_fresh};

/// A pool that declares no shape, with at least so many nodes.
fn undeclared(min: u32) -> Config {
    config([pool("general").bounds(min, 10).with(|pool| pool.template = None)])
}

/// Group a of zone a has a node that is full; group b of zone b has none, and so many are asked for.
fn two_zones(wanted_in_b: u32) -> WorldBuilder {
    world()
        .node(node("n1").of("general", "a").zone("a"))
        .pod(pod("old").cpu("4").on("n1"))
        .group("general", "a", "a", 1)
        .group("general", "b", "b", wanted_in_b)
}

fn in_zone(zone: &str) -> PodBuilder {
    pod("web").cpu("1").selector(ZONE_LABEL, zone)
}

#[test]
fn a_node_bought_for_the_minimum_takes_pods_whatever_group_it_is_of() {
    let world = two_zones(0).pod(pod("web").cpu("1")).build();
    check(&plan_fresh(&world, &undeclared(2)), &[("general", "b", 0, 1)]);
}

#[test]
fn a_node_on_its_way_in_an_unknown_group_is_of_its_own_zone() {
    let plan = plan_fresh(&two_zones(1).pod(in_zone("b")).build(), &undeclared(0));
    check(&plan, &[]);
    let plan = plan_fresh(&two_zones(1).pod(in_zone("a")).build(), &undeclared(0));
    check(&plan, &[("general", "a", 1, 2)]);
}

#[test]
fn a_group_of_one_zone_serves_that_zones_pods_whatever_its_template_is_worth() {
    let shape = pool("x").build().template.expect("the builder's");
    let template = GroupTemplate { node: shape, trust: TemplateTrust::Estimate, ..GroupTemplate::default() };
    let zone = Some("a".into());
    let state =
        GroupState { max: 10, target: 1, zone, template: Some(template.into()), ..GroupState::default() };
    let world = world()
        .node(node("n1").of("general", "a").zone("a"))
        .pod(pod("old").cpu("4").on("n1"))
        .pod(in_zone("a"))
        .group_state("general", "a", state)
        .build();
    check(&plan_fresh(&world, &undeclared(0)), &[("general", "a", 1, 2)]);
}

/// Returns how many nodes are bought for a pod where the pool's one node is full and has this taint; one of key
/// `starting` and effect `NoSchedule` would pass.
fn bought_beside(key: &str, effect: TaintEffect) -> u32 {
    let taint = Taint { effect, ..no_schedule(key, "") };
    let world = world()
        .node(node("n1").of("general", "a").with(|node| node.taints.push(taint)))
        .pod(pod("old").cpu("4").tolerates(key).on("n1"))
        .pod(pod("web").cpu("1"))
        .group("general", "a", "", 1)
        .build();
    let learns = pool("general").with(|pool| {
        pool.template = None;
        pool.startup_taints = vec![no_schedule("starting", "")];
    });
    increases(&plan_fresh(&world, &config([learns]))).values().map(|(from, to)| to - from).sum()
}

#[test]
fn a_nodes_lasting_taints_are_its_groups() {
    assert_eq!(bought_beside("starting", TaintEffect::NoExecute), 0, "another effect is another taint");
    assert_eq!(bought_beside("dedicated", TaintEffect::NoSchedule), 0);
}

#[test]
fn a_node_that_has_not_reported_its_amounts_yet_will_have_those_of_its_group() {
    let blank = |node: &mut Node| {
        node.allocatable = Resources::default();
        node.capacity = Resources::default();
    };
    let world = world()
        .node(node("n1").of("general", "a").unready_for(5).age(5).with(blank))
        .pods(pod("web").cpu("1").times(4))
        .group("general", "a", "", 1)
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[]);
}

/// Purchases for a minimum of three where only the cloud reports that a node has 4 cores and 16 GiB.
fn bought_for_the_minimum(change: impl FnOnce(&mut Config)) -> u32 {
    let shape = pool("x").build().template.expect("the builder's");
    let template = GroupTemplate { node: shape, ..GroupTemplate::default() };
    let state = GroupState { max: 10, template: Some(template.into()), ..GroupState::default() };
    let mut config = undeclared(3);
    change(&mut config);
    let plan = plan_fresh(&world().group_state("general", "a", state).build(), &config);
    increases(&plan).values().map(|(from, to)| to - from).sum()
}

#[test]
fn limits_hold_purchases_for_the_minimum_where_only_the_cloud_knows_the_shape() {
    assert_eq!(bought_for_the_minimum(|_| {}), 3);
    assert_eq!(bought_for_the_minimum(|config| config.pools[0].limit_cpu_milli = Some(8000)), 2);
    assert_eq!(bought_for_the_minimum(|config| config.pools[0].limit_memory_bytes = Some(16 << 30)), 1);
    assert_eq!(bought_for_the_minimum(|config| config.cluster.max_cpu_milli = Some(4000)), 1);
}

#[test]
fn limits_hold_groups_that_grow_as_a_whole_where_only_the_cloud_knows_the_shape() {
    let whole = |pool: &mut headroom_core::config::Pool| {
        pool.group_scaling = headroom_core::config::GroupScaling::ZeroOrMax;
    };
    let bought = |limit: i64| {
        bought_for_the_minimum(|config| {
            whole(&mut config.pools[0]);
            config.pools[0].limit_cpu_milli = Some(limit);
        })
    };
    assert_eq!((bought(40_000), bought(39_000)), (10, 0));
}

#[test]
fn limit_that_is_reached_holds_nodes_of_which_nothing_is_known() {
    let world = || world().node(node("old").cpu("4")).group("general", "a", "", 0).build();
    let bought = |limit: i64| {
        let mut config = undeclared(2);
        config.cluster.max_cpu_milli = Some(limit);
        increases(&plan_fresh(&world(), &config)).len()
    };
    assert_eq!((bought(4000), bought(5000)), (0, 1));
}
