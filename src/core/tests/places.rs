//! Pods that get the space on existing or starting nodes: nothing is bought for them.

use headroom_core::testing::{PodBuilder, config, node, pod, pool, world};
use headroom_core::world::World;
use headroom_core::world::node::ZONE_LABEL;

use crate::scale_up::{check, plan_fresh};

/// Pods that keep away from an app that nobody runs: no mixes of them are sought.
fn lone(name: &str, cpu: &str) -> PodBuilder {
    pod(name).cpu(cpu).memory("1Gi").away_from("app", "nobody", ZONE_LABEL)
}

fn spread(cpu: &str) -> PodBuilder {
    pod("web").cpu(cpu).label("app", "web").spread("app", "web", ZONE_LABEL, 1)
}

/// All pods have a place, and nothing is bought though the pool could grow.
fn check_enough(world: &World) {
    let plan = plan_fresh(world, &config([pool("general").bounds(0, 10)]));
    check(&plan, &[]);
    let left: u32 = plan.reasons.pods.iter().map(|verdict| verdict.unplaced_count).sum();
    assert_eq!(left, 0, "{:#?}", plan.reasons.pods);
}

#[test]
fn pods_that_spread_go_round_the_nodes_until_none_takes_more() {
    // Zone b takes its second pod only after zone a has one, and zone a its second after that.
    let world = world()
        .node(node("n-a").zone("a"))
        .node(node("n-b").zone("b"))
        .group("general", "general-a", "a", 0)
        .pods(spread("2").times(4))
        .build();
    check_enough(&world);
}

#[test]
fn pods_that_spread_look_at_started_and_starting_nodes_together() {
    // On the started node alone one of four finds a place before the small pods fill it.
    let world = world()
        .node(node("n-a").of("general", "general-a").zone("a"))
        .node(node("n-b").of("general", "general-b").zone("b").age(30).unready_for(30))
        .group("general", "general-a", "a", 1)
        .group("general", "general-b", "b", 1)
        .pods(spread("1500m").times(4))
        .pods(pod("small").cpu("1").times(2))
        .build();
    check_enough(&world);
}

#[test]
fn nodes_that_have_just_started_are_left_to_the_pods_that_have_no_other() {
    // The large pod comes first and fits both nodes; the small one, for which one was bought in zone a, fits only that.
    let world = world()
        .node(node("n-a").of("general", "general-a").zone("a").age(0))
        .node(node("n-b").of("general", "general-b").zone("b").age(0))
        .group("general", "general-a", "a", 1)
        .group("general", "general-b", "b", 1)
        .pod(lone("large", "3"))
        .pod(lone("small", "2").selector(ZONE_LABEL, "a"))
        .build();
    check_enough(&world);
}

#[test]
fn mix_that_leaves_more_without_a_place_is_not_kept() {
    // The node takes the large pod, or by the mix's rule one small pod: the other three and the large one would need two
    // nodes more.
    let world = world()
        .node(node("n").cpu("3").memory("6Gi"))
        .group("general", "general-a", "a", 0)
        .pod(pod("large").cpu("2500m").memory("6Gi"))
        .pods(pod("small").cpu("500m").memory("4Gi").times(4))
        .build();
    let plan = plan_fresh(&world, &config([pool("general").bounds(0, 10)]));
    check(&plan, &[("general", "general-a", 0, 1)]);
}
