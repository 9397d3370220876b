//! Tries small mutations in core's decisions against core's tests: `hack/mutants.sh` builds and starts it. cargo-mutants says
//! which mutants there are; here all of them are compiled into one build, each behind a switch.

mod compare;
mod compile;
mod instrument;
mod list;
mod reach;
mod report;
mod run;
mod trial;
mod workers;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use serde::Serialize;
use serde::de::DeserializeOwned;

use compile::Tree;
use list::Mutant;

/// Tries small mutations in core's decisions against core's tests, and compares those that no test sees with the known ones.
/// Exit code: 1 if one of them is not known, 2 if the run failed.
#[derive(Parser)]
struct Options {
    /// N/K: every K-th mutant, beginning with the N-th, which is counted from 0.
    #[arg(long, default_value = "0/1", value_parser = part)]
    part: Part,
    /// The program cargo-mutants.
    #[arg(long)]
    cargo_mutants: PathBuf,
    /// The repository as it is committed.
    #[arg(long)]
    written: PathBuf,
    /// A copy of it, in which core's sources are changed.
    #[arg(long)]
    switched: PathBuf,
    /// Cargo's target folder for that copy.
    #[arg(long)]
    target: PathBuf,
    /// Where results are kept. What is there must be of the same commit, and is not done again.
    #[arg(long)]
    results: PathBuf,
    /// The page of known mutants.
    #[arg(long)]
    known: PathBuf,
    /// How many tests run at a time; 0 for as many as there are cores.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
}

/// Every `of`-th mutant, beginning with the `first`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first: usize,
    of: usize,
}

impl Part {
    fn holds(self, id: usize) -> bool {
        (id - 1) % self.of == self.first
    }
}

fn part(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').and_then(|(first, of)| Some((first.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((first, of)) if first < of => Ok(Part { first, of }),
        _ => Err("a part is N/K with N less than K, such as 0/20".to_owned()),
    }
}

fn main() -> ExitCode {
    match rounds(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(2)
        }
    }
}

/// List, compile, record, try, compare. Returns true if all surviving mutants are listed.
fn rounds(options: &Options) -> Result<bool, String> {
    let known = fs::read_to_string(&options.known)
        .map_err(|error| format!("failed to read {}: {error}", options.known.display()))?;
    let known = compare::read(&known).map_err(|error| format!("{}: {error}", options.known.display()))?;
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = if options.jobs == 0 { cores() } else { options.jobs };
    let kept = |file: &str| options.results.join(file);
    fs::create_dir_all(&options.results)
        .map_err(|error| format!("failed to make {}: {error}", options.results.display()))?;

    let mutants = list::list(&options.cargo_mutants, &options.written)?;
    eprintln!("{} mutants; the compiler drops those that it refuses", mutants.len());

    let tree = Tree { written: &options.written, switched: &options.switched, target: &options.target };
    let refused = load(&kept("refused.json")).unwrap_or_default();
    let left_out = compile::settle(&tree, &mutants, refused)?;
    store(&kept("refused.json"), &left_out.refused)?;
    let suites = compile::tests(&tree)?;

    let folder = options.switched.join("src/core");
    let tests = match load(&kept("tests.json")) {
        Some(tests) => tests,
        None => {
            eprintln!("each test once without a mutant");
            let tests = reach::record(&suites, &folder, &options.results, jobs)?;
            store(&kept("tests.json"), &tests)?;
            tests
        }
    };

    let left = left_out.ids();
    let all: Vec<&Mutant> = mutants.iter().filter(|mutant| !left.contains(&mutant.id)).collect();
    let chosen: BTreeSet<usize> = all.iter().map(|it| it.id).filter(|id| options.part.holds(*id)).collect();
    let before = trial::read(&kept("verdicts.jsonl"));
    let todo: Vec<usize> = chosen.iter().copied().filter(|id| !before.contains_key(id)).collect();
    eprintln!(
        "{} tests; {} mutants to try, {} tried before",
        tests.len(),
        todo.len(),
        chosen.len() - todo.len()
    );
    trial::try_all(&todo, &suites, &tests, &folder, &kept("verdicts.jsonl"), jobs)?;

    let verdicts = trial::read(&kept("verdicts.jsonl"));
    let whole = options.part.of == 1;
    let difference = compare::compare(&known, &all, &verdicts, (!whole).then_some(&chosen));
    report::counts(&mutants, &left_out, &chosen, &verdicts, |id| options.part.holds(id));
    report::difference(&difference, &mutants);
    Ok(difference.unlisted.is_empty())
}

/// What an earlier run kept, if it can be read.
fn load<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Keeps something for the next run; a file is whole or not there.
fn store(file: &Path, kept: &impl Serialize) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("failed to write {}: {error}", file.display());
    let fresh = file.with_extension("fresh");
    fs::write(&fresh, serde_json::to_vec(kept).map_err(|error| failed(&error))?)
        .map_err(|error| failed(&error))?;
    fs::rename(&fresh, file).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_out_all_mutants() {
        let parts: Vec<Part> = ["0/3", "1/3", "2/3"].iter().map(|it| part(it).unwrap()).collect();
        assert!((1..100).all(|id| parts.iter().filter(|part| part.holds(id)).count() == 1));
        assert!(part("3/3").is_err() && part("1").is_err() && part("0/0").is_err());
    }
}
