//! Reading and writing the parts of an object that every kind has; it knows no store.

use std::fmt;
use std::sync::Arc;

use headroom_core::world::node::DELETION_TAINT;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Namespace (empty for cluster-scoped kinds) and name; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object that has its metadata; missing parts are empty.
    pub fn of(object: &Value) -> ObjectKey {
        ObjectKey::new(
            text(object, &["metadata", "namespace"]).unwrap_or_default(),
            text(object, &["metadata", "name"]).unwrap_or_default(),
        )
    }

    /// The smallest key of a namespace.
    pub(super) fn first_of(namespace: &str) -> ObjectKey {
        ObjectKey::new(namespace, "")
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The value at a path of field names; `Null` counts as absent.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let found = path.iter().try_fold(object, |value, field| value.get(field))?;
    (!found.is_null()).then_some(found)
}

/// The text at a path.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The whole number at a path.
pub fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path)?.as_i64()
}

/// The RFC 3339 time at a path.
pub fn timestamp(object: &Value, path: &[&str]) -> Option<Timestamp> {
    text(object, path)?.parse().ok()
}

/// The labels, in the object's order; none when absent.
pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    at(object, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// The status of the condition of this type (`True`, `False`, `Unknown`), or `None` when it is not there.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    at(object, &["status", "conditions"])?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_))
}

/// True if a Node's kubelet reports that it is ready.
pub fn is_ready(node: &Value) -> bool {
    condition(node, "Ready").and_then(|ready| ready.get("status")?.as_str()) == Some("True")
}

/// True if a Node is on its way out: it carries the deletion taint.
pub fn is_leaving(node: &Value) -> bool {
    let taints = at(node, &["spec", "taints"]).and_then(Value::as_array);
    taints.is_some_and(|taints| taints.iter().any(|taint| text(taint, &["key"]) == Some(DELETION_TAINT)))
}

/// Sets a condition in `status.conditions`; `lastTransitionTime` moves only when the status does.
pub fn set_condition(
    object: &mut Value,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let since = condition(object, type_)
        .filter(|old| old.get("status").and_then(Value::as_str) == Some(status))
        .and_then(|old| old.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| seconds(now));
    let fresh = json!({"type": type_, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": since});
    let list = object_at(object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        match list.iter_mut().find(|each| each.get("type").and_then(Value::as_str) == Some(type_)) {
            Some(old) => *old = fresh,
            None => list.push(fresh),
        }
    }
}

/// The map at a path, made (in place of anything else) where it is missing.
pub fn object_at<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut value = object;
    for field in path {
        if !value.is_object() {
            *value = json!({});
        }
        value = &mut value[*field];
    }
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object on the line before")
}

/// A time as the API writes it: whole seconds, UTC.
pub(crate) fn seconds(at: Timestamp) -> Value {
    let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
    Value::String(whole.to_string())
}
