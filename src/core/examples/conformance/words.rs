//! What a loop tells, in the words of the reference, in an order that both sides share.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::nodes::upstream::{
    LoopStatus, Rejection, ScaleDownResult, ScaleDownStatus, ScaleUpResult, ScaleUpStatus, Skip,
};
use headroom_core::scheduling::Refusal;
use headroom_core::world::{PodId, World};
use serde_json::{Map, Value, json};

/// The first tick that differs.
pub fn difference(expected: &Value, got: &Value) -> String {
    let none = Vec::new();
    let ticks = |value: &'_ Value| value["ticks"].as_array().cloned().unwrap_or(none.clone());
    for (number, (wanted, had)) in ticks(expected).iter().zip(ticks(got)).enumerate() {
        if *wanted != had {
            return format!("tick {number}: expected {wanted}\n       got {had}");
        }
    }
    format!("final targets: expected {}\n       got {}", expected["final_targets"], got["final_targets"])
}

/// Every tick with its actions and status, from the listed ones.
pub fn expanded(out: &Value, ticks: i64) -> Value {
    let listed = out["ticks"].as_array().cloned().unwrap_or_default();
    let mut up = Value::Array(Vec::new());
    let mut down = Value::Null;
    let mut all = Vec::new();
    for tick in 0..ticks {
        let found = listed.iter().find(|listed| listed["tick"] == tick);
        let actions = found.map(|found| found["actions"].clone()).unwrap_or_default();
        if let Some(told) = found.and_then(|found| found["scale_up"].as_array()) {
            up = told.iter().map(normal).collect();
        }
        if let Some(told) = found.map(|found| &found["scale_down"]).filter(|told| told.is_object()) {
            down = normal(told);
        }
        let actions = actions.as_array().cloned().unwrap_or_default();
        all.push(json!({
            "actions": sorted(actions.into_iter()),
            "scale_up": up,
            "scale_down": down,
        }));
    }
    json!({"ticks": all, "final_targets": out["final_targets"]})
}

/// The report of scaling down; null when it is off.
pub fn told_scale_down(status: Option<&ScaleDownStatus>) -> Value {
    let Some(status) = status else { return Value::Null };
    let names = |all: &[Arc<str>]| -> Value { all.iter().map(|name| &**name).collect() };
    let unremovable = status.unremovable.iter().map(|one| {
        let mut told = json!({"node": &*one.node, "reason": one.why.as_str()});
        if let Some((pod, reason)) = &one.pod {
            told["pod"] = pod.to_string().into();
            told["pod_reason"] = reason.as_str().into();
        }
        told
    });
    let results = status.results.iter().map(|(node, result)| format!("{node}:{}", *result as u8));
    let result = match status.result {
        ScaleDownResult::NoNodeDeleted => "no_node_deleted",
        ScaleDownResult::DeleteStarted => "delete_started",
        ScaleDownResult::InCooldown => "in_cooldown",
        ScaleDownResult::NoCandidates => "no_candidates",
        ScaleDownResult::NotTried => "not_tried",
    };
    normal(&json!({
        "result": result,
        "unneeded": names(&status.unneeded),
        "unremovable": unremovable.collect::<Value>(),
        "started": names(&status.started),
        "delete_results": results.collect::<Value>(),
    }))
}

/// The values in an order that does not depend on how they came.
///
/// Soft taints count by the tick: within it the reference's own pace shows.
pub fn sorted(values: impl Iterator<Item = Value>) -> Value {
    let mut all: Vec<Value> = values.collect();
    for value in &mut all {
        let soft = value["action"].as_str().is_some_and(|action| action.starts_with("soft_"));
        if let Some(object) = value.as_object_mut().filter(|_| soft) {
            object.remove("at_s");
        }
    }
    all.sort_by_key(Value::to_string);
    Value::Array(all)
}

/// A status with every list sorted and nothing empty.
fn normal(status: &Value) -> Value {
    let mut normal = Map::new();
    for (key, value) in status.as_object().into_iter().flatten() {
        let value = match value {
            Value::Array(all) => sorted(all.iter().map(normal_part)),
            other => other.clone(),
        };
        let empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty)
            || value.is_null();
        if !empty {
            normal.insert(key.clone(), value);
        }
    }
    Value::Object(normal)
}

fn normal_part(value: &Value) -> Value {
    match value {
        Value::Object(_) => normal(value),
        other => other.clone(),
    }
}

/// The reports of a loop; `failed` is the group whose increase failed, `entries` the input's name of each pod.
pub fn told(
    status: &LoopStatus,
    failed: Option<&Arc<str>>,
    world: &World,
    entries: &BTreeMap<ObjectKey, String>,
) -> Value {
    let first = status.scale_up.as_ref().map(|report| match failed {
        Some(group) => report.after_failure(group),
        None => report.clone(),
    });
    let stopped = failed.is_some();
    let second = status.min_size.as_ref().filter(|_| !stopped);
    first.iter().chain(second).map(|report| normal(&told_report(report, world, entries))).collect()
}

fn told_report(report: &ScaleUpStatus, world: &World, entries: &BTreeMap<ObjectKey, String>) -> Value {
    let count = |pods: &[PodId]| -> Value {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for id in pods {
            let key = &world.pod(*id).pod.key;
            let entry = entries.get(key).cloned().unwrap_or_else(|| key.to_string());
            *counts.entry(entry).or_insert(0) += 1;
        }
        json!(counts)
    };
    let mut refused: BTreeMap<(String, String), (Value, Value, Vec<PodId>)> = BTreeMap::new();
    for pods in &report.refused {
        let rejected: BTreeMap<&str, Vec<String>> =
            pods.rejected.iter().map(|(group, why)| (&**group, rejection(why))).collect();
        let skipped: BTreeMap<&str, Vec<String>> =
            pods.skipped.iter().map(|(group, why)| (&**group, vec![skip(why)])).collect();
        let (rejected, skipped) = (json!(rejected), json!(skipped));
        let key = (rejected.to_string(), skipped.to_string());
        refused.entry(key).or_insert((rejected, skipped, Vec::new())).2.extend(&pods.pods);
    }
    let refused = refused.values().map(
        |(rejected, skipped, pods)| json!({"pods": count(pods), "rejected": rejected, "skipped": skipped}),
    );
    let options = report.options.iter().map(|option| {
        let similar: Vec<&str> = option.similar.iter().map(|group| &**group).collect();
        json!({"group": &*option.group, "nodes": option.nodes, "pods": option.pods, "similar": similar})
    });
    let increased = report
        .increased
        .iter()
        .map(|resized| json!({"group": &*resized.group, "current": resized.current, "new": resized.new}));
    let names = |all: &[Arc<str>]| -> Value { all.iter().map(|name| &**name).collect() };
    json!({
        "result": result(report.result),
        "increased": increased.collect::<Value>(),
        "options": options.collect::<Value>(),
        "expander_tie": names(&report.tie),
        "triggered": count(&report.triggered),
        "awaiting": count(&report.awaiting),
        "no_scale_up": refused.collect::<Value>(),
        "failed_groups": names(&report.failed_groups),
    })
}

fn result(result: ScaleUpResult) -> &'static str {
    match result {
        ScaleUpResult::Successful => "Successful",
        ScaleUpResult::Error => "Error",
        ScaleUpResult::NotNeeded => "NotNeeded",
        ScaleUpResult::NotTried => "NotTried",
        ScaleUpResult::NoOptionsAvailable => "NoOptionsAvailable",
        ScaleUpResult::InCooldown => "InCooldown",
        ScaleUpResult::LimitedByMaxNodesTotal => "LimitedByMaxNodesTotal",
    }
}

fn skip(skip: &Skip) -> String {
    match skip {
        Skip::BackedOff => "in backoff after failed scale-up".into(),
        Skip::NotReady => "not ready for scale-up".into(),
        Skip::MaxSize => "max node group size reached".into(),
        Skip::AtomicOverNodeLimit => "atomic scale-up exceeds cluster node count limit".into(),
        Skip::Quota(resources) => {
            format!("exceeded quota: \"cluster-wide\", resources: {}", resources.join(", "))
        }
    }
}

fn rejection(rejection: &Rejection) -> Vec<String> {
    let (refusal, short) = match rejection {
        Rejection::ExecutionFailed => return vec!["scale-up execution failed".into()],
        Rejection::Refused(refusal, short) => (refusal, short),
    };
    let words = match refusal {
        Refusal::Unschedulable => "node(s) were unschedulable",
        Refusal::Taint(_) => "node(s) had untolerated taint(s)",
        Refusal::NodeName { .. } => "node(s) didn't match the requested node name",
        Refusal::NodeSelector { .. } | Refusal::NodeAffinity { .. } => {
            "node(s) didn't match Pod's node affinity/selector"
        }
        Refusal::HostPort { .. } => "node(s) didn't have free ports for the requested pod ports",
        Refusal::Resources(_) => {
            let insufficient = |short: &headroom_core::resources::Shortfall| match &*short.resource {
                "pods" => "Too many pods".to_owned(),
                resource => format!("Insufficient {resource}"),
            };
            return short.iter().map(insufficient).collect();
        }
        Refusal::PodAffinity { .. } => "node(s) didn't match pod affinity rules",
        Refusal::PodAntiAffinity { .. } => "node(s) didn't match pod anti-affinity rules",
        Refusal::TopologySpread { skew: None, .. } => {
            "node(s) didn't match pod topology spread constraints (missing required label)"
        }
        Refusal::TopologySpread { .. } => "node(s) didn't match pod topology spread constraints",
        Refusal::VolumeAffinity { .. } => "node(s) didn't match PersistentVolume's node affinity",
        Refusal::VolumeNotReady { .. } => "pod has unbound immediate PersistentVolumeClaims",
        Refusal::VolumeInUse { .. } => {
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
        }
        Refusal::AttachLimit { .. } => "node(s) exceed max volume count",
        Refusal::StorageCapacity { .. } => "node(s) did not have enough free storage",
        Refusal::OpenDomain { .. } | Refusal::Unsupported { .. } => "unsupported",
    };
    vec![words.into()]
}
