//! All clouds behind one trait: each pool is asked of the provider whose kind its settings name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{self, BoxFuture};
use headroom_core::history::Victim;
use headroom_core::world::provider::FailureClass;

use super::{
    Asked, CloudProvider, CloudSettings, Deletion, Error, Increase, Increased, NodeMetadata, Observation,
    OpenIntents, PoolAtProvider,
};

/// The providers of this process, by kind.
#[derive(Default)]
pub struct Clouds(BTreeMap<&'static str, Arc<dyn CloudProvider>>);

impl Clouds {
    /// These and the provider of the pools whose settings have this kind.
    #[must_use]
    pub fn with(mut self, kind: &'static str, provider: Arc<dyn CloudProvider>) -> Self {
        self.0.insert(kind, provider);
        self
    }

    /// # Errors
    /// If this process has no provider of the pool's kind.
    fn of(&self, pool: &PoolAtProvider) -> Result<&dyn CloudProvider, Error> {
        let kind = pool.settings.kind();
        let provider = self.0.get(kind).ok_or_else(|| {
            let words = format!("this operator was built without provider {kind}");
            Error::refused(FailureClass::InvalidConfiguration, words)
        });
        provider.map(|provider| &**provider)
    }

    /// The answers of one provider for its pools, each with the pool's place among all.
    async fn observe_kind<'a>(
        provider: &'a dyn CloudProvider,
        pools: Vec<(usize, Asked<'a>)>,
    ) -> Vec<(usize, Result<Observation, Error>)> {
        let (places, asked): (Vec<usize>, Vec<Asked<'a>>) = pools.into_iter().unzip();
        let mut answers = provider.observe(&asked).await.into_iter();
        let answer = |place| {
            (place, answers.next().unwrap_or_else(|| Err(Error::unknown("the provider gave no answer"))))
        };
        places.into_iter().map(answer).collect()
    }
}

impl CloudProvider for Clouds {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(async move {
            let mut by_kind: BTreeMap<&str, Vec<(usize, Asked<'a>)>> = BTreeMap::new();
            let mut answers = Vec::new();
            for (place, asked) in pools.iter().copied().enumerate() {
                match self.of(asked.pool) {
                    Ok(_) => by_kind.entry(asked.pool.settings.kind()).or_default().push((place, asked)),
                    Err(error) => answers.push((place, Err(error))),
                }
            }
            let asked = by_kind.into_iter().filter_map(|(kind, pools)| {
                let provider = self.0.get(kind)?;
                Some(Self::observe_kind(&**provider, pools))
            });
            answers.extend(future::join_all(asked).await.into_iter().flatten());
            answers.sort_by_key(|(place, _)| *place);
            answers.into_iter().map(|(_, answer)| answer).collect()
        })
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        match self.of(&request.pool) {
            Ok(provider) => provider.increase(request),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        match self.of(&request.pool) {
            Ok(provider) => provider.cancel(request),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        match self.of(pool) {
            Ok(provider) => provider.delete(pool, victim, node),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn delete_together<'a>(&'a self, deletion: &'a Deletion) -> BoxFuture<'a, Vec<Result<(), Error>>> {
        match self.of(&deletion.pool) {
            Ok(provider) => provider.delete_together(deletion),
            Err(error) => {
                Box::pin(async move { deletion.victims.iter().map(|_| Err(error.clone())).collect() })
            }
        }
    }

    fn tidy<'a>(&'a self, pool: &'a PoolAtProvider, busy: &'a BTreeSet<Arc<str>>) -> BoxFuture<'a, ()> {
        match self.of(pool) {
            Ok(provider) => provider.tidy(pool, busy),
            Err(_) => Box::pin(async {}),
        }
    }

    fn note_open(&self, open: &OpenIntents) {
        self.0.values().for_each(|provider| provider.note_open(open));
    }
}
