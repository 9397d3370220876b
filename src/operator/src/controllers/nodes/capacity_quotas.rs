//! The status of CapacityQuotas: written on change, seldom, and never against another controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use headroom_core::config::Mode;
use headroom_core::plan::{Plan, QuotaVerdict};
use headroom_core::time::UnixTime;
use headroom_core::world::buffer::BufferCondition;
use headroom_core::world::capacity_quota::{CapacityQuota, PRICE, QuotaStatus};
use tokio::time::Instant;
use tracing::{info, warn};

use super::NodeLoop;
use headroom_report::WriteError;

/// Least time between two writes to one quota.
const WRITE_PAUSE: Duration = Duration::from_secs(10);
/// Most quotas that one turn writes; the others come a moment later.
const WRITES_MAX: usize = 50;
/// Time until the quotas come that one turn did not get to.
const NEXT_BATCH: Duration = Duration::from_secs(1);
/// The condition by which a quota reports that it was read and counted.
const RECONCILED: &str = "Reconciled";

/// State of the writes to quotas.
#[derive(Default)]
pub(super) struct QuotaWrites {
    written_at: BTreeMap<Arc<str>, Instant>,
    /// Quotas whose status another controller writes, with uid and generation as of when it was seen.
    of_others: BTreeMap<Arc<str>, (Arc<str>, i64)>,
}

impl NodeLoop {
    /// Writes the status of each quota whose status differs; returns when the next one is due.
    ///
    /// Nothing is written while no pool acts, as for buffers.
    pub(super) async fn report_capacity_quotas(&mut self, plan: &Plan, now: UnixTime) -> Option<Instant> {
        let acts = self.settings.config.pools.iter().any(|pool| pool.mode == Mode::Apply);
        if self.ports.preview || !acts || plan.reasons.quotas.is_empty() {
            return None;
        }
        let clock = self.ports.host.monotonic();
        let quotas = self.world.capacity_quotas();
        self.quota_writes.written_at.retain(|name, _| quotas.contains_key(name));
        self.quota_writes.of_others.retain(|name, (uid, generation)| {
            quotas.get(name).is_some_and(|quota| (&quota.uid, quota.generation) == (uid, *generation))
        });
        let (mut writes, mut due): (Vec<(Arc<str>, QuotaStatus)>, Option<Instant>) = (Vec::new(), None);
        for verdict in &plan.reasons.quotas {
            let Some(quota) = quotas.get(&verdict.name) else { continue };
            let wanted = status(quota, verdict, now);
            if self.quota_writes.of_others.contains_key(&verdict.name) || says(&quota.status, &wanted) {
                continue;
            }
            let written_at = self.quota_writes.written_at.get(&verdict.name);
            let not_before = written_at.map_or(clock, |at| *at + WRITE_PAUSE);
            if not_before <= clock && writes.len() < WRITES_MAX {
                writes.push((verdict.name.clone(), wanted));
            } else {
                let at = not_before.max(clock + NEXT_BATCH);
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        if writes.is_empty() {
            return due;
        }
        self.write_capacity_quotas(writes, clock).await;
        // The watch brings what was written; if it does not, the write was in vain.
        Some(due.map_or(clock + WRITE_PAUSE, |due| due.min(clock + WRITE_PAUSE)))
    }

    async fn write_capacity_quotas(&mut self, writes: Vec<(Arc<str>, QuotaStatus)>, clock: Instant) {
        let sink = &self.ports.sink;
        let calls = writes.iter().map(|(name, status)| sink.write_capacity_quota(name, Some(status)));
        let answers = join_all(calls).await;
        for ((name, _), answer) in writes.into_iter().zip(answers) {
            self.ports.metrics.status_written(answer.as_ref().copied());
            match answer {
                Ok(()) | Err(WriteError::Gone) => {}
                Err(WriteError::Owned) => self.yield_capacity_quota(&name).await,
                Err(error) => info!(quota = %name, %error, "status of the quota not written; tried again"),
            }
            self.quota_writes.written_at.insert(name, clock);
        }
    }

    /// Leaves the status of a quota to the controller that writes it, and gives up what was written here before. The quota
    /// is obeyed all the same.
    async fn yield_capacity_quota(&mut self, name: &Arc<str>) {
        warn!(quota = %name, "another controller writes the status of this quota; it is left to that one");
        if let Some(quota) = self.world.capacity_quotas().get(name) {
            let seen = (quota.uid.clone(), quota.generation);
            self.quota_writes.of_others.insert(name.clone(), seen);
        }
        if let Err(error) = self.ports.sink.write_capacity_quota(name, None).await {
            info!(quota = %name, %error, "failed to give up the status of the quota");
        }
    }
}

/// The status that a quota should have. Times of conditions are kept while their status is the same.
fn status(quota: &CapacityQuota, verdict: &QuotaVerdict, now: UnixTime) -> QuotaStatus {
    let holds = quota.fault.is_none();
    let reason = if holds { "ReconciliationSucceeded" } else { "ReconciliationFailed" };
    let kind: Arc<str> = RECONCILED.into();
    let before = quota.status.conditions.get(&kind).filter(|before| before.holds == holds);
    let condition = BufferCondition {
        holds,
        reason: reason.into(),
        message: quota.fault.clone().unwrap_or_default(),
        observed_generation: quota.generation,
        changed_at: before.map_or(now, |before| before.changed_at),
    };
    // The price is written in thousandths.
    let written = |(resource, used): (&Arc<str>, &i64)| {
        let used = if **resource == *PRICE { used / 1_000 * 1_000 } else { *used };
        (resource.clone(), used)
    };
    // Of a quota that cannot be read nothing is counted, and what was counted last stays: where the last amount that is
    // owned goes, server-side apply leaves a null, which the definition refuses.
    let used = match quota.fault {
        Some(_) => quota.status.used.clone(),
        None => verdict.used.iter().map(written).collect(),
    };
    QuotaStatus { observed_generation: Some(quota.generation), used, conditions: [(kind, condition)].into() }
}

/// True if a status has all that is wanted; conditions of others do not matter.
fn says(stored: &QuotaStatus, wanted: &QuotaStatus) -> bool {
    let QuotaStatus { observed_generation, used, conditions } = wanted;
    (observed_generation, used) == (&stored.observed_generation, &stored.used)
        && conditions.iter().all(|(kind, wanted)| stored.conditions.get(kind) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_shows_use_and_keeps_its_time_while_nothing_but_time_changes() {
        let mut quota = CapacityQuota { name: "gpus".into(), generation: 3, ..CapacityQuota::default() };
        let verdict = QuotaVerdict { name: "gpus".into(), used: [("nodes".into(), 4)].into() };
        let first = status(&quota, &verdict, UnixTime(100));
        assert_eq!(first.used["nodes"], 4);
        quota.status = first.clone();
        assert!(says(&quota.status, &status(&quota, &verdict, UnixTime(200))));
        quota.fault = Some("spec.selector cannot be read".into());
        let uncounted = QuotaVerdict { name: "gpus".into(), ..QuotaVerdict::default() };
        let broken = status(&quota, &uncounted, UnixTime(300));
        let condition = &broken.conditions[RECONCILED];
        assert_eq!((condition.holds, condition.changed_at), (false, UnixTime(300)));
        assert_eq!(broken.used, first.used);
        assert!(!says(&quota.status, &broken));
    }
}
