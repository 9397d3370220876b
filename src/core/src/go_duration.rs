//! Reads durations as Go writes them: in flags, tags and annotations of other programs.

/// The seconds of a Go duration such as `1h30m`, `90s`, `1.5h` or `0`, rounded up to whole seconds; `None` when it is
/// none, or negative.
#[must_use]
pub fn go_seconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut seconds) = (text, 0.0_f64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(|b| !b.is_ascii_digit() && *b != b'.').count();
        let (unit, next) = after.split_at_checked(letters)?;
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" | "μs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = next;
    }
    // Far beyond any duration that a field takes, and within what a float holds exactly.
    let rounded = seconds.ceil();
    (rounded <= 1e12).then(|| format!("{rounded:.0}").parse().ok()).flatten()
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
        for wrong in ["", "10", "-5m", "ten", "5d", "m"] {
            assert_eq!(go_seconds(wrong), None, "{wrong}");
        }
    }
}
