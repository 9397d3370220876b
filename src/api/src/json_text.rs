//! JSON that is kept as text: as a tree of maps it takes ten times the room, and most of it is read once or never.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A JSON value, kept as text. Equal values are equal texts: members are in order of their names.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was made of a value, so it can be read.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl Default for JsonText {
    /// `null`.
    fn default() -> Self {
        Self::from(Value::Null)
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_comes_back_as_it_was_and_equal_ones_are_equal() {
        let value = json!({"b": [1, -2.5, 1e300, u64::MAX, null], "a": {"text": "\u{0}\"é\\", "none": {}}});
        let text = JsonText::from(value.clone());
        assert_eq!(text.value(), value);
        let other: Value = serde_json::from_str(r#"{"x": 1, "w": 2}"#).expect("JSON");
        assert_eq!(JsonText::from(other), JsonText::from(json!({"w": 2, "x": 1})));
        assert_ne!(text, JsonText::default());
        assert_eq!(JsonText::default().value(), Value::Null);
    }
}
