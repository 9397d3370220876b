//! Look-ups in the true state: pools, their open intents, nodes and the pods that hold them. They check nothing.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::BELIEF;
use headroom_simulator::store::{FieldSelector, Filter, Kind, ObjectKey, Store, at, condition, number, text};

/// Our mark's annotation.
pub(super) const INTENT: &str = "headroom.dev/intent";

/// An intent as a status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) id: String,
    pub(super) action: String,
    pub(super) phase: String,
    pub(super) group: String,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) started_at: String,
    pub(super) deadline: String,
    pub(super) reason: String,
    /// Node names and instance ids.
    pub(super) instances: Vec<(String, String)>,
}

impl Intent {
    pub(super) fn increases(&self) -> bool {
        self.action == "Increase"
    }

    pub(super) fn removes(&self) -> bool {
        self.action == "Remove"
    }

    /// True if it removes this node or instance.
    pub(super) fn names(&self, node: &str, instance: &str) -> bool {
        let named = |(name, id): &(String, String)| {
            (!node.is_empty() && name == node) || (!instance.is_empty() && id == instance)
        };
        self.removes() && self.instances.iter().any(named)
    }

    /// True if its victims may go with their pods: they are dead or never lived.
    pub(super) fn forces(&self) -> bool {
        matches!(self.reason.as_str(), "Unready" | "NeverRegistered")
    }

    /// True if it removes nodes by choice: neither dead ones, nor those that the cloud is about to take, which wait for nobody.
    pub(super) fn is_chosen(&self) -> bool {
        self.removes() && !self.forces() && self.reason != "Interrupted"
    }
}

/// The open intents of a pool's stored status.
pub(super) fn intents(pool: &Value) -> Vec<Intent> {
    let list = at(pool, &["status", "intents"]).and_then(Value::as_array);
    let word = |value: &Value, field: &str| text(value, &[field]).unwrap_or_default().to_owned();
    let size = |value: &Value, field: &str| {
        number(value, &[field]).and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
    };
    let names = |intent: &Value| -> Vec<(String, String)> {
        let list = at(intent, &["instances"]).and_then(Value::as_array);
        list.into_iter().flatten().map(|one| (word(one, "node"), word(one, "id"))).collect()
    };
    list.into_iter()
        .flatten()
        .map(|intent| Intent {
            id: word(intent, "id"),
            action: word(intent, "action"),
            phase: word(intent, "phase"),
            group: word(intent, "group"),
            from: size(intent, "from"),
            to: size(intent, "to"),
            started_at: word(intent, "startedAt"),
            deadline: word(intent, "deadline"),
            reason: word(intent, "reason"),
            instances: names(intent),
        })
        .collect()
}

/// The open intents of the pool of this name.
pub(super) fn intents_of(store: &Store, pool: &str) -> Vec<Intent> {
    store.find(Kind::NodePool, &ObjectKey::new("", pool)).map(|pool| intents(pool)).unwrap_or_default()
}

/// The open removal that names this node or instance, of any pool.
pub(super) fn removal_of(store: &Store, node: &str, instance: &str) -> Option<Intent> {
    // Most pools name it nowhere: only one that does is read whole.
    let names = |one: &Value| {
        let is = |field: &str, word: &str| !word.is_empty() && text(one, &[field]) == Some(word);
        is("node", node) || is("id", instance)
    };
    let mentions = |pool: &&Arc<Value>| {
        let list = at(pool, &["status", "intents"]).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|intent| at(intent, &["instances"])?.as_array()).flatten().any(names)
    };
    let pools = store.all(Kind::NodePool).map(|(_, pool)| pool).filter(mentions);
    pools.flat_map(|pool| intents(pool)).find(|intent| intent.names(node, instance))
}

/// The pool that a node belongs to: by our label, or by the label that all of a pool's nodes have in simulations.
pub(super) fn pool_of(node: &Value) -> Option<String> {
    let labels = at(node, &["metadata", "labels"])?;
    let name = labels.get("headroom.dev/pool").or_else(|| labels.get("pool")).and_then(Value::as_str)?;
    Some(name.to_owned())
}

/// Number of nodes that the pool has that are not being deleted.
pub(super) fn nodes_count(store: &Store, pool: &str) -> usize {
    store.all(Kind::Node).filter(|(_, node)| pool_of(node).as_deref() == Some(pool)).count()
}

/// A pool's minimum and maximum.
pub(super) fn bounds(pool: &Value) -> (i64, i64) {
    let field = |name: &str, default| number(pool, &["spec", name]).unwrap_or(default);
    (field("minNodes", 0), field("maxNodes", 0))
}

/// True if a node is not ready although it has been.
pub(super) fn is_unready(node: &Value) -> bool {
    condition(node, "Ready").and_then(|ready| ready.get("status")?.as_str()) == Some("Unknown")
}

/// True if there is a node of this name.
pub(super) fn is_there(store: &Store, node: &str) -> bool {
    store.find(Kind::Node, &ObjectKey::new("", node)).is_some()
}

/// True if a node has been ready for longer than anybody may believe otherwise.
pub(super) fn long_ready(store: &Store, node: &str, now: Timestamp) -> bool {
    let ready = store.find(Kind::Node, &ObjectKey::new("", node)).and_then(|node| {
        let ready = condition(node, "Ready").filter(|ready| ready["status"] == "True")?;
        ready.get("lastTransitionTime")?.as_str()?.parse::<Timestamp>().ok()
    });
    ready.is_some_and(|since| BELIEF < now.duration_since(since))
}

/// The intent that our mark on a node names, whatever became of the taint.
pub(super) fn marked_by(node: &Value) -> Option<&str> {
    at(node, &["metadata", "annotations"])?.get(INTENT)?.as_str()
}

/// True if a removal is given up and its marks are off, so that only its end is not stored yet.
pub(super) fn is_called_back(store: &Store, intent: &Intent) -> bool {
    let marked = |(name, _): &(String, String)| {
        let node = store.find(Kind::Node, &ObjectKey::new("", name));
        node.is_some_and(|node| marked_by(node).is_some())
    };
    intent.phase == "Undoing" && !intent.instances.iter().any(marked)
}

/// The pods that are bound to a node.
fn bound_to(node: &str) -> Filter {
    // A name that is no selector is no node's.
    let fields = FieldSelector::parse(&format!("spec.nodeName={node}")).unwrap_or_default();
    Filter { fields, ..Filter::default() }
}

/// Pods on the node that would have to run somewhere else, those already leaving not among them.
pub(super) fn movable_pods(store: &Store, node: &str) -> Vec<String> {
    let holds = |pod: &Arc<Value>| is_movable(pod) && text(pod, &["metadata", "deletionTimestamp"]).is_none();
    let filter = bound_to(node);
    store.list(Kind::Pod, &filter).filter(|(_, pod)| holds(pod)).map(|(key, _)| key.to_string()).collect()
}

/// True if a pod that would have to run somewhere else is on the node, be it on its way out.
pub(super) fn is_occupied(store: &Store, node: &str) -> bool {
    let filter = bound_to(node);
    !node.is_empty() && store.list(Kind::Pod, &filter).any(|(_, pod)| is_movable(pod))
}

/// True if a pod has to run somewhere else when its node goes.
pub(super) fn is_movable(pod: &Value) -> bool {
    let owner = pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str);
    owner != Some("DaemonSet") && !matches!(text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"))
}
