//! Choice among several pools, or groups of pools, where more than one would do.

use headroom_core::config::{Expander, GroupScaling};
use headroom_core::nodes::scale_up::expander::{Offer, choose};
use headroom_core::resources::Resources;
use headroom_core::testing::{config, pod, pool, world};

use crate::scale_up::{check, increases, plan_fresh};

/// One node of 4 cores for so many pods of half a core each; `limited`: a limit left others out.
fn offer(name: &str, pods: u32, limited: bool) -> Offer {
    Offer {
        name: name.into(),
        nodes: 1,
        pods,
        node: Resources::new(4000, 16 << 30),
        requested: Resources::new(500 * i64::from(pods), i64::from(pods) << 30),
        priority: 0,
        price_per_hour_micro: None,
        limited,
    }
}

#[test]
fn a_limited_offer_is_compared_only_where_it_helps_more_pods_than_any_other() {
    let taken = |offers: &[Offer]| {
        let index = choose(offers, &[Expander::LeastWaste]).expect("one of them");
        offers[index].name.to_string()
    };
    let more = [offer("limited", 5, true), offer("whole", 3, false)];
    assert_eq!(taken(&more), "limited");
    let alike = [
        offer("limited", 5, true),
        Offer { node: Resources::new(8000, 32 << 30), ..offer("whole", 5, false) },
    ];
    assert_eq!(taken(&alike), "whole", "the other looks better than it is");
}

#[test]
fn price_counts_the_whole_cost_of_what_a_pool_leaves_unused() {
    let priced = |name: &str, micro: i64| pool(name).with(|pool| pool.price_per_hour_micro = Some(micro));
    let world = world()
        .group("dear", "g", "", 0)
        .group("fair", "g", "", 0)
        .pod(pod("web").cpu("1").memory("15Gi"))
        .build();
    let mut config = config([priced("dear", 300_000), priced("fair", 200_000)]);
    config.cluster.expanders = vec![Expander::Price];
    check(&plan_fresh(&world, &config), &[("fair", "g", 0, 1)]);
}

#[test]
fn a_pool_that_comes_as_a_whole_is_not_balanced_with_its_like() {
    let world =
        world().group("all", "g", "", 0).group("some", "g", "", 0).pods(pod("web").cpu("4").times(4)).build();
    let mut config = config([
        pool("all").bounds(0, 4).with(|pool| pool.group_scaling = GroupScaling::ZeroOrMax),
        pool("some").bounds(0, 10),
    ]);
    config.cluster.balance_similar_pools = true;
    let bought = increases(&plan_fresh(&world, &config));
    assert_eq!(bought.values().map(|(from, to)| to - from).sum::<u32>(), 4, "{bought:?}");
    assert_eq!(bought.len(), 1, "all four in one pool or the other: {bought:?}");
}
