//! REACH: runs each test of core alone and without a mutant, and writes down which places it comes by and how long it takes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::compile::Suite;
use crate::run::{Outcome, Switch, run};
use crate::workers;

/// No test takes half a minute by itself on a machine that does nothing else.
const TEST_TIME_MAX: Duration = Duration::from_secs(600);

/// A test, and what it reaches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Test {
    /// The name of its suite.
    pub suite: String,
    /// With its module, as the test program prints it.
    pub name: String,
    /// How long it took alone, with the start of its program.
    pub seconds: f64,
    /// The first and the last mutant of each place.
    pub places: Vec<(usize, usize)>,
}

/// All tests that are not ignored, each with what it reaches.
///
/// # Errors
/// A test fails though no mutant is made, or a program cannot be started.
pub fn record(suites: &[Suite], folder: &Path, scratch: &Path, jobs: usize) -> Result<Vec<Test>, String> {
    let mut names = Vec::new();
    for suite in suites {
        let ignored = listed(suite, folder, &["--ignored"])?;
        let all = listed(suite, folder, &[])?;
        names.extend(all.into_iter().filter(|name| !ignored.contains(name)).map(|name| (suite, name)));
    }
    workers::map(jobs, &names, |index, (suite, name)| {
        let file = scratch.join(format!("reached-{index}"));
        // What an interrupted run left would be added to.
        let _ = fs::remove_file(&file);
        let begun = Instant::now();
        let outcome = run(suite, &[name], Switch::Record(&file), folder, TEST_TIME_MAX)?;
        let seconds = begun.elapsed().as_secs_f64();
        if outcome != Outcome::Passed {
            return Err(format!("failed without a mutant: {name} of {}: {outcome:?}", suite.name));
        }
        let places = places(&fs::read_to_string(&file).unwrap_or_default())?;
        let _ = fs::remove_file(&file);
        Ok(Test { suite: suite.name.clone(), name: name.clone(), seconds, places })
    })
}

/// The lines `FIRST-LAST` of a recording.
fn places(recording: &str) -> Result<Vec<(usize, usize)>, String> {
    let place = |line: &str| {
        let (first, last) = line.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    recording
        .lines()
        .map(|line| place(line).ok_or_else(|| format!("failed to read a reached place: {line}")))
        .collect()
}

fn listed(suite: &Suite, folder: &Path, arguments: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new(&suite.program)
        .args(["--list", "--format", "terse"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("failed to list the tests of {}: {error}", suite.name))?;
    let output = String::from_utf8_lossy(&output.stdout);
    Ok(output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
