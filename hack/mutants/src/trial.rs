//! TRY: makes one mutant after the other and asks the tests that come by its place, the quick ones first. What was found is
//! kept in a journal, so that an interrupted run goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::compile::Suite;
use crate::reach::Test;
use crate::run::{Outcome, Switch, run};
use crate::workers;

/// Tests that take this long alone are asked when all others have not seen a mutant. Nine of
/// 700 tests need more than half of the time.
const SLOW_SECONDS: f64 = 0.45;

/// How long the tests of one program start take together. Most mutants are seen by the first few tests, so the first
/// start is short; later ones are longer, because a start costs some milliseconds too.
const FIRST_BATCH_SECONDS_MAX: f64 = 0.05;
const BATCH_SECONDS_MAX: f64 = 0.4;

/// A mutant that makes tests take ten times as long, and five seconds more, runs for ever.
const TIME_LIMIT_FACTOR: f64 = 10.0;
const TIME_LIMIT_SLACK_SECONDS: f64 = 5.0;

/// Number of mutants between two lines of progress.
const REPORTED_EACH: usize = 200;

/// How the tests met a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A test failed.
    Seen,
    /// The tests did not end. That is seen too.
    TimedOut,
    /// Every test that comes by its place passed.
    Missed,
    /// No test comes by its place.
    Unreached,
}

impl Verdict {
    /// True if no test sees the mutant.
    pub fn survives(self) -> bool {
        match self {
            Self::Seen | Self::TimedOut => false,
            Self::Missed | Self::Unreached => true,
        }
    }
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    id: usize,
    verdict: Verdict,
    /// The test that failed, or the first of those that did not end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    by: String,
    seconds: f64,
}

/// What is known of mutants, by their numbers.
pub type Verdicts = BTreeMap<usize, Verdict>;

/// What a journal holds. There may be none yet, and its last line may be half written.
pub fn read(journal: &Path) -> Verdicts {
    let entry = |line: &str| serde_json::from_str(line).map(|entry: Entry| (entry.id, entry.verdict)).ok();
    fs::read_to_string(journal).unwrap_or_default().lines().filter_map(entry).collect()
}

/// Tries the mutants `ids` and writes each verdict into the journal at once.
///
/// # Errors
/// A program cannot be started, or the journal cannot be written.
pub fn try_all(
    ids: &[usize],
    suites: &[Suite],
    tests: &[Test],
    folder: &Path,
    journal: &Path,
    jobs: usize,
) -> Result<(), String> {
    let reached = by_mutant(tests, ids);
    let journal = Mutex::new(open(journal)?);
    let n_done = AtomicUsize::new(0);
    let begun = Instant::now();
    workers::map(jobs, ids, |_, id| {
        let entry = try_one(*id, &reached[id], suites, folder)?;
        let line =
            serde_json::to_string(&entry).map_err(|error| format!("failed to write a verdict: {error}"))?;
        let mut journal = journal.lock().expect("nothing panics while it is held");
        writeln!(journal, "{line}").map_err(|error| format!("failed to write the journal: {error}"))?;
        let n_done = n_done.fetch_add(1, Ordering::Relaxed) + 1;
        if n_done.is_multiple_of(REPORTED_EACH) {
            eprintln!("{n_done} of {} tried in {} s", ids.len(), begun.elapsed().as_secs());
        }
        Ok(())
    })?;
    Ok(())
}

/// The journal, ready for the next line.
fn open(journal: &Path) -> Result<File, String> {
    let failed = |error| format!("failed to open {}: {error}", journal.display());
    let torn = fs::read(journal).is_ok_and(|there| there.last().is_some_and(|byte| *byte != b'\n'));
    let mut file = OpenOptions::new().create(true).append(true).open(journal).map_err(failed)?;
    if torn {
        writeln!(file).map_err(failed)?;
    }
    Ok(file)
}

fn try_one(id: usize, tests: &[&Test], suites: &[Suite], folder: &Path) -> Result<Entry, String> {
    let begun = Instant::now();
    let entry = |verdict, by| Entry {
        id,
        verdict,
        by,
        seconds: (begun.elapsed().as_secs_f64() * 100.0).round() / 100.0,
    };
    for batch in batches(tests) {
        let suite = suites.iter().find(|suite| suite.name == batch[0].suite);
        let suite = suite.ok_or_else(|| format!("failed to find the suite {}", batch[0].suite))?;
        let names: Vec<&str> = batch.iter().map(|test| test.name.as_str()).collect();
        let seconds: f64 = batch.iter().map(|test| test.seconds).sum();
        let limit = Duration::from_secs_f64(TIME_LIMIT_SLACK_SECONDS + TIME_LIMIT_FACTOR * seconds);
        match run(suite, &names, Switch::Mutant(id), folder, limit)? {
            Outcome::Passed => {}
            Outcome::Failed(by) => return Ok(entry(Verdict::Seen, by)),
            Outcome::TimedOut => return Ok(entry(Verdict::TimedOut, names[0].to_owned())),
        }
    }
    Ok(entry(if tests.is_empty() { Verdict::Unreached } else { Verdict::Missed }, String::new()))
}

/// The tests that come by each of the mutants `ids`.
fn by_mutant<'a>(tests: &'a [Test], ids: &[usize]) -> BTreeMap<usize, Vec<&'a Test>> {
    let mut reached: BTreeMap<usize, Vec<&Test>> = ids.iter().map(|id| (*id, Vec::new())).collect();
    for test in tests {
        for (first, last) in &test.places {
            for (_, by) in reached.range_mut(first..=last) {
                // Places may overlap: the numbers of one need not follow each other.
                if by.last().is_none_or(|last| !std::ptr::eq(*last, test)) {
                    by.push(test);
                }
            }
        }
    }
    reached
}

/// The tests in the order in which they are asked, those together that one start of a program runs.
fn batches<'a>(tests: &[&'a Test]) -> Vec<Vec<&'a Test>> {
    let mut tests = tests.to_vec();
    // One start runs tests of one suite: the suite with the quickest test is first, and its own tests together.
    tests.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let mut suites: Vec<&str> = Vec::new();
    for test in &tests {
        if !suites.contains(&test.suite.as_str()) {
            suites.push(&test.suite);
        }
    }
    tests.sort_by_key(|test| {
        (SLOW_SECONDS <= test.seconds, suites.iter().position(|suite| *suite == test.suite))
    });
    let mut batches: Vec<Vec<&Test>> = Vec::new();
    let mut seconds = 0.0;
    for test in tests {
        let max = if batches.len() == 1 { FIRST_BATCH_SECONDS_MAX } else { BATCH_SECONDS_MAX };
        match batches.last_mut() {
            Some(batch) if batch[0].suite == test.suite && seconds + test.seconds <= max => {
                batch.push(test);
                seconds += test.seconds;
            }
            _ => {
                batches.push(vec![test]);
                seconds = test.seconds;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(suite: &str, name: &str, seconds: f64, places: &[(usize, usize)]) -> Test {
        Test { suite: suite.to_owned(), name: name.to_owned(), seconds, places: places.to_vec() }
    }

    #[test]
    fn only_tests_that_come_by_are_asked_and_each_once() {
        let tests = [test("core", "a", 0.1, &[(1, 3), (2, 2)]), test("core", "b", 0.1, &[(4, 4)])];
        let reached = by_mutant(&tests, &[2, 4, 5]);
        let names = |id| reached[&id].iter().map(|test| test.name.as_str()).collect::<Vec<_>>();
        assert_eq!([names(2), names(4), names(5)], [vec!["a"], vec!["b"], vec![]]);
    }

    #[test]
    fn quick_tests_are_asked_first_and_few_of_them_at_the_first_start() {
        let tests = [
            test("core", "slow", 3.0, &[]),
            test("core", "b", 0.03, &[]),
            test("lib", "e", 0.1, &[]),
            test("core", "c", 0.03, &[]),
            test("core", "d", 0.04, &[]),
        ];
        let batches = batches(&tests.iter().collect::<Vec<_>>());
        let names: Vec<Vec<&str>> =
            batches.iter().map(|batch| batch.iter().map(|test| test.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["b"], vec!["c", "d"], vec!["e"], vec!["slow"]]);
    }

    #[test]
    fn journal_that_ends_within_a_line_goes_on_behind_it() {
        let folder = std::env::temp_dir().join(format!("mutants-journal-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let journal = folder.join("verdicts.jsonl");
        fs::write(&journal, "{\"id\":1,\"verdict\":\"missed\",\"seconds\":0.1}\n{\"id\":2,\"verd").unwrap();
        try_all(&[3], &[], &[], &folder, &journal, 1).unwrap();
        let known = read(&journal);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(known, Verdicts::from([(1, Verdict::Missed), (3, Verdict::Unreached)]));
    }
}
