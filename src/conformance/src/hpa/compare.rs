//! Compares a tick with what its vector expects: every field, not only the first that differs.

use headroom_core::pods::decision::{Event, EventType};
use headroom_core::pods::status::{Condition, HpaStatus, MetricStatus, MetricValueStatus};
use serde_json::{Map, Value, json};

use super::format::{ExpectedEvent, Step};
use super::world::offset;

/// Result of a tick.
pub(super) struct Got<'a> {
    pub(crate) written: Option<i32>,
    pub(crate) status: &'a HpaStatus,
    pub(crate) status_written: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) action: &'static str,
    pub(crate) error: &'static str,
}

/// Checks that everything in `given` is also in `understood`: nothing was skipped silently.
pub(super) fn covered(given: &Value, understood: &Value, path: &str) -> Result<(), String> {
    match (given, understood) {
        (Value::Object(given), Value::Object(understood)) => {
            for (key, value) in given {
                let path = format!("{path}.{key}");
                let found = understood.get(key);
                // Zero values are not written again.
                let empty = match value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Array(list) => list.is_empty(),
                    Value::Object(map) => map.is_empty(),
                    Value::Bool(_) | Value::Number(_) => false,
                };
                match found {
                    Some(found) => covered(value, found, &path)?,
                    None if empty => {}
                    None => return Err(format!("unknown field {path}")),
                }
            }
            Ok(())
        }
        (Value::Array(given), Value::Array(understood)) => {
            given.iter().zip(understood).try_for_each(|(a, b)| covered(a, b, &format!("{path}[]")))
        }
        _ => Ok(()),
    }
}

/// The differences of one tick.
pub(super) fn step(step: &Step, got: &Got<'_>) -> Vec<String> {
    let want = &step.expect;
    let mut found = Differences(Vec::new());
    found.check("desiredReplicas", &want.desired_replicas, &got.written);
    found.check("status.currentReplicas", &want.status.current_replicas, &got.status.current_replicas);
    found.check("status.desiredReplicas", &want.status.desired_replicas, &got.status.desired_replicas);
    let last_scale = got.status.last_scale_time.map(offset);
    found.check("status.lastScaleTime", &want.status.last_scale_time, &last_scale);
    let metrics: Vec<Value> = got.status.current_metrics.iter().map(metric).collect();
    found.check("number of status.currentMetrics", &want.status.current_metrics.len(), &metrics.len());
    for (index, (want, got)) in want.status.current_metrics.iter().zip(&metrics).enumerate() {
        let field = format!("status.currentMetrics[{index}]");
        if !step.unportable.contains(&field) {
            found.check(&field, want, got);
        }
    }
    let conditions: Vec<Value> = got.status.conditions.iter().map(condition).collect();
    found.check("status.conditions", &want.status.conditions, &conditions);
    if !step.unportable.iter().any(|what| what.starts_with("status.currentMetrics")) {
        found.check("statusWritten", &want.status_written, &got.status_written);
    }
    found.check("events", &want.events, &got.events.iter().map(event).collect());
    found.check("action", &want.action.as_str(), &got.action);
    found.check("error", &want.error.as_str(), &got.error);
    found.0
}

/// Returns the violations of the rules for numbers that overflow in the reference: nothing is lowered, nothing wraps
/// below zero.
pub(super) fn saturated(step: &Step, current: i32, got: &Got<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if step.unportable.is_empty() {
        return found;
    }
    if got.written.is_some_and(|to| to < current) {
        found.push(format!("lowered from {current} to {:?} on numbers that ran over", got.written));
    }
    let values = got.status.current_metrics.iter().filter_map(|status| current_of(status).1);
    let wrapped = values.flat_map(|current| [current.value, current.average_value]).flatten();
    if let Some(amount) = wrapped.into_iter().find(|amount| amount.quantity.is_negative()) {
        found.push(format!("a metric wrapped to {amount}"));
    }
    found
}

struct Differences(Vec<String>);

impl Differences {
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, want: &T, got: &T) {
        if want != got {
            self.0.push(format!("{field}: want {want:?}, got {got:?}"));
        }
    }
}

fn current_of(status: &MetricStatus) -> (Map<String, Value>, Option<&MetricValueStatus>) {
    let mut fields = Map::new();
    let mut insert_text = |key: &str, value: &str| fields.insert(key.to_owned(), json!(value));
    let current = if let Some(resource) = &status.resource {
        insert_text("name", &resource.name);
        Some(&resource.current)
    } else if let Some(resource) = &status.container_resource {
        insert_text("name", &resource.name);
        insert_text("container", &resource.container);
        Some(&resource.current)
    } else if let Some(pods) = &status.pods {
        insert_text("name", &pods.metric.name);
        Some(&pods.current)
    } else if let Some(object) = &status.object {
        let described = &object.described_object;
        insert_text("name", &object.metric.name);
        insert_text("object", &format!("{}/{}", described.kind, described.name));
        Some(&object.current)
    } else if let Some(external) = &status.external {
        insert_text("name", &external.metric.name);
        Some(&external.current)
    } else {
        None
    };
    (fields, current)
}

fn metric(status: &MetricStatus) -> Value {
    let (mut fields, Some(current)) = current_of(status) else { return Value::Null };
    fields.insert("type".to_owned(), json!(status.type_));
    if let Some(percent) = current.average_utilization {
        fields.insert("averageUtilization".to_owned(), json!(percent));
    }
    if let Some(amount) = current.average_value {
        fields.insert("averageValueMilli".to_owned(), json!(amount.milli()));
        fields.insert("averageValue".to_owned(), json!(amount.to_string()));
    }
    if let Some(amount) = current.value {
        fields.insert("valueMilli".to_owned(), json!(amount.milli()));
        fields.insert("value".to_owned(), json!(amount.to_string()));
    }
    Value::Object(fields)
}

/// Text before the metric's name in a message of ScalingActive.
const COMPUTED_FROM: &str = "computed from ";

fn condition(condition: &Condition) -> Value {
    let since = condition.last_transition_time.map(offset);
    let mut rendered = json!({
        "type": condition.type_, "status": condition.status, "reason": condition.reason, "since": since,
    });
    let named = condition.type_ == "ScalingActive" && condition.status == "True";
    if let Some((_, name)) =
        condition.message.split_once(COMPUTED_FROM).filter(|(_, name)| named && !name.is_empty())
    {
        rendered["metric"] = json!(name);
    }
    rendered
}

fn event(event: &Event) -> ExpectedEvent {
    let rescale = event.reason == "SuccessfulRescale";
    ExpectedEvent {
        type_: match event.type_ {
            EventType::Normal => "Normal".to_owned(),
            EventType::Warning => "Warning".to_owned(),
        },
        reason: event.reason.to_owned(),
        message: rescale.then(|| event.message.clone()),
    }
}
