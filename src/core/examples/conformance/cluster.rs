//! The family that follows groups over time: targets, nodes and instances in, readiness, ranges and backoff out.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::ScaleUp;
use headroom_core::nodes::registry::{
    GroupReport, GroupSeen, InstanceSeen, NodeCondition, NodeSeen, Readiness, Registry, Report, Seen,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{FailureClass, InstanceState};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::model::{Group, Node};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    groups: Vec<Group>,
    max_total_unready_percentage: u32,
    ok_total_unready_count: u32,
    max_node_provision_s: i64,
    max_node_startup_s: i64,
    backoff_initial_max_reset_s: (i64, i64, i64),
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Step {
    at_s: i64,
    targets: Option<BTreeMap<String, i64>>,
    nodes: Option<Vec<Node>>,
    keep_nodes: bool,
    instances: Option<BTreeMap<String, Option<Vec<Instance>>>>,
    register_scale_up: Option<Vec<Increase>>,
    register_scale_down: Option<Vec<Removal>>,
    register_failed_scale_up: Option<Vec<Failure>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    id: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Increase {
    group: String,
    delta: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    group: String,
    #[allow(dead_code)]
    node: String,
    expected_delete_s: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    group: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Overrides {
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
}

/// The state after each step.
pub fn cluster_state(input: &Value) -> Result<Value, serde_json::Error> {
    let input: Input = serde_json::from_value(input.clone())?;
    let mut seen = beginning(&input)?;
    let mut registry = Registry::default();
    let mut steps = Vec::new();
    for step in &input.steps {
        let now = UnixTime(step.at_s);
        observe(&mut seen, step);
        for told in step.register_scale_up.iter().flatten() {
            let settings = settings(&seen, &told.group);
            registry.register_scale_up(&told.group.as_str().into(), told.delta, now, &settings);
        }
        for told in step.register_scale_down.iter().flatten() {
            registry.register_scale_down(&told.group.as_str().into(), UnixTime(told.expected_delete_s));
        }
        for told in step.register_failed_scale_up.iter().flatten() {
            let (class, settings) = (failure(&told.error), settings(&seen, &told.group));
            registry.register_failed_scale_up(&told.group.as_str().into(), class, "", now, &settings);
        }
        let report = registry.update(&seen, now);
        // The cloud does what it is asked at once.
        for (group, nodes) in &report.reverts {
            if let Some(group) = seen.groups.get_mut(group) {
                group.target -= nodes;
            }
        }
        steps.push(told(&report, &seen));
    }
    Ok(json!({ "steps": steps }))
}

fn beginning(input: &Input) -> Result<Seen, serde_json::Error> {
    let (initial, max, reset) = input.backoff_initial_max_reset_s;
    let general = ScaleUp {
        enabled: true,
        provision_timeout: Seconds(input.max_node_provision_s),
        startup_timeout: Seconds(input.max_node_startup_s),
        backoff_initial: Seconds(initial),
        backoff_max: Seconds(max),
        backoff_reset_after: Seconds(reset),
    };
    let mut seen = Seen {
        settings: general,
        max_unready_percent: input.max_total_unready_percentage,
        ok_unready_count: input.ok_total_unready_count,
        ..Seen::default()
    };
    for group in &input.groups {
        let own: Option<Overrides> = serde_json::from_value(group.options.clone())?;
        let own = own.unwrap_or_default();
        let mut settings = general;
        settings.provision_timeout = own.max_node_provision_s.map_or(general.provision_timeout, Seconds);
        settings.startup_timeout = own.max_node_startup_s.map_or(general.startup_timeout, Seconds);
        let told = GroupSeen { target: group.target, settings, instances: BTreeMap::new() };
        seen.groups.insert(group.id.as_str().into(), told);
    }
    Ok(seen)
}

fn settings(seen: &Seen, group: &str) -> ScaleUp {
    seen.groups.get(group).map_or(seen.settings, |group| group.settings)
}

fn observe(seen: &mut Seen, step: &Step) {
    for (id, target) in step.targets.iter().flatten() {
        if let Some(group) = seen.groups.get_mut(id.as_str()) {
            group.target = *target;
        }
    }
    if !step.keep_nodes {
        seen.nodes = step.nodes.iter().flatten().map(node).collect();
    }
    for (id, instances) in step.instances.iter().flatten() {
        if let Some(group) = seen.groups.get_mut(id.as_str()) {
            group.instances =
                instances.iter().flatten().map(|one| (one.id.as_str().into(), instance(one))).collect();
        }
    }
}

fn node(node: &Node) -> NodeSeen {
    let condition = match node.ready.as_deref() {
        _ if node.suspended => NodeCondition::Suspended,
        None | Some("True") => NodeCondition::Ready,
        Some(_) => NodeCondition::NotReady,
    };
    NodeSeen {
        name: node.name.as_str().into(),
        instance: format!("fake://{}", node.name).into(),
        condition,
        created_at: UnixTime(node.created_s),
    }
}

fn instance(told: &Instance) -> InstanceSeen {
    let state = match told.state.as_deref() {
        Some("creating") => InstanceState::Creating,
        Some("deleting") => InstanceState::Deleting,
        _ => InstanceState::Running,
    };
    InstanceSeen { state, error: told.error.as_deref().map(failure) }
}

fn failure(word: &str) -> FailureClass {
    if word == "quota" { FailureClass::QuotaExceeded } else { FailureClass::Other }
}

fn told(report: &Report, seen: &Seen) -> Value {
    let groups: Map<String, Value> = report
        .groups
        .iter()
        .map(|(id, group)| {
            let target = seen.groups.get(id).map_or(0, |group| group.target);
            (id.to_string(), told_group(group, target))
        })
        .collect();
    let total = &report.total;
    let mut waiting: Vec<&str> =
        total.unregistered.iter().chain(&total.long_unregistered).map(|id| &**id).collect();
    waiting.sort_unstable();
    json!({
        "cluster_healthy": report.cluster_healthy,
        "total": told_readiness(total),
        "groups": groups,
        "unregistered_nodes": waiting,
    })
}

fn told_group(group: &GroupReport, target: i64) -> Value {
    let mut told = json!({
        "healthy": group.healthy,
        "safe_to_scale_up": group.safe_to_scale_up(),
        "backed_off": group.backoff.is_some(),
        "at_target_size": group.at_target_size(),
        "scaling_up": group.scaling_up,
        "upcoming": group.upcoming,
        "acceptable_min": group.acceptable_min,
        "acceptable_max": group.acceptable_max,
        "acceptable_current_target": group.target,
        "provider_target": target,
    });
    let mut tell = |key: &str, value: Value| {
        if let Some(object) = told.as_object_mut() {
            object.insert(key.into(), value);
        }
    };
    if let Some(backoff) = &group.backoff {
        let word = match backoff.class {
            FailureClass::ProvisionTimeout => "timeout",
            FailureClass::QuotaExceeded => "QUOTA",
            _ => "OTHER",
        };
        tell("backoff_error", word.into());
    }
    if let Some(readiness) = &group.readiness {
        tell("readiness", told_readiness(readiness));
        if group.upcoming > 0 && !readiness.not_started.is_empty() {
            tell("upcoming_registered", names(&readiness.not_started));
        }
    }
    if let Some(incorrect) = &group.incorrect {
        tell("incorrect_size_current_expected", json!([incorrect.current, incorrect.expected]));
        tell("incorrect_since_s", incorrect.since.0.into());
    }
    if !group.failed_instances.is_empty() {
        tell("created_with_errors", names(&group.failed_instances));
    }
    told
}

fn names(all: &[Arc<str>]) -> Value {
    all.iter().map(|name| &**name).collect()
}

fn told_readiness(readiness: &Readiness) -> Value {
    json!({
        "ready": readiness.ready.len(),
        "unready": readiness.unready.len(),
        "not_started": readiness.not_started.len(),
        "suspended": readiness.suspended.len(),
        "deleted": readiness.deleted.len(),
        "registered": readiness.registered.len(),
        "unregistered": readiness.unregistered.len(),
        "long_unregistered": readiness.long_unregistered.len(),
    })
}
