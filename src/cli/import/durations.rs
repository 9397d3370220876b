//! Durations as Go, Karpenter and KEDA write them, and as our objects do.

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

/// Seconds as our durations are written: `1h30m`, `90s` as `1m30s`, `0s`.
#[must_use]
pub fn written(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let text: String = parts.iter().filter(|(n, _)| 0 < *n).map(|(n, unit)| format!("{n}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read_and_written_as_ours() {
        let cases = [
            ("10m", "10m"),
            ("10m0s", "10m"),
            ("1h30m", "1h30m"),
            ("1.5h", "1h30m"),
            ("300ms", "1s"),
            ("0", "0s"),
            ("720h", "720h"),
            ("90s", "1m30s"),
            ("2562047h47m16.854775807s", "2562047h47m17s"),
        ];
        for (go, ours) in cases {
            assert_eq!(go_seconds(go).map(written).as_deref(), Some(ours), "{go}");
        }
        for wrong in ["", "10", "-5m", "ten", "5d", "m"] {
            assert_eq!(go_seconds(wrong), None, "{wrong}");
        }
    }
}
