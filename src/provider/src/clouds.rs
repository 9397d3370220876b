//! All providers behind one trait: each pool is asked of the provider that its settings name.

use std::sync::Arc;

use futures::future::{self, BoxFuture};
use headroom_core::history::Victim;

use super::{
    Asked, CloudProvider, Error, Increase, Increased, Observation, PoolAtProvider, ProviderSettings,
};

/// The providers of this process.
pub struct Clouds {
    kwok: Arc<dyn CloudProvider>,
    aws: Arc<dyn CloudProvider>,
}

impl Clouds {
    /// These two.
    #[must_use]
    pub fn new(kwok: Arc<dyn CloudProvider>, aws: Arc<dyn CloudProvider>) -> Self {
        Self { kwok, aws }
    }

    fn of(&self, pool: &PoolAtProvider) -> &dyn CloudProvider {
        match &pool.settings {
            ProviderSettings::Kwok(_) => &*self.kwok,
            ProviderSettings::Aws(_) => &*self.aws,
        }
    }
}

impl CloudProvider for Clouds {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(async move {
            let is_aws = |asked: &Asked<'_>| matches!(asked.pool.settings, ProviderSettings::Aws(_));
            let (aws, kwok): (Vec<Asked<'_>>, Vec<Asked<'_>>) = pools.iter().copied().partition(is_aws);
            let (from_aws, from_kwok) = future::join(self.aws.observe(&aws), self.kwok.observe(&kwok)).await;
            let (mut from_aws, mut from_kwok) = (from_aws.into_iter(), from_kwok.into_iter());
            let answers = pools.iter().map(|asked| {
                let next = if is_aws(asked) { from_aws.next() } else { from_kwok.next() };
                next.unwrap_or_else(|| Err(Error::unknown("the provider gave no answer")))
            });
            answers.collect()
        })
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        self.of(&request.pool).increase(request)
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        self.of(&request.pool).cancel(request)
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.of(pool).delete(pool, victim)
    }
}
