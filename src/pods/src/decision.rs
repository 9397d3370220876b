//! A replica decision: the size, the status, events, the next memory, and the steps that led to the size.

use serde::Serialize;

use crate::input::Unknown;
use crate::memory::Memory;
use crate::moment::Moment;
use crate::schedules::Bounds;
use crate::spec::Behavior;
use crate::status::HpaStatus;
use crate::zero::ZeroStep;

/// A decision before the scale is written. [`crate::after_write()`] makes it a [`Tick`].
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The change of the scale to write; `None` if it stays.
    pub rescale: Option<Rescale>,
    /// Events so far, in order. They are part of [`Tick::events`] again: publish those, once.
    pub events: Vec<Event>,
    /// Memory to make durable before the scale is written: as if the write succeeded. Where nothing is written it is
    /// the next memory.
    pub journal: Memory,
    /// Memory if the scale is not written after all.
    pub memory: Memory,
    /// Steps that led to the size.
    pub steps: Steps,
    /// The status if nothing is written; [`crate::after_write()`] completes it.
    pub(crate) status: HpaStatus,
    /// Events to publish after the status was written.
    pub(crate) events_after_status: Vec<Event>,
    /// Error label of the tick so far.
    pub(crate) error: ErrorLabel,
    /// True if a failure has ended the tick already.
    pub(crate) failed_early: bool,
    /// `desiredReplicas` as stored: a failing write keeps it.
    pub(crate) stored_desired: i32,
    /// The behavior, where the size changes: the scale event counts from the instant at which the write came through.
    pub(crate) behavior: Option<Behavior>,
    /// The change of size without a surge, which counts against the rates; `None` where the size would stay.
    pub(crate) own_change: Option<(i32, i32)>,
    /// Condition ScaledToZero once the scale is written; `None` where there is no such condition.
    pub(crate) scaled_to_zero: Option<bool>,
    /// Time at which the decision was made.
    pub(crate) now: Moment,
}

/// A change of the scale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rescale {
    /// `spec.replicas` as read.
    pub from: i32,
    /// `spec.replicas` to write.
    pub to: i32,
    /// Reason, in the words of the event.
    pub reason: String,
}

/// Outcome of the write of [`Decision::rescale`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// There was nothing to write, or it was not written on purpose (Observe, Preview, Suspend, a lost claim).
    NotWritten,
    /// Written, at this time: conflicts and their retries take a while.
    Written {
        /// Time.
        at: Moment,
    },
    /// Given up: the words of the error.
    Failed {
        /// The error.
        message: String,
    },
}

/// A tick that is complete but for its status write.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The status to write if it differs from the stored one.
    pub status: HpaStatus,
    /// Events to publish before the status is written, in order.
    pub events: Vec<Event>,
    /// Events to publish after the status is written, whether or not that succeeded.
    pub events_after_status: Vec<Event>,
    /// The memory from here on.
    pub memory: Memory,
    /// Action of the tick, as a metric label.
    pub action: ActionLabel,
    /// Error of the tick if the status write succeeds; else see [`Tick::error_after_status`].
    pub error: ErrorLabel,
    /// True if a failing status write changes nothing about `error`, since an earlier failure ended the tick.
    pub(crate) failed_early: bool,
}

/// An event on the HPA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub type_: EventType,
    /// One of [`crate::conditions`]' reasons.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something failed.
    Warning,
}

/// Action of a tick, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionLabel {
    /// `scale_up`
    ScaleUp,
    /// `scale_down`
    ScaleDown,
    /// `none`
    None,
}

/// Error that ended a tick, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLabel {
    /// `none`
    None,
    /// `spec`: the target's apiVersion can not be read.
    Spec,
    /// `internal`: anything else.
    Internal,
}

/// Steps that led to a size. Steps that were not reached are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Steps {
    /// Branch that the decision took.
    pub branch: Branch,
    /// The size in the scale's spec; `None` if the scale could not be read.
    pub current: Option<i32>,
    /// The bounds, schedules applied.
    pub bounds: Bounds,
    /// One a metric, in the order of the spec, and then the formula; empty when no metric was looked at.
    pub metrics: Vec<MetricStep>,
    /// The largest proposal, if a decision could be made; the fallback's size where that took over.
    pub proposed: Option<i32>,
    /// Name of the metric that proposed it, as events have it.
    pub proposed_by: Option<String>,
    /// After the stabilization windows.
    pub stabilized: Option<i32>,
    /// After the rates of policies, if they held it back: what they allow.
    pub rate_limit: Option<i32>,
    /// The size decided on.
    pub desired: Option<i32>,
    /// Limit that kept the size from the metrics' proposal: the last step that changed it.
    pub limited_by: Option<Limit>,
    /// Step of the fallback, if it was considered.
    pub fallback: Option<FallbackStep>,
    /// One replica more for a drain, if it changes the size or is part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge: Option<SurgeStep>,
    /// The way to zero or back, if the workload is on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero: Option<ZeroStep>,
}

/// One replica more for a drain, as a step of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SurgeStep {
    /// It is added now.
    Begins,
    /// It is part of the size.
    Holds,
    /// It is given back now.
    Ends,
}

/// Branch that a decision took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Branch {
    /// The scale could not be read: nothing was decided.
    NoScale,
    /// The size is 0 and minReplicas is not: scaling is switched off.
    Disabled,
    /// Somebody else has set the size to 0: it stays, although minReplicas is 0.
    Paused,
    /// The size was above max: set to it, no metric was looked at.
    AboveMax,
    /// The size was below min: set to it, no metric was looked at.
    BelowMin,
    /// The metrics decided.
    Metrics,
    /// Too little is known to decide: the size stays.
    Unknown,
    /// Too little was known for so long that the fallback decided.
    Fallback,
}

/// One metric on its way to a proposal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricStep {
    /// Its name as events have it, such as `cpu resource utilization (percentage of request)`.
    pub name: String,
    /// Current value, as status writes it: `82%`, `123m`. `None` if it failed.
    pub value: Option<String>,
    /// Target value.
    pub target: Option<String>,
    /// Value over target. `None` if it failed; may be infinite with a target of 0.
    pub ratio: Option<f64>,
    /// True if the ratio lay within tolerance.
    pub within_tolerance: bool,
    /// True if it proposes the size as it is because there are more pods than that, as while a rollout surges or a canary runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept_in_rollout: bool,
    /// Number of replicas that it proposes. `None` if it failed, or is a variable of the formula.
    pub proposal: Option<i32>,
    /// Reason why it has no value, or has its fallback value; `None` if it has one, or needs none at 0 replicas.
    pub unknown: Option<Unknown>,
    /// True if it is above its activation; `None` where that does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// Step of a fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FallbackStep {
    /// Nothing is known since the time given, which is not yet long enough.
    Waiting {
        /// Time since which nothing is known.
        since: Moment,
        /// Time at which the fallback begins.
        until: Moment,
    },
    /// The size holds.
    Holding {
        /// Time since which nothing is known.
        since: Moment,
    },
    /// The size given was proposed.
    Proposed {
        /// Time since which nothing is known.
        since: Moment,
        /// Number of replicas.
        replicas: i32,
    },
}

/// Limit that kept a size from the metrics' proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// A recent lower proposal holds an increase.
    ScaleUpStabilized,
    /// A recent higher proposal holds a decrease.
    ScaleDownStabilized,
    /// The rate upwards.
    ScaleUpLimit,
    /// The rate downwards.
    ScaleDownLimit,
    /// maxReplicas.
    TooManyReplicas,
    /// minReplicas.
    TooFewReplicas,
    /// The time before the last replica goes.
    ToZeroAfter,
}

impl ActionLabel {
    /// The label's text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScaleUp => "scale_up",
            Self::ScaleDown => "scale_down",
            Self::None => "none",
        }
    }
}

impl ErrorLabel {
    /// The label's text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spec => "spec",
            Self::Internal => "internal",
        }
    }
}

impl Limit {
    /// The reason in one word, as conditions have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScaleUpStabilized => "ScaleUpStabilized",
            Self::ScaleDownStabilized => "ScaleDownStabilized",
            Self::ScaleUpLimit => "ScaleUpLimit",
            Self::ScaleDownLimit => "ScaleDownLimit",
            Self::TooManyReplicas => "TooManyReplicas",
            Self::TooFewReplicas => "TooFewReplicas",
            Self::ToZeroAfter => "ToZeroAfter",
        }
    }
}

impl Tick {
    /// Returns the error of the tick, given whether its status was written.
    #[must_use]
    pub fn error_after_status(&self, status_written: bool) -> ErrorLabel {
        if status_written || self.failed_early { self.error } else { ErrorLabel::Internal }
    }
}
