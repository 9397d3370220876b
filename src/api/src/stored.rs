//! Our custom resources as they are stored: read and written whole and raw, so that a broken one is never lost.

use std::fmt::Debug;
use std::sync::Arc;

use headroom_core::time::UnixTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json_text::JsonText;

use super::{
    ClusterScalingPolicy, ClusterScalingPolicySpec, ClusterScalingPolicyStatus, NodePool, NodePoolSpec,
    NodePoolStatus, ScalingPolicy, ScalingPolicySpec, ScalingPolicyStatus, Scorecard, ScorecardSpec,
    ScorecardStatus,
};

/// A custom resource as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject<S> {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Unique id.
    pub uid: Arc<str>,
    /// The version that a write of its status must name (design rule 3).
    pub resource_version: String,
    /// Counts edits of the spec.
    pub generation: i64,
    /// Time at which it was made.
    pub created_at: UnixTime,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// The unique id of the object that controls it by an owner reference.
    pub controller_uid: Option<Arc<str>>,
    /// True if it carries the label of objects that the operator keeps itself.
    pub managed: bool,
    /// The spec, or why it cannot be read: such an object is reported, never lost.
    pub spec: Result<S, String>,
    /// The status as it stands, to be read entry by entry: one that is not understood must not cost the others.
    pub status: JsonText,
}

/// One of our kinds as it is on the wire.
pub trait Stored: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// Spec as a user writes it.
    type Spec: DeserializeOwned;
    /// Status as the operator writes it.
    type Status: Serialize;

    /// The object with its spec decoded as far as it can be.
    fn read(self) -> PolicyObject<Self::Spec>;
}

/// Declares a kind on the wire: it always decodes, whatever its spec holds.
macro_rules! stored {
    ($(#[doc = $doc:literal])+ $name:ident, $kind:ident, $spec:ident, $status:ident) => {
        $(#[doc = $doc])+
        #[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
        #[resource(inherit = $kind)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Group and version; items of a list have none.
            #[serde(default)]
            pub api_version: String,
            /// Kind; items of a list have none.
            #[serde(default)]
            pub kind: String,
            /// Metadata.
            pub metadata: ObjectMeta,
            /// Spec.
            #[serde(default)]
            pub spec: Value,
            /// Status.
            #[serde(default)]
            pub status: Value,
        }

        impl Stored for $name {
            type Spec = $spec;
            type Status = $status;

            fn read(self) -> PolicyObject<$spec> {
                PolicyObject::read(self.metadata, self.spec, self.status)
            }
        }
    };
}

stored!(
    /// A NodePool on the wire.
    StoredNodePool, NodePool, NodePoolSpec, NodePoolStatus
);
stored!(
    /// A ClusterScalingPolicy on the wire.
    StoredClusterScalingPolicy, ClusterScalingPolicy, ClusterScalingPolicySpec, ClusterScalingPolicyStatus
);
stored!(
    /// A ScalingPolicy on the wire.
    StoredScalingPolicy, ScalingPolicy, ScalingPolicySpec, ScalingPolicyStatus
);

stored!(
    /// A Scorecard on the wire.
    StoredScorecard, Scorecard, ScorecardSpec, ScorecardStatus
);

/// Label of the objects that the operator keeps itself, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "headroom");

impl<S: for<'de> Deserialize<'de>> PolicyObject<S> {
    /// The object with its spec decoded as far as it can be.
    #[must_use]
    pub fn read(metadata: ObjectMeta, spec: Value, status: Value) -> Self {
        let created_at = metadata.creation_timestamp.as_ref();
        Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or(0),
            created_at: created_at.map(|time| UnixTime::from_jiff(time.0)).unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            controller_uid: (metadata.owner_references.iter().flatten())
                .find(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.as_str().into()),
            managed: (metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0)))
                .is_some_and(|value| value == MANAGED_BY.1),
            resource_version: metadata.resource_version.unwrap_or_default(),
            spec: S::deserialize(spec).map_err(|error| error.to_string()),
            status: status.into(),
        }
    }
}
