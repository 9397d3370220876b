//! Nodes that are leaving, and removals that have not started, as they count for further removals.

use std::sync::Arc;

use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::nodes::scale_down::unregistered::remove_never_registered;
use headroom_core::nodes::state::cluster_state::ClusterState;
use headroom_core::nodes::state::foreign::Members;
use headroom_core::nodes::state::health::Health;
use headroom_core::nodes::wake::Wake;
use headroom_core::testing::{NOW, config, node, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::provider::{GroupState, Instance, InstanceState};
use headroom_core::world::{Delta, World};

use crate::scene::on_scene;

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
    let mut history = History::default();
    let steps = on_scene(&world, &config, NOW, |scene| remove_never_registered(scene, &mut history));
    assert_eq!(steps.len(), 1);
    let removals = history.pools["a"].removals();
    let victims: Vec<String> =
        removals.flat_map(|(_, removal)| &removal.victims).map(|victim| victim.id.to_string()).collect();
    assert_eq!(victims, ["i-never"]);
}

/// Node n1 of group g1 is gone at [`NOW`], and the cloud lists its machine.
fn without_its_node() -> World {
    let mut world = world().node(node("n1").of("a", "g1").age(100_000)).group("a", "g1", "", 1).build();
    world.apply(Delta::NodeDeleted("n1".into()));
    world
}

/// The cloud is read again, with what it listed before.
fn read_at(world: &mut World, at: UnixTime) {
    let value = world.provider("a").and_then(Known::value).expect("known").clone();
    world.apply(Delta::ProviderObserved("a".into(), Known::Known { value, at }));
}

/// True if the machine is late, and how many nodes are on their way, at this instant.
fn late_and_upcoming(world: &World, now: UnixTime) -> (bool, u32) {
    let config = config([pool("a")]);
    let state = ClusterState::new(world, &History::default(), &config, now, &mut Wake::new(now));
    let upcoming = state.pools["a"].groups["g1"].upcoming;
    let mut history = History::default();
    let steps = on_scene(world, &config, now, |scene| remove_never_registered(scene, &mut history));
    let deleted = !steps.is_empty();
    let counted = !state.pools["a"].groups["g1"].long_unregistered.is_empty();
    assert_eq!(deleted, counted, "what is counted as late is what is deleted");
    (deleted, upcoming)
}

#[test]
fn machine_whose_node_has_left_has_the_provision_timeout_from_then_on_and_nothing_waits_for_it() {
    let timeout = pool("a").build().scale_up.provision_timeout.0;
    let mut world = without_its_node();
    let at = |seconds: i64| UnixTime(NOW.0 + 60 + seconds);
    assert_eq!(late_and_upcoming(&world, at(0)), (false, 0), "the cloud may only not have reported it yet");
    for (seconds, late) in [(0, false), (300, false), (timeout, false), (timeout + 1, true)] {
        read_at(&mut world, at(seconds));
        assert_eq!(late_and_upcoming(&world, at(seconds)), (late, 0), "after {seconds} s");
    }
}

#[test]
fn time_of_a_machine_begins_anew_when_its_node_leaves_again() {
    let timeout = pool("a").build().scale_up.provision_timeout.0;
    let mut world = without_its_node();
    read_at(&mut world, UnixTime(NOW.0 + 60));
    world.apply(Delta::NodeApplied(Box::new(node("n1").of("a", "g1").age(100_000).build())));
    world.apply(Delta::NodeDeleted("n1".into()));
    for (seconds, late) in [(600, false), (600 + timeout, false), (601 + timeout, true)] {
        read_at(&mut world, UnixTime(NOW.0 + seconds));
        assert_eq!(late_and_upcoming(&world, UnixTime(NOW.0 + seconds)).0, late, "after {seconds} s");
    }
}
