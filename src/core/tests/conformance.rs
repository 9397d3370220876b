//! The golden vectors that are kept here pass. It runs what the example `conformance` runs.

#[path = "../examples/conformance/cluster.rs"]
mod cluster;
#[path = "../examples/conformance/families.rs"]
mod families;
#[path = "../examples/conformance/likeness.rs"]
mod likeness;
#[path = "../examples/conformance/loops.rs"]
mod loops;
#[path = "../examples/conformance/model.rs"]
mod model;
#[path = "../examples/conformance/removals.rs"]
mod removals;
#[path = "../examples/conformance/words.rs"]
mod words;

use std::io::Read;

use families::Verdict;

fn every_case_passes(file: &str) {
    let path = format!("{}/tests/vectors/{file}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect("the vectors are in the repository");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("a compressed text");
    assert!(!text.is_empty());
    for line in text.lines() {
        let line: model::Line = serde_json::from_str(line).expect("a line of the documented format");
        let verdict = families::run(&line);
        assert_eq!(verdict, Verdict::Passed, "{}", line.id);
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
