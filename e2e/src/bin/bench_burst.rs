//! `make bench-burst`: many pods arrive at once; how long until all run, on how many nodes, at which cost.
//!
//! Everything shares one machine: etcd, API server, controller-manager, scheduler, KWOK and the operator. So the time
//! with the nodes already there (the floor) shows the limit of the machine, and the ratio to it compares.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use e2e::binaries;
use e2e::burst::{cpus_asked, create_deployments, lower_bound, put_nodes, wait_until_running};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::shrink::count_cpus;

/// Measures a burst of pods on a real control plane.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of pods, one run each.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000])]
    pods: Vec<u32>,
    /// Provider of the nodes; the ratio needs the floor.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Floor, Mode::Operator])]
    modes: Vec<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Enough nodes are there before the pods.
    Floor,
    /// The cluster is empty and the operator buys.
    Operator,
}

/// Result of one run.
struct Measured {
    n_pods: u32,
    mode: Mode,
    until_all_run: Duration,
    n_nodes: usize,
    /// CPUs of these nodes: of two sizes, one is not like the other.
    n_cpus: u64,
    /// CPU seconds and peak bytes of the operator since its start.
    cost: Option<(f64, u64)>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if args.modes.contains(&Mode::Operator) {
        binaries::release_operator()?;
    }
    let mut runs: Vec<Measured> = Vec::new();
    for &n_pods in &args.pods {
        for &mode in &args.modes {
            eprintln!("{n_pods} pods, {mode:?}: starting");
            let run = measure(n_pods, mode).await.with_context(|| format!("{n_pods} pods, {mode:?}"))?;
            eprintln!("{n_pods} pods, {mode:?}: {:.1} s", run.until_all_run.as_secs_f64());
            runs.push(run);
        }
    }
    print_table(&runs);
    Ok(())
}

async fn measure(n_pods: u32, mode: Mode) -> Result<Measured> {
    let cluster = ControlPlane::start(Options::new()).await?;
    let operator = match mode {
        Mode::Floor => {
            put_nodes(&cluster, lower_bound(n_pods)).await?;
            None
        }
        Mode::Operator => {
            let operator = cluster.operator().binary(binaries::release_operator()?).start()?;
            operator.ready().await?;
            cluster.apply(pool("small").capacity("4", "16Gi").nodes(0, 2000)).await?;
            cluster.apply(pool("large").capacity("16", "64Gi").nodes(0, 2000)).await?;
            Some(operator)
        }
    };

    let start = Instant::now();
    let (all_run, created) =
        tokio::join!(wait_until_running(&cluster, n_pods), create_deployments(&cluster, n_pods));
    if let (Err(_), Some(operator)) = (&all_run, &operator) {
        eprintln!("{}", operator.process().log_tail(40));
    }
    created?;
    let until_all_run = all_run?.duration_since(start);
    let cost = match &operator {
        Some(operator) => Some((operator.process().cpu_seconds()?, operator.process().peak_memory_bytes()?)),
        None => None,
    };
    let (n_nodes, n_cpus) = (cluster.nodes().await?.len(), count_cpus(&cluster).await?);
    Ok(Measured { n_pods, mode, until_all_run, n_nodes, n_cpus, cost })
}

fn print_table(runs: &[Measured]) {
    println!(
        "| pods | nodes come from | all Running (s) | to the floor | nodes | lower bound | their CPUs | asked for | CPU (s) | peak memory (MB) |"
    );
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for run in runs {
        let floor = runs.iter().find(|other| other.mode == Mode::Floor && other.n_pods == run.n_pods);
        let seconds = run.until_all_run.as_secs_f64();
        let ratio = floor
            .map_or(String::new(), |floor| format!("{:.2}", seconds / floor.until_all_run.as_secs_f64()));
        let who = if run.mode == Mode::Floor { "here before (the floor)" } else { "**Headroom**" };
        let (cpu, memory) = run.cost.map_or((String::new(), String::new()), |(cpu_seconds, peak_bytes)| {
            (format!("{cpu_seconds:.2}"), (peak_bytes / 1_000_000).to_string())
        });
        let (n_pods, n_nodes, bound) = (run.n_pods, run.n_nodes, lower_bound(run.n_pods));
        let (n_cpus, asked) = (run.n_cpus, cpus_asked(run.n_pods));
        println!(
            "| {n_pods} | {who} | {seconds:.1} | {ratio} | {n_nodes} | {bound} | {n_cpus} | {asked} | {cpu} | {memory} |"
        );
    }
}
