//! `headroom simulate-faults`: random worlds with random trouble, held against the invariants; it tells which seed failed.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::Args;
use jiff::SignedDuration;

use crate::host::Host;
use crate::simulate::replica::PortKind;
use crate::simulate::swarm::{Report, Trial, Until, try_seed};
use crate::telemetry;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
Each seed draws a small cluster, its load, which kinds of fault strike it and how often. Every write of
the operator is held against the invariants of docs/invariants.md, and each run ends with a time without
faults in which everything must come right and stay.

Examples:
  headroom simulate-faults --seeds 1000
  headroom simulate-faults --seed 4711";

/// Every so manieth seed is run twice: equal hashes are equal runs.
const TWICE_EVERY: u64 = 25;

/// Options of `headroom simulate-faults`.
#[derive(Args, Clone, Debug)]
pub struct FaultOptions {
    /// How many seeds to run
    #[arg(long, value_name = "NUMBER", default_value_t = 200, conflicts_with = "seed")]
    seeds: u64,

    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,

    /// Run this seed alone and tell what it comes to
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// How the operator observes the cluster; by default the seed decides, wire in every fourth
    #[arg(long, value_enum)]
    port: Option<PortKind>,

    /// Hold each run against one of the same world without faults too
    #[arg(long)]
    differential: bool,

    /// How long the goal must hold without a write before a run ends
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = super::simulate::length)]
    stay: SignedDuration,

    /// Seeds run at the same time; as many as there are cores by default
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,

    /// Put a known bug back: then seeds are expected to fail
    #[cfg(feature = "failpoints")]
    #[arg(long, value_enum)]
    bug: Option<crate::host::bugs::Bug>,
}

impl FaultOptions {
    /// With a bug put back, the first violation of a seed says enough.
    fn until(&self) -> Option<Until> {
        #[cfg(feature = "failpoints")]
        let searches = self.bug.is_some();
        #[cfg(not(feature = "failpoints"))]
        let searches = false;
        (searches && self.seed.is_none()).then_some(Until::Any)
    }
}

/// The sums over all seeds.
#[derive(Debug, Default)]
struct Sums {
    seeds: u64,
    simulated_seconds: f64,
    faults: BTreeMap<&'static str, u64>,
    failed: Vec<u64>,
    violations: u64,
    writes: u64,
    made: u64,
    removed: u64,
    late_calls: u64,
    twice: u64,
}

/// Runs the seeds.
///
/// # Errors
/// When an invariant was violated, or a seed was not the same run twice; what and how to replay it has been printed.
pub fn simulate_faults(options: &FaultOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    let (first, end) = match options.seed {
        Some(seed) => (seed, seed.saturating_add(1)),
        None => (options.from, options.from.saturating_add(options.seeds)),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = options.jobs.map_or(cores, NonZeroUsize::get);
    let jobs = jobs.min(usize::try_from(end - first).unwrap_or(usize::MAX)).max(1);
    let (next, sums) = (AtomicU64::new(first), Mutex::new(Sums::default()));
    let machine = Host::machine();
    let began_at = machine.monotonic();
    let work = || -> anyhow::Result<()> {
        #[cfg(feature = "failpoints")]
        crate::host::bugs::put_back(options.bug);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if end <= seed {
                return Ok(());
            }
            one(seed, options, &sums)?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("the simulator itself panicked"))?
        })
    })?;
    let took = (machine.monotonic() - began_at).as_secs_f64();
    let sums = sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    print!("{}", summary(&sums, took, jobs));
    anyhow::ensure!(sums.failed.is_empty(), "{} of {} seeds failed", sums.failed.len(), sums.seeds);
    Ok(())
}

fn one(seed: u64, options: &FaultOptions, sums: &Mutex<Sums>) -> anyhow::Result<()> {
    let alone = options.seed.is_some();
    let trial = Trial {
        port: options.port,
        differential: options.differential,
        stay: Some(options.stay),
        story: alone,
        until: options.until(),
    };
    let report = try_seed(seed, &trial).context("failed to start the simulation")?;
    let mut same = true;
    let twice = alone || seed.is_multiple_of(TWICE_EVERY);
    if twice {
        let again = try_seed(seed, &trial).context("failed to start the simulation")?;
        same = again.hash == report.hash;
    }
    let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    sums.take(&report, twice);
    if alone {
        report.story.iter().for_each(|line| println!("{line}"));
        println!("seed {seed} over the {} port: hash {}", report.port.word(), report.hash);
    }
    if !same {
        println!("seed {seed}: two runs of it differ");
    }
    if !report.violations.is_empty() {
        let port = options.port.map_or_else(String::new, |port| format!(" --port {}", port.word()));
        let differential = if options.differential { " --differential" } else { "" };
        println!("seed {seed} (headroom simulate-faults --seed {seed}{port}{differential}):");
        report.violations.iter().for_each(|violation| println!("  {violation}"));
    }
    if !same || !report.violations.is_empty() {
        sums.failed.push(seed);
    }
    Ok(())
}

impl Sums {
    fn take(&mut self, report: &Report, twice: bool) {
        self.seeds += 1;
        let runs = if twice { 2.0 } else { 1.0 };
        self.simulated_seconds += report.simulated.as_secs_f64() * runs;
        for (name, count) in &report.faults {
            *self.faults.entry(name).or_default() += count;
        }
        self.violations += u64::try_from(report.violations.len()).unwrap_or(u64::MAX);
        self.writes += report.writes_count;
        self.made += u64::try_from(report.made_count).unwrap_or(u64::MAX);
        self.removed += report.removed_count;
        self.late_calls += report.late_calls_count;
        self.twice += u64::from(twice);
    }
}

fn summary(sums: &Sums, took_seconds: f64, jobs: usize) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let total: u64 = sums.faults.values().sum();
    let speed = sums.simulated_seconds / took_seconds.max(0.001) / jobs as f64;
    let hours = sums.simulated_seconds / 3600.0;
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "seeds             {} ({} of them twice, to the same end)", sums.seeds, sums.twice);
    let _ = writeln!(text, "simulated         {hours:.1} hours, {speed:.0} times real time per core");
    let _ = writeln!(text, "faults            {total}");
    for (name, count) in &sums.faults {
        let _ = writeln!(text, "  {name:<24}{count}");
    }
    let _ = writeln!(text, "operator          {} writes", sums.writes);
    let _ = writeln!(text, "nodes             {} made, {} removed", sums.made, sums.removed);
    let _ =
        writeln!(text, "late calls        {} (landed after the next leader's first write)", sums.late_calls);
    let _ = writeln!(text, "violations        {} in {} seeds", sums.violations, sums.failed.len());
    text
}
