//! Lists and sets: the standard functions, cel-go's list extension (version 3), sets, and Kubernetes' list functions.

use std::cmp::Ordering;

use super::{Called, bool, int};
use crate::RuntimeError;
use crate::eval::Run;
use crate::value::Value;

fn list(values: Vec<Value>) -> Called {
    Ok(Some(Value::list(values)))
}

/// Elements as a cost.
fn cost(elements: usize) -> u64 {
    u64::try_from(elements).unwrap_or(u64::MAX)
}

fn contains(values: &[Value], sought: &Value) -> Result<bool, RuntimeError> {
    let mut failed = None;
    for value in values {
        match value.equals(sought) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(false), Err)
}

/// True if a set has an element; what cannot be compared is another element.
fn has_element(set: &[Value], sought: &Value) -> bool {
    set.iter().any(|value| value.equals(sought) == Ok(true))
}

fn contains_all(set: &[Value], sought: &[Value]) -> bool {
    sought.iter().all(|one| has_element(set, one))
}

/// The values in the order of their keys.
pub(crate) fn sorted(run: &mut Run<'_>, mut keyed: Vec<(Value, Value)>) -> Result<Vec<Value>, RuntimeError> {
    run.spend(cost(keyed.len()).saturating_mul(8))?;
    if let Some((first, _)) = keyed.first() {
        for (key, _) in &keyed {
            if key.type_name() != first.type_name() {
                return Err(RuntimeError::new("list elements must have the same type"));
            }
            key.order(key)?;
        }
    }
    keyed.sort_by(|(a, _), (b, _)| a.order(b).unwrap_or(Ordering::Equal));
    Ok(keyed.into_iter().map(|(_, value)| value).collect())
}

pub(super) fn call(run: &mut Run<'_>, function: &str, arguments: &[Value]) -> Called {
    match (function, arguments) {
        ("@in", [sought, Value::List(values)]) => {
            run.spend(cost(values.len()))?;
            bool(contains(values, sought)?)
        }
        ("size", [Value::List(values)]) => Ok(Some(int(values.len()))),
        ("lists.range", [Value::Int(count)]) => {
            let size = u64::try_from(*count);
            run.spend(size.map_err(|_| RuntimeError::new("lists.range: size must be non-negative"))?)?;
            list((0..*count).map(Value::Int).collect())
        }
        ("sets.contains", [Value::List(a), Value::List(b)]) => {
            run.spend(cost(a.len()).saturating_mul(cost(b.len())))?;
            bool(contains_all(a, b))
        }
        ("sets.equivalent", [Value::List(a), Value::List(b)]) => {
            run.spend(cost(a.len()).saturating_mul(cost(b.len())))?;
            bool(contains_all(a, b) && contains_all(b, a))
        }
        ("sets.intersects", [Value::List(a), Value::List(b)]) => {
            run.spend(cost(a.len()).saturating_mul(cost(b.len())))?;
            bool(b.iter().any(|one| has_element(a, one)))
        }
        (_, [Value::List(values), rest @ ..]) => {
            run.spend(cost(values.len()))?;
            of_list(run, function, values, rest)
        }
        _ => Ok(None),
    }
}

fn of_list(run: &mut Run<'_>, function: &str, values: &[Value], rest: &[Value]) -> Called {
    match (function, rest) {
        ("_+_", [Value::List(more)]) => list(values.iter().chain(more.iter()).cloned().collect()),
        ("isSorted", []) => {
            for pair in values.windows(2) {
                if pair[0].order(&pair[1])?.is_gt() {
                    return bool(false);
                }
            }
            bool(true)
        }
        ("sum", []) => sum(run, values),
        ("max", []) => most(values, Ordering::is_gt),
        ("min", []) => most(values, Ordering::is_lt),
        ("indexOf", [sought]) => place(values.iter().enumerate(), sought),
        ("lastIndexOf", [sought]) => place(values.iter().enumerate().rev(), sought),
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let ends = (usize::try_from(*from).ok(), usize::try_from(*to).ok());
            let part = if let (Some(from), Some(to)) = ends { values.get(from..to) } else { None };
            match part {
                Some(part) => list(part.to_vec()),
                None => Err(RuntimeError::new("cannot slice: index out of range")),
            }
        }
        ("flatten", depth @ ([] | [Value::Int(_)])) => {
            let depth = match depth {
                [Value::Int(depth)] => *depth,
                _ => 1,
            };
            let depth =
                usize::try_from(depth).map_err(|_| RuntimeError::new("level must be non-negative"))?;
            let mut flat = Vec::new();
            flatten(run, values, depth, &mut flat)?;
            list(flat)
        }
        ("sort", []) => {
            let keyed = values.iter().map(|value| (value.clone(), value.clone())).collect();
            list(sorted(run, keyed)?)
        }
        ("reverse", []) => list(values.iter().rev().cloned().collect()),
        ("distinct", []) => {
            let mut kept: Vec<Value> = Vec::new();
            for value in values {
                run.spend(cost(kept.len()))?;
                if !contains(&kept, value)? {
                    kept.push(value.clone());
                }
            }
            list(kept)
        }
        ("first", []) => Ok(Some(values.first().cloned().map_or(Value::Optional(None), Value::present))),
        ("last", []) => Ok(Some(values.last().cloned().map_or(Value::Optional(None), Value::present))),
        ("optional.unwrap" | "unwrapOpt", []) => {
            let mut kept = Vec::new();
            for value in values {
                let Value::Optional(value) = value else { return Err(RuntimeError::overload()) };
                kept.extend(value.iter().map(|value| (**value).clone()));
            }
            list(kept)
        }
        _ => Ok(None),
    }
}

fn sum(run: &mut Run<'_>, values: &[Value]) -> Called {
    let Some((first, rest)) = values.split_first() else { return Ok(Some(Value::Int(0))) };
    if !matches!(first, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)) {
        return Err(RuntimeError::overload());
    }
    let mut sum = first.clone();
    for value in rest {
        sum = super::call(run, "_+_", &[sum, value.clone()])?;
    }
    Ok(Some(sum))
}

fn most(values: &[Value], better: fn(Ordering) -> bool) -> Called {
    let Some((first, rest)) = values.split_first() else {
        return Err(RuntimeError::new("min or max called on empty list"));
    };
    let mut best = first;
    for value in rest {
        if better(value.order(best)?) {
            best = value;
        }
    }
    Ok(Some(best.clone()))
}

fn place<'a>(values: impl Iterator<Item = (usize, &'a Value)>, sought: &Value) -> Called {
    for (at, value) in values {
        if value.equals(sought)? {
            return Ok(Some(int(at)));
        }
    }
    Ok(Some(Value::Int(-1)))
}

fn flatten(
    run: &mut Run<'_>,
    values: &[Value],
    depth: usize,
    flat: &mut Vec<Value>,
) -> Result<(), RuntimeError> {
    for value in values {
        run.spend(1)?;
        match value {
            Value::List(inner) if 0 < depth => flatten(run, inner, depth - 1, flat)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}
