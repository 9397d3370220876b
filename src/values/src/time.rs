//! Whole-second instants and lengths of time: what History can hold. It never reads a clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instant in whole seconds since the Unix epoch.
///
/// Design rule 2 (History in whole seconds) is why nothing finer exists here: what status cannot hold, a decision
/// may not depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnixTime(pub i64);

/// A length of time in whole seconds; may be negative as a difference of two instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seconds(pub i64);

impl UnixTime {
    /// This instant moved by `length`; saturates at the ends of the range.
    #[must_use]
    pub fn plus(self, length: Seconds) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// The time from `earlier` to this instant; negative when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC, as status writes it. Instants outside of years -9999 to 9999 are clamped.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        self.to_jiff().to_string()
    }

    /// The same instant in jiff's type; clamped to jiff's range.
    #[must_use]
    pub fn to_jiff(self) -> jiff::Timestamp {
        let clamped = self.0.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        jiff::Timestamp::from_second(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// The instant of a jiff timestamp; fractions of a second are dropped (rounded down).
    #[must_use]
    pub fn from_jiff(timestamp: jiff::Timestamp) -> Self {
        let second = timestamp.as_second();
        Self(if timestamp.subsec_nanosecond() < 0 { second - 1 } else { second })
    }

    /// Parses RFC 3339 as the API server writes it; `None` when it is not a timestamp.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(Self::from_jiff)
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl Seconds {
    /// A length in minutes.
    #[must_use]
    pub const fn minutes(minutes: i64) -> Self {
        Self(minutes * 60)
    }

    /// A length in hours.
    #[must_use]
    pub const fn hours(hours: i64) -> Self {
        Self(hours * 3600)
    }
}

impl fmt::Display for Seconds {
    /// `90s` prints as `1m30s`, as the specs write durations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let total = self.0.unsigned_abs();
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
        f.write_str(sign)?;
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 || total == 0 {
            write!(f, "{seconds}s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_as_specs_write_them() {
        assert_eq!(Seconds(0).to_string(), "0s");
        assert_eq!(Seconds(90).to_string(), "1m30s");
        assert_eq!(Seconds::hours(3).to_string(), "3h");
        assert_eq!(Seconds(-61).to_string(), "-1m1s");
    }

    #[test]
    fn fractions_before_the_epoch_round_down() {
        let half = jiff::Timestamp::new(-1, -500_000_000).expect("in range");
        assert_eq!(UnixTime::from_jiff(half), UnixTime(-2));
    }

    #[test]
    fn instants_survive_their_text() {
        let at = UnixTime(1_795_000_000);
        assert_eq!(UnixTime::parse(&at.to_rfc3339()), Some(at));
    }
}
