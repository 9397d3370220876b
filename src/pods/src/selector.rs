//! Label selectors as text and as metav1.LabelSelector, and which HPAs select the same pods.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::spec::MetricSelector;
use headroom_values::labels::Labels;

/// A label selector. Without requirements it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Arc<str>,
    operator: Operator,
    /// Sorted, without repetitions.
    values: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// Reason why a selector can not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not a list of requirements.
    #[error("unable to parse requirement at {0:?}: use terms such as app=web, tier in (a, b), !legacy")]
    Syntax(String),
    /// A key is not a label key.
    #[error("{0:?} is no label key")]
    Key(String),
    /// A value is not a label value.
    #[error("{0:?} is no label value")]
    Value(String),
    /// The operator is unknown.
    #[error("{0:?} is not a valid label selector operator: use In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    /// The operator does not go with that many values.
    #[error("the values of key {0:?} do not fit its operator")]
    Values(String),
}

impl Selector {
    /// Reads the text form: terms separated by commas, each `key=value`, `key==value`, `key!=value`, `key in (a,b)`,
    /// `key notin (a,b)`, `key`, `!key`, `key>1` or `key<1`. An empty text selects everything.
    ///
    /// # Errors
    /// If it is anything else, or a key or value breaks the rules for labels.
    ///
    /// Source: apimachinery pkg/labels/selector.go, Parse.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut lexer = Lexer { rest: text };
        let mut requirements = Vec::new();
        if lexer.peek() == Token::End {
            return Ok(Self::default());
        }
        loop {
            requirements.push(requirement(&mut lexer)?);
            match lexer.next() {
                Token::End => break,
                // A comma must be followed by another term.
                Token::Comma if matches!(lexer.peek(), Token::Word(_) | Token::Not) => {}
                _ => return Err(lexer.error()),
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// The selector that a metric names; `None` selects everything.
    ///
    /// # Errors
    /// If an operator is unknown, or a key or value breaks the rules for labels.
    ///
    /// Source: apimachinery pkg/apis/meta/v1/helpers.go, LabelSelectorAsSelector.
    pub fn of_metric(selector: Option<&MetricSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::default()) };
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            requirements.push(checked(key, Operator::In, std::slice::from_ref(value))?);
        }
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return Err(SelectorError::Operator(expression.operator.clone())),
            };
            requirements.push(checked(&expression.key, operator, &expression.values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// True if it selects these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }

    /// The same with other values: `change` is given the key and each value. The numbers of `>` and `<` stay.
    #[must_use]
    pub fn with_values(mut self, change: impl Fn(&str, &str) -> Arc<str>) -> Self {
        for Requirement { key, operator, values } in &mut self.requirements {
            match operator {
                Operator::In | Operator::NotIn => {
                    values.iter_mut().for_each(|value| *value = change(key, value));
                    values.sort();
                    values.dedup();
                }
                Operator::Exists | Operator::DoesNotExist | Operator::GreaterThan | Operator::LessThan => {}
            }
        }
        self
    }

    /// A pair that everything it selects has, if it demands one: what an index can look for.
    #[must_use]
    pub fn anchor(&self) -> Option<Pair> {
        self.requirements.iter().find_map(|requirement| match requirement.values.as_slice() {
            [value] if requirement.operator == Operator::In => Some((requirement.key.clone(), value.clone())),
            _ => None,
        })
    }
}

impl Requirement {
    fn holds(&self, found: Option<&str>) -> bool {
        let listed = |value| self.values.iter().any(|listed| &**listed == value);
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || self.values.first().and_then(|value| number(value));
        match self.operator {
            Operator::In => found.is_some_and(listed),
            Operator::NotIn => !found.is_some_and(listed),
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::GreaterThan => found.and_then(number).zip(bound()).is_some_and(|(n, bound)| bound < n),
            Operator::LessThan => found.and_then(number).zip(bound()).is_some_and(|(n, bound)| n < bound),
        }
    }
}

impl fmt::Display for Selector {
    /// The text form: what the APIs of metrics take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let (key, values) = (&requirement.key, requirement.values.join(","));
            match (requirement.operator, requirement.values.len()) {
                (Operator::In, 1) => write!(f, "{key}={values}"),
                (Operator::In, _) => write!(f, "{key} in ({values})"),
                (Operator::NotIn, _) => write!(f, "{key} notin ({values})"),
                (Operator::Exists, _) => write!(f, "{key}"),
                (Operator::DoesNotExist, _) => write!(f, "!{key}"),
                (Operator::GreaterThan, _) => write!(f, "{key}>{values}"),
                (Operator::LessThan, _) => write!(f, "{key}<{values}"),
            }?;
        }
        Ok(())
    }
}

// === reading the text ===

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
    End,
}

struct Lexer<'a> {
    rest: &'a str,
}

const SYMBOLS: &[(&str, Token<'static>)] = &[
    ("==", Token::Equal),
    ("!=", Token::NotEqual),
    ("=", Token::Equal),
    ("!", Token::Not),
    (",", Token::Comma),
    ("(", Token::Open),
    (")", Token::Close),
    (">", Token::Greater),
    ("<", Token::Less),
];

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        for (symbol, token) in SYMBOLS {
            if let Some(rest) = self.rest.strip_prefix(symbol) {
                self.rest = rest;
                return *token;
            }
        }
        let end = self.rest.find([' ', '\t', '\r', '\n', '=', '!', ',', '(', ')', '>', '<']);
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if word.is_empty() { Token::End } else { Token::Word(word) }
    }

    fn peek(&self) -> Token<'a> {
        Lexer { rest: self.rest }.next()
    }

    fn error(&self) -> SelectorError {
        SelectorError::Syntax(self.rest.to_owned())
    }
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, SelectorError> {
    let none: &[&str] = &[];
    let key = match lexer.next() {
        Token::Not => {
            let Token::Word(key) = lexer.next() else { return Err(lexer.error()) };
            return checked(key, Operator::DoesNotExist, none);
        }
        Token::Word(key) => key,
        _ => return Err(lexer.error()),
    };
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return checked(key, Operator::Exists, none);
    }
    match lexer.next() {
        Token::Word("in") => checked(key, Operator::In, &values(lexer)?),
        Token::Word("notin") => checked(key, Operator::NotIn, &values(lexer)?),
        Token::Equal => checked(key, Operator::In, &[value(lexer)?]),
        Token::NotEqual => checked(key, Operator::NotIn, &[value(lexer)?]),
        Token::Greater => checked(key, Operator::GreaterThan, &[value(lexer)?]),
        Token::Less => checked(key, Operator::LessThan, &[value(lexer)?]),
        _ => Err(lexer.error()),
    }
}

/// One value; nothing before a comma or the end is the empty value.
fn value<'a>(lexer: &mut Lexer<'a>) -> Result<&'a str, SelectorError> {
    match lexer.peek() {
        Token::Word(word) => {
            lexer.next();
            Ok(word)
        }
        Token::Comma | Token::End => Ok(""),
        _ => Err(lexer.error()),
    }
}

/// A list in parentheses.
fn values<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<&'a str>, SelectorError> {
    if lexer.next() != Token::Open {
        return Err(lexer.error());
    }
    let mut values = Vec::new();
    loop {
        values.push(match lexer.peek() {
            Token::Word(word) => {
                lexer.next();
                word
            }
            Token::Comma | Token::Close => "",
            _ => return Err(lexer.error()),
        });
        match lexer.next() {
            Token::Comma => {}
            Token::Close => return Ok(values),
            _ => return Err(lexer.error()),
        }
    }
}

fn checked<V: AsRef<str>>(key: &str, operator: Operator, values: &[V]) -> Result<Requirement, SelectorError> {
    if !is_label_key(key) {
        return Err(SelectorError::Key(key.to_owned()));
    }
    let fits = match operator {
        Operator::In | Operator::NotIn => !values.is_empty(),
        Operator::Exists | Operator::DoesNotExist => values.is_empty(),
        Operator::GreaterThan | Operator::LessThan => {
            matches!(values, [value] if value.as_ref().parse::<i64>().is_ok())
        }
    };
    if !fits {
        return Err(SelectorError::Values(key.to_owned()));
    }
    if let Some(wrong) = values.iter().map(AsRef::as_ref).find(|value| !is_label_value(value)) {
        return Err(SelectorError::Value(wrong.to_owned()));
    }
    let mut values: Vec<Arc<str>> = values.iter().map(|value| Arc::from(value.as_ref())).collect();
    values.sort();
    values.dedup();
    Ok(Requirement { key: Arc::from(key), operator, values })
}

/// An optional DNS subdomain and a slash, then a name as [`is_label_value`], not empty.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let label = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    let prefix_fits = prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label));
    prefix_fits && !name.is_empty() && is_label_value(name)
}

/// At most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit; or nothing.
fn is_label_value(value: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = |b: Option<u8>| b.is_none_or(|b| b.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(inner)
        && ends(value.bytes().next())
        && ends(value.bytes().next_back())
}

// === who selects the same pods ===

/// The selectors of all known HPAs, as last seen, for the question who else selects a pod.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    namespaces: BTreeMap<Arc<str>, Namespace>,
}

/// Key and value of a label.
pub type Pair = (Arc<str>, Arc<str>);

#[derive(Clone, Debug, Default)]
struct Namespace {
    selectors: BTreeMap<Arc<str>, Selector>,
    /// Names by a pair that their selectors demand. Looked up only.
    anchored: FxHashMap<Pair, Vec<Arc<str>>>,
    /// Names whose selectors demand no pair.
    others: Vec<Arc<str>>,
}

impl Registry {
    /// Remembers the selector of an HPA, replacing an older one.
    pub fn put(&mut self, namespace: &str, name: &str, selector: Selector) {
        if self.namespaces.get(namespace).and_then(|known| known.selectors.get(name)) == Some(&selector) {
            return;
        }
        self.remove(namespace, name);
        let known = self.namespaces.entry(Arc::from(namespace)).or_default();
        let name: Arc<str> = Arc::from(name);
        match selector.anchor() {
            Some(pair) => known.anchored.entry(pair).or_default().push(name.clone()),
            None => known.others.push(name.clone()),
        }
        known.selectors.insert(name, selector);
    }

    /// Forgets an HPA.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        let Some(selector) = known.selectors.remove(name) else { return };
        match selector.anchor() {
            Some(pair) => {
                if let Some(names) = known.anchored.get_mut(&pair) {
                    names.retain(|other| &**other != name);
                    if names.is_empty() {
                        known.anchored.remove(&pair);
                    }
                }
            }
            None => known.others.retain(|other| &**other != name),
        }
        if known.selectors.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Names of the other HPAs of the namespace whose selectors match any of the label sets, sorted.
    ///
    /// Source: podautoscaler horizontal.go, hpasControllingPodsUnderSelector.
    pub fn rivals<'a>(
        &self,
        namespace: &str,
        name: &str,
        labels: impl IntoIterator<Item = &'a Labels>,
    ) -> Vec<Arc<str>> {
        let Some(known) = self.namespaces.get(namespace) else { return Vec::new() };
        let mut rivals: Vec<Arc<str>> = Vec::new();
        let mut seen: Option<&Labels> = None;
        for labels in labels {
            // Pods of one template mostly follow one another.
            if seen == Some(labels) {
                continue;
            }
            seen = Some(labels);
            let mut look = |candidate: &Arc<str>| {
                let other = &**candidate != name && !rivals.contains(candidate);
                if other && known.selectors.get(candidate).is_some_and(|selector| selector.matches(labels)) {
                    rivals.push(candidate.clone());
                }
            };
            known.others.iter().for_each(&mut look);
            for (key, value) in labels.shared() {
                if let Some(names) = known.anchored.get(&(key.clone(), value.clone())) {
                    names.iter().for_each(&mut look);
                }
            }
        }
        rivals.sort();
        rivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (Arc::<str>::from(*key), Arc::<str>::from(*value))).collect()
    }

    fn check(selector: &str, pairs: &[(&str, &str)], selected: bool) {
        let parsed = Selector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&labels(pairs)), selected, "{selector} {pairs:?}");
        assert_eq!(Selector::parse(&parsed.to_string()).unwrap(), parsed, "{selector}");
    }

    #[test]
    fn each_operator_selects_as_the_api_server_does() {
        check("", &[], true);
        check("app=web", &[("app", "web")], true);
        check("app==web", &[("app", "api")], false);
        check("app != web", &[], true);
        check("app in (web, api),!legacy", &[("app", "api")], true);
        check("app in (web,api),!legacy", &[("app", "api"), ("legacy", "yes")], false);
        check("app notin (web)", &[("app", "web")], false);
        check("app", &[("app", "")], true);
        check("app=", &[("app", "")], true);
        check("n>3", &[("n", "4")], true);
        check("n<3", &[("n", "x")], false);
    }

    #[test]
    fn unreadable_selectors_are_refused() {
        for text in
            ["cpu=a=b", "x in (", "a=b,", "in in", "=b", "a b", "!", "-a=b", "a=b c", "n>x", "a in ()b"]
        {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_metrics_selector_fails_on_an_unknown_operator() {
        let selector = MetricSelector {
            match_expressions: vec![crate::spec::MetricSelectorRequirement {
                key: "k".into(),
                operator: "Sideways".into(),
                values: vec!["v".into()],
            }],
            ..MetricSelector::default()
        };
        assert_eq!(Selector::of_metric(Some(&selector)), Err(SelectorError::Operator("Sideways".into())));
    }

    #[test]
    fn hpas_over_the_same_pod_are_rivals() {
        let mut registry = Registry::default();
        registry.put("prod", "web", Selector::parse("app=web").unwrap());
        registry.put("prod", "gold", Selector::parse("tier in (gold,silver)").unwrap());
        registry.put("prod", "api", Selector::parse("app=api").unwrap());
        registry.put("test", "web", Selector::parse("app=web").unwrap());
        let pods = [labels(&[("app", "web")]), labels(&[("app", "web"), ("tier", "gold")])];
        let rivals = |registry: &Registry, name| registry.rivals("prod", name, pods.iter());
        assert_eq!(rivals(&registry, "web"), [Arc::from("gold")]);
        assert_eq!(rivals(&registry, "gold"), [Arc::from("web")]);
        registry.remove("prod", "gold");
        assert!(rivals(&registry, "web").is_empty());
        registry.put("prod", "api", Selector::parse("app=web").unwrap());
        assert_eq!(rivals(&registry, "web"), [Arc::from("api")]);
    }
}
