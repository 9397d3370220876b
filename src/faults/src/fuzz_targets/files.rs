//! Fuzz targets for files that people give to the command line.

use std::path::Path;

use headroom_core::printable;

use super::{Bytes, FuzzTarget, Understood};
use headroom::{import, lint};
use headroom_explain::Case;
use headroom_simulator::scenario::Scenario;

/// Characters with a meaning in YAML.
const YAML: &[u8] = b"{}[]:,-#&*!|>'\"%@ \n\t";

/// All of them.
pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget::of_bytes(Bytes {
        name: "snapshots",
        sane: sane_snapshot,
        alphabet: b"{}[]:,\"\\u0123456789-",
        read: snapshot,
    }),
    FuzzTarget::of_bytes(Bytes { name: "lint_files", sane: sane_manifests, alphabet: YAML, read: linted }),
    FuzzTarget::of_bytes(Bytes {
        name: "scenario_files",
        sane: sane_scenario,
        alphabet: YAML,
        read: scenario,
    }),
    FuzzTarget::of_bytes(Bytes { name: "imports", sane: sane_imports, alphabet: YAML, read: imported }),
];

/// Bytes as text, or a message that they are not.
fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Checks that text for a terminal holds no control characters.
fn assert_printable(text: &str) {
    let hidden = text.chars().find(|one| *one != '\n' && printable::is_hidden(*one));
    assert!(hidden.is_none(), "{hidden:?} in {text:?}");
}

fn sane_snapshot() -> String {
    let text = include_str!("snapshot.json");
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

fn linted(bytes: &[u8]) -> Understood {
    let (text, errors) = lint::report("fuzz.yaml", utf8(bytes)?);
    assert_printable(&text);
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

fn imported(bytes: &[u8]) -> Understood {
    let (texts, refused) = futures::executor::block_on(import::by_every_import("fuzz.yaml", utf8(bytes)?));
    texts.iter().for_each(|text| assert_printable(text));
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

fn sane_manifests() -> String {
    include_str!("manifests.yaml").to_owned()
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
    include_str!("imports.yaml").to_owned()
}
