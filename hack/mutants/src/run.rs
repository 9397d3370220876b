//! RUN: starts a test program of core with a mutant or none, within bounds of time and memory.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::compile::Suite;

/// Address space of one test program: a mutant may ask for all memory there is. It is far more than any test uses, because
/// threads and allocators reserve more than they use.
const ADDRESS_SPACE_BYTES_MAX: u64 = 4 << 30;

/// Starts a program with that bound and without core files; a shell that cannot bound memory goes on without.
const BOUNDED: &str = r#"ulimit -c 0; ulimit -v "$1" 2>/dev/null; shift; exec "$@""#;

/// The value of the switch of a test program.
#[derive(Clone, Copy, Debug)]
pub enum Switch<'a> {
    /// The mutant with this number is made.
    Mutant(usize),
    /// None is made, and the places that are reached are written to a file.
    Record(&'a Path),
}

/// How a run of tests ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The first test that failed; empty where the program ended otherwise, as by an abort.
    Failed(String),
    TimedOut,
}

/// Runs some tests of a suite by their full names, one after the other, in `folder`.
///
/// Equal runs meet equal random cases: the seed of property tests is set, and nothing is kept of what fails.
///
/// # Errors
/// The program cannot be started.
pub fn run(
    suite: &Suite,
    names: &[&str],
    switch: Switch,
    folder: &Path,
    limit: Duration,
) -> Result<Outcome, String> {
    let mut command = Command::new("sh");
    command
        .args(["-c", BOUNDED, "sh", &(ADDRESS_SPACE_BYTES_MAX / 1024).to_string()])
        .arg(&suite.program)
        .args(["--test-threads", "1", "--exact"])
        .args(names)
        .current_dir(folder)
        .env("RUST_BACKTRACE", "0")
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    match switch {
        Switch::Mutant(id) => command.env("HEADROOM_MISTAKE", id.to_string()),
        Switch::Record(file) => command.env("HEADROOM_REACHED", file),
    };
    let failed = |error| format!("failed to run {}: {error}", suite.program.display());
    let mut child = command.spawn().map_err(failed)?;
    let Some(output) = output_within(&mut child, limit) else {
        child.kill().map_err(failed)?;
        child.wait().map_err(failed)?;
        return Ok(Outcome::TimedOut);
    };
    let status = child.wait().map_err(failed)?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(first_failure(&output)) })
}

/// What a program writes until it ends; nothing where it does not end in time.
fn output_within(child: &mut Child, limit: Duration) -> Option<String> {
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut output = Vec::new();
        // A program that is killed has said enough.
        let _ = stdout.read_to_end(&mut output);
        let _ = sender.send(String::from_utf8_lossy(&output).into_owned());
    });
    receiver.recv_timeout(limit).ok()
}

/// The name in the first line `test NAME ... FAILED`.
fn first_failure(output: &str) -> String {
    let name = |line: &str| {
        Some(line.strip_prefix("test ")?.strip_suffix("FAILED")?.split_whitespace().next()?.to_owned())
    };
    output.lines().find_map(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_test_that_failed_is_named() {
        let output =
            "\nrunning 3 tests\ntest a::b ... ok\ntest c::d - should panic ... FAILED\ntest e ... FAILED\n";
        assert_eq!(first_failure(output), "c::d");
        assert_eq!(first_failure("running 1 test\n"), "");
    }

    #[test]
    fn program_that_runs_for_ever_is_stopped() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(output_within(&mut child, Duration::from_millis(20)), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
