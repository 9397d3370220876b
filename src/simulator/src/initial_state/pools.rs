//! Pools and cluster settings as the manifests that they were read from, on simulated machines instead of a cloud's.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::config::{
    Budget, Ceiling, ClusterSettings, Expander, Policy, Pool, RepairRule, RequestSettings, Rotation, Schedule,
};
use headroom_core::known::Known;
use headroom_core::labels::Labels;
use headroom_core::nodes::state::template::is_passing;
use headroom_core::quantity::format_price;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::Taint;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::Seconds;
use headroom_core::world::node::{DELETION_TAINT, HOSTNAME_LABEL, POOL_LABEL, Readiness, ZONE_LABEL};
use headroom_core::world::template::NodeTemplate;
use serde_json::{Value, json};

use super::volumes;
use super::words::{amounts, duration, pruned, window};

/// The pool's manifest; `None` while nobody knows the shape of its nodes.
pub(super) fn node_pool(
    pool: &Pool,
    snapshot: &Snapshot,
    zones: &BTreeSet<Arc<str>>,
    join_delay: Seconds,
) -> Option<Value> {
    let shape = shape(pool, snapshot)?;
    let (min, max) = bounds(pool, snapshot);
    let (up, down) = (&pool.scale_up, &pool.scale_down);
    let cheaper = match &down.policy {
        Policy::WhenUnderutilized => None,
        Policy::WhenCheaper(consolidation) => Some(consolidation),
    };
    Some(pruned(json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": pool.name},
        "spec": {
            "mode": pool.mode,
            "provider": {"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": duration(join_delay)}}},
            "minNodes": min, "maxNodes": max,
            "limits": {
                "cpu": pool.limit_cpu_milli.map(|milli| format!("{milli}m")),
                "memory": pool.limit_memory_bytes.map(|bytes| bytes.to_string()),
            },
            "template": {
                "labels": own_labels(&shape.labels),
                "taints": shape.taints.iter().map(taint).collect::<Vec<_>>(),
                "startupTaints": pool.startup_taints.iter().map(taint).collect::<Vec<_>>(),
                "capacity": amounts(&shape.capacity),
                "reserved": amounts(&reserved(&shape)),
            },
            "price": pool.price_per_hour_micro.map(|micro| json!({"perHour": format_price(micro)})),
            "priority": pool.priority,
            "groupScaling": pool.group_scaling,
            "scaleUp": {
                "enabled": up.enabled,
                "provisionTimeout": duration(up.provision_timeout), "startupTimeout": duration(up.startup_timeout),
                "backoff": {
                    "initial": duration(up.backoff_initial), "max": duration(up.backoff_max),
                    "resetAfter": duration(up.backoff_reset_after),
                },
            },
            "scaleDown": {
                "enabled": down.enabled,
                "policy": if cheaper.is_some() { "WhenCheaper" } else { "WhenUnderutilized" },
                "minSaving": cheaper.map(|cheaper| cheaper.min_saving_percent),
                "consolidateAfter": cheaper.map(|cheaper| duration(cheaper.consolidate_after)),
                "utilizationThreshold": down.utilization_threshold_percent,
                "gpuUtilizationThreshold": down.gpu_utilization_threshold_percent,
                "ignoreDaemonSetsUtilization": down.ignore_daemon_sets,
                "ignoreMirrorPodsUtilization": down.ignore_mirror,
                "unneededFor": duration(down.unneeded_for), "unreadyFor": duration(down.unready_for),
                "delayAfterAdd": duration(down.delay_after_add),
                "delayAfterDelete": duration(down.delay_after_delete),
                "delayAfterFailure": duration(down.delay_after_failure),
                "evictionCooldown": duration(down.eviction_cooldown),
                "budgets": down.budgets.iter().map(budget).collect::<Vec<_>>(),
                "drain": {
                    "maxGracePeriod": duration(down.drain.max_grace_period),
                    "evictionTimeout": duration(down.drain.eviction_timeout),
                    "skipLocalStorage": down.drain.skip_local_storage,
                    "skipSystemPods": down.drain.skip_system_pods,
                    "minReplicas": down.drain.min_replicas,
                },
            },
            "rotation": rotation(&down.rotation),
            "repair": down.rotation.repair.iter().map(repair_rule).collect::<Vec<_>>(),
            "schedules": pool.schedules.iter().map(schedule).collect::<Vec<_>>(),
        },
    })))
}

/// `None` in pools that replace no outdated node.
fn rotation(rotation: &Rotation) -> Option<Value> {
    let drift = rotation.replace_drifted.then_some("Replace");
    let preferred = rotation.prefer_other_pool.then_some("Replace");
    (drift.is_some() || rotation.max_age.is_some() || preferred.is_some()).then(
        || json!({"maxAge": rotation.max_age.map(duration), "drift": drift, "preferredPool": preferred}),
    )
}

fn repair_rule(rule: &RepairRule) -> Value {
    json!({"condition": rule.condition, "status": rule.status.as_str(), "for": duration(rule.after)})
}

/// The cluster's settings as the one ClusterScalingPolicy.
pub(super) fn cluster_policy(cluster: &ClusterSettings) -> Value {
    let milli = |amount: Option<i64>| amount.map(|milli| format!("{milli}m"));
    let bytes = |amount: Option<i64>| amount.map(|bytes| bytes.to_string());
    // Chance is for the golden vectors; no field has it. And a simulation has no server to ask.
    let no_field = [Expander::Random, Expander::Grpc];
    let expanders: Vec<Expander> =
        cluster.expanders.iter().copied().filter(|each| !no_field.contains(each)).collect();
    pruned(json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy",
        "metadata": {"name": "default"},
        "spec": {"nodes": {
            "expanders": expanders,
            "balanceSimilarPools": cluster.balance_similar_pools,
            "limits": {
                "nodes": cluster.max_nodes, "cpu": milli(cluster.max_cpu_milli),
                "memory": bytes(cluster.max_memory_bytes),
                "min": {"cpu": milli(cluster.min_cpu_milli), "memory": bytes(cluster.min_memory_bytes)},
            },
            "health": {
                "maxUnreadyPercent": cluster.max_unready_percent, "okUnreadyCount": cluster.ok_unready_count,
            },
            "expendablePodsPriorityCutoff": cluster.expendable_pods_priority_cutoff,
            "newPodDelay": duration(cluster.new_pod_delay),
            "immediateSchedulers": cluster.immediate_schedulers,
            "removals": {
                "maxParallel": cluster.max_removals, "maxParallelDrains": cluster.max_drains,
                "budgets": cluster.budgets.iter().map(budget).collect::<Vec<_>>(),
            },
            "voluntaryDisruption": if cluster.voluntary_disruption_stopped { "Stopped" } else { "Allowed" },
            "capacityBuffers": if cluster.default_buffers { "All" } else { "Own" },
            "provisioningRequests": requests(&cluster.requests),
            "anticipation": {
                "enabled": cluster.anticipation, "maxPods": cluster.max_anticipated_pods,
                "maxPodsPerNamespace": cluster.max_anticipated_pods_per_namespace,
            },
        }},
    }))
}

fn requests(settings: &RequestSettings) -> Value {
    let classes = [
        (settings.check_capacity, "CheckCapacity"),
        (settings.best_effort_atomic, "BestEffortAtomicScaleUp"),
    ];
    let classes = classes.iter().filter(|(served, _)| *served).map(|(_, class)| *class);
    json!({
        "classes": classes.collect::<Vec<_>>(), "processorInstance": settings.processor_instance,
        "bookingFor": duration(settings.booking_for),
    })
}

/// Returns the template of a new node: the one that the pool declares, else that of its first ready node, else that of
/// its cloud.
fn shape(pool: &Pool, snapshot: &Snapshot) -> Option<NodeTemplate> {
    if let Some(template) = &pool.template {
        return Some(template.clone());
    }
    let lasting = |taints: &[Taint]| -> Vec<Taint> {
        let lasts = |taint: &&Taint| &*taint.key != DELETION_TAINT && !is_passing(taint, pool);
        taints.iter().filter(lasts).cloned().collect()
    };
    let state = snapshot.world.providers.get(&pool.name).and_then(Known::value);
    let instances: BTreeSet<&Arc<str>> = state
        .into_iter()
        .flat_map(|state| state.groups.values())
        .flat_map(|group| group.instances.values().filter_map(|instance| instance.node.as_ref()))
        .collect();
    let live = snapshot.world.nodes.iter().find(|node| {
        let own = node.labels.get(POOL_LABEL) == Some(&pool.name) || instances.contains(&node.name);
        own && node.ready == Readiness::Ready
    });
    if let Some(node) = live {
        return Some(NodeTemplate {
            labels: node.labels.clone(),
            taints: lasting(&node.taints),
            capacity: node.capacity.clone(),
            allocatable: node.allocatable.clone(),
        });
    }
    let mut groups = state.into_iter().flat_map(|state| state.groups.values());
    let said = groups.find_map(|group| group.template.as_ref())?;
    Some(NodeTemplate { taints: lasting(&said.node.taints), ..said.node.clone() })
}

/// The labels that a template may have: those that each node gets of its own are set when it is made.
fn own_labels(labels: &Labels) -> Labels {
    let own = |key: &str| {
        key != HOSTNAME_LABEL
            && key != ZONE_LABEL
            && !key.starts_with("headroom.dev/")
            && !volumes::is_zone_alias(key)
    };
    labels.iter().filter(|(key, _)| own(key)).collect()
}

/// Returns the amounts of the machine that pods cannot use.
fn reserved(shape: &NodeTemplate) -> Resources {
    let (whole, offered) = (&shape.capacity, &shape.allocatable);
    let less = |whole: i64, offered: i64| whole.saturating_sub(offered).max(0);
    let mut reserved = Resources::new(
        less(whole.cpu_milli, offered.cpu_milli),
        less(whole.memory_bytes, offered.memory_bytes),
    );
    reserved.ephemeral_bytes = less(whole.ephemeral_bytes, offered.ephemeral_bytes);
    reserved.pods = less(whole.pods, offered.pods);
    for (name, amount) in whole.extended_iter() {
        reserved.set_extended(name.clone(), less(amount, offered.extended(name)));
    }
    reserved
}

/// The pool's bounds, narrowed by those of its groups as the cloud would narrow them.
fn bounds(pool: &Pool, snapshot: &Snapshot) -> (u32, u32) {
    let state = snapshot.world.providers.get(&pool.name).and_then(Known::value);
    let Some(state) = state.filter(|state| !state.groups.is_empty()) else {
        return (pool.min_nodes, pool.max_nodes);
    };
    let sum = |bound: fn(&headroom_core::world::provider::GroupState) -> u32| {
        state.groups.values().map(bound).fold(0, u32::saturating_add)
    };
    let max = pool.max_nodes.min(sum(|group| group.max));
    (pool.min_nodes.max(sum(|group| group.min)).min(max), max)
}

fn taint(taint: &Taint) -> Value {
    let value = (!taint.value.is_empty()).then_some(&taint.value);
    json!({"key": taint.key, "value": value, "effect": taint.effect})
}

/// Millionths of a currency unit as the decimal number that the field takes.
fn budget(budget: &Budget) -> Value {
    let ceiling = match budget.ceiling {
        Ceiling::Nodes(count) => json!(count),
        Ceiling::Percent(percent) => json!(format!("{percent}%")),
    };
    let opens = budget.window.as_ref().map(window);
    json!({"name": budget.name, "maxNodes": ceiling, "reasons": budget.reasons, "window": opens})
}

fn schedule(schedule: &Schedule) -> Value {
    json!({
        "name": schedule.name, "window": window(&schedule.window),
        "minNodes": schedule.min_nodes, "maxNodes": schedule.max_nodes,
    })
}
