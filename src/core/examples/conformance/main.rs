//! Runs golden vectors: `cargo run --release -p headroom-core --example conformance -- PATH…`. It changes no file.

mod cloud;
mod cluster;
mod families;
mod hpa;
mod likeness;
mod lines;
mod loops;
mod model;
mod removals;
mod settings;
mod words;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use families::Verdict;

/// Most differences shown for one file.
const SHOWN_MAX: usize = 5;

fn main() -> ExitCode {
    let mut files = Vec::new();
    for argument in std::env::args().skip(1) {
        if let Err(error) = collect(Path::new(&argument), &mut files) {
            eprintln!("{argument}: {error}");
            return ExitCode::FAILURE;
        }
    }
    files.sort();
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        let (good, bad, note) = run_file(file);
        println!("{}: {good} passed, {bad} failed{note}", file.display());
        passed += good;
        failed += bad;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Files of vectors under a path.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
        return Ok(());
    }
    let name = path.to_string_lossy();
    if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
        files.push(path.to_owned());
    }
    Ok(())
}

fn run_file(path: &Path) -> (usize, usize, String) {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => return (0, 1, format!(" ({error})")),
    };
    let (mut passed, mut failed, mut uncovered) = (0, 0, 0);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let lines::Outcome { id, verdict, note } = lines::run(line);
        let id = if id.is_empty() { format!("line {}", number + 1) } else { id };
        if let Some(note) = note {
            println!("  {id}: {note}");
        }
        match verdict {
            Verdict::Passed => passed += 1,
            Verdict::NotCovered => uncovered += 1,
            Verdict::Failed(how) => {
                if failed < SHOWN_MAX {
                    println!("  {id}: {how}");
                }
                failed += 1;
            }
        }
    }
    let note = if uncovered == 0 { String::new() } else { format!(" ({uncovered} of families not covered)") };
    (passed, failed, note)
}

fn read(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        (&bytes[..]).read_to_string(&mut text)?;
    }
    Ok(text)
}
