//! Values of the core in the words of the API: amounts, lengths of time, windows. It knows no object.

use headroom_core::resources::Resources;
use headroom_core::time::Seconds;
use headroom_core::window::Window;
use serde_json::{Map, Value, json};

/// A resource list; amounts of zero are left out.
pub(super) fn amounts(resources: &Resources) -> Value {
    let mut list = Map::new();
    let named = [
        ("cpu", resources.cpu_milli, "m"),
        ("memory", resources.memory_bytes, ""),
        ("ephemeral-storage", resources.ephemeral_bytes, ""),
        ("pods", resources.pods, ""),
    ];
    for (name, amount, unit) in named {
        if amount != 0 {
            list.insert(name.to_owned(), format!("{amount}{unit}").into());
        }
    }
    for (name, amount) in resources.extended_iter() {
        list.insert(name.to_string(), amount.to_string().into());
    }
    Value::Object(list)
}

/// A length of time as the fields of our kinds take it: `1h30m`. At most 99,999 hours; a negative one is none.
pub(super) fn duration(length: Seconds) -> String {
    let seconds = length.0.clamp(0, 99_999 * 3600);
    let parts = [(seconds / 3600, "h"), (seconds % 3600 / 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A window in its own words.
pub(super) fn window(window: &Window) -> Value {
    // A window is written by its own `Serialize`, which knows the text that it was made from.
    let written = serde_json::to_value(window).unwrap_or_default();
    let seconds = written["durationSeconds"].as_i64().unwrap_or(0);
    json!({"timeZone": written["timeZone"], "start": written["start"], "duration": duration(Seconds(seconds))})
}

/// The value without its fields that are null, at any depth.
pub(super) fn pruned(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name, pruned(field))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(pruned).collect()),
        other => other,
    }
}
