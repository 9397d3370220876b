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
    /// N/K: every K-th mutant, beginning with the N-th, which is counted from 0. Or a piece of paths, such as `scaledown/src/turns`:
    /// the mutants of those files.
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

/// The mutants of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Every `of`-th, beginning with the `first`, counted from 0.
    Every { first: usize, of: usize },
    /// Those of files whose path has this piece.
    Files(String),
}

impl Part {
    fn holds(&self, mutant: &Mutant) -> bool {
        match self {
            Part::Every { first, of } => (mutant.id - 1) % of == *first,
            Part::Files(piece) => mutant.file.contains(piece),
        }
    }

    fn is_all(&self) -> bool {
        *self == Part::Every { first: 0, of: 1 }
    }
}

fn part(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').and_then(|(first, of)| Some((first.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((first, of)) if first < of => Ok(Part::Every { first, of }),
        None if text.contains(char::is_alphabetic) => Ok(Part::Files(text.to_owned())),
        _ => Err("a part is N/K with N less than K, such as 0/20, or a piece of paths".to_owned()),
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
    let in_part: BTreeSet<usize> =
        mutants.iter().filter(|mutant| options.part.holds(mutant)).map(|mutant| mutant.id).collect();
    if in_part.is_empty() {
        return Err("no mutant is in this part".to_owned());
    }
    let chosen: BTreeSet<usize> = all.iter().map(|it| it.id).filter(|id| in_part.contains(id)).collect();
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
    let difference = compare::compare(&known, &all, &verdicts, (!options.part.is_all()).then_some(&chosen));
    report::counts(&mutants, &left_out, &chosen, &verdicts, |id| in_part.contains(&id));
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
    use crate::list::Genre;

    fn mutant(id: usize, file: &str) -> Mutant {
        let (replacement, function, text) = Default::default();
        Mutant {
            id,
            file: file.to_owned(),
            start: (1, 1),
            genre: Genre::FnValue,
            replacement,
            function,
            text,
        }
    }

    #[test]
    fn parts_share_out_all_mutants() {
        let parts: Vec<Part> = ["0/3", "1/3", "2/3"].iter().map(|it| part(it).unwrap()).collect();
        let once = |id| parts.iter().filter(|part| part.holds(&mutant(id, "src/a.rs"))).count() == 1;
        assert!((1..100).all(once));
        assert!(part("3/3").is_err() && part("1").is_err() && part("0/0").is_err());
    }

    #[test]
    fn a_part_may_be_the_mutants_of_some_files() {
        let part = part("scaledown/src/turns").unwrap();
        assert!(part.holds(&mutant(2, "src/scaledown/src/turns.rs")) && !part.is_all());
        assert!(!part.holds(&mutant(2, "src/scaledown/src/trial.rs")));
    }
}
