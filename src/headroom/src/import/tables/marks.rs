//! Annotations, labels, taints, tags and ConfigMaps of Cluster Autoscaler and Karpenter, and their meaning here. Data:
//! they stand on objects that no import reads, so the page prints them.
//!
//! Source: Cluster Autoscaler 1.37 and Karpenter 1.15.0 with its AWS provider.

/// Meaning of a mark for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum Means {
    /// The same as there.
    Same,
    /// Something like it, described in these words.
    Like(&'static str),
    /// Nothing, for this reason, with what to do instead.
    Nothing(&'static str),
}

use Means::{Like, Nothing, Same};

/// A mark: its key, or a prefix of keys that ends in `/` or `*`; what it stands on; what it means here.
pub(in crate::import) type Mark = (&'static str, &'static str, Means);

const LEFT_ALONE: Means = Like("the node is Karpenter's and is left alone");
const OWN_STATE: Means = Nothing("its own state; nothing reads it here");

/// Marks of Cluster Autoscaler.
pub(in crate::import) const CLUSTER_AUTOSCALER: &[Mark] = &[
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/enable-ds-eviction", "pod of a DaemonSet", Same),
    ("cluster-autoscaler.kubernetes.io/daemonset-pod", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "pod", Same),
    ("autoscaling.x-k8s.io/consume-provisioning-request", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/consume-provisioning-request", "pod", Same),
    ("autoscaling.x-k8s.io/provisioning-class-name", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/provisioning-class-name", "pod", Same),
    ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "node", Same),
    (
        "delay-deletion.cluster-autoscaler.kubernetes.io/",
        "node",
        Like("held for at most 2m, whatever --node-deletion-delay-timeout said"),
    ),
    (
        "k8s.io/cluster-autoscaler-enabled",
        "label of a node",
        Nothing("nodes that are in no group are looked up nowhere"),
    ),
    (
        "cluster-autoscaler.kubernetes.io/template-node",
        "label of a node",
        Nothing("Cluster Autoscaler's mark of nodes that do not exist yet; no real node has it"),
    ),
    (
        "cluster-autoscaler.k8s.io/upcoming-node",
        "label of a node",
        Nothing("Cluster Autoscaler's mark of nodes that do not exist yet; no real node has it"),
    ),
    (
        "k8s.io/cluster-autoscaler/fake-node-reason",
        "annotation of a node",
        Nothing("Cluster Autoscaler's mark of nodes that do not exist yet; no real node has it"),
    ),
    ("startup-taint.cluster-autoscaler.kubernetes.io/", "taint of a node", Same),
    ("ignore-taint.cluster-autoscaler.kubernetes.io/", "taint of a node", Same),
    ("status-taint.cluster-autoscaler.kubernetes.io/", "taint of a node", Same),
    (
        "ToBeDeletedByClusterAutoscaler",
        "taint of a node",
        Like(
            "the operator's own hard taint has this key; without its annotation the node is Cluster Autoscaler's and is left alone: \
             take the taint off nodes that it has left behind",
        ),
    ),
    (
        "DeletionCandidateOfClusterAutoscaler",
        "taint of a node",
        Like(
            "the operator's own is `headroom.dev/removal-candidate`: take this one off once Cluster Autoscaler is gone",
        ),
    ),
    (
        "k8s.io/cluster-autoscaler/enabled",
        "tag of an Auto Scaling group",
        Like("any tag, in `provider.aws.tagSelector`"),
    ),
    (
        "k8s.io/cluster-autoscaler/<cluster>",
        "tag of an Auto Scaling group",
        Like("`provider.aws.clusterName`"),
    ),
    ("k8s.io/cluster-autoscaler/node-template/label/", "tag of an Auto Scaling group", Same),
    ("k8s.io/cluster-autoscaler/node-template/taint/", "tag of an Auto Scaling group", Same),
    ("k8s.io/cluster-autoscaler/node-template/resources/", "tag of an Auto Scaling group", Same),
    (
        "k8s.io/cluster-autoscaler/node-template/autoscaling-options/",
        "tag of an Auto Scaling group",
        Like("fields of the pool, which the import writes; the tags themselves are not read"),
    ),
    ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "group of Cluster API", Same),
    ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "group of Cluster API", Same),
    (
        "cluster.x-k8s.io/autoscaling-options-maxnodestartuptime",
        "group of Cluster API",
        Nothing("set scaleUp.startupTimeout of the pool"),
    ),
    (
        "capacity.cluster-autoscaler.kubernetes.io/csi-driver",
        "group of Cluster API",
        Nothing("how many volumes a node takes is learned from ready nodes of the group"),
    ),
    (
        "capacity.cluster-autoscaler.kubernetes.io/dra-driver",
        "group of Cluster API",
        Nothing("declare the devices in template.devices of the pool"),
    ),
    ("cluster.x-k8s.io/autoscaling-options-*", "group of Cluster API", Same),
    ("capacity.cluster-autoscaler.kubernetes.io/", "group of Cluster API", Same),
    (
        "cluster-autoscaler-priority-expander",
        "ConfigMap",
        Like("`priority` of the pools, which the import writes; a later edit of it is not read"),
    ),
    (
        "cluster-autoscaler-status",
        "ConfigMap",
        Nothing(
            "status is in the NodePools and the ClusterScalingPolicy: delete it once Cluster Autoscaler is gone",
        ),
    ),
    ("cluster-autoscaler.kubernetes.io/last-updated", "ConfigMap cluster-autoscaler-status", OWN_STATE),
    (
        "the file of --cloud-config",
        "ConfigMap or Secret",
        Like("externalgrpc: `provider.externalGrpc`; see the flag for others"),
    ),
];

/// Marks of Karpenter and its AWS provider.
pub(in crate::import) const KARPENTER: &[Mark] = &[
    ("karpenter.sh/do-not-disrupt", "pod, node", Same),
    (
        "karpenter.sh/do-not-repair",
        "node",
        Nothing(
            "karpenter.sh/do-not-disrupt keeps a node from repair too; a pool without spec.repair has none",
        ),
    ),
    (
        "karpenter.sh/disruption-cost",
        "pod",
        Nothing(
            "nodes go by what they cost and hold; controller.kubernetes.io/pod-deletion-cost decides which pod of a workload goes",
        ),
    ),
    (
        "karpenter.sh/nodepool",
        "label of a node",
        Like(
            "the node is Karpenter's and is left alone; pods that select it must select a label of the pool instead",
        ),
    ),
    (
        "karpenter.sh/capacity-type",
        "label of a node",
        Like(
            "the node is Karpenter's and is left alone; pods that select it must select a label of your own, in `template.labels` of the \
             spot and of the on-demand pool",
        ),
    ),
    ("karpenter.sh/initialized", "label of a node", LEFT_ALONE),
    ("karpenter.sh/registered", "label of a node", LEFT_ALONE),
    ("karpenter.sh/do-not-sync-taints", "label of a node", LEFT_ALONE),
    (
        "karpenter.sh/disrupted",
        "taint of a node",
        Like("a taint as any other: pods that do not tolerate it do not count on the node"),
    ),
    (
        "karpenter.sh/unregistered",
        "taint of a node",
        Like("a taint as any other: pods that do not tolerate it do not count on the node"),
    ),
    (
        "karpenter.sh/rebooting",
        "taint of a node",
        Like("a taint as any other: pods that do not tolerate it do not count on the node"),
    ),
    ("karpenter.sh/nodepool-hash", "NodePool, NodeClaim, node", LEFT_ALONE),
    ("karpenter.sh/nodepool-hash-version", "NodePool, NodeClaim, node", LEFT_ALONE),
    ("karpenter.sh/nodeclaim-termination-timestamp", "NodeClaim", OWN_STATE),
    ("karpenter.sh/nodeclaim-min-values-relaxed", "NodeClaim, node", LEFT_ALONE),
    ("karpenter.sh/reboot-pre-boot-id", "NodeClaim", OWN_STATE),
    ("karpenter.sh/reboot-termination-grace-period", "NodeClaim", OWN_STATE),
    ("karpenter.sh/requested-dra-drivers", "NodeClaim, node", LEFT_ALONE),
    (
        "karpenter.sh/termination",
        "finalizer of nodes and NodeClaims",
        Nothing(
            "while it is there, a deleted node hangs until Karpenter has drained it: see the order of a move",
        ),
    ),
    ("karpenter.k8s.aws/termination", "finalizer of EC2NodeClasses", OWN_STATE),
    (
        "karpenter.k8s.aws/instance-*",
        "label of a node",
        Nothing(
            "pods that select them must select node.kubernetes.io/instance-type, or a label of your own in template.labels",
        ),
    ),
    (
        "karpenter.k8s.aws/capacity-reservation-*",
        "label of a node",
        Nothing(
            "pods that select them must select a label of your own, in template.labels of the group with the reservation",
        ),
    ),
    (
        "karpenter.k8s.aws/placement-group-*",
        "label of a node",
        Nothing(
            "pods that select them must select a label of your own, in template.labels of the group in the placement group",
        ),
    ),
    (
        "karpenter.k8s.aws/ec2nodeclass",
        "label of a node",
        Nothing("a pool has no class; pods that select it must select a label of the pool"),
    ),
    ("karpenter.k8s.aws/ec2nodeclass-hash", "EC2NodeClass, NodeClaim", OWN_STATE),
    ("karpenter.k8s.aws/ec2nodeclass-hash-version", "EC2NodeClass, NodeClaim", OWN_STATE),
    ("karpenter.k8s.aws/tagged", "NodeClaim", OWN_STATE),
    ("karpenter.k8s.aws/instance-profile-name", "EC2NodeClass, NodeClaim", OWN_STATE),
    ("karpenter.k8s.aws/nvidia-consumable-capacity", "Karpenter's own objects", OWN_STATE),
    ("compatibility.karpenter.k8s.aws/cluster-name-tagged", "NodeClaim", OWN_STATE),
    ("topology.k8s.aws/zone-id", "label of a node", Same),
];

/// Describes the meaning of a mark, for a table.
#[must_use]
pub(in crate::import) fn words(means: Means) -> String {
    match means {
        Same => "the same".to_owned(),
        Like(words) => words.to_owned(),
        Nothing(words) => format!("nothing: {words}"),
    }
}
