//! Renders the custom resource definitions as the files in crds/; reads and writes no cluster.

pub mod field_docs;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use headroom_api::{ClusterScalingPolicy, NodePool, ScalingPolicy};

#[derive(Debug)]
pub struct Error { name: String, source: serde_saphyr::ser::Error }
/// Every definition, in the order in which they are applied.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let node_pool = NodePool::crd();
    let mut policy = ClusterScalingPolicy::crd();
    // Nothing in it is required. Server-side apply that takes its last field away leaves `spec: null`, which the API
    // server refuses unless there is a default to put in its place.
    for spec in schemas(&mut policy).filter_map(|schema| schema.properties.as_mut()?.get_mut("spec")) {
        spec.default = Some(JSON(serde_json::json!({})));
    }
    [node_pool, policy, ScalingPolicy::crd()].map(with_few_nulls).into()
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

/// Leaves `nullable` only on objects of which every field is optional, and takes it from everything else.
///
/// Server-side apply that takes the last field of such an object away leaves a null in its place, which is then read as
/// the defaults. Elsewhere a null would pass `has()` in the rules and fail them with a message about types; without
/// `nullable` the API server says which field must not be null.
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

