//! Recurring windows of time in a time zone. Pure: `now` is always an argument.

use std::sync::Arc;

use crate::time::Seconds;

/// A recurring window: opens when `start` fires in `time_zone`, stays open for `duration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// IANA name.
    pub time_zone: Arc<str>,
    /// Five-field cron expression.
    pub start: Arc<str>,
    /// At most 168 h.
    pub duration: Seconds,
}
