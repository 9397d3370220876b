//! Results of seeds, one line of JSON each in a file: a long run that is interrupted goes on where it stopped, and the
//! files of several machines are added up.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use headroom_faults::worlds::Report;

/// Result of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeedLine {
    /// The seed.
    pub(crate) seed: u64,
    /// Description of how the seeds of this file are tried: seeds tried in another way do not count as tried.
    pub(crate) tried: String,
    /// The hash of the run.
    pub(crate) hash: String,
    /// Number of its runs.
    pub(crate) runs: u32,
    /// Simulated time of all its runs, in seconds.
    pub(crate) simulated_seconds: f64,
    /// Processor time of all its runs, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Faults by name.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Violations of invariants; a difference between two runs is one of them.
    pub(crate) violations: Vec<String>,
    /// Writes of the operator.
    pub(crate) writes: u64,
    /// Nodes made.
    pub(crate) made: u64,
    /// Nodes removed.
    pub(crate) removed: u64,
    /// Calls that landed after the next leader's first write.
    pub(crate) late_calls: u64,
}

impl SeedLine {
    /// The line of a seed that was run `runs` times, each time to the end of `same` hash or not.
    pub(crate) fn of(report: &Report, tried: &str, runs: u32, same: bool, cpu: Duration) -> SeedLine {
        let mut violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        if !same {
            violations.push("two runs of it differ".to_owned());
        }
        SeedLine {
            seed: report.seed,
            tried: tried.to_owned(),
            hash: report.hash.to_string(),
            runs,
            simulated_seconds: report.simulated.as_secs_f64() * f64::from(runs),
            cpu_seconds: cpu.as_secs_f64(),
            faults: report.faults.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            violations,
            writes: report.writes_count,
            made: u64::try_from(report.made_count).unwrap_or(u64::MAX),
            removed: report.removed_count,
            late_calls: report.late_calls_count,
        }
    }
}

/// The sums over all seeds; one that is added twice counts once.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    lines: BTreeMap<u64, Kept>,
    faults: BTreeMap<String, u64>,
    simulated_seconds: f64,
    cpu_seconds: f64,
    writes: u64,
    made: u64,
    removed: u64,
    late_calls: u64,
}

/// Part of each seed's result that is kept in memory.
#[derive(Debug)]
struct Kept {
    twice: bool,
    violations: Vec<String>,
}

/// The form of the JSON.
const SCHEMA: &str = "headroom.dev/faults/v1";

/// The sums, as they are written in JSON and YAML.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    schema: &'static str,
    /// Seeds that were run.
    seeds: usize,
    /// Of those, seeds that were run twice.
    twice: usize,
    simulated_seconds: f64,
    cpu_seconds: f64,
    /// Faults by kind.
    faults: &'a BTreeMap<String, u64>,
    /// Writes of the operator that took effect.
    writes: u64,
    nodes_made: u64,
    nodes_removed: u64,
    /// Calls that landed after the next leader's first write.
    late_calls: u64,
    violations: usize,
    /// The seeds that failed, in the order of their numbers.
    failed: Vec<Failed<'a>>,
    /// A seed that was run alone, line by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone: Option<Alone>,
}

/// A seed that failed.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    seed: u64,
    /// The command that shows it again.
    replay: String,
    violations: &'a [String],
}

/// A seed that was run alone.
#[derive(Debug, Serialize)]
pub(crate) struct Alone {
    /// The seed.
    pub(crate) seed: u64,
    /// Interface by which the operator observed the cluster.
    pub(crate) port: &'static str,
    /// The hash of the run.
    pub(crate) hash: String,
    /// Log of the run, line by line.
    pub(crate) log: Vec<String>,
}

impl Sums {
    /// Adds a seed.
    pub(crate) fn take(&mut self, line: &SeedLine) {
        if self.has(line.seed) {
            return;
        }
        let kept = Kept { twice: 1 < line.runs, violations: line.violations.clone() };
        self.lines.insert(line.seed, kept);
        for (name, count) in &line.faults {
            *self.faults.entry(name.clone()).or_default() += count;
        }
        self.simulated_seconds += line.simulated_seconds;
        self.cpu_seconds += line.cpu_seconds;
        self.writes += line.writes;
        self.made += line.made;
        self.removed += line.removed;
        self.late_calls += line.late_calls;
    }

    /// True if the seed has been added.
    pub(crate) fn has(&self, seed: u64) -> bool {
        self.lines.contains_key(&seed)
    }

    /// Returns the number of seeds.
    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// The seeds that failed.
    pub(crate) fn failed(&self) -> Vec<u64> {
        self.lines.iter().filter(|(_, kept)| !kept.violations.is_empty()).map(|(seed, _)| *seed).collect()
    }

    fn violations(&self) -> usize {
        self.lines.values().map(|kept| kept.violations.len()).sum()
    }

    fn twice(&self) -> usize {
        self.lines.values().filter(|kept| kept.twice).count()
    }

    /// The sums as they are written in JSON; `replay` makes the command that shows a seed again.
    pub(crate) fn document(&self, alone: Option<Alone>, replay: impl Fn(u64) -> String) -> Document<'_> {
        let failed = self.lines.iter().filter(|(_, kept)| !kept.violations.is_empty());
        Document {
            schema: SCHEMA,
            seeds: self.count(),
            twice: self.twice(),
            simulated_seconds: self.simulated_seconds,
            cpu_seconds: self.cpu_seconds,
            faults: &self.faults,
            writes: self.writes,
            nodes_made: self.made,
            nodes_removed: self.removed,
            late_calls: self.late_calls,
            violations: self.violations(),
            failed: failed
                .map(|(seed, kept)| Failed {
                    seed: *seed,
                    replay: replay(*seed),
                    violations: &kept.violations,
                })
                .collect(),
            alone,
        }
    }

    /// The sums as a text of several lines.
    pub(crate) fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let total: u64 = self.faults.values().sum();
        let twice = self.twice();
        let speed = self.simulated_seconds / self.cpu_seconds.max(0.001);
        let hours = self.simulated_seconds / 3600.0;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "seeds             {} ({twice} of them twice, to the same end)", self.count());
        let _ = writeln!(text, "simulated         {hours:.1} hours, {speed:.0} times real time per core");
        let _ = writeln!(text, "faults            {total}");
        for (name, count) in &self.faults {
            let _ = writeln!(text, "  {name:<24}{count}");
        }
        let _ = writeln!(text, "operator          {} writes", self.writes);
        let _ = writeln!(text, "nodes             {} made, {} removed", self.made, self.removed);
        let late = "landed after the next leader's first write";
        let _ = writeln!(text, "late calls        {} ({late})", self.late_calls);
        let failed = self.failed();
        let _ = writeln!(text, "violations        {} in {} seeds", self.violations(), failed.len());
        if !failed.is_empty() {
            let _ = writeln!(text, "failed seeds      {failed:?}");
        }
        text
    }
}

/// A file of lines that grows.
#[derive(Debug)]
pub(crate) struct SeedLog {
    file: File,
}

impl SeedLog {
    /// Opens or makes the file; what it holds of seeds tried in this way is added to `sums`.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn open(path: &Path, tried: &str, sums: &mut Sums) -> anyhow::Result<SeedLog> {
        let context = || format!("failed to open {}", path.display());
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).open(path).with_context(context)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(context)?;
        read(&text).filter(|line| line.tried == tried).for_each(|line| sums.take(&line));
        file.seek(SeekFrom::End(0)).with_context(context)?;
        // The last line may have been cut off in the middle.
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").with_context(context)?;
        }
        Ok(SeedLog { file })
    }

    /// Adds a line in one write.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn add(&mut self, line: &SeedLine) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).context("failed to write the log of seeds")
    }
}

/// The sums over files of lines; lines that cannot be read, such as one that was cut off, are left out.
///
/// # Errors
/// If a file cannot be read, or if the files hold seeds that were tried in different ways.
pub(crate) fn total(paths: &[std::path::PathBuf]) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    let mut tried: Option<String> = None;
    for path in paths {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        for line in read(&text) {
            let known = tried.get_or_insert_with(|| line.tried.clone());
            anyhow::ensure!(
                *known == line.tried,
                "{}: seed {} was tried with `{}`, others with `{known}`: add up files of one kind only",
                path.display(),
                line.seed,
                line.tried
            );
            sums.take(&line);
        }
    }
    Ok(sums)
}

fn read(text: &str) -> impl Iterator<Item = SeedLine> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seed: u64) -> SeedLine {
        SeedLine {
            seed,
            tried: "stay 90s".to_owned(),
            hash: "0".to_owned(),
            runs: 1,
            simulated_seconds: 3600.0,
            cpu_seconds: 1.0,
            faults: BTreeMap::from([("refused".to_owned(), 2)]),
            violations: Vec::new(),
            writes: 1,
            made: 1,
            removed: 0,
            late_calls: 0,
        }
    }

    #[test]
    fn an_interrupted_run_goes_on_where_it_stopped() {
        let path = std::env::temp_dir().join(format!("headroom-seed-log-{}.jsonl", std::process::id()));
        let mut log = SeedLog::open(&path, "stay 90s", &mut Sums::default()).unwrap();
        log.add(&line(3)).unwrap();
        log.add(&line(5)).unwrap();
        drop(log);
        // Cut off in the middle of the second line.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut sums = Sums::default();
        let mut log = SeedLog::open(&path, "stay 90s", &mut sums).unwrap();
        assert!(sums.has(3) && !sums.has(5));
        log.add(&SeedLine { violations: vec!["I1".to_owned()], ..line(5) }).unwrap();
        drop(log);
        let all = total(&[path.clone(), path.clone()]).unwrap();
        assert_eq!((all.count(), all.failed()), (2, vec![5]));
        assert!(all.text().contains("violations        1 in 1 seeds"), "{}", all.text());
        let mut other = Sums::default();
        SeedLog::open(&path, "stay 1h", &mut other).unwrap();
        assert_eq!(other.count(), 0, "seeds tried in another way do not count");
        std::fs::remove_file(&path).unwrap();
    }
}
