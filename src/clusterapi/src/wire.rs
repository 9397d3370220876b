//! Objects of Cluster API as far as decisions read them, of v1beta2 and v1beta1 alike. Pure.

use std::collections::BTreeMap;

use headroom_core::time::UnixTime;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The API group of Cluster API's own kinds.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";
/// Versions that are read, the preferred one first.
pub(crate) const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Label with the name of an object's Cluster.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Annotation that stops the reconciliation of an object.
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation on a Machine that goes first when its MachineSet shrinks; only the key counts.
pub(crate) const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// Annotation with the revision of a MachineSet.
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Annotation with the size that a MachineDeployment wanted when its controller last scaled a MachineSet.
const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
/// Domain of annotations of machines that are updated in place.
const IN_PLACE: &str = "in-place-updates.internal.cluster.x-k8s.io/";
/// Annotation of a MachinePool whose size somebody else manages.
pub(crate) const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";

/// Metadata.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    /// Name.
    pub name: String,
    /// Unique id.
    pub uid: String,
    /// Version of the object.
    pub resource_version: String,
    /// Version of its spec.
    pub generation: i64,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    owner_references: Vec<Owner>,
    managed_fields: Vec<Managed>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    kind: String,
    uid: String,
    controller: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    manager: String,
    operation: String,
    fields_v1: Value,
}

impl Meta {
    /// True once its deletion has begun.
    #[must_use]
    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Time at which its deletion began.
    #[must_use]
    pub(crate) fn deleted_at(&self) -> Option<UnixTime> {
        self.deletion_timestamp.as_deref().and_then(UnixTime::parse)
    }

    /// Time at which it was created.
    #[must_use]
    pub(crate) fn created_at(&self) -> Option<UnixTime> {
        self.creation_timestamp.as_deref().and_then(UnixTime::parse)
    }

    /// The unique id of the object that controls it.
    #[must_use]
    pub(crate) fn controller(&self) -> Option<&str> {
        self.owner_references.iter().find(|owner| owner.controller).map(|owner| owner.uid.as_str())
    }

    /// True if a MachineDeployment controls it.
    #[must_use]
    pub(crate) fn is_of_deployment(&self) -> bool {
        self.owner_references.iter().any(|owner| owner.kind == "MachineDeployment")
    }

    /// True if its reconciliation is paused by annotation.
    #[must_use]
    pub(crate) fn is_paused(&self) -> bool {
        self.annotations.contains_key(PAUSED)
    }

    /// True if something is updated in place.
    #[must_use]
    pub(crate) fn updates_in_place(&self) -> bool {
        self.annotations.keys().any(|key| key.starts_with(IN_PLACE))
    }

    /// Returns the manager that applies its size server-side, and so would set it again.
    #[must_use]
    pub(crate) fn size_applied_by(&self) -> Option<&str> {
        let applied = |field: &&Managed| {
            field.operation == "Apply" && !field.fields_v1["f:spec"]["f:replicas"].is_null()
        };
        self.managed_fields.iter().find(applied).map(|field| field.manager.as_str())
    }
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// One word.
    pub reason: String,
    /// Description.
    pub message: String,
    last_transition_time: Option<String>,
}

impl Condition {
    /// Time at which its status last changed.
    #[must_use]
    pub(crate) fn changed_at(&self) -> Option<UnixTime> {
        self.last_transition_time.as_deref().and_then(UnixTime::parse)
    }
}

/// The condition of a type.
#[must_use]
pub(crate) fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// Metadata.
    pub metadata: Meta,
    spec: MachineSpec,
    status: MachineStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct MachineSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineStatus {
    node_ref: Option<NodeRef>,
    conditions: Vec<Condition>,
    failure_reason: Option<String>,
    failure_message: Option<String>,
    deprecated: Deprecated,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeRef {
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Deprecated {
    v1beta1: Echo,
}

/// Fields that v1beta2 keeps of the failures of v1beta1.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Echo {
    failure_reason: Option<String>,
    failure_message: Option<String>,
}

impl Machine {
    /// The machine's id at its cloud, once it has one.
    #[must_use]
    pub(crate) fn provider_id(&self) -> Option<&str> {
        self.spec.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The Node that it became.
    #[must_use]
    pub(crate) fn node(&self) -> Option<&str> {
        self.status.node_ref.as_ref().map(|node| node.name.as_str()).filter(|name| !name.is_empty())
    }

    /// A failure that its controllers call terminal: reason and message.
    #[must_use]
    pub(crate) fn terminal_failure(&self) -> Option<(&str, &str)> {
        let MachineStatus { failure_reason, failure_message, deprecated, .. } = &self.status;
        let reason = failure_reason.as_deref().or(deprecated.v1beta1.failure_reason.as_deref());
        let message = failure_message.as_deref().or(deprecated.v1beta1.failure_message.as_deref());
        (reason.is_some() || message.is_some())
            .then(|| (reason.unwrap_or_default(), message.unwrap_or_default()))
    }

    /// Returns the condition that its infrastructure provider reports.
    #[must_use]
    pub(crate) fn infrastructure(&self) -> Option<&Condition> {
        condition(&self.status.conditions, "InfrastructureReady")
    }

    /// Returns the condition that its deletion waits for.
    #[must_use]
    pub(crate) fn deleting(&self) -> Option<&Condition> {
        condition(&self.status.conditions, "Deleting")
    }

    /// The value of the mark by which it goes first.
    #[must_use]
    pub(crate) fn mark(&self) -> Option<&str> {
        self.metadata.annotations.get(DELETE_MACHINE).map(String::as_str)
    }
}

/// A MachineDeployment, a MachineSet or a MachinePool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Scalable {
    /// Metadata.
    pub metadata: Meta,
    spec: ScalableSpec,
    status: ScalableStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScalableSpec {
    cluster_name: String,
    replicas: Option<u32>,
    paused: bool,
    template: Template,
    rollout: Rollout,
    strategy: Strategy,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Rollout {
    strategy: Strategy,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Strategy {
    #[serde(rename = "type")]
    type_: String,
}

/// The template of a group's machines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Template {
    /// Metadata of its machines.
    pub metadata: Meta,
    /// Spec of its machines.
    pub spec: TemplateSpec,
}

/// The spec of a group's machines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TemplateSpec {
    /// Zone.
    pub failure_domain: Option<String>,
    /// Template of the infrastructure.
    pub infrastructure_ref: Ref,
    /// Bootstrap of machines into nodes.
    pub bootstrap: Bootstrap,
    /// Taints of nodes.
    pub taints: Vec<MachineTaint>,
}

/// Bootstrap of machines into nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bootstrap {
    /// Template of the bootstrap configuration.
    pub config_ref: Option<Ref>,
}

/// A taint that Cluster API puts on nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct MachineTaint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// A reference to a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ref {
    api_group: String,
    api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Ref {
    /// API group; empty if it names none.
    #[must_use]
    pub(crate) fn group(&self) -> &str {
        match self.api_version.split_once('/') {
            Some((group, _)) => group,
            None => &self.api_group,
        }
    }

    /// Version, which only v1beta1 names.
    #[must_use]
    pub(crate) fn version(&self) -> Option<&str> {
        self.api_version.split_once('/').map(|(_, version)| version)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScalableStatus {
    observed_generation: i64,
    replicas: u32,
    conditions: Vec<Condition>,
    infrastructure_machine_kind: Option<String>,
}

impl Scalable {
    /// Wanted machines.
    #[must_use]
    pub(crate) fn replicas(&self) -> u32 {
        self.spec.replicas.unwrap_or(0)
    }

    /// Machines that its controller counted last.
    #[must_use]
    pub(crate) fn counted(&self) -> u32 {
        self.status.replicas
    }

    /// The Cluster that it belongs to.
    #[must_use]
    pub(crate) fn cluster(&self) -> &str {
        if self.spec.cluster_name.is_empty() {
            self.metadata.labels.get(CLUSTER_LABEL).map(String::as_str).unwrap_or_default()
        } else {
            &self.spec.cluster_name
        }
    }

    /// True if its controller has seen its spec.
    #[must_use]
    pub(crate) fn is_current(&self) -> bool {
        self.status.observed_generation == self.metadata.generation
    }

    /// True if it is paused, by annotation or by its spec.
    #[must_use]
    pub(crate) fn is_paused(&self) -> bool {
        self.spec.paused || self.metadata.is_paused()
    }

    /// True if machines are replaced only once somebody deletes the old ones.
    #[must_use]
    pub(crate) fn replaces_on_delete(&self) -> bool {
        self.spec.rollout.strategy.type_ == "OnDelete" || self.spec.strategy.type_ == "OnDelete"
    }

    /// The template of its machines.
    #[must_use]
    pub(crate) fn template(&self) -> &Template {
        &self.spec.template
    }

    /// The newest revision of a MachineSet's MachineDeployment that it had.
    #[must_use]
    pub(crate) fn revision(&self) -> i64 {
        self.number(REVISION).unwrap_or(0)
    }

    /// The size of its MachineDeployment that a MachineSet was scaled for.
    #[must_use]
    pub(crate) fn desired(&self) -> Option<u32> {
        self.number(DESIRED_REPLICAS).and_then(|number| u32::try_from(number).ok())
    }

    fn number(&self, annotation: &str) -> Option<i64> {
        self.metadata.annotations.get(annotation)?.parse().ok()
    }

    /// True if a MachinePool has Machines.
    #[must_use]
    pub(crate) fn has_machines(&self) -> bool {
        self.status.infrastructure_machine_kind.as_deref().is_some_and(|kind| !kind.is_empty())
    }

    /// Returns the message of its controller on its work, in the order of urgency.
    #[must_use]
    pub(crate) fn news(&self) -> Option<&str> {
        let of = |type_| {
            condition(&self.status.conditions, type_)
                .filter(|found| found.status == "True" && !found.message.is_empty())
                .map(|found| found.message.as_str())
        };
        ["RollingOut", "ScalingUp", "ScalingDown", "Remediating"].into_iter().find_map(of)
    }
}

/// A Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Cluster {
    /// Metadata.
    pub metadata: Meta,
    spec: ClusterSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ClusterSpec {
    paused: bool,
}

impl Cluster {
    /// True if nothing of it is reconciled.
    #[must_use]
    pub(crate) fn is_paused(&self) -> bool {
        self.spec.paused || self.metadata.is_paused()
    }
}

/// An object of a kind.
///
/// # Errors
/// In words, if it is not of the form that Cluster API gives it.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| {
        let name = value["metadata"]["name"].as_str().unwrap_or("an object");
        format!("{name} cannot be read: {error}")
    })
}
