//! The first node of a zone is not bought while it takes more places of a spread away than it gives.

use headroom_core::config::Config;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::world::node::ZONE_LABEL;

use crate::scale_up::{check, plan_fresh};

/// A pod that fills a node of zone a, of a workload that may have two more in one zone than in another
/// (`nodeAffinityPolicy: Ignore`).
fn web() -> PodBuilder {
    pod("web")
        .cpu("3")
        .label("app", "web")
        .owner("ReplicaSet", "web")
        .selector(ZONE_LABEL, "a")
        .spread("app", "web", ZONE_LABEL, 2)
        .with_class(|class| class.topology_spread[0].honor_node_affinity = false)
}

/// A pod that fills a node of zone b.
fn other() -> PodBuilder {
    pod("db").cpu("3").owner("ReplicaSet", "db").selector(ZONE_LABEL, "b")
}

/// A pod of the workload runs in zone a; zone b has no node.
fn zones() -> WorldBuilder {
    let there = node("n1").of("general", "a").zone("a");
    world().node(there).group("general", "a", "a", 1).group("general", "b", "b", 0).pod(web().on("n1"))
}

fn settings() -> Config {
    config([pool("general")])
}

fn held(plan: &Plan) -> Vec<(Reason, u32)> {
    plan.reasons.pods.iter().filter_map(|verdict| Some((verdict.skipped?, verdict.pods_count))).collect()
}

#[test]
fn no_zone_is_opened_while_pods_that_spread_wait_for_nodes_of_another() {
    let plan = plan_fresh(&zones().pods(web().times(4)).pod(other()).build(), &settings());
    check(&plan, &[("general", "a", 1, 5)]);
    assert_eq!(held(&plan), [(Reason::WaitsForSpreadPods, 1)]);
}

#[test]
fn zone_is_opened_once_those_pods_run() {
    let mut running = zones().group("general", "a", "a", 5);
    for name in ["n2", "n3", "n4", "n5"] {
        running = running.node(node(name).of("general", "a").zone("a")).pod(web().on(name));
    }
    check(&plan_fresh(&running.pod(other()).build(), &settings()), &[("general", "b", 0, 1)]);
}

#[test]
fn zone_is_opened_for_pods_of_a_higher_priority() {
    let urgent = other().with_class(|class| class.priority = 1_000);
    let plan = plan_fresh(&zones().pods(web().times(4)).pod(urgent).build(), &settings());
    check(&plan, &[("general", "a", 1, 2), ("general", "b", 0, 1)]);
}
