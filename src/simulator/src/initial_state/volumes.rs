//! Volumes, claims, storage classes and attach limits as the objects that they were read from.

use std::sync::Arc;

use headroom_core::scheduling::constraints::{NodeSelectorTerm, RequiredNodeAffinity};
use headroom_core::snapshot::Snapshot;
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::volume::{
    AccessModes, ClaimSpec, StorageCapacity, StorageClass, Volume, VolumeClaim,
};
use serde_json::{Value, json};

use super::words::pruned;
use super::{InitialState, metadata};
use crate::store::Kind;

/// Labels by which drivers name the zone of their nodes. Simulated nodes have the zone's own label only, and stand under
/// that one in what volumes ask.
const ZONE_ALIASES: [&str; 4] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

/// Adds classes, volumes, claims, and what the drivers of each node attach. VolumeAttachments are left out: on the simulated
/// cluster a volume is attached to the nodes of its pods, and nowhere else.
pub(super) fn add(snapshot: &Snapshot, initial_state: &mut InitialState) {
    let world = &snapshot.world;
    initial_state.objects.extend(world.storage_classes.iter().map(|one| (Kind::StorageClass, class(one))));
    initial_state.objects.extend(world.volumes.iter().map(|one| (Kind::PersistentVolume, volume(one))));
    initial_state.objects.extend(world.claims.iter().map(|one| (Kind::PersistentVolumeClaim, claim(one))));
    for (node, limits) in &world.attach_limits {
        let drivers = limits.iter().map(|(driver, limit)| match limit {
            Some(limit) => json!({"name": driver, "allocatable": {"count": limit}}),
            None => json!({"name": driver}),
        });
        let drivers: Vec<Value> = drivers.collect();
        let manifest =
            json!({"metadata": {"name": node, "uid": format!("csi-{node}")}, "spec": {"drivers": drivers}});
        initial_state.objects.push((Kind::CSINode, manifest));
    }
    for driver in world.reporting_drivers.union(&world.required_drivers) {
        let mut manifest = json!({"metadata": {"name": driver, "uid": format!("driver-{driver}")},
            "spec": {"storageCapacity": world.reporting_drivers.contains(driver)}});
        if world.required_drivers.contains(driver) {
            manifest["spec"]["preventPodSchedulingIfMissing"] = true.into();
        }
        initial_state.objects.push((Kind::CSIDriver, manifest));
    }
    let capacities = world.storage_capacities.iter();
    initial_state.objects.extend(capacities.map(|one| (Kind::CSIStorageCapacity, capacity(one))));
}

/// True if a label names the zone of a node by a driver's word.
pub(super) fn is_zone_alias(key: &str) -> bool {
    ZONE_ALIASES.contains(&key)
}

fn zone_key(key: &Arc<str>) -> Arc<str> {
    if is_zone_alias(key) { ZONE_LABEL.into() } else { key.clone() }
}

fn modes(access: AccessModes) -> Vec<&'static str> {
    MODES.into_iter().filter(|mode| access.contains(AccessModes::of([*mode]))).collect()
}

fn class(class: &StorageClass) -> Value {
    let terms = class.topologies.iter().map(|term| {
        let pairs = term.iter().map(|(key, values)| json!({"key": zone_key(key), "values": values}));
        json!({"matchLabelExpressions": pairs.collect::<Vec<_>>()})
    });
    let mut annotations = json!({});
    if class.is_default {
        annotations["storageclass.kubernetes.io/is-default-class"] = "true".into();
    }
    pruned(json!({
        "metadata": {"name": class.name, "uid": format!("class-{}", class.name), "annotations": annotations},
        "provisioner": class.provisioner,
        "volumeBindingMode": if class.waits_for_consumer { "WaitForFirstConsumer" } else { "Immediate" },
        "allowedTopologies": terms.collect::<Vec<_>>(),
    }))
}

fn capacity(capacity: &StorageCapacity) -> Value {
    let uid = format!("capacity-{}-{}", capacity.key.namespace, capacity.key.name);
    let nodes = capacity.nodes.clone().map(|mut nodes| {
        let pairs: Vec<(Arc<str>, Arc<str>)> =
            nodes.match_labels.shared().map(|(key, value)| (zone_key(key), value.clone())).collect();
        nodes.match_labels = pairs.into_iter().collect();
        nodes.match_expressions.iter_mut().for_each(|one| one.key = zone_key(&one.key));
        nodes
    });
    let mut object = pruned(json!({
        "metadata": metadata(&capacity.key, &uid),
        "storageClassName": capacity.storage_class,
        "maximumVolumeSize": capacity.largest_bytes.map(|bytes| bytes.to_string()),
    }));
    // A selector that asks for nothing is all nodes, and none is no node.
    if let Some(nodes) = nodes {
        object["nodeTopology"] = json!(nodes);
    }
    object
}

fn volume(volume: &Volume) -> Value {
    let mut labels = json!({});
    let free = volume.free.as_deref();
    for (key, value) in free.into_iter().flat_map(|free| free.labels.iter()) {
        labels[key] = value.into();
    }
    for (key, values) in &volume.zones {
        let values: Vec<&str> = values.iter().map(|value| &**value).collect();
        labels[&*zone_key(key)] = values.join("__").into();
    }
    let affinity = volume.node_affinity.as_ref().map(|affinity| json!({"required": terms(affinity)}));
    // Who has claimed it is not in a snapshot, only that somebody has.
    let claimed = json!({"kind": "PersistentVolumeClaim", "name": "claimed"});
    pruned(json!({
        "metadata": {"name": volume.name, "uid": format!("volume-{}", volume.name), "labels": labels},
        "spec": {
            "capacity": free.map(|free| json!({"storage": free.capacity_bytes.to_string()})),
            "accessModes": free.map(|free| modes(free.access)),
            "storageClassName": free.map(|free| free.storage_class.clone()),
            "volumeMode": free.filter(|free| free.block).map(|_| "Block"),
            "csi": volume.csi.as_ref().map(|(driver, handle)| json!({"driver": driver, "volumeHandle": handle})),
            "nodeAffinity": affinity,
            "claimRef": free.is_none().then_some(claimed),
        },
        "status": {"phase": if free.is_some() { "Available" } else { "Bound" }},
    }))
}

fn terms(affinity: &RequiredNodeAffinity) -> Value {
    let mut terms: Vec<NodeSelectorTerm> = affinity.terms.clone();
    for requirement in terms.iter_mut().flat_map(|term| &mut term.match_expressions) {
        requirement.key = zone_key(&requirement.key);
    }
    json!({"nodeSelectorTerms": terms})
}

fn claim(claim: &VolumeClaim) -> Value {
    let uid = format!("claim-{}-{}", claim.key.namespace, claim.key.name);
    // A volume that is being made for a node is made anew: `selected-node` is left out.
    let mut object = json!({"metadata": metadata(&claim.key, &uid), "spec": claim_spec(&claim.spec)});
    if claim.bound {
        object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    if let Some(volume) = &claim.volume {
        object["spec"]["volumeName"] = (**volume).into();
    }
    let phase = if claim.unusable {
        "Lost"
    } else if claim.bound {
        "Bound"
    } else {
        "Pending"
    };
    object["status"] = json!({"phase": phase});
    object
}

/// Converts the requirements of a claim to its spec.
pub(super) fn claim_spec(spec: &ClaimSpec) -> Value {
    let mut object = pruned(json!({
        "accessModes": modes(spec.access),
        "resources": {"requests": {"storage": spec.request_bytes.to_string()}},
        "volumeMode": spec.block.then_some("Block"),
        "selector": spec.selector,
    }));
    // An empty class is none at all, which is something else than no word of it.
    if let Some(class) = &spec.storage_class {
        object["storageClassName"] = (**class).into();
    }
    object
}
