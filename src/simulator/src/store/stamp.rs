//! Metadata of an object that only the server writes or decides: stamps, names, generations, the end of a deletion.

use headroom_core::mixing::mixed;
use serde_json::Value;

use super::object::{at, number, object_at};

/// Two numbers that no other object of the run has.
pub(super) fn identity(seed: u64, made_count: u64) -> (u64, u64) {
    // So that the first object of a run has none of zeros.
    let from = |number: u64| mixed(number.wrapping_add(0x9e37_79b9_7f4a_7c15));
    (from(seed ^ made_count), from(seed.rotate_left(32) ^ made_count.wrapping_mul(3)))
}

pub(super) fn keep_server_metadata(before: &Value, after: &mut Value) {
    const STAMPED: [&str; 6] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    // Nearly every write leaves them as they are: then looking is enough, and nothing is copied.
    for field in STAMPED {
        let kept = at(before, &["metadata", field]);
        if kept == after.get("metadata").and_then(|metadata| metadata.get(field)) {
            continue;
        }
        let metadata = object_at(after, &["metadata"]);
        match kept {
            Some(kept) => metadata.insert(field.into(), kept.clone()),
            None => metadata.remove(field),
        };
    }
    for field in ["name", "namespace"] {
        if let Some(kept) = at(before, &["metadata", field])
            && at(after, &["metadata", field]) != Some(kept)
        {
            object_at(after, &["metadata"]).insert(field.into(), kept.clone());
        }
    }
    for field in ["apiVersion", "kind"] {
        if before.get(field).is_none() || before.get(field) != after.get(field) {
            after[field] = before[field].clone();
        }
    }
}

/// True if the second object is by type and metadata what the first is, which the server has stamped.
pub(super) fn same_identity(before: &Value, after: &Value) -> bool {
    ["metadata", "apiVersion", "kind"]
        .iter()
        .all(|field| before.get(field).is_some_and(|kept| after.get(field) == Some(kept)))
}

/// Labels and annotations of which none is left are not there at all.
pub(super) fn drop_empty_metadata(object: &mut Value) {
    for field in ["labels", "annotations"] {
        let empty =
            at(object, &["metadata", field]).and_then(Value::as_object).is_some_and(|all| all.is_empty());
        if empty {
            object_at(object, &["metadata"]).remove(field);
        }
    }
}

/// True if what a generation counts is another: the spec, or all but metadata and status where there is none.
pub(super) fn spec_differs(before: &Value, after: &Value) -> bool {
    let main = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        let main = fields.filter(|(field, _)| *field != "metadata" && *field != "status");
        main.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    // The spec decides for nearly all kinds, and comparing it alone saves copying it.
    match (before.get("spec"), after.get("spec")) {
        (Some(before), Some(after)) => before != after,
        _ => main(before) != main(after),
    }
}

/// True if two objects whose specs are the same are the same. The spec is not looked at again: it is the larger part.
pub(super) fn rest_is_same(before: &Value, after: &Value) -> bool {
    let fields = |object: &Value| object.as_object().map_or(0, |fields| fields.len());
    let same = |(field, value): (&String, &Value)| field == "spec" || after.get(field) == Some(value);
    fields(before) == fields(after)
        && before.get("spec").is_some() == after.get("spec").is_some()
        && before.as_object().into_iter().flatten().all(same)
}

pub(super) fn after_finalizers(object: &Value) -> bool {
    let stamped = at(object, &["metadata", "deletionTimestamp"]).is_some();
    let held =
        at(object, &["metadata", "finalizers"]).and_then(Value::as_array).is_some_and(|f| !f.is_empty());
    let grace = number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    stamped && !held && grace == 0
}

pub(super) fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let fields = object_at(object, &[]);
    match value {
        Some(value) => fields.insert(field.into(), value),
        None => fields.remove(field),
    };
}

pub(super) fn uid((a, b): (u64, u64)) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 48 & 0xfff,
        b & 0xffff_ffff_ffff
    )
}

/// Five characters of the alphabet that Kubernetes uses for generated names (no vowels, no look-alikes).
pub(super) fn name_suffix((_, mut number): (u64, u64)) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut suffix = String::with_capacity(5);
    for _ in 0..5 {
        suffix.push(char::from(ALPHABET[(number % 27) as usize]));
        number /= 27;
    }
    suffix
}

pub(super) fn valid_name(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name.len() <= 253
        && name.starts_with(ends)
        && name.ends_with(ends)
        && name.chars().all(|c| ends(c) || c == '-' || c == '.')
}
