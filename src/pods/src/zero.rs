//! The way of a workload to zero replicas and back, for policies with metrics of their own: which metrics keep it, who has
//! set it to 0, and since when nothing keeps it.

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::conditions::SCALED_TO_ZERO;
use crate::input::Gates;
use crate::memory::{Memory, ZeroMemory};
use crate::moment::Moment;
use crate::spec::{HpaSpec, MetricSpec};
use crate::status::HpaStatus;
use headroom_values::time::Seconds;

/// Rules of a policy for 0 replicas. HorizontalPodAutoscalers have none: they keep the reference's rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ZeroRules {
    /// Time for which no metric must have been active before the last replica goes.
    pub after: Seconds,
    /// Values above which the metrics are active, in the order of the spec, and then that of the formula; one that is missing
    /// is 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activations: Vec<Amount>,
}

impl ZeroRules {
    /// The value, in thousandths, above which the metric at this place is active.
    pub(crate) fn activation_milli(&self, index: usize) -> i64 {
        self.activations.get(index).map_or(0, |amount| amount.milli())
    }
}

/// Rules by which a size of 0 is read, and who has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroOwner {
    /// The reference's rules: 0 switches scaling off, unless `minReplicas` is 0.
    Reference,
    /// The operator: its metrics decide when the workload comes back.
    Operator,
    /// Somebody else: the workload stays at 0.
    SomebodyElse,
    /// Whoever runs the HPA, as its condition ScaledToZero says: its metrics decide when the workload comes back.
    Controller,
    /// Somebody who does not run the HPA: scaling is switched off.
    NotController,
}

impl ZeroOwner {
    /// The owner of a size of 0, by the rules of a policy, or of an HPA by its status. The operator's own mark counts like the
    /// condition: it is stored before the size, and the condition after it.
    #[must_use]
    pub fn of(rules: Option<&ZeroRules>, gates: Gates, status: &HpaStatus, memory: &Memory) -> Self {
        let marked = memory.zero.is_some_and(|zero| zero.scaled_at.is_some());
        match rules {
            Some(_) if marked => Self::Operator,
            Some(_) => Self::SomebodyElse,
            None if !gates.scaled_to_zero => Self::Reference,
            None if marked || status.is_true(SCALED_TO_ZERO) => Self::Controller,
            None => Self::NotController,
        }
    }
}

/// Step of a decision on the way to zero or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZeroStep {
    /// No metric has been active since the time given, which is not yet long enough.
    Waiting {
        /// Time since which no metric has been active.
        since: Moment,
        /// Time from which on the last replica may go.
        until: Moment,
    },
    /// No metric has been active for long enough: nothing is asked for any more.
    Idle {
        /// Time since which no metric has been active.
        since: Moment,
    },
    /// The operator has set it to 0, and no metric is active.
    AtZero {
        /// Time at which it did.
        since: Moment,
    },
    /// A metric is active: it leaves 0.
    Activated,
    /// Somebody else has set it to 0: it stays there.
    Paused,
}

/// Activity of the metrics of a workload that may go to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The policy does not go to zero.
    NoMatter,
    /// At least one metric is active.
    Active,
    /// No metric is active, and each that could be is known.
    Idle,
    /// No metric is known to be active, and not all are known.
    Unknown,
}

/// True if the metric does not come from the pods, so that it can be active at 0 replicas too.
pub(crate) fn is_outside(metric: &MetricSpec) -> bool {
    matches!(metric.type_.as_str(), "Object" | "External")
}

/// True if a policy with these rules may take the workload to 0.
pub(crate) fn applies(rules: Option<&ZeroRules>, spec: &HpaSpec) -> bool {
    rules.is_some() && spec.min_replicas == Some(0)
}

/// True if an HPA may take its workload to 0: a metric that does not come from the pods can bring it back.
///
/// Source: podautoscaler horizontal.go of 1.37, hasObjectOrExternalMetrics.
pub(crate) fn hpa_may(gates: Gates, spec: &HpaSpec) -> bool {
    gates.scaled_to_zero && spec.min_replicas == Some(0) && spec.metrics.iter().any(is_outside)
}

/// Brings what is remembered of zero up to date with the size as it is: a size above 0 takes the mark away, and at 0 no
/// time runs. Once a policy may go to 0 the entry stays, so that its absence means: never looked at.
pub(crate) fn observe(
    memory: &mut Memory,
    (rules, gates): (Option<&ZeroRules>, Gates),
    spec: &HpaSpec,
    current: i32,
) {
    if rules.is_none() {
        memory.zero = memory.zero.filter(|_| gates.scaled_to_zero && current == 0);
        return;
    }
    if applies(rules, spec) {
        memory.zero.get_or_insert_default();
    }
    let Some(zero) = &mut memory.zero else { return };
    if 0 < current {
        zero.scaled_at = None;
    }
    if current == 0 || !applies(rules, spec) {
        zero.idle_since = None;
    }
}

/// Sets or clears the time since which no metric has been active, and returns it with the time at which it has been long
/// enough.
pub(crate) fn clock(
    memory: &mut Memory,
    rules: &ZeroRules,
    activity: Activity,
    now: Moment,
) -> Option<(Moment, Moment)> {
    let zero = memory.zero.get_or_insert_default();
    if activity != Activity::Idle {
        zero.idle_since = None;
        return None;
    }
    let since = *zero.idle_since.get_or_insert(now);
    Some((since, since.plus(rules.after)))
}

/// Marks a change to 0 as the operator's; a change from 0 keeps the mark until the size has been seen above 0, so that
/// a write that does not land leaves no workload at 0 for ever.
pub(crate) fn mark(journal: &mut Memory, may: bool, to: i32, now: Moment) {
    if may && to == 0 {
        let zero: &mut ZeroMemory = journal.zero.get_or_insert_default();
        zero.scaled_at = Some(now);
    }
}
