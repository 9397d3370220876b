//! Renders the custom resource definitions as the files in crds/; reads and writes no cluster.

pub mod field_docs;
#[cfg(test)]
mod rules;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde::ser::Error as _;

use headroom_api::{ClusterScalingPolicy, NodePool, ScalingPolicy, Scorecard};

/// A definition that could not be written as YAML; the types in [`headroom_api`] are at fault.
#[derive(Debug, thiserror::Error)]
#[error("failed to render {name}")]
pub struct Error {
    name: String,
    #[source]
    source: serde_saphyr::ser::Error,
}

/// Every definition, in the order in which they are applied.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let node_pool = NodePool::crd();
    let mut policy = ClusterScalingPolicy::crd();
    // Nothing in it is required. Server-side apply that takes its last field away leaves `spec: null`, which the API
    // server refuses unless there is a default to put in its place.
    for spec in schemas(&mut policy).filter_map(|schema| schema.properties.as_mut()?.get_mut("spec")) {
        spec.default = Some(JSON(serde_json::json!({})));
    }
    [node_pool, policy, ScalingPolicy::crd(), Scorecard::crd()].map(with_few_nulls).into()
}

fn schemas(definition: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let versions = definition.spec.versions.iter_mut();
    versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// The file in crds/ that a definition belongs to, such as `nodepools.headroom.dev.yaml`.
pub fn file_name(definition: &CustomResourceDefinition) -> String {
    format!("{}.yaml", definition.metadata.name.as_deref().unwrap_or_default())
}

/// The definition as YAML, the same bytes each time.
///
/// # Errors
/// Only if the definition holds something that YAML cannot express.
pub fn render(definition: &CustomResourceDefinition) -> Result<String, Error> {
    // By way of a value: the types of definitions are large, and would be compiled for YAML as well.
    let yaml = serde_json::to_value(definition)
        .map_err(serde_saphyr::ser::Error::custom)
        .and_then(|value| serde_saphyr::to_string(&value))
        .map_err(|source| Error { name: file_name(definition), source })?;
    Ok(format!("# Generated from src/api by `make crds`. Do not edit.\n{yaml}"))
}

/// All definitions as one YAML stream, ready for `kubectl apply -f -`.
///
/// # Errors
/// As [`render`].
pub fn render_all() -> Result<String, Error> {
    let rendered: Result<Vec<String>, Error> = definitions().iter().map(render).collect();
    Ok(rendered?.join("---\n"))
}

/// Leaves `nullable` only on objects of which every field is optional, and takes it from everything else.
///
/// Server-side apply that takes the last field of such an object away leaves a null in its place, which is then read as
/// the defaults. Elsewhere a null would pass `has()` in the rules and fail them with a message about types; without
/// `nullable` the API server names the field that must not be null.
fn with_few_nulls(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    schemas(&mut definition).for_each(forbid_null);
    definition
}

fn forbid_null(schema: &mut JSONSchemaProps) {
    if schema.properties.is_none() || schema.required.is_some() {
        schema.nullable = None;
    }
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        forbid_null(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        forbid_null(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
        // For the same reason: an atomic map stays an empty map.
        schema.x_kubernetes_map_type = Some("atomic".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn committed(file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join("crds").join(file)
    }

    #[test]
    fn committed_definitions_are_those_of_the_types() {
        for definition in definitions() {
            let path = committed(&file_name(&definition));
            let fresh = render(&definition).unwrap();
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &fresh).unwrap();
            }
            let stored = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(stored == fresh, "{} is stale: run `make crds` and commit the result", path.display());
        }
    }

    /// Every list and every text has a bound, so that the cost of the rules and the size of status have one too.
    fn check_bounds(schema: &JSONSchemaProps, path: &str) {
        // The API's own type.
        if path.starts_with("status.conditions[]") {
            return;
        }
        match schema.type_.as_deref() {
            Some("array") => assert!(schema.max_items.is_some(), "{path} has no maxItems"),
            Some("string") => {
                let bounded =
                    schema.max_length.is_some() || schema.enum_.is_some() || schema.format.is_some();
                assert!(bounded, "{path} has no maxLength");
            }
            Some("integer") if path.starts_with("spec") => {
                assert!(schema.minimum.is_some() && schema.maximum.is_some(), "{path} has no range");
            }
            _ => {}
        }
        for (name, property) in schema.properties.iter().flatten() {
            check_bounds(property, &format!("{path}.{name}"));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            check_bounds(items, &format!("{path}[]"));
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            assert!(schema.max_properties.is_some(), "{path} has no maxProperties");
            check_bounds(values, &format!("{path}{{}}"));
        }
    }

    #[test]
    fn every_list_text_and_number_is_bounded() {
        for mut definition in definitions() {
            for schema in schemas(&mut definition) {
                for part in ["spec", "status"] {
                    // A Scorecard has no spec.
                    if let Some(schema) = schema.properties.as_ref().unwrap().get(part) {
                        check_bounds(schema, part);
                    }
                }
            }
        }
    }

    #[test]
    fn every_rule_says_which_field_and_what_to_do() {
        fn check(schema: &JSONSchemaProps) {
            for rule in schema.x_kubernetes_validations.iter().flatten() {
                let message = rule.message.as_deref().unwrap_or_default();
                assert!(message.contains(": "), "{} has no message that names the fix", rule.rule);
            }
            schema.properties.iter().flatten().for_each(|(_, property)| check(property));
            if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
                check(items);
            }
        }
        for mut definition in definitions() {
            schemas(&mut definition).for_each(|schema| check(schema));
        }
    }

    /// Returns the value of a printer column, for the paths that are used: fields, indexes and one filter by equality.
    fn column(object: &serde_json::Value, json_path: &str) -> Option<serde_json::Value> {
        let pointer = json_path.replace("[0]", ".0").replace("[?(@.type==\"Ready\")]", ".{Ready}");
        pointer.split('.').skip(1).try_fold(object.clone(), |value, step| match step {
            "{Ready}" => value.as_array()?.iter().find(|item| item["type"] == "Ready").cloned(),
            step => match step.parse::<usize>() {
                Ok(index) => value.get(index).cloned(),
                Err(_) => value.get(step).cloned(),
            },
        })
    }

    fn check_columns<K>(definition: &CustomResourceDefinition, yaml: &str)
    where
        K: serde::Serialize + serde::de::DeserializeOwned,
    {
        let object: K = serde_saphyr::from_str(yaml).unwrap();
        let object = serde_json::to_value(&object).unwrap();
        let written: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(object, written, "something is lost or added between reading and writing");
        for shown in definition.spec.versions[0].additional_printer_columns.iter().flatten() {
            let value = column(&object, &shown.json_path);
            let right = value.as_ref().is_some_and(|value| match shown.type_.as_str() {
                "integer" => value.is_i64(),
                _ => value.is_string(),
            });
            assert!(right, "column {} shows {value:?}", shown.name);
        }
    }

    #[test]
    fn every_column_shows_something_of_a_full_object_and_no_field_is_lost() {
        let definitions = definitions();
        check_columns::<NodePool>(
            &definitions[0],
            include_str!("../../../e2e/tests/good-objects/with-status.yaml"),
        );
        check_columns::<ClusterScalingPolicy>(
            &definitions[1],
            include_str!("../../../e2e/tests/good-objects/policy-with-status.yaml"),
        );
        check_columns::<ScalingPolicy>(
            &definitions[2],
            include_str!("../../../e2e/tests/good-objects/scaling-with-status.yaml"),
        );
        check_columns::<Scorecard>(
            &definitions[3],
            include_str!("../../../e2e/tests/good-objects/scorecard-with-status.yaml"),
        );
    }

    #[test]
    fn objects_that_server_side_apply_has_emptied_can_still_be_read() {
        let yaml = "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {name: a}\nspec: {maxNodes: 1, limits: null, \
                    scaleUp: {backoff: null}, scaleDown: null, provider: {type: KWOK, kwok: {zones: [a]}}}";
        let pool: NodePool = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!((pool.spec.limits, pool.spec.scale_down), (None, None));
    }

    #[test]
    fn definitions_are_small_enough_for_client_side_apply() {
        for definition in definitions() {
            assert!(render(&definition).unwrap().len() < 250_000, "{}", file_name(&definition));
        }
    }
}
