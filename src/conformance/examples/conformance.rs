//! Runs golden vectors: `cargo run --release -p headroom-conformance --example conformance -- PATH…`. It changes no file.

use std::path::Path;
use std::process::ExitCode;

use headroom_conformance::outcome::Outcome;
use headroom_conformance::table::Table;
use headroom_conformance::{files, lines};

fn main() -> ExitCode {
    let mut paths = Vec::new();
    let mut shown_max = 5;
    for argument in std::env::args().skip(1) {
        if argument == "--all" {
            shown_max = usize::MAX;
        } else if let Err(error) = files::collect(Path::new(&argument), &mut paths) {
            eprintln!("{argument}: {error}");
            return ExitCode::FAILURE;
        }
    }
    paths.sort();
    let (mut table, mut unreadable) = (Table::default(), 0);
    for path in &paths {
        unreadable += usize::from(!run_file(path, &mut table, shown_max));
    }
    println!("{table}");
    let (passed, failed) = table.totals();
    let failed = failed + unreadable;
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the cases of a file and prints at most so many of those that fail; false if it cannot be read.
fn run_file(path: &Path, table: &mut Table, shown_max: usize) -> bool {
    let text = match files::read(path) {
        Ok(text) => text,
        Err(error) => {
            println!("{}: {error}", path.display());
            return false;
        }
    };
    let (mut uncovered, mut shown) = (0, 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let went = lines::run(line);
        let Some(outcome) = went.outcome else {
            uncovered += 1;
            continue;
        };
        table.count(&went.family, &outcome);
        match outcome {
            Outcome::Failed(how) if shown < shown_max => {
                shown += 1;
                println!("  {}: {how}", went.id);
            }
            Outcome::Better(_) | Outcome::Different(_) if shown_max == usize::MAX => {
                println!("  {}: {outcome:?}", went.id);
            }
            _ => {}
        }
    }
    let note = if uncovered == 0 { String::new() } else { format!(" ({uncovered} of families not covered)") };
    println!("{}: done{note}", path.display());
    true
}
