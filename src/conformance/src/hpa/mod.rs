//! Runs the vectors of the horizontal pod autoscaler, tick by tick, and compares everything that they hold.

mod compare;
mod format;
mod world;

use headroom_core::labels::Labels;
use headroom_core::pods::admission;
use headroom_core::pods::decision::{Event, EventType, WriteOutcome};
use headroom_core::pods::defaulting::defaulted;
use headroom_core::pods::input::{Answer, Gates, Input, Options, PodSeen, Scale};
use headroom_core::pods::memory::Memory;
use headroom_core::pods::selector::{Registry, Selector};
use headroom_core::pods::spec::HpaSpec;
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::{after_write, conditions, decide};
use headroom_core::time::Seconds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::format::Scenario;
use self::format::{AdmissionError, Faults, Metrics, Pod, Step};

/// Tries before a conflicting write of the scale is given up, and how long each further one waits.
const TRIES: i64 = 5;
const RETRY_SECONDS: f64 = 0.01;

/// Result of a scenario.
pub(crate) struct Report {
    /// Differences; none if it passed.
    pub(crate) differences: Vec<String>,
    /// Note on parts that were not compared, or compared in another way, and why.
    pub(crate) note: Option<String>,
}

/// Runs one scenario.
pub(crate) fn run(scenario: &Scenario) -> Report {
    let mut differences = Vec::new();
    let note = match Runner::new(scenario) {
        Ok(mut runner) => {
            runner.admission(&mut differences);
            runner.steps(&mut differences)
        }
        Err(error) => {
            differences.push(error);
            None
        }
    };
    Report { differences, note }
}

struct Runner<'a> {
    scenario: &'a Scenario,
    options: Options,
    spec: HpaSpec,
    status: HpaStatus,
    memory: Memory,
    scale: Scale,
    registry: Registry,
    pods: &'a [Pod],
    metrics: &'a Metrics,
    /// True if the rest depends on arithmetic that leaves its range.
    saturates: bool,
}

/// An object of the API, and nothing in it that is not understood.
fn parse<T: DeserializeOwned + Serialize>(value: &Value) -> Result<T, String> {
    let parsed: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(&parsed).map_err(|error| error.to_string())?;
    compare::covered(value, &again, "").map(|()| parsed)
}

impl<'a> Runner<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, String> {
        static NO_METRICS: std::sync::OnceLock<Metrics> = std::sync::OnceLock::new();
        let given = &scenario.options;
        let mut registry = Registry::default();
        let namespace = &scenario.hpa.metadata.namespace;
        for other in &scenario.other_hpas {
            let selector = Selector::parse(&other.selector).map_err(|error| error.to_string())?;
            registry.put(namespace, &other.name, selector);
        }
        Ok(Self {
            scenario,
            options: Options {
                sync_period: Seconds(given.sync_period_seconds),
                downscale_stabilization: Seconds(given.downscale_stabilization_seconds),
                tolerance: given.tolerance,
                cpu_initialization_period: Seconds(given.cpu_initialization_period_seconds),
                initial_readiness_delay: Seconds(given.delay_of_initial_readiness_status_seconds),
                gates: Gates {
                    configurable_tolerance: given.feature_gates.configurable_tolerance,
                    scale_to_zero: given.feature_gates.scale_to_zero,
                    pod_level_resources: given.feature_gates.pod_level_resources,
                    // The vectors are those of release 1.35.
                    scaled_to_zero: false,
                },
                ..Options::default()
            },
            spec: parse(&scenario.hpa.spec)?,
            status: scenario.hpa.status.as_ref().map_or_else(|| Ok(HpaStatus::default()), parse)?,
            memory: Memory::default(),
            scale: Scale::default(),
            registry,
            pods: &[],
            metrics: NO_METRICS.get_or_init(Metrics::default),
            saturates: false,
        })
    }

    fn admission(&self, differences: &mut Vec<String>) {
        let scenario = self.scenario;
        if let Some(submitted) = &scenario.hpa_submitted {
            match parse::<HpaSpec>(&submitted.spec) {
                Ok(submitted) if defaulted(&submitted) == self.spec => {}
                Ok(submitted) => differences.push(format!(
                    "defaulting: want {:?}\n       got {:?}",
                    self.spec,
                    defaulted(&submitted)
                )),
                Err(error) => differences.push(format!("hpaSubmitted: {error}")),
            }
        }
        let found = admission::errors(&self.spec, self.options.gates).into_iter();
        let mut found: Vec<AdmissionError> = found
            .map(|error| AdmissionError { field: error.field, type_: error.type_.as_str().to_owned() })
            .collect();
        found.sort();
        let mut wanted: Vec<&AdmissionError> = scenario.admission_errors.iter().collect();
        wanted.sort();
        if wanted.is_empty() != scenario.admitted || found.iter().collect::<Vec<_>>() != wanted {
            differences.push(format!("admission: want {wanted:?}, got {found:?}"));
        }
    }

    /// Runs all steps. From the first on whose outcome depends on a quantity beyond the reference's range, sizes are not
    /// compared any more, but none may be lowered at such a step.
    fn steps(&mut self, differences: &mut Vec<String>) -> Option<String> {
        let mut note = None;
        for (index, step) in self.scenario.steps.iter().enumerate() {
            if step.unportable.iter().any(|why| why == "quantity") {
                self.saturates = true;
                note.get_or_insert_with(|| format!("from step {index} on such quantities are refused"));
            }
            if let Err(error) = self.step(index, step, differences) {
                differences.push(format!("step {index}: {error}"));
                break;
            }
        }
        note
    }

    fn apply(&mut self, step: &'a Step) -> Result<(), String> {
        match step.before.as_deref() {
            None => {}
            Some("restart") => self.memory = Memory::default(),
            Some("recreate") => (self.memory, self.status) = (Memory::default(), HpaStatus::default()),
            Some(other) => return Err(format!("unknown before {other:?}")),
        }
        if let Some(spec) = &step.hpa_spec {
            self.spec = parse(spec)?;
        }
        match &step.scale {
            Some(scale) => {
                self.scale = Scale {
                    spec_replicas: scale.spec_replicas,
                    status_replicas: scale.status_replicas,
                    selector: scale.selector.clone(),
                }
            }
            None => self.scale.status_replicas = self.scale.spec_replicas,
        }
        if let Some(pods) = &step.pods {
            self.pods = pods;
        }
        if let Some(metrics) = &step.metrics {
            self.metrics = metrics;
        }
        Ok(())
    }

    fn step(&mut self, index: usize, step: &'a Step, differences: &mut Vec<String>) -> Result<(), String> {
        self.apply(step)?;
        let metadata = &self.scenario.hpa.metadata;
        let namespace = metadata.namespace.as_str();
        let selector = Selector::parse(&self.scale.selector).unwrap_or_default();
        let selected: Vec<(&Pod, Labels)> = self
            .pods
            .iter()
            .map(|pod| (pod, world::pod_labels(pod)))
            .filter(|(_, labels)| selector.matches(labels))
            .collect();
        let rivals =
            self.registry.rivals(namespace, &metadata.name, selected.iter().map(|(_, labels)| labels));
        let containers = &self.scenario.default_containers;
        let seen: Vec<PodSeen> = selected.iter().map(|(pod, _)| world::pod(pod, containers)).collect();
        let seen: Vec<&PodSeen> = seen.iter().collect();
        let usage = world::usage(self.metrics, self.pods, &selector, step.at);
        let answers: Vec<Answer<'_>> = self
            .spec
            .metrics
            .iter()
            .map(|metric| world::answer(metric, self.metrics, &usage, self.pods, &selector, namespace))
            .collect();
        let scale_error = self.scale_error(&step.faults);
        let input = Input {
            now: world::at(step.at),
            options: &self.options,
            spec: &self.spec,
            schedules: &[],
            fallback: None,
            zero: None,
            formula: None,
            namespace,
            status: &self.status,
            memory: &self.memory,
            scale: match &scale_error {
                Some(error) => Err(error),
                None => Ok(&self.scale),
            },
            pods: &seen,
            rivals: &rivals,
            answers: &answers,
        };
        let decision = decide(&input);
        let current = self.scale.spec_replicas;
        let outcome = write(&step.faults, step.at);
        let written = decision
            .rescale
            .as_ref()
            .filter(|_| matches!(outcome, WriteOutcome::Written { .. }))
            .map(|rescale| rescale.to);
        let tick = after_write(decision, &outcome);
        // The status comes back through JSON, as it would from the API server.
        let through_json = serde_json::to_value(&tick.status).map_err(|error| error.to_string())?;
        let status: HpaStatus = parse(&through_json)?;
        let differs = status != self.status;
        let fails = differs && step.faults.update_status.is_some();
        let mut events = tick.events.clone();
        if fails {
            let reason = conditions::FAILED_UPDATE_STATUS;
            events.push(Event { type_: EventType::Warning, reason, message: String::new() });
        }
        events.extend(tick.events_after_status.iter().cloned());
        if differs && !fails {
            self.status = status;
        }
        if let Some(to) = written {
            self.scale.spec_replicas = to;
        }
        let got = compare::Got {
            written,
            status: &self.status,
            status_written: differs && !fails,
            events,
            action: tick.action.as_str(),
            error: tick.error_after_status(!fails).as_str(),
        };
        self.memory = tick.memory;
        let found =
            if self.saturates { compare::saturated(step, current, &got) } else { compare::step(step, &got) };
        differences.extend(found.into_iter().map(|difference| format!("step {index}: {difference}")));
        Ok(())
    }

    /// Reason why the scale can not be read: a fault, or a kind that the cluster does not serve.
    fn scale_error(&self, faults: &Faults) -> Option<String> {
        let target = &self.spec.scale_target_ref;
        let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
        let served = match group {
            "" => target.kind == "ReplicationController",
            "apps" => matches!(target.kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet"),
            _ => false,
        };
        if served { faults.get_scale.clone() } else { Some(format!("no matches for kind {}", target.kind)) }
    }
}

/// Returns the outcome of a write of the scale. Conflicts take time.
#[allow(clippy::cast_precision_loss)]
fn write(faults: &Faults, at: f64) -> WriteOutcome {
    let conflicts = faults.update_scale_conflicts;
    match &faults.update_scale {
        _ if conflicts >= TRIES => WriteOutcome::Failed { message: "too many conflicts".to_owned() },
        Some(error) => WriteOutcome::Failed { message: error.clone() },
        None => WriteOutcome::Written { at: world::at(at + conflicts as f64 * RETRY_SECONDS) },
    }
}
