//! ResourceClaims and DeviceClasses of resource.k8s.io/v1, in Kubernetes' words. Data only.
//!
//! A request with a field that is not here is refused when it is read: the field may be what decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::pools::OfferedDevice;
use super::slice::or_default;
use headroom_values::quantity::Quantity;
use headroom_values::time::UnixTime;

/// A DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Its name.
    pub name: Arc<str>,
    /// Time of its creation: of two classes that serve one extended resource the newer one counts.
    #[serde(skip_serializing_if = "is_epoch")]
    pub created_at: UnixTime,
    /// Spec of the class.
    pub spec: ClassSpec,
}

fn is_epoch(time: &UnixTime) -> bool {
    *time == UnixTime::default()
}

/// The spec of a DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    /// All of them must accept a device.
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<Selector>,
    /// The extended resource that its devices serve, for pods that name no claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<Arc<str>>,
}

/// A selector of devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The expression.
    pub cel: CelSelector,
}

/// A selector as an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CelSelector {
    /// The expression over `device`.
    pub expression: Arc<str>,
}

/// A claim of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Its name.
    pub name: Arc<str>,
    /// Spec of the claim.
    pub spec: ClaimSpec,
}

/// The spec of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    /// The devices.
    pub devices: ClaimDevices,
}

/// The devices that a claim asks for. Their configuration decides nothing here and is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimDevices {
    /// Requests, in their order.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<Request>,
    /// Attributes that the devices must or must not have in common.
    #[serde(deserialize_with = "or_default")]
    pub constraints: Vec<Constraint>,
}

/// A request: exactly one thing, or the first of several that can be had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Request {
    /// Its name, unique in the claim.
    pub name: Arc<str>,
    /// The one thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<DeviceRequest>,
    /// The alternatives, best first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<DeviceRequest>,
}

/// Devices of one class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DeviceRequest {
    /// Its name among the alternatives; empty otherwise.
    pub name: Arc<str>,
    /// The class.
    pub device_class_name: Arc<str>,
    /// All of them must accept a device.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<Selector>,
    /// Some devices, or all.
    pub allocation_mode: AllocationMode,
    /// Devices wanted with `ExactCount`.
    pub count: u64,
    /// True if devices may be looked at that others hold. Alternatives have no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Taints that are tolerated.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Amounts of the device's capacity to reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityRequest>,
}

impl Default for DeviceRequest {
    fn default() -> Self {
        Self {
            name: Arc::default(),
            device_class_name: Arc::default(),
            selectors: Vec::new(),
            allocation_mode: AllocationMode::default(),
            count: 1,
            admin_access: None,
            tolerations: Vec::new(),
            capacity: None,
        }
    }
}

/// Number of devices that a request wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationMode {
    /// As many as `count`.
    #[default]
    ExactCount,
    /// All that match.
    All,
}

/// Amounts of a device's capacity to reserve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapacityRequest {
    /// Amounts by capacity.
    #[serde(deserialize_with = "or_default")]
    pub requests: BTreeMap<Arc<str>, Quantity>,
}

/// A toleration of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Toleration {
    /// The key; empty tolerates every key.
    pub key: Arc<str>,
    /// Comparison of the value.
    pub operator: TolerationOperator,
    /// The value; unused with Exists.
    pub value: Arc<str>,
    /// The effect; empty tolerates every effect.
    pub effect: Arc<str>,
    /// Time that NoExecute is tolerated, which decides nothing here.
    pub toleration_seconds: Option<i64>,
}

/// Comparison of a toleration with a taint's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// It must be equal.
    #[default]
    Equal,
    /// It may be anything.
    Exists,
}

/// An attribute that devices of a claim must or must not have in common. One of the two attributes is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Constraint {
    /// Requests, or `request/alternative`, that it is about; empty for all.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<Arc<str>>,
    /// The attribute of which all must have the same value.
    pub match_attribute: Option<Arc<str>>,
    /// The attribute of which no two may have the same value.
    pub distinct_attribute: Option<Arc<str>>,
}

impl Toleration {
    /// Source: resourceclaim/devicetoleration.go, ToleratesTaint.
    fn tolerates(&self, taint: &super::Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        effect && key && (self.operator == TolerationOperator::Exists || self.value == taint.value)
    }
}

impl DeviceRequest {
    /// The first taint of a device that keeps this request off it.
    pub(super) fn kept_off_by<'a>(&self, device: &OfferedDevice<'a>) -> Option<&'a super::Taint> {
        let effective = device.taints().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute"));
        let mut untolerated =
            effective.filter(|taint| !self.tolerations.iter().any(|one| one.tolerates(taint)));
        untolerated.next()
    }
}
