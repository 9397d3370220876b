//! The options of the loop families, with the reference's defaults, as the core's settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::config::{
    ClusterSettings, Config, Drain, NodeTemplate, Pool, Profile, ScaleDown, ScaleUp,
};
use headroom_core::nodes::similarity::Similarity;
use headroom_core::nodes::upstream::{DownOptions, UpstreamOptions};
use headroom_core::time::{Seconds, UnixTime};
use serde::Deserialize;

use crate::families::{self, Priorities, expander_named};
use crate::model::Group;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    scale_down_enabled: Option<bool>,
    scale_down_unready_enabled: Option<bool>,
    scale_down_utilization_threshold: Option<f64>,
    scale_down_gpu_utilization_threshold: Option<f64>,
    scale_down_unneeded_s: Option<i64>,
    scale_down_unready_s: Option<i64>,
    scale_down_delay_after_add_s: Option<i64>,
    scale_down_delay_after_delete_s: Option<i64>,
    scale_down_delay_after_failure_s: Option<i64>,
    scale_down_delay_type_local: bool,
    max_scale_down_parallelism: Option<u32>,
    max_drain_parallelism: Option<u32>,
    unremovable_node_recheck_timeout_s: Option<i64>,
    max_graceful_termination_s: Option<i64>,
    max_pod_eviction_time_s: Option<i64>,
    node_delete_delay_after_taint_s: Option<i64>,
    node_deletion_batcher_interval_s: i64,
    ignore_daemonsets_utilization: bool,
    ignore_mirror_pods_utilization: bool,
    daemonset_eviction_for_empty_nodes: bool,
    daemonset_eviction_for_occupied_nodes: Option<bool>,
    cordon_node_before_terminating: bool,
    max_bulk_soft_taint_count: Option<usize>,
    skip_nodes_with_system_pods: Option<bool>,
    skip_nodes_with_local_storage: Option<bool>,
    skip_nodes_with_custom_controller_pods: Option<bool>,
    min_replica_count: u32,
    bsp_disruption_timeout_s: Option<i64>,
    /// Parsed and never read by the reference.
    #[allow(dead_code)]
    scale_down_non_empty_candidates_count: Option<i64>,
    #[allow(dead_code)]
    scale_down_candidates_pool_ratio: Option<f64>,
    #[allow(dead_code)]
    scale_down_candidates_pool_min_count: Option<i64>,
    /// Real time, of which these worlds have none.
    #[allow(dead_code)]
    max_bulk_soft_taint_time_s: Option<i64>,
    expander: Option<String>,
    max_nodes_total: u32,
    max_cores_total: Option<i64>,
    max_memory_total_gib: Option<i64>,
    min_cores_total: i64,
    min_memory_total_gib: i64,
    balance_similar_node_groups: bool,
    balancing_ignore_labels: Vec<String>,
    scale_up_from_zero: Option<bool>,
    enforce_node_group_min_size: bool,
    expendable_pods_priority_cutoff: Option<i32>,
    new_pod_scale_up_delay_s: i64,
    max_nodes_per_scaleup: Option<u32>,
    max_total_unready_percentage: Option<u32>,
    ok_total_unready_count: Option<u32>,
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
    initial_node_group_backoff_s: Option<i64>,
    max_node_group_backoff_s: Option<i64>,
    node_group_backoff_reset_s: Option<i64>,
    bypassed_scheduler_names: Vec<String>,
    startup_taints: Vec<String>,
    status_taints: Vec<String>,
    force_ds: bool,
    scale_up_simulation_for_skipped_node_groups: bool,
    /// Chooses between two ways that the reference has to the same numbers.
    #[allow(dead_code)]
    fastpath_binpacking: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct GroupOptions {
    zero_or_max: bool,
    #[allow(dead_code)]
    allow_non_atomic_scale_up_to_max: bool,
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
    scale_down_utilization_threshold: Option<f64>,
    scale_down_gpu_utilization_threshold: Option<f64>,
    scale_down_unneeded_s: Option<i64>,
    scale_down_unready_s: Option<i64>,
    ignore_daemonsets_utilization: Option<bool>,
}

pub fn config(options: &Options, groups: &[Group], priorities: Option<&Priorities>) -> Config {
    let words = |all: &[String]| -> Vec<Arc<str>> { all.iter().map(|word| word.as_str().into()).collect() };
    let ids = groups.iter().map(|group| group.id.as_str());
    let priorities = families::priorities(priorities, ids);
    let mut zero_or_max = BTreeSet::new();
    let mut pools: Vec<Pool> = Vec::new();
    for group in groups {
        let own: Option<GroupOptions> =
            serde_json::from_value(group.options.clone()).expect("documented options of a group");
        let own = own.unwrap_or_default();
        if own.zero_or_max {
            zero_or_max.insert(Arc::from(group.id.as_str()));
        }
        pools.push(pool(group, options, &own, priorities.get(&group.id).copied()));
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let chain = options.expander.as_deref().unwrap_or("least-waste");
    let balancing =
        Similarity { ignored_labels: words(&options.balancing_ignore_labels), ..Similarity::default() };
    let cluster = ClusterSettings {
        expanders: chain.split(',').map(expander_named).collect(),
        max_nodes: (options.max_nodes_total != 0).then_some(options.max_nodes_total),
        max_cpu_milli: Some(options.max_cores_total.unwrap_or(320_000) * 1000),
        max_memory_bytes: Some(options.max_memory_total_gib.unwrap_or(6_400_000) << 30),
        max_unready_percent: options.max_total_unready_percentage.unwrap_or(45),
        ok_unready_count: options.ok_total_unready_count.unwrap_or(3),
        expendable_pods_priority_cutoff: options.expendable_pods_priority_cutoff.unwrap_or(-10),
        new_pod_delay: Seconds(options.new_pod_scale_up_delay_s),
        max_nodes_per_scale_up: options.max_nodes_per_scaleup.unwrap_or(1000),
        upstream: UpstreamOptions {
            balancing: options.balance_similar_node_groups.then_some(balancing),
            zero_or_max,
            startup_taints: words(&options.startup_taints),
            status_taints: words(&options.status_taints),
            force_daemon_sets: options.force_ds,
            scale_up_from_zero: options.scale_up_from_zero.unwrap_or(true),
            enforce_min: options.enforce_node_group_min_size,
            bypassed_schedulers: words(&options.bypassed_scheduler_names),
            simulate_skipped: options.scale_up_simulation_for_skipped_node_groups,
            gpu_label: Some("example.com/accelerator".into()),
            down: down(options),
        },
        max_removals: options.max_scale_down_parallelism.unwrap_or(10),
        max_drains: options.max_drain_parallelism.unwrap_or(1),
        ..ClusterSettings::default()
    };
    Config { profile: Profile::ClusterAutoscaler, epoch: 1, pools, cluster }
}

fn pool(group: &Group, options: &Options, own: &GroupOptions, priority: Option<i32>) -> Pool {
    let template = group.template.clone().unwrap_or_default();
    let node = template.to_core();
    let mut labels = node.labels.clone();
    labels.remove("kubernetes.io/hostname");
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    let or = |own: Option<i64>, all: Option<i64>| Seconds(own.or(all).unwrap_or(900));
    #[allow(clippy::cast_possible_truncation)]
    let price = group.price.map(|price| (price * 1e6).round() as i64);
    Pool {
        name: group.id.as_str().into(),
        uid: group.id.as_str().into(),
        created_at: UnixTime(0),
        deleting: false,
        mode: headroom_core::config::Mode::Apply,
        min_nodes: number(group.min),
        max_nodes: number(group.max),
        limit_cpu_milli: None,
        limit_memory_bytes: None,
        template: Some(NodeTemplate {
            labels,
            taints: node.taints,
            capacity: node.capacity,
            allocatable: node.allocatable,
        }),
        startup_taints: Vec::new(),
        price_per_hour_micro: price,
        priority: priority.unwrap_or(i32::MIN),
        group_scaling: headroom_core::config::GroupScaling::default(),
        scale_up: ScaleUp {
            enabled: true,
            provision_timeout: or(own.max_node_provision_s, options.max_node_provision_s),
            startup_timeout: or(own.max_node_startup_s, options.max_node_startup_s),
            backoff_initial: Seconds(options.initial_node_group_backoff_s.unwrap_or(300)),
            backoff_max: Seconds(options.max_node_group_backoff_s.unwrap_or(1800)),
            backoff_reset_after: Seconds(options.node_group_backoff_reset_s.unwrap_or(10_800)),
        },
        scale_down: scale_down(options, own),
        schedules: Vec::new(),
    }
}

fn down(options: &Options) -> DownOptions {
    let seconds = |given: Option<i64>, default: i64| Seconds(given.unwrap_or(default));
    DownOptions {
        enabled: options.scale_down_enabled.unwrap_or(true),
        unready_enabled: options.scale_down_unready_enabled.unwrap_or(true),
        unneeded_for: seconds(options.scale_down_unneeded_s, 600),
        delay_after_add: seconds(options.scale_down_delay_after_add_s, 600),
        delay_after_delete: seconds(options.scale_down_delay_after_delete_s, 0),
        delay_after_failure: seconds(options.scale_down_delay_after_failure_s, 180),
        delay_is_local: options.scale_down_delay_type_local,
        recheck_after: seconds(options.unremovable_node_recheck_timeout_s, 300),
        delay_after_taint: seconds(options.node_delete_delay_after_taint_s, 5),
        batch_for: Seconds(options.node_deletion_batcher_interval_s),
        soft_taints_max: options.max_bulk_soft_taint_count.unwrap_or(10),
        ignore_daemon_sets: options.ignore_daemonsets_utilization,
        ignore_mirror: options.ignore_mirror_pods_utilization,
        evict_daemon_sets_of_empty: options.daemonset_eviction_for_empty_nodes,
        evict_daemon_sets_of_occupied: options.daemonset_eviction_for_occupied_nodes.unwrap_or(true),
        cordon: options.cordon_node_before_terminating,
        min_cpu_milli: options.min_cores_total * 1000,
        min_memory_bytes: options.min_memory_total_gib << 30,
    }
}

fn scale_down(options: &Options, own: &GroupOptions) -> ScaleDown {
    let seconds = |own: Option<i64>, all: Option<i64>, default: i64| Seconds(own.or(all).unwrap_or(default));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let percent = |own: Option<f64>, all: Option<f64>| (own.or(all).unwrap_or(0.5) * 100.0).round() as u32;
    ScaleDown {
        utilization_threshold_percent: percent(
            own.scale_down_utilization_threshold,
            options.scale_down_utilization_threshold,
        ),
        gpu_utilization_threshold_percent: percent(
            own.scale_down_gpu_utilization_threshold,
            options.scale_down_gpu_utilization_threshold,
        ),
        unneeded_for: seconds(own.scale_down_unneeded_s, options.scale_down_unneeded_s, 600),
        unready_for: seconds(own.scale_down_unready_s, options.scale_down_unready_s, 1200),
        drain: Drain {
            max_grace_period: Seconds(options.max_graceful_termination_s.unwrap_or(600)),
            eviction_timeout: Seconds(options.max_pod_eviction_time_s.unwrap_or(120)),
            skip_local_storage: options.skip_nodes_with_local_storage.unwrap_or(true),
            skip_system_pods: options.skip_nodes_with_system_pods.unwrap_or(true),
            min_replicas: options.min_replica_count,
            system_pods_block_for: Seconds(options.bsp_disruption_timeout_s.unwrap_or(3600)),
            custom_controllers_block: options.skip_nodes_with_custom_controller_pods.unwrap_or(true),
        },
        ..ScaleDown::default()
    }
}
