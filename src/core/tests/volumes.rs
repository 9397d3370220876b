//! Rules of volumes, one a test: where claims let pods run, what is bought for them, and where they may move.

use std::collections::BTreeMap;

use headroom_core::config::Config;
use headroom_core::history::{Action, History, PoolHistory};
use headroom_core::labels::ObjectKey;
use headroom_core::plan;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::LabelSelector;
use headroom_core::testing::{
    NOW, PodBuilder, WorldBuilder, bound_claim, claim, config, controller, label_selector, node, pod, pool,
    storage_class, volume, world,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::attachment::VolumeAttachment;
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::pod::PodPhase;
use headroom_core::world::volume::{
    AccessModes, AttachLimits, ClaimSpec, CsiDriver, FreeVolume, StorageCapacity, StorageClass, VolumeClaim,
};
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, World};

fn plan_of(world: &World) -> Plan {
    plan(world, &History::default(), &config([pool("general")]), NOW)
}

/// Nodes bought by group.
fn bought(plan: &Plan) -> BTreeMap<String, u32> {
    let increase = |step: &Step| match step {
        Step::Increase { group, from, to, .. } => Some((group.to_string(), to - from)),
        _ => None,
    };
    plan.steps.iter().filter_map(increase).collect()
}

fn check(world: WorldBuilder, expected: &[(&str, u32)]) {
    let plan = plan_of(&world.build());
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(group, count)| ((*group).to_owned(), *count)).collect();
    assert_eq!(bought(&plan), expected, "{:#?}", plan.reasons.pods);
}

/// The answer of the pool to the pods of an owner.
fn answer(world: WorldBuilder, owner: &str) -> (Reason, String) {
    let plan = plan_of(&world.build());
    assert_eq!(bought(&plan), BTreeMap::new());
    let verdict = plan.reasons.pods.iter().find(|verdict| &*verdict.owner == owner).expect("a verdict");
    (verdict.pools[0].reason, verdict.pools[0].message.to_string())
}

fn zonal() -> WorldBuilder {
    world().group("general", "g-a", "a", 0).group("general", "g-b", "b", 0)
}

fn db() -> PodBuilder {
    pod("db").cpu("1").claim("data")
}

#[test]
fn node_is_bought_where_the_bound_volume_is() {
    let bound = zonal().claim(bound_claim("data", "pv")).volume(volume("pv", ZONE_LABEL, "b"));
    check(bound.pod(db()), &[("g-b", 1)]);
}

#[test]
fn label_of_a_driver_is_the_zone_on_a_node_to_come() {
    let bound = zonal().claim(bound_claim("data", "pv"));
    check(bound.volume(volume("pv", "topology.ebs.csi.aws.com/zone", "b")).pod(db()), &[("g-b", 1)]);
}

#[test]
fn new_node_is_waited_for_until_its_drivers_have_labelled_it() {
    let key = "topology.ebs.csi.aws.com/zone";
    let world = |age| {
        let registered = node("n1").of("general", "g-b").zone("b").age(age);
        let world = zonal().node(registered).group("general", "g-b", "b", 1);
        world.claim(bound_claim("data", "pv")).volume(volume("pv", key, "b")).pod(db())
    };
    check(world(10), &[]);
    check(world(3600), &[("g-b", 1)]);
}

#[test]
fn zone_label_of_a_volume_binds_like_its_affinity() {
    let mut placed = volume("pv", ZONE_LABEL, "b");
    placed.node_affinity = None;
    placed.zones = vec![(ZONE_LABEL.into(), vec!["b".into()])];
    check(zonal().claim(bound_claim("data", "pv")).volume(placed).pod(db()), &[("g-b", 1)]);
}

#[test]
fn volume_out_of_reach_is_reported_with_its_values() {
    let bound = zonal().claim(bound_claim("data", "pv")).volume(volume("pv", ZONE_LABEL, "c"));
    let (reason, message) = answer(bound.pod(db()), "db");
    assert_eq!(reason, Reason::VolumeNodeAffinityMismatch);
    assert_eq!(message, "claim data needs topology.kubernetes.io/zone in (c); pool has a, b");
}

#[test]
fn claims_that_keep_a_pod_off_every_node_are_reported_and_buy_nothing() {
    let immediate = StorageClass { waits_for_consumer: false, ..storage_class("now", &[]) };
    let lost = VolumeClaim { unusable: true, ..bound_claim("data", "pv") };
    for (world, why) in [
        (zonal(), "it does not exist"),
        (zonal().storage_class(immediate).claim(claim("data", "now")), "it is bound before"),
        (zonal().claim(claim("data", "unknown")), "it is bound before"),
        (zonal().claim(bound_claim("data", "gone")), "its volume gone does not exist"),
        (zonal().claim(lost), "it is being deleted, or its volume is lost"),
    ] {
        let (reason, message) = answer(world.pod(db()), "db");
        assert_eq!(reason, Reason::VolumeNotReady, "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn waiting_claim_takes_a_zone_that_its_class_allows() {
    let waiting = zonal().storage_class(storage_class("wait", &["b"])).claim(claim("data", "wait"));
    check(waiting.pod(db()), &[("g-b", 1)]);
    let anywhere = zonal().storage_class(storage_class("wait", &[])).claim(claim("data", "wait"));
    check(anywhere.pod(db()), &[("g-a", 1)]);
}

#[test]
fn node_for_which_a_volume_is_being_made_is_the_only_one() {
    let making = VolumeClaim { selected_node: Some("n1".into()), ..claim("data", "wait") };
    let world = zonal().storage_class(storage_class("wait", &[])).claim(making).pod(db());
    let (reason, message) = answer(world, "db");
    assert_eq!(reason, Reason::VolumeNodeAffinityMismatch);
    assert!(message.contains("node n1"), "{message}");
}

#[test]
fn class_without_provisioner_needs_a_free_volume_that_would_do() {
    let class =
        StorageClass { provisioner: "kubernetes.io/no-provisioner".into(), ..storage_class("local", &[]) };
    let asked = ClaimSpec { request_bytes: 10, ..(*claim("data", "local").spec).clone() };
    let asked = VolumeClaim { spec: asked.into(), ..claim("data", "local") };
    let world = |capacity_bytes| {
        let free = FreeVolume { storage_class: "local".into(), capacity_bytes, ..FreeVolume::default() };
        let mut free_volume = volume("pv", ZONE_LABEL, "b");
        free_volume.free = Some(free.into());
        zonal().storage_class(class.clone()).claim(asked.clone()).volume(free_volume).pod(db())
    };
    check(world(10), &[("g-b", 1)]);
    assert_eq!(answer(world(9), "db").0, Reason::VolumeNodeAffinityMismatch);
}

/// Room for volumes of class `wait` in a zone, in bytes.
fn room(name: &str, zone: &str, largest_bytes: i64) -> StorageCapacity {
    StorageCapacity {
        key: ObjectKey::new("drivers", name),
        storage_class: "wait".into(),
        nodes: Some(label_selector(ZONE_LABEL, zone)),
        largest_bytes: Some(largest_bytes),
    }
}

/// The CSIDriver `disk`.
fn driver(reports_capacity: bool, required: bool) -> Delta {
    Delta::CsiDriverApplied("disk".into(), CsiDriver { reports_capacity, required })
}

/// The pod `db` with a claim of 10 bytes of class `wait`, whose driver reports its capacity, namely this.
fn with_room(world: WorldBuilder, capacities: impl IntoIterator<Item = StorageCapacity>) -> WorldBuilder {
    let spec = ClaimSpec { request_bytes: 10, ..(*claim("data", "wait").spec).clone() };
    let world = world
        .storage_class(storage_class("wait", &[]))
        .claim(VolumeClaim { spec: spec.into(), ..claim("data", "wait") })
        .delta(driver(true, false))
        .pod(db());
    capacities.into_iter().fold(world, |world, one| world.delta(Delta::StorageCapacityApplied(Box::new(one))))
}

#[test]
fn volume_is_made_only_where_its_driver_has_reported_capacity() {
    let capacities = || [room("1", "a", 9), room("2", "b", 5), room("3", "b", 10)];
    check(with_room(zonal(), capacities()), &[("g-b", 1)]);
    let silent = with_room(zonal(), capacities()).delta(driver(false, false));
    check(silent, &[("g-a", 1)]);
    let gone = with_room(zonal(), capacities()).delta(Delta::CsiDriverDeleted("disk".into()));
    check(gone, &[("g-a", 1)]);
    let everywhere = StorageCapacity { nodes: Some(LabelSelector::default()), ..room("1", "a", 10) };
    check(with_room(zonal(), [everywhere]), &[("g-a", 1)]);
}

#[test]
fn capacity_that_is_too_small_and_capacity_that_nobody_reported_are_distinguished() {
    let (reason, message) = answer(with_room(zonal(), [room("1", "a", 8), room("2", "b", 9)]), "db");
    assert_eq!(reason, Reason::StorageCapacityInsufficient);
    assert!(message.ends_with("at most 8 bytes for the node"), "{message}");
    let other_class = StorageCapacity { storage_class: "other".into(), ..room("1", "a", 10) };
    let nowhere = StorageCapacity { nodes: None, ..room("1", "a", 10) };
    let without_size = StorageCapacity { largest_bytes: None, ..room("1", "a", 10) };
    for capacities in [vec![], vec![other_class], vec![nowhere], vec![without_size], vec![room("1", "c", 10)]]
    {
        let (reason, message) = answer(with_room(zonal(), capacities), "db");
        assert_eq!(reason, Reason::StorageCapacityInsufficient);
        assert!(message.contains("no CSIStorageCapacity of class wait"), "{message}");
    }
}

#[test]
fn claim_without_a_size_and_a_free_volume_need_no_room() {
    let world = zonal().storage_class(storage_class("wait", &[])).claim(claim("data", "wait"));
    check(world.delta(driver(true, false)).pod(db()), &[("g-a", 1)]);
    let free = FreeVolume { storage_class: "wait".into(), capacity_bytes: 10, ..FreeVolume::default() };
    let mut free_volume = volume("pv", ZONE_LABEL, "b");
    free_volume.free = Some(free.into());
    check(with_room(zonal(), []).volume(free_volume), &[("g-b", 1)]);
}

#[test]
fn driver_may_report_its_capacity_by_its_own_name_of_the_zone() {
    let key = "topology.ebs.csi.aws.com/zone";
    let capacity = StorageCapacity { nodes: Some(label_selector(key, "b")), ..room("1", "b", 10) };
    check(with_room(zonal(), [capacity]), &[("g-b", 1)]);
}

#[test]
fn group_that_may_come_in_several_zones_needs_room_in_each() {
    let group = || world().group("general", "g", "", 0).group_zones("general", "g", &["a", "b"]);
    check(with_room(group(), [room("1", "a", 10), room("2", "b", 10)]), &[("g", 1)]);
    let (reason, _) = answer(with_room(group(), [room("1", "a", 10), room("2", "b", 9)]), "db");
    assert_eq!(reason, Reason::StorageCapacityInsufficient);
}

#[test]
fn new_node_is_waited_for_until_its_driver_has_reported_its_capacity() {
    let key = "topology.disk.example.com/node";
    let capacity = || StorageCapacity { nodes: Some(label_selector(key, "next")), ..room("1", "", 10) };
    let bought = |age: i64, more: Option<StorageCapacity>| {
        let registered = node("n1").of("general", "g-b").zone("b").label(key, "n1").age(age);
        let world = world().node(registered).group("general", "g-b", "b", 1);
        let world = with_room(world, [capacity()].into_iter().chain(more)).build();
        let pools = config([pool("general").label(key, "next")]);
        bought(&plan(&world, &History::default(), &pools, NOW))
    };
    let one = BTreeMap::from([("g-b".to_owned(), 1)]);
    assert_eq!(bought(10, None), BTreeMap::new());
    assert_eq!(bought(3600, None), one);
    // Capacity that was reported for it counts at once.
    let small = StorageCapacity { nodes: Some(label_selector(key, "n1")), ..room("2", "", 9) };
    assert_eq!(bought(10, Some(small)), one);
}

#[test]
fn nodes_take_no_more_volumes_than_their_driver_attaches() {
    let limits = || AttachLimits::from_iter([("disk".into(), 2)]);
    let live = node("n1").of("general", "g-a").zone("a").cpu("1").taint("full", "");
    let mut world = zonal()
        .node(live)
        .group("general", "g-a", "a", 1)
        .storage_class(storage_class("wait", &["a"]))
        .delta(Delta::CsiNodeApplied("n1".into(), limits()));
    for index in 0..5 {
        let name = format!("data-{index}");
        world = world.claim(claim(&name, "wait")).pod(pod(&format!("db-{index}")).cpu("100m").claim(&name));
    }
    check(world, &[("g-a", 3)]);
}

/// So many pods that mount a volume of their own each.
fn with_databases(world: WorldBuilder, count: usize) -> WorldBuilder {
    (0..count).fold(world.storage_class(storage_class("wait", &["a"])), |world, index| {
        let name = format!("data-{index}");
        world.claim(claim(&name, "wait")).pod(pod(&format!("db-{index}")).cpu("100m").claim(&name))
    })
}

fn attaches(node: &str, count: u32) -> Delta {
    Delta::CsiNodeApplied(node.into(), AttachLimits::from_iter([("disk".into(), count)]))
}

#[test]
fn new_nodes_attach_as_many_volumes_as_the_node_of_their_group_that_attaches_least() {
    let full = |name: &str| node(name).of("general", "g-a").zone("a").cpu("1").taint("full", "");
    let world = zonal().node(full("n1")).node(full("n2")).group("general", "g-a", "a", 2);
    let world = world.delta(attaches("n1", 5)).delta(attaches("n2", 2));
    check(with_databases(world, 5), &[("g-a", 3)]);
}

/// Pools that declare so many volumes of driver `disk` a node.
fn declares(count: u32) -> Config {
    let limits = AttachLimits::from_iter([("disk".into(), count)]);
    config([pool("general").with(|pool| pool.attach_limits = Some(limits))])
}

fn bought_with(world: WorldBuilder, config: &Config) -> BTreeMap<String, u32> {
    bought(&plan(&world.build(), &History::default(), config, NOW))
}

#[test]
fn a_group_without_a_node_attaches_as_many_volumes_as_its_pool_declares() {
    let of_group = |count| BTreeMap::from([("g-a".to_owned(), count)]);
    assert_eq!(bought_with(with_databases(zonal(), 5), &declares(2)), of_group(3));
    assert_eq!(bought_with(with_databases(zonal(), 5), &declares(5)), of_group(1));
    // What a living node shows comes first.
    let live = node("n1").of("general", "g-a").zone("a").cpu("1").taint("full", "");
    let world = zonal().node(live).group("general", "g-a", "a", 1).delta(attaches("n1", 3));
    assert_eq!(bought_with(with_databases(world, 5), &declares(2)), of_group(2));
}

#[test]
fn the_first_node_of_a_group_attaches_as_declared_until_its_driver_has_said_how_many() {
    let with_young = |own: Option<u32>| {
        let young = node("n1").of("general", "g-a").zone("a").age(10);
        let world = zonal().node(young).group("general", "g-a", "a", 1);
        let world = own.into_iter().fold(world, |world, own| world.delta(attaches("n1", own)));
        bought_with(with_databases(world, 3), &declares(2))
    };
    assert_eq!(with_young(None), BTreeMap::from([("g-a".to_owned(), 1)]));
    assert_eq!(with_young(Some(3)), BTreeMap::new());
}

#[test]
fn a_young_node_attaches_as_many_volumes_as_its_group_until_its_driver_has_said_how_many() {
    let with_young = |age: i64, own: Option<u32>| {
        let full = node("n1").of("general", "g-a").zone("a").cpu("1").taint("full", "");
        let young = node("n2").of("general", "g-a").zone("a").age(age);
        let world = zonal().node(full).node(young).group("general", "g-a", "a", 2).delta(attaches("n1", 2));
        let world = own.into_iter().fold(world, |world, own| world.delta(attaches("n2", own)));
        with_databases(world, 3)
    };
    check(with_young(10, None), &[("g-a", 1)]);
    // Later it has no limit.
    check(with_young(3_600, None), &[]);
    check(with_young(10, Some(3)), &[]);
}

/// Group `g-a` alone, of which this many nodes are there.
fn one_group(count: u32) -> WorldBuilder {
    world().group("general", "g-a", "a", count)
}

/// One pod with a volume of driver `disk`, which its CSIDriver requires on nodes.
fn with_required(world: WorldBuilder) -> WorldBuilder {
    with_databases(world.delta(driver(false, true)), 1)
}

/// A node of `g-a` without room.
fn full(name: &str) -> Delta {
    let node = node(name).of("general", "g-a").zone("a").cpu("1").taint("full", "");
    Delta::NodeApplied(Box::new(node.age(3_600).build()))
}

fn has_driver(node: &str, driver: &str) -> Delta {
    Delta::CsiNodeApplied(node.into(), AttachLimits::from_iter([(driver.into(), None)]))
}

fn one_more() -> BTreeMap<String, u32> {
    BTreeMap::from([("g-a".to_owned(), 1)])
}

#[test]
fn a_pool_at_zero_of_which_no_driver_is_known_is_bought_for() {
    check(with_required(one_group(0)), &[("g-a", 1)]);
    assert_eq!(bought_with(with_required(one_group(0)), &declares(2)), one_more());
}

#[test]
fn a_driver_that_new_nodes_will_not_have_buys_nothing_where_it_is_required() {
    let missing = |world: WorldBuilder, config: &Config| {
        let plan = plan(&world.build(), &History::default(), config, NOW);
        assert_eq!(bought(&plan), BTreeMap::new());
        let verdict = plan.reasons.pods.iter().find(|verdict| &*verdict.owner == "db-0").expect("a verdict");
        assert_eq!(verdict.pools[0].reason, Reason::DriverMissing);
        let message = &verdict.pools[0].message;
        assert!(message.starts_with("driver disk of the pod's volumes is not on the node"), "{message}");
    };
    let other = AttachLimits::from_iter([("other".into(), 8)]);
    let other = config([pool("general").with(|pool| pool.attach_limits = Some(other))]);
    let undeclared = config([pool("general")]);
    missing(with_required(one_group(0)), &other);
    // A living node that had time to register it shows that it does not come, whatever is declared.
    missing(with_required(one_group(1).delta(full("n1"))), &undeclared);
    missing(with_required(one_group(1).delta(full("n1"))), &declares(2));
    let with_other = one_group(1).delta(full("n1")).delta(has_driver("n1", "other"));
    missing(with_required(with_other), &undeclared);
    // Drivers that are not required are waited for by nobody.
    let optional = with_databases(one_group(0).delta(driver(false, false)), 1);
    assert_eq!(bought_with(optional, &other), one_more());
}

#[test]
fn a_node_without_a_required_driver_takes_no_pod_with_its_volumes() {
    let roomy = |driver: Option<&str>| {
        let roomy = node("n2").of("general", "g-a").zone("a").age(3_600);
        let world = one_group(2).delta(full("n1")).delta(has_driver("n1", "disk")).node(roomy);
        driver.into_iter().fold(world, |world, driver| world.delta(has_driver("n2", driver)))
    };
    check(with_required(roomy(None)), &[("g-a", 1)]);
    check(with_required(roomy(Some("other"))), &[("g-a", 1)]);
    check(with_required(roomy(Some("disk"))), &[]);
    check(with_databases(roomy(None), 1), &[]);
}

#[test]
fn a_node_that_may_still_register_a_required_driver_is_not_bought_twice() {
    let young = |age: i64| node("n2").of("general", "g-a").zone("a").age(age);
    let learned = |age: i64| {
        let world = one_group(2).delta(full("n1")).delta(has_driver("n1", "disk")).node(young(age));
        with_required(world)
    };
    check(learned(10), &[]);
    check(learned(600), &[]);
    check(learned(3_600), &[("g-a", 1)]);
    let first = |age: i64| with_required(one_group(1).node(young(age)));
    assert_eq!(bought_with(first(600), &declares(2)), BTreeMap::new());
    check(first(600), &[]);
}

#[test]
fn a_driver_without_a_count_is_there_and_attaches_any_number() {
    let roomy = node("n1").of("general", "g-a").zone("a").age(3_600);
    let world = one_group(1).node(roomy).delta(has_driver("n1", "disk"));
    assert_eq!(
        bought_with(with_databases(world.delta(driver(false, true)), 5), &declares(2)),
        BTreeMap::new()
    );
}

#[test]
fn replicas_to_come_count_a_volume_each() {
    let live = node("n1").of("general", "g-a").zone("a").cpu("1").taint("full", "");
    let replicas = controller(
        ControllerKind::StatefulSet,
        "db",
        6,
        pod("db").cpu("100m").claim_template("data-db-0", "wait"),
    );
    let world = zonal()
        .node(live)
        .group("general", "g-a", "a", 1)
        .storage_class(storage_class("wait", &["a"]))
        .delta(Delta::CsiNodeApplied("n1".into(), AttachLimits::from_iter([("disk".into(), 2)])))
        .controller(replicas)
        // The first pod is there: without one nothing is known of the others.
        .pod(pod("db-first").cpu("100m").owner("StatefulSet", "db").on("n1"));
    check(world, &[("g-a", 3)]);
}

#[test]
fn attached_volume_is_not_counted_twice() {
    let world = zonal()
        .node(node("n1"))
        .delta(Delta::CsiNodeApplied("n1".into(), AttachLimits::from_iter([("disk".into(), 1)])))
        .claim(bound_claim("data", "pv"))
        .volume(headroom_core::world::volume::Volume { node_affinity: None, ..volume("pv", ZONE_LABEL, "a") })
        .pod(pod("first").claim("data").on("n1"))
        .pod(db());
    check(world, &[]);
}

/// A volume that is attached to a node.
pub(crate) fn attached(name: &str, node: &str, volume: &str) -> Delta {
    let attachment = VolumeAttachment { name: name.into(), node: node.into(), volume: volume.into() };
    Delta::AttachmentApplied(Box::new(attachment))
}

/// A node that attaches this many volumes of driver `disk`, the volume `left-over` attached to it, and the pod `db` that mounts
/// the volume `pv`.
fn beside_left_over(limit: u32, on: &str) -> WorldBuilder {
    let anywhere = |name: &str| headroom_core::world::volume::Volume {
        node_affinity: None,
        ..volume(name, ZONE_LABEL, "a")
    };
    one_group(1)
        .node(node("n1").of("general", "g-a").zone("a").age(3_600))
        .delta(attaches("n1", limit))
        .volume(anywhere("left-over"))
        .volume(anywhere("pv"))
        .claim(bound_claim("data", "pv"))
        .delta(attached("csi-1", on, "left-over"))
        .pod(db())
}

#[test]
fn a_volume_that_is_attached_without_a_pod_takes_up_a_place() {
    check(beside_left_over(1, "n1"), &[("g-a", 1)]);
    check(beside_left_over(2, "n1"), &[]);
    check(beside_left_over(1, "n2"), &[]);
    check(beside_left_over(1, "n1").delta(Delta::AttachmentDeleted("csi-1".into())), &[]);
    // Of another driver, or of a volume of which nothing is known.
    let mut other = volume("left-over", ZONE_LABEL, "a");
    other.csi = Some(("other".into(), "left-over".into()));
    check(beside_left_over(1, "n1").volume(other), &[]);
    check(beside_left_over(1, "n1").delta(Delta::VolumeDeleted("left-over".into())), &[]);
}

#[test]
fn a_volume_that_is_attached_for_a_pod_is_counted_once() {
    let used = beside_left_over(2, "n1").claim(bound_claim("old", "left-over"));
    check(used.pod(pod("first").claim("old").on("n1")), &[]);
    // Still attached when the pod has finished: one place of two.
    let finished = || pod("first").with(|pod| pod.phase = PodPhase::Succeeded);
    let used_by_finished = || {
        let world = beside_left_over(2, "n1").claim(bound_claim("old", "left-over"));
        world.pod(finished().claim("old").with(|pod| pod.node = Some("n1".into())))
    };
    check(used_by_finished(), &[]);
    check(used_by_finished().delta(attaches("n1", 1)), &[("g-a", 1)]);
    // A pod that wants just this volume back needs a second place: the scheduler looks at the volumes of pods alone.
    let returns = |limit| beside_left_over(limit, "n1").claim(bound_claim("data", "left-over"));
    check(returns(1), &[("g-a", 1)]);
    check(returns(2), &[]);
}

#[test]
fn claim_for_one_pod_alone_keeps_the_second_pending() {
    let alone = VolumeClaim {
        spec: ClaimSpec { access: AccessModes::READ_WRITE_ONCE_POD, ..ClaimSpec::default() }.into(),
        ..bound_claim("data", "pv")
    };
    let world = zonal().claim(alone).volume(volume("pv", ZONE_LABEL, "b"));
    let two = world.clone().pod(db()).pod(pod("db-2").cpu("1").claim("data"));
    check(two, &[("g-b", 1)]);
    let used = world.node(node("n1").zone("b")).pod(pod("first").cpu("1").claim("data").on("n1")).pod(db());
    assert_eq!(answer(used, "db").0, Reason::VolumeInUse);
}

/// True if node `n1` in zone `z1` is removed, whose pod has the volume `pv` of that zone, where the other node `n2` has room.
fn is_emptied(zone_of_other: &str, others: impl IntoIterator<Item = Delta>) -> bool {
    let config: Config = config([pool("a").with(|pool| pool.scale_down.delay_after_add = Seconds(0))]);
    let replica = |name: &str| pod(name).cpu("500m").owner("ReplicaSet", "web");
    let world = world()
        .controller(controller(ControllerKind::ReplicaSet, "web", 5, pod("x")))
        .node(node("n1").of("a", "g").zone("z1"))
        .node(node("n2").of("a", "g").zone(zone_of_other))
        .group("a", "g", "", 2)
        .claim(bound_claim("data", "pv"))
        .volume(volume("pv", ZONE_LABEL, "z1"))
        .pod(replica("db").claim("data").on("n1"))
        .pods((0..4).map(|n| replica(&format!("web-{n}")).cpu("700m").on("n2").build()));
    let world = others.into_iter().fold(world, WorldBuilder::delta);
    let since = UnixTime(NOW.0 - 3600);
    let memory = PoolHistory { unneeded: [("n1".into(), since)].into(), ..PoolHistory::default() };
    let history = History { pools: BTreeMap::from([("a".into(), memory)]) };
    let plan = plan(&world.build(), &history, &config, NOW);
    let intents = plan.next_history.pools["a"].intents.clone();
    intents.iter().any(|intent| matches!(intent.action, Action::Remove(_)))
}

#[test]
fn pod_moves_only_to_where_its_volume_is() {
    assert!(is_emptied("z1", []), "the other node reaches the volume");
    assert!(!is_emptied("z2", []), "the other node does not reach the volume");
}

#[test]
fn pod_moves_only_to_where_its_volume_can_be_attached() {
    let removed = |left_over_at: &str| {
        let others = [
            attaches("n1", 1),
            attaches("n2", 1),
            Delta::VolumeApplied(Box::new(volume("left-over", ZONE_LABEL, "z1"))),
            attached("csi-1", "n1", "pv"),
            attached("csi-2", left_over_at, "left-over"),
        ];
        is_emptied("z1", others)
    };
    assert!(removed("n3"), "the other node has a place for the volume");
    assert!(!removed("n2"), "the other node has no place for the volume");
}
