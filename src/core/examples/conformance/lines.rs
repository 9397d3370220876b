//! One line of a file of vectors: which format it is in, and how it went.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::families::{self, Verdict};
use crate::{hpa, model};

/// How one line went.
pub struct Outcome {
    /// What the line calls itself; empty if it can not be read.
    pub id: String,
    /// Whether it is as the reference.
    pub verdict: Verdict,
    /// What was not compared, and why.
    pub note: Option<String>,
}

#[derive(Deserialize)]
struct Probe {
    /// Only scenarios of the horizontal pod autoscaler have it.
    hpa: Option<IgnoredAny>,
}

/// Runs one line of either format.
pub fn run(text: &str) -> Outcome {
    if serde_json::from_str::<Probe>(text).is_ok_and(|probe| probe.hpa.is_some()) {
        return scenario(text);
    }
    match serde_json::from_str::<model::Line>(text) {
        Ok(line) => Outcome { verdict: families::run(&line), id: line.id, note: None },
        Err(error) => unreadable(&error),
    }
}

fn scenario(text: &str) -> Outcome {
    match serde_json::from_str::<hpa::Scenario>(text) {
        Ok(scenario) => {
            let report = hpa::run(&scenario);
            let verdict = if report.differences.is_empty() {
                Verdict::Passed
            } else {
                Verdict::Failed(report.differences.join("\n       "))
            };
            Outcome { id: scenario.name, verdict, note: report.note }
        }
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &serde_json::Error) -> Outcome {
    Outcome { id: String::new(), verdict: Verdict::Failed(error.to_string()), note: None }
}
