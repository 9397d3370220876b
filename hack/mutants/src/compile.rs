//! COMPILE: puts all mutants into the decisions behind switches, drops what the compiler refuses, and builds their tests. Of
//! the tree it writes only the decisions and the module of the switch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::instrument::{self, Mark, SWITCH, Untried};
use crate::list::{Mutant, PACKAGES, VALUES};

/// Each round drops at least one mutant of each place that does not compile. Four were enough for 4,300.
const ROUNDS_MAX: usize = 30;

/// How the decisions are built: as for its tests, without debug information.
const PROFILE: &str = "mutants";

/// A repository in which the decisions are changed, and where cargo builds it.
pub struct Tree<'a> {
    /// The repository as it was committed.
    pub written: &'a Path,
    /// A copy of it that gets the switches.
    pub switched: &'a Path,
    /// Cargo's target folder.
    pub target: &'a Path,
}

/// Mutants that are not tried.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// What the compiler refuses, each with its message.
    pub refused: BTreeMap<usize, String>,
    pub untried: Vec<(usize, Untried)>,
}

impl LeftOut {
    /// All of them.
    pub fn ids(&self) -> BTreeSet<usize> {
        self.refused.keys().chain(self.untried.iter().map(|(id, _)| id)).copied().collect()
    }
}

/// A test binary of the decisions.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The target's name: `headroom_core` for the library's own tests.
    pub name: String,
    pub program: PathBuf,
}

/// Puts `mutants` into the decisions, and drops one after the other what does not compile; `refused` is what an earlier run found.
///
/// # Errors
/// A file cannot be read or written, the code does not compile for a reason that no mutant causes, or
/// the compiler goes on refusing.
pub fn settle(tree: &Tree, mutants: &[Mutant], refused: BTreeMap<usize, String>) -> Result<LeftOut, String> {
    put_switch(tree, mutants.len())?;
    let mut left_out = LeftOut { refused, untried: Vec::new() };
    for round in 1..=ROUNDS_MAX {
        let dropped = left_out.refused.keys().copied().collect();
        let (marks, untried) = put_mutants(tree, mutants, &dropped)?;
        left_out.untried = untried;
        let messages = cargo(tree, &PACKAGES, &["check", "--lib"])?;
        let errors: Vec<&Value> = messages.iter().filter_map(error).collect();
        if errors.is_empty() {
            return Ok(left_out);
        }
        let before = left_out.refused.len();
        for error in &errors {
            let words = error["message"].as_str().unwrap_or_default().replace('\n', " ");
            for id in to_blame(error, &marks) {
                left_out.refused.entry(id).or_insert_with(|| words.clone());
            }
        }
        let n_new = left_out.refused.len() - before;
        eprintln!("round {round}: {n_new} more do not compile");
        if n_new == 0 {
            let rendered = errors[0]["rendered"].as_str().unwrap_or_default();
            return Err(format!(
                "failed to compile the decisions with switches, and no mutant is the cause:\n{rendered}"
            ));
        }
    }
    Err(format!("failed to compile the decisions with switches within {ROUNDS_MAX} rounds"))
}

/// Builds the tests that are asked: those of the decisions' packages, `core`, and `vectors` of the package that runs golden
/// vectors through the decisions.
///
/// # Errors
/// They do not compile.
pub fn tests(tree: &Tree) -> Result<Vec<Suite>, String> {
    let mut messages = cargo(tree, &PACKAGES, &["test", "--no-run", "--lib"])?;
    messages.extend(cargo(tree, &["headroom-core-tests"], &["test", "--no-run", "--test", "core"])?);
    messages.extend(cargo(tree, &["headroom-conformance"], &["test", "--no-run", "--test", "vectors"])?);
    if let Some(error) = messages.iter().find_map(error) {
        return Err(format!(
            "failed to build the tests of the decisions:\n{}",
            error["rendered"].as_str().unwrap_or_default()
        ));
    }
    let program = |message: &Value| {
        let program = PathBuf::from(message["executable"].as_str()?);
        Some(Suite { name: message["target"]["name"].as_str()?.to_owned(), program })
    };
    let suites: Vec<Suite> = messages.iter().filter_map(program).collect();
    if suites.len() == PACKAGES.len() + 2 {
        Ok(suites)
    } else {
        Err(format!("failed to find the test programs of the decisions: {suites:?}"))
    }
}

/// Adds the module of the switch.
fn put_switch(tree: &Tree, count: usize) -> Result<(), String> {
    let library = read(&tree.written.join(VALUES).join("lib.rs"))?;
    write(
        &tree.switched.join(VALUES).join("lib.rs"),
        &format!("{library}\n#[doc(hidden)]\npub mod {SWITCH};\n"),
    )?;
    write(&tree.switched.join(VALUES).join(format!("{SWITCH}.rs")), &instrument::switch(count))
}

type Marks<'a> = BTreeMap<&'a str, Vec<Mark>>;

/// Writes all files with mutants anew; returns the marks of each, and the mutants without a switch.
fn put_mutants<'a>(
    tree: &Tree,
    mutants: &'a [Mutant],
    dropped: &BTreeSet<usize>,
) -> Result<(Marks<'a>, Vec<(usize, Untried)>), String> {
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let (mut marks, mut untried) = (BTreeMap::new(), Vec::new());
    for (file, mutants) in by_file {
        let source = read(&tree.written.join(file))?;
        let instrumented =
            instrument::instrument(&source, &mutants, dropped).map_err(|error| format!("{file}: {error}"))?;
        write(&tree.switched.join(file), &instrumented.text)?;
        marks.insert(file, instrumented.marks);
        untried.extend(instrumented.untried);
    }
    Ok((marks, untried))
}

/// The messages of a cargo command on some packages. A command that fails without an error of the compiler's is an error here.
fn cargo(tree: &Tree, packages: &[&str], arguments: &[&str]) -> Result<Vec<Value>, String> {
    let output = Command::new("cargo")
        .args(arguments)
        .args(["--quiet", "--locked", "--profile", PROFILE, "--message-format", "json"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .current_dir(tree.switched)
        .env("CARGO_TARGET_DIR", tree.target)
        .output()
        .map_err(|error| format!("failed to start cargo: {error}"))?;
    let messages: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    if output.status.success() || messages.iter().any(|message| error(message).is_some()) {
        Ok(messages)
    } else {
        Err(format!(
            "failed to run cargo {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

/// The compiler's message, if it is an error at a place of the source.
fn error(message: &Value) -> Option<&Value> {
    let message = message.get("message")?;
    (message["level"] == "error" && message["spans"].as_array().is_some_and(|spans| !spans.is_empty()))
        .then_some(message)
}

/// The mutants that an error comes from: those of the narrowest mark around what the compiler points at, first of all at what
/// it calls the error itself.
fn to_blame(error: &Value, marks: &Marks) -> Vec<usize> {
    let spans = error["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (primary, others): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span["is_primary"] == true);
    let around = |span: &&Value| {
        let start = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        let marks = marks.get(span["file_name"].as_str()?)?.iter();
        marks.filter(|mark| mark.range.contains(&start)).min_by_key(|mark| mark.range.len())
    };
    let within = |span: &&Value| {
        let start = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        let end = usize::try_from(span["byte_end"].as_u64()?).ok()?;
        let marks = marks.get(span["file_name"].as_str()?)?.iter();
        marks
            .filter(|mark| mark.range.start < end && start < mark.range.end)
            .min_by_key(|mark| mark.range.len())
    };
    let both = || primary.iter().chain(&others);
    let mark = both().find_map(|span| around(span).or_else(|| within(span)));
    mark.map(|mark| mark.ids.clone()).unwrap_or_default()
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("failed to read {}: {error}", file.display()))
}

/// Writes a file that is to change: cargo builds anew what has a new time.
fn write(file: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(file, text).map_err(|error| format!("failed to write {}: {error}", file.display()))
}
