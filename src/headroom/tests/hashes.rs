//! Equal seeds are equal runs, in separate processes and under faults.

use std::process::Command;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/short");

fn hash(seed: &str) -> String {
    let arguments = ["simulate", SCENARIO, "--port", "wire", "--rough", "--hash", "--seed", seed];
    let output =
        Command::new(env!("CARGO_BIN_EXE_headroom")).args(arguments).output().expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a hash is text").trim().to_owned()
}

#[test]
fn one_seed_is_one_run_in_every_process_and_another_seed_is_another() {
    let first = hash("7");
    assert_eq!(first.len(), 16, "{first}");
    assert_eq!(first, hash("7"));
    assert_ne!(first, hash("8"));
}
