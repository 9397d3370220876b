//! Reads fields of a document with errors that name the path and the fix; it knows no scenario.

use jiff::SignedDuration;
use serde_json::Value;

use headroom_api::validate::{FieldError, duration_seconds};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Field<'a> {
    pub(super) fn root(value: &'a Value) -> Field<'a> {
        Field { path: String::new(), value }
    }

    pub(super) fn error(&self, problem: impl Into<String>, fix: impl Into<String>) -> FieldError {
        let path = if self.path.is_empty() { "the document".to_owned() } else { self.path.clone() };
        FieldError { path, problem: problem.into(), fix: fix.into() }
    }

    /// Refuses fields that nobody would read.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), FieldError> {
        let fields = self.value.as_object().ok_or_else(|| {
            self.error(
                format!("{} is no mapping", shown(self.value)),
                format!("write fields: {}", known.join(", ")),
            )
        })?;
        for name in fields.keys() {
            if !known.contains(&name.as_str()) {
                let field = self.child(name);
                return Err(field.error("unknown field", format!("use one of: {}", known.join(", "))));
            }
        }
        Ok(())
    }

    pub(super) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Field { value, ..self.child(name) })
    }

    pub(super) fn required(&self, name: &str, what: &str) -> Result<Field<'a>, FieldError> {
        self.optional(name).ok_or_else(|| self.child(name).error("missing", format!("write {what}")))
    }

    fn child(&self, name: &str) -> Field<'a> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Field { path, value: &Value::Null }
    }

    pub(super) fn items(&self) -> Result<Vec<Field<'a>>, FieldError> {
        let list = self.value.as_array().ok_or_else(|| {
            self.error(
                format!("{} is no list", shown(self.value)),
                "write a list, one item a line with a dash",
            )
        })?;
        let item = |(index, value)| Field { path: format!("{}[{index}]", self.path), value };
        Ok(list.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, FieldError> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.ok_or_else(|| {
            self.error(format!("{} is no text", shown(self.value)), "write a text, in quotes if need be")
        })
    }

    pub(super) fn whole(&self, min: i64, max: i64) -> Result<i64, FieldError> {
        let number = self.value.as_i64().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| {
            let range = if max == i64::MAX { format!("from {min}") } else { format!("from {min} to {max}") };
            self.error(
                format!("{} is out of range", shown(self.value)),
                format!("write a whole number {range}"),
            )
        })
    }

    pub(super) fn duration(&self) -> Result<SignedDuration, FieldError> {
        // A bare 0 is a number to YAML, and everybody writes it.
        let zero = self.value.as_i64() == Some(0);
        let seconds = if zero { Some(0) } else { self.value.as_str().and_then(duration_seconds) };
        let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
        seconds.map(SignedDuration::from_secs).ok_or_else(|| {
            self.error(format!("{} is no duration", shown(self.value)), "write for example 90s, 10m or 1h30m")
        })
    }
}

fn shown(value: &Value) -> String {
    let text: String = value.to_string().chars().take(60).collect();
    format!("`{text}`")
}
