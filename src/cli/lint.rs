//! `headroom lint`: checks manifests without a cluster: each object by its definition, then all of them together.

mod schema;
mod together;

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::validate::{FieldError, validate_policy, validate_pool, validate_scaling};
use crate::api::{ClusterScalingPolicy, GROUP, NodePool, ScalingPolicy};
use crate::cli::source::Output;

/// Examples of `headroom lint`.
pub const EXAMPLES: &str = "Examples:
  headroom lint pools/ workloads/            folders: every .yaml, .yml and .json in them
  kustomize build . | headroom lint -        what a tool has rendered
  headroom lint --strict -o json deploy/     for a pipeline: warnings fail too

Errors are what the API server would refuse, and what can never work. Warnings are what works badly: pools that no
pod given can use, workloads that fit no pool, sizes that flap, budgets that keep a node for ever.";

/// Largest file read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Options of `headroom lint`.
#[derive(Args, Clone, Debug)]
pub struct LintOptions {
    /// Files and folders with manifests; `-` is standard input
    #[arg(value_name = "FILES", required = true)]
    pub files: Vec<PathBuf>,

    /// Fail on warnings too
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub output: Output,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Refused, or it can never work.
    Error,
    /// It works badly.
    Warning,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// Kind and name.
    pub object: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, with the field and the fix.
    pub message: String,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The file.
    pub file: String,
    /// The object.
    pub object: Value,
}

impl Manifest {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace, `default` where it names none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or("default")
    }

    /// Whether it is one of ours.
    #[must_use]
    pub fn ours(&self) -> bool {
        let version = self.object["apiVersion"].as_str().unwrap_or_default();
        version.split_once('/').is_some_and(|(group, _)| group == GROUP)
    }

    /// A finding about it.
    #[must_use]
    pub fn finding(&self, severity: Severity, message: impl Into<String>) -> Finding {
        Finding {
            file: self.file.clone(),
            object: format!("{}/{}", self.kind(), self.name()),
            severity,
            message: message.into(),
        }
    }
}

/// Checks the files and prints what is wrong.
///
/// # Errors
/// When a file cannot be read, or something is wrong with a manifest.
pub fn lint(options: &LintOptions) -> anyhow::Result<()> {
    let mut manifests = Vec::new();
    for file in &options.files {
        read(file, &mut manifests)?;
    }
    let findings = check(&manifests);
    options.output.print(&findings, || text(&findings, manifests.len()))?;
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    if errors > 0 || options.strict && warnings > 0 {
        bail!("{errors} errors and {warnings} warnings in {} manifests", manifests.len());
    }
    Ok(())
}

/// Everything that is wrong with these manifests, by file and object.
#[must_use]
pub fn check(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = manifests.iter().filter(|one| one.ours()).flat_map(alone).collect();
    findings.extend(together::check(manifests));
    findings.sort();
    findings.dedup();
    findings
}

/// What is wrong with one of our objects: by the definition's schema first, and if that holds by its rules.
///
/// The rules are those of `src/api/validate`, by which the operator itself judges; a test holds them against the CEL rules
/// of the definitions. An engine for CEL would add a third to the program for the same answers.
fn alone(manifest: &Manifest) -> Vec<Finding> {
    let shape = schema::check(&manifest.object);
    if !shape.is_empty() {
        return shape.into_iter().map(|message| manifest.finding(Severity::Error, message)).collect();
    }
    let errors = match manifest.kind() {
        "NodePool" => decoded::<NodePool>(&manifest.object)
            .and_then(|pool| validate_pool(&pool).map(drop).map_err(words)),
        "ClusterScalingPolicy" => decoded::<ClusterScalingPolicy>(&manifest.object).and_then(|policy| {
            if manifest.name() != "default" {
                return Err(vec![
                    "metadata.name: there is one ClusterScalingPolicy; call it default".to_owned(),
                ]);
            }
            validate_policy(&policy.spec).map(drop).map_err(words)
        }),
        "ScalingPolicy" => decoded::<ScalingPolicy>(&manifest.object)
            .and_then(|policy| validate_scaling(&policy.spec).map(drop).map_err(words)),
        _ => Ok(()),
    };
    let errors = errors.err().unwrap_or_default();
    errors.into_iter().map(|message| manifest.finding(Severity::Error, message)).collect()
}

fn decoded<T: for<'de> Deserialize<'de>>(object: &Value) -> Result<T, Vec<String>> {
    T::deserialize(object).map_err(|error| vec![error.to_string()])
}

fn words(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Reads a file, every manifest of a folder, or standard input.
fn read(path: &Path, manifests: &mut Vec<Manifest>) -> anyhow::Result<()> {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
            .with_context(|| format!("failed to read {}", path.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        inside.sort();
        let wanted = |file: &PathBuf| {
            let extension = file.extension().and_then(|extension| extension.to_str());
            file.is_dir() || matches!(extension, Some("yaml" | "yml" | "json"))
        };
        return inside.iter().filter(|file| wanted(file)).try_for_each(|file| read(file, manifests));
    }
    let mut content = String::new();
    let name = path.display().to_string();
    if name == "-" {
        std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut content)?;
    } else {
        let file = std::fs::File::open(path).with_context(|| format!("failed to open {name}"))?;
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut content)
            .with_context(|| format!("failed to read {name}"))?;
    }
    manifests.extend(parse(&name, &content)?);
    Ok(())
}

/// The manifests of a file; those of a List are taken out of it.
///
/// # Errors
/// When it is no YAML.
pub fn parse(file: &str, content: &str) -> anyhow::Result<Vec<Manifest>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(content).with_context(|| format!("{file} is no YAML"))?;
    let mut manifests = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let items = match &document["items"] {
            Value::Array(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                items.clone()
            }
            _ => vec![document],
        };
        manifests.extend(items.into_iter().map(|object| Manifest { file: file.to_owned(), object }));
    }
    Ok(manifests)
}

fn text(findings: &[Finding], manifests_count: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(text, "{}: {}: {severity}: {}", finding.file, finding.object, finding.message);
    }
    if findings.is_empty() {
        let _ = writeln!(text, "{manifests_count} manifests, nothing wrong");
    }
    text
}

#[cfg(test)]
mod tests;
