//! Incidents at the seams of the operator: a feed or a provider that hides what is true. The others are patches against the
//! production sources: `src/faults/tests/incidents`.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use headroom_core::world::node::Readiness;
use headroom_core::world::provider::ProviderState;
use headroom_observe::host::Host;
use headroom_observe::{Feed, PolicyChange, Watch, WatchHealth};
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, Observation, PoolAtProvider,
};

/// An incident that is put in at a seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SeamFault {
    /// The feed misses the deletion of nodes
    NodeDeletionMissed,
    /// The feed misses the deletion of pods
    PodDeletionMissed,
    /// The feed shows nodes of a zone that fell silent as ready
    OutageLooksHealthy,
    /// A read of the cloud that fails is answered by an empty cloud
    UnknownIsZero,
    /// A read of the cloud that fails is never answered
    ProviderCallHangs,
    /// A read of the cloud that fails ends the process
    ThrottleIsFatal,
    /// A launch that failed in part is reported as one that brought nothing
    PartialNotCounted,
}

/// A feed with an incident.
pub(crate) struct FaultyFeed {
    pub(crate) inner: Arc<dyn Feed>,
    pub(crate) fault: SeamFault,
}

impl FaultyFeed {
    fn shown(&self, mut delta: Delta) -> Option<Delta> {
        if let (Delta::NodeApplied(node), SeamFault::OutageLooksHealthy) = (&mut delta, self.fault) {
            node.ready = Readiness::Ready;
        }
        let missed = match delta {
            Delta::NodeDeleted(_) => self.fault == SeamFault::NodeDeletionMissed,
            Delta::PodDeleted(_) => self.fault == SeamFault::PodDeletionMissed,
            _ => false,
        };
        (!missed).then_some(delta)
    }
}

impl Feed for FaultyFeed {
    fn take(&self) -> Vec<Delta> {
        self.inner.take().into_iter().filter_map(|delta| self.shown(delta)).collect()
    }

    fn take_policies(&self) -> Vec<PolicyChange> {
        self.inner.take_policies()
    }

    fn notified(&self) -> BoxFuture<'_, ()> {
        self.inner.notified()
    }

    fn health(&self, now: UnixTime) -> Vec<WatchHealth> {
        self.inner.health(now)
    }

    fn silent_for(&self, watch: Watch, now: UnixTime) -> Option<Seconds> {
        self.inner.silent_for(watch, now)
    }

    fn synced(&self) -> bool {
        self.inner.synced()
    }

    fn staleness(&self, now: UnixTime) -> Option<Seconds> {
        self.inner.staleness(now)
    }

    fn distrust(&self) {
        self.inner.distrust();
    }

    fn newest_version(&self) -> u64 {
        self.inner.newest_version()
    }

    fn regressed_at(&self) -> Option<UnixTime> {
        self.inner.regressed_at()
    }
}

/// A provider with an incident.
pub(crate) struct FaultyProvider {
    pub(crate) inner: Arc<dyn CloudProvider>,
    pub(crate) fault: SeamFault,
    pub(crate) host: Arc<Host>,
}

impl CloudProvider for FaultyProvider {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(async move {
            let mut answers = self.inner.observe(pools).await;
            let fails = answers.iter().any(Result::is_err);
            assert!(!fails || self.fault != SeamFault::ThrottleIsFatal, "the provider did not answer");
            if fails && self.fault == SeamFault::ProviderCallHangs {
                self.host.sleep(Duration::from_secs(86_400)).await;
            }
            for answer in answers.iter_mut().filter(|_| self.fault == SeamFault::UnknownIsZero) {
                if answer.is_err() {
                    *answer = Ok(ProviderState::default().into());
                }
            }
            answers
        })
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let answer = self.inner.increase(request).await;
            answer.map_err(|error| match self.fault {
                SeamFault::PartialNotCounted => Error { created: 0, ..error },
                _ => error,
            })
        })
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        self.inner.cancel(request)
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.delete(pool, victim, node)
    }
}
