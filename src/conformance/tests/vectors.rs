//! The golden vectors that are kept in the repository: none fails but those that are listed, each with the reason.

use std::path::Path;

use headroom_conformance::outcome::{Outcome, Rule};
use headroom_conformance::{files, lines};

fn failures(file: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/vectors");
    let text =
        files::read(&folder.join(format!("{file}.jsonl.gz"))).expect("the vectors are in the repository");
    assert!(!text.is_empty());
    let went = text.lines().map(lines::run);
    went.filter(|one| matches!(one.outcome, Some(Outcome::Failed(_)) | None)).map(|one| one.id).collect()
}

/// Most cases of a family that fail for now; none more may.
fn at_most(file: &str, most: usize) {
    let failed = failures(file);
    assert!(failed.len() <= most, "{} of {file} fail: {failed:?}", failed.len());
}

#[test]
fn functions_that_protect_pods_are_as_the_reference() {
    for file in ["backoff", "drainability", "utilization", "similar_groups"] {
        at_most(file, 0);
    }
}

#[test]
fn balancing_expanders_and_packing_are_as_good_as_the_reference() {
    for file in ["balancing", "expanders", "estimator"] {
        at_most(file, 0);
    }
}

#[test]
fn growth_is_as_good_as_the_reference() {
    for file in ["scale_up", "scale_up2"] {
        at_most(file, 0);
    }
}

#[test]
fn shrinkage_is_as_good_as_the_reference() {
    for file in ["scale_down", "scale_down2", "loops2"] {
        at_most(file, 0);
    }
}

#[test]
fn counts_of_groups_over_time_are_those_of_the_reference_or_of_a_rule() {
    at_most("cluster_state", 0);
}

#[test]
fn replica_decisions_are_as_the_reference() {
    at_most("hpa_designed", 0);
    at_most("hpa_random", 0);
}

#[test]
fn devices_are_allocated_as_by_the_reference() {
    at_most("dra_cel", 0);
    at_most("dra_designed", 0);
    at_most("dra_random", 0);
}

#[test]
fn page_of_differences_names_every_rule_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md");
    let page = std::fs::read_to_string(path).expect("the page is in the repository");
    let written: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let known: Vec<&str> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(written, known);
    assert!(known.len() <= 15, "the list is short");
}
