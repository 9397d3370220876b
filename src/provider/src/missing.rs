//! A provider that this build does not have: every pool of it fails with a message that says so.

use futures::future::{self, BoxFuture, FutureExt};
use headroom_core::history::Victim;

use super::{Asked, CloudProvider, Error, Increase, Increased, Observation, PoolAtProvider};

/// Stands in for a provider whose cargo feature was off.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The provider as `spec.provider.type` names it.
    pub name: &'static str,
    /// The cargo feature of the package `headroom` that brings it.
    pub feature: &'static str,
}

impl Missing {
    fn error(self) -> Error {
        let Self { name, feature } = self;
        Error::unknown(format!(
            "this build of headroom has no provider {name}: build it with the feature {feature}"
        ))
    }
}

impl CloudProvider for Missing {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        future::ready(pools.iter().map(|_| Err(self.error())).collect()).boxed()
    }

    fn increase<'a>(&'a self, _: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        future::ready(Err(self.error())).boxed()
    }

    fn delete<'a>(&'a self, _: &'a PoolAtProvider, _: &'a Victim) -> BoxFuture<'a, Result<(), Error>> {
        future::ready(Err(self.error())).boxed()
    }
}
