//! Input of an import: objects from files, standard input or a live cluster; it converts nothing.

use std::path::{Path, PathBuf};

use anyhow::Context;
use headroom_core::printable;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::{gather, lint};
use headroom_observe::host::files::{self, Bounded};

/// Most bytes of all files together.
const ALL_BYTES_MAX: usize = 512 << 20;

/// Origin of the objects of a live cluster.
pub(super) const CLUSTER: &str = "the cluster";

/// An object, and where it stands, for messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The file, or `the cluster`.
    pub from: String,
    /// The object.
    pub object: Value,
}

impl Source {
    /// Its kind; empty when it has none.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The API group of its kind; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        let version = self.object["apiVersion"].as_str().unwrap_or_default();
        version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `Kind namespace/name`, for messages.
    #[must_use]
    pub fn title(&self) -> String {
        let metadata = &self.object["metadata"];
        let name = metadata["name"].as_str().unwrap_or("without a name");
        let title = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{} {namespace}/{name}", self.kind()),
            None => format!("{} {name}", self.kind()),
        };
        printable::line(&title).into_owned()
    }
}

/// Result of reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Read {
    /// The objects.
    pub sources: Vec<Source>,
    /// Documents that cannot be read, each with the cause.
    pub unreadable: Vec<String>,
}

/// All objects of these files, `-` for standard input; YAML with several documents or JSON, and Lists taken apart.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn read_files(files: &[PathBuf]) -> anyhow::Result<Read> {
    let mut all = Read::default();
    let mut left = ALL_BYTES_MAX;
    for file in files {
        let (from, text) = read(file)?;
        left = left.checked_sub(text.len()).with_context(|| {
            format!("failed to read {from}: the files are larger than {ALL_BYTES_MAX} bytes together")
        })?;
        let read = parse(&from, &text);
        all.sources.extend(read.sources);
        all.unreadable.extend(read.unreadable);
    }
    Ok(all)
}

/// All objects of a text. A document that cannot be read hides no other.
#[must_use]
pub(super) fn parse(from: &str, text: &str) -> Read {
    let (documents, errors) = lint::read_documents(text);
    let mut read = Read::default();
    for object in documents.into_iter().filter(|document| !document.is_null()) {
        take_apart(from, object, &mut read.sources);
    }
    read.unreadable = errors.into_iter().map(|error| format!("{from}: {error}")).collect();
    read
}

fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let text = Bounded::new(std::io::stdin(), files::TEXT_BYTES_MAX).text();
        return Ok(("standard input".to_owned(), text.context("failed to read standard input")?));
    }
    let from = file.display().to_string();
    let text = files::read_text(file).with_context(|| format!("failed to read {from}"))?;
    Ok((from, text))
}

fn take_apart(from: &str, object: Value, sources: &mut Vec<Source>) {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array().filter(|_| is_list) {
        Some(items) => {
            // The items of a typed list may leave out what the list says for them.
            let kind = object["kind"].as_str().map(|kind| kind.trim_end_matches("List")).unwrap_or_default();
            for item in items {
                let mut item = item.clone();
                if !kind.is_empty() && item["kind"].is_null() {
                    item["kind"] = kind.into();
                    item["apiVersion"] = object["apiVersion"].clone();
                }
                take_apart(from, item, sources);
            }
        }
        None => sources.push(Source { from: from.to_owned(), object }),
    }
}

/// A kind to be read from the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as in its URL.
    pub plural: &'static str,
}

/// All objects of these kinds in the cluster that KUBECONFIG names, in one namespace or in all; none of a kind that is not
/// installed.
///
/// # Errors
/// If the cluster cannot be reached, or does not let itself be read.
pub(super) async fn read_live(kinds: &[Kind], namespace: Option<&str>) -> anyhow::Result<Vec<Source>> {
    let client = kube::Client::try_from(gather::config(None).await?)?;
    let mut sources = Vec::new();
    for Kind { group, version, kind, plural } in kinds {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let items = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            // Not all of the kinds have to be installed: a cluster has the classes of its own cloud.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("failed to list {plural} of the cluster"));
            }
        };
        for item in items {
            let mut object = serde_json::to_value(item)?;
            object["kind"] = (*kind).into();
            object["apiVersion"] = resource.api_version.clone().into();
            sources.push(Source { from: CLUSTER.to_owned(), object });
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart_and_their_items_know_their_kind() {
        let list = serde_json::json!({
            "apiVersion": "apps/v1", "kind": "DeploymentList",
            "items": [{"metadata": {"name": "a", "namespace": "n"}}],
        });
        let mut sources = Vec::new();
        take_apart(
            "f",
            serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [list]}),
            &mut sources,
        );
        assert_eq!((sources[0].title(), sources[0].group()), ("Deployment n/a".to_owned(), "apps"));
    }
}
