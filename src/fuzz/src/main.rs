//! One door of `headroom_simulator::doors` or `headroom::fuzz_targets`, the one that HEADROOM_DOOR names, under libFuzzer: `hack/fuzz.sh`.
//!
//! What is refused without a word counts as a crash, as does a panic. The sane example is the first of the corpus in the folder
//! HEADROOM_CORPUS.
#![no_main]

use std::sync::OnceLock;

use headroom::fuzz_targets;
use headroom_simulator::doors::Door;

static DOOR: OnceLock<&'static Door> = OnceLock::new();

/// The door of the environment.
fn chosen() -> &'static Door {
    let name = std::env::var("HEADROOM_DOOR").expect("HEADROOM_DOOR names a door");
    let door = fuzz_targets::named(&name).unwrap_or_else(|| panic!("there is no door {name}"));
    if let Ok(corpus) = std::env::var("HEADROOM_CORPUS") {
        let first = std::path::Path::new(&corpus).join("sane");
        std::fs::write(first, (door.sane)()).expect("the folder of the corpus can be written");
    }
    door
}

libfuzzer_sys::fuzz_target!(init: { let _ = DOOR.set(chosen()); }, |data: &[u8]| {
    let door = DOOR.get().expect("the fuzzer begins with init");
    if let Err(words) = door.read(data) {
        assert!(!words.trim().is_empty(), "refused without a word");
    }
});
