//! The reports of the node loop: statuses, events, traces, the live page.

use headroom_core::plan::{Plan, PodVerdict};
use headroom_core::time::UnixTime;
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{NodeLoop, Reported, Statuses};
use crate::controllers::memory::StoredCluster;
use crate::controllers::page::PageSnapshot;
use crate::controllers::{config, memory, view};
use crate::options::REPORT_INTERVAL_MIN;
use headroom_report::StatusSink;
use headroom_report::events::{self, EventNote};

impl NodeLoop {
    /// Lets the reports of news take new pools as they are, so that the next plan's decisions for them are news.
    pub(super) fn meet_pools(&mut self) {
        self.recorder.meet(&self.history);
        self.traces.meet(&self.history);
        self.ports.metrics.meet(&self.history);
    }

    /// Sends the traces of what is through, where anybody wants them.
    pub(super) fn trace(&mut self, plan: (Timestamp, Timestamp)) {
        let Some(sink) = &self.ports.traces else { return };
        let now = self.ports.host.wall();
        let finished = self.traces.planned(plan, &self.history, &self.world, now);
        finished.into_iter().for_each(|trace| sink.put(trace));
    }

    /// Writes what differs, at most once a second per pool.
    pub(super) async fn report(&mut self, statuses: Statuses) -> Reported {
        let clock = self.ports.host.monotonic();
        let (mut writes, mut due) = (Vec::new(), None);
        for (name, status) in statuses {
            let Some(stored) = self.stored.get(&name) else { continue };
            if status == stored.status {
                continue;
            }
            let not_before = stored.reported_at.map_or(clock, |at| at + REPORT_INTERVAL_MIN);
            if clock < not_before {
                due = Some(due.map_or(not_before, |due: Instant| due.min(not_before)));
            } else {
                writes.push((name, stored.resource_version.clone(), status));
            }
        }
        let written = self.write(writes).await;
        Reported { due, all: due.is_none() && written.iter().all(|(_, written)| *written) }
    }

    /// Puts what this turn knows on the live page's board, if there is one; without statuses of its own those last read.
    pub(super) fn show(&self, leading: bool, statuses: Option<&Statuses>, verdicts: &[PodVerdict]) {
        let Some(board) = &self.ports.page else { return };
        let last_read =
            || self.stored.iter().map(|(name, stored)| (name.clone(), stored.status.clone())).collect();
        let read: Statuses = if statuses.is_some() { Statuses::new() } else { last_read() };
        board.note(&PageSnapshot {
            now: self.ports.host.now(),
            leading,
            world: &self.world,
            config: &self.settings.config,
            statuses: statuses.unwrap_or(&read),
            verdicts,
        });
    }

    /// Writes the cluster policy's status, if there is such an object and its status differs. Returns whether it is now
    /// as it should be.
    pub(super) async fn report_cluster(&mut self, plan: &Plan, now: UnixTime) -> bool {
        let Some(object) = self.policies.clusters.get(config::POLICY_NAME) else {
            self.cluster = None;
            return true;
        };
        let known = self.cluster.as_ref().filter(|known| known.uid == object.uid);
        let stored = match known {
            Some(known) if !memory::newer(&object.resource_version, &known.resource_version) => known.clone(),
            _ => StoredCluster::of(object),
        };
        let settings = (&self.settings, self.ports.health.missing_permission());
        let status = view::cluster_status(object.generation, &plan.reasons, settings, &stored.status, now);
        let written = stored.reported_at;
        let too_soon = written.is_some_and(|at| self.ports.host.monotonic() < at + REPORT_INTERVAL_MIN);
        let said = status == stored.status;
        if said || too_soon {
            self.cluster = Some(stored);
            return said;
        }
        let answer =
            self.ports.sink.write_policy(config::POLICY_NAME, &stored.resource_version, &status).await;
        self.ports.metrics.status_written(answer.as_ref().map(|_| ()));
        let reported_at = Some(self.ports.host.monotonic());
        match answer {
            Ok(resource_version) => {
                self.cluster = Some(StoredCluster { resource_version, status, reported_at, uid: stored.uid });
                true
            }
            Err(error) => {
                info!(%error, "status of the cluster policy not written; reading it anew");
                self.cluster = Some(StoredCluster { reported_at, ..stored });
                self.refresh_cluster().await;
                false
            }
        }
    }

    /// Sends the events of what is new, beside the loop: they are a courtesy, and nothing waits for them.
    pub(super) fn send_events(&mut self, plan: &Plan) {
        let mut notes = self.recorder.record(plan, &self.world, &self.settings.config, self.ports.host.now());
        for (name, stored) in &mut self.stored {
            let left_out = std::mem::take(&mut stored.left_out);
            notes.extend(events::status_left_out(name, &self.settings.config, &left_out));
        }
        if notes.is_empty() {
            return;
        }
        let (sink, at) = (self.ports.sink.clone(), self.ports.host.time());
        self.ports.host.spawn(async move { write_events(&*sink, notes, at).await });
    }
}

/// Writes events one after the other. One that fails is left out: the same is in status.
pub(super) async fn write_events(sink: &dyn StatusSink, notes: Vec<EventNote>, at: Timestamp) {
    for note in notes {
        if let Err(error) = sink.write_event(&note, at).await {
            debug!(reason = note.reason, %error, "event not written");
        }
    }
}
