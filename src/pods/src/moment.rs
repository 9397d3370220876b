//! Instants finer than a second: what pods and metrics come with, and what the reference's memory keeps.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use headroom_values::time::{Seconds, UnixTime};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// An instant in nanoseconds since the Unix epoch, from the year 1677 to 2262; instants beyond are cut to its ends.
///
/// Decisions whose memory is kept in status are made at whole seconds; the finer part serves samples of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    nanos: i64,
}

impl Moment {
    /// So many nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// The instant of a jiff timestamp.
    #[must_use]
    pub fn from_jiff(timestamp: jiff::Timestamp) -> Self {
        let end = if timestamp.as_second() < 0 { i64::MIN } else { i64::MAX };
        Self { nanos: i64::try_from(timestamp.as_nanosecond()).unwrap_or(end) }
    }

    /// The same instant in jiff's type.
    #[must_use]
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(i128::from(self.nanos)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// The whole second it lies in, rounded down.
    #[must_use]
    pub const fn second(self) -> UnixTime {
        UnixTime(self.nanos.div_euclid(NANOS_PER_SECOND))
    }

    /// The beginning of the whole second it lies in.
    #[must_use]
    pub fn whole(self) -> Self {
        self.second().into()
    }

    /// This instant moved by a length of time; cut to the range.
    #[must_use]
    pub const fn plus(self, length: Seconds) -> Self {
        Self { nanos: self.nanos.saturating_add(length.0.saturating_mul(NANOS_PER_SECOND)) }
    }

    /// This instant moved back by a length of time; cut to the range.
    #[must_use]
    pub const fn minus(self, length: Seconds) -> Self {
        Self { nanos: self.nanos.saturating_sub(length.0.saturating_mul(NANOS_PER_SECOND)) }
    }

    /// Whole seconds from `earlier` to this instant, rounded down; negative when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Seconds {
        Seconds(self.nanos.saturating_sub(earlier.nanos).div_euclid(NANOS_PER_SECOND))
    }
}

impl From<UnixTime> for Moment {
    fn from(at: UnixTime) -> Self {
        Self { nanos: at.0.saturating_mul(NANOS_PER_SECOND) }
    }
}

impl Serialize for Moment {
    /// As text: a number of nanoseconds is more than many readers of JSON can hold.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let timestamp = text.parse::<jiff::Timestamp>();
        timestamp
            .map(Self::from_jiff)
            .map_err(|error| D::Error::custom(format!("{text:?} is no time: {error}")))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_jiff().fmt(f)
    }
}
