//! Persistent volumes, claims, storage classes and attach limits as decisions see them. Data only, no rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::attachment::Attachments;
use crate::scheduling::constraints::{LabelSelector, RequiredNodeAffinity};
use headroom_values::labels::{Labels, ObjectKey};

/// Ways in which a volume may be mounted: a set of the four access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccessModes(u8);

impl AccessModes {
    /// `ReadWriteOncePod` alone.
    pub const READ_WRITE_ONCE_POD: Self = Self(8);
    const WORDS: [(&'static str, u8); 4] =
        [("ReadWriteOnce", 1), ("ReadOnlyMany", 2), ("ReadWriteMany", 4), ("ReadWriteOncePod", 8)];

    /// The set of these words; words that are none of the four are passed over.
    #[must_use]
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let bit =
            |word: &str| Self::WORDS.iter().find(|(known, _)| *known == word).map_or(0, |(_, bit)| *bit);
        Self(words.into_iter().map(bit).fold(0, |all, bit| all | bit))
    }

    /// True if every mode of `other` is in this set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Requirements of a claim on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// `spec.storageClassName`; `None` when absent: the default class stands in for it in templates, whose claims the
    /// API server has not completed yet. Empty means no class.
    pub storage_class: Option<Arc<str>>,
    /// Access modes.
    pub access: AccessModes,
    /// Bytes asked for.
    pub request_bytes: i64,
    /// True if a raw block device is asked for.
    pub block: bool,
    /// Selector of the volumes that may be taken; `None` is any.
    pub selector: Option<LabelSelector>,
}

/// A claim that a pod mounts, by name in the pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaim {
    /// The claim's name.
    pub name: Arc<str>,
    /// Spec of the claim that a controller will make for the pod: volume claim templates and ephemeral volumes. `None`
    /// for a claim that people make.
    pub template: Option<Arc<ClaimSpec>>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaim {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Spec of the claim.
    pub spec: Arc<ClaimSpec>,
    /// `spec.volumeName`: the volume it is bound to, or is to be bound to.
    pub volume: Option<Arc<str>>,
    /// True if binding is complete (annotation `pv.kubernetes.io/bind-completed`).
    pub bound: bool,
    /// Node for which a volume is being made (annotation `volume.kubernetes.io/selected-node`).
    pub selected_node: Option<Arc<str>>,
    /// True if its volume is lost, or it is being deleted: no pod that mounts it is scheduled.
    pub unusable: bool,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: Arc<str>,
    /// Nodes that can reach it; `None` is all.
    pub node_affinity: Option<Arc<RequiredNodeAffinity>>,
    /// Zones and regions that its labels name, each with every value that will do.
    pub zones: Vec<(Arc<str>, Vec<Arc<str>>)>,
    /// CSI driver and the driver's own name of the volume; `None` for other kinds of volumes.
    pub csi: Option<(Arc<str>, Arc<str>)>,
    /// Fields for claims if it can still be claimed; `None` when it is bound, claimed or being deleted.
    pub free: Option<Arc<FreeVolume>>,
}

/// Fields of an unclaimed volume that a claim looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FreeVolume {
    /// Its class; empty for none.
    pub storage_class: Arc<str>,
    /// Access modes.
    pub access: AccessModes,
    /// Its size in bytes.
    pub capacity_bytes: i64,
    /// True if it is a raw block device.
    pub block: bool,
    /// Its labels.
    pub labels: Labels,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Its name.
    pub name: Arc<str>,
    /// Provisioner of its volumes.
    pub provisioner: Arc<str>,
    /// True if volumes wait for a pod to be scheduled (`WaitForFirstConsumer`).
    pub waits_for_consumer: bool,
    /// Topologies in which volumes can be made: one term must hold, all keys of it; no terms is everywhere.
    pub topologies: Vec<Topology>,
    /// True if claims that name no class get this one.
    pub is_default: bool,
}

/// CSI drivers of a node, each with the number of volumes that it attaches there; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttachLimits(Vec<(Arc<str>, Option<u32>)>);

impl AttachLimits {
    /// The limit of a driver; `None` when there is none, or no such driver.
    #[must_use]
    pub fn of(&self, driver: &str) -> Option<u32> {
        self.0.iter().find(|(name, _)| **name == *driver).and_then(|(_, limit)| *limit)
    }

    /// True if the driver is there, with a limit or without.
    #[must_use]
    pub fn names(&self, driver: &str) -> bool {
        self.0.iter().any(|(name, _)| **name == *driver)
    }

    /// The drivers with their limits, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Option<u32>)> {
        self.0.iter().map(|(driver, limit)| (driver, *limit))
    }

    /// The drivers that have a limit.
    pub fn limited(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter(|(_, limit)| limit.is_some()).map(|(driver, _)| driver)
    }

    /// The drivers of both, each with the lower limit.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        let own = self
            .iter()
            .map(|(driver, limit)| (driver.clone(), limit.into_iter().chain(other.of(driver)).min()));
        own.chain(other.missing_in(self)).collect()
    }

    /// These drivers, and those of `other` that are missing here.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.0.iter().cloned().chain(other.missing_in(self)).collect()
    }

    fn missing_in(&self, other: &Self) -> impl Iterator<Item = (Arc<str>, Option<u32>)> {
        self.0.iter().filter(|(driver, _)| !other.names(driver)).cloned()
    }

    /// True if there is no driver.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Arc<str>, Option<u32>)> for AttachLimits {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Option<u32>)>>(limits: I) -> Self {
        Self(limits.into_iter().collect())
    }
}

impl FromIterator<(Arc<str>, u32)> for AttachLimits {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, u32)>>(limits: I) -> Self {
        limits.into_iter().map(|(driver, limit)| (driver, Some(limit))).collect()
    }
}

/// A CSIDriver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiDriver {
    /// True if it makes volumes only where it has reported capacity (`storageCapacity`).
    pub reports_capacity: bool,
    /// True if pods with its volumes are kept off nodes that it is not on (`preventPodSchedulingIfMissing`; Kubernetes 1.37
    /// and later).
    pub required: bool,
}

/// A CSIStorageCapacity: the room that a driver has for volumes of one class, for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageCapacity {
    /// Namespace and name: the driver's choice, they mean nothing.
    pub key: ObjectKey,
    /// The class.
    pub storage_class: Arc<str>,
    /// The nodes, by their labels; `None` is none.
    pub nodes: Option<LabelSelector>,
    /// The largest volume that can be made, in bytes: `maximumVolumeSize`, else `capacity`. `None` when the driver reports
    /// neither: then the scheduler counts on no volume.
    pub largest_bytes: Option<i64>,
}

/// A PriorityClass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Its value.
    pub value: i32,
    /// True if pods that name no class get this one.
    pub is_default: bool,
}

/// The storage of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    /// Claims by key.
    pub claims: BTreeMap<ObjectKey, VolumeClaim>,
    /// Volumes by name.
    pub volumes: BTreeMap<Arc<str>, Volume>,
    /// Classes by name.
    pub classes: BTreeMap<Arc<str>, StorageClass>,
    /// CSI drivers by node, with their attach limits; nodes without any are left out.
    pub attach_limits: BTreeMap<Arc<str>, Arc<AttachLimits>>,
    /// CSI drivers that make volumes only where they have reported capacity (`spec.storageCapacity` of the CSIDriver). The
    /// others make them anywhere.
    pub reporting_drivers: BTreeSet<Arc<str>>,
    /// CSI drivers without which a node takes no pod with their volumes (`spec.preventPodSchedulingIfMissing` of the
    /// CSIDriver).
    pub required_drivers: BTreeSet<Arc<str>>,
    /// The capacity that they have reported.
    pub capacities: BTreeMap<ObjectKey, StorageCapacity>,
    /// Volumes that are attached to nodes.
    pub attachments: Attachments,
}

impl Storage {
    /// CSI drivers of which some node attaches a limited number of volumes.
    #[must_use]
    pub fn limited_drivers(&self) -> FxHashSet<Arc<str>> {
        let mut drivers = FxHashSet::default();
        let mut before: Option<&Arc<AttachLimits>> = None;
        for limits in self.attach_limits.values() {
            // Nodes of one shape share one set of limits.
            if before.is_none_or(|before| !Arc::ptr_eq(before, limits)) {
                drivers.extend(limits.limited().cloned());
            }
            before = Some(limits);
        }
        drivers
    }

    /// The class that stands in for an absent one: the first by name of those marked so.
    ///
    /// The API server takes the newest where several are marked; that is a mistake of the cluster's owner, and the
    /// first by name is as good a guess.
    #[must_use]
    pub fn default_class(&self) -> Option<&StorageClass> {
        self.classes.values().find(|class| class.is_default)
    }
}

/// One alternative of places: labels, each with the values that will do. All labels must match.
pub type Topology = Vec<(Arc<str>, Vec<Arc<str>>)>;
