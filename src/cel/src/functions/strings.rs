//! Texts: the standard functions, cel-go's string extension (version 2) and Kubernetes' pattern functions.

use super::{Called, bool, int, text_of};
use crate::RuntimeError;
use crate::eval::Run;
use crate::value::Value;

fn text(text: impl AsRef<str>) -> Called {
    Ok(Some(Value::text(text.as_ref())))
}

fn texts<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> Called {
    Ok(Some(Value::list(parts.into_iter().map(|part| Value::text(part.as_ref())).collect())))
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn outside(index: i64) -> RuntimeError {
    RuntimeError::new(format!("index out of range: {index}"))
}

pub(super) fn call(run: &mut Run<'_>, function: &str, arguments: &[Value]) -> Called {
    let [Value::String(subject), rest @ ..] = arguments else { return other(run, function, arguments) };
    match (function, rest) {
        ("size", []) => Ok(Some(int(subject.chars().count()))),
        ("_+_", [Value::String(b)]) => text(format!("{subject}{b}")),
        ("contains", [Value::String(b)]) => bool(subject.contains(&**b)),
        ("startsWith", [Value::String(b)]) => bool(subject.starts_with(&**b)),
        ("endsWith", [Value::String(b)]) => bool(subject.ends_with(&**b)),
        ("matches", [Value::String(pattern)]) => bool(run.pattern(pattern)?.is_match(subject)),
        ("find", [Value::String(pattern)]) => {
            let pattern = run.pattern(pattern)?;
            text(pattern.find(subject).map_or("", |found| found.as_str()))
        }
        ("findAll", [Value::String(pattern), most @ ..]) => {
            let pattern = run.pattern(pattern)?;
            let most = match most {
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            texts(pattern.find_iter(subject).take(most).map(|found| found.as_str()))
        }
        ("charAt", [Value::Int(at)]) => char_at(subject, *at),
        ("indexOf" | "lastIndexOf", [Value::String(sought), from @ ..]) => {
            let from = match from {
                [Value::Int(from)] => Some(*from),
                _ => None,
            };
            run.spend_on(length(subject).saturating_mul(length(sought)) / 10)?;
            index_of(subject, sought, from, function == "lastIndexOf")
        }
        ("lowerAscii", []) => text(subject.to_ascii_lowercase()),
        ("upperAscii", []) => text(subject.to_ascii_uppercase()),
        ("trim", []) => text(subject.trim()),
        ("strings.quote", []) => text(quoted(subject)),
        ("replace", [Value::String(old), Value::String(new), most @ ..]) => {
            let most = match most {
                [Value::Int(most)] => *most,
                _ => -1,
            };
            run.spend_on(length(subject).saturating_add(1).saturating_mul(length(new)))?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            text(subject.replacen(&**old, new, most))
        }
        ("split", [Value::String(separator), most @ ..]) => {
            let most = match most {
                [Value::Int(most)] => *most,
                _ => -1,
            };
            texts(split(subject, separator, most))
        }
        ("substring", [Value::Int(from)]) => substring(subject, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(subject, *from, Some(*to)),
        ("format", [Value::List(values)]) => text(format(run, subject, values)?),
        _ => Ok(None),
    }
}

fn other(run: &mut Run<'_>, function: &str, arguments: &[Value]) -> Called {
    match (function, arguments) {
        ("size", [Value::Bytes(bytes)]) => Ok(Some(int(bytes.len()))),
        ("_+_", [Value::Bytes(a), Value::Bytes(b)]) => {
            Ok(Some(Value::Bytes(a.iter().chain(b.iter()).copied().collect())))
        }
        ("join", [Value::List(parts), separator @ ..]) => {
            let separator = match separator {
                [Value::String(separator)] => &**separator,
                _ => "",
            };
            let mut joined = String::new();
            for (at, part) in parts.iter().enumerate() {
                let Value::String(part) = part else { return Err(RuntimeError::overload()) };
                run.spend_on(length(part).saturating_add(length(separator)))?;
                if at != 0 {
                    joined.push_str(separator);
                }
                joined.push_str(part);
            }
            text(joined)
        }
        _ => Ok(None),
    }
}

fn char_at(subject: &str, at: i64) -> Called {
    let index = usize::try_from(at).map_err(|_| outside(at))?;
    match subject.chars().nth(index) {
        Some(found) => text(found.to_string()),
        None if index == subject.chars().count() => text(""),
        None => Err(outside(at)),
    }
}

fn substring(subject: &str, from: i64, to: Option<i64>) -> Called {
    let chars: Vec<char> = subject.chars().collect();
    let start = usize::try_from(from).map_err(|_| outside(from))?;
    let end = match to {
        None => chars.len(),
        Some(to) => usize::try_from(to).map_err(|_| outside(to))?,
    };
    let found = chars.get(start..end).ok_or_else(|| outside(to.unwrap_or(from)))?;
    text(found.iter().collect::<String>())
}

/// Source: cel-go ext/strings.go, indexOf and lastIndexOf: places are counted in characters.
fn index_of(subject: &str, sought: &str, from: Option<i64>, last: bool) -> Called {
    let found = |at: Option<usize>| Ok(Some(at.map_or(Value::Int(-1), int)));
    let subject: Vec<char> = subject.chars().collect();
    let sought: Vec<char> = sought.chars().collect();
    let from = match from {
        None if last => subject.len(),
        None => 0,
        Some(from) => usize::try_from(from).map_err(|_| outside(from))?,
    };
    if sought.is_empty() {
        return found(Some(from.min(subject.len())));
    }
    if subject.len() < from || subject.len() < sought.len() {
        return found(None);
    }
    let is_at = |at: &usize| subject[*at..].starts_with(&sought);
    let end = subject.len() - sought.len();
    if last { found((0..=from.min(end)).rev().find(is_at)) } else { found((from..=end).find(is_at)) }
}

/// Source: Go strings.SplitN.
fn split(subject: &str, separator: &str, most: i64) -> Vec<String> {
    let most = match usize::try_from(most) {
        Ok(0) => return Vec::new(),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    if !separator.is_empty() {
        return subject.splitn(most, separator).map(str::to_owned).collect();
    }
    let mut rest = subject.chars();
    let mut parts: Vec<String> = Vec::new();
    while parts.len() + 1 < most {
        let Some(next) = rest.next() else { return parts };
        parts.push(next.to_string());
    }
    if !rest.as_str().is_empty() {
        parts.push(rest.as_str().to_owned());
    }
    parts
}

fn quoted(subject: &str) -> String {
    let mut quoted = String::from("\"");
    for c in subject.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' | '"' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Source: cel-go ext/formatting.go.
fn format(run: &mut Run<'_>, pattern: &str, values: &[Value]) -> Result<String, RuntimeError> {
    let mut written = String::new();
    let mut values = values.iter();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            written.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            written.push('%');
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = Some(digits.parse::<u16>().map_err(|_| RuntimeError::new("invalid precision"))?);
        }
        let (Some(verb), Some(value)) = (chars.next(), values.next()) else {
            return Err(RuntimeError::new("could not parse formatting clause"));
        };
        let part = clause(verb, precision, value)?;
        run.spend_on(length(&part))?;
        written.push_str(&part);
    }
    if values.next().is_some() {
        return Err(RuntimeError::new("too many arguments supplied to string.format"));
    }
    Ok(written)
}

fn clause(verb: char, precision: Option<u16>, value: &Value) -> Result<String, RuntimeError> {
    let precision = usize::from(precision.unwrap_or(6));
    Ok(match (verb, value) {
        ('s', value) => written(value, false)?,
        ('d', Value::Int(_) | Value::Uint(_)) => text_of(value),
        ('f', Value::Double(number)) => grouped(*number, precision),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', Value::Int(number)) => signed(*number, |size| format!("{size:b}")),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('o', Value::Int(number)) => signed(*number, |size| format!("{size:o}")),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x', Value::Int(number)) => signed(*number, |size| format!("{size:x}")),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Int(number)) => signed(*number, |size| format!("{size:X}")),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('x', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        _ => return Err(RuntimeError::new(format!("could not format with %{verb}"))),
    })
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

/// A number with its thousands parted by commas.
fn grouped(number: f64, precision: usize) -> String {
    let written = format!("{number:.precision$}");
    let digits = written.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let end = written.find('.').unwrap_or(written.len());
    let mut grouped = written[..digits].to_owned();
    for (at, digit) in written[digits..end].chars().enumerate() {
        if at != 0 && (end - digits - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &written[end..]
}

/// A value as `%s` writes it. Inside of lists and maps texts are quoted and floats have six digits.
fn written(value: &Value, inside: bool) -> Result<String, RuntimeError> {
    Ok(match value {
        Value::String(text) if inside => quoted(text),
        Value::Bytes(bytes) if inside => format!("b{}", quoted(&String::from_utf8_lossy(bytes))),
        Value::Double(number) if inside => grouped(*number, 6),
        Value::Duration(_) if inside => format!("duration({})", quoted(&text_of(value))),
        Value::Timestamp(_) if inside => format!("timestamp({})", quoted(&text_of(value))),
        Value::List(list) => {
            let parts = list.iter().map(|value| written(value, true)).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let entry = |(key, value): &(Value, Value)| {
                Ok(format!("{}:{}", written(key, true)?, written(value, true)?))
            };
            let mut parts = map.entries().iter().map(entry).collect::<Result<Vec<_>, RuntimeError>>()?;
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Type(_) => text_of(value),
        other => return Err(RuntimeError::new(format!("no formatting function for {}", other.type_name()))),
    })
}
