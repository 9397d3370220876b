//! A workload's memory and last decision become the status of its ScalingPolicy, and back. Pure.

use headroom_core::pods::conditions::{METRIC_ACTIVE, PAUSED_AT_ZERO, SURGE_FOR_DRAIN, TO_ZERO_AFTER};
use headroom_core::pods::decision::{Branch, FallbackStep, MetricStep, Steps, SurgeStep};
use headroom_core::pods::input::Unknown;
use headroom_core::pods::memory::{
    self, Memory, StoredEvent, StoredMemory, StoredRecommendation, StoredZero,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::zero::ZeroStep;
use headroom_core::reason::Reason;
use headroom_core::text::cut;
use headroom_core::time::UnixTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::conditions::Sheet;
use super::fit_workload;
use headroom_api::conditions::{ConditionStatus, clear, get, reasons, types};
use headroom_api::{
    ContestStatus, MetricProposal, RecommendationStatus, RecommendationStep, RecommendedReplicas,
    ReplicaBounds, ScaleEventStatus, ScalingDecision, ScalingPolicyStatus, ZeroStatus,
};

/// Most decisions that status keeps.
pub const DECISIONS_MAX: usize = 20;

/// Memory of a workload: exactly what its status holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadMemory {
    /// Recommendations, scale events, and the time since which the metrics are unknown.
    pub memory: Memory,
    /// The last changes of size, newest first.
    pub decisions: Vec<ScalingDecision>,
    /// Somebody else who changes the size back.
    pub contest: Option<ContestStatus>,
    /// Time at which the size was last changed.
    pub last_scale_at: Option<UnixTime>,
}

/// Phase of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PolicyPhase {
    /// Not looked at yet.
    #[default]
    Pending,
    /// Acted on, or reported on where the HPA is another's.
    Accepted,
    /// Nothing is decided.
    Suspended,
    /// Decided, never acted on.
    Preview,
    /// An older owner has the target.
    Conflict(String),
    /// It cannot be used: the text names each field and the fix.
    Invalid(String),
    /// Only an edit helps, for the reason given.
    Stalled(&'static str, String),
    /// The operator itself fails at it: what happens next, in words.
    Broken(String),
}

/// True if the operator runs the HPA of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpaOwned {
    /// True if it does.
    pub owned: bool,
    /// One word.
    pub reason: &'static str,
    /// The same in a sentence.
    pub message: String,
}

/// Reason why a metric cannot be used, in the words of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricTrouble {
    /// One word of a closed set.
    pub reason: &'static str,
    /// The same in a sentence.
    pub message: String,
}

/// Everything that status shows of a workload now.
#[derive(Clone, Debug)]
pub struct WorkloadView<'a> {
    /// The edits of the policy that are known.
    pub generation: i64,
    /// Phase of the policy.
    pub phase: PolicyPhase,
    /// The workload, as kind/name.
    pub target: Option<String>,
    /// True if the operator runs its HPA; none where there is no HPA.
    pub owned: Option<HpaOwned>,
    /// The last decision step by step; none where none was made.
    pub steps: Option<&'a Steps>,
    /// Status of the HPA, or the one that it would have.
    pub status: Option<&'a HpaStatus>,
    /// Error of the source of each metric that cannot be used, in the order of the spec.
    pub troubles: &'a [Option<MetricTrouble>],
    /// Message of condition Ready while the policy is in use, in place of the usual one.
    pub note: Option<String>,
    /// Memory of the workload.
    pub memory: &'a WorkloadMemory,
}

/// The status as it should be written at `now`, from what is known and the status as it is.
#[must_use]
pub fn render(view: &WorkloadView<'_>, old: &ScalingPolicyStatus, now: UnixTime) -> ScalingPolicyStatus {
    let stored = memory::render(&view.memory.memory);
    let mut status = ScalingPolicyStatus {
        observed_generation: Some(view.generation),
        conditions: conditions(view, old, now),
        target: view.target.as_deref().map(|target| cut(target, 317).to_owned()),
        current_replicas: view.status.map(|status| status.current_replicas.max(0)),
        // What the status of an HPA calls desired is what was written; a proposal that is only reported is wanted here.
        desired_replicas: (view.steps.and_then(|steps| steps.desired))
            .or(view.status.map(|status| status.desired_replicas))
            .map(|replicas| replicas.max(0)),
        last_scale_time: view.memory.last_scale_at.map(time),
        last_decision: view.memory.decisions.first().map(|last| format!("{}→{}", last.from, last.to)),
        reason: None,
        bounds: view.steps.map(bounds),
        recommendation: view.steps.map(|steps| recommendation(steps, view)),
        recommendations: stored.recommendations.iter().map(recommended).collect(),
        scale_events: events(&stored),
        metrics_failing_since: stored.unknown_since.map(time),
        surged_from: stored.surged_from,
        zero: stored.zero.map(|zero| ZeroStatus {
            idle_since: zero.idle_since.map(time),
            scaled_at: zero.scaled_at.map(time),
        }),
        contest: view.memory.contest.clone(),
        decisions: view.memory.decisions.iter().take(DECISIONS_MAX).cloned().collect(),
    };
    if view.steps.is_none() {
        // What was known of a workload that nobody looks at now is still the last that is known.
        let ScalingPolicyStatus { current_replicas, desired_replicas, bounds, recommendation, .. } = old;
        (status.current_replicas, status.desired_replicas) = (*current_replicas, *desired_replicas);
        (status.bounds, status.recommendation) = (bounds.clone(), recommendation.clone());
    }
    status.reason = reason(view, &status);
    fit_workload::fit(status)
}

/// Reads the memory from a status: entry by entry, so that one invalid entry does not cost the others.
#[must_use]
pub fn parse(status: &Value) -> WorkloadMemory {
    let events: Vec<ScaleEventStatus> = entries(&status["scaleEvents"]);
    let event = |event: &ScaleEventStatus, change: i32| StoredEvent {
        change,
        at: UnixTime::from_jiff(event.time.0),
        outdated: event.outdated,
    };
    let recommendations: Vec<RecommendedReplicas> = entries(&status["recommendations"]);
    let decisions: Vec<ScalingDecision> =
        entries(&status["decisions"]).into_iter().take(DECISIONS_MAX).collect();
    let stored = StoredMemory {
        recommendations: recommendations
            .iter()
            .map(|one| StoredRecommendation { replicas: one.replicas, at: UnixTime::from_jiff(one.time.0) })
            .collect(),
        up_events: events.iter().filter(|one| 0 < one.change).map(|one| event(one, one.change)).collect(),
        down_events: events
            .iter()
            .filter(|one| one.change < 0)
            .map(|one| event(one, one.change.saturating_neg()))
            .collect(),
        unknown_since: instant(&status["metricsFailingSince"]),
        surged_from: status["surgedFrom"].as_i64().and_then(|from| i32::try_from(from).ok()),
        zero: zero(&status["zero"], &decisions),
    };
    WorkloadMemory {
        memory: memory::parse(&stored),
        decisions,
        contest: serde_json::from_value(status["contest"].clone()).ok(),
        last_scale_at: instant(&status["lastScaleTime"]),
    }
}

/// The memory of zero. A status of a version that knew none shows by its last decision that the operator has set the
/// workload to 0.
fn zero(status: &Value, decisions: &[ScalingDecision]) -> Option<StoredZero> {
    if status.is_object() {
        let (idle_since, scaled_at) = (instant(&status["idleSince"]), instant(&status["scaledAt"]));
        return Some(StoredZero { idle_since, scaled_at });
    }
    let made = |decision: &&ScalingDecision| ["Done", "Unknown", "InProgress"].contains(&&*decision.outcome);
    let last = decisions.iter().find(made).filter(|last| last.to == 0)?;
    Some(StoredZero { idle_since: None, scaled_at: Some(UnixTime::from_jiff(last.time.0)) })
}

/// A status without the parts that may wait a minute before they are written: the numbers of metrics, and the times of
/// repeated recommendations.
#[must_use]
pub fn without_numbers(status: &ScalingPolicyStatus) -> ScalingPolicyStatus {
    let mut status = without_repetitions(status);
    for metric in status.recommendation.iter_mut().flat_map(|one| &mut one.metrics) {
        (metric.current, metric.active) = (None, None);
    }
    for condition in &mut status.conditions {
        // They contain the numbers too.
        condition.message.clear();
    }
    status
}

/// A status without the times of repeated recommendations. A crash loses nothing by them: the newest is taken to have
/// held until the restart.
#[must_use]
pub fn without_repetitions(status: &ScalingPolicyStatus) -> ScalingPolicyStatus {
    let mut status = status.clone();
    let newest = status.recommendations.iter().max_by_key(|one| one.time.0).cloned();
    status.recommendations =
        newest.into_iter().map(|one| RecommendedReplicas { time: time(UnixTime(0)), ..one }).collect();
    status
}

fn conditions(
    view: &WorkloadView<'_>,
    old: &ScalingPolicyStatus,
    now: UnixTime,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let mut list = Sheet { conditions: old.conditions.clone(), generation: Some(view.generation), now };
    health(&mut list, &view.phase, view.note.as_deref());
    let judged = matches!(view.phase, PolicyPhase::Accepted | PolicyPhase::Preview);
    let of_hpa = [types::ABLE_TO_SCALE, types::SCALING_ACTIVE, types::SCALING_LIMITED];
    for type_ in of_hpa {
        let said =
            view.status.into_iter().flat_map(|status| &status.conditions).find(|one| one.type_ == type_);
        match said.filter(|_| judged) {
            Some(said) => {
                let status = match said.status.as_str() {
                    "True" => ConditionStatus::True,
                    "False" => ConditionStatus::False,
                    _ => ConditionStatus::Unknown,
                };
                list.set(type_, status, &said.reason, &said.message);
            }
            None if !judged => {
                clear(&mut list.conditions, type_);
            }
            None => {}
        }
    }
    metrics(&mut list, view, judged);
    let waited = view.steps.and_then(|steps| steps.fallback).filter(|_| judged);
    list.present(types::FALLBACK_ACTIVE, waited.and_then(fallback));
    let at_zero = view.steps.and_then(|steps| steps.zero).filter(|_| judged);
    list.present(types::SCALED_TO_ZERO, at_zero.and_then(scaled_to_zero));
    let contest = view.memory.contest.as_ref().filter(|contest| now.to_jiff() < contest.hold_until.0);
    list.present(
        types::REPLICAS_CONTESTED,
        contest.map(|contest| {
            let text = format!(
                "{} keeps changing the size back ({} times, last at {}): take the replicas out of what it applies; \
                 nothing is written before {}",
                contest.manager, contest.count, contest.last_time.0, contest.hold_until.0
            );
            (reasons::REPLICAS_RESET, text)
        }),
    );
    match &view.owned {
        Some(HpaOwned { owned, reason, message }) => {
            let status = if *owned { ConditionStatus::True } else { ConditionStatus::False };
            list.set(types::HPA_OWNED, status, reason, message);
        }
        None => {
            clear(&mut list.conditions, types::HPA_OWNED);
        }
    }
    list.conditions
}

fn health(list: &mut Sheet, phase: &PolicyPhase, note: Option<&str>) {
    use ConditionStatus::{False, True, Unknown};
    let (status, reason, message) = match phase {
        PolicyPhase::Pending => (Unknown, Reason::Pending.as_str(), Reason::Pending.doc()),
        PolicyPhase::Accepted => (True, Reason::Accepted.as_str(), note.unwrap_or(Reason::Accepted.doc())),
        PolicyPhase::Suspended => {
            (True, Reason::Suspended.as_str(), "mode is Suspend: nothing is decided, the size stays as it is")
        }
        PolicyPhase::Preview => (
            True,
            Reason::PreviewOnly.as_str(),
            "mode is Preview: status shows what would be done, nothing is done",
        ),
        PolicyPhase::Conflict(message) => (False, Reason::Conflict.as_str(), message.as_str()),
        PolicyPhase::Invalid(message) => (False, Reason::Invalid.as_str(), message.as_str()),
        PolicyPhase::Stalled(reason, message) => (False, *reason, message.as_str()),
        PolicyPhase::Broken(message) => (False, Reason::Internal.as_str(), message.as_str()),
    };
    list.set(types::READY, status, reason, message);
    // What no edit helps against is not stalled: it is tried again.
    let stalled = status == False && !matches!(phase, PolicyPhase::Broken(_));
    list.present(types::STALLED, stalled.then(|| (reason, message.to_owned())));
}

fn metrics(list: &mut Sheet, view: &WorkloadView<'_>, judged: bool) {
    if !judged {
        clear(&mut list.conditions, types::METRICS_AVAILABLE);
        return;
    }
    let looked_at = view.steps.is_some_and(|steps| !steps.metrics.is_empty());
    if !looked_at {
        return;
    }
    match trouble(view) {
        None => list.set(
            types::METRICS_AVAILABLE,
            ConditionStatus::True,
            reasons::METRICS_READ,
            "every metric can be read",
        ),
        Some(trouble) => {
            list.set(types::METRICS_AVAILABLE, ConditionStatus::False, trouble.reason, &trouble.message);
        }
    }
}

/// Returns the error of the first metric that cannot be used.
fn trouble(view: &WorkloadView<'_>) -> Option<MetricTrouble> {
    let steps = view.steps?;
    let of = |(index, step): (usize, &headroom_core::pods::decision::MetricStep)| {
        let by_source = view.troubles.get(index).cloned().flatten();
        let found = step.unknown.as_ref().map(|unknown| MetricTrouble {
            reason: match unknown {
                Unknown::Failed(_) => "MetricsOutage",
                Unknown::Empty => "MetricsEmpty",
                Unknown::Stale(_) => "MetricsStale",
                Unknown::Absurd(_) => "MetricsAbsurd",
            },
            message: in_words(unknown),
        });
        // The source's errors on single pods matter only if the metric as a whole cannot be used.
        found.map(|found| by_source.unwrap_or(found))
    };
    let named = |(index, step)| of((index, step)).map(|trouble| (step, trouble));
    steps.metrics.iter().enumerate().find_map(named).map(|(step, trouble)| MetricTrouble {
        message: format!("{}: {}", step.name, trouble.message),
        ..trouble
    })
}

fn in_words(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Failed(message) => message.to_string(),
        Unknown::Empty => "no sample came back for the pods".to_owned(),
        Unknown::Stale(at) => format!("the newest sample is of {}", at.second()),
        Unknown::Absurd(message) => message.to_string(),
    }
}

fn fallback(step: FallbackStep) -> Option<(&'static str, String)> {
    let text = match step {
        FallbackStep::Waiting { .. } => return None,
        FallbackStep::Holding { since } => {
            format!("the metrics cannot be used since {}: the size holds", since.second())
        }
        FallbackStep::Proposed { since, replicas } => {
            format!(
                "the metrics cannot be used since {}: the fallback proposes {replicas} replicas",
                since.second()
            )
        }
    };
    Some((reasons::METRICS_UNUSABLE, text))
}

fn scaled_to_zero(step: ZeroStep) -> Option<(&'static str, String)> {
    let ZeroStep::AtZero { since } = step else { return None };
    let text = format!(
        "at 0 replicas since {}: it comes back at the first evaluation that finds a metric above its activation",
        since.second()
    );
    Some((reasons::NO_METRIC_ACTIVE, text))
}

/// The reason of a step on the way to zero or back.
fn reason_of_zero(step: ZeroStep) -> &'static str {
    match step {
        ZeroStep::Waiting { .. } => TO_ZERO_AFTER,
        ZeroStep::Idle { .. } | ZeroStep::AtZero { .. } => reasons::NO_METRIC_ACTIVE,
        ZeroStep::Activated => METRIC_ACTIVE,
        ZeroStep::Paused => PAUSED_AT_ZERO,
    }
}

/// Returns the reason that holds the workload now, or else the reason of its last change.
fn reason(view: &WorkloadView<'_>, status: &ScalingPolicyStatus) -> Option<String> {
    let of_type = |type_: &str| get(&status.conditions, type_);
    let is = |type_: &str, state: &str| {
        of_type(type_).filter(|one| one.status == state).map(|one| one.reason.clone())
    };
    is(types::STALLED, "True")
        .or_else(|| is(types::READY, "False"))
        .or_else(|| is(types::REPLICAS_CONTESTED, "True"))
        .or_else(|| is(types::FALLBACK_ACTIVE, "True"))
        .or_else(|| is(types::ABLE_TO_SCALE, "False"))
        .or_else(|| is(types::SCALING_ACTIVE, "False"))
        .or_else(|| view.steps.and_then(|steps| steps.limited_by).map(|limit| limit.as_str().to_owned()))
        .or_else(|| status.decisions.first().map(|decision| decision.reason.clone()))
}

fn bounds(steps: &Steps) -> ReplicaBounds {
    let bounds = &steps.bounds;
    let limited_by = match (&bounds.clamped, bounds.active.is_empty()) {
        (Some(_), _) => Some("ScheduleClamped"),
        (None, false) => Some("Schedule"),
        (None, true) => None,
    };
    ReplicaBounds {
        min_replicas: bounds.min.max(0),
        max_replicas: bounds.max.max(0),
        limited_by: limited_by.map(str::to_owned),
        active_schedules: bounds.active.iter().map(ToString::to_string).collect(),
        next_schedule_change: bounds.next_change.map(time),
    }
}

fn recommendation(steps: &Steps, view: &WorkloadView<'_>) -> RecommendationStatus {
    let metrics = steps.metrics.iter().enumerate().map(|(index, step)| MetricProposal {
        metric: cut(&step.name, 256).to_owned(),
        current: step.value.as_deref().map(|value| cut(value, 64).to_owned()),
        target: step.target.as_deref().map(|target| cut(target, 64).to_owned()),
        replicas: step.proposal,
        active: step.active,
        failure: step.unknown.as_ref().map(|unknown| {
            let by_source =
                view.troubles.get(index).and_then(Option::as_ref).map(|trouble| trouble.message.clone());
            cut(&by_source.unwrap_or_else(|| in_words(unknown)), 512).to_owned()
        }),
    });
    let step = |step: &str, replicas: Option<i32>, reason: &str| {
        replicas.map(|replicas| RecommendationStep {
            step: step.to_owned(),
            replicas,
            reason: cut(reason, 128).to_owned(),
        })
    };
    let able = view.status.into_iter().flat_map(|status| &status.conditions);
    let able = able.filter(|one| one.type_ == types::ABLE_TO_SCALE).map(|one| one.reason.as_str()).next();
    let first = match steps.branch {
        Branch::Fallback => ("Fallback", "MetricsUnusable"),
        _ => ("Metrics", beside_target(&steps.metrics)),
    };
    let stabilized = steps.limited_by.map_or(able.unwrap_or_default(), |limit| limit.as_str());
    let changed = |before: Option<i32>, after: Option<i32>| before != after;
    let surged = matches!(steps.surge, Some(SurgeStep::Begins | SurgeStep::Holds));
    let own = steps.desired.map(|desired| desired - i32::from(surged));
    let all = [
        step(first.0, steps.proposed, first.1),
        step(
            "Stabilization",
            steps.stabilized,
            if changed(steps.proposed, steps.stabilized) { stabilized } else { "ReadyForNewScale" },
        ),
        step("Policies", steps.rate_limit, "RateLimited"),
        step("Bounds", own, steps.limited_by.map_or("DesiredWithinRange", |limit| limit.as_str())),
    ];
    let surge = steps.surge.and_then(|surge| match surge {
        SurgeStep::Begins | SurgeStep::Holds => step("Surge", steps.desired, SURGE_FOR_DRAIN),
        SurgeStep::Ends => None,
    });
    let zero = steps.zero.and_then(|zero| step("Zero", own, reason_of_zero(zero)));
    let all = all.into_iter().chain([surge, zero]);
    RecommendationStatus { metrics: metrics.take(32).collect(), steps: all.flatten().collect() }
}

/// Where the metrics are beside their targets, in one word.
fn beside_target(metrics: &[MetricStep]) -> &'static str {
    let is_outside =
        |one: &MetricStep| !one.within_tolerance && !one.kept_in_rollout && one.proposal.is_some();
    if metrics.iter().any(is_outside) {
        "OutsideTolerance"
    } else if metrics.iter().any(|one| one.kept_in_rollout) {
        "KeptInRollout"
    } else {
        "WithinTolerance"
    }
}

fn events(stored: &StoredMemory) -> Vec<ScaleEventStatus> {
    let event = |event: &StoredEvent, change: i32| ScaleEventStatus {
        time: time(event.at),
        change,
        outdated: event.outdated,
    };
    let up = stored.up_events.iter().map(|one| event(one, one.change));
    let down = stored.down_events.iter().map(|one| event(one, one.change.saturating_neg()));
    up.chain(down).collect()
}

fn recommended(stored: &StoredRecommendation) -> RecommendedReplicas {
    RecommendedReplicas { time: time(stored.at), replicas: stored.replicas }
}

fn time(at: UnixTime) -> Time {
    Time(at.to_jiff())
}

fn instant(value: &Value) -> Option<UnixTime> {
    UnixTime::parse(value.as_str()?)
}

fn entries<T: DeserializeOwned>(list: &Value) -> Vec<T> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use headroom_core::pods::memory::{Recommendation, ScaleEvent, ZeroMemory};

    use super::*;

    fn at(second: i64) -> UnixTime {
        UnixTime(1_800_000_000 + second)
    }

    fn remembered() -> WorkloadMemory {
        let event = |change, second| ScaleEvent { change, at: at(second).into(), outdated: second < 0 };
        WorkloadMemory {
            memory: Memory {
                recommendations: vec![
                    Recommendation { replicas: 9, at: at(0).into() },
                    Recommendation { replicas: 4, at: at(15).into() },
                ],
                up_events: vec![event(3, 1), event(2, -5)],
                down_events: vec![event(1, 2)],
                unknown_since: Some(at(7).into()),
                surged_from: Some(4),
                zero: Some(ZeroMemory { idle_since: Some(at(3).into()), scaled_at: None }),
            },
            decisions: vec![ScalingDecision {
                time: time(at(1)),
                from: 2,
                to: 5,
                reason: "ScaleUpLimit".to_owned(),
                message: None,
                outcome: "Done".to_owned(),
            }],
            contest: None,
            last_scale_at: Some(at(1)),
        }
    }

    fn view(memory: &WorkloadMemory) -> WorkloadView<'_> {
        WorkloadView {
            generation: 2,
            phase: PolicyPhase::Accepted,
            target: Some("Deployment/web".to_owned()),
            owned: None,
            steps: None,
            status: None,
            troubles: &[],
            note: None,
            memory,
        }
    }

    #[test]
    fn workload_that_an_older_version_has_set_to_0_is_the_operators() {
        let decided = |to: i32, outcome: &str| serde_json::json!({"time": "2027-01-15T08:00:00Z", "from": 1, "to": to, "reason": "x", "outcome": outcome});
        let mark = |status: Value| parse(&status).memory.zero.map(|zero| zero.scaled_at.is_some());
        let of = |decisions: Vec<Value>| serde_json::json!({ "decisions": decisions });
        assert_eq!(mark(of(vec![decided(0, "Done"), decided(4, "Done")])), Some(true));
        assert_eq!(mark(of(vec![decided(3, "Preview"), decided(0, "Done")])), Some(true));
        assert_eq!(mark(of(vec![decided(0, "Failed"), decided(4, "Done")])), None);
        assert_eq!(mark(of(vec![decided(4, "Done"), decided(0, "Done")])), None);
        // This version has looked at it: somebody else has set it to 0 since.
        let mut known = of(vec![decided(0, "Done")]);
        known["zero"] = serde_json::json!({});
        assert_eq!(mark(known), Some(false));
    }

    #[test]
    fn what_is_remembered_is_exactly_what_status_holds() {
        let memory = remembered();
        let status = render(&view(&memory), &ScalingPolicyStatus::default(), at(20));
        assert_eq!(parse(&serde_json::to_value(&status).unwrap()), memory);
    }

    #[test]
    fn an_entry_that_was_edited_into_nonsense_costs_no_other() {
        let memory = remembered();
        let status = render(&view(&memory), &ScalingPolicyStatus::default(), at(20));
        let mut value = serde_json::to_value(&status).unwrap();
        value["recommendations"][1]["replicas"] = "many".into();
        value["contest"] = 7.into();
        let read = parse(&value);
        assert_eq!(read.memory.recommendations.len(), 1);
        assert_eq!(read.memory.up_events, memory.memory.up_events);
        assert_eq!(read.decisions, memory.decisions);
    }

    #[test]
    fn a_repeated_recommendation_is_no_change_and_a_new_one_is() {
        let mut memory = remembered();
        let before = render(&view(&memory), &ScalingPolicyStatus::default(), at(20));
        memory.memory.recommendations.push(Recommendation { replicas: 4, at: at(30).into() });
        let repeated = render(&view(&memory), &before, at(30));
        assert_ne!(before, repeated);
        assert_eq!(without_repetitions(&before), without_repetitions(&repeated));
        memory.memory.recommendations.push(Recommendation { replicas: 5, at: at(45).into() });
        let changed = render(&view(&memory), &before, at(45));
        assert_ne!(without_repetitions(&before), without_repetitions(&changed));
    }

    #[test]
    fn a_conflict_is_stalled_and_not_ready() {
        let memory = WorkloadMemory::default();
        let conflicting = WorkloadView { phase: PolicyPhase::Conflict("x: y".to_owned()), ..view(&memory) };
        let status = render(&conflicting, &ScalingPolicyStatus::default(), at(0));
        assert_eq!(get(&status.conditions, types::READY).unwrap().status, "False");
        assert_eq!(get(&status.conditions, types::STALLED).unwrap().reason, "Conflict");
        assert_eq!(status.reason.as_deref(), Some("Conflict"));
        let noted = WorkloadView { note: Some("evaluated every 5 s".to_owned()), ..view(&memory) };
        let status = render(&noted, &ScalingPolicyStatus::default(), at(0));
        let ready = get(&status.conditions, types::READY).unwrap();
        assert_eq!((&*ready.status, &*ready.message), ("True", "evaluated every 5 s"));
    }
}
