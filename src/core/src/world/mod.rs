//! What is: the cluster as the watches delivered it, with sums kept incrementally. It decides nothing.

mod canonical;
pub mod digest;
pub mod interner;
pub mod listing;
pub mod node;
pub mod pod;
pub mod provider;
pub mod record;
pub mod volume;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::history::IntentId;
use crate::known::Known;
use crate::labels::{Labels, ObjectKey};
use crate::resources::Resources;
use crate::time::{Seconds, UnixTime};
pub use canonical::Canonical;
use digest::{Amounts, Badge, NodeDigest};
use interner::{InternedId, Interner};
use listing::{Listing, ProviderIds};
use node::Node;
use pod::{Owner, Pod, PodClass};
use provider::ProviderState;
use volume::{AttachLimits, PriorityClass, Storage, StorageCapacity, StorageClass, Volume, VolumeClaim};
use workload::{Controller, ControllerKind, DaemonSet, DisruptionBudget, PrioritySource};

/// The dense id of a pod; reused after its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

/// The dense id of a node; reused after its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One change of the world. Applying the same change twice is harmless.
#[derive(Clone, Debug)]
pub enum Delta {
    /// A pod is new or has changed.
    PodApplied(Box<Pod>),
    /// A pod is gone.
    PodDeleted(ObjectKey),
    /// A node is new or has changed.
    NodeApplied(Box<Node>),
    /// A node is gone.
    NodeDeleted(Arc<str>),
    /// A controller is new or has changed.
    ControllerApplied(Box<Controller>),
    /// A controller is gone.
    ControllerDeleted(ControllerKind, ObjectKey),
    /// A DaemonSet is new or has changed.
    DaemonSetApplied(Box<DaemonSet>),
    /// A DaemonSet is gone.
    DaemonSetDeleted(ObjectKey),
    /// A PodDisruptionBudget is new or has changed.
    BudgetApplied(Box<DisruptionBudget>),
    /// A PodDisruptionBudget is gone.
    BudgetDeleted(ObjectKey),
    /// A namespace is new, or its labels have changed.
    NamespaceApplied(Arc<str>, Labels),
    /// A namespace is gone.
    NamespaceDeleted(Arc<str>),
    /// A PersistentVolumeClaim is new or has changed.
    ClaimApplied(Box<VolumeClaim>),
    /// A PersistentVolumeClaim is gone.
    ClaimDeleted(ObjectKey),
    /// A PersistentVolume is new or has changed.
    VolumeApplied(Box<Volume>),
    /// A PersistentVolume is gone.
    VolumeDeleted(Arc<str>),
    /// A StorageClass is new or has changed.
    StorageClassApplied(Box<StorageClass>),
    /// A StorageClass is gone.
    StorageClassDeleted(Arc<str>),
    /// What CSI drivers say of a node is new or has changed.
    CsiNodeApplied(Arc<str>, AttachLimits),
    /// No CSI driver says anything of a node any more.
    CsiNodeDeleted(Arc<str>),
    /// A CSIDriver is new or has changed: whether it makes volumes only where it has told of room.
    CsiDriverApplied(Arc<str>, bool),
    /// A CSIDriver is gone.
    CsiDriverDeleted(Arc<str>),
    /// A CSIStorageCapacity is new or has changed.
    StorageCapacityApplied(Box<StorageCapacity>),
    /// A CSIStorageCapacity is gone.
    StorageCapacityDeleted(ObjectKey),
    /// A PriorityClass is new or has changed.
    PriorityClassApplied(Arc<str>, PriorityClass),
    /// A PriorityClass is gone.
    PriorityClassDeleted(Arc<str>),
    /// What a pool's provider said.
    ProviderObserved(Arc<str>, Known<ProviderState>),
    /// The pool is no longer managed.
    ProviderForgotten(Arc<str>),
    /// A full list of a kind begins: what it does not name by its end is gone.
    ListStarted(Kind),
    /// The full list is complete.
    ListEnded(Kind),
}

/// The kinds that are listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods.
    Pod,
    /// Nodes.
    Node,
    /// ReplicaSets, StatefulSets, Jobs, ReplicationControllers: each is listed on its own.
    Controller(ControllerKind),
    /// DaemonSets.
    DaemonSet,
    /// PodDisruptionBudgets.
    Budget,
    /// Namespaces.
    Namespace,
    /// PersistentVolumeClaims.
    Claim,
    /// PersistentVolumes.
    Volume,
    /// StorageClasses.
    StorageClass,
    /// CSINodes.
    CsiNode,
    /// CSIDrivers.
    CsiDriver,
    /// CSIStorageCapacities.
    StorageCapacity,
    /// PriorityClasses.
    PriorityClass,
}

/// A pod in the world.
#[derive(Clone, Debug)]
pub struct PodEntry {
    /// As delivered.
    pub pod: Pod,
    /// The id of its class in [`World::classes`].
    pub class: InternedId,
    /// The node that it is bound to.
    pub node: Option<NodeId>,
    /// Its place among the bound pods of its class.
    position: u32,
}

/// A node in the world, with what runs on it.
#[derive(Clone, Debug)]
pub struct NodeEntry {
    /// The node's name.
    pub name: Arc<str>,
    /// As delivered; `None` while only pods bound to it are known (watches are not ordered between kinds).
    pub node: Option<Node>,
    /// The pods bound to it, finished ones included, in no order.
    pub pods: Vec<PodId>,
    /// The sum of the requests of its pods that have not finished.
    pub requested: Resources,
    /// How many of the pods in that sum a measurement may leave out: those being deleted, and those of a priority
    /// below zero. With none of them the sum alone measures the node.
    pub unusual_count: u32,
}

/// The cluster as the watches delivered it.
#[derive(Clone, Debug, Default)]
pub struct World {
    pods: Vec<Option<PodEntry>>,
    free_pods: Vec<PodId>,
    pod_ids: FxHashMap<ObjectKey, PodId>,
    nodes: Vec<Option<NodeEntry>>,
    /// By node id, as `nodes`.
    digests: Vec<NodeDigest>,
    badges: Interner<Badge>,
    free_nodes: Vec<NodeId>,
    node_ids: BTreeMap<Arc<str>, NodeId>,
    annotated: BTreeMap<Arc<str>, NodeId>,
    unbound: BTreeMap<ObjectKey, PodId>,
    owned_count: FxHashMap<Arc<str>, u32>,
    owners: Interner<Owner>,
    classes: Interner<PodClass>,
    /// By class: the pods that are bound to a node, in no order.
    bound: Vec<Vec<PodId>>,
    controllers: BTreeMap<(ControllerKind, ObjectKey), Controller>,
    daemon_sets: BTreeMap<ObjectKey, DaemonSet>,
    budgets: BTreeMap<ObjectKey, DisruptionBudget>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    storage: Storage,
    priority_classes: BTreeMap<Arc<str>, PriorityClass>,
    providers: BTreeMap<Arc<str>, Known<ProviderState>>,
    /// By pool, where the provider's state is known.
    listings: BTreeMap<Arc<str>, Listing>,
    provider_ids: ProviderIds,
    sweeps: BTreeMap<Kind, Sweep>,
    revision: u64,
    stale: bool,
    nodes_silent_for: Seconds,
    asking: BTreeSet<(Arc<str>, IntentId)>,
}

/// Names seen since a full list began.
#[derive(Clone, Debug, Default)]
struct Sweep {
    seen: BTreeSet<ObjectKey>,
}

impl World {
    /// An empty world.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one change. Any order and repetition of changes that ends in the same objects gives the same world.
    pub fn apply(&mut self, delta: Delta) {
        self.revision += 1;
        self.note_seen(&delta);
        match delta {
            Delta::PodApplied(pod) => self.apply_pod(*pod),
            Delta::PodDeleted(key) => self.delete_pod(&key),
            Delta::NodeApplied(node) => self.apply_node(*node),
            Delta::NodeDeleted(name) => self.delete_node(&name),
            Delta::ControllerApplied(controller) => {
                self.controllers.insert((controller.kind, controller.key.clone()), *controller);
            }
            Delta::ControllerDeleted(kind, key) => {
                self.controllers.remove(&(kind, key));
            }
            Delta::DaemonSetApplied(set) => {
                self.daemon_sets.insert(set.key.clone(), *set);
            }
            Delta::DaemonSetDeleted(key) => {
                self.daemon_sets.remove(&key);
            }
            Delta::BudgetApplied(budget) => {
                self.budgets.insert(budget.key.clone(), *budget);
            }
            Delta::BudgetDeleted(key) => {
                self.budgets.remove(&key);
            }
            Delta::NamespaceApplied(name, labels) => {
                self.namespaces.insert(name, labels);
            }
            Delta::NamespaceDeleted(name) => {
                self.namespaces.remove(&name);
            }
            Delta::ClaimApplied(claim) => {
                self.storage.claims.insert(claim.key.clone(), *claim);
            }
            Delta::ClaimDeleted(key) => {
                self.storage.claims.remove(&key);
            }
            Delta::VolumeApplied(volume) => {
                self.storage.volumes.insert(volume.name.clone(), *volume);
            }
            Delta::VolumeDeleted(name) => {
                self.storage.volumes.remove(&name);
            }
            Delta::StorageClassApplied(class) => {
                self.storage.classes.insert(class.name.clone(), *class);
            }
            Delta::StorageClassDeleted(name) => {
                self.storage.classes.remove(&name);
            }
            Delta::CsiNodeApplied(node, limits) => self.apply_csi_node(node, limits),
            Delta::CsiNodeDeleted(node) => {
                self.storage.attach_limits.remove(&node);
            }
            Delta::CsiDriverApplied(name, true) => {
                self.storage.telling_drivers.insert(name);
            }
            Delta::CsiDriverApplied(name, false) | Delta::CsiDriverDeleted(name) => {
                self.storage.telling_drivers.remove(&name);
            }
            Delta::StorageCapacityApplied(capacity) => {
                self.storage.capacities.insert(capacity.key.clone(), *capacity);
            }
            Delta::StorageCapacityDeleted(key) => {
                self.storage.capacities.remove(&key);
            }
            Delta::PriorityClassApplied(name, class) => {
                self.priority_classes.insert(name, class);
            }
            Delta::PriorityClassDeleted(name) => {
                self.priority_classes.remove(&name);
            }
            Delta::ProviderObserved(pool, state) => {
                self.observe_provider(pool, state);
            }
            Delta::ProviderForgotten(pool) => {
                self.providers.remove(&pool);
                self.listings.remove(&pool);
            }
            Delta::ListStarted(kind) => {
                self.sweeps.insert(kind, Sweep::default());
            }
            Delta::ListEnded(kind) => self.sweep(kind),
        }
    }

    /// Counts every change applied: equal revisions mean an unchanged world.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Tells whether the watches have been silent or behind for too long to trust what they say.
    pub fn set_stale(&mut self, stale: bool) {
        self.stale = stale;
    }

    /// Whether nothing may be removed on the strength of this view (law 6).
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Tells how long nothing has been heard of nodes.
    pub fn set_nodes_silent_for(&mut self, silence: Seconds) {
        self.nodes_silent_for = silence;
    }

    /// The instant at which nodes were as they are told here, at most `now`: what has become of them since is not known.
    /// A time that nodes are given is over when it was over by then.
    #[must_use]
    pub fn nodes_as_of(&self, now: UnixTime) -> UnixTime {
        UnixTime(now.0.saturating_sub(self.nodes_silent_for.0.max(0)))
    }

    /// Tells of which increases, by pool and intent, a call is under way.
    pub fn set_asking(&mut self, asking: BTreeSet<(Arc<str>, IntentId)>) {
        self.asking = asking;
    }

    /// Whether a call for this increase is under way: what it comes to is not known yet.
    #[must_use]
    pub fn is_asking(&self, pool: &Arc<str>, intent: &IntentId) -> bool {
        !self.asking.is_empty() && self.asking.contains(&(pool.clone(), intent.clone()))
    }

    /// The pod of a live id.
    ///
    /// # Panics
    /// When the pod is gone: ids do not outlive the plan that read them.
    #[must_use]
    pub fn pod(&self, id: PodId) -> &PodEntry {
        self.pods[id.0 as usize].as_ref().expect("a live pod id has an entry")
    }

    /// The id of the pod of this key.
    #[must_use]
    pub fn pod_id(&self, key: &ObjectKey) -> Option<PodId> {
        self.pod_ids.get(key).copied()
    }

    /// The node of a live id.
    ///
    /// # Panics
    /// When the node is gone: ids do not outlive the plan that read them.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &NodeEntry {
        self.nodes[id.0 as usize].as_ref().expect("a live node id has an entry")
    }

    /// The node of this name, if the watch has delivered it.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &Node, &NodeEntry)> {
        let id = *self.node_ids.get(name)?;
        let entry = self.node(id);
        entry.node.as_ref().map(|node| (id, node, entry))
    }

    /// All delivered nodes in order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node, &NodeEntry)> {
        self.node_ids.values().filter_map(|id| {
            let entry = self.node(*id);
            entry.node.as_ref().map(|node| (*id, node, entry))
        })
    }

    /// All delivered nodes in order of their names, in short.
    pub fn digests(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &NodeDigest)> {
        let digests = self.node_ids.iter().map(|(name, id)| (*id, name, self.digest(*id)));
        digests.filter(|(_, _, digest)| digest.delivered)
    }

    /// A node in short.
    #[must_use]
    pub fn digest(&self, id: NodeId) -> &NodeDigest {
        &self.digests[id.0 as usize]
    }

    /// The badges of the nodes that exist.
    #[must_use]
    pub fn badges(&self) -> &Interner<Badge> {
        &self.badges
    }

    /// What the provider of `pool` lists, by node; `None` while nothing is known of it.
    #[must_use]
    pub fn listing(&self, pool: &str) -> Option<&Listing> {
        self.listings.get(pool)
    }

    /// The pods of a class that are bound to a node, finished ones included, in no particular order.
    #[must_use]
    pub fn bound_pods(&self, class: InternedId) -> &[PodId] {
        self.bound.get(class.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Delivered nodes with an annotation that decisions read, in order of their names: few of many.
    pub fn annotated_nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.annotated.values().filter_map(|id| self.node(*id).node.as_ref().map(|node| (*id, node)))
    }

    /// Delivered nodes with a pod that a measurement may leave out, in no particular order: few of many.
    pub fn unusual_nodes(&self) -> impl Iterator<Item = NodeId> {
        (0u32..)
            .zip(&self.nodes)
            .filter(|(_, entry)| {
                entry.as_ref().is_some_and(|entry| entry.unusual_count != 0 && entry.node.is_some())
            })
            .map(|(id, _)| NodeId(id))
    }

    /// One more than the highest node id in use: the length for tables indexed by node id.
    #[must_use]
    pub fn node_capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Pods without a node, in order of their keys; finished ones included.
    pub fn unbound(&self) -> impl Iterator<Item = (PodId, &PodEntry)> {
        self.unbound.values().map(|id| (*id, self.pod(*id)))
    }

    /// How many pods there are.
    #[must_use]
    pub fn pods_count(&self) -> usize {
        self.pod_ids.len()
    }

    /// How many pods of this owner exist, are not finished and not being deleted.
    #[must_use]
    pub fn active_pods_of(&self, owner_uid: &str) -> u32 {
        self.owned_count.get(owner_uid).copied().unwrap_or(0)
    }

    /// Controllers in order of kind and key.
    pub fn controllers(&self) -> impl Iterator<Item = &Controller> {
        self.controllers.values()
    }

    /// One controller.
    #[must_use]
    pub fn controller(&self, kind: ControllerKind, key: &ObjectKey) -> Option<&Controller> {
        self.controllers.get(&(kind, key.clone()))
    }

    /// DaemonSets in order of their keys.
    pub fn daemon_sets(&self) -> impl Iterator<Item = &DaemonSet> {
        self.daemon_sets.values()
    }

    /// One DaemonSet.
    #[must_use]
    pub fn daemon_set(&self, key: &ObjectKey) -> Option<&DaemonSet> {
        self.daemon_sets.get(key)
    }

    /// PodDisruptionBudgets in order of their keys.
    pub fn budgets(&self) -> impl Iterator<Item = &DisruptionBudget> {
        self.budgets.values()
    }

    /// The labels of a namespace; `None` when it is not known.
    #[must_use]
    pub fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// Volumes, claims, storage classes and attach limits.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The priority that pods of this source get; 0 when its class is not known.
    #[must_use]
    pub fn priority_of(&self, source: &PrioritySource, class: &PodClass) -> i32 {
        match source {
            PrioritySource::Template => class.priority,
            PrioritySource::Named(name) => self.priority_classes.get(name).map_or(0, |class| class.value),
            PrioritySource::Default => {
                // Source: plugin/pkg/admission/priority, getDefaultPriorityClass: the lowest of several.
                let defaults = self.priority_classes.values().filter(|class| class.is_default);
                defaults.map(|class| class.value).min().unwrap_or(0)
            }
        }
    }

    /// What the provider of `pool` last said; `None` when it was never asked.
    #[must_use]
    pub fn provider(&self, pool: &str) -> Option<&Known<ProviderState>> {
        self.providers.get(pool)
    }

    /// The interned classes of the pods that exist.
    #[must_use]
    pub fn classes(&self) -> &Interner<PodClass> {
        &self.classes
    }

    fn apply_pod(&mut self, mut pod: Pod) {
        self.delete_pod(&pod.key);
        let class = self.classes.acquire(&pod.class);
        pod.class = self.classes.get(class).clone();
        if let Some(owner) = &pod.owner {
            let id = self.owners.acquire(owner);
            pod.owner = Some(self.owners.get(id).clone());
        }
        let id = self.free_pods.pop().unwrap_or_else(|| {
            self.pods.push(None);
            PodId(u32::try_from(self.pods.len() - 1).expect("fewer than 2^32 pods fit in memory"))
        });
        self.pod_ids.insert(pod.key.clone(), id);
        if let (Some(owner), true) = (&pod.owner, counts_for_owner(&pod)) {
            *self.owned_count.entry(owner.uid.clone()).or_insert(0) += 1;
        }
        let node = pod.node.as_ref().map(|name| self.node_slot(name));
        let mut position = 0;
        if let Some(node) = node {
            let entry = self.node_mut(node);
            entry.pods.push(id);
            if !pod.phase.finished() {
                entry.requested.add(&pod.class.requests);
                entry.unusual_count += u32::from(unusual(&pod));
                self.load_changed(node);
            }
            if self.bound.len() <= class.0 as usize {
                self.bound.resize(class.0 as usize + 1, Vec::new());
            }
            let bound = &mut self.bound[class.0 as usize];
            position = u32::try_from(bound.len()).expect("fewer than 2^32 pods fit in memory");
            bound.push(id);
        } else {
            self.unbound.insert(pod.key.clone(), id);
        }
        self.pods[id.0 as usize] = Some(PodEntry { pod, class, node, position });
    }

    fn delete_pod(&mut self, key: &ObjectKey) {
        let Some(id) = self.pod_ids.remove(key) else { return };
        let Some(PodEntry { pod, class, node, position }) = self.pods[id.0 as usize].take() else { return };
        self.free_pods.push(id);
        self.unbound.remove(key);
        if let Some(owner) = &pod.owner {
            if counts_for_owner(&pod)
                && let Some(count) = self.owned_count.get_mut(&owner.uid)
            {
                *count -= 1;
                if *count == 0 {
                    self.owned_count.remove(&owner.uid);
                }
            }
            let owner_id = self.owners.acquire(owner);
            self.owners.release(owner_id);
            self.owners.release(owner_id);
        }
        if let Some(node) = node {
            let entry = self.node_mut(node);
            entry.pods.retain(|other| *other != id);
            if !pod.phase.finished() {
                entry.requested.subtract(&pod.class.requests);
                entry.unusual_count -= u32::from(unusual(&pod));
                self.load_changed(node);
            }
            self.unbind(class, position);
            self.drop_node_if_unused(node);
        }
        self.classes.release(class);
    }

    /// Takes the pod at this place off the bound pods of its class; the last one takes the place.
    fn unbind(&mut self, class: InternedId, position: u32) {
        let bound = &mut self.bound[class.0 as usize];
        bound.swap_remove(position as usize);
        let moved = bound.get(position as usize).copied();
        if bound.is_empty() {
            *bound = Vec::new();
        }
        if let Some(entry) = moved.and_then(|id| self.pods[id.0 as usize].as_mut()) {
            entry.position = position;
        }
    }

    /// Writes down in short what the pods of a node ask for.
    fn load_changed(&mut self, id: NodeId) {
        let (requested, unusual_count) = {
            let entry = self.node(id);
            (Amounts::of(&entry.requested), entry.unusual_count)
        };
        let digest = &mut self.digests[id.0 as usize];
        digest.requested = requested;
        digest.unusual_count = unusual_count;
    }

    fn apply_node(&mut self, node: Node) {
        let id = self.node_slot(&node.name);
        if node.annotations.is_empty() {
            self.annotated.remove(&node.name);
        } else {
            self.annotated.insert(node.name.clone(), id);
        }
        let badge = self.badges.acquire(&Arc::new(Badge::of(&node)));
        let before = self.digests[id.0 as usize];
        self.digests[id.0 as usize].take(&node, badge);
        let name = node.name.clone();
        let provider_id = node.provider_id.clone();
        let known = self.node_mut(id).node.replace(node);
        if before.delivered {
            self.badges.release(before.badge);
        }
        if known.as_ref().is_none_or(|known| known.provider_id != provider_id) {
            self.unlist(id, known.as_ref());
            self.list(id, &name, provider_id);
        }
    }

    /// A delivered node shows up in the listings of providers.
    fn list(&mut self, id: NodeId, name: &str, provider_id: Arc<str>) {
        for (pool, listing) in &mut self.listings {
            if let Some(state) = self.providers.get(pool).and_then(Known::value) {
                listing.node_came(id, name, &provider_id, state);
            }
        }
        if !provider_id.is_empty() {
            self.provider_ids.insert((provider_id, id));
        }
    }

    /// Takes a node out of the listings of providers.
    fn unlist(&mut self, id: NodeId, known: Option<&Node>) {
        let Some(known) = known else { return };
        self.provider_ids.remove(&(known.provider_id.clone(), id));
        self.listings.values_mut().for_each(|listing| listing.node_went(id, &self.provider_ids));
    }

    fn observe_provider(&mut self, pool: Arc<str>, state: Known<ProviderState>) {
        let same = |before: &ProviderState, now: &ProviderState| {
            let instances = |state: &ProviderState| state.groups.len();
            instances(before) == instances(now)
                && before
                    .groups
                    .iter()
                    .zip(&now.groups)
                    .all(|((id, before), (other, now))| id == other && before.instances == now.instances)
        };
        match &state {
            Known::Unknown { .. } => {
                self.listings.remove(&pool);
            }
            Known::Known { value, .. } => {
                let before = self.providers.get(&pool).and_then(Known::value);
                if !before.is_some_and(|before| same(before, value)) || !self.listings.contains_key(&pool) {
                    let named = |name: &str| self.node_named(name).map(|(id, _, _)| id);
                    let listing = Listing::new(value, &self.provider_ids, named);
                    self.listings.insert(pool.clone(), listing);
                }
            }
        }
        self.providers.insert(pool, state);
    }

    /// Nodes of one shape have equal limits: each set of limits is stored once for neighbours in order of names.
    fn apply_csi_node(&mut self, node: Arc<str>, limits: AttachLimits) {
        if limits.is_empty() {
            self.storage.attach_limits.remove(&node);
            return;
        }
        let before = (Bound::Unbounded, Bound::Excluded(&*node));
        let known = self.storage.attach_limits.range::<str, _>(before).next_back();
        let shared = known.map(|(_, known)| known).filter(|known| ***known == limits).cloned();
        self.storage.attach_limits.insert(node, shared.unwrap_or_else(|| Arc::new(limits)));
    }

    fn delete_node(&mut self, name: &str) {
        let Some(&id) = self.node_ids.get(name) else { return };
        self.annotated.remove(name);
        let known = self.node_mut(id).node.take();
        if known.is_some() {
            let digest = &mut self.digests[id.0 as usize];
            let NodeDigest { badge, requested, unusual_count, .. } = *digest;
            *digest = NodeDigest { requested, unusual_count, ..NodeDigest::default() };
            self.badges.release(badge);
        }
        self.unlist(id, known.as_ref());
        self.drop_node_if_unused(id);
    }

    /// The slot of the node of this name, made if it is not there.
    fn node_slot(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(&id) = self.node_ids.get(name) {
            return id;
        }
        let id = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.digests.push(NodeDigest::default());
            NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes fit in memory"))
        });
        self.digests[id.0 as usize] = NodeDigest::default();
        self.nodes[id.0 as usize] = Some(NodeEntry {
            name: name.clone(),
            node: None,
            pods: Vec::new(),
            requested: Resources::default(),
            unusual_count: 0,
        });
        self.node_ids.insert(name.clone(), id);
        id
    }

    fn node_mut(&mut self, id: NodeId) -> &mut NodeEntry {
        self.nodes[id.0 as usize].as_mut().expect("a live node id has an entry")
    }

    fn drop_node_if_unused(&mut self, id: NodeId) {
        let entry = self.node(id);
        if entry.node.is_none() && entry.pods.is_empty() {
            let name = entry.name.clone();
            self.node_ids.remove(&name);
            self.nodes[id.0 as usize] = None;
            self.free_nodes.push(id);
        }
    }

    /// Remembers an applied object's key while a full list of its kind is being delivered.
    fn note_seen(&mut self, delta: &Delta) {
        if self.sweeps.is_empty() {
            return;
        }
        let (kind, key) = match delta {
            Delta::PodApplied(pod) => (Kind::Pod, pod.key.clone()),
            Delta::NodeApplied(node) => (Kind::Node, cluster_key(&node.name)),
            Delta::ControllerApplied(controller) => {
                (Kind::Controller(controller.kind), controller.key.clone())
            }
            Delta::DaemonSetApplied(set) => (Kind::DaemonSet, set.key.clone()),
            Delta::BudgetApplied(budget) => (Kind::Budget, budget.key.clone()),
            Delta::NamespaceApplied(name, _) => (Kind::Namespace, cluster_key(name)),
            Delta::ClaimApplied(claim) => (Kind::Claim, claim.key.clone()),
            Delta::VolumeApplied(volume) => (Kind::Volume, cluster_key(&volume.name)),
            Delta::StorageClassApplied(class) => (Kind::StorageClass, cluster_key(&class.name)),
            Delta::CsiNodeApplied(node, _) => (Kind::CsiNode, cluster_key(node)),
            Delta::CsiDriverApplied(name, _) => (Kind::CsiDriver, cluster_key(name)),
            Delta::StorageCapacityApplied(capacity) => (Kind::StorageCapacity, capacity.key.clone()),
            Delta::PriorityClassApplied(name, _) => (Kind::PriorityClass, cluster_key(name)),
            _ => return,
        };
        if let Some(sweep) = self.sweeps.get_mut(&kind) {
            sweep.seen.insert(key);
        }
    }

    /// Deletes what the full list of `kind` did not name.
    fn sweep(&mut self, kind: Kind) {
        let Some(Sweep { seen }) = self.sweeps.remove(&kind) else { return };
        let gone = |key: &ObjectKey| !seen.contains(key);
        match kind {
            Kind::Pod => {
                let mut keys: Vec<ObjectKey> = self.pod_ids.keys().filter(|key| gone(key)).cloned().collect();
                keys.sort();
                keys.iter().for_each(|key| self.delete_pod(key));
            }
            Kind::Node => {
                let names: Vec<Arc<str>> =
                    self.node_ids.keys().filter(|name| gone(&cluster_key(name))).cloned().collect();
                names.iter().for_each(|name| self.delete_node(name));
            }
            Kind::Controller(kind) => self.controllers.retain(|(k, key), _| *k != kind || !gone(key)),
            Kind::DaemonSet => self.daemon_sets.retain(|key, _| !gone(key)),
            Kind::Budget => self.budgets.retain(|key, _| !gone(key)),
            Kind::Namespace => self.namespaces.retain(|name, _| !gone(&cluster_key(name))),
            Kind::Claim => self.storage.claims.retain(|key, _| !gone(key)),
            Kind::Volume => self.storage.volumes.retain(|name, _| !gone(&cluster_key(name))),
            Kind::StorageClass => self.storage.classes.retain(|name, _| !gone(&cluster_key(name))),
            Kind::CsiNode => self.storage.attach_limits.retain(|name, _| !gone(&cluster_key(name))),
            Kind::CsiDriver => self.storage.telling_drivers.retain(|name| !gone(&cluster_key(name))),
            Kind::StorageCapacity => self.storage.capacities.retain(|key, _| !gone(key)),
            Kind::PriorityClass => self.priority_classes.retain(|name, _| !gone(&cluster_key(name))),
        }
    }
}

/// Whether a measurement may leave this pod out although its node's sum counts it.
fn unusual(pod: &Pod) -> bool {
    pod.deletion_at.is_some() || pod.class.priority < 0
}

/// Whether its controller counts this pod as one it need not make anew.
fn counts_for_owner(pod: &Pod) -> bool {
    !pod.phase.finished() && pod.deletion_at.is_none()
}

/// The key of a cluster-scoped object.
fn cluster_key(name: &Arc<str>) -> ObjectKey {
    ObjectKey::new("", &**name)
}
