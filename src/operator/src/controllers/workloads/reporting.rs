//! The reports of one reconcile: events, the HPA's status and the policy's, each only when it has changed.

use std::collections::BTreeSet;
use std::time::Duration;

use headroom_core::pods::conditions;
use headroom_core::pods::decision::{Event, EventType, Steps, Tick};
use headroom_core::pods::status::HpaStatus;
use headroom_core::reason::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tracing::{debug, warn};

use super::evaluate::{Dependencies, Ended, acts};
use super::resolve::Workload;
use super::state::{HpaWritten, State, hpa_status, newer};
use headroom_api::Mode;
use headroom_api::conditions::{get, types};
use headroom_observe::HpaObject;
use headroom_report::events::{EventNote, Regarding, RegardingKind, on_workload, scaling_status_left_out};
use headroom_report::workload::{render, without_numbers, without_repetitions};
use headroom_report::{
    HpaOwned, MetricTrouble, PolicyPhase, StatusSink, WorkloadMemory, WorkloadView, WriteError,
};

/// Minimum time between two writes that change only numbers.
const NUMBERS_EVERY: Duration = Duration::from_secs(60);
/// The same for a policy whose HPA shows the numbers: of many HPAs every second write would only repeat them.
const NUMBERS_BESIDE_HPA_EVERY: Duration = Duration::from_secs(600);

/// The results of one reconcile to report, besides what is remembered.
#[derive(Default)]
pub(super) struct View {
    pub(super) phase: PolicyPhase,
    pub(super) owned: Option<HpaOwned>,
    pub(super) steps: Option<Steps>,
    pub(super) troubles: Vec<Option<MetricTrouble>>,
}

impl View {
    fn of<'a>(&'a self, workload: &'a Workload, state: &'a State) -> WorkloadView<'a> {
        let target = workload.target.as_ref().map(|target| format!("{}/{}", target.kind, target.name));
        let memory: &WorkloadMemory = &state.memory;
        WorkloadView {
            generation: workload.generation,
            phase: self.phase.clone(),
            target,
            owned: self.owned.clone(),
            steps: self.steps.as_ref(),
            status: self.steps.as_ref().map(|_| &state.reported),
            troubles: &self.troubles,
            note: workload.note(),
            memory,
        }
    }
}

impl Dependencies {
    /// Reports the results of a reconcile: events, the HPA's status, the policy's.
    pub(super) async fn finish(
        &self,
        workload: &Workload,
        state: &mut State,
        hpa: Option<&HpaObject>,
        (tick, acts): (Tick, bool),
        view: &View,
    ) -> Ended {
        state.memory.memory = tick.memory;
        let mut events = tick.events;
        state.reported = tick.status;
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
            self.write_events(workload, hpa, state, events);
        }
        self.report(workload, state, view).await
    }

    /// Writes the HPA's status if it differs: at once, but for numbers alone once a minute.
    async fn write_hpa(&self, hpa: &HpaObject, state: &mut State) -> Result<(), WriteError> {
        let stored = last_hpa_status(hpa, state);
        let generation_reported = observed_generation(hpa, state) == Some(hpa.generation);
        if stored == state.reported && generation_reported {
            return Ok(());
        }
        let now = self.host.monotonic();
        let without_metrics = |status: &HpaStatus| {
            let mut status = status.clone();
            status.current_metrics.clear();
            // They contain the numbers too.
            status.conditions.iter_mut().for_each(|condition| condition.message.clear());
            status
        };
        let only_numbers = generation_reported
            && without_metrics(&stored) == without_metrics(&state.reported)
            && stored.current_metrics.is_empty() == state.reported.current_metrics.is_empty();
        let recent = state.hpa.as_ref().is_some_and(|written| now < written.at + NUMBERS_EVERY);
        if only_numbers && recent {
            return Ok(());
        }
        let version = hpa_version(hpa, state);
        match self.sink.write_hpa(&hpa.key, &version, &state.reported, hpa.generation).await {
            Ok(resource_version) => {
                let (status, generation) = (state.reported.clone(), hpa.generation);
                state.hpa = Some(HpaWritten { status, generation, resource_version, at: now });
                Ok(())
            }
            // The watch is a moment behind: the next evaluation writes it.
            Err(WriteError::Conflict | WriteError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes events: what is well each time, a warning when it was not there at the last evaluation.
    fn write_events(
        &self,
        workload: &Workload,
        hpa: Option<&HpaObject>,
        state: &mut State,
        events: Vec<Event>,
    ) {
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
        self.send(notes);
    }

    /// Writes an event on the policy if parts of its stored status could not be read.
    pub(super) fn report_left_out(&self, workload: &Workload, state: &mut State) {
        let left_out = std::mem::take(&mut state.left_out);
        if left_out.is_empty() {
            return;
        }
        warn!(policy = %workload.key, ?left_out, "left out of the stored status");
        let (kind, key) = (RegardingKind::ScalingPolicy, workload.key.clone());
        self.send(vec![scaling_status_left_out(
            Regarding { kind, key, uid: workload.uid.clone() },
            &left_out,
        )]);
    }

    fn send(&self, notes: Vec<EventNote>) {
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

    /// Writes an event when another owner has the policy's workload: once for each such owner, by the status.
    pub(super) fn announce_conflict(&self, workload: &Workload, state: &mut State, phase: &PolicyPhase) {
        let PolicyPhase::Conflict(message) = phase else { return };
        let known = |one: &Condition| one.reason == Reason::Conflict.as_str() && one.message == *message;
        if get(&state.stored.conditions, types::STALLED).is_some_and(known) {
            return;
        }
        warn!(policy = %workload.key, why = %message, "another owner has the workload of the policy");
        let reason = Reason::Conflict.as_str();
        state.warned.remove(reason);
        let event = Event { type_: EventType::Warning, reason, message: message.clone() };
        self.write_events(workload, None, state, vec![event]);
    }

    /// Writes the policy's status if it differs: at once, but for numbers alone once a minute, or once in ten where the
    /// HPA's status has them, and never only because a proposal was repeated.
    pub(super) async fn report(&self, workload: &Workload, state: &mut State, view: &View) -> Ended {
        let fresh = render(&view.of(workload, state), &state.stored, self.host.now());
        if without_repetitions(&fresh) == without_repetitions(&state.stored) {
            return Ended::Well;
        }
        let in_hpa = view.owned.as_ref().is_some_and(|hpa| acts(workload, hpa.owned));
        let pause = if in_hpa { NUMBERS_BESIDE_HPA_EVERY } else { NUMBERS_EVERY };
        let recent = state.written_at.is_some_and(|at| self.host.monotonic() < at + pause);
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
    pub(super) async fn store(
        &self,
        workload: &Workload,
        state: &mut State,
        view: &View,
    ) -> Result<(), WriteError> {
        let status = render(&view.of(workload, state), &state.stored, self.host.now());
        state.resource_version = self.sink.write(&workload.key, &state.resource_version, &status).await?;
        state.stored = status;
        state.written_at = Some(self.host.monotonic());
        Ok(())
    }

    /// After a failed write of status: if somebody else has written, what they have left is what is remembered.
    pub(super) async fn recover(&self, workload: &Workload, state: &mut State, error: &WriteError) {
        match error {
            WriteError::Conflict => match self.sink.read(&workload.key).await {
                Ok(Some(live)) if live.uid == state.uid => state.read_back(&live, self.host.now()),
                Ok(_) => {}
                Err(error) => debug!(workload = %workload.key, %error, "policy not read"),
            },
            WriteError::Gone => {}
            WriteError::Owned | WriteError::Invalid(_) | WriteError::Forbidden(_) | WriteError::Failed(_) => {
                warn!(workload = %workload.key, %error, "status not written");
            }
        }
    }

    /// Takes up a later version of the policy that the watch has seen.
    pub(super) fn adopt_version(&self, workload: &Workload, state: &mut State) {
        let seen = self.feed.workloads(|known| known.policies().get(&workload.key).cloned()).flatten();
        if let Some(seen) = seen.filter(|seen| seen.uid == state.uid) {
            state.adopt(&seen, self.host.now());
        }
    }
}

/// The HPA's status as it is stored, our own last write included.
pub(super) fn last_hpa_status(hpa: &HpaObject, state: &State) -> HpaStatus {
    match &state.hpa {
        Some(written) if is_last(written, hpa) => written.status.clone(),
        _ => hpa_status(&hpa.status),
    }
}

/// True if nobody is known to have written the HPA since.
fn is_last(written: &HpaWritten, hpa: &HpaObject) -> bool {
    written.resource_version == hpa.resource_version
        || newer(&written.resource_version, &hpa.resource_version)
}

/// The observed generation in the HPA's status, our own last write included.
fn observed_generation(hpa: &HpaObject, state: &State) -> Option<i64> {
    match &state.hpa {
        Some(written) if is_last(written, hpa) => Some(written.generation),
        _ => hpa.observed_generation,
    }
}

/// The version of the HPA that a write must name: our own last write may be ahead of the watch.
pub(super) fn hpa_version(hpa: &HpaObject, state: &State) -> String {
    let written = state.hpa.as_ref().map_or("", |written| &written.resource_version);
    let ours =
        if newer(&state.marked, written) || written.is_empty() { state.marked.as_str() } else { written };
    if newer(ours, &hpa.resource_version) { ours.to_owned() } else { hpa.resource_version.clone() }
}
