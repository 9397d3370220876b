//! Party that must act before a reason goes away. It decides nothing.

use super::Reason;

/// Party that must act before a reason goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A person: edit a pod, a pool, a policy, or the cluster.
    You,
    /// The cloud or its machines.
    Cloud,
    /// Time, or the next step of the operator, Kubernetes or a workload.
    Wait,
    /// Nobody: why something was done, or is as it should be.
    Nobody,
}

impl Actor {
    /// Every actor, the most urgent first.
    pub const ALL: &'static [Self] = &[Self::You, Self::Cloud, Self::Wait, Self::Nobody];

    /// The heading of its reasons, and a sentence on what to do.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::You => {
                ("You", "It stays so until somebody changes the pod, the pool, the policy or the cluster.")
            }
            Self::Cloud => (
                "The cloud",
                "The cloud or its machines fail. The operator tries again by itself; look at the cloud if it lasts.",
            ),
            Self::Wait => ("Wait", "It goes away by itself."),
            Self::Nobody => ("Nobody", "Why something was done, or is as it should be."),
        }
    }
}

impl Reason {
    /// Returns the party that must act before the reason goes away.
    ///
    /// ```
    /// use headroom_values::reason::{Actor, Reason};
    ///
    /// assert_eq!(Reason::MaxNodesReached.actor(), Actor::You);
    /// assert_eq!(Reason::InCooldown.actor(), Actor::Wait);
    /// ```
    #[must_use]
    pub fn actor(self) -> Actor {
        match self {
            Self::InsufficientResources
            | Self::NodeUnschedulable
            | Self::TaintNotTolerated
            | Self::NodeSelectorMismatch
            | Self::NodeAffinityMismatch
            | Self::NodeNameMismatch
            | Self::HostPortConflict
            | Self::PodAffinityMismatch
            | Self::PodAntiAffinityConflict
            | Self::TopologySpreadViolation
            | Self::VolumeNodeAffinityMismatch
            | Self::VolumeNotReady
            | Self::VolumeInUse
            | Self::VolumeLimitReached
            | Self::DriverMissing
            | Self::StorageCapacityInsufficient
            | Self::DevicesInsufficient
            | Self::DevicesDoNotMatch
            | Self::DevicesUnknown
            | Self::DeviceConstraint
            | Self::DeviceTaint
            | Self::DeviceCounters
            | Self::DeviceCapacity
            | Self::DevicePoolIncomplete
            | Self::DevicePoolInvalid
            | Self::ClaimNotReady
            | Self::ClaimElsewhere
            | Self::SelectorFails
            | Self::DeviceSearchTooLarge
            | Self::UnsupportedConstraint
            | Self::MaxNodesReached
            | Self::GroupMaxNodesReached
            | Self::PoolLimitReached
            | Self::ClusterLimitReached
            | Self::CapacityQuotaReached
            | Self::Suspended
            | Self::PreviewOnly
            | Self::ScaleUpDisabled
            | Self::Invalid
            | Self::TemplateUnknown
            | Self::JournalFull
            | Self::MinNodesUnreachable
            | Self::MaxNodesExceeded
            | Self::Expendable
            | Self::AnticipationLimit
            | Self::RefusedByScheduler
            | Self::GangDoesNotFit
            | Self::CapacityIsNotFound
            | Self::PodTemplateMissing
            | Self::FailedToCreatePods
            | Self::RequestExpired
            | Self::RequestBuysNothing
            | Self::ConsumesForeignRequest
            | Self::GangNotFound
            | Self::MinNodesReached
            | Self::ClusterMinimumReached
            | Self::ScaleDownDisabledAnnotation
            | Self::ScaleDownDisabled
            | Self::DisruptionStopped
            | Self::ProviderIdShared
            | Self::NoPlaceToMovePods
            | Self::NoPlaceForClaims
            | Self::GangWouldBreak
            | Self::ControllerNotFound
            | Self::MinReplicasReached
            | Self::NotReplicated
            | Self::LocalStorageRequested
            | Self::NotSafeToEvictAnnotation
            | Self::UnmovableKubeSystemPod
            | Self::NotEnoughPdb
            | Self::UnreadablePod
            | Self::InvalidBuffer
            | Self::PodTemplateNotFound
            | Self::ScalableRefNotFound
            | Self::ScalableKindUnsupported
            | Self::InvalidSize
            | Self::BelowPriorityCutoff
            | Self::BufferLimitReached
            | Self::NoPoolFits
            | Self::ServedByAnother
            | Self::HoldsBuffer
            | Self::DoNotDisruptAnnotation
            | Self::NoRoomToRotate
            | Self::RotationStopped
            | Self::DrainTimeout
            | Self::GroupPaused
            | Self::CannotNameMachine
            | Self::WrongCluster
            | Self::Conflict
            | Self::DevicesNotLearned
            | Self::Internal => Actor::You,
            Self::BackingOff
            | Self::ExpanderVetoed
            | Self::ProviderUnknown
            | Self::PoolUnhealthy
            | Self::LaunchFailed
            | Self::ProvisionTimeout
            | Self::NeverRegistered
            | Self::ClusterUnhealthy
            | Self::DeletionFailed => Actor::Cloud,
            Self::PoolDeleting
            | Self::JournalUnavailable
            | Self::TooYoung
            | Self::AnticipationBackoff
            | Self::AwaitsScheduler
            | Self::FollowsFirstPod
            | Self::WaitsForSpreadPods
            | Self::GangIncomplete
            | Self::WaitingForNodes
            | Self::WaitsForRequest
            | Self::WorkLimitReached
            | Self::WaitsForExpander
            | Self::NotUnneededLongEnough
            | Self::NotUnreadyLongEnough
            | Self::InCooldown
            | Self::BudgetExhausted
            | Self::NotStarted
            | Self::GroupGoesAsWhole
            | Self::BlockedByOnCompletionPod
            | Self::AwaitsScaleIn
            | Self::PlannedFor
            | Self::PromisedRoom
            | Self::RecentlyDisrupted
            | Self::AwaitingReplacement
            | Self::RequiresNewCapacity
            | Self::AwaitsRotation
            | Self::AwaitsPreferredPool
            | Self::StaleView
            | Self::GroupRollingOut
            | Self::GroupChanging
            | Self::Pending => Actor::Wait,
            Self::PodsUnschedulable
            | Self::ReplicasAnticipated
            | Self::BelowMinNodes
            | Self::StandbyCapacity
            | Self::RequestedCapacity
            | Self::CapacityIsFound
            | Self::CapacityReservationTimeExpired
            | Self::CapacityBookingConsumed
            | Self::OutdatedNodes
            | Self::PreferredNodes
            | Self::Drifted
            | Self::Expired
            | Self::Unhealthy
            | Self::NotPreferred
            | Self::Interrupted
            | Self::BufferIsEmpty
            | Self::CheaperNodes
            | Self::AnotherPoolChosen
            | Self::FitsExistingCapacity
            | Self::DaemonSetPod
            | Self::NodesRegistered
            | Self::SizeChanged
            | Self::Empty
            | Self::Underutilized
            | Self::Consolidated
            | Self::Unready
            | Self::RemovalRequested
            | Self::NotUnderutilized
            | Self::ForeignNode
            | Self::NotManaged
            | Self::NodeRemoved
            | Self::PodArrived
            | Self::SpecChanged
            | Self::SurgeEnded
            | Self::NodeGone
            | Self::Accepted => Actor::Nobody,
        }
    }
}
