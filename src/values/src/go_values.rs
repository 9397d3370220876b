//! Reads durations and truth values as Go writes them: in flags, tags and annotations of other programs.

/// Longest text that is read; Go itself writes none that is half as long.
const BYTES_MAX: usize = 64;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// Longest duration that is read, in seconds: far beyond any that a field takes.
const SECONDS_MAX: u64 = 1_000_000_000_000;

/// The seconds of a Go duration such as `1h30m`, `90s`, `1.5h` or `0`, rounded up to whole seconds; `None` when it is
/// none, negative, or beyond any use.
#[must_use]
pub fn go_seconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanos = 0_i128;
    if rest.is_empty() || text.len() > BYTES_MAX {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let unit_nanos = match unit {
            "h" => 3_600 * NANOS_PER_SECOND,
            "m" => 60 * NANOS_PER_SECOND,
            "s" => NANOS_PER_SECOND,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        nanos = nanos.checked_add(scaled(number, unit_nanos)?)?;
        rest = next;
    }
    let seconds = u64::try_from(nanos.checked_add(NANOS_PER_SECOND - 1)? / NANOS_PER_SECOND).ok()?;
    (seconds <= SECONDS_MAX).then_some(seconds)
}

/// A truth value such as `true` or `0`; `None` when it is none.
///
/// Source: Go's `strconv.ParseBool`.
#[must_use]
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A decimal number times `unit`; `None` when it is not a number or far too large.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = fraction.chars().take(9).collect();
    let fraction: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let divisor = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    whole.checked_mul(unit)?.checked_add(fraction.checked_mul(unit)? / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_duration_or_negative_is_refused() {
        assert_eq!(
            (go_seconds("1.5h"), go_seconds("300ms"), go_seconds("0")),
            (Some(5_400), Some(1), Some(0))
        );
        for wrong in ["", "10", "-5m", "ten", "5d", "m", "1.2.3s"] {
            assert_eq!(go_seconds(wrong), None, "{wrong}");
        }
    }
}
