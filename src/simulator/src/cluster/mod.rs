//! The rest of the cluster in virtual time: controllers, scheduler, kubelets and node lifecycle, driven by the change log.

mod cloud_model;
mod daemon_set;
mod deployment;
mod devices;
mod disruption;
mod fit;
mod gangs;
mod garbage;
mod hpa;
mod job;
mod kubelet;
mod load;
mod metric;
mod neighbours;
mod node_lifecycle;
mod pods;
mod quantity;
mod queue;
mod replica_set;
mod scheduler;
mod stateful_set;
mod template;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use self::cloud_model::{CloudModel, LaunchFailure};
pub use self::fit::{Amounts, NodeShape, PodShape};
pub use self::load::{Carried, Load};
pub use self::metric::{Metric, member};

pub(crate) use self::pods::{Phase, PodFacts};
pub(crate) use self::template::hash as template_hash;

use self::devices::Devices;
use self::disruption::Disruption;
use self::garbage::Garbage;
use self::hpa::HpaController;
use self::kubelet::{Kubelet, ZoneWatch};
use self::node_lifecycle::NodeLifecycle;
use self::pods::{Pods, owner};
use self::queue::WorkQueue;
use self::scheduler::Scheduler;
use self::volumes::Volumes;
use super::statistics::Statistics;
use super::store::{Entry, Kind, ObjectKey, SharedStore, Store};
use super::trace::StableHash;

/// On a pod (or a Job, for its pods): how long it runs before it succeeds, for example `90s`.
pub const RUN_FOR_ANNOTATION: &str = "simulate.headroom.dev/run-for";

/// On a pod: which part of the pods with it the scheduler refuses wherever they fit, by name, and for how long, as
/// `<percent>` or `<percent>/<seconds>`.
pub const REFUSED_ANNOTATION: &str = "simulate.headroom.dev/refused";

/// Rounds of observe and act in one step before the step is given up as a bug of the actors.
const ROUNDS_MAX: usize = 10_000;

/// Time that the cluster takes for what real ones take time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// From a Node's creation to Ready; KWOK's is about a second.
    pub node_ready: SignedDuration,
    /// From binding to Running.
    pub pod_start: SignedDuration,
    /// Pods that a ReplicaSet gets each second at most; `None` for as many as it wants. Source: kube-controller-manager, flag
    /// kube-api-qps, which is 20 by default for all that it writes.
    pub pods_per_second: Option<usize>,
    /// From a node's end to the deletion of the pods on it. Source: podgc quarantineTime.
    pub homeless_pods: SignedDuration,
    /// Age up to which entries of the change log are kept for watches. Source: etcd's compaction interval of the API
    /// server.
    pub history: SignedDuration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            node_ready: SignedDuration::from_secs(1),
            pod_start: SignedDuration::from_secs(1),
            pods_per_second: None,
            homeless_pods: SignedDuration::from_secs(40),
            history: SignedDuration::from_mins(5),
        }
    }
}

/// Work of the workload controllers: which object of which kind.
type Workload = (Kind, ObjectKey);

/// The simulated cluster without the operator.
///
/// Every actor reads the change log and keeps what it needs, so a step costs what changed and not what there is.
#[derive(Debug)]
pub struct SimCluster {
    store: SharedStore,
    timings: Timings,
    cursor: u64,
    pods: Pods,
    nodes: BTreeMap<Arc<str>, NodeShape>,
    workloads: WorkQueue<Workload>,
    deployments: deployment::Deployments,
    disruption: Disruption,
    garbage: Garbage,
    lifecycle: NodeLifecycle,
    scheduler: Scheduler,
    volumes: Volumes,
    devices: Devices,
    scheduler_stopped: bool,
    kubelet: Kubelet,
    zones: ZoneWatch,
    hpas: HpaController,
    /// Faults of the cloud; scenario events and fault drivers change them.
    pub cloud_model: CloudModel,
    /// Load of the workloads; scenario events change it.
    pub load: Load,
    /// Statistics so far.
    pub statistics: Statistics,
}

impl SimCluster {
    /// The actors over `store`, which may hold objects already; the log must reach back to its beginning.
    pub fn new(store: SharedStore, timings: Timings) -> SimCluster {
        SimCluster {
            store,
            timings,
            cursor: 0,
            pods: Pods::default(),
            nodes: BTreeMap::new(),
            workloads: WorkQueue::default(),
            deployments: deployment::Deployments::default(),
            disruption: Disruption::default(),
            garbage: Garbage::default(),
            lifecycle: NodeLifecycle::default(),
            scheduler: Scheduler::default(),
            volumes: Volumes::default(),
            devices: Devices::default(),
            scheduler_stopped: false,
            kubelet: Kubelet::default(),
            zones: ZoneWatch::default(),
            hpas: HpaController::default(),
            cloud_model: CloudModel::default(),
            load: Load::default(),
            statistics: Statistics::default(),
        }
    }

    /// The store that everybody shares.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// Sets [`Timings::node_ready`] for nodes that come from here on.
    pub fn set_node_ready(&mut self, after: SignedDuration) {
        self.timings.node_ready = after;
    }

    /// A stopped scheduler binds nothing until it is started again.
    pub fn stop_scheduler(&mut self, stopped: bool) {
        self.scheduler_stopped = stopped;
    }

    /// From `now` on the controller-manager runs HPAs, or does not any more; at first it does not.
    pub fn run_hpas(&mut self, on: bool, now: Timestamp) {
        self.hpas.switch(on, now);
    }

    /// The machines of `count` nodes fail until `until`, chosen by a hash of their names and `now`, so a run is repeatable.
    /// Returns the number of nodes that were there to fail.
    pub fn break_nodes(&mut self, count: usize, until: Timestamp, now: Timestamp) -> usize {
        let salt = now.as_second();
        let ranked = |name: &Arc<str>| (StableHash::of(&format!("{salt}/{name}")), name.clone());
        let mut names: Vec<(u64, Arc<str>)> = self.nodes.keys().map(ranked).collect();
        names.sort_unstable();
        names.truncate(count);
        for (_, name) in &names {
            self.cloud_model.break_node(name, until, now);
            self.kubelet.observe_broken(name, until);
        }
        names.len()
    }

    /// Lets every actor do what is due at `now`, until nothing changes any more.
    ///
    /// Compacts the log to `Timings::history`; a reader of the typed port that reads after each step misses nothing.
    pub fn step(&mut self, now: Timestamp) {
        let shared = self.store.clone();
        shared.with(|store| {
            store.advance_to(now);
            for zone in self.zones.changed(&self.cloud_model, now) {
                self.kubelet.observe_cloud_model(&zone);
            }
            for round in 0.. {
                assert!(round < ROUNDS_MAX, "the actors of the simulated cluster do not come to rest");
                self.observe(store);
                self.act(store);
                if store.revision() == self.cursor {
                    break;
                }
            }
            self.statistics.advance_to(now);
            if let Ok(oldest) = now.checked_sub(self.timings.history) {
                store.compact(self.cursor.min(store.revision_before(oldest)));
            }
        });
    }

    /// Returns when the next event is due without anybody's change; `None` when the cluster is at rest.
    pub fn next_event_at(&self, now: Timestamp) -> Option<Timestamp> {
        let due = [
            self.workloads.next_at(),
            self.disruption.queue.next_at(),
            self.garbage.homeless.next_at(),
            self.lifecycle.nodes.next_at(),
            self.lifecycle.evictions.next_at(),
            self.devices.drivers.next_at(),
            self.kubelet.next_at(),
            self.hpas.next_at(),
            self.cloud_model.next_change_at(now),
        ];
        due.into_iter().flatten().min()
    }

    fn observe(&mut self, store: &Store) {
        // The actors are the log's slowest readers by construction, see the compaction in `step`.
        let entries: Vec<Entry> =
            store.entries_after(self.cursor).map(|e| e.cloned().collect()).unwrap_or_default();
        for entry in &entries {
            self.observe_one(entry, store);
        }
        self.cursor = store.revision();
    }

    fn observe_one(&mut self, entry: &Entry, store: &Store) {
        self.garbage.observe(entry, store);
        if self.volumes.observe(entry) | self.devices.observe(entry) {
            self.scheduler.observe_volumes();
        }
        match entry.kind {
            Kind::Pod => self.observe_pod(entry, store),
            Kind::Node => self.observe_node(entry, store),
            Kind::PodDisruptionBudget => self.disruption.observe_budget(entry, store, &self.pods),
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::Job | Kind::DaemonSet => {
                if !entry.deleted {
                    self.workloads.add((entry.kind, entry.key.clone()));
                }
                if entry.kind == Kind::ReplicaSet {
                    self.deployments.observe_set(entry);
                }
                if let Some(owner) = owner(&entry.object) {
                    self.workloads.add((owner.kind, owner.key));
                }
                self.statistics.observe_workload(entry);
            }
            Kind::PodGroup | Kind::Workload | Kind::CoschedulingPodGroup | Kind::VolcanoPodGroup => {
                self.scheduler.observe_gang();
            }
            _ => {}
        }
    }

    fn observe_pod(&mut self, entry: &Entry, store: &Store) {
        let before = self.pods.observe(entry);
        let before = before.as_deref();
        let pod = self.pods.get(&entry.key);
        self.disruption.observe_pod(entry, pod);
        let pod = pod.map(AsRef::as_ref);
        if let Some(owner) = pod.or(before).and_then(|pod| pod.owner.as_ref()) {
            self.workloads.add((owner.kind, owner.key.clone()));
        }
        self.scheduler.observe_pod(&entry.key, pod);
        self.kubelet.observe_pod(&entry.key, before, pod);
        self.statistics.observe_pod(entry.at, before, pod);
        let homeless =
            pod.and_then(|pod| pod.node.as_ref()).is_some_and(|node| !self.nodes.contains_key(node));
        if homeless {
            self.garbage.observe_homeless(&entry.key, store, self.timings.homeless_pods);
        }
    }

    fn observe_node(&mut self, entry: &Entry, store: &Store) {
        let name = entry.key.name.clone();
        let shape = (!entry.deleted).then(|| NodeShape::of(&entry.object));
        let daemons_care = shape.as_ref() != self.nodes.get(&name);
        match shape {
            Some(shape) => {
                self.nodes.insert(name.clone(), shape);
            }
            None => {
                self.nodes.remove(&name);
                for (key, _) in self.pods.on_node(&name) {
                    self.garbage.observe_homeless(key, store, self.timings.homeless_pods);
                }
            }
        }
        if daemons_care {
            for (key, _) in store.all(Kind::DaemonSet) {
                self.workloads.add((Kind::DaemonSet, key.clone()));
            }
        }
        let node = (!entry.deleted).then_some(&*entry.object);
        self.scheduler.observe_node(&name, node, &self.pods);
        self.kubelet.observe_node(entry, &self.pods, &self.cloud_model, &self.timings);
        self.lifecycle.observe_node(entry);
        self.statistics.observe_node(entry, self.nodes.get(&name));
    }

    fn act(&mut self, store: &mut Store) {
        for (kind, key) in self.workloads.take_due(store.now()) {
            let again = match kind {
                Kind::ReplicaSet => replica_set::sync(store, &self.pods, &key, self.timings.pods_per_second),
                Kind::Job => job::sync(store, &self.pods, &key),
                Kind::Deployment => {
                    deployment::sync(store, &mut self.deployments, &key);
                    None
                }
                Kind::StatefulSet => {
                    stateful_set::sync(store, &self.pods, &key);
                    None
                }
                Kind::DaemonSet => {
                    daemon_set::sync(store, &self.pods, &self.nodes, &key);
                    None
                }
                _ => None,
            };
            if let Some(at) = again {
                self.workloads.add_at(at, (kind, key));
            }
        }
        self.hpas.act(store, &self.load);
        self.disruption.act(store);
        self.garbage.act(store, &self.pods);
        self.lifecycle.act(store, &self.pods);
        self.volumes.act(store);
        self.devices.act(store);
        if !self.scheduler_stopped {
            self.scheduler.act(store, &self.pods);
        }
        self.kubelet.act(store, &self.pods, &self.cloud_model, &self.timings);
    }
}

#[cfg(test)]
mod tests;
