//! The simulated cloud: the embedded provider with a model of slow joins, failing launches and zones that are out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::Seconds;
use jiff::{SignedDuration, Timestamp};

use super::cluster::{CloudModel, SimCluster};
use headroom_observe::host::Host;
use headroom_provider::kwok::{Kwok, PlayedFailure, Settings};
use headroom_provider::{
    Asked, CloudProvider, Error, Increase, Increased, NodeMetadata, Observation, PoolAtProvider,
    ProviderSettings,
};

/// The simulated cluster behind a lock that is never held over an await.
#[derive(Clone, Debug)]
pub struct SharedCluster(Arc<Mutex<SimCluster>>);

impl SharedCluster {
    /// A handle on `cluster`.
    pub fn new(cluster: SimCluster) -> SharedCluster {
        SharedCluster(Arc::new(Mutex::new(cluster)))
    }

    /// The cluster, for work without an await.
    pub fn lock(&self) -> MutexGuard<'_, SimCluster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The embedded provider as the cloud model lets it work.
pub struct SimulatedCloud {
    kwok: Kwok,
    cluster: SharedCluster,
    host: Arc<Host>,
}

impl SimulatedCloud {
    /// `kwok` with the cloud model of `cluster`; `host` is the cloud's clock.
    pub fn new(kwok: Kwok, cluster: SharedCluster, host: Arc<Host>) -> SimulatedCloud {
        SimulatedCloud { kwok, cluster, host }
    }

    fn with_the_cloud_model(&self, request: &Increase) -> Increase {
        let (pool, group) = (&request.pool.name, &request.group);
        let missing = u32::try_from(missing(request)).unwrap_or(u32::MAX);
        let ProviderSettings::Kwok(mut settings) = request.pool.settings.clone() else {
            return request.clone();
        };
        with_cloud_model(
            &mut settings,
            &self.cluster.lock().cloud_model,
            pool,
            group,
            missing,
            self.host.wall(),
        );
        let settings = ProviderSettings::Kwok(settings);
        Increase { pool: PoolAtProvider { settings, ..request.pool.clone() }, ..request.clone() }
    }
}

/// The settings of one increase of `missing` nodes with this cloud model.
fn with_cloud_model(
    settings: &mut Settings,
    cloud_model: &CloudModel,
    pool: &str,
    group: &Arc<str>,
    missing: u32,
    now: Timestamp,
) {
    let delay = |seconds| cloud_model.join_delay(SignedDuration::from_secs(seconds), now).as_secs();
    // The kubelet adds what a slow join takes beyond the factor; adding it here too would count it twice.
    settings.join_delay = Seconds(delay(settings.join_delay.0) - delay(0));
    if let Some(class) = cloud_model.launch_failure(pool, group, now) {
        let zone = settings.zones.contains(group).then(|| group.clone());
        let message = format!("the cloud has no node for {pool} in {group} ({class:?})").into();
        settings.failures.insert(0, PlayedFailure { zone, class, message, count: Some(missing) });
    }
}

/// Returns how many nodes of the increase are missing: the others cannot fail any more.
fn missing(request: &Increase) -> usize {
    request.node_names().iter().filter(|name| !request.known.contains(*name)).count()
}

impl CloudProvider for SimulatedCloud {
    fn observe<'a>(&'a self, pools: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
        self.kwok.observe(pools)
    }

    fn increase<'a>(&'a self, request: &'a Increase) -> BoxFuture<'a, Result<Increased, Error>> {
        Box::pin(async move { self.kwok.increase(&self.with_the_cloud_model(request)).await })
    }

    fn delete<'a>(
        &'a self,
        pool: &'a PoolAtProvider,
        victim: &'a Victim,
        node: Option<&'a NodeMetadata>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.kwok.delete(pool, victim, node)
    }
}
