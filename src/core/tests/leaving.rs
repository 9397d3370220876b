//! What leaves already, and what has not started yet, where it is counted for further removals.

use std::sync::Arc;

use headroom_core::history::History;
use headroom_core::nodes::removal::Scene;
use headroom_core::nodes::scale_down::unregistered::remove_never_registered;
use headroom_core::nodes::state::foreign::Members;
use headroom_core::nodes::state::health::Health;
use headroom_core::testing::{NOW, config, node, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::provider::{GroupState, Instance, InstanceState};

#[test]
fn node_is_unready_from_the_end_of_its_time_to_start_on() {
    let unhealthy = |age: i64| {
        let starting = node("n").of("a", "g1").age(age).unready_for(age);
        let world = world().node(starting).group("a", "g1", "", 1).build();
        let mut config = config([pool("a")]);
        config.cluster.ok_unready_count = 0;
        Health::of(&world, &config, &Members::of(&world, &config), NOW).cluster_unhealthy()
    };
    let timeout = pool("a").build().scale_up.startup_timeout.0;
    assert_eq!((unhealthy(timeout - 1), unhealthy(timeout)), (false, true));
}

#[test]
fn instance_on_its_way_out_or_with_a_node_is_not_deleted_as_one_that_never_became_a_node() {
    let late = |state, name: Option<&str>| Instance {
        state,
        node: name.map(Arc::from),
        created_at: Some(UnixTime(NOW.0 - 100_000)),
    };
    let instances = [
        ("i-deleting".into(), late(InstanceState::Deleting, None)),
        ("i-named".into(), late(InstanceState::Running, Some("n"))),
        ("i-never".into(), late(InstanceState::Running, None)),
    ];
    let state = GroupState { target: 3, max: 10, instances: instances.into(), ..GroupState::default() };
    let world = world().node(node("n").of("a", "g1")).group_state("a", "g1", state).build();
    let config = config([pool("a")]);
    let members = Members::of(&world, &config);
    let health = Health::of(&world, &config, &members, NOW);
    let scene =
        Scene { world: &world, config: &config, members: &members, health: &health, now: NOW, guard: None };
    let mut history = History::default();
    assert_eq!(remove_never_registered(&scene, &mut history).len(), 1);
    let removals = history.pools["a"].removals();
    let victims: Vec<String> =
        removals.flat_map(|(_, removal)| &removal.victims).map(|victim| victim.id.to_string()).collect();
    assert_eq!(victims, ["i-never"]);
}
