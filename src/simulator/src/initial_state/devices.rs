//! Objects of resource.k8s.io as they were read, and how pods name their claims.

use headroom_core::scheduling::devices::AllocatedDevice;
use headroom_core::snapshot::Snapshot;
use headroom_core::world::devices::{DeviceClaimSource, PodDeviceClaim, ResourceClaim};
use serde_json::{Value, json};

use super::words::pruned;
use super::{InitialState, metadata};
use crate::store::Kind;

/// Adds classes, slices, templates and claims.
pub(super) fn add(snapshot: &Snapshot, initial_state: &mut InitialState) {
    let Some(devices) = &snapshot.world.devices else { return };
    let classes =
        devices.classes.iter().map(|class| (Kind::DeviceClass, named(&class.name, &json!(class.spec))));
    let slices =
        devices.slices.iter().map(|slice| (Kind::ResourceSlice, named(&slice.name, &json!(slice.spec))));
    let templates = devices.templates.iter().map(|template| {
        let uid = format!("claim-template-{}-{}", template.key.namespace, template.key.name);
        let spec = json!({"spec": template.spec});
        (Kind::ResourceClaimTemplate, json!({"metadata": metadata(&template.key, &uid), "spec": spec}))
    });
    let claims = devices.claims.iter().map(|claim| (Kind::ResourceClaim, manifest(claim)));
    let rules = devices.taint_rules.iter();
    let rules = rules.map(|rule| (Kind::DeviceTaintRule, named(&rule.name, &json!(rule.spec))));
    initial_state.objects.extend(classes.chain(slices).chain(rules).chain(templates).chain(claims));
}

fn named(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("device-{name}")}, "spec": spec})
}

fn manifest(claim: &ResourceClaim) -> Value {
    let uid = format!("claim-{}-{}", claim.key.namespace, claim.key.name);
    let allocation = claim.allocation.as_ref().map(|allocation| {
        let results: Vec<Value> = allocation.devices.iter().map(result).collect();
        let selector = allocation.node_selector.as_ref().map(|term| json!({"nodeSelectorTerms": [term]}));
        json!({"devices": {"results": results}, "nodeSelector": selector})
    });
    let users = claim.users.iter().map(|user| {
        let resource = if user.pod { "pods" } else { "podgroups" };
        json!({"resource": resource, "name": user.name, "uid": user.uid})
    });
    let mut object = json!({"metadata": metadata(&claim.key, &uid), "spec": claim.spec,
        "status": {"allocation": allocation, "reservedFor": users.collect::<Vec<_>>()}});
    if claim.deleting {
        object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:01Z");
    }
    object
}

fn result(device: &AllocatedDevice) -> Value {
    pruned(json!({"request": device.request, "driver": device.id.driver, "pool": device.id.pool,
        "device": device.id.device, "adminAccess": device.admin_access,
        "shareID": device.shared.then_some("shared"), "consumedCapacity": device.consumed_capacity}))
}

/// A claim as the spec of a pod names it.
pub(super) fn reference(claim: &PodDeviceClaim) -> Value {
    match &claim.source {
        DeviceClaimSource::Claim(named) => json!({"name": claim.name, "resourceClaimName": named}),
        DeviceClaimSource::Template(named) => {
            json!({"name": claim.name, "resourceClaimTemplateName": named})
        }
    }
}
