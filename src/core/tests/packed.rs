//! Number of nodes bought for pods of several kinds, and the pods that go without where a bound ends it.

use headroom_core::config::Config;
use headroom_core::plan::Plan;
use headroom_core::testing::{PodBuilder, config, pod, pool, world};
use headroom_core::world::World;
use headroom_core::world::node::ZONE_LABEL;

use crate::scale_up::{check, plan_fresh};

/// Pods of `cpu` that keep away from an app that nobody runs: they are packed by trial, not by amounts.
fn tried(name: &str, cpu: &str) -> PodBuilder {
    pod(name).cpu(cpu).memory("1Gi").away_from("app", "nobody", ZONE_LABEL)
}

fn plain(name: &str, cpu: &str) -> PodBuilder {
    pod(name).cpu(cpu).memory("1Gi")
}

/// A pool of nodes with 4 cores, one group in zone a, which may have so many.
fn small_pool(nodes_max: u32) -> Config {
    config([pool("general").shape("4", "16Gi").bounds(0, nodes_max)])
}

/// Owners of pods without a place, with the number of those.
fn left_out(plan: &Plan) -> Vec<(String, u32)> {
    let verdicts = plan.reasons.pods.iter().filter(|verdict| verdict.unplaced_count != 0);
    verdicts.map(|verdict| (verdict.owner.to_string(), verdict.unplaced_count)).collect()
}

fn one_group(pods: impl IntoIterator<Item = (PodBuilder, usize)>) -> World {
    let pods = pods.into_iter().flat_map(|(pod, count)| pod.times(count));
    world().group("general", "general-a", "a", 0).pods(pods).build()
}

#[test]
fn pods_of_the_highest_priority_get_the_last_node() {
    for kind in [plain, tried] {
        let world = one_group([(kind("large", "3"), 1), (kind("small", "2").priority(10), 2)]);
        let plan = plan_fresh(&world, &small_pool(1));
        check(&plan, &[("general", "general-a", 0, 1)]);
        assert_eq!(left_out(&plan), [("large-0".to_owned(), 1)]);
    }
}

#[test]
fn pods_of_one_zone_share_the_nodes_of_its_group() {
    let config = small_pool(10);
    let there = |name: &str, cpu: &str| plain(name, cpu).selector(ZONE_LABEL, "a");
    let world = world()
        .group("general", "general-a", "a", 0)
        .group("general", "general-b", "b", 0)
        .pods(there("large", "3").times(3))
        .pods(there("small", "1").times(4))
        .build();
    check(&plan_fresh(&world, &config), &[("general", "general-a", 0, 4)]);
}

#[test]
fn pods_that_keep_away_from_another_app_share_a_node() {
    let world = one_group([(tried("web", "1"), 8)]);
    let plan = plan_fresh(&world, &small_pool(10));
    check(&plan, &[("general", "general-a", 0, 2)]);
    assert_eq!(plan.reasons.pods[0].on_new.values().copied().collect::<Vec<u32>>(), [8]);
}

#[test]
fn nodes_of_a_mix_are_spread_over_the_groups_up_to_their_maximum() {
    // First-fit puts the pods of most memory together and leaves the cpu of their nodes over.
    let world = world()
        .group("general", "general-a", "a", 0)
        .group("general", "general-b", "b", 0)
        .pods(pod("memory").cpu("300m").memory("5Gi").times(6))
        .pods(pod("cpu").cpu("1").memory("2Gi").times(6))
        .build();
    check(
        &plan_fresh(&world, &small_pool(10)),
        &[("general", "general-a", 0, 2), ("general", "general-b", 0, 1)],
    );
}
