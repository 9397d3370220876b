//! What users write and read: the types of the custom resources; parses and validates them, decides nothing.

#![deny(missing_docs)]

pub mod cluster_scaling_policy;
pub mod common;
pub mod conditions;
pub mod node_pool;
pub mod node_pool_status;
pub mod stored;
pub mod validate;

pub use cluster_scaling_policy::{
    Anticipation, ClusterLimits, ClusterScalingPolicy, ClusterScalingPolicySpec, ClusterScalingPolicyStatus,
    Expander, HealthGate, NodeScaling, PoolVerdict, Removals, UnplacedPods, VoluntaryDisruption,
};
pub use common::{BudgetReason, Duration, NodeBudget, Quantity, Window};
pub use node_pool::{
    Backoff, Drain, FailureClass, KwokFailure, KwokProvider, Mode, NodePool, NodePoolSpec, NodeTemplate,
    PoolLimits, Price, Provider, ProviderType, ScaleDown, ScaleUp, Schedule, Taint, TaintEffect,
};
pub use node_pool_status::{
    AnticipationStatus, BackoffStatus, BlockedNodes, Bounds, ConsideredPool, Decision, GroupStatus,
    GroupTemplate, Instance, Intent, NodeCounts, NodePoolStatus, PodSample, PreviewPlan, RefusalStatus,
    UnneededNodes,
};
pub use stored::{PolicyObject, StoredClusterScalingPolicy, StoredNodePool};

/// The API group of every kind of Headroom.
pub const GROUP: &str = "headroom.dev";

/// The only version so far. A later version keeps the same shape, so that no conversion is needed.
pub const VERSION: &str = "v1alpha1";
