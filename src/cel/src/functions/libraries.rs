//! Kubernetes' libraries: quantities, versions, addresses, URLs and formats of names.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Called, bool};
use crate::RuntimeError;
use crate::net::{self, Cidr, Url};
use crate::value::Value;
use crate::version::Version;
use headroom_values::quantity::Quantity;

fn int(value: i64) -> Called {
    Ok(Some(Value::Int(value)))
}

fn text(text: &str) -> Called {
    Ok(Some(Value::text(text)))
}

fn error(text: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::new(text.to_string())
}

pub(super) fn call(function: &str, arguments: &[Value]) -> Called {
    match arguments {
        [Value::Quantity(subject, whole), rest @ ..] => quantity(function, *subject, *whole, rest),
        [Value::Version(subject), rest @ ..] => version(function, subject, rest),
        [Value::Ip(subject)] => ip(function, subject),
        [Value::Cidr(subject), rest @ ..] => cidr(function, subject, rest),
        [Value::Url(subject)] => url(function, subject),
        [Value::Format(name), Value::String(subject)] if function == "validate" => {
            let found = wrong_in(name, subject);
            Ok(Some(
                found.map_or(Value::Optional(None), |text| {
                    Value::present(Value::list(vec![Value::text(text)]))
                }),
            ))
        }
        [] => Ok(FORMATS.iter().find(|name| **name == function).map(|name| Value::Format(name))),
        [Value::String(subject), rest @ ..] => of_text(function, subject, rest),
        _ => Ok(None),
    }
}

/// Calls the functions on texts.
fn of_text(function: &str, subject: &str, rest: &[Value]) -> Called {
    let lenient = matches!(rest, [Value::Bool(true)]);
    let version = || if lenient { Version::parse_lenient(subject) } else { Version::parse(subject) };
    match (function, rest) {
        ("quantity", []) => {
            let quantity = Quantity::parse(subject).map_err(error)?;
            Ok(Some(Value::Quantity(quantity, counts_as_integer(subject))))
        }
        ("isQuantity", []) => bool(Quantity::parse(subject).is_ok()),
        ("semver", [] | [Value::Bool(_)]) => Ok(Some(Value::Version(Arc::new(version().map_err(error)?)))),
        ("isSemver", [] | [Value::Bool(_)]) => bool(version().is_ok()),
        ("ip", []) => match net::parse_ip(subject) {
            Some(address) => Ok(Some(Value::Ip(address))),
            None => Err(error(format!("IP address {subject:?} parse error"))),
        },
        ("isIP", []) => bool(net::parse_ip(subject).is_some()),
        ("ip.isCanonical", []) => match net::parse_ip(subject) {
            Some(address) => bool(address.to_string() == subject),
            None => Err(error(format!("IP address {subject:?} parse error"))),
        },
        ("cidr", []) => match Cidr::parse(subject) {
            Some(range) => Ok(Some(Value::Cidr(range))),
            None => Err(error(format!("network address {subject:?} parse error"))),
        },
        ("isCIDR", []) => bool(Cidr::parse(subject).is_some()),
        ("url", []) => match Url::parse(subject) {
            Some(url) => Ok(Some(Value::Url(Arc::new(url)))),
            None => Err(error(format!("URL {subject:?} parse error"))),
        },
        ("isURL", []) => bool(Url::parse(subject).is_some()),
        ("format.named", []) => {
            let found = FORMATS.iter().find(|name| name.strip_prefix("format.") == Some(subject));
            Ok(Some(found.map_or(Value::Optional(None), |name| Value::present(Value::Format(name)))))
        }
        _ => Ok(None),
    }
}

fn sign(order: Ordering) -> Called {
    int(order as i64)
}

fn quantity(function: &str, a: Quantity, whole: bool, rest: &[Value]) -> Called {
    let made = |quantity: Quantity, other_whole: bool| {
        Ok(Some(Value::Quantity(quantity, (whole || a.is_zero()) && other_whole)))
    };
    match (function, rest) {
        ("compareTo", [Value::Quantity(b, _)]) => sign(a.cmp(b)),
        ("isGreaterThan", [Value::Quantity(b, _)]) => bool(a > *b),
        ("isLessThan", [Value::Quantity(b, _)]) => bool(a < *b),
        ("sign", []) => sign(a.cmp(&Quantity::default())),
        ("add", [Value::Quantity(b, other_whole)]) => made(a.plus(*b), *other_whole),
        ("add", [Value::Int(b)]) => made(a.plus(Quantity::from_units(*b)), true),
        ("sub", [Value::Quantity(b, other_whole)]) => made(a.minus(*b), *other_whole),
        ("sub", [Value::Int(b)]) => made(a.minus(Quantity::from_units(*b)), true),
        ("isInteger", []) => bool(whole),
        ("asInteger", []) => {
            let units = a.whole_units().filter(|_| whole);
            units.map(|units| Some(Value::Int(units))).ok_or_else(|| error("cannot convert value to integer"))
        }
        ("asApproximateFloat", []) => Ok(Some(Value::Double(a.to_f64()))),
        _ => Ok(None),
    }
}

/// True if a quantity that is written so is kept as an integer: few digits, none behind the point, no small suffix.
///
/// Source: apimachinery pkg/api/resource/quantity.go, the fast path of ParseQuantity, and AsInt64.
fn counts_as_integer(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.trim_start_matches('0').len().max(1) + fraction.len();
    if let Some(power) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix) {
        return fraction.is_empty() && digits + 3 * (power + 1) < 15;
    }
    let exponent = match suffix {
        "" => Some(0),
        "k" => Some(3),
        "M" => Some(6),
        "G" => Some(9),
        "T" => Some(12),
        "P" => Some(15),
        "E" => Some(18),
        other => other.get(1..).and_then(|exponent| exponent.parse::<i32>().ok()),
    };
    let scale = exponent.and_then(|exponent| exponent.checked_sub(i32::try_from(fraction.len()).ok()?));
    let fits = |scale: i32| {
        let value = format!("{whole}{fraction}").parse::<i64>().ok();
        let factor = u32::try_from(scale).ok().and_then(|scale| 10_i64.checked_pow(scale));
        value.zip(factor).is_some_and(|(value, factor)| value.checked_mul(factor).is_some())
    };
    digits <= 18 && scale.is_some_and(fits)
}

fn version(function: &str, a: &Version, rest: &[Value]) -> Called {
    let number = |at: usize| int(i64::try_from(a.numbers()[at]).unwrap_or(i64::MAX));
    match (function, rest) {
        ("compareTo", [Value::Version(b)]) => sign(a.cmp(b)),
        ("isGreaterThan", [Value::Version(b)]) => bool(*a > **b),
        ("isLessThan", [Value::Version(b)]) => bool(*a < **b),
        ("major", []) => number(0),
        ("minor", []) => number(1),
        ("patch", []) => number(2),
        _ => Ok(None),
    }
}

fn ip(function: &str, address: &std::net::IpAddr) -> Called {
    match function {
        "family" => int(net::family(address)),
        "isUnspecified" => bool(address.is_unspecified()),
        "isLoopback" => bool(address.is_loopback()),
        "isLinkLocalMulticast" => bool(net::is_link_local_multicast(address)),
        "isLinkLocalUnicast" => bool(net::is_link_local_unicast(address)),
        "isGlobalUnicast" => bool(net::is_global_unicast(address)),
        _ => Ok(None),
    }
}

fn cidr(function: &str, range: &Cidr, rest: &[Value]) -> Called {
    match (function, rest) {
        ("containsIP", [Value::Ip(address)]) => bool(range.contains(*address)),
        ("containsIP", [Value::String(address)]) => match net::parse_ip(address) {
            Some(address) => bool(range.contains(address)),
            None => Err(error(format!("IP address {address:?} parse error"))),
        },
        ("containsCIDR", [Value::Cidr(other)]) => bool(range.contains_range(other)),
        ("containsCIDR", [Value::String(other)]) => match Cidr::parse(other) {
            Some(other) => bool(range.contains_range(&other)),
            None => Err(error(format!("network address {other:?} parse error"))),
        },
        ("ip", []) => Ok(Some(Value::Ip(range.address))),
        ("prefixLength", []) => int(range.length.into()),
        ("masked", []) => Ok(Some(Value::Cidr(range.masked()))),
        _ => Ok(None),
    }
}

fn url(function: &str, url: &Url) -> Called {
    match function {
        "getScheme" => text(&url.scheme),
        "getHost" => text(&url.host),
        "getHostname" => text(url.hostname()),
        "getPort" => text(url.port()),
        "getEscapedPath" => text(&url.path),
        "getQuery" => {
            let mut keys: Vec<(String, Vec<Value>)> = Vec::new();
            for (key, value) in url.query() {
                match keys.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, values)) => values.push(Value::text(value)),
                    None => keys.push((key, vec![Value::text(value)])),
                }
            }
            let entries = keys.into_iter().map(|(key, values)| (Value::text(key), Value::list(values)));
            Ok(Some(Value::map(entries.collect())))
        }
        _ => Ok(None),
    }
}

/// Formats by the functions that make them.
const FORMATS: [&str; 11] = [
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.qualifiedName",
    "format.labelValue",
    "format.uuid",
    "format.byte",
    "format.uri",
];

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_short_label(text: &str) -> bool {
    is_label(text) && text.len() <= 63
}

fn begins_with_letter(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_name_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.bytes().all(inner) && text.starts_with(end) && text.ends_with(end)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns the error of a text by a format; `None` if it is valid.
///
/// Source: apimachinery pkg/util/validation; apiserver pkg/cel/library/format.go.
fn wrong_in(format: &str, text: &str) -> Option<String> {
    // The last two characters of a prefix with a hyphen at its end stand for one that is right.
    let masked = || Some(format!("{}a", text.strip_suffix('-')?.strip_suffix(|_| true)?));
    let prefix = &*masked().unwrap_or_else(|| text.to_owned());
    let right = match format {
        "format.dns1123Label" => is_short_label(text),
        "format.dns1123LabelPrefix" => is_short_label(prefix),
        "format.dns1123Subdomain" => is_subdomain(text),
        "format.dns1123SubdomainPrefix" => is_subdomain(prefix),
        "format.dns1035Label" => is_short_label(text) && begins_with_letter(text),
        "format.dns1035LabelPrefix" => is_short_label(prefix) && begins_with_letter(prefix),
        "format.qualifiedName" => match text.split_once('/') {
            Some((domain, name)) => is_subdomain(domain) && is_name_part(name),
            None => is_name_part(text),
        },
        "format.uri" => Url::parse(text).is_some(),
        "format.labelValue" => text.is_empty() || is_name_part(text),
        "format.uuid" => {
            let hex: String = text.chars().filter(|c| *c != '-').collect();
            let dashes = text.match_indices('-').all(|(at, _)| matches!(at, 8 | 12..=13 | 16..=18 | 20..=23));
            hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && dashes
        }
        _ => {
            let digits = text.trim_end_matches('=');
            let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            !text.is_empty()
                && text.len().is_multiple_of(4)
                && text.len() - digits.len() <= 2
                && digits.bytes().all(inner)
        }
    };
    let name = format.strip_prefix("format.").unwrap_or(format);
    (!right).then(|| format!("does not match the format {name}"))
}
