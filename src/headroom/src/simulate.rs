//! `headroom simulate`: reads a scenario, runs it and prints what happened, as text, JSON or a page.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use headroom_core::printable;
use jiff::SignedDuration;
use serde_json::Value;

use crate::progress::Progress;
use crate::source::{self, Form, Output};
use crate::telemetry;
use crate::terminal;
use crate::what_if::{self, Length, WhatIf};
use headroom_observe::host::Host;
use headroom_operator::page::{self, Document, Run};
use headroom_simulator::changes::Start;
use headroom_simulator::cluster::SimCluster;
use headroom_simulator::compare;
use headroom_simulator::render::{Renderer, Style, summary};
use headroom_simulator::replica::PortKind;
use headroom_simulator::run::{Options, Outcome, Scene, run};
use headroom_simulator::run_record::{RunRecord, document};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::Kind;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
START is one of:
  a scenario   a folder of manifests and a scenario.yaml, which says what happens when
  manifests    a folder or a .yaml file: NodePools, Deployments, Jobs, …
  a snapshot   the .json or .json.gz that `headroom snapshot -o` wrote of a cluster

Examples:
  headroom simulate examples/rush-hour
  headroom simulate examples/a-day --every 30m
  headroom simulate examples/rush-hour --html report.html
  headroom simulate examples/rush-hour -o json
  headroom simulate examples/rush-hour -o yaml
  headroom simulate examples/rush-hour --against other-pools.yaml --html compared.html
  headroom simulate cluster.json.gz --load 10 --for 2h
  headroom simulate cluster.json.gz --zone-down eu-west-1b --compare
  headroom simulate cluster.json.gz --with general.yaml --price spot=0.31 --html what-if.html
  headroom simulate examples/rush-hour --port wire --hash

docs/scenarios.md describes scenario.yaml, what a snapshot leaves out, and the JSON.";

/// Lines of figures that a run of any length comes to, about.
const ROWS: i64 = 40;
/// Possible values of the default for `--every`, in seconds.
const STEPS: [i64; 8] = [60, 120, 300, 600, 900, 1800, 3600, 21_600];

/// Options of `headroom simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// Start of the run: a scenario, manifests or a snapshot
    #[arg(value_name = "START")]
    start: PathBuf,

    #[command(flatten)]
    what_if: WhatIf,

    /// Run a second time without --with, --price, --load and --zone-down, and put both side by side
    #[arg(long, requires = "WhatIf", conflicts_with_all = ["against", "trace", "hash", "status"])]
    compare: bool,

    #[command(flatten)]
    length: Length,

    /// Print figures at most once in so much simulated time; about 40 lines by default
    #[arg(long, value_name = "TIME", value_parser = length)]
    every: Option<SignedDuration>,

    /// Interface by which the operator observes the cluster
    #[arg(long, value_enum, default_value_t = PortKind::Typed)]
    port: PortKind,

    /// Shapes names, uids and faults; the scenario's own by default
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Let requests fail, answers get lost, watches break and the operator die, in the first two thirds of the run
    #[arg(long)]
    rough: bool,

    /// Print the pools with their status at the end, as kubectl would
    #[arg(long)]
    status: bool,

    /// Run a second time with the pools and policies of this folder or file, or as this other scenario, and compare
    #[arg(long, value_name = "PATH", conflicts_with_all = ["trace", "hash", "status"])]
    against: Option<PathBuf>,

    /// Write a report as one HTML file that needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "hash"])]
    html: Option<PathBuf>,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Text, conflicts_with_all = ["trace", "hash", "status"])]
    output: Form,

    /// Print nothing but every write to the API, one a line: where two runs part shows in a diff
    #[arg(long)]
    trace: bool,

    /// Print nothing but the hash of all that happened: equal hashes are equal runs
    #[arg(long)]
    hash: bool,
}

/// Runs the scenario.
///
/// # Errors
/// If the scenario cannot be read; the message names the file, the field and the fix.
pub fn simulate(options: &SimulateOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    // Files that cannot be read are reported before anything runs.
    let first = load(&options.start, options)?;
    let changed = options.what_if.changes().applied(&first)?;
    let (first, second) = match &options.against {
        Some(path) => {
            let other = other(&changed, path, options)?;
            (changed, Some(other))
        }
        None if options.compare => (first, Some(changed)),
        None => (changed, None),
    };
    if second.is_some() || options.html.is_some() || options.output != Form::Text {
        return document_of(&first, second.as_ref(), options);
    }
    let (scenario, settings) = (&first.scenario, settings(&first, options));
    if options.trace {
        let settings = Options { keep_trace: true, ..settings };
        let outcome = run(scenario, &settings, &mut |_| {}).context("failed to start the simulation")?;
        for line in &outcome.trace {
            terminal::print(&format!("{}\n", printable::line(&line.to_string())))?;
        }
        return Ok(());
    }
    if options.hash {
        let outcome = run(scenario, &settings, &mut |_| {}).context("failed to start the simulation")?;
        return Ok(terminal::print(&format!("{}\n", outcome.hash))?);
    }
    render(scenario, &settings, options)
}

fn load(path: &Path, options: &SimulateOptions) -> anyhow::Result<Start> {
    let mut start = what_if::start(path, &options.length)?;
    start.scenario.seed = options.seed.unwrap_or(start.scenario.seed);
    Ok(start)
}

fn settings(start: &Start, options: &SimulateOptions) -> Options {
    let scenario = &start.scenario;
    let plain =
        Options { port: options.port, initial_state: start.initial_state.clone(), ..Options::of(scenario) };
    if options.rough { plain.rough(scenario) } else { plain }
}

/// Returns the start to compare with: another start under the same changes, or the same under other pools and policies.
fn other(start: &Start, path: &Path, options: &SimulateOptions) -> anyhow::Result<Start> {
    if path.join("scenario.yaml").exists() {
        return Ok(options.what_if.changes().applied(&load(path, options)?)?);
    }
    Ok(start.with_policies(path)?)
}

/// One run or two, written down: as a page, as JSON, as the figures side by side.
fn document_of(first: &Start, second: Option<&Start>, options: &SimulateOptions) -> anyhow::Result<()> {
    let scenario = &first.scenario;
    let mut runs = Vec::new();
    if options.output == Form::Text && second.is_none() {
        let mut run_record = RunRecord::new(scenario, &scenario.name);
        let settings = settings(first, options);
        let outcome = rendered(scenario, &settings, options, &mut |scene| run_record.saw(scene))?;
        runs.push(run_record.finish(&outcome));
    } else {
        runs.push(recorded(first, options)?);
    }
    if let Some(second) = second {
        runs.push(recorded(second, options)?);
    }
    let mut document = document(scenario, runs);
    if let Some(second) = second {
        document.length_seconds = document.length_seconds.max(second.scenario.duration.as_secs());
    }
    if let Some(file) = &options.html {
        write_page(file, &document)?;
    }
    if options.output != Form::Text {
        return Output { output: options.output }.print(&document, String::new);
    }
    if let [a, b] = document.runs.as_slice() {
        terminal::print(&compare::side_by_side(a, b))?;
    }
    if let Some(file) = &options.html {
        terminal::print(&format!("  {:<16} {}\n", "report", file.display()))?;
    }
    Ok(())
}

fn write_page(file: &Path, document: &Document) -> anyhow::Result<()> {
    let page = page::html(document).context("failed to write the report")?;
    std::fs::write(file, page).with_context(|| format!("failed to write {}", file.display()))
}

fn recorded(start: &Start, options: &SimulateOptions) -> anyhow::Result<Run> {
    let scenario = &start.scenario;
    let mut run_record = RunRecord::new(scenario, &scenario.name);
    let mut progress = Progress::of(scenario.name.clone());
    let seconds = |length: SignedDuration| u64::try_from(length.as_secs()).unwrap_or(0);
    let outcome = run(scenario, &settings(start, options), &mut |scene| {
        run_record.saw(scene);
        progress.saw(seconds(scene.now.duration_since(scenario.start)), seconds(scenario.duration));
    })
    .context("failed to start the simulation")?;
    progress.clear();
    Ok(run_record.finish(&outcome))
}

fn render(scenario: &Scenario, settings: &Options, options: &SimulateOptions) -> anyhow::Result<()> {
    rendered(scenario, settings, options, &mut |_| {}).map(drop)
}

/// Runs the scenario and renders its timeline meanwhile; `spectate` gets each step too.
fn rendered(
    scenario: &Scenario,
    settings: &Options,
    options: &SimulateOptions,
    spectate: &mut dyn FnMut(&Scene<'_>),
) -> anyhow::Result<Outcome> {
    let style = Style {
        colours: terminal::is_read_by_a_person(),
        every: options.every.unwrap_or_else(|| usual_interval(scenario.duration)),
    };
    let mut renderer = Renderer::new(scenario, style);
    terminal::print(&format!("{}\n", renderer.head(scenario)))?;
    let machine = Host::machine();
    let began_at = machine.wall();
    let mut broken = None;
    let mut pools = Vec::new();
    let end = scenario.start.saturating_add(scenario.duration)?;
    let outcome = run(scenario, settings, &mut |scene| {
        spectate(scene);
        if options.status && end <= scene.now {
            pools = pools_of(scene.cluster);
        }
        for line in renderer.saw(scene) {
            if let Err(error) = terminal::print_coloured(&format!("{line}\n")) {
                broken.get_or_insert(error);
            }
        }
    })
    .context("failed to start the simulation")?;
    for line in renderer.flush() {
        terminal::print_coloured(&format!("{line}\n"))?;
    }
    let took = machine.wall().duration_since(began_at).as_secs_f64();
    let summary = summary(&outcome, renderer.decisions_count(), scenario.duration, took);
    terminal::print(&format!("\n{summary}"))?;
    for pool in pools {
        terminal::print(&format!("---\n{pool}"))?;
    }
    match broken {
        Some(error) => Err(error).context("failed to print"),
        None => Ok(outcome),
    }
}

/// The NodePools as YAML.
fn pools_of(cluster: &SimCluster) -> Vec<String> {
    let yaml = |pool: &Arc<Value>| source::yaml(&**pool).unwrap_or_else(|error| error.to_string());
    cluster.store().with(|store| store.all(Kind::NodePool).map(|(_, pool)| yaml(pool)).collect())
}

/// The shortest usual interval that gives no more than about [`ROWS`] lines.
fn usual_interval(duration: SignedDuration) -> SignedDuration {
    let wanted = duration.as_secs() / ROWS;
    let seconds = STEPS.iter().copied().find(|step| wanted <= *step).unwrap_or(86_400);
    SignedDuration::from_secs(seconds)
}

/// Reads a time of at least 1 s such as `90s`, `10m` or `1h`.
///
/// # Errors
/// A message with a valid form.
pub fn length(words: &str) -> Result<SignedDuration, String> {
    let length: SignedDuration =
        words.parse().map_err(|_| "write a time such as 90s, 10m or 1h".to_owned())?;
    if length < SignedDuration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(length)
}
