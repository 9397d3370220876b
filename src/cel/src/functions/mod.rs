//! Functions and operators whose arguments are all evaluated beforehand.

mod libraries;
mod lists;
mod numbers;
mod strings;

use super::RuntimeError;
use super::eval::{Run, index};
use super::times;
use super::value::Value;

pub(super) use lists::sorted;
pub(super) use numbers::conversion;

/// The value of a call. Which function a name means follows from the values.
pub(super) fn call(run: &mut Run<'_>, function: &str, arguments: &[Value]) -> Result<Value, RuntimeError> {
    for argument in arguments {
        run.spend_on(argument.weight())?;
    }
    if let Some(value) = general(function, arguments)? {
        return Ok(value);
    }
    if let Some(value) = numbers::call(function, arguments)? {
        return Ok(value);
    }
    if let Some(value) = libraries::call(function, arguments)? {
        return Ok(value);
    }
    if let Some(value) = strings::call(run, function, arguments)? {
        return Ok(value);
    }
    lists::call(run, function, arguments)?.ok_or_else(RuntimeError::overload)
}

/// Result of a function that may be found here; `None` if it is not.
type Called = Result<Option<Value>, RuntimeError>;

fn bool(value: bool) -> Called {
    Ok(Some(Value::Bool(value)))
}

fn int(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn general(function: &str, arguments: &[Value]) -> Called {
    let ordered = |wanted: fn(std::cmp::Ordering) -> bool| match arguments {
        [a, b] => bool(wanted(a.order(b)?)),
        _ => Ok(None),
    };
    match (function, arguments) {
        ("_==_", [a, b]) => bool(a.equals(b)?),
        // Upstream asks whether the answer is true, which an error is not.
        ("_!=_", [a, b]) => bool(a.equals(b) != Ok(true)),
        ("_<_", _) => ordered(std::cmp::Ordering::is_lt),
        ("_<=_", _) => ordered(std::cmp::Ordering::is_le),
        ("_>_", _) => ordered(std::cmp::Ordering::is_gt),
        ("_>=_", _) => ordered(std::cmp::Ordering::is_ge),
        ("!_", [Value::Bool(a)]) => bool(!a),
        ("_[_]", [operand, key]) => index(operand, key, false).map(Some),
        ("_[?_]", [operand, key]) => index(operand, key, true).map(Some),
        ("@in", [key, Value::Map(map)]) => bool(map.get(key).is_some()),
        ("type", [value]) => Ok(Some(Value::Type(value.type_name()))),
        ("dyn", [value]) => Ok(Some(value.clone())),
        ("size", [Value::Map(map)]) => Ok(Some(int(map.entries().len()))),
        ("optional.of", [value]) => Ok(Some(Value::present(value.clone()))),
        ("optional.none", []) => Ok(Some(Value::Optional(None))),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(Some(if is_zero(value) { Value::Optional(None) } else { Value::present(value.clone()) }))
        }
        ("hasValue", [Value::Optional(value)]) => bool(value.is_some()),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok(Some((**value).clone())),
            None => Err(RuntimeError::new("optional.none() dereference")),
        },
        _ => Ok(None),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Optional(None) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.entries().is_empty(),
        _ => false,
    }
}

/// Source: Go strconv.FormatFloat with format g and the shortest precision.
fn text_of_double(value: f64) -> String {
    if value.is_infinite() {
        return (if value < 0.0 { "-Inf" } else { "+Inf" }).to_owned();
    }
    if value == 0.0 || !value.is_finite() || (1e-4..1e6).contains(&value.abs()) {
        return value.to_string();
    }
    let written = format!("{value:e}");
    let Some((digits, exponent)) = written.split_once('e') else { return written };
    let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
    format!("{digits}e{sign}{size:0>2}")
}

/// A value as `string()` writes it.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => text_of_double(*value),
        Value::String(value) => value.to_string(),
        Value::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
        Value::Duration(nanos) => times::text_of_duration(*nanos),
        Value::Timestamp(at) => at.to_string(),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(range) => format!("{}/{}", range.address, range.length),
        other => other.type_name().to_owned(),
    }
}
