//! Shape that the next node of a group is expected to have where its pool declares none, and the pool that is taken in
//! a tie.

use headroom_core::config::Expander;
use headroom_core::history::{History, LearnedTemplate, PoolHistory};
use headroom_core::plan;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::testing::{NOW, NodeBuilder, config, node, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::pod::Pod;
use headroom_core::world::provider::{GroupState, GroupTemplate, TemplateTrust};
use headroom_core::world::template::NodeTemplate;

use crate::scale_up::increases;

const GIB: i64 = 1 << 30;

/// Returns how many nodes are bought of a group whose machines have 8 cores and 32 GiB as the provider reports, when
/// live nodes had so much.
fn bought(pods: Vec<Pod>, cpu_milli: i64, gib: i64, pods_max: i64) -> u32 {
    bought_within(None, pods, cpu_milli, gib, pods_max)
}

/// The same in a cluster that may have so many thousandths of a core.
fn bought_within(most: Option<i64>, pods: Vec<Pod>, cpu_milli: i64, gib: i64, pods_max: i64) -> u32 {
    let node = pool("x").shape("8", "32Gi").build().template.expect("the builder's");
    let template = GroupTemplate { node, trust: TemplateTrust::Estimate, ..GroupTemplate::default() };
    let state = GroupState { max: 10, template: Some(template.into()), ..GroupState::default() };
    let world = world().group_state("general", "a", state).pods(pods).build();
    let taught = LearnedTemplate { cpu_milli, memory_bytes: gib * GIB, pods: pods_max };
    let memory = PoolHistory { learned: [("a".into(), taught)].into(), ..PoolHistory::default() };
    let history = History { pools: [("general".into(), memory)].into() };
    let mut config = config([pool("general").with(|pool| pool.template = None)]);
    config.cluster.max_cpu_milli = most;
    let plan = plan(&world, &history, &config, NOW);
    increases(&plan).values().map(|(from, to)| to - from).sum()
}

#[test]
fn what_live_nodes_taught_is_believed_over_an_estimate() {
    let large = |cpu: &str| pod("web").cpu(cpu).memory("1Gi").times(2);
    assert_eq!(bought(large("7800m"), 7_500, 30, 110), 0);
    assert_eq!(bought(large("7400m"), 7_500, 30, 110), 2);
    assert_eq!(bought(large("4500m"), 4_000, 16, 110), 0, "half is the same machine still");
    assert_eq!(bought_within(Some(8_000), large("7400m"), 7_500, 30, 110), 1, "one is within the limit");
    assert_eq!(bought(pod("web").cpu("10m").memory("20Gi").times(2), 8_000, 19, 110), 0);
    assert_eq!(bought(pod("web").cpu("10m").memory("10Mi").times(2), 8_000, 32, 1), 2);
}

#[test]
fn what_another_machine_taught_is_not() {
    let large = || pod("web").cpu("7400m").memory("1Gi").times(2);
    assert_eq!(bought(large(), 3_900, 30, 110), 2, "fewer than half of the cores");
    assert_eq!(bought(large(), 7_000, 15, 110), 2, "less than half of the memory");
    assert_eq!(bought(pod("web").cpu("8100m").memory("1Gi").times(2), 9_000, 30, 110), 0, "more cores");
    assert_eq!(bought(large(), 7_000, 33, 110), 2, "more memory");
}

#[test]
fn pods_at_the_cutoff_of_expendable_ones_keep_their_room() {
    for (priority, nodes) in [(-10, 1), (-11, 0)] {
        let world = world()
            .node(node("n1").of("general", "a"))
            .pod(pod("old").cpu("4").priority(priority).on("n1"))
            .pod(pod("web").cpu("4"))
            .group("general", "a", "", 1)
            .build();
        let mut config = config([pool("general")]);
        config.cluster.expendable_pods_priority_cutoff = -10;
        let plan = plan(&world, &History::default(), &config, NOW);
        assert_eq!(increases(&plan).values().map(|(from, to)| to - from).sum::<u32>(), nodes, "{priority}");
    }
}

#[test]
fn fewest_nodes_go_before_the_name_where_the_chain_leaves_a_tie() {
    let world =
        world().group("a", "g", "", 0).group("b", "g", "", 0).pods(pod("web").cpu("1").times(8)).build();
    let mut config = config([pool("a").shape("4", "16Gi"), pool("b").shape("8", "32Gi")]);
    config.cluster.expanders = vec![Expander::Priority];
    let plan = plan(&world, &History::default(), &config, NOW);
    assert_eq!(increases(&plan), [(("b".to_owned(), "g".to_owned()), (0, 1))].into());
}

/// Number of nodes that are bought for these pods by a group whose provider describes this node, with these nodes there.
fn bought_of(said: NodeTemplate, nodes: Vec<NodeBuilder>, pods: Vec<Pod>) -> u32 {
    let template = GroupTemplate { node: said, trust: TemplateTrust::Estimate, ..GroupTemplate::default() };
    let target = u32::try_from(nodes.len()).expect("few");
    let state = GroupState { target, max: 10, template: Some(template.into()), ..GroupState::default() };
    let mut world = world().group_state("general", "a", state).pods(pods);
    for node in nodes {
        world = world.node(node.of("general", "a"));
    }
    let config = config([pool("general").with(|pool| pool.template = None)]);
    let plan = plan(&world.build(), &History::default(), &config, NOW);
    increases(&plan).values().map(|(from, to)| to - from).sum()
}

#[test]
fn young_node_without_its_devices_is_on_its_way_and_no_template() {
    let mut said = pool("x").shape("8", "32Gi").build().template.expect("the builder's");
    said.allocatable.set_extended("nvidia.com/gpu", 1);
    said.capacity.set_extended("nvidia.com/gpu", 1);
    let wanted = || pod("ai").cpu("100m").memory("1Gi").extended("nvidia.com/gpu", 1).times(2);
    let created = |age: i64| node("n1").with(|node| node.created_at = UnixTime(NOW.0 - age));
    assert_eq!(bought_of(said.clone(), vec![created(60)], wanted()), 1, "one pod waits for the driver");
    assert_eq!(bought_of(said, vec![created(3600)], wanted()), 2, "its driver does not come any more");
}

#[test]
fn startup_and_status_taints_by_their_prefixes_are_not_those_of_the_next_node() {
    let bought = |key: &str| {
        let mut said = pool("x").shape("8", "32Gi").build().template.expect("the builder's");
        said.taints = vec![Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule }];
        bought_of(said, Vec::new(), pod("web").cpu("1").times(1))
    };
    assert_eq!(bought("example.com/own"), 0);
    for prefix in ["startup-taint", "ignore-taint", "status-taint"] {
        assert_eq!(bought(&format!("{prefix}.cluster-autoscaler.kubernetes.io/x")), 1, "{prefix}");
    }
}
