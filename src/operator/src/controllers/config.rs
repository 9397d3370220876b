//! Stored objects become settings: core's Config, the settings of providers, and the objects that cannot be used. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::config::{
    Budget, Ceiling, ClusterSettings, Config, Consolidation, Drain, EmptyAnswer, Expander, GroupScaling,
    Mode, Policy, Pool, RepairRule, RequestSettings, Rotation, ScaleDown, ScaleUp, Schedule,
};
use headroom_core::labels::Labels;
use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::time::Seconds;
use headroom_core::world::node::{ConditionStatus, POOL_LABEL};
use headroom_core::world::template::NodeTemplate;
use headroom_core::world::volume::AttachLimits;

use super::config_devices;
use headroom_api::common::BudgetReason;
use headroom_api::node_pool::{ConditionWord, DriftPolicy, PreferredPoolPolicy, ScaleDownPolicy};
use headroom_api::validate::{
    self, Amounts, FieldError, ValidatedBudget, ValidatedPolicy, ValidatedPool, ValidatedRepair,
    ValidatedRequests, ValidatedTemplate, validate_policy, validate_pool,
};
use headroom_api::{ClusterScalingPolicySpec, NodePool, NodePoolSpec, cluster_scaling_policy, node_pool};
use headroom_observe::{Policies, PolicyObject};
use headroom_provider::expander::ExpanderSettings;
use headroom_provider::{CloudSettings, NodeShape, PoolAtProvider, ProviderSettings};

/// The only name a ClusterScalingPolicy may have.
pub const POLICY_NAME: &str = "default";
/// Labels every node gets, so that pods which select the usual ones find it.
const USUAL_LABELS: [(&str, &str); 2] = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];

/// Everything the loop takes from stored objects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings of a plan.
    pub config: Config,
    /// Valid pools as their providers know them.
    pub providers: BTreeMap<Arc<str>, PoolAtProvider>,
    /// Server of expander `Grpc`; `None` where the chain does not have it.
    pub expander: Option<ExpanderSettings>,
    /// Reason why pools cannot be used, in words for a condition.
    pub invalid_pools: BTreeMap<Arc<str>, String>,
    /// True if the whole operator only observes: pools in mode Apply are previewed.
    pub preview: bool,
    /// Reason why the cluster policy cannot be used; the last good one, or the defaults, hold meanwhile.
    pub invalid_policy: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: Config { epoch: 0, pools: Vec::new(), cluster: ClusterSettings::default() },
            providers: BTreeMap::new(),
            expander: None,
            invalid_pools: BTreeMap::new(),
            preview: false,
            invalid_policy: None,
        }
    }
}

impl Settings {
    /// Takes the stored objects as they are now. One that cannot be used is set aside and the others go on.
    ///
    /// A cluster policy that turns invalid keeps its earlier settings: a slip must not lift a limit or a stop.
    pub fn update(&mut self, policies: &Policies) {
        self.config.pools.clear();
        self.providers.clear();
        self.invalid_pools.clear();
        for (name, object) in &policies.pools {
            match valid_pool(object) {
                Ok(valid) => {
                    let mut pool = pool(object, &valid);
                    if self.preview && pool.mode == Mode::Apply {
                        pool.mode = Mode::Preview;
                    }
                    self.config.pools.push(pool);
                    self.providers.insert(name.clone(), at_provider(object, &valid));
                }
                Err(why) => {
                    self.invalid_pools.insert(name.clone(), why);
                }
            }
        }
        self.invalid_policy = None;
        match policies.clusters.get(POLICY_NAME).map(valid_policy) {
            None => (self.config.cluster, self.expander) = (ClusterSettings::default(), None),
            Some(Ok(policy)) => {
                self.config.cluster = cluster(&policy);
                self.expander = policy.grpc_expander.as_ref().map(ExpanderSettings::from);
            }
            Some(Err(why)) => self.invalid_policy = Some(why),
        }
    }
}

fn valid_pool(object: &PolicyObject<NodePoolSpec>) -> Result<ValidatedPool, String> {
    let spec = object.spec.clone().map_err(|why| format!("spec cannot be read: {why}"))?;
    validate_pool(&NodePool::new(&object.name, spec)).map_err(|errors| in_words(&errors))
}

fn valid_policy(object: &PolicyObject<ClusterScalingPolicySpec>) -> Result<ValidatedPolicy, String> {
    let spec = object.spec.as_ref().map_err(|why| format!("spec cannot be read: {why}"))?;
    validate_policy(spec).map_err(|errors| in_words(&errors))
}

fn in_words(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn pool(object: &PolicyObject<NodePoolSpec>, valid: &ValidatedPool) -> Pool {
    // Without `..`: a new field that nobody hands on must not compile.
    let ValidatedPool {
        name,
        mode,
        provider: _,
        min_nodes,
        max_nodes,
        limits,
        template,
        price_per_hour_micros,
        priority,
        group_scaling,
        scale_up,
        scale_down,
        rotation,
        repair,
        schedules,
    } = valid;
    let makes_nodes = ProviderSettings::from(valid).makes_nodes();
    Pool {
        name: name.as_str().into(),
        uid: object.uid.clone(),
        created_at: object.created_at,
        deleting: object.deleting,
        mode: match mode {
            node_pool::Mode::Apply => Mode::Apply,
            node_pool::Mode::Preview => Mode::Preview,
            node_pool::Mode::Suspend => Mode::Suspend,
        },
        min_nodes: *min_nodes,
        max_nodes: *max_nodes,
        limit_cpu_milli: limits.cpu_milli,
        limit_memory_bytes: limits.memory_bytes,
        // An Auto Scaling group knows more of its nodes than their amounts: its provider puts the two together.
        template: template.capacity.as_ref().filter(|_| makes_nodes).map(|capacity| NodeTemplate {
            labels: labels(name, template),
            taints: taints(&template.taints),
            capacity: resources(capacity),
            allocatable: resources(&template.allocatable().unwrap_or_default()),
        }),
        devices: template.devices.as_deref().map(config_devices::slices),
        attach_limits: template.attach_limits.as_ref().map(attach_limits),
        startup_taints: taints(&template.startup_taints),
        price_per_hour_micro: price_per_hour_micros.and_then(|micros| i64::try_from(micros).ok()),
        priority: *priority,
        group_scaling: match group_scaling {
            node_pool::GroupScaling::PerNode => GroupScaling::PerNode,
            node_pool::GroupScaling::ZeroOrMax => GroupScaling::ZeroOrMax,
        },
        scale_up: ScaleUp {
            enabled: scale_up.enabled,
            provision_timeout: seconds(scale_up.provision_timeout),
            startup_timeout: seconds(scale_up.startup_timeout),
            backoff_initial: seconds(scale_up.backoff.initial),
            backoff_max: seconds(scale_up.backoff.max),
            backoff_reset_after: seconds(scale_up.backoff.reset_after),
        },
        scale_down: ScaleDown {
            enabled: scale_down.enabled,
            policy: match scale_down.policy {
                ScaleDownPolicy::WhenUnderutilized => Policy::WhenUnderutilized,
                ScaleDownPolicy::WhenCheaper => Policy::WhenCheaper(Consolidation {
                    min_saving_percent: scale_down.min_saving_percent.into(),
                    consolidate_after: seconds(scale_down.consolidate_after),
                }),
            },
            utilization_threshold_percent: scale_down.utilization_threshold_percent.into(),
            gpu_utilization_threshold_percent: scale_down.gpu_utilization_threshold_percent.into(),
            ignore_daemon_sets: scale_down.ignore_daemon_sets_utilization,
            ignore_mirror: scale_down.ignore_mirror_pods_utilization,
            unneeded_for: seconds(scale_down.unneeded_for),
            unready_for: seconds(scale_down.unready_for),
            delay_after_add: seconds(scale_down.delay_after_add),
            delay_after_delete: seconds(scale_down.delay_after_delete),
            delay_after_failure: seconds(scale_down.delay_after_failure),
            eviction_cooldown: seconds(scale_down.eviction_cooldown),
            budgets: scale_down.budgets.iter().map(budget).collect(),
            drain: Drain {
                max_grace_period: seconds(scale_down.drain.max_grace_period),
                eviction_timeout: seconds(scale_down.drain.eviction_timeout),
                skip_local_storage: scale_down.drain.skip_local_storage,
                skip_system_pods: scale_down.drain.skip_system_pods,
                min_replicas: scale_down.drain.min_replicas,
                ..Drain::default()
            },
            rotation: Rotation {
                max_age: rotation.max_age.map(seconds),
                replace_drifted: rotation.drift == DriftPolicy::Replace,
                prefer_other_pool: rotation.preferred_pool == PreferredPoolPolicy::Replace,
                template: made_of(&at_provider(object, valid)),
                repair: repair.iter().map(repair_rule).collect(),
            },
        },
        schedules: schedules
            .iter()
            .map(|schedule| Schedule {
                name: schedule.name.as_str().into(),
                window: schedule.window.clone(),
                min_nodes: schedule.min_nodes,
                max_nodes: schedule.max_nodes,
            })
            .collect(),
    }
}

fn attach_limits(declared: &BTreeMap<String, u32>) -> AttachLimits {
    declared.iter().map(|(driver, count)| (Arc::from(driver.as_str()), *count)).collect()
}

/// Fingerprint of what the provider makes nodes of, where these are settings of the pool alone.
fn made_of(pool: &PoolAtProvider) -> Option<Arc<str>> {
    pool.settings.makes_nodes().then(|| pool.node.fingerprint())
}

fn at_provider(object: &PolicyObject<NodePoolSpec>, valid: &ValidatedPool) -> PoolAtProvider {
    let template = &valid.template;
    let mut node_taints = taints(&template.taints);
    node_taints.extend(taints(&template.startup_taints));
    let settings = ProviderSettings::from(valid);
    // Where machines have labels of their own, only what the user wrote: the rest is for the provider to add.
    let written = || template.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let node_labels = if settings.makes_nodes() { labels(&valid.name, template) } else { written() };
    let scheduled = valid.schedules.iter().filter_map(|schedule| schedule.max_nodes).max();
    PoolAtProvider {
        name: valid.name.as_str().into(),
        created_at: object.created_at,
        max_nodes: valid.max_nodes.max(scheduled.unwrap_or(0)),
        settings,
        node: NodeShape {
            labels: node_labels,
            taints: node_taints,
            capacity: template.capacity.as_ref().map(resources).unwrap_or_default(),
            allocatable: template.allocatable().as_ref().map(resources).unwrap_or_default(),
        },
    }
}

/// The labels of a new node; zone, group and hostname are added for each.
fn labels(pool: &str, template: &ValidatedTemplate) -> Labels {
    let mut labels: Labels = USUAL_LABELS.into_iter().collect();
    for (key, value) in &template.labels {
        labels.insert(key.as_str(), value.as_str());
    }
    labels.insert(POOL_LABEL, pool);
    labels
}

fn taints(written: &[node_pool::Taint]) -> Vec<Taint> {
    let effect = |effect| match effect {
        node_pool::TaintEffect::NoSchedule => TaintEffect::NoSchedule,
        node_pool::TaintEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
        node_pool::TaintEffect::NoExecute => TaintEffect::NoExecute,
    };
    written
        .iter()
        .map(|taint| Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_deref().unwrap_or_default().into(),
            effect: effect(taint.effect),
        })
        .collect()
}

fn resources(amounts: &Amounts) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in amounts {
        match name.as_str() {
            "cpu" => resources.cpu_milli = *amount,
            "memory" => resources.memory_bytes = *amount,
            "ephemeral-storage" => resources.ephemeral_bytes = *amount,
            "pods" => resources.pods = *amount,
            other => resources.set_extended(other, *amount),
        }
    }
    resources
}

fn repair_rule(valid: &ValidatedRepair) -> RepairRule {
    let status = match valid.status {
        ConditionWord::True => ConditionStatus::True,
        ConditionWord::False => ConditionStatus::False,
        ConditionWord::Unknown => ConditionStatus::Unknown,
    };
    RepairRule { condition: valid.condition.as_str().into(), status, after: seconds(valid.lasts) }
}

fn budget(valid: &ValidatedBudget) -> Budget {
    let reason = |reason: &BudgetReason| match reason {
        BudgetReason::Empty => Reason::Empty,
        BudgetReason::Underutilized => Reason::Underutilized,
        BudgetReason::Unready => Reason::Unready,
        BudgetReason::Drifted => Reason::Drifted,
        BudgetReason::Expired => Reason::Expired,
        BudgetReason::Unhealthy => Reason::Unhealthy,
        BudgetReason::NotPreferred => Reason::NotPreferred,
        BudgetReason::Interrupted => Reason::Interrupted,
        BudgetReason::RemovalRequested => Reason::RemovalRequested,
    };
    Budget {
        name: valid.name.as_str().into(),
        ceiling: match valid.ceiling {
            validate::Ceiling::Count(count) => Ceiling::Nodes(count),
            validate::Ceiling::Percent(percent) => Ceiling::Percent(percent.into()),
        },
        reasons: valid.reasons.iter().map(reason).collect(),
        window: valid.window.clone(),
    }
}

fn cluster(policy: &ValidatedPolicy) -> ClusterSettings {
    // Without `..`: a new field that nobody hands on must not compile.
    let ValidatedPolicy {
        expanders,
        grpc_expander,
        balance_similar_pools,
        limits,
        health,
        expendable_pods_priority_cutoff,
        new_pod_delay,
        immediate_schedulers,
        removals,
        voluntary_disruption,
        max_anticipated_pods,
        max_anticipated_pods_per_namespace,
        capacity_buffers,
        provisioning_requests,
        // The loop of workloads reads them.
        workloads: _,
    } = policy;
    ClusterSettings {
        expanders: expanders.iter().copied().map(expander).collect(),
        empty_answer: match grpc_expander.as_ref().map(|server| server.empty_answer) {
            Some(cluster_scaling_policy::EmptyAnswer::Ignore) => EmptyAnswer::Ignore,
            Some(cluster_scaling_policy::EmptyAnswer::Veto) | None => EmptyAnswer::Veto,
        },
        balance_similar_pools: *balance_similar_pools,
        max_nodes: limits.nodes,
        max_cpu_milli: limits.cpu_milli,
        max_memory_bytes: limits.memory_bytes,
        min_cpu_milli: limits.min_cpu_milli,
        min_memory_bytes: limits.min_memory_bytes,
        max_unready_percent: health.max_unready_percent.into(),
        ok_unready_count: health.ok_unready_count,
        expendable_pods_priority_cutoff: *expendable_pods_priority_cutoff,
        new_pod_delay: seconds(*new_pod_delay),
        immediate_schedulers: immediate_schedulers.iter().map(|name| name.as_str().into()).collect(),
        max_removals: removals.max_parallel,
        max_drains: removals.max_parallel_drains,
        budgets: removals.budgets.iter().map(budget).collect(),
        voluntary_disruption_stopped: *voluntary_disruption
            == cluster_scaling_policy::VoluntaryDisruption::Stopped,
        anticipation: *max_anticipated_pods > 0,
        max_anticipated_pods: *max_anticipated_pods,
        max_anticipated_pods_per_namespace: *max_anticipated_pods_per_namespace,
        default_buffers: *capacity_buffers == cluster_scaling_policy::BufferService::All,
        requests: requests(provisioning_requests),
        ..ClusterSettings::default()
    }
}

fn requests(written: &ValidatedRequests) -> RequestSettings {
    use cluster_scaling_policy::RequestClass;
    let ValidatedRequests { classes, processor_instance, booking_for } = written;
    RequestSettings {
        check_capacity: classes.contains(&RequestClass::CheckCapacity),
        best_effort_atomic: classes.contains(&RequestClass::BestEffortAtomicScaleUp),
        processor_instance: processor_instance.as_deref().map(Into::into),
        booking_for: seconds(*booking_for),
    }
}

fn expander(written: cluster_scaling_policy::Expander) -> Expander {
    use cluster_scaling_policy::Expander as Written;
    match written {
        Written::LeastWaste => Expander::LeastWaste,
        Written::LeastNodes => Expander::LeastNodes,
        Written::MostPods => Expander::MostPods,
        Written::Priority => Expander::Priority,
        Written::Price => Expander::Price,
        Written::Grpc => Expander::Grpc,
    }
}

/// Whole seconds; the API cannot express more than a few years.
fn seconds(duration: Duration) -> Seconds {
    Seconds(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX))
}
