//! State of the cluster as the watches delivered it, with sums kept incrementally. It decides nothing.

pub mod attachment;
pub mod buffer;
mod canonical;
pub mod capacity_quota;
mod changes;
pub mod devices;
pub mod digest;
pub mod expander;
pub mod gang;
pub mod interner;
pub mod listing;
pub mod names;
pub mod node;
mod owned;
pub mod pod;
pub mod provider;
pub mod quota_use;
pub mod record;
pub mod request;
pub mod running_gangs;
mod sent_away;
pub mod surge;
pub mod template;
mod twins;
pub mod view;
pub mod volume;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use attachment::VolumeAttachment;
use buffer::{CapacityBuffer, Quota, Standby, Template};
pub use canonical::Canonical;
use capacity_quota::CapacityQuota;
use devices::{DeviceKind, DeviceObject, Devices};
use digest::{Badge, NodeDigest};
use expander::ExpanderAnswers;
use gang::{Gang, GangKind, Gangs};
use headroom_values::known::Known;
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;
use interner::{InternedId, Interner};
use listing::{Listing, ProviderIds};
use names::NodeNames;
use node::{GROUP_LABEL, Node, POOL_LABEL};
use owned::Owned;
use pod::{Owner, Pod, PodClass};
use provider::{GroupState, ProviderState};
use request::{ProvisioningRequest, Requests};
use volume::{
    AttachLimits, CsiDriver, PriorityClass, Storage, StorageCapacity, StorageClass, Volume, VolumeClaim,
};
use workload::{Controller, ControllerKind, DaemonSet, DisruptionBudget, PrioritySource};

/// The name of an intent: `<epoch>-<sequence>`, unique within its pool, and the cloud's client token.
pub type IntentId = Arc<str>;

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
    /// CSI drivers of a node, with their attach limits, are new or have changed.
    CsiNodeApplied(Arc<str>, AttachLimits),
    /// No CSI driver reports on a node any more.
    CsiNodeDeleted(Arc<str>),
    /// A CSIDriver is new or has changed.
    CsiDriverApplied(Arc<str>, CsiDriver),
    /// A CSIDriver is gone.
    CsiDriverDeleted(Arc<str>),
    /// A CSIStorageCapacity is new or has changed.
    StorageCapacityApplied(Box<StorageCapacity>),
    /// A CSIStorageCapacity is gone.
    StorageCapacityDeleted(ObjectKey),
    /// A VolumeAttachment is new or has changed.
    AttachmentApplied(Box<VolumeAttachment>),
    /// A VolumeAttachment is gone.
    AttachmentDeleted(Arc<str>),
    /// A PriorityClass is new or has changed.
    PriorityClassApplied(Arc<str>, PriorityClass),
    /// A PriorityClass is gone.
    PriorityClassDeleted(Arc<str>),
    /// A CapacityBuffer is new or has changed.
    BufferApplied(Box<CapacityBuffer>),
    /// A CapacityBuffer is gone.
    BufferDeleted(ObjectKey),
    /// The CapacityBuffers that another controller writes, all of them.
    BuffersOfOthers(BTreeSet<ObjectKey>),
    /// A PodTemplate is new or has changed.
    PodTemplateApplied(Box<Template>),
    /// A PodTemplate is gone.
    PodTemplateDeleted(ObjectKey),
    /// A Deployment is new or has changed.
    DeploymentApplied(Box<Template>),
    /// A Deployment is gone.
    DeploymentDeleted(ObjectKey),
    /// A ResourceQuota is new or has changed.
    QuotaApplied(Box<Quota>),
    /// A ResourceQuota is gone.
    QuotaDeleted(ObjectKey),
    /// The ProvisioningRequests that another controller writes, all of them.
    RequestsOfOthers(BTreeSet<ObjectKey>),
    /// All answers of the server of expander `Grpc`.
    ExpanderAnswered(Box<ExpanderAnswers>),
    /// A ProvisioningRequest is new or has changed.
    RequestApplied(Box<ProvisioningRequest>),
    /// A ProvisioningRequest is gone.
    RequestDeleted(ObjectKey),
    /// A CapacityQuota is new or has changed.
    CapacityQuotaApplied(Box<CapacityQuota>),
    /// A CapacityQuota is gone, by name.
    CapacityQuotaDeleted(Arc<str>),
    /// An object that makes pods a gang is new or has changed.
    GangApplied(Box<Gang>),
    /// An object that makes pods a gang is gone.
    GangDeleted(GangKind, ObjectKey),
    /// The server does not have this kind of gangs, or it may not be read. A complete list shows the contrary.
    GangKindMissing(GangKind),
    /// An object of resource.k8s.io is new or has changed.
    DeviceApplied(Box<DeviceObject>),
    /// An object of resource.k8s.io is gone.
    DeviceDeleted(DeviceKind, ObjectKey),
    /// The server does not have this kind of resource.k8s.io, or it may not be read. A complete list shows the
    /// contrary.
    DeviceKindMissing(DeviceKind),
    /// State that a pool's provider reported.
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
    /// VolumeAttachments.
    Attachment,
    /// PriorityClasses.
    PriorityClass,
    /// CapacityBuffers.
    Buffer,
    /// PodTemplates.
    PodTemplate,
    /// Deployments.
    Deployment,
    /// ResourceQuotas.
    Quota,
    /// ProvisioningRequests.
    Request,
    /// CapacityQuotas.
    CapacityQuota,
    /// Objects that make pods a gang: each kind is listed on its own.
    Gang(GangKind),
    /// Objects of resource.k8s.io: each kind is listed on its own.
    Device(DeviceKind),
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
    /// The pods bound to it, finished ones included, in order of their keys.
    pub pods: Vec<PodId>,
    /// The sum of the requests of its pods that have not finished.
    pub requested: Resources,
    /// Number of the pods in that sum that the measured utilization may leave out: those being deleted, and those of a
    /// priority below zero. With none of them the sum alone measures the node.
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
    node_names: NodeNames,
    node_ids: BTreeMap<Arc<str>, NodeId>,
    /// The ids of `node_ids` in its order, once asked for: a table is read many times faster than a tree.
    node_order: OnceLock<Vec<NodeId>>,
    annotated: BTreeMap<Arc<str>, NodeId>,
    candidates: BTreeMap<Arc<str>, NodeId>,
    unbound: BTreeMap<ObjectKey, PodId>,
    owned: Owned,
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
    standby: Standby,
    gangs: Gangs,
    requests: Requests,
    capacity_quotas: BTreeMap<Arc<str>, CapacityQuota>,
    devices: Devices,
    providers: BTreeMap<Arc<str>, Known<ProviderState>>,
    /// By pool, where the provider's state is known.
    listings: BTreeMap<Arc<str>, Listing>,
    provider_ids: ProviderIds,
    /// Nodes whose provider id another node carries too.
    twins: BTreeSet<NodeId>,
    sweeps: BTreeMap<Kind, Sweep>,
    revision: u64,
    expander: ExpanderAnswers,
    sent_away: sent_away::SentAway,
    surge_workloads: Option<Vec<surge::SurgeWorkload>>,
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

    /// Counts every change applied: equal revisions mean an unchanged world.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the answers of the server of expander `Grpc`.
    #[must_use]
    pub fn expander(&self) -> &ExpanderAnswers {
        &self.expander
    }

    /// The pod of a live id.
    ///
    /// # Panics
    /// If the pod is gone: ids do not outlive the plan that read them.
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
    /// If the node is gone: ids do not outlive the plan that read them.
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

    /// The names of the nodes by id, those of nodes that only pods name too.
    #[must_use]
    pub fn node_names(&self) -> &NodeNames {
        &self.node_names
    }

    /// All delivered nodes in order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node, &NodeEntry)> {
        self.nodes_by_name().iter().filter_map(|id| {
            let entry = self.node(*id);
            entry.node.as_ref().map(|node| (*id, node, entry))
        })
    }

    /// The ids of all nodes in order of their names, those of nodes that only pods name too.
    fn nodes_by_name(&self) -> &[NodeId] {
        self.node_order.get_or_init(|| self.node_ids.values().copied().collect())
    }

    /// All delivered nodes in order of their names, in short.
    pub fn digests(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &NodeDigest)> {
        let named = |id: &NodeId| (*id, self.node_names.get(*id), self.digest(*id));
        let digests = self.nodes_by_name().iter().map(named);
        digests.filter(|(_, _, digest)| digest.delivered)
    }

    /// All delivered nodes in no order that means anything, in short: for sums, which then walk through memory from one end to
    /// the other.
    pub fn digests_unordered(&self) -> impl Iterator<Item = (NodeId, &NodeDigest)> {
        let digests = (0..).map(NodeId).zip(&self.digests);
        digests.filter(|(_, digest)| digest.delivered)
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

    /// Returns the instances that the provider of `pool` lists, by node; `None` while its state is unknown.
    #[must_use]
    pub fn listing(&self, pool: &str) -> Option<&Listing> {
        self.listings.get(pool)
    }

    /// Nodes that the provider of any pool lists, in no particular order; one may come twice.
    pub fn managed_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.listings
            .values()
            .flat_map(|listing| listing.by_id().chain(listing.by_name()))
            .map(|(node, _, _)| node)
    }

    /// Delivered nodes that carry the soft taint of those that go next, in order of their names.
    pub fn candidate_nodes(&self) -> impl Iterator<Item = (NodeId, &Arc<str>)> {
        self.candidates.iter().map(|(name, id)| (*id, name))
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
        self.digests_unordered().filter(|(_, digest)| digest.unusual_count != 0).map(|(id, _)| id)
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

    /// Number of pods.
    #[must_use]
    pub fn pods_count(&self) -> usize {
        self.pod_ids.len()
    }

    /// Returns the number of pods of this owner that exist, are not finished and not being deleted.
    #[must_use]
    pub fn active_pods_of(&self, owner_uid: &str) -> u32 {
        self.owned.active_count(owner_uid)
    }

    /// Returns the time at which the youngest pod of this owner that exists was made, whatever has become of it. Where a younger one
    /// has gone since, it looks at all pods.
    #[must_use]
    pub fn youngest_pod_of(&self, owner_uid: &str) -> Option<UnixTime> {
        let is_own =
            |entry: &&PodEntry| entry.pod.owner.as_ref().is_some_and(|owner| &*owner.uid == owner_uid);
        self.owned.youngest(owner_uid, || self.pods().filter(is_own).map(|entry| entry.pod.created_at).max())
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

    /// Volumes, claims, storage classes, attach limits and attached volumes.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Buffers, and what they may refer to.
    #[must_use]
    pub fn standby(&self) -> &Standby {
        &self.standby
    }

    /// Objects that make pods a gang.
    #[must_use]
    pub fn gangs(&self) -> &Gangs {
        &self.gangs
    }

    /// ProvisioningRequests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// CapacityQuotas, by name.
    #[must_use]
    pub fn capacity_quotas(&self) -> &BTreeMap<Arc<str>, CapacityQuota> {
        &self.capacity_quotas
    }

    /// Devices that the cluster offers, and claims of devices.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// All pods, finished ones included, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = &PodEntry> {
        self.pods.iter().flatten()
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

    /// Returns the last state of `pool`'s provider; `None` when it was never asked.
    #[must_use]
    pub fn provider(&self, pool: &str) -> Option<&Known<ProviderState>> {
        self.providers.get(pool)
    }

    /// The price that the provider reports for the node's group, in millionths for an hour; `None` where it reports none.
    #[must_use]
    pub fn reported_price_micro(&self, node: &Node) -> Option<i64> {
        let state = self.provider(node.labels.get(POOL_LABEL)?)?.value()?;
        let labelled = node.labels.get(GROUP_LABEL).and_then(|group| state.groups.get(group));
        let holds = |group: &&GroupState| group.instances.contains_key(&node.provider_id);
        labelled.or_else(|| state.groups.values().find(holds))?.price_per_hour_micro
    }

    /// The interned classes of the pods that exist.
    #[must_use]
    pub fn classes(&self) -> &Interner<PodClass> {
        &self.classes
    }
}
