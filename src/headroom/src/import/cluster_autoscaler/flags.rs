//! Every flag of Cluster Autoscaler, and its treatment here. Data; a flag that is not in this list is reported.
//!
//! Source: Cluster Autoscaler 1.35 and 1.37, config/flags/flags.go (lists: flags-1.35.txt, flags-1.37.txt), with the flags of other releases that clusters
//! still carry, and those of its logging and leader election libraries.

/// Form of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum Kind {
    /// `true` or `false`; the bare flag is `true`.
    Switch,
    /// A whole number.
    Number,
    /// A part of one, such as `0.5`, which is a percentage here.
    Ratio,
    /// A percentage, such as `45`.
    Percent,
    /// A whole number of seconds.
    Seconds,
    /// A duration of Go, such as `10m0s`.
    Time,
    /// Anything.
    Text,
}

/// Treatment of a flag here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum Use {
    /// This field of every NodePool.
    Pool(&'static str),
    /// This field of the ClusterScalingPolicy.
    Policy(&'static str),
    /// It shapes the objects in a way of its own, described in these words.
    Shapes(&'static str),
    /// It has another name here, or another place.
    Elsewhere(&'static str),
    /// It has no effect here, for this reason.
    NoEffect(&'static str),
}

/// A flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Flag {
    /// Its name, without dashes before it.
    pub name: &'static str,
    /// Form of its value.
    pub kind: Kind,
    /// Its treatment here.
    pub becomes: Use,
}

/// The flag of this name, with `_` read as `-`.
#[must_use]
pub(in crate::import) fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == name)
}

const fn flag(name: &'static str, kind: Kind, becomes: Use) -> Flag {
    Flag { name, kind, becomes }
}

use Kind::{Number, Percent, Ratio, Seconds, Switch, Text, Time};
use Use::{Elsewhere, NoEffect, Policy, Pool, Shapes};

const LEASE: Use = Elsewhere(
    "headroom run always elects a leader; see its options --lease-name, --lease-seconds and \
                              --leader-election-namespace",
);
const LOGS: Use =
    Elsewhere("logs go to standard error; see headroom run --log-format and the variable RUST_LOG");
const OTHER_CLOUD: Use = NoEffect("it is for another cloud than those that pools can be made of");
const PROVISIONING: Use = NoEffect(
    "ProvisioningRequests of its classes are served with nodes.provisioningRequests (docs/provisioning-requests.md)",
);
const SIMILAR: Use =
    NoEffect("groups are balanced because they stand in one NodePool, not because they look alike");
const IN_BOUNDS: Use = NoEffect("plans are bounded by work, not by time, and take milliseconds");
const GONE: Use = NoEffect("Cluster Autoscaler itself reads it no more");

/// All of them, by topic.
pub(in crate::import) const FLAGS: &[Flag] = &[
    // Groups.
    flag("nodes", Text, Shapes("provider.aws.nodeGroups, with bounds that narrow the group's own")),
    flag(
        "node-group-auto-discovery",
        Text,
        Shapes(
            "provider.aws.tagSelector or provider.clusterApi.selector, or groups by name where the groups are given",
        ),
    ),
    flag("cloud-provider", Text, Shapes("provider.type")),
    flag(
        "cloud-config",
        Text,
        Elsewhere(
            "the region is provider.aws.region; endpoints are AWS_ENDPOINT_URL and its like in the operator's environment; a server of externalgrpc is provider.externalGrpc; a kubeconfig of clusterapi is provider.clusterApi.management",
        ),
    ),
    flag("cluster-name", Text, Elsewhere("provider.aws.clusterName, where groups are found by tags")),
    flag("regional", Switch, OTHER_CLOUD),
    flag(
        "aws-use-static-instance-list",
        Switch,
        NoEffect(
            "types are asked of EC2 when a group names them; what a node offers can be set in template.capacity",
        ),
    ),
    flag(
        "balance-similar-node-groups",
        Switch,
        Shapes("groups that belong together stand in one NodePool, which balances them; so are pools alike"),
    ),
    flag("balancing-ignore-label", Text, SIMILAR),
    flag("balancing-label", Text, SIMILAR),
    flag("memory-difference-ratio", Ratio, SIMILAR),
    flag("max-free-difference-ratio", Ratio, SIMILAR),
    flag("max-allocatable-difference-ratio", Ratio, SIMILAR),
    flag(
        "enforce-node-group-min-size",
        Switch,
        NoEffect("minimums are always kept: a pool below its own grows to it"),
    ),
    flag("async-node-groups", Switch, NoEffect("groups are made by others, never by the operator")),
    // Growing.
    flag("expander", Text, Shapes("nodes.expanders")),
    flag("grpc-expander-cert", Text, Shapes("nodes.grpcExpander.tls.caFile")),
    flag("grpc-expander-url", Text, Shapes("nodes.grpcExpander.address")),
    flag("estimator", Text, NoEffect("there is one estimator, binpacking")),
    flag("max-node-provision-time", Time, Pool("scaleUp.provisionTimeout")),
    flag("max-node-startup-time", Time, Pool("scaleUp.startupTimeout")),
    flag("initial-node-group-backoff-duration", Time, Pool("scaleUp.backoff.initial")),
    flag("max-node-group-backoff-duration", Time, Pool("scaleUp.backoff.max")),
    flag("node-group-backoff-reset-timeout", Time, Pool("scaleUp.backoff.resetAfter")),
    flag("new-pod-scale-up-delay", Time, Policy("nodes.newPodDelay")),
    flag("expendable-pods-priority-cutoff", Number, Policy("nodes.expendablePodsPriorityCutoff")),
    flag("startup-taint", Text, Shapes("template.startupTaints")),
    flag("ignore-taint", Text, Shapes("template.startupTaints")),
    flag(
        "startup-taint-prefix",
        Text,
        NoEffect("startup taints are named in full: list them in template.startupTaints"),
    ),
    flag(
        "status-taint",
        Text,
        NoEffect("a taint that is found on a live node and nowhere declared belongs to that node only"),
    ),
    flag("scale-up-from-zero", Switch, NoEffect("a cluster without ready nodes grows too")),
    flag(
        "scale-from-unschedulable",
        Switch,
        NoEffect("what a new node offers never takes over that another one is cordoned"),
    ),
    flag("parallel-scale-up", Switch, NoEffect("groups always grow side by side")),
    flag("salvo-scale-up", Switch, NoEffect("one plan buys for all waiting pods")),
    flag("salvo-scale-up-budget", Time, NoEffect("one plan buys for all waiting pods")),
    flag("enable-proactive-scaleup", Switch, Policy("nodes.anticipation.enabled")),
    flag("pod-injection-limit", Number, Policy("nodes.anticipation.maxPods")),
    flag(
        "scaleup-simulation-for-skipped-node-groups-enabled",
        Switch,
        NoEffect("status always shows why a pool was passed over"),
    ),
    flag(
        "max-nodes-per-scaleup",
        Number,
        NoEffect("a plan adds at most 1000 nodes to a group, and the next one goes on"),
    ),
    flag("max-binpacking-time", Time, IN_BOUNDS),
    flag("max-nodegroup-binpacking-duration", Time, IN_BOUNDS),
    flag("fastpath-binpacking-enabled", Switch, IN_BOUNDS),
    flag("enable-inter-pod-affinity-hostname-fast-path", Switch, IN_BOUNDS),
    flag(
        "enable-graceful-degradation",
        Switch,
        NoEffect("a pool or a class of pods that fails is left out of the plan, and the others go on"),
    ),
    flag(
        "pending-pods-batching-timeout",
        Time,
        NoEffect("a plan buys for all waiting pods at once; nodes.newPodDelay lets pods wait for others"),
    ),
    flag("predicate-parallelism", Number, IN_BOUNDS),
    flag("cluster-snapshot-parallelism", Number, IN_BOUNDS),
    flag("force-ds", Switch, NoEffect("the DaemonSets that a new node would run always count")),
    flag(
        "node-info-cache-expire-time",
        Time,
        NoEffect("what nodes offer is learned anew whenever one changes"),
    ),
    flag("bypassed-scheduler-names", Text, Shapes("nodes.immediateSchedulers")),
    flag("allowed-scheduler-names", Text, NoEffect("pods of all schedulers count")),
    flag("scheduler-config-file", Text, NoEffect("the rules are those of kube-scheduler's defaults")),
    // Limits.
    flag("max-nodes-total", Number, Shapes("nodes.limits.nodes; 0 means no limit")),
    flag("cores-total", Text, Shapes("nodes.limits.cpu, its maximum; a minimum is minNodes of the pools")),
    flag(
        "memory-total",
        Text,
        Shapes("nodes.limits.memory, its maximum; a minimum is minNodes of the pools"),
    ),
    flag(
        "gpu-total",
        Text,
        NoEffect(
            "make a CapacityQuota of the GPUs' resource (docs/capacity-quotas.md); Cluster Autoscaler reads the flag on GKE only",
        ),
    ),
    flag(
        "capacity-quotas-enabled",
        Switch,
        NoEffect("CapacityQuotas are obeyed with the chart value capacityQuotas (docs/capacity-quotas.md)"),
    ),
    flag("max-total-unready-percentage", Percent, Policy("nodes.health.maxUnreadyPercent")),
    flag("ok-total-unready-count", Number, Policy("nodes.health.okUnreadyCount")),
    // Shrinking.
    flag("scale-down-enabled", Switch, Pool("scaleDown.enabled")),
    flag(
        "scale-down-unready-enabled",
        Switch,
        Shapes("where false, a budget of 0 nodes for the reason Unready"),
    ),
    flag("scale-down-delay-after-add", Time, Pool("scaleDown.delayAfterAdd")),
    flag("scale-down-delay-after-delete", Time, Pool("scaleDown.delayAfterDelete")),
    flag("scale-down-delay-after-failure", Time, Pool("scaleDown.delayAfterFailure")),
    flag("scale-down-delay-type-local", Switch, NoEffect("the delays always hold for each pool by itself")),
    flag("scale-down-unneeded-time", Time, Pool("scaleDown.unneededFor")),
    flag("scale-down-unready-time", Time, Pool("scaleDown.unreadyFor")),
    flag("scale-down-utilization-threshold", Ratio, Pool("scaleDown.utilizationThreshold")),
    flag("scale-down-gpu-utilization-threshold", Ratio, Pool("scaleDown.gpuUtilizationThreshold")),
    flag("ignore-daemonsets-utilization", Switch, Pool("scaleDown.ignoreDaemonSetsUtilization")),
    flag("ignore-mirror-pods-utilization", Switch, Pool("scaleDown.ignoreMirrorPodsUtilization")),
    flag("scale-down-non-empty-candidates-count", Number, GONE),
    flag("scale-down-candidates-pool-ratio", Ratio, GONE),
    flag("scale-down-candidates-pool-min-count", Number, GONE),
    flag("scale-down-simulation-timeout", Time, IN_BOUNDS),
    flag(
        "unremovable-node-recheck-timeout",
        Time,
        NoEffect("a node is looked at again when something has changed"),
    ),
    flag("max-scale-down-parallelism", Number, Policy("nodes.removals.maxParallel")),
    flag("max-drain-parallelism", Number, Policy("nodes.removals.maxParallelDrains")),
    flag(
        "max-empty-bulk-delete",
        Number,
        Elsewhere("nodes.removals.maxParallel, as --max-scale-down-parallelism since 1.30"),
    ),
    flag("max-graceful-termination-sec", Seconds, Pool("scaleDown.drain.maxGracePeriod")),
    flag("max-pod-eviction-time", Time, Pool("scaleDown.drain.evictionTimeout")),
    flag("min-replica-count", Number, Pool("scaleDown.drain.minReplicas")),
    flag("skip-nodes-with-local-storage", Switch, Pool("scaleDown.drain.skipLocalStorage")),
    flag("skip-nodes-with-system-pods", Switch, Pool("scaleDown.drain.skipSystemPods")),
    flag(
        "skip-nodes-with-custom-controller-pods",
        Switch,
        NoEffect(
            "pods of controllers that are not Kubernetes' own keep a node; the pod annotation cluster-autoscaler.kubernetes.io/safe-to-evict frees it",
        ),
    ),
    flag("blocking-system-pod-distruption-timeout", Time, NoEffect("it is always 1h")),
    flag(
        "drain-priority-config",
        Text,
        NoEffect(
            "pods are evicted together, each with its own grace period up to scaleDown.drain.maxGracePeriod",
        ),
    ),
    flag(
        "daemonset-eviction-for-empty-nodes",
        Switch,
        NoEffect(
            "DaemonSet pods of an empty node stop with it; the pod annotation cluster-autoscaler.kubernetes.io/enable-ds-eviction changes that for one",
        ),
    ),
    flag(
        "daemonset-eviction-for-occupied-nodes",
        Switch,
        NoEffect("DaemonSet pods are evicted from a drained node where they go easily"),
    ),
    flag(
        "cordon-node-before-terminating",
        Switch,
        NoEffect("the taint ToBeDeletedByClusterAutoscaler keeps pods off a node that leaves"),
    ),
    flag(
        "max-bulk-soft-taint-count",
        Number,
        NoEffect(
            "at most 10 nodes at once carry the taint headroom.dev/removal-candidate:PreferNoSchedule, those that go next; it cannot be turned off",
        ),
    ),
    flag(
        "max-bulk-soft-taint-time",
        Time,
        NoEffect(
            "at most 10 nodes at once carry the taint headroom.dev/removal-candidate:PreferNoSchedule, those that go next; it cannot be turned off",
        ),
    ),
    flag(
        "node-deletion-candidate-ttl",
        Time,
        NoEffect("clocks live in the pool's status and survive restarts"),
    ),
    flag(
        "node-delete-delay-after-taint",
        Time,
        NoEffect("a node is looked at again after its taint, before anything is evicted"),
    ),
    flag(
        "dynamic-node-delete-delay-after-taint-enabled",
        Switch,
        NoEffect("a node is looked at again after its taint, before anything is evicted"),
    ),
    flag(
        "node-deletion-delay-timeout",
        Time,
        NoEffect(
            "the annotations delay-deletion.cluster-autoscaler.kubernetes.io/ hold a node for at most 2m",
        ),
    ),
    flag("node-deletion-batcher-interval", Time, NoEffect("instances leave one by one, by their ids")),
    flag(
        "force-delete-unregistered-nodes",
        Switch,
        NoEffect(
            "an instance that never becomes a node is terminated; in a group at its minimum it is replaced",
        ),
    ),
    flag(
        "force-delete-failed-nodes",
        Switch,
        NoEffect("what fails to launch is taken back; in a group at its minimum it is replaced"),
    ),
    // The process.
    flag("scan-interval", Time, NoEffect("plans follow changes at once, and come every 10s at least")),
    flag(
        "frequent-loops-enabled",
        Switch,
        NoEffect("plans follow changes at once, and come every 10s at least"),
    ),
    flag(
        "max-inactivity",
        Time,
        NoEffect("a loop that is stuck for a minute ends the process; /healthz reports it"),
    ),
    flag("max-failing-time", Time, NoEffect("a pool that fails says so in its conditions; the others go on")),
    flag("max-startup-time", Time, NoEffect("/readyz shows whether the cluster has been read")),
    flag("address", Text, Elsewhere("headroom run --metrics-address")),
    flag(
        "namespace",
        Text,
        Elsewhere("headroom run --leader-election-namespace; settings and state are cluster-wide objects"),
    ),
    flag("kubeconfig", Text, Elsewhere("the variable KUBECONFIG")),
    flag("kubernetes", Text, Elsewhere("the variable KUBECONFIG")),
    flag("kube-api-content-type", Text, NoEffect("the client speaks JSON")),
    flag(
        "kube-client-burst",
        Number,
        NoEffect("the client has no limit of its own: API Priority and Fairness decides"),
    ),
    flag(
        "kube-client-qps",
        Number,
        NoEffect("the client has no limit of its own: API Priority and Fairness decides"),
    ),
    flag("user-agent", Text, NoEffect("the client names itself headroom")),
    flag("profiling", Switch, NoEffect("there is no profiling endpoint; the metrics show what a plan costs")),
    flag(
        "debugging-snapshot-enabled",
        Switch,
        NoEffect("status and events show each decision with its reasons"),
    ),
    flag("emit-per-nodegroup-metrics", Switch, NoEffect("metrics always name the pool")),
    flag("record-duplicated-events", Switch, NoEffect("an event is recorded when something changes")),
    flag(
        "write-status-configmap",
        Switch,
        NoEffect("status is in the NodePools and the ClusterScalingPolicy"),
    ),
    flag("status-config-map-name", Text, NoEffect("status is in the NodePools and the ClusterScalingPolicy")),
    flag(
        "node-removal-latency-tracking-enabled",
        Switch,
        NoEffect("status.unneeded shows since when a node is unneeded"),
    ),
    flag(
        "max-node-skip-eval-time-tracker-enabled",
        Switch,
        NoEffect("every node is looked at in every plan"),
    ),
    flag(
        "feature-gates",
        Text,
        NoEffect("there are no feature gates: what a cluster has is seen in its objects"),
    ),
    flag("leader-elect", Switch, LEASE),
    flag("leader-elect-lease-duration", Time, Elsewhere("headroom run --lease-seconds")),
    flag("leader-elect-renew-deadline", Time, LEASE),
    flag("leader-elect-retry-period", Time, LEASE),
    flag("leader-elect-resource-lock", Text, LEASE),
    flag("leader-elect-resource-name", Text, Elsewhere("headroom run --lease-name")),
    flag("leader-elect-resource-namespace", Text, Elsewhere("headroom run --leader-election-namespace")),
    // Buffers, requests, devices, volumes.
    flag(
        "capacity-buffer-controller-enabled",
        Switch,
        NoEffect(
            "CapacityBuffers of the default strategy are served with nodes.capacityBuffers: All (docs/buffers.md)",
        ),
    ),
    flag(
        "capacity-buffer-pod-injection-enabled",
        Switch,
        NoEffect(
            "CapacityBuffers of the default strategy are served with nodes.capacityBuffers: All (docs/buffers.md)",
        ),
    ),
    flag(
        "capacity-buffer-ready-replicas-enabled",
        Switch,
        NoEffect("the operator makes no pods for CapacityBuffers, and counts ready ones itself"),
    ),
    flag(
        "capacity-buffer-pod-dry-run-enabled",
        Switch,
        NoEffect("the operator makes no pods for CapacityBuffers, and counts ready ones itself"),
    ),
    flag("enable-provisioning-requests", Switch, PROVISIONING),
    flag("provisioning-request-initial-backoff-time", Time, PROVISIONING),
    flag("provisioning-request-max-backoff-time", Time, PROVISIONING),
    flag("provisioning-request-max-backoff-cache-size", Number, PROVISIONING),
    flag("check-capacity-batch-processing", Switch, PROVISIONING),
    flag("check-capacity-provisioning-request-max-batch-size", Number, PROVISIONING),
    flag("check-capacity-provisioning-request-batch-timebox", Time, PROVISIONING),
    flag(
        "check-capacity-processor-instance",
        Text,
        Elsewhere(
            "nodes.provisioningRequests.processorInstance, once Cluster Autoscaler no longer serves these requests",
        ),
    ),
    flag(
        "enable-dynamic-resource-allocation",
        Switch,
        NoEffect(
            "devices of ResourceClaims always count, once the operator may read them (docs/devices.md); pools at zero declare theirs in template.devices",
        ),
    ),
    flag("enable-csi-node-aware-scheduling", Switch, NoEffect("attach limits of CSI drivers always count")),
    // Other clouds, and flags of earlier releases.
    flag("gce-concurrent-refreshes", Number, OTHER_CLOUD),
    flag("gce-mig-instances-min-refresh-wait-time", Time, OTHER_CLOUD),
    flag("gce-expander-ephemeral-storage-support", Switch, OTHER_CLOUD),
    flag("bulk-mig-instances-listing-enabled", Switch, OTHER_CLOUD),
    flag(
        "clusterapi-cloud-config-authoritative",
        Switch,
        Elsewhere(
            "provider.clusterApi.management is where the machines are, and KUBECONFIG where the nodes are",
        ),
    ),
    flag(
        "node-autoprovisioning-enabled",
        Switch,
        NoEffect("groups are made by others, never by the operator"),
    ),
    flag(
        "max-autoprovisioned-node-group-count",
        Number,
        NoEffect("groups are made by others, never by the operator"),
    ),
    // Logging.
    flag("v", Number, LOGS),
    flag("vmodule", Text, LOGS),
    flag("scheduler-verbosity", Number, LOGS),
    flag("add-dir-header", Switch, LOGS),
    flag("alsologtostderr", Switch, LOGS),
    flag("log-backtrace-at", Text, LOGS),
    flag("log-dir", Text, LOGS),
    flag("log-file", Text, LOGS),
    flag("log-file-max-size", Number, LOGS),
    flag("log-flush-frequency", Time, LOGS),
    flag("log-json-info-buffer-size", Text, LOGS),
    flag("log-json-split-stream", Switch, LOGS),
    flag("log-text-info-buffer-size", Text, LOGS),
    flag("log-text-split-stream", Switch, LOGS),
    flag("logging-format", Text, LOGS),
    flag("logtostderr", Switch, LOGS),
    flag("one-output", Switch, LOGS),
    flag("skip-headers", Switch, LOGS),
    flag("skip-log-headers", Switch, LOGS),
    flag("stderrthreshold", Text, LOGS),
    flag("help", Switch, NoEffect("it prints the help")),
    flag("version", Switch, NoEffect("it prints the version")),
];
