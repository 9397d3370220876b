//! The report of `simulate-faults` as programs read it.

use std::process::Command;

#[test]
fn one_seed_is_reported_as_one_document() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate-faults"));
    let output = command.args(["--seed", "3", "-o", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["schema"], &report["seeds"]), (&"headroom.dev/faults/v1".into(), &1.into()));
    assert_eq!((&report["failed"], &report["alone"]["seed"]), (&serde_json::json!([]), &3.into()));
    assert!(report["alone"]["log"].as_array().is_some_and(|log| !log.is_empty()), "{report}");
}
