//! Windows of time that come again and again: a cron expression in a time zone and a duration; reads no clock.
//!
//! The cron expressions are read here and not by a crate. croner is the only kept one that works with jiff; it takes
//! more than five fields and `@` names, which the API forbids, skips the times of a clock change for expressions with
//! `*` or steps, where we promise one rule for all, and searches to the year 5000 before it gives up.

use std::sync::Arc;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Longest window, in seconds: a week.
pub const MAX_DURATION_SECONDS: u64 = 168 * 3600;

/// Days that a search covers before it returns never: 29 February comes after at most eight years.
const MAX_SEARCH_DAYS: u32 = 8 * 366 + 2;

/// Openings that may follow one another without a break before the answer is cut short.
const MAX_MERGED_OPENINGS: u32 = 64;

/// Reason why a window can not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The time zone is not in the IANA database that the operator carries.
    #[error("time zone {0:?} is not in the IANA database: use a name such as Europe/Berlin")]
    UnknownTimeZone(String),
    /// The cron expression can not be read.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// The duration is 0 or longer than [`MAX_DURATION_SECONDS`].
    #[error("a window must be open for more than 0 and at most 168h")]
    Duration,
}

/// Reason why a cron expression can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// There are not exactly five fields.
    #[error("a cron expression has 5 fields (minute, hour, day of month, month, day of week), not {0}")]
    FieldCount(usize),
    /// A field is not understood.
    #[error("{text:?} is no {field}: use numbers from {min} to {max}, *, lists, ranges and steps")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The part of it that is not understood.
        text: String,
        /// The smallest number that the field takes.
        min: u8,
        /// The largest number that the field takes.
        max: u8,
    },
}

/// A cron expression of five fields. Each field is a set of numbers.
///
/// A day must match both day fields, unless neither begins with `*`: then one of the two is enough, as in cron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    either_day_field: bool,
}

struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH: Field = Field { name: "month", min: 1, max: 12, names: MONTHS };
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// 0 and 7 are both Sunday.
const WEEKDAY: Field = Field { name: "day of week", min: 0, max: 7, names: WEEKDAYS };

impl Cron {
    /// Reads an expression of five fields separated by spaces. A field is a list (`,`) of `*`, numbers and ranges
    /// (`1-5`), each with an optional step (`/2`; after a single number it runs to the field's end). Months and days of
    /// week also by their first three English letters, in any case; `0` and `7` are both Sunday.
    ///
    /// # Errors
    /// If it is anything else. Never panics. An expression that never fires (`0 0 30 2 *`) is not an error.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(CronError::FieldCount(fields.len()));
        };
        let weekdays = parse_field(weekday, &WEEKDAY)?;
        Ok(Self {
            minutes: parse_field(minute, &MINUTE)?,
            hours: parse_field(hour, &HOUR)?,
            days: parse_field(day, &DAY)?,
            months: parse_field(month, &MONTH)?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day_field: !day.starts_with('*') && !weekday.starts_with('*'),
        })
    }

    /// The first moment after `now` at which the expression fires in the time zone; none if there is none within eight
    /// years. A local time that a clock change skips fires when the skipped stretch ends; one that is repeated fires
    /// the first time only.
    pub fn next_after(&self, now: Timestamp, time_zone: &TimeZone) -> Option<Timestamp> {
        let local = time_zone.to_datetime(now);
        let mut date = local.date();
        for _ in 0..MAX_SEARCH_DAYS {
            if self.fires_on(date) {
                // Local times that the clock has shown already have fired; only the others are worth a look at the zone.
                let times = self.times(date).filter(|time| local < *time);
                if let Some(fire) = times.filter_map(|time| instant(time, time_zone)).find(|fire| now < *fire)
                {
                    return Some(fire);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The last moment at or before `now`, and not before `earliest`, at which the expression fires.
    fn last_until(&self, now: Timestamp, earliest: Timestamp, time_zone: &TimeZone) -> Option<Timestamp> {
        let first_date = time_zone.to_datetime(earliest).date();
        let local = latest_local_time(now, time_zone);
        let mut date = local.date();
        for _ in 0..MAX_SEARCH_DAYS {
            if self.fires_on(date) {
                let times = self.times(date).rev().filter(|time| *time <= local);
                if let Some(fire) =
                    times.filter_map(|time| instant(time, time_zone)).find(|fire| *fire <= now)
                {
                    return (earliest <= fire).then_some(fire);
                }
            }
            if date < first_date {
                return None;
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    fn fires_on(&self, date: Date) -> bool {
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let day = has(self.days, date.day());
        let right_day = if self.either_day_field { day || weekday } else { day && weekday };
        has(self.months, date.month()) && right_day
    }

    /// The local times of a day at which the expression fires, in order.
    fn times(&self, date: Date) -> impl DoubleEndedIterator<Item = DateTime> {
        let hours = (0..24_i8).filter(|hour| has(self.hours, *hour));
        hours.flat_map(move |hour| {
            let minutes = (0..60_i8).filter(|minute| has(self.minutes, *minute));
            minutes.map(move |minute| date.at(hour, minute, 0, 0))
        })
    }
}

/// A stretch of time that comes again and again. Open from each start, inclusive, to start plus duration, exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Window {
    /// The cron expression as it was written.
    text: Arc<str>,
    time_zone: TimeZone,
    start: Cron,
    duration: SignedDuration,
}

impl Window {
    /// A window from its three parts: the IANA name of a time zone, a cron expression, and how long it stays open in
    /// real time. The time zones are those that the operator carries, never the machine's, so that all replicas agree.
    ///
    /// # Errors
    /// If the time zone is unknown, the expression can not be read, or the duration is 0 or longer than 168 hours.
    ///
    /// ```
    /// use headroom_values::window::{Window, WindowError};
    /// use jiff::Timestamp;
    ///
    /// // Monday to Friday from 8 o'clock in Berlin, for ten hours.
    /// let office = Window::new("Europe/Berlin", "0 8 * * 1-5", 36_000)?;
    /// let at = |text: &str| text.parse::<Timestamp>().expect("a time");
    /// assert_eq!(office.active_at(at("2026-03-02T09:00:00Z")), Some(at("2026-03-02T17:00:00Z")));
    /// // Closed on Saturday: it opens on Monday, at the same local time although summer time begins on Sunday.
    /// assert_eq!(office.active_at(at("2026-03-28T09:00:00Z")), None);
    /// assert_eq!(office.next_change(at("2026-03-28T09:00:00Z")), Some(at("2026-03-30T06:00:00Z")));
    /// # Ok::<(), WindowError>(())
    /// ```
    pub fn new(time_zone: &str, start: &str, duration_seconds: u64) -> Result<Self, WindowError> {
        let seconds = i64::try_from(duration_seconds).map_err(|_| WindowError::Duration)?;
        if seconds == 0 || MAX_DURATION_SECONDS < duration_seconds {
            return Err(WindowError::Duration);
        }
        let text = start.into();
        let start = Cron::parse(start)?;
        let time_zone = TimeZoneDatabase::bundled()
            .get(time_zone)
            .map_err(|_| WindowError::UnknownTimeZone(time_zone.to_owned()))?;
        Ok(Self { text, time_zone, start, duration: SignedDuration::from_secs(seconds) })
    }

    /// Time until which the window is open, if it is open at `now`. Openings that overlap or touch count as one; of more than
    /// 64 in a row only the first are counted, and the answer is then a moment at which it is still open.
    pub fn active_at(&self, now: Timestamp) -> Option<Timestamp> {
        let earliest = moved(now, -self.duration);
        let mut start = self.start.last_until(now, earliest, &self.time_zone)?;
        let mut until = moved(start, self.duration);
        if until <= now {
            return None;
        }
        for _ in 0..MAX_MERGED_OPENINGS {
            match self.start.last_until(until, start, &self.time_zone) {
                Some(next) if start < next => start = next,
                Some(_) | None => break,
            }
            until = moved(start, self.duration);
        }
        Some(until)
    }

    /// Returns when the window opens or closes next, strictly after `now`: if it is open the end that
    /// [`Window::active_at`] returns, else the next start; `None` if it does not open within eight years.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.active_at(now).or_else(|| self.start.next_after(now, &self.time_zone))
    }
}

/// A window as a file holds it: what [`Window::new`] is made from.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    time_zone: String,
    start: Arc<str>,
    duration_seconds: u64,
}

impl From<Window> for Written {
    fn from(window: Window) -> Self {
        Self {
            // Windows are made from a name of the bundled database alone, so there is one.
            time_zone: window.time_zone.iana_name().unwrap_or("UTC").to_owned(),
            start: window.text,
            duration_seconds: window.duration.as_secs().unsigned_abs(),
        }
    }
}

impl TryFrom<Written> for Window {
    type Error = WindowError;

    fn try_from(written: Written) -> Result<Self, WindowError> {
        Self::new(&written.time_zone, &written.start, written.duration_seconds)
    }
}

fn moved(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// The moment at which a local time fires: the first of two, or the end of the stretch that skips it.
fn instant(local: DateTime, time_zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = time_zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset that holds after the change, a skipped local time lies before the change.
            let before_change = after.to_timestamp(local).ok()?;
            time_zone.following(before_change).next().map(|transition| transition.timestamp())
        }
    }
}

/// The latest local time that clocks have shown by `now`. In the second pass of a repeated stretch it is later than what
/// they show, and may bear the date of tomorrow: it is what they would show without the change.
fn latest_local_time(now: Timestamp, time_zone: &TimeZone) -> DateTime {
    let local = time_zone.to_datetime(now);
    match time_zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Fold { before, .. } => before.to_datetime(now).max(local),
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => local,
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|n| set.checked_shr(n).unwrap_or(0) & 1 == 1)
}

fn parse_field(text: &str, field: &Field) -> Result<u64, CronError> {
    text.split(',').try_fold(0, |set, part| {
        let numbers = parse_part(part, field).ok_or_else(|| CronError::Field {
            field: field.name,
            text: part.to_owned(),
            min: field.min,
            max: field.max,
        })?;
        Ok(numbers.fold(set, |set, number| set | 1_u64 << number))
    })
}

fn parse_part(part: &str, field: &Field) -> Option<impl Iterator<Item = u8>> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(parse_digits(step)?)),
        None => (part, None),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (parse_number(low, field)?, parse_number(high, field)?),
        None if range == "*" => (field.min, field.max),
        None => {
            let number = parse_number(range, field)?;
            (number, if step.is_some() { field.max } else { number })
        }
    };
    // `fri-sun`: at the end of a range Sunday is the seventh day.
    let high = if field.max == 7 && high == 0 && low != 0 { 7 } else { high };
    let step = usize::from(step.unwrap_or(1));
    (low <= high && step != 0).then(|| (low..=high).step_by(step))
}

fn parse_number(text: &str, field: &Field) -> Option<u8> {
    let by_name = field.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let number = match by_name {
        Some(index) => u8::try_from(index).ok()? + field.min,
        None => parse_digits(text)?,
    };
    (field.min <= number && number <= field.max).then_some(number)
}

fn parse_digits(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(time_zone: &str, start: &str, hours: u64) -> Window {
        Window::new(time_zone, start, hours * 3600).unwrap()
    }

    /// The next three fires after `now`, in UTC.
    fn fires(time_zone: &str, cron: &str, now: &str) -> Vec<String> {
        let zone = TimeZoneDatabase::bundled().get(time_zone).unwrap();
        let cron = Cron::parse(cron).unwrap();
        let mut now = at(now);
        let mut found = Vec::new();
        while found.len() < 3 {
            let Some(fire) = cron.next_after(now, &zone) else { break };
            found.push(fire.to_string());
            now = fire;
        }
        found
    }

    #[test]
    fn fires_at_the_local_time_of_the_zone() {
        let expected = ["2026-01-05T07:00:00Z", "2026-01-06T07:00:00Z", "2026-01-07T07:00:00Z"];
        assert_eq!(fires("Europe/Berlin", "0 8 * * 1-5", "2026-01-02T07:00:00Z"), expected);
    }

    #[test]
    fn local_times_shift_with_daylight_saving() {
        let expected = ["2026-03-28T07:00:00Z", "2026-03-29T06:00:00Z", "2026-03-30T06:00:00Z"];
        assert_eq!(fires("Europe/Berlin", "0 8 * * *", "2026-03-27T12:00:00Z"), expected);
    }

    #[test]
    fn a_skipped_local_time_fires_once_when_the_gap_ends() {
        // Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC.
        let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(fires("Europe/Berlin", "30 2 * * *", "2026-03-27T12:00:00Z"), expected);
        let expected = ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"];
        assert_eq!(fires("Europe/Berlin", "*/15 * * * *", "2026-03-29T00:45:00Z"), expected);
    }

    #[test]
    fn a_repeated_local_time_fires_the_first_time_only() {
        // Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
        let expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"];
        assert_eq!(fires("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z"), expected);
        let expected = ["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"];
        assert_eq!(fires("Europe/Berlin", "*/30 * * * *", "2026-10-25T00:00:00Z"), expected);
    }

    #[test]
    fn a_skipped_day_fires_when_it_would_have_ended() {
        // Samoa went from 29 December to 31 December 2011 at 10:00 UTC.
        assert_eq!(fires("Pacific/Apia", "0 12 30 12 *", "2011-12-29T00:00:00Z")[0], "2011-12-30T10:00:00Z");
    }

    #[test]
    fn a_window_is_open_in_a_repeated_hour_that_crosses_midnight() {
        // Beirut, 25 October 2026: 00:00 becomes 23:00 of the day before at 21:00 UTC, so 23:30 comes twice.
        let late = window("Asia/Beirut", "30 23 * * *", 1);
        let expected = Some(at("2026-10-24T21:30:00Z"));
        assert_eq!(late.active_at(at("2026-10-24T20:45:00Z")), expected);
        assert_eq!(late.active_at(at("2026-10-24T21:15:00Z")), expected);
        assert_eq!(late.active_at(at("2026-10-24T21:45:00Z")), None);
    }

    #[test]
    fn an_expression_that_never_fires_ends_the_search() {
        assert!(fires("UTC", "0 0 30 2 *", "2026-01-01T00:00:00Z").is_empty());
        let never = window("UTC", "0 0 31 4,6,9,11 *", 1);
        assert_eq!(
            (never.active_at(at("2026-01-01T00:00:00Z")), never.next_change(at("2026-01-01T00:00:00Z"))),
            (None, None)
        );
    }

    #[test]
    fn a_leap_day_is_found_across_the_year_2100() {
        assert_eq!(fires("UTC", "0 0 29 2 *", "2096-02-29T00:00:00Z")[0], "2104-02-29T00:00:00Z");
    }

    #[test]
    fn either_day_field_is_enough_when_neither_begins_with_a_star() {
        let expected = ["2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z", "2026-01-23T00:00:00Z"];
        assert_eq!(fires("UTC", "0 0 13 * fri", "2026-01-10T00:00:00Z"), expected);
        let expected = ["2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z", "2026-04-13T00:00:00Z"];
        assert_eq!(fires("UTC", "0 0 13 * */1", "2026-02-01T00:00:00Z"), expected);
    }

    #[test]
    fn names_steps_lists_and_sunday_by_both_numbers_are_understood() {
        assert_eq!(Cron::parse("0 0 * JAN,Feb Sun").unwrap(), Cron::parse("0 0 * 1-2 7").unwrap());
        assert_eq!(Cron::parse("0 0 * * fri-sun").unwrap(), Cron::parse("0 0 * * 0,5,6").unwrap());
        assert_eq!(Cron::parse("5/20 8-12/2 * * *").unwrap(), Cron::parse("5,25,45 8,10,12 * * *").unwrap());
    }

    #[test]
    fn other_expressions_are_refused() {
        for text in ["", "@daily", "* * * *", "0 0 * * * *"] {
            assert!(matches!(Cron::parse(text), Err(CronError::FieldCount(_))), "{text}");
        }
        for text in [
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "1,,2 * * * *",
            "+1 * * * *",
            "a * * * *",
            "1-2-3 * * * *",
            "* * L * *",
            "1/2/3 * * * *",
            "- * * * *",
        ] {
            assert!(matches!(Cron::parse(text), Err(CronError::Field { .. })), "{text}");
        }
    }

    #[test]
    fn a_window_is_open_from_its_start_until_its_duration_has_passed() {
        let office = window("Europe/Berlin", "0 8 * * 1-5", 10);
        assert_eq!(office.active_at(at("2026-01-05T06:59:59Z")), None);
        assert_eq!(office.active_at(at("2026-01-05T07:00:00Z")), Some(at("2026-01-05T17:00:00Z")));
        assert_eq!(office.active_at(at("2026-01-05T16:59:59Z")), Some(at("2026-01-05T17:00:00Z")));
        assert_eq!(office.active_at(at("2026-01-05T17:00:00Z")), None);
        assert_eq!(office.next_change(at("2026-01-05T06:00:00Z")), Some(at("2026-01-05T07:00:00Z")));
        assert_eq!(office.next_change(at("2026-01-05T07:00:00Z")), Some(at("2026-01-05T17:00:00Z")));
        assert_eq!(office.next_change(at("2026-01-09T17:00:00Z")), Some(at("2026-01-12T07:00:00Z")));
    }

    #[test]
    fn duration_is_real_time_across_a_clock_change() {
        let night = window("Europe/Berlin", "0 22 * * 6", 10);
        assert_eq!(night.active_at(at("2026-03-29T02:00:00Z")), Some(at("2026-03-29T07:00:00Z")));
    }

    #[test]
    fn a_week_long_window_is_found_from_its_last_second() {
        let week = window("UTC", "0 0 1 * *", 168);
        assert_eq!(week.active_at(at("2026-05-07T23:59:59Z")), Some(at("2026-05-08T00:00:00Z")));
    }

    #[test]
    fn openings_that_touch_or_overlap_count_as_one() {
        let touching = window("UTC", "0 8,9,10 * * *", 1);
        assert_eq!(touching.active_at(at("2026-01-05T08:30:00Z")), Some(at("2026-01-05T11:00:00Z")));
        let overlapping = window("UTC", "0 8-12 * * *", 3);
        assert_eq!(overlapping.active_at(at("2026-01-05T08:30:00Z")), Some(at("2026-01-05T15:00:00Z")));
    }

    #[test]
    fn a_window_that_never_closes_still_gives_an_answer() {
        let always = window("UTC", "* * * * *", 168);
        let now = at("2026-01-05T08:30:00Z");
        assert!(always.active_at(now).is_some_and(|until| now < until));
    }

    #[test]
    fn unknown_zones_and_impossible_durations_are_refused() {
        let zone = Window::new("Europe/Atlantis", "0 0 * * *", 60);
        assert_eq!(zone, Err(WindowError::UnknownTimeZone("Europe/Atlantis".into())));
        for seconds in [0, MAX_DURATION_SECONDS + 1, u64::MAX] {
            assert_eq!(Window::new("UTC", "0 0 * * *", seconds), Err(WindowError::Duration));
        }
    }

    /// The state of the window by its definition: some minute of the last week fires and its opening lasts until now.
    fn open_by_definition(window: &Window, now: Timestamp) -> bool {
        let today = window.time_zone.to_datetime(now).date();
        let local_days = (-9..=1).map(|days: i32| today.saturating_add(days.days()));
        let mut starts = local_days
            .filter(|date| window.start.fires_on(*date))
            .flat_map(|date| window.start.times(date).collect::<Vec<_>>())
            .filter_map(|time| instant(time, &window.time_zone));
        starts.any(|start| start <= now && now < moved(start, window.duration))
    }

    proptest! {
        #[test]
        fn a_window_is_open_exactly_when_some_start_says_so(
            minute in "[0-9]|[1-5][0-9]|\\*/7", hour in "[0-9]|1[0-9]|2[0-3]|\\*", weekday in "[0-7]|\\*|1-5",
            hours in 1_u64..168,
            // Around clock changes of all these zones, and anywhere.
            second in prop_oneof![
                1_774_700_000_i64..1_774_900_000, 1_792_700_000_i64..1_793_600_000, 1_775_200_000_i64..1_775_400_000,
                1_700_000_000_i64..2_000_000_000,
            ],
            zone in proptest::sample::select(vec!["Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana"]),
        ) {
            let window = window(zone, &format!("{minute} {hour} * * {weekday}"), hours);
            let now = Timestamp::from_second(second).unwrap();
            prop_assert_eq!(window.active_at(now).is_some(), open_by_definition(&window, now));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text in "[-0-9a-z*/, ]{0,40}") {
            let _ = Cron::parse(&text);
        }

        #[test]
        fn the_next_change_is_later_and_flips_or_continues(
            minute in "[0-9]|[1-5][0-9]|\\*/7|\\*", hour in "[0-9]|1[0-9]|\\*/5", weekday in "[0-7]|\\*|1-5",
            hours in 1_u64..168, second in 1_700_000_000_i64..2_000_000_000,
            zone in proptest::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana"]),
        ) {
            let window = window(zone, &format!("{minute} {hour} * * {weekday}"), hours);
            let now = Timestamp::from_second(second).unwrap();
            let next = window.next_change(now).unwrap();
            prop_assert!(now < next);
            match window.active_at(now) {
                // It is open all the way to the end it returns.
                Some(until) => {
                    prop_assert_eq!(until, next);
                    let just_before = Timestamp::from_second(until.as_second() - 1).unwrap();
                    prop_assert!(window.active_at(just_before).is_some());
                }
                // It is closed all the way to the next start, and open there.
                None => {
                    let just_before = Timestamp::from_second(next.as_second() - 1).unwrap();
                    prop_assert!(window.active_at(just_before).is_none());
                    prop_assert!(window.active_at(next).is_some());
                }
            }
        }
    }
}
