//! Devices of groups whose last node has left: what is remembered of them, and when it is forgotten.

use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::scheduling::devices::{Attribute, Constraint, Device, Taint};
use headroom_core::testing::devices::{DRIVER, claim_spec, declared, device, held_claim, slice, slice_of};
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::Seconds;
use headroom_core::world::World;
use headroom_core::world::pod::Pod;

use crate::scale_up::{check, plan_fresh};

fn gpus() -> Config {
    config([pool("gpu")])
}

fn cluster() -> WorldBuilder {
    world().with_devices().claim_template("one", claim_spec(1, &[]))
}

fn member(name: &str) -> NodeBuilder {
    node(name).of("gpu", "a")
}

fn train(count: usize) -> Vec<Pod> {
    pod("train").cpu("100m").devices_of_template("one").times(count)
}

/// The memory of a plan over group a with these nodes, each with these devices.
fn learned_of(nodes: &[(&str, Vec<Device>)], history: &History) -> History {
    let with = |world: WorldBuilder, (name, devices): &(&str, Vec<Device>)| {
        world.node(member(name)).slice(slice_of(name, devices.clone()))
    };
    let count = u32::try_from(nodes.len()).expect("few");
    let world = nodes.iter().fold(cluster(), with).group("gpu", "a", "", count).build();
    plan(&world, history, &gpus(), NOW).next_history
}

fn four() -> Vec<Device> {
    (0..4).map(|number| device(&format!("gpu-{number}"), "A")).collect()
}

fn empty_with(pods: Vec<Pod>) -> World {
    cluster().group("gpu", "a", "", 0).pods(pods).build()
}

#[test]
fn a_group_without_nodes_is_bought_by_the_devices_that_its_nodes_had() {
    let history = learned_of(&[("n1", four())], &History::default());
    check(&plan_fresh(&empty_with(train(9)), &gpus()), &[]);
    let plan = plan(&empty_with(train(9)), &history, &gpus(), NOW);
    check(&plan, &[("gpu", "a", 0, 3)]);
    let (kept, before) = (&plan.next_history.pools["gpu"], &history.pools["gpu"]);
    assert_eq!(kept.learned_devices, before.learned_devices);
}

#[test]
fn memory_of_devices_is_the_same_from_plan_to_plan() {
    let nodes = [("n1", four()), ("n2", four())];
    let first = learned_of(&nodes, &History::default());
    assert_eq!(first.pools["gpu"].learned_devices.len(), 1);
    assert_eq!(learned_of(&nodes, &first), first);
    let other = [("n7", four())];
    assert_eq!(learned_of(&other, &first).pools["gpu"].learned_devices, first.pools["gpu"].learned_devices);
}

#[test]
fn the_first_node_of_a_group_is_starting_until_it_has_published_what_is_remembered() {
    let history = learned_of(&[("n1", four())], &History::default());
    let young = |age: i64| {
        let world = cluster().node(member("n2").age(age)).group("gpu", "a", "", 1).pods(train(4)).build();
        plan(&world, &history, &gpus(), NOW)
    };
    check(&young(60), &[]);
    assert_eq!(young(60).next_history.pools["gpu"].learned_devices.len(), 1);
    // After the startup timeout it has none, and nothing is bought by what is remembered.
    check(&young(3_600), &[]);
    assert!(young(3_600).next_history.pools["gpu"].learned_devices.is_empty());
}

#[test]
fn declared_devices_stand_in_place_of_remembered_ones() {
    let history = learned_of(&[("n1", four())], &History::default());
    let config = config([pool("gpu").with(|pool| pool.devices = Some(declared(1)))]);
    let plan = plan(&empty_with(train(2)), &history, &config, NOW);
    check(&plan, &[("gpu", "a", 0, 2)]);
    assert!(plan.next_history.pools["gpu"].learned_devices.is_empty());
}

#[test]
fn a_pool_that_is_not_whole_for_a_moment_is_not_forgotten() {
    let history = learned_of(&[("n1", four())], &History::default());
    let mut half = slice("n1", 4);
    half.spec.pool.resource_slice_count = 2;
    let world = cluster().node(member("n1")).slice(half).group("gpu", "a", "", 1).build();
    let after = plan(&world, &history, &gpus(), NOW).next_history;
    assert_eq!(after.pools["gpu"].learned_devices, history.pools["gpu"].learned_devices);
}

#[test]
fn devices_of_a_group_that_its_provider_no_longer_has_are_forgotten() {
    let history = learned_of(&[("n1", four())], &History::default());
    let other = cluster().group("gpu", "b", "", 0).build();
    assert!(plan(&other, &history, &gpus(), NOW).next_history.pools["gpu"].learned_devices.is_empty());
    let silent = cluster().build();
    let kept = plan(&silent, &history, &gpus(), NOW).next_history;
    assert_eq!(kept.pools["gpu"].learned_devices.len(), 1, "it has not answered");
}

#[test]
fn a_gpu_and_a_nic_of_one_root_are_bought_again_and_a_machines_own_value_sells_no_node() {
    let with = |name: &str, root: &str| {
        let mut device = device(name, "A");
        device.attributes.insert("root".into(), Attribute::String(root.into()));
        device
    };
    let devices = vec![with("gpu-0", "pci0000:3b"), with("gpu-1", "pci0000:3c"), with("gpu-2", "pci0000:3c")];
    let history = learned_of(&[("n1", devices)], &History::default());
    let bought = |count: u64, selectors: &[&str], attribute: Option<&str>| {
        let mut spec = claim_spec(count, selectors);
        let match_attribute = attribute.map(|id| format!("{DRIVER}/{id}").into());
        let constraint = Constraint { match_attribute, ..Constraint::default() };
        spec.devices.constraints = attribute.map(|_| constraint).into_iter().collect();
        let world = cluster().claim_template("odd", spec).group("gpu", "a", "", 0);
        let world = world.pod(pod("odd").devices_of_template("odd")).build();
        plan(&world, &history, &gpus(), NOW).steps.len()
    };
    assert_eq!(bought(2, &[], Some("root")), 1);
    assert_eq!(bought(3, &[], Some("root")), 0, "two of three share one");
    let root = format!("device.attributes['{DRIVER}'].root == 'pci0000:3b'");
    assert_eq!(bought(1, &[&root], None), 0);
}

#[test]
fn the_last_node_of_a_group_does_not_make_its_serial_number_or_its_sick_device_the_groups() {
    let with = |serial: &str| {
        let mut device = device("gpu-0", "A");
        device.attributes.insert("serial".into(), Attribute::String(serial.into()));
        device
    };
    let both = learned_of(&[("n1", vec![with("17")]), ("n2", vec![with("18")])], &History::default());
    let mut sick = with("17");
    sick.taints.push(Taint { key: "sick".into(), effect: "NoSchedule".into(), ..Taint::default() });
    let last = learned_of(&[("n1", vec![sick])], &both);
    assert_eq!(last.pools["gpu"].learned_devices, both.pools["gpu"].learned_devices);
}

#[test]
fn devices_that_status_does_not_hold_are_not_kept_and_the_group_is_named() {
    let many: Vec<Device> =
        (0..400).map(|number| device(&format!("gpu-{number}"), &number.to_string())).collect();
    let world = cluster().node(member("n1")).slice(slice_of("n1", many)).group("gpu", "a", "", 1).build();
    let plan = plan_fresh(&world, &gpus());
    assert!(plan.next_history.pools.get("gpu").is_none_or(|memory| memory.learned_devices.is_empty()));
    let [reason] = &plan.reasons.pools["gpu"][..] else { panic!("{:?}", plan.reasons.pools) };
    assert_eq!(reason.reason, Reason::DevicesNotLearned);
    assert!(reason.message.starts_with("group a has more devices than status holds (16 KiB"), "{reason:?}");
}

#[test]
fn a_node_that_leaves_takes_nothing_with_it() {
    let history = learned_of(&[("n1", four())], &History::default());
    let leaving = member("n1").taint("ToBeDeletedByClusterAutoscaler", "1");
    let world = cluster().node(leaving).slice(slice("n1", 4)).group("gpu", "a", "", 1);
    let held = held_claim("old", "n1", &[0], &["old"]);
    let world = world.pod(pod("old").on("n1").devices_of_template("one")).resource_claim(held).pods(train(4));
    let plan = plan(&world.build(), &history, &gpus(), NOW.plus(Seconds(10)));
    assert_eq!(plan.next_history.pools["gpu"].learned_devices, history.pools["gpu"].learned_devices);
    check(&plan, &[("gpu", "a", 1, 2)]);
}
