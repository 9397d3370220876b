//! ProvisioningRequests as the core's, and how a pod names the one whose room it is to take.

use std::sync::Arc;

use headroom_api::provisioning_request::{ProvisioningRequestSpec, ProvisioningRequestStatus};
use headroom_core::time::UnixTime;
use headroom_core::world::buffer::BufferCondition;
use headroom_core::world::request::{
    CONSUME_ANNOTATIONS, PodSet, ProvisioningRequest, RequestRef, RequestStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::{instant, key_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::SlimRequest;

/// A ProvisioningRequest.
///
/// # Errors
/// If it has no name. All other errors in it are its fault, for its own status to report.
pub fn request<const BETA: bool>(
    slim: &SlimRequest<BETA>,
    decoder: &mut Decoder,
) -> Result<ProvisioningRequest, Error> {
    let meta = &slim.metadata;
    let class = slim.spec.get("provisioningClassName").and_then(Value::as_str);
    let mut request = ProvisioningRequest {
        key: key_of(meta, decoder)?,
        uid: uid_of(meta),
        resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        generation: meta.generation.unwrap_or(0),
        created_at: instant(meta.creation_timestamp.as_ref()),
        deleting: meta.deletion_timestamp.is_some(),
        class: decoder.text(class.unwrap_or_default()),
        status: status(&slim.status, decoder),
        ..ProvisioningRequest::default()
    };
    match ProvisioningRequestSpec::deserialize(&slim.spec) {
        Ok(spec) => {
            if let Err(fault) = read(&spec, &mut request, decoder) {
                request.fault = Some(fault.into());
            }
        }
        Err(error) => {
            request.fault =
                Some(format!("spec cannot be read: {error}: correct it and make the request anew").into());
        }
    }
    Ok(request)
}

fn read(
    spec: &ProvisioningRequestSpec,
    request: &mut ProvisioningRequest,
    decoder: &mut Decoder,
) -> Result<(), String> {
    for (name, value) in spec.parameters.iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        request.parameters.insert(decoder.text(name), decoder.text(&text));
    }
    if spec.pod_sets.is_empty() {
        return Err(
            "spec.podSets is empty: name a PodTemplate and a count, and make the request anew".to_owned()
        );
    }
    for (place, set) in spec.pod_sets.iter().enumerate() {
        if set.pod_template_ref.name.is_empty() {
            return Err(format!(
                "spec.podSets[{place}].podTemplateRef.name is empty: name a PodTemplate of this namespace, and make the \
                 request anew"
            ));
        }
        let count = u32::try_from(set.count).ok().filter(|count| 0 < *count).ok_or_else(|| {
            format!(
                "spec.podSets[{place}].count is {}: write a whole number from 1 to {}, and make the request anew",
                set.count,
                i32::MAX
            )
        })?;
        request.pod_sets.push(PodSet { template: decoder.text(&set.pod_template_ref.name), count });
    }
    Ok(())
}

/// Reads the status; the default if it cannot be read.
fn status(value: &Value, decoder: &mut Decoder) -> RequestStatus {
    let Ok(status) = ProvisioningRequestStatus::deserialize(value) else { return RequestStatus::default() };
    let mut read = RequestStatus::default();
    for written in status.conditions {
        let changed_at = written.last_transition_time.parse::<jiff::Timestamp>().ok();
        let condition = BufferCondition {
            holds: written.status == "True",
            reason: decoder.text(&written.reason),
            message: written.message.into(),
            observed_generation: written.observed_generation,
            changed_at: changed_at.map(UnixTime::from_jiff).unwrap_or_default(),
        };
        read.conditions.insert(decoder.text(&written.type_), condition);
    }
    for (name, value) in status.provisioning_class_details {
        read.details.insert(decoder.text(&name), decoder.text(&value));
    }
    read
}

/// The request that a pod names, by the present annotations or by those of older writers.
pub fn reference(meta: &ObjectMeta, decoder: &mut Decoder) -> Option<Arc<RequestRef>> {
    let annotations = meta.annotations.as_ref()?;
    CONSUME_ANNOTATIONS.iter().find_map(|(name, class)| {
        let name = annotations.get(*name).filter(|name| !name.is_empty())?;
        let class = annotations.get(*class).map(String::as_str).unwrap_or_default();
        Some(Arc::new(RequestRef { name: decoder.text(name), class: decoder.text(class) }))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode(spec: Value, status: Value) -> ProvisioningRequest {
        let object = json!({"metadata": {"name": "train", "namespace": "shop", "uid": "u", "generation": 1,
            "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": spec, "status": status});
        let slim: SlimRequest = serde_json::from_value(object).expect("always decodes");
        request(&slim, &mut Decoder::default()).expect("it has a name")
    }

    #[test]
    fn every_field_is_read() {
        let spec = json!({"provisioningClassName": "atomic-scale-up.headroom.dev", "parameters": {"noRetry": "true"},
            "podSets": [{"podTemplateRef": {"name": "launcher"}, "count": 1}, {"podTemplateRef": {"name": "worker"}, "count": 8}]});
        let status = json!({"provisioningClassDetails": {"servedBy": "headroom"}, "conditions": [
            {"type": "Provisioned", "status": "False", "reason": "WaitingForNodes", "message": "m",
                "lastTransitionTime": "2026-11-01T00:00:00Z", "observedGeneration": 1}]});
        let read = decode(spec, status);
        assert_eq!((read.fault.clone(), &*read.class), (None, "atomic-scale-up.headroom.dev"));
        let sets: Vec<(&str, u32)> = read.pod_sets.iter().map(|set| (&*set.template, set.count)).collect();
        assert_eq!(sets, [("launcher", 1), ("worker", 8)]);
        assert_eq!(read.parameters["noRetry"].as_ref(), "true");
        let condition = &read.status.conditions["Provisioned"];
        assert_eq!((condition.holds, condition.changed_at), (false, UnixTime(1_793_491_200)));
        assert_eq!(read.status.details["servedBy"].as_ref(), "headroom");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_remedy() {
        let fault = |sets: Value| {
            let read = decode(json!({"provisioningClassName": "c.example.com", "podSets": sets}), json!({}));
            assert_eq!(&*read.class, "c.example.com");
            read.fault.map(|fault| fault.to_string()).unwrap_or_default()
        };
        assert!(fault(json!([])).starts_with("spec.podSets is empty: name"));
        let set = |name: &str, count: i64| json!([{"podTemplateRef": {"name": name}, "count": count}]);
        assert!(fault(set("w", -1)).starts_with("spec.podSets[0].count is -1: write"));
        assert!(fault(set("w", 0)).starts_with("spec.podSets[0].count is 0: write"));
        assert!(fault(set("", 1)).contains("podTemplateRef.name is empty"));
        assert!(fault(json!("many")).starts_with("spec cannot be read"));
    }

    #[test]
    fn a_pod_names_its_request_in_two_ways() {
        let named = |prefix: &str| {
            let annotations = [
                (format!("{prefix}/consume-provisioning-request"), "train".to_owned()),
                (format!("{prefix}/provisioning-class-name"), "c.example.com".to_owned()),
            ];
            let meta = ObjectMeta { annotations: Some(annotations.into()), ..ObjectMeta::default() };
            reference(&meta, &mut Decoder::default())
                .map(|found| (found.name.to_string(), found.class.to_string()))
        };
        let expected = Some(("train".to_owned(), "c.example.com".to_owned()));
        assert_eq!(named("autoscaling.x-k8s.io"), expected);
        assert_eq!(named("cluster-autoscaler.kubernetes.io"), expected);
        assert_eq!(named("example.com"), None);
    }
}
