//! Scenarios: a folder of ordinary manifests and a `scenario.yaml` with events and their times; it reads files and runs
//! nothing. docs/scenarios.md is the page for their writers.
//!
//! `scenario.yaml` (durations are written `90s`, `10m` or `1h30m`; every field but `duration` may be left out):
//!
//! ```yaml
//! description: one line for the head of the report
//! start: 2026-03-02T06:00:00Z   # the wall time at which it begins; default 2026-01-05T00:00:00Z, a Monday
//! duration: 3h
//! tick: 1s                      # no two steps of the operator are closer than this; default 1s
//! seed: 1                       # shapes names, uids and faults; default 1
//! nodeReadyAfter: 1s            # from a Node object to Ready; default 1s
//! podStartsAfter: 1s            # from binding to Running; default 1s
//! events:                       # each with `at`, and `every` with `until` to repeat it
//! - {at: 10m, scale: {deployment: web, replicas: 20}}        # or statefulSet; namespace: default
//! - {at: 0s, scale: {deployment: web, curve: [[0s, 4], [1h, 40], [2h, 4]], step: 1m}}
//! - {at: 30m, deploy: {deployment: web}}                     # a new pod template; or statefulSet, daemonSet; image: …
//! - {at: 5m, apply: late/budget.yaml}                        # a manifest that is not there from the beginning
//! - {at: 6m, delete: {kind: Deployment, name: web}}
//! - {at: 40m, zoneOutage: {zone: a, for: 20m}}
//! - {at: 1h, slowCloud: {factor: 5, joinDelay: 2m, for: 30m}}
//! - {at: 1h, launchFailure: {pool: general, zone: a, class: OutOfCapacity, for: 30m}}
//! - {at: 1h, spotInterruption: {pool: spot, nodes: 60%, notice: 2m}}   # or nodes: 5; zone: a
//! - {at: 2h, price: {pool: spot, perHour: "0.19"}}
//! - {at: 0s, load: {deployment: web, curve: [[0s, 500], [1h, 9000]], step: 1m}}   # thousandths of a CPU, over its pods
//! - {at: 0s, load: {deployment: web, memoryMi: 4096}}          # over its pods, too; a number or a curve, as value is
//! - {at: 0s, load: {deployment: web, metric: {type: External, external: {metric: {name: queue}}}, value: 300}}
//! - {at: 2h, metricsOutage: {for: 5m}}                        # metrics-server is away
//! - {at: 50m, restartOperator: true}
//! - {at: 0s, message: the morning begins}
//! ```

mod events;
mod load;
mod manifests;
mod market;
mod reader;
mod timeline;

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::events::{Action, Event, Target};
pub use self::market::{Share, SpotInterruption};
pub use self::timeline::{Happening, Timeline};

use self::reader::Field;
use super::cluster::Timings;
use super::store::Kind;
use headroom_api::validate::FieldError;

/// A scenario that cannot be used: which file, which field, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// A file is no YAML.
    #[error("failed to parse {}: {message}", path.display())]
    Yaml {
        /// Path of the file.
        path: PathBuf,
        /// Position and description of the error.
        message: String,
    },
    /// A field is wrong.
    #[error("{}: {error}", path.display())]
    Field {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error, and how to fix it.
        error: FieldError,
    },
}

/// A scenario as it was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The folder's name.
    pub name: String,
    /// One line for the head of the report.
    pub description: String,
    /// The wall time at which it begins.
    pub start: Timestamp,
    /// Time that it runs.
    pub duration: SignedDuration,
    /// No two steps of the operator are closer than this.
    pub tick: SignedDuration,
    /// Shapes names, uids and faults.
    pub seed: u64,
    /// Delays of the cluster's components.
    pub timings: Timings,
    /// Objects at the start, in the order of the files.
    pub manifests: Vec<(Kind, Value)>,
    /// Events, by their time from the start.
    pub events: Vec<Event>,
}

/// The fields of a scenario.
const SETTINGS: [&str; 8] =
    ["description", "start", "duration", "tick", "seed", "nodeReadyAfter", "podStartsAfter", "events"];
impl Scenario {
    /// True if anything in it scales workloads: without, the loop of workloads has nothing to do.
    #[must_use]
    pub fn scales_workloads(&self) -> bool {
        let scales =
            |(kind, _): &(Kind, Value)| matches!(kind, Kind::ScalingPolicy | Kind::HorizontalPodAutoscaler);
        let late = self.events.iter().any(|event| match &event.action {
            Action::Apply(objects) => objects.iter().any(scales),
            _ => false,
        });
        late || self.manifests.iter().any(scales)
    }
}

/// A Monday, so that schedules of workdays begin at once.
const START_DEFAULT: &str = "2026-01-05T00:00:00Z";

impl Scenario {
    /// Reads the folder; the error names the file, the field and the fix.
    pub fn load(folder: &Path) -> Result<Scenario, Error> {
        let path = folder.join("scenario.yaml");
        Self::read(folder, &path, &manifests::read_one(&path)?)
    }

    /// Reads the text of a `scenario.yaml`, as that of a folder.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(folder: &Path, text: &str) -> Result<Scenario, Error> {
        let path = folder.join("scenario.yaml");
        let document: Value = serde_saphyr::from_str(text)
            .map_err(|error| Error::Yaml { path: path.clone(), message: error.to_string() })?;
        let root = Field::root(&document);
        let field = |error| Error::Field { path: path.clone(), error };
        let mut scenario = settings(&root).map_err(field)?;
        scenario.events = read_events(&root, (folder, path.as_path()), scenario.duration, &[])?;
        Ok(scenario)
    }

    fn read(folder: &Path, path: &Path, document: &Value) -> Result<Scenario, Error> {
        let field = |error| Error::Field { path: path.to_owned(), error };
        let root = Field::root(document);
        let mut scenario = settings(&root).map_err(field)?;
        scenario.name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_else(|| "scenario".into());
        let events = root.optional("events");
        let mut late = Vec::new();
        for item in events.iter().map(Field::items).collect::<Result<Vec<_>, _>>().map_err(field)?.concat() {
            if let Some(name) = item.optional("apply") {
                late.push((folder.join(name.text().map_err(field)?), item.path.clone()));
            }
        }
        let late_paths: Vec<&Path> = late.iter().map(|(path, _)| path.as_path()).collect();
        scenario.manifests = manifests::read_folder(folder, &late_paths)?;
        let mut known: Vec<(Kind, Value)> = scenario.manifests.clone();
        for path in &late_paths {
            known.extend(manifests::read_all(path)?);
        }
        scenario.events = read_events(&root, (folder, path), scenario.duration, &known)?;
        Ok(scenario)
    }

    /// A run of `duration` on manifests alone, in which nothing happens but what the operator does.
    #[must_use]
    pub fn of_manifests(name: &str, manifests: Vec<(Kind, Value)>, duration: SignedDuration) -> Scenario {
        Scenario {
            name: name.to_owned(),
            description: String::new(),
            start: START_DEFAULT.parse().unwrap_or(Timestamp::UNIX_EPOCH),
            duration,
            tick: SignedDuration::from_secs(1),
            seed: 1,
            timings: Timings::default(),
            manifests,
            events: Vec::new(),
        }
    }

    /// The same events and workloads under the pools and policies of `path`, a folder of manifests or one file.
    ///
    /// # Errors
    /// If they cannot be read, or no NodePool is among them.
    pub fn with_policies(&self, path: &Path) -> Result<Scenario, Error> {
        const POLICIES: [Kind; 3] = [Kind::NodePool, Kind::ClusterScalingPolicy, Kind::ScalingPolicy];
        let read = read_manifests(path)?;
        let policies = |manifests: &[(Kind, Value)], wanted: bool| -> Vec<(Kind, Value)> {
            manifests.iter().filter(|(kind, _)| POLICIES.contains(kind) == wanted).cloned().collect()
        };
        let ours = policies(&read, true);
        if !ours.iter().any(|(kind, _)| *kind == Kind::NodePool) {
            let (problem, fix) = ("holds no NodePool", "name a scenario, or a folder or file with NodePools");
            let error =
                FieldError { path: "kind".to_owned(), problem: problem.to_owned(), fix: fix.to_owned() };
            return Err(Error::Field { path: path.to_owned(), error });
        }
        let manifests = policies(&self.manifests, false).into_iter().chain(ours).collect();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Scenario { name: format!("{} with {name}", self.name), manifests, ..self.clone() })
    }
}

/// The manifests of a file, or of a folder without those of its sub-folders.
///
/// # Errors
/// If they cannot be read, or one of them is of a kind that is not simulated or breaks its rules.
pub fn read_manifests(path: &Path) -> Result<Vec<(Kind, Value)>, Error> {
    if path.is_dir() { manifests::read_folder(path, &[]) } else { manifests::read_all(path) }
}

/// The events of a document; `known` are the objects that they may name.
fn read_events(
    root: &Field<'_>,
    (folder, path): (&Path, &Path),
    duration: SignedDuration,
    known: &[(Kind, Value)],
) -> Result<Vec<Event>, Error> {
    let Some(events) = root.optional("events") else { return Ok(Vec::new()) };
    events::read(&events, folder, duration, known).map_err(|error| match error {
        events::Error::Field(error) => Error::Field { path: path.to_owned(), error },
        events::Error::Manifest(error) => error,
    })
}

fn settings(root: &Field<'_>) -> Result<Scenario, FieldError> {
    root.only(&SETTINGS)?;
    let duration_or = |name: &str, default: SignedDuration| {
        root.optional(name).map_or(Ok(default), |field| field.duration())
    };
    let timings = Timings::default();
    let start = match root.optional("start") {
        None => START_DEFAULT.parse().unwrap_or(Timestamp::UNIX_EPOCH),
        Some(field) => field
            .text()?
            .parse()
            .map_err(|_| field.error("no time", "write an RFC 3339 time such as 2026-03-02T06:00:00Z"))?,
    };
    let duration = root.required("duration", "how long the scenario runs, for example 2h")?;
    let tick = root.optional("tick");
    let scenario = Scenario {
        name: String::new(),
        description: root.optional("description").map_or(Ok(""), |field| field.text())?.to_owned(),
        start,
        duration: duration.duration()?,
        tick: duration_or("tick", SignedDuration::from_secs(1))?,
        seed: root.optional("seed").map_or(Ok(1), |field| field.whole(0, i64::MAX))?.unsigned_abs(),
        timings: Timings {
            node_ready: duration_or("nodeReadyAfter", timings.node_ready)?,
            pod_start: duration_or("podStartsAfter", timings.pod_start)?,
            ..timings
        },
        manifests: Vec::new(),
        events: Vec::new(),
    };
    if scenario.duration.is_zero() {
        return Err(duration.error("a scenario of no length", "write how long it runs, for example 2h"));
    }
    if let Some(tick) = tick.filter(|_| scenario.tick.is_zero()) {
        return Err(tick.error("time would stand still", "write at least 1s"));
    }
    Ok(scenario)
}

#[cfg(test)]
mod tests;
