//! The table of kinds that the simulated API server serves: a new kind is one line here and needs no code.

use serde_json::Value;

use super::object::text;

/// Properties of a kind on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindInfo {
    /// API group; empty for core.
    pub group: &'static str,
    /// The one served version.
    pub version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// `pods`.
    pub plural: &'static str,
    /// False for cluster-scoped kinds.
    pub namespaced: bool,
    /// True if `status` is written through its own subresource alone.
    pub has_status: bool,
    /// True if there is a `scale` subresource.
    pub has_scale: bool,
}

/// The kind of a row: its name, or the name after `as`.
macro_rules! kind_of {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $kind:literal) => {
        $kind
    };
}

macro_rules! kinds {
    ($($name:ident $(as $kind:literal)?: $group:literal $version:literal $plural:literal $scope:ident $status:ident $scale:ident;)*) => {
        /// A kind of object; the order is that of the table and has no meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Kind { $($name),* }
        impl Kind {
            /// All kinds, in the order of the table.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];
            /// The row of the table.
            pub const fn info(self) -> KindInfo {
                match self { $(Kind::$name => KindInfo {
                    group: $group, version: $version, kind: kind_of!($name $($kind)?), plural: $plural,
                    namespaced: $scope, has_status: $status, has_scale: $scale,
                }),* }
            }
        }
    };
}

const YES: bool = true;
const NO: bool = false;

// Kind: group version plural, namespaced, status subresource, scale subresource.
kinds! {
    Pod: "" "v1" "pods" YES YES NO;
    Node: "" "v1" "nodes" NO YES NO;
    Namespace: "" "v1" "namespaces" NO YES NO;
    ConfigMap: "" "v1" "configmaps" YES NO NO;
    Service: "" "v1" "services" YES YES NO;
    PersistentVolume: "" "v1" "persistentvolumes" NO YES NO;
    PersistentVolumeClaim: "" "v1" "persistentvolumeclaims" YES YES NO;
    ReplicationController: "" "v1" "replicationcontrollers" YES YES YES;
    ResourceQuota: "" "v1" "resourcequotas" YES YES NO;
    PodTemplate: "" "v1" "podtemplates" YES NO NO;
    LimitRange: "" "v1" "limitranges" YES NO NO;
    Deployment: "apps" "v1" "deployments" YES YES YES;
    ReplicaSet: "apps" "v1" "replicasets" YES YES YES;
    StatefulSet: "apps" "v1" "statefulsets" YES YES YES;
    DaemonSet: "apps" "v1" "daemonsets" YES YES NO;
    Job: "batch" "v1" "jobs" YES YES NO;
    CronJob: "batch" "v1" "cronjobs" YES YES NO;
    PodDisruptionBudget: "policy" "v1" "poddisruptionbudgets" YES YES NO;
    Lease: "coordination.k8s.io" "v1" "leases" YES NO NO;
    Event: "events.k8s.io" "v1" "events" YES NO NO;
    HorizontalPodAutoscaler: "autoscaling" "v2" "horizontalpodautoscalers" YES YES NO;
    StorageClass: "storage.k8s.io" "v1" "storageclasses" NO NO NO;
    CSINode: "storage.k8s.io" "v1" "csinodes" NO NO NO;
    CSIDriver: "storage.k8s.io" "v1" "csidrivers" NO NO NO;
    CSIStorageCapacity: "storage.k8s.io" "v1" "csistoragecapacities" YES NO NO;
    VolumeAttachment: "storage.k8s.io" "v1" "volumeattachments" NO YES NO;
    PodGroup: "scheduling.k8s.io" "v1beta1" "podgroups" YES YES NO;
    Workload: "scheduling.k8s.io" "v1alpha1" "workloads" YES YES NO;
    CoschedulingPodGroup as "PodGroup": "scheduling.x-k8s.io" "v1alpha1" "podgroups" YES YES NO;
    VolcanoPodGroup as "PodGroup": "scheduling.volcano.sh" "v1beta1" "podgroups" YES YES NO;
    ResourceClaim: "resource.k8s.io" "v1" "resourceclaims" YES YES NO;
    ResourceClaimTemplate: "resource.k8s.io" "v1" "resourceclaimtemplates" YES NO NO;
    DeviceClass: "resource.k8s.io" "v1" "deviceclasses" NO YES NO;
    ResourceSlice: "resource.k8s.io" "v1" "resourceslices" NO YES NO;
    DeviceTaintRule: "resource.k8s.io" "v1" "devicetaintrules" NO YES NO;
    PriorityClass: "scheduling.k8s.io" "v1" "priorityclasses" NO NO NO;
    CustomResourceDefinition: "apiextensions.k8s.io" "v1" "customresourcedefinitions" NO YES NO;
    ProvisioningRequest: "autoscaling.x-k8s.io" "v1" "provisioningrequests" YES YES NO;
    CapacityBuffer: "autoscaling.x-k8s.io" "v1beta1" "capacitybuffers" YES YES NO;
    CapacityQuota: "autoscaling.x-k8s.io" "v1beta1" "capacityquotas" NO YES NO;
    NodePool: "headroom.dev" "v1alpha1" "nodepools" NO YES NO;
    ClusterScalingPolicy: "headroom.dev" "v1alpha1" "clusterscalingpolicies" NO YES NO;
    ScalingPolicy: "headroom.dev" "v1alpha1" "scalingpolicies" YES YES NO;
}

impl Kind {
    /// The kind behind `/apis/<group>/<version>/<plural>`; the core's `events` are served as `events.k8s.io`.
    pub fn by_path(group: &str, version: &str, plural: &str) -> Option<Kind> {
        let group = if group.is_empty() && plural == "events" { "events.k8s.io" } else { group };
        Kind::ALL.iter().copied().find(|kind| {
            let info = kind.info();
            info.plural == plural && info.group == group && info.version == version
        })
    }

    /// The kind that a manifest's `apiVersion` and `kind` name.
    pub fn by_type(api_version: &str, kind: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|each| each.info().kind == kind && each.api_version() == api_version)
    }

    /// True if objects count the changes of their spec in `metadata.generation`. Seen on a real API server for ConfigMap and
    /// Node; the others' strategies do not set it either.
    pub fn counts_generations(self) -> bool {
        !matches!(
            self,
            Kind::ConfigMap
                | Kind::Node
                | Kind::Namespace
                | Kind::PersistentVolume
                | Kind::PersistentVolumeClaim
                | Kind::ResourceQuota
                | Kind::LimitRange
                | Kind::Lease
                | Kind::Event
        )
    }

    /// `apps/v1`, or `v1` for core.
    pub fn api_version(self) -> String {
        let info = self.info();
        if info.group.is_empty() {
            info.version.to_owned()
        } else {
            format!("{}/{}", info.group, info.version)
        }
    }

    /// True if an object's `apiVersion` and `kind` are this kind's.
    pub(super) fn is_named_by(self, object: &Value) -> bool {
        let info = self.info();
        let of_version = |name: &str| match name.split_once('/') {
            Some((group, version)) => group == info.group && version == info.version,
            None => info.group.is_empty() && name == info.version,
        };
        text(object, &["kind"]) == Some(info.kind) && text(object, &["apiVersion"]).is_some_and(of_version)
    }

    /// `deployments.apps`, or `pods` for core: how messages name a resource.
    pub fn qualified(self) -> String {
        let info = self.info();
        if info.group.is_empty() { info.plural.to_owned() } else { format!("{}.{}", info.plural, info.group) }
    }
}
