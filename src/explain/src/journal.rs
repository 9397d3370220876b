//! Decisions over time, of pools and of workloads, with the events that report their outcome.

use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use serde::Serialize;

use super::case::Opened;
use super::evidence::{EventSeen, Evidence};
use super::explanation::{Time, clock};
use super::table::{Column, Table};

/// Something that was decided or done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Entry {
    /// Time.
    pub time: Time,
    /// The object.
    pub object: String,
    /// Description, such as `ScaleUp 3→5`.
    pub what: String,
    /// Reason.
    pub why: String,
    /// Outcome; empty for events.
    pub outcome: String,
}

/// Everything that was decided, oldest first.
#[must_use]
pub fn history(opened: &Opened<'_>) -> Vec<Entry> {
    let case = opened.case;
    let mut entries = Vec::new();
    for (pool, memory) in &case.input.history.pools {
        for decision in &memory.decisions {
            entries.push(Entry {
                time: Time(decision.time),
                object: format!("nodepool/{pool}"),
                what: format!("{:?} {}→{}", decision.action, decision.from, decision.to),
                why: if decision.message.is_empty() {
                    decision.reason.as_str().to_owned()
                } else {
                    decision.message.to_string()
                },
                outcome: format!("{:?}", decision.outcome),
            });
        }
    }
    for policy in &case.evidence.policies {
        for decision in &policy.status.decisions {
            entries.push(Entry {
                time: Time(UnixTime::from_jiff(decision.time.0)),
                object: format!("scalingpolicy/{}", policy.key),
                what: format!("Scale {}→{}", decision.from, decision.to),
                why: decision.message.clone().unwrap_or_else(|| decision.reason.clone()),
                outcome: decision.outcome.clone(),
            });
        }
    }
    let reasons = ["FailedToScaleUpGroup", "ScaleDownFailed", "SuccessfulRescale"];
    for event in case.evidence.events.iter().filter(|event| reasons.contains(&&*event.reason)) {
        // A rescale that a policy reports is listed once.
        if event.reason == "SuccessfulRescale" && is_reported_by_policy(&case.evidence, event) {
            continue;
        }
        entries.push(Entry {
            time: Time(event.at),
            object: format!("{}/{}", event.kind.to_lowercase(), event.key),
            what: event.reason.clone(),
            why: event.note.clone(),
            outcome: String::new(),
        });
    }
    entries.sort();
    entries
}

/// True if the decisions of a ScalingPolicy report this rescale too.
fn is_reported_by_policy(evidence: &Evidence, event: &EventSeen) -> bool {
    let hpa =
        evidence.hpas.iter().find(|hpa| event.kind == "HorizontalPodAutoscaler" && hpa.key == event.key);
    let Some(hpa) = hpa else { return event.kind == "ScalingPolicy" };
    let target = ObjectKey::new(hpa.key.namespace.clone(), hpa.target.1.as_str());
    evidence.policy_of(&hpa.target.0, &target).is_some_and(|policy| !policy.looks_on())
}

/// As a table of at most 100 columns.
#[must_use]
pub fn text(entries: &[Entry], now: UnixTime) -> String {
    if entries.is_empty() {
        return "Nothing was decided yet.\n".to_owned();
    }
    let mut table = Table::new([
        Column::left("TIME"),
        Column::left("OBJECT"),
        Column::left("WHAT"),
        Column::left("OUTCOME"),
        Column::wide("WHY"),
    ]);
    for entry in entries.iter().cloned() {
        table.row([clock(entry.time.0, now), entry.object, entry.what, entry.outcome, entry.why]);
    }
    table.text()
}
