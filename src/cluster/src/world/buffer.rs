//! CapacityBuffers and what their size and shape follow from: templates, Deployments and quotas. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::world::pod::PodClass;
use crate::world::workload::PrioritySource;
use headroom_values::labels::ObjectKey;
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// The provisioning strategy of a CapacityBuffer that names none.
pub const DEFAULT_STRATEGY: &str = "buffer.x-k8s.io/active-capacity";
/// The provisioning strategy that asks for this operator.
pub const OWN_STRATEGY: &str = "headroom.dev/active-capacity";

/// A CapacityBuffer: room for so many pods of one shape, kept free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBuffer {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// Number of edits of its spec.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created_at: UnixTime,
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// `spec.provisioningStrategy`; [`DEFAULT_STRATEGY`] when absent.
    pub strategy: Arc<str>,
    /// The source of its shape.
    pub source: BufferSource,
    /// `spec.replicas`.
    pub replicas: Option<u32>,
    /// `spec.percentage`, of the pods that its workload has.
    pub percentage: Option<u32>,
    /// `spec.limits`: cpu in milli-cores, all others in whole units. Empty for none.
    pub limits: BTreeMap<Arc<str>, i64>,
    /// Error in its spec, and the text to write instead; `None` if it is valid.
    pub fault: Option<Arc<str>>,
    /// Its status as it was seen last. No plan reads it.
    pub status: BufferStatus,
}

/// Source of the shape of a buffer's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferSource {
    /// Neither reference is set.
    #[default]
    None,
    /// The PodTemplate of this name.
    Template(Arc<str>),
    /// A workload.
    Workload {
        /// API group; empty for core.
        group: Arc<str>,
        /// Kind.
        kind: Arc<str>,
        /// Name.
        name: Arc<str>,
    },
}

/// The status of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BufferStatus {
    /// Name of the PodTemplate in use; `None` where a workload gives the shape.
    pub template: Option<Arc<str>>,
    /// Its generation.
    pub template_generation: Option<i64>,
    /// Pods for which room is to be kept.
    pub replicas: Option<u32>,
    /// The strategy by which the buffer is served.
    pub strategy: Option<Arc<str>>,
    /// Conditions by type.
    pub conditions: BTreeMap<Arc<str>, BufferCondition>,
}

/// A condition of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BufferCondition {
    /// True for `True`, false for `False` and `Unknown`.
    pub holds: bool,
    /// Reason.
    pub reason: Arc<str>,
    /// Message.
    pub message: Arc<str>,
    /// Generation that it was evaluated by.
    pub observed_generation: i64,
    /// Time at which `holds` last changed.
    pub changed_at: UnixTime,
}

/// Template of pods: a PodTemplate, or the template of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// Its generation.
    pub generation: i64,
    /// The class of its pods; its priority is 0 when the template leaves it to a PriorityClass.
    pub class: Arc<PodClass>,
    /// The PriorityClass that decides the priority of its pods.
    pub priority_class: PrioritySource,
}

/// A ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quota {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `status.hard`, or `spec.hard` without one: amounts by name of the quota, such as `requests.cpu` (milli-cores).
    pub hard: BTreeMap<Arc<str>, i64>,
    /// `status.used` likewise.
    pub used: BTreeMap<Arc<str>, i64>,
    /// The pods it counts; all of them must match.
    pub scopes: Vec<QuotaScope>,
}

/// Pods that a quota counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QuotaScope {
    /// Pods with an active deadline.
    Terminating,
    /// Pods without one.
    NotTerminating,
    /// Pods that request neither cpu nor memory.
    BestEffort,
    /// All others.
    NotBestEffort,
    /// Pods that name namespaces in an affinity term.
    CrossNamespacePodAffinity,
    /// Pods whose PriorityClass is among these, or is not.
    PriorityClass {
        /// True if the named classes are counted; false if all others are.
        among: bool,
        /// Names; empty for any class at all.
        classes: Vec<Arc<str>>,
    },
    /// A scope that this version does not know: it is taken to match.
    Other,
}

/// Everything about buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standby {
    /// CapacityBuffers.
    pub buffers: BTreeMap<ObjectKey, CapacityBuffer>,
    /// PodTemplates.
    pub templates: BTreeMap<ObjectKey, Template>,
    /// Deployments.
    pub deployments: BTreeMap<ObjectKey, Template>,
    /// ResourceQuotas.
    pub quotas: BTreeMap<ObjectKey, Quota>,
    /// Buffers that another controller writes: they are left alone.
    pub of_others: BTreeSet<ObjectKey>,
}

impl Standby {
    /// The buffers and all quotas, which replicas that are expected count against too, and of all others what buffers refer
    /// to; `None` without any. Plans read nothing else.
    #[must_use]
    pub fn referred_to(&self) -> Option<Self> {
        if self.buffers.is_empty() && self.quotas.is_empty() {
            return None;
        }
        let (buffers, quotas) = (self.buffers.clone(), self.quotas.clone());
        let mut kept = Self { buffers, quotas, ..Self::default() };
        for (key, buffer) in &self.buffers {
            match &buffer.source {
                BufferSource::None => {}
                BufferSource::Template(name) => {
                    let key = ObjectKey::new(&*key.namespace, &**name);
                    kept.templates.extend(self.templates.get_key_value(&key).map(cloned));
                }
                BufferSource::Workload { name, .. } => {
                    let key = ObjectKey::new(&*key.namespace, &**name);
                    kept.deployments.extend(self.deployments.get_key_value(&key).map(cloned));
                }
            }
            kept.of_others.extend(self.of_others.get(key).cloned());
        }
        Some(kept)
    }
}

fn cloned<V: Clone>((key, value): (&ObjectKey, &V)) -> (ObjectKey, V) {
    (key.clone(), value.clone())
}

/// The amount of a resource in requests, in milli-cores for cpu and whole units for all others; `None` for a resource
/// that they do not name. Names as in `limits` of a buffer.
#[must_use]
pub fn requested(requests: &Resources, resource: &str) -> Option<i64> {
    let amount = match resource {
        "cpu" => requests.cpu_milli,
        "memory" => requests.memory_bytes,
        "ephemeral-storage" => requests.ephemeral_bytes,
        "pods" => requests.pods,
        extended => requests.extended(extended),
    };
    Some(amount).filter(|amount| 0 < *amount)
}
