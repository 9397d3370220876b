//! An explanation: one sentence, facts, a timeline, the pools' answers, and what can change. Data, and its words as text.

use std::fmt::Write as _;

use headroom_core::time::{Seconds, UnixTime};
use serde::Serialize;

use super::table::{Column, Table, WIDTH, wrap};

/// Reason why something is as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the explained object, such as `pod shop/web-1`.
    pub object: String,
    /// The instant that it is explained for.
    pub at: Time,
    /// The answer in a sentence.
    pub summary: String,
    /// Known facts on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Events that led to its state, oldest first.
    pub timeline: Vec<Moment>,
    /// Each pool's answer, for pods that wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolAnswer>,
    /// The steps of a recommendation, for workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ExplainedStep>,
    /// Possible changes, and their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// Messages on the parts that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// An instant that is written as RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub UnixTime);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339())
    }
}

/// Something known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Name of the fact.
    pub name: String,
    /// Value of the fact.
    pub value: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Time.
    pub time: Time,
    /// Its place in the chain of causes, among moments of the same second.
    #[serde(skip)]
    pub stage: Stage,
    /// Description of the event.
    pub what: String,
    /// Source of the event: `status`, `event` or `object`.
    pub source: &'static str,
}

/// Position of an event in the chain of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// A metric, a schedule.
    Metric,
    /// Replicas.
    Replicas,
    /// A pod without a node.
    Pod,
    /// A pool was chosen, or none.
    Decision,
    /// A size was written down and asked for.
    Intent,
    /// A machine came.
    Instance,
    /// The node became ready.
    Node,
    /// The pod got its place.
    Placed,
    /// The pod became ready.
    Running,
    /// Something left.
    Removal,
}

/// A pool's answer to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolAnswer {
    /// The pool.
    pub pool: String,
    /// `chosen` or the reason of the first rule that failed.
    pub verdict: String,
    /// The values.
    pub message: String,
}

/// A step from metric to replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedStep {
    /// Name of the step.
    pub step: String,
    /// Replicas after it.
    pub replicas: String,
    /// Reason, with the values.
    pub why: String,
}

impl Explanation {
    /// An explanation of `object` at `at`.
    #[must_use]
    pub fn new(object: String, at: UnixTime) -> Self {
        Self { object, at: Time(at), ..Self::default() }
    }

    /// Notes a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push(Fact { name: name.to_owned(), value: value.into() });
    }

    /// Notes a moment.
    pub fn moment(&mut self, at: UnixTime, stage: Stage, source: &'static str, what: impl Into<String>) {
        self.timeline.push(Moment { time: Time(at), stage, what: what.into(), source });
    }

    /// Puts the timeline in order and removes duplicates.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.timeline.sort_by(|a, b| (a.time, a.stage, &a.what).cmp(&(b.time, b.stage, &b.what)));
        self.timeline.dedup_by(|a, b| a.time == b.time && a.what == b.what);
        self
    }

    /// As text of at most [`WIDTH`] columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}", wrap(&format!("{}: {}", self.object, self.summary), 0));
        if !self.facts.is_empty() {
            text.push('\n');
            let width = self.facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or(0);
            for fact in &self.facts {
                let line = format!("{:width$}  {}", fact.name, fact.value);
                let _ = writeln!(text, "{}", wrap(&line, width + 2));
            }
        }
        if !self.timeline.is_empty() {
            text.push_str("\nTIMELINE\n");
            for moment in &self.timeline {
                let line = format!("  {}  {}", clock(moment.time.0, self.at.0), moment.what);
                let _ = writeln!(text, "{}", wrap(&line, clock(moment.time.0, self.at.0).len() + 4));
            }
        }
        if !self.steps.is_empty() {
            let mut table =
                Table::new([Column::left("STEP"), Column::right("REPLICAS"), Column::wide("WHY")]);
            for step in &self.steps {
                table.row([step.step.clone(), step.replicas.clone(), step.why.clone()]);
            }
            text.push('\n');
            text.push_str(&table.text());
        }
        if !self.pools.is_empty() {
            let mut table = Table::new([Column::left("POOL"), Column::left("VERDICT"), Column::wide("WHY")]);
            for answer in &self.pools {
                table.row([answer.pool.clone(), answer.verdict.clone(), answer.message.clone()]);
            }
            text.push('\n');
            text.push_str(&table.text());
        }
        if !self.next.is_empty() {
            text.push_str("\nNEXT\n");
            for next in &self.next {
                let _ = writeln!(text, "{}", wrap(&format!("  {next}"), 4));
            }
        }
        for gap in &self.gaps {
            let _ = writeln!(text, "{}", wrap(&format!("not read: {gap}"), 4));
        }
        let one_word = |line: &str| line.split_whitespace().count() <= 1;
        debug_assert!(text.lines().all(|line| line.chars().count() <= WIDTH || one_word(line)), "{text}");
        text
    }
}

/// The time of day in UTC; with the date when it is of another day than `now`.
#[must_use]
pub fn clock(at: UnixTime, now: UnixTime) -> String {
    let text = at.to_rfc3339();
    let (date, time) = text.split_once('T').unwrap_or(("", &text));
    if now.to_rfc3339().starts_with(date) { time.to_owned() } else { format!("{date} {time}") }
}

/// Formats the time between `now` and `from`, past or future, in at most two units.
#[must_use]
pub fn about(from: UnixTime, now: UnixTime) -> String {
    let length = now.since(from).0;
    let words = short(Seconds(length.abs()));
    if length < 0 { format!("in {words}") } else { format!("{words} ago") }
}

/// A length in at most two units: `3d4h`, `2h5m`, `41s`.
#[must_use]
pub fn short(length: Seconds) -> String {
    let total = length.0.max(0);
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) if seconds == 0 => format!("{minutes}m"),
        (0, 0, _) => format!("{minutes}m{seconds}s"),
        (0, _, 0) => format!("{hours}h"),
        (0, _, _) => format!("{hours}h{minutes}m"),
        (_, 0, _) => format!("{days}d"),
        (_, _, _) => format!("{days}d{hours}h"),
    }
}

/// `1 node`, `2 nodes`.
#[must_use]
pub fn counted(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
