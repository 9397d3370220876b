//! `simulate-faults`: random worlds with random faults, checked against the invariants; it reports the seeds that failed.

mod seed_log;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use clap::Parser;
use jiff::SignedDuration;

use self::seed_log::{Alone, SeedLine, SeedLog, Sums, total};
use headroom::progress::Progress;
use headroom::source::{Form, Output};
use headroom::{telemetry, terminal};
use headroom_faults::seams::SeamFault;
use headroom_faults::worlds::{SeedOptions, Theme, Until, run_seed};
use headroom_observe::host::thread_cpu_time;
use headroom_simulator::replica::PortKind;

/// Shown under `--help`.
const EXAMPLES: &str = "\
Each seed draws a small cluster, its load, which kinds of fault strike it and how often. Every write of
the operator is held against the invariants of docs/development/invariants.md, and each run ends with a time without
faults in which everything must come right and stay.

Examples:
  simulate-faults --seeds 1000
  simulate-faults --seed 4711
  simulate-faults --seeds 200 -o json | jq .failed
  simulate-faults --theme outage --seeds 100

A long run in four parts, each of which may be interrupted and started again, and their sum:
  simulate-faults --seeds 20000 --shard 1/4 --log part1.jsonl
  simulate-faults --totals part1.jsonl part2.jsonl part3.jsonl part4.jsonl";

/// Every so manieth seed is run twice: equal hashes are equal runs.
const TWICE_EVERY: u64 = 25;

/// Runs the operator on random simulated clusters in which things go wrong, and checks that it keeps its invariants
#[derive(Parser, Clone, Debug)]
#[command(name = "simulate-faults", max_term_width = 100, after_help = EXAMPLES)]
struct FaultOptions {
    /// Number of seeds to run
    #[arg(long, value_name = "NUMBER", default_value_t = 200, conflicts_with = "seed")]
    seeds: u64,

    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,

    /// Run this seed alone and print its timeline
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Interface by which the operator observes the cluster; by default the seed decides, wire in every fourth
    #[arg(long, value_enum)]
    port: Option<PortKind>,

    /// Hold each run against one of the same world without faults too
    #[arg(long)]
    differential: bool,

    /// Time that the goal must hold without a write before a run ends
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = headroom::simulate::length)]
    stay: SignedDuration,

    /// Seeds run at the same time; as many as there are cores by default
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    output: Output,

    /// Run one part of the seeds only, such as 2/8 for the second of eight
    #[arg(long, value_name = "PART", value_parser = shard, conflicts_with = "seed")]
    shard: Option<Shard>,

    /// Add what each seed comes to to this file; seeds that it holds already are not run again, and count
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    log: Option<PathBuf>,

    /// Run nothing and print the sums over these files
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["seed", "log"])]
    totals: Vec<PathBuf>,

    /// Direct the worlds at something that random ones hardly ever come to
    #[arg(long, value_enum)]
    theme: Option<Theme>,

    /// End each run at the first violation of this invariant, such as I3
    #[arg(long, value_name = "INVARIANT")]
    until: Option<String>,

    /// Put an incident in at a seam of the operator: then seeds are expected to fail
    #[arg(long, value_enum, value_name = "INCIDENT")]
    seam: Option<SeamFault>,
}

/// The `index`th of `count` parts, from 0.
#[derive(Clone, Copy, Debug)]
struct Shard {
    index: u64,
    count: u64,
}

fn shard(words: &str) -> Result<Shard, String> {
    let read = || {
        let (index, count) = words.split_once('/')?;
        let (index, count): (u64, u64) = (index.parse().ok()?, count.parse().ok()?);
        (1 <= index && index <= count).then(|| Shard { index: index - 1, count })
    };
    read().ok_or_else(|| "write a part such as 1/4, of 1/4 to 4/4".to_owned())
}

impl FaultOptions {
    /// The command that shows a seed again.
    fn replay(&self, seed: u64) -> String {
        let port = self.port.map_or_else(String::new, |port| format!(" --port {}", port.word()));
        let differential = if self.differential { " --differential" } else { "" };
        let theme = self.theme.map_or_else(String::new, |theme| format!(" --theme {}", theme.word()));
        format!("simulate-faults --seed {seed}{port}{theme}{differential}")
    }

    /// Describes how the seeds are tried.
    fn tried(&self) -> String {
        let port = self.port.map_or("drawn", PortKind::word);
        let differential = if self.differential { ", differential" } else { "" };
        let theme = self.theme.map_or_else(String::new, |theme| format!(", theme {}", theme.word()));
        format!("stay {:#}, port {port}{theme}{differential}", self.stay)
    }

    /// True if the seed is in the part that is asked for.
    fn wants(&self, seed: u64) -> bool {
        self.shard.is_none_or(|shard| (seed - self.from) % shard.count == shard.index)
    }
}

/// The sums, and the file that they go to as well.
struct Book {
    sums: Sums,
    log: Option<SeedLog>,
    progress: Progress,
    /// Seeds that are run now, and those of them that are through.
    due: u64,
    done: u64,
    alone: Option<Alone>,
}

fn main() -> ExitCode {
    match simulate_faults(&FaultOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the seeds.
///
/// # Errors
/// If an invariant was violated, or a seed was not the same run twice; the violation and the command that replays it
/// have been printed.
fn simulate_faults(options: &FaultOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    if !options.totals.is_empty() {
        return end(&total(&options.totals)?, None, options);
    }
    let mut sums = Sums::default();
    let log =
        options.log.as_ref().map(|path| SeedLog::open(path, &options.tried(), &mut sums)).transpose()?;
    let (first, last) = match options.seed {
        Some(seed) => (seed, seed.saturating_add(1)),
        None => (options.from, options.from.saturating_add(options.seeds)),
    };
    let due: Vec<u64> = (first..last)
        .filter(|seed| options.seed.is_some() || (options.wants(*seed) && !sums.has(*seed)))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = options.jobs.map_or(cores, NonZeroUsize::get).min(due.len()).max(1);
    let count = u64::try_from(due.len()).unwrap_or(u64::MAX);
    let progress = Progress::of(format!("{count} seeds"));
    let book = Mutex::new(Book { sums, log, progress, due: count, done: 0, alone: None });
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(seed) = due.get(next.fetch_add(1, Ordering::Relaxed)) {
            one(*seed, options, &book)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("the simulator itself panicked"))?
        })
    })?;
    let Book { sums, alone, progress, .. } = book.into_inner().unwrap_or_else(PoisonError::into_inner);
    drop(progress);
    end(&sums, alone, options)
}

/// Prints the sums; an error if any seed has failed.
fn end(sums: &Sums, alone: Option<Alone>, options: &FaultOptions) -> anyhow::Result<()> {
    options.output.print(&sums.document(alone, |seed| options.replay(seed)), || sums.text())?;
    let failed = sums.failed();
    anyhow::ensure!(failed.is_empty(), "{} of {} seeds failed", failed.len(), sums.count());
    Ok(())
}

fn one(seed: u64, options: &FaultOptions, book: &Mutex<Book>) -> anyhow::Result<()> {
    let alone = options.seed.is_some();
    let seed_options = SeedOptions {
        port: options.port,
        differential: options.differential,
        stay: Some(options.stay),
        keeps_log: alone,
        until: options.until.clone().map(Until::Invariant),
        theme: options.theme,
        seam: options.seam,
    };
    let began_at = thread_cpu_time();
    let report = run_seed(seed, &seed_options).context("failed to start the simulation")?;
    let mut same = true;
    let twice = alone || seed.is_multiple_of(TWICE_EVERY);
    if twice {
        let again = run_seed(seed, &seed_options).context("failed to start the simulation")?;
        same = again.hash == report.hash;
    }
    let cpu = thread_cpu_time().saturating_sub(began_at);
    let line = SeedLine::of(&report, &options.tried(), if twice { 2 } else { 1 }, same, cpu);
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let Book { sums, log, progress, due, done, alone: reported_alone } = &mut *book;
    sums.take(&line);
    if let Some(log) = log {
        log.add(&line)?;
    }
    let text = options.output.output == Form::Text;
    if alone {
        let (port, hash) = (report.port.word(), report.hash.to_string());
        if text {
            for line in &report.log {
                terminal::print(&format!("{line}\n"))?;
            }
            terminal::print(&format!("seed {seed} over the {port} port: hash {hash}\n"))?;
        }
        *reported_alone = Some(Alone { seed, port, hash, log: report.log });
    }
    if text && !line.violations.is_empty() {
        progress.clear();
        terminal::print(&format!("seed {seed} ({}):\n", options.replay(seed)))?;
        for violation in &line.violations {
            terminal::print(&format!("  {violation}\n"))?;
        }
    }
    *done += 1;
    progress.saw(*done, *due);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::shard;

    #[test]
    fn parts_are_counted_from_one() {
        let part = shard("2/8").unwrap();
        assert_eq!((part.index, part.count), (1, 8));
        for odd in ["0/4", "5/4", "1", "a/b", "1/0"] {
            assert!(shard(odd).unwrap_err().contains("1/4"), "{odd}");
        }
    }
}
