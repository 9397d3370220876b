//! Objects of resource.k8s.io as the core's: what claims ask for and have, and what slices offer.

use std::sync::Arc;

use headroom_core::scheduling::devices::{
    AllocatedDevice, ClaimAllocation, Class, DeviceId, Slice, TaintRule,
};
use headroom_core::world::devices::{
    ClaimTemplate, ClaimUser, DeviceClaimSource, PodDeviceClaim, ResourceClaim,
};

use super::{instant, key_of, name_of};
use crate::decoder::{Decoder, Error};
use crate::partial_object::PartialObject;
use crate::slim::{
    AllocationStatus, ClaimStatus, Consumer, DeviceResult, PodSpec, SlimClaimTemplate, SlimDeviceClass,
    SlimResourceClaim, SlimResourceSlice, SlimTaintRule,
};

/// The claims of a pod, in its order. One that names neither a claim nor a template names a claim that does not exist.
pub fn claims_of(spec: &PodSpec, decoder: &mut Decoder) -> Vec<PodDeviceClaim> {
    let claims = spec.resource_claims.iter().map(|claim| {
        let source = match &claim.resource_claim_template_name {
            Some(template) => DeviceClaimSource::Template(decoder.text(template)),
            None => {
                let named = claim.resource_claim_name.as_deref().unwrap_or_default();
                DeviceClaimSource::Claim(decoder.text(named))
            }
        };
        PodDeviceClaim { name: decoder.text(&claim.name), source }
    });
    claims.collect()
}

/// A ResourceClaim.
///
/// # Errors
/// If it has no name.
pub fn claim(slim: SlimResourceClaim, decoder: &mut Decoder) -> Result<ResourceClaim, Error> {
    let ClaimStatus { allocation, reserved_for } = slim.status;
    let user = |consumer: Consumer| ClaimUser {
        pod: consumer.resource == "pods",
        name: consumer.name.into(),
        uid: consumer.uid.into(),
    };
    Ok(ResourceClaim {
        key: key_of(&slim.metadata, decoder)?,
        spec: decoder.device_claim_spec(slim.spec),
        allocation: allocation.map(|status| allocated(status, decoder)),
        users: reserved_for.into_iter().map(user).collect(),
        deleting: slim.metadata.deletion_timestamp.is_some(),
        fault: Arc::default(),
    })
}

fn allocated(status: AllocationStatus, decoder: &mut Decoder) -> ClaimAllocation {
    let device = |result: DeviceResult| AllocatedDevice {
        request: decoder.text(&result.request),
        id: DeviceId {
            driver: decoder.text(&result.driver),
            pool: decoder.text(&result.pool),
            device: decoder.text(&result.device),
        },
        admin_access: result.admin_access,
        shared: result.share_id.is_some(),
        consumed_capacity: result.consumed_capacity,
        binding_conditions: Vec::new(),
    };
    let terms = status.node_selector.map(|selector| selector.node_selector_terms);
    ClaimAllocation {
        devices: status.devices.results.into_iter().map(device).collect(),
        // The API server lets one term pass.
        node_selector: terms.and_then(|terms| terms.into_iter().next()),
    }
}

/// Substitute for a claim that cannot be read: its pods keep their nodes and buy nothing. `None` for one without a
/// name.
pub fn claim_stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<ResourceClaim> {
    let key = key_of(&partial.metadata, decoder).ok()?;
    // The pod that a claim was made for owns it.
    let owners = partial.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Pod");
    let users = owners.map(|owner| ClaimUser {
        name: owner.name.as_str().into(),
        uid: owner.uid.as_str().into(),
        pod: true,
    });
    let users = users.collect();
    Some(ResourceClaim { key, users, fault: fault(partial), ..ResourceClaim::default() })
}

/// A ResourceClaimTemplate.
///
/// # Errors
/// If it has no name.
pub fn template(slim: SlimClaimTemplate, decoder: &mut Decoder) -> Result<ClaimTemplate, Error> {
    let key = key_of(&slim.metadata, decoder)?;
    Ok(ClaimTemplate { key, spec: decoder.device_claim_spec(slim.spec.spec), fault: Arc::default() })
}

/// Substitute for a template that cannot be read: its pods buy nothing. `None` for one without a name.
pub fn template_stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<ClaimTemplate> {
    let key = key_of(&partial.metadata, decoder).ok()?;
    Some(ClaimTemplate { key, fault: fault(partial), ..ClaimTemplate::default() })
}

/// Reason why an object cannot be read; never empty.
fn fault(partial: &PartialObject) -> Arc<str> {
    if partial.error.is_empty() { "it cannot be read".into() } else { partial.error.as_str().into() }
}

/// A DeviceClass.
///
/// # Errors
/// If it has no name.
pub fn class(slim: SlimDeviceClass, decoder: &mut Decoder) -> Result<Class, Error> {
    let created_at = instant(slim.metadata.creation_timestamp.as_ref());
    Ok(Class { name: name_of(&slim.metadata, decoder)?, created_at, spec: slim.spec })
}

/// A ResourceSlice.
///
/// # Errors
/// If it has no name.
pub fn slice(slim: SlimResourceSlice, decoder: &mut Decoder) -> Result<Slice, Error> {
    Ok(Slice { name: name_of(&slim.metadata, decoder)?, spec: slim.spec })
}

/// A DeviceTaintRule.
///
/// # Errors
/// If it has no name.
pub fn taint_rule<const VERSION: usize>(
    slim: SlimTaintRule<VERSION>,
    decoder: &mut Decoder,
) -> Result<TaintRule, Error> {
    Ok(TaintRule { name: name_of(&slim.metadata, decoder)?, spec: slim.spec })
}

#[cfg(test)]
mod tests {
    use headroom_core::scheduling::devices::AllocationMode;
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<ResourceClaim, String> {
        let slim: SlimResourceClaim =
            serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
        claim(slim, &mut Decoder::default()).map_err(|error| error.to_string())
    }

    fn wire() -> Value {
        json!({"metadata": {"name": "gpu", "namespace": "ai", "uid": "u"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com",
                "allocationMode": "ExactCount", "count": 2}}], "config": [{"opaque": {"driver": "x"}}]}},
            "status": {"allocation": {"devices": {"results": [
                {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}},
                "reservedFor": [{"resource": "pods", "name": "train", "uid": "p"}]}})
    }

    #[test]
    fn a_claim_says_what_it_wants_has_and_who_uses_it() {
        let claim = read(&wire()).expect("a claim");
        let wanted = claim.spec.devices.requests[0].exactly.as_ref().expect("exact");
        assert_eq!((wanted.count, wanted.allocation_mode), (2, AllocationMode::ExactCount));
        let allocation = claim.allocation.expect("allocated");
        assert_eq!(&*allocation.devices[0].id.device, "gpu-0");
        assert_eq!(&*allocation.node_selector.expect("of a node").match_fields[0].values[0], "n1");
        assert_eq!((&*claim.users[0].name, claim.users[0].pod), ("train", true));
    }

    #[test]
    fn a_request_with_an_unknown_field_is_refused_by_its_name_and_stands_in_unread() {
        let mut value = wire();
        value["spec"]["devices"]["requests"][0]["exactly"]["nodeAllocatable"] = json!(true);
        let error = read(&value).expect_err("the field may decide");
        assert!(error.contains("nodeAllocatable"), "{error}");
        let partial = PartialObject::of(&value, &error);
        let claim = claim_stand_in(&partial, &mut Decoder::default()).expect("it has a name");
        assert_eq!((&*claim.key.name, &*claim.fault), ("gpu", &*error));
    }

    #[test]
    fn names_of_generated_claims_are_no_part_of_a_class() {
        let spec = |claims: Value| -> PodSpec {
            serde_json::from_value(json!({"containers": [], "resourceClaims": claims})).expect("a spec")
        };
        let decoder = &mut Decoder::default();
        let own = spec(json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
            {"name": "net", "resourceClaimName": "shared"}, {"name": "odd"}]));
        let sources: Vec<_> = claims_of(&own, decoder).into_iter().map(|claim| claim.source).collect();
        let claimed = |name: &str| DeviceClaimSource::Claim(name.into());
        let expected = vec![DeviceClaimSource::Template("one-gpu".into()), claimed("shared"), claimed("")];
        assert_eq!(sources, expected);
    }

    #[test]
    fn a_slice_is_read_with_null_lists_and_refused_with_lists_of_values() {
        let slice = |devices: Value| -> Result<SlimResourceSlice, String> {
            let value = json!({"metadata": {"name": "s"}, "spec": {"driver": "gpu.example.com", "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}, "devices": devices}});
            serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
        };
        let read = slice(json!([{"name": "gpu-0", "attributes": null, "taints": [
            {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-11-01T00:00:00Z"}]}]));
        assert_eq!(read.expect("a slice").spec.devices[0].taints.len(), 1);
        let lists = json!([{"name": "gpu-0", "attributes": {"links": {"strings": ["a"]}}}]);
        assert!(slice(lists).expect_err("not simulated").contains("strings"));
    }
}
