//! Output of an import: objects of ours as YAML, checked as the API server would, with a comment on each difference.

use std::collections::BTreeMap;

use anyhow::Context;
use headroom_core::printable;
use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};
use serde_saphyr::Commented;

use headroom_api::validate::{FieldError, validate_policy, validate_pool, validate_scaling};
use headroom_api::{ClusterScalingPolicy, NodePool, ScalingPolicy};

/// Columns of a comment line.
const WIDTH: usize = 110;

/// Comments on fields that no release has hold these words.
pub(super) const UNKNOWN: &str = "UNKNOWN field";

/// An object about to be printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// The object so far.
    object: Value,
    /// Comments above it.
    head: Vec<String>,
    /// Comments behind values, by path such as `/spec/scaleDown/unneededFor`.
    notes: BTreeMap<String, String>,
}

impl Draft {
    /// An object of ours without a spec.
    #[must_use]
    pub(super) fn new(kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let mut metadata = json!({ "name": name });
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        let object = json!({
            "apiVersion": "headroom.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": {},
        });
        Self { object, head: Vec::new(), notes: BTreeMap::new() }
    }

    /// Its kind and name, for messages.
    #[must_use]
    pub(super) fn title(&self) -> String {
        let kind = self.object["kind"].as_str().unwrap_or_default();
        match self.object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{}", self.name()),
            None => format!("{kind} {}", self.name()),
        }
    }

    /// The object's name.
    #[must_use]
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Puts a value at a path of dots under `spec`, and a comment behind it.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>, note: &str) {
        let mut at = &mut self.object["spec"];
        for part in field.split('.') {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[part];
        }
        *at = value.into();
        self.note(field, note);
    }

    /// Appends a value to the list at a path of dots under `spec`.
    pub(super) fn push(&mut self, field: &str, value: impl Into<Value>, note: &str) {
        let mut list = self.get(field).as_array().cloned().unwrap_or_default();
        let field_of_item = format!("{field}.{}", list.len());
        list.push(value.into());
        let before = self.notes.clone();
        self.set(field, list, "");
        self.notes = before;
        // A comment stands behind the first value of the item.
        let first = first_scalar(&self.get(&field_of_item), &field_of_item);
        self.note(&first, note);
    }

    /// The value at a path of dots under `spec`; null when there is none.
    #[must_use]
    pub(super) fn get(&self, field: &str) -> Value {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        self.object.pointer(&pointer).cloned().unwrap_or(Value::Null)
    }

    /// A comment behind the value at a path of dots under `spec`, added to the one that is there.
    pub(super) fn note(&mut self, field: &str, note: &str) {
        if note.is_empty() {
            return;
        }
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let known = self.notes.entry(pointer).or_default();
        if !known.is_empty() {
            known.push_str("; ");
        }
        known.push_str(&printable::line(note));
    }

    /// Makes a pool or a workload's policy one that changes nothing, for something that it would do otherwise than before. A
    /// ClusterScalingPolicy has no mode and stays as it is.
    pub(super) fn only_preview(&mut self, reason: &str) {
        if self.object["kind"] == "ClusterScalingPolicy" {
            return;
        }
        if self.get("mode").is_null() {
            self.set("mode", "Preview", "");
        }
        self.note("mode", reason);
    }

    /// Makes a pool or a workload's policy one that changes nothing.
    pub(super) fn preview(&mut self) {
        if self.object["kind"] != "ClusterScalingPolicy" {
            self.set("mode", "Preview", "--preview; Apply once what it says is right");
        }
    }

    /// Takes away the comment behind a value.
    pub(super) fn forget_note(&mut self, field: &str) {
        self.notes.remove(&format!("/spec/{}", field.replace('.', "/")));
    }

    /// A comment above the object.
    pub(super) fn say(&mut self, comment: impl Into<String>) {
        self.head.push(comment.into());
    }

    /// The object and its comments as YAML.
    ///
    /// # Errors
    /// If our own validation refuses the object; the message names the field, the fix and the comment behind the value.
    pub(super) fn render(&self) -> anyhow::Result<String> {
        let errors =
            validate(&self.object).map_err(|error| anyhow::anyhow!("{error:#}{}", self.unknown()))?;
        if !errors.is_empty() {
            let words: Vec<String> = errors.iter().map(|error| self.located(error)).collect();
            anyhow::bail!("{} would not be accepted: {}{}", self.title(), words.join("; "), self.unknown());
        }
        if let Some(path) = bidirectional(&self.object, "") {
            anyhow::bail!(
                "{}: {path} has control characters of writing direction, with which text is another one than it looks like: \
                 take them out",
                self.title()
            );
        }
        let mut text = String::new();
        for comment in &self.head {
            wrap(comment, &mut text);
        }
        text.push_str(&serde_saphyr::to_string(&Noted {
            value: &self.object,
            path: String::new(),
            notes: &self.notes,
        })?);
        Ok(text)
    }

    /// The comments on unknown fields, each after a `; `: a missing field may have been meant by one of them.
    fn unknown(&self) -> String {
        let comments = self.head.iter().filter(|comment| comment.contains(UNKNOWN));
        comments.map(|comment| format!("; {comment}")).collect()
    }

    fn located(&self, error: &FieldError) -> String {
        let pointer = format!("/{}", error.path.replace(['.', '['], "/").replace(']', ""));
        match self.notes.get(&pointer) {
            Some(note) => format!("{error} (it comes from {note})"),
            None => error.to_string(),
        }
    }
}

fn first_scalar(value: &Value, path: &str) -> String {
    match value {
        Value::Object(map) => match map.iter().next() {
            Some((key, value)) if !key.contains(['.', '/']) => first_scalar(value, &format!("{path}.{key}")),
            _ => path.to_owned(),
        },
        Value::Array(items) if !items.is_empty() => first_scalar(&items[0], &format!("{path}.0")),
        _ => path.to_owned(),
    }
}

fn validate(object: &Value) -> anyhow::Result<Vec<FieldError>> {
    let refused = match object["kind"].as_str() {
        Some("NodePool") => validate_pool(&read::<NodePool>(object)?).err(),
        Some("ClusterScalingPolicy") => validate_policy(&read::<ClusterScalingPolicy>(object)?.spec).err(),
        _ => validate_scaling(&read::<ScalingPolicy>(object)?.spec).err(),
    };
    Ok(refused.unwrap_or_default())
}

fn read<T: DeserializeOwned>(object: &Value) -> anyhow::Result<T> {
    serde_json::from_value(object.clone()).with_context(|| {
        let (kind, metadata) = (object["kind"].as_str().unwrap_or_default(), &object["metadata"]);
        let namespace = metadata["namespace"].as_str().map(|space| format!("{space}/")).unwrap_or_default();
        format!("{kind} {namespace}{}", metadata["name"].as_str().unwrap_or_default())
    })
}

/// The path of a text with marks of writing direction, which YAML shows as they are.
fn bidirectional(value: &Value, path: &str) -> Option<String> {
    // Writers of YAML escape all others.
    let marked = |text: &str| text.chars().any(|one| printable::is_hidden(one) && !one.is_control());
    match value {
        Value::String(text) => marked(text).then(|| path.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| bidirectional(item, &format!("{path}[{at}]")))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let path = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, printable::line(name));
            if marked(name) { Some(path) } else { bidirectional(value, &path) }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A comment in lines of at most [`WIDTH`] characters where its words allow; what follows the first is indented.
pub(super) fn wrap(comment: &str, text: &mut String) {
    let mut line = "#".to_owned();
    for word in comment.split_whitespace() {
        let word = printable::line(word);
        if line.len() > 3 && WIDTH < line.chars().count() + 1 + word.chars().count() {
            text.push_str(&line);
            text.push('\n');
            "#  ".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(&word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// A value whose scalars carry the comments of their paths.
struct Noted<'a> {
    value: &'a Value,
    path: String,
    notes: &'a BTreeMap<String, String>,
}

impl Noted<'_> {
    fn child<'b>(&'b self, value: &'b Value, key: &str) -> Noted<'b> {
        Noted { value, path: format!("{}/{key}", self.path), notes: self.notes }
    }
}

impl Serialize for Noted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Object(map) => {
                let mut entries = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    entries.serialize_entry(key, &self.child(value, key))?;
                }
                entries.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for (index, value) in items.iter().enumerate() {
                    list.serialize_element(&self.child(value, &index.to_string()))?;
                }
                list.end()
            }
            scalar => match self.notes.get(&self.path) {
                Some(note) => Commented(scalar, note.clone()).serialize(serializer),
                None => scalar.serialize(serializer),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_above_the_object_and_behind_its_values() {
        let mut draft = Draft::new("ClusterScalingPolicy", None, "default");
        draft.set("nodes.limits.nodes", 5, "--max-nodes-total=5");
        draft.push("nodes.expanders", "Price", "");
        draft.say("above");
        let text = draft.render().unwrap();
        assert!(text.starts_with("# above\napiVersion: headroom.dev/v1alpha1\n"), "{text}");
        assert!(text.contains("nodes: 5 # --max-nodes-total=5\n"), "{text}");
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, draft.object);
    }

    #[test]
    fn a_refused_value_names_what_it_comes_from() {
        let mut draft = Draft::new("ClusterScalingPolicy", None, "default");
        draft.set("nodes.limits.nodes", -1, "--max-nodes-total=-1");
        let refusal = draft.render().unwrap_err().to_string();
        assert!(
            refusal.contains("spec.nodes.limits.nodes") && refusal.contains("--max-nodes-total=-1"),
            "{refusal}"
        );
    }

    #[test]
    fn marks_of_writing_direction_are_found_in_values_and_names() {
        let at = |value: Value| bidirectional(&value, "");
        assert_eq!(at(json!({"spec": {"a": [{"b": "x\u{202e}"}]}})), Some("spec.a[0].b".to_owned()));
        assert_eq!(at(json!({"a\u{2066}": 1})), Some("a\\u{2066}".to_owned()));
        // YAML has escapes for these.
        assert_eq!(at(json!({"a": "x\u{1b}\n\u{9b}"})), None);
    }

    #[test]
    fn long_comments_are_wrapped_and_none_of_their_words_is_lost() {
        let mut text = String::new();
        wrap(&"word ".repeat(50), &mut text);
        assert!(text.lines().all(|line| line.starts_with('#') && line.len() <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 50);
    }
}
