//! Server-side apply and field ownership, on the few list shapes that occur here; it knows no OpenAPI schema.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::object::{at, object_at, seconds, text};
use super::{ApiError, Kind, ObjectKey, Part};

/// The merge keys of a list by the name of its field; all other lists are atomic.
pub(super) fn list_keys(field: &str) -> Option<&'static [&'static str]> {
    match field {
        "conditions" => Some(&["type"]),
        "containers" | "initContainers" | "ephemeralContainers" | "env" | "volumes" => Some(&["name"]),
        "volumeMounts" => Some(&["mountPath"]),
        "ownerReferences" => Some(&["uid"]),
        _ => None,
    }
}

/// A field by its steps in the notation of `fieldsV1`: `f:name`, `k:{"type":"Ready"}`, `.` for an item itself.
type Path = Vec<String>;

/// The live object with `config` applied by `manager`: merged, ownership moved, and what the manager no longer
/// names (and nobody else owns) removed.
///
/// 409 when a field of another manager would change and `force` is off.
#[allow(clippy::too_many_arguments)]
pub(super) fn merged(
    kind: Kind,
    key: &ObjectKey,
    live: &Value,
    config: &Value,
    manager: &str,
    part: Part,
    force: bool,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let config = relevant(config, part, kind.info().has_status);
    let applied = leaves(&config, None);
    let mut entries = Entries::read(live);
    let conflicts = entries.conflicts(manager, &applied, live, &config);
    if !conflicts.is_empty() && !force {
        let message = format!("Apply failed with {} conflict(s): {}", conflicts.len(), conflicts.join("; "));
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|message| json!({"reason": "FieldManagerConflict", "message": message}))
            .collect();
        let mut error = ApiError::conflict(kind, &key.name, &message);
        error.details["causes"] = causes.into();
        return Err(error);
    }
    let before = entries.own(manager, "Apply", part);
    let mut after = live.clone();
    merge(&mut after, &config);
    entries.release_changed(manager, &applied, live, &config);
    for path in before.difference(&applied).filter(|path| !entries.owned_by_other(manager, path)) {
        remove(&mut after, path);
    }
    // A version or uid in the body is a precondition of the write that follows.
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = text(&config, &["metadata", field]) {
            object_at(&mut after, &["metadata"]).insert(field.into(), value.into());
        }
    }
    entries.set(manager, "Apply", part, applied, &kind.api_version(), now);
    entries.write(&mut after);
    Ok(after)
}

/// Gives `manager` what an update changed, and takes it from the others.
pub(super) fn track_update(
    before: Option<&Value>,
    after: &mut Value,
    manager: &str,
    part: Part,
    api_version: &str,
    now: Timestamp,
) {
    let empty = json!({});
    let before = before.unwrap_or(&empty);
    // What is the same on both sides has no leaf that changed, so it is not walked.
    let mut changed = leaves(after, Some(before));
    changed.retain(|path| resolve(before, path) != resolve(after, path));
    let mut gone = leaves(before, Some(after));
    gone.retain(|path| resolve(after, path).is_none());
    if gone.is_empty() && (changed.is_empty() || stays(before, after, &changed, manager, part)) {
        return;
    }
    let mut entries = Entries::read(before);
    for entry in &mut entries.0 {
        entry
            .fields
            .retain(|path| !gone.contains(path) && (entry.manager == manager || !changed.contains(path)));
    }
    if !changed.is_empty() {
        let mut own = entries.own(manager, "Update", part);
        own.extend(changed);
        entries.set(manager, "Update", part, own, api_version, now);
    }
    entries.write(after);
}

/// True if the ownership in both is the same, and already gives `manager`, and nobody else, all that it has changed: most
/// clients write the same fields again and again.
fn stays(before: &Value, after: &Value, changed: &BTreeSet<Path>, manager: &str, part: Part) -> bool {
    let rows = ["metadata", "managedFields"];
    let known = at(before, &rows).filter(|known| at(after, &rows) == Some(*known));
    let Some(known) = known.and_then(Value::as_array) else { return false };
    let is_own = |row: &&Value| {
        let word = |field: &str| text(row, &[field]).unwrap_or_default();
        (word("manager"), word("operation"), word("subresource")) == (manager, "Update", subresource(part))
    };
    let has = |row: &Value, path: &Path| {
        let steps = path.iter().try_fold(row.get("fieldsV1")?, |tree, step| tree.get(step));
        Some(steps?.as_object().is_some_and(Map::is_empty))
    };
    let mut own = known.iter().filter(is_own);
    let (Some(row), None) = (own.next(), own.next()) else { return false };
    let of_others =
        |path: &Path| known.iter().filter(|row| !is_own(row)).any(|row| has(row, path) == Some(true));
    changed.iter().all(|path| has(row, path) == Some(true) && !of_others(path))
}

/// Returns the part of a body that counts: no identity, no server stamps, and only the part that the endpoint writes.
fn relevant(config: &Value, part: Part, has_status: bool) -> Value {
    let mut config = config.clone();
    match part {
        Part::Main if has_status => {
            object_at(&mut config, &[]).remove("status");
        }
        Part::Main => {}
        Part::Status => {
            let status = config.get("status").cloned().unwrap_or_else(|| json!({}));
            config =
                json!({"metadata": config.get("metadata").cloned().unwrap_or_default(), "status": status});
        }
    }
    config
}

/// The leaves of an object; without those of its parts that `other` has just so.
fn leaves(object: &Value, other: Option<&Value>) -> BTreeSet<Path> {
    const IDENTITY: [&str; 9] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let mut found = BTreeSet::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        let other = other.and_then(|other| other.get(field));
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if !IDENTITY.contains(&field.as_str()) {
                        let other = other.and_then(|other| other.get(field));
                        collect(value, other, field, &mut vec!["f:metadata".to_owned()], &mut found);
                    }
                }
            }
            _ => collect(value, other, field, &mut Vec::new(), &mut found),
        }
    }
    found
}

fn collect(value: &Value, other: Option<&Value>, field: &str, path: &mut Path, found: &mut BTreeSet<Path>) {
    if other == Some(value) {
        return;
    }
    path.push(format!("f:{field}"));
    match (value, list_keys(field)) {
        (Value::Object(fields), _) if !fields.is_empty() => {
            for (field, value) in fields {
                collect(value, other.and_then(|other| other.get(field)), field, path, found);
            }
        }
        (Value::Array(items), Some(keys)) => {
            for item in items {
                path.push(item_step(item, keys));
                path.push(".".to_owned());
                found.insert(path.clone());
                path.pop();
                for (field, value) in item.as_object().into_iter().flatten() {
                    collect(value, None, field, path, found);
                }
                path.pop();
            }
        }
        _ => {
            found.insert(path.clone());
        }
    }
    path.pop();
}

fn item_step(item: &Value, keys: &[&str]) -> String {
    let named: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), item[*key].clone())).collect();
    format!("k:{}", Value::Object(named))
}

fn is_item(item: &Value, step: &str) -> bool {
    let named: Value =
        step.strip_prefix("k:").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    named.as_object().is_some_and(|named| named.iter().all(|(key, value)| item.get(key) == Some(value)))
}

fn resolve<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step.strip_prefix("f:") {
        Some(field) => value.get(field),
        None if step == "." => Some(value),
        None => value.as_array()?.iter().find(|item| is_item(item, step)),
    })
}

/// Removes a leaf, and the maps that it leaves empty.
fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    if let Some(field) = step.strip_prefix("f:") {
        let Some(fields) = object.as_object_mut() else { return };
        if rest.is_empty() {
            fields.remove(field);
        } else if let Some(inner) = fields.get_mut(field) {
            remove(inner, rest);
            let emptied =
                inner.as_object().is_some_and(Map::is_empty) || inner.as_array().is_some_and(Vec::is_empty);
            if emptied {
                fields.remove(field);
            }
        }
    } else if let Some(items) = object.as_array_mut()
        && let Some(index) = items.iter().position(|item| is_item(item, step))
    {
        if rest.first().is_some_and(|rest| rest == ".") {
            items.remove(index);
        } else {
            remove(&mut items[index], rest);
        }
    }
}

fn merge(target: &mut Value, config: &Value) {
    let Some(config) = config.as_object() else {
        *target = config.clone();
        return;
    };
    let fields = object_at(target, &[]);
    for (field, value) in config {
        let slot = fields.entry(field.clone()).or_insert(Value::Null);
        match (value, list_keys(field)) {
            (Value::Array(items), Some(keys)) if slot.is_array() => {
                let Some(list) = slot.as_array_mut() else { continue };
                for item in items {
                    match list.iter_mut().find(|each| keys.iter().all(|key| each.get(*key) == item.get(*key)))
                    {
                        Some(found) => merge(found, item),
                        None => list.push(item.clone()),
                    }
                }
            }
            (Value::Object(_), _) => merge(slot, value),
            _ => *slot = value.clone(),
        }
    }
}

/// One row of `managedFields`.
#[derive(Debug)]
struct Owner {
    manager: String,
    operation: String,
    subresource: String,
    api_version: String,
    time: Value,
    fields: BTreeSet<Path>,
}

#[derive(Debug)]
struct Entries(Vec<Owner>);

impl Entries {
    fn read(object: &Value) -> Entries {
        let rows = at(object, &["metadata", "managedFields"]).and_then(Value::as_array);
        let owner = |row: &Value| {
            let word = |field: &str| text(row, &[field]).unwrap_or_default().to_owned();
            let mut fields = BTreeSet::new();
            if let Some(tree) = row.get("fieldsV1") {
                read_tree(tree, &mut Vec::new(), &mut fields);
            }
            Owner {
                manager: word("manager"),
                operation: word("operation"),
                subresource: word("subresource"),
                api_version: word("apiVersion"),
                time: row.get("time").cloned().unwrap_or_default(),
                fields,
            }
        };
        Entries(rows.into_iter().flatten().map(owner).collect())
    }

    fn write(&self, object: &mut Value) {
        let rows: Vec<Value> = self
            .0
            .iter()
            .filter(|owner| !owner.fields.is_empty())
            .map(|owner| {
                let mut row = json!({
                    "manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version,
                    "time": owner.time, "fieldsType": "FieldsV1", "fieldsV1": tree(&owner.fields),
                });
                if !owner.subresource.is_empty() {
                    row["subresource"] = owner.subresource.as_str().into();
                }
                row
            })
            .collect();
        object_at(object, &["metadata"]).insert("managedFields".into(), rows.into());
    }

    fn own(&self, manager: &str, operation: &str, part: Part) -> BTreeSet<Path> {
        let found = self.0.iter().find(|owner| owner.is(manager, operation, part));
        found.map(|owner| owner.fields.clone()).unwrap_or_default()
    }

    fn set(
        &mut self,
        manager: &str,
        operation: &str,
        part: Part,
        fields: BTreeSet<Path>,
        version: &str,
        now: Timestamp,
    ) {
        match self.0.iter_mut().find(|owner| owner.is(manager, operation, part)) {
            // The time moves only with the set, so that an apply which changes nothing is not a write.
            Some(owner) if owner.fields == fields => {}
            Some(owner) => {
                owner.fields = fields;
                owner.time = seconds(now);
            }
            None => self.0.push(Owner {
                manager: manager.to_owned(),
                operation: operation.to_owned(),
                subresource: subresource(part).to_owned(),
                api_version: version.to_owned(),
                time: seconds(now),
                fields,
            }),
        }
    }

    fn owned_by_other(&self, manager: &str, path: &Path) -> bool {
        self.0.iter().any(|owner| owner.manager != manager && owner.fields.contains(path))
    }

    fn conflicts(
        &self,
        manager: &str,
        applied: &BTreeSet<Path>,
        live: &Value,
        config: &Value,
    ) -> Vec<String> {
        let others = self.0.iter().filter(|owner| owner.manager != manager);
        others
            .flat_map(|owner| {
                let taken = owner.fields.intersection(applied);
                let changed = taken.filter(|path| resolve(live, path) != resolve(config, path));
                changed.map(|path| format!("conflict with {:?}: {}", owner.manager, dotted(path)))
            })
            .collect()
    }

    fn release_changed(&mut self, manager: &str, applied: &BTreeSet<Path>, live: &Value, config: &Value) {
        for owner in self.0.iter_mut().filter(|owner| owner.manager != manager) {
            owner
                .fields
                .retain(|path| !applied.contains(path) || resolve(live, path) == resolve(config, path));
        }
    }
}

impl Owner {
    fn is(&self, manager: &str, operation: &str, part: Part) -> bool {
        self.manager == manager && self.operation == operation && self.subresource == subresource(part)
    }
}

fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
    }
}

fn dotted(path: &Path) -> String {
    path.iter().map(|step| step.replacen("f:", ".", 1)).collect()
}

fn tree(paths: &BTreeSet<Path>) -> Value {
    let mut root = json!({});
    for path in paths {
        let steps: Vec<&str> = path.iter().map(String::as_str).collect();
        object_at(&mut root, &steps);
    }
    root
}

fn read_tree(tree: &Value, path: &mut Path, found: &mut BTreeSet<Path>) {
    match tree.as_object() {
        Some(steps) if !steps.is_empty() => {
            for (step, inner) in steps {
                path.push(step.clone());
                read_tree(inner, path, found);
                path.pop();
            }
        }
        _ => {
            found.insert(path.clone());
        }
    }
}
