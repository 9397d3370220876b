//! One line of a file of vectors: which format it is in, and how it went.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::outcome::Outcome;
use crate::{dra, families, hpa, model};

/// Result of one line.
pub struct LineOutcome {
    /// The id of the case; empty if the line can not be read.
    pub id: String,
    /// Its family.
    pub family: String,
    /// Outcome; `None` where no family of this name is known.
    pub outcome: Option<Outcome>,
    /// Note on parts that were not compared, and why.
    pub note: Option<String>,
}

#[derive(Deserialize)]
struct Probe {
    /// Only scenarios of the horizontal pod autoscaler have it.
    hpa: Option<IgnoredAny>,
    /// Only cases of node autoscaling have it.
    #[serde(rename = "in")]
    input: Option<IgnoredAny>,
    /// Only cases of device allocation have it.
    expect: Option<IgnoredAny>,
}

/// Runs one line of any format.
pub fn run(text: &str) -> LineOutcome {
    match serde_json::from_str::<Probe>(text) {
        Ok(Probe { hpa: Some(_), .. }) => return scenario(text),
        Ok(Probe { expect: Some(_), .. }) => return devices(text),
        Ok(Probe { hpa: None, input: None, .. }) => {
            return LineOutcome { id: String::new(), family: String::new(), outcome: None, note: None };
        }
        Ok(_) | Err(_) => {}
    }
    match serde_json::from_str::<model::Line>(text) {
        Ok(line) => LineOutcome {
            outcome: families::run(&line),
            family: families::family(&line.id).to_owned(),
            id: line.id,
            note: None,
        },
        Err(error) => unreadable(&error),
    }
}

fn scenario(text: &str) -> LineOutcome {
    match serde_json::from_str::<hpa::Scenario>(text) {
        Ok(scenario) => {
            let report = hpa::run(&scenario);
            let outcome = if report.differences.is_empty() {
                Outcome::Same
            } else {
                Outcome::Failed(report.differences.join("\n       "))
            };
            let (id, note) = (scenario.name, report.note);
            LineOutcome { id, family: "hpa".into(), outcome: Some(outcome), note }
        }
        Err(error) => unreadable(&error),
    }
}

fn devices(text: &str) -> LineOutcome {
    match serde_json::from_str::<dra::Case>(text) {
        Ok(case) => LineOutcome {
            outcome: Some(dra::compare(&case)),
            family: case.kind().into(),
            id: case.id,
            note: None,
        },
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &serde_json::Error) -> LineOutcome {
    let outcome = Some(Outcome::Failed(error.to_string()));
    LineOutcome { id: String::new(), family: "unreadable".into(), outcome, note: None }
}
