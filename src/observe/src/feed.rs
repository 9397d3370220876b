//! The entry point of this package: what has changed since last asked, whether all is known, and how old the view is.

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
use super::object::{AnyObject, DECODING, Decoding};
use super::optional::{
    ATTACHMENTS, BUFFERS, QUOTAS, REQUESTS, TEMPLATES, follow_optional, follow_served, follow_templates,
};
use super::partial_object::PartialObject;
use super::policies::{Policies, PolicyChange};
use super::queue::{Queue, Urgency};
use super::watch::follow;
use super::watched::{Change, Watch, Watched};
use super::wire::Wire;
use super::workloads::Workloads;
use crate::host::Host;

/// Source of a loop's observations: watches of a real cluster, or a simulated one.
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

    /// True if every kind has been listed completely once.
    fn synced(&self) -> bool;

    /// Time that the most silent watch has been silent; `None` while one has not been listed. A healthy watch is heard
    /// about once a minute, since servers send bookmarks.
    fn staleness(&self, now: UnixTime) -> Option<Seconds>;

    /// The server has gone back to an older state, as something else than a watch has shown: every kind is to be listed
    /// anew. A restored server stays silent of everything up to the versions that watches ask for, and may have come
    /// past them by the time of the lists, so that [`Feed::regressed_at`] is now in any case.
    fn distrust(&self);

    /// The newest version that any watch has shown; 0 when none, or when versions are not numbers.
    fn newest_version(&self) -> u64;

    /// Time at which the server last went back to an older state than it had shown on any watch; `None` if it never did.
    fn regressed_at(&self) -> Option<UnixTime>;
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchHealth {
    /// The watch.
    pub watch: Watch,
    /// True if it has been listed completely once.
    pub listed: bool,
    /// Time since the server was last heard on it; `None` when never.
    pub silent_for: Option<Seconds>,
    /// The newest resourceVersion seen, as a number; 0 when none.
    pub version: u64,
    /// Number of times that the server went back to an older version than it had shown before.
    pub regressions_count: u64,
    /// Time at which it last did.
    pub regressed_at: Option<UnixTime>,
    /// Number of objects that could not be decoded and were left out.
    pub undecodable_count: u64,
    /// Last error; `None` after a success.
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
        feed.follow(client, host, Watch::ALL.into());
        feed
    }

    /// As [`KubeFeed::start`], and besides everything that replica decisions read is kept.
    #[must_use]
    pub fn start_with_workloads(client: &Client, host: &Arc<Host>) -> Self {
        // The store is made before the first watch delivers: no object may pass it by.
        let feed = Self::unfed_with_workloads(host);
        let mut watches = Workloads::WATCHES.to_vec();
        watches.retain(|watch| !Watch::ALL.contains(watch));
        watches.extend(Watch::ALL);
        feed.follow(client, host, watches);
        feed
    }

    /// Calls `read` with the inputs of replica decisions; watches wait meanwhile. `None` from a feed that was not
    /// started for it.
    pub fn workloads<T>(&self, read: impl FnOnce(&mut Workloads) -> T) -> Option<T> {
        self.shared.lock().workloads.as_mut().map(read)
    }

    /// Resolves when an HPA, a ScalingPolicy or the ClusterScalingPolicy was edited, and when a list of what replica decisions
    /// read has ended. One loop waits.
    pub fn workloads_edited(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.workloads_wake_up.notified())
    }

    /// A feed that watches nothing: whoever has its ports delivers the objects.
    #[must_use]
    pub fn unfed(host: &Arc<Host>) -> Self {
        let inner = Mutex::default();
        let (wake_up, workloads_wake_up) = (Notify::new(), Notify::new());
        let (distrusted, _) = watch::channel(());
        let host = Arc::downgrade(host);
        Self { shared: Arc::new(Shared { inner, wake_up, workloads_wake_up, distrusted, host }) }
    }

    /// As [`KubeFeed::unfed`], and besides everything that replica decisions read is kept.
    #[must_use]
    pub fn unfed_with_workloads(host: &Arc<Host>) -> Self {
        let feed = Self::unfed(host);
        feed.shared.lock().workloads = Some(Workloads::default());
        feed
    }

    /// Returns the port that takes the changes of one kind.
    #[must_use]
    pub fn port<K: Watched>(&self) -> Port {
        Port { shared: self.shared.clone(), watch: K::WATCH }
    }

    fn follow(&self, client: &Client, host: &Host, watches: Vec<Watch>) {
        let port = |watch| Port { shared: self.shared.clone(), watch };
        // From the last to the first: policies before the kinds that there are most objects of.
        let ports = watches.into_iter().rev().map(port).collect();
        let (wired, wires) = Wire::under(client, ports);
        let (optional, wires) =
            wires.into_iter().partition::<Vec<_>, _>(|wire| wire.port.watch.resource().optional);
        for wire in wires {
            host.spawn(follow(wired.clone(), wire));
        }
        let wanted = Arc::new(watch::channel(false).0);
        for wire in optional {
            let watch = wire.port.watch;
            match watch {
                TEMPLATES => host.spawn(follow_templates(wired.clone(), wire, wanted.subscribe())),
                QUOTAS | ATTACHMENTS => host.spawn(follow_served(wired.clone(), wire)),
                _ => {
                    let wanted = matches!(watch, BUFFERS | REQUESTS).then(|| wanted.clone());
                    host.spawn(follow_optional((client.clone(), wired.clone()), wire, wanted));
                }
            }
        }
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
        Box::pin(self.shared.wake_up.notified())
    }

    fn distrust(&self) {
        let now = self.shared.host.upgrade().map(|host| host.now()).unwrap_or_default();
        for state in self.shared.lock().watches.values_mut() {
            state.regressed_at = Some(now);
        }
        self.shared.distrusted.send_replace(());
    }

    // Each turn of the loop asks this: it is answered without rendering the whole health, which is made of texts.
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
    wake_up: Notify,
    workloads_wake_up: Notify,
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
    /// Inputs of replica decisions; `None` if no such decisions are made.
    workloads: Option<Workloads>,
}

#[derive(Clone, Debug, Default)]
struct WatchState {
    listed: bool,
    heard_at: Option<UnixTime>,
    version: u64,
    /// The oldest version that the next object may have on the running watch: that of the one before, or the version that
    /// the watch asked for.
    object_floor: u64,
    /// As `object_floor`, of the next bookmark. Bookmarks are read before the objects that the server sent with them.
    bookmark_floor: u64,
    /// True from the last object of a list until the watch that goes on from it is asked for.
    list_shown: bool,
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

    /// Updates the store of replica decisions. Returns true if something was edited.
    fn update_workloads<K: Watched>(&mut self, object: &K) -> Result<bool, Error> {
        let Some(workloads) = &mut self.workloads else { return Ok(false) };
        object.update_workloads(&mut self.decoder, workloads)?;
        Ok(workloads.has_edits())
    }

    /// Removes an object that is gone from it. Returns true if something was edited.
    fn remove_from_workloads(&mut self, watch: Watch, meta: &ObjectMeta) -> bool {
        let Some(workloads) = &mut self.workloads else { return false };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        workloads.remove(watch, &ObjectKey::new(namespace, meta.name.as_deref().unwrap_or_default()));
        workloads.has_edits()
    }

    fn state(&mut self, watch: Watch) -> &mut WatchState {
        self.watches.entry(watch).or_default()
    }
}

/// Kind of message on a watch that shows a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// An object, deleted ones included.
    Object,
    /// A bookmark.
    Bookmark,
}

impl WatchState {
    /// The server is at `version` now, older than it has been.
    fn went_back(&mut self, watch: Watch, version: u64, now: UnixTime) {
        self.regressions_count += 1;
        self.regressed_at = Some(now);
        tracing::warn!(
            watch = watch.as_str(),
            from = self.version,
            to = version,
            "the server went back to an older version"
        );
        (self.version, self.object_floor, self.bookmark_floor) = (version, version, version);
    }
}

/// The end of one watch where its news goes in.
#[derive(Clone, Debug)]
pub struct Port {
    shared: Arc<Shared>,
    pub(super) watch: Watch,
}

impl Port {
    /// An object is new or has changed.
    pub fn applied<K: Watched>(&self, object: K) {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        let mut wrong = match inner.update_workloads(&object) {
            Ok(true) => {
                self.shared.workloads_wake_up.notify_one();
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
        self.wake(urgency);
    }

    /// An object of the kind is new or has changed; it is decoded here, so that no other crate compiles how.
    ///
    /// # Errors
    /// If it cannot be decoded; then nothing is taken.
    pub fn applied_text(&self, text: &str) -> Result<(), serde_json::Error> {
        let decoding = Decoding { watch: self.watch, guarded: false };
        let object: AnyObject = DECODING.sync_scope(decoding, || serde_json::from_str(text))?;
        object.applied(self);
        Ok(())
    }

    /// An object cannot be decoded: it is left out, or what remains of it stands in for it.
    pub fn broken<K: Watched>(&self, partial: &PartialObject) {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        let stand_in = K::stand_in(partial, &mut inner.decoder);
        let urgency = inner.push(stand_in.map_or(Change::None, Change::World));
        drop(guard);
        let ObjectMeta { namespace, name, .. } = &partial.metadata;
        self.undecodable(namespace.as_deref(), name.as_deref(), &partial.error);
        self.wake(urgency);
    }

    /// An object is gone.
    pub fn gone<K: Watched>(&self, meta: &ObjectMeta) {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        if inner.remove_from_workloads(self.watch, meta) {
            self.shared.workloads_wake_up.notify_one();
        }
        let change: Result<Change, Error> = K::gone(meta, &mut inner.decoder);
        if let Ok(change) = change {
            let urgency = inner.push(change);
            drop(guard);
            self.wake(urgency);
        }
    }

    /// A full list begins.
    pub fn list_started(&self) {
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        state.shown.clear();
        state.list_shown = false;
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
        // A kind that is not there ends a list every half minute.
        if inner.workloads.as_mut().is_some_and(|workloads| workloads.list_ended(self.watch)) {
            self.shared.workloads_wake_up.notify_one();
        }
        drop(guard);
        self.wake(Urgency::AtOnce);
    }

    /// The kind is not there, or may not be read: there is no object of it, and that is known.
    pub(super) fn absent(&self) {
        let now = self.now();
        // An empty list would mean that pods refer to objects that do not exist.
        let missing = match self.watch {
            Watch::World(Kind::Gang(kind)) => Some(Delta::GangKindMissing(kind)),
            Watch::World(Kind::Device(kind)) => Some(Delta::DeviceKindMissing(kind)),
            _ => None,
        };
        if let Some(missing) = missing {
            let mut inner = self.shared.lock();
            let state = inner.state(self.watch);
            (state.listed, state.heard_at) = (true, Some(now));
            inner.queue.push(missing);
            drop(inner);
            return self.wake(Urgency::AtOnce);
        }
        self.list_started();
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

    /// The last object of a list has been applied. The list ends when its version is known: before that nobody knows
    /// whether it shows an older state than is known.
    pub(super) fn list_shown(&self) {
        self.shared.lock().state(self.watch).list_shown = true;
    }

    /// A watch is asked for from `version`: the version of the list, or the last one that the watch before has shown.
    /// Versions of one kind only grow; a lower one means a server that lags or a restored backup. Versions that are not
    /// numbers are not compared.
    pub(super) fn watch_asked(&self, version: &str) {
        let now = self.now();
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        if let Ok(version) = version.parse::<u64>() {
            if version < state.version {
                state.went_back(self.watch, version, now);
            }
            (state.version, state.object_floor, state.bookmark_floor) = (version, version, version);
        }
        let ends = std::mem::take(&mut state.list_shown);
        drop(inner);
        if ends {
            self.list_ended();
        }
    }

    /// The running watch has shown `version`. True if it is older than a version that was shown before or asked for.
    pub(super) fn shown(&self, version: &str, by: Shown) -> bool {
        let Ok(version) = version.parse::<u64>() else { return false };
        let now = self.now();
        let mut inner = self.shared.lock();
        let state = inner.state(self.watch);
        let floor = match by {
            Shown::Object => &mut state.object_floor,
            Shown::Bookmark => &mut state.bookmark_floor,
        };
        let older = version < *floor;
        *floor = version;
        if older {
            state.went_back(self.watch, version, now);
        } else {
            state.version = state.version.max(version);
        }
        older
    }

    /// Time since the server was last heard; `None` when never.
    pub(super) fn silence(&self) -> Option<Seconds> {
        let now = self.now();
        self.shared.lock().state(self.watch).heard_at.map(|at| now.since(at))
    }

    /// An object was left out.
    pub fn undecodable(&self, namespace: Option<&str>, name: Option<&str>, error: &str) {
        self.shared.lock().state(self.watch).undecodable_count += 1;
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        tracing::warn!(watch = self.watch.as_str(), namespace, name, error, "object left out");
    }

    /// Something went wrong; logged once until it changes.
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

    fn wake(&self, urgency: Urgency) {
        if urgency == Urgency::AtOnce {
            self.shared.wake_up.notify_one();
        }
    }
}
