//! Bugs that others have had, put back on purpose: tests show that the simulator finds each. Compiled for tests only.
//!
//! `docs/incidents.md` tells what happened where. Without the feature `failpoints`, [`on`] is always false and the
//! branches behind it are compiled out.

use clap::ValueEnum;

/// One bug that can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Bug {
    /// An effect is made before its intent is stored.
    EffectBeforeIntent,
    /// A repeated increase adds its difference again instead of asking for its target.
    DeltaNotTarget,
    /// The size is written from what was read a while ago.
    CachedSize,
    /// An instance is removed by lowering the size; the cloud picks which one goes.
    CloudPicksVictim,
    /// What did not come is taken back by setting the size to the instances that were seen.
    CancelTakesRunning,
    /// Each attempt of an increase names its nodes anew.
    NamesPerAttempt,
    /// Backoffs are forgotten at a restart.
    BackoffForgotten,
    /// Intents are forgotten at a restart.
    IntentsForgotten,
    /// Marks are taken off by nobody.
    OrphanMarksStay,
    /// A node is not looked at again before it is deleted.
    NoSecondLook,
    /// The view counts as fresh however old it is.
    StaleViewTrusted,
    /// The view counts as good right after the server went back to an older state.
    RestoredViewTrusted,
    /// Decisions are made before all lists have come.
    ActsBeforeSynced,
    /// The claim of the lease is not checked at each effect.
    NoFence,
    /// Whether the lease has run out is judged by wall clocks.
    WallClockLease,
    /// Lengths of time are told by the wall clock, whatever is done to it.
    WallClockTimers,
    /// Evictions name their options in a field that the API server does not know.
    EvictionOptionsLost,
    /// Status is written on every turn.
    StatusEveryTurn,
    /// A pool that cannot be read ends every turn.
    BadPoolStopsLoop,
    /// A pool that cannot be read ends the process.
    OddObjectPanics,
    /// A throttled read of the cloud ends the process.
    ThrottleIsFatal,
    /// Nodes on their way are not counted: each plan buys again.
    PurchasesNotCounted,
    /// A node's deletion is missed.
    NodeDeletionMissed,
    /// A pod's deletion is missed.
    PodDeletionMissed,
    /// A read of the cloud that fails is an answer: nothing is there.
    UnknownIsZero,
    /// Any purchase that succeeds clears the backoffs of its pool.
    SuccessClearsBackoffs,
    /// Status is written whatever version is stored.
    StatusWithoutVersion,
    /// A repeated launch has a client token of its own.
    TokenPerAttempt,
    /// An instance is terminated without its size, and the cloud replaces it.
    TerminateReplaces,
    /// An instance that is terminating is terminated again.
    TerminatesAgain,
    /// Instances that are terminating count as capacity.
    TerminatingCounts,
    /// What was asked for and does not come stays asked for.
    WishesStay,
    /// Instances that never became nodes are not terminated.
    DeadInstancesStay,
    /// An instance is terminated for never having become a node, though it has meanwhile.
    LateNodeTerminated,
    /// Nodes of a zone that fell silent count as ready.
    OutageLooksHealthy,
    /// Nodes are drained side by side, as many as are unneeded.
    DrainsUnlimited,
    /// While a refusal holds one group back, no other is asked.
    RefusalStopsAll,
    /// A node counts as unneeded for long enough at once.
    CreatedThenDeleted,
    /// A write whose answer was an error, or none, counts as done.
    JournalAssumed,
    /// An intent's id is used again when its write failed.
    SequenceReused,
    /// What a launch that failed in part did bring is not counted.
    PartialNotCounted,
    /// Nodes that do not come are waited for without end.
    NeverTimesOut,
    /// What status says of times is believed, whatever it is.
    StatusTrustedBlindly,
    /// Pods that cannot be read are left out of the view.
    UnreadablePodsLeftOut,
    /// A call to the cloud that fails is waited for without end.
    ProviderCallHangs,
    /// A new leader believes a list that is older than what its watch has shown.
    OlderListBelieved,
    /// A drain evicts nothing.
    NothingEvicted,
    /// A failed launch is repeated at once.
    RetriesAtOnce,
    /// An action that the cloud does not permit ends the process.
    DeniedIsFatal,
    /// Metrics that cannot be read count as no load.
    UnknownLoadIsZero,
    /// What was proposed and changed is forgotten at a restart.
    ReplicaMemoryForgotten,
    /// Two owners of one workload both scale it.
    OwnersNotCompared,
    /// An HPA is run without asking whether anybody else runs it.
    HpaNotAsked,
    /// A policy that is only to be told of is carried out.
    PreviewCarriedOut,
    /// Budgets of removals that hold at certain times hold at none.
    BudgetWindowsIgnored,
}

#[cfg(feature = "failpoints")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static ON: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether the bug is there on this thread. A simulation is one thread.
    #[must_use]
    pub fn on(bug: Bug) -> bool {
        ON.get() == Some(bug)
    }

    /// Puts a bug back on this thread, or takes it out again.
    pub fn put_back(bug: Option<Bug>) {
        ON.set(bug);
    }
}

#[cfg(feature = "failpoints")]
pub use switch::{on, put_back};

/// No bug is there in this build.
#[cfg(not(feature = "failpoints"))]
#[must_use]
#[inline]
pub const fn on(_bug: Bug) -> bool {
    false
}
