//! Label and field selectors, from query strings and from objects; it matches, it does not list.

use serde_json::Value;

use super::object::{at, text};
use super::{ApiError, Kind, ObjectKey};

#[derive(Debug, Clone, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

/// A conjunction of requirements on labels; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads `a=b,c!=d,e in (x,y),f notin (z),g,!h`; 400 for anything else.
    pub fn parse(query: &str) -> Result<LabelSelector, ApiError> {
        split_outside_parentheses(query)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(parse_requirement)
            .collect::<Result<_, _>>()
            .map(LabelSelector)
    }

    /// Reads the object form (`matchLabels`, `matchExpressions`); an unknown operator matches nothing.
    pub fn of_object(selector: &Value) -> LabelSelector {
        let mut requirements = Vec::new();
        for (key, value) in at(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
            requirements
                .push(Requirement::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]));
        }
        for expression in at(selector, &["matchExpressions"]).and_then(Value::as_array).into_iter().flatten()
        {
            let key = text(expression, &["key"]).unwrap_or_default().to_owned();
            let values = || -> Vec<String> {
                let list = at(expression, &["values"]).and_then(Value::as_array);
                list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            requirements.push(match text(expression, &["operator"]) {
                Some("In") => Requirement::In(key, values()),
                Some("NotIn") => Requirement::NotIn(key, values()),
                Some("Exists") => Requirement::Exists(key),
                Some("DoesNotExist") => Requirement::DoesNotExist(key),
                _ => Requirement::In(key, Vec::new()),
            });
        }
        LabelSelector(requirements)
    }

    /// True if the labels of the object satisfy every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels = at(object, &["metadata", "labels"]);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| values.iter().any(|v| v == value)),
            Requirement::NotIn(key, values) => {
                !label(key).is_some_and(|value| values.iter().any(|v| v == value))
            }
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::DoesNotExist(key) => label(key).is_none(),
        })
    }

    /// True if it matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn split_outside_parentheses(query: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (index, char) in query.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&query[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&query[start..]);
    parts
}

fn parse_requirement(part: &str) -> Result<Requirement, ApiError> {
    let unreadable = || ApiError::bad_request(format!("unable to parse requirement: {part:?}"));
    if let Some(inside) = part.strip_suffix(')') {
        let (head, list) = inside.split_once('(').ok_or_else(unreadable)?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(' ').ok_or_else(unreadable)?;
        return match operator {
            "in" => Ok(Requirement::In(key.trim().to_owned(), values)),
            "notin" => Ok(Requirement::NotIn(key.trim().to_owned(), values)),
            _ => Err(unreadable()),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if part.contains(char::is_whitespace) {
        return Err(unreadable());
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => Requirement::DoesNotExist(key.trim().to_owned()),
        None => Requirement::Exists(part.to_owned()),
    })
}

/// Equalities on a few fields; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldSelector(Vec<(&'static [&'static str], String, bool)>);

const FIELDS: &[(&str, &[&str])] = &[
    ("metadata.name", &["metadata", "name"]),
    ("metadata.namespace", &["metadata", "namespace"]),
    ("spec.nodeName", &["spec", "nodeName"]),
    ("status.phase", &["status", "phase"]),
    ("regarding.name", &["regarding", "name"]),
];

impl FieldSelector {
    /// Reads `spec.nodeName=n1,status.phase!=Running`; 400 for a field that cannot be selected by.
    pub fn parse(query: &str) -> Result<FieldSelector, ApiError> {
        let mut terms = Vec::new();
        for part in query.split(',').filter(|part| !part.is_empty()) {
            let (field, value, equal) = match part.split_once("!=") {
                Some((field, value)) => (field, value, false),
                None => {
                    let (field, value) = part
                        .split_once("==")
                        .or_else(|| part.split_once('='))
                        .ok_or_else(|| ApiError::bad_request(format!("invalid field selector: {part:?}")))?;
                    (field, value, true)
                }
            };
            let (_, path) = FIELDS
                .iter()
                .find(|(name, _)| *name == field)
                .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {field}")))?;
            terms.push((*path, value.to_owned(), equal));
        }
        Ok(FieldSelector(terms))
    }

    /// The node that a pod must be bound to, where one is named.
    pub(super) fn node(&self) -> Option<&str> {
        self.wanted(&["spec", "nodeName"])
    }

    /// The value that a field must have, unless that is the empty text.
    fn wanted(&self, field: &[&str]) -> Option<&str> {
        let named =
            |(path, value, equal): &&(&[&str], String, bool)| *equal && !value.is_empty() && **path == *field;
        self.0.iter().find(named).map(|(_, value, _)| value.as_str())
    }

    /// True if all equalities hold; an absent field is the empty text.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, value, equal)| (text(object, path).unwrap_or_default() == value) == *equal)
    }
}

/// Both selectors and the namespace of a list or a watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Empty means all namespaces.
    pub namespace: String,
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

impl Filter {
    /// True if both selectors match; the namespace is looked at by `matches_key`.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// The one key that can match; `None` where several may.
    pub(super) fn only_key(&self, kind: Kind) -> Option<ObjectKey> {
        let name = self.fields.wanted(&["metadata", "name"])?;
        let is_one = !kind.info().namespaced || !self.namespace.is_empty();
        is_one.then(|| ObjectKey::new(&self.namespace, name))
    }

    /// True if the key lies in the namespace.
    pub fn matches_key(&self, key: &ObjectKey) -> bool {
        self.namespace.is_empty() || *self.namespace == *key.namespace
    }
}
