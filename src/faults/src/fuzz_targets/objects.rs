//! The objects that the API server sends: our own resources and the cluster's objects, and what is written in their fields.

use headroom_core::quantity::Quantity;
use headroom_core::time::UnixTime;
use headroom_core::window::Window;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Understood;
use headroom_api::validate::{validate_policy, validate_pool, validate_scaling};
use headroom_api::{ClusterScalingPolicySpec, NodePool, NodePoolSpec, ScalingPolicySpec};
use headroom_observe::convert;
use headroom_observe::decoder::Decoder;
use headroom_observe::slim::{SlimDeployment, SlimDisruptionBudget, SlimNode, SlimPod};
use headroom_operator::report::{parse, status_of};

pub(super) fn decoded<T: for<'a> Deserialize<'a>>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn in_words<T>(checked: Result<T, Vec<impl ToString>>) -> Understood {
    checked.map(drop).map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

pub(super) fn sane_node_pool() -> String {
    json!({
        "mode": "Apply", "minNodes": 1, "maxNodes": 10, "limits": {"cpu": "100", "memory": "1Ti"}, "priority": 3,
        "provider": {"type": "AWS", "aws": {"region": "eu-west-1", "clusterName": "prod",
            "nodeGroups": [{"name": "web-a"}, {"name": "web-b", "maxNodes": 20}]}},
        "template": {"labels": {"team": "web"}, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "reserved": {"cpu": "80m"}},
        "price": {"perHour": "0.768"},
        "scaleUp": {"provisionTimeout": "15m", "backoff": {"initial": "5m", "max": "30m", "resetAfter": "3h"}},
        "scaleDown": {"utilizationThreshold": 50, "unneededFor": "10m", "budgets": [
            {"name": "always", "maxNodes": "10%"},
            {"name": "day", "maxNodes": 0, "reasons": ["Empty"],
                "window": {"timeZone": "Europe/Berlin", "start": "0 8 * * 1-5", "duration": "10h"}}]},
        "schedules": [{"name": "office", "minNodes": 5,
            "window": {"timeZone": "Asia/Shanghai", "start": "30 11 * * *", "duration": "2h30m"}}],
    })
    .to_string()
}

pub(super) fn node_pool(value: &Value) -> Understood {
    let spec: NodePoolSpec = decoded(value)?;
    in_words(validate_pool(&NodePool::new("p", spec)))
}

pub(super) fn sane_scaling_policy() -> String {
    json!({
        "mode": "Apply",
        "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "minReplicas": 2, "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 60}}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300,
            "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}},
        "schedules": [{"name": "lunch", "minReplicas": 5,
            "window": {"timeZone": "Asia/Shanghai", "start": "30 11 * * 1-5", "duration": "2h30m"}}],
        "fallback": {"after": "3m", "replicas": "Hold"},
    })
    .to_string()
}

pub(super) fn scaling_policy(value: &Value) -> Understood {
    let spec: ScalingPolicySpec = decoded(value)?;
    in_words(validate_scaling(&spec))
}

pub(super) fn sane_cluster_scaling_policy() -> String {
    json!({
        "nodes": {"limits": {"nodes": 100, "cpu": "1000", "memory": "4Ti", "min": {"cpu": "2"}}, "newPodDelay": "0s",
            "health": {"maxUnreadyPercent": 45, "okUnreadyCount": 3},
            "removals": {"maxParallel": 10, "budgets": [{"name": "all", "maxNodes": "5%"}]}},
        "workloads": {"hpaOwnership": "Observe", "syncPeriod": "15s"},
    })
    .to_string()
}

pub(super) fn cluster_scaling_policy(value: &Value) -> Understood {
    let spec: ClusterScalingPolicySpec = decoded(value)?;
    in_words(validate_policy(&spec))
}

pub(super) fn sane_status() -> String {
    let time = "2026-03-02T07:00:00Z";
    json!({
        "observedGeneration": 3, "lastScaleUp": time, "lastFailure": time,
        "nodes": {"desired": 3, "ready": 2, "unready": 1, "starting": 0, "unregistered": 0, "deleting": 0}, "bounds": {"minNodes": 0, "maxNodes": 9},
        "backoffs": [{"group": "a", "class": "OutOfCapacity", "failures": 2, "since": time,
            "until": "2026-03-02T07:05:00Z", "message": "full"}],
        "intents": [{"id": "3-4", "epoch": 3, "action": "Remove", "phase": "Deleting", "group": "a",
            "instances": [{"node": "n", "id": "i-1"}], "reason": "Empty", "startedAt": time, "phaseSince": time,
            "deadline": "2026-03-02T07:15:00Z"}],
        "unneeded": [{"since": time, "nodes": ["n1", "n2"]}],
        "decisions": [{"id": "3-4", "time": time, "action": "ScaleDown", "from": 3, "to": 2, "reason": "Empty",
            "message": "n is empty", "outcome": "InProgress"}],
    })
    .to_string()
}

/// Nothing of a status is ever refused: parts that cannot be read are left out, and reported.
pub(super) fn status(value: &Value) -> Understood {
    let (status, notes) = status_of(value);
    let (history, more) = parse(&status);
    let ends = history.intents.iter().filter(|intent| intent.deadline < UnixTime(0)).count();
    if notes.is_empty() && more.is_empty() && ends == 0 {
        Ok(())
    } else {
        Err(format!("{notes:?} {more:?} {ends}"))
    }
}

pub(super) fn sane_pod() -> String {
    let term = json!({"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"});
    let spec = json!({
        "nodeName": "n1", "priority": 5, "terminationGracePeriodSeconds": 30, "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["3"]}]}]}}},
        "containers": [{"name": "c", "ports": [{"hostPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
    });
    let metadata = json!({"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7",
        "labels": {"app": "web"}, "annotations": {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "30s"},
        "creationTimestamp": "2026-11-01T00:00:00Z"});
    json!({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}).to_string()
}

pub(super) fn pod(value: &Value) -> Understood {
    let slim: SlimPod = decoded(value)?;
    convert::pod::pod(&slim, &mut Decoder::default()).map(drop).map_err(|error| error.to_string())
}

pub(super) fn sane_node() -> String {
    json!({
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {"providerID": "kwok://n1", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]},
    })
    .to_string()
}

pub(super) fn node(value: &Value) -> Understood {
    let slim: SlimNode = decoded(value)?;
    convert::node::node(&slim, &mut Decoder::default()).map(drop).map_err(|error| error.to_string())
}

pub(super) fn sane_disruption_budget() -> String {
    json!({
        "metadata": {"name": "b", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        "status": {"disruptionsAllowed": 1},
    })
    .to_string()
}

pub(super) fn disruption_budget(value: &Value) -> Understood {
    let slim: SlimDisruptionBudget = decoded(value)?;
    let budget = convert::workload::disruption_budget(&slim, &mut Decoder::default());
    budget.map(drop).map_err(|error| error.to_string())
}

pub(super) fn sane_deployment() -> String {
    json!({
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
    })
    .to_string()
}

pub(super) fn deployment(value: &Value) -> Understood {
    decoded::<SlimDeployment>(value).map(drop)
}

pub(super) fn sane_quantity() -> String {
    json!("100.5Mi").to_string()
}

/// Sums and their texts hold for whatever was read.
pub(super) fn quantity(value: &Value) -> Understood {
    let text = value.as_str().ok_or("no text")?;
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    let sum = quantity.plus(quantity);
    Quantity::parse(&sum.to_decimal()).map(drop).map_err(|error| error.to_string())
}

pub(super) fn sane_window() -> String {
    json!({"zone": "Europe/Berlin", "start": "0 8 * * 1-5", "seconds": 3_600}).to_string()
}

/// Checks that the next change of a window is ahead.
pub(super) fn window(value: &Value) -> Understood {
    let word = |field: &str| value[field].as_str().unwrap_or("no text");
    let window = Window::new(word("zone"), word("start"), value["seconds"].as_u64().unwrap_or(0));
    let window = window.map_err(|error| error.to_string())?;
    let now = UnixTime(1_800_000_000).to_jiff();
    let (active, next) = (window.active_at(now), window.next_change(now));
    assert!(next.is_none_or(|next| now < next), "{active:?} ends in the past, at {next:?}");
    Ok(())
}
