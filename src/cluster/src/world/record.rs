//! The world as a file holds it: sorted plain values, with what pods share stored once. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attachment::VolumeAttachment;
use super::buffer::{CapacityBuffer, Quota, Standby, Template};
use super::capacity_quota::CapacityQuota;
use super::devices::DevicesRecord;
use super::expander::ExpanderAnswers;
use super::gang::{Gang, GangKind};
use super::node::Node;
use super::pod::{Owner, Pod, PodClass, PodPhase};
use super::provider::ProviderState;
use super::request::ProvisioningRequest;
use super::surge::SurgeWorkload;
use super::view::{Freshness, View};
use super::volume::{
    AttachLimits, CsiDriver, PriorityClass, StorageCapacity, StorageClass, Volume, VolumeClaim,
};
use super::workload::{Controller, ControllerKind, DaemonSet, DisruptionBudget, PrioritySource};
use super::{Delta, Kind, World};
use crate::world::IntentId;
use headroom_values::known::Known;
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::time::{Seconds, UnixTime};

/// Everything a [`World`] is built from. Equal worlds give equal records, whatever their past.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WorldRecord {
    /// True if the view was too old to remove anything by.
    pub stale: bool,
    /// Time that nothing had been heard of nodes.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes_silent_for: Seconds,
    /// Increases of which a call was under way, by pool and intent.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub asking: BTreeSet<(Arc<str>, IntentId)>,
    /// Answers of the server of expander `Grpc`; absent where it was not asked.
    #[serde(skip_serializing_if = "ExpanderAnswers::is_blank")]
    pub expander: ExpanderAnswers,
    /// Classes that pods and templates share, each once; the others refer to it by its index here.
    pub classes: Vec<Arc<PodClass>>,
    /// The controllers that own pods, each once; pods name them by their place here.
    pub owners: Vec<Arc<Owner>>,
    /// Nodes by name.
    pub nodes: Vec<Node>,
    /// Pods by namespace and name.
    pub pods: Vec<PodRecord>,
    /// ReplicaSets, StatefulSets, Jobs and ReplicationControllers.
    pub controllers: Vec<ControllerRecord>,
    /// DaemonSets.
    pub daemon_sets: Vec<DaemonSetRecord>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// PersistentVolumeClaims.
    pub claims: Vec<VolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Vec<Volume>,
    /// StorageClasses.
    pub storage_classes: Vec<StorageClass>,
    /// CSI drivers by node, each with the number of volumes that it attaches there. Files written before `requiredDrivers`
    /// was there leave out drivers without a limit.
    pub attach_limits: BTreeMap<Arc<str>, AttachLimits>,
    /// CSI drivers that make volumes only where they have reported capacity.
    #[serde(rename = "tellingDrivers", skip_serializing_if = "BTreeSet::is_empty")]
    pub reporting_drivers: BTreeSet<Arc<str>>,
    /// CSI drivers without which a node takes no pod with their volumes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub required_drivers: BTreeSet<Arc<str>>,
    /// The capacity that drivers have reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_capacities: Vec<StorageCapacity>,
    /// VolumeAttachments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_attachments: Vec<VolumeAttachment>,
    /// PriorityClasses.
    pub priority_classes: BTreeMap<Arc<str>, PriorityClass>,
    /// CapacityBuffers, and what they refer to; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyRecord>,
    /// ProvisioningRequests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<ProvisioningRequest>,
    /// PodTemplates that they name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_templates: Vec<TemplateRecord>,
    /// Requests that another controller writes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub requests_of_others: BTreeSet<ObjectKey>,
    /// CapacityQuotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity_quotas: Vec<CapacityQuota>,
    /// Objects that make pods a gang.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gangs: Vec<Gang>,
    /// Kinds of gangs that the server has.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub gang_kinds: BTreeSet<GangKind>,
    /// Objects of resource.k8s.io; absent where the server has none of its kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DevicesRecord>,
    /// Workloads that allow a surge; absent while not all of them have been looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge_workloads: Option<Vec<SurgeWorkload>>,
    /// Last state of each pool's provider.
    pub providers: BTreeMap<Arc<str>, Known<ProviderState>>,
}

/// True if a length is zero, so that it need not be written.
fn is_zero(length: &Seconds) -> bool {
    length.0 == 0
}

/// A pod, see [`Pod`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRecord {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// Its place in [`WorldRecord::classes`].
    pub class: usize,
    /// The place of its controller in [`WorldRecord::owners`]; absent for a naked pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<usize>,
    /// The node it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The node where preemption makes room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<Arc<str>>,
    /// Phase.
    pub phase: PodPhase,
    /// True if the scheduler found no place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// True if a scheduling gate holds it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gated: bool,
    /// Time at which it was made.
    pub created_at: UnixTime,
    /// Time at which its grace period is over, if it is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_at: Option<UnixTime>,
    /// End of its protection from disruption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_until: Option<UnixTime>,
}

/// A controller, see [`Controller`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerRecord {
    /// Kind.
    pub kind: ControllerKind,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// Pods that should exist now.
    pub desired: u32,
    /// The place of its pods' class in [`WorldRecord::classes`].
    pub class: usize,
    /// Source of its pods' priority.
    pub priority_class: PrioritySource,
    /// Reason why no pods are to be expected although some are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Arc<str>>,
    /// True if its pods are made one after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
}

/// A DaemonSet, see [`DaemonSet`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonSetRecord {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// The place of its pods' class in [`WorldRecord::classes`].
    pub class: usize,
    /// Source of its pods' priority.
    #[serde(default, skip_serializing_if = "of_template")]
    pub priority_class: PrioritySource,
    /// Nodes that should run one of its pods.
    #[serde(default, skip_serializing_if = "is_none")]
    pub desired: u32,
}

/// Buffers, see [`Standby`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct StandbyRecord {
    /// CapacityBuffers.
    pub buffers: Vec<CapacityBuffer>,
    /// PodTemplates that they name.
    pub templates: Vec<TemplateRecord>,
    /// Deployments that they name.
    pub deployments: Vec<TemplateRecord>,
    /// ResourceQuotas.
    pub quotas: Vec<Quota>,
    /// Buffers that another controller writes.
    pub of_others: BTreeSet<ObjectKey>,
}

/// A template, see [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateRecord {
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// Its generation.
    #[serde(default)]
    pub generation: i64,
    /// The place of its pods' class in [`WorldRecord::classes`].
    pub class: usize,
    /// Source of its pods' priority.
    #[serde(default, skip_serializing_if = "of_template")]
    pub priority_class: PrioritySource,
}

fn of_template(source: &PrioritySource) -> bool {
    *source == PrioritySource::Template
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Reason why a record is not a world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An object names a class that is not in the list.
    #[error("{object} names class {place}, and there are only {count}")]
    NoSuchClass {
        /// The object.
        object: ObjectKey,
        /// The place it names.
        place: usize,
        /// Number of them.
        count: usize,
    },
    /// A pod names an owner that is not in the list.
    #[error("pod {object} names owner {place}, and there are only {count}")]
    NoSuchOwner {
        /// The pod.
        object: ObjectKey,
        /// The place it names.
        place: usize,
        /// Number of them.
        count: usize,
    },
}

impl WorldRecord {
    /// The record of a world, and of how far it is to be trusted.
    #[must_use]
    pub fn of<'w>(view: impl Into<View<'w>>) -> Self {
        let View { world, freshness } = view.into();
        let mut pods: Vec<&Pod> = world.pods.iter().flatten().map(|entry| &entry.pod).collect();
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        let (mut classes, mut owners) = (Places::default(), Places::default());
        let pods = pods
            .into_iter()
            .map(|pod| PodRecord {
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                class: classes.place(&pod.class),
                owner: pod.owner.as_ref().map(|owner| owners.place(owner)),
                node: pod.node.clone(),
                nominated_node: pod.nominated_node.clone(),
                phase: pod.phase,
                unschedulable: pod.unschedulable,
                gated: pod.gated,
                created_at: pod.created_at,
                deletion_at: pod.deletion_at,
                protected_until: pod.protected_until,
            })
            .collect();
        let controllers = world
            .controllers
            .values()
            .map(|controller| ControllerRecord {
                kind: controller.kind,
                key: controller.key.clone(),
                uid: controller.uid.clone(),
                desired: controller.desired,
                class: classes.place(&controller.class),
                priority_class: controller.priority_class.clone(),
                stalled: controller.stalled.clone(),
                in_order: controller.in_order,
            })
            .collect();
        let daemon_sets = world
            .daemon_sets
            .values()
            .map(|set| DaemonSetRecord {
                key: set.key.clone(),
                uid: set.uid.clone(),
                class: classes.place(&set.class),
                priority_class: set.priority_class.clone(),
                desired: set.desired,
            })
            .collect();
        let request_templates = requested_templates(world, &mut classes);
        let standby = world.standby.referred_to().map(|standby| StandbyRecord::of(standby, &mut classes));
        let storage = &world.storage;
        Self {
            stale: freshness.stale,
            nodes_silent_for: freshness.nodes_silent_for,
            asking: freshness.asking.clone(),
            expander: world.expander.clone(),
            nodes: world.nodes().map(|(_, node, _)| node.clone()).collect(),
            pods,
            controllers,
            daemon_sets,
            budgets: world.budgets.values().cloned().collect(),
            namespaces: world.namespaces.clone(),
            claims: storage.claims.values().cloned().collect(),
            volumes: storage.volumes.values().cloned().collect(),
            storage_classes: storage.classes.values().cloned().collect(),
            attach_limits: (storage.attach_limits.iter())
                .map(|(node, limits)| (node.clone(), (**limits).clone()))
                .collect(),
            reporting_drivers: storage.reporting_drivers.clone(),
            required_drivers: storage.required_drivers.clone(),
            storage_capacities: storage.capacities.values().cloned().collect(),
            volume_attachments: storage.attachments.iter().cloned().collect(),
            priority_classes: world.priority_classes.clone(),
            standby,
            requests: world.requests.objects.values().cloned().collect(),
            request_templates,
            requests_of_others: world.requests.of_others.clone(),
            capacity_quotas: world.capacity_quotas.values().cloned().collect(),
            gangs: world.gangs.objects.values().cloned().collect(),
            gang_kinds: world.gangs.served.clone(),
            devices: DevicesRecord::of(&world.devices),
            surge_workloads: world.surge_workloads.clone(),
            providers: world.providers.clone(),
            classes: classes.values,
            owners: owners.values,
        }
    }

    /// The world of this record.
    ///
    /// # Errors
    /// If an object names a class or an owner that is not there.
    pub fn world(&self) -> Result<World, Error> {
        let mut world = World::new();
        for delta in self.deltas()? {
            world.apply(delta);
        }
        world.set_surge_workloads(self.surge_workloads.clone());
        Ok(world)
    }

    /// Returns the freshness of the recorded world.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        Freshness { stale: self.stale, nodes_silent_for: self.nodes_silent_for, asking: self.asking.clone() }
    }

    /// Every change that makes this world out of an empty one.
    ///
    /// # Errors
    /// If an object names a class or an owner that is not there.
    pub fn deltas(&self) -> Result<Vec<Delta>, Error> {
        let mut deltas = Vec::with_capacity(self.pods.len() + self.nodes.len() + self.controllers.len());
        let class = |object: &ObjectKey, place: usize| {
            self.classes.get(place).cloned().ok_or_else(|| Error::NoSuchClass {
                object: object.clone(),
                place,
                count: self.classes.len(),
            })
        };
        deltas.extend(self.nodes.iter().map(|node| Delta::NodeApplied(Box::new(node.clone()))));
        for pod in &self.pods {
            let owner =
                match pod.owner {
                    None => None,
                    Some(place) => Some(self.owners.get(place).cloned().ok_or_else(|| {
                        Error::NoSuchOwner { object: pod.key.clone(), place, count: self.owners.len() }
                    })?),
                };
            deltas.push(Delta::PodApplied(Box::new(Pod {
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                class: class(&pod.key, pod.class)?,
                owner,
                node: pod.node.clone(),
                nominated_node: pod.nominated_node.clone(),
                phase: pod.phase,
                unschedulable: pod.unschedulable,
                gated: pod.gated,
                created_at: pod.created_at,
                deletion_at: pod.deletion_at,
                protected_until: pod.protected_until,
            })));
        }
        for controller in &self.controllers {
            deltas.push(Delta::ControllerApplied(Box::new(Controller {
                kind: controller.kind,
                key: controller.key.clone(),
                uid: controller.uid.clone(),
                desired: controller.desired,
                class: class(&controller.key, controller.class)?,
                priority_class: controller.priority_class.clone(),
                stalled: controller.stalled.clone(),
                in_order: controller.in_order,
            })));
        }
        for set in &self.daemon_sets {
            deltas.push(Delta::DaemonSetApplied(Box::new(DaemonSet {
                key: set.key.clone(),
                uid: set.uid.clone(),
                class: class(&set.key, set.class)?,
                priority_class: set.priority_class.clone(),
                desired: set.desired,
            })));
        }
        for record in &self.request_templates {
            deltas.push(Delta::PodTemplateApplied(record.template(&class)?));
        }
        if let Some(standby) = &self.standby {
            standby.deltas(&mut deltas, class)?;
        }
        self.rest(&mut deltas);
        Ok(deltas)
    }

    /// The changes that share nothing.
    fn rest(&self, deltas: &mut Vec<Delta>) {
        deltas.extend(self.budgets.iter().map(|budget| Delta::BudgetApplied(Box::new(budget.clone()))));
        deltas.extend(
            (self.namespaces.iter())
                .map(|(name, labels)| Delta::NamespaceApplied(name.clone(), labels.clone())),
        );
        deltas.extend(self.claims.iter().map(|claim| Delta::ClaimApplied(Box::new(claim.clone()))));
        deltas.extend(self.volumes.iter().map(|volume| Delta::VolumeApplied(Box::new(volume.clone()))));
        deltas.extend(
            self.storage_classes.iter().map(|class| Delta::StorageClassApplied(Box::new(class.clone()))),
        );
        deltas.extend(
            (self.attach_limits.iter())
                .map(|(node, limits)| Delta::CsiNodeApplied(node.clone(), limits.clone())),
        );
        deltas.extend(self.reporting_drivers.union(&self.required_drivers).map(|name| {
            let reports_capacity = self.reporting_drivers.contains(name);
            let required = self.required_drivers.contains(name);
            Delta::CsiDriverApplied(name.clone(), CsiDriver { reports_capacity, required })
        }));
        let capacities = self.storage_capacities.iter();
        deltas.extend(capacities.map(|one| Delta::StorageCapacityApplied(Box::new(one.clone()))));
        let attachments = self.volume_attachments.iter();
        deltas.extend(attachments.map(|one| Delta::AttachmentApplied(Box::new(one.clone()))));
        deltas.extend(
            (self.priority_classes.iter())
                .map(|(name, class)| Delta::PriorityClassApplied(name.clone(), *class)),
        );
        deltas.extend(self.requests.iter().map(|request| Delta::RequestApplied(Box::new(request.clone()))));
        let quotas = self.capacity_quotas.iter();
        deltas.extend(quotas.map(|quota| Delta::CapacityQuotaApplied(Box::new(quota.clone()))));
        deltas.push(Delta::RequestsOfOthers(self.requests_of_others.clone()));
        deltas.push(Delta::ExpanderAnswered(Box::new(self.expander.clone())));
        // A list that names nothing shows that the kind is there.
        for kind in &self.gang_kinds {
            deltas.push(Delta::ListStarted(Kind::Gang(*kind)));
            deltas.push(Delta::ListEnded(Kind::Gang(*kind)));
        }
        deltas.extend(self.gangs.iter().map(|gang| Delta::GangApplied(Box::new(gang.clone()))));
        if let Some(devices) = &self.devices {
            for kind in &devices.served {
                deltas.push(Delta::ListStarted(Kind::Device(*kind)));
                deltas.push(Delta::ListEnded(Kind::Device(*kind)));
            }
            deltas.extend(devices.objects().map(|object| Delta::DeviceApplied(Box::new(object))));
        }
        deltas.extend(
            (self.providers.iter()).map(|(pool, state)| Delta::ProviderObserved(pool.clone(), state.clone())),
        );
    }
}

/// The PodTemplates that requests name.
fn requested_templates(world: &World, classes: &mut Places<PodClass>) -> Vec<TemplateRecord> {
    let mut keys = BTreeSet::new();
    for request in world.requests.objects.values() {
        let namespace = &request.key.namespace;
        keys.extend(request.pod_sets.iter().map(|set| ObjectKey::new(namespace.clone(), &*set.template)));
    }
    let templates = keys.iter().filter_map(|key| world.standby.templates.get(key));
    templates.map(|template| TemplateRecord::of(template.clone(), classes)).collect()
}

impl TemplateRecord {
    fn of(template: Template, classes: &mut Places<PodClass>) -> Self {
        Self {
            key: template.key,
            generation: template.generation,
            class: classes.place(&template.class),
            priority_class: template.priority_class,
        }
    }

    fn template(
        &self,
        class: &impl Fn(&ObjectKey, usize) -> Result<Arc<PodClass>, Error>,
    ) -> Result<Box<Template>, Error> {
        Ok(Box::new(Template {
            key: self.key.clone(),
            generation: self.generation,
            class: class(&self.key, self.class)?,
            priority_class: self.priority_class.clone(),
        }))
    }
}

impl StandbyRecord {
    fn of(standby: Standby, classes: &mut Places<PodClass>) -> Self {
        let mut record = |template: Template| TemplateRecord::of(template, classes);
        Self {
            templates: standby.templates.into_values().map(&mut record).collect(),
            deployments: standby.deployments.into_values().map(&mut record).collect(),
            buffers: standby.buffers.into_values().collect(),
            quotas: standby.quotas.into_values().collect(),
            of_others: standby.of_others,
        }
    }

    fn deltas(
        &self,
        deltas: &mut Vec<Delta>,
        class: impl Fn(&ObjectKey, usize) -> Result<Arc<PodClass>, Error>,
    ) -> Result<(), Error> {
        let template = |record: &TemplateRecord| record.template(&class);
        for record in &self.templates {
            deltas.push(Delta::PodTemplateApplied(template(record)?));
        }
        for record in &self.deployments {
            deltas.push(Delta::DeploymentApplied(template(record)?));
        }
        deltas.extend(self.quotas.iter().map(|quota| Delta::QuotaApplied(Box::new(quota.clone()))));
        deltas.extend(self.buffers.iter().map(|buffer| Delta::BufferApplied(Box::new(buffer.clone()))));
        deltas.push(Delta::BuffersOfOthers(self.of_others.clone()));
        Ok(())
    }
}

/// Values with a place each, in the order in which they were first asked for.
struct Places<T> {
    values: Vec<Arc<T>>,
    places: rustc_hash::FxHashMap<Arc<T>, usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: rustc_hash::FxHashMap::default() }
    }
}

impl<T: Eq + std::hash::Hash> Places<T> {
    fn place(&mut self, value: &Arc<T>) -> usize {
        if let Some(place) = self.places.get(value) {
            return *place;
        }
        let place = self.values.len();
        self.values.push(value.clone());
        self.places.insert(value.clone(), place);
        place
    }
}
