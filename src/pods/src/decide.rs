//! The replica decision of one tick: branches, metrics, the largest proposal, normalising, conditions. It writes nothing.

use crate::behavior::{self, Direction};
use crate::conditions::{self, ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED};
use crate::decision::{Branch, Decision, ErrorLabel, Event, EventType, FallbackStep, Limit, Rescale, Steps};
use crate::formula;
use crate::input::{Answer, Input, Scale, Unknown};
use crate::memory::Memory;
use crate::metric::{self, Evaluated};
use crate::numbers::Tolerance;
use crate::replica_calculator::Surroundings;
use crate::schedules::{Bounds, FallbackDirection, FallbackReplicas, bounds};
use crate::selector::Selector;
use crate::spec::HpaSpec;
use crate::stabilization::{self, Windows};
use crate::status::{Condition, HpaStatus};
use crate::zero::{self, Activity, ZeroOwner, ZeroRules, ZeroStep};

/// True if the metrics play a part at this size: not while a size of 0 is to stay, and not outside of the
/// bounds. Where it is false no answers need to be asked for.
#[must_use]
pub fn needs_metrics(spec: &HpaSpec, bounds: &Bounds, current: i32, owner: ZeroOwner) -> bool {
    branch(spec, bounds, current, owner) == Branch::Metrics
}

/// Decides on the size of one workload. Pure and total: if the size cannot be decided it stays as it is, with the
/// reason.
///
/// Source: podautoscaler horizontal.go, reconcileAutoscaler, up to the write of the scale.
#[must_use]
pub fn decide(input: &Input<'_>) -> Decision {
    let mut tick = Deciding {
        input: *input,
        status: input.status.clone(),
        memory: input.memory.clone(),
        events: Vec::new(),
        events_after_status: Vec::new(),
        error: ErrorLabel::None,
        failed_early: false,
        activity: Activity::NoMatter,
        steps: Steps {
            branch: Branch::NoScale,
            current: None,
            bounds: bounds(input.spec, input.schedules, input.now.second()),
            metrics: Vec::new(),
            proposed: None,
            proposed_by: None,
            stabilized: None,
            rate_limit: None,
            desired: None,
            limited_by: None,
            fallback: None,
            surge: None,
            zero: None,
        },
    };
    let rescale = tick.run();
    tick.decision(rescale)
}

fn branch(spec: &HpaSpec, bounds: &Bounds, current: i32, owner: ZeroOwner) -> Branch {
    let own_min = spec.min_replicas.unwrap_or(1);
    // A size of 0 switches scaling off, unless the user allows 0; a schedule's floor does not change what the user meant.
    let wakes = match owner {
        ZeroOwner::Operator => true,
        ZeroOwner::Reference | ZeroOwner::SomebodyElse => own_min == 0,
        ZeroOwner::Controller => own_min != 0 || spec.metrics.iter().any(zero::is_outside),
        ZeroOwner::NotController => false,
    };
    if current == 0 && !wakes {
        Branch::Disabled
    } else if current == 0 && owner == ZeroOwner::Controller {
        Branch::Metrics
    } else if current == 0 && owner == ZeroOwner::SomebodyElse {
        Branch::Paused
    } else if current > bounds.max {
        Branch::AboveMax
    } else if current < bounds.min {
        Branch::BelowMin
    } else {
        Branch::Metrics
    }
}

/// A tick on its way.
struct Deciding<'a> {
    input: Input<'a>,
    status: HpaStatus,
    memory: Memory,
    events: Vec<Event>,
    events_after_status: Vec<Event>,
    error: ErrorLabel,
    failed_early: bool,
    activity: Activity,
    steps: Steps,
}

/// Result of all metrics together.
enum Combined {
    /// The largest proposal.
    Proposed(i32),
    /// Too little is known about the metrics.
    Unknown {
        /// Reason, in words.
        error: String,
    },
    /// The pods cannot be identified: the selector is missing, unreadable, or shared with another HPA.
    NoPods {
        /// Reason, in words.
        error: String,
    },
}

impl<'a> Deciding<'a> {
    /// Runs the tick and gives the change to write.
    fn run(&mut self) -> Option<Rescale> {
        let scale = self.scale()?;
        let current = scale.spec_replicas;
        self.steps.current = Some(current);
        let words = "the target's current scale was read".to_owned();
        self.condition(ABLE_TO_SCALE, true, conditions::SUCCEEDED_GET_SCALE, words);
        stabilization::begin(&mut self.memory, current, self.input.now);
        let (rules, gates) = (self.input.zero, self.input.options.gates);
        zero::observe(&mut self.memory, (rules, gates), self.input.spec, current);
        let owner = ZeroOwner::of(rules, gates, self.input.status, &self.memory);
        if current == 0 && owner == ZeroOwner::Controller && !self.status.is_true(conditions::SCALED_TO_ZERO)
        {
            // The size was written, and the process ended before the status was.
            conditions::set_scaled_to_zero(&mut self.status, true, self.input.now.second());
        }
        self.steps.branch = branch(self.input.spec, &self.steps.bounds, current, owner);
        let (desired, reason) = match self.steps.branch {
            Branch::Disabled => {
                let words = "scaling is switched off: the target has 0 replicas".to_owned();
                self.condition(SCALING_ACTIVE, false, conditions::SCALING_DISABLED, words);
                self.memory.unknown_since = None;
                self.status.current_metrics = Vec::new();
                (current, String::new())
            }
            Branch::Paused => {
                self.pause();
                (current, String::new())
            }
            Branch::AboveMax => {
                self.steps.limited_by = Some(Limit::TooManyReplicas);
                self.status.current_metrics = Vec::new();
                (self.steps.bounds.max, "Current number of replicas above Spec.MaxReplicas".to_owned())
            }
            Branch::BelowMin => {
                self.steps.limited_by = Some(Limit::TooFewReplicas);
                self.status.current_metrics = Vec::new();
                (self.steps.bounds.min, "Current number of replicas below Spec.MinReplicas".to_owned())
            }
            Branch::NoScale | Branch::Metrics | Branch::Unknown | Branch::Fallback => {
                self.status.current_replicas = current;
                let (desired, reason) = self.by_metrics(scale)?;
                self.leave_zero(owner, current, desired, reason)
            }
        };
        self.steps.desired = Some(desired);
        self.status.current_replicas = current;
        self.status.desired_replicas = desired;
        (desired != current).then_some(Rescale { from: current, to: desired, reason })
    }

    /// Brings a workload that was at 0 by its HPA to the minimum at least, where the minimum has been raised since.
    ///
    /// Source: podautoscaler horizontal.go of 1.37, reconcileAutoscaler.
    fn leave_zero(&mut self, owner: ZeroOwner, current: i32, desired: i32, reason: String) -> (i32, String) {
        let min = self.steps.bounds.min;
        if current != 0 || owner != ZeroOwner::Controller || min <= desired {
            return (desired, reason);
        }
        self.steps.limited_by = Some(Limit::TooFewReplicas);
        let reason = match reason.is_empty() {
            true => "Current number of replicas below Spec.MinReplicas".to_owned(),
            false => reason,
        };
        (min, reason)
    }

    /// Leaves a workload at 0 that somebody else has set to 0.
    fn pause(&mut self) {
        let target = &self.input.spec.scale_target_ref;
        let words = format!(
            "{} {} has 0 replicas, and this policy has not set them: it stays at 0; set them to 1, and the metrics decide again",
            target.kind, target.name
        );
        self.condition(SCALING_ACTIVE, false, conditions::PAUSED_AT_ZERO, words);
        self.steps.zero = Some(ZeroStep::Paused);
        self.memory.unknown_since = None;
        self.status.current_metrics = Vec::new();
    }

    /// The rules for 0 replicas, where the policy may go there.
    fn zero_rules(&self) -> Option<&'a ZeroRules> {
        self.input.zero.filter(|rules| zero::applies(Some(rules), self.input.spec))
    }

    /// The scale; without it nothing but a condition and an event comes of the tick.
    fn scale(&mut self) -> Option<&'a Scale> {
        let api_version = &self.input.spec.scale_target_ref.api_version;
        let (error, message) = match self.input.scale {
            _ if api_version.matches('/').count() > 1 => {
                (ErrorLabel::Spec, format!("the apiVersion {api_version:?} is not of the form group/version"))
            }
            Ok(scale) => return Some(scale),
            Err(message) => (ErrorLabel::Internal, message.to_owned()),
        };
        if let Some(zero) = &mut self.memory.zero {
            zero.idle_since = None;
        }
        self.warn(conditions::FAILED_GET_SCALE, message.clone());
        let words = format!("the target's current scale could not be read: {message}");
        self.condition(ABLE_TO_SCALE, false, conditions::FAILED_GET_SCALE, words);
        (self.error, self.failed_early) = (error, true);
        None
    }

    /// The size that the metrics, or the fallback, ask for, and why; `None` if the size stays since too little is known.
    fn by_metrics(&mut self, scale: &Scale) -> Option<(i32, String)> {
        let current = scale.spec_replicas;
        let combined = self.combine(scale);
        let idle = self.step_of_zero(current);
        let (proposed, reason) = match combined {
            Combined::Proposed(best) => {
                self.memory.unknown_since = None;
                let least = i32::from(self.activity == Activity::Active);
                let proposed = if idle { 0 } else { best.max(least) };
                let by = self.steps.proposed_by.as_deref().unwrap_or_default();
                let reason = match proposed.cmp(&current) {
                    std::cmp::Ordering::Greater => format!("{by} above target"),
                    std::cmp::Ordering::Less if idle => "no metric is active".to_owned(),
                    std::cmp::Ordering::Less => "All metrics below target".to_owned(),
                    std::cmp::Ordering::Equal => String::new(),
                };
                (proposed, reason)
            }
            Combined::NoPods { error } => {
                self.give_up(error);
                return None;
            }
            Combined::Unknown { error } => {
                self.give_up(error);
                self.fall_back(current)?
            }
        };
        self.steps.proposed = Some(proposed);
        Some((self.normalise(current, proposed), reason))
    }

    /// Notes where the workload is on the way to zero or back. True if no metric has been active for so long that nothing is
    /// asked for any more.
    fn step_of_zero(&mut self, current: i32) -> bool {
        let Some(rules) = self.zero_rules() else { return false };
        if current == 0 {
            let since = self.memory.zero.and_then(|zero| zero.scaled_at).unwrap_or(self.input.now);
            let active = self.activity == Activity::Active;
            self.steps.zero = Some(if active { ZeroStep::Activated } else { ZeroStep::AtZero { since } });
            return false;
        }
        let Some((since, until)) = zero::clock(&mut self.memory, rules, self.activity, self.input.now) else {
            return false;
        };
        let idle = until <= self.input.now;
        self.steps.zero =
            Some(if idle { ZeroStep::Idle { since } } else { ZeroStep::Waiting { since, until } });
        idle
    }

    /// Notes that the metrics give no size.
    fn give_up(&mut self, error: String) {
        self.steps.branch = Branch::Unknown;
        (self.error, self.failed_early) = (ErrorLabel::Internal, true);
        let event = Event {
            type_: EventType::Warning,
            reason: conditions::FAILED_COMPUTE_METRICS_REPLICAS,
            message: error,
        };
        self.events_after_status.push(event);
    }

    /// The size that the fallback proposes, once nothing has been known for its whole delay.
    fn fall_back(&mut self, current: i32) -> Option<(i32, String)> {
        let now = self.input.now;
        let since = *self.memory.unknown_since.get_or_insert(now);
        let fallback = self.input.fallback?;
        let until = since.plus(fallback.after);
        if now < until {
            self.steps.fallback = Some(FallbackStep::Waiting { since, until });
            return None;
        }
        let replicas = match fallback.replicas {
            FallbackReplicas::Hold => {
                self.steps.fallback = Some(FallbackStep::Holding { since });
                return None;
            }
            FallbackReplicas::Replicas { count, direction: FallbackDirection::Up } => count.max(current),
            FallbackReplicas::Replicas { count, direction: FallbackDirection::Both } => count.max(0),
        };
        self.steps.fallback = Some(FallbackStep::Proposed { since, replicas });
        self.steps.branch = Branch::Fallback;
        self.steps.proposed_by = Some("fallback".to_owned());
        Some((replicas, format!("fallback, metrics unknown since {}", since.second())))
    }

    // === metrics ===

    /// The largest proposal of all metrics. A metric that failed may hide a higher one: then nothing goes down.
    ///
    /// Source: podautoscaler horizontal.go, computeReplicasForMetrics.
    fn combine(&mut self, scale: &Scale) -> Combined {
        self.status.current_metrics = Vec::new();
        if let Err(error) = self.check_selector(&scale.selector) {
            return Combined::NoPods { error };
        }
        let input = self.input;
        let behavior = input.spec.behavior.as_ref();
        let (up, down) = (
            behavior.and_then(|behavior| behavior.scale_up.as_ref()),
            behavior.and_then(|behavior| behavior.scale_down.as_ref()),
        );
        let around = Surroundings {
            now: input.now,
            options: input.options,
            tolerance: Tolerance::of(input.options, up, down),
            pods: input.pods,
            spec_replicas: scale.spec_replicas,
            status_replicas: scale.status_replicas,
        };
        let mut all = self.evaluate(&around);
        self.activity = self.activity_of(&mut all, input.answers);
        let (best, failures) = self.largest(all);
        self.combined(scale, best, failures)
    }

    /// Every metric by itself, and then the formula over those that are its variables.
    fn evaluate(&self, around: &Surroundings<'_>) -> Vec<Evaluated> {
        let input = self.input;
        let not_asked = Answer::Unknown(Unknown::Failed("the metric was not asked for".into()));
        let without_pods = self.zero_rules().is_some() && around.spec_replicas == 0;
        let mut all = Vec::with_capacity(input.spec.metrics.len() + 1);
        let mut known = Vec::new();
        for (index, spec) in input.spec.metrics.iter().enumerate() {
            let answer = input.answers.get(index).unwrap_or(&not_asked);
            if let Some(variable) = input.formula.and_then(|formula| formula.variable(index)) {
                let (number, evaluated) = formula::variable(around, spec, variable, answer);
                known.push(number);
                all.push(evaluated);
                continue;
            }
            all.push(match without_pods && !zero::is_outside(spec) {
                true => metric::without_pods(spec),
                false => metric::evaluate(around, spec, answer),
            });
        }
        all.extend(input.formula.map(|formula| formula::evaluate(around, formula, &known)));
        all
    }

    /// Number of metrics that propose a size, the formula being one of them.
    fn proposers(&self) -> usize {
        let metrics = self.input.spec.metrics.len();
        let Some(formula) = self.input.formula else { return metrics };
        (0..metrics).filter(|index| formula.variable(*index).is_none()).count() + 1
    }

    /// Finds the metrics that are active, where that matters, and what they say together. Of its own metric an external scaler
    /// knows it, if it was asked.
    fn activity_of(&self, all: &mut [Evaluated], answers: &[Answer<'_>]) -> Activity {
        let Some(rules) = self.zero_rules() else { return Activity::NoMatter };
        let failed = all.iter().any(|evaluated| evaluated.failure.is_some());
        for (index, evaluated) in all.iter_mut().enumerate() {
            let activation = i128::from(rules.activation_milli(index));
            if self.input.formula.is_some_and(|formula| formula.variable(index).is_some()) {
                continue;
            }
            let asked = match answers.get(index) {
                Some(Answer::Scaler(reading)) => reading.active,
                _ => None,
            };
            evaluated.step.active = asked.or_else(|| evaluated.total.map(|total| activation < total));
        }
        if all.iter().any(|evaluated| evaluated.step.active == Some(true)) {
            Activity::Active
        } else if failed {
            Activity::Unknown
        } else {
            Activity::Idle
        }
    }

    /// The largest proposal, and what failed. While no metric is active, those that do not come from the pods ask for
    /// nothing.
    fn largest(&mut self, all: Vec<Evaluated>) -> (i32, Vec<(&'static str, String)>) {
        let mut best = 0;
        let mut failures: Vec<(&'static str, String)> = Vec::new();
        for Evaluated { status, step, failure, .. } in all {
            let silent = self.activity == Activity::Idle && step.active == Some(false);
            let proposal = if silent { Some(0) } else { step.proposal };
            // Ties go to the first; a best of 0 is replaced by anything.
            if let Some(proposal) = proposal.filter(|proposal| best == 0 || *proposal > best) {
                best = proposal;
                self.steps.proposed_by = Some(step.name.clone());
            }
            if let Some((reason, message)) = failure {
                self.warn(reason, message.clone());
                failures.push((reason, message));
            }
            self.status.current_metrics.push(status);
            self.steps.metrics.push(step);
        }
        (best, failures)
    }

    fn combined(&mut self, scale: &Scale, best: i32, failures: Vec<(&'static str, String)>) -> Combined {
        let (n_failed, n_metrics) = (failures.len(), self.proposers());
        if let Some((reason, message)) = failures.into_iter().next() {
            self.error = ErrorLabel::Internal;
            // A metric that failed may be active.
            let may_be_active = self.activity == Activity::Unknown;
            if n_failed == n_metrics || best < scale.spec_replicas || may_be_active {
                let words = format!("a replica count could not be computed: {message}");
                self.condition(SCALING_ACTIVE, false, reason, words);
                self.steps.proposed_by = None;
                let error = format!("{n_failed} of {n_metrics} metrics are invalid, the first: {message}");
                return Combined::Unknown { error };
            }
        }
        if n_metrics == 0 {
            // The reference sets the failure that there was not: a condition with nothing in it.
            if !self.status.conditions.iter().any(|condition| condition.type_.is_empty()) {
                self.status.conditions.push(Condition::default());
            }
            return Combined::Proposed(best);
        }
        let by = self.steps.proposed_by.as_deref().unwrap_or("the bounds");
        let words = format!("a replica count was computed from {by}");
        self.condition(SCALING_ACTIVE, true, conditions::VALID_METRIC_FOUND, words);
        Combined::Proposed(best)
    }

    /// True if the selector identifies this workload's pods, and only this HPA's.
    ///
    /// Source: podautoscaler horizontal.go, validateAndParseSelector.
    fn check_selector(&mut self, selector: &str) -> Result<(), String> {
        let (event, reason, message) = if selector.is_empty() {
            let message = "the target's scale has no selector".to_owned();
            (conditions::SELECTOR_REQUIRED, conditions::INVALID_SELECTOR, message)
        } else if let Err(error) = Selector::parse(selector) {
            let message = format!("the selector {selector:?} of the target's scale can not be read: {error}");
            (conditions::INVALID_SELECTOR, conditions::INVALID_SELECTOR, message)
        } else if !self.input.rivals.is_empty() {
            let rivals = self.input.rivals.join(", ");
            let message =
                format!("the pods of selector {selector:?} are also controlled by other HPAs: {rivals}");
            (conditions::AMBIGUOUS_SELECTOR, conditions::AMBIGUOUS_SELECTOR, message)
        } else {
            return Ok(());
        };
        self.warn(event, message.clone());
        self.condition(SCALING_ACTIVE, false, reason, message.clone());
        Err(message)
    }

    // === normalising ===

    /// The proposal after stabilization, rates and bounds; sets AbleToScale and ScalingLimited.
    ///
    /// Source: podautoscaler horizontal.go, normalizeDesiredReplicas and normalizeDesiredReplicasWithBehaviors.
    fn normalise(&mut self, current: i32, proposed: i32) -> i32 {
        let input = self.input;
        let windows = Windows::of(input.spec, input.options);
        let stabilized = match input.spec.behavior {
            None => stabilization::highest(&mut self.memory, proposed, windows, input.now),
            Some(_) => stabilization::between(&mut self.memory, current, proposed, windows, input.now),
        };
        // The last replica has a window of its own: `toZeroAfter`.
        let idle = matches!(self.steps.zero, Some(ZeroStep::Idle { .. }));
        let stabilized = if idle && stabilized == 1 { 0 } else { stabilized };
        self.steps.stabilized = Some(stabilized);
        self.report_stabilized(current, proposed, stabilized);
        let (desired, limit) = match input.spec.behavior {
            None => self.legacy_limits(current, stabilized),
            Some(_) => self.behavior_limits(current, stabilized),
        };
        let (desired, limit) = self.around_zero(current, desired, limit);
        if desired != stabilized {
            self.steps.limited_by = limit;
        }
        let (reason, words) = match limit {
            Some(Limit::ScaleUpLimit) => (conditions::SCALE_UP_LIMIT, "growth is held at the highest rate"),
            Some(Limit::ScaleDownLimit) => {
                (conditions::SCALE_DOWN_LIMIT, "shrinkage is held at the highest rate")
            }
            Some(Limit::TooManyReplicas) => {
                (conditions::TOO_MANY_REPLICAS, "the desired count is above the most replicas allowed")
            }
            Some(Limit::TooFewReplicas) => {
                (conditions::TOO_FEW_REPLICAS, "the desired count is below the fewest replicas allowed")
            }
            Some(Limit::ToZeroAfter) => (
                conditions::TO_ZERO_AFTER,
                "no metric is active, and the last replica stays until that has been so for timing.toZeroAfter",
            ),
            Some(Limit::ScaleUpStabilized | Limit::ScaleDownStabilized) | None => {
                (conditions::DESIRED_WITHIN_RANGE, "the desired count is within the range allowed")
            }
        };
        self.condition(SCALING_LIMITED, desired != stabilized, reason, words.to_owned());
        desired
    }

    fn report_stabilized(&mut self, current: i32, proposed: i32, stabilized: i32) {
        let limit = if stabilized == proposed {
            None
        } else if self.input.spec.behavior.is_some() && current <= proposed {
            Some(Limit::ScaleUpStabilized)
        } else {
            Some(Limit::ScaleDownStabilized)
        };
        let (reason, words) = match limit {
            Some(Limit::ScaleUpStabilized) => (
                conditions::SCALE_UP_STABILIZED,
                "recent proposals were lower than this one: the lowest of them is applied",
            ),
            Some(_) => (
                conditions::SCALE_DOWN_STABILIZED,
                "recent proposals were higher than this one: the highest of them is applied",
            ),
            None => (conditions::READY_FOR_NEW_SCALE, "the proposed size and the current size agree"),
        };
        self.steps.limited_by = limit;
        self.condition(ABLE_TO_SCALE, true, reason, words.to_owned());
    }

    /// Without a behavior: at most twice the size, at least 4, a tick; then the bounds.
    ///
    /// Source: podautoscaler horizontal.go, convertDesiredReplicasWithRules.
    fn legacy_limits(&mut self, current: i32, stabilized: i32) -> (i32, Option<Limit>) {
        let rate = current.wrapping_add(current).max(4);
        let (min, max) = (self.steps.bounds.min, self.steps.bounds.max);
        let (cap, limit) =
            if max > rate { (rate, Limit::ScaleUpLimit) } else { (max, Limit::TooManyReplicas) };
        if stabilized < min {
            (min, Some(Limit::TooFewReplicas))
        } else if stabilized > cap {
            if limit == Limit::ScaleUpLimit {
                self.steps.rate_limit = Some(rate);
            }
            (cap, Some(limit))
        } else {
            (stabilized, None)
        }
    }

    /// With a behavior: the rates of its policies, and the bounds.
    ///
    /// Source: podautoscaler horizontal.go, convertDesiredReplicasWithBehaviorRate.
    fn behavior_limits(&mut self, current: i32, stabilized: i32) -> (i32, Option<Limit>) {
        let input = self.input;
        let behavior = input.spec.behavior.as_ref();
        let (min, max) = (self.steps.bounds.min, self.steps.bounds.max);
        let rate = |direction, rules| behavior::limit(direction, current, rules, &self.memory, input.now);
        if stabilized > current {
            let rules = behavior.and_then(|behavior| behavior.scale_up.as_ref());
            let rate = rate(Direction::Up, rules).max(current);
            let (cap, limit) =
                if max > rate { (rate, Limit::ScaleUpLimit) } else { (max, Limit::TooManyReplicas) };
            if stabilized > cap {
                self.steps.rate_limit = (limit == Limit::ScaleUpLimit).then_some(rate);
                return (cap, Some(limit));
            }
        } else if stabilized < current {
            let rules = behavior.and_then(|behavior| behavior.scale_down.as_ref());
            let rate = rate(Direction::Down, rules).min(current);
            let (floor, limit) =
                if min < rate { (rate, Limit::ScaleDownLimit) } else { (min, Limit::TooFewReplicas) };
            if stabilized < floor {
                self.steps.rate_limit = (limit == Limit::ScaleDownLimit).then_some(rate);
                return (floor, Some(limit));
            }
        }
        (stabilized, None)
    }

    /// The last replica stays until no metric has been active for long enough, and the first one waits neither for a
    /// window nor for a rate: Percent policies alone would never leave 0. What the fallback asks for is left alone.
    fn around_zero(&mut self, current: i32, desired: i32, limit: Option<Limit>) -> (i32, Option<Limit>) {
        let stays = match self.steps.zero {
            _ if self.zero_rules().is_none() || self.steps.branch == Branch::Fallback => false,
            Some(ZeroStep::Idle { .. }) => false,
            _ => 0 < current,
        };
        if stays && desired == 0 {
            return (1, Some(Limit::ToZeroAfter));
        }
        let up = self.input.spec.behavior.as_ref().and_then(|behavior| behavior.scale_up.as_ref());
        let may_grow = up.and_then(|rules| rules.select_policy.as_deref()) != Some("Disabled");
        let wakes = self.steps.zero == Some(ZeroStep::Activated) && may_grow && 0 < self.steps.bounds.max;
        if wakes && desired == 0 {
            self.steps.rate_limit = None;
            return (1, limit);
        }
        (desired, limit)
    }

    // === words ===

    fn condition(&mut self, type_: &str, holds: bool, reason: &'static str, message: String) {
        conditions::set(&mut self.status, type_, holds, reason, message, self.input.now.second());
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push(Event { type_: EventType::Warning, reason, message });
    }

    fn decision(self, rescale: Option<Rescale>) -> Decision {
        let input = self.input;
        let mut journal = self.memory.clone();
        let gates = input.options.gates;
        if let Some(change) = &rescale {
            let behavior = input.spec.behavior.as_ref();
            behavior::record(&mut journal, behavior, change.from, change.to, input.now);
            let may = input.zero.is_some() || zero::hpa_may(gates, input.spec);
            zero::mark(&mut journal, may, change.to, input.now);
        }
        Decision {
            events: self.events,
            journal,
            memory: self.memory,
            steps: self.steps,
            status: self.status,
            events_after_status: self.events_after_status,
            error: self.error,
            failed_early: self.failed_early,
            stored_desired: input.status.desired_replicas,
            scaled_to_zero: (gates.scaled_to_zero && input.zero.is_none()).then(|| {
                rescale.as_ref().is_some_and(|change| change.to == 0) && zero::hpa_may(gates, input.spec)
            }),
            own_change: rescale.as_ref().map(|change| (change.from, change.to)),
            behavior: input.spec.behavior.clone().filter(|_| rescale.is_some()),
            now: input.now,
            rescale,
        }
    }
}
