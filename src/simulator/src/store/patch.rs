//! The patch formats: merge (RFC 7386), JSON (RFC 6902), strategic merge, and the body of a server-side apply.

use serde_json::{Map, Value};

use super::apply::list_keys;
use super::{ApiError, Kind};

/// A patch body with its format.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// `application/merge-patch+json`.
    Merge(Value),
    /// `application/strategic-merge-patch+json`; lists with a merge key merge by it, `$patch: delete` and `replace` work.
    Strategic(Value),
    /// `application/json-patch+json`: the list of operations.
    Json(Value),
    /// `application/apply-patch+yaml`.
    Apply {
        /// The fields that the manager wants to own.
        config: Value,
        /// True if fields of other managers are taken over.
        force: bool,
    },
}

impl Patch {
    /// The object after the patch; 422 when an operation does not apply. An apply yields its own body unmerged.
    pub fn applied_to(&self, kind: Kind, name: &str, before: &Value) -> Result<Value, ApiError> {
        let mut after = before.clone();
        match self {
            Patch::Merge(patch) => merge(&mut after, patch),
            Patch::Strategic(_) if kind.info().group == "headroom.dev" => {
                let why = "the body of the request was in an unknown format - accepted media types include: \
                           application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                return Err(ApiError::new(415, "UnsupportedMediaType", why));
            }
            Patch::Strategic(patch) => strategic(&mut after, patch),
            Patch::Json(operations) => {
                let operations = operations
                    .as_array()
                    .ok_or_else(|| ApiError::bad_request("a JSON patch is a list of operations"))?;
                for operation in operations {
                    run(&mut after, operation).map_err(|why| ApiError::invalid(kind, name, &why))?;
                }
            }
            Patch::Apply { config, .. } => after = config.clone(),
        }
        Ok(after)
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (field, value) in patch {
        if value.is_null() {
            fields.remove(field);
        } else {
            merge(fields.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}

fn strategic(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") || !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (field, value) in patch {
        if field.starts_with('$') {
            continue;
        }
        let strategic_key = strategic_keys(field);
        match (value, strategic_key) {
            (Value::Null, _) => {
                fields.remove(field);
            }
            (Value::Array(items), Some(keys)) => {
                let list = fields.entry(field.clone()).or_insert_with(|| Value::Array(Vec::new()));
                strategic_list(list, items, keys);
            }
            _ => strategic(fields.entry(field.clone()).or_insert(Value::Null), value),
        }
    }
}

/// Strategic merge keys are those of server-side apply, and taints besides.
fn strategic_keys(field: &str) -> Option<&'static [&'static str]> {
    if field == "taints" { Some(&["key"]) } else { list_keys(field) }
}

fn strategic_list(list: &mut Value, items: &[Value], keys: &[&str]) {
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Some(list) = list.as_array_mut() else { return };
    if items.iter().any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace")) {
        *list = items.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
        return;
    }
    for item in items {
        let found = list.iter().position(|each| keys.iter().all(|key| each.get(*key) == item.get(*key)));
        let deletes = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match found {
            Some(index) if deletes => {
                list.remove(index);
            }
            Some(index) => strategic(&mut list[index], item),
            None if deletes => {}
            None => list.push(item.clone()),
        }
    }
}

fn run(target: &mut Value, operation: &Value) -> Result<(), String> {
    let word = |field: &str| operation.get(field).and_then(Value::as_str);
    let path = word("path").ok_or("an operation without a path")?;
    let value = || operation.get("value").cloned().ok_or_else(|| format!("no value for {path}"));
    match word("op") {
        Some("add") => insert(target, path, value()?, false),
        Some("replace") => insert(target, path, value()?, true),
        Some("remove") => take(target, path).map(drop),
        Some("test") if target.pointer(path) == Some(&value()?) => Ok(()),
        Some("test") => Err(format!("testing path {path} failed: test failed")),
        Some("move") => {
            let moved = take(target, word("from").ok_or("a move without from")?)?;
            insert(target, path, moved, false)
        }
        Some("copy") => {
            let from = word("from").ok_or("a copy without from")?;
            let copied = target.pointer(from).cloned().ok_or_else(|| format!("nothing at {from}"))?;
            insert(target, path, copied, false)
        }
        other => Err(format!("unknown operation {other:?}")),
    }
}

fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, last) =
        path.rsplit_once('/').ok_or_else(|| format!("a path begins with a slash: {path}"))?;
    let value = target.pointer_mut(parent).ok_or_else(|| format!("doc is missing path: {path}"))?;
    Ok((value, last.replace("~1", "/").replace("~0", "~")))
}

fn insert(target: &mut Value, path: &str, value: Value, must_exist: bool) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let missing = || format!("doc is missing key: {path}");
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(fields) => {
            if must_exist && !fields.contains_key(&last) {
                return Err(missing());
            }
            fields.insert(last, value);
        }
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let index: usize = last.parse().map_err(|_| missing())?;
            if must_exist {
                *list.get_mut(index).ok_or_else(missing)? = value;
            } else if index <= list.len() {
                list.insert(index, value);
            } else {
                return Err(missing());
            }
        }
        _ => return Err(missing()),
    }
    Ok(())
}

fn take(target: &mut Value, path: &str) -> Result<Value, String> {
    let missing = || format!("unable to remove nonexistent key: {path}");
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(fields) => fields.remove(&last).ok_or_else(missing),
        Value::Array(list) => {
            let index: usize = last.parse().map_err(|_| missing())?;
            if index < list.len() { Ok(list.remove(index)) } else { Err(missing()) }
        }
        _ => Err(missing()),
    }
}
