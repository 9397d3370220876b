//! Controllers, DaemonSets and disruption budgets as decisions see them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::scheduling::constraints::LabelSelector;
use crate::world::pod::PodClass;
use headroom_values::labels::ObjectKey;

/// A ReplicaSet, StatefulSet, ReplicationController or Job: who makes pods, and how many it has decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Kind, for example `ReplicaSet`.
    pub kind: ControllerKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id; pods point to it by [`super::pod::Owner::uid`].
    pub uid: Arc<str>,
    /// Pods that should exist now and not be finished: `spec.replicas`, or for a Job
    /// min(parallelism, completions - succeeded).
    pub desired: u32,
    /// The class of the pods it makes; its priority is 0 when the template leaves it to a PriorityClass.
    pub class: Arc<PodClass>,
    /// The PriorityClass that decides the priority of its pods.
    pub priority_class: PrioritySource,
    /// Reason why no pods are to be expected although some are missing (ReplicaFailure, suspended, quota), if so.
    pub stalled: Option<Arc<str>>,
    /// True for a StatefulSet that makes a pod only when the one before it is ready (podManagementPolicy OrderedReady).
    pub in_order: bool,
}

/// Source of the priority of a template's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PrioritySource {
    /// The template's class has it.
    #[default]
    Template,
    /// The PriorityClass of this name has it.
    Named(Arc<str>),
    /// The cluster's default PriorityClass has it; 0 without one.
    Default,
}

impl PrioritySource {
    /// The PriorityClass that the template names, if it names one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Template | Self::Default => None,
        }
    }
}

/// The kinds whose missing replicas count as demand, plus those that only matter for drain rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ControllerKind {
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// batch/v1 Job.
    Job,
    /// v1 ReplicationController.
    ReplicationController,
}

/// A DaemonSet: one pod on each node its template accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// The class of its pods; its priority is 0 when the template leaves it to a PriorityClass.
    pub class: Arc<PodClass>,
    /// The PriorityClass that decides the priority of its pods.
    pub priority_class: PrioritySource,
    /// Nodes that should run one of its pods: `status.desiredNumberScheduled`.
    pub desired: u32,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Selector of the pods of its namespace that it guards; an empty selector guards all of them.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`; 0 while the status is not there or not current.
    pub disruptions_allowed: u32,
    /// True if one healthy pod more would allow one disruption: its `minAvailable` is a number, and exactly as many pods are
    /// healthy as it asks for. False while the status is not there or not current.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_short: bool,
}
