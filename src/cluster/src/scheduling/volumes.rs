//! VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions: where the volumes of a pod let it run.
//!
//! A free volume is not marked as taken by a pod that is planned for it, and the capacity that a driver has reported
//! is not reduced by it: the scheduler does neither before a volume is bound or the capacity is reported anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::scheduling::capacity::ReportedCapacity;
use crate::scheduling::constraints::RequiredNodeAffinity;
use crate::scheduling::node_affinity::{self, LabelledNode, selects};
use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, PodRef, Snapshot};
use crate::world::PodId;
use crate::world::node::ZONE_LABEL;
use crate::world::pod::PodClass;
use crate::world::volume::{
    AccessModes, ClaimSpec, FreeVolume, PodClaim, Storage, StorageClass, Topology, Volume, VolumeClaim,
};
use headroom_values::labels::Labels;

/// The provisioner of classes whose volumes people make. Source: component-helpers/storage/volume, NotSupportedProvisioner.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels that drivers put on their nodes when they start: a node to come will have them, though a declared template
/// does not name them and a node that has just registered does not carry them yet. They carry the zone.
const ZONE_ALIASES: [&str; 4] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// Requirements of the volumes of one class, looked up once a snapshot.
#[derive(Debug, Default)]
pub(super) struct ClassVolumes {
    /// Refusal that holds on every node; `None` if some node may fit.
    hopeless: Option<Refusal>,
    bound: Vec<BoundClaim>,
    waiting: Vec<WaitingClaim>,
    attached: BTreeSet<Attachment>,
    /// Drivers of those, each once.
    drivers: Vec<Arc<str>>,
    /// Work units of asking for all places, beyond the one of the check.
    cost: u64,
    /// Claims that one pod alone may use, with the counter of pods that do.
    alone: Vec<(Arc<str>, usize)>,
}

/// A claim that has its volume.
#[derive(Debug)]
struct BoundClaim {
    claim: Arc<str>,
    node_affinity: Option<Arc<RequiredNodeAffinity>>,
    zones: Vec<(Arc<str>, Vec<Arc<str>>)>,
}

/// A claim whose volume waits for the pod's node.
#[derive(Debug)]
struct WaitingClaim {
    claim: Arc<str>,
    /// Node for which a volume is being made already.
    selected: Option<Arc<str>>,
    /// Nodes of the free volumes that would do; `None` is all nodes.
    free: Vec<Option<Arc<RequiredNodeAffinity>>>,
    /// Topologies in which one can be made; `None` is nowhere, no terms is everywhere.
    topologies: Option<Vec<Topology>>,
    /// Capacity that its driver has reported for new volumes; `None` where it need not report any.
    capacity: Option<ReportedCapacity>,
}

/// A volume as a driver attaches it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attachment {
    driver: Arc<str>,
    volume: Arc<str>,
    /// Not made yet: each pod of the class will have one of its own.
    unmade: bool,
}

/// The volumes of one node by driver: those of its pods, and those that are attached without a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeVolumes(BTreeMap<Arc<str>, DriverVolumes>);

#[derive(Clone, Debug, Default)]
struct DriverVolumes {
    /// Volumes not made yet: each pod will have its own.
    unmade: u32,
    /// Volumes, with the number of pods that use each.
    there: FxHashMap<Arc<str>, u32>,
    /// Volumes that are attached without a pod.
    kept: FxHashSet<Arc<str>>,
}

impl DriverVolumes {
    /// Places that are taken.
    fn count(&self) -> u32 {
        let kept = self.kept.iter().filter(|volume| !self.there.contains_key(*volume)).count();
        let made = u32::try_from(self.there.len() + kept).unwrap_or(u32::MAX);
        self.unmade.saturating_add(made)
    }
}

impl NodeVolumes {
    /// A pod with these volumes comes or leaves.
    fn add(&mut self, attached: &BTreeSet<Attachment>, comes: bool) {
        for volume in attached {
            let of_driver = self.0.entry(volume.driver.clone()).or_default();
            let users = if volume.unmade {
                &mut of_driver.unmade
            } else {
                of_driver.there.entry(volume.volume.clone()).or_insert(0)
            };
            *users = if comes { *users + 1 } else { users.saturating_sub(1) };
            if *users == 0 && !volume.unmade {
                of_driver.there.remove(&volume.volume);
            }
        }
    }

    fn names(&self, driver: &str, volume: &str) -> bool {
        self.0.get(driver).is_some_and(|of_driver| of_driver.there.contains_key(volume))
    }

    /// A volume that is attached stays so whoever comes or leaves.
    fn keep(&mut self, driver: &Arc<str>, volume: &Arc<str>) {
        self.0.entry(driver.clone()).or_default().kept.insert(volume.clone());
    }
}

/// Reason why a claim keeps its pod off every node, or what it asks.
enum ClaimPhase {
    Bound(BoundClaim, Option<Attachment>),
    Waiting(WaitingClaim, Attachment),
}

impl Snapshot<'_> {
    /// True if pods elsewhere decide whether the volumes of this class can be had on a node: attach limits, and claims
    /// that one pod alone may use.
    pub fn has_volume_rivals(&mut self, class: ClassIx) -> bool {
        if self.class(class).claims.is_empty() {
            return false;
        }
        let volumes = self.volumes_of(class);
        let limited = self.limited_drivers();
        !volumes.alone.is_empty() || volumes.drivers.iter().any(|driver| limited.contains(driver))
    }

    /// True if the volumes of `class` let it run on `node`, whatever runs where.
    ///
    /// Source: kube-scheduler, volumebinding/volume_binding.go and binder.go, FindPodVolumes; volumezone/volume_zone.go.
    pub(super) fn check_volume_places(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        if self.class(class).claims.is_empty() {
            return Ok(());
        }
        let volumes = self.volumes_of(class);
        if let Some(refusal) = &volumes.hopeless {
            return Err(refusal.clone());
        }
        self.work_units += volumes.cost;
        self.check_drivers(&volumes, node)?;
        let node = Reach(self.node(node));
        volumes.bound.iter().try_for_each(|claim| claim.reached_from(&node))?;
        volumes.waiting.iter().try_for_each(|claim| claim.can_be_had_on(&node))
    }

    /// True if the pods that are there leave `node` the attachments, and `class` the claims, that it needs.
    ///
    /// Source: kube-scheduler, nodevolumelimits/csi.go, Filter; volumerestrictions/volume_restrictions.go, for claims
    /// of ReadWriteOncePod.
    pub(super) fn check_volume_rivals(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        if !self.has_volume_rivals(class) {
            return Ok(());
        }
        let volumes = self.volumes_of(class);
        for (claim, counter) in &volumes.alone {
            if 0 < self.counted(*counter).total {
                return Err(Refusal::VolumeInUse { claim: claim.clone() });
            }
        }
        self.check_attachments(&volumes, node)
    }

    /// True if the drivers of these volumes are on `node`, as far as their CSIDrivers ask for it.
    ///
    /// Source: kube-scheduler 1.37, nodevolumelimits/csi.go, Filter.
    fn check_drivers(&self, volumes: &ClassVolumes, node: NodeIx) -> Result<(), Refusal> {
        let required = &self.world().storage().required_drivers;
        if required.is_empty() {
            return Ok(());
        }
        let is_missing = |driver: &&Arc<str>| {
            required.contains(*driver) && self.node(node).lacks_driver(driver, self.world())
        };
        match volumes.drivers.iter().find(is_missing) {
            Some(driver) => Err(Refusal::DriverMissing { driver: driver.clone() }),
            None => Ok(()),
        }
    }

    fn check_attachments(&mut self, volumes: &ClassVolumes, node: NodeIx) -> Result<(), Refusal> {
        let limits = self.node(node).attach_limits(self.world());
        let limit = |driver: &Arc<str>| limits.and_then(|limits| limits.of(driver));
        if !volumes.drivers.iter().any(|driver| limit(driver).is_some()) {
            return Ok(());
        }
        self.look_at_volumes(node);
        let Some(limits) = self.node(node).attach_limits(self.world()) else { return Ok(()) };
        let Some(Some(there)) = self.node_volumes.get(node.0 as usize) else { return Ok(()) };
        for driver in &volumes.drivers {
            let Some(limit) = limits.of(driver) else { continue };
            let there = there.0.get(driver);
            let is_there =
                |volume: &Attachment| there.is_some_and(|there| there.there.contains_key(&volume.volume));
            let of_driver = volumes.attached.iter().filter(|volume| volume.driver == *driver);
            let new_count = of_driver.filter(|volume| volume.unmade || !is_there(volume)).count();
            let wanted = u32::try_from(new_count).unwrap_or(u32::MAX);
            let used = there.map_or(0, DriverVolumes::count);
            if 0 < wanted && limit < used.saturating_add(wanted) {
                return Err(Refusal::AttachLimit { driver: driver.clone(), used, wanted, limit });
            }
        }
        Ok(())
    }

    /// Counts the volumes of a node, unless that was done before.
    fn look_at_volumes(&mut self, node: NodeIx) {
        let at = node.0 as usize;
        if matches!(self.node_volumes.get(at), Some(Some(_))) {
            return;
        }
        let mut there = self.volumes_of_pods(self.pods(node).collect());
        self.keep_attached(node, &mut there);
        if self.node_volumes.len() <= at {
            self.node_volumes.resize(at + 1, None);
        }
        self.node_volumes[at] = Some(there);
    }

    fn volumes_of_pods(&mut self, pods: Vec<PodRef>) -> NodeVolumes {
        let mut there = NodeVolumes::default();
        self.work_units += u64::try_from(pods.len()).unwrap_or(u64::MAX) / 8;
        for pod in pods {
            let class = self.class_of(pod);
            if !self.class(class).claims.is_empty() {
                there.add(&self.volumes_of(class).attached, true);
            }
        }
        there
    }

    /// Counts what is attached to a node and used by no pod that is bound to it: volumes of pods that have finished or are
    /// gone, until they are detached, and those of others. What bound pods use leaves with them. A pod that wants such a volume back
    /// needs a second place, as the scheduler counts it.
    ///
    /// Source: kube-scheduler, nodevolumelimits/csi.go, getNodeVolumeAttachmentInfo.
    fn keep_attached(&mut self, node: NodeIx, there: &mut NodeVolumes) {
        let world = self.world();
        let Some((_, _, entry)) = world.node_named(self.node(node).name()) else { return };
        let storage = world.storage();
        let attached = storage.attachments.of_node(&entry.name);
        let handles = attached.filter_map(|name| storage.volumes.get(name)?.csi.as_ref());
        let without_pod: Vec<_> = handles.filter(|(driver, handle)| !there.names(driver, handle)).collect();
        if without_pod.is_empty() {
            return;
        }
        let unfinished = |id: &&PodId| !world.pod(**id).pod.phase.finished();
        let bound = entry.pods.iter().filter(unfinished).map(|id| PodRef::Real(*id)).collect();
        let of_bound = self.volumes_of_pods(bound);
        for (driver, handle) in without_pod {
            if !of_bound.names(driver, handle) {
                there.keep(driver, handle);
            }
        }
    }

    /// A pod has come to (`+1`) or gone from (`-1`) a node.
    pub(super) fn volumes_moved(&mut self, pod: PodRef, node: NodeIx, change: i32) {
        let class = self.class_of(pod);
        if self.node_volumes.is_empty() || self.class(class).claims.is_empty() {
            return;
        }
        let volumes = self.volumes_of(class);
        if let Some(Some(there)) = self.node_volumes.get_mut(node.0 as usize) {
            there.add(&volumes.attached, 0 < change);
        }
    }

    fn volumes_of(&mut self, class: ClassIx) -> Arc<ClassVolumes> {
        let index = class.0 as usize;
        if let Some(Some(volumes)) = self.volumes.get(index) {
            return volumes.clone();
        }
        let pod = self.class(class).clone();
        let storage = self.world().storage();
        let mut volumes = ClassVolumes::default();
        let unclaimed = || storage.volumes.values().filter(|volume| volume.free.is_some()).collect();
        let free = self.free_volumes.get_or_insert_with(unclaimed).clone();
        self.work_units += u64::try_from(free.len()).unwrap_or(u64::MAX) / 8;
        for claim in &pod.claims {
            match claim_phase(claim, &pod, storage, &free) {
                Ok(ClaimPhase::Bound(bound, attachment)) => {
                    volumes.bound.push(bound);
                    volumes.attached.extend(attachment);
                }
                Ok(ClaimPhase::Waiting(waiting, attachment)) => {
                    volumes.waiting.push(waiting);
                    volumes.attached.insert(attachment);
                }
                Err(refusal) => volumes.hopeless = volumes.hopeless.or(Some(refusal)),
            }
            if made(claim, &pod, storage)
                .is_some_and(|made| made.spec.access.contains(AccessModes::READ_WRITE_ONCE_POD))
            {
                let counter = self.claim_counter(pod.namespace.clone(), claim.name.clone());
                volumes.alone.push((claim.name.clone(), counter));
            }
        }
        volumes.drivers = volumes.attached.iter().map(|volume| volume.driver.clone()).collect();
        volumes.drivers.dedup();
        volumes.cost = u64::try_from(volumes.bound.len()).unwrap_or(u64::MAX) / 4
            + volumes.waiting.iter().map(WaitingClaim::cost).sum::<u64>();
        let volumes = Arc::new(volumes);
        if self.volumes.len() <= index {
            self.volumes.resize(index + 1, None);
        }
        self.volumes[index] = Some(volumes.clone());
        volumes
    }
}

/// The claim as it is in the cluster; `None` when it has not been made.
fn made<'s>(claim: &PodClaim, pod: &PodClass, storage: &'s Storage) -> Option<&'s VolumeClaim> {
    storage.claims.get(&headroom_values::labels::ObjectKey::new(pod.namespace.clone(), &*claim.name))
}

/// Returns the requirements of a pod's claim on nodes.
///
/// Source: volumebinding/binder.go, GetPodVolumeClaims.
fn claim_phase(
    claim: &PodClaim,
    pod: &PodClass,
    storage: &Storage,
    free: &[&Volume],
) -> Result<ClaimPhase, Refusal> {
    let not_ready = |why: String| Refusal::VolumeNotReady { claim: claim.name.clone(), why: why.into() };
    let made = made(claim, pod, storage);
    let spec = match (made, &claim.template) {
        (Some(made), _) => &made.spec,
        (None, Some(template)) => template,
        (None, None) => return Err(not_ready("it does not exist".to_owned())),
    };
    if made.is_some_and(|made| made.unusable) {
        return Err(not_ready("it is being deleted, or its volume is lost".to_owned()));
    }
    if let Some(VolumeClaim { volume: Some(name), bound: true, .. }) = made {
        let Some(volume) = storage.volumes.get(name) else {
            return Err(not_ready(format!("its volume {name} does not exist")));
        };
        let bound = BoundClaim {
            claim: claim.name.clone(),
            node_affinity: volume.node_affinity.clone(),
            zones: volume.zones.clone(),
        };
        let attachment = volume.csi.as_ref().map(|(driver, handle)| Attachment {
            driver: driver.clone(),
            volume: handle.clone(),
            unmade: false,
        });
        return Ok(ClaimPhase::Bound(bound, attachment));
    }
    let class = match &spec.storage_class {
        Some(name) => storage.classes.get(name),
        None if made.is_none() => storage.default_class(),
        None => None,
    };
    let prebound = made.is_some_and(|made| made.volume.is_some());
    match class {
        Some(class) if class.waits_for_consumer && !prebound => {
            let selected = made.and_then(|made| made.selected_node.clone());
            let attachment = Attachment {
                driver: class.provisioner.clone(),
                volume: Arc::from(format!("{}/{}", pod.namespace, claim.name)),
                unmade: made.is_none(),
            };
            Ok(ClaimPhase::Waiting(waiting(claim, spec, class, selected, (storage, free)), attachment))
        }
        Some(_) | None => {
            Err(not_ready("it is bound before its pods are scheduled, and is not bound yet".to_owned()))
        }
    }
}

fn waiting(
    claim: &PodClaim,
    spec: &ClaimSpec,
    class: &StorageClass,
    selected: Option<Arc<str>>,
    (storage, free): (&Storage, &[&Volume]),
) -> WaitingClaim {
    let free = free
        .iter()
        .filter(|volume| volume.free.as_ref().is_some_and(|free| would_do(free, spec, class)))
        .map(|volume| volume.node_affinity.clone());
    let provisioned = &*class.provisioner != NO_PROVISIONER;
    WaitingClaim {
        claim: claim.name.clone(),
        selected,
        free: free.collect(),
        topologies: provisioned.then(|| class.topologies.clone()),
        capacity: ReportedCapacity::of(claim, spec, class, storage),
    }
}

/// True if a free volume has what a claim asks for.
///
/// Source: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume.
fn would_do(free: &FreeVolume, claim: &ClaimSpec, class: &StorageClass) -> bool {
    free.storage_class == class.name
        && free.block == claim.block
        && free.access.contains(claim.access)
        && claim.request_bytes <= free.capacity_bytes
        && claim.selector.as_ref().is_none_or(|selector| selects(selector, &free.labels))
}

impl BoundClaim {
    fn reached_from(&self, node: &Reach<'_, '_>) -> Result<(), Refusal> {
        if let Some(affinity) = &self.node_affinity
            && let Err(refusal) = node_affinity::check(&Labels::default(), Some(affinity), node)
        {
            return Err(elsewhere(&self.claim, refusal));
        }
        // Source: volume_zone.go, hasAnyNodeConstraint: a node without any place is everywhere.
        let has = |key: &str| node.label(key).is_some() || node.open(key).is_some();
        let placed = has(ZONE_LABEL) || has(REGION_LABEL);
        let wrong = |(key, values): &&(Arc<str>, Vec<Arc<str>>)| !node_affinity::is_one_of(node, key, values);
        match self.zones.iter().find(wrong) {
            Some((key, values)) if placed => Err(Refusal::VolumeAffinity {
                claim: self.claim.clone(),
                wanted: one_of(key, values).into(),
                key: key.clone(),
                found: node_affinity::found(node, key),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

impl WaitingClaim {
    /// Work units of asking for its places.
    fn cost(&self) -> u64 {
        let parts = self.free.len() + self.capacity.as_ref().map_or(0, ReportedCapacity::parts_count);
        u64::try_from(parts).unwrap_or(u64::MAX) / 4
    }

    fn can_be_had_on(&self, node: &Reach<'_, '_>) -> Result<(), Refusal> {
        if let Some(selected) = &self.selected {
            return if **selected == *node.node_name() {
                Ok(())
            } else {
                Err(Refusal::VolumeAffinity {
                    claim: self.claim.clone(),
                    wanted: format!("node {selected}, where a volume is being made").into(),
                    key: "".into(),
                    found: None,
                })
            };
        }
        let reached = |affinity: &Option<Arc<RequiredNodeAffinity>>| {
            node_affinity::matches(&Labels::default(), affinity.as_deref(), node)
        };
        if self.free.iter().any(reached) {
            return Ok(());
        }
        let Some(terms) = &self.topologies else {
            return Err(Refusal::VolumeAffinity {
                claim: self.claim.clone(),
                wanted: "a free volume that the node reaches".into(),
                key: "".into(),
                found: None,
            });
        };
        // Source: component-helpers, corev1 helpers, MatchTopologySelectorTerms: no terms match everything.
        let wrong = |(key, values): &&(Arc<str>, Vec<Arc<str>>)| !node_affinity::is_one_of(node, key, values);
        let misses: Vec<_> = terms.iter().map(|term| term.iter().find(wrong)).collect();
        match misses.first() {
            Some(Some((key, values))) if misses.iter().all(Option::is_some) => Err(Refusal::VolumeAffinity {
                claim: self.claim.clone(),
                wanted: one_of(key, values).into(),
                key: key.clone(),
                found: node_affinity::found(node, key),
            }),
            _ => self.capacity.as_ref().map_or(Ok(()), |capacity| {
                capacity.check(node, node.0.awaits_drivers() && !node.0.is_added())
            }),
        }
    }
}

fn elsewhere(claim: &Arc<str>, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::NodeAffinity { wanted, key, found } => {
            Refusal::VolumeAffinity { claim: claim.clone(), wanted, key, found }
        }
        other => other,
    }
}

fn one_of(key: &str, values: &[Arc<str>]) -> String {
    format!("{key} in ({})", values.iter().map(|value| &**value).collect::<Vec<_>>().join(", "))
}

/// A node as volumes look at it.
struct Reach<'n, 'w>(&'n NodeView<'w>);

impl LabelledNode for Reach<'_, '_> {
    fn node_name(&self) -> &str {
        self.0.node_name()
    }

    fn label(&self, key: &str) -> Option<&str> {
        let alias =
            || (self.0.awaits_drivers() && ZONE_ALIASES.contains(&key)).then(|| self.0.label(ZONE_LABEL));
        self.0.label(key).or_else(|| alias().flatten())
    }

    fn open(&self, key: &str) -> Option<&[Arc<str>]> {
        let alias =
            || (self.0.awaits_drivers() && ZONE_ALIASES.contains(&key)).then(|| self.0.open(ZONE_LABEL));
        self.0.open(key).or_else(|| self.0.label(key).is_none().then(alias).flatten().flatten())
    }
}
