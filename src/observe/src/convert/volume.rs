//! Slim volumes, claims, storage classes, CSINodes and PriorityClasses as the core's.

use std::sync::Arc;

use headroom_core::scheduling::constraints::RequiredNodeAffinity;
use headroom_core::world::attachment::VolumeAttachment;
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::volume::{
    AccessModes, AttachLimits, ClaimSpec, CsiDriver, FreeVolume, PriorityClass, StorageCapacity,
    StorageClass, Volume, VolumeClaim,
};

use super::{class, key_of, name_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{
    self, Amounts, BIND_COMPLETED_ANNOTATION, DEFAULT_CLASS_ANNOTATION, QuantityText,
    SELECTED_NODE_ANNOTATION, SlimAttachment, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimPriorityClass,
    SlimStorageCapacity, SlimStorageClass, SlimVolume,
};

/// Labels of a volume's place, and the label of nodes that each is compared with. Source: volumezone/volume_zone.go.
const PLACE_LABELS: [(&str, &str); 4] = [
    (ZONE_LABEL, ZONE_LABEL),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", ZONE_LABEL),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
];
/// Between the zones of a volume that is in several. Source: component-helpers, volume/helpers/zones.go.
const ZONE_DELIMITER: &str = "__";

/// A claim.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn claim(slim: &SlimClaim, decoder: &mut Decoder) -> Result<VolumeClaim, Error> {
    let meta = &slim.metadata;
    let annotation = |key: &str| meta.annotations.as_ref()?.get(key).map(String::as_str);
    let volume = slim.spec.volume_name.as_deref().filter(|name| !name.is_empty());
    Ok(VolumeClaim {
        key: key_of(meta, decoder)?,
        spec: claim_spec(&slim.spec, decoder)?,
        volume: volume.map(|name| decoder.text(name)),
        bound: volume.is_some() && annotation(BIND_COMPLETED_ANNOTATION).is_some(),
        selected_node: annotation(SELECTED_NODE_ANNOTATION).map(|node| decoder.text(node)),
        unusable: meta.deletion_timestamp.is_some() || slim.status.phase == "Lost",
    })
}

/// Converts the spec of a claim, or of a claim's template.
///
/// # Errors
/// If a quantity or a selector cannot be read.
pub fn claim_spec(slim: &slim::ClaimSpec, decoder: &mut Decoder) -> Result<Arc<ClaimSpec>, Error> {
    let requests = slim.resources.as_ref().map(|needs| &needs.requests);
    let spec = ClaimSpec {
        storage_class: slim.storage_class_name.as_deref().map(|name| decoder.text(name)),
        access: AccessModes::of(slim.access_modes.iter().map(String::as_str)),
        request_bytes: requests.map_or(Ok(0), |requests| storage_bytes(requests, decoder))?,
        block: slim.volume_mode.as_deref() == Some("Block"),
        selector: slim.selector.as_ref().map(|selector| class::selector(selector, decoder)).transpose()?,
    };
    Ok(decoder.claim_spec(spec))
}

fn storage_bytes(amounts: &Amounts, decoder: &mut Decoder) -> Result<i64, Error> {
    Ok(decoder.resources(amounts)?.extended("storage"))
}

/// A volume.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn volume(slim: &SlimVolume, decoder: &mut Decoder) -> Result<Volume, Error> {
    let (meta, spec) = (&slim.metadata, &slim.spec);
    let free =
        spec.claim_ref.is_none() && meta.deletion_timestamp.is_none() && slim.status.phase == "Available";
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let node_affinity: Option<RequiredNodeAffinity> =
        required.map(|required| class::node_terms(required, decoder)).transpose()?;
    let mut zones = Vec::new();
    for (label, key) in PLACE_LABELS {
        let Some(value) = meta.labels.as_ref().and_then(|labels| labels.get(label)) else { continue };
        let values = value.split(ZONE_DELIMITER).map(|zone| decoder.text(zone.trim())).collect();
        zones.push((decoder.text(key), values));
    }
    Ok(Volume {
        name: name_of(meta, decoder)?,
        node_affinity: node_affinity.map(|affinity| decoder.node_affinity(affinity)),
        zones,
        csi: spec.csi.as_ref().map(|csi| (decoder.text(&csi.driver), Arc::from(&*csi.volume_handle))),
        free: match free {
            true => Some(Arc::new(FreeVolume {
                storage_class: decoder.text(&spec.storage_class_name),
                access: AccessModes::of(spec.access_modes.iter().map(String::as_str)),
                capacity_bytes: storage_bytes(&spec.capacity, decoder)?,
                block: spec.volume_mode.as_deref() == Some("Block"),
                labels: decoder.labels(meta.labels.iter().flatten()),
            })),
            false => None,
        },
    })
}

/// A storage class.
///
/// # Errors
/// If it has no name.
pub fn storage_class(slim: &SlimStorageClass, decoder: &mut Decoder) -> Result<StorageClass, Error> {
    let annotations = slim.metadata.annotations.as_ref();
    let marked = annotations.and_then(|all| all.get(DEFAULT_CLASS_ANNOTATION));
    let topologies = slim.allowed_topologies.iter().map(|term| {
        let pairs = term.match_label_expressions.iter();
        pairs.map(|pair| (decoder.text(&pair.key), decoder.list(&pair.values))).collect()
    });
    let topologies = topologies.collect();
    Ok(StorageClass {
        name: name_of(&slim.metadata, decoder)?,
        provisioner: decoder.text(&slim.provisioner),
        waits_for_consumer: slim.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        topologies,
        is_default: marked.is_some_and(|word| word == "true"),
    })
}

/// The drivers of a node, with the limits that they report.
pub fn attach_limits(slim: &SlimCsiNode, decoder: &mut Decoder) -> AttachLimits {
    let drivers = slim.spec.drivers.iter().map(|driver| {
        let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
        (decoder.text(&driver.name), count.map(|count| u32::try_from(count).unwrap_or(0)))
    });
    drivers.collect()
}

/// A CSIDriver.
pub fn csi_driver(slim: &SlimCsiDriver) -> CsiDriver {
    CsiDriver {
        reports_capacity: slim.spec.storage_capacity,
        required: slim.spec.prevent_pod_scheduling_if_missing,
    }
}

/// The free capacity that a driver reports.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn storage_capacity(slim: &SlimStorageCapacity, decoder: &mut Decoder) -> Result<StorageCapacity, Error> {
    let largest = slim.maximum_volume_size.as_ref().or(slim.capacity.as_ref());
    let amount = |size: &QuantityText| Amounts::from([("storage".to_owned(), size.clone())]);
    let nodes = slim.node_topology.as_ref();
    Ok(StorageCapacity {
        key: key_of(&slim.metadata, decoder)?,
        storage_class: decoder.text(&slim.storage_class_name),
        nodes: nodes.map(|nodes| class::selector(nodes, decoder)).transpose()?,
        largest_bytes: largest.map(|size| storage_bytes(&amount(size), decoder)).transpose()?,
    })
}

/// What is attached to a node; `None` for a volume without a name.
///
/// # Errors
/// If it has no name.
pub fn attachment(slim: &SlimAttachment, decoder: &mut Decoder) -> Result<Option<VolumeAttachment>, Error> {
    let name = name_of(&slim.metadata, decoder)?;
    let volume = slim.spec.source.persistent_volume_name.as_deref();
    Ok(volume.map(|volume| VolumeAttachment {
        name,
        node: decoder.text(&slim.spec.node_name),
        volume: decoder.text(volume),
    }))
}

/// A priority class.
pub fn priority_class(slim: &SlimPriorityClass) -> PriorityClass {
    PriorityClass { value: slim.value, is_default: slim.global_default }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_bound_when_the_binding_is_complete() {
        let mut object = json!({"metadata": {"namespace": "shop", "name": "data"},
            "spec": {"volumeName": "pv-1", "accessModes": ["ReadWriteOncePod"],
                "storageClassName": "", "resources": {"requests": {"storage": "10Gi"}}}});
        let read = |object: &serde_json::Value| {
            let slim: SlimClaim = serde_json::from_value(object.clone()).expect("a claim");
            claim(&slim, &mut Decoder::default()).expect("understood")
        };
        let prebound = read(&object);
        assert_eq!((prebound.volume.as_deref(), prebound.bound), (Some("pv-1"), false));
        assert_eq!(
            (prebound.spec.request_bytes, prebound.spec.storage_class.as_deref()),
            (10 << 30, Some(""))
        );
        assert_eq!(prebound.spec.access, AccessModes::READ_WRITE_ONCE_POD);
        object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        assert!(read(&object).bound);
    }

    #[test]
    fn a_volume_in_several_zones_is_reached_from_each() {
        let slim: SlimVolume = serde_json::from_value(json!({
            "metadata": {"name": "pv", "labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}},
            "spec": {"csi": {"driver": "ebs", "volumeHandle": "vol-1"}, "claimRef": {"name": "data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}))
        .expect("a volume");
        let volume = volume(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!(volume.zones, [(Arc::from(ZONE_LABEL), vec![Arc::from("a"), Arc::from("b")])]);
        assert_eq!(volume.node_affinity.expect("terms").terms.len(), 1);
        assert_eq!(volume.csi, Some(("ebs".into(), "vol-1".into())));
        assert_eq!(volume.free, None);
    }

    #[test]
    fn classes_and_limits_are_read() {
        let slim: SlimStorageClass = serde_json::from_value(json!({
            "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "ebs", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]}))
        .expect("a class");
        let class = storage_class(&slim, &mut Decoder::default()).expect("understood");
        assert!(class.waits_for_consumer && class.is_default);
        assert_eq!(class.topologies, [[(Arc::from("zone"), vec![Arc::from("a"), Arc::from("b")])]]);
        let slim: SlimCsiNode =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "ebs", "nodeID": "i-1", "topologyKeys": null, "allocatable": {"count": 25}},
            {"name": "nfs", "nodeID": "n", "allocatable": null}]}}))
            .expect("a CSINode");
        let limits = attach_limits(&slim, &mut Decoder::default());
        assert_eq!((limits.of("ebs"), limits.of("nfs")), (Some(25), None));
        assert!(limits.names("nfs") && !limits.names("efs"), "a driver without a limit is there");
    }

    #[test]
    fn a_driver_is_required_on_nodes_only_where_it_says_so() {
        let read = |spec: serde_json::Value| {
            let object = json!({"metadata": {"name": "ebs"}, "spec": spec});
            csi_driver(&serde_json::from_value(object).expect("a CSIDriver"))
        };
        assert_eq!(
            read(json!({"preventPodSchedulingIfMissing": true})),
            CsiDriver { reports_capacity: false, required: true }
        );
        // Servers before 1.37 do not have the field.
        assert_eq!(
            read(json!({"storageCapacity": true})),
            CsiDriver { reports_capacity: true, required: false }
        );
        assert_eq!(read(json!({"preventPodSchedulingIfMissing": null})), CsiDriver::default());
    }

    #[test]
    fn largest_volume_counts_before_the_whole_room_and_no_nodes_are_not_all_nodes() {
        let mut object = json!({"metadata": {"namespace": "csi", "name": "csisc-1"}, "storageClassName": "fast",
            "nodeTopology": {"matchLabels": {"zone": "a"}}, "capacity": "1Ti", "maximumVolumeSize": "10Gi"});
        let read = |object: &serde_json::Value| {
            let slim: SlimStorageCapacity = serde_json::from_value(object.clone()).expect("a capacity");
            storage_capacity(&slim, &mut Decoder::default()).expect("understood")
        };
        let both = read(&object);
        assert_eq!((&*both.storage_class, both.largest_bytes), ("fast", Some(10 << 30)));
        assert_eq!(
            both.nodes.and_then(|nodes| nodes.match_labels.get("zone").map(str::to_owned)),
            Some("a".into())
        );
        object["maximumVolumeSize"] = json!(null);
        assert_eq!(read(&object).largest_bytes, Some(1 << 40));
        object["capacity"] = json!(null);
        object["nodeTopology"] = json!(null);
        let silent = read(&object);
        assert_eq!((silent.largest_bytes, silent.nodes), (None, None));
    }
}
