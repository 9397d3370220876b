//! Options that a group's own marks give hold for its nodes, and the pool's settings for those of the other groups.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::config::{Budget, Ceiling, Config, Pool};
use headroom_core::history::{History, PoolHistory};
use headroom_core::nodes::scale_down::standby::Waiting;
use headroom_core::nodes::scale_down::unregistered::remove_never_registered;
use headroom_core::nodes::scale_down::{ScaleDown, decide};
use headroom_core::plan::Step;
use headroom_core::reason::Reason;
use headroom_core::scheduling::Snapshot;
use headroom_core::testing::{NOW, WorldBuilder, config, controller, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::pod::PodClass;
use headroom_core::world::provider::{GroupOptions, GroupState, Hold, Instance, InstanceState};
use headroom_core::world::workload::ControllerKind;

use crate::scene::on_scene;

/// Of each of the groups a-1 and a-2 a node whose one pod asks for this cpu, beside a node with room.
fn two_groups(cpu: &str) -> WorldBuilder {
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", 50, pod("x")));
    for (name, group) in [("one", "a-1"), ("two", "a-2"), ("room", "a-3")] {
        builder = builder.node(node(name).of("a", group).zone("z1"));
    }
    for (name, on, cpu) in [("p", "one", cpu), ("q", "two", cpu), ("r", "room", "2100m")] {
        builder = builder.pod(pod(name).cpu(cpu).owner("ReplicaSet", "web").on(on));
    }
    builder.group("a", "a-1", "z1", 1).group("a", "a-2", "z1", 1).group("a", "a-3", "z1", 1)
}

fn settings(change: impl FnOnce(&mut Pool)) -> Config {
    let mut config = config([pool("a").with(|pool| pool.scale_down.delay_after_add = Seconds(0))]);
    change(&mut config.pools[0]);
    config
}

/// Decides with all nodes unneeded for so many seconds.
fn decided(world: &World, config: &Config, unneeded: i64) -> ScaleDown {
    let since = UnixTime(NOW.0 - unneeded);
    let unneeded = ["one", "two", "room"].map(|name| (name.into(), since)).into_iter().collect();
    let memory = PoolHistory { unneeded, ..PoolHistory::default() };
    let mut history = History { pools: BTreeMap::from([("a".into(), memory)]) };
    on_scene(world, config, NOW, |scene| {
        decide(scene, &mut Snapshot::new(world), &mut history, Waiting::default())
    })
}

/// The reasons of the nodes one and two.
fn reasons(world: WorldBuilder, config: &Config, unneeded: i64) -> (Reason, Reason) {
    let decided = decided(&world.build(), config, unneeded);
    let of = |name| decided.verdicts.of(name).map(|verdict| verdict.reason);
    (of("one").expect("judged"), of("two").expect("judged"))
}

#[test]
fn threshold_of_a_group_goes_before_that_of_its_pool() {
    // The busiest node of a default pool is at 60 %.
    let own = GroupOptions { utilization_threshold_percent: Some(60), ..GroupOptions::default() };
    let world = two_groups("2400m").group_options("a", "a-2", own.clone());
    let config = settings(|_| ());
    let (one, two) = reasons(world, &config, 3600);
    assert_eq!(one, Reason::NotUnderutilized);
    assert_ne!(two, Reason::NotUnderutilized);
    // And in the other direction.
    let own = GroupOptions { utilization_threshold_percent: Some(10), ..own };
    let (one, two) = reasons(two_groups("500m").group_options("a", "a-2", own), &config, 3600);
    assert_ne!(one, Reason::NotUnderutilized);
    assert_eq!(two, Reason::NotUnderutilized);
}

#[test]
fn clock_of_a_group_goes_before_that_of_its_pool() {
    let own = GroupOptions { unneeded_for: Some(Seconds(1200)), ..GroupOptions::default() };
    let config = settings(|pool| pool.scale_down.unneeded_for = Seconds(600));
    let (one, two) = reasons(two_groups("500m").group_options("a", "a-2", own.clone()), &config, 700);
    assert_eq!((one, two), (Reason::Underutilized, Reason::NotUnneededLongEnough));
    let shorter = GroupOptions { unneeded_for: Some(Seconds(60)), ..own };
    let world = two_groups("500m").group_options("a", "a-2", shorter).build();
    let opened = decided(&world, &config, 100);
    let underutilized: Vec<&str> = opened
        .verdicts
        .iter()
        .filter(|one| one.reason == Reason::Underutilized)
        .map(|one| &**one.node)
        .collect();
    assert_eq!(underutilized, ["two"]);
}

#[test]
fn daemon_pods_are_left_out_where_a_group_says_so() {
    let mut builder = two_groups("300m");
    for (name, on) in [("d1", "one"), ("d2", "two")] {
        let daemon = pod(name).cpu("2000m").on(on);
        builder = builder.pod(daemon.with_class(|class| class.daemon_set = true));
    }
    let own = GroupOptions { ignore_daemon_sets: Some(true), ..GroupOptions::default() };
    let (one, two) = reasons(builder.group_options("a", "a-2", own), &settings(|_| ()), 3600);
    assert_eq!((one, two), (Reason::NotUnderutilized, Reason::Underutilized));
}

#[test]
fn pool_leaves_daemon_and_mirror_pods_out_where_it_says_so() {
    let beside = |change: fn(&mut PodClass)| {
        let beside = pod("beside").cpu("2000m").on("one").with_class(change);
        two_groups("300m").pod(beside)
    };
    let daemon = || beside(|class| class.daemon_set = true);
    let mirror = || beside(|class| class.mirror = true);
    let daemons = settings(|pool| pool.scale_down.ignore_daemon_sets = true);
    let mirrors = settings(|pool| pool.scale_down.ignore_mirror = true);
    let one = |world: WorldBuilder, config: &Config| reasons(world, config, 3600).0;
    assert_eq!(one(daemon(), &daemons), Reason::Underutilized);
    assert_eq!(one(daemon(), &mirrors), Reason::NotUnderutilized);
    assert_eq!(one(mirror(), &mirrors), Reason::Underutilized);
    assert_eq!(one(mirror(), &daemons), Reason::NotUnderutilized);
    // The group's own marks go before.
    let own = GroupOptions { ignore_daemon_sets: Some(false), ..GroupOptions::default() };
    assert_eq!(one(daemon().group_options("a", "a-1", own), &daemons), Reason::NotUnderutilized);
}

#[test]
fn time_to_join_of_a_group_goes_before_that_of_its_pool() {
    let instance =
        Instance { state: InstanceState::Creating, node: None, created_at: Some(UnixTime(NOW.0 - 400)) };
    let state = |id: &str| GroupState {
        target: 1,
        max: 10,
        instances: [(id.into(), instance.clone())].into_iter().collect(),
        ..GroupState::default()
    };
    let own = GroupOptions { provision_timeout: Some(Seconds(300)), ..GroupOptions::default() };
    let world = world()
        .group_state("a", "a-1", state("i-1"))
        .group_state("a", "a-2", state("i-2"))
        .group_options("a", "a-2", own)
        .build();
    let config = settings(|_| ());
    let mut history = History::default();
    let steps = on_scene(&world, &config, NOW, |scene| remove_never_registered(scene, &mut history));
    let [Step::Delete { victims, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(victims.iter().map(|victim| &*victim.id).collect::<Vec<_>>(), ["i-2"]);
}

#[test]
fn removals_of_a_held_group_wait_and_other_groups_go_on() {
    let hold = Hold { reason: Reason::GroupRollingOut, message: "1 of 3".into(), except: BTreeSet::new() };
    // Both nodes have pods: by default they are drained one after the other.
    let two_at_once =
        Budget { name: "two".into(), ceiling: Ceiling::Nodes(2), reasons: Vec::new(), window: None };
    let mut config = settings(|pool| pool.scale_down.budgets = vec![two_at_once]);
    config.cluster.max_drains = 2;
    let (one, two) = reasons(two_groups("500m"), &config, 3600);
    assert_eq!((one, two), (Reason::Underutilized, Reason::Underutilized));
    let held = two_groups("500m").group_hold("a", "a-2", hold.clone());
    assert_eq!(reasons(held, &config, 3600), (Reason::Underutilized, Reason::GroupRollingOut));
    // Instances that may go all the same do.
    let but = Hold { except: BTreeSet::from(["kwok://two".into()]), ..hold };
    let held = two_groups("500m").group_hold("a", "a-2", but);
    assert_eq!(reasons(held, &config, 3600), (Reason::Underutilized, Reason::Underutilized));
}
