//! One reconcile of one workload: see, ask, decide, journal, write, report. It holds no rule of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_core::pods::conditions::{METRIC_ACTIVE, SURGE_ENDED, SURGE_FOR_DRAIN};
use headroom_core::pods::decision::{Branch, Decision, Rescale, Steps, SurgeStep, WriteOutcome};
use headroom_core::pods::input::Options;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::Leave;
use headroom_core::pods::schedules;
use headroom_core::pods::selector::Registry;
use headroom_core::pods::surge::own_replicas;
use headroom_core::pods::zero::{ZeroOwner, ZeroStep};
use headroom_core::pods::{after_write, needs_metrics};
use headroom_core::time::UnixTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tracing::{debug, info};

use super::gather::{Load, ask};
use super::last::{EvaluationInput, Last};
use super::observation::{WorkloadObservation, notice_conflict};
use super::ownership::{self, Circumstances, OwnershipDecision, Stage};
use super::release::{Release, with_scaled_to_zero};
use super::reporting::{View, hpa_version, last_hpa_status};
use super::resolve::{Workload, WorkloadPhase};
use super::scale_in;
use super::state::{DONE, FAILED, HELD, IN_PROGRESS, OBSERVED, PREVIEW, SizeWritten, State, UNKNOWN};
use super::surge;
use crate::actuate::deletion_costs::DeletionCosts;
use crate::actuate::scale::{ScaleError, Scales};
use crate::controllers::health::Health;
use headroom_api::conditions::reasons;
use headroom_api::{HpaOwnership, Mode, ScaleInChoice, ScalingDecision};
use headroom_observe::host::Host;
use headroom_observe::metrics::MetricsSource;
use headroom_observe::{HpaObject, KubeFeed};
use headroom_report::otlp::TraceSink;
use headroom_report::replica_traces::Course;
use headroom_report::{HpaOwned, KubeSink, Metrics, PolicyPhase, ScalingSink, WriteError};

/// Everything outside that an evaluation of a workload touches.
pub(super) struct Dependencies {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// Source of observations.
    pub feed: KubeFeed,
    /// Scales.
    pub scales: Scales,
    /// Release of the API server.
    pub release: Release,
    /// Deletion costs of pods.
    pub costs: DeletionCosts,
    /// Queue of questions to the node loop, and display of a missing permission.
    pub health: Arc<Health>,
    /// Status.
    pub sink: ScalingSink,
    /// Events.
    pub events: KubeSink,
    /// The selectors of all HPAs that are decided on.
    pub registry: Mutex<Registry>,
    /// Counters of decisions.
    pub numbers: Arc<Metrics>,
    /// Destination of traces of decisions; `None` if they are not exported.
    pub traces: Option<TraceSink>,
    /// True if an HPA was found that nobody else runs, and none since that somebody does.
    pub nobody_else_runs_hpas: Arc<AtomicBool>,
}

/// Settings of all workloads.
pub(super) struct Rules {
    /// Source of metrics.
    pub metrics: Arc<dyn MetricsSource>,
    /// Options of the decisions.
    pub options: Options,
    /// Controller that runs HPAs.
    pub ownership: HpaOwnership,
    /// Chooser of the pods that go when replicas are lowered.
    pub scale_in: ScaleInChoice,
}

/// End of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As it should: the next one is due in a period.
    Well,
    /// Something was in the way that is likely gone soon: memory was read back, or could not be stored.
    Again,
}

impl Dependencies {
    /// Looks at a workload once. What is remembered comes back in the state.
    pub(super) async fn evaluate(&self, workload: &Arc<Workload>, rules: &Rules, state: &mut State) -> Ended {
        self.adopt_version(workload, state);
        self.report_left_out(workload, state);
        let phase = phase_of(workload);
        let judged = matches!(phase, PolicyPhase::Accepted | PolicyPhase::Preview);
        let hpa = workload
            .hpa
            .as_ref()
            .and_then(|key| self.feed.workloads(|known| known.hpas().get(key).cloned()).flatten());
        if !judged || (workload.hpa.is_some() && hpa.is_none()) {
            self.forget_selector(workload);
            state.last = Some(Last::Undecided(undecided(&phase)));
            state.surge = None;
            self.announce_conflict(workload, state, &phase);
            return self.report(workload, state, &View { phase, ..View::default() }).await;
        }
        let now = self.host.now();
        let mut course = Course::begin(self.host.wall());
        let owned = match &hpa {
            Some(hpa) => Some(self.judge_ownership(hpa, workload, rules, state).await),
            None => None,
        };
        let runs_hpa = owned.as_ref().is_some_and(|owned| owned.owned);
        let settled = self.settle(workload, state).await;
        if settled == Ok(false) {
            // It may still land, and would be counted wrongly by whatever is decided before.
            return Ended::Again;
        }
        let mut observation = self.see(workload, state).await;
        if let Err(problem) = settled {
            observation.scale = Err(problem);
        }
        notice_conflict(workload, rules, state, &observation, now);

        let before = match hpa.as_ref().filter(|_| runs_hpa) {
            Some(hpa) => last_hpa_status(hpa, state),
            None => with_scaled_to_zero(state.reported.clone(), hpa.as_deref()),
        };
        let mut options = workload.options(&rules.options);
        options.gates = self.release.gates(workload, &before, options.gates, &self.host).await;

        let bounds = schedules::bounds(&workload.spec, &workload.schedules, now);
        let asks = observation.scale.as_ref().is_ok_and(|scale| {
            let own = own_replicas(&state.memory.memory, scale.spec_replicas);
            let owner = ZeroOwner::of(workload.zero.as_ref(), options.gates, &before, &state.memory.memory);
            // A size that a preview leaves out of its bounds says nothing of what the load asks for.
            workload.mode == Mode::Preview || needs_metrics(&workload.spec, &bounds, own, owner)
        });
        let selector = observation.scale.as_ref().map(|scale| scale.selector.clone()).unwrap_or_default();
        let asked_at = self.host.wall();
        let load = match asks {
            true => ask(&*metrics_for(rules, workload), workload, &selector, &observation.pods).await,
            false => Load::default(),
        };
        if asks {
            course.part("metrics", true, (asked_at, self.host.wall()), None);
        }
        let acts = acts(workload, runs_hpa);
        let leave = leave(workload, acts, state.held_until(now));
        let surge = surge::allowed(workload, leave).map(|_| self.health.surges.wish(&workload.key));
        let input = EvaluationInput {
            workload: workload.clone(),
            leave,
            surge: surge.unwrap_or_default(),
            // Memory is what status holds: whole seconds.
            now: Moment::from_jiff(self.host.time()).whole(),
            options,
            status: before,
            memory: state.memory.memory.clone(),
            scale: observation.scale.clone(),
            pods: std::mem::take(&mut observation.pods),
            rivals: std::mem::take(&mut observation.rivals),
            gathered: load.gathered,
        };
        let decision = input.decide();
        state.surge = surge::report_of(&input, &decision);
        observation.scale_in = scale_in::wanted(&input, &decision, rules.scale_in);
        state.last = Some(Last::Decided(Arc::new(input)));

        let steps = decision.steps.clone();
        let view = View { phase, owned, steps: Some(steps), troubles: load.troubles };
        let seen = (&observation, &view, &mut course);
        let Some(outcome) = self.carry_out(workload, state, &decision, leave, seen).await else {
            return Ended::Again;
        };
        // A change that may have been made counts until the next reconcile shows it.
        let maybe = state.is_unsettled().then(|| decision.journal.clone());
        let mut tick = after_write(decision, &outcome);
        tick.memory = maybe.unwrap_or(tick.memory);
        self.finish(workload, state, hpa.as_deref().filter(|_| runs_hpa), (tick, acts), &view).await
    }

    /// Finds out what became of a change that was not answered, or was under way when the process ended: by the size as it
    /// is, since a view may be behind. Err in words when that cannot be read; then nothing is decided on.
    /// Returns whether nothing is on its way any more.
    async fn settle(&self, workload: &Workload, state: &mut State) -> Result<bool, String> {
        let Some(target) = workload.target.as_ref().filter(|_| state.is_unsettled()) else { return Ok(true) };
        let live = self.scales.read(target).await?;
        state.settle(live.scale.spec_replicas, &live.resource_version, self.host.now());
        Ok(!state.is_unsettled())
    }

    /// Decides who runs the HPA; if that does not show, asks by a write that another controller would undo. One more write, in
    /// the same version, confirms the answer: a watch that has fallen silent shows nobody.
    async fn judge_ownership(
        &self,
        hpa: &HpaObject,
        workload: &Workload,
        rules: &Rules,
        state: &mut State,
    ) -> HpaOwned {
        let version = hpa_version(hpa, state);
        let ahead = version != hpa.resource_version;
        let around = Circumstances {
            configured: rules.ownership,
            sync_period: workload.timing.options(&rules.options).sync_period,
            writes: workload.mode == Mode::Apply,
            nobody_elsewhere: self.nobody_else_runs_hpas.load(Ordering::Relaxed),
            now: self.host.now(),
        };
        let before = state.question.stage;
        let OwnershipDecision { mut owned, ask } =
            ownership::decide(&mut state.question, &ownership::StatusWriters::of(hpa, ahead), &around);
        if ask || state.question.stage.begins(before) {
            let value = if ask { ownership::QUESTION } else { hpa.generation };
            match self.sink.mark_hpa(&hpa.key, &version, value).await {
                Ok(version) => state.marked = version,
                Err(WriteError::Forbidden(answer)) => {
                    state.question.stage = before;
                    owned = ownership::not_permitted(&answer);
                }
                Err(error) => {
                    debug!(hpa = %hpa.key, %error, "HPA not marked; the next look does it");
                    state.question.stage = before;
                    if !ask {
                        owned = ownership::unconfirmed();
                    }
                }
            }
        }
        match (before, state.question.stage) {
            (Stage::Asked(_), Stage::Alone) => self.nobody_else_runs_hpas.store(true, Ordering::Relaxed),
            (Stage::Asked(_) | Stage::Alone, Stage::Open) => {
                info!(hpa = %hpa.key, message = owned.message, "somebody else runs HPAs");
                self.nobody_else_runs_hpas.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
        owned
    }

    /// Makes the change of size, if there is one and there is leave: first the journal, then the write. `None` when the
    /// journal could not be written: then nothing was done, and there is nothing to report.
    async fn carry_out(
        &self,
        workload: &Workload,
        state: &mut State,
        decision: &Decision,
        leave: Leave,
        (observation, view, course): (&WorkloadObservation, &View, &mut Course),
    ) -> Option<WriteOutcome> {
        let Some(rescale) = &decision.rescale else { return Some(WriteOutcome::NotWritten) };
        let decision_of =
            |outcome: &str| decision_reported(rescale, &decision.steps, outcome, self.host.now());
        let outcome = match leave {
            Leave::Granted => IN_PROGRESS,
            Leave::Preview => PREVIEW,
            Leave::Observed => OBSERVED,
            Leave::Held => HELD,
        };
        let known = state.memory.clone();
        let news = state.decided(decision_of(outcome));
        if leave != Leave::Granted {
            if news {
                self.count(state);
                self.trace(workload, state, course);
            }
            return Some(WriteOutcome::NotWritten);
        }
        let target = workload.target.as_ref()?;
        state.memory.memory = decision.journal.clone();
        let journalled_at = self.host.wall();
        if let Err(error) = self.store(workload, state, view).await {
            state.memory = known;
            self.recover(workload, state, &error).await;
            return None;
        }
        let costs_at = self.host.wall();
        course.part("journal", true, (journalled_at, costs_at), None);
        let mut written_at = costs_at;
        if let Some(scale_in) = &observation.scale_in {
            let problem = self.write_costs(scale_in).await;
            written_at = self.host.wall();
            course.part("deletion costs", true, (costs_at, written_at), problem);
        }
        let sizes = (rescale.from, rescale.to);
        let written = self.scales.write(target, sizes, &observation.resource_version).await;
        let problem = match &written {
            Err(ScaleError::Failed(message) | ScaleError::Unanswered(message)) => Some(message.clone()),
            Ok(_) | Err(ScaleError::Superseded { .. }) => None,
        };
        course.part("scale", true, (written_at, self.host.wall()), problem);
        let (outcome, word) = match written {
            Ok(resource_version) => {
                info!(workload = %workload.key, from = rescale.from, to = rescale.to, reason = %rescale.reason, "rescaled");
                state.size = Some(SizeWritten { resource_version, replicas: rescale.to });
                state.memory.last_scale_at = Some(self.host.now());
                (WriteOutcome::Written { at: Moment::from_jiff(self.host.time()).whole() }, DONE)
            }
            Err(ScaleError::Superseded { fresh }) => {
                debug!(workload = %workload.key, fresh, "the size was changed in between");
                state.memory = known;
                return Some(WriteOutcome::NotWritten);
            }
            Err(ScaleError::Failed(message)) => (WriteOutcome::Failed { message }, FAILED),
            Err(ScaleError::Unanswered(message)) => (WriteOutcome::Failed { message }, UNKNOWN),
        };
        if let Some(last) = state.memory.decisions.first_mut() {
            word.clone_into(&mut last.outcome);
        }
        self.count(state);
        self.trace(workload, state, course);
        Some(outcome)
    }

    /// Sends the trace of the decision that was made last, where anybody wants it.
    fn trace(&self, workload: &Workload, state: &State, course: &Course) {
        let (Some(sink), Some(decision)) = (&self.traces, state.memory.decisions.first()) else { return };
        let target = &workload.spec.scale_target_ref;
        let name = format!("{} {}/{}", target.kind, workload.key.namespace, target.name);
        sink.put(course.trace(&workload.key, &name, decision, self.host.wall()));
    }

    /// Counts the decision that was made last.
    fn count(&self, state: &State) {
        if let Some(decision) = state.memory.decisions.first() {
            self.numbers.workloads.decided(decision);
        }
    }

    /// After a panic of an evaluation of this workload: its policy reports it. What it remembers stays as it is stored.
    pub(super) async fn report_panic(&self, workload: &Workload, pause: Duration) {
        let stored = self.feed.workloads(|known| known.policies().get(&workload.key).cloned()).flatten();
        let Some(stored) = stored.filter(|stored| stored.uid == workload.uid) else { return };
        let mut state = State::restore(&stored, self.host.now(), Duration::ZERO);
        let message = format!(
            "a bug of the operator stopped the decision on this workload; its size stays, and it is tried again every {} s: \
             please report it with the operator's log",
            pause.as_secs()
        );
        let phase = PolicyPhase::Broken(message);
        self.report(workload, &mut state, &View { phase, ..View::default() }).await;
    }
}

/// The source of metrics for a workload that may be evaluated more often than others.
fn metrics_for(rules: &Rules, workload: &Workload) -> Arc<dyn MetricsSource> {
    rules.metrics.for_period(workload.timing.sync_period).unwrap_or_else(|| rules.metrics.clone())
}

/// True if the size is the operator's to change.
pub(super) fn acts(workload: &Workload, runs_hpa: bool) -> bool {
    workload.mode == Mode::Apply && (workload.hpa.is_none() || runs_hpa)
}

/// True if a change of size is made now.
pub(super) fn leave(workload: &Workload, acts: bool, held_until: Option<UnixTime>) -> Leave {
    match (acts, held_until) {
        (true, None) => Leave::Granted,
        (true, Some(_)) => Leave::Held,
        (false, _) if workload.mode == Mode::Preview => Leave::Preview,
        (false, _) => Leave::Observed,
    }
}

/// Reason why a policy that stands so is not decided on.
pub(super) fn undecided(phase: &PolicyPhase) -> String {
    match phase {
        PolicyPhase::Suspended => "mode is Suspend".to_owned(),
        PolicyPhase::Conflict(message)
        | PolicyPhase::Invalid(message)
        | PolicyPhase::Stalled(_, message)
        | PolicyPhase::Broken(message) => message.clone(),
        PolicyPhase::Pending | PolicyPhase::Accepted | PolicyPhase::Preview => {
            "its HorizontalPodAutoscaler is not known yet".to_owned()
        }
    }
}

pub(super) fn phase_of(workload: &Workload) -> PolicyPhase {
    match (&workload.phase, workload.mode) {
        (WorkloadPhase::Invalid(message), _) => PolicyPhase::Invalid(message.clone()),
        (WorkloadPhase::Conflict(message), _) => PolicyPhase::Conflict(message.clone()),
        (WorkloadPhase::Stalled(reason, message), _) => PolicyPhase::Stalled(reason, message.clone()),
        (WorkloadPhase::Owner, Mode::Apply) => PolicyPhase::Accepted,
        (WorkloadPhase::Owner, Mode::Preview) => PolicyPhase::Preview,
        (WorkloadPhase::Owner, Mode::Suspend) => PolicyPhase::Suspended,
    }
}

/// A change of size as the history shows it.
fn decision_reported(rescale: &Rescale, steps: &Steps, outcome: &str, now: UnixTime) -> ScalingDecision {
    let reason = match (steps.limited_by, steps.branch) {
        _ if steps.surge == Some(SurgeStep::Begins) => SURGE_FOR_DRAIN,
        _ if steps.surge == Some(SurgeStep::Ends) => SURGE_ENDED,
        (Some(limit), _) => limit.as_str(),
        (None, Branch::Fallback) => reasons::METRICS_UNUSABLE,
        (None, _) if rescale.to == 0 && matches!(steps.zero, Some(ZeroStep::Idle { .. })) => {
            reasons::NO_METRIC_ACTIVE
        }
        (None, _) if steps.zero == Some(ZeroStep::Activated) => METRIC_ACTIVE,
        (None, _) if rescale.from < rescale.to => "MetricAboveTarget",
        (None, _) => "AllMetricsBelowTarget",
    };
    let numbers: Vec<String> = (steps.metrics.iter())
        .filter_map(|step| {
            let value = step.value.as_deref()?;
            let target = step.target.as_ref().map_or_else(String::new, |target| format!(", target {target}"));
            Some(format!("{} is {value}{target}", step.name))
        })
        .collect();
    let message = if numbers.is_empty() {
        rescale.reason.clone()
    } else {
        format!("{}: {}", rescale.reason, numbers.join("; "))
    };
    ScalingDecision {
        time: Time(now.to_jiff()),
        from: rescale.from,
        to: rescale.to,
        reason: reason.to_owned(),
        message: Some(headroom_core::text::cut(&message, 512).to_owned()),
        outcome: outcome.to_owned(),
    }
}
