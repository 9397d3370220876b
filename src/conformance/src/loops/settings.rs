//! The options of the loop families, with the reference's defaults, as the settings that users have.

use std::sync::Arc;

use headroom_core::config::{
    Budget, Ceiling, ClusterSettings, Config, Drain, Expander, GroupScaling, Mode, Pool, ScaleDown, ScaleUp,
};
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::GroupOptions as CoreOptions;
use serde::Deserialize;

use crate::choice::{Priorities, expander_named, priorities};
use crate::model::Group;

/// The reference's own limits on cores and memory, in cores and GiB.
const CORES_MAX: i64 = 320_000;
const MEMORY_GIB_MAX: i64 = 6_400_000;

#[derive(Clone, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    pub(crate) scale_down_enabled: Option<bool>,
    pub(crate) scale_down_unready_enabled: Option<bool>,
    pub(crate) scale_down_utilization_threshold: Option<f64>,
    pub(crate) scale_down_gpu_utilization_threshold: Option<f64>,
    pub(crate) scale_down_unneeded_s: Option<i64>,
    pub(crate) scale_down_unready_s: Option<i64>,
    pub(crate) scale_down_delay_after_add_s: Option<i64>,
    pub(crate) scale_down_delay_after_delete_s: Option<i64>,
    pub(crate) scale_down_delay_after_failure_s: Option<i64>,
    pub(crate) scale_down_delay_type_local: bool,
    pub(crate) max_scale_down_parallelism: Option<u32>,
    pub(crate) max_drain_parallelism: Option<u32>,
    pub(crate) unremovable_node_recheck_timeout_s: Option<i64>,
    pub(crate) max_graceful_termination_s: Option<i64>,
    pub(crate) max_pod_eviction_time_s: Option<i64>,
    pub(crate) node_delete_delay_after_taint_s: Option<i64>,
    pub(crate) node_deletion_batcher_interval_s: i64,
    pub(crate) ignore_daemonsets_utilization: bool,
    pub(crate) ignore_mirror_pods_utilization: bool,
    pub(crate) daemonset_eviction_for_empty_nodes: bool,
    pub(crate) daemonset_eviction_for_occupied_nodes: Option<bool>,
    pub(crate) cordon_node_before_terminating: bool,
    pub(crate) max_bulk_soft_taint_count: Option<usize>,
    pub(crate) skip_nodes_with_system_pods: Option<bool>,
    pub(crate) skip_nodes_with_local_storage: Option<bool>,
    pub(crate) skip_nodes_with_custom_controller_pods: Option<bool>,
    pub(crate) min_replica_count: u32,
    pub(crate) bsp_disruption_timeout_s: Option<i64>,
    /// Parsed and never read by the reference.
    #[allow(dead_code)]
    pub(crate) scale_down_non_empty_candidates_count: Option<i64>,
    #[allow(dead_code)]
    pub(crate) scale_down_candidates_pool_ratio: Option<f64>,
    #[allow(dead_code)]
    pub(crate) scale_down_candidates_pool_min_count: Option<i64>,
    /// Real time, of which these worlds have none.
    #[allow(dead_code)]
    pub(crate) max_bulk_soft_taint_time_s: Option<i64>,
    pub(crate) expander: Option<String>,
    pub(crate) max_nodes_total: u32,
    pub(crate) max_cores_total: Option<i64>,
    pub(crate) max_memory_total_gib: Option<i64>,
    pub(crate) min_cores_total: i64,
    pub(crate) min_memory_total_gib: i64,
    pub(crate) balance_similar_node_groups: bool,
    pub(crate) balancing_ignore_labels: Vec<String>,
    pub(crate) scale_up_from_zero: Option<bool>,
    pub(crate) enforce_node_group_min_size: bool,
    pub(crate) expendable_pods_priority_cutoff: Option<i32>,
    pub(crate) new_pod_scale_up_delay_s: i64,
    pub(crate) max_nodes_per_scaleup: Option<u32>,
    pub(crate) max_total_unready_percentage: Option<u32>,
    pub(crate) ok_total_unready_count: Option<u32>,
    pub(crate) max_node_provision_s: Option<i64>,
    pub(crate) max_node_startup_s: Option<i64>,
    pub(crate) initial_node_group_backoff_s: Option<i64>,
    pub(crate) max_node_group_backoff_s: Option<i64>,
    pub(crate) node_group_backoff_reset_s: Option<i64>,
    pub(crate) bypassed_scheduler_names: Vec<String>,
    pub(crate) startup_taints: Vec<String>,
    pub(crate) status_taints: Vec<String>,
    pub(crate) force_ds: bool,
    pub(crate) scale_up_simulation_for_skipped_node_groups: bool,
    /// Chooses between two ways that the reference has to the same numbers.
    #[allow(dead_code)]
    pub(crate) fastpath_binpacking: bool,
}

#[derive(Clone, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GroupOptions {
    pub(crate) zero_or_max: bool,
    #[allow(dead_code)]
    pub(crate) allow_non_atomic_scale_up_to_max: bool,
    pub(crate) max_node_provision_s: Option<i64>,
    pub(crate) max_node_startup_s: Option<i64>,
    pub(crate) scale_down_utilization_threshold: Option<f64>,
    pub(crate) scale_down_gpu_utilization_threshold: Option<f64>,
    pub(crate) scale_down_unneeded_s: Option<i64>,
    pub(crate) scale_down_unready_s: Option<i64>,
    pub(crate) ignore_daemonsets_utilization: Option<bool>,
}

/// The documented options of a group; all absent where it has none.
pub(crate) fn group_options(group: &Group) -> Result<GroupOptions, String> {
    let own: Option<GroupOptions> =
        serde_json::from_value(group.options.clone()).map_err(|error| error.to_string())?;
    Ok(own.unwrap_or_default())
}

/// The same as the provider of the group would report them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn reported(own: &GroupOptions) -> CoreOptions {
    let percent = |fraction: Option<f64>| fraction.map(|fraction| (fraction * 100.0).round() as u32);
    CoreOptions {
        utilization_threshold_percent: percent(own.scale_down_utilization_threshold),
        gpu_utilization_threshold_percent: percent(own.scale_down_gpu_utilization_threshold),
        unneeded_for: own.scale_down_unneeded_s.map(Seconds),
        unready_for: own.scale_down_unready_s.map(Seconds),
        provision_timeout: own.max_node_provision_s.map(Seconds),
        ignore_daemon_sets: own.ignore_daemonsets_utilization,
    }
}

/// Each group as a pool of its own, with the same settings.
pub(crate) fn config(
    options: &Options,
    groups: &[Group],
    written: Option<&Priorities>,
) -> Result<Config, String> {
    let ids = groups.iter().map(|group| group.id.as_str());
    let by_priority = priorities(written, ids);
    let mut pools: Vec<Pool> = Vec::new();
    for group in groups {
        let own = group_options(group)?;
        pools.push(pool(group, options, &own, by_priority.get(&group.id).copied()));
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let chain = options.expander.as_deref().unwrap_or("least-waste");
    let cluster = ClusterSettings {
        expanders: chain.split(',').map(expander_named).collect::<Vec<Expander>>(),
        max_nodes: (options.max_nodes_total != 0).then_some(options.max_nodes_total),
        max_cpu_milli: Some(options.max_cores_total.unwrap_or(CORES_MAX) * 1000),
        max_memory_bytes: Some(options.max_memory_total_gib.unwrap_or(MEMORY_GIB_MAX) << 30),
        min_cpu_milli: (options.min_cores_total != 0).then_some(options.min_cores_total * 1000),
        min_memory_bytes: (options.min_memory_total_gib != 0).then_some(options.min_memory_total_gib << 30),
        balance_similar_pools: options.balance_similar_node_groups,
        max_unready_percent: options.max_total_unready_percentage.unwrap_or(45),
        ok_unready_count: options.ok_total_unready_count.unwrap_or(3),
        expendable_pods_priority_cutoff: options.expendable_pods_priority_cutoff.unwrap_or(-10),
        new_pod_delay: Seconds(options.new_pod_scale_up_delay_s),
        max_nodes_per_scale_up: options.max_nodes_per_scaleup.unwrap_or(1000),
        max_removals: options.max_scale_down_parallelism.unwrap_or(10),
        max_drains: options.max_drain_parallelism.unwrap_or(1),
        // The vectors name controllers that want more pods than there are, and the reference does not look at that.
        anticipation: false,
        ..ClusterSettings::default()
    };
    Ok(Config { epoch: 1, pools, cluster })
}

fn pool(group: &Group, options: &Options, own: &GroupOptions, priority: Option<i32>) -> Pool {
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    #[allow(clippy::cast_possible_truncation)]
    let price = group.price.map(|price| (price * 1e6).round() as i64);
    let startup = |key: &String| Taint {
        key: key.as_str().into(),
        value: Arc::from(""),
        effect: TaintEffect::NoSchedule,
    };
    let or = |own: Option<i64>, all: Option<i64>| Seconds(own.or(all).unwrap_or(900));
    Pool {
        name: group.id.as_str().into(),
        uid: group.id.as_str().into(),
        created_at: UnixTime(0),
        deleting: false,
        mode: Mode::Apply,
        // The reference raises a group to its minimum only if asked to; below it, it removes nothing all the same.
        min_nodes: if options.enforce_node_group_min_size { number(group.min) } else { 0 },
        max_nodes: number(group.max),
        limit_cpu_milli: None,
        limit_memory_bytes: None,
        template: None,
        devices: None,
        attach_limits: None,
        startup_taints: options.startup_taints.iter().map(startup).collect(),
        price_per_hour_micro: price,
        priority: priority.unwrap_or(i32::MIN),
        group_scaling: if own.zero_or_max { GroupScaling::ZeroOrMax } else { GroupScaling::PerNode },
        scale_up: ScaleUp {
            enabled: true,
            provision_timeout: or(own.max_node_provision_s, options.max_node_provision_s),
            startup_timeout: or(own.max_node_startup_s, options.max_node_startup_s),
            backoff_initial: Seconds(options.initial_node_group_backoff_s.unwrap_or(300)),
            backoff_max: Seconds(options.max_node_group_backoff_s.unwrap_or(1800)),
            backoff_reset_after: Seconds(options.node_group_backoff_reset_s.unwrap_or(10_800)),
        },
        scale_down: scale_down(options),
        schedules: Vec::new(),
    }
}

fn scale_down(options: &Options) -> ScaleDown {
    let seconds = |given: Option<i64>, default: i64| Seconds(given.unwrap_or(default));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let percent = |given: Option<f64>| (given.unwrap_or(0.5) * 100.0).round() as u32;
    let no_unready = Budget {
        name: "unready".into(),
        ceiling: Ceiling::Nodes(0),
        reasons: vec![Reason::Unready],
        window: None,
    };
    let unready_goes = options.scale_down_unready_enabled.unwrap_or(true);
    ScaleDown {
        enabled: options.scale_down_enabled.unwrap_or(true),
        utilization_threshold_percent: percent(options.scale_down_utilization_threshold),
        gpu_utilization_threshold_percent: percent(options.scale_down_gpu_utilization_threshold),
        ignore_daemon_sets: options.ignore_daemonsets_utilization,
        ignore_mirror: options.ignore_mirror_pods_utilization,
        unneeded_for: seconds(options.scale_down_unneeded_s, 600),
        unready_for: seconds(options.scale_down_unready_s, 1200),
        delay_after_add: seconds(options.scale_down_delay_after_add_s, 600),
        delay_after_delete: seconds(options.scale_down_delay_after_delete_s, 0),
        delay_after_failure: seconds(options.scale_down_delay_after_failure_s, 180),
        // Cluster Autoscaler has none.
        eviction_cooldown: Seconds(0),
        budgets: if unready_goes { Vec::new() } else { vec![no_unready] },
        drain: Drain {
            max_grace_period: seconds(options.max_graceful_termination_s, 600),
            eviction_timeout: seconds(options.max_pod_eviction_time_s, 120),
            skip_local_storage: options.skip_nodes_with_local_storage.unwrap_or(true),
            skip_system_pods: options.skip_nodes_with_system_pods.unwrap_or(true),
            min_replicas: options.min_replica_count,
            system_pods_block_for: seconds(options.bsp_disruption_timeout_s, 3600),
            custom_controllers_block: options.skip_nodes_with_custom_controller_pods.unwrap_or(true),
        },
        ..ScaleDown::default()
    }
}
