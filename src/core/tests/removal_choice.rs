//! Choice of the nodes to remove when several could go: the space that each takes from the others, their order, and the
//! events that do not reset `unneededFor`.

use std::cell::RefCell;

use headroom_core::config::{Config, Consolidation, GroupScaling, Mode, Policy};
use headroom_core::history::{History, PoolHistory};
use headroom_core::nodes::quarantine::{Part, Quarantine};
use headroom_core::nodes::removal::Scene;
use headroom_core::nodes::scale_down::standby::Waiting;
use headroom_core::nodes::scale_down::{ScaleDown, decide};
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::scheduling::Snapshot;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use headroom_core::world::node::{POOL_LABEL, REMOVE_ANNOTATION};

use crate::scale_down::{cluster, marked, member, reasons, replica, run, settings, unneeded, with_pool};
use crate::scene::on_scene;

fn reason(decided: &ScaleDown, wanted: &str) -> Reason {
    let found = reasons(decided).into_iter().find(|(node, _, _)| node == wanted);
    found.expect("a verdict on the node").1
}

/// The nodes whose removal begins, sorted.
fn going(decided: &ScaleDown) -> Vec<String> {
    let mut nodes = marked(decided).concat();
    nodes.sort();
    nodes
}

/// A pod that nobody would start again: it keeps its node.
fn stuck(name: &str, cpu: &str, on: &str) -> PodBuilder {
    pod(name).cpu(cpu).memory("1Gi").on(on)
}

fn of(name: &str, cpu: &str, on: &str) -> PodBuilder {
    replica(name).cpu(cpu).on(on)
}

/// Pool a, of which many nodes may be drained at once.
fn eager(mut config: Config) -> Config {
    config.cluster.max_drains = 10;
    config
}

/// The same where nodes get full, and pods and nodes are never too young.
fn tight() -> Config {
    eager(with_pool(|pool| {
        let at_once = Consolidation { consolidate_after: Seconds(0), ..Consolidation::default() };
        pool.scale_down.policy = Policy::WhenCheaper(at_once);
    }))
}

/// The memory in which a node of each of these pools has been unneeded for an hour.
fn unneeded_in(pools: &[(&str, &str)]) -> History {
    let mut history = History::default();
    for (pool, node) in pools {
        let memory: &mut PoolHistory = history.pools.entry((*pool).into()).or_default();
        memory.unneeded.insert((*node).into(), UnixTime(NOW.0 - 3600));
    }
    history
}

#[test]
fn what_a_group_takes_that_goes_as_a_whole_is_gone_for_all_others() {
    let names: Vec<String> = (0..12).map(|index| format!("n{index:02}")).collect();
    let nodes = names.iter().map(|name| node(name).of("whole", "w"));
    let world = nodes.chain([node("z").of("zeta", "z")]).fold(world(), |world, node| world.node(node));
    let world = world.group("whole", "w", "", 12).group("zeta", "z", "", 1).build();
    let whole = pool("whole").with(|pool| pool.group_scaling = GroupScaling::ZeroOrMax);
    let clocks: Vec<(&str, &str)> = names.iter().map(|name| ("whole", &**name)).collect();
    let mut history = unneeded_in(&[&clocks[..], &[("zeta", "z")]].concat());
    let decided = run(&world, &config([whole, pool("zeta")]), &mut history, NOW);
    assert_eq!(going(&decided), names, "ten may leave at once, and a whole group goes beyond that");
    assert_eq!(reason(&decided, "z"), Reason::BudgetExhausted);
}

#[test]
fn nodes_of_a_plain_pool_go_together_when_one_order_of_their_pods_fits() {
    // Were the small pods first, they would leave two holes of one core, and the one of two cores had no place.
    let mut pods = vec![of("two", "2", "x"), stuck("full-1", "14", "s1"), stuck("full-2", "13", "s2")];
    pods.extend((0..3).map(|index| of(&format!("one-{index}"), "1", "y")));
    let nodes = ["x", "y", "s1", "s2"].map(|name| member(name).cpu("16").memory("64Gi"));
    let world = cluster(nodes, pods).build();
    let decided = run(&world, &eager(settings()), &mut unneeded(&["x", "y"]), NOW);
    assert_eq!(going(&decided), ["x", "y"]);
}

#[test]
fn pods_of_one_node_need_room_in_any_order_only_where_nodes_get_full() {
    let pods = [
        of("a-two", "2", "n"),
        of("b-one", "1", "n"),
        stuck("full-1", "14", "s1"),
        stuck("full-2", "15", "s2"),
    ];
    let nodes = ["n", "s1", "s2"].map(|name| member(name).cpu("16").memory("64Gi"));
    let world = cluster(nodes, pods).build();
    let decided = run(&world, &settings(), &mut unneeded(&["n"]), NOW);
    assert_eq!(going(&decided), ["n"]);
    let mut history = unneeded(&["n"]);
    let decided = run(&world, &tight(), &mut history, NOW);
    assert_eq!((going(&decided), reason(&decided, "n")), (vec![], Reason::NoPlaceToMovePods));
    assert!(history.pools["a"].unneeded.is_empty(), "it is needed, so no clock runs");
    assert_eq!(decided.replaceable.len(), 1, "nodes that cost less may take its pods");
}

#[test]
fn pods_that_would_move_to_a_node_keep_it_when_they_could_not_move_on() {
    // The pod of k fits only on m, and that of m on the busy node.
    let pods = [of("p", "2", "k"), of("q", "1500m", "m"), stuck("load", "2500m", "busy")];
    let world = cluster(["k", "m", "busy"].map(member), pods).build();
    let decided = run(&world, &eager(settings()), &mut unneeded(&["k", "m"]), NOW);
    assert_eq!(going(&decided), ["k"]);
    assert_eq!(reason(&decided, "m"), Reason::NoPlaceToMovePods);
}

#[test]
fn room_on_a_node_that_is_not_ready_is_none() {
    let full: Vec<String> = (0..9).map(|index| format!("full-{index}")).collect();
    let nodes = |there: NodeBuilder| full.iter().map(|name| member(name)).chain([member("n"), there]);
    let pods = || {
        let load = full.iter().map(|node| stuck(&format!("on-{node}"), "4", node));
        load.chain([of("p", "1", "n"), stuck("load", "2500m", "there")])
    };
    let decided = |there| {
        let world = cluster(nodes(there), pods()).build();
        reason(&run(&world, &settings(), &mut unneeded(&["n"]), NOW), "n")
    };
    assert_eq!(decided(member("there")), Reason::Underutilized);
    assert_eq!(decided(member("there").unready_for(60)), Reason::NoPlaceToMovePods);
}

#[test]
fn room_that_one_node_left_in_the_end_is_there_for_the_next() {
    // The pods of x fit on both nodes that stay, and go to the emptier one: the room on the other one is for that of y.
    let mut pods = vec![of("y-pod", "1", "y"), stuck("full-1", "3", "s1"), stuck("full-2", "1500m", "s2")];
    pods.extend((0..2).map(|index| of(&format!("x-{index}"), "1", "x")));
    let nodes = [member("x"), member("y").cpu("1"), member("s1"), member("s2")];
    let mut history = unneeded(&["x", "y"]);
    let memory = history.pools.get_mut("a").expect("there");
    memory.unneeded.insert("x".into(), UnixTime(NOW.0 - 7200));
    let decided = run(&cluster(nodes, pods).build(), &tight(), &mut history, NOW);
    assert_eq!(going(&decided), ["x", "y"]);
}

#[test]
fn each_well_used_node_whose_pods_have_room_goes_though_there_are_many_others() {
    let names = |kind: &str, count: usize| (0..count).map(|index| format!("{kind}-{index:02}")).collect();
    let (used, roomy): (Vec<String>, Vec<String>) = (names("used", 12), names("roomy", 60));
    let pods = used.iter().map(|node| of(&format!("on-{node}"), "3", node));
    let load = roomy.iter().map(|node| stuck(&format!("on-{node}"), "12500m", node));
    let nodes = used.iter().map(|name| member(name)).chain(roomy.iter().map(|name| member(name).cpu("16")));
    let world = cluster(nodes, pods.chain(load)).build();
    let mut config = tight();
    (config.cluster.max_removals, config.cluster.max_drains) = (100, 100);
    let clocks: Vec<&str> = used.iter().map(|name| &**name).collect();
    assert_eq!(going(&run(&world, &config, &mut unneeded(&clocks), NOW)), used);
}

#[test]
fn well_used_node_that_a_long_search_did_not_reach_keeps_its_clock() {
    // Each node has a pod that holds a port, and room for another one: each such pod is tried on all nodes. Their number is not a
    // divisor of the bound on work, which is passed and never met.
    let names: Vec<String> = (0..1603).map(|index| format!("n{index:04}")).collect();
    let pods = names.iter().flat_map(|node| {
        [of(&format!("port-of-{node}"), "500m", node).host_port(80), of(&format!("on-{node}"), "2500m", node)]
    });
    let world = cluster(names.iter().map(|name| member(name)), pods).build();
    let clocks: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut history = unneeded(&clocks);
    let decided = run(&world, &tight(), &mut history, NOW);
    assert!(going(&decided).is_empty());
    let kept = &history.pools["a"].unneeded;
    assert!(!kept.contains_key("n0000") && kept.contains_key("n1602"), "{} clocks", kept.len());
}

#[test]
fn underused_node_goes_before_one_that_is_well_used() {
    let pods = [of("p", "2500m", "a-used"), of("q", "1", "b-idle"), stuck("load", "12", "stays")];
    let nodes = [member("a-used"), member("b-idle"), member("stays").cpu("16")];
    let mut config = tight();
    config.cluster.max_drains = 1;
    let decided = run(&cluster(nodes, pods).build(), &config, &mut unneeded(&["a-used", "b-idle"]), NOW);
    assert_eq!(going(&decided), ["b-idle"]);
}

#[test]
fn well_used_node_is_let_alone_while_it_or_its_pods_are_young() {
    let decided = |cpu: &str| {
        let pods = [of("young", cpu, "n"), stuck("load", "10", "stays")];
        let world = cluster([member("n"), member("stays").cpu("16")], pods).build();
        let config = with_pool(|pool| pool.scale_down.policy = Policy::WhenCheaper(Consolidation::default()));
        let decided = run(&world, &config, &mut unneeded(&["n"]), NOW);
        (going(&decided), reason(&decided, "n"))
    };
    assert_eq!(decided("2500m"), (vec![], Reason::RecentlyDisrupted));
    assert_eq!(decided("1"), (vec!["n".into()], Reason::Underutilized));
}

#[test]
fn well_used_node_stays_for_that_whatever_else_keeps_it() {
    let stays = |pod: PodBuilder| {
        let decided = run(&cluster([member("n")], [pod]).build(), &tight(), &mut unneeded(&["n"]), NOW);
        reason(&decided, "n")
    };
    assert_eq!(stays(stuck("p", "3", "n")), Reason::NotUnderutilized);
    assert_eq!(stays(stuck("p", "1", "n")), Reason::NotReplicated);
    assert_eq!(stays(of("p", "3", "n")), Reason::NotUnderutilized);
    assert_eq!(stays(of("p", "1", "n")), Reason::NoPlaceToMovePods);
}

#[test]
fn clock_ends_when_a_pod_keeps_the_node() {
    let world = cluster([member("n")], [stuck("p", "100m", "n")]).build();
    let mut history = unneeded(&["n"]);
    let decided = run(&world, &settings(), &mut history, NOW);
    assert_eq!(reason(&decided, "n"), Reason::NotReplicated);
    assert!(history.pools["a"].unneeded.is_empty());
}

#[test]
fn pods_that_any_other_pod_may_push_out_keep_no_node() {
    // In a whole plan, which takes such pods off their nodes before it places others.
    let world =
        |pod: PodBuilder| world().node(member("n")).pod(pod.on("n")).group("a", "a-1", "z1", 1).build();
    let batch = world(pod("batch").cpu("3").priority(-100));
    let found = plan(&batch, &unneeded(&["n"]), &settings(), NOW);
    assert_eq!(found.reasons.nodes.iter().next().expect("a verdict").reason, Reason::Underutilized);
    // A cutoff above zero makes ordinary pods such pods.
    let world = world(pod("ordinary").cpu("3"));
    let mut config = settings();
    assert_eq!(reason(&run(&world, &config, &mut unneeded(&["n"]), NOW), "n"), Reason::NotUnderutilized);
    config.cluster.expendable_pods_priority_cutoff = 1;
    assert_eq!(going(&run(&world, &config, &mut unneeded(&["n"]), NOW)), ["n"]);
    assert_eq!(
        plan(&world, &unneeded(&["n"]), &config, NOW).reasons.nodes.iter().next().expect("a verdict").reason,
        Reason::Underutilized
    );
}

#[test]
fn node_whose_removal_has_begun_is_not_removed_once_more() {
    // The mark does not show yet, and who asks for a node waits for no clock.
    let world = cluster([member("n").annotation(REMOVE_ANNOTATION, "requested")], []).build();
    let mut history = History::default();
    assert_eq!(going(&run(&world, &settings(), &mut history, NOW)), ["n"]);
    let again = run(&world, &settings(), &mut history, NOW.plus(Seconds(1)));
    assert_eq!(reason(&again, "n"), Reason::RemovalRequested);
    assert_eq!(history.pools["a"].intents.len(), 1);
}

#[test]
fn pools_in_preview_take_nothing_from_those_that_are_applied() {
    let world = world().node(node("n").of("a", "g")).node(node("m").of("b", "g"));
    let world = world.group("a", "g", "", 1).group("b", "g", "", 1).build();
    let mut config = config([pool("a").mode(Mode::Preview), pool("b")]);
    config.cluster.max_removals = 1;
    let decided = run(&world, &config, &mut unneeded_in(&[("a", "n"), ("b", "m")]), NOW);
    assert_eq!((going(&decided), decided.preview.len()), (vec!["m".to_owned()], 0));
}

#[test]
fn busy_node_of_a_pool_that_is_not_judged_says_why_and_keeps_its_clock() {
    let world = cluster([member("n")], [of("p", "3", "n")]).build();
    let suspended = with_pool(|pool| pool.mode = Mode::Suspend);
    assert_eq!(reason(&run(&world, &suspended, &mut unneeded(&["n"]), NOW), "n"), Reason::Suspended);
    let mut history = unneeded(&["n"]);
    let late = run(&world, &settings(), &mut history, NOW.plus(Seconds(301)));
    assert_eq!(reason(&late, "n"), Reason::ProviderUnknown);
    assert!(history.pools["a"].unneeded.contains_key("n"));
}

/// The decision on a world of one pool a with this quarantine, and the part that is noted in the end.
fn guarded(world: &World, quarantine: &Quarantine) -> (ScaleDown, Part) {
    let config = settings();
    let part = RefCell::new(Part::Whole);
    let guard = Some((quarantine, &part));
    let decided = on_scene(world, &config, NOW, |scene| {
        let scene = Scene { guard, ..*scene };
        decide(&scene, &mut Snapshot::new(world), &mut unneeded(&["n", "m"]), Waiting::default())
    });
    (decided, part.into_inner())
}

#[test]
fn pool_that_is_set_aside_loses_no_node() {
    let world = cluster([member("n"), member("m")], [of("p", "3", "m")]).build();
    let (decided, part) = guarded(&world, &Quarantine::default());
    assert_eq!(going(&decided), ["n"]);
    assert_eq!(part, Part::Whole, "a panic after that is no fault of the last pool");
    let quarantine = Quarantine { pools: ["a".into()].into(), ..Quarantine::default() };
    let (decided, _) = guarded(&world, &quarantine);
    assert!(decided.steps.is_empty());
    assert_eq!((reason(&decided, "n"), reason(&decided, "m")), (Reason::Internal, Reason::Internal));
}

#[test]
fn node_that_another_autoscaler_took_is_reported_by_the_pool_of_its_label_and_no_other() {
    let taken = |name: &str| node(name).label("karpenter.sh/nodepool", "default");
    let world = world().node(taken("labelled").label(POOL_LABEL, "b")).node(taken("stranger")).build();
    let mut history = History::default();
    run(&world, &config([pool("a"), pool("b")]), &mut history, NOW);
    let reported = |pool: &str| -> Vec<String> {
        let blocked = history.pools.get(pool).map_or(&[][..], |memory| &memory.blocked);
        blocked.iter().flat_map(|row| row.examples.iter().map(ToString::to_string)).collect()
    };
    assert_eq!((reported("a"), reported("b")), (vec![], vec!["labelled".to_owned()]));
}

#[test]
fn pods_of_a_node_are_moved_highest_priority_first() {
    let goes = |large: i32, small: i32| {
        let pods = [
            of("small", "700m", "n").priority(small),
            of("x-large", "1200m", "n").priority(large),
            // Room for the large one on m1 alone, and for the small one on both.
            stuck("s1", "2800m", "m1"),
            stuck("s2", "3200m", "m2"),
        ];
        let world = cluster([member("n"), member("m1"), member("m2")], pods).build();
        going(&run(&world, &settings(), &mut unneeded(&["n"]), NOW)) == ["n"]
    };
    assert!(goes(10, 0));
    assert!(!goes(0, 10), "the small one takes the only room of the large one");
}
