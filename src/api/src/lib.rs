//! Types of the custom resources that users write and read: parses and validates them, decides nothing.

#![allow(unreachable_pub, reason = "KubeSchema derives from a hidden copy of each struct, which is pub too")]

pub mod aws_managed;
pub mod capacity_buffer;
pub mod capacity_quota;
pub mod cluster_api;
pub mod cluster_scaling_policy;
pub mod common;
pub mod conditions;
pub mod external_grpc;
pub mod json_path;
pub mod json_text;
pub mod metric;
pub mod node_pool;
pub mod node_pool_status;
pub mod provisioning_request;
pub mod scaling_policy;
pub mod scaling_policy_status;
pub mod scorecard;
pub mod stored;
pub mod template_devices;
pub mod validate;

pub use aws_managed::{
    AwsCapacityType, AwsLaunchTemplate, AwsManaged, AwsOperator, AwsPrice, AwsRequirement, AwsRequirementKey,
    AwsSubnets,
};
pub use cluster_api::{
    ClusterApiGroup, ClusterApiKind, ClusterApiManagement, ClusterApiProvider, ClusterApiSelector,
};
pub use cluster_scaling_policy::{
    Anticipation, BufferService, ClusterLimits, ClusterMinimum, ClusterScalingPolicy,
    ClusterScalingPolicySpec, ClusterScalingPolicyStatus, EmptyAnswer, Expander, ExpanderPods,
    ExternalScalerServer, ExternalScalerTls, GrpcExpander, HealthGate, HpaOwnership, HttpServer,
    MetricSource, NodeScaling, PoolVerdict, PrometheusServer, ProvisioningRequests, RedisServer, RedisTls,
    Removals, RequestClass, ScaleInChoice, UnplacedPods, VoluntaryDisruption, WorkloadScaling,
};
pub use common::{BudgetReason, Duration, NodeBudget, Quantity, Window};
pub use external_grpc::{ExternalGrpcNodeGroup, ExternalGrpcOptions, ExternalGrpcProvider, ExternalGrpcTls};
pub use node_pool::{
    Backoff, Drain, FailureClass, KwokFailure, KwokProvider, KwokSimulation, Mode, NodePool, NodePoolSpec,
    NodeTemplate, PoolLimits, Price, Provider, ProviderType, ScaleDown, ScaleDownPolicy, ScaleUp, Schedule,
    Taint, TaintEffect,
};
pub use node_pool_status::{
    AnticipationStatus, BackoffStatus, BlockedNodes, Bounds, ConsideredPool, ConsolidationBackoffStatus,
    Decision, EvictedStatus, GroupStatus, GroupTemplate, Instance, Intent, LearnedDevicesStatus, NodeCounts,
    NodePoolStatus, PodSample, PreviewPlan, RefusalStatus, ReplacedNode, ReplacementStatus,
    RotationStopStatus, SurgeStatus, UnboundStatus, UnneededNodes,
};
pub use scaling_policy::{
    Disruption, Fallback, FallbackDirection, HpaName, ReplicaSchedule, ScalingPolicy, ScalingPolicySpec,
    SelectionStrategy, SurgePolicy, Target, TargetType,
};
pub use scaling_policy_status::{
    ContestStatus, MetricProposal, RecommendationStatus, RecommendationStep, RecommendedReplicas,
    ReplicaBounds, ScaleEventStatus, ScalingDecision, ScalingPolicyStatus, ZeroStatus,
};
pub use scorecard::{
    SCORECARD_JOINS_MIN, SCORECARD_NAME, SCORECARD_WAIT_BOUNDS, Scorecard, ScorecardDecision,
    ScorecardFigures, ScorecardHour, ScorecardPool, ScorecardPoolFigures, ScorecardSpec, ScorecardStatus,
    ScorecardSummary,
};
pub use stored::{
    MANAGED_BY, PolicyObject, Stored, StoredClusterScalingPolicy, StoredNodePool, StoredScalingPolicy,
    StoredScorecard,
};

/// The API group of every kind of Headroom.
pub const GROUP: &str = "headroom.dev";

/// The only version so far. A later version keeps the same shape, so that no conversion is needed.
pub const VERSION: &str = "v1alpha1";
