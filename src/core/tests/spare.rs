//! Bought nodes that the pods do not need after all are not bought.

use std::collections::BTreeMap;

use headroom_core::config::{Config, Expander, GroupScaling};
use headroom_core::testing::{PoolBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::world::provider::GroupState;

use crate::scale_up::{check, increases, plan_fresh, verdict};

/// A pool of few nodes for one pod each, which is asked first, and one for 14 pods a node, which gets what is left.
fn settings(few: PoolBuilder, many: &str) -> Config {
    let few = few.shape("2", "64Gi").with(|pool| pool.priority = 1);
    let mut config = config([few, pool(many).shape("28", "64Gi").bounds(0, 1000)]);
    config.cluster.expanders = vec![Expander::Priority];
    config
}

fn wanting(pods: usize) -> WorldBuilder {
    world().pods(pod("web").cpu("2").times(pods))
}

#[test]
fn small_nodes_are_given_up_one_by_one_where_a_large_one_takes_all_pods() {
    // Nodes that are full: there is time enough for as many trials in a cluster that is not empty.
    let full = (0..100).fold(wanting(12), |world, index| {
        let name = format!("full-{index}");
        world.node(node(&name).cpu("1")).pod(pod(&format!("on-{name}")).cpu("1").on(&name))
    });
    let world = full.group("few", "g", "", 0).group("many", "g", "", 0);
    let config = settings(pool("few").bounds(0, 10), "many");
    check(&plan_fresh(&world.clone().build(), &config), &[("many", "g", 0, 1)]);
    // A pod that nobody can take is not a reason to keep them.
    let hopeless = world.pod(pod("hopeless").cpu("64")).build();
    check(&plan_fresh(&hopeless, &config), &[("many", "g", 0, 1)]);
}

/// Returns how many nodes of both pools so many pods get: too many pods for trials of single nodes.
fn nodes(pods: usize, few: PoolBuilder) -> BTreeMap<(String, String), (u32, u32)> {
    let group = GroupState { max: 10, ..GroupState::default() };
    let world = wanting(pods).group_state("few", "g", group).group("a-many", "g", "", 0).build();
    increases(&plan_fresh(&world, &settings(few, "a-many")))
}

fn bought(pool: &str, count: u32) -> ((String, String), (u32, u32)) {
    ((pool.to_owned(), "g".to_owned()), (0, count))
}

#[test]
fn nodes_without_a_pod_are_given_up_however_many_pods_there_are() {
    let few = || pool("few").bounds(0, 10);
    let some_used = nodes(216 * 14 + 3, few());
    assert_eq!(some_used, BTreeMap::from([bought("a-many", 216), bought("few", 3)]));
    let whole = few().with(|pool| pool.group_scaling = GroupScaling::ZeroOrMax);
    assert_eq!(nodes(216 * 14, whole), BTreeMap::from([bought("a-many", 216)]));
}

#[test]
fn node_is_kept_that_one_pod_could_do_without_only_in_the_place_of_others() {
    let world = world()
        .group("apart", "g", "", 0)
        .group("full", "g", "", 0)
        .pod(pod("either").cpu("3500m").memory("6Gi").tolerates("apart"))
        .pods(pod("web").cpu("1250m").memory("9Gi").times(3))
        .build();
    let shaped = |name: &str| pool(name).shape("5", "14Gi");
    let config = config([shaped("apart").taint("apart", ""), shaped("full").bounds(0, 2)]);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("apart", "g", 0, 1), ("full", "g", 0, 2)]);
    assert_eq!(verdict(&plan, "web-0").unplaced_count, 1);
}
