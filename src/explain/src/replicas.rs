//! Decisions on replicas that were made again from their inputs, in words. It decides nothing.

use headroom_core::labels::ObjectKey;
use headroom_core::pods::decision::{Branch, FallbackStep, MetricStep, Steps};
use headroom_core::pods::input::Unknown;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{Leave, ReplicaDecision};
use headroom_core::pods::zero::ZeroStep;

use super::case::{Opened, ProviderView};
use super::evidence::PolicySeen;
use super::explanation::{ExplainedStep, clock};
use super::table::{Column, Table, wrap};

/// The decision of a policy that was made again, where that has more than the policy's status: from the operator's own
/// input, or because the status lost its words with its names.
#[must_use]
pub fn of_policy<'a>(opened: &'a Opened<'_>, policy: &PolicySeen) -> Option<&'a ReplicaDecision> {
    let reported = policy.status.recommendation.as_ref().is_some_and(|status| !status.steps.is_empty());
    if reported && opened.case.provider_view == ProviderView::Status {
        return None;
    }
    opened.replicas.iter().flatten().find(|decision| decision.policy == policy.key)
}

/// A change of size in a line; `None` if there is none, or it may not be made.
#[must_use]
pub fn in_words(decision: &ReplicaDecision) -> Option<String> {
    let change = decision.rescale.as_ref().filter(|_| decision.leave == Leave::Granted)?;
    let kind = decision.target.kind.to_lowercase();
    Some(format!(
        "scale {kind} {} from {} to {}: {}",
        target(decision),
        change.from,
        change.to,
        change.reason
    ))
}

fn target(decision: &ReplicaDecision) -> ObjectKey {
    ObjectKey::new(decision.policy.namespace.clone(), decision.target.name.as_str())
}

/// Each step from the metrics to the size.
#[must_use]
pub fn steps(decision: &ReplicaDecision) -> Vec<ExplainedStep> {
    let steps = &decision.steps;
    let row = |step: &str, replicas: Option<i32>, why: String| ExplainedStep {
        step: step.to_owned(),
        replicas: number(replicas),
        why,
    };
    let mut rows: Vec<ExplainedStep> =
        steps.metrics.iter().map(|metric| row("metric", metric.proposal, measured(metric))).collect();
    if let Some(why) = way(steps) {
        rows.push(row("way", steps.desired, why));
    }
    if let Some(proposed) = steps.proposed {
        let by = steps.proposed_by.as_deref().unwrap_or("the bounds alone");
        rows.push(row("metrics", Some(proposed), format!("proposed by {by}")));
    }
    if let Some(stabilized) = steps.stabilized {
        let why = if steps.proposed == steps.stabilized { "nothing holds it" } else { "held by a window" };
        rows.push(row("stabilization", Some(stabilized), why.to_owned()));
    }
    if let Some(limit) = steps.rate_limit {
        rows.push(row("policies", Some(limit), "so many at this rate".to_owned()));
    }
    if steps.desired.is_some() {
        rows.push(row("bounds", steps.desired, bounded(steps)));
    }
    if let Some(step) = steps.zero {
        rows.push(row("zero", steps.desired, around_zero(step)));
    }
    rows
}

fn number(count: Option<i32>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn measured(metric: &MetricStep) -> String {
    let name = &metric.name;
    let Some(value) = &metric.value else {
        let why =
            metric.unknown.as_ref().map_or_else(String::new, |unknown| format!(": {}", unclear(unknown)));
        let is = if metric.unknown.is_some() { "is unknown" } else { "has no pods to measure" };
        return format!("{name} {is}{why}");
    };
    let target = metric.target.as_ref().map_or_else(String::new, |target| format!(", target {target}"));
    let near = match (metric.within_tolerance, metric.kept_in_rollout) {
        (true, _) => ", within tolerance",
        (false, true) => ", kept while there are more pods than asked for",
        (false, false) => "",
    };
    let active = match metric.active {
        Some(true) => ", active",
        Some(false) => ", not active",
        None => "",
    };
    format!("{name} is {value}{target}{near}{active}")
}

/// A step on the way to zero or back, in words.
fn around_zero(step: ZeroStep) -> String {
    match step {
        ZeroStep::Waiting { since, until } => format!(
            "no metric is active since {}: the last replica may go from {} on",
            since.second(),
            until.second()
        ),
        ZeroStep::Idle { since } => format!("no metric is active since {}: it may go to 0", since.second()),
        ZeroStep::AtZero { since } => {
            format!("set to 0 by the operator at {}: it comes back once a metric is active", since.second())
        }
        ZeroStep::Activated => "a metric is active: it leaves 0".to_owned(),
        ZeroStep::Paused => "set to 0 by somebody else: set it to 1, and the metrics decide again".to_owned(),
    }
}

fn unclear(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Failed(why) | Unknown::Absurd(why) => why.to_string(),
        Unknown::Empty => "no sample".to_owned(),
        Unknown::Stale(newest) => format!("the newest sample is of {}", newest.second()),
    }
}

/// Reason why the metrics did not decide; `None` where they did.
fn way(steps: &Steps) -> Option<String> {
    let since = |since: Moment| format!("metrics unknown since {}", since.second());
    Some(match (steps.branch, steps.fallback) {
        (Branch::Metrics, _) => return None,
        (Branch::NoScale, _) => "its size could not be read".to_owned(),
        (Branch::Disabled, _) => "it has 0 replicas: scaling is switched off".to_owned(),
        (Branch::Paused, _) => "it has 0 replicas, and somebody else has set them: it stays there".to_owned(),
        (Branch::AboveMax, _) => "it has more than the most".to_owned(),
        (Branch::BelowMin, _) => "it has fewer than the fewest".to_owned(),
        (Branch::Unknown, Some(FallbackStep::Waiting { since: from, until })) => {
            format!("{}, the fallback begins at {}", since(from), until.second())
        }
        (Branch::Unknown, Some(FallbackStep::Holding { since: from })) => {
            format!("{}, the fallback holds the size", since(from))
        }
        (Branch::Unknown, _) if steps.metrics.is_empty() => "its pods cannot be identified".to_owned(),
        (Branch::Unknown, _) => "too little is known: the size stays".to_owned(),
        (Branch::Fallback, Some(FallbackStep::Proposed { since: from, replicas })) => {
            format!("{}, the fallback proposes {replicas}", since(from))
        }
        (Branch::Fallback, _) => "the fallback".to_owned(),
    })
}

/// The bounds, and what has limited the size.
fn bounded(steps: &Steps) -> String {
    let bounds = &steps.bounds;
    let mut text = format!("{} to {}", bounds.min, bounds.max);
    if !bounds.active.is_empty() {
        text += &format!(" by schedule {}", bounds.active.join(", "));
    }
    if let Some(limit) = steps.limited_by {
        text += &format!(", {}", limit.as_str());
    }
    text
}

/// A decision in one paragraph.
fn why(decision: &ReplicaDecision) -> String {
    let steps = &decision.steps;
    let mut parts: Vec<String> = steps.metrics.iter().map(measured).collect();
    parts.extend(way(steps));
    if steps.desired.is_some() {
        parts.push(bounded(steps));
    }
    parts.extend(steps.zero.map(around_zero));
    let undone = match decision.leave {
        _ if decision.rescale.is_none() => None,
        Leave::Granted => None,
        Leave::Preview => Some("not done: mode is Preview"),
        Leave::Observed => Some("not done: another runs the HPA"),
        Leave::Held => Some("not done yet: somebody keeps setting it back"),
    };
    parts.extend(undone.map(str::to_owned));
    parts.join("; ")
}

/// All decisions of a case as a table, and the workloads that none could be made for.
#[must_use]
pub fn section(opened: &Opened<'_>) -> String {
    let mut text = "REPLICAS\n".to_owned();
    let (Some(decisions), Some(record)) = (&opened.replicas, &opened.case.input.replicas) else {
        return text
            + "  not in this file: the program that wrote it, or the operator it asked, is an older one\n";
    };
    if decisions.is_empty() && record.undecided.is_empty() {
        return text + "  nobody scales a workload\n";
    }
    if !decisions.is_empty() {
        let mut table = Table::new([
            Column::left("WORKLOAD"),
            Column::left("DECIDED"),
            Column::right("NOW"),
            Column::right("WANTED"),
            Column::wide("WHY"),
        ]);
        for decision in decisions {
            table.row([
                target(decision).to_string(),
                clock(decision.at.second(), opened.now()),
                number(decision.steps.current),
                number(decision.steps.desired.or(decision.steps.current)),
                why(decision),
            ]);
        }
        text += &table.text();
    }
    for undecided in &record.undecided {
        let line = format!("  scalingpolicy {} is not decided again: {}", undecided.policy, undecided.why);
        text += &format!("{}\n", wrap(&line, 4));
    }
    text
}
