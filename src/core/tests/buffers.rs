//! Room that CapacityBuffers keep free: what is bought for it, what it holds, and the report of each buffer.

use std::collections::BTreeMap;

use headroom_core::config::{Config, Mode};
use headroom_core::history::{Action, Backoff, History};
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::buffers::{STANDBY_PODS_PER_NAMESPACE_MAX, status};
use headroom_core::plan;
use headroom_core::plan::{BufferVerdict, Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::buffer::{
    BufferSource, CapacityBuffer, DEFAULT_STRATEGY, OWN_STRATEGY, Quota, QuotaScope, Template,
};
use headroom_core::world::node::Readiness;
use headroom_core::world::provider::{BackoffKey, FailureClass};
use headroom_core::world::record::WorldRecord;
use headroom_core::world::workload::PrioritySource;
use headroom_core::world::{Delta, World};

use crate::scale_down::{cluster, member, replica, unneeded};
use crate::scale_up::{check, plan_fresh};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// Pool a as for removals, whose ReplicaSet's missing pods do not count as demand.
fn settings() -> Config {
    let mut config = crate::scale_down::settings();
    config.cluster.anticipation = false;
    config
}

/// A buffer of so many pods of template `web`.
fn buffer(name: &str, replicas: u32) -> CapacityBuffer {
    CapacityBuffer {
        key: key(name),
        uid: format!("uid-{name}").into(),
        generation: 1,
        created_at: UnixTime(NOW.0 - 3600),
        strategy: OWN_STRATEGY.into(),
        source: BufferSource::Template("web".into()),
        replicas: Some(replicas),
        ..CapacityBuffer::default()
    }
}

fn of_deployment(name: &str) -> BufferSource {
    BufferSource::Workload { group: "apps".into(), kind: "Deployment".into(), name: name.into() }
}

fn template(name: &str, pods: PodBuilder) -> Template {
    Template { key: key(name), generation: 3, class: pods.class(), priority_class: PrioritySource::Template }
}

fn with(world: WorldBuilder, pods: PodBuilder, buffers: impl IntoIterator<Item = CapacityBuffer>) -> World {
    let mut world = world.delta(Delta::PodTemplateApplied(Box::new(template("web", pods))));
    for buffer in buffers {
        world = world.delta(Delta::BufferApplied(Box::new(buffer)));
    }
    world.build()
}

/// A cluster without nodes, with buffers of pods of one core.
fn empty(buffers: impl IntoIterator<Item = CapacityBuffer>) -> World {
    with(world().group("general", "a", "", 0), pod("x").cpu("1").memory("1Gi"), buffers)
}

fn verdict<'p>(plan: &'p Plan, name: &str) -> &'p BufferVerdict {
    let found = plan.reasons.buffers.iter().find(|verdict| &*verdict.name == name);
    found.expect("a verdict on each buffer")
}

fn fault(plan: &Plan, name: &str) -> Reason {
    verdict(plan, name).fault.as_ref().map_or(Reason::Accepted, |fault| fault.reason)
}

#[test]
fn nodes_are_bought_for_the_room_of_a_buffer() {
    let plan = plan_fresh(&empty([buffer("b", 5)]), &config([pool("general")]));
    check(&plan, &[("general", "a", 0, 2)]);
    let decision = &plan.next_history.pools["general"].decisions[0];
    assert_eq!(decision.reason, Reason::StandbyCapacity);
    assert_eq!(&*decision.message, "+2 nodes for 5 standby pods, most of CapacityBuffer default/b");
    let verdict = verdict(&plan, "b");
    assert_eq!((verdict.wanted_count, verdict.ready_count, verdict.unplaced_count), (5, 0, 0));
    assert_eq!(verdict.on_new, BTreeMap::from([("general".into(), 5)]));
}

#[test]
fn the_next_plan_buys_nothing_more() {
    let world = empty([buffer("a", 3), buffer("b", 4), buffer("c", 2)]);
    let config = config([pool("general")]);
    let first = plan_fresh(&world, &config);
    check(&first, &[("general", "a", 0, 3)]);
    let second = plan(&world, &first.next_history, &config, NOW);
    assert_eq!(second.next_history.pools["general"].intents.len(), 1);
    assert_eq!(verdict(&second, "c").unplaced_count, 0);
}

#[test]
fn real_pods_come_first_and_are_served_as_without_buffers() {
    let pending = || pod("real").cpu("3").times(2);
    let config = config([pool("general").bounds(0, 2)]);
    let base = || world().group("general", "a", "", 0).pods(pending());
    let without = plan_fresh(&base().build(), &config);
    let standby = pod("x").cpu("2").priority(1000);
    let with_buffer = plan_fresh(&with(base(), standby, [buffer("b", 2)]), &config);
    check(&without, &[("general", "a", 0, 2)]);
    check(&with_buffer, &[("general", "a", 0, 2)]);
    assert_eq!(without.reasons.pods, with_buffer.reasons.pods);
    let verdict = verdict(&with_buffer, "b");
    assert_eq!(verdict.unplaced_count, 2);
    assert_eq!(verdict.pools[0].reason, Reason::MaxNodesReached);
}

#[test]
fn a_burst_takes_the_room_and_the_same_plan_fills_it_again() {
    let nodes = || world().node(node("n1").of("general", "a")).group("general", "a", "", 1);
    let config = config([pool("general")]);
    let standby = || pod("x").cpu("2");
    let quiet = plan_fresh(&with(nodes(), standby(), [buffer("b", 2)]), &config);
    check(&quiet, &[]);
    assert_eq!(verdict(&quiet, "b").ready_count, 2);
    let burst = nodes().pods(pod("burst").cpu("2").times(2));
    let plan = plan_fresh(&with(burst, standby(), [buffer("b", 2)]), &config);
    check(&plan, &[("general", "a", 1, 2)]);
    assert_eq!(plan.reasons.pods[0].on_existing_count, 2);
    assert_eq!(verdict(&plan, "b").ready_count, 0);
}

fn removed(plan: &Plan) -> Vec<String> {
    let nodes = plan.next_history.pools.values().flat_map(|memory| &memory.intents);
    nodes
        .filter_map(|intent| match &intent.action {
            Action::Remove(removal) => Some(removal.victims.iter().map(|victim| victim.node.to_string())),
            Action::Increase(_) => None,
        })
        .flatten()
        .collect()
}

#[test]
fn a_node_that_holds_the_room_of_a_buffer_stays_and_says_so() {
    let history = unneeded(&["n1"]);
    let world = with(cluster([member("n1")], []), replica("x"), [buffer("b", 1)]);
    let held = plan(&world, &history, &settings(), NOW);
    assert!(removed(&held).is_empty());
    let verdict = held.reasons.nodes.iter().next().expect("a verdict");
    assert_eq!(verdict.reason, Reason::HoldsBuffer);
    assert_eq!(verdict.object, Some("capacitybuffer/default/b"));
    let bare = plan(&cluster([member("n1")], []).build(), &history, &settings(), NOW);
    assert_eq!(removed(&bare), ["n1"]);
}

#[test]
fn a_node_goes_when_its_standby_pods_have_another_place() {
    let history = unneeded(&["n1"]);
    let busy = (0..5).map(|index| replica(&format!("busy-{index}")).on("n2"));
    let world = with(cluster([member("n1"), member("n2")], busy), replica("x"), [buffer("b", 1)]);
    let plan = plan(&world, &history, &settings(), NOW);
    assert_eq!(removed(&plan), ["n1"]);
}

#[test]
fn pods_that_move_do_not_take_the_room_of_a_buffer() {
    // Seven places of half a core are left beside the pod on n2: six of the buffer, and one for the pod that moves.
    let history = unneeded(&["n1"]);
    let pods = || [replica("one").on("n1")].into_iter().chain([replica("big").cpu("3").on("n2")]);
    let world = |standby| {
        let nodes = cluster([member("n1"), member("n2")], pods());
        with(nodes, replica("x"), [buffer("b", standby)])
    };
    assert_eq!(removed(&plan(&world(1), &history, &settings(), NOW)), ["n1"]);
    let full = plan(&world(2), &history, &settings(), NOW);
    assert!(removed(&full).is_empty(), "{:?}", full.reasons.nodes);
}

#[test]
fn pods_that_the_scheduler_would_put_into_the_room_of_a_buffer_keep_their_node() {
    // Two of half a core would fit beside the three of n2. The scheduler knows no buffer, and prefers n3, which is empty.
    let history = unneeded(&["n1"]);
    let pods = (0..2).map(|index| replica(&format!("one-{index}")).on("n1"));
    let pods = pods.chain((0..3).map(|index| replica(&format!("two-{index}")).on("n2")));
    let nodes = cluster([member("n1"), member("n2"), member("n3").cpu("8")], pods.collect::<Vec<_>>());
    let with_chunk =
        |cpu| plan(&with(nodes.clone(), replica("x").cpu(cpu), [buffer("b", 1)]), &history, &settings(), NOW);
    let kept = with_chunk("7500m");
    assert!(removed(&kept).is_empty(), "{:?}", kept.reasons.nodes);
    let verdict = kept.reasons.nodes.iter().next().expect("a verdict");
    assert_eq!((verdict.reason, verdict.object), (Reason::HoldsBuffer, Some("capacitybuffer/default/b")));
    let moved = with_chunk("6");
    assert_eq!(removed(&moved), ["n1"], "n3 has room for the chunk and both pods: {:?}", moved.reasons.nodes);
}

#[test]
fn a_node_on_its_way_for_a_buffer_counts_as_empty_by_the_time_that_pods_move() {
    let history = unneeded(&["n1"]);
    let pods = || [replica("one").on("n1")].into_iter().chain([replica("two").on("n2")]);
    let with_chunk = |cpu| {
        let new = member("n3").age(5).with(|node| node.ready = Readiness::NotReady);
        let nodes = cluster([member("n1"), member("n2"), new], pods());
        plan(&with(nodes, replica("x").cpu(cpu), [buffer("b", 1)]), &history, &settings(), NOW)
    };
    let kept = with_chunk("3800m");
    assert!(removed(&kept).is_empty(), "{:?}", kept.reasons.nodes);
    assert_eq!(kept.reasons.nodes.iter().next().expect("a verdict").reason, Reason::HoldsBuffer);
    assert_eq!(removed(&with_chunk("3")), ["n1"], "n3 will have room for both");
}

/// Memory in which the cloud has refused pool a's group a minute ago.
fn refused(mut history: History) -> History {
    let backoff = Backoff {
        class: FailureClass::OutOfCapacity,
        failures: 1,
        since: UnixTime(NOW.0 - 60),
        until: NOW.plus(Seconds(240)),
        message: "no machines".into(),
    };
    let memory = history.pools.get_mut("a").expect("the memory of pool a");
    memory.backoffs.insert(BackoffKey { group: "a-1".into(), ..BackoffKey::default() }, backoff);
    history
}

#[test]
fn a_node_stays_while_the_cloud_refuses_what_a_buffer_would_have_of_it() {
    let nodes = ["n1", "n2", "n3"];
    let pods = || nodes.iter().map(|name| replica(&format!("of-{name}")).on(name));
    let waits = |count, history: History, settings: &Config| {
        let chunk = replica("x").cpu("3800m");
        plan(&with(cluster(nodes.map(member), pods()), chunk, [buffer("b", count)]), &history, settings, NOW)
    };
    let free = waits(1, refused(unneeded(&nodes)), &settings());
    let verdicts = &free.reasons.nodes;
    let held = verdicts.iter().find(|verdict| verdict.reason == Reason::HoldsBuffer);
    let object = held.and_then(|verdict| verdict.object);
    assert_eq!(object, Some("capacitybuffer/default/b"), "{verdicts:?}");
    // The scheduler may put the pods of another onto the one that stays.
    assert!(removed(&free).is_empty(), "{verdicts:?}");
    let all = waits(3, refused(unneeded(&nodes)), &settings());
    assert!(removed(&all).is_empty(), "{:?}", all.reasons.nodes);
    // At its maximum the pool can serve the chunk only by a node that goes first.
    let full = crate::scale_down::with_pool(|pool| pool.max_nodes = 3);
    let full = Config { cluster: settings().cluster, ..full };
    let full = waits(1, unneeded(&nodes), &full);
    assert_ne!(removed(&full), Vec::<String>::new());
    assert!(full.reasons.nodes.iter().all(|verdict| verdict.reason != Reason::HoldsBuffer));
}

#[test]
fn who_asks_for_a_node_gets_it_and_the_buffer_is_filled_elsewhere() {
    use headroom_core::world::node::REMOVE_ANNOTATION;
    let asked = member("n1").annotation(REMOVE_ANNOTATION, "requested");
    let world = with(cluster([asked], []), replica("x"), [buffer("b", 1)]);
    let plan = plan(&world, &History::default(), &settings(), NOW);
    assert_eq!(removed(&plan), ["n1"]);
    assert!(plan.steps.iter().any(|step| matches!(step, Step::Increase { .. })));
}

#[test]
fn a_node_keeps_no_clock_by_standby_pods_and_is_not_well_used_by_them() {
    let world = with(cluster([member("n1"), member("n2")], []), replica("x"), [buffer("b", 8)]);
    let plan = plan(&world, &unneeded(&["n1", "n2"]), &settings(), NOW);
    // Eight places of half a core are one node: the other one goes.
    assert_eq!(removed(&plan).len(), 1);
}

#[test]
fn size_is_the_larger_of_replicas_and_percentage_within_the_limits() {
    let live = |count| {
        let owned = pod("web").cpu("1").label("pod-template-hash", "7f").owner("ReplicaSet", "web-7f");
        owned.on("n1").times(count)
    };
    let size = |pods: usize, change: &dyn Fn(&mut CapacityBuffer)| {
        let mut one = CapacityBuffer { source: of_deployment("web"), replicas: None, ..buffer("b", 0) };
        change(&mut one);
        let world = world()
            .pods(live(pods))
            .delta(Delta::DeploymentApplied(Box::new(template("web", pod("x").cpu("1")))))
            .delta(Delta::BufferApplied(Box::new(one)))
            .build();
        let plan = plan_fresh(&world, &config([pool("general")]));
        (verdict(&plan, "b").wanted_count, fault(&plan, "b"))
    };
    let limits = |cpu: i64| BTreeMap::from([("cpu".into(), cpu)]);
    assert_eq!(size(7, &|one| one.percentage = Some(20)), (2, Reason::Accepted));
    assert_eq!(size(10, &|one| one.percentage = Some(20)), (2, Reason::Accepted));
    assert_eq!(size(1, &|one| one.percentage = Some(1)), (1, Reason::Accepted));
    assert_eq!(size(0, &|one| one.percentage = Some(20)), (0, Reason::BufferIsEmpty));
    assert_eq!(size(10, &|one| (one.percentage, one.replicas) = (Some(20), Some(5))), (5, Reason::Accepted));
    assert_eq!(
        size(10, &|one| (one.percentage, one.limits) = (Some(50), limits(3999))),
        (3, Reason::Accepted)
    );
    assert_eq!(size(10, &|one| one.limits = limits(2000)), (2, Reason::Accepted));
    assert_eq!(size(10, &|_| {}), (0, Reason::InvalidSize));
    let strange = BTreeMap::from([("nvidia.com/gpu".into(), 2)]);
    assert_eq!(
        size(10, &|one| (one.replicas, one.limits) = (Some(1), strange.clone())),
        (0, Reason::InvalidSize)
    );
    let (most, over) = size(10, &|one| one.percentage = Some(u32::MAX));
    assert_eq!((most, over), (429_496_730, Reason::BufferLimitReached));
}

#[test]
fn the_youngest_live_pod_gives_the_shape() {
    let live = |name: &str, cpu: &str, age: i64| {
        pod(name)
            .cpu(cpu)
            .label("pod-template-hash", "7f")
            .owner("ReplicaSet", "web-7f")
            .on("n1")
            .with(|pod| pod.created_at = UnixTime(NOW.0 - age))
    };
    let one = CapacityBuffer { source: of_deployment("web"), ..buffer("b", 2) };
    let world = world()
        .group("general", "a", "", 0)
        .pod(live("old", "500m", 900))
        .pod(live("young", "2", 60))
        .delta(Delta::DeploymentApplied(Box::new(template("web", pod("x").cpu("100m")))))
        .delta(Delta::BufferApplied(Box::new(one)))
        .build();
    // Two pods of two cores with a sidecar that admission added fill the node of four.
    let plan = plan_fresh(&world, &config([pool("general").shape("3", "16Gi")]));
    check(&plan, &[("general", "a", 0, 2)]);
}

#[test]
fn quotas_cut_buffers_by_age_and_count_pods() {
    let amounts = |pairs: &[(&str, i64)]| {
        pairs.iter().map(|(name, amount)| ((*name).into(), *amount)).collect::<BTreeMap<_, _>>()
    };
    let sizes = |hard: &[(&str, i64)], used: &[(&str, i64)], scopes: Vec<QuotaScope>| {
        let quota = Quota { key: key("q"), hard: amounts(hard), used: amounts(used), scopes };
        let old = CapacityBuffer { created_at: UnixTime(NOW.0 - 9000), ..buffer("z-old", 3) };
        let world = world().group("general", "a", "", 0).delta(Delta::QuotaApplied(Box::new(quota)));
        let plan = plan_fresh(
            &with(world, pod("x").cpu("1"), [buffer("a-new", 3), old]),
            &config([pool("general")]),
        );
        (verdict(&plan, "z-old").wanted_count, verdict(&plan, "a-new").wanted_count)
    };
    assert_eq!(sizes(&[("requests.cpu", 7000)], &[("requests.cpu", 3000)], vec![]), (3, 1));
    assert_eq!(sizes(&[("cpu", 7000)], &[("cpu", 3000)], vec![]), (3, 1));
    assert_eq!(sizes(&[("pods", 10)], &[("pods", 5)], vec![]), (3, 2));
    assert_eq!(sizes(&[("count/pods", 2)], &[], vec![]), (2, 0));
    assert_eq!(sizes(&[("limits.cpu", 0), ("count/secrets", 0)], &[], vec![]), (3, 3));
    assert_eq!(sizes(&[("pods", 0)], &[("pods", i64::MAX)], vec![]), (0, 0));
    assert_eq!(sizes(&[("pods", 0)], &[], vec![QuotaScope::Terminating]), (3, 3));
    assert_eq!(sizes(&[("pods", 0)], &[], vec![QuotaScope::BestEffort]), (3, 3));
    assert_eq!(sizes(&[("pods", 0)], &[], vec![QuotaScope::NotBestEffort]), (0, 0));
    let gold = |among| QuotaScope::PriorityClass { among, classes: vec!["gold".into()] };
    assert_eq!(sizes(&[("pods", 0)], &[], vec![gold(true)]), (3, 3));
    assert_eq!(sizes(&[("pods", 0)], &[], vec![gold(false)]), (0, 0));
}

#[test]
fn a_buffer_that_cannot_be_served_says_why_and_leaves_the_others_alone() {
    let strange =
        BufferSource::Workload { group: "argoproj.io".into(), kind: "Rollout".into(), name: "web".into() };
    let bad = [
        CapacityBuffer { source: BufferSource::Template("none".into()), ..buffer("missing", 1) },
        CapacityBuffer { source: of_deployment("none"), ..buffer("orphan", 1) },
        CapacityBuffer { source: strange, ..buffer("strange", 1) },
        CapacityBuffer { source: BufferSource::None, ..buffer("nothing", 1) },
        CapacityBuffer { fault: Some("spec.replicas is -3".into()), ..buffer("negative", 1) },
        buffer("zero", 0),
    ];
    let world = empty(bad.into_iter().chain([buffer("good", 4)]));
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[("general", "a", 0, 1)]);
    for (name, reason) in [
        ("missing", Reason::PodTemplateNotFound),
        ("orphan", Reason::ScalableRefNotFound),
        ("strange", Reason::ScalableKindUnsupported),
        ("nothing", Reason::InvalidBuffer),
        ("negative", Reason::InvalidBuffer),
        ("zero", Reason::BufferIsEmpty),
        ("good", Reason::Accepted),
    ] {
        assert_eq!(fault(&plan, name), reason, "{name}");
    }
}

#[test]
fn a_buffer_whose_pods_break_the_plan_is_set_aside_alone() {
    let broken = pod("x").with_class(|class| class.scheduler = headroom_core::testing::BROKEN.into());
    let of_broken = CapacityBuffer { source: BufferSource::Template("bad".into()), ..buffer("bad", 2) };
    let world = world()
        .group("general", "a", "", 0)
        .delta(Delta::PodTemplateApplied(Box::new(template("bad", broken))));
    let world = with(world, pod("x").cpu("1"), [of_broken, buffer("good", 4)]);
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[("general", "a", 0, 1)]);
    assert_eq!(fault(&plan, "bad"), Reason::Internal);
}

#[test]
fn buffers_of_others_are_left_alone() {
    let foreign = CapacityBuffer { strategy: "cloud.example/slow".into(), ..buffer("foreign", 4) };
    let everybodys = CapacityBuffer { strategy: DEFAULT_STRATEGY.into(), ..buffer("default", 4) };
    let going = CapacityBuffer { deleting: true, ..buffer("going", 4) };
    let world = empty([foreign, everybodys, going]);
    let mut config = config([pool("general")]);
    let plan = plan_fresh(&world, &config);
    check(&plan, &[]);
    assert!(plan.reasons.buffers.is_empty());
    config.cluster.default_buffers = true;
    let plan = plan_fresh(&world, &config);
    check(&plan, &[("general", "a", 0, 1)]);
    assert_eq!(plan.reasons.buffers.len(), 1);
}

#[test]
fn a_buffer_that_another_controller_writes_holds_nothing() {
    let mut world = empty([buffer("b", 4)]);
    world.apply(Delta::BuffersOfOthers([key("b")].into()));
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(fault(&plan, "b"), Reason::ServedByAnother);
}

#[test]
fn a_namespace_has_no_more_standby_pods_than_its_share() {
    let other = CapacityBuffer { key: ObjectKey::new("shop", "small"), ..buffer("small", 4) };
    let mut shop = template("web", pod("x").cpu("1"));
    shop.key = ObjectKey::new("shop", "web");
    let world = world().group("general", "a", "", 0).delta(Delta::PodTemplateApplied(Box::new(shop)));
    let greedy = [buffer("a", u32::MAX), buffer("b", u32::MAX)];
    let world = with(world, pod("x").cpu("10m"), greedy.into_iter().chain([other]));
    let plan = plan_fresh(&world, &config([pool("general")]));
    let greedy = verdict(&plan, "a");
    assert_eq!(greedy.wanted_count - greedy.unplaced_count, STANDBY_PODS_PER_NAMESPACE_MAX);
    assert_eq!(fault(&plan, "b"), Reason::BufferLimitReached);
    assert_eq!(verdict(&plan, "small").unplaced_count, 0);
}

#[test]
fn buffers_get_room_by_priority_and_age() {
    let mut gold = template("gold", pod("x").cpu("4"));
    gold.priority_class = PrioritySource::Named("gold".into());
    let class = headroom_core::world::volume::PriorityClass { value: 100, is_default: false };
    let world = world()
        .group("general", "a", "", 0)
        .delta(Delta::PriorityClassApplied("gold".into(), class))
        .delta(Delta::PodTemplateApplied(Box::new(gold)));
    let golden = CapacityBuffer {
        source: BufferSource::Template("gold".into()),
        created_at: NOW,
        ..buffer("z-gold", 1)
    };
    let older = CapacityBuffer { created_at: UnixTime(NOW.0 - 9000), ..buffer("z-older", 1) };
    let world = with(world, pod("x").cpu("4"), [buffer("a-young", 1), older, golden]);
    let plan = plan_fresh(&world, &config([pool("general").bounds(0, 2)]));
    let served = ["z-gold", "z-older", "a-young"].map(|name| verdict(&plan, name).unplaced_count);
    assert_eq!(served, [0, 0, 1]);
}

#[test]
fn standby_pods_below_the_cutoff_are_not_bought_for() {
    let world = with(world().group("general", "a", "", 0), pod("x").cpu("1").priority(-11), [buffer("b", 4)]);
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(fault(&plan, "b"), Reason::BelowPriorityCutoff);
}

#[test]
fn a_pool_in_preview_says_what_it_would_buy_for_a_buffer() {
    let plan = plan_fresh(&empty([buffer("b", 5)]), &config([pool("general").mode(Mode::Preview)]));
    check(&plan, &[]);
    let action = &plan.reasons.preview[0];
    assert_eq!((action.to, action.reason), (2, Reason::StandbyCapacity));
    assert!(action.message.contains("5 standby pods"), "{}", action.message);
}

#[test]
fn the_record_of_a_world_holds_its_buffers_and_plans_alike() {
    let world = empty([buffer("b", 5)]);
    let config: Config = config([pool("general")]);
    let snapshot = Snapshot::of(&world, &History::default(), &config, NOW);
    let text = serde_json::to_string(&snapshot).expect("always written");
    let read: Snapshot = serde_json::from_str(&text).expect("reads back");
    assert_eq!(read.replay().expect("a world"), plan_fresh(&world, &config));
    let without: WorldRecord = WorldRecord::of(&with(WorldBuilder::default(), pod("x"), []));
    assert!(without.standby.is_none());
}

/// Type, whether it holds, and its reason.
fn conditions(world: &World, config: &Config, name: &str) -> Vec<(String, bool, String)> {
    let plan = plan_fresh(world, config);
    let buffer = &world.standby().buffers[&key(name)];
    let status = status::status(verdict(&plan, name), buffer, NOW);
    let row = |(kind, condition): (&std::sync::Arc<str>, &headroom_core::world::buffer::BufferCondition)| {
        (kind.to_string(), condition.holds, condition.reason.to_string())
    };
    status.conditions.iter().map(row).collect()
}

#[test]
fn conditions_are_in_the_words_of_the_kind() {
    let all = |provisioning: (bool, &str), ready: (bool, &str)| {
        [
            ("LimitedByQuotas", (false, "ResourceQuotasAllocated")),
            ("Provisioning", provisioning),
            ("ReadyForProvisioning", ready),
        ]
        .map(|(kind, (holds, reason))| (kind.to_owned(), holds, reason.to_owned()))
        .to_vec()
    };
    let set = (true, "AttributesSetSuccessfully");
    let general = || config([pool("general")]);
    let there = || world().node(node("n1").of("general", "a")).group("general", "a", "", 1);
    let small = || pod("x").cpu("1");
    assert_eq!(
        conditions(&with(there(), small(), [buffer("b", 4)]), &general(), "b"),
        all((true, "FitsExistingCapacity"), set)
    );
    assert_eq!(
        conditions(&with(there(), small(), [buffer("b", 5)]), &general(), "b"),
        all((false, "RequiresNewCapacity"), set)
    );
    assert_eq!(
        conditions(&with(there(), small(), [buffer("b", 5)]), &config([pool("general").bounds(0, 1)]), "b"),
        all((false, "LimitReached"), set)
    );
    assert_eq!(
        conditions(&with(there(), pod("x").cpu("5"), [buffer("b", 1)]), &general(), "b"),
        all((false, "NoPoolFits"), set)
    );
    assert_eq!(
        conditions(&with(there(), small(), [buffer("b", 0)]), &general(), "b"),
        all((false, "BufferIsEmpty"), set)
    );
    let missing = CapacityBuffer { source: BufferSource::Template("none".into()), ..buffer("b", 1) };
    assert_eq!(
        conditions(&with(there(), small(), [missing]), &general(), "b"),
        all((false, "NotReadyForProvisioning"), (false, "PodTemplateNotFound"))
    );
}

#[test]
fn a_condition_keeps_its_time_while_its_status_is_the_same() {
    let world = empty([buffer("b", 5)]);
    let plan = plan_fresh(&world, &config([pool("general")]));
    let mut known = world.standby().buffers[&key("b")].clone();
    known.status = status::status(verdict(&plan, "b"), &known, NOW);
    let later = NOW.plus(Seconds(60));
    assert_eq!(status::status(verdict(&plan, "b"), &known, later), known.status);
    let mut ready = verdict(&plan, "b").clone();
    (ready.ready_count, ready.on_new) = (5, BTreeMap::new());
    let changed = status::status(&ready, &known, later);
    assert_eq!(changed.conditions["Provisioning"].changed_at, later);
    assert_eq!(changed.conditions["ReadyForProvisioning"].changed_at, NOW);
}

#[test]
fn messages_name_the_pool_and_its_first_failing_rule() {
    let world = empty([buffer("b", 5)]);
    let plan = plan_fresh(&world, &config([pool("general").taint("team", "x")]));
    let buffer = &world.standby().buffers[&key("b")];
    let status = status::status(verdict(&plan, "b"), buffer, NOW);
    let message = &status.conditions["Provisioning"].message;
    assert!(
        message.starts_with("0 of 5 chunks ready, 5 without a place; pool general: TaintNotTolerated"),
        "{message}"
    );
}
