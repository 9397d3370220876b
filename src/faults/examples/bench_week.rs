//! Measures a simulated week of 15,000 nodes with faults; it prints figures and fails if an invariant is violated.
//!
//! `make bench-week`, or ARGS="--hours 24 --nodes 500 --seed 7": smaller runs of the same kind.

use clap::Parser;
use headroom_faults::week::{WeekOptions, run_week};

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
    let before = cpu_seconds();
    let cpu = || cpu_seconds().zip(before).map_or(f64::NAN, |(now, before)| now - before);
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

/// User and system time of this process, from Linux's /proc; in hundredths of a second.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may hold spaces; user and system time are the 12th and 13th field behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // The kernel shows these times in hundredths on every architecture that Rust builds for here.
    Some(ticks as f64 / 100.0)
}

/// The most memory that this process has had, from Linux's /proc.
fn peak_memory_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}
