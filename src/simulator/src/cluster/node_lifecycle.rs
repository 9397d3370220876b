//! The node lifecycle controller: taints after readiness, pods not ready on silent nodes, eviction after their toleration.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::pods::Pods;
use super::queue::WorkQueue;
use crate::store::{
    Author, DeleteOptions, Entry, Kind, ObjectKey, Store, condition, object_at, set_condition, text,
};

const ME: Author<'static> = Author::actor("node-lifecycle-controller");
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Nodes whose readiness changed, and pods that must leave a node that is not ready.
#[derive(Debug, Default)]
pub(super) struct NodeLifecycle {
    pub(super) nodes: WorkQueue<Arc<str>>,
    pub(super) evictions: WorkQueue<ObjectKey>,
}

impl NodeLifecycle {
    pub(super) fn observe_node(&mut self, entry: &Entry) {
        let ready = |node: &Value| condition(node, "Ready").and_then(|c| c.get("status").cloned());
        let before = entry.before.as_ref().map(|before| ready(before));
        if !entry.deleted && before != Some(ready(&entry.object)) {
            self.nodes.add(entry.key.name.clone());
        }
    }

    pub(super) fn act(&mut self, store: &mut Store, pods: &Pods) {
        let now = store.now();
        for name in self.nodes.take_due(now) {
            let key = ObjectKey::new("", &name);
            let Some(node) = store.find(Kind::Node, &key) else { continue };
            let taint = taint_of(node);
            let _ = store.edit(Kind::Node, &key, ME, |node| set_taint(node, taint));
            if let Some(taint) = taint {
                self.pods_of_lost_node(store, pods, &name, taint);
            }
        }
        for key in self.evictions.take_due(now) {
            let Some(pod) = pods.get(&key) else { continue };
            let node = pod.node.as_ref().and_then(|node| store.find(Kind::Node, &ObjectKey::new("", node)));
            // A node that came back, or went and is the garbage collector's, keeps or loses its pods otherwise.
            if node.is_some_and(|node| taint_of(node).is_some()) && pod.leaving_at.is_none() {
                let _ = store.delete(Kind::Pod, &key, &DeleteOptions::default(), ME);
            }
        }
    }

    fn pods_of_lost_node(&mut self, store: &mut Store, pods: &Pods, name: &str, taint: &str) {
        let now = store.now();
        for (key, pod) in pods.on_node(name) {
            if pod.ready {
                let _ = store.edit(Kind::Pod, key, ME, |pod| {
                    set_condition(pod, "Ready", "False", "NodeNotReady", "", now);
                });
            }
            if let Some(seconds) = pod.shape.stays_for_seconds(taint)
                && let Ok(due) = now.checked_add(SignedDuration::from_secs(seconds))
            {
                self.evictions.add_at(due, key.clone());
            }
        }
    }
}

fn taint_of(node: &Value) -> Option<&'static str> {
    match condition(node, "Ready").and_then(|c| c.get("status")?.as_str()) {
        Some("True") => None,
        Some("Unknown") => Some(UNREACHABLE),
        _ => Some(NOT_READY),
    }
}

fn set_taint(node: &mut Value, taint: Option<&str>) {
    let list = object_at(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    list.retain(|each| {
        let ours = matches!(text(each, &["key"]), Some(NOT_READY | UNREACHABLE));
        !ours || text(each, &["key"]) == taint
    });
    for effect in ["NoSchedule", "NoExecute"] {
        let Some(key) = taint else { continue };
        let there =
            list.iter().any(|each| text(each, &["key"]) == taint && text(each, &["effect"]) == Some(effect));
        if !there {
            list.push(json!({"key": key, "effect": effect}));
        }
    }
    if list.is_empty() {
        object_at(node, &["spec"]).remove("taints");
    }
}
