//! Fuzz targets for files that people give to the command line, beside those of `simulate::doors` for what the operator reads.

use std::path::Path;

use headroom_core::printable;

use super::import;
use super::lint;
use headroom_explain::Case;
use headroom_simulator::doors::{Bytes, Door, Understood};
use headroom_simulator::scenario::Scenario;

/// Characters with a meaning in YAML.
const YAML: &[u8] = b"{}[]:,-#&*!|>'\"%@ \n\t";

/// All of them.
pub const TARGETS: &[Door] = &[
    Door::of_bytes(Bytes {
        name: "snapshots",
        sane: sane_snapshot,
        alphabet: b"{}[]:,\"\\u0123456789-",
        read: snapshot,
    }),
    Door::of_bytes(Bytes { name: "lint_files", sane: sane_manifests, alphabet: YAML, read: lint::fuzz }),
    Door::of_bytes(Bytes { name: "scenario_files", sane: sane_scenario, alphabet: YAML, read: scenario }),
    Door::of_bytes(Bytes { name: "imports", sane: sane_imports, alphabet: YAML, read: import::fuzz }),
];

/// The target of this name, among these and those of the operator.
#[must_use]
pub fn named(name: &str) -> Option<&'static Door> {
    Door::named(name).or_else(|| TARGETS.iter().find(|target| target.name == name))
}

/// Bytes as text, or the words that they are not.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Checks that text for a terminal holds no control characters.
pub(super) fn assert_printable(text: &str) {
    let hidden = text.chars().find(|one| *one != '\n' && printable::is_hidden(*one));
    assert!(hidden.is_none(), "{hidden:?} in {text:?}");
}

fn sane_snapshot() -> String {
    let text = include_str!("fuzz_targets/snapshot.json");
    text.trim_end().to_owned()
}

fn snapshot(bytes: &[u8]) -> Understood {
    let words = |error: headroom_explain::Error| format!("{:#}", anyhow::Error::from(error));
    let case = Case::parse(utf8(bytes)?).map_err(words)?;
    let case = case.printable().map_err(words)?;
    let text = case.render().map_err(words)?;
    assert_printable(&text);
    assert_eq!(Case::parse(&text).map_err(words)?, case);
    Ok(())
}

fn sane_manifests() -> String {
    include_str!("fuzz_targets/manifests.yaml").to_owned()
}

fn sane_scenario() -> String {
    "description: a morning\nstart: 2026-03-19T09:00:00Z\nduration: 2h\nnodeReadyAfter: 40s\npodStartsAfter: 2s\nseed: 7\n\
     events:\n- {at: 20m, message: \"half an hour\"}\n- {at: 1h, restartOperator: true}\n"
        .to_owned()
}

fn scenario(bytes: &[u8]) -> Understood {
    // No folder of this name is there, so an event can name no file.
    Scenario::parse(Path::new("/nonexistent/scenario"), utf8(bytes)?)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn sane_imports() -> String {
    include_str!("fuzz_targets/imports.yaml").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_damage as damage;

    #[test]
    fn each_target_understands_its_example() {
        for target in TARGETS {
            assert_eq!(target.read((target.sane)().as_bytes()), Ok(()), "{}", target.name);
            let found = named(target.name).expect("it is found by its name");
            assert_eq!((found.sane)(), (target.sane)(), "another target has the name {}", target.name);
        }
        assert!(named("pods").is_some());
    }

    #[test]
    fn damaged_files_are_understood_or_refused_with_words() {
        for target in TARGETS {
            let tally = target
                .try_damaged(damage::cases(200))
                .unwrap_or_else(|words| panic!("{}: {words}", target.name));
            assert!(0 < tally.refused, "nothing was refused by {}: the cases are too tame", target.name);
        }
    }
}
