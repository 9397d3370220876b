//! Treatment of each field of an imported object: tables to read, and the walk that names the fields that they do not
//! keep. It converts nothing.

pub(super) mod hpa;
pub(super) mod karpenter;
pub(super) mod keda;
pub(super) mod marks;
mod page;

pub use page::fields_page;

use serde_json::{Map, Value};

use super::output::{Draft, UNKNOWN};

/// Most characters of a value in a comment; the rest is counted.
const SHOWN_MAX: usize = 400;

/// Treatment of a field here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    /// These fields of ours.
    Field(&'static str),
    /// Something that depends on its value and on other fields, described in these words.
    Shapes(&'static str),
    /// Nothing, for this reason, with what to do instead.
    Instead(&'static str),
}

/// A field, or several below one path that are reported together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Path with dots; `[]` stands for the items of a list.
    pub path: &'static str,
    /// All fields below it, divided by blanks. Empty: it has none, or any.
    pub parts: &'static str,
    /// Their treatment here.
    pub becomes: Becomes,
}

/// A field without parts.
const fn row(path: &'static str, becomes: Becomes) -> Row {
    Row { path, parts: "", becomes }
}

/// All fields below `path`.
const fn rows(path: &'static str, parts: &'static str, becomes: Becomes) -> Row {
    Row { path, parts, becomes }
}

/// All fields of one kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The release whose fields these are, such as `Karpenter 1.15`.
    pub release: &'static str,
    /// The kind, as in its manifests.
    pub kind: &'static str,
    /// Its fields.
    pub rows: &'static [Row],
}

impl Row {
    /// The paths of its fields.
    fn paths(&self) -> Vec<String> {
        let below = |part: &str| match part.strip_prefix('[') {
            Some(_) => format!("{}{part}", self.path),
            None => format!("{}.{part}", self.path),
        };
        match self.parts.is_empty() {
            true => vec![self.path.to_owned()],
            false => self.parts.split(' ').map(below).collect(),
        }
    }
}

impl Table {
    /// The paths of all fields, in the order of the rows.
    #[must_use]
    pub(super) fn paths(&self) -> Vec<String> {
        self.rows.iter().flat_map(Row::paths).collect()
    }

    /// Comments on what of `object` has no counterpart, with `title` before each path. A field that the release does not
    /// have is named as unknown, and the draft becomes a preview.
    pub(super) fn say(&self, draft: &mut Draft, title: &str, object: &Value) {
        Walk { table: self, paths: self.paths(), title, draft }.visit("", object);
    }

    /// The part of the value at `path` that the release has; the rest is left to [`Table::say`].
    #[must_use]
    pub(super) fn known_part(&self, path: &str, value: &Value) -> Value {
        keep(&self.paths(), path, value)
    }
}

/// True if one of the fields is `path`, or is below it.
fn leads_on(paths: &[String], path: &str) -> bool {
    paths.iter().any(|known| {
        let rest = if path.is_empty() { Some(known.as_str()) } else { known.strip_prefix(path) };
        path.is_empty() || rest.is_some_and(|rest| rest.starts_with(['.', '[']))
    })
}

fn child(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn keep(paths: &[String], path: &str, value: &Value) -> Value {
    if paths.iter().any(|known| known == path) {
        return value.clone();
    }
    match value {
        Value::Object(fields) => {
            let known = fields.iter().filter_map(|(field, value)| {
                let path = child(path, field);
                let is_known = paths.contains(&path) || leads_on(paths, &path);
                is_known.then(|| (field.clone(), keep(paths, &path, value)))
            });
            Value::Object(known.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| keep(paths, &format!("{path}[]"), item)).collect(),
        scalar => scalar.clone(),
    }
}

/// A walk over an object.
struct Walk<'a> {
    table: &'a Table,
    paths: Vec<String>,
    title: &'a str,
    draft: &'a mut Draft,
}

impl Walk<'_> {
    fn visit(&mut self, path: &str, value: &Value) {
        if value.is_null() {
            return;
        }
        if let Some(row) = self.table.rows.iter().find(|row| row.path == path) {
            if let Becomes::Instead(words) = row.becomes {
                self.draft.say(format!("{}{path} {}: no counterpart: {words}.", self.title, shown(value)));
            }
            if row.parts.is_empty() {
                return;
            }
        }
        if self.paths.iter().any(|known| known == path) {
            return;
        }
        match value {
            Value::Object(fields) if leads_on(&self.paths, path) => {
                for (field, value) in fields {
                    self.visit(&child(path, field), value);
                }
            }
            Value::Array(items) if leads_on(&self.paths, &format!("{path}[]")) || self.is_item(path) => {
                for item in items {
                    self.visit(&format!("{path}[]"), item);
                }
            }
            _ => self.unknown(path, value),
        }
    }

    /// True if the items of this list are a field.
    fn is_item(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known.strip_suffix("[]") == Some(path))
    }

    fn unknown(&mut self, path: &str, value: &Value) {
        let (title, release) = (self.title, self.table.release);
        let why = match leads_on(&self.paths, path) {
            true => format!("{release} has fields or a list here, and not this value"),
            false => format!("{UNKNOWN}: {release} does not have it"),
        };
        self.draft.say(format!(
            "{title}{path} {}: {why}. Nothing was made of it: correct it, or set by hand what a newer release means by it.",
            shown(value)
        ));
        self.draft.only_preview(&format!("{title}{path} is not known, see above"));
    }
}

/// A value as JSON, at most so long that a comment can be read.
#[must_use]
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    let n_characters = text.chars().count();
    if n_characters <= SHOWN_MAX {
        return text;
    }
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start}… ({} more characters)", n_characters - SHOWN_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SMALL: Table = Table {
        release: "Thing 1.0",
        kind: "Thing",
        rows: &[
            row("size", Becomes::Field("maxNodes")),
            row("labels", Becomes::Field("template.labels")),
            rows("disks", "[].name [].raid.level [].zones[]", Becomes::Instead("a disk of the template")),
        ],
    };

    fn said(object: &Value) -> String {
        let mut draft = Draft::new("NodePool", None, "a");
        SMALL.say(&mut draft, "Thing a ", object);
        format!("{draft:?}")
    }

    #[test]
    fn fields_without_a_counterpart_are_named_once_with_their_value() {
        let disks = json!([{"name": "root", "raid": {"level": 0}, "zones": ["a"]}]);
        let text = said(&json!({"size": 3, "labels": {"any": "thing"}, "disks": disks}));
        assert_eq!(text.matches("no counterpart: a disk of the template").count(), 1, "{text}");
        assert!(text.contains("root") && !text.contains("UNKNOWN") && !text.contains("Preview"), "{text}");
    }

    #[test]
    fn unknown_fields_are_named_at_every_depth_and_make_a_preview() {
        for object in [
            json!({"colour": 1}),
            json!({"disks": [{"colour": 1}]}),
            json!({"disks": [{"raid": {"colour": 1}}]}),
        ] {
            let text = said(&object);
            assert!(text.contains("colour 1: UNKNOWN field: Thing 1.0 does not have it"), "{text}");
            assert!(text.contains("Preview"), "{text}");
        }
        assert!(said(&json!({"disks": 7})).contains("has fields or a list here"));
    }

    #[test]
    fn known_part_of_a_value_is_kept_as_it_is() {
        let disks = json!([{"name": "root", "colour": 1, "raid": {"level": 0, "colour": 1}}]);
        let kept = SMALL.known_part("disks", &disks);
        assert_eq!(kept, json!([{"name": "root", "raid": {"level": 0}}]));
    }

    #[test]
    fn long_value_is_cut_and_the_rest_is_counted() {
        let text = shown(&json!("x".repeat(500)));
        assert!(text.ends_with("… (102 more characters)"), "{text}");
    }
}
