//! The typed port: objects of the store go into the operator's feed without HTTP; it decides nothing and writes
//! nothing.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::time::Instant;

use super::store::{Change, Entry, Kind, ObjectKey, Store, text};
use super::wire::ApiServer;
use headroom_api::{StoredClusterScalingPolicy, StoredNodePool, StoredScalingPolicy};
use headroom_observe::host::Host;
use headroom_observe::slim::{
    SlimAttachment, SlimCapacityBuffer, SlimCapacityQuota, SlimClaim, SlimClaimTemplate, SlimCsiDriver,
    SlimCsiNode, SlimDaemonSet, SlimDeployment, SlimDeviceClass, SlimDisruptionBudget, SlimGang, SlimHpa,
    SlimJob, SlimNamespace, SlimNode, SlimPod, SlimPodTemplate, SlimPriorityClass, SlimQuota, SlimReplicaSet,
    SlimReplicationController, SlimRequest, SlimResourceClaim, SlimResourceSlice, SlimStatefulSet,
    SlimStorageCapacity, SlimStorageClass, SlimTaintRule, SlimVolume,
};
use headroom_observe::{Feed, KubeFeed, PartialObject, PolicyChange, Port, Watch, WatchHealth, Watched};

/// A quiet store is looked at this often, so that the view does not seem old.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Period in which a silent feed checks whether it may continue.
const SILENCE_STEP: Duration = Duration::from_millis(500);

/// A feed that wakes its loop at most once a tick.
pub struct Paced {
    inner: KubeFeed,
    host: Arc<Host>,
    tick: Duration,
    taken_at: Mutex<Option<Instant>>,
}

impl Paced {
    /// `inner` with at least `tick` between two wakings.
    pub fn new(inner: KubeFeed, host: Arc<Host>, tick: Duration) -> Paced {
        Paced { inner, host, tick, taken_at: Mutex::new(None) }
    }
}

impl Feed for Paced {
    fn take(&self) -> Vec<Delta> {
        *self.taken_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.host.monotonic());
        self.inner.take()
    }

    fn take_policies(&self) -> Vec<PolicyChange> {
        self.inner.take_policies()
    }

    fn notified(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.notified().await;
            let taken_at = *self.taken_at.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = taken_at {
                self.host.sleep((at + self.tick).saturating_duration_since(self.host.monotonic())).await;
            }
        })
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

    fn newest_version(&self) -> u64 {
        self.inner.newest_version()
    }

    fn regressed_at(&self) -> Option<UnixTime> {
        self.inner.regressed_at()
    }

    fn distrust(&self) {
        self.inner.distrust();
    }
}

/// A feed filled from the store of `server` by a task of `host`; it stands still while the network is silent. With what
/// replica decisions read, if it is wanted.
pub fn start_behind(server: ApiServer, host: &Arc<Host>, with_workloads: bool) -> KubeFeed {
    let feed = if with_workloads { KubeFeed::unfed_with_workloads(host) } else { KubeFeed::unfed(host) };
    let mut intakes = intakes(&feed);
    if with_workloads {
        intakes.extend(intakes_of_workloads(&feed));
    }
    host.spawn(follow(server, host.clone(), intakes));
    feed
}

/// Destination of the objects of one kind.
trait Intake: Send {
    fn applied(&self, object: &Value);
    fn gone(&self, object: &Value);
    fn port(&self) -> &Port;
}

struct Of<K> {
    port: Port,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for Of<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Of").field(&self.port).finish()
    }
}

impl<K: Watched> Intake for Of<K> {
    fn applied(&self, object: &Value) {
        match K::deserialize(object) {
            // What the watch's field selector leaves out has gone for the operator.
            _ if finished(object) => self.gone(object),
            Ok(slim) => self.port.applied(slim),
            Err(error) => self.port.broken::<K>(&PartialObject::of(object, &error)),
        }
    }

    fn gone(&self, object: &Value) {
        match K::deserialize(object) {
            Ok(slim) => self.port.gone::<K>(slim.meta()),
            Err(error) => self.port.gone::<K>(&PartialObject::of(object, &error).metadata),
        }
    }

    fn port(&self) -> &Port {
        &self.port
    }
}

fn finished(object: &Value) -> bool {
    text(object, &["kind"]) == Some("Pod")
        && matches!(text(object, &["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn of<K: Watched>(feed: &KubeFeed) -> Box<dyn Intake> {
    Box::new(Of::<K> { port: feed.port::<K>(), kind: PhantomData })
}

fn intakes_of_workloads(feed: &KubeFeed) -> Vec<(Kind, Box<dyn Intake>)> {
    vec![
        (Kind::HorizontalPodAutoscaler, of::<SlimHpa>(feed)),
        (Kind::ScalingPolicy, of::<StoredScalingPolicy>(feed)),
    ]
}

fn intakes(feed: &KubeFeed) -> Vec<(Kind, Box<dyn Intake>)> {
    vec![
        (Kind::NodePool, of::<StoredNodePool>(feed)),
        (Kind::ClusterScalingPolicy, of::<StoredClusterScalingPolicy>(feed)),
        (Kind::Namespace, of::<SlimNamespace>(feed)),
        (Kind::Node, of::<SlimNode>(feed)),
        (Kind::DaemonSet, of::<SlimDaemonSet>(feed)),
        (Kind::ReplicaSet, of::<SlimReplicaSet>(feed)),
        (Kind::StatefulSet, of::<SlimStatefulSet>(feed)),
        (Kind::Job, of::<SlimJob>(feed)),
        (Kind::ReplicationController, of::<SlimReplicationController>(feed)),
        (Kind::PodDisruptionBudget, of::<SlimDisruptionBudget>(feed)),
        (Kind::PriorityClass, of::<SlimPriorityClass>(feed)),
        (Kind::StorageClass, of::<SlimStorageClass>(feed)),
        (Kind::CSINode, of::<SlimCsiNode>(feed)),
        (Kind::CSIDriver, of::<SlimCsiDriver>(feed)),
        (Kind::CSIStorageCapacity, of::<SlimStorageCapacity>(feed)),
        (Kind::VolumeAttachment, of::<SlimAttachment>(feed)),
        (Kind::PersistentVolume, of::<SlimVolume>(feed)),
        (Kind::PersistentVolumeClaim, of::<SlimClaim>(feed)),
        (Kind::Deployment, of::<SlimDeployment>(feed)),
        (Kind::PodTemplate, of::<SlimPodTemplate>(feed)),
        (Kind::ResourceQuota, of::<SlimQuota>(feed)),
        (Kind::CapacityBuffer, of::<SlimCapacityBuffer>(feed)),
        (Kind::ProvisioningRequest, of::<SlimRequest>(feed)),
        (Kind::CapacityQuota, of::<SlimCapacityQuota>(feed)),
        (Kind::PodGroup, of::<SlimGang<0>>(feed)),
        (Kind::Workload, of::<SlimGang<1>>(feed)),
        (Kind::CoschedulingPodGroup, of::<SlimGang<2>>(feed)),
        (Kind::VolcanoPodGroup, of::<SlimGang<3>>(feed)),
        (Kind::DeviceClass, of::<SlimDeviceClass>(feed)),
        (Kind::ResourceSlice, of::<SlimResourceSlice>(feed)),
        (Kind::DeviceTaintRule, of::<SlimTaintRule>(feed)),
        (Kind::ResourceClaimTemplate, of::<SlimClaimTemplate>(feed)),
        (Kind::ResourceClaim, of::<SlimResourceClaim>(feed)),
        (Kind::Pod, of::<SlimPod>(feed)),
    ]
}

async fn follow(server: ApiServer, host: Arc<Host>, intakes: Vec<(Kind, Box<dyn Intake>)>) {
    let store = server.store();
    let mut subscription = store.subscribe();
    while server.is_silent() {
        host.sleep(SILENCE_STEP).await;
    }
    let mut cursor = store.with(|store| list(store, &intakes));
    loop {
        while server.is_silent() {
            host.sleep(SILENCE_STEP).await;
        }
        tokio::select! {
            biased;
            () = subscription.changed() => {}
            () = host.sleep(LOOK_EVERY) => {}
        }
        if server.is_silent() {
            continue;
        }
        cursor = store.with(|store| changes(store, &intakes, cursor));
    }
}

/// Takes in everything there is; returns the revision from which changes follow.
fn list(store: &Store, intakes: &[(Kind, Box<dyn Intake>)]) -> u64 {
    for (kind, intake) in intakes {
        intake.port().list_started();
        for (_, object) in store.all(*kind) {
            intake.applied(object);
        }
        intake.port().contact();
        intake.port().list_ended();
    }
    store.revision()
}

/// Takes in what changed after `cursor`; of an object that changed more than once the last state alone, as a watch that
/// fell behind and listed anew would.
fn changes(store: &Store, intakes: &[(Kind, Box<dyn Intake>)], cursor: u64) -> u64 {
    let Ok(changes) = store.entries_after(cursor) else { return list(store, intakes) };
    let changes: Vec<&Entry> = changes.collect();
    let last: FxHashMap<(Kind, &ObjectKey), u64> =
        changes.iter().map(|entry| ((entry.kind, &entry.key), entry.revision)).collect();
    for entry in changes {
        if last.get(&(entry.kind, &entry.key)) != Some(&entry.revision) {
            continue;
        }
        let Some((_, intake)) = intakes.iter().find(|(each, _)| *each == entry.kind) else { continue };
        match entry.change() {
            Change::Applied(object) => intake.applied(object),
            Change::Deleted(object) => intake.gone(object),
        }
    }
    for (_, intake) in intakes {
        intake.port().contact();
    }
    store.revision()
}
