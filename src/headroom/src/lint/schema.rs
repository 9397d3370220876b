//! An object against the schema of its definition: unknown and missing fields, types, words of closed lists, bounds. The
//! rules between fields are for others.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::crds::definitions;

/// The definitions, generated once: that takes longer than to check an object.
static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(definitions);

/// Fields that have moved: the old place and the new one.
const MOVED: [(&str, &str); 2] = [
    ("spec.provider.kwok.joinDelay", "spec.provider.kwok.simulation.joinDelay"),
    ("spec.provider.kwok.failures", "spec.provider.kwok.simulation.failures"),
];

/// Returns the errors of an object of ours, each with its field.
#[must_use]
pub(super) fn check(object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let Some(definition) = DEFINITIONS.iter().find(|one| one.spec.names.kind == kind) else {
        let known: Vec<&str> = DEFINITIONS.iter().map(|one| &*one.spec.names.kind).collect();
        return vec![format!("kind: {kind:?} is not known: use {}", known.join(", "))];
    };
    let named = version.split_once('/').map(|(_, version)| version).unwrap_or_default();
    let Some(found) = definition.spec.versions.iter().find(|one| one.name == named) else {
        return vec![format!("apiVersion: {version:?} is not known: use headroom.dev/v1alpha1")];
    };
    let mut wrong = Vec::new();
    let names = names(object);
    if names.is_empty() && object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        wrong.push("metadata.name: is missing".to_owned());
    }
    wrong.extend(names);
    let schema = found.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let needed = |field: &str| {
        let required = schema.and_then(|schema| schema.required.as_ref());
        required.is_some_and(|required| required.iter().any(|one| one == field))
    };
    for field in ["spec", "status"] {
        let part = schema.and_then(|schema| schema.properties.as_ref()).and_then(|all| all.get(field));
        match (part, object.get(field)) {
            (Some(part), Some(value)) => walk(part, value, field, &mut wrong),
            (Some(_), None) if needed(field) => wrong.push(format!("{field}: is missing")),
            _ => {}
        }
    }
    wrong
}

/// Names of an object that YAML does not take for text: y and no are booleans, 12 is a number.
#[must_use]
pub(super) fn names(object: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for field in ["name", "namespace"] {
        let what = match &object["metadata"][field] {
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            _ => continue,
        };
        let value = &object["metadata"][field];
        wrong.push(format!("metadata.{field}: {value} is {what}, quote it"));
    }
    wrong
}

fn walk(schema: &JSONSchemaProps, value: &Value, path: &str, wrong: &mut Vec<String>) {
    if value.is_null() {
        if schema.nullable != Some(true) {
            wrong.push(format!("{path}: is null; leave the field out instead"));
        }
        return;
    }
    let either = schema.x_kubernetes_int_or_string == Some(true);
    if let Some(wanted) = schema.type_.as_deref().filter(|_| !either) {
        let right = match wanted {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            _ => true,
        };
        if !right {
            // YAML takes 4, and on, off, y and n, for something else than the text they look like.
            let plain = value.is_number() || value.is_boolean();
            let fix = if wanted == "string" && plain { "; put it in quotes" } else { "" };
            wrong.push(format!("{path}: {value} is not of type {wanted}{fix}"));
            return;
        }
    }
    if let Some(words) = &schema.enum_
        && !words.iter().any(|word| word.0 == *value)
    {
        let known: Vec<String> = words.iter().map(|word| word.0.to_string().replace('"', "")).collect();
        wrong.push(format!("{path}: {value} is not known: use {}", known.join(", ")));
    }
    bounds(schema, value, path, wrong);
    match value {
        Value::Object(fields) => object(schema, fields, path, wrong),
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(each)) = &schema.items {
                // The definitions forbid it by rules; the operator itself forgives it.
                let repeated = items.iter().enumerate().find(|(at, item)| items[..*at].contains(item));
                if let (Some((_, item)), true) = (repeated, each.enum_.is_some()) {
                    wrong.push(format!("{path}: {item} must not be repeated: remove the second one"));
                }
                for (at, item) in items.iter().enumerate() {
                    walk(each, item, &format!("{path}[{at}]"), wrong);
                }
            }
        }
        _ => {}
    }
}

fn object(
    schema: &JSONSchemaProps,
    fields: &serde_json::Map<String, Value>,
    path: &str,
    wrong: &mut Vec<String>,
) {
    for required in schema.required.iter().flatten() {
        if !fields.contains_key(required) {
            wrong.push(format!("{path}.{required}: is missing"));
        }
    }
    let known = schema.properties.as_ref();
    let free = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match (known.and_then(|known| known.get(name)), &schema.additional_properties) {
            (Some(schema), _) => walk(schema, value, &path, wrong),
            (None, Some(JSONSchemaPropsOrBool::Schema(each))) => walk(each, value, &path, wrong),
            (None, Some(JSONSchemaPropsOrBool::Bool(true))) => {}
            (None, _) if free || known.is_none() => {}
            (None, _) => {
                if let Some((_, now)) = MOVED.iter().find(|(before, _)| *before == path) {
                    wrong.push(format!("{path}: has moved: write it as {now}"));
                    continue;
                }
                let names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                wrong.push(format!("{path}: there is no such field: there are {}", names.join(", ")));
            }
        }
    }
}

fn bounds(schema: &JSONSchemaProps, value: &Value, path: &str, wrong: &mut Vec<String>) {
    if let Some(number) = value.as_f64() {
        if let Some(least) = schema.minimum.filter(|least| number < *least) {
            wrong.push(format!("{path}: {value} is less than {least}"));
        }
        if let Some(most) = schema.maximum.filter(|most| *most < number) {
            wrong.push(format!("{path}: {value} is more than {most}"));
        }
    }
    let length = match value {
        Value::String(text) => i64::try_from(text.chars().count()).ok(),
        _ => None,
    };
    if let Some(length) = length {
        if schema.max_length.is_some_and(|most| most < length) {
            wrong.push(format!("{path}: has more than {} characters", schema.max_length.unwrap_or(0)));
        }
        if schema.min_length.is_some_and(|least| length < least) {
            wrong.push(format!("{path}: has fewer than {} characters", schema.min_length.unwrap_or(0)));
        }
    }
    if let Value::Array(items) = value {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if schema.max_items.is_some_and(|most| most < count) {
            wrong.push(format!("{path}: has more than {} entries", schema.max_items.unwrap_or(0)));
        }
        if schema.min_items.is_some_and(|least| count < least) {
            wrong.push(format!("{path}: has fewer than {} entries", schema.min_items.unwrap_or(0)));
        }
    }
}
