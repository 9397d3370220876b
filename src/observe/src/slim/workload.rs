//! Controllers, DaemonSets and disruption budgets as the wire has them.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::{ClaimTemplate, Condition, PodTemplate, Selector, nullable};

/// A ReplicaSet.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ReplicaSet)]
pub struct SlimReplicaSet {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ReplicaSpec,
    /// Status.
    #[serde(default)]
    pub status: ReplicaStatus,
}

/// A ReplicationController.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = ReplicationController)]
pub struct SlimReplicationController {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ReplicaSpec,
    /// Status.
    #[serde(default)]
    pub status: ReplicaStatus,
}

/// A Deployment, as far as its scale goes.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = Deployment)]
pub struct SlimDeployment {
    /// Metadata, with who wrote the replicas.
    #[serde(deserialize_with = "super::meta_with_writers")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: DeploymentSpec,
    /// Status.
    #[serde(default)]
    pub status: ReplicaStatus,
}

/// The part of a Deployment's spec that its scale shows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    /// Wanted; 1 when absent.
    pub replicas: Option<u32>,
    /// Selector of its pods.
    pub selector: Option<Selector>,
    /// Template of its pods.
    pub template: PodTemplate,
}

/// A HorizontalPodAutoscaler: spec and status raw, so that a strange one is reported and never lost.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = HorizontalPodAutoscaler)]
pub struct SlimHpa {
    /// Metadata, with who wrote the status.
    #[serde(deserialize_with = "super::meta_with_writers")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Value,
    /// Status.
    #[serde(default)]
    pub status: Value,
}

/// A StatefulSet.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = StatefulSet)]
pub struct SlimStatefulSet {
    /// Metadata, with who wrote the replicas.
    #[serde(deserialize_with = "super::meta_with_writers")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ReplicaSpec,
    /// Status.
    #[serde(default)]
    pub status: ReplicaStatus,
}

/// Fields that the three have in common.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSpec {
    /// Wanted; 1 when absent.
    pub replicas: Option<u32>,
    /// Selector of its pods. That of a ReplicationController is a plain map, which reads as an empty one.
    pub selector: Option<Selector>,
    /// Template of its pods.
    pub template: PodTemplate,
    /// Claims that each pod of a StatefulSet gets.
    #[serde(deserialize_with = "nullable")]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// Order in which a StatefulSet makes its pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_management_policy: String,
}

/// Progress of a controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaStatus {
    /// Pods that exist.
    #[serde(deserialize_with = "nullable")]
    pub replicas: u32,
    /// Conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// A Job.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = Job)]
pub struct SlimJob {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: JobSpec,
    /// Status.
    #[serde(default)]
    pub status: JobStatus,
}

/// A Job's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Most pods at once; 1 when absent.
    pub parallelism: Option<u32>,
    /// Successes wanted; absent for work queues.
    pub completions: Option<u32>,
    /// True if it is suspended.
    #[serde(deserialize_with = "nullable")]
    pub suspend: bool,
    /// Controller that runs it, if not the Job controller.
    pub managed_by: Option<String>,
    /// Template of its pods.
    pub template: PodTemplate,
}

/// Progress of a Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobStatus {
    /// Pods that have not finished.
    #[serde(deserialize_with = "nullable")]
    pub active: u32,
    /// Pods that succeeded.
    #[serde(deserialize_with = "nullable")]
    pub succeeded: u32,
    /// Conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// A DaemonSet.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = DaemonSet)]
pub struct SlimDaemonSet {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: DaemonSetSpec,
    /// Status.
    #[serde(default, deserialize_with = "nullable")]
    pub status: DaemonSetStatus,
}

/// Progress of a DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Nodes that should run one of its pods.
    #[serde(deserialize_with = "nullable")]
    pub desired_number_scheduled: u32,
}

/// A DaemonSet's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSetSpec {
    /// Template of its pods.
    pub template: PodTemplate,
}

/// A PodDisruptionBudget.
#[derive(kube::Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PodDisruptionBudget)]
pub struct SlimDisruptionBudget {
    /// Metadata.
    #[serde(deserialize_with = "super::meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: BudgetSpec,
    /// Status.
    #[serde(default)]
    pub status: Option<BudgetStatus>,
}

/// A budget's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// Selector of the pods that it guards; absent for none, empty for all.
    pub selector: Option<Selector>,
    /// Pods that must stay available: a number, or a percentage as text.
    pub min_available: Option<serde_json::Value>,
}

/// A budget's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// Evictions allowed now.
    #[serde(deserialize_with = "nullable")]
    pub disruptions_allowed: u32,
    /// The generation that the number speaks of.
    #[serde(deserialize_with = "nullable")]
    pub observed_generation: i64,
    /// Healthy pods; `None` while they were not counted.
    pub current_healthy: Option<u32>,
    /// Pods that must be healthy.
    pub desired_healthy: Option<u32>,
}

impl BudgetStatus {
    /// True if exactly as many pods are healthy as must be.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.disruptions_allowed == 0
            && self.current_healthy.is_some()
            && self.current_healthy == self.desired_healthy
    }
}
