//! Rules of scale-down, one a test: which nodes go, and the one reason why each other stays.

use std::collections::BTreeMap;

use headroom_core::config::{Budget, Ceiling, Config, Mode, ScaleUp};
use headroom_core::history::{
    Action, DecisionOutcome, History, Increase, IncreasePhase, Intent, PoolHistory, RemovalPhase,
};
use headroom_core::nodes::removal::{absorb_one, advance};
use headroom_core::nodes::scale_down::standby::Waiting;
use headroom_core::nodes::scale_down::unregistered::remove_never_registered;
use headroom_core::nodes::scale_down::{ScaleDown, decide};
use headroom_core::nodes::state::backoff;
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::scheduling::{PodRef, Snapshot};
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, WorldBuilder, budget, config, controller, node, pod, pool, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::window::Window;
use headroom_core::world::node::{DELETION_TAINT, INTENT_ANNOTATION, POOL_LABEL};
use headroom_core::world::pod::SafeToEvict;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{FailureClass, GroupState, Instance, InstanceState};
use headroom_core::world::view::{Freshness, View};
use headroom_core::world::workload::ControllerKind;

use crate::scene::on_scene;

/// A replica of a ReplicaSet that exists in every [`cluster`].
pub(crate) fn replica(name: &str) -> PodBuilder {
    pod(name).cpu("500m").memory("1Gi").label("app", "web").owner("ReplicaSet", "web")
}

pub(crate) fn member(name: &str) -> NodeBuilder {
    node(name).of("a", "a-1").zone("z1")
}

/// These nodes and pods, in the group a-1 of pool a.
pub(crate) fn cluster(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
) -> WorldBuilder {
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", 50, pod("x")));
    let mut count = 0;
    for node in nodes {
        builder = builder.node(node);
        count += 1;
    }
    for pod in pods {
        builder = builder.pod(pod);
    }
    builder.group("a", "a-1", "z1", count)
}

/// Pool a, with nodes unneeded for 10 min and no cooldown after growth.
pub(crate) fn settings() -> Config {
    config([pool("a").with(|pool| pool.scale_down.delay_after_add = Seconds(0))])
}

pub(crate) fn with_pool(change: impl FnOnce(&mut headroom_core::config::Pool)) -> Config {
    let mut config = settings();
    change(&mut config.pools[0]);
    config
}

/// Memory in which these nodes have been unneeded for an hour.
pub(crate) fn unneeded(nodes: &[&str]) -> History {
    let since = UnixTime(NOW.0 - 3600);
    let unneeded = nodes.iter().map(|name| ((*name).into(), since)).collect();
    let memory = PoolHistory { unneeded, ..PoolHistory::default() };
    History { pools: BTreeMap::from([("a".into(), memory)]) }
}

pub(crate) fn run<'w>(
    view: impl Into<View<'w>>,
    config: &Config,
    history: &mut History,
    now: UnixTime,
) -> ScaleDown {
    let view = view.into();
    run_on(&mut Snapshot::new(view.world), view, config, history, now)
}

fn run_on(
    snapshot: &mut Snapshot<'_>,
    view: View<'_>,
    config: &Config,
    history: &mut History,
    now: UnixTime,
) -> ScaleDown {
    on_scene(view, config, now, |scene| {
        let advanced = advance(history, scene);
        let mut decided = decide(scene, snapshot, history, Waiting::default());
        decided.steps.splice(0..0, advanced.steps);
        decided
    })
}

/// Each node's reason and object.
pub(crate) fn reasons(decided: &ScaleDown) -> Vec<(String, Reason, Option<String>)> {
    let line = |verdict: headroom_core::verdicts::NodeVerdict<'_>| {
        (verdict.node.to_string(), verdict.reason, verdict.object.map(str::to_owned))
    };
    decided.verdicts.iter().map(line).collect()
}

/// The verdict on node `n`, all of whose clocks have run out.
fn verdict(world: WorldBuilder, config: &Config) -> (Reason, Option<String>) {
    verdict_on(&world.build(), config, &mut unneeded(&["n"]))
}

fn verdict_on<'w>(
    view: impl Into<View<'w>>,
    config: &Config,
    history: &mut History,
) -> (Reason, Option<String>) {
    let decided = run(view, config, history, NOW);
    let found = reasons(&decided).into_iter().find(|(node, _, _)| node == "n");
    let (_, reason, object) = found.expect("a verdict on node n");
    (reason, object)
}

/// The nodes that are marked by the first steps of new removals.
pub(crate) fn marked(decided: &ScaleDown) -> Vec<Vec<String>> {
    let nodes = |step: &Step| match step {
        Step::Mark { nodes, .. } => Some(nodes.iter().map(ToString::to_string).collect()),
        _ => None,
    };
    decided.steps.iter().filter_map(nodes).collect()
}

/// A busy node that has room for a few replicas.
fn busy() -> (NodeBuilder, PodBuilder) {
    (member("busy"), replica("load").cpu("2500m").on("busy"))
}

/// Node n with these pods, beside a busy node with room.
fn beside_busy(n: NodeBuilder, pods: impl IntoIterator<Item = PodBuilder>) -> WorldBuilder {
    let (node, load) = busy();
    cluster([n, node], pods.into_iter().chain([load]))
}

#[test]
fn unneeded_node_with_pods_that_fit_elsewhere_goes() {
    let found = verdict(beside_busy(member("n"), [replica("p").on("n")]), &settings());
    assert_eq!(found, (Reason::Underutilized, None));
}

#[test]
fn clock_starts_when_a_node_is_first_removable_and_ends_strictly_later() {
    let world = beside_busy(member("n"), []).build();
    let mut history = History::default();
    let first = run(&world, &settings(), &mut history, NOW);
    assert_eq!(reasons(&first)[1].1, Reason::NotUnneededLongEnough);
    assert_eq!(history.pools["a"].unneeded["n"], NOW);
    assert_eq!(first.wake_at, Some(UnixTime(NOW.0 + 601)));
    let at_limit = run(&world, &settings(), &mut history, UnixTime(NOW.0 + 600 - 300));
    assert!(at_limit.steps.is_empty());
}

#[test]
fn clock_is_lost_when_the_node_is_needed_and_kept_while_pods_are_planned_for_it() {
    let needed = beside_busy(member("n"), [replica("p").cpu("3").on("n")]).build();
    let mut history = unneeded(&["n"]);
    run(&needed, &settings(), &mut history, NOW);
    assert!(history.pools["a"].unneeded.is_empty());

    let planned = beside_busy(member("n"), [replica("pending")]).build();
    let mut history = unneeded(&["n"]);
    let mut snapshot = Snapshot::new(&planned);
    let (id, _) = planned.unbound().next().expect("a pending pod");
    let n = snapshot.named("n").expect("delivered");
    snapshot.place(PodRef::Real(id), n);
    let decided = run_on(&mut snapshot, (&planned).into(), &settings(), &mut history, NOW);
    assert_eq!(reasons(&decided)[1].1, Reason::PlannedFor);
    assert!(history.pools["a"].unneeded.contains_key("n"));
}

#[test]
fn budget_without_room_holds_the_node_and_not_its_clock() {
    let none = |allowed| {
        beside_busy(member("n"), [replica("p").on("n")]).budget(budget("web", "app", "web", allowed))
    };
    let mut history = History::default();
    let held = run(&none(0).build(), &settings(), &mut history, UnixTime(NOW.0 - 601));
    assert_eq!(reasons(&held)[1].1, Reason::NotEnoughPdb);
    let free = run(&none(1).build(), &settings(), &mut history, NOW);
    assert_eq!(marked(&free), [["n"]], "it has been unneeded all along");
}

#[test]
fn least_cpu_and_memory_of_the_cluster_keep_nodes() {
    let goes = |cpu: Option<i64>, memory: Option<i64>| {
        let mut config = settings();
        (config.cluster.min_cpu_milli, config.cluster.min_memory_bytes) = (cpu, memory);
        verdict(beside_busy(member("n"), []), &config).0
    };
    assert_eq!(goes(Some(4_000), Some(16 << 30)), Reason::Empty);
    assert_eq!(goes(Some(4_001), None), Reason::ClusterMinimumReached);
    assert_eq!(goes(None, Some((16 << 30) + 1)), Reason::ClusterMinimumReached);
}

#[test]
fn node_above_the_threshold_stays_and_exactly_at_it_goes() {
    let config = with_pool(|pool| pool.scale_down.utilization_threshold_percent = 25);
    let at = beside_busy(member("n"), [replica("p").on("n"), replica("q").on("n")]);
    assert_eq!(verdict(at, &config).0, Reason::Underutilized);
    let above = beside_busy(member("n"), [replica("p").cpu("1001m").on("n")]);
    assert_eq!(verdict(above, &config).0, Reason::NotUnderutilized);
}

#[test]
fn node_with_gpus_is_measured_by_them_alone_against_their_own_threshold() {
    let gpu = "nvidia.com/gpu";
    let n = || member("n").with(|node| node.allocatable.set_extended(gpu, 4));
    let busy_gpu = || beside_busy(n(), [replica("p").cpu("100m").extended(gpu, 2).on("n")]);
    let percent = |percent| with_pool(|pool| pool.scale_down.gpu_utilization_threshold_percent = percent);
    assert_eq!(verdict(busy_gpu(), &percent(49)).0, Reason::NotUnderutilized);
    // Under its threshold; the other node has no GPUs for the pod.
    assert_eq!(verdict(busy_gpu(), &percent(50)).0, Reason::NoPlaceToMovePods);
    let cpu_only = beside_busy(n(), [replica("p").cpu("3500m").on("n")]);
    assert_ne!(verdict(cpu_only, &percent(0)).0, Reason::NotUnderutilized);
}

#[test]
fn pod_without_another_place_keeps_its_node_and_is_named() {
    let world = cluster([member("n")], [replica("p").on("n")]);
    let found = verdict(world, &settings());
    assert_eq!(found, (Reason::NoPlaceToMovePods, Some("pod/default/p".into())));
}

#[test]
fn each_drain_rule_blocks_with_its_pod() {
    let cases = [
        (pod("p").cpu("100m").on("n"), Reason::NotReplicated),
        (replica("p").owner("ReplicaSet", "gone").on("n"), Reason::ControllerNotFound),
        (
            replica("p").on("n").with_class(|class| class.local_volumes = vec!["v".into()]),
            Reason::LocalStorageRequested,
        ),
        (
            replica("p").on("n").with_class(|class| class.safe_to_evict = SafeToEvict::Never),
            Reason::NotSafeToEvictAnnotation,
        ),
        (
            replica("p").on("n").with_class(|class| class.safe_to_evict = SafeToEvict::OnCompletion),
            Reason::BlockedByOnCompletionPod,
        ),
        (replica("p").on("n").with_class(|class| class.unreadable = true), Reason::UnreadablePod),
    ];
    for (pod, reason) in cases {
        let found = verdict(beside_busy(member("n"), [pod]), &settings());
        assert_eq!(found, (reason, Some("pod/default/p".into())));
    }

    let system = replica("p").namespace("kube-system").on("n").with(|pod| pod.created_at = NOW);
    let owner = controller(ControllerKind::ReplicaSet, "web", 5, pod("x").namespace("kube-system"));
    let found = verdict(beside_busy(member("n"), [system]).controller(owner), &settings());
    assert_eq!(found, (Reason::UnmovableKubeSystemPod, Some("pod/kube-system/p".into())));

    let many = with_pool(|pool| pool.scale_down.drain.min_replicas = 1_000);
    let found = verdict(beside_busy(member("n"), [replica("p").on("n")]), &many);
    assert_eq!(found, (Reason::MinReplicasReached, Some("pod/default/p".into())));
}

#[test]
fn exhausted_budget_is_named_and_two_candidates_share_one_disruption() {
    let none = beside_busy(member("n"), [replica("p").on("n")]).budget(budget("web", "app", "web", 0));
    assert_eq!(verdict(none, &settings()), (Reason::NotEnoughPdb, Some("pdb/default/web".into())));

    let mut config = settings();
    config.cluster.max_drains = 10;
    let world = cluster(
        [member("n"), member("m"), member("busy")],
        [replica("p").on("n"), replica("q").on("m"), replica("load").cpu("2500m").on("busy")],
    );
    let world = world.budget(budget("web", "app", "web", 1)).build();
    let decided = run(&world, &config, &mut unneeded(&["m", "n"]), NOW);
    assert_eq!(marked(&decided), [["m"]]);
    assert_eq!(reasons(&decided)[2].1, Reason::NotEnoughPdb);
}

#[test]
fn budget_that_guards_an_expendable_pod_keeps_no_node() {
    let guarded = |priority: i32, budgets: &[&str]| {
        let world = beside_busy(member("n"), [replica("p").priority(priority).on("n")]);
        let add = |world: WorldBuilder, name: &&str| world.budget(budget(name, "app", "web", 0));
        verdict(budgets.iter().fold(world, add), &settings()).0
    };
    assert_eq!(guarded(-11, &["web"]), Reason::Underutilized);
    assert_eq!(guarded(-11, &["web", "more"]), Reason::Underutilized);
    assert_eq!(guarded(-10, &["web"]), Reason::NotEnoughPdb);
}

/// The node of 8 cores is first by its name; kept by the least cores, it leaves the place above the minimum to the next.
#[test]
fn node_that_the_least_cores_keep_takes_no_room_above_the_minimum() {
    let mut config = with_pool(|pool| pool.min_nodes = 1);
    config.cluster.min_cpu_milli = Some(8_000);
    let world = cluster([member("large").cpu("8"), member("small").cpu("4")], []).build();
    let decided = run(&world, &config, &mut unneeded(&["large", "small"]), NOW);
    assert_eq!(marked(&decided), [["small"]]);
    assert_eq!(reasons(&decided)[0].1, Reason::ClusterMinimumReached);
}

#[test]
fn places_taken_by_one_candidate_are_gone_for_the_next() {
    let mut config = settings();
    config.cluster.max_drains = 10;
    let world = cluster(
        [member("n"), member("m"), member("busy")],
        [
            replica("p").cpu("1500m").on("n"),
            replica("q").cpu("1500m").on("m"),
            replica("load").cpu("2500m").on("busy"),
        ],
    );
    let decided = run(&world.build(), &config, &mut unneeded(&["m", "n"]), NOW);
    assert_eq!(marked(&decided), [["m"]]);
    assert_eq!(reasons(&decided)[2].1, Reason::NoPlaceToMovePods);
}

#[test]
fn empty_nodes_of_a_group_go_together_within_the_clusters_limit() {
    let names: Vec<String> = (0..15).map(|index| format!("n{index:02}")).collect();
    let world = cluster(names.iter().map(|name| member(name)), []).build();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut history = unneeded(&all);
    let decided = run(&world, &settings(), &mut history, NOW);
    assert_eq!(marked(&decided).iter().map(Vec::len).collect::<Vec<_>>(), [10]);
    assert_eq!(reasons(&decided)[10].1, Reason::BudgetExhausted);
    assert_eq!(history.pools["a"].intents.len(), 1);
    assert_eq!(history.pools["a"].decisions[0].to, 5);
}

#[test]
fn one_node_is_drained_at_a_time_by_default() {
    let world = cluster(
        [member("n"), member("m"), member("busy")],
        [replica("p").on("n"), replica("q").on("m"), replica("load").cpu("2500m").on("busy")],
    );
    let decided = run(&world.build(), &settings(), &mut unneeded(&["m", "n"]), NOW);
    assert_eq!(marked(&decided), [["m"]]);
    let held = ("n".into(), Reason::BudgetExhausted, Some("budget/maxParallelDrains".into()));
    assert_eq!(reasons(&decided)[2], held);
}

fn pool_budget(name: &str, ceiling: Ceiling, window: Option<Window>) -> Budget {
    Budget { name: name.into(), ceiling, reasons: Vec::new(), window }
}

#[test]
fn percentage_of_ready_nodes_rounds_down_to_at_least_one() {
    let names: Vec<String> = (0..9).map(|index| format!("n{index}")).collect();
    let world = cluster(names.iter().map(|name| member(name)), []).build();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for (percent, expected) in [(10, 1), (25, 2), (0, 0)] {
        let config = with_pool(|pool| {
            pool.scale_down.budgets = vec![pool_budget("b", Ceiling::Percent(percent), None)]
        });
        let decided = run(&world, &config, &mut unneeded(&all), NOW);
        assert_eq!(marked(&decided).iter().map(Vec::len).sum::<usize>(), expected, "{percent}%");
    }
}

#[test]
fn budget_holds_only_in_its_window_and_for_its_reasons() {
    // NOW is 1970-01-12T13:46:40Z.
    let open = Window::new("Etc/UTC", "0 13 * * *", 3600).expect("valid");
    let shut = Window::new("Etc/UTC", "0 14 * * *", 3600).expect("valid");
    let check = |window: Window, reasons: Vec<Reason>| {
        let freeze = Budget { reasons, ..pool_budget("freeze", Ceiling::Nodes(0), Some(window)) };
        let config = with_pool(|pool| pool.scale_down.budgets = vec![freeze]);
        verdict(beside_busy(member("n"), []), &config)
    };
    let held = (Reason::BudgetExhausted, Some("budget/a/freeze".into()));
    assert_eq!(check(open.clone(), vec![]), held);
    assert_eq!(check(open.clone(), vec![Reason::Empty]), held);
    assert_eq!(check(open.clone(), vec![Reason::Underutilized]).0, Reason::Empty);
    assert_eq!(check(shut.clone(), vec![]).0, Reason::Empty);

    let of_cluster = |window: Window| {
        let mut config = settings();
        config.cluster.budgets = vec![pool_budget("night", Ceiling::Percent(0), Some(window))];
        verdict(beside_busy(member("n"), []), &config)
    };
    assert_eq!(of_cluster(open), (Reason::BudgetExhausted, Some("budget/night".into())));
    assert_eq!(of_cluster(shut).0, Reason::Empty);
}

#[test]
fn pool_at_its_minimum_keeps_its_nodes() {
    let config = with_pool(|pool| pool.min_nodes = 2);
    assert_eq!(verdict(beside_busy(member("n"), []), &config).0, Reason::MinNodesReached);
}

#[test]
fn removals_of_one_plan_together_leave_the_minimum() {
    let names = ["n0", "n1", "n2", "n3", "n4"];
    let world = cluster(names.map(member), []).build();
    let config = with_pool(|pool| pool.min_nodes = 3);
    let decided = run(&world, &config, &mut unneeded(&names), NOW);
    assert_eq!(marked(&decided), [["n0", "n1"]]);
    assert_eq!(reasons(&decided)[2].1, Reason::MinNodesReached);
}

/// Six empty nodes of one group over two zones: two in z1, four in z2, the names of the former first.
#[test]
fn of_a_group_over_zones_the_nodes_of_the_fullest_zone_go_first() {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
    let zone = |name: &str| if name < "n3" { "z1" } else { "z2" };
    let nodes = || names.into_iter().map(|name| node(name).of("a", "a-1").zone(zone(name)));
    let wide = |builder: WorldBuilder| builder.group_zones("a", "a-1", &["z1", "z2"]);
    let gone = |min, builder: WorldBuilder| {
        let config = with_pool(|pool| pool.min_nodes = min);
        marked(&run(&builder.build(), &config, &mut unneeded(&names), NOW)).concat()
    };
    assert_eq!(gone(4, wide(cluster(nodes(), []))), ["n3", "n4"]);
    // Even now: one of each.
    let mut even = gone(2, wide(cluster(nodes(), [])));
    even.sort();
    assert_eq!(even, ["n1", "n3", "n4", "n5"]);
    // A group whose zone is known has nothing to even out.
    assert_eq!(gone(4, cluster(nodes(), [])), ["n1", "n2"]);
}

#[test]
fn schedule_raises_the_minimum_while_its_window_is_open() {
    let window = Window::new("Etc/UTC", "0 13 * * *", 3600).expect("valid");
    let config = with_pool(|pool| {
        let schedule = headroom_core::config::Schedule {
            name: "office".into(),
            window,
            min_nodes: Some(2),
            max_nodes: None,
        };
        pool.schedules = vec![schedule];
    });
    assert_eq!(verdict(beside_busy(member("n"), []), &config).0, Reason::MinNodesReached);
}

#[test]
fn cooldowns_hold_the_pool_and_wake_it_when_they_end() {
    let world = beside_busy(member("n"), []).build();
    let mut history = unneeded(&["n"]);
    history.pools.get_mut("a").expect("there").last_failure = Some(UnixTime(NOW.0 - 179));
    let decided = run(&world, &settings(), &mut history, NOW);
    assert_eq!(reasons(&decided)[1].1, Reason::InCooldown);
    assert_eq!(decided.wake_at, Some(UnixTime(NOW.0 + 1)));
    let later = run(&world, &settings(), &mut history, UnixTime(NOW.0 + 1));
    assert_eq!(marked(&later), [["n"]]);
}

#[test]
fn purchase_that_the_cloud_has_not_answered_holds_removals_back() {
    let config = with_pool(|pool| pool.scale_down.delay_after_add = Seconds(600));
    let world = beside_busy(member("n"), []).build();
    let held = |reason| {
        let mut history = unneeded(&["n"]);
        let (group, phase) = ("a-1".into(), IncreasePhase::Journalled);
        let increase = Increase { group, from: 2, to: 3, phase, accepted_at: None };
        history.pools.get_mut("a").expect("there").intents.push(Intent {
            id: "1-1".into(),
            epoch: 1,
            action: Action::Increase(increase),
            reason,
            started_at: NOW,
            deadline: UnixTime(NOW.0 + 900),
        });
        verdict_on(&world, &config, &mut history).0
    };
    assert_eq!(held(Reason::PodsUnschedulable), Reason::InCooldown);
    assert_eq!(held(Reason::CheaperNodes), Reason::Empty, "nodes in place of others hold none of those back");
}

#[test]
fn failed_launch_makes_no_removal_wait() {
    let world = beside_busy(member("n"), []).build();
    let mut history = unneeded(&["n"]);
    let memory = history.pools.get_mut("a").expect("there");
    backoff::register(
        memory,
        BackoffKey::default(),
        FailureClass::OutOfCapacity,
        "",
        NOW,
        &ScaleUp::default(),
    );
    let decided = run(&world, &settings(), &mut history, NOW);
    assert_eq!(marked(&decided), [["n"]]);
}

#[test]
fn kill_switch_and_annotations_and_modes_keep_nodes() {
    let mut stopped = settings();
    stopped.cluster.voluntary_disruption_stopped = true;
    assert_eq!(verdict(beside_busy(member("n"), []), &stopped).0, Reason::DisruptionStopped);
    let annotated = member("n").annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true");
    assert_eq!(verdict(beside_busy(annotated, []), &settings()).0, Reason::ScaleDownDisabledAnnotation);
    let suspended = with_pool(|pool| pool.mode = Mode::Suspend);
    assert_eq!(verdict(beside_busy(member("n"), []), &suspended).0, Reason::Suspended);
    let off = with_pool(|pool| pool.scale_down.enabled = false);
    assert_eq!(verdict(beside_busy(member("n"), []), &off).0, Reason::ScaleDownDisabled);
}

#[test]
fn preview_pool_reports_what_it_would_remove_and_does_nothing() {
    let world = beside_busy(member("n"), []).build();
    let mut history = unneeded(&["n"]);
    let decided = run(&world, &with_pool(|pool| pool.mode = Mode::Preview), &mut history, NOW);
    assert!(decided.steps.is_empty() && history.pools["a"].intents.is_empty());
    assert_eq!((decided.preview[0].from, decided.preview[0].to), (2, 1));
    assert_eq!(reasons(&decided)[1].1, Reason::PreviewOnly);
}

#[test]
fn foreign_nodes_are_left_alone_and_said_so() {
    let karpenter = member("n").label("karpenter.sh/nodepool", "default");
    assert_eq!(verdict(beside_busy(karpenter, []), &settings()).0, Reason::ForeignNode);
    let cluster_autoscaler = member("n").taint(DELETION_TAINT, "1");
    let world = beside_busy(cluster_autoscaler, []).build();
    let decided = run(&world, &settings(), &mut unneeded(&["n"]), NOW);
    assert_eq!(reasons(&decided)[1].1, Reason::ForeignNode);
    assert!(decided.steps.is_empty(), "the taint of others is never taken off");
    let stranger = verdict(beside_busy(node("n"), []), &settings());
    assert_eq!(stranger.0, Reason::NotManaged);
}

#[test]
fn pool_whose_node_another_autoscaler_took_says_so_in_its_status() {
    let taken = member("n").label("karpenter.sh/nodepool", "default").label(POOL_LABEL, "a");
    let mut history = History::default();
    run(&beside_busy(taken, []).build(), &settings(), &mut history, NOW);
    let blocked: Vec<_> =
        history.pools["a"].blocked.iter().map(|row| (row.reason, &*row.examples[0])).collect();
    assert_eq!(blocked, [(Reason::ForeignNode, "n")]);
}

#[test]
fn requested_node_goes_without_clocks_or_thresholds_but_not_against_a_budget() {
    let asked = || member("n").annotation("headroom.dev/remove", "requested");
    let full = || replica("p").cpu("1500m").memory("12Gi").on("n");
    let world = beside_busy(asked(), [full()]).build();
    let mut history = History::default();
    history.pools.entry("a".into()).or_default().last_failure = Some(NOW);
    assert_eq!(verdict_on(&world, &settings(), &mut history).0, Reason::RemovalRequested);
    let guarded = beside_busy(asked(), [full()]).budget(budget("web", "app", "web", 0));
    assert_eq!(verdict(guarded, &settings()).0, Reason::NotEnoughPdb);
}

#[test]
fn requested_node_whose_drain_has_failed_waits_before_it_is_tried_again() {
    let asked = || member("n").annotation("headroom.dev/remove", "requested");
    let world = beside_busy(asked(), [replica("p").on("n")]).build();
    let mut history = History::default();
    run(&world, &settings(), &mut history, NOW);
    let memory = history.pools.get_mut("a").expect("there");
    memory.intents.clear();
    memory.decisions[0].outcome = DecisionOutcome::Failed;
    memory.last_failure = Some(NOW);
    let after = |seconds: i64| {
        let mut history = history.clone();
        let found = run(&world, &settings(), &mut history, UnixTime(NOW.0 + seconds));
        (found.steps.len(), history.pools["a"].blocked.first().map(|blocked| blocked.reason))
    };
    assert_eq!(after(179), (0, Some(Reason::InCooldown)));
    assert_eq!(after(180), (1, None));
}

#[test]
fn node_that_a_person_asked_for_reports_any_reason_why_it_stays() {
    let asked = member("n").annotation("headroom.dev/remove", "requested").age(60).unready_for(60);
    let others = (0..9).map(|index| member(&format!("other-{index}")));
    let world = cluster(others.chain([asked]), []).build();
    let mut history = History::default();
    assert_eq!(verdict_on(&world, &settings(), &mut history).0, Reason::NotStarted);
    let blocked = &history.pools["a"].blocked;
    assert_eq!((blocked[0].reason, &*blocked[0].examples[0]), (Reason::NotStarted, "n"));
}

#[test]
fn ready_node_with_a_startup_taint_is_still_starting() {
    let config = with_pool(|pool| pool.startup_taints = vec![headroom_core::testing::no_schedule("cni", "")]);
    let found = verdict(beside_busy(member("n").age(60).taint("cni", ""), []), &config);
    assert_eq!(found.0, Reason::NotStarted);
}

#[test]
fn pending_pods_that_the_whole_plan_puts_on_a_node_keep_it() {
    let world = beside_busy(member("n"), [replica("pending").cpu("3")]).build();
    let plan = headroom_core::plan(&world, &unneeded(&["n"]), &settings(), NOW);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.reasons.nodes.iter().nth(1).expect("a verdict").reason, Reason::PlannedFor);
}

#[test]
fn whole_plan_journals_the_removal_with_its_decision() {
    let world = beside_busy(member("n"), [replica("p").on("n")]).build();
    let plan = headroom_core::plan(&world, &unneeded(&["n"]), &settings(), NOW);
    assert!(matches!(&plan.steps[..], [Step::Mark { .. }]));
    let memory = &plan.next_history.pools["a"];
    let decision = &memory.decisions[0];
    assert_eq!((decision.from, decision.to, decision.pods_count), (2, 1, 1));
    assert_eq!((&decision.id, memory.last_scale_down), (&memory.intents[0].id, Some(NOW)));
    assert!(memory.unneeded.is_empty());
}

#[test]
fn unready_node_is_judged_by_its_state_and_not_by_its_requests() {
    let full = || replica("p").cpu("3900m").on("n");
    let fleet = |n: NodeBuilder, pods: Vec<PodBuilder>| {
        let others = (0..9).map(|index| member(&format!("other-{index}")));
        let load =
            (0..9).map(|index| replica(&format!("load-{index}")).cpu("3900m").on(&format!("other-{index}")));
        cluster(others.chain([n]), pods.into_iter().chain(load))
    };
    let dead = |unneeded_for: i64| {
        let mut history = unneeded(&["n"]);
        let memory = history.pools.get_mut("a").expect("its pool");
        memory.unneeded.insert("n".into(), UnixTime(NOW.0 - unneeded_for));
        let world = fleet(member("n").unready_for(5000), vec![full()]).build();
        verdict_on(&world, &settings(), &mut history).0
    };
    assert_eq!(dead(1201), Reason::Unready);
    assert_eq!(dead(1200), Reason::NotUnreadyLongEnough);
}

/// The view may be behind, or a permission missing: without a wait the same would be decided many times a second.
#[test]
fn removal_that_came_to_nothing_is_not_tried_again_at_once() {
    let config = settings();
    let asked = member("n").annotation(headroom_core::world::node::REMOVE_ANNOTATION, "requested");
    for (victim, opens_after_a_pause) in [(member("n").unready_for(5000), false), (asked, true)] {
        let others = (0..9).map(|index| member(&format!("other-{index}")));
        let world = cluster(others.chain([victim]), []).build();
        let open = |history: &History| {
            let first = history.pools["a"].removals().next();
            first.map(|(intent, _)| intent.id.clone())
        };
        let mut history = unneeded(&["n"]);
        run(&world, &config, &mut history, NOW);
        let intent = open(&history).expect("opened");
        let result = StepResult::MarkFailed { node: "n".into(), message: "n is gone".into() };
        let outcome = Outcome { pool: "a".into(), intent, result };
        absorb_one(history.pools.get_mut("a").expect("there"), &outcome, &config, NOW);
        let opens_after = |seconds: i64| {
            let mut history = history.clone();
            run(&world, &config, &mut history, NOW.plus(Seconds(seconds)));
            open(&history).is_some()
        };
        assert!(!opens_after(0));
        assert!(!opens_after(9));
        assert_eq!(opens_after(11), opens_after_a_pause);
    }
}

#[test]
fn healthy_nodes_stay_while_a_fifth_of_the_cluster_is_unready() {
    let found = |ill: u32| {
        let ill = (0..ill).map(|index| member(&format!("ill-{index}")).unready_for(1000));
        let well = (0..9).map(|index| member(&format!("well-{index}")));
        verdict(cluster(ill.chain(well).chain([member("n")]), []), &settings()).0
    };
    assert_eq!(found(4), Reason::ClusterUnhealthy);
    assert_eq!(found(3), Reason::Empty, "a few are no sign of trouble");
}

#[test]
fn stale_view_removes_nothing_and_keeps_clocks() {
    let world = beside_busy(member("n"), []).build();
    let stale = Freshness { stale: true, ..Freshness::default() };
    let mut history = unneeded(&["n"]);
    assert_eq!(verdict_on(View::new(&world, &stale), &settings(), &mut history).0, Reason::StaleView);
    assert!(history.pools["a"].unneeded.contains_key("n"));
}

#[test]
fn unknown_provider_removes_nothing_and_keeps_clocks() {
    let world = beside_busy(member("n"), []).build();
    let mut history = unneeded(&["n"]);
    let later = UnixTime(NOW.0 + 301);
    let decided = run(&world, &settings(), &mut history, later);
    assert_eq!(reasons(&decided)[1].1, Reason::ProviderUnknown);
    assert!(history.pools["a"].unneeded.contains_key("n"));
}

#[test]
fn idle_cluster_at_rest_changes_nothing_in_memory() {
    let world = beside_busy(member("n"), [pod("naked").cpu("100m").on("n")]).build();
    let mut history = History::default();
    run(&world, &settings(), &mut history, NOW);
    let before = history.clone();
    run(&world, &settings(), &mut history, UnixTime(NOW.0 + 200));
    assert_eq!(history, before);
    let blocked = &history.pools["a"].blocked;
    assert_eq!((blocked.len(), blocked[0].reason, blocked[0].since), (1, Reason::NotReplicated, NOW));
}

#[test]
fn instance_that_never_became_a_node_is_deleted_by_id() {
    let instance = |age: i64| Instance {
        state: InstanceState::Creating,
        node: None,
        created_at: Some(UnixTime(NOW.0 - age)),
    };
    let failed = Instance { state: InstanceState::Failed, ..instance(1) };
    let instances =
        [("i-old".into(), instance(901)), ("i-new".into(), instance(900)), ("i-failed".into(), failed)];
    let instances = instances.into_iter().collect();
    let state = GroupState { target: 3, min: 0, max: 10, instances, ..GroupState::default() };
    let world = world().group_state("a", "a-1", state).build();
    let config = settings();
    let mut history = History::default();
    let mut remove = || on_scene(&world, &config, NOW, |scene| remove_never_registered(scene, &mut history));
    let steps = remove();
    let ids = |steps: &[Step]| match steps {
        [Step::Delete { victims, .. }] => victims.iter().map(|victim| victim.id.to_string()).collect(),
        _ => Vec::new(),
    };
    assert_eq!(ids(&steps), ["i-failed", "i-old"]);
    assert!(remove().is_empty(), "one intent names an instance once");
}

#[test]
fn orphan_mark_comes_off_and_a_named_one_stays() {
    let orphan = member("n").taint(DELETION_TAINT, "").annotation(INTENT_ANNOTATION, "1-7");
    let world = beside_busy(orphan, []).build();
    let decided = run(&world, &settings(), &mut History::default(), NOW);
    let expected = Step::Unmark { pool: Some("a".into()), intent: None, node: "n".into() };
    assert_eq!(decided.steps, [expected]);
}

#[test]
fn removal_of_a_suspended_pool_is_undone_and_recorded() {
    let world = beside_busy(member("n"), [replica("p").on("n")]).build();
    let mut history = unneeded(&["n"]);
    run(&world, &settings(), &mut history, NOW);
    let suspended = with_pool(|pool| pool.mode = Mode::Suspend);
    let decided = run(&world, &suspended, &mut history, UnixTime(NOW.0 + 1));
    assert!(matches!(&decided.steps[..], [Step::Unmark { .. }]));
    let memory = &history.pools["a"];
    assert_eq!(memory.removals().next().expect("still open").1.phase, RemovalPhase::Undoing);
    assert_eq!(
        (memory.decisions[0].outcome, memory.decisions[0].reason),
        (DecisionOutcome::Cancelled, Reason::Suspended)
    );
}
