//! Gangs: nodes are bought for all pods that are scheduled together, or for none of them.

use std::sync::Arc;

use headroom_core::config::{Config, Mode};
use headroom_core::history::{History, Unbound};
use headroom_core::labels::ObjectKey;
use headroom_core::plan::{GangVerdict, Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::gang::{Gang, GangKind, GangRef};
use headroom_core::world::pod::Pod;
use headroom_core::world::record::WorldRecord;
use headroom_core::world::{Delta, Kind, World};
use headroom_core::{nodes, plan};

use crate::scale_up::{check, plan_fresh};

fn group(kind: GangKind, name: &str, min: u32) -> Delta {
    Delta::GangApplied(Box::new(Gang {
        kind,
        key: ObjectKey::new("default", name),
        created_at: UnixTime(NOW.0 - 600),
        minimums: [("".into(), min)].into(),
        done_count: 0,
        disrupted_at_once: false,
        topology_key: None,
    }))
}

fn pod_group(name: &str, min: u32) -> Delta {
    group(GangKind::PodGroup, name, min)
}

/// A pod of a gang that takes a node of four cores for itself.
fn member(name: &str, gang: &str) -> PodBuilder {
    of(GangKind::PodGroup, name, gang)
}

fn of(kind: GangKind, name: &str, gang: &str) -> PodBuilder {
    let gang = Arc::new(GangRef::new(kind, gang.into()));
    pod(name).cpu("3").memory("1Gi").with_class(|class| class.gang = Some(gang))
}

fn pools(max: u32) -> Config {
    config([pool("general").bounds(0, max)])
}

fn empty() -> WorldBuilder {
    world().group("general", "a", "", 0)
}

fn verdict<'p>(plan: &'p Plan, gang: &str) -> &'p GangVerdict {
    let found = plan.reasons.gangs.iter().find(|verdict| &*verdict.gang.name == gang);
    found.expect("a verdict on each gang")
}

fn bought(plan: &Plan) -> u32 {
    let nodes = plan.steps.iter().map(|step| match step {
        Step::Increase { from, to, .. } => to - from,
        _ => 0,
    });
    nodes.sum()
}

#[test]
fn nothing_is_bought_for_seven_of_eight() {
    let world = empty().delta(pod_group("train", 8)).pods(member("w", "train").times(8)).build();
    let plan = plan_fresh(&world, &pools(7));
    check(&plan, &[]);
    let verdict = verdict(&plan, "train");
    assert_eq!((verdict.reason, verdict.fit_count), (Some(Reason::GangDoesNotFit), 7));
    assert_eq!(
        verdict.describe(),
        "PodGroup default/train needs 8 pods at once: 0 run, and 7 of the 8 others fit"
    );
    assert_eq!((&*verdict.pools[0].pool, verdict.pools[0].reason), ("general", Reason::MaxNodesReached));
    assert_eq!(plan.reasons.pods[0].skipped, Some(Reason::GangDoesNotFit));
    assert_eq!(plan.next_history.pools["general"].refusals[0].pods_count, 8);
}

#[test]
fn one_plan_buys_for_all_of_a_gang_and_the_next_nothing_more() {
    let world = empty().delta(pod_group("train", 8)).pods(member("w", "train").times(8)).build();
    let first = plan_fresh(&world, &pools(8));
    check(&first, &[("general", "a", 0, 8)]);
    assert_eq!(verdict(&first, "train").reason, None);
    let again = plan(&world, &first.next_history, &pools(8), NOW);
    assert_eq!(again.next_history.pools["general"].intents.len(), 1);
    assert_eq!(verdict(&again, "train").reason, None);
}

#[test]
fn a_gang_is_served_over_pools_and_groups_or_not_at_all() {
    let pods = || {
        let mut pods = member("launcher", "train").times(1);
        pods.extend(member("w", "train").extended("nvidia.com/gpu", 1).times(4));
        pods
    };
    let world = empty()
        .group("gpu", "b", "z1", 0)
        .group("gpu", "c", "z2", 0)
        .delta(pod_group("train", 5))
        .pods(pods())
        .build();
    let pools = |gpus| {
        config([
            pool("general"),
            pool("gpu").extended("nvidia.com/gpu", 1).bounds(0, gpus).with(|pool| pool.priority = -1),
        ])
    };
    let whole = plan_fresh(&world, &pools(4));
    assert_eq!(bought(&whole), 5);
    assert_eq!(whole.next_history.pools.len(), 2);
    let short = plan_fresh(&world, &pools(3));
    check(&short, &[]);
    assert_eq!(verdict(&short, "train").fit_count, 4);
}

#[test]
fn pods_beyond_the_minimum_are_ordinary() {
    let world = empty().delta(pod_group("train", 4)).pods(member("w", "train").times(6)).build();
    check(&plan_fresh(&world, &pools(5)), &[("general", "a", 0, 5)]);
    check(&plan_fresh(&world, &pools(3)), &[]);
}

#[test]
fn a_running_gang_does_not_hold_later_pods_back() {
    let mut base = world();
    for at in 0..3 {
        base = base.node(node(&format!("n{at}")).of("general", "a"));
    }
    let running: Vec<Pod> =
        (0..3).map(|at| member(&format!("r{at}"), "train").on(&format!("n{at}")).build()).collect();
    let world = base
        .group("general", "a", "", 3)
        .delta(pod_group("train", 3))
        .pods(running)
        .pods(member("w", "train").times(4))
        .build();
    check(&plan_fresh(&world, &pools(5)), &[("general", "a", 3, 5)]);
}

#[test]
fn a_replaced_pod_of_a_running_gang_needs_only_its_own_room() {
    let mut base = world();
    for at in 0..3 {
        base = base.node(node(&format!("n{at}")).of("general", "a"));
    }
    let running: Vec<Pod> =
        (0..3).map(|at| member(&format!("r{at}"), "train").on(&format!("n{at}")).build()).collect();
    let world = base
        .group("general", "a", "", 3)
        .delta(pod_group("train", 4))
        .pods(running)
        .pod(member("new", "train"))
        .build();
    check(&plan_fresh(&world, &pools(9)), &[("general", "a", 3, 4)]);
}

#[test]
fn a_gang_waits_for_its_pods() {
    let world = empty().delta(pod_group("train", 8)).pods(member("w", "train").times(5)).build();
    let plan = plan_fresh(&world, &pools(100));
    check(&plan, &[]);
    let verdict = verdict(&plan, "train");
    assert_eq!(verdict.reason, Some(Reason::GangIncomplete));
    assert!(verdict.describe().contains("0 run, and 5 of the others wait"), "{}", verdict.describe());
}

#[test]
fn a_missing_object_is_named_and_an_unknown_kind_is_ignored() {
    let known = empty()
        .delta(Delta::ListStarted(Kind::Gang(GangKind::Coscheduling)))
        .delta(Delta::ListEnded(Kind::Gang(GangKind::Coscheduling)));
    let pods = || of(GangKind::Coscheduling, "w", "gone").times(2);
    let plan = plan_fresh(&known.clone().pods(pods()).build(), &pools(9));
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "gone").reason, Some(Reason::GangNotFound));
    let missing = known.delta(Delta::GangKindMissing(GangKind::Coscheduling)).pods(pods()).build();
    check(&plan_fresh(&missing, &pools(9)), &[("general", "a", 0, 2)]);
}

#[test]
fn a_group_that_a_workload_does_not_have_is_a_missing_one() {
    let mut gang = GangRef::new(GangKind::Workload, "train".into());
    gang.group = "workers".into();
    let named = |group: &str| {
        let workload = Gang {
            kind: GangKind::Workload,
            key: ObjectKey::new("default", "train"),
            created_at: NOW,
            minimums: [(group.into(), 2)].into(),
            done_count: 0,
            disrupted_at_once: false,
            topology_key: None,
        };
        let gang = Arc::new(gang.clone());
        let pods = pod("w").cpu("3").with_class(|class| class.gang = Some(gang)).times(2);
        plan_fresh(&empty().delta(Delta::GangApplied(Box::new(workload))).pods(pods).build(), &pools(9))
    };
    check(&named("workers"), &[("general", "a", 0, 2)]);
    assert_eq!(verdict(&named("others"), "train").reason, Some(Reason::GangNotFound));
}

#[test]
fn one_marked_pod_speaks_for_its_gang() {
    let mut pods =
        of(GangKind::Volcano, "w", "train").with_class(|class| class.scheduler = "volcano".into()).times(4);
    pods.iter_mut().for_each(|pod| pod.unschedulable = false);
    let base = || empty().delta(group(GangKind::Volcano, "train", 4));
    check(&plan_fresh(&base().pods(pods.clone()).build(), &pools(9)), &[]);
    pods[2].unschedulable = true;
    check(&plan_fresh(&base().pods(pods).build(), &pools(9)), &[("general", "a", 0, 4)]);
}

#[test]
fn the_older_of_two_gangs_gets_the_room_and_a_smaller_one_passes_a_larger() {
    let aged = |name: &str, min: u32, age: i64| {
        Delta::GangApplied(Box::new(Gang {
            kind: GangKind::PodGroup,
            key: ObjectKey::new("default", name),
            created_at: UnixTime(NOW.0 - age),
            minimums: [("".into(), min)].into(),
            done_count: 0,
            disrupted_at_once: false,
            topology_key: None,
        }))
    };
    let world = empty()
        .delta(aged("b-old", 4, 900))
        .delta(aged("a-young", 4, 100))
        .pods(member("o", "b-old").times(4))
        .pods(member("y", "a-young").times(4))
        .build();
    let plan = plan_fresh(&world, &pools(6));
    check(&plan, &[("general", "a", 0, 4)]);
    assert_eq!(verdict(&plan, "b-old").reason, None);
    assert_eq!(verdict(&plan, "a-young").reason, Some(Reason::GangDoesNotFit));

    let world = empty()
        .delta(aged("large", 9, 900))
        .delta(aged("small", 3, 100))
        .pods(member("l", "large").times(9))
        .pods(member("s", "small").times(3))
        .build();
    let plan = plan_fresh(&world, &pools(6));
    check(&plan, &[("general", "a", 0, 3)]);
    assert_eq!(verdict(&plan, "large").reason, Some(Reason::GangDoesNotFit));
}

#[test]
fn ordinary_pods_are_served_beside_a_gang_that_has_no_room() {
    let world = empty()
        .delta(pod_group("train", 8))
        .pods(member("w", "train").times(8))
        .pods(pod("web").cpu("3").times(2))
        .build();
    check(&plan_fresh(&world, &pools(7)), &[("general", "a", 0, 2)]);
}

#[test]
fn a_gang_that_holds_no_room_keeps_no_node() {
    let world = world()
        .node(node("n0").of("general", "a"))
        .group("general", "a", "", 1)
        .delta(pod_group("train", 3))
        .pods(member("w", "train").times(3))
        .build();
    let planned_for = |max: u32| {
        let plan = plan_fresh(&world, &pools(max));
        plan.reasons.nodes.iter().any(|node| node.reason == Reason::PlannedFor)
    };
    assert!(planned_for(3));
    assert!(!planned_for(2));
}

#[test]
fn a_preview_pool_reports_what_a_whole_gang_would_need() {
    let world = world()
        .group("shadow", "a", "", 0)
        .delta(pod_group("train", 4))
        .pods(member("w", "train").times(4))
        .build();
    let previewed = |max: u32| {
        let config = config([pool("shadow").mode(Mode::Preview).bounds(0, max)]);
        let plan = plan_fresh(&world, &config);
        plan.reasons.preview.iter().map(|action| (action.to, action.message.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(previewed(4), [(4, "would add 4 nodes for 4 pods".to_owned())]);
    assert!(previewed(3).is_empty());
}

#[test]
fn members_that_wait_for_the_last_node_are_not_refused_by_their_scheduler() {
    let ready = |gang: bool| {
        let later = UnixTime(NOW.0 + 1000);
        let builder = if gang { member("w", "train") } else { pod("w").cpu("3") };
        let world = world()
            .node(node("n0").of("general", "a"))
            .group("general", "a", "", 2)
            .delta(pod_group("train", 2))
            .pods(builder.times(2))
            .build();
        let plan = plan(&world, &History::default(), &pools(2), later);
        let rows = plan.next_history.pools.values().flat_map(|memory| memory.unbound.values());
        rows.filter(|row: &&Unbound| row.room_since.is_some()).count()
    };
    assert_eq!((ready(true), ready(false)), (0, 1));
    assert!(Seconds(0) < nodes::scale_up::unbound::SETTLE);
}

#[test]
fn a_record_keeps_gangs() {
    let world: World = empty().delta(pod_group("train", 8)).pods(member("w", "train").times(8)).build();
    let record = WorldRecord::of(&world);
    assert_eq!(record.world().expect("a world").canonical(), world.canonical());
}
