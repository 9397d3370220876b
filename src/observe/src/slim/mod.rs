//! Wire types that hold only what decisions read; everything else is skipped while decoding. No rule lives here.
//!
//! A full `k8s_openapi` pod costs 27 µs and 64 KB to decode and keep; these cost a fraction, since managed fields,
//! environments, probes and images are never built. Each type lends kube its `Resource` identity from the full type.

mod affinity;
mod buffer;
mod capacity_quota;
mod device;
mod gang;
mod node;
mod pod;
mod request;
mod volume;
mod workload;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

pub use affinity::{
    Affinity, NodeSelector, NodeSelectorTerm, PodTerm, Selector, SelectorRequirement, SpreadConstraint,
    Toleration,
};
pub use buffer::{
    QuotaSpec, ScopeRequirement, ScopeSelector, SlimCapacityBuffer, SlimPodTemplate, SlimQuota,
};
pub use capacity_quota::SlimCapacityQuota;
pub use device::{
    AllocationStatus, ClaimStatus, Consumer, DEVICE_VERSION, DeviceResult, SlimClaimTemplate,
    SlimDeviceClass, SlimResourceClaim, SlimResourceSlice, SlimTaintRule, TAINT_RULE_VERSIONS, TemplateSpec,
};
pub use gang::{
    GANG_WIRES, GangConstraints, GangMinimum, GangPolicy, GangSpec, GangStatus, GangWire, SchedulingGroup,
    SlimGang, TopologyConstraint, WorkloadGroup, WorkloadRef,
};
pub use node::{SlimNamespace, SlimNode, Taint};
pub use pod::{
    Condition, Container, ContainerPort, ContainerState, DeviceClaim, Needs, PodSpec, PodStatus, PodTemplate,
    SlimPod, Volume,
};
pub use request::SlimRequest;
pub use volume::{
    BIND_COMPLETED_ANNOTATION, ClaimSpec, ClaimTemplate, DEFAULT_CLASS_ANNOTATION, EphemeralSource,
    SELECTED_NODE_ANNOTATION, SlimAttachment, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimPriorityClass,
    SlimStorageCapacity, SlimStorageClass, SlimVolume,
};
pub use workload::{
    ReplicaStatus, SlimDaemonSet, SlimDeployment, SlimDisruptionBudget, SlimHpa, SlimJob, SlimReplicaSet,
    SlimReplicationController, SlimStatefulSet,
};

use headroom_core::deletion_cost::DELETION_COST_ANNOTATION;
use headroom_core::world::gang::VOLCANO_ANNOTATION;
use headroom_core::world::node::keeps_annotation;
use headroom_core::world::request::CONSUME_ANNOTATIONS;

/// The annotation by which the kubelet marks the mirror of a static pod.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Annotations of others that decisions read, beside those that the core names.
const OTHER_ANNOTATIONS: [&str; 8] = [
    MIRROR_ANNOTATION,
    DELETION_COST_ANNOTATION,
    BIND_COMPLETED_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    DEFAULT_CLASS_ANNOTATION,
    VOLCANO_ANNOTATION,
    // Those of older writers begin like the autoscaler's own.
    CONSUME_ANNOTATIONS[0].0,
    CONSUME_ANNOTATIONS[0].1,
];

/// `null` and absence are both the default: Go writes either for an empty list.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A quantity as the API server wrote it: a string, or a bare number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = QuantityText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string or a number")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, QuantityText>;

/// The part of `metadata` that decisions read. Annotations nobody reads and managed fields are skipped unread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "M: Default + Deserialize<'de>"))]
struct SlimMeta<M = IgnoredAny> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    #[serde(default, deserialize_with = "nullable")]
    labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "kept_annotations")]
    annotations: BTreeMap<String, String>,
    owner_references: Option<Vec<OwnerReference>>,
    /// Skipped unread, unless somebody wants to know who wrote what.
    #[serde(default, deserialize_with = "nullable")]
    managed_fields: M,
}

impl<M> SlimMeta<M> {
    fn into_meta(self) -> ObjectMeta {
        ObjectMeta {
            name: self.name,
            namespace: self.namespace,
            uid: self.uid,
            resource_version: self.resource_version,
            generation: self.generation,
            creation_timestamp: self.creation_timestamp,
            deletion_timestamp: self.deletion_timestamp,
            labels: Some(self.labels),
            annotations: Some(self.annotations),
            owner_references: self.owner_references,
            ..ObjectMeta::default()
        }
    }
}

/// Decodes `metadata` into kube's type, most of it left empty.
pub(crate) fn meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(SlimMeta::<IgnoredAny>::deserialize(deserializer)?.into_meta())
}

/// As [`meta`], and besides the managed fields of those who wrote the status or `spec.replicas`: their names and times
/// without the fields.
pub(crate) fn meta_with_writers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::<Vec<WriterEntry>>::deserialize(deserializer)?;
    let entries = slim.managed_fields.iter().filter(|entry| entry.matters());
    let entries = entries.map(|entry| ManagedFieldsEntry {
        manager: entry.manager.clone(),
        time: entry.time.clone(),
        subresource: entry.subresource.clone(),
        ..ManagedFieldsEntry::default()
    });
    let managed_fields = Some(entries.collect());
    Ok(ObjectMeta { managed_fields, ..slim.into_meta() })
}

/// One entry of the managed fields, as far as it is looked at.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriterEntry {
    manager: Option<String>,
    time: Option<Time>,
    subresource: Option<String>,
    #[serde(default, rename = "fieldsV1")]
    fields: Option<OwnedFields>,
}

#[derive(Deserialize)]
struct OwnedFields {
    #[serde(default, rename = "f:spec")]
    spec: Option<OwnedSpecFields>,
}

#[derive(Deserialize)]
struct OwnedSpecFields {
    #[serde(default, rename = "f:replicas")]
    replicas: Option<IgnoredAny>,
}

impl WriterEntry {
    /// True if it is about the status or the replicas.
    fn matters(&self) -> bool {
        let replicas =
            |fields: &OwnedFields| fields.spec.as_ref().is_some_and(|spec| spec.replicas.is_some());
        self.subresource.as_deref() == Some("status") || self.fields.as_ref().is_some_and(replicas)
    }
}

/// Keeps the annotations that decisions read; the values of all others are skipped without a copy.
fn kept_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Kept;
    impl<'de> Visitor<'de> for Kept {
        type Value = BTreeMap<String, String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("annotations")
        }
        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut kept = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if keeps_annotation(&key) || OTHER_ANNOTATIONS.contains(&&*key) {
                    kept.insert(key, map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(kept)
        }
    }
    deserializer.deserialize_any(Kept)
}
