//! ResourceClaims, their templates, DeviceClasses, ResourceSlices and DeviceTaintRules as the wire has them. Specs are read into the core's
//! types as they are: these refuse fields that they do not know where such a field may decide.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::quantity::Quantity;
use headroom_core::scheduling::devices::{ClaimSpec, ClassSpec, NodeSelector, SliceSpec, TaintRuleSpec};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::nullable;

/// The version of resource.k8s.io that is read: Kubernetes has it since 1.34.
pub const DEVICE_VERSION: &str = "v1";

/// The versions in which DeviceTaintRules are read, the preferred one first: v1 is on in 1.37 without a gate of its own.
pub const TAINT_RULE_VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1alpha3"];

/// A ResourceClaim.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ResourceClaim)]
pub struct SlimResourceClaim {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// Status.
    #[serde(default, deserialize_with = "super::nullable")]
    pub status: ClaimStatus,
}

/// The part of a claim's status that decisions read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// Allocation; `None` while it has none.
    pub allocation: Option<AllocationStatus>,
    /// Consumers that may use it.
    #[serde(deserialize_with = "nullable")]
    pub reserved_for: Vec<Consumer>,
}

/// Allocation of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationStatus {
    /// The devices.
    #[serde(deserialize_with = "nullable")]
    pub devices: DeviceResults,
    /// Nodes from which they can be used.
    pub node_selector: Option<NodeSelector>,
}

/// The devices of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceResults {
    /// Each of them.
    #[serde(deserialize_with = "nullable")]
    pub results: Vec<DeviceResult>,
}

/// A device of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceResult {
    /// The request, or `request/alternative`.
    pub request: Arc<str>,
    /// The driver.
    pub driver: Arc<str>,
    /// The pool.
    pub pool: Arc<str>,
    /// The device.
    pub device: Arc<str>,
    /// True if others may hold it.
    #[serde(deserialize_with = "nullable")]
    pub admin_access: bool,
    /// Id of the share of a shared device.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    /// Amounts taken of a shared device.
    #[serde(deserialize_with = "nullable")]
    pub consumed_capacity: BTreeMap<Arc<str>, Quantity>,
}

/// Consumer that may use a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// Plural of its kind.
    pub resource: String,
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: String,
}

/// A ResourceClaimTemplate.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ResourceClaimTemplate)]
pub struct SlimClaimTemplate {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: TemplateSpec,
}

/// The spec of a ResourceClaimTemplate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// The spec of each claim.
    pub spec: ClaimSpec,
}

/// A DeviceClass.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = DeviceClass)]
pub struct SlimDeviceClass {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClassSpec,
}

/// A ResourceSlice.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ResourceSlice)]
pub struct SlimResourceSlice {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SliceSpec,
}

/// A DeviceTaintRule, in the version at place `VERSION` of [`TAINT_RULE_VERSIONS`].
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlimTaintRule<const VERSION: usize = 0> {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: TaintRuleSpec,
}

impl<const VERSION: usize> kube::Resource for SlimTaintRule<VERSION> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "DeviceTaintRule".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "resource.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        TAINT_RULE_VERSIONS[VERSION].into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "devicetaintrules".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
