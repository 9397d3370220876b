//! `headroom lint`: checks manifests without a cluster: each object by its definition, then all of them together.

mod schema;
mod together;

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::metric::MetricSpec;
use crate::api::validate::{FieldError, validate_policy, validate_pool, validate_scaling};
use crate::api::{ClusterScalingPolicy, GROUP, NodePool, ScalingPolicy, ScalingPolicySpec};
use crate::cli::source::Output;
use crate::metrics::confine;

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
    /// Kind and name; empty when the file itself is wrong.
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

/// Checks the files and prints what is wrong. A file that cannot be read is an error of its own, and hides no other file's.
///
/// # Errors
/// When something is wrong with a file or a manifest.
pub fn lint(options: &LintOptions) -> anyhow::Result<()> {
    let Input { manifests, mut findings } = read_all(&options.files);
    findings.extend(check(&manifests));
    findings.sort();
    options.output.print(&findings, || text(&findings, manifests.len()))?;
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    if errors > 0 || options.strict && warnings > 0 {
        let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
        bail!("{errors} and {warnings} in {}", counted(manifests.len(), "manifest"));
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
        "ScalingPolicy" => decoded::<ScalingPolicy>(&manifest.object).and_then(|policy| {
            validate_scaling(&policy.spec).map_err(words)?;
            queries(&policy.spec, manifest.namespace())
        }),
        _ => Ok(()),
    };
    let errors = errors.err().unwrap_or_default();
    errors.into_iter().map(|message| manifest.finding(Severity::Error, message)).collect()
}

/// Queries of Prometheus that are refused before they are sent.
fn queries(spec: &ScalingPolicySpec, namespace: &str) -> Result<(), Vec<String>> {
    let problem = |(index, metric): (usize, &MetricSpec)| {
        // Which label holds the namespace makes no difference to what can be confined.
        let error = confine(&metric.prometheus.as_ref()?.query, "namespace", namespace).err()?;
        Some(format!("spec.metrics[{index}].prometheus.query: {error}"))
    };
    let problems: Vec<String> = spec.metrics.iter().enumerate().filter_map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn decoded<T: for<'de> Deserialize<'de>>(object: &Value) -> Result<T, Vec<String>> {
    T::deserialize(object).map_err(|error| vec![error.to_string()])
}

fn words(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What was read.
#[derive(Debug, Default)]
struct Input {
    /// The manifests of every file that could be read.
    manifests: Vec<Manifest>,
    /// One for each file that could not.
    findings: Vec<Finding>,
}

/// Reads every file, also after one that cannot be read.
fn read_all(paths: &[PathBuf]) -> Input {
    let mut all = Input::default();
    for path in paths {
        read(path, &mut all);
    }
    all
}

/// Reads a file, every manifest of a folder, or standard input.
fn read(path: &Path, all: &mut Input) {
    let name = path.display().to_string();
    let manifests = match inside(path) {
        Ok(Some(files)) => return files.iter().for_each(|file| read(file, all)),
        Ok(None) => content(path).and_then(|content| parse(&name, &content)),
        Err(error) => Err(error),
    };
    match manifests {
        Ok(manifests) => all.manifests.extend(manifests),
        Err(error) => all.findings.push(Finding {
            file: name,
            object: String::new(),
            severity: Severity::Error,
            message: format!("{error:#}"),
        }),
    }
}

/// The folders and manifests in a folder, by name; `None` of what is no folder.
fn inside(path: &Path) -> anyhow::Result<Option<Vec<PathBuf>>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(path).context("failed to read the folder")?;
    let mut inside: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    inside.retain(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        file.is_dir() || matches!(extension, Some("yaml" | "yml" | "json"))
    });
    inside.sort();
    Ok(Some(inside))
}

fn content(path: &Path) -> anyhow::Result<String> {
    let mut content = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut content).context("failed to read")?;
    } else {
        let file = std::fs::File::open(path).context("failed to open")?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut content).context("failed to read")?;
    }
    Ok(content)
}

/// The manifests of a file; those of a List are taken out of it.
///
/// # Errors
/// When it is no YAML, with the line and the fix.
pub fn parse(file: &str, content: &str) -> anyhow::Result<Vec<Manifest>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(content).map_err(|error| anyhow!("{}", no_yaml(content, &error)))?;
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

/// Where it is no YAML and what to do about it. The usual mistakes are known by the line where reading stopped; what opens
/// far above it, such as a quote, is not.
fn no_yaml(content: &str, error: &serde_saphyr::Error) -> String {
    let problem = error.without_snippet().to_string();
    let at = error.location().map(|location| location.line()).unwrap_or_default();
    let number = usize::try_from(at).unwrap_or_default();
    let line = number.checked_sub(1).and_then(|above| content.lines().nth(above)).unwrap_or_default();
    let indent: String = line.chars().take_while(|letter| letter.is_whitespace()).collect();
    let fix = if content.contains("{{") {
        "this is a template: render it first, such as by `helm template . | headroom lint -`"
    } else if indent.contains('\t') {
        "indent by spaces: YAML takes no tabs"
    } else if line.starts_with("<<<<<<<") || line.starts_with("=======") || line.starts_with(">>>>>>>") {
        "a merge has left this line: resolve the conflict"
    } else {
        "look at this line and those above it: indentation, quotes and brackets; until then nothing in this file is checked"
    };
    match number {
        0 => format!("is no YAML: {problem}: {fix}"),
        line => format!("line {line}: is no YAML: {problem}: {fix}"),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn text(findings: &[Finding], manifests_count: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
        let _ = writeln!(text, "{}: {object}{severity}: {}", finding.file, finding.message);
    }
    if findings.is_empty() {
        let _ = writeln!(text, "{}, nothing wrong", counted(manifests_count, "manifest"));
    }
    text
}

#[cfg(test)]
mod tests;
