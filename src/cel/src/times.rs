//! Timestamps and durations: how they are read and written, and their parts.
//!
//! Source: cel-go common/types/timestamp.go and duration.go; Go time.ParseDuration.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::RuntimeError;

fn error(text: &str) -> RuntimeError {
    RuntimeError::new(text)
}

/// The difference of a timestamp and a duration, or their sum.
pub(super) fn moved(at: Timestamp, nanos: i64) -> Result<Timestamp, RuntimeError> {
    at.checked_add(SignedDuration::from_nanos(nanos)).map_err(|_| error("timestamp overflow"))
}

/// The time from one timestamp to another, in nanoseconds.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Result<i64, RuntimeError> {
    i64::try_from(to.as_nanosecond() - from.as_nanosecond()).map_err(|_| error("duration overflow"))
}

/// A timestamp of RFC 3339.
pub(super) fn parse_timestamp(text: &str) -> Result<Timestamp, RuntimeError> {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        0..19 => byte.is_ascii_digit(),
        _ => byte.is_ascii_digit() || matches!(byte, b'.' | b'Z' | b'+' | b'-' | b':'),
    };
    let right = 20 <= text.len() && text.bytes().enumerate().all(shape);
    let parsed = text.parse::<Timestamp>().ok().filter(|_| right);
    parsed.ok_or_else(|| error("invalid timestamp"))
}

/// A duration in nanoseconds: numbers with a unit of h, m, s, ms, us or ns.
pub(super) fn parse_duration(text: &str) -> Result<i64, RuntimeError> {
    let invalid = || error("invalid duration");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(invalid()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0
            || 18 < whole.len()
            || 18 < fraction.len()
            || fraction.contains('.')
        {
            return Err(invalid());
        }
        let number = format!("{whole}{fraction}").parse::<i128>().map_err(|_| invalid())?;
        nanos += number * unit / 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        rest = after;
    }
    i64::try_from(if negative { -nanos } else { nanos }).map_err(|_| invalid())
}

/// A duration as `string()` writes it.
#[allow(clippy::cast_precision_loss)]
pub(super) fn text_of_duration(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}

/// A part of a duration: all of its hours, minutes, seconds or milliseconds.
pub(super) fn part_of_duration(function: &str, nanos: i64) -> Option<i64> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return None,
    };
    Some(nanos / unit)
}

/// A part of a timestamp in a time zone, UTC if none is given.
pub(super) fn part_of_timestamp(
    function: &str,
    at: Timestamp,
    zone: Option<&str>,
) -> Result<Option<i64>, RuntimeError> {
    let zone = zone.map_or(Ok(TimeZone::UTC), time_zone)?;
    let at: Zoned = at.to_zoned(zone);
    Ok(Some(match function {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return Ok(None),
    }))
}

/// A zone by its name, or by hours and minutes from UTC.
fn time_zone(name: &str) -> Result<TimeZone, RuntimeError> {
    let unknown = || error("unknown time zone");
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let (hours, minutes): (i32, i32) = match (hours.parse(), minutes.parse()) {
        (Ok(hours), Ok(minutes)) => (hours, minutes),
        _ => return Err(unknown()),
    };
    let minutes = if hours < 0 || name.starts_with('-') { -minutes } else { minutes };
    let offset = Offset::from_seconds(hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)));
    offset.map(TimeZone::fixed).map_err(|_| unknown())
}
