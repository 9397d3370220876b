//! Arithmetic and conversions between numbers and texts. Overflows are errors.

use super::{Called, text_of};
use crate::RuntimeError;
use crate::times;
use crate::value::Value;

fn overflow() -> RuntimeError {
    RuntimeError::new("integer overflow")
}

fn range() -> RuntimeError {
    RuntimeError::new("range error")
}

fn int(value: Option<i64>) -> Called {
    value.map(|value| Some(Value::Int(value))).ok_or_else(overflow)
}

fn uint(value: Option<u64>) -> Called {
    value.map(|value| Some(Value::Uint(value))).ok_or_else(overflow)
}

fn duration(nanos: Option<i64>) -> Called {
    nanos.map(|nanos| Some(Value::Duration(nanos))).ok_or_else(overflow)
}

fn timestamp(at: jiff::Timestamp) -> Called {
    Ok(Some(Value::Timestamp(at)))
}

pub(super) fn call(function: &str, arguments: &[Value]) -> Called {
    match (function, arguments) {
        ("-_", [Value::Int(a)]) => int(a.checked_neg()),
        ("-_", [Value::Double(a)]) => Ok(Some(Value::Double(-a))),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(function, a, b),
        ("int" | "uint" | "double" | "bool" | "string" | "bytes" | "timestamp" | "duration", [value]) => {
            conversion(function, value)
        }
        (_, [Value::Duration(nanos)]) => Ok(times::part_of_duration(function, *nanos).map(Value::Int)),
        (_, [Value::Timestamp(at)]) => Ok(times::part_of_timestamp(function, *at, None)?.map(Value::Int)),
        (_, [Value::Timestamp(at), Value::String(zone)]) => {
            Ok(times::part_of_timestamp(function, *at, Some(zone))?.map(Value::Int))
        }
        _ => Ok(None),
    }
}

fn arithmetic(function: &str, a: &Value, b: &Value) -> Called {
    let by_zero = matches!(b, Value::Int(0) | Value::Uint(0));
    if by_zero && function == "_/_" {
        return Err(RuntimeError::new("division by zero"));
    }
    if by_zero && function == "_%_" {
        return Err(RuntimeError::new("modulus by zero"));
    }
    match (function, a, b) {
        ("_+_", Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
        ("_-_", Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
        ("_*_", Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        ("_/_", Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        ("_%_", Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
        ("_+_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b)),
        ("_-_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
        ("_*_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        ("_/_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
        ("_%_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
        ("_+_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b)),
        ("_-_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_sub(*b)),
        ("_+_", Value::Timestamp(at), Value::Duration(nanos))
        | ("_+_", Value::Duration(nanos), Value::Timestamp(at)) => timestamp(times::moved(*at, *nanos)?),
        ("_-_", Value::Timestamp(at), Value::Duration(nanos)) => {
            timestamp(times::moved(*at, nanos.checked_neg().ok_or_else(overflow)?)?)
        }
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => duration(Some(times::between(*b, *a)?)),
        ("_+_", Value::Double(a), Value::Double(b)) => Ok(Some(Value::Double(a + b))),
        ("_-_", Value::Double(a), Value::Double(b)) => Ok(Some(Value::Double(a - b))),
        ("_*_", Value::Double(a), Value::Double(b)) => Ok(Some(Value::Double(a * b))),
        ("_/_", Value::Double(a), Value::Double(b)) => Ok(Some(Value::Double(a / b))),
        _ => Ok(None),
    }
}

/// Source: cel-go common/types, ConvertToType of each type.
pub(crate) fn conversion(function: &str, value: &Value) -> Called {
    let converted = match (function, value) {
        ("int", Value::Int(_))
        | ("uint", Value::Uint(_))
        | ("double", Value::Double(_))
        | ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_)) => value.clone(),
        ("timestamp", Value::Timestamp(_)) | ("duration", Value::Duration(_)) => value.clone(),
        ("timestamp", Value::String(text)) => Value::Timestamp(times::parse_timestamp(text)?),
        ("timestamp", Value::Int(seconds)) => {
            Value::Timestamp(jiff::Timestamp::from_second(*seconds).map_err(|_| range())?)
        }
        ("duration", Value::String(text)) => Value::Duration(times::parse_duration(text)?),
        ("int", Value::Timestamp(at)) => Value::Int(at.as_second()),
        ("int", Value::Duration(nanos)) => Value::Int(*nanos),
        ("int", Value::Uint(number)) => Value::Int(i64::try_from(*number).map_err(|_| range())?),
        ("int", Value::Double(number)) => Value::Int(whole(*number, -9.223_372_036_854_775e18)?),
        ("int", Value::String(text)) => Value::Int(text.parse().map_err(|_| range())?),
        ("uint", Value::Int(number)) => Value::Uint(u64::try_from(*number).map_err(|_| range())?),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        ("uint", Value::Double(number)) if (0.0..1.844_674_407_370_955e19).contains(number) => {
            Value::Uint(*number as u64)
        }
        ("uint", Value::Double(_)) => return Err(range()),
        ("uint", Value::String(text)) => Value::Uint(text.parse().map_err(|_| range())?),
        #[allow(clippy::cast_precision_loss)]
        ("double", Value::Int(number)) => Value::Double(*number as f64),
        #[allow(clippy::cast_precision_loss)]
        ("double", Value::Uint(number)) => Value::Double(*number as f64),
        ("double", Value::String(text)) => Value::Double(text.parse().map_err(|_| range())?),
        ("bool", Value::String(text)) => Value::Bool(truth(text)?),
        ("bytes", Value::String(text)) => Value::Bytes(text.as_bytes().into()),
        ("string", Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => return Err(RuntimeError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        (
            "string",
            Value::String(_)
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::Ip(_)
            | Value::Cidr(_),
        ) => Value::text(text_of(value)),
        _ => return Ok(None),
    };
    Ok(Some(converted))
}

#[allow(clippy::cast_possible_truncation)]
fn whole(number: f64, least: f64) -> Result<i64, RuntimeError> {
    if least < number && number < -least { Ok(number as i64) } else { Err(range()) }
}

/// Source: Go strconv.ParseBool.
fn truth(text: &str) -> Result<bool, RuntimeError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(RuntimeError::new("type conversion error from 'string' to 'bool'")),
    }
}
