//! ProvisioningRequests: room for pods that do not exist yet, asked for as a whole. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::world::buffer::BufferCondition;
use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

/// Our class that only answers whether all pods fit now.
pub const OWN_CHECK_CLASS: &str = "check-capacity.headroom.dev";
/// Our class that buys what is missing, or nothing.
pub const OWN_ATOMIC_CLASS: &str = "atomic-scale-up.headroom.dev";
/// The class of Cluster Autoscaler that only answers whether all pods fit now.
pub const CHECK_CLASS: &str = "check-capacity.autoscaling.x-k8s.io";
/// The class of Cluster Autoscaler that buys what is missing, or nothing.
pub const ATOMIC_CLASS: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";

/// The detail by which a request names the operator that serves it.
pub const SERVED_BY: &str = "servedBy";
/// Its value for this operator.
pub const HEADROOM: &str = "headroom";

/// Annotations by which a pod names its request and the request's class: the present ones, and those of older writers.
pub const CONSUME_ANNOTATIONS: [(&str, &str); 2] = [
    ("autoscaling.x-k8s.io/consume-provisioning-request", "autoscaling.x-k8s.io/provisioning-class-name"),
    (
        "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
        "cluster-autoscaler.kubernetes.io/provisioning-class-name",
    ),
];

/// A ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningRequest {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// Version of the object as it was seen last. A write of its status names it, so that no stale view takes an answer back.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Arc<str>,
    /// Number of edits of its spec.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created_at: UnixTime,
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// `spec.provisioningClassName`.
    pub class: Arc<str>,
    /// `spec.podSets`.
    pub pod_sets: Vec<PodSet>,
    /// `spec.parameters`.
    pub parameters: BTreeMap<Arc<str>, Arc<str>>,
    /// Error in its spec, and the text to write instead; `None` if it is valid.
    pub fault: Option<Arc<str>>,
    /// Its status as it was seen last: all that is remembered of it.
    pub status: RequestStatus,
}

/// Pods of one shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSet {
    /// Name of a PodTemplate of the same namespace.
    pub template: Arc<str>,
    /// Number.
    pub count: u32,
}

/// The status of a ProvisioningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestStatus {
    /// Conditions by type.
    pub conditions: BTreeMap<Arc<str>, BufferCondition>,
    /// `provisioningClassDetails`.
    pub details: BTreeMap<Arc<str>, Arc<str>>,
}

impl RequestStatus {
    /// Time at which the condition of this type became true; `None` while it is not.
    #[must_use]
    pub fn since(&self, kind: &str) -> Option<UnixTime> {
        self.conditions.get(kind).filter(|condition| condition.holds).map(|condition| condition.changed_at)
    }
}

/// The request whose room a pod is to take.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRef {
    /// Its name, in the pod's namespace.
    pub name: Arc<str>,
    /// Its class as the pod has it; empty if it names none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub class: Arc<str>,
}

/// Everything about requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// ProvisioningRequests.
    pub objects: BTreeMap<ObjectKey, ProvisioningRequest>,
    /// Requests that another controller writes: they are left alone.
    pub of_others: BTreeSet<ObjectKey>,
}
