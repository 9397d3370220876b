//! LIST: asks cargo-mutants which mutants there are in the decisions. It makes none of its own.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Where the decisions are, as cargo-mutants selects files.
const DECISIONS: [&str; 11] = [
    "src/core/src/learn.rs",
    "src/core/src/memory.rs",
    "src/core/src/plan_nodes.rs",
    "src/pods/src/**",
    "src/pools/src/devices/**",
    "src/pools/src/increase.rs",
    "src/pools/src/interruption.rs",
    "src/pools/src/state/**",
    "src/pools/src/wake.rs",
    "src/scaledown/src/**",
    "src/scaleup/src/**",
];

/// The packages of the decisions.
pub const PACKAGES: [&str; 5] =
    ["headroom-core", "headroom-pods", "headroom-pools", "headroom-scaledown", "headroom-scaleup"];

/// The sources of the package that the switch is put into: all decisions depend on it.
pub const VALUES: &str = "src/values/src/";

/// What kind of place a mutant stands at, by cargo-mutants' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Genre {
    /// A function returns this value at once.
    FnValue,
    /// An operator between two operands is another one.
    BinaryOperator,
    /// `!` or `-` is left out.
    UnaryOperator,
    /// An arm of a `match` is left out.
    MatchArm,
    /// The guard of an arm is always or never true.
    MatchArmGuard,
    /// A field is left to the base (`..base`) of a struct expression.
    StructField,
    /// What only a later cargo-mutants knows. It is not tried.
    #[serde(other)]
    Other,
}

/// One mutant of the list.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its place in the list, from 1.
    pub id: usize,
    /// From the repository's root.
    pub file: String,
    /// Where what is changed begins: line and column from 1, the column in characters.
    pub start: (usize, usize),
    pub genre: Genre,
    /// What stands there instead; empty where something is left out.
    pub replacement: String,
    /// The function, with the type that it belongs to: `PoolState<'_>::ready`.
    pub function: String,
    /// What is changed, as `docs/development/mutants.md` says it: `< with <=`, `body: bool with true`, `delete !`.
    pub text: String,
}

#[derive(Deserialize)]
struct Listed {
    file: String,
    function: Option<Function>,
    genre: Genre,
    name: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Function {
    function_name: String,
}

#[derive(Deserialize)]
struct Span {
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: usize,
    column: usize,
}

/// All mutants that `cargo_mutants` knows for the decisions in `tree`, in its own order, which is the same each time.
///
/// # Errors
/// cargo-mutants cannot be started, fails, or prints something else than version 27 does.
pub fn list(cargo_mutants: &Path, tree: &Path) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new(cargo_mutants);
    command
        .args(["mutants", "--list", "--json", "--no-shuffle"])
        .args(PACKAGES.iter().flat_map(|package| ["--package", package]))
        .current_dir(tree);
    for files in DECISIONS {
        command.args(["--file", files]);
    }
    let output =
        command.output().map_err(|error| format!("failed to start {}: {error}", cargo_mutants.display()))?;
    if !output.status.success() {
        return Err(format!("failed to list mutants: {}", String::from_utf8_lossy(&output.stderr)));
    }
    read(&output.stdout)
}

fn read(json: &[u8]) -> Result<Vec<Mutant>, String> {
    let listed: Vec<Listed> = serde_json::from_slice(json)
        .map_err(|error| format!("failed to read the list of mutants: {error}"))?;
    Ok(listed.into_iter().zip(1..).map(|(listed, id)| mutant(id, listed)).collect())
}

fn mutant(id: usize, listed: Listed) -> Mutant {
    let function = listed.function.map(|function| function.function_name).unwrap_or_default();
    Mutant {
        id,
        text: text(&listed.name, &function),
        file: listed.file,
        start: (listed.span.start.line, listed.span.start.column),
        genre: listed.genre,
        replacement: listed.replacement,
        function,
    }
}

/// The short words for a mutant that cargo-mutants calls `FILE:LINE:COLUMN: replace < with <= in FUNCTION`, or
/// `FILE:LINE:COLUMN: replace FUNCTION -> TYPE with VALUE`.
fn text(name: &str, function: &str) -> String {
    let words = name.split_once(": ").map_or(name, |(_, words)| words);
    if let Some(body) = words.strip_prefix(&format!("replace {function} ")) {
        return format!("body: {}", body.strip_prefix("-> ").unwrap_or(body)).trim().to_owned();
    }
    let words = words.strip_suffix(&format!(" in {function}")).unwrap_or(words);
    words.replacen("replace match guard ", "guard ", 1).replacen("replace ", "", 1).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_named_as_the_page_names_them() {
        let check = |name: &str, function: &str, expected: &str| assert_eq!(text(name, function), expected);
        check(
            "a.rs:1:5: replace plan -> Plan with Default::default()",
            "plan",
            "body: Plan with Default::default()",
        );
        check("a.rs:1:5: replace Moment::settle with ()", "Moment::settle", "body: with ()");
        check("a.rs:9:2: replace < with <= in grown", "grown", "< with <=");
        check("a.rs:9:2: delete ! in plan", "plan", "delete !");
        check("a.rs:9:2: delete match arm A | B in plan", "plan", "delete match arm A | B");
        check("a.rs:9:2: replace match guard a == b with true in plan", "plan", "guard a == b with true");
        check(
            "a.rs:1:1: delete field at from struct Plan expression in given_up",
            "given_up",
            "delete field at from struct Plan expression",
        );
    }

    #[test]
    fn list_of_cargo_mutants_is_read_in_its_order() {
        let json = r#"[
            {"file": "src/scaleup/src/a.rs", "function": {"function_name": "grown", "return_type": "-> bool"},
             "genre": "BinaryOperator", "name": "src/scaleup/src/a.rs:3:7: replace < with == in grown", "package": "p",
             "replacement": "==", "span": {"start": {"line": 3, "column": 7}, "end": {"line": 3, "column": 8}}},
            {"file": "src/scaleup/src/a.rs", "function": null, "genre": "SomethingNew", "name": "a.rs:1:1: new thing",
             "replacement": "", "span": {"start": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}}}]"#;
        let listed = read(json.as_bytes()).unwrap();
        let short: Vec<_> = listed.iter().map(|it| (it.id, it.genre, it.start, it.text.as_str())).collect();
        let expected =
            [(1, Genre::BinaryOperator, (3, 7), "< with =="), (2, Genre::Other, (1, 1), "new thing")];
        assert_eq!(short, expected);
    }
}
