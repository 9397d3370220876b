//! The status of a ProvisioningRequest as one plan sees it, in the words of the kind's authors. It writes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use super::state::{ACCEPTED, BOOKING_EXPIRED, FAILED, PROVISIONED};
use headroom_cluster::world::buffer::BufferCondition;
use headroom_cluster::world::request::{HEADROOM, ProvisioningRequest, RequestStatus, SERVED_BY};
use headroom_pools::plan::{BufferFault, RequestAnswer, RequestVerdict};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// All pods have room that was bought for them.
const CAPACITY_IS_PROVISIONED: &str = "CapacityIsProvisioned";
/// A limit stops what the pods' own needs do not.
const LIMIT_REACHED: &str = "LimitReached";
/// The word of the kind's authors for [`Reason::RequestExpired`].
const EXPIRED: &str = "Expired";
/// Most pools that a message names.
const POOLS_MAX: usize = 8;
/// Longest message, in bytes; the API server takes 32768.
const MESSAGE_MAX: usize = 2_000;

/// The status that `request` should have: all conditions of ours. Times are kept while a condition's status is the same.
///
/// After Provisioned is True, neither Failed nor CapacityRevoked is ever set: controllers evict running workloads for them.
#[must_use]
pub fn status(verdict: &RequestVerdict, request: &ProvisioningRequest, now: UnixTime) -> RequestStatus {
    let mut status = RequestStatus::default();
    let mut set = |kind: &str, holds: bool, reason: &str, message: String| {
        let before = request.status.conditions.get(kind).filter(|before| before.holds == holds);
        let condition = BufferCondition {
            holds,
            reason: reason.into(),
            message: cut(message).into(),
            observed_generation: request.generation,
            changed_at: before.map_or(now, |before| before.changed_at),
        };
        status.conditions.insert(kind.into(), condition);
    };
    set(ACCEPTED, true, "Accepted", accepted(verdict));
    let granted = request.status.conditions.get(PROVISIONED).filter(|condition| condition.holds);
    match (granted, verdict.answer) {
        (Some(_), _) => {}
        (None, RequestAnswer::Granted) => {
            let message = format!("all {} pods have room on ready nodes", verdict.pods_count);
            set(PROVISIONED, true, granted_by(request), message);
        }
        (None, RequestAnswer::Waits | RequestAnswer::Failed | RequestAnswer::Expired) => {
            let (reason, message) = not_yet(verdict);
            set(PROVISIONED, false, reason, message);
        }
    }
    if let Some(fault) = &verdict.fault {
        let (reason, message) = (word(fault), fault.message.to_string());
        match verdict.answer {
            RequestAnswer::Failed if granted.is_none() => set(FAILED, true, reason, not_yet(verdict).1),
            RequestAnswer::Expired => set(BOOKING_EXPIRED, true, reason, message),
            _ => {}
        }
    }
    if let Some(granted) = granted {
        status.conditions.insert(PROVISIONED.into(), granted.clone());
    }
    status.details = [(Arc::from(SERVED_BY), Arc::from(HEADROOM))].into();
    status
}

fn accepted(verdict: &RequestVerdict) -> String {
    if verdict.wrong_parameters.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = verdict.wrong_parameters.iter().map(|name| &**name).collect();
    format!("ignored, since the value cannot be used: parameters {}", names.join(", "))
}

/// True if nodes had to come for it.
fn granted_by(request: &ProvisioningRequest) -> &'static str {
    let before = request.status.conditions.get(PROVISIONED);
    let waited = before.is_some_and(|before| &*before.reason == Reason::WaitingForNodes.as_str());
    if waited { CAPACITY_IS_PROVISIONED } else { Reason::CapacityIsFound.as_str() }
}

fn word(fault: &BufferFault) -> &'static str {
    if fault.reason == Reason::RequestExpired { EXPIRED } else { fault.reason.as_str() }
}

/// Reason why the room is not there, with each pool's first failing rule.
fn not_yet(verdict: &RequestVerdict) -> (&'static str, String) {
    let Some(fault) = &verdict.fault else {
        return (Reason::CapacityIsNotFound.as_str(), String::new());
    };
    let mut message = fault.message.to_string();
    if fault.reason == Reason::WaitingForNodes {
        let _ = write!(
            message,
            "; {} of {} pods have room on ready nodes",
            verdict.ready_count, verdict.pods_count
        );
    }
    for answer in verdict.pools.iter().take(POOLS_MAX) {
        let _ = write!(message, "; pool {}: {}, {}", answer.pool, answer.reason.as_str(), answer.message);
    }
    let structural = verdict.pools.iter().all(|answer| answer.reason.is_scheduling_rule());
    let is_refusal = fault.reason == Reason::CapacityIsNotFound && !verdict.pools.is_empty();
    match (is_refusal, structural) {
        (true, true) => {
            message.push_str("; no pool's nodes ever take these pods: change the pools, or the PodTemplate and make the request anew");
            (Reason::CapacityIsNotFound.as_str(), message)
        }
        (true, false) => (LIMIT_REACHED, message),
        (false, _) => (word(fault), message),
    }
}

fn cut(mut message: String) -> String {
    if MESSAGE_MAX < message.len() {
        let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}
