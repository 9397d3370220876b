//! Measures a simulated week of 15,000 nodes with faults; it prints figures and fails if an invariant is violated.
//!
//! `make bench-week`, or ARGS="--hours 24 --nodes 500 --seed 7": smaller runs of the same kind.

use clap::Parser;
use headroom_faults::week::{WeekOptions, run_week};
use headroom_observe::host::thread_cpu_time;

/// Runs the operator for a simulated week on a large cluster in which things go wrong
#[derive(Parser, Debug)]
struct Arguments {
    /// Simulated hours
    #[arg(long, default_value_t = 168)]
    hours: i64,

    /// Nodes at most, some fourteen pods each
    #[arg(long, default_value_t = 15_000)]
    nodes: i64,

    /// Shapes names, uids and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Replicas of the operator
    #[arg(long, default_value_t = 2)]
    replicas: usize,

    /// Fewest seconds between two plans of the operator; 0 for as few as in production
    #[arg(long, default_value_t = 0)]
    tick: i64,

    /// Let nothing go wrong
    #[arg(long)]
    calm: bool,
}

fn main() -> anyhow::Result<()> {
    let Arguments { hours, nodes, seed, replicas, tick, calm } = Arguments::parse();
    let options = WeekOptions { hours, nodes, seed, replicas, tick_seconds: tick, faults: !calm };
    // The simulation runs in this thread.
    let cpu = || thread_cpu_time().as_secs_f64();
    let report = run_week(&options, &mut |part| {
        eprintln!("{:.0} s of processor time, {} MB; {part}", cpu(), peak_memory_mb().unwrap_or(0));
    })?;
    let (cpu, memory) = (cpu(), peak_memory_mb().unwrap_or(0));
    let pace = report.simulated.as_secs_f64() / cpu;
    println!("{cpu:.1} s of processor time, {pace:.0} times real time, peak memory {memory} MB");
    print!("{report}");
    anyhow::ensure!(report.violations_count.is_empty(), "invariants were violated");
    Ok(())
}

/// The most memory that this process has had, from Linux's /proc.
fn peak_memory_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}
