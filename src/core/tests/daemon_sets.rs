//! DaemonSets that take part of a new node: those that were let in, whatever others ask for.

use headroom_core::scheduling::constraints::{NodeSelectorTerm, Operator, RequiredNodeAffinity};
use headroom_core::testing::{NOW, WorldBuilder, config, daemon_set, node, pod, pool, requirement, world};
use headroom_core::time::UnixTime;
use headroom_core::world::workload::{DaemonSet, PrioritySource};

use crate::scale_up::{check, plan_fresh, verdict};

/// A tenant's set whose pods take nearly the whole of a node.
fn greedy() -> DaemonSet {
    daemon_set("greedy", pod("greedy").cpu("3"))
}

/// Nodes of the group, the first so many of which run the set's pod, and one pod that needs most of a node.
fn group(nodes: usize, running: usize) -> WorldBuilder {
    let mut world =
        world().group("general", "a", "", u32::try_from(nodes).expect("few")).daemon_set(greedy());
    for index in 0..nodes {
        let name = format!("n{index}");
        world = world
            .node(node(&name).of("general", "a"))
            .pod(pod(&format!("busy-{index}")).cpu("900m").on(&name));
        if index < running {
            world =
                world.pod(pod(&format!("greedy-{index}")).cpu("3").owner("DaemonSet", "greedy").on(&name));
        }
    }
    world.pod(pod("web").cpu("3500m"))
}

#[test]
fn a_daemon_set_without_pods_takes_no_part_of_a_new_node() {
    for nodes in [0, 4] {
        let plan = plan_fresh(&group(nodes, 0).build(), &config([pool("general")]));
        let from = u32::try_from(nodes).expect("few");
        check(&plan, &[("general", "a", from, from + 1)]);
    }
}

#[test]
fn a_daemon_set_takes_part_of_a_new_node_when_it_runs_on_half_of_its_group() {
    let plan = plan_fresh(&group(4, 1).build(), &config([pool("general")]));
    check(&plan, &[("general", "a", 4, 5)]);
    let plan = plan_fresh(&group(4, 2).build(), &config([pool("general")]));
    check(&plan, &[]);
}

/// The set of [`greedy`] whose pods run with 1m, while its template was edited to ask for most of a node; on these nodes.
fn edited(world: WorldBuilder, set: DaemonSet, nodes: &[&str]) -> WorldBuilder {
    nodes.iter().fold(world.daemon_set(set), |world, name| {
        let one = pod(&format!("greedy-{name}")).cpu("1m").owner("DaemonSet", "greedy").on(name);
        // As the DaemonSet controller ties each pod to its node.
        let tied = requirement("metadata.name", Operator::In, &[name]);
        let term = NodeSelectorTerm { match_fields: vec![tied], ..NodeSelectorTerm::default() };
        world.pod(one.with_class(|class| {
            class.node_affinity = Some(RequiredNodeAffinity { terms: vec![term] });
        }))
    })
}

#[test]
fn a_daemon_set_counts_as_its_running_pods_ask_not_as_its_template() {
    let mut cluster = group(4, 0);
    cluster = edited(cluster, greedy(), &["n0", "n1", "n2", "n3"]);
    check(&plan_fresh(&cluster.build(), &config([pool("general")])), &[("general", "a", 4, 5)]);

    // The same for a group without nodes, by the pods elsewhere.
    let names = ["other-0", "other-1"];
    let mut cluster = world().group("general", "a", "", 0).pod(pod("web").cpu("3500m"));
    for name in names {
        cluster = cluster.node(node(name).cpu("500m"));
    }
    cluster = edited(cluster, DaemonSet { desired: 2, ..greedy() }, &names);
    check(&plan_fresh(&cluster.build(), &config([pool("general")])), &[("general", "a", 0, 1)]);
}

#[test]
fn what_most_pods_of_a_daemon_set_ask_for_counts_while_it_is_rolled_out() {
    let bought = |large: usize| {
        let mut cluster = group(5, large);
        for index in large..5 {
            let one = pod(&format!("small-{index}")).cpu("1m").owner("DaemonSet", "greedy");
            cluster = cluster.pod(one.on(&format!("n{index}")));
        }
        !plan_fresh(&cluster.build(), &config([pool("general")])).steps.is_empty()
    };
    assert!(bought(2) && !bought(3));
}

#[test]
fn a_daemon_set_of_the_system_none_of_whose_pods_was_let_in_takes_nothing() {
    let critical = PrioritySource::Named("system-node-critical".into());
    let set = DaemonSet { priority_class: critical, desired: 4, ..greedy() };
    let cluster = world().group("general", "a", "", 0).daemon_set(set).pod(pod("web").cpu("3500m"));
    check(&plan_fresh(&cluster.build(), &config([pool("general")])), &[("general", "a", 0, 1)]);
}

#[test]
fn the_reason_names_the_daemon_sets_without_which_a_pod_would_fit() {
    let plan = plan_fresh(&group(4, 4).build(), &config([pool("general")]));
    let message = &verdict(&plan, "web").pools[0].message;
    assert!(message.ends_with("; fits without DaemonSets kube-system/greedy"), "{message}");
}

#[test]
fn for_a_group_without_nodes_a_daemon_set_counts_that_runs_where_it_belongs_or_is_of_the_system() {
    let bought = |set: DaemonSet, running: usize| {
        let mut world = world().group("general", "a", "", 0).daemon_set(set).pod(pod("web").cpu("3500m"));
        for index in 0..running {
            let name = format!("other-{index}");
            world = world
                .node(node(&name).cpu("3500m"))
                .pod(pod(&format!("greedy-{index}")).cpu("3").owner("DaemonSet", "greedy").on(&name));
        }
        let plan = plan_fresh(&world.build(), &config([pool("general")]));
        !plan.steps.is_empty()
    };
    let wanted = |desired: u32| DaemonSet { desired, ..greedy() };
    assert!(bought(wanted(4), 0) && bought(wanted(4), 1), "a quota may let one in and no other");
    assert!(!bought(wanted(4), 2));
    let critical = PrioritySource::Named("system-node-critical".into());
    assert!(!bought(DaemonSet { priority_class: critical, ..wanted(0) }, 0));
}

#[test]
fn daemon_sets_of_higher_priority_take_their_part_first() {
    let critical = PrioritySource::Named("system-cluster-critical".into());
    let agent = DaemonSet { priority_class: critical, ..daemon_set("zz-agent", pod("zz-agent").cpu("2")) };
    let world = group(2, 2)
        .daemon_set(agent)
        .pods((0..2).map(|index| {
            let name = format!("zz-agent-{index}");
            pod(&name).cpu("2").owner("DaemonSet", "zz-agent").on(&format!("n{index}")).build()
        }))
        .pod(pod("small").cpu("1500m"))
        .build();
    // Beside the agent there is no place for the greedy set's pod, and enough for a small one.
    let plan = plan_fresh(&world, &config([pool("general")]));
    assert_eq!(verdict(&plan, "small").unplaced_count, 0);
}

#[test]
fn a_node_that_has_just_started_says_nothing_of_its_daemon_sets() {
    let young = node("n").of("general", "a").with(|node| node.created_at = UnixTime(NOW.0 - 60));
    let world = world()
        .group("general", "a", "", 1)
        .node(young)
        .pod(pod("busy").cpu("900m").on("n"))
        .daemon_set(DaemonSet {
            priority_class: PrioritySource::Named("system-node-critical".into()),
            ..greedy()
        })
        .pod(pod("web").cpu("3500m"))
        .build();
    check(&plan_fresh(&world, &config([pool("general")])), &[]);
}
