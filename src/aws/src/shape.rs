//! The node that a group would add: its types' amounts, its tags, its EKS node group, and the pool's template. Pure.

use std::sync::Arc;

use headroom_core::labels::Labels;
use headroom_core::quantity::Quantity;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::provider::{GroupTemplate, OpenLabels, TemplateTrust};
use headroom_core::world::template::NodeTemplate;

use super::calls::InstanceType;
use super::group::{Group, Requirements};
use super::templates::Resolved;
use headroom_provider::PoolAtProvider;
use headroom_provider::aws::{MixedTypes, Settings};

/// Beginning of the tags that describe a group's nodes.
///
/// Source: Cluster Autoscaler, cloudprovider/aws/README.md. Matched at the beginning only: upstream matches anywhere.
pub(crate) const TAG_PREFIX: &str = "k8s.io/cluster-autoscaler/node-template/";
/// Part of the memory that the hypervisor keeps, in thousandths: AWS sells more than the machine shows.
const HYPERVISOR_PERMILLE: i64 = 75;
const MIB: i64 = 1 << 20;
/// Memory that the kubelet keeps free: its default threshold of eviction.
const EVICTION_BYTES: i64 = 100 * MIB;
/// Pods of a machine of which the network's limits are not known.
const PODS_DEFAULT: i64 = 110;
/// Labels that the kubelet and the cloud's controller put on every node.
const ARCH_LABEL: &str = "kubernetes.io/arch";
const TYPE_LABEL: &str = "node.kubernetes.io/instance-type";
/// The resource that NVIDIA's device plugin offers.
const GPU: &str = "nvidia.com/gpu";

/// The node that `group` would add for this pool.
///
/// # Errors
/// In words, when neither its types nor the pool give the amounts.
pub(crate) fn template(
    group: &Group,
    pool: &PoolAtProvider,
    settings: &Settings,
    resolved: &Resolved,
) -> Result<GroupTemplate, String> {
    let declared = 0 < pool.node.capacity.cpu_milli;
    let (mut capacity, mut allocatable) = match (declared, settings.mixed, resolved.types.as_slice()) {
        (true, _, _) => (pool.node.capacity.clone(), pool.node.allocatable.clone()),
        (false, _, []) => {
            return Err("it names no type of machine: set template.capacity in the pool".to_owned());
        }
        (false, MixedTypes::First, [first, ..]) => amounts(first),
        (false, MixedTypes::Smallest, types) => smallest(types),
    };
    let mut labels = generic_labels(group, settings, resolved);
    let mut open_labels = open_labels(settings, resolved);
    let mut taints = Vec::new();
    for (key, value) in &group.tags {
        let Some(rest) = key.strip_prefix(TAG_PREFIX) else { continue };
        apply_tag(
            rest,
            value,
            &mut labels,
            &mut taints,
            (!declared).then_some((&mut capacity, &mut allocatable)),
        );
    }
    if let Some(node_group) = &resolved.node_group {
        for (key, value) in &node_group.labels {
            labels.insert(key.as_str(), value.as_str());
        }
        if let Some(name) = group.tags.get("eks:nodegroup-name") {
            labels.insert("eks.amazonaws.com/nodegroup", name.as_str());
        }
        if !node_group.capacity_type.is_empty() {
            labels.insert("eks.amazonaws.com/capacityType", node_group.capacity_type.as_str());
        }
        taints.extend(node_group.taints.iter().filter_map(|(key, value, effect)| {
            Some(Taint {
                key: key.as_str().into(),
                value: value.as_str().into(),
                effect: eks_effect(effect)?,
            })
        }));
        for (key, value) in &node_group.tags {
            let resource = key.strip_prefix(TAG_PREFIX).and_then(|rest| rest.strip_prefix("resources/"));
            if let (Some(name), false) = (resource, declared) {
                set_amount(name, value, &mut capacity, &mut allocatable);
            }
        }
    }
    for (key, value) in pool.node.labels.iter() {
        labels.insert(key, value);
    }
    taints.extend(pool.node.taints.iter().cloned());
    let trust = match (declared, resolved.types.len()) {
        (true, _) => TemplateTrust::Declared,
        (false, 0 | 1) if !resolved.described => TemplateTrust::Estimate,
        (false, _) => TemplateTrust::Mixed,
    };
    let version = (!resolved.version.is_empty()).then(|| resolved.version.clone());
    // Values from a tag, EKS or the pool hold for every node.
    open_labels.retain(|key, _| labels.get(key).is_none());
    let node = NodeTemplate { labels, taints: last_of_each(taints), capacity, allocatable };
    Ok(GroupTemplate { node, open_labels, trust, version })
}

/// Of taints with the same key and effect the last one holds: sources come in order of precedence.
fn last_of_each(taints: Vec<Taint>) -> Vec<Taint> {
    let mut kept: Vec<Taint> = Vec::with_capacity(taints.len());
    for taint in taints {
        kept.retain(|other| other.key != taint.key || other.effect != taint.effect);
        kept.push(taint);
    }
    kept
}

/// Labels that every node of the group carries; those that its types do not share are left out, not guessed.
fn generic_labels(group: &Group, settings: &Settings, resolved: &Resolved) -> Labels {
    let types: &[InstanceType] = if resolved.described { &[] } else { resolved.types.as_slice() };
    let mut labels = Labels::default();
    labels.insert("kubernetes.io/os", "linux");
    if let Some(first) = types.first() {
        if types.iter().all(|other| other.arm64 == first.arm64) {
            labels.insert(ARCH_LABEL, if first.arm64 { "arm64" } else { "amd64" });
        }
        if types.len() == 1 || settings.mixed == MixedTypes::First {
            labels.insert(TYPE_LABEL, first.name.clone());
        }
    }
    if let Some(region) = &settings.region {
        labels.insert("topology.kubernetes.io/region", region.clone());
    }
    if let Some(zone) = group.only_zone() {
        labels.insert(ZONE_LABEL, zone.clone());
        labels.insert("topology.ebs.csi.aws.com/zone", zone.clone());
    }
    labels
}

/// Labels that every node of the group carries and in which its types differ, with the values there may be. A type that
/// is described and not named may be any, of either architecture.
fn open_labels(settings: &Settings, resolved: &Resolved) -> OpenLabels {
    let mut open = OpenLabels::new();
    let both = || vec!["amd64".into(), "arm64".into()];
    if resolved.described {
        open.insert(ARCH_LABEL.into(), both());
        open.insert(TYPE_LABEL.into(), Vec::new());
    } else if let (MixedTypes::Smallest, [first, rest @ ..]) = (settings.mixed, resolved.types.as_slice()) {
        if rest.iter().any(|other| other.arm64 != first.arm64) {
            open.insert(ARCH_LABEL.into(), both());
        }
        if !rest.is_empty() {
            open.insert(TYPE_LABEL.into(), resolved.types.iter().map(|one| one.name.clone()).collect());
        }
    }
    open
}

/// Returns the capacity of a machine of this type, and its allocatable amounts.
///
/// Source: the documentation of EKS on reserved resources: memory 255 MiB + 11 MiB a pod, CPU 6 % of the first core, 1 % of
/// the second, 0.5 % of the next two, 0.25 % of the rest; pods by the VPC plugin: interfaces x (addresses - 1) + 2.
#[must_use]
pub(crate) fn amounts(machine: &InstanceType) -> (Resources, Resources) {
    let pods = if machine.interfaces == 0 || machine.addresses == 0 {
        PODS_DEFAULT
    } else {
        i64::from(machine.interfaces) * (i64::from(machine.addresses) - 1) + 2
    };
    let sold = i64::try_from(machine.memory_mib).unwrap_or(i64::MAX / MIB).saturating_mul(MIB);
    let memory = sold - sold / 1000 * HYPERVISOR_PERMILLE;
    let cores = i64::from(machine.cpus);
    // In hundredths of a milli-core, rounded up to whole milli-cores.
    let reserved_cpu = 6_000 * cores.min(1)
        + 1_000 * (cores - 1).clamp(0, 1)
        + 500 * (cores - 2).clamp(0, 2)
        + 250 * (cores - 4).max(0);
    let reserved_memory = (255 + 11 * pods) * MIB;
    let mut capacity = Resources::new(cores * 1000, memory).with_pods(pods);
    let mut allocatable = Resources::new(
        cores * 1000 - (reserved_cpu + 99) / 100,
        (memory - reserved_memory - EVICTION_BYTES).max(0),
    )
    .with_pods(pods);
    if 0 < machine.gpus {
        for resources in [&mut capacity, &mut allocatable] {
            resources.set_extended(GPU, i64::from(machine.gpus));
        }
    }
    (capacity, allocatable)
}

/// The least machine that requirements let through: every type that AWS may choose has as much or more. Neither its
/// architecture nor its GPUs are known.
///
/// # Errors
/// Error message when the requirements do not give the least of CPU and memory.
pub(crate) fn least_machine(least: Requirements) -> Result<InstanceType, String> {
    let Requirements { cpus, memory_mib } = least;
    if cpus == 0 || memory_mib == 0 {
        return Err(
            "it chooses its types by requirements that name no least CPU or memory: set VCpuCount.Min and \
                    MemoryMiB.Min there, or template.capacity in the pool"
                .to_owned(),
        );
    }
    // As one interface, so that the formula for pods gives the number.
    let addresses = least_pods(cpus, memory_mib) - 1;
    Ok(InstanceType { cpus, memory_mib, interfaces: 1, addresses, ..InstanceType::default() })
}

/// Pods that the smallest known type of such a size takes by the VPC plugin's limits: t3.micro, t3.small, t3.medium,
/// inf1.xlarge; from sixteen cores on the kubelet's usual bound.
fn least_pods(cpus: u32, memory_mib: u64) -> u32 {
    match (cpus, memory_mib) {
        (_, 0..2_048) => 4,
        (0..2, _) => 8,
        (_, 2_048..4_096) => 11,
        (2..4, _) => 17,
        (4..16, _) => 38,
        _ => 110,
    }
}

/// The least of each resource over all types: what fits that fits whichever comes.
fn smallest(types: &[InstanceType]) -> (Resources, Resources) {
    let mut all = types.iter().map(amounts);
    let Some(first) = all.next() else { return <_>::default() };
    all.fold(first, |(capacity, allocatable), (other_capacity, other_allocatable)| {
        (least(&capacity, &other_capacity), least(&allocatable, &other_allocatable))
    })
}

fn least(one: &Resources, other: &Resources) -> Resources {
    let mut least =
        Resources::new(one.cpu_milli.min(other.cpu_milli), one.memory_bytes.min(other.memory_bytes))
            .with_pods(one.pods.min(other.pods));
    least.ephemeral_bytes = one.ephemeral_bytes.min(other.ephemeral_bytes);
    for (name, amount) in one.extended_iter() {
        let both = amount.min(other.extended(name));
        if 0 < both {
            least.set_extended(name.clone(), both);
        }
    }
    least
}

/// One tag under the prefix. A tag that cannot be read is ignored, and reported by `options`: the group's other tags still
/// hold.
fn apply_tag(
    rest: &str,
    value: &str,
    labels: &mut Labels,
    taints: &mut Vec<Taint>,
    amounts: Option<(&mut Resources, &mut Resources)>,
) {
    if let Some(key) = rest.strip_prefix("label/").filter(|key| !key.is_empty()) {
        labels.insert(key, value);
    } else if let Some(key) = rest.strip_prefix("taint/").filter(|key| !key.is_empty()) {
        let Some((value, effect)) = taint_effect(value) else { return };
        taints.push(Taint { key: key.into(), value: value.into(), effect });
    } else if let (Some(name), Some((capacity, allocatable))) = (rest.strip_prefix("resources/"), amounts) {
        set_amount(name, value, capacity, allocatable);
    }
}

/// A taint's value and effect as a tag has them, `<value>:<effect>`; `None` when there is no such effect.
#[must_use]
pub(crate) fn taint_effect(tag: &str) -> Option<(&str, TaintEffect)> {
    let (value, effect) = tag.rsplit_once(':').unwrap_or(("", tag));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    };
    Some((value, effect))
}

/// Sets an amount as a tag gives it; for cpu and memory the system's reservation is still taken off.
fn set_amount(name: &str, value: &str, capacity: &mut Resources, allocatable: &mut Resources) {
    let Some(amount) = Quantity::parse(value).ok().filter(|amount| !amount.is_negative()) else { return };
    let kept = |had: i64, offered: i64| had.saturating_sub(offered).max(0);
    match name {
        "cpu" => {
            let kept = kept(capacity.cpu_milli, allocatable.cpu_milli);
            capacity.cpu_milli = amount.milli();
            allocatable.cpu_milli = amount.milli().saturating_sub(kept).max(0);
        }
        "memory" => {
            let kept = kept(capacity.memory_bytes, allocatable.memory_bytes);
            capacity.memory_bytes = amount.units();
            allocatable.memory_bytes = amount.units().saturating_sub(kept).max(0);
        }
        "pods" => (capacity.pods, allocatable.pods) = (amount.units(), amount.units()),
        "ephemeral-storage" => {
            (capacity.ephemeral_bytes, allocatable.ephemeral_bytes) = (amount.units(), amount.units());
        }
        "" => {}
        other => {
            let name: Arc<str> = other.into();
            capacity.set_extended(name.clone(), amount.units());
            allocatable.set_extended(name, amount.units());
        }
    }
}

fn eks_effect(effect: &str) -> Option<TaintEffect> {
    match effect {
        "NO_SCHEDULE" => Some(TaintEffect::NoSchedule),
        "NO_EXECUTE" => Some(TaintEffect::NoExecute),
        "PREFER_NO_SCHEDULE" => Some(TaintEffect::PreferNoSchedule),
        _ => None,
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
