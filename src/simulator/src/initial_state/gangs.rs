//! Workloads and PodGroups as the objects that they were read from, and how pods name them.

use headroom_core::snapshot::Snapshot;
use headroom_core::world::gang::{Gang, GangKind, VOLCANO_ANNOTATION};
use headroom_core::world::pod::PodClass;
use headroom_core::world::request::CONSUME_ANNOTATIONS;
use serde_json::{Map, Value, json};

use super::words::pruned;
use super::{InitialState, metadata};
use crate::store::Kind;

/// Adds the objects that make pods a gang.
pub(super) fn add(snapshot: &Snapshot, initial_state: &mut InitialState) {
    for gang in &snapshot.world.gangs {
        let kind = match gang.kind {
            GangKind::PodGroup => Kind::PodGroup,
            GangKind::Workload => Kind::Workload,
            GangKind::Coscheduling => Kind::CoschedulingPodGroup,
            GangKind::Volcano => Kind::VolcanoPodGroup,
        };
        initial_state.objects.push((kind, manifest(gang)));
    }
}

fn manifest(gang: &Gang) -> Value {
    let policy = |min: u32| match min {
        0 => json!({"basic": {}}),
        min => json!({"gang": {"minCount": min}}),
    };
    let only = gang.minimums.get("").copied().unwrap_or(0);
    let spec = match gang.kind {
        GangKind::PodGroup => pruned(json!({
            "schedulingPolicy": policy(only),
            "disruptionMode": gang.disrupted_at_once.then(|| json!({"all": {}})),
            "schedulingConstraints": gang.topology_key.as_ref().map(|key| json!({"topology": [{"key": key}]})),
        })),
        GangKind::Workload => {
            let groups = gang.minimums.iter();
            let groups: Vec<Value> =
                groups.map(|(name, min)| json!({"name": name, "policy": policy(*min)})).collect();
            json!({"podGroups": groups})
        }
        GangKind::Coscheduling | GangKind::Volcano => json!({"minMember": only}),
    };
    let uid = format!("gang-{}-{}-{}", gang.kind.resource(), gang.key.namespace, gang.key.name);
    let mut metadata = metadata(&gang.key, &uid);
    metadata["creationTimestamp"] = json!(gang.created_at.to_rfc3339());
    json!({"metadata": metadata, "spec": spec, "status": {"succeeded": gang.done_count}})
}

/// Puts the references of a pod to its gang and to its ProvisioningRequest into a template. A label is among the pod's
/// labels already.
pub(super) fn refer(class: &PodClass, template: &mut Value) {
    if let Some(request) = &class.request {
        let (name, class_name) = CONSUME_ANNOTATIONS[0];
        annotate(template, name, &request.name);
        if !request.class.is_empty() {
            annotate(template, class_name, &request.class);
        }
    }
    let Some(gang) = &class.gang else { return };
    match gang.kind {
        GangKind::PodGroup => template["spec"]["schedulingGroup"] = json!({"podGroupName": gang.name}),
        GangKind::Workload => {
            let replica = (!gang.replica.is_empty()).then(|| gang.replica.clone());
            template["spec"]["workloadRef"] =
                pruned(json!({"name": gang.name, "podGroup": gang.group, "podGroupReplicaKey": replica}));
        }
        GangKind::Coscheduling => {}
        GangKind::Volcano => annotate(template, VOLCANO_ANNOTATION, &gang.name),
    }
}

fn annotate(template: &mut Value, name: &str, value: &str) {
    let annotations = &mut template["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[name] = json!(value);
}
