//! The target of `headroom_faults::fuzz_targets` that HEADROOM_FUZZ_TARGET names, under libFuzzer: `hack/fuzz.sh`.
//!
//! An input that is refused without a message counts as a crash, as does a panic. The valid example is the first of the
//! corpus in the folder HEADROOM_CORPUS.
#![no_main]

use std::sync::OnceLock;

use headroom_faults::fuzz_targets::FuzzTarget;

static TARGET: OnceLock<&'static FuzzTarget> = OnceLock::new();

/// The target of the environment.
fn chosen() -> &'static FuzzTarget {
    let name = std::env::var("HEADROOM_FUZZ_TARGET").expect("HEADROOM_FUZZ_TARGET names a target");
    let target = FuzzTarget::named(&name).unwrap_or_else(|| panic!("there is no fuzz target {name}"));
    if let Ok(corpus) = std::env::var("HEADROOM_CORPUS") {
        let first = std::path::Path::new(&corpus).join("sane");
        std::fs::write(first, (target.sane)()).expect("the folder of the corpus can be written");
    }
    target
}

libfuzzer_sys::fuzz_target!(init: { let _ = TARGET.set(chosen()); }, |data: &[u8]| {
    let target = TARGET.get().expect("the fuzzer begins with init");
    if let Err(words) = target.read(data) {
        assert!(!words.trim().is_empty(), "refused without a word");
    }
});
