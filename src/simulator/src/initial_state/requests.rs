//! ProvisioningRequests and their PodTemplates as the objects that they were read from.

use headroom_core::snapshot::Snapshot;
use headroom_core::world::request::ProvisioningRequest;
use serde_json::{Value, json};

use super::{InitialState, metadata, pods};
use crate::store::Kind;

/// Adds the requests with the templates that they name.
pub(super) fn add(snapshot: &Snapshot, initial_state: &mut InitialState) {
    let world = &snapshot.world;
    let known: Vec<&headroom_core::labels::ObjectKey> =
        world.standby.iter().flat_map(|record| &record.templates).map(|template| &template.key).collect();
    for template in world.request_templates.iter().filter(|template| !known.contains(&&template.key)) {
        let Some(class) = world.classes.get(template.class) else { continue };
        let uid = format!("template-{}-{}", template.key.namespace, template.key.name);
        let pods = pods::template(class, &template.key.name, &template.priority_class);
        let manifest = json!({"metadata": metadata(&template.key, &uid), "template": pods});
        initial_state.objects.push((Kind::PodTemplate, manifest));
    }
    for request in &world.requests {
        initial_state.objects.push((Kind::ProvisioningRequest, manifest(request)));
    }
}

fn manifest(request: &ProvisioningRequest) -> Value {
    let sets = request.pod_sets.iter();
    let sets = sets.map(|set| json!({"podTemplateRef": {"name": set.template}, "count": set.count}));
    let conditions = request.status.conditions.iter().map(|(kind, condition)| {
        json!({"type": kind, "status": if condition.holds { "True" } else { "False" }, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": condition.changed_at.to_rfc3339(),
            "observedGeneration": condition.observed_generation})
    });
    let mut metadata = metadata(&request.key, &request.uid);
    metadata["creationTimestamp"] = json!(request.created_at.to_rfc3339());
    json!({
        "metadata": metadata,
        "spec": {
            "provisioningClassName": request.class, "podSets": sets.collect::<Vec<_>>(),
            "parameters": request.parameters,
        },
        "status": {
            "conditions": conditions.collect::<Vec<_>>(), "provisioningClassDetails": request.status.details,
        },
    })
}
