//! Renders the custom resource definitions as the files in crds/; reads and writes no cluster.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::api::{ClusterScalingPolicy, NodePool};

/// A definition that could not be written as YAML; the types in [`crate::api`] are at fault.
#[derive(Debug, thiserror::Error)]
#[error("failed to render {name}")]
pub struct Error {
    name: String,
    #[source]
    source: serde_saphyr::ser::Error,
}

/// Every definition, in the order in which they are applied.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    [NodePool::crd(), ClusterScalingPolicy::crd()].map(plain).into()
}

/// The file in crds/ that a definition belongs to, such as `nodepools.headroom.dev.yaml`.
pub fn file_name(definition: &CustomResourceDefinition) -> String {
    format!("{}.yaml", definition.metadata.name.as_deref().unwrap_or_default())
}

/// The definition as YAML, the same bytes each time.
///
/// # Errors
/// Only if the definition holds something that YAML can not say.
pub fn render(definition: &CustomResourceDefinition) -> Result<String, Error> {
    let yaml = serde_saphyr::to_string(definition)
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

/// Takes `nullable` out of every schema: an explicit null would pass `has()` in the rules and then fail them with a
/// message about types, while without `nullable` the API server says which field must not be null.
fn plain(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            forbid_null(schema);
        }
    }
    definition
}

fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
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
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn committed(file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds").join(file)
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

    #[test]
    fn definitions_are_small_enough_for_client_side_apply() {
        for definition in definitions() {
            assert!(render(&definition).unwrap().len() < 250_000, "{}", file_name(&definition));
        }
    }
}
