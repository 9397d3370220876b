//! Durations as Go, Karpenter and KEDA write them, and as our objects do.

pub(super) use headroom_core::go_values::go_seconds;

/// Seconds as our durations are written: `1h30m`, `90s` as `1m30s`, `0s`.
#[must_use]
pub(super) fn written(seconds: u64) -> String {
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
    }
}
