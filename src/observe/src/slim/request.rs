//! ProvisioningRequests as the wire has them.

use std::borrow::Cow;

use headroom_api::provisioning_request::{GROUP, KIND, PLURAL, VERSIONS};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// A ProvisioningRequest: spec and status raw, so that a strange one is reported and never lost. `BETA`: of the older
/// version.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SlimRequest<const BETA: bool = false> {
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

impl<const BETA: bool> kube::Resource for SlimRequest<BETA> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSIONS[usize::from(BETA)].into()
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
