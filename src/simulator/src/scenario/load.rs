//! The events `load` and `metricsOutage` of a scenario, read and checked; nothing happens here.

use jiff::SignedDuration;
use serde_json::Value;

use super::events::{Action, interpolated, lasts, points, target};
use super::reader::Field;
use crate::cluster::Metric;
use crate::store::Kind;
use headroom_api::validate::FieldError;

/// A field with the load that a workload carries.
struct Amount {
    field: &'static str,
    /// Metric of the load; `None` for the one that the event's `metric` names.
    metric: Option<Metric>,
    /// Most that may be written.
    max: i64,
    /// Thousandths of the metric's unit in what is written.
    milli: i64,
}

/// Every such field. What is most: a hundred thousand CPUs, a pebibyte, a million millions.
const AMOUNTS: [Amount; 4] = [
    Amount { field: "milliCpu", metric: Some(Metric::Cpu), max: 100_000_000, milli: 1 },
    Amount { field: "curve", metric: Some(Metric::Cpu), max: 100_000_000, milli: 1 },
    Amount { field: "memoryMi", metric: Some(Metric::Memory), max: 1 << 30, milli: 1000 << 20 },
    Amount { field: "value", metric: None, max: 1_000_000_000_000, milli: 1000 },
];

/// The types of metrics that `metric` may name, each with its member, what that must have, and what it may have.
const TYPES: [(&str, &str, &[&str], &[&str]); 7] = [
    ("Pods", "pods", &["metric"], &[]),
    ("Object", "object", &["describedObject", "metric"], &[]),
    ("External", "external", &["metric"], &[]),
    ("Prometheus", "prometheus", &["source", "query"], &[]),
    ("ExternalScaler", "externalScaler", &["source"], &["metricName", "metadata"]),
    ("HTTP", "http", &["source", "path", "value"], &[]),
    ("Redis", "redis", &["source", "key"], &["database", "count", "group"]),
];

/// The load on a workload: one amount, or a curve.
pub(super) fn load(
    action: &Field<'_>,
    known: &[(Kind, Value)],
) -> Result<Vec<(SignedDuration, Action)>, FieldError> {
    let mut allowed = vec!["deployment", "statefulSet", "namespace", "metric", "step"];
    allowed.extend(AMOUNTS.map(|amount| amount.field));
    action.only(&allowed)?;
    let kinds = [("deployment", Kind::Deployment), ("statefulSet", Kind::StatefulSet)];
    let target = target(action, &kinds, known)?;
    let step = action.optional("step").map_or(Ok(SignedDuration::from_mins(1)), |field| field.duration())?;
    let given = AMOUNTS.into_iter().filter_map(|amount| Some((action.optional(amount.field)?, amount)));
    let given: Vec<(Field<'_>, Amount)> = given.collect();
    let [(field, amount)] = given.as_slice() else {
        let problem = if given.is_empty() { "no amount" } else { "several amounts" };
        let fix = "write exactly one of: milliCpu: 2000, curve: [[0s, 500], [1h, 8000]], memoryMi: 4096, or value: 300 \
                   with a metric";
        return Err(action.error(problem, fix));
    };
    let metric = match (&amount.metric, action.optional("metric")) {
        (Some(metric), None) => metric.clone(),
        (Some(_), Some(metric)) => {
            let problem = format!("{} is not of this metric", amount.field);
            return Err(metric.error(problem, "write value: 300 in its place, or leave metric out"));
        }
        (None, _) => metric(&action.required("metric", "the metric that it is of")?)?,
    };
    let load = |written: i64| Action::Load(target.clone(), metric.clone(), written * amount.milli);
    if !field.value.is_array() && amount.field != "curve" {
        return Ok(vec![(SignedDuration::ZERO, load(field.whole(0, amount.max)?))]);
    }
    let points = points(field, amount.max)?;
    let step = step.max(SignedDuration::from_secs(1));
    Ok(interpolated(&points, step).into_iter().map(|(at, written)| (at, load(written))).collect())
}

/// A metric as `spec.metrics` has it, without its target.
fn metric(field: &Field<'_>) -> Result<Metric, FieldError> {
    let words = TYPES.map(|(word, ..)| word).join(", ");
    let kind = field.required("type", &format!("one of: {words}"))?;
    let word = kind.text()?;
    let Some((_, member, fields, others)) = TYPES.iter().find(|(each, ..)| *each == word) else {
        let fix = format!("write one of: {words}; CPU is milliCpu, memory is memoryMi");
        return Err(kind.error(format!("`{word}` is no type of a metric"), fix));
    };
    field.only(&["type", member])?;
    let body = field.required(member, &format!("{member} with: {}", fields.join(", ")))?;
    body.only(&[*fields, *others].concat())?;
    for name in *fields {
        body.required(name, "what the metric of the workload has there")?;
    }
    if let Some(named) = body.optional("metric") {
        named.only(&["name", "selector"])?;
        named.required("name", "the name of the metric")?.text()?;
    }
    let fix =
        "write it as in spec.metrics, without target: {type: External, external: {metric: {name: queue}}}";
    Metric::of(field.value).ok_or_else(|| field.error("it cannot be read", fix))
}

/// Reads the event in which nothing is measured for a time.
pub(super) fn metrics_outage(action: &Field<'_>) -> Result<Action, FieldError> {
    action.only(&["for"])?;
    Ok(Action::MetricsOutage(lasts(action)?))
}
