//! The kinds that are watched, and how each slim object becomes a change. The loop that follows them is in `watch`.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;

use headroom_core::labels::ObjectKey;
use headroom_core::world::devices::{DeviceKind, DeviceObject};
use headroom_core::world::gang::GangKind;
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, Kind};

use super::convert::{
    buffer, capacity_quota, device, gang, key_of, name_of, node, owner_of, pod, request, scale, volume,
    workload,
};
use super::decoder::{Decoder, Error};
use super::partial_object::PartialObject;
use super::policies::PolicyChange;
use super::slim::{
    GANG_WIRES, SlimAttachment, SlimCapacityBuffer, SlimCapacityQuota, SlimClaim, SlimClaimTemplate,
    SlimCsiDriver, SlimCsiNode, SlimDaemonSet, SlimDeployment, SlimDeviceClass, SlimDisruptionBudget,
    SlimGang, SlimHpa, SlimJob, SlimNamespace, SlimNode, SlimPod, SlimPodTemplate, SlimPriorityClass,
    SlimQuota, SlimReplicaSet, SlimReplicationController, SlimRequest, SlimResourceClaim, SlimResourceSlice,
    SlimStatefulSet, SlimStorageCapacity, SlimStorageClass, SlimTaintRule, SlimVolume,
};
use super::workloads::{ScaleKind, Workloads};
use headroom_api::{Stored, StoredClusterScalingPolicy, StoredNodePool, StoredScalingPolicy};

/// One watch: a kind of the world, or one of our own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watch {
    /// A kind whose objects make up the world.
    World(Kind),
    /// NodePools.
    NodePools,
    /// ClusterScalingPolicies.
    ClusterScalingPolicies,
    /// Deployments: replica decisions read their scale, and node decisions the template of those that buffers name.
    Deployments,
    /// HorizontalPodAutoscalers.
    Hpas,
    /// ScalingPolicies.
    ScalingPolicies,
}

impl Watch {
    /// Every watch that node decisions depend on. All must have been listed once before anything is decided about nodes.
    /// Those of replica decisions are [`super::workloads::Workloads::WATCHES`].
    pub const ALL: [Self; 34] = [
        Self::World(Kind::Pod),
        Self::World(Kind::Node),
        Self::World(Kind::Controller(ControllerKind::ReplicaSet)),
        Self::World(Kind::Controller(ControllerKind::StatefulSet)),
        Self::World(Kind::Controller(ControllerKind::Job)),
        Self::World(Kind::Controller(ControllerKind::ReplicationController)),
        Self::World(Kind::DaemonSet),
        Self::World(Kind::Budget),
        Self::World(Kind::Namespace),
        Self::World(Kind::Claim),
        Self::World(Kind::Volume),
        Self::World(Kind::StorageClass),
        Self::World(Kind::CsiNode),
        Self::World(Kind::CsiDriver),
        Self::World(Kind::StorageCapacity),
        Self::World(Kind::Attachment),
        Self::World(Kind::PriorityClass),
        Self::World(Kind::Buffer),
        Self::World(Kind::PodTemplate),
        Self::World(Kind::Quota),
        Self::World(Kind::Request),
        Self::World(Kind::CapacityQuota),
        Self::World(Kind::Gang(GangKind::PodGroup)),
        Self::World(Kind::Gang(GangKind::Workload)),
        Self::World(Kind::Gang(GangKind::Coscheduling)),
        Self::World(Kind::Gang(GangKind::Volcano)),
        Self::World(Kind::Device(DeviceKind::Claim)),
        Self::World(Kind::Device(DeviceKind::Template)),
        Self::World(Kind::Device(DeviceKind::Class)),
        Self::World(Kind::Device(DeviceKind::Slice)),
        Self::World(Kind::Device(DeviceKind::TaintRule)),
        Self::Deployments,
        Self::NodePools,
        Self::ClusterScalingPolicies,
    ];

    /// The plural for logs, conditions and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::World(Kind::Pod) => "pods",
            Self::World(Kind::Node) => "nodes",
            Self::World(Kind::Controller(ControllerKind::ReplicaSet)) => "replicasets",
            Self::World(Kind::Controller(ControllerKind::StatefulSet)) => "statefulsets",
            Self::World(Kind::Controller(ControllerKind::Job)) => "jobs",
            Self::World(Kind::Controller(ControllerKind::ReplicationController)) => "replicationcontrollers",
            Self::World(Kind::DaemonSet) => "daemonsets",
            Self::World(Kind::Budget) => "poddisruptionbudgets",
            Self::World(Kind::Namespace) => "namespaces",
            Self::World(Kind::Claim) => "persistentvolumeclaims",
            Self::World(Kind::Volume) => "persistentvolumes",
            Self::World(Kind::StorageClass) => "storageclasses",
            Self::World(Kind::CsiNode) => "csinodes",
            Self::World(Kind::CsiDriver) => "csidrivers",
            Self::World(Kind::StorageCapacity) => "csistoragecapacities",
            Self::World(Kind::Attachment) => "volumeattachments",
            Self::World(Kind::PriorityClass) => "priorityclasses",
            Self::World(Kind::Buffer) => "capacitybuffers",
            Self::World(Kind::PodTemplate) => "podtemplates",
            Self::World(Kind::Quota) => "resourcequotas",
            Self::World(Kind::Request) => "provisioningrequests",
            Self::World(Kind::CapacityQuota) => "capacityquotas",
            Self::World(Kind::Gang(kind)) => kind.resource(),
            Self::World(Kind::Device(kind)) => kind.resource(),
            Self::World(Kind::Deployment) => "deployments",
            Self::NodePools => "nodepools",
            Self::ClusterScalingPolicies => "clusterscalingpolicies",
            Self::Deployments => "deployments",
            Self::Hpas => "horizontalpodautoscalers",
            Self::ScalingPolicies => "scalingpolicies",
        }
    }

    /// Runs `work` with the type of this kind.
    pub(crate) fn of_kind<W: OfKind>(self, work: W) -> W::Output {
        match self {
            Self::World(Kind::Pod) => work.run::<SlimPod>(),
            Self::World(Kind::Node) => work.run::<SlimNode>(),
            Self::World(Kind::Controller(ControllerKind::ReplicaSet)) => work.run::<SlimReplicaSet>(),
            Self::World(Kind::Controller(ControllerKind::StatefulSet)) => work.run::<SlimStatefulSet>(),
            Self::World(Kind::Controller(ControllerKind::Job)) => work.run::<SlimJob>(),
            Self::World(Kind::Controller(ControllerKind::ReplicationController)) => {
                work.run::<SlimReplicationController>()
            }
            Self::World(Kind::DaemonSet) => work.run::<SlimDaemonSet>(),
            Self::World(Kind::Budget) => work.run::<SlimDisruptionBudget>(),
            Self::World(Kind::Namespace) => work.run::<SlimNamespace>(),
            Self::World(Kind::Claim) => work.run::<SlimClaim>(),
            Self::World(Kind::Volume) => work.run::<SlimVolume>(),
            Self::World(Kind::StorageClass) => work.run::<SlimStorageClass>(),
            Self::World(Kind::CsiNode) => work.run::<SlimCsiNode>(),
            Self::World(Kind::CsiDriver) => work.run::<SlimCsiDriver>(),
            Self::World(Kind::StorageCapacity) => work.run::<SlimStorageCapacity>(),
            Self::World(Kind::Attachment) => work.run::<SlimAttachment>(),
            Self::World(Kind::PriorityClass) => work.run::<SlimPriorityClass>(),
            Self::World(Kind::Buffer) => work.run::<SlimCapacityBuffer>(),
            Self::World(Kind::PodTemplate) => work.run::<SlimPodTemplate>(),
            Self::World(Kind::Quota) => work.run::<SlimQuota>(),
            Self::World(Kind::Request) => work.run::<SlimRequest>(),
            Self::World(Kind::CapacityQuota) => work.run::<SlimCapacityQuota>(),
            Self::World(Kind::Gang(GangKind::PodGroup)) => work.run::<SlimGang<0>>(),
            Self::World(Kind::Gang(GangKind::Workload)) => work.run::<SlimGang<1>>(),
            Self::World(Kind::Gang(GangKind::Coscheduling)) => work.run::<SlimGang<2>>(),
            Self::World(Kind::Gang(GangKind::Volcano)) => work.run::<SlimGang<3>>(),
            Self::World(Kind::Device(DeviceKind::Claim)) => work.run::<SlimResourceClaim>(),
            Self::World(Kind::Device(DeviceKind::Template)) => work.run::<SlimClaimTemplate>(),
            Self::World(Kind::Device(DeviceKind::Class)) => work.run::<SlimDeviceClass>(),
            Self::World(Kind::Device(DeviceKind::Slice)) => work.run::<SlimResourceSlice>(),
            Self::World(Kind::Device(DeviceKind::TaintRule)) => work.run::<SlimTaintRule>(),
            Self::NodePools => work.run::<StoredNodePool>(),
            Self::ClusterScalingPolicies => work.run::<StoredClusterScalingPolicy>(),
            Self::Deployments | Self::World(Kind::Deployment) => work.run::<SlimDeployment>(),
            Self::Hpas => work.run::<SlimHpa>(),
            Self::ScalingPolicies => work.run::<StoredScalingPolicy>(),
        }
    }

    /// Returns the API resource of this kind.
    pub(crate) fn resource(self) -> WatchedResource {
        struct Describe;
        impl OfKind for Describe {
            type Output = WatchedResource;
            fn run<K: Watched>(self) -> WatchedResource {
                WatchedResource {
                    api: ApiResource::erase::<K>(&()),
                    path: K::url_path(&(), None),
                    field_selector: K::FIELD_SELECTOR,
                    may_be_absent: K::MAY_BE_ABSENT,
                    optional: K::OPTIONAL,
                }
            }
        }
        self.of_kind(Describe)
    }
}

/// Work on a kind that is known by its [`Watch`] only.
pub(crate) trait OfKind {
    /// Result of the work.
    type Output;

    /// Does it for kind `K`.
    fn run<K: Watched>(self) -> Self::Output;
}

/// API resource of a kind, and the selector of its watched objects.
#[derive(Clone, Debug)]
pub(crate) struct WatchedResource {
    /// Group, version and names.
    pub(crate) api: ApiResource,
    /// The path of the collection in all namespaces.
    pub(crate) path: String,
    /// As [`Watched::FIELD_SELECTOR`].
    pub(crate) field_selector: &'static str,
    /// As [`Watched::MAY_BE_ABSENT`].
    pub(crate) may_be_absent: bool,
    /// As [`Watched::OPTIONAL`].
    pub(crate) optional: bool,
}

impl WatchedResource {
    /// The same kind in another of its versions.
    pub(crate) fn in_version(&self, version: &str) -> Self {
        let path = self.path.replace(&format!("/{}/", self.api.version), &format!("/{version}/"));
        let api_version = format!("{}/{version}", self.api.group);
        let api = ApiResource { version: version.to_owned(), api_version, ..self.api.clone() };
        Self { api, path, ..self.clone() }
    }
}

impl Watch {
    /// The kind of the world that it delivers, if any.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::World(kind) => Some(kind),
            Self::Deployments => Some(Kind::Deployment),
            Self::NodePools | Self::ClusterScalingPolicies | Self::Hpas | Self::ScalingPolicies => None,
        }
    }
}

/// A change that a watch delivers.
#[derive(Clone, Debug)]
pub enum Change {
    /// Of the world.
    World(Delta),
    /// Of the world, by what stands there for an object that is not understood.
    StandIn(Delta, Error),
    /// Of a custom resource.
    Policy(PolicyChange),
    /// Nothing that node decisions read.
    None,
}

/// A kind that can be followed.
pub trait Watched: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    /// The watch it belongs to.
    const WATCH: Watch;
    /// Restricts what is listed and watched. Empty for everything.
    const FIELD_SELECTOR: &'static str = "";
    /// True if the API server may not know the kind at all; that is the same as no object of it.
    const MAY_BE_ABSENT: bool = false;
    /// True for kinds without which everything else works: a missing kind or permission stops nothing else.
    const OPTIONAL: bool = false;

    /// The object as a change.
    ///
    /// # Errors
    /// If it cannot be understood.
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error>;

    /// Returns a substitute in the world for an object of which only this remains; `None` where leaving it out does no
    /// harm.
    fn stand_in(_partial: &PartialObject, _decoder: &mut Decoder) -> Option<Delta> {
        None
    }

    /// Updates the store of replica decisions with the object. Most kinds do not matter to it.
    ///
    /// # Errors
    /// If it cannot be understood.
    fn update_workloads(&self, _decoder: &mut Decoder, _workloads: &mut Workloads) -> Result<(), Error> {
        Ok(())
    }

    /// The disappearance of the object as a change.
    ///
    /// # Errors
    /// If its metadata names nothing.
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error>;
}

impl Watched for SlimPod {
    const WATCH: Watch = Watch::World(Kind::Pod);
    // Finished pods hold nothing: Jobs may leave thousands of them, and a pod that finishes is reported as deleted.
    const FIELD_SELECTOR: &'static str = "status.phase!=Succeeded,status.phase!=Failed";
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        match pod::pod(&self, decoder) {
            Ok(pod) => Ok(Change::World(Delta::PodApplied(Box::new(pod)))),
            Err(error) => match pod::stand_in(&self.metadata, self.spec.node_name.as_deref(), decoder) {
                Some(pod) => Ok(Change::StandIn(Delta::PodApplied(Box::new(pod)), error)),
                None => Err(error),
            },
        }
    }
    fn stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<Delta> {
        let pod = pod::stand_in(&partial.metadata, partial.node.as_deref(), decoder)?;
        Some(Delta::PodApplied(Box::new(pod)))
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        let key = key_of(&self.metadata, decoder)?;
        let labels = decoder.labels(self.metadata.labels.iter().flatten());
        let owner = owner_of(&self.metadata, decoder);
        workloads.apply_pod(&key.namespace, labels, owner, scale::pod_seen(self, decoder)?);
        Ok(())
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::PodDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimNode {
    const WATCH: Watch = Watch::World(Kind::Node);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::NodeApplied(Box::new(node::node(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::NodeDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimReplicaSet {
    const WATCH: Watch = Watch::World(Kind::Controller(ControllerKind::ReplicaSet));
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::ControllerApplied(Box::new(workload::replica_set(&self, decoder)?))))
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        let (spec, key) = (&self.spec, key_of(&self.metadata, decoder)?);
        let selector = spec.selector.as_ref();
        let seen = scale::scale_seen(&self.metadata, spec.replicas, selector, &self.status, decoder);
        workloads.apply_scale(ScaleKind::ReplicaSet, key, seen);
        Ok(())
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        controller_gone(ControllerKind::ReplicaSet, meta, decoder)
    }
}

impl Watched for SlimStatefulSet {
    const WATCH: Watch = Watch::World(Kind::Controller(ControllerKind::StatefulSet));
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::ControllerApplied(Box::new(workload::stateful_set(&self, decoder)?))))
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        let (spec, key) = (&self.spec, key_of(&self.metadata, decoder)?);
        let selector = spec.selector.as_ref();
        let seen = scale::scale_seen(&self.metadata, spec.replicas, selector, &self.status, decoder);
        workloads.apply_scale(ScaleKind::StatefulSet, key, seen);
        Ok(())
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        controller_gone(ControllerKind::StatefulSet, meta, decoder)
    }
}

impl Watched for SlimJob {
    const WATCH: Watch = Watch::World(Kind::Controller(ControllerKind::Job));
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::ControllerApplied(Box::new(workload::job(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        controller_gone(ControllerKind::Job, meta, decoder)
    }
}

impl Watched for SlimReplicationController {
    const WATCH: Watch = Watch::World(Kind::Controller(ControllerKind::ReplicationController));
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let controller = workload::replication_controller(&self, decoder)?;
        Ok(Change::World(Delta::ControllerApplied(Box::new(controller))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        controller_gone(ControllerKind::ReplicationController, meta, decoder)
    }
}

fn controller_gone(kind: ControllerKind, meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
    Ok(Change::World(Delta::ControllerDeleted(kind, key_of(meta, decoder)?)))
}

impl Watched for SlimDaemonSet {
    const WATCH: Watch = Watch::World(Kind::DaemonSet);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DaemonSetApplied(Box::new(workload::daemon_set(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DaemonSetDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimDisruptionBudget {
    const WATCH: Watch = Watch::World(Kind::Budget);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::BudgetApplied(Box::new(workload::disruption_budget(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::BudgetDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimNamespace {
    const WATCH: Watch = Watch::World(Kind::Namespace);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let labels = decoder.labels(self.metadata.labels.iter().flatten());
        Ok(Change::World(Delta::NamespaceApplied(name_of(&self.metadata, decoder)?, labels)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::NamespaceDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimClaim {
    const WATCH: Watch = Watch::World(Kind::Claim);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::ClaimApplied(Box::new(volume::claim(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::ClaimDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimVolume {
    const WATCH: Watch = Watch::World(Kind::Volume);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::VolumeApplied(Box::new(volume::volume(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::VolumeDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimStorageClass {
    const WATCH: Watch = Watch::World(Kind::StorageClass);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::StorageClassApplied(Box::new(volume::storage_class(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::StorageClassDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimCsiNode {
    const WATCH: Watch = Watch::World(Kind::CsiNode);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let limits = volume::attach_limits(&self, decoder);
        Ok(Change::World(Delta::CsiNodeApplied(name_of(&self.metadata, decoder)?, limits)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::CsiNodeDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimCsiDriver {
    const WATCH: Watch = Watch::World(Kind::CsiDriver);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let name = name_of(&self.metadata, decoder)?;
        Ok(Change::World(Delta::CsiDriverApplied(name, volume::csi_driver(&self))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::CsiDriverDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimStorageCapacity {
    const WATCH: Watch = Watch::World(Kind::StorageCapacity);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let capacity = volume::storage_capacity(&self, decoder)?;
        Ok(Change::World(Delta::StorageCapacityApplied(Box::new(capacity))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::StorageCapacityDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimAttachment {
    const WATCH: Watch = Watch::World(Kind::Attachment);
    /// Without it the volumes of pods are counted alone.
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let attachment = volume::attachment(&self, decoder)?;
        Ok(attachment.map_or(Change::None, |one| Change::World(Delta::AttachmentApplied(Box::new(one)))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::AttachmentDeleted(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimPriorityClass {
    const WATCH: Watch = Watch::World(Kind::PriorityClass);
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let class = volume::priority_class(&self);
        Ok(Change::World(Delta::PriorityClassApplied(name_of(&self.metadata, decoder)?, class)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::PriorityClassDeleted(name_of(meta, decoder)?)))
    }
}

impl<const ALPHA: bool> Watched for SlimCapacityBuffer<ALPHA> {
    const WATCH: Watch = Watch::World(Kind::Buffer);
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::BufferApplied(Box::new(buffer::capacity_buffer(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::BufferDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimPodTemplate {
    const WATCH: Watch = Watch::World(Kind::PodTemplate);
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::PodTemplateApplied(Box::new(buffer::pod_template(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::PodTemplateDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimQuota {
    const WATCH: Watch = Watch::World(Kind::Quota);
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::QuotaApplied(Box::new(buffer::quota(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::QuotaDeleted(key_of(meta, decoder)?)))
    }
}

impl<const BETA: bool> Watched for SlimRequest<BETA> {
    const WATCH: Watch = Watch::World(Kind::Request);
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::RequestApplied(Box::new(request::request(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::RequestDeleted(key_of(meta, decoder)?)))
    }
}

impl<const ALPHA: bool> Watched for SlimCapacityQuota<ALPHA> {
    const WATCH: Watch = Watch::World(Kind::CapacityQuota);
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        let quota = capacity_quota::capacity_quota(&self, decoder)?;
        Ok(Change::World(Delta::CapacityQuotaApplied(Box::new(quota))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::CapacityQuotaDeleted(name_of(meta, decoder)?)))
    }
}

impl<const KIND: usize, const VERSION: usize> Watched for SlimGang<KIND, VERSION> {
    const WATCH: Watch = Watch::World(Kind::Gang(GANG_WIRES[KIND].kind));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::GangApplied(Box::new(gang::gang(&self, decoder)?))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::GangDeleted(GANG_WIRES[KIND].kind, key_of(meta, decoder)?)))
    }
}

impl Watched for SlimResourceClaim {
    const WATCH: Watch = Watch::World(Kind::Device(DeviceKind::Claim));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(device_applied(DeviceObject::Claim(device::claim(self, decoder)?)))
    }
    fn stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<Delta> {
        let claim = device::claim_stand_in(partial, decoder)?;
        Some(Delta::DeviceApplied(Box::new(DeviceObject::Claim(claim))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DeviceDeleted(DeviceKind::Claim, key_of(meta, decoder)?)))
    }
}

impl Watched for SlimClaimTemplate {
    const WATCH: Watch = Watch::World(Kind::Device(DeviceKind::Template));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(device_applied(DeviceObject::Template(device::template(self, decoder)?)))
    }
    fn stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<Delta> {
        let template = device::template_stand_in(partial, decoder)?;
        Some(Delta::DeviceApplied(Box::new(DeviceObject::Template(template))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DeviceDeleted(DeviceKind::Template, key_of(meta, decoder)?)))
    }
}

impl Watched for SlimDeviceClass {
    const WATCH: Watch = Watch::World(Kind::Device(DeviceKind::Class));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(device_applied(DeviceObject::Class(device::class(self, decoder)?)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        cluster_device_gone(DeviceKind::Class, meta, decoder)
    }
}

impl Watched for SlimResourceSlice {
    const WATCH: Watch = Watch::World(Kind::Device(DeviceKind::Slice));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(device_applied(DeviceObject::Slice(device::slice(self, decoder)?)))
    }
    fn stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<Delta> {
        // The earlier content of the slice holds no more: without it its pool is incomplete.
        let name = name_of(&partial.metadata, decoder).ok()?;
        Some(Delta::DeviceDeleted(DeviceKind::Slice, ObjectKey::new("", &*name)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        cluster_device_gone(DeviceKind::Slice, meta, decoder)
    }
}

impl<const VERSION: usize> Watched for SlimTaintRule<VERSION> {
    const WATCH: Watch = Watch::World(Kind::Device(DeviceKind::TaintRule));
    const OPTIONAL: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(device_applied(DeviceObject::TaintRule(device::taint_rule(self, decoder)?)))
    }
    fn stand_in(partial: &PartialObject, decoder: &mut Decoder) -> Option<Delta> {
        // The earlier content of the rule holds no more.
        let name = name_of(&partial.metadata, decoder).ok()?;
        Some(Delta::DeviceDeleted(DeviceKind::TaintRule, ObjectKey::new("", &*name)))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        cluster_device_gone(DeviceKind::TaintRule, meta, decoder)
    }
}

fn device_applied(object: DeviceObject) -> Change {
    Change::World(Delta::DeviceApplied(Box::new(object)))
}

/// An object of resource.k8s.io without a namespace is gone.
fn cluster_device_gone(kind: DeviceKind, meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
    Ok(Change::World(Delta::DeviceDeleted(kind, ObjectKey::new("", &*name_of(meta, decoder)?))))
}

impl Watched for StoredNodePool {
    const WATCH: Watch = Watch::NodePools;
    const MAY_BE_ABSENT: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        name_of(&self.metadata, decoder)?;
        let object = self.read();
        Ok(Change::Policy(PolicyChange::Pool(Box::new(object))))
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::Policy(PolicyChange::PoolGone(name_of(meta, decoder)?)))
    }
}

impl Watched for StoredClusterScalingPolicy {
    const WATCH: Watch = Watch::ClusterScalingPolicies;
    const MAY_BE_ABSENT: bool = true;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        name_of(&self.metadata, decoder)?;
        let object = self.read();
        Ok(Change::Policy(PolicyChange::Cluster(Box::new(object))))
    }
    fn update_workloads(&self, _: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        let stored = self.clone();
        workloads.apply_cluster(stored.read());
        Ok(())
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::Policy(PolicyChange::ClusterGone(name_of(meta, decoder)?)))
    }
}

impl Watched for SlimDeployment {
    const WATCH: Watch = Watch::Deployments;
    fn applied(self, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DeploymentApplied(Box::new(buffer::deployment(&self, decoder)?))))
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        let (spec, key) = (&self.spec, key_of(&self.metadata, decoder)?);
        let selector = spec.selector.as_ref();
        let seen = scale::scale_seen(&self.metadata, spec.replicas, selector, &self.status, decoder);
        workloads.apply_scale(ScaleKind::Deployment, key, seen);
        Ok(())
    }
    fn gone(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::World(Delta::DeploymentDeleted(key_of(meta, decoder)?)))
    }
}

impl Watched for SlimHpa {
    const WATCH: Watch = Watch::Hpas;
    fn applied(self, _: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::None)
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        workloads.apply_hpa(scale::hpa(self.clone(), decoder)?);
        Ok(())
    }
    fn gone(_: &ObjectMeta, _: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::None)
    }
}

impl Watched for StoredScalingPolicy {
    const WATCH: Watch = Watch::ScalingPolicies;
    const MAY_BE_ABSENT: bool = true;
    fn applied(self, _: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::None)
    }
    fn update_workloads(&self, decoder: &mut Decoder, workloads: &mut Workloads) -> Result<(), Error> {
        key_of(&self.metadata, decoder)?;
        let stored = self.clone();
        workloads.apply_policy(stored.read());
        Ok(())
    }
    fn gone(_: &ObjectMeta, _: &mut Decoder) -> Result<Change, Error> {
        Ok(Change::None)
    }
}
