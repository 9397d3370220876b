//! Pods and owner references as the workload controllers write them; it reads no store.

use serde_json::{Value, json};

use crate::store::{Kind, ObjectKey, at, object_at, text};
use crate::trace::StableHash;

/// A pod from the template of `owner`; `name` or a generated one.
pub(super) fn pod(kind: Kind, owner: &ObjectKey, object: &Value, name: Option<String>) -> Value {
    let template = at(object, &["spec", "template"]).unwrap_or(&Value::Null);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template.get("spec").cloned()
                         .unwrap_or_else(|| json!({"containers": []}))});
    let metadata = object_at(&mut pod, &["metadata"]);
    for field in ["labels", "annotations"] {
        if let Some(value) = at(template, &["metadata", field]) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.insert("namespace".into(), (*owner.namespace).into());
    match name {
        Some(name) => metadata.insert("name".into(), name.into()),
        None => metadata.insert("generateName".into(), format!("{}-", owner.name).into()),
    };
    metadata.insert("ownerReferences".into(), json!([reference(kind, object)]));
    pod
}

/// A controlling owner reference to `object`.
pub(super) fn reference(kind: Kind, object: &Value) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.info().kind, "controller": true, "blockOwnerDeletion": true,
           "name": text(object, &["metadata", "name"]), "uid": text(object, &["metadata", "uid"])})
}

/// A short, name-safe hash of a pod template; equal templates have equal hashes in every process.
pub(crate) fn hash(object: &Value) -> String {
    let template = at(object, &["spec", "template"]).map(Value::to_string).unwrap_or_default();
    let mut number = StableHash::of(&template);
    let mut text = String::with_capacity(10);
    for _ in 0..10 {
        let letter = b"bcdfghjklmnpqrstvwxz2456789"[(number % 27) as usize];
        text.push(char::from(letter));
        number /= 27;
    }
    text
}

/// A count that may be a percentage of `total`, rounded up or down; `default` where it is absent.
pub(super) fn count_or_percent(value: Option<&Value>, total: i64, up: bool, default: &str) -> i64 {
    let fallback = Value::from(default);
    let value = value.unwrap_or(&fallback);
    if let Some(count) = value.as_i64() {
        return count.max(0);
    }
    let text = value.as_str().unwrap_or_default();
    let Some(percent) = text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()) else {
        return text.parse().unwrap_or(0);
    };
    let scaled = total.saturating_mul(percent);
    if up { scaled.saturating_add(99) / 100 } else { scaled / 100 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_in_the_direction_asked_for() {
        let quarter = Value::from("25%");
        assert_eq!(count_or_percent(Some(&quarter), 10, true, ""), 3);
        assert_eq!(count_or_percent(Some(&quarter), 10, false, ""), 2);
        assert_eq!(count_or_percent(Some(&Value::from(4)), 10, false, ""), 4);
        assert_eq!(count_or_percent(None, 8, true, "25%"), 2);
    }
}
