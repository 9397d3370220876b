//! Pods as decisions see them: the class that replicas share, and the little that is each pod's own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::scheduling::constraints::{PodAffinityTerm, RequiredNodeAffinity, Toleration, TopologySpread};
use crate::world::World;
use crate::world::devices::PodDeviceClaim;
use crate::world::gang::GangRef;
use crate::world::request::RequestRef;
use crate::world::volume::PodClaim;
use headroom_values::go_values::go_seconds;
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// Everything about a pod that decides where it may run and what its move costs.
///
/// All replicas of one template are equal here (and so are those of two controllers with equal templates),
/// so predicates run once a class. World interns classes with reference counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClass {
    /// The namespace: pod affinity and PDBs depend on it.
    pub namespace: Arc<str>,
    /// The labels. Per-pod labels of StatefulSets and indexed Jobs are kept, since selectors may use them.
    pub labels: Labels,
    /// The effective request: max of init containers and the sum of containers with sidecars, plus overhead;
    /// `pods` is 1.
    pub requests: Resources,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// `requiredDuringSchedulingIgnoredDuringExecution` node affinity.
    pub node_affinity: Option<RequiredNodeAffinity>,
    /// Required pod affinity terms.
    pub pod_affinity: Vec<PodAffinityTerm>,
    /// Required pod anti-affinity terms.
    pub pod_anti_affinity: Vec<PodAffinityTerm>,
    /// `DoNotSchedule` spread constraints only; soft ones never block.
    pub topology_spread: Vec<TopologySpread>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Host ports as (protocol, address, port); an empty address is every address.
    pub host_ports: Vec<(Arc<str>, Arc<str>, u16)>,
    /// The PersistentVolumeClaims it mounts (ephemeral ones included), in the pod's namespace.
    pub claims: Vec<PodClaim>,
    /// The devices that it claims by dynamic resource allocation.
    pub device_claims: Vec<PodDeviceClaim>,
    /// Names of hostPath and non-memory emptyDir volumes, whose data a move would lose.
    pub local_volumes: Vec<Arc<str>>,
    /// `spec.priority`; 0 when unset.
    pub priority: i32,
    /// `spec.schedulerName`.
    pub scheduler: Arc<str>,
    /// True if restartPolicy is `Always`.
    pub restarts_always: bool,
    /// A static pod's mirror (annotation `kubernetes.io/config.mirror`).
    pub mirror: bool,
    /// Annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`.
    pub safe_to_evict: SafeToEvict,
    /// Annotation `…/safe-to-evict-local-volumes`, as written.
    pub safe_local_volumes: Option<Arc<str>>,
    /// Annotation `…/daemonset-pod=true`, or owned by a DaemonSet.
    pub daemon_set: bool,
    /// Annotation `…/enable-ds-eviction`: overrides whether a DaemonSet pod is evicted.
    pub daemon_set_eviction: Option<bool>,
    /// Annotation `…/pod-scale-up-delay`, unless malformed.
    pub scale_up_delay: Option<Seconds>,
    /// `spec.terminationGracePeriodSeconds`; 30 s when unset.
    pub termination_grace: Seconds,
    /// The gang that it is scheduled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<Arc<GangRef>>,
    /// The ProvisioningRequest whose room it is to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<RequestRef>>,
    /// True if the pod cannot be read beyond its metadata: it stands for itself on its node, and what it needs is
    /// unknown. Its requests here are those of a pod that asks for nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// Value of the annotation `safe-to-evict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SafeToEvict {
    /// No annotation, or another value.
    #[default]
    Unset,
    /// `true`: may always be moved.
    Always,
    /// `false`: keeps its node.
    Never,
    /// `on-completion`: the node waits until the pod has finished.
    OnCompletion,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not yet running; also any phase that the API server does not name.
    #[default]
    Pending,
    /// Running.
    Running,
    /// All containers ended well.
    Succeeded,
    /// At least one container ended badly.
    Failed,
}

impl PodPhase {
    /// True if the pod has ended for good and holds no resources.
    #[must_use]
    pub fn finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The controller that owns an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Kind, for example `ReplicaSet`.
    pub kind: Arc<str>,
    /// Name, in the pod's namespace.
    pub name: Arc<str>,
    /// Unique id of the controller object.
    pub uid: Arc<str>,
}

impl Owner {
    /// `Kind/namespace/name`: name of a controller in memory and status.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        format!("{}/{namespace}/{}", self.kind, self.name)
    }
}

/// A pod as the watch delivers it: the payload of [`super::Delta::PodApplied`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// The pod's class: everything that it shares with its siblings.
    pub class: Arc<PodClass>,
    /// The controller that owns it; `None` for a naked pod.
    pub owner: Option<Arc<Owner>>,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`: preemption is under way there.
    pub nominated_node: Option<Arc<str>>,
    /// Phase.
    pub phase: PodPhase,
    /// True if the scheduler reported PodScheduled=False with reason Unschedulable.
    pub unschedulable: bool,
    /// True if a scheduling gate holds it back.
    pub gated: bool,
    /// `metadata.creationTimestamp`.
    pub created_at: UnixTime,
    /// `metadata.deletionTimestamp`: the time at which the grace period is over.
    pub deletion_at: Option<UnixTime>,
    /// End of the protection by [`DO_NOT_DISRUPT_ANNOTATION`]; [`PROTECTED_FOREVER`] for `"true"` and for a duration that
    /// has not begun, `None` without the annotation.
    pub protected_until: Option<UnixTime>,
}

/// Karpenter's annotation by which a pod, or a node, must not be disrupted.
pub const DO_NOT_DISRUPT_ANNOTATION: &str = "karpenter.sh/do-not-disrupt";
/// Protection without an end.
pub const PROTECTED_FOREVER: UnixTime = UnixTime(i64::MAX);

impl Pod {
    /// The node that it is nominated for, if that exists: what it names stays when the node goes.
    #[must_use]
    pub fn nominated_to(&self, world: &World) -> Option<&Arc<str>> {
        self.nominated_node.as_ref().filter(|node| world.node_named(node).is_some())
    }

    /// True while the pod must not be disrupted: it is neither finished nor being deleted, whoever its controller is.
    ///
    /// Source: Karpenter, pkg/utils/pod/scheduling.go, IsDisruptable.
    #[must_use]
    pub fn is_protected(&self, now: UnixTime) -> bool {
        let active = self.deletion_at.is_none() && !self.phase.finished();
        active && self.protected_until.is_some_and(|until| now < until)
    }
}

/// End of the protection that `annotation` gives to a pod that the kubelet took on at `started_at`: forever for `"true"`,
/// for a duration of Go's format after the start, and forever as long as the pod has not started. Any other value, and a
/// duration of 0, protect nothing.
#[must_use]
pub fn protected_until(annotation: Option<&str>, started_at: Option<UnixTime>) -> Option<UnixTime> {
    let value = annotation?;
    if value == "true" {
        return Some(PROTECTED_FOREVER);
    }
    let length = i64::try_from(go_seconds(value)?).ok().filter(|length| 0 < *length)?;
    Some(started_at.map_or(PROTECTED_FOREVER, |start| start.plus(Seconds(length))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_forever_or_lasts_for_a_duration_from_the_start() {
        let start = Some(UnixTime(1_000));
        let cases = [
            (Some("true"), start, Some(PROTECTED_FOREVER)),
            (Some("5m"), start, Some(UnixTime(1_300))),
            (Some("1h30m"), start, Some(UnixTime(6_400))),
            (Some("5m"), None, Some(PROTECTED_FOREVER)),
            (Some("0"), start, None),
            (Some("-5m"), start, None),
            (Some("false"), start, None),
            (Some("True"), start, None),
            (None, start, None),
        ];
        for (value, started_at, expected) in cases {
            assert_eq!(protected_until(value, started_at), expected, "{value:?} since {started_at:?}");
        }
    }
}
