//! Evaluation: operators with their own rules of evaluation, names, fields and macros. Costs are counted here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::syntax::{Each, EachKind, Entry, Expr};
use super::value::{TYPE_NAMES, Value};
use super::{MAX_COST, RuntimeError, functions};

/// One evaluation.
pub(super) struct Run<'a> {
    scope: Vec<(Arc<str>, Value)>,
    patterns: &'a BTreeMap<Arc<str>, regex::Regex>,
    cost: u64,
}

type Found = Result<Value, RuntimeError>;

/// The value of a field or key, or that there is none.
fn no_such_key(key: &str) -> RuntimeError {
    RuntimeError::new(format!("no such key: {key}"))
}

impl<'a> Run<'a> {
    pub(super) fn new(variables: &[(&str, Value)], patterns: &'a BTreeMap<Arc<str>, regex::Regex>) -> Self {
        let scope = variables.iter().map(|(name, value)| (Arc::from(*name), value.clone())).collect();
        Self { scope, patterns, cost: 0 }
    }

    /// Counts work. Once the limit is passed, every further step fails.
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), RuntimeError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost <= MAX_COST {
            return Ok(());
        }
        Err(RuntimeError::new("operation cancelled: actual cost limit exceeded"))
    }

    /// Counts work on so many characters, ten of which are one unit.
    pub(super) fn spend_on(&mut self, characters: u64) -> Result<(), RuntimeError> {
        self.spend(characters / 10)
    }

    /// The compiled form of a pattern.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<regex::Regex, RuntimeError> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.spend_on(10 * u64::try_from(pattern.len()).unwrap_or(u64::MAX))?;
        regex::Regex::new(pattern).map_err(|_| RuntimeError::new("error parsing regexp"))
    }

    pub(super) fn value(&mut self, expr: &Expr) -> Found {
        self.spend(1)?;
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Name(name) => self.name(name),
            Expr::Select { operand, field, optional } => {
                let operand = self.value(operand)?;
                select(&operand, field, *optional)
            }
            Expr::Has { operand, field } => {
                let operand = self.value(operand)?;
                Ok(Value::Bool(has(&operand, field)))
            }
            Expr::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Expr::List(entries) => self.list(entries),
            Expr::Map(entries) => self.map(entries),
            Expr::Each(each) => self.each(each),
            Expr::Bind { name, value, body } => {
                let value = self.value(value)?;
                self.scoped([(name, value)], body)
            }
            Expr::IfPresent { target, name, body, flat } => match self.value(target)? {
                Value::Optional(Some(value)) => {
                    let body = self.scoped([(name, (*value).clone())], body)?;
                    Ok(if *flat { body } else { Value::present(body) })
                }
                Value::Optional(None) => Ok(Value::Optional(None)),
                _ => Err(RuntimeError::overload()),
            },
        }
    }

    fn name(&mut self, name: &str) -> Found {
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| **known == *name) {
            return Ok(value.clone());
        }
        let of = TYPE_NAMES.iter().find(|known| **known == name);
        of.map(|name| Value::Type(name))
            .ok_or_else(|| RuntimeError::new(format!("no such attribute: {name}")))
    }

    fn scoped<const N: usize>(&mut self, names: [(&Arc<str>, Value); N], body: &Expr) -> Found {
        let length = self.scope.len();
        self.scope.extend(names.into_iter().map(|(name, value)| (name.clone(), value)));
        let result = self.value(body);
        self.scope.truncate(length);
        result
    }

    fn bool(&mut self, expr: &Expr) -> Result<bool, RuntimeError> {
        match self.value(expr)? {
            Value::Bool(value) => Ok(value),
            _ => Err(RuntimeError::overload()),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, arguments: &[Expr]) -> Found {
        match (function, target, arguments) {
            ("_&&_", None, [left, right]) => self.logic(left, right, false),
            ("_||_", None, [left, right]) => self.logic(left, right, true),
            ("_?_:_", None, [condition, yes, no]) => {
                let taken = if self.bool(condition)? { yes } else { no };
                self.value(taken)
            }
            ("or" | "orValue", Some(target), [other]) => match self.value(target)? {
                Value::Optional(Some(value)) if function == "or" => Ok(Value::Optional(Some(value))),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                Value::Optional(None) => self.value(other),
                _ => Err(RuntimeError::overload()),
            },
            _ => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for part in target.into_iter().chain(arguments) {
                    values.push(self.value(part)?);
                }
                if function == "@in"
                    && matches!(values[..], [Value::Version(_), _])
                    && is_written_out(arguments)
                {
                    // The evaluation ends: nothing makes up for this error.
                    self.cost = MAX_COST + 1;
                    return Err(RuntimeError::new("a version is unhashable"));
                }
                functions::call(self, function, &values)
            }
        }
    }

    /// `&&` and `||`: one side that decides makes up for an error of the other.
    fn logic(&mut self, left: &Expr, right: &Expr, decides: bool) -> Found {
        let left = self.bool(left);
        if left == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        let right = self.bool(right)?;
        if right == decides {
            return Ok(Value::Bool(decides));
        }
        left.map(Value::Bool)
    }

    fn list(&mut self, entries: &[Entry]) -> Found {
        let mut values = Vec::with_capacity(entries.len());
        for entry in entries {
            values.extend(self.entry(entry)?);
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[(Expr, Entry)]) -> Found {
        let mut found: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, entry) in entries {
            let key = self.value(key)?;
            if !matches!(
                key,
                Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bool(_)
            ) {
                return Err(RuntimeError::new("unsupported key type"));
            }
            if let Some(value) = self.entry(entry)? {
                found.retain(|(known, _)| !known.equals(&key).unwrap_or(false));
                found.push((key, value));
            }
        }
        Ok(Value::map(found))
    }

    fn entry(&mut self, entry: &Entry) -> Result<Option<Value>, RuntimeError> {
        let value = self.value(&entry.value)?;
        match (entry.optional, value) {
            (false, value) => Ok(Some(value)),
            (true, Value::Optional(value)) => Ok(value.map(|value| (*value).clone())),
            (true, _) => Err(RuntimeError::overload()),
        }
    }

    /// The names and values of each element of a range.
    fn elements(&mut self, range: &Value, two: bool) -> Result<Vec<(Value, Value)>, RuntimeError> {
        self.spend(range.weight())?;
        Ok(match range {
            Value::List(list) if two => {
                let numbered = list.iter().enumerate();
                let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
                numbered.map(|(at, value)| (index(at), value.clone())).collect()
            }
            Value::List(list) => list.iter().map(|value| (value.clone(), Value::Null)).collect(),
            Value::Map(map) => map.entries().to_vec(),
            _ => return Err(RuntimeError::overload()),
        })
    }

    fn each(&mut self, each: &Each) -> Found {
        let range = self.value(&each.range)?;
        let elements = self.elements(&range, each.names.1.is_some())?;
        match each.kind {
            EachKind::All => self.any(each, elements, false),
            EachKind::Exists => self.any(each, elements, true),
            EachKind::ExistsOne => {
                let mut count = 0_usize;
                for element in elements {
                    count += usize::from(self.bool_of_element(each, &element, &each.body)?);
                }
                Ok(Value::Bool(count == 1))
            }
            EachKind::Filter => {
                let mut kept = Vec::new();
                for element in elements {
                    if self.bool_of_element(each, &element, &each.body)? {
                        kept.push(element.0);
                    }
                }
                Ok(Value::list(kept))
            }
            EachKind::ToList => {
                let mut made = Vec::new();
                for element in elements {
                    if self.passes(each, &element)? {
                        made.push(self.of_element(each, &element, &each.body)?);
                    }
                }
                Ok(Value::list(made))
            }
            EachKind::ToMap | EachKind::ToMapEntries => self.new_map(each, elements),
            EachKind::SortBy => self.sort_by(each, elements),
        }
    }

    fn of_element(&mut self, each: &Each, element: &(Value, Value), body: &Expr) -> Found {
        let (first, second) = (&each.names.0, each.names.1.as_ref());
        match second {
            Some(second) => self.scoped([(first, element.0.clone()), (second, element.1.clone())], body),
            None => self.scoped([(first, element.0.clone())], body),
        }
    }

    fn bool_of_element(
        &mut self,
        each: &Each,
        element: &(Value, Value),
        body: &Expr,
    ) -> Result<bool, RuntimeError> {
        match self.of_element(each, element, body)? {
            Value::Bool(value) => Ok(value),
            _ => Err(RuntimeError::overload()),
        }
    }

    fn passes(&mut self, each: &Each, element: &(Value, Value)) -> Result<bool, RuntimeError> {
        each.filter.as_ref().map_or(Ok(true), |filter| self.bool_of_element(each, element, filter))
    }

    /// `exists`, or `all` with the decisive answer turned: one element that decides makes up for errors of others.
    fn any(&mut self, each: &Each, elements: Vec<(Value, Value)>, decides: bool) -> Found {
        let mut answer = Ok(Value::Bool(!decides));
        for element in elements {
            match self.bool_of_element(each, &element, &each.body) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(error) => {
                    // Nothing makes up for a limit that is passed.
                    self.spend(0)?;
                    answer = Err(error);
                }
            }
        }
        answer
    }

    fn new_map(&mut self, each: &Each, elements: Vec<(Value, Value)>) -> Found {
        let mut made: Vec<(Value, Value)> = Vec::new();
        for element in elements {
            if !self.passes(each, &element)? {
                continue;
            }
            let body = self.of_element(each, &element, &each.body)?;
            if each.kind == EachKind::ToMap {
                made.push((element.0, body));
                continue;
            }
            let Value::Map(entries) = body else { return Err(RuntimeError::overload()) };
            for (key, value) in entries.entries() {
                self.spend(u64::try_from(made.len()).unwrap_or(u64::MAX))?;
                if made.iter().any(|(known, _)| known.equals(key).unwrap_or(false)) {
                    return Err(RuntimeError::new("insert failed: key already exists"));
                }
                made.push((key.clone(), value.clone()));
            }
        }
        Ok(Value::map(made))
    }

    fn sort_by(&mut self, each: &Each, elements: Vec<(Value, Value)>) -> Found {
        let mut keyed = Vec::with_capacity(elements.len());
        for element in elements {
            keyed.push((self.of_element(each, &element, &each.body)?, element.0));
        }
        functions::sorted(self, keyed).map(Value::list)
    }
}

/// True if the list of `in` is of constants, which upstream makes a hash table of.
fn is_written_out(arguments: &[Expr]) -> bool {
    let constant = |entry: &Entry| !entry.optional && matches!(entry.value, Expr::Literal(_));
    matches!(arguments, [_, Expr::List(entries)] if !entries.is_empty() && entries.iter().all(constant))
}

fn select(operand: &Value, field: &str, optional: bool) -> Found {
    match operand {
        Value::Map(map) if optional => {
            Ok(Value::Optional(map.field(field).map(|value| Arc::new(value.clone()))))
        }
        Value::Map(map) => map.field(field).cloned().ok_or_else(|| no_such_key(field)),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => select(inner, field, true),
        _ if optional => Ok(Value::Optional(None)),
        _ => Err(RuntimeError::overload()),
    }
}

/// True if there is a field; what has no fields does not have it.
fn has(operand: &Value, field: &str) -> bool {
    match operand {
        Value::Map(map) => map.field(field).is_some(),
        Value::Optional(Some(inner)) => has(inner, field),
        _ => false,
    }
}

/// `operand[key]`, or `operand[?key]`.
pub(super) fn index(operand: &Value, key: &Value, optional: bool) -> Found {
    let found = match operand {
        Value::Map(map) => map.find(key).cloned().ok_or_else(|| no_such_key(&functions::text_of(key))),
        Value::List(list) => {
            let at = match key {
                Value::Int(at) => usize::try_from(*at).ok(),
                Value::Uint(at) => usize::try_from(*at).ok(),
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Value::Double(at) if at.fract() == 0.0 && 0.0 <= *at => Some(*at as usize),
                _ => return Err(RuntimeError::overload()),
            };
            let found = at.and_then(|at| list.get(at)).cloned();
            found
                .ok_or_else(|| RuntimeError::new(format!("index out of bounds: {}", functions::text_of(key))))
        }
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => return index(inner, key, true),
        _ if optional => return Ok(Value::Optional(None)),
        _ => return Err(RuntimeError::overload()),
    };
    if optional { Ok(Value::Optional(found.ok().map(Arc::new))) } else { found }
}
