//! `headroom simulate`: reads a scenario, runs it and prints what happened.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use jiff::SignedDuration;
use serde_json::Value;

use crate::host::Host;
use crate::simulate::cluster::SimCluster;
use crate::simulate::narrate::{Narrator, Style, summary};
use crate::simulate::replica::PortKind;
use crate::simulate::run::{Options, run};
use crate::simulate::scenario::Scenario;
use crate::simulate::store::Kind;
use crate::telemetry;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
DIR holds ordinary manifests (NodePools, Deployments, Jobs, …) and scenario.yaml, which says what
happens when.

Examples:
  headroom simulate examples/rush-hour
  headroom simulate examples/a-day --every 30m
  headroom simulate examples/rush-hour --port wire --hash";

/// Lines of figures that a run of any length comes to, about.
const ROWS: i64 = 40;
/// What `--every` may come to by itself, in seconds.
const STEPS: [i64; 8] = [60, 120, 300, 600, 900, 1800, 3600, 21_600];

/// Options of `headroom simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateOptions {
    /// The folder of the scenario
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print figures at most once in so much simulated time; about 40 lines by default
    #[arg(long, value_name = "TIME", value_parser = length)]
    every: Option<SignedDuration>,

    /// How the operator observes the cluster
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
/// When the scenario cannot be read; the words name the file, the field and the fix.
pub fn simulate(options: &SimulateOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    let folder = &options.folder;
    anyhow::ensure!(
        folder.is_dir(),
        "{} is no folder; name one that holds manifests and a scenario.yaml",
        folder.display()
    );
    let mut scenario = Scenario::load(folder)?;
    scenario.seed = options.seed.unwrap_or(scenario.seed);
    let plain = Options { port: options.port, ..Options::of(&scenario) };
    let settings = if options.rough { plain.rough(&scenario) } else { plain };
    if options.trace {
        let settings = Options { keep_trace: true, ..settings };
        let outcome = run(&scenario, &settings, &mut |_| {}).context("failed to start the simulation")?;
        let mut out = stdout().lock();
        return Ok(outcome.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?);
    }
    if options.hash {
        let outcome = run(&scenario, &settings, &mut |_| {}).context("failed to start the simulation")?;
        println!("{}", outcome.hash);
        return Ok(());
    }
    tell(&scenario, &settings, options)
}

fn tell(scenario: &Scenario, settings: &Options, options: &SimulateOptions) -> anyhow::Result<()> {
    let style = Style {
        colours: stdout().is_terminal(),
        every: options.every.unwrap_or_else(|| usual_interval(scenario.duration)),
    };
    let mut narrator = Narrator::new(scenario, style);
    let mut out = stdout().lock();
    writeln!(out, "{}", narrator.head(scenario))?;
    let machine = Host::machine();
    let began_at = machine.wall();
    let mut broken = None;
    let mut pools = Vec::new();
    let end = scenario.start.saturating_add(scenario.duration)?;
    let outcome = run(scenario, settings, &mut |scene| {
        if options.status && end <= scene.now {
            pools = pools_of(scene.cluster);
        }
        for line in narrator.saw(scene) {
            if let Err(error) = writeln!(out, "{line}") {
                broken.get_or_insert(error);
            }
        }
    })
    .context("failed to start the simulation")?;
    for line in narrator.flush() {
        writeln!(out, "{line}")?;
    }
    let took = machine.wall().duration_since(began_at).as_secs_f64();
    write!(out, "\n{}", summary(&outcome, narrator.decisions_count(), scenario.duration, took))?;
    for pool in pools {
        write!(out, "---\n{pool}")?;
    }
    match broken {
        Some(error) => Err(error).context("failed to print"),
        None => Ok(()),
    }
}

/// The NodePools as YAML.
fn pools_of(cluster: &SimCluster) -> Vec<String> {
    let yaml = |pool: &Arc<Value>| serde_saphyr::to_string(&**pool).unwrap_or_else(|error| error.to_string());
    cluster.store().with(|store| store.all(Kind::NodePool).map(|(_, pool)| yaml(pool)).collect())
}

/// The shortest usual interval that gives no more than about [`ROWS`] lines.
fn usual_interval(duration: SignedDuration) -> SignedDuration {
    let wanted = duration.as_secs() / ROWS;
    let seconds = STEPS.iter().copied().find(|step| wanted <= *step).unwrap_or(86_400);
    SignedDuration::from_secs(seconds)
}

fn length(words: &str) -> Result<SignedDuration, String> {
    let length: SignedDuration =
        words.parse().map_err(|_| "write a time such as 90s, 10m or 1h".to_owned())?;
    if length < SignedDuration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(length)
}
