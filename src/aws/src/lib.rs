//! Provider AWS: Auto Scaling groups. It remembers nothing between calls that a restart could lose.

mod activities;
mod budget;
pub mod calls;
pub mod cloud;
mod creation;
pub mod ec2;
pub mod group;
mod holds;
pub mod interruptions;
mod managed;
mod options;
pub mod origin;
mod prices;
mod queues;
mod quota;
mod requirements;
mod resize;
mod role;
mod sdk;
mod shape;
pub mod snapshot;
mod sqs;
mod templates;
mod view;
pub mod xml;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::world::provider::{FailureClass, ProviderState};

use self::calls::{Calls, Trouble};
use self::cloud::Cloud;
use self::snapshot::Wanted;
use headroom_observe::host::Host;
use headroom_provider::gate::Gate;
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, Observation, PoolAtProvider,
    ProviderSettings,
};

pub use headroom_provider::aws::{MixedTypes, NamedGroup, Role, Settings};

/// A region's name and its calls.
pub type RegionCalls = (Arc<str>, Arc<dyn Calls>);

/// Finds the calls of a region.
pub trait Connect: Send + Sync {
    /// The calls of `region`, or of the one that the environment names, and its name; made by `role`, if there is one.
    ///
    /// # Errors
    /// In words, when no region is set.
    fn connect<'a>(
        &'a self,
        region: Option<&'a str>,
        role: Option<&'a Role>,
    ) -> BoxFuture<'a, Result<RegionCalls, String>>;
}

/// AWS itself, by the SDK's usual chain of configuration.
pub struct RealAws {
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
}

impl RealAws {
    /// AWS, with writes through `gate`.
    #[must_use]
    pub fn new(host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self { host, gate }
    }
}

impl Connect for RealAws {
    fn connect<'a>(
        &'a self,
        region: Option<&'a str>,
        role: Option<&'a Role>,
    ) -> BoxFuture<'a, Result<RegionCalls, String>> {
        Box::pin(async move {
            let config = sdk::load(region, role).await?;
            let name: Arc<str> = config.region().map(ToString::to_string).unwrap_or_default().into();
            let reader = ec2::Reader::new(&config, self.host.clone(), self.gate.clone());
            let calls = sdk::Sdk::new(&config, reader, self.host.clone(), self.gate.clone());
            Ok((name, Arc::new(calls) as Arc<dyn Calls>))
        })
    }
}

/// A region as pools name it, if they do, and the role that they see it by.
type NamedRegion = (Option<Arc<str>>, Option<Role>);
/// A region's own name, and the role that it is seen by.
type SeenRegion = (Arc<str>, Option<Role>);

/// The provider.
pub struct Aws {
    connect: Box<dyn Connect>,
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
    regions: tokio::sync::Mutex<BTreeMap<NamedRegion, Region>>,
}

/// A region as one identity sees it, once connected.
#[derive(Clone)]
struct Region {
    name: Arc<str>,
    role: Option<Role>,
    cloud: Arc<Cloud>,
}

impl Aws {
    /// A provider that reaches AWS through `connect` and writes through `gate`. Nothing is called before a pool asks.
    #[must_use]
    pub fn new(connect: Box<dyn Connect>, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self { connect, host, gate, regions: tokio::sync::Mutex::default() }
    }

    async fn region(&self, settings: &Settings) -> Result<Region, Error> {
        let mut regions = self.regions.lock().await;
        let asked = (settings.region.clone(), settings.role.clone());
        if let Some(region) = regions.get(&asked) {
            return Ok(region.clone());
        }
        let (name, calls) = self
            .connect
            .connect(settings.region.as_deref(), settings.role.as_ref())
            .await
            .map_err(|words| Error::refused(FailureClass::InvalidConfiguration, words))?;
        // The environment's region may be one that a pool names too: then they share what is read.
        let same = |region: &&Region| region.name == name && region.role == settings.role;
        let known = regions.values().find(same).cloned();
        let region = known.unwrap_or_else(|| {
            let cloud = Cloud::new(calls, self.host.clone(), self.gate.clone());
            Region { name, role: settings.role.clone(), cloud: Arc::new(cloud) }
        });
        regions.insert(asked, region.clone());
        Ok(region)
    }

    async fn observe_all(&self, pools: &[Asked<'_>]) -> Vec<Result<Observation, Error>> {
        let mut regions: BTreeMap<SeenRegion, (Arc<Cloud>, Wanted)> = BTreeMap::new();
        let mut of_pools = Vec::with_capacity(pools.len());
        for asked in pools {
            let region = match settings_of(asked.pool) {
                Ok(settings) => self.region(settings).await.map(|region| (settings, region)),
                Err(error) => Err(error),
            };
            if let Ok((settings, region)) = &region {
                let entry = regions.entry((region.name.clone(), region.role.clone()));
                let (_, wanted) = entry.or_insert_with(|| (region.cloud.clone(), Wanted::default()));
                wanted.names.extend(settings.groups.iter().map(|group| group.name.clone()));
                wanted.selectors.extend(settings.tags());
                wanted.queues.extend(settings.interruption_queue.clone());
            }
            of_pools.push(region);
        }
        let none = BTreeSet::new();
        let registered = pools.first().map_or(&none, |asked| asked.registered);
        for (cloud, wanted) in regions.values() {
            cloud.refresh(wanted, registered).await;
        }
        let owners = owners(pools, &of_pools);
        let mut answers = Vec::with_capacity(pools.len());
        for (asked, region) in pools.iter().zip(of_pools) {
            answers.push(match region {
                Ok((settings, region)) => self.answer(asked.pool, settings, &region, &owners).await,
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn answer(
        &self,
        pool: &PoolAtProvider,
        settings: &Settings,
        region: &Region,
        owners: &Owners,
    ) -> Result<Observation, Error> {
        let cloud = &region.cloud;
        let claimed = {
            let snapshot = cloud.snapshot();
            if let (None, Some(failure)) = (&snapshot.whole, &snapshot.failure) {
                let class = match failure.error.kind {
                    Trouble::Denied | Trouble::Credentials => FailureClass::PermissionDenied,
                    Trouble::Throttled | Trouble::NotSent => FailureClass::Throttled,
                    _ => FailureClass::Other,
                };
                return Err(Error::refused(class, failure.error.in_words()));
            }
            view::claimed(settings, &snapshot)
        };
        let foreign = claimed.iter().find_map(|name| {
            let owner = owners.get(&region.place_of(name))?;
            (*owner != pool.name)
                .then(|| format!("group {name} belongs to the older pool {owner}: remove it from one"))
        });
        let clock = self.host.monotonic();
        if let Some(words) = foreign {
            let state = ProviderState { conflict: Some(words.into()), ..ProviderState::default() };
            return Ok(Observation { state, read_at: None, next_in: Some(cloud.snapshot().next_in(clock)) });
        }
        let settings = &Settings { region: Some(region.name.clone()), ..settings.clone() };
        templates::refresh(cloud, pool, settings, &claimed).await;
        let ((mut state, read_at), next_in) = {
            let snapshot = cloud.snapshot();
            (view::state_of(settings, &snapshot, self.host.now()), Some(snapshot.next_in(clock)))
        };
        if let Some(managed) = &settings.managed {
            managed::complete(cloud, pool, settings, managed, &mut state).await;
        }
        Ok(Observation { state, read_at, next_in })
    }
}

/// A group's region, its account and its name.
type Place = (Arc<str>, Arc<str>, Arc<str>);

impl Region {
    /// Where a group is. Two roles of one account show the same groups.
    fn place_of(&self, group: &Arc<str>) -> Place {
        let account = self.cloud.snapshot().groups.get(group).map(|read| read.group.account.clone());
        (self.name.clone(), account.unwrap_or_default(), group.clone())
    }
}

/// The pool that owns each group.
type Owners = BTreeMap<Place, Arc<str>>;

/// Of several claims on one group the oldest pool's holds (tie: by name).
fn owners(pools: &[Asked<'_>], regions: &[Result<(&Settings, Region), Error>]) -> Owners {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    order.sort_by_key(|index| (pools[*index].pool.created_at, pools[*index].pool.name.clone()));
    let mut owners = Owners::new();
    for index in order {
        let Ok((settings, region)) = &regions[index] else { continue };
        let claimed = view::claimed(settings, &region.cloud.snapshot());
        for name in claimed {
            owners.entry(region.place_of(&name)).or_insert_with(|| pools[index].pool.name.clone());
        }
    }
    owners
}

fn settings_of(pool: &PoolAtProvider) -> Result<&Settings, Error> {
    let ProviderSettings::Aws(settings) = &pool.settings else {
        return Err(Error::unknown("the pool does not belong to provider AWS"));
    };
    Ok(settings)
}

impl CloudProvider for Aws {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        Box::pin(self.observe_all(pools))
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let settings = settings_of(&request.pool)?;
            let region = self.region(settings).await?;
            resize::increase(&region.cloud, settings, request).await
        })
    }

    fn cancel<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move {
            let region = self.region(settings_of(&request.pool)?).await?;
            resize::cancel(&region.cloud, request).await
        })
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        _node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let settings = settings_of(pool)?;
            let region = self.region(settings).await?;
            resize::delete(&region.cloud, settings, victim).await
        })
    }

    fn tidy<'a>(&'a self, pool: &'a PoolAtProvider, busy: &'a BTreeSet<Arc<str>>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(settings) = settings_of(pool) else { return };
            let (Some(managed), Ok(region)) = (&settings.managed, self.region(settings).await) else {
                return;
            };
            creation::remove_empty(&region.cloud, managed, busy).await;
        })
    }
}
