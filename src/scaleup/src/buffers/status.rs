//! The status of a CapacityBuffer as one plan sees it: conditions in the words of the kind's authors. It writes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use headroom_cluster::world::buffer::{BufferCondition, BufferStatus, CapacityBuffer};
use headroom_pools::plan::BufferVerdict;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Its shape and size are known.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// Quotas leave room for fewer pods than wanted.
pub const LIMITED_BY_QUOTAS: &str = "LimitedByQuotas";
/// All of its room is on ready nodes.
pub const PROVISIONING: &str = "Provisioning";

const ATTRIBUTES_SET: &str = "AttributesSetSuccessfully";
const QUOTAS_ALLOCATED: &str = "ResourceQuotasAllocated";
const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
const LIMIT_REACHED: &str = "LimitReached";
/// Most pools that a message names.
const POOLS_MAX: usize = 8;
/// Longest message, in bytes; the API server takes 32768.
const MESSAGE_MAX: usize = 2_000;

/// The status that `buffer` should have. Times of conditions are kept while their status is the same.
#[must_use]
pub fn status(verdict: &BufferVerdict, buffer: &CapacityBuffer, now: UnixTime) -> BufferStatus {
    let fault = verdict.fault.as_ref();
    let ready = match fault.filter(|_| !verdict.resolved) {
        Some(fault) => (false, fault.reason.as_str(), fault.message.to_string()),
        None => (true, ATTRIBUTES_SET, String::new()),
    };
    let quota = verdict.quota.as_ref().map(ToString::to_string);
    let quota = (quota.is_some(), QUOTAS_ALLOCATED, quota.unwrap_or_default());
    let conditions =
        [(READY_FOR_PROVISIONING, ready), (LIMITED_BY_QUOTAS, quota), (PROVISIONING, provisioning(verdict))];
    let conditions = conditions.into_iter().map(|(kind, (holds, reason, message))| {
        let kind: Arc<str> = kind.into();
        let before = buffer.status.conditions.get(&kind).filter(|before| before.holds == holds);
        let condition = BufferCondition {
            holds,
            reason: reason.into(),
            message: cut(message).into(),
            observed_generation: buffer.generation,
            changed_at: before.map_or(now, |before| before.changed_at),
        };
        (kind, condition)
    });
    BufferStatus {
        template: verdict.template.as_ref().map(|(name, _)| name.clone()),
        template_generation: verdict.template.as_ref().map(|(_, generation)| *generation),
        replicas: verdict.resolved.then_some(verdict.wanted_count),
        strategy: Some(buffer.strategy.clone()),
        conditions: conditions.collect::<BTreeMap<_, _>>(),
    }
}

/// True if all room is there, and in words what is not.
fn provisioning(verdict: &BufferVerdict) -> (bool, &'static str, String) {
    let fault = verdict.fault.as_ref();
    if !verdict.resolved {
        return (false, NOT_READY_FOR_PROVISIONING, String::new());
    }
    if let Some(fault) = fault
        && matches!(fault.reason, Reason::BufferIsEmpty | Reason::BelowPriorityCutoff)
    {
        return (false, fault.reason.as_str(), fault.message.to_string());
    }
    let mut message = format!("{} of {} chunks ready", verdict.ready_count, verdict.wanted_count);
    for (pool, pods) in verdict.on_new.iter().take(POOLS_MAX) {
        let _ = write!(message, ", {pods} on new nodes of pool {pool}");
    }
    if verdict.unplaced_count == 0 {
        let all = verdict.wanted_count <= verdict.ready_count;
        let reason = if all { Reason::FitsExistingCapacity } else { Reason::RequiresNewCapacity };
        return (all, reason.as_str(), message);
    }
    let _ = write!(message, ", {} without a place", verdict.unplaced_count);
    if let Some(fault) = fault {
        let _ = write!(message, "; {}: {}", fault.reason.as_str(), fault.message);
    }
    for answer in verdict.pools.iter().take(POOLS_MAX) {
        let _ = write!(message, "; pool {}: {}, {}", answer.pool, answer.reason.as_str(), answer.message);
    }
    let fits_nowhere =
        fault.is_none() && verdict.pools.iter().all(|answer| answer.reason.is_scheduling_rule());
    let reason = if fits_nowhere { Reason::NoPoolFits.as_str() } else { LIMIT_REACHED };
    (false, reason, message)
}

fn cut(mut message: String) -> String {
    if MESSAGE_MAX < message.len() {
        let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}
