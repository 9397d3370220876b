//! The status of ProvisioningRequests: written on change, seldom, and never against another controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use headroom_core::config::Mode;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::requests::status;
use headroom_core::plan::Plan;
use headroom_core::time::UnixTime;
use headroom_core::world::Delta;
use headroom_core::world::request::{ProvisioningRequest, RequestStatus};
use tokio::time::Instant;
use tracing::{info, warn};

use super::NodeLoop;
use headroom_report::WriteError;

/// Least time between two writes of messages to one request, and between two writes that are made from one version of it.
/// Answers are written at once.
const WRITE_PAUSE: Duration = Duration::from_secs(10);
/// Most requests that one turn writes; the others come a moment later.
const WRITES_MAX: usize = 50;
/// Time until the requests come that one turn did not get to.
const NEXT_BATCH: Duration = Duration::from_secs(1);

/// A write: the request, its version as it was seen, and the status that it is to have.
type Write = (ObjectKey, Arc<str>, RequestStatus);

/// State of the writes to requests.
#[derive(Default)]
pub(super) struct RequestWrites {
    /// The last write to each request, and the version that it was made from.
    written: BTreeMap<ObjectKey, (Instant, Arc<str>)>,
    /// Requests that another controller writes, with the uid as of when it was seen.
    of_others: BTreeMap<ObjectKey, Arc<str>>,
}

impl RequestWrites {
    /// Forgets requests that are gone, and those that were made anew.
    fn tidy(&mut self, requests: &BTreeMap<ObjectKey, ProvisioningRequest>) {
        self.written.retain(|key, _| requests.contains_key(key));
        self.of_others.retain(|key, uid| requests.get(key).is_some_and(|request| request.uid == *uid));
    }

    fn keys_of_others(&self) -> BTreeSet<ObjectKey> {
        self.of_others.keys().cloned().collect()
    }
}

impl NodeLoop {
    /// Names the requests of other controllers to the next plan.
    pub(super) fn meet_requests(&mut self) {
        self.request_writes.tidy(&self.world.requests().objects);
        let keys = self.request_writes.keys_of_others();
        if self.world.requests().of_others != keys {
            self.world.apply(Delta::RequestsOfOthers(keys));
        }
    }

    /// Writes the status of each request whose status differs; returns when the next one is due.
    ///
    /// Nothing is written while no pool acts: the pools' status shows what is only previewed.
    pub(super) async fn report_requests(&mut self, plan: &Plan, now: UnixTime) -> Option<Instant> {
        let acts = self.settings.config.pools.iter().any(|pool| pool.mode == Mode::Apply);
        if self.ports.preview || !acts || plan.reasons.requests.is_empty() {
            return None;
        }
        let clock = self.ports.host.monotonic();
        let (mut writes, mut due): (Vec<Write>, Option<Instant>) = (Vec::new(), None);
        for verdict in &plan.reasons.requests {
            let key = ObjectKey::new(verdict.namespace.clone(), &*verdict.name);
            let Some(request) = self.world.requests().objects.get(&key) else { continue };
            let wanted = status::status(verdict, request, now);
            let Some(news) = news(&request.status, &wanted) else { continue };
            let version = request.resource_version.clone();
            // Until the watch has brought what was written, another write would be refused.
            let waits = |(_, from): &&(Instant, Arc<str>)| news == News::Words || *from == version;
            let written = self.request_writes.written.get(&key);
            let not_before = written.filter(waits).map_or(clock, |(at, _)| *at + WRITE_PAUSE);
            if not_before <= clock && writes.len() < WRITES_MAX {
                writes.push((key, version, wanted));
            } else {
                let at = not_before.max(clock + NEXT_BATCH);
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        if writes.is_empty() {
            return due;
        }
        self.write_requests(writes, clock).await;
        // The watch brings what was written; if it does not, the write was in vain.
        Some(due.map_or(clock + WRITE_PAUSE, |due| due.min(clock + WRITE_PAUSE)))
    }

    async fn write_requests(&mut self, writes: Vec<Write>, clock: Instant) {
        let sink = &self.ports.sink;
        let calls =
            writes.iter().map(|(key, version, status)| sink.write_request(key, Some((version, status))));
        let answers = join_all(calls).await;
        for ((key, version, _), answer) in writes.into_iter().zip(answers) {
            self.ports.metrics.status_written(answer.as_ref().copied());
            match answer {
                // What has changed meanwhile the watch brings.
                Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => {}
                Err(WriteError::Owned) => self.yield_request(&key).await,
                Err(error) => info!(request = %key, %error, "status of the request not written; tried again"),
            }
            self.request_writes.written.insert(key, (clock, version));
        }
    }

    /// Leaves a request to the controller that writes it, and gives up what was written here before.
    async fn yield_request(&mut self, key: &ObjectKey) {
        warn!(request = %key, "another controller writes the status of this request; it is left alone");
        if let Some(request) = self.world.requests().objects.get(key) {
            self.request_writes.of_others.insert(key.clone(), request.uid.clone());
            self.rest = None;
        }
        if let Err(error) = self.ports.sink.write_request(key, None).await {
            info!(request = %key, %error, "failed to give up the status of the request");
        }
    }
}

/// Kind of change that a write would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// A condition's status.
    Answer,
    /// Reasons and messages only.
    Words,
}

/// Returns the change from the stored status to the wanted one; conditions and details of other writers do not matter.
fn news(stored: &RequestStatus, wanted: &RequestStatus) -> Option<News> {
    let RequestStatus { conditions, details } = wanted;
    let missing = details.iter().any(|(name, value)| stored.details.get(name) != Some(value));
    let answers = conditions.iter().any(|(kind, wanted)| {
        let known = stored.conditions.get(kind);
        known.is_none_or(|known| (known.holds, known.changed_at) != (wanted.holds, wanted.changed_at))
    });
    let words = conditions.iter().any(|(kind, wanted)| stored.conditions.get(kind) != Some(wanted));
    match (missing || answers, words) {
        (true, _) => Some(News::Answer),
        (false, true) => Some(News::Words),
        (false, false) => None,
    }
}
