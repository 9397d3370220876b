//! `headroom lint`: checks manifests without a cluster: each object by its definition, then all of them together.

mod limits;
mod schema;
mod together;
mod windows;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use headroom_core::printable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::source::Output;
use headroom_api::metric::MetricSpec;
use headroom_api::validate::{FieldError, validate_policy, validate_pool, validate_scaling};
use headroom_api::{ClusterScalingPolicy, GROUP, NodePool, SCORECARD_NAME, ScalingPolicy, ScalingPolicySpec};
use headroom_observe::host::files::{self, Bounded};
use headroom_observe::metrics::confine;

/// Examples of `headroom lint`.
pub const EXAMPLES: &str = "Examples:
  headroom lint pools/ workloads/            folders: every .yaml, .yml and .json in them
  kustomize build . | headroom lint -        what a tool has rendered
  headroom lint --strict -o json deploy/     for a pipeline: warnings fail too

Errors are what the API server would refuse, and what can never work. Warnings are what works badly: pools that no
pod given can use, workloads that fit no pool, sizes that flap, budgets that keep a node for ever.";

/// Most bytes of all files together.
const ALL_BYTES_MAX: usize = 512 << 20;
/// Most documents of a file, and values of documents that are read one by one: as many as the parser takes of a whole file.
const DOCUMENTS_MAX: usize = 1_024;
const VALUES_MAX: usize = 250_000;

/// Options of `headroom lint`.
#[derive(Args, Clone, Debug)]
pub struct LintOptions {
    /// Files and folders with manifests; `-` is standard input
    #[arg(value_name = "FILES", required = true)]
    pub files: Vec<PathBuf>,

    /// Fail on warnings too
    #[arg(long)]
    pub strict: bool,

    /// Format of the output.
    #[command(flatten)]
    pub output: Output,
}

/// Severity of a finding.
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
    /// Severity.
    pub severity: Severity,
    /// Description of the error, with the field and the fix.
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

    /// True if it is one of ours.
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
/// If a file or a manifest has an error.
pub fn lint(options: &LintOptions) -> anyhow::Result<()> {
    let Input { manifests, mut findings, .. } = read_all(&options.files);
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
    findings.extend(manifests.iter().filter(|one| !one.ours()).flat_map(names));
    findings.extend(together::check(manifests));
    findings.sort();
    findings.dedup();
    findings
}

/// Returns the errors of one of our objects: by the definition's schema first, and if that holds by its rules.
///
/// The rules are those of `src/api/validate`, by which the operator itself validates; a test holds them against the CEL rules
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
        "Scorecard" if manifest.name() != SCORECARD_NAME => {
            Err(vec!["metadata.name: there is one Scorecard; call it default".to_owned()])
        }
        _ => Ok(()),
    };
    let errors = errors.err().unwrap_or_default();
    errors.into_iter().map(|message| manifest.finding(Severity::Error, message)).collect()
}

/// Names that YAML does not take for text, such as y, no and 12.
fn names(manifest: &Manifest) -> Vec<Finding> {
    let wrong = schema::names(&manifest.object).into_iter();
    wrong.map(|message| manifest.finding(Severity::Error, message)).collect()
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

/// Manifests that were read, and findings so far.
#[derive(Debug, Default)]
struct Input {
    /// The manifests of every file and document that could be read.
    manifests: Vec<Manifest>,
    /// One for each file and document that could not.
    findings: Vec<Finding>,
    /// Bytes of all files.
    bytes: usize,
}

impl Input {
    fn complain(&mut self, file: &str, message: String) {
        self.findings.push(Finding {
            file: file.to_owned(),
            object: String::new(),
            severity: Severity::Error,
            message,
        });
    }
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
    let content = match inside(path) {
        Ok(Some(files)) => return files.iter().for_each(|file| read(file, all)),
        Ok(None) => content(path),
        Err(error) => Err(error),
    };
    match content {
        Ok(content) if ALL_BYTES_MAX < all.bytes.saturating_add(content.len()) => {
            all.complain(
                &name,
                format!("all files together are larger than {ALL_BYTES_MAX} bytes: give fewer"),
            );
        }
        Ok(content) => {
            all.bytes += content.len();
            let (manifests, errors) = parse_documents(&name, &content);
            all.manifests.extend(manifests);
            errors.into_iter().for_each(|error| all.complain(&name, error));
        }
        Err(error) => all.complain(&name, format!("{error:#}")),
    }
}

/// The folders and manifests in a folder, by name; `None` if it is not a folder.
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
    if path == Path::new("-") {
        return Bounded::new(std::io::stdin(), files::TEXT_BYTES_MAX).text().context("failed to read");
    }
    let file = std::fs::File::open(path).context("failed to open")?;
    Bounded::new(file, files::TEXT_BYTES_MAX).text().context("failed to read")
}

/// The manifests of a file, those of a List taken out of it, and what is wrong with documents that cannot be read. One that
/// cannot be read hides no other.
fn parse_documents(file: &str, content: &str) -> (Vec<Manifest>, Vec<String>) {
    let (documents, errors) = read_documents(content);
    (manifests_of(file, documents), errors)
}

/// The documents of a text, and what is wrong with those that cannot be read.
pub(crate) fn read_documents(content: &str) -> (Vec<Value>, Vec<String>) {
    match serde_saphyr::from_multiple::<Value>(content) {
        Ok(documents) => (documents, Vec::new()),
        Err(error) => match documents(content) {
            Some(parts) => parse_each(content, parts),
            None => (Vec::new(), vec![not_yaml(content, 0, &error)]),
        },
    }
}

/// Each document by itself, with the number of lines before it.
fn parse_each(content: &str, parts: Vec<(usize, &str)>) -> (Vec<Value>, Vec<String>) {
    let (mut all, mut errors, mut values) = (Vec::new(), Vec::new(), 0);
    for (before, part) in parts {
        match serde_saphyr::from_multiple::<Value>(part) {
            Ok(documents) => {
                values += documents.iter().map(size).sum::<usize>();
                if VALUES_MAX < values {
                    errors.push(format!(
                        "the documents have more than {VALUES_MAX} values: give smaller files"
                    ));
                    break;
                }
                all.extend(documents);
            }
            Err(error) => errors.push(not_yaml(content, before, &error)),
        }
    }
    (all, errors)
}

/// A value and all values in it.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// The documents of a file by the lines between them, each with the number of lines before it; `None` where there is one
/// only, or more than the parser of whole files takes.
fn documents(content: &str) -> Option<Vec<(usize, &str)>> {
    let mut parts = Vec::new();
    let (mut begin, mut at, mut before) = (0, 0, 0);
    for (number, line) in content.split_inclusive('\n').enumerate() {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && begin < at {
            parts.push((before, content.get(begin..at)?));
            (begin, before) = (at, number);
        }
        at += line.len();
    }
    parts.push((before, content.get(begin..)?));
    (2..=DOCUMENTS_MAX).contains(&parts.len()).then_some(parts)
}

fn manifests_of(file: &str, documents: Vec<Value>) -> Vec<Manifest> {
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
    manifests
}

/// Returns the position at which it is not YAML, and advice; the document begins after `before` lines. The usual
/// mistakes are known by the line where reading stopped; what opens far above it, such as a quote, is not.
fn not_yaml(content: &str, before: usize, error: &serde_saphyr::Error) -> String {
    let problem = error.without_snippet().to_string();
    let at = error.location().map(|location| location.line()).unwrap_or_default();
    let number = usize::try_from(at).unwrap_or_default();
    let number = if number == 0 { 0 } else { number + before };
    let line = number.checked_sub(1).and_then(|above| content.lines().nth(above)).unwrap_or_default();
    let indent: String = line.chars().take_while(|letter| letter.is_whitespace()).collect();
    let fix = if content.contains("{{") {
        "this is a template: render it first, such as by `helm template . | headroom lint -`"
    } else if problem.contains("duplicate") {
        "remove one of the two"
    } else if indent.contains('\t') {
        "indent by spaces: YAML takes no tabs"
    } else if line.starts_with("<<<<<<<") || line.starts_with("=======") || line.starts_with(">>>>>>>") {
        "a merge has left this line: resolve the conflict"
    } else {
        "look at this line and those above it: indentation, quotes and brackets; until then nothing in this document is checked"
    };
    match number {
        0 => format!("is not YAML: {problem}: {fix}"),
        line => format!("line {line}: is not YAML: {problem}: {fix}"),
    }
}

/// The findings on the content of a file as text, and the documents in it that cannot be read.
#[must_use]
pub fn report(file: &str, content: &str) -> (String, Vec<String>) {
    let (manifests, errors) = parse_documents(file, content);
    (text(&check(&manifests), manifests.len()), errors)
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
        let line = format!("{}: {object}{severity}: {}", finding.file, finding.message);
        let _ = writeln!(text, "{}", printable::line(&line));
    }
    if findings.is_empty() {
        let _ = writeln!(text, "{}, nothing wrong", counted(manifests_count, "manifest"));
    }
    text
}

#[cfg(test)]
mod tests;
