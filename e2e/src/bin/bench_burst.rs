//! `make bench-burst`: many pods arrive at once; how long until all run, on how many nodes, at which cost.
//!
//! Everything shares one machine: etcd, API server, controller-manager, scheduler, KWOK and the operator. So the time
//! with the nodes already there (the floor) shows the limit of the machine, and the ratio to it compares.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use e2e::burst::{
    LARGE_CPU, LARGE_MEMORY_GIB, cpus_asked, create_deployments, lower_bound, wait_until_running,
};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{node, pool};
use e2e::shrink::count_cpus;
use e2e::{binaries, cluster, wait};

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

/// Known figures on the same control plane with 2 cores for everything.
const PEERS: [(u32, &str, &str, &str, &str, &str, &str); 6] = [
    (1000, "floor", "5.8", "1.0", "", "", ""),
    (1000, "Cluster Autoscaler 1.35", "12.1", "2.1", "62", "0.75", "97"),
    (1000, "Karpenter, Aug 2026", "14.4 to 20.1", "2.5 to 3.5", "65", "3.5 to 3.9", "162"),
    (5000, "floor", "32.3", "1.0", "", "", ""),
    (5000, "Cluster Autoscaler 1.35", "63.5", "2.0", "315", "5.5", "217"),
    (5000, "Karpenter, Aug 2026", "84.0", "2.6", "305", "27.9", "502"),
];

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

/// As many nodes as the lower bound has, each half as large again, so that no pod waits for a fitting place.
async fn put_nodes(cluster: &ControlPlane, count: u32) -> Result<()> {
    for number in 0..count {
        let shape = node(
            &format!("floor-{number}"),
            &(LARGE_CPU * 3 / 2).to_string(),
            &format!("{}Gi", LARGE_MEMORY_GIB * 3 / 2),
        );
        cluster.apply(shape).await?;
    }
    wait::until("all nodes are ready and untainted", Duration::from_secs(120), async || {
        let nodes = cluster.nodes().await?;
        let tainted = |node: &k8s_openapi::api::core::v1::Node| {
            node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty())
        };
        let n_usable = nodes.iter().filter(|node| cluster::is_ready(node) && !tainted(node)).count();
        ensure!(u32::try_from(n_usable)? == count, "{n_usable} of {count} are");
        Ok(())
    })
    .await
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
    for (n_pods, who, seconds, ratio, nodes, cpu, memory) in PEERS {
        if runs.iter().any(|run| run.n_pods == n_pods) {
            let (bound, asked) = (lower_bound(n_pods), cpus_asked(n_pods));
            println!(
                "| {n_pods} | {who}, known | {seconds} | {ratio} | {nodes} | {bound} | | {asked} | {cpu} | {memory} |"
            );
        }
    }
}
