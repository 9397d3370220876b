//! CapacityQuotas as the wire has them.

use std::borrow::Cow;

use headroom_api::capacity_quota::{GROUP, KIND, PLURAL, VERSIONS};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// A CapacityQuota: spec and status raw, so that a strange one is reported and never lost. `ALPHA`: of the older version.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlimCapacityQuota<const ALPHA: bool = false> {
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

impl<const ALPHA: bool> kube::Resource for SlimCapacityQuota<ALPHA> {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

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
