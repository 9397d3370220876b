//! The golden vectors that are kept here pass. It runs what the example `conformance` runs.

#[path = "../examples/conformance/cloud.rs"]
mod cloud;
#[path = "../examples/conformance/cluster.rs"]
mod cluster;
#[path = "../examples/conformance/families.rs"]
mod families;
#[path = "../examples/conformance/hpa/mod.rs"]
mod hpa;
#[path = "../examples/conformance/likeness.rs"]
mod likeness;
#[path = "../examples/conformance/lines.rs"]
mod lines;
#[path = "../examples/conformance/loops.rs"]
mod loops;
#[path = "../examples/conformance/model.rs"]
mod model;
#[path = "../examples/conformance/removals.rs"]
mod removals;
#[path = "../examples/conformance/settings.rs"]
mod settings;
#[path = "../examples/conformance/words.rs"]
mod words;

use std::io::Read;

use families::Verdict;

/// Cases that do not pass, each with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "scale_down-d098",
    "the core's instances carry no error of creation: providers tell failed launches by group, and delete what failed",
)];

fn every_case_passes(file: &str) {
    let path = format!("{}/tests/vectors/{file}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect("the vectors are in the repository");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("a compressed text");
    assert!(!text.is_empty());
    for line in text.lines() {
        let outcome = lines::run(line);
        let note = outcome.note.unwrap_or_default();
        if EXCEPTIONS.iter().any(|(id, _)| *id == outcome.id) {
            assert_ne!(outcome.verdict, Verdict::Passed, "{} is no exception any more", outcome.id);
            continue;
        }
        assert_eq!(outcome.verdict, Verdict::Passed, "{} {note}", outcome.id);
    }
}

#[test]
fn backoff_is_as_the_reference() {
    every_case_passes("backoff");
}

#[test]
fn balancing_is_as_the_reference() {
    every_case_passes("balancing");
}

#[test]
fn expanders_are_as_the_reference() {
    every_case_passes("expanders");
}

#[test]
fn estimator_is_as_the_reference() {
    every_case_passes("estimator");
}

#[test]
fn utilization_is_as_the_reference() {
    every_case_passes("utilization");
}

#[test]
fn drainability_is_as_the_reference() {
    every_case_passes("drainability");
}

#[test]
fn similar_groups_are_as_the_reference() {
    every_case_passes("similar_groups");
}

#[test]
fn cluster_state_is_as_the_reference() {
    every_case_passes("cluster_state");
}

#[test]
fn scale_up_is_as_the_reference() {
    every_case_passes("scale_up");
}

#[test]
fn replica_decisions_in_designed_scenarios_are_as_the_reference() {
    every_case_passes("hpa_designed");
}

#[test]
fn replica_decisions_in_simulated_workloads_are_as_the_reference() {
    every_case_passes("hpa_random");
}

#[test]
fn scale_down_is_as_the_reference() {
    every_case_passes("scale_down");
}
