//! The walls between the rooms: who may import whom, and who may name what. ARCHITECTURE.md says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms each room may import. A room may always import itself; everything may import headroom-core.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    let inner = ["actuate", "api", "host", "metrics", "observe", "provider", "report"];
    let with = |more: &[&'static str]| inner.iter().chain(more).copied().collect::<Vec<_>>();
    BTreeMap::from([
        ("api", vec![]),
        ("host", vec![]),
        ("options", vec![]),
        ("page", vec!["api"]),
        ("telemetry", vec!["options"]),
        ("provider", vec!["host", "api"]),
        ("metrics", vec!["host"]),
        ("observe", vec!["host", "api"]),
        ("report", vec!["host", "api"]),
        ("actuate", vec!["host", "provider"]),
        ("controllers", with(&["options", "page"])),
        ("simulate", with(&["controllers", "options", "page"])),
        ("explain", vec!["api"]),
        ("cli", with(&["controllers", "explain", "options", "page", "simulate", "telemetry"])),
        ("main", vec!["cli"]),
        ("lib", vec![]),
    ])
}

/// A word that only some files may contain.
struct Reserved {
    /// The word.
    word: &'static str,
    /// Files and folders, from the repository's root, that may contain it.
    homes: &'static [&'static str],
}

/// Only these places read time and randomness, watch, or name a cloud's SDK.
const RESERVED: &[Reserved] = &[
    Reserved { word: "SystemTime", homes: &["src/host"] },
    Reserved { word: "Timestamp::now", homes: &["src/host"] },
    // Tokio's monotonic clock, which simulations pause; a watch measures its own silence by it.
    Reserved { word: "Instant::now", homes: &["src/host", "src/core/examples"] },
    Reserved { word: "fastrand::", homes: &["src/host", "src/simulate"] },
    Reserved { word: "thread_rng", homes: &[] },
    Reserved { word: "RandomState", homes: &[] },
    Reserved { word: "tokio::spawn", homes: &["src/host"] },
    Reserved { word: "spawn_blocking", homes: &[] },
    Reserved { word: "watcher(", homes: &["src/observe", "src/simulate"] },
    Reserved { word: "replace_status", homes: &["src/report/write"] },
    Reserved { word: "patch_status", homes: &["src/report/write"] },
    Reserved { word: "aws_sdk", homes: &["src/provider/aws"] },
    Reserved { word: "kube_runtime::Controller", homes: &[] },
];

/// Words that core may not contain at all: it is pure.
const FORBIDDEN_IN_CORE: &[&str] = &[
    "async fn",
    ".await?",
    ".await;",
    ".await)",
    "tokio",
    "kube::",
    "tracing",
    "println!",
    "std::time::Instant",
    "SystemTime",
    "Mutex",
    "f32",
];

#[test]
fn each_room_imports_only_what_it_may() {
    let allowed = allowed();
    let mut trespasses = Vec::new();
    for file in sources("src") {
        let Some(room) = room_of(&file) else { continue };
        let may = allowed.get(room.as_str()).unwrap_or_else(|| panic!("no rule for room {room}: add one"));
        for (number, line) in code_lines(&file) {
            for imported in imported_rooms(&line) {
                if imported != room && !may.contains(&imported.as_str()) {
                    trespasses.push(format!("{}:{number}: {room} imports {imported}", file.display()));
                }
            }
        }
    }
    assert!(trespasses.is_empty(), "{}", trespasses.join("\n"));
}

#[test]
fn reserved_words_stay_in_their_homes() {
    let mut trespasses = Vec::new();
    for file in sources("src") {
        let path = file.to_string_lossy().replace('\\', "/");
        for (number, line) in code_lines(&file) {
            for reserved in RESERVED {
                let at_home = reserved.homes.iter().any(|home| path.starts_with(home));
                if line.contains(reserved.word) && !at_home {
                    trespasses.push(format!("{path}:{number}: {} is not for this room", reserved.word));
                }
            }
        }
    }
    assert!(trespasses.is_empty(), "{}", trespasses.join("\n"));
}

#[test]
fn core_is_pure() {
    let mut trespasses = Vec::new();
    for file in sources("src/core/src") {
        for (number, line) in code_lines(&file) {
            for word in FORBIDDEN_IN_CORE {
                if line.contains(word) {
                    trespasses.push(format!("{}:{number}: {word}", file.display()));
                }
            }
        }
    }
    assert!(trespasses.is_empty(), "{}", trespasses.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = ["src", "e2e/src", "tests", "e2e/tests"]
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|file| !read(file).starts_with("//! "))
        .map(|file| file.display().to_string())
        .collect();
    assert!(silent.is_empty(), "files without a first line `//! …`:\n{}", silent.join("\n"));
}

/// Every Rust file under `folder`, in order.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The room a file is in: the first folder under src, or the file's own name; packages of their own have walls of their own.
fn room_of(file: &Path) -> Option<String> {
    let inside = file.strip_prefix("src").ok()?;
    let first = inside.components().next()?.as_os_str().to_string_lossy().into_owned();
    (!["core", "conformance"].contains(&&*first)).then(|| first.trim_end_matches(".rs").to_owned())
}

/// The lines of a file up to its tests, comments left out, with their numbers.
///
/// Tests may reach further than the code they test.
fn code_lines(file: &Path) -> Vec<(usize, String)> {
    if file.file_name().is_some_and(|name| name == "tests.rs")
        || file.components().any(|c| c.as_os_str() == "tests")
    {
        return Vec::new();
    }
    read(file)
        .lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(any(test"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.to_owned()))
        .collect()
}

/// The rooms that a line names as `crate::room`.
fn imported_rooms(line: &str) -> Vec<String> {
    line.split("crate::")
        .skip(1)
        .filter(|_| !line.contains("pub(in crate::"))
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>())
        .filter(|name| !name.is_empty())
        .collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a source file that was just listed can be read")
}
