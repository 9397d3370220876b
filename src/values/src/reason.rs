//! The closed set of reasons: every "no" and every "yes" of the operator has a variant here (design rule 7).

mod actor;

pub use actor::Actor;

/// Declares [`Reason`] once: variant, doc line and word stay together.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Reason why something was, or was not, done. Strings are PascalCase and stable: users and dashboards see them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)+ }
        impl Reason {
            /// Every reason, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
            /// The word for status, events and metric labels.
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { $(Self::$name => stringify!($name),)+ } }
            /// The doc line, for `headroom explain` and the reference page.
            #[must_use]
            pub fn doc(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ } }
        }
    };
}

reasons! {
    // === why nodes were added ===
    /// Pods that the scheduler cannot place fit new nodes of this pool.
    PodsUnschedulable,
    /// Replicas that a controller has decided on but not created yet need new nodes.
    ReplicasAnticipated,
    /// The pool was below its minimum size.
    BelowMinNodes,
    /// Room that a CapacityBuffer keeps free needs new nodes.
    StandbyCapacity,
    /// Pods of a ProvisioningRequest need new nodes.
    RequestedCapacity,
    /// Nodes of this pool cost less than others that run the same pods and leave when these are ready.
    CheaperNodes,
    /// Nodes of this pool take over from outdated ones, which leave when these are ready.
    OutdatedNodes,
    /// Nodes of this pool take over from those of a pool that was the second choice, which leave when these are ready.
    PreferredNodes,

    // === why a pool does not help a pod ===
    /// A new node of the pool would be too small, or what its DaemonSets leave is.
    InsufficientResources,
    /// The node is cordoned or on its way out.
    NodeUnschedulable,
    /// A taint of the pool's nodes is not tolerated.
    TaintNotTolerated,
    /// The pod's node selector asks for a label the pool's nodes do not have.
    NodeSelectorMismatch,
    /// The pod's required node affinity does not match the pool's nodes.
    NodeAffinityMismatch,
    /// The pod names a node.
    NodeNameMismatch,
    /// A host port is taken on every new node.
    HostPortConflict,
    /// Required pod affinity cannot be met on a new node.
    PodAffinityMismatch,
    /// Required pod anti-affinity forbids every new node.
    PodAntiAffinityConflict,
    /// A topology spread constraint forbids every new node.
    TopologySpreadViolation,
    /// A volume is bound to a place that the pool's nodes are not in.
    VolumeNodeAffinityMismatch,
    /// A volume claim of the pod is missing, lost, or bound before pods are scheduled and not bound yet.
    VolumeNotReady,
    /// A volume claim that one pod alone may use is used by another.
    VolumeInUse,
    /// A new node cannot attach as many volumes of one driver.
    VolumeLimitReached,
    /// A driver of the pod's volumes is missing on the node, and its CSIDriver has `preventPodSchedulingIfMissing`.
    DriverMissing,
    /// The volume's driver publishes no capacity that is large enough for a new node.
    StorageCapacityInsufficient,
    /// Fewer devices of a class are free on a node than a claim asks for.
    DevicesInsufficient,
    /// No device of a node passes the selectors of a claim and its class.
    DevicesDoNotMatch,
    /// A selector of a claim depends on an attribute that a new node has only once it is there.
    DevicesUnknown,
    /// No free devices of a node meet a constraint of a claim.
    DeviceConstraint,
    /// A taint of devices is not tolerated by a claim.
    DeviceTaint,
    /// The counters that partitions of a device share are used up.
    DeviceCounters,
    /// No device of a node has as much capacity free as a claim asks for.
    DeviceCapacity,
    /// A driver has not published all slices of a pool of devices.
    DevicePoolIncomplete,
    /// The slices of a pool of devices contradict each other.
    DevicePoolInvalid,
    /// A claim, its template or its device class does not exist, cannot be read, or is being deleted.
    ClaimNotReady,
    /// A claim that pods share is allocated, and its devices cannot be used from this node.
    ClaimElsewhere,
    /// A selector of a claim or a device class fails on a device; kube-scheduler stops there on every node.
    SelectorFails,
    /// Looking for devices takes more steps than one node may cost.
    DeviceSearchTooLarge,
    /// The pod uses a constraint that this version cannot simulate, so no node is bought on a guess.
    UnsupportedConstraint,
    /// Another pool was chosen for the pod.
    AnotherPoolChosen,

    /// The server of expander Grpc rejected all pools that could take the pod; it is asked again half a minute later.
    ExpanderVetoed,

    // === why a pool cannot grow ===
    /// The pool is at maxNodes.
    MaxNodesReached,
    /// The group is at its own maximum.
    GroupMaxNodesReached,
    /// The pool's cpu or memory limit is reached.
    PoolLimitReached,
    /// A limit of the ClusterScalingPolicy is reached.
    ClusterLimitReached,
    /// A CapacityQuota allows no more of a resource.
    CapacityQuotaReached,
    /// A failure holds the group back.
    BackingOff,
    /// The pool is suspended.
    Suspended,
    /// The pool is in Preview: it is planned for, never acted on.
    PreviewOnly,
    /// scaleUp.enabled is false.
    ScaleUpDisabled,
    /// The pool's spec is invalid.
    Invalid,
    /// The pool is being deleted.
    PoolDeleting,
    /// The provider has not answered, so sizes are unknown.
    ProviderUnknown,
    /// No template: neither declared, nor known to the provider, nor learned from a node.
    TemplateUnknown,
    /// Too many of the nodes that the group wants are missing or unready.
    PoolUnhealthy,
    /// The journal holds as many intents as it may.
    JournalFull,
    /// The journal could not be written, so nothing was done.
    JournalUnavailable,
    /// The pool is below minNodes and cannot grow: the message names what stops it.
    MinNodesUnreachable,
    /// The pool has more nodes than maxNodes: none is bought, and nodes leave only once they are not needed.
    MaxNodesExceeded,

    // === why a pending pod is not demand ===
    /// The pod fits a node that is there or on its way.
    FitsExistingCapacity,
    /// The pod's priority is under the cutoff.
    Expendable,
    /// The pod is younger than the configured delay.
    TooYoung,
    /// The pod belongs to a DaemonSet, which never causes nodes.
    DaemonSetPod,
    /// More anticipated replicas than the limits, than the ResourceQuotas of their namespace let in, or than the pods of their StatefulSet or Job that exist vouch for.
    AnticipationLimit,
    /// Replicas decided on have not appeared for too long.
    AnticipationBackoff,
    /// The pod's scheduler has not marked it as Unschedulable, and nodes.immediateSchedulers does not name that scheduler.
    AwaitsScheduler,
    /// The pod had room on a ready node for minutes, or lost it to other pods again and again, and its scheduler did not bind it: its class backs off.
    RefusedByScheduler,
    /// The pod goes where the first of its kind goes, and the scheduler has not chosen that place yet.
    FollowsFirstPod,
    /// A node for the pod would be the first of its zone, or of another domain, and pods that spread over these domains and wait for nodes would lose their places to it: it is bought once they run.
    WaitsForSpreadPods,
    /// The pod's gang has fewer pods than it needs to be scheduled: no node is bought before the others exist.
    GangIncomplete,
    /// Not all pods that the gang needs at once have room or can get it, so nothing is bought for any of them.
    GangDoesNotFit,
    /// The PodGroup or Workload that the pod names does not exist, so its scheduler does not place the pod.
    GangNotFound,
    /// The pods of its namespace, or for a node those of all nodes that may go, took all the work that one plan may spend on them; a later plan gets to it.
    WorkLimitReached,

    /// The server of expander Grpc has been asked which pool takes the pod, and has not answered yet.
    WaitsForExpander,

    // === why a CapacityBuffer has not all its room ===
    /// The buffer's spec cannot be used: the message names the field and what to write.
    InvalidBuffer,
    /// The PodTemplate that the buffer names does not exist.
    PodTemplateNotFound,
    /// The workload that the buffer names does not exist, or its pods' shape is not known.
    ScalableRefNotFound,
    /// The buffer names a kind of workload that is not read.
    ScalableKindUnsupported,
    /// The buffer's size cannot be worked out: no number is set, or its limits name nothing that its pods request.
    InvalidSize,
    /// The buffer's size is 0 now.
    BufferIsEmpty,
    /// The priority of the buffer's pods is under the cutoff: what is bought for them would be of no use.
    BelowPriorityCutoff,
    /// More standby pods than one namespace, or the cluster, may have.
    BufferLimitReached,
    /// The buffer waits for nodes that are on their way.
    RequiresNewCapacity,
    /// No pool's nodes take the buffer's pods.
    NoPoolFits,
    /// Another controller writes the status of this buffer; it is left alone.
    ServedByAnother,

    // === how a ProvisioningRequest stands ===
    /// All pods of the request have room on ready nodes.
    CapacityIsFound,
    /// Not all pods of the request have room or can get it: the message says how many, and why each pool takes no more.
    CapacityIsNotFound,
    /// The request's pods have room, some of it on nodes that are on their way.
    WaitingForNodes,
    /// A PodTemplate that the request names does not exist.
    PodTemplateMissing,
    /// No pods can be planned for the request: the message names what to correct, and the request is to be made anew.
    FailedToCreatePods,
    /// The request waited for as long as it may.
    RequestExpired,
    /// The time for which the request's room is held is over.
    CapacityReservationTimeExpired,
    /// All pods of the request have a node, so its room is held no more.
    CapacityBookingConsumed,
    /// The pod names a ProvisioningRequest that is not answered yet: the request is the demand.
    WaitsForRequest,
    /// The pod names a ProvisioningRequest of a class that only answers and buys nothing.
    RequestBuysNothing,
    /// The pod names a ProvisioningRequest that another controller serves.
    ConsumesForeignRequest,

    // === why an increase ended ===
    /// All nodes asked for have been seen.
    NodesRegistered,
    /// The provider refused or failed.
    LaunchFailed,
    /// Asked for, but not registered before the deadline.
    ProvisionTimeout,
    /// The group's size had changed in between.
    SizeChanged,

    // === why nodes leave ===
    /// Nothing but DaemonSet and mirror pods runs on the node.
    Empty,
    /// The node's requests are under the threshold and its pods fit elsewhere.
    Underutilized,
    /// The node's pods fit elsewhere, or on nodes that cost less (scaleDown.policy WhenCheaper).
    Consolidated,
    /// The node was made of another template than its pool's present one (rotation.drift: Replace).
    Drifted,
    /// The node is older than rotation.maxAge.
    Expired,
    /// A condition of the node has said for too long that something is wrong (spec.repair).
    Unhealthy,
    /// A pool that nodes.expanders prefer to the node's pool has room for its pods again (rotation.preferredPool: Replace).
    NotPreferred,
    /// The cloud is about to take the node: a taint or a notice of the cloud says so.
    Interrupted,
    /// The node has been unready for too long.
    Unready,
    /// A person asked for it.
    RemovalRequested,
    /// The instance never became a node.
    NeverRegistered,

    // === why a node stays ===
    /// Utilization is at or above the threshold.
    NotUnderutilized,
    /// Not unneeded for long enough yet.
    NotUnneededLongEnough,
    /// Not unready for long enough yet.
    NotUnreadyLongEnough,
    /// The pool is at minNodes.
    MinNodesReached,
    /// The cluster would have less cpu or memory than nodes.limits.min of the ClusterScalingPolicy.
    ClusterMinimumReached,
    /// The annotation scale-down-disabled is set.
    ScaleDownDisabledAnnotation,
    /// scaleDown.enabled is false.
    ScaleDownDisabled,
    /// Nodes were added, removed or failed to be removed a short time ago.
    InCooldown,
    /// A budget of the pool or cluster allows no more removals now.
    BudgetExhausted,
    /// The kill switch stops all voluntary removals.
    DisruptionStopped,
    /// Too many nodes of the zone or cluster are unready: removals wait.
    ClusterUnhealthy,
    /// The node belongs to another autoscaler.
    ForeignNode,
    /// The node belongs to no pool.
    NotManaged,
    /// Another node carries the same provider id, so which of them is the machine is unknown.
    ProviderIdShared,
    /// The node is not started yet.
    NotStarted,
    /// The node's group goes as a whole, and another node of it stays (groupScaling ZeroOrMax).
    GroupGoesAsWhole,
    /// A pod has no other place.
    NoPlaceToMovePods,
    /// A pod has no other place, since no other node has the devices that its claims ask for.
    NoPlaceForClaims,
    /// The gang of a pod would have fewer pods than its scheduler needs at once.
    GangWouldBreak,
    /// The pod's controller does not exist.
    ControllerNotFound,
    /// The pod's controller has too few replicas.
    MinReplicasReached,
    /// The pod has no controller to make it anew.
    NotReplicated,
    /// The pod keeps data on the node.
    LocalStorageRequested,
    /// The pod says safe-to-evict=false.
    NotSafeToEvictAnnotation,
    /// The node, or a pod on it, is annotated karpenter.sh/do-not-disrupt.
    DoNotDisruptAnnotation,
    /// A kube-system pod without a PodDisruptionBudget.
    UnmovableKubeSystemPod,
    /// A PodDisruptionBudget allows no eviction.
    NotEnoughPdb,
    /// A workload whose policy allowed one replica more for a drain does not allow it any more.
    SurgeEnded,
    /// A pod must run to its end first.
    BlockedByOnCompletionPod,
    /// Replicas are being lowered, and pods of the node are about to go for that.
    AwaitsScaleIn,
    /// A pod on the node cannot be read: whether it may move is unknown.
    UnreadablePod,
    /// Room on the node belongs to a CapacityBuffer, and there is no other place for it.
    HoldsBuffer,
    /// Pods are planned onto the node.
    PlannedFor,
    /// The node's pods could take the room of a ready node that other pods are waiting for.
    PromisedRoom,
    /// A pod on the node came in place of an evicted one less than scaleDown.evictionCooldown ago; or it or the node is younger than scaleDown.consolidateAfter, or than the hour that rotation.preferredPool waits.
    RecentlyDisrupted,
    /// Nodes that take over are on their way; the node leaves when they are ready.
    AwaitingReplacement,
    /// The node is outdated, and its turn to be replaced has not come.
    AwaitsRotation,
    /// The node's pods fit a pool that nodes.expanders prefer: it cannot be bought now, failed a short time ago, or the node's turn has not come.
    AwaitsPreferredPool,
    /// The node is outdated, and the pool is at maxNodes: no other can be bought before it leaves.
    NoRoomToRotate,
    /// Nodes bought in place of outdated ones did not get ready: the pool replaces no more for a day, or until its template changes.
    RotationStopped,
    /// The observation of the cluster is too old to remove anything.
    StaleView,
    /// The group's machines are being replaced by its own controller: a removal could take another machine.
    GroupRollingOut,
    /// The group, or the cluster it belongs to, is paused at its provider.
    GroupPaused,
    /// The group's machines and its size do not agree yet: a removal could take another machine.
    GroupChanging,
    /// The group's provider chooses which machine leaves, so no node of it is removed.
    CannotNameMachine,

    // === why a removal ended ===
    /// The node is gone.
    NodeRemoved,
    /// A pod came to the node between the decision and the deletion.
    PodArrived,
    /// The drain did not end in time.
    DrainTimeout,
    /// The pool's spec changed, and the node is to stay.
    SpecChanged,
    /// The provider refused or failed to delete.
    DeletionFailed,
    /// The node had gone before.
    NodeGone,

    // === the health of a pool ===
    /// Spec accepted, inputs readable, loop running.
    Accepted,
    /// Not looked at yet.
    Pending,
    /// An earlier pool has the same nodes or group.
    Conflict,
    /// The pool's machines are nodes of another cluster: nothing is done.
    WrongCluster,
    /// The devices of a group take more of the pool's status than they may, so they are forgotten when its last node leaves.
    DevicesNotLearned,
    /// A bug: this pool or pod class was set aside for the tick.
    Internal,
}

impl Reason {
    /// The reason of a word; `None` for words that are none.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
    }

    /// True if the reason is a rule that a pod's own needs fail, whatever the size of the pool.
    #[must_use]
    pub fn is_scheduling_rule(self) -> bool {
        matches!(
            self,
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
        )
    }

    /// True if a pool has too few or too many nodes, and nothing is done about it.
    #[must_use]
    pub fn is_out_of_bounds(self) -> bool {
        matches!(self, Self::MinNodesUnreachable | Self::MaxNodesExceeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_reasons_correspond() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert!(reason.doc().ends_with('.'), "{reason:?} has no doc line");
        }
    }
}
