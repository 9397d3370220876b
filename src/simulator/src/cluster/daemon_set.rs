//! The DaemonSet controller: one pod on each node that would take it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fit::{NodeShape, PodShape};
use super::pods::{Phase, PodFacts, Pods};
use super::template;
use crate::store::{Author, DeleteOptions, Kind, ObjectKey, Store, number, object_at, text};

const ME: Author<'static> = Author::actor("daemonset-controller");

/// Source: daemon/util/daemonset_util.go AddOrUpdateDaemonPodTolerations.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// One sync over all nodes.
pub(super) fn sync(store: &mut Store, pods: &Pods, nodes: &BTreeMap<Arc<str>, NodeShape>, key: &ObjectKey) {
    let Some(set) = store.find(Kind::DaemonSet, key).cloned() else { return };
    let Some(uid) = text(&set, &["metadata", "uid"]) else { return };
    let hash = template::hash(&set);
    let model = daemon_pod(key, &set, &hash, None);
    let shape = PodShape::of(&model);
    let mut by_node: BTreeMap<Arc<str>, (&ObjectKey, &Arc<PodFacts>)> = BTreeMap::new();
    let mut surplus: Vec<&ObjectKey> = Vec::new();
    for (pod_key, pod) in pods.owned(uid).filter(|(_, pod)| pod.leaving_at.is_none()) {
        let node = pod.node.clone().or_else(|| pod.shape.pinned.clone());
        let ended = matches!(pod.phase, Phase::Failed | Phase::Succeeded);
        match node.filter(|node| !ended && nodes.get(node).is_some_and(|node| node.admits(&shape).is_ok())) {
            Some(node) if !by_node.contains_key(&node) => {
                by_node.insert(node, (pod_key, pod));
            }
            _ => surplus.push(pod_key),
        }
    }
    for key in surplus {
        let _ = store.delete(Kind::Pod, key, &DeleteOptions::default(), ME);
    }
    let wanted: Vec<&Arc<str>> =
        nodes.iter().filter(|(_, node)| node.admits(&shape).is_ok()).map(|(name, _)| name).collect();
    for node in wanted.iter().filter(|node| !by_node.contains_key(**node)) {
        let _ = store.create(Kind::Pod, daemon_pod(key, &set, &hash, Some(node)), ME);
    }
    // One pod of an old template at a time, while all are ready (maxUnavailable is 1 by default).
    let whole = by_node.len() == wanted.len() && by_node.values().all(|(_, pod)| pod.ready);
    let old = by_node.values().find(|(_, pod)| pod.revision_label.as_deref() != Some(&hash));
    if let Some((key, _)) = old
        && whole
    {
        let _ = store.delete(Kind::Pod, key, &DeleteOptions::default(), ME);
    }
    let ready = by_node.values().filter(|(_, pod)| pod.ready).count();
    let (desired, current) = (wanted.len(), by_node.len());
    // The set is there: it was read at the top of this call.
    let _ = store.edit(Kind::DaemonSet, key, ME, |set| {
        let generation = number(set, &["metadata", "generation"]).unwrap_or(1);
        let status = object_at(set, &["status"]);
        for (field, count) in [
            ("desiredNumberScheduled", desired),
            ("currentNumberScheduled", current),
            ("numberReady", ready),
            ("numberAvailable", ready),
            ("numberMisscheduled", 0),
        ] {
            status.insert(field.into(), count.into());
        }
        status.insert("observedGeneration".into(), generation.into());
    });
}

fn daemon_pod(key: &ObjectKey, set: &Value, hash: &str, node: Option<&str>) -> Value {
    let mut pod = template::pod(Kind::DaemonSet, key, set, None);
    object_at(&mut pod, &["metadata", "labels"]).insert("controller-revision-hash".into(), hash.into());
    let spec = object_at(&mut pod, &["spec"]);
    if let Some(list) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
        for (key, effect) in TOLERATED {
            list.push(json!({"key": key, "operator": "Exists", "effect": effect}));
        }
    }
    if let Some(node) = node {
        pin(&mut pod, node);
    }
    pod
}

/// Adds the node's name to every term of the required affinity, as the real controller does.
fn pin(pod: &mut Value, node: &str) {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let required = object_at(pod, &path);
    let terms = required.entry("nodeSelectorTerms").or_insert_with(|| json!([{}]));
    for term in terms.as_array_mut().into_iter().flatten() {
        term["matchFields"] = fields.clone();
    }
}
