//! CapacityBuffers and their PodTemplates as the objects that they were read from.

use headroom_core::snapshot::Snapshot;
use headroom_core::world::buffer::{BufferSource, CapacityBuffer};
use serde_json::{Value, json};

use super::words::pruned;
use super::{InitialState, metadata, pods};
use crate::store::Kind;

/// Adds the buffers that the simulation can hold. Deployments are not in a snapshot, and nobody counts for quotas.
pub(super) fn add(snapshot: &Snapshot, initial_state: &mut InitialState) {
    let Some(record) = &snapshot.world.standby else { return };
    for template in &record.templates {
        let Some(class) = snapshot.world.classes.get(template.class) else { continue };
        let uid = format!("template-{}-{}", template.key.namespace, template.key.name);
        let pods = pods::template(class, &template.key.name, &template.priority_class);
        let manifest = json!({"metadata": metadata(&template.key, &uid), "template": pods});
        initial_state.objects.push((Kind::PodTemplate, manifest));
    }
    let of_deployment = |buffer: &&CapacityBuffer| matches!(&buffer.source, BufferSource::Workload { kind, .. } if &**kind == "Deployment");
    let left_out = record.buffers.iter().filter(of_deployment).count();
    if left_out > 0 {
        initial_state.notes.push(format!("CapacityBuffers of Deployments are left out: {left_out}"));
    }
    if !record.quotas.is_empty() {
        let quotas = record.quotas.len();
        initial_state.notes.push(format!("ResourceQuotas are left out: {quotas}"));
    }
    for buffer in record.buffers.iter().filter(|buffer| !of_deployment(buffer)) {
        initial_state.objects.push((Kind::CapacityBuffer, manifest(buffer)));
    }
}

fn manifest(buffer: &CapacityBuffer) -> Value {
    let template = match &buffer.source {
        BufferSource::Template(name) => Some(json!({"name": name})),
        BufferSource::None | BufferSource::Workload { .. } => None,
    };
    let workload = match &buffer.source {
        BufferSource::Workload { group, kind, name } => {
            Some(json!({"apiGroup": group, "kind": kind, "name": name}))
        }
        BufferSource::None | BufferSource::Template(_) => None,
    };
    let amount = |(name, amount): (&std::sync::Arc<str>, &i64)| {
        let unit = if &**name == "cpu" { "m" } else { "" };
        (name.to_string(), Value::from(format!("{amount}{unit}")))
    };
    let limits: serde_json::Map<String, Value> = buffer.limits.iter().map(amount).collect();
    let mut metadata = metadata(&buffer.key, &buffer.uid);
    metadata["creationTimestamp"] = json!(buffer.created_at.to_rfc3339());
    pruned(json!({
        "metadata": metadata,
        "spec": {
            "provisioningStrategy": buffer.strategy, "podTemplateRef": template, "scalableRef": workload,
            "replicas": buffer.replicas, "percentage": buffer.percentage,
            "limits": (!limits.is_empty()).then_some(limits),
        },
    }))
}
