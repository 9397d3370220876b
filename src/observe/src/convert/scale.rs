//! Inputs of replica decisions from pods, workloads and HPAs, read from the wire.

use std::sync::Arc;

use headroom_core::deletion_cost::{DELETION_COST_ANNOTATION, DeletionCost, OWN_DELETION_COST_ANNOTATION};
use headroom_core::pods::input::{
    ContainerRequests, InitContainerRequests, PodPhase, PodRequests, PodSeen, ReadyCondition,
    ResourceAmounts, Scale,
};
use headroom_core::pods::moment::Moment;
use headroom_core::quantity::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{instant, key_of, owner_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{Amounts, Container, ReplicaStatus, Selector, SelectorRequirement, SlimHpa, SlimPod};
use crate::workloads::{HpaObject, ScaleSeen, Writer};

/// The earliest moment: for a condition without a time.
const EARLIEST: Moment = Moment::from_nanos(i64::MIN);

/// A pod as replica decisions see it.
///
/// # Errors
/// If it has no name, or a request of it is not a quantity.
pub fn pod_seen(slim: &SlimPod, decoder: &mut Decoder) -> Result<PodSeen, Error> {
    let key = key_of(&slim.metadata, decoder)?;
    let ready = slim.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let requests = requests(slim, decoder)?;
    Ok(PodSeen {
        name: Arc::from(&*key.name),
        phase: match slim.status.phase.as_str() {
            "Pending" | "" => PodPhase::Pending,
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            _ => PodPhase::Unknown,
        },
        deleting: slim.metadata.deletion_timestamp.is_some(),
        started_at: slim.status.start_time.as_ref().map(moment),
        ready: ready.map(|condition| ReadyCondition {
            ready: match condition.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            transition_at: condition.last_transition_time.as_ref().map_or(EARLIEST, moment),
        }),
        requests: decoder.pod_requests(requests),
        deletion_cost: deletion_cost(&slim.metadata),
    })
}

fn deletion_cost(metadata: &ObjectMeta) -> DeletionCost {
    let annotation = |key| metadata.annotations.as_ref()?.get(key).map(String::as_str);
    DeletionCost::read(annotation(DELETION_COST_ANNOTATION), annotation(OWN_DELETION_COST_ANNOTATION))
}

fn moment(time: &Time) -> Moment {
    Moment::from_jiff(time.0)
}

fn requests(slim: &SlimPod, decoder: &mut Decoder) -> Result<PodRequests, Error> {
    let mut read = |container: &Container| -> Result<ContainerRequests, Error> {
        let requests =
            container.resources.as_ref().map(|needs| amounts(&needs.requests, decoder)).transpose()?;
        Ok(ContainerRequests { name: decoder.text(&container.name), requests: requests.unwrap_or_default() })
    };
    let containers = slim.spec.containers.iter().map(&mut read).collect::<Result<_, _>>()?;
    let mut init_containers = Vec::with_capacity(slim.spec.init_containers.len());
    for container in &slim.spec.init_containers {
        let restartable = container.restart_policy.as_deref() == Some("Always");
        init_containers.push(InitContainerRequests { container: read(container)?, restartable });
    }
    let pod_level =
        slim.spec.resources.as_ref().map(|needs| amounts(&needs.requests, decoder)).transpose()?;
    Ok(PodRequests {
        containers,
        init_containers,
        pod_level,
        overhead: amounts(&slim.spec.overhead, decoder)?,
    })
}

fn amounts(wire: &Amounts, decoder: &mut Decoder) -> Result<ResourceAmounts, Error> {
    let read = |(resource, text): (&String, &crate::slim::QuantityText)| {
        let quantity = Quantity::parse(&text.0).map_err(|source| Error::Quantity {
            resource: resource.clone(),
            text: text.0.clone(),
            source,
        })?;
        Ok((decoder.text(resource), quantity))
    };
    wire.iter().map(read).collect::<Result<Vec<_>, _>>().map(ResourceAmounts)
}

/// The scale of a workload, as its scale subresource would show it.
#[must_use]
pub fn scale_seen(
    metadata: &ObjectMeta,
    replicas: Option<u32>,
    selector: Option<&Selector>,
    status: &ReplicaStatus,
    decoder: &mut Decoder,
) -> ScaleSeen {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    ScaleSeen {
        uid: uid_of(metadata),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        scale: Scale {
            spec_replicas: count(replicas.unwrap_or(1)),
            status_replicas: count(status.replicas),
            selector: selector.map(selector_text).unwrap_or_default(),
        },
        replicas_writers: writers(metadata, |subresource| subresource != Some("status")),
        owner: owner_of(metadata, decoder),
    }
}

/// A selector as the scale subresource writes it: sorted, its parts joined by commas.
///
/// Source: apimachinery pkg/labels, Requirement.String and the order of internalSelector.
#[must_use]
pub fn selector_text(selector: &Selector) -> String {
    let mut parts: Vec<(&str, String)> =
        selector.match_labels.iter().map(|(key, value)| (key.as_str(), format!("{key}={value}"))).collect();
    parts.extend(selector.match_expressions.iter().map(|one| (one.key.as_str(), requirement_text(one))));
    parts.sort_by(|a, b| a.0.cmp(b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &SelectorRequirement) -> String {
    let SelectorRequirement { key, operator, values } = requirement;
    let mut values = values.clone();
    values.sort_unstable();
    let values = values.join(",");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.clone(),
        "DoesNotExist" => format!("!{key}"),
        // It is refused when the selector is read.
        other => format!("{key} {other} ({values})"),
    }
}

/// An HPA as it was seen.
///
/// # Errors
/// If it has no name.
pub fn hpa(slim: SlimHpa, decoder: &mut Decoder) -> Result<HpaObject, Error> {
    Ok(HpaObject {
        key: key_of(&slim.metadata, decoder)?,
        uid: uid_of(&slim.metadata),
        generation: slim.metadata.generation.unwrap_or(0),
        created_at: instant(slim.metadata.creation_timestamp.as_ref()),
        deleting: slim.metadata.deletion_timestamp.is_some(),
        status_writers: writers(&slim.metadata, |subresource| subresource == Some("status")),
        resource_version: slim.metadata.resource_version.unwrap_or_default(),
        spec: slim.spec,
        observed_generation: slim.status["observedGeneration"].as_i64(),
        status: slim.status.into(),
    })
}

/// Returns the writers in the managed fields that were kept.
fn writers(metadata: &ObjectMeta, of: impl Fn(Option<&str>) -> bool) -> Vec<Writer> {
    let entries = metadata.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| of(entry.subresource.as_deref()));
    let writer = |entry: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| Writer {
        manager: entry.manager.as_deref().unwrap_or_default().into(),
        at: instant(entry.time.as_ref()),
    };
    entries.map(writer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slim::SlimDeployment;

    #[test]
    fn readiness_start_and_requests_of_a_pod_are_read() {
        let slim: SlimPod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}], "overhead": {"cpu": "10m"}},
            "status": {"phase": "Running", "startTime": "2026-11-01T00:00:05Z", "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-01T00:00:09Z"}]}
        }))
        .expect("a pod");
        let seen = pod_seen(&slim, &mut Decoder::default()).expect("understood");
        assert_eq!(
            seen.started_at.map(Moment::second),
            headroom_core::time::UnixTime::parse("2026-11-01T00:00:05Z")
        );
        assert_eq!(seen.ready.map(|ready| ready.ready), Some(Some(false)));
        assert_eq!(seen.requests.containers[0].requests.get("cpu").map(Quantity::milli), Some(100));
        assert_eq!(seen.requests.containers[0].requests.get("memory"), None);
        assert!(seen.requests.init_containers[0].restartable);
        assert_eq!(seen.requests.overhead.get("cpu").map(Quantity::milli), Some(10));
    }

    #[test]
    fn deletion_cost_of_a_pod_is_read_with_who_has_set_it() {
        let cost = |annotations: serde_json::Value| {
            let metadata = serde_json::json!({"name": "a", "namespace": "shop", "annotations": annotations});
            let slim: SlimPod =
                serde_json::from_value(serde_json::json!({"metadata": metadata})).expect("a pod");
            pod_seen(&slim, &mut Decoder::default()).expect("understood").deletion_cost
        };
        let (key, own) = ("controller.kubernetes.io/pod-deletion-cost", "headroom.dev/deletion-cost");
        assert_eq!(cost(serde_json::json!({"other": "x"})), DeletionCost::Unset);
        assert_eq!(cost(serde_json::json!({key: "7"})), DeletionCost::Foreign);
        assert_eq!(cost(serde_json::json!({key: "-1", own: "-1"})), DeletionCost::Own(-1));
    }

    #[test]
    fn scale_and_writer_of_the_replicas_of_a_deployment_are_read() {
        let slim: SlimDeployment = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [
                {"manager": "argocd", "time": "2026-11-01T00:00:05Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "kubectl", "time": "2026-11-01T00:00:06Z", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                {"manager": "kube-controller-manager", "subresource": "status", "time": "2026-11-01T00:00:07Z",
                 "fieldsV1": {"f:status": {"f:replicas": {}}}}]},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "ab", "operator": "In", "values": ["y", "x"]}]}},
            "status": {"replicas": 2}
        }))
        .expect("a Deployment");
        let (spec, mut decoder) = (&slim.spec, Decoder::default());
        let seen =
            scale_seen(&slim.metadata, spec.replicas, spec.selector.as_ref(), &slim.status, &mut decoder);
        let expected =
            Scale { spec_replicas: 3, status_replicas: 2, selector: "a=1,ab in (x,y),b=2".to_owned() };
        assert_eq!((seen.scale, &*seen.resource_version), (expected, "7"));
        let writers: Vec<&str> = seen.replicas_writers.iter().map(|writer| &*writer.manager).collect();
        assert_eq!(writers, ["argocd"]);
    }
}
