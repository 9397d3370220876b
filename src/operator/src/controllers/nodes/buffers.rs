//! The status of CapacityBuffers: written on change, seldom, and never against another controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use headroom_core::config::Mode;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::buffers::status;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::Delta;
use headroom_core::world::buffer::{BufferStatus, CapacityBuffer};
use tokio::time::Instant;
use tracing::{info, warn};

use super::NodeLoop;
use headroom_report::WriteError;

/// Least time between two writes to one buffer.
const WRITE_PAUSE: Duration = Duration::from_secs(10);
/// Most buffers that one turn writes; the others come a moment later.
const WRITES_MAX: usize = 50;
/// Time until the buffers come that one turn did not get to.
const NEXT_BATCH: Duration = Duration::from_secs(1);

/// State of the writes to buffers.
#[derive(Default)]
pub(super) struct BufferWrites {
    written_at: BTreeMap<ObjectKey, Instant>,
    /// Buffers that another controller writes, with uid and generation as of when it was seen.
    of_others: BTreeMap<ObjectKey, (Arc<str>, i64)>,
}

impl BufferWrites {
    /// Forgets buffers that are gone, and asks again for those that were edited since.
    fn tidy(&mut self, buffers: &BTreeMap<ObjectKey, CapacityBuffer>) {
        self.written_at.retain(|key, _| buffers.contains_key(key));
        self.of_others.retain(|key, (uid, generation)| {
            buffers.get(key).is_some_and(|buffer| (&buffer.uid, buffer.generation) == (uid, *generation))
        });
    }

    fn keys_of_others(&self) -> BTreeSet<ObjectKey> {
        self.of_others.keys().cloned().collect()
    }
}

impl NodeLoop {
    /// Names the buffers of other controllers to the next plan.
    pub(super) fn meet_buffers(&mut self) {
        self.buffer_writes.tidy(&self.world.standby().buffers);
        let keys = self.buffer_writes.keys_of_others();
        if self.world.standby().of_others != keys {
            self.world.apply(Delta::BuffersOfOthers(keys));
        }
    }

    /// Writes the status of each buffer whose status differs; returns when the next one is due.
    ///
    /// Nothing is written while no pool acts: the pools' status shows what is only previewed.
    pub(super) async fn report_buffers(&mut self, plan: &Plan, now: UnixTime) -> Option<Instant> {
        let acts = self.settings.config.pools.iter().any(|pool| pool.mode == Mode::Apply);
        if self.ports.preview || !acts || plan.reasons.buffers.is_empty() {
            return None;
        }
        let clock = self.ports.host.monotonic();
        let (mut writes, mut due): (Vec<(ObjectKey, BufferStatus)>, Option<Instant>) = (Vec::new(), None);
        for verdict in &plan.reasons.buffers {
            let key = ObjectKey::new(verdict.namespace.clone(), &*verdict.name);
            let Some(buffer) = self.world.standby().buffers.get(&key) else { continue };
            if verdict.fault.as_ref().is_some_and(|fault| fault.reason == Reason::ServedByAnother) {
                continue;
            }
            let wanted = status::status(verdict, buffer, now);
            if says(&buffer.status, &wanted) {
                continue;
            }
            let not_before = self.buffer_writes.written_at.get(&key).map_or(clock, |at| *at + WRITE_PAUSE);
            if not_before <= clock && writes.len() < WRITES_MAX {
                writes.push((key, wanted));
            } else {
                let at = not_before.max(clock + NEXT_BATCH);
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        if writes.is_empty() {
            return due;
        }
        self.write_buffers(writes, clock).await;
        // The watch brings what was written; if it does not, the write was in vain.
        Some(due.map_or(clock + WRITE_PAUSE, |due| due.min(clock + WRITE_PAUSE)))
    }

    async fn write_buffers(&mut self, writes: Vec<(ObjectKey, BufferStatus)>, clock: Instant) {
        let sink = &self.ports.sink;
        let calls = writes.iter().map(|(key, status)| sink.write_buffer(key, Some(status)));
        let answers = join_all(calls).await;
        for ((key, _), answer) in writes.into_iter().zip(answers) {
            self.ports.metrics.status_written(answer.as_ref().copied());
            match answer {
                Ok(()) | Err(WriteError::Gone) => {}
                Err(WriteError::Owned) => self.yield_buffer(&key).await,
                Err(error) => info!(buffer = %key, %error, "status of the buffer not written; tried again"),
            }
            self.buffer_writes.written_at.insert(key, clock);
        }
    }

    /// Leaves a buffer to the controller that writes it, and gives up what was written here before.
    async fn yield_buffer(&mut self, key: &ObjectKey) {
        warn!(buffer = %key, "another controller writes the status of this buffer; it is left alone");
        if let Some(buffer) = self.world.standby().buffers.get(key) {
            let seen = (buffer.uid.clone(), buffer.generation);
            self.buffer_writes.of_others.insert(key.clone(), seen);
            self.rest = None;
        }
        if let Err(error) = self.ports.sink.write_buffer(key, None).await {
            info!(buffer = %key, %error, "failed to give up the status of the buffer");
        }
    }
}

/// True if a status has all that is wanted; conditions of others do not matter.
fn says(stored: &BufferStatus, wanted: &BufferStatus) -> bool {
    let BufferStatus { template, template_generation, replicas, strategy, conditions } = wanted;
    (template, template_generation) == (&stored.template, &stored.template_generation)
        && (replicas, strategy) == (&stored.replicas, &stored.strategy)
        && conditions.iter().all(|(kind, wanted)| stored.conditions.get(kind) == Some(wanted))
}
