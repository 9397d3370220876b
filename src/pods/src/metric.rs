//! One metric of a spec: its answer becomes samples, its target is picked, and a proposal or a failure comes of it.

use std::sync::Arc;

use crate::amount::Amount;
use crate::conditions;
use crate::decision::MetricStep;
use crate::input::{Answer, Number, PodUsage, PodValue, Sample, ScalerReading, Unknown};
use crate::moment::Moment;
use crate::numbers::wrapped_64;

use crate::replica_calculator::{self as calculator, PodSample, PodTarget, Proposal, Surroundings};
use crate::requests::request_milli;
use crate::selector::Selector;
use crate::spec::{MetricIdentifier, MetricSpec, MetricTarget};
use crate::status::{
    ContainerResourceStatus, ExternalStatus, MetricStatus, MetricValueStatus, ObjectStatus, PodsStatus,
    ResourceStatus,
};
use headroom_values::time::Seconds;

/// Result of one metric.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    /// For status; empty if it failed.
    pub(super) status: MetricStatus,
    /// For the step by step account.
    pub(super) step: MetricStep,
    /// Total of a metric that does not come from the pods, in thousandths.
    pub(super) total: Option<i128>,
    /// Reason why it failed: the reason of condition and event, and a sentence.
    pub(super) failure: Option<(&'static str, String)>,
}

/// Failure of a metric: the part that is unknown, and a sentence.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) unknown: Unknown,
    pub(super) message: String,
}

type Found<T> = Result<T, Failure>;

/// A metric that worked, before it is put into words.
struct Worked {
    name: String,
    target: String,
    proposal: Proposal,
    status: MetricStatus,
    total: Option<i128>,
}

/// Evaluates one metric.
///
/// Source: podautoscaler horizontal.go, computeReplicasForMetric.
pub(super) fn evaluate(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Evaluated {
    let (reason, worked) = match spec.type_.as_str() {
        "Resource" => (conditions::FAILED_GET_RESOURCE_METRIC, resource(around, spec, answer)),
        "ContainerResource" => {
            (conditions::FAILED_GET_CONTAINER_RESOURCE_METRIC, container_resource(around, spec, answer))
        }
        "Pods" => (conditions::FAILED_GET_PODS_METRIC, pods(around, spec, answer)),
        "Object" => (conditions::FAILED_GET_OBJECT_METRIC, object(around, spec, answer)),
        "External" => (conditions::FAILED_GET_EXTERNAL_METRIC, external(around, spec, answer)),
        other => (
            conditions::INVALID_METRIC_SOURCE_TYPE,
            Err(failed(format!("unknown metric source type {other:?}"))),
        ),
    };
    evaluated(|| name(spec), reason, worked)
}

/// The proposal of a value that belongs to no metric alone, in thousandths, or why there is none.
pub(super) fn of_total(
    around: &Surroundings<'_>,
    name: String,
    reason: &'static str,
    target: &MetricTarget,
    total: Found<i128>,
) -> Evaluated {
    let worked = total.and_then(|total| {
        let (proposal, amount) = match (target.average_value, target.value) {
            (Some(amount), _) => (calculator::of_average(around, total, target_milli(amount)?, true), amount),
            (None, Some(amount)) => {
                (sound(calculator::of_value(around, total, target_milli(amount)?))?, amount)
            }
            (None, None) => return Err(failed("the target has neither a value nor an averageValue")),
        };
        let (name, status) = (name.clone(), MetricStatus::default());
        Ok(Worked { name, target: amount.to_string(), proposal, status, total: Some(total) })
    });
    evaluated(|| name, reason, worked)
}

/// The number of a metric that does not come from the pods, without a target.
pub(super) fn number(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<f64> {
    let metric = match (&spec.object, &spec.external) {
        (Some(source), _) => &source.metric,
        (None, Some(source)) => &source.metric,
        (None, None) => return Err(failed("the metric comes from the pods")),
    };
    check_selector(metric)?;
    let samples = match answer {
        Answer::Object(sample) => std::slice::from_ref(sample),
        Answer::External(samples) | Answer::Scaler(ScalerReading { values: samples, .. }) => samples,
        other => return Err(unknown(other, &metric.name)),
    };
    value_of(around, &metric.name, samples)?;
    let numbers = samples.iter().map(|sample| match &sample.value {
        Number::Quantity(quantity) => quantity.to_f64(),
        Number::NotFinite(_) => f64::NAN,
    });
    Ok(numbers.sum())
}

/// A metric in words, whether it worked or not.
fn evaluated(name: impl FnOnce() -> String, reason: &'static str, worked: Found<Worked>) -> Evaluated {
    match worked {
        Ok(Worked { name, target, proposal, status, total }) => {
            let value = proposal.utilization.map(|percent| format!("{percent}%"));
            let value = value.or_else(|| proposal.value.or(proposal.average).map(milli_text));
            let step = MetricStep {
                name,
                value,
                target: Some(target),
                ratio: Some(proposal.ratio),
                within_tolerance: proposal.within_tolerance,
                kept_in_rollout: proposal.kept_in_rollout,
                proposal: Some(proposal.replicas),
                unknown: None,
                active: None,
            };
            Evaluated { status, step, total, failure: None }
        }
        Err(Failure { unknown, message }) => {
            let step = MetricStep {
                name: name(),
                value: None,
                target: None,
                ratio: None,
                within_tolerance: false,
                kept_in_rollout: false,
                proposal: None,
                unknown: Some(unknown),
                active: None,
            };
            Evaluated { status: MetricStatus::default(), step, total: None, failure: Some((reason, message)) }
        }
    }
}

/// A metric of pods while there are none: it has no value and needs none.
pub(super) fn without_pods(spec: &MetricSpec) -> Evaluated {
    let step = MetricStep {
        name: name(spec),
        value: None,
        target: None,
        ratio: None,
        within_tolerance: false,
        kept_in_rollout: false,
        proposal: None,
        unknown: None,
        active: None,
    };
    Evaluated { status: MetricStatus::default(), step, total: None, failure: None }
}

fn milli_text(milli: i64) -> String {
    Amount::from_milli(milli).to_string()
}

fn failed(message: impl Into<String>) -> Failure {
    let message = message.into();
    Failure { unknown: Unknown::Failed(Arc::from(message.as_str())), message }
}

// === the five types ===

fn resource(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<Worked> {
    let source = spec.resource.as_ref().ok_or_else(|| failed("the metric has no source resource"))?;
    let (proposal, target) = usage(around, &source.name, None, &source.target, answer)?;
    let current = usage_status(&source.name, &proposal);
    let resource = Some(ResourceStatus { name: source.name.clone(), current });
    let status = MetricStatus { type_: spec.type_.clone(), resource, ..MetricStatus::default() };
    Ok(Worked { name: name(spec), target, proposal, status, total: None })
}

fn container_resource(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<Worked> {
    let source = spec.container_resource.as_ref();
    let source = source.ok_or_else(|| failed("the metric has no source containerResource"))?;
    let (proposal, target) = usage(around, &source.name, Some(&source.container), &source.target, answer)?;
    let current = usage_status(&source.name, &proposal);
    let (name_of, container) = (source.name.clone(), source.container.clone());
    let container_resource = Some(ContainerResourceStatus { name: name_of, container, current });
    let status = MetricStatus { type_: spec.type_.clone(), container_resource, ..MetricStatus::default() };
    Ok(Worked { name: name(spec), target, proposal, status, total: None })
}

fn pods(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<Worked> {
    let source = spec.pods.as_ref().ok_or_else(|| failed("the metric has no source pods"))?;
    check_selector(&source.metric)?;
    let amount = source.target.average_value.ok_or_else(|| failed("the target has no averageValue"))?;
    let target = PodTarget::Average(target_milli(amount)?);
    let samples = pod_values(around, &source.metric.name, answer)?;
    let proposal = calculator::of_pods(around, None, &samples, &target).map_err(failed)?;
    let current = average_status(&proposal);
    let pods = Some(PodsStatus { metric: source.metric.clone(), current });
    let status = MetricStatus { type_: spec.type_.clone(), pods, ..MetricStatus::default() };
    Ok(Worked { name: name(spec), target: amount.to_string(), proposal, status, total: None })
}

fn object(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<Worked> {
    let source = spec.object.as_ref().ok_or_else(|| failed("the metric has no source object"))?;
    check_selector(&source.metric)?;
    let target = &source.target;
    let sample = |answer: &Answer<'_>| match answer {
        Answer::Object(sample) => value_of(around, &source.metric.name, std::slice::from_ref(sample)),
        other => Err(unknown(other, &source.metric.name)),
    };
    // The type decides which target counts; the other is not looked at.
    let (proposal, amount, total) = match (target.type_.as_str(), target.value, target.average_value) {
        ("Value", Some(amount), _) => {
            let target = target_milli(amount)?;
            let value = sample(answer)?.iter().sum();
            (sound(calculator::of_value(around, value, target))?, amount, value)
        }
        ("AverageValue", _, Some(amount)) => {
            let target = target_milli(amount)?;
            let value = sample(answer)?.iter().sum();
            (calculator::of_average(around, value, target, false), amount, value)
        }
        _ => return Err(failed("the target has neither a value nor an averageValue that its type names")),
    };
    let object = Some(ObjectStatus {
        described_object: source.described_object.clone(),
        metric: source.metric.clone(),
        current: average_status(&proposal),
    });
    let status = MetricStatus { type_: spec.type_.clone(), object, ..MetricStatus::default() };
    Ok(Worked { name: name(spec), target: amount.to_string(), proposal, status, total: Some(total) })
}

fn external(around: &Surroundings<'_>, spec: &MetricSpec, answer: &Answer<'_>) -> Found<Worked> {
    let source = spec.external.as_ref().ok_or_else(|| failed("the metric has no source external"))?;
    check_selector(&source.metric)?;
    let values = |answer: &Answer<'_>| match answer {
        Answer::External(samples) | Answer::Scaler(ScalerReading { values: samples, .. }) => {
            value_of(around, &source.metric.name, samples)
        }
        other => Err(unknown(other, &source.metric.name)),
    };
    let (proposal, amount, total) = match amounts(&source.target, answer) {
        (Some(amount), _) => {
            let target = target_milli(amount)?;
            let total = average_total(&values(answer)?);
            (calculator::of_average(around, total, target, true), amount, total)
        }
        (None, Some(amount)) => {
            let target = target_milli(amount)?;
            let total = value_total(&values(answer)?);
            (sound(calculator::of_value(around, total, target))?, amount, total)
        }
        (None, None) => {
            // The server that would have the target has not answered: that is the reason.
            values(answer)?;
            return Err(failed("the target has neither a value nor an averageValue"));
        }
    };
    let metric = source.metric.clone();
    let external = Some(ExternalStatus { metric, current: average_status(&proposal) });
    let status = MetricStatus { type_: spec.type_.clone(), external, ..MetricStatus::default() };
    Ok(Worked { name: name(spec), target: amount.to_string(), proposal, status, total: Some(total) })
}

/// Amounts of a target, `averageValue` and `value`: where it has neither, the server's own in the form of the target's type.
fn amounts(target: &MetricTarget, answer: &Answer<'_>) -> (Option<Amount>, Option<Amount>) {
    let served = match answer {
        Answer::Scaler(reading) => reading.target.map(|target| Amount::from_milli(target.milli())),
        _ => None,
    };
    match (target.average_value, target.value) {
        (None, None) if target.type_ == "Value" => (None, served),
        (None, None) => (served, None),
        written => written,
    }
}

/// A proposal from a ratio. What is not a number proposes nothing.
fn sound(proposal: Result<Proposal, String>) -> Found<Proposal> {
    let proposal = proposal.map_err(failed)?;
    if proposal.ratio.is_nan() {
        return Err(absurd("its ratio to the target is not a number"));
    }
    Ok(proposal)
}

// === Resource and ContainerResource ===

fn usage(
    around: &Surroundings<'_>,
    resource: &str,
    container: Option<&str>,
    target: &MetricTarget,
    answer: &Answer<'_>,
) -> Found<(Proposal, String)> {
    let gate = around.options.gates.pod_level_resources;
    let (target, text) = match (target.average_value, target.average_utilization) {
        (Some(amount), _) => (PodTarget::Average(target_milli(amount)?), amount.to_string()),
        (None, Some(percent)) => {
            let request = |pod: &&crate::input::PodSeen| request_milli(pod, container, resource, gate);
            let requests = around.pods.iter().map(request).collect::<Result<_, _>>().map_err(failed)?;
            (PodTarget::Utilization { percent, requests }, format!("{percent}%"))
        }
        (None, None) => {
            return Err(failed("the target has neither an averageUtilization nor an averageValue"));
        }
    };
    let samples = match answer {
        Answer::Usage(usage) => usage_samples(around, resource, container, usage)?,
        other => return Err(unknown(other, resource)),
    };
    let proposal = calculator::of_pods(around, Some(resource), &samples, &target).map_err(failed)?;
    Ok((proposal, text))
}

/// One sample a pod: the sum over its containers, or that of the container named. A pod one of whose containers was not
/// measured has none.
///
/// Source: podautoscaler metrics/client.go, GetResourceMetric.
fn usage_samples<'a>(
    around: &Surroundings<'_>,
    resource: &str,
    container: Option<&str>,
    usage: &[&'a PodUsage],
) -> Found<Vec<PodSample<'a>>> {
    if usage.is_empty() {
        return Err(unknown(&Answer::Unknown(Unknown::Empty), resource));
    }
    let mut samples = Vec::with_capacity(usage.len());
    let mut newest_stale = None;
    for pod in usage {
        if is_stale(around, Some(pod.at)) {
            newest_stale = newest_stale.max(Some(pod.at));
            continue;
        }
        let value = match container {
            None => of_all_containers(pod, resource)?,
            Some(name) => {
                let found = pod.containers.iter().find(|container| &*container.name == name);
                match found.and_then(|container| container.usage.get(resource)) {
                    Some(value) => Some(checked(&pod.pod, &Number::Quantity(value))?),
                    None => None,
                }
            }
        };
        if let Some(value) = value {
            samples.push(PodSample { pod: &pod.pod, value, at: pod.at, window: pod.window });
        }
    }
    fresh(samples, newest_stale)
}

fn of_all_containers(pod: &PodUsage, resource: &str) -> Found<Option<i128>> {
    let mut total = 0_i128;
    for container in &pod.containers {
        let Some(value) = container.usage.get(resource) else { return Ok(None) };
        total += checked(&pod.pod, &Number::Quantity(value))?;
    }
    Ok((!pod.containers.is_empty()).then(|| wrapped_64(total)))
}

fn pod_values<'a>(
    around: &Surroundings<'_>,
    metric: &str,
    answer: &'a Answer<'_>,
) -> Found<Vec<PodSample<'a>>> {
    let Answer::Pods(values) = answer else { return Err(unknown(answer, metric)) };
    if values.is_empty() {
        return Err(unknown(&Answer::Unknown(Unknown::Empty), metric));
    }
    let mut samples = Vec::with_capacity(values.len());
    let mut newest_stale = None;
    for PodValue { pod, sample } in values {
        if is_stale(around, sample.at) {
            newest_stale = newest_stale.max(sample.at);
            continue;
        }
        let value = checked(pod, &sample.value)?;
        // Readiness plays no part for these, so neither do time and window.
        samples.push(PodSample { pod, value, at: around.now, window: Seconds(0) });
    }
    fresh(samples, newest_stale)
}

/// The samples, unless there were some and all of them are stale.
fn fresh<T>(samples: Vec<T>, newest_stale: Option<Moment>) -> Found<Vec<T>> {
    match newest_stale {
        Some(newest) if samples.is_empty() => Err(stale(newest)),
        Some(_) | None => Ok(samples),
    }
}

// === Object and External ===

/// The values of all series, in thousandths.
fn value_of(around: &Surroundings<'_>, metric: &str, samples: &[Sample]) -> Found<Vec<i128>> {
    if samples.is_empty() {
        return Err(unknown(&Answer::Unknown(Unknown::Empty), metric));
    }
    // A sum that lacks a series is not a sum: one stale series makes the whole unknown.
    if let Some(at) = samples.iter().filter_map(|sample| sample.at).find(|at| is_stale(around, Some(*at))) {
        return Err(stale(at));
    }
    samples.iter().map(|sample| checked(metric, &sample.value)).collect()
}

/// The sum for `value`: cut at the largest 64-bit number when a positive value would go beyond it.
fn value_total(values: &[i128]) -> i128 {
    values.iter().fold(0, |total, value| {
        let sum = total + value;
        if *value > 0 { sum.min(i128::from(i64::MAX)) } else { wrapped_64(sum) }
    })
}

/// The sum for `averageValue`. The reference takes a negative sum for one that ran over, and stops there.
fn average_total(values: &[i128]) -> i128 {
    let mut total = 0;
    for value in values {
        total = wrapped_64(total + value);
        if total < 0 {
            return i128::from(i64::MAX);
        }
    }
    total.min(i128::from(i64::MAX))
}

// === what can not be ===

fn absurd(why: &str) -> Failure {
    Failure {
        unknown: Unknown::Absurd(Arc::from(why)),
        message: format!("the metric can not be used: {why}"),
    }
}

fn stale(newest: Moment) -> Failure {
    Failure {
        unknown: Unknown::Stale(newest),
        message: format!("the metric is stale: its newest sample is from {}", newest.second()),
    }
}

fn is_stale(around: &Surroundings<'_>, at: Option<Moment>) -> bool {
    at.is_some_and(|at| at < around.now.minus(around.options.sample_age_max))
}

/// A value in thousandths. As in the reference a negative one counts: a metric may be a difference. One that 64 bits do not
/// hold is refused.
fn checked(of: &str, number: &Number) -> Found<i128> {
    match number {
        Number::NotFinite(text) => Err(absurd(&format!("{of} is {text}"))),
        Number::Quantity(quantity) => match quantity.milli() {
            milli if milli.saturating_abs() == i64::MAX => Err(absurd(&format!("{of} is beyond 64 bits"))),
            milli => Ok(i128::from(milli)),
        },
    }
}

/// A target in thousandths. One that is not positive, or too large to count with, fails.
fn target_milli(amount: Amount) -> Found<i64> {
    let milli = amount.milli();
    if milli <= 0 || milli == i64::MAX {
        return Err(absurd(&format!(
            "the target {amount} is not greater than 0, or too large to count with"
        )));
    }
    Ok(milli)
}

fn check_selector(metric: &MetricIdentifier) -> Found<()> {
    let convert = |error| failed(format!("the selector of metric {} can not be used: {error}", metric.name));
    Selector::of_metric(metric.selector.as_ref()).map(|_| ()).map_err(convert)
}

/// The failure of an answer that is none for this metric.
fn unknown(answer: &Answer<'_>, metric: &str) -> Failure {
    let Answer::Unknown(unknown) = answer else {
        return failed(format!("the answer for metric {metric} is one for another type"));
    };
    let message = match unknown {
        Unknown::Failed(error) => format!("unable to get metric {metric}: {error}"),
        Unknown::Empty => format!("no metrics returned for {metric}"),
        Unknown::Stale(newest) => return stale(*newest),
        Unknown::Absurd(why) => return absurd(why),
    };
    Failure { unknown: unknown.clone(), message }
}

// === words ===

fn usage_status(resource: &str, proposal: &Proposal) -> MetricValueStatus {
    let average = proposal.average.map(|milli| match resource {
        "memory" => Amount::from_milli_binary(milli),
        _ => Amount::from_milli(milli),
    });
    MetricValueStatus { value: None, average_value: average, average_utilization: proposal.utilization }
}

fn average_status(proposal: &Proposal) -> MetricValueStatus {
    MetricValueStatus {
        value: proposal.value.map(Amount::from_milli),
        average_value: proposal.average.map(Amount::from_milli),
        average_utilization: None,
    }
}

/// A metric's name, as the reference's events and the steps of a decision have it.
#[must_use]
pub fn name(spec: &MetricSpec) -> String {
    let utilization = |target: &MetricTarget| target.average_value.is_none();
    match (&spec.resource, &spec.container_resource, &spec.pods, &spec.object, &spec.external) {
        (Some(source), ..) if spec.type_ == "Resource" => {
            let suffix = if utilization(&source.target) { PERCENTAGE } else { "" };
            format!("{} resource{suffix}", source.name)
        }
        (_, Some(source), ..) if spec.type_ == "ContainerResource" => {
            if utilization(&source.target) {
                format!("{} container resource{PERCENTAGE}", source.name)
            } else {
                format!("{} resource", source.name)
            }
        }
        (_, _, Some(source), ..) if spec.type_ == "Pods" => format!("pods metric {}", source.metric.name),
        (_, _, _, Some(source), _) if spec.type_ == "Object" => {
            if source.target.type_ == "AverageValue" {
                external_name(&source.metric)
            } else {
                format!("{} metric {}", source.described_object.kind, source.metric.name)
            }
        }
        (_, _, _, _, Some(source)) if spec.type_ == "External" => external_name(&source.metric),
        _ => format!("metric of type {:?}", spec.type_),
    }
}

const PERCENTAGE: &str = " utilization (percentage of request)";

/// The selector is printed as the reference's language prints it: events are matched by their text.
fn external_name(metric: &MetricIdentifier) -> String {
    let Some(selector) = &metric.selector else { return format!("external metric {}(nil)", metric.name) };
    let labels: String =
        selector.match_labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .map(|expression| {
            let (key, operator) = (&expression.key, &expression.operator);
            let values = expression.values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "external metric {}(&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}})",
        metric.name
    )
}
