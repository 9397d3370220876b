//! Pods and pod templates as the wire has them, without what never decides where a pod may run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{
    Affinity, Amounts, EphemeralSource, SchedulingGroup, SpreadConstraint, Toleration, WorkloadRef, nullable,
};

/// A pod.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = Pod)]
pub struct SlimPod {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: PodSpec,
    /// Status.
    #[serde(default)]
    pub status: PodStatus,
}

/// Template of a controller's pods.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodTemplate {
    /// Labels and annotations.
    #[serde(default, deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: PodSpec,
}

/// The part of a pod's spec that decides where it may run and what its move costs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Containers.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Init containers, sidecars among them, in order.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// Overhead of the runtime class.
    #[serde(deserialize_with = "nullable")]
    pub overhead: Amounts,
    /// Needs of the pod as a whole.
    pub resources: Option<Needs>,
    /// The node it is bound to.
    pub node_name: Option<String>,
    /// Labels the node must have.
    #[serde(deserialize_with = "nullable")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinities.
    pub affinity: Option<Affinity>,
    /// Tolerations.
    #[serde(deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration>,
    /// Spread constraints.
    #[serde(deserialize_with = "nullable")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    /// Volumes.
    #[serde(deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// Devices that it claims.
    #[serde(deserialize_with = "nullable")]
    pub resource_claims: Vec<DeviceClaim>,
    /// The PodGroup that it is scheduled with.
    pub scheduling_group: Option<SchedulingGroup>,
    /// The part of a Workload that it is scheduled with.
    pub workload_ref: Option<WorkloadRef>,
    /// Priority; templates carry only the class's name.
    pub priority: Option<i32>,
    /// Name of the priority class.
    pub priority_class_name: Option<String>,
    /// Scheduler.
    pub scheduler_name: Option<String>,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: Option<String>,
    /// Gates that hold it back.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_gates: Vec<IgnoredAny>,
    /// Grace period in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// True if ports are the host's.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
}

/// A container, or an init container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name.
    pub name: String,
    /// Needs.
    pub resources: Option<Needs>,
    /// Ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// Requests.
    #[serde(deserialize_with = "nullable")]
    pub requests: Amounts,
    /// Limits: the requests of resources that have none.
    #[serde(deserialize_with = "nullable")]
    pub limits: Amounts,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Inside.
    pub container_port: u16,
    /// On the host; 0 for none.
    #[serde(deserialize_with = "nullable")]
    pub host_port: u16,
    /// Address on the host; empty for all.
    #[serde(rename = "hostIP", deserialize_with = "nullable")]
    pub host_ip: String,
    /// `TCP` (default), `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// A volume, as far as it ties a pod to a place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim made for this pod alone.
    pub ephemeral: Option<EphemeralSource>,
    /// A directory of the node.
    pub host_path: Option<IgnoredAny>,
    /// A directory made for the pod.
    pub empty_dir: Option<EmptyDir>,
}

/// A claim of devices by dynamic resource allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClaim {
    /// Its name in the pod.
    pub name: String,
    /// A ResourceClaim.
    pub resource_claim_name: Option<String>,
    /// A ResourceClaimTemplate, of which a claim is made for this pod alone.
    pub resource_claim_template_name: Option<String>,
}

/// A reference to a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Its name.
    pub claim_name: String,
}

/// An emptyDir.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EmptyDir {
    /// `Memory`, or something on disk.
    #[serde(deserialize_with = "nullable")]
    pub medium: String,
}

/// The part of a pod's status that decisions read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Phase.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
    /// Node on which preemption frees space for it.
    pub nominated_node_name: Option<String>,
    /// Time at which the kubelet took it on.
    pub start_time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    /// Conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// Resources that the kubelet has allocated to containers; they differ from the spec while a resize is under way.
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerState>,
    /// Likewise of init containers.
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerState>,
}

/// Resources that the kubelet has allocated to a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// The container.
    pub name: String,
    /// Reserved for it on the node.
    #[serde(deserialize_with = "nullable")]
    pub allocated_resources: Amounts,
    /// In force in the runtime.
    pub resources: Option<Needs>,
}

/// A condition of a pod, node or controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// Message; only kept in passing.
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    /// Time at which the status last changed.
    pub last_transition_time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
}
