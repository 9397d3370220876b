//! The door of this room: what has changed since last asked, whether all is known, and how old the view is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::{Notify, watch};

use headroom_core::labels::ObjectKey;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::{Delta, Kind};

use super::decoder::{Decoder, Error};
use super::policies::{Policies, PolicyChange};
use super::queue::{Queue, Urgency};
use super::remains::Remains;
use super::slim::{
    SlimCapacityBuffer, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimDaemonSet, SlimDeployment,
    SlimDisruptionBudget, SlimHpa, SlimJob, SlimNamespace, SlimNode, SlimPod, SlimPodTemplate,
    SlimPriorityClass, SlimQuota, SlimReplicaSet, SlimReplicationController, SlimStatefulSet,
    SlimStorageCapacity, SlimStorageClass, SlimVolume,
};
use super::watch::{follow, follow_buffers};
use super::watched::{Change, Watch, Watched};
use super::workloads::Workloads;
use crate::host::Host;
use headroom_api::{StoredClusterScalingPolicy, StoredNodePool, StoredScalingPolicy};

/// What a loop observes through: watches of a real cluster, or a simulated one.
pub trait Feed: Send + Sync {
    /// The changes of the world since the last call, oldest first; at most one an object.
    fn take(&self) -> Vec<Delta>;

    /// The changes of custom resources since the last call, oldest first.
    fn take_policies(&self) -> Vec<PolicyChange>;

    /// Resolves when something happened that is worth a look at once. Changes that can wait for the next tick do not
    /// resolve it. One loop waits; what rang while nobody waited resolves the next call at once.
    fn notified(&self) -> BoxFuture<'_, ()>;

    /// The state of each watch at `now`, in a fixed order.
    fn health(&self, now: UnixTime) -> Vec<WatchHealth>;

    /// Time since the server was last heard on one watch; `None` when never.
    fn silent_for(&self, watch: Watch, now: UnixTime) -> Option<Seconds> {
        self.health(now).into_iter().find(|health| health.watch == watch)?.silent_for
    }

    /// Whether every kind has been listed completely once.
    fn synced(&self) -> bool;

    /// How long the most silent watch has been silent; `None` while one has not been listed. A healthy watch is heard
    /// about once a minute, since servers send bookmarks.
    fn staleness(&self, now: UnixTime) -> Option<Seconds>;

    /// The server has gone back to an older state, as something else than a watch has shown: every kind is to be listed
    /// anew. A restored server stays silent of everything up to the versions that watches ask for, and may have come
    /// past them by the time of the lists, so that [`Feed::regressed_at`] is now in any case.
    fn distrust(&self);

    /// The newest version that any watch has shown; 0 when none, or when versions are no numbers.
    fn newest_version(&self) -> u64;

    /// When the server last went back to an older state than it had shown on any watch; `None` if it never did.
    fn regressed_at(&self) -> Option<UnixTime>;
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchHealth {
    /// The watch.
    pub watch: Watch,
    /// Whether it has been listed completely once.
    pub listed: bool,
    /// Time since the server was last heard on it; `None` when never.
    pub silent_for: Option<Seconds>,
    /// The newest resourceVersion seen, as a number; 0 when none.
    pub version: u64,
    /// How often the server went back to an older version than it had shown before.
    pub regressions_count: u64,
    /// When it last did.
    pub regressed_at: Option<UnixTime>,
    /// How many objects could not be decoded and were left out.
    pub undecodable_count: u64,
    /// What went wrong last, while it has not gone right again.
    pub trouble: Option<String>,
}

/// The watches of a cluster.
#[derive(Clone, Debug)]
pub struct KubeFeed {
    shared: Arc<Shared>,
}

impl KubeFeed {
    /// Starts one task a kind, for the life of the host.
    #[must_use]
    pub fn start(client: &Client, host: &Arc<Host>) -> Self {
        let feed = Self::unfed(host);
        feed.follow_all(client, host);
        feed
    }

    /// As [`KubeFeed::start`], and besides everything that replica decisions read is kept.
    #[must_use]
    pub fn start_with_workloads(client: &Client, host: &Arc<Host>) -> Self {
        // The store is made before the first watch delivers: no object may pass it by.
        let feed = Self::unfed_with_workloads(host);
        feed.follow_all(client, host);
        feed.follow::<SlimHpa>(client, host);
        feed.follow::<StoredScalingPolicy>(client, host);
        feed
    }

    /// What replica decisions read, for as long as `read` looks at it: watches wait meanwhile. `None` from a feed that was
    /// not started for it.
    pub fn workloads<T>(&self, read: impl FnOnce(&mut Workloads) -> T) -> Option<T> {
        self.shared.lock().workloads.as_mut().map(read)
    }

    /// Resolves when an HPA, a ScalingPolicy or the ClusterScalingPolicy was edited. One loop waits.
    pub fn workloads_edited(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.workloads_bell.notified())
    }

    /// A feed that watches nothing: whoever has its ports says what there is.
    #[must_use]
    pub fn unfed(host: &Arc<Host>) -> Self {
        let inner = Mutex::default();
        let (bell, workloads_bell) = (Notify::new(), Notify::new());
        let (distrusted, _) = watch::channel(());
        let host = Arc::downgrade(host);
        Self { shared: Arc::new(Shared { inner, bell, workloads_bell, distrusted, host }) }
    }

    /// As [`KubeFeed::unfed`], and besides everything that replica decisions read is kept.
    #[must_use]
    pub fn unfed_with_workloads(host: &Arc<Host>) -> Self {
        let feed = Self::unfed(host);
        feed.shared.lock().workloads = Some(Workloads::default());
        feed
    }

    /// Where the news of one kind goes in.
    #[must_use]
    pub fn port<K: Watched>(&self) -> Port {
        Port { shared: self.shared.clone(), watch: K::WATCH }
    }

    fn follow_all(&self, client: &Client, host: &Host) {
        self.follow::<StoredNodePool>(client, host);
        self.follow::<StoredClusterScalingPolicy>(client, host);
        self.follow::<SlimNamespace>(client, host);
        self.follow::<SlimNode>(client, host);
        self.follow::<SlimDaemonSet>(client, host);
        self.follow::<SlimReplicaSet>(client, host);
        self.follow::<SlimStatefulSet>(client, host);
        self.follow::<SlimJob>(client, host);
        self.follow::<SlimReplicationController>(client, host);
        self.follow::<SlimDisruptionBudget>(client, host);
        self.follow::<SlimPriorityClass>(client, host);
        self.follow::<SlimStorageClass>(client, host);
        self.follow::<SlimCsiNode>(client, host);
        self.follow::<SlimCsiDriver>(client, host);
        self.follow::<SlimStorageCapacity>(client, host);
        self.follow::<SlimVolume>(client, host);
        self.follow::<SlimClaim>(client, host);
        self.follow::<SlimPod>(client, host);
        self.follow::<SlimDeployment>(client, host);
        host.spawn(follow_buffers(
            client.clone(),
            self.port::<SlimCapacityBuffer>(),
            self.port::<SlimPodTemplate>(),
            self.port::<SlimQuota>(),
        ));
    }

    fn follow<K: Watched>(&self, client: &Client, host: &Host) {
        host.spawn(follow::<K>(client.clone(), self.port::<K>()));
    }
}

impl Feed for KubeFeed {
    fn take(&self) -> Vec<Delta> {
        self.shared.lock().queue.take()
    }

    fn take_policies(&self) -> Vec<PolicyChange> {
        std::mem::take(&mut self.shared.lock().policy_changes)
    }

    fn notified(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.bell.notified())
    }

    fn distrust(&self) {
        let now = self.shared.host.upgrade().map(|host| host.now()).unwrap_or_default();
        for state in self.shared.lock().watches.values_mut() {
            state.regressed_at = Some(now);
        }
        self.shared.distrusted.send_replace(());
    }

    // What each turn of the loop asks is answered without telling the whole health, which is made of texts.
    fn synced(&self) -> bool {
        let inner = self.shared.lock();
        Watch::ALL.iter().all(|watch| inner.watches.get(watch).is_some_and(|state| state.listed))
    }

    fn staleness(&self, now: UnixTime) -> Option<Seconds> {
        let inner = self.shared.lock();
        let silences: Option<Vec<Seconds>> = Watch::ALL
            .iter()
            .map(|watch| inner.watches.get(watch).filter(|state| state.listed)?.heard_at)
            .map(|heard_at| Some(now.since(heard_at?)))
            .collect();
        Some(silences?.into_iter().max().unwrap_or_default())
    }

    fn newest_version(&self) -> u64 {
        self.shared.lock().watches.values().map(|state| state.version).max().unwrap_or(0)
    }

    fn regressed_at(&self) -> Option<UnixTime> {
        self.shared.lock().watches.values().filter_map(|state| state.regressed_at).max()
    }

    fn silent_for(&self, watch: Watch, now: UnixTime) -> Option<Seconds> {
        let heard_at = self.shared.lock().watches.get(&watch)?.heard_at;
        heard_at.map(|at| now.since(at))
    }

    fn health(&self, now: UnixTime) -> Vec<WatchHealth> {
        let inner = self.shared.lock();
        let health = Watch::ALL.iter().map(|watch| {
            let state = inner.watches.get(watch).cloned().unwrap_or_default();
            WatchHealth {
                watch: *watch,
                listed: state.listed,
                silent_for: state.heard_at.map(|at| now.since(at)),
                version: state.version,
                regressions_count: state.regressions_count,
                regressed_at: state.regressed_at,
                undecodable_count: state.undecodable_count,
                trouble: state.trouble,
            }
        });
        health.collect()
    }
}

struct Shared {
    inner: Mutex<Inner>,
    bell: Notify,
    workloads_bell: Notify,
    /// Changes when what the watches have shown is not to be believed any more.
    distrusted: watch::Sender<()>,
    /// Weak, because the host's tasks hold this: dropping the host must end them.
    host: Weak<Host>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock; should one, the data is still whole: each push is one step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Inner {
    decoder: Decoder,
    queue: Queue,
    policy_changes: Vec<PolicyChange>,
    policies: Policies,
    watches: BTreeMap<Watch, WatchState>,
    /// What replica decisions read; none while nobody makes any.
    workloads: Option<Workloads>,
}

#[derive(Clone, Debug, Default)]
struct WatchState {
    listed: bool,
    heard_at: Option<UnixTime>,
    version: u64,
    regressions_count: u64,
    regressed_at: Option<UnixTime>,
    undecodable_count: u64,
    trouble: Option<String>,
    /// Names of custom resources that the running list has shown.
    shown: BTreeSet<Arc<str>>,
}

impl Inner {
    fn push(&mut self, change: Change) -> Urgency {
        match change {
            Change::World(delta) | Change::StandIn(delta, _) => self.queue.push(delta),
            Change::Policy(change) => {
                let urgency =
                    if change.is_edit(&self.policies) { Urgency::AtOnce } else { Urgency::NextTick };
                self.policies.apply(change.clone());
                self.policy_changes.push(change);
                urgency
            }
            Change::None => Urgency::Nothing,
        }
    }

    /// Tells the store of replica decisions; whether something was edited.
    fn tell<K: Watched>(&mut self, object: &K) -> Result<bool, Error> {
        let Some(workloads) = &mut self.workloads else { return Ok(false) };
        object.tell(&mut self.decoder, workloads)?;
        Ok(workloads.has_edits())
    }

    /// Tells it that an object is gone; whether something was edited.
    fn tell_gone(&mut self, watch: Watch, meta: &ObjectMeta) -> bool {
        let Some(workloads) = &mut self.workloads else { return false };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        workloads.remove(watch, &ObjectKey::new(namespace, meta.name.as_deref().unwrap_or_default()));
        workloads.has_edits()
    }

    fn state(&mut self, watch: Watch) -> &mut WatchState {
        self.watches.entry(watch).or_default()
    }
}

/// The end of one watch where its news goes in.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    watch: Watch,
}

impl Port {
    /// An object is new or has changed.
    pub fn applied<K: Watched>(&self, object: K) {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        let mut wrong = match inner.tell(&object) {
            Ok(true) => {
                self.shared.workloads_bell.notify_one();
                None
            }
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let change = match object.applied(&mut inner.decoder) {
            Ok(Change::StandIn(delta, error)) => {
                wrong = Some(error);
                Change::World(delta)
            }
            Ok(change) => change,
            Err(error) => {
                wrong = Some(error);
                Change::None
            }
        };
        if let (Change::Policy(_), Some(name)) = (&change, &name) {
            inner.state(self.watch).shown.insert(name.as_str().into());
        }
        let urgency = inner.push(change);
        drop(guard);
        if let Some(error) = wrong {
            self.undecodable(namespace.as_deref(), name.as_deref(), &error.to_string());
        }
        self.ring(urgency);
    }

    /// An object cannot be decoded: it is left out, or what remains of it stands in for it.
    pub fn broken<K: Watched>(&self, remains: &Remains) {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        let stand_in = K::stand_in(remains, &mut inner.decoder);
        let urgency = inner.push(stand_in.map_or(Change::None, Change::World));
        drop(guard);
        let ObjectMeta { namespace, name, .. } = &remains.metadata;
        self.undecodable(namespace.as_deref(), name.as_deref(), &remains.error);
        self.ring(urgency);
    }

    /// An object is gone.
    pub fn gone<K: Watched>(&self, meta: &ObjectMeta) {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        if inner.tell_gone(self.watch, meta) {
            self.shared.workloads_bell.notify_one();
        }
        let change: Result<Change, Error> = K::gone(meta, &mut inner.decoder);
        if let Ok(change) = change {
            let urgency = inner.push(change);
            drop(guard);
            self.ring(urgency);
        }
    }

    /// A full list begins.
    pub fn list_started(&self) {
        let mut inner = self.shared.lock();
        inner.state(self.watch).shown.clear();
        if let Some(workloads) = &mut inner.workloads {
            workloads.list_started(self.watch);
        }
        if let Some(kind) = self.watch.kind() {
            inner.queue.push(Delta::ListStarted(kind));
        }
    }

    /// The full list is complete: what it has not shown is gone.
    pub fn list_ended(&self) {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        let state = inner.state(self.watch);
        state.listed = true;
        let shown = std::mem::take(&mut state.shown);
        let missing = |known: Vec<&Arc<str>>| -> Vec<Arc<str>> {
            known.into_iter().filter(|name| !shown.contains(*name)).cloned().collect()
        };
        match self.watch {
            Watch::World(kind) => {
                inner.queue.push(Delta::ListEnded(kind));
            }
            Watch::NodePools => {
                for name in missing(inner.policies.pools.keys().collect()) {
                    inner.push(Change::Policy(PolicyChange::PoolGone(name)));
                }
            }
            Watch::ClusterScalingPolicies => {
                for name in missing(inner.policies.clusters.keys().collect()) {
                    inner.push(Change::Policy(PolicyChange::ClusterGone(name)));
                }
            }
            Watch::Deployments => {
                inner.queue.push(Delta::ListEnded(Kind::Deployment));
            }
            Watch::Hpas | Watch::ScalingPolicies => {}
        }
        if let Some(workloads) = &mut inner.workloads {
            workloads.list_ended(self.watch);
            self.shared.workloads_bell.notify_one();
        }
        drop(guard);
        self.ring(Urgency::AtOnce);
    }

    /// The kind is not there, or may not be read: there is no object of it, and that is known.
    pub(super) fn absent(&self) {
        self.list_started();
        let now = self.now();
        self.shared.lock().state(self.watch).heard_at = Some(now);
        self.list_ended();
    }

    /// Changes when the kind is to be listed anew.
    pub(super) fn distrusted(&self) -> watch::Receiver<()> {
        self.shared.distrusted.subscribe()
    }

    /// The host's clock.
    pub(super) fn now(&self) -> UnixTime {
        self.shared.host.upgrade().map(|host| host.now()).unwrap_or_default()
    }

    /// The server was heard.
    pub fn contact(&self) {
        let now = self.now();
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        state.heard_at = Some(now);
        if state.trouble.take().is_some() {
            tracing::info!(watch = self.watch.as_str(), "watch works again");
        }
    }

    /// A version was seen. Versions of one kind only grow; a lower one means a server that lags or a restored backup.
    /// Versions that are no numbers are not compared.
    pub(super) fn version(&self, version: &str) {
        let Ok(version) = version.parse::<u64>() else { return };
        let now = self.now();
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        if version < state.version {
            state.regressions_count += 1;
            state.regressed_at = Some(now);
            tracing::warn!(
                watch = self.watch.as_str(),
                from = state.version,
                to = version,
                "the server went back to an older version"
            );
        }
        state.version = version;
    }

    /// An object was left out.
    pub fn undecodable(&self, namespace: Option<&str>, name: Option<&str>, error: &str) {
        self.shared.lock().state(self.watch).undecodable_count += 1;
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        tracing::warn!(watch = self.watch.as_str(), namespace, name, error, "object left out");
    }

    /// Something went wrong; told once until it changes.
    pub(super) fn trouble(&self, why: &str) {
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        if state.trouble.as_deref() != Some(why) {
            tracing::warn!(watch = self.watch.as_str(), why, "watch is in trouble");
            state.trouble = Some(why.to_owned());
        }
    }

    /// A word to the log.
    pub(super) fn warn(&self, message: &str) {
        tracing::warn!(watch = self.watch.as_str(), "{message}");
    }

    fn ring(&self, urgency: Urgency) {
        if urgency == Urgency::AtOnce {
            self.shared.bell.notify_one();
        }
    }
}
