//! Settings of users, parsed and valid: pools and cluster settings. No defaults are hidden elsewhere.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_cluster::scheduling::constraints::Taint;
use headroom_cluster::scheduling::devices::Slice;
pub use headroom_cluster::world::expander::EmptyAnswer;
use headroom_cluster::world::node::ConditionStatus;
use headroom_cluster::world::template::NodeTemplate;
use headroom_cluster::world::volume::AttachLimits;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};
use headroom_values::window::Window;

/// Everything that steers a plan and is not the world or memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The leader term; part of every intent's id.
    pub epoch: u64,
    /// Valid pools, sorted by name.
    pub pools: Vec<Pool>,
    /// Cluster-wide settings.
    pub cluster: ClusterSettings,
}

/// A NodePool, parsed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Name; at most 40 characters.
    pub name: Arc<str>,
    /// Unique id of the object.
    pub uid: Arc<str>,
    /// Creation time: the oldest of two owners wins.
    pub created_at: UnixTime,
    /// True if a deletion timestamp is set: nothing new is begun.
    pub deleting: bool,
    /// True if the plan acts.
    pub mode: Mode,
    /// Lower bound of the sum over groups, schedules not yet applied.
    pub min_nodes: u32,
    /// Upper bound of the sum over groups, schedules not yet applied.
    pub max_nodes: u32,
    /// Most cpu in milli-cores over all nodes; `None` for no limit.
    pub limit_cpu_milli: Option<i64>,
    /// Most memory in bytes over all nodes; `None` for no limit.
    pub limit_memory_bytes: Option<i64>,
    /// Template of a new node; `None` when it must be asked of the provider or learned.
    pub template: Option<NodeTemplate>,
    /// Slices that drivers publish on a new node, for a node named [`headroom_cluster::scheduling::devices::COMING`]; none if it has no
    /// devices. `None` when they must be learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<Slice>>,
    /// Number of volumes that a new node attaches, by CSI driver, where no living node of its group shows it. `None` when
    /// it is not declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_limits: Option<AttachLimits>,
    /// Taints that a node loses once it is started.
    pub startup_taints: Vec<Taint>,
    /// Price of a node in millionths of a currency unit per hour; `None` when unknown.
    pub price_per_hour_micro: Option<i64>,
    /// Higher is tried first by the priority expander.
    pub priority: i32,
    /// Steps by which its groups grow and shrink. Default: node by node.
    #[serde(default)]
    pub group_scaling: GroupScaling,
    /// Settings of scale-up.
    pub scale_up: ScaleUp,
    /// Settings of scale-down.
    pub scale_down: ScaleDown,
    /// Bounds by time of day.
    pub schedules: Vec<Schedule>,
}

/// Steps by which the groups of a pool grow and shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupScaling {
    /// By any number of nodes.
    #[default]
    PerNode,
    /// To its maximum at once, and away as a whole: for machines that are of use together only.
    ZeroOrMax,
}

/// True if a pool's plan is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Yes.
    #[default]
    Apply,
    /// Planned as if applied, after the Apply pools have been, and only reported.
    Preview,
    /// Nothing new; drains under way are undone, increases watched to their end.
    Suspend,
}

/// Settings of a pool's scale-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleUp {
    /// True if it may grow.
    pub enabled: bool,
    /// From the request to the node's registration. Default 15 min.
    pub provision_timeout: Seconds,
    /// From registration to readiness. Default 15 min.
    pub startup_timeout: Seconds,
    /// First backoff. Default 5 min.
    pub backoff_initial: Seconds,
    /// Longest backoff. Default 30 min.
    pub backoff_max: Seconds,
    /// Forgotten so long after the last failure. Default 3 h.
    pub backoff_reset_after: Seconds,
}

/// Settings of a pool's scale-down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleDown {
    /// True if it may shrink.
    pub enabled: bool,
    /// Nodes that may be removed. Default: those that are underutilized.
    pub policy: Policy,
    /// Percent of requests over allocatable under which a node is a candidate. Default 50.
    pub utilization_threshold_percent: u32,
    /// The same for nodes with GPUs, by their GPUs alone. Default 50.
    pub gpu_utilization_threshold_percent: u32,
    /// True if DaemonSet pods are left out of both sides when a node is measured. Default false.
    pub ignore_daemon_sets: bool,
    /// True if mirror pods are left out likewise. Default false.
    pub ignore_mirror: bool,
    /// Default 10 min.
    pub unneeded_for: Seconds,
    /// Default 20 min.
    pub unready_for: Seconds,
    /// Default 10 min.
    pub delay_after_add: Seconds,
    /// Default 0.
    pub delay_after_delete: Seconds,
    /// Default 3 min.
    pub delay_after_failure: Seconds,
    /// Time for which a pod that came in place of an evicted one is not evicted again for what its node costs. Default 0; of an
    /// object with `policy: WhenCheaper` 30 min.
    pub eviction_cooldown: Seconds,
    /// Ceilings on removals at once; all active ones apply.
    pub budgets: Vec<Budget>,
    /// Settings of draining.
    pub drain: Drain,
    /// Rules by which nodes are outdated and replaced. Default: none.
    pub rotation: Rotation,
}

/// Rules by which nodes of a pool are outdated and replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rotation {
    /// Age from which nodes are replaced, less or more by up to 10 %; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Seconds>,
    /// True if nodes are replaced that something else made than what makes nodes now. Default false.
    pub replace_drifted: bool,
    /// True if nodes are replaced whose pods fit a pool that the expanders prefer. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub prefer_other_pool: bool,
    /// Fingerprint of what the pool makes nodes of, where it makes them itself; `None` where the provider gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Arc<str>>,
    /// Conditions that call for a node's replacement. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repair: Vec<RepairRule>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A condition that calls for a node's replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairRule {
    /// Type of the condition, such as `KernelDeadlock`.
    pub condition: Arc<str>,
    /// The status that means that something is wrong.
    pub status: ConditionStatus,
    /// Time that the condition must have had the status.
    pub after: Seconds,
}

impl Rotation {
    /// True if any node may become outdated, be repaired, or give way to a preferred pool.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.max_age.is_some() || self.replace_drifted || self.prefer_other_pool || !self.repair.is_empty()
    }

    /// True if a removal for this reason, of a node that was replaced for what it is, still follows from the settings.
    #[must_use]
    pub fn wants(&self, reason: Reason) -> bool {
        match reason {
            Reason::Unhealthy => !self.repair.is_empty(),
            Reason::Drifted => self.replace_drifted,
            Reason::NotPreferred => self.prefer_other_pool,
            Reason::Expired => self.max_age.is_some(),
            _ => true,
        }
    }
}

/// Nodes of a pool that may be removed although they are ready and nobody asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Those at or under the threshold whose pods fit elsewhere, as Cluster Autoscaler.
    #[default]
    WhenUnderutilized,
    /// Besides those, every node whose pods fit elsewhere or on nodes that cost less.
    WhenCheaper(Consolidation),
}

/// Minimum gain of consolidation, and minimum time between its disruptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consolidation {
    /// Least saving, in percent of the price of what is replaced; 1 to 100. Default 15.
    pub min_saving_percent: u32,
    /// A node is left alone until it and each of its pods are this old. Default 10 min.
    pub consolidate_after: Seconds,
}

impl Default for Consolidation {
    fn default() -> Self {
        Self { min_saving_percent: 15, consolidate_after: Seconds::minutes(10) }
    }
}

/// Settings of draining.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Drain {
    /// Longest grace given to a pod. Default 10 min.
    pub max_grace_period: Seconds,
    /// Time that refused evictions are tried again. Default 2 min.
    pub eviction_timeout: Seconds,
    /// Pods with local storage keep their node. Default true.
    pub skip_local_storage: bool,
    /// kube-system pods without PDB keep their node. Default true.
    pub skip_system_pods: bool,
    /// Pods whose controller has fewer replicas keep their node. Default 0.
    pub min_replicas: u32,
    /// kube-system pods without PDB keep their node only until they are older than this. Default 1 h; no field yet.
    pub system_pods_block_for: Seconds,
    /// Pods of controllers that are not built in keep their node. Default true; no field yet.
    pub custom_controllers_block: bool,
}

/// A ceiling on nodes that leave at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Name, unique in its list.
    pub name: Arc<str>,
    /// The ceiling.
    pub ceiling: Ceiling,
    /// Reasons of the removals that it counts and limits; empty for all.
    pub reasons: Vec<Reason>,
    /// Window in which it is active; `None` for always.
    pub window: Option<Window>,
}

/// A number of nodes, or a part of the ready ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ceiling {
    /// So many nodes.
    Nodes(u32),
    /// Percent of ready nodes, rounded down, at least 1 unless the percentage is 0.
    Percent(u32),
}

/// Bounds while a window is active. Overlaps: highest min, lowest max, and max wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Name, unique in its list.
    pub name: Arc<str>,
    /// Window in which it is active.
    pub window: Window,
    /// Lower bound, if it sets one.
    pub min_nodes: Option<u32>,
    /// Upper bound, if it sets one.
    pub max_nodes: Option<u32>,
}

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Settings of the cluster that are flags of Cluster Autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSettings {
    /// The expander chain; each narrows, the last tie is broken by name. Default least-waste.
    pub expanders: Vec<Expander>,
    /// Meaning of an answer of the server of expander `Grpc` without options. Default: a veto.
    #[serde(skip_serializing_if = "EmptyAnswer::is_veto")]
    pub empty_answer: EmptyAnswer,
    /// Most nodes in the cluster, foreign ones included; `None` for no limit.
    pub max_nodes: Option<u32>,
    /// Most cpu in milli-cores in the cluster.
    pub max_cpu_milli: Option<i64>,
    /// Most memory in bytes in the cluster.
    pub max_memory_bytes: Option<i64>,
    /// Least cpu in milli-cores that removals leave in the cluster; `None` for none.
    pub min_cpu_milli: Option<i64>,
    /// Least memory in bytes likewise.
    pub min_memory_bytes: Option<i64>,
    /// True if what one pool would get is spread over all pools whose nodes are alike. Default false.
    pub balance_similar_pools: bool,
    /// Unhealthy when more than this part of nodes is unready … Default 45.
    pub max_unready_percent: u32,
    /// … and more than this many are. Default 3.
    pub ok_unready_count: u32,
    /// Pods with a lower priority neither cause nodes nor keep them. Default -10.
    pub expendable_pods_priority_cutoff: i32,
    /// Pods younger than this do not cause nodes. Default 0.
    pub new_pod_delay: Seconds,
    /// Schedulers whose pods cause nodes before they are marked as unschedulable. Default [`DEFAULT_SCHEDULER`].
    pub immediate_schedulers: Vec<Arc<str>>,
    /// Most nodes leaving at once in the whole cluster. Default 10.
    pub max_removals: u32,
    /// Most of those that may be draining at once. Default 1.
    pub max_drains: u32,
    /// Cluster-wide budgets, used besides each pool's own.
    pub budgets: Vec<Budget>,
    /// The kill switch: no voluntary removal is begun, and those not yet deleting are undone.
    pub voluntary_disruption_stopped: bool,
    /// True if replicas not created yet are demand. Default true.
    pub anticipation: bool,
    /// Most anticipated pods at once. Default 10,000.
    pub max_anticipated_pods: u32,
    /// Most of those in one namespace. Default 5,000.
    pub max_anticipated_pods_per_namespace: u32,
    /// True if CapacityBuffers of the default strategy are served too. Default false.
    pub default_buffers: bool,
    /// The ProvisioningRequests that are served.
    pub requests: RequestSettings,
    /// Most nodes one plan may add to one group. Default 1,000.
    pub max_nodes_per_scale_up: u32,
    /// Work units that one plan may spend on finding places for pods, shared out among their namespaces: checks of a pod
    /// on a node, and the terms, counters and pods that they look at. Default 50 million.
    pub max_work_units: u64,
}

/// Rule for the choice of one option among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expander {
    /// Smallest idle part of cpu and memory.
    LeastWaste,
    /// Fewest nodes.
    LeastNodes,
    /// Most pods helped.
    MostPods,
    /// Highest pool priority.
    Priority,
    /// Lowest price for what is placed; options without a price are left out.
    Price,
    /// By a hash of the option: chance without a random generator.
    Random,
    /// By a server of Cluster Autoscaler's protocol, which the operator asks between two plans.
    Grpc,
}

impl Default for ScaleUp {
    fn default() -> Self {
        Self {
            enabled: true,
            provision_timeout: Seconds::minutes(15),
            startup_timeout: Seconds::minutes(15),
            backoff_initial: Seconds::minutes(5),
            backoff_max: Seconds::minutes(30),
            backoff_reset_after: Seconds::hours(3),
        }
    }
}

impl Default for ScaleDown {
    fn default() -> Self {
        Self {
            enabled: true,
            policy: Policy::default(),
            utilization_threshold_percent: 50,
            gpu_utilization_threshold_percent: 50,
            ignore_daemon_sets: false,
            ignore_mirror: false,
            unneeded_for: Seconds::minutes(10),
            unready_for: Seconds::minutes(20),
            delay_after_add: Seconds::minutes(10),
            delay_after_delete: Seconds(0),
            delay_after_failure: Seconds::minutes(3),
            eviction_cooldown: Seconds(0),
            budgets: Vec::new(),
            drain: Drain::default(),
            rotation: Rotation::default(),
        }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            max_grace_period: Seconds::minutes(10),
            eviction_timeout: Seconds::minutes(2),
            skip_local_storage: true,
            skip_system_pods: true,
            min_replicas: 0,
            system_pods_block_for: Seconds::hours(1),
            custom_controllers_block: true,
        }
    }
}

/// The ProvisioningRequests that are served, besides those of our own classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestSettings {
    /// True if Cluster Autoscaler's class that only answers is served.
    pub check_capacity: bool,
    /// True if Cluster Autoscaler's class that buys is served.
    pub best_effort_atomic: bool,
    /// The value of the parameter `processorInstance` that names this operator.
    pub processor_instance: Option<Arc<str>>,
    /// Time that granted room is held. Default 10 minutes.
    pub booking_for: Seconds,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            check_capacity: false,
            best_effort_atomic: false,
            processor_instance: None,
            booking_for: Seconds::minutes(10),
        }
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            expanders: vec![Expander::LeastWaste],
            empty_answer: EmptyAnswer::Veto,
            max_nodes: None,
            max_cpu_milli: None,
            max_memory_bytes: None,
            min_cpu_milli: None,
            min_memory_bytes: None,
            balance_similar_pools: false,
            max_unready_percent: 45,
            ok_unready_count: 3,
            expendable_pods_priority_cutoff: -10,
            new_pod_delay: Seconds(0),
            immediate_schedulers: vec![DEFAULT_SCHEDULER.into()],
            max_removals: 10,
            max_drains: 1,
            budgets: Vec::new(),
            voluntary_disruption_stopped: false,
            anticipation: true,
            max_anticipated_pods: 10_000,
            max_anticipated_pods_per_namespace: 5_000,
            default_buffers: false,
            requests: RequestSettings::default(),
            max_nodes_per_scale_up: 1_000,
            max_work_units: 50_000_000,
        }
    }
}

impl Pool {
    /// True if its groups grow and shrink as a whole.
    #[must_use]
    pub fn scales_whole(&self) -> bool {
        self.group_scaling == GroupScaling::ZeroOrMax
    }

    /// True if CPU or memory of all its nodes together are limited.
    #[must_use]
    pub fn limits_amounts(&self) -> bool {
        self.limit_cpu_milli.is_some() || self.limit_memory_bytes.is_some()
    }
}

impl Config {
    /// The pool of this name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.binary_search_by(|pool| (*pool.name).cmp(name)).ok().map(|index| &self.pools[index])
    }

    /// True if there is a pool of this name and its groups grow and shrink as a whole.
    #[must_use]
    pub fn scales_whole(&self, pool: &str) -> bool {
        self.pool(pool).is_some_and(Pool::scales_whole)
    }
}
