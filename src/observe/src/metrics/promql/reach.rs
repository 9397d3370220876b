//! Range of a query and number of its subqueries' steps, and the limits on both. Pure.

use headroom_core::time::Seconds;

use super::QueryError;

/// Longest time that a query looks back by its ranges, nested ones added up: 7 days. Offsets do not count.
const LOOK_BACK_MAX_SECONDS: f64 = 7.0 * 86_400.0;
/// Most steps of a subquery, nested ones multiplied: what Prometheus itself allows the range query of a graph.
const SUBQUERY_STEPS_MAX: f64 = 11_000.0;
/// Step of a subquery that names none, in seconds. The server's own setting decides (a minute by default); this is the
/// shortest in use.
const STEP_DEFAULT_SECONDS: f64 = 15.0;

/// Maximum that a part of a query reads of each series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    seconds: f64,
    steps: f64,
}

impl Reach {
    /// Of a selector without a range, and of a number.
    pub(super) const INSTANT: Self = Self { seconds: 0.0, steps: 1.0 };

    /// The worse of both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { seconds: self.seconds.max(other.seconds), steps: self.steps.max(other.steps) }
    }

    /// With a range around it.
    ///
    /// # Errors
    /// If more than [`LOOK_BACK_MAX_SECONDS`] are looked back.
    pub(super) fn over(self, range: f64) -> Result<Self, QueryError> {
        let seconds = self.seconds + range;
        if LOOK_BACK_MAX_SECONDS < seconds {
            return Err(QueryError::LooksBack { wanted: whole(seconds), most: whole(LOOK_BACK_MAX_SECONDS) });
        }
        Ok(Self { seconds, ..self })
    }

    /// With a subquery around it.
    ///
    /// # Errors
    /// As [`Self::over`], and if there are more than [`SUBQUERY_STEPS_MAX`] steps.
    pub(super) fn stepped(self, range: f64, step: Option<f64>) -> Result<Self, QueryError> {
        let around = self.over(range)?;
        let steps = self.steps * (range / step.unwrap_or(STEP_DEFAULT_SECONDS)).ceil().max(1.0);
        // A step of 0 gives infinity.
        if steps <= SUBQUERY_STEPS_MAX {
            return Ok(Self { steps, ..around });
        }
        Err(QueryError::TooManySteps { most: whole(SUBQUERY_STEPS_MAX).0 })
    }
}

/// A length of time in seconds, as a query writes it: `1h30m`, or a decimal number of seconds. `None` for anything else,
/// numbers with a leading 0 among them, which some servers read as octal.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let octal = text.len() > 1 && text.starts_with('0') && !text.starts_with("0.");
    if plain {
        return if octal { None } else { text.parse().ok() };
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        total += number
            * match &rest[..letters] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                "w" => 604_800.0,
                "y" => 31_536_000.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Some(total)
}

/// Rounded up; saturates, as a cast from float to integer does.
#[allow(clippy::cast_possible_truncation)]
fn whole(seconds: f64) -> Seconds {
    Seconds(seconds.ceil() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_prometheus_reads_them() {
        for (text, expected) in [
            ("5m", Some(300.0)),
            ("1h30m", Some(5_400.0)),
            ("1w2d", Some(777_600.0)),
            ("1y", Some(31_536_000.0)),
            ("250ms", Some(0.25)),
            ("300", Some(300.0)),
            ("0.5", Some(0.5)),
            ("0777", None),
            ("0x1F", None),
            ("1e9", None),
            ("5", Some(5.0)),
            ("5m3", None),
            ("5mm", None),
            ("5M", None),
            ("1_0", None),
            ("1.5.5", None),
            ("m", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
