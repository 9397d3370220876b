//! The defaults that a real API server and its admission plugins write into new objects, as far as anything here reads them.

use serde_json::{Value, json};

use super::object::{at, object_at, seconds, text};
use super::{Kind, ObjectKey, Store};

/// Completes a new object.
pub(super) fn complete(kind: Kind, object: &mut Value, store: &Store) {
    let keeps_status = matches!(kind, Kind::Node | Kind::PersistentVolume | Kind::Namespace);
    if kind.info().has_status && !keeps_status {
        object_at(object, &[]).remove("status");
    }
    match kind {
        Kind::Pod => complete_pod(object, store),
        Kind::Node => complete_node(object, store),
        Kind::PersistentVolumeClaim => complete_claim(object, store),
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => default(object, "replicas", 1.into()),
        Kind::Job => {
            default(object, "parallelism", 1.into());
            default(object, "backoffLimit", 6.into());
        }
        _ => {}
    }
}

fn default(object: &mut Value, field: &str, value: Value) {
    object_at(object, &["spec"]).entry(field).or_insert(value);
}

/// Gives a claim without a class the default one. Source: plugin/pkg/admission/storage/storageclass/setdefault.
fn complete_claim(claim: &mut Value, store: &Store) {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let is_default = |class: &Value| text(class, &["metadata", "annotations", DEFAULT]) == Some("true");
    let found = store.all(Kind::StorageClass).find(|(_, class)| is_default(class));
    if let Some((class, _)) = found {
        default(claim, "storageClassName", (*class.name).into());
    }
}

fn complete_pod(pod: &mut Value, store: &Store) {
    default(pod, "terminationGracePeriodSeconds", 30.into());
    default(pod, "schedulerName", "default-scheduler".into());
    default(pod, "restartPolicy", "Always".into());
    default_priority(pod, store);
    default_requests(pod);
    // Source: plugin/pkg/admission/defaulttolerationseconds.
    let tolerations = object_at(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
    if let Some(list) = tolerations.as_array_mut() {
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            let tolerated = list.iter().any(|each| {
                matches!(text(each, &["key"]), Some(k) if k == key)
                    || (at(each, &["key"]).is_none() && text(each, &["operator"]) == Some("Exists"))
            });
            if !tolerated {
                list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            }
        }
    }
    pod["status"] = json!({"phase": "Pending"});
}

fn default_priority(pod: &mut Value, store: &Store) {
    if at(pod, &["spec", "priority"]).is_some() {
        return;
    }
    let priority = match text(pod, &["spec", "priorityClassName"]) {
        None => 0,
        Some("system-node-critical") => 2_000_001_000,
        Some("system-cluster-critical") => 2_000_000_000,
        Some(class) => store
            .find(Kind::PriorityClass, &ObjectKey::new("", class))
            .and_then(|class| class.get("value").and_then(Value::as_i64))
            .unwrap_or(0),
    };
    default(pod, "priority", priority.into());
}

/// A limit without a request is the request.
fn default_requests(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(limits) = at(container, &["resources", "limits"]).and_then(Value::as_object).cloned()
            else {
                continue;
            };
            let requests = object_at(container, &["resources", "requests"]);
            for (resource, limit) in limits {
                requests.entry(resource).or_insert(limit);
            }
        }
    }
}

fn complete_node(node: &mut Value, store: &Store) {
    // Source: plugin/pkg/admission/nodetaint: a new node is not ready until the node lifecycle reports it.
    let taints = object_at(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
    if let Some(list) = taints.as_array_mut()
        && !list.iter().any(|taint| text(taint, &["key"]) == Some("node.kubernetes.io/not-ready"))
    {
        list.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
    }
    if at(node, &["status", "allocatable"]).is_none()
        && let Some(capacity) = at(node, &["status", "capacity"]).cloned()
    {
        object_at(node, &["status"]).insert("allocatable".into(), capacity);
    }
    if at(node, &["status", "conditions"]).is_none() {
        object_at(node, &["status"]).insert(
            "conditions".into(),
            json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady",
                    "message": "the node has just been made", "lastTransitionTime": seconds(store.now())}]),
        );
    }
}
