//! Counts of a pool's nodes by state.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::{
    Action, History, Increase, IncreasePhase, Intent, PoolHistory, Removal, RemovalPhase, Victim,
};
use headroom_core::nodes::state::cluster_state::{ClusterState, GroupCounts};
use headroom_core::nodes::wake::Wake;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, config, no_schedule, node, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::node::{POOL_LABEL, Readiness};
use headroom_core::world::provider::{GroupState, Instance, InstanceState};

/// Ready, starting, unready and leaving nodes of a pool with a taint `init` that goes by itself, and 15 minutes to start.
fn counts(node: NodeBuilder) -> [u32; 4] {
    let world = world().node(node).group("general", "a", "", 1).build();
    let config = config([pool("general").with(|pool| pool.startup_taints.push(no_schedule("init", "")))]);
    let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
    let group = &state.pools["general"].groups["a"];
    [group.ready, group.not_started, group.unready, group.leaving]
}

fn aged(seconds: i64) -> NodeBuilder {
    node("n1").of("general", "a").age(seconds)
}

#[test]
fn a_node_with_a_startup_taint_starts_and_when_its_time_is_over_it_is_unready() {
    assert_eq!(counts(aged(899)), [1, 0, 0, 0]);
    assert_eq!(counts(aged(899).taint("init", "")), [0, 1, 0, 0]);
    assert_eq!(counts(aged(900).taint("init", "")), [0, 0, 1, 0]);
    assert_eq!(counts(aged(900).taint("another", "")), [1, 0, 0, 0]);
}

/// Cluster API puts it on every node that joins, and takes it off when it has labelled the node.
#[test]
fn a_node_that_cluster_api_has_not_labelled_yet_starts() {
    assert_eq!(counts(aged(2).taint("node.cluster.x-k8s.io/uninitialized", "")), [0, 1, 0, 0]);
    let replaced = "node.cluster.x-k8s.io/outdated-revision";
    assert_eq!(
        counts(aged(2).taint(replaced, "")),
        [1, 0, 0, 0],
        "a rollout replaces it, and until then it serves"
    );
}

#[test]
fn a_node_that_is_not_ready_starts_until_its_time_is_over() {
    let not_ready = |seconds| aged(seconds).with(|node| node.ready = Readiness::NotReady);
    assert_eq!(counts(not_ready(899)), [0, 1, 0, 0]);
    assert_eq!(counts(not_ready(900)), [0, 0, 1, 0]);
}

#[test]
fn a_node_that_is_to_go_is_leaving_whoever_has_marked_it() {
    assert_eq!(counts(aged(9000).taint("ToBeDeletedByClusterAutoscaler", "")), [0, 0, 0, 1]);
    let deleting = aged(9000).with(|node| node.deleting = true);
    assert_eq!(counts(deleting), [0, 0, 0, 1]);
}

/// Applies `read` to the counts of group a in pool general.
fn group<R>(world: WorldBuilder, history: &History, read: impl Fn(&GroupCounts<'_>) -> R) -> R {
    let (world, config) = (world.build(), config([pool("general")]));
    let state = ClusterState::new(&world, history, &config, NOW, &mut Wake::new(NOW));
    read(&state.pools["general"].groups["a"])
}

fn ready_and_leaving(counts: &GroupCounts<'_>) -> (u32, u32) {
    (counts.ready, counts.leaving)
}

fn member(name: &str) -> NodeBuilder {
    node(name).of("general", "a")
}

fn instance(state: InstanceState, node: Option<&str>, created_at: Option<UnixTime>) -> Instance {
    Instance { state, node: node.map(Arc::from), created_at }
}

/// Group a with this target and these instances.
fn listing<'i>(target: u32, instances: impl IntoIterator<Item = (&'i str, Instance)>) -> GroupState {
    let instances = instances.into_iter().map(|(id, instance)| (id.into(), instance)).collect();
    GroupState { target, max: 100, instances, ..GroupState::default() }
}

fn remembered(action: Action) -> History {
    let intent = Intent {
        id: "1-1".into(),
        epoch: 1,
        action,
        reason: Reason::Underutilized,
        started_at: NOW,
        deadline: UnixTime(NOW.0 + 900),
    };
    let memory = PoolHistory { intents: vec![intent], ..PoolHistory::default() };
    History { pools: BTreeMap::from([("general".into(), memory)]) }
}

/// A removal of this node, whose instance has this id.
fn removing(node: &str, id: &str, phase: RemovalPhase) -> History {
    let victims = vec![Victim { node: node.into(), id: id.into() }];
    remembered(Action::Remove(Removal {
        group: "a".into(),
        victims,
        phase,
        phase_since: NOW,
        surges: Vec::new(),
    }))
}

fn growing() -> History {
    let (phase, accepted_at) = (IncreasePhase::Requested, Some(NOW));
    remembered(Action::Increase(Increase { group: "a".into(), from: 0, to: 1, phase, accepted_at }))
}

#[test]
fn a_node_whose_machine_the_cloud_takes_away_is_leaving_and_no_other() {
    let running = |name| instance(InstanceState::Running, Some(name), None);
    let going = instance(InstanceState::Deleting, Some("n2"), None);
    let instances = [("kwok://n1", running("n1")), ("kwok://n2", going)];
    let world = world().node(member("n1")).node(member("n2"));
    let world = world.group_state("general", "a", listing(2, instances));
    assert_eq!(group(world, &History::default(), ready_and_leaving), (1, 1));
}

#[test]
fn a_node_that_an_open_removal_names_is_leaving_until_the_removal_is_given_up() {
    let world = || world().node(member("n1")).node(member("n2")).group("general", "a", "", 2);
    let counted = |phase| group(world(), &removing("n2", "kwok://n2", phase), ready_and_leaving);
    assert_eq!(counted(RemovalPhase::Journalled), (1, 1));
    assert_eq!(counted(RemovalPhase::Deleting), (1, 1));
    assert_eq!(counted(RemovalPhase::Undoing), (2, 0));
}

#[test]
fn every_node_of_every_state_is_one_of_the_clusters_as_are_those_on_their_way() {
    let many = |count: u32, word: &str, age: i64, ready: Readiness| {
        let names = (0..count).map(|index| format!("{word}-{index}")).collect::<Vec<_>>();
        names.into_iter().map(move |name| member(&name).age(age).with(|node| node.ready = ready))
    };
    let leaving = member("leaving").with(|node| node.deleting = true);
    let nodes = many(2, "ready", 9000, Readiness::Ready)
        .chain(many(3, "unready", 9000, Readiness::NotReady))
        .chain(many(3, "starting", 10, Readiness::NotReady))
        .chain([leaving]);
    let world = nodes.fold(world().node(node("foreign")), WorldBuilder::node);
    let coming = instance(InstanceState::Running, None, Some(NOW));
    let ids = ["i-1", "i-2", "i-3", "i-4"];
    let world = world.group_state("general", "a", listing(4, ids.map(|id| (id, coming.clone())))).build();
    let config = config([pool("general")]);
    let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
    assert_eq!(state.pools["general"].registered(), 2 + 3 + 3);
    assert_eq!(state.nodes_total(), 2 + 3 + 3 + 1 + 4 + 1);
}

/// Machines that run, those that are asked for, and those that never came.
#[test]
fn a_group_is_unhealthy_when_too_many_of_the_nodes_that_it_wants_are_missing() {
    let unhealthy = |ready: u32, target: u32, age: Option<i64>| {
        let nodes = (0..ready).map(|index| member(&format!("ready-{index}")));
        let mut state = GroupState { target, max: 100, ..GroupState::default() };
        for (id, age) in age.into_iter().flat_map(|age| (0..target - ready).map(move |index| (index, age))) {
            let young = instance(InstanceState::Running, None, Some(UnixTime(NOW.0 - age)));
            state.instances.insert(format!("i-{id}").into(), young);
        }
        let world = nodes.fold(world(), WorldBuilder::node).group_state("general", "a", state).build();
        let config = config([pool("general")]);
        let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
        state.pools["general"].groups["a"].unhealthy
    };
    assert!(!unhealthy(0, 0, None));
    assert!(unhealthy(0, 1, None), "none has come of one that is wanted");
    assert!(!unhealthy(0, 1, Some(10)), "it is on its way");
    assert!(!unhealthy(3, 6, None), "few");
    assert!(unhealthy(3, 10, None));
    assert!(!unhealthy(3, 10, Some(10)), "they are on their way");
    assert!(!unhealthy(3, 10, Some(9000)), "they never came, and are removed for that");
}

/// Both limits must be passed: `okUnreadyCount` and `maxUnreadyPercent`, 45 % here.
#[test]
fn a_group_is_unhealthy_when_too_many_of_its_nodes_are_unready() {
    let unhealthy = |ready: u32, unready: u32, leaving: u32| {
        let name = |word: &str, index: u32| member(&format!("{word}-{index}"));
        let nodes = (0..ready)
            .map(|index| name("ready", index))
            .chain((0..unready).map(|index| name("unready", index).unready_for(3600)))
            .chain((0..leaving).map(|index| name("leaving", index).with(|node| node.deleting = true)));
        let world = nodes.fold(world(), WorldBuilder::node);
        let world = world.group("general", "a", "", ready + unready + leaving).build();
        let mut config = config([pool("general")]);
        (config.cluster.ok_unready_count, config.cluster.max_unready_percent) = (3, 45);
        let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
        state.pools["general"].groups["a"].unhealthy
    };
    let cases = [
        (0, 3, 0, false),
        (0, 4, 0, true),
        (5, 4, 0, false),
        (4, 4, 0, true),
        (11, 9, 0, false),
        (10, 10, 0, true),
        // Those that leave are nodes of the pool too.
        (10, 10, 3, false),
    ];
    for (ready, unready, leaving, expected) in cases {
        let found = unhealthy(ready, unready, leaving);
        assert_eq!(found, expected, "{ready} ready, {unready} unready, {leaving} leaving");
    }
}

/// Instances that may still become nodes, those that did not in their 15 minutes, and the size that all come to.
fn instances(world: WorldBuilder, state: GroupState, history: &History) -> (u32, usize, u32) {
    let world = world.group_state("general", "a", state);
    group(world, history, |found| (found.unregistered, found.long_unregistered.len(), found.target))
}

#[test]
fn an_instance_has_its_whole_time_to_become_a_node_and_the_plan_looks_again_when_it_is_over() {
    let of_age = |seconds| {
        let created = instance(InstanceState::Running, None, Some(UnixTime(NOW.0 - seconds)));
        listing(1, [("i-1", created)])
    };
    assert_eq!(instances(world(), of_age(899), &History::default()), (1, 0, 1));
    assert_eq!(instances(world(), of_age(900), &History::default()), (1, 0, 1));
    assert_eq!(instances(world(), of_age(901), &History::default()), (0, 1, 1));
    let world = world().group_state("general", "a", of_age(800)).build();
    let (config, mut wake) = (config([pool("general")]), Wake::new(NOW));
    let _ = ClusterState::new(&world, &History::default(), &config, NOW, &mut wake);
    assert_eq!(wake.earliest(), Some(UnixTime(NOW.0 + 101)));
}

#[test]
fn an_instance_of_unknown_age_is_on_its_way_while_its_group_grows() {
    let ageless = || listing(1, [("i-1", instance(InstanceState::Running, None, None))]);
    assert_eq!(instances(world(), ageless(), &growing()).0, 1);
    assert_eq!(instances(world(), ageless(), &History::default()).0, 0);
}

#[test]
fn every_instance_that_stays_counts_for_the_size_and_none_that_goes() {
    let running = |node| instance(InstanceState::Running, node, Some(NOW));
    let going = instance(InstanceState::Deleting, None, Some(NOW));
    let two = || [("i-1", running(Some("n1"))), ("i-2", running(None))];
    let with_one_going = two().into_iter().chain([("i-3", going)]);
    assert_eq!(instances(world(), listing(0, with_one_going), &History::default()), (2, 0, 2));
    // What a removal names goes too, by the id of the instance or by the name that the cloud knows.
    for (node, id) in [("another", "i-2"), ("n1", "another")] {
        let history = removing(node, id, RemovalPhase::Deleting);
        assert_eq!(instances(world(), listing(0, two()), &history), (1, 0, 1), "{node} {id}");
    }
    assert_eq!(
        instances(world(), listing(0, two()), &removing("n9", "i-9", RemovalPhase::Deleting)),
        (2, 0, 2)
    );
}

#[test]
fn an_instance_is_a_node_by_its_id_or_by_the_name_that_the_cloud_knows() {
    let running = |node| instance(InstanceState::Running, node, Some(NOW));
    let listed =
        listing(3, [("kwok://n1", running(None)), ("i-2", running(Some("n2"))), ("i-3", running(None))]);
    assert_eq!(instances(world().node(member("n1")).node(member("n2")), listed, &History::default()).0, 1);
}

/// Its machine is no longer on its way: were the node nobody's, its pods would be bought for again.
#[test]
fn a_node_without_an_id_is_its_groups_by_the_name_that_the_cloud_gives_its_machine() {
    let machine = || listing(1, [("i-1", instance(InstanceState::Running, Some("n1"), None))]);
    let of = |id: &'static str| {
        let world = world().node(node("n1").age(0).with(|node| node.provider_id = id.into()));
        let read = |found: &GroupCounts<'_>| (found.ready, found.upcoming, found.target);
        group(world.group_state("general", "a", machine()), &growing(), read)
    };
    assert_eq!(of(""), (1, 0, 1));
    assert_eq!(of("i-1"), (1, 0, 1));
}

/// A view of the cloud shows nothing that came after it.
#[test]
fn a_node_that_came_after_the_cloud_was_asked_counts_for_the_size() {
    let size = |node: NodeBuilder| instances(world().node(node), listing(0, []), &History::default()).2;
    assert_eq!(size(member("n1").age(0)), 1);
    assert_eq!(size(member("n1").age(1)), 0);
    assert_eq!(size(member("n1").age(0).with(|node| node.deleting = true)), 0);
    assert_eq!(size(member("n1").age(0).taint("ToBeDeletedByClusterAutoscaler", "")), 0);
}

#[test]
fn a_node_without_labels_belongs_to_the_group_that_lists_its_instance() {
    let nodes = ["n1", "n2", "n3", "n4", "n5"].map(node).into_iter();
    let world = nodes.fold(world(), WorldBuilder::node);
    let running = |name| instance(InstanceState::Running, Some(name), None);
    let world = world
        .group_state("a", "a-1", listing(1, [("kwok://n1", running("n1"))]))
        .group_state("a", "a-2", listing(2, [("kwok://n2", running("n2")), ("kwok://n3", running("n3"))]))
        .group_state("b", "a-1", listing(1, [("kwok://n4", running("n4"))]));
    let ready = |world: WorldBuilder, config: Config| {
        let world = world.build();
        let state = ClusterState::new(&world, &History::default(), &config, NOW, &mut Wake::new(NOW));
        let groups = state.pools.iter().flat_map(|(pool, state)| {
            state.groups.iter().map(move |(group, counts)| (format!("{pool}/{group}"), counts.ready))
        });
        groups.collect::<Vec<_>>()
    };
    let expected =
        |own: &[(&str, u32)]| own.iter().map(|(id, ready)| ((*id).to_owned(), *ready)).collect::<Vec<_>>();
    assert_eq!(
        ready(world.clone(), config([pool("a"), pool("b")])),
        expected(&[("a/a-1", 1), ("a/a-2", 2), ("b/a-1", 1)])
    );
    // A label that names the pool is believed before another pool's list.
    let labelled = world.node(node("n4").label(POOL_LABEL, "a")).node(node("n1").label(POOL_LABEL, "a"));
    assert_eq!(
        ready(labelled, config([pool("a"), pool("b")])),
        expected(&[("a/", 1), ("a/a-1", 1), ("a/a-2", 2), ("b/a-1", 0)])
    );
}

#[test]
fn replacements_that_the_group_makes_by_itself_are_upcoming_and_no_other_missing_instance_is() {
    let world = |replacements| {
        let running = |name| instance(InstanceState::Running, Some(name), None);
        let going = instance(InstanceState::Deleting, Some("n3"), None);
        let instances = [("kwok://n1", running("n1")), ("kwok://n2", running("n2")), ("kwok://n3", going)];
        let state = GroupState { replacements, ..listing(4, instances) };
        world().node(member("n1")).node(member("n2")).node(member("n3")).group_state("general", "a", state)
    };
    let upcoming =
        |replacements, history: &History| group(world(replacements), history, |found| found.upcoming);
    assert_eq!(upcoming(0, &History::default()), 0);
    assert_eq!(upcoming(1, &History::default()), 1);
    assert_eq!(upcoming(9, &History::default()), 2, "none is beyond the target");
    assert_eq!(upcoming(1, &growing()), 2, "an open increase counts the same missing instances");
}
