//! One look at one workload: see, ask, decide, journal, write, tell. It holds no rule of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headroom_core::pods::decision::{Branch, Decision, Event, EventType, Rescale, Steps, Tick, WriteOutcome};
use headroom_core::pods::input::{Input, Options, PodSeen, Scale};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::schedules;
use headroom_core::pods::selector::{Registry, Selector};
use headroom_core::pods::{after_write, conditions, decide, needs_metrics};
use headroom_core::time::{Seconds, UnixTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tracing::{debug, info, warn};

use super::gather::{Load, answers, ask, relapse};
use super::ownership::{self, Circumstances, Judged, Stage};
use super::state::{
    DONE, FAILED, HELD, HpaWritten, IN_PROGRESS, OBSERVED, PREVIEW, SizeWritten, State, hpa_status, newer,
};
use super::survey::{Standing, Workload};
use crate::actuate::scale::{ScaleError, Scales};
use crate::api::conditions::reasons;
use crate::api::{HpaOwnership, Mode, ScalingDecision};
use crate::host::Host;
use crate::metrics::MetricsSource;
use crate::observe::{HpaObject, KubeFeed, ScaleKind, Writer};
use crate::report::events::{Regarding, RegardingKind, on_workload};
use crate::report::otlp::TraceSink;
use crate::report::replica_traces::Course;
use crate::report::workload::{render, without_numbers, without_repetitions};
use crate::report::{
    HpaOwned, KubeSink, MetricTrouble, Metrics, PolicyStanding, ScalingSink, StatusSink, WorkloadMemory,
    WorkloadView, WriteError,
};

/// What is only a number is written this often at most.
const NUMBERS_EVERY: Duration = Duration::from_secs(60);

/// Everything outside that a look at a workload touches.
pub struct Crew {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// What is observed.
    pub feed: KubeFeed,
    /// Scales.
    pub scales: Scales,
    /// Status.
    pub sink: ScalingSink,
    /// Events.
    pub events: KubeSink,
    /// The selectors of all HPAs that are decided on.
    pub registry: Mutex<Registry>,
    /// Where decisions are counted.
    pub numbers: Arc<Metrics>,
    /// Where traces of decisions go, if anywhere.
    pub traces: Option<TraceSink>,
    /// Whether an HPA was found that nobody else runs, and none since that somebody does.
    pub nobody_else_runs_hpas: AtomicBool,
}

/// What holds for all workloads.
pub struct Rules {
    /// What the load is.
    pub metrics: Arc<dyn MetricsSource>,
    /// What decisions are made with.
    pub options: Options,
    /// Who runs HPAs.
    pub ownership: HpaOwnership,
}

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it should: the next one is due in a period.
    Well,
    /// Something was in the way that is likely gone soon: memory was read back, or could not be stored.
    Again,
}

/// What was seen of a workload.
struct Sight {
    scale: Result<Scale, String>,
    resource_version: String,
    pods: Vec<Arc<PodSeen>>,
    rivals: Vec<Arc<str>>,
    writers: Vec<Writer>,
}

/// Whether a change of size is made, or what it is called in the history if not.
enum Leave {
    Granted,
    Denied(&'static str),
}

impl Crew {
    /// Looks at a workload once. What is remembered comes back in the state.
    pub async fn evaluate(&self, workload: &Workload, rules: &Rules, state: &mut State) -> Ended {
        self.adopt_version(workload, state);
        let standing = standing_of(workload);
        let judged = matches!(standing, PolicyStanding::Accepted | PolicyStanding::Preview);
        let hpa = workload
            .hpa
            .as_ref()
            .and_then(|key| self.feed.workloads(|known| known.hpas().get(key).cloned()).flatten());
        if !judged || (workload.hpa.is_some() && hpa.is_none()) {
            self.forget_selector(workload);
            return self.report(workload, state, &View { standing, ..View::default() }).await;
        }
        let now = self.host.now();
        let mut course = Course::begin(self.host.wall());
        let owned = match &hpa {
            Some(hpa) => Some(self.judge_ownership(hpa, workload, rules, state).await),
            None => None,
        };
        let runs_hpa = owned.as_ref().is_some_and(|owned| owned.owned);
        let sight = self.see(workload, state).await;
        notice_contest(workload, rules, state, &sight, now);

        let bounds = schedules::bounds(&workload.spec, &workload.schedules, now);
        let asks = sight
            .scale
            .as_ref()
            .is_ok_and(|scale| needs_metrics(&workload.spec, &bounds, scale.spec_replicas));
        let selector = sight.scale.as_ref().map(|scale| scale.selector.clone()).unwrap_or_default();
        let asked_at = self.host.wall();
        let mut load = if asks { ask(&*rules.metrics, workload, &selector).await } else { Load::default() };
        if asks {
            course.part("metrics", true, (asked_at, self.host.wall()), None);
        }
        relapse(&mut load, &sight.pods, Moment::from_jiff(self.host.time()));
        let before = match hpa.as_ref().filter(|_| runs_hpa) {
            Some(hpa) => last_hpa_status(hpa, state),
            None => state.told.clone(),
        };
        let pods: Vec<&PodSeen> = sight.pods.iter().map(|pod| &**pod).collect();
        let answers = answers(&load, &sight.pods);
        let decision = decide(&Input {
            now: Moment::from_jiff(self.host.time()),
            options: &rules.options,
            spec: &workload.spec,
            schedules: &workload.schedules,
            fallback: workload.fallback.as_ref(),
            namespace: &workload.key.namespace,
            status: &before,
            memory: &state.memory.memory,
            scale: sight.scale.as_ref().map_err(String::as_str),
            pods: &pods,
            rivals: &sight.rivals,
            answers: &answers,
        });

        let steps = decision.steps.clone();
        let acts = workload.mode == Mode::Apply && (workload.hpa.is_none() || runs_hpa);
        let leave = match (acts, state.held_until(now)) {
            (true, None) => Leave::Granted,
            (true, Some(_)) => Leave::Denied(HELD),
            (false, _) if workload.mode == Mode::Preview => Leave::Denied(PREVIEW),
            (false, _) => Leave::Denied(OBSERVED),
        };
        let view = View { standing, owned, steps: Some(steps), troubles: load.troubles };
        let seen = (&sight, &view, &mut course);
        let Some(outcome) = self.carry_out(workload, state, &decision, leave, seen).await else {
            return Ended::Again;
        };
        let tick = after_write(decision, &outcome);
        self.finish(workload, state, hpa.as_deref().filter(|_| runs_hpa), (tick, acts), &view).await
    }

    /// Who runs the HPA; where that does not show, it is asked by a write that somebody else would undo.
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
            told: rules.ownership,
            sync_period: rules.options.sync_period,
            writes: workload.mode == Mode::Apply,
            nobody_elsewhere: self.nobody_else_runs_hpas.load(Ordering::Relaxed),
            now: self.host.now(),
        };
        let before = state.question.stage;
        let Judged { owned, ask } =
            ownership::judge(&mut state.question, &ownership::Sight::of(hpa, ahead), &around);
        match (before, state.question.stage) {
            (Stage::Asked(_), Stage::Alone) => self.nobody_else_runs_hpas.store(true, Ordering::Relaxed),
            (Stage::Asked(_) | Stage::Alone, Stage::Open) => {
                info!(hpa = %hpa.key, message = owned.message, "somebody else runs HPAs");
                self.nobody_else_runs_hpas.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
        if ask {
            match self.sink.mark_hpa(&hpa.key, &version, hpa.generation).await {
                Ok(version) => state.marked = version,
                Err(error) => {
                    debug!(hpa = %hpa.key, %error, "HPA not marked; the next look does it");
                    state.question.stage = before;
                }
            }
        }
        owned
    }

    /// What is known of the workload's size and pods. Kinds that are watched are not asked for.
    async fn see(&self, workload: &Workload, state: &State) -> Sight {
        let mut sight = Sight {
            scale: Err(String::new()),
            resource_version: String::new(),
            pods: Vec::new(),
            rivals: Vec::new(),
            writers: Vec::new(),
        };
        let Some(target) = &workload.target else {
            let reference = &workload.spec.scale_target_ref;
            sight.scale =
                Err(format!("invalid API version in scale target reference: {:?}", reference.api_version));
            return sight;
        };
        let key = headroom_core::labels::ObjectKey::new(target.namespace.clone(), &*target.name);
        match ScaleKind::of(&target.group, &target.kind) {
            Some(kind) => {
                let seen = self.feed.workloads(|known| known.scale(kind, &key)).flatten();
                match seen {
                    Some(seen) => {
                        sight.scale = Ok(seen.scale.clone());
                        sight.resource_version.clone_from(&seen.resource_version);
                        sight.writers.clone_from(&seen.replicas_writers);
                    }
                    None => sight.scale = Err(format!("{} \"{}\" not found", target.kind, target.name)),
                }
            }
            None => match self.scales.read(target).await {
                Ok(live) => {
                    sight.scale = Ok(live.scale);
                    sight.resource_version = live.resource_version;
                }
                Err(problem) => sight.scale = Err(problem),
            },
        }
        // Our own write may be ahead of the watch.
        if let (Ok(scale), Some(written)) = (&mut sight.scale, &state.size)
            && newer(&written.resource_version, &sight.resource_version)
        {
            scale.spec_replicas = written.replicas;
            sight.resource_version.clone_from(&written.resource_version);
        }
        let Ok(scale) = &sight.scale else { return sight };
        let Some(selector) = Selector::parse(&scale.selector).ok().filter(|_| !scale.selector.is_empty())
        else {
            self.forget_selector(workload);
            return sight;
        };
        let found = self.feed.workloads(|known| known.pods(&target.namespace, &selector)).unwrap_or_default();
        sight.pods = found.pods;
        if let Some(hpa) = &workload.hpa {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.put(&hpa.namespace, &hpa.name, selector);
            sight.rivals =
                registry.rivals(&hpa.namespace, &hpa.name, found.labels.iter().map(|labels| &**labels));
        }
        sight
    }

    /// Makes the change of size, if there is one and there is leave: first the journal, then the write. `None` when the
    /// journal could not be written: then nothing was done, and nothing is to be told.
    async fn carry_out(
        &self,
        workload: &Workload,
        state: &mut State,
        decision: &Decision,
        leave: Leave,
        (sight, view, course): (&Sight, &View, &mut Course),
    ) -> Option<WriteOutcome> {
        let Some(rescale) = &decision.rescale else { return Some(WriteOutcome::NotWritten) };
        let told = |outcome: &str| decision_told(rescale, &decision.steps, outcome, self.host.now());
        let outcome = match leave {
            Leave::Granted => IN_PROGRESS,
            Leave::Denied(outcome) => outcome,
        };
        let known = state.memory.clone();
        let news = state.decided(told(outcome));
        if matches!(leave, Leave::Denied(_)) {
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
        let written_at = self.host.wall();
        course.part("journal", true, (journalled_at, written_at), None);
        let sizes = (rescale.from, rescale.to);
        let written = self.scales.write(target, sizes, &sight.resource_version).await;
        let problem = match &written {
            Err(ScaleError::Failed(message)) => Some(message.clone()),
            Ok(_) | Err(ScaleError::Superseded { .. }) => None,
        };
        course.part("scale", true, (written_at, self.host.wall()), problem);
        let (outcome, word) = match written {
            Ok(resource_version) => {
                info!(workload = %workload.key, from = rescale.from, to = rescale.to, reason = %rescale.reason, "rescaled");
                state.size = Some(SizeWritten { resource_version, replicas: rescale.to });
                state.memory.last_scale_at = Some(self.host.now());
                (WriteOutcome::Written { at: Moment::from_jiff(self.host.time()) }, DONE)
            }
            Err(ScaleError::Superseded { fresh }) => {
                debug!(workload = %workload.key, fresh, "the size was changed in between");
                state.memory = known;
                return Some(WriteOutcome::NotWritten);
            }
            Err(ScaleError::Failed(message)) => (WriteOutcome::Failed { message }, FAILED),
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

    /// After a panic of a look at this workload: its policy says so. What it remembers stays as it is stored.
    pub async fn tell_of_panic(&self, workload: &Workload, pause: Duration) {
        let stored = self.feed.workloads(|known| known.policies().get(&workload.key).cloned()).flatten();
        let Some(stored) = stored.filter(|stored| stored.uid == workload.uid) else { return };
        let mut state = State::restore(&stored, self.host.now(), Duration::ZERO);
        let message = format!(
            "a bug of the operator stopped the decision on this workload; its size stays, and it is tried again every {} s: \
             please report it with the operator's log",
            pause.as_secs()
        );
        let standing = PolicyStanding::Broken(message);
        self.report(workload, &mut state, &View { standing, ..View::default() }).await;
    }

    /// Tells what came of it: events, the HPA's status, the policy's.
    async fn finish(
        &self,
        workload: &Workload,
        state: &mut State,
        hpa: Option<&HpaObject>,
        (tick, acts): (Tick, bool),
        view: &View,
    ) -> Ended {
        state.memory.memory = tick.memory;
        let mut events = tick.events;
        state.told = tick.status;
        if let Some(hpa) = hpa.filter(|_| workload.mode == Mode::Apply)
            && let Err(error) = self.write_hpa(hpa, state).await
        {
            let message = error.to_string();
            events.push(Event {
                type_: EventType::Warning,
                reason: conditions::FAILED_UPDATE_STATUS,
                message,
            });
        }
        events.extend(tick.events_after_status);
        if acts {
            self.tell(workload, hpa, state, events);
        }
        self.report(workload, state, view).await
    }

    /// Writes the HPA's status if it differs: at once, but for numbers alone once a minute.
    async fn write_hpa(&self, hpa: &HpaObject, state: &mut State) -> Result<(), WriteError> {
        let stored = last_hpa_status(hpa, state);
        let generation_told = observed_generation(hpa, state) == Some(hpa.generation);
        if stored == state.told && generation_told {
            return Ok(());
        }
        let now = self.host.monotonic();
        let without_metrics = |status: &headroom_core::pods::status::HpaStatus| {
            let mut status = status.clone();
            status.current_metrics.clear();
            // They tell of the numbers too.
            status.conditions.iter_mut().for_each(|condition| condition.message.clear());
            status
        };
        let only_numbers = generation_told
            && without_metrics(&stored) == without_metrics(&state.told)
            && stored.current_metrics.is_empty() == state.told.current_metrics.is_empty();
        let recent = state.hpa.as_ref().is_some_and(|written| now < written.at + NUMBERS_EVERY);
        if only_numbers && recent {
            return Ok(());
        }
        let version = hpa_version(hpa, state);
        match self.sink.write_hpa(&hpa.key, &version, &state.told, hpa.generation).await {
            Ok(resource_version) => {
                let (status, generation) = (state.told.clone(), hpa.generation);
                state.hpa = Some(HpaWritten { status, generation, resource_version, at: now });
                Ok(())
            }
            // The watch is a moment behind: the next look writes it.
            Err(WriteError::Conflict | WriteError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes events: what is well each time, a warning when it was not there at the last look.
    fn tell(&self, workload: &Workload, hpa: Option<&HpaObject>, state: &mut State, events: Vec<Event>) {
        let regarding = match hpa {
            Some(hpa) => Regarding { kind: RegardingKind::Hpa, key: hpa.key.clone(), uid: hpa.uid.clone() },
            None => Regarding {
                kind: RegardingKind::ScalingPolicy,
                key: workload.key.clone(),
                uid: workload.uid.clone(),
            },
        };
        let warned: BTreeSet<&'static str> = (events.iter())
            .filter(|event| event.type_ == EventType::Warning)
            .map(|event| event.reason)
            .collect();
        let news = events
            .into_iter()
            .filter(|event| event.type_ == EventType::Normal || !state.warned.contains(event.reason));
        let notes: Vec<_> = news.map(|event| on_workload(regarding.clone(), &event)).collect();
        state.warned = warned;
        if notes.is_empty() {
            return;
        }
        let (sink, at) = (self.events.clone(), self.host.time());
        self.host.spawn(async move {
            for note in notes {
                if let Err(error) = sink.write_event(&note, at).await {
                    debug!(reason = note.reason, %error, "event not written");
                }
            }
        });
    }

    /// Writes the policy's status if it differs: at once, but for numbers alone once a minute, and never only because a
    /// proposal was repeated.
    async fn report(&self, workload: &Workload, state: &mut State, view: &View) -> Ended {
        let fresh = render(&view.of(workload, state), &state.stored, self.host.now());
        if without_repetitions(&fresh) == without_repetitions(&state.stored) {
            return Ended::Well;
        }
        let recent = state.written_at.is_some_and(|at| self.host.monotonic() < at + NUMBERS_EVERY);
        if recent && without_numbers(&fresh) == without_numbers(&state.stored) {
            return Ended::Well;
        }
        match self.store(workload, state, view).await {
            Ok(()) => Ended::Well,
            Err(error) => {
                self.recover(workload, state, &error).await;
                Ended::Again
            }
        }
    }

    /// Writes the policy's status with the version last seen.
    async fn store(&self, workload: &Workload, state: &mut State, view: &View) -> Result<(), WriteError> {
        let status = render(&view.of(workload, state), &state.stored, self.host.now());
        state.resource_version = self.sink.write(&workload.key, &state.resource_version, &status).await?;
        state.stored = status;
        state.written_at = Some(self.host.monotonic());
        Ok(())
    }

    /// After a failed write of status: if somebody else has written, what they have left is what is remembered.
    async fn recover(&self, workload: &Workload, state: &mut State, error: &WriteError) {
        match error {
            WriteError::Conflict => match self.sink.read(&workload.key).await {
                Ok(Some(live)) if live.uid == state.uid => {
                    let fresh = State::restore(&live, self.host.now(), Duration::ZERO);
                    *state = State {
                        written_at: state.written_at,
                        hpa: state.hpa.take(),
                        question: state.question,
                        marked: std::mem::take(&mut state.marked),
                        size: state.size.take(),
                        warned: std::mem::take(&mut state.warned),
                        ..fresh
                    };
                }
                Ok(_) => {}
                Err(error) => debug!(workload = %workload.key, %error, "policy not read"),
            },
            WriteError::Gone => {}
            WriteError::Invalid(_) | WriteError::Failed(_) => {
                warn!(workload = %workload.key, %error, "status not written");
            }
        }
    }

    /// A later version of the policy that the watch has seen: an edit of its spec, which leaves the status as it is.
    fn adopt_version(&self, workload: &Workload, state: &mut State) {
        let seen = self.feed.workloads(|known| known.policies().get(&workload.key).cloned()).flatten();
        if let Some(seen) = seen.filter(|seen| newer(&seen.resource_version, &state.resource_version)) {
            state.resource_version.clone_from(&seen.resource_version);
            state.stored = serde_json::from_value(seen.status.clone()).unwrap_or_default();
        }
    }

    fn forget_selector(&self, workload: &Workload) {
        if let Some(hpa) = &workload.hpa {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.remove(&hpa.namespace, &hpa.name);
        }
    }
}

/// What is told of one look, besides what is remembered.
#[derive(Default)]
struct View {
    standing: PolicyStanding,
    owned: Option<HpaOwned>,
    steps: Option<Steps>,
    troubles: Vec<Option<MetricTrouble>>,
}

impl View {
    fn of<'a>(&'a self, workload: &'a Workload, state: &'a State) -> WorkloadView<'a> {
        let target = workload.target.as_ref().map(|target| format!("{}/{}", target.kind, target.name));
        let memory: &WorkloadMemory = &state.memory;
        WorkloadView {
            generation: workload.generation,
            standing: self.standing.clone(),
            target,
            owned: self.owned.clone(),
            steps: self.steps.as_ref(),
            status: self.steps.as_ref().map(|_| &state.told),
            troubles: &self.troubles,
            memory,
        }
    }
}

fn standing_of(workload: &Workload) -> PolicyStanding {
    match (&workload.standing, workload.mode) {
        (Standing::Invalid(message), _) => PolicyStanding::Invalid(message.clone()),
        (Standing::Conflict(message), _) => PolicyStanding::Conflict(message.clone()),
        (Standing::Stalled(reason, message), _) => PolicyStanding::Stalled(reason, message.clone()),
        (Standing::Owner, Mode::Apply) => PolicyStanding::Accepted,
        (Standing::Owner, Mode::Preview) => PolicyStanding::Preview,
        (Standing::Owner, Mode::Suspend) => PolicyStanding::Suspended,
    }
}

/// The HPA's status as it is stored, our own last write included.
fn last_hpa_status(hpa: &HpaObject, state: &State) -> headroom_core::pods::status::HpaStatus {
    match &state.hpa {
        Some(written) if newer(&written.resource_version, &hpa.resource_version) => written.status.clone(),
        _ => hpa_status(&hpa.status),
    }
}

/// The generation that the HPA's status says was looked at, our own last write included.
fn observed_generation(hpa: &HpaObject, state: &State) -> Option<i64> {
    match &state.hpa {
        Some(written) if newer(&written.resource_version, &hpa.resource_version) => Some(written.generation),
        _ => hpa.status["observedGeneration"].as_i64(),
    }
}

/// The version of the HPA that a write must name: our own last write may be ahead of the watch.
fn hpa_version(hpa: &HpaObject, state: &State) -> String {
    let written = state.hpa.as_ref().map_or("", |written| &written.resource_version);
    let ours =
        if newer(&state.marked, written) || written.is_empty() { state.marked.as_str() } else { written };
    if newer(ours, &hpa.resource_version) { ours.to_owned() } else { hpa.resource_version.clone() }
}

/// Notes that the size is no longer the one that was written last.
fn notice_contest(workload: &Workload, rules: &Rules, state: &mut State, sight: &Sight, now: UnixTime) {
    let (Some(written), Ok(scale)) = (&state.size, &sight.scale) else { return };
    if scale.spec_replicas == written.replicas {
        return;
    }
    let of_down = workload.spec.behavior.as_ref().and_then(|behavior| behavior.scale_down.as_ref());
    let stabilization = of_down
        .and_then(|rules| rules.stabilization_window_seconds)
        .map_or(rules.options.downscale_stabilization, |seconds| Seconds(seconds.into()));
    let window = Seconds(stabilization.0.max(rules.options.sync_period.0.saturating_mul(4)));
    let others =
        sight.writers.iter().filter(|writer| &*writer.manager != crate::actuate::scale::FIELD_MANAGER);
    let by = others.max_by_key(|writer| writer.at).cloned();
    state.size = None;
    state.contested(by.as_ref(), window, now);
}

/// A change of size as the history tells it.
fn decision_told(rescale: &Rescale, steps: &Steps, outcome: &str, now: UnixTime) -> ScalingDecision {
    let reason = match (steps.limited_by, steps.branch) {
        (Some(limit), _) => limit.as_str(),
        (None, Branch::Fallback) => reasons::METRICS_UNUSABLE,
        (None, _) if rescale.from < rescale.to => "MetricAboveTarget",
        (None, _) => "AllMetricsBelowTarget",
    };
    let numbers: Vec<String> = (steps.metrics.iter())
        .filter_map(|step| {
            let value = step.value.as_deref()?;
            Some(format!("{} is {value}, target {}", step.name, step.target.as_deref().unwrap_or("none")))
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
        message: Some(crate::report::fit::cut(&message, 512).to_owned()),
        outcome: outcome.to_owned(),
    }
}
