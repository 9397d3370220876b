//! Reads the manifests of a scenario, as kubectl would take them, and checks what the CRDs would check.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Error;
use crate::store::{Kind, ObjectKey, object_at, text};
use headroom_api::validate::{FieldError, validate_policy, validate_pool};
use headroom_api::{ClusterScalingPolicy, NodePool};
use headroom_observe::host::files;

/// The one document of a file.
pub(super) fn read_one(path: &Path) -> Result<Value, Error> {
    let content = content(path)?;
    serde_saphyr::from_str(&content).map_err(|error| yaml(path, &error))
}

/// All manifests of a folder, by file name, `scenario.yaml` and the files in `except` apart. Sub-folders are left out.
pub(super) fn read_folder(folder: &Path, except: &[&Path]) -> Result<Vec<(Kind, Value)>, Error> {
    let read = |source| Error::Read { path: folder.to_owned(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        let own = path.file_name().is_some_and(|name| name == "scenario.yaml");
        if yaml && !own && !except.contains(&path.as_path()) {
            files.push(path);
        }
    }
    files.sort();
    let mut manifests = Vec::new();
    for file in files {
        manifests.extend(read_all(&file)?);
    }
    Ok(manifests)
}

/// All documents of a file.
pub(super) fn read_all(path: &Path) -> Result<Vec<(Kind, Value)>, Error> {
    let content = content(path)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&content).map_err(|error| yaml(path, &error))?;
    let mut manifests = Vec::new();
    for (index, document) in documents.into_iter().filter(|document| !document.is_null()).enumerate() {
        let wrong = |error: FieldError| {
            let error = FieldError { path: format!("document {}: {}", index + 1, error.path), ..error };
            Error::Field { path: path.to_owned(), error }
        };
        manifests.push(checked(document).map_err(wrong)?);
    }
    Ok(manifests)
}

fn checked(mut document: Value) -> Result<(Kind, Value), FieldError> {
    let error = |path: &str, problem: String, fix: String| FieldError { path: path.to_owned(), problem, fix };
    let (version, name) = (text(&document, &["apiVersion"]), text(&document, &["kind"]));
    let Some(kind) = version.zip(name).and_then(|(version, name)| Kind::by_type(version, name)) else {
        let problem =
            format!("{}/{} is not simulated", version.unwrap_or("no apiVersion"), name.unwrap_or("no kind"));
        let known: Vec<String> =
            Kind::ALL.iter().map(|kind| format!("{} {}", kind.api_version(), kind.info().kind)).collect();
        return Err(error("kind", problem, format!("use one of: {}", known.join(", "))));
    };
    if text(&document, &["metadata", "name"]).is_none() {
        return Err(error("metadata.name", "missing".into(), "give the object a name".into()));
    }
    if kind.info().namespaced {
        object_at(&mut document, &["metadata"]).entry("namespace").or_insert_with(|| "default".into());
    }
    check_own_kinds(kind, &document)?;
    Ok((kind, document))
}

/// Validates a NodePool or a ClusterScalingPolicy as the CRDs and the operator would; returns the first error.
fn check_own_kinds(kind: Kind, document: &Value) -> Result<(), FieldError> {
    let shape = |cause: serde_json::Error| FieldError {
        path: "spec".to_owned(),
        problem: cause.to_string(),
        fix: "see the CRD's field reference (headroom crds --docs)".to_owned(),
    };
    let complaints = match kind {
        Kind::NodePool => {
            let pool: NodePool = serde_json::from_value(document.clone()).map_err(shape)?;
            validate_pool(&pool).err()
        }
        Kind::ClusterScalingPolicy => {
            let policy: ClusterScalingPolicy = serde_json::from_value(document.clone()).map_err(shape)?;
            validate_policy(&policy.spec).err()
        }
        _ => None,
    };
    complaints.and_then(|complaints| complaints.into_iter().next()).map_or(Ok(()), Err)
}

/// True if the manifests hold this object.
pub(super) fn holds(manifests: &[(Kind, Value)], kind: Kind, key: &ObjectKey) -> bool {
    manifests.iter().any(|(each, object)| *each == kind && ObjectKey::of(object) == *key)
}

fn content(path: &Path) -> Result<String, Error> {
    files::read_text(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn yaml(path: &Path, error: &serde_saphyr::Error) -> Error {
    Error::Yaml { path: path.to_owned(), message: error.to_string() }
}
