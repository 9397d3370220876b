//! CapacityBuffers, PodTemplates and ResourceQuotas as the wire has them. Environments of templates are never read.

use std::borrow::Cow;

use headroom_api::capacity_buffer::{GROUP, KIND, PLURAL, VERSIONS};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PodTemplate as FullPodTemplate, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::{Amounts, PodTemplate, nullable};

/// A CapacityBuffer: spec and status raw, so that a strange one is reported and never lost. `ALPHA`: of the older version.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlimCapacityBuffer<const ALPHA: bool = false> {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Value,
    /// Status.
    #[serde(default)]
    pub status: Value,
}

impl<const ALPHA: bool> kube::Resource for SlimCapacityBuffer<ALPHA> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSIONS[usize::from(ALPHA)].into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A PodTemplate.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = FullPodTemplate)]
pub struct SlimPodTemplate {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Template of its pods.
    #[serde(default)]
    pub template: PodTemplate,
}

/// A ResourceQuota.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ResourceQuota)]
pub struct SlimQuota {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: QuotaSpec,
    /// Status.
    #[serde(default)]
    pub status: QuotaStatus,
}

/// The spec of a ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaSpec {
    /// Most of each amount.
    #[serde(deserialize_with = "nullable")]
    pub hard: Amounts,
    /// Pods that it counts, by name of a scope.
    #[serde(deserialize_with = "nullable")]
    pub scopes: Vec<String>,
    /// The same with operators.
    #[serde(deserialize_with = "nullable")]
    pub scope_selector: ScopeSelector,
}

/// Scopes with operators.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// All of them must match.
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<ScopeRequirement>,
}

/// One scope with its operator.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeRequirement {
    /// Name of the scope.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

/// The status of a ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    /// Most of each amount, as enforced.
    #[serde(deserialize_with = "nullable")]
    pub hard: Amounts,
    /// In use.
    #[serde(deserialize_with = "nullable")]
    pub used: Amounts,
}
