//! A value that may be unknown: the type that keeps a failed read from becoming a number.

use serde::{Deserialize, Serialize};

use crate::time::{Seconds, UnixTime};

/// A value read from outside the process, with its age (design rule 6).
///
/// A stale value stays `Known` with its old `at`; callers ask [`Known::fresh`] with the age they can bear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
pub enum Known<T> {
    /// The value as read at `at`.
    Known {
        /// The value itself.
        value: T,
        /// Time at which it was read.
        at: UnixTime,
    },
    /// Never read since the process started, or the last read failed before any succeeded.
    Unknown {
        /// Reason, in words for a condition's message.
        why: String,
    },
}

impl<T> Known<T> {
    /// The value, whatever its age.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// Time at which it was read.
    #[must_use]
    pub fn read_at(&self) -> Option<UnixTime> {
        match self {
            Self::Known { at, .. } => Some(*at),
            Self::Unknown { .. } => None,
        }
    }

    /// The value if it is no older than `age_max` at `now`.
    #[must_use]
    pub fn fresh(&self, now: UnixTime, age_max: Seconds) -> Option<&T> {
        match self {
            Self::Known { value, at } if now.since(*at) <= age_max => Some(value),
            Self::Known { .. } | Self::Unknown { .. } => None,
        }
    }
}
