//! The devices of a node that a group would add: as its pool declares them, as a living node of the group has them, or as
//! such nodes had them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::state::cluster_state::{ClusterState, GroupCounts, PoolState};
use headroom_cluster::history::{LearnedDevices, PoolHistory};
use headroom_cluster::scheduling::devices::{Attribute, COMING, Device, PoolId, Slice, Taint};
use headroom_cluster::world::World;

/// Most nodes of a group that are compared to find what differs from machine to machine.
const ALIKE_MAX: usize = 8;

/// Name of a device on any node: driver, pool without the node's name, name.
type DeviceKey<'a> = (&'a str, String, &'a str);

/// The slices that a new node of the group will have, for a node named [`COMING`]; `None` if none are known.
///
/// Source, the first that answers: the pool's declaration; ready nodes of the group; what was learned from such nodes
/// before, unless ready nodes have no devices.
#[must_use]
pub fn devices(
    state: &PoolState<'_>,
    group_id: &Arc<str>,
    cluster: &ClusterState<'_>,
    memory: Option<&PoolHistory>,
    world: &World,
) -> Option<Arc<[Slice]>> {
    if let Some(declared) = &state.pool.devices {
        return (!declared.is_empty()).then(|| declared.iter().cloned().collect());
    }
    let remembered = memory.and_then(|memory| memory.learned_devices.get(group_id)).map(|known| &**known);
    if remembered.is_none() && world.devices().has_no_local_slices() {
        return None;
    }
    let group = state.groups.get(group_id);
    let nodes = group.into_iter().flat_map(|group| ready_nodes(group, cluster, world));
    if let Some(slices) = living(nodes, remembered, world) {
        return Some(slices.into());
    }
    let remembered = remembered.filter(|_| !group.is_some_and(|group| has_none(group, cluster, world)))?;
    Some(remembered.slices().into())
}

/// Names of the ready nodes of a group, in order.
fn ready_nodes<'w>(
    group: &GroupCounts<'_>,
    cluster: &ClusterState<'_>,
    world: &'w World,
) -> impl Iterator<Item = &'w str> {
    let ready = group.nodes.iter().filter(|id| cluster.is_ready(**id));
    ready.map(|id| &*world.node(*id).name)
}

/// True if ready nodes show that the group has no devices: there are some, and none has published any. A young node that
/// lacks those of its group is starting, not ready. Slices that may not be read show nothing.
#[must_use]
pub fn has_none(group: &GroupCounts<'_>, cluster: &ClusterState<'_>, world: &World) -> bool {
    let devices = world.devices();
    let mut nodes = ready_nodes(group, cluster, world).peekable();
    devices.is_served() && nodes.peek().is_some() && nodes.all(|node| !devices.has_slices_of(node))
}

/// The slices of the first of these nodes whose pools are all there, without what is of that machine alone; `None` if there
/// is none. `remembered` is what was learned of the group before.
#[must_use]
pub fn living<'n>(
    nodes: impl Iterator<Item = &'n str>,
    remembered: Option<&LearnedDevices>,
    world: &World,
) -> Option<Vec<Slice>> {
    let mut nodes = nodes.filter_map(|name| Some((name, published(name, world)?)));
    let (source, slices) = nodes.next()?;
    let others: Vec<(&str, Vec<&Slice>)> = nodes.take(ALIKE_MAX - 1).collect();
    let remembered = remembered.filter(|_| others.is_empty());
    Some(learned(source, &slices, &others, remembered))
}

/// The slices of a node's own pools, in the order of their names; `None` if it has none, or one is not all there.
fn published<'w>(node: &str, world: &'w World) -> Option<Vec<&'w Slice>> {
    let devices = world.devices();
    let whole = devices.whole_pools_of(node);
    let newest = |id: &PoolId| {
        let of_pool = devices.slices_of(node).filter(|slice| pool_of(slice) == *id);
        of_pool.map(|slice| slice.spec.pool.generation).max()
    };
    let generations: BTreeMap<PoolId, Option<i64>> =
        whole.iter().map(|id| (id.clone(), newest(id))).collect();
    let pools: BTreeSet<PoolId> = devices.slices_of(node).map(pool_of).collect();
    let slices = devices.slices_of(node).filter(|slice| {
        generations.get(&pool_of(slice)).copied().flatten() == Some(slice.spec.pool.generation)
    });
    (!pools.is_empty() && pools == whole).then(|| slices.collect())
}

fn pool_of(slice: &Slice) -> PoolId {
    PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() }
}

/// The slices of a node without what is of that machine alone.
///
/// A value is of one machine if it differs on another node of the group at the same device, or looks like it: the only
/// node of a group has nobody to differ from. Such values stay as patterns, since devices that share one on this node
/// will share one on the next. Taints stay if all nodes have them: one sick device is not the group's.
///
/// Where there is no other node, `remembered` speaks for those that have left: what differed between them stays unknown,
/// and a taint that they did not have is not taken over.
fn learned(
    source: &str,
    slices: &[&Slice],
    others: &[(&str, Vec<&Slice>)],
    remembered: Option<&LearnedDevices>,
) -> Vec<Slice> {
    let others: Vec<BTreeMap<DeviceKey<'_>, &Device>> =
        others.iter().map(|(node, slices)| by_key(node, slices)).collect();
    let each = slices.iter().zip(0usize..).map(|(slice, number)| {
        let mut learned = (*slice).clone();
        learned.name = format!("{number:04}").into();
        learned.spec.node_name = Some(COMING.into());
        learned.spec.pool.name = slice.spec.pool.name.replace(source, COMING).into();
        let (driver, pool) = (slice.spec.driver.clone(), learned.spec.pool.name.clone());
        for device in &mut learned.spec.devices {
            let name = device.name.clone();
            let lacks = |taint: &Taint| {
                remembered.is_some_and(|known| known.lacks_taint(&driver, &pool, &name, taint))
            };
            let differed =
                |id: &str| remembered.is_some_and(|known| known.is_unknown(&driver, &pool, &name, id));
            let key = (&*slice.spec.driver, without_name(source, &slice.spec.pool.name), &*name);
            let same: Vec<&Device> = others.iter().filter_map(|other| other.get(&key).copied()).collect();
            device.taints.retain(|taint| !lacks(taint) && same.iter().all(|other| has_taint(other, taint)));
            for (id, value) in &mut device.attributes {
                let differs = same.iter().any(|other| other.attributes.get(id) != Some(value));
                if differs || differed(id) || is_of_one_machine(value, source) {
                    *value = Attribute::Unknown(text_of(value));
                }
            }
        }
        learned
    });
    each.collect()
}

fn has_taint(device: &Device, taint: &Taint) -> bool {
    device.taints.iter().any(|other| other.key == taint.key && other.effect == taint.effect)
}

fn by_key<'a>(node: &str, slices: &[&'a Slice]) -> BTreeMap<DeviceKey<'a>, &'a Device> {
    let of_slice = |slice: &&'a Slice| {
        let pool = without_name(node, &slice.spec.pool.name);
        let (driver, devices) = (&*slice.spec.driver, &slice.spec.devices);
        devices.iter().map(move |device| ((driver, pool.clone(), &*device.name), device))
    };
    slices.iter().flat_map(of_slice).collect()
}

fn without_name(node: &str, pool: &str) -> String {
    pool.replace(node, "")
}

fn text_of(value: &Attribute) -> Arc<str> {
    match value {
        Attribute::Int(number) => number.to_string().into(),
        Attribute::Bool(truth) => truth.to_string().into(),
        Attribute::String(text) | Attribute::Version(text) | Attribute::Unknown(text) => text.clone(),
    }
}

/// True if a text names one machine: it holds the name of the node, or the shape of a UUID, a PCI, MAC or IP address.
fn is_of_one_machine(value: &Attribute, node: &str) -> bool {
    let Attribute::String(text) = value else { return false };
    text.contains(node) || text.parse::<IpAddr>().is_ok() || has_uuid(text) || has_bus_address(text)
}

/// True if it holds 8, 4, 4, 4 and 12 hexadecimal digits with hyphens between.
fn has_uuid(text: &str) -> bool {
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    words.into_iter().any(|word| {
        let lengths: Vec<usize> = word.split('-').map(str::len).filter(|length| *length != 0).collect();
        lengths.windows(5).any(|five| five == [8, 4, 4, 4, 12])
    })
}

/// True if it holds groups of two or four hexadecimal digits with colons between, as PCI and MAC addresses are written.
fn has_bus_address(text: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_ascii_hexdigit() || c == ':'));
    words.any(|word| word.contains(':') && word.split(':').all(|part| matches!(part.len(), 2 | 4)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::scheduling::devices::{PoolRef, SliceSpec};

    fn slice(node: &str, devices: Vec<Device>) -> Slice {
        let pool = PoolRef { name: node.into(), generation: 4, resource_slice_count: 1 };
        let (driver, node_name) = (Arc::from("gpu.example.com"), Some(Arc::from(node)));
        let spec = SliceSpec { driver, pool, node_name, devices, ..SliceSpec::default() };
        Slice { name: format!("{node}-gpu.example.com-x7").into(), spec }
    }

    fn device(attributes: &[(&str, &str)]) -> Device {
        let text = |(id, text): &(&str, &str)| (Arc::from(*id), Attribute::String((*text).into()));
        Device {
            name: "gpu-0".into(),
            attributes: attributes.iter().map(text).collect(),
            ..Device::default()
        }
    }

    fn learned_of(devices: Vec<Device>, other: Option<Device>) -> Vec<Device> {
        let own = slice("ip-10-0-1-7", devices);
        let other = other.map(|device| slice("ip-10-0-1-8", vec![device]));
        let others: Vec<(&str, Vec<&Slice>)> =
            other.iter().map(|slice| ("ip-10-0-1-8", vec![slice])).collect();
        let slices = learned("ip-10-0-1-7", &[&own], &others, None);
        assert_eq!(slices[0].spec.node_name.as_deref(), Some(COMING));
        assert_eq!(&*slices[0].spec.pool.name, COMING);
        slices[0].spec.devices.clone()
    }

    #[test]
    fn values_of_one_machine_are_unknown_and_the_product_is_not() {
        let attributes = [
            ("uuid", "GPU-18db0e85-99e9-c746-8531-ffeb86328b39"),
            ("pciBusID", "0000:3b:00.0"),
            ("resource.kubernetes.io/pcieRoot", "pci0000:3b"),
            ("mac", "02:42:ac:11:00:02"),
            ("address", "10.0.1.7"),
            ("host", "gpu0.ip-10-0-1-7"),
            ("productName", "NVIDIA A100-SXM4-80GB"),
            ("architecture", "Ampere"),
            ("driver", "nvidia:a100"),
        ];
        let found = learned_of(vec![device(&attributes)], None);
        let known: Vec<&str> = (found[0].attributes.iter())
            .filter(|(_, value)| !matches!(value, Attribute::Unknown(_)))
            .map(|(id, _)| &**id)
            .collect();
        assert_eq!(known, ["architecture", "driver", "productName"]);
    }

    #[test]
    fn what_differs_on_another_node_is_unknown() {
        let (own, other) =
            (device(&[("serial", "17"), ("model", "L4")]), device(&[("serial", "18"), ("model", "L4")]));
        let found = learned_of(vec![own], Some(other));
        assert_eq!(found[0].attributes["serial"], Attribute::Unknown("17".into()));
        assert_eq!(found[0].attributes["model"], Attribute::String("L4".into()));
    }

    #[test]
    fn equal_unknown_values_stay_equal() {
        let mut second = device(&[("pcieRoot", "pci0000:3b")]);
        second.name = "nic-0".into();
        let found = learned_of(vec![device(&[("pcieRoot", "pci0000:3b")]), second], None);
        assert_eq!(found[0].attributes["pcieRoot"], found[1].attributes["pcieRoot"]);
    }

    #[test]
    fn a_taint_of_one_device_is_not_the_groups() {
        let taint = Taint { key: "sick".into(), effect: "NoSchedule".into(), ..Default::default() };
        let mut sick = device(&[]);
        sick.taints.push(taint);
        assert!(learned_of(vec![sick.clone()], Some(device(&[])))[0].taints.is_empty());
        assert_eq!(learned_of(vec![sick.clone()], Some(sick))[0].taints.len(), 1);
    }

    #[test]
    fn what_differed_between_nodes_that_have_left_stays_unknown_and_a_new_taint_is_of_one_device() {
        let own = |device: Device| slice("ip-10-0-1-7", vec![device]);
        let sick = Taint { key: "sick".into(), effect: "NoSchedule".into(), ..Taint::default() };
        let mut device = device(&[("serial", "17"), ("model", "L4")]);
        let first = own(device.clone());
        let other = slice("ip-10-0-1-8", vec![self::device(&[("serial", "18"), ("model", "L4")])]);
        let both = learned("ip-10-0-1-7", &[&first], &[("ip-10-0-1-8", vec![&other])], None);
        let known = LearnedDevices::of(&both);
        device.taints.push(sick);
        let last = learned("ip-10-0-1-7", &[&own(device.clone())], &[], Some(&known));
        assert_eq!(last, both);
        let alone = learned("ip-10-0-1-7", &[&own(device)], &[], None);
        assert_eq!(alone[0].spec.devices[0].taints.len(), 1, "nothing is known of others");
    }
}
