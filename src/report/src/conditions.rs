//! The conditions of a NodePool and of the ClusterScalingPolicy: which hold, and in what words. Limits and backoffs never
//! touch Ready.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use headroom_core::history::{Action, Backoff, IncreasePhase, PoolHistory, Refusal};
use headroom_core::plan::PoolReason;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{Notice, NoticeKind};

use super::render::{Acceptance, PoolView};
use super::words::Word;
use headroom_api::conditions::{ConditionStatus, Wanted, clear, reasons, set, types};

/// Most things that one condition's message lists.
const LISTED_MAX: usize = 5;

/// The conditions of a pool, sorted by type; times of those that have not changed are kept from `old`.
pub(crate) fn of_pool(
    memory: &PoolHistory,
    view: &PoolView<'_>,
    old: &[Condition],
    now: UnixTime,
) -> Vec<Condition> {
    let mut list = Sheet { conditions: old.to_vec(), generation: view.generation, now };
    match view.provider_unknown.filter(|_| runs(&view.acceptance)) {
        Some(why) => {
            list.set(types::READY, ConditionStatus::Unknown, Reason::ProviderUnknown.as_str(), why);
            clear(&mut list.conditions, types::STALLED);
        }
        None => health(&mut list, &view.acceptance),
    }
    provider(&mut list, view);
    of_notices(&mut list, view.notices);
    list.present(types::SCALING_UP, scaling_up(memory));
    list.present(types::SCALING_DOWN, scaling_down(memory));
    list.present(types::BACKING_OFF, backing_off_summary(memory, now));
    let at_limit = limit(memory).map(|limit| (limit.reason.as_str(), limit.message.to_string()));
    let at_limit = at_limit
        .or_else(|| out_of_bounds(view).map(|reason| (reason.reason.as_str(), reason.message.to_string())));
    list.present(types::AT_LIMIT, at_limit);
    list.present(types::DEVICES_NOT_LEARNED, not_learned(view));
    let groups_clamped = noticed(view.notices, |kind| kind == NoticeKind::BoundsClamped);
    let clamped = view.bounds.as_ref().filter(|bounds| bounds.limited_by.as_deref() == Some("Provider"));
    list.present(
        types::CLAMPED_BY_PROVIDER,
        groups_clamped.map(|(_, text)| (reasons::PROVIDER_BOUNDS, text)).or_else(|| clamped.map(|bounds| {
            let text = format!(
                "the provider's own bounds leave {} to {} nodes: change them there, or minNodes and maxNodes here",
                bounds.min_nodes, bounds.max_nodes
            );
            (reasons::PROVIDER_BOUNDS, text)
        })),
    );
    list.conditions
}

/// Adds the conditions on the provider's groups: degraded ones, unknown prices, and changes that the cloud makes by itself.
fn of_notices(list: &mut Sheet, notices: &[Notice]) {
    let rebalancing = noticed(notices, |kind| kind == NoticeKind::ZoneRebalancing);
    list.present(types::AZ_REBALANCE_ACTIVE, rebalancing);
    list.present(types::PRICE_UNKNOWN, noticed(notices, |kind| kind == NoticeKind::PriceUnknown));
    let apart = |kind| {
        matches!(kind, NoticeKind::ZoneRebalancing | NoticeKind::BoundsClamped | NoticeKind::PriceUnknown)
    };
    let degraded = noticed(notices, |kind| !apart(kind));
    list.present(types::PROVIDER_DEGRADED, degraded);
}

/// The notices of these kinds: the first one's kind, and all of them in words.
fn noticed(notices: &[Notice], wanted: impl Fn(NoticeKind) -> bool) -> Option<(&'static str, String)> {
    let parts: Vec<(NoticeKind, String)> = notices
        .iter()
        .filter(|notice| wanted(notice.kind))
        .map(|notice| match &notice.group {
            Some(group) => (notice.kind, format!("{group}: {}", notice.message)),
            None => (notice.kind, notice.message.to_string()),
        })
        .collect();
    let first = parts.first()?.0;
    let words: Vec<String> = parts.into_iter().map(|(_, words)| words).collect();
    Some((first.as_str(), listed(&words)))
}

/// A list of conditions in the making.
pub(crate) struct Sheet {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) generation: Option<i64>,
    pub(crate) now: UnixTime,
}

impl Sheet {
    pub(crate) fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let wanted = Wanted { type_, status, reason, message };
        set(&mut self.conditions, &wanted, self.generation, self.now.to_jiff());
    }

    /// For conditions that are there only while they hold.
    pub(crate) fn present(&mut self, type_: &str, holds: Option<(&str, String)>) {
        match holds {
            Some((reason, message)) => self.set(type_, ConditionStatus::True, reason, &message),
            None => {
                clear(&mut self.conditions, type_);
            }
        }
    }
}

pub(crate) fn health(list: &mut Sheet, acceptance: &Acceptance) {
    use ConditionStatus::{False, True, Unknown};
    let (status, reason, message) = match acceptance {
        Acceptance::Pending => (Unknown, Reason::Pending, Reason::Pending.doc()),
        Acceptance::Accepted => (True, Reason::Accepted, Reason::Accepted.doc()),
        Acceptance::Suspended => (
            True,
            Reason::Suspended,
            "mode is Suspend: nothing is begun, removals are undone, nodes still count",
        ),
        Acceptance::Preview => (
            True,
            Reason::PreviewOnly,
            "mode is Preview: status.preview shows what would be done, nothing is done",
        ),
        Acceptance::Deleting => (
            True,
            Reason::PoolDeleting,
            "the pool is being deleted: its nodes stay and are no longer managed",
        ),
        Acceptance::Invalid(message) => (False, Reason::Invalid, message.as_str()),
        Acceptance::Conflict(message) => (False, Reason::Conflict, message.as_str()),
        Acceptance::WrongCluster(message) => (False, Reason::WrongCluster, message.as_str()),
        Acceptance::Internal(message) => (False, Reason::Internal, message.as_str()),
    };
    list.set(types::READY, status, reason.as_str(), message);
    let stalled =
        matches!(acceptance, Acceptance::Invalid(_) | Acceptance::Conflict(_) | Acceptance::WrongCluster(_));
    list.present(types::STALLED, stalled.then(|| (reason.as_str(), message.to_owned())));
}

fn provider(list: &mut Sheet, view: &PoolView<'_>) {
    let judged =
        !matches!(view.acceptance, Acceptance::Pending | Acceptance::Invalid(_) | Acceptance::Conflict(_));
    match view.provider_unknown {
        _ if !judged => {
            clear(&mut list.conditions, types::PROVIDER_AVAILABLE);
        }
        Some(why) => {
            list.set(
                types::PROVIDER_AVAILABLE,
                ConditionStatus::False,
                Reason::ProviderUnknown.as_str(),
                why,
            );
        }
        None => list.set(types::PROVIDER_AVAILABLE, ConditionStatus::True, reasons::PROVIDER_ANSWERS, ""),
    }
}

fn scaling_up(memory: &PoolHistory) -> Option<(&'static str, String)> {
    let increases = memory.intents.iter().filter_map(|intent| match &intent.action {
        Action::Increase(increase) if increase.phase != IncreasePhase::Cancelling => Some((intent, increase)),
        Action::Increase(_) | Action::Remove(_) => None,
    });
    let parts: Vec<String> = increases
        .clone()
        .map(|(intent, increase)| {
            let asked = increase.to.saturating_sub(increase.from);
            let (from, to, group) = (increase.from, increase.to, &increase.group);
            format!("{group} {from}→{to} ({asked} more, {})", intent.reason.as_str())
        })
        .collect();
    let reason = increases.map(|(intent, _)| intent.reason).next()?;
    Some((reason.as_str(), listed(&parts)))
}

fn scaling_down(memory: &PoolHistory) -> Option<(&'static str, String)> {
    let parts: Vec<String> = memory
        .removals()
        .flat_map(|(intent, removal)| {
            removal.victims.iter().map(move |victim| {
                let name = victim.name();
                format!("{name} ({}, {})", removal.phase.word(), intent.reason.as_str())
            })
        })
        .collect();
    let first = memory.removals().next()?;
    Some((first.0.reason.as_str(), format!("{} leaving: {}", nodes(parts.len()), listed(&parts))))
}

/// The backoffs that hold a group back at `now`.
pub(crate) fn backing_off(
    memory: &PoolHistory,
    now: UnixTime,
) -> impl Iterator<Item = (&BackoffKey, &Backoff)> {
    memory.backoffs.iter().filter(move |(_, backoff)| now <= backoff.until)
}

fn backing_off_summary(memory: &PoolHistory, now: UnixTime) -> Option<(&'static str, String)> {
    let parts: Vec<String> = backing_off(memory, now)
        .map(|(key, backoff)| {
            let BackoffKey { group, zone, instance_type, market } = key;
            let narrower: Vec<&str> =
                [zone, instance_type, market].into_iter().filter_map(|part| part.as_deref()).collect();
            let place =
                if narrower.is_empty() { String::new() } else { format!(" ({})", narrower.join(", ")) };
            let said =
                if backoff.message.is_empty() { String::new() } else { format!(": {}", backoff.message) };
            let Backoff { class, failures, until, .. } = backoff;
            format!("{group}{place} until {until} after {failures} failures, {}{said}", class.as_str())
        })
        .collect();
    (!parts.is_empty()).then(|| (Reason::LaunchFailed.as_str(), listed(&parts)))
}

/// The first limit that keeps pods waiting. A pool that is full and has nobody waiting is at no limit that matters.
pub(crate) fn limit(memory: &PoolHistory) -> Option<&Refusal> {
    memory.refusals.iter().find(|refusal| {
        matches!(
            refusal.reason,
            Reason::MaxNodesReached
                | Reason::GroupMaxNodesReached
                | Reason::PoolLimitReached
                | Reason::ClusterLimitReached
                | Reason::CapacityQuotaReached
        )
    })
}

/// Reason why the pool has too few or too many nodes, and nothing is done about it.
pub(crate) fn out_of_bounds<'a>(view: &PoolView<'a>) -> Option<&'a PoolReason> {
    let mut reasons = view.reasons.iter();
    reasons.find(|one| one.reason.is_out_of_bounds())
}

/// The groups whose devices do not fit into status.
fn not_learned(view: &PoolView<'_>) -> Option<(&'static str, String)> {
    let reasons = view.reasons.iter().filter(|one| one.reason == Reason::DevicesNotLearned);
    let parts: Vec<String> = reasons.map(|one| one.message.to_string()).collect();
    (!parts.is_empty()).then(|| (Reason::DevicesNotLearned.as_str(), listed(&parts)))
}

/// True if the pool is acted on, or would be, as soon as its provider answers.
fn runs(acceptance: &Acceptance) -> bool {
    matches!(
        acceptance,
        Acceptance::Accepted | Acceptance::Suspended | Acceptance::Preview | Acceptance::Deleting
    )
}

/// The first few parts, and how many more there are.
pub(crate) fn listed(parts: &[String]) -> String {
    let shown = parts.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join("; ");
    match parts.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Reason, message: &str) -> Refusal {
        let pods = ["default/web-1".into()];
        Refusal { reason, message: message.into(), pods_count: 3, examples: pods.into(), since: UnixTime(0) }
    }

    fn at_limit(refusals: Vec<Refusal>) -> Option<Condition> {
        let memory = PoolHistory { refusals, ..PoolHistory::default() };
        let list = of_pool(&memory, &PoolView::default(), &[], UnixTime(0));
        list.into_iter().find(|condition| condition.type_ == types::AT_LIMIT)
    }

    #[test]
    fn pods_that_wait_for_a_limit_put_their_pool_at_it() {
        let other = refusal(Reason::TaintNotTolerated, "taint gpu");
        let condition = at_limit(vec![other, refusal(Reason::PoolLimitReached, "cpu: all used")]);
        let words = condition.map(|found| (found.reason, found.message));
        assert_eq!(words, Some(("PoolLimitReached".to_owned(), "cpu: all used".to_owned())));
    }

    #[test]
    fn pool_outside_of_its_bounds_is_at_its_limit() {
        let reasons = [Reason::MaxNodesReached, Reason::MinNodesUnreachable].map(|reason| PoolReason {
            pool: "a".into(),
            reason,
            message: reason.as_str().into(),
        });
        let view = PoolView { acceptance: Acceptance::Accepted, reasons: &reasons, ..PoolView::default() };
        let found = of_pool(&PoolHistory::default(), &view, &[], UnixTime(0));
        let at_limit = headroom_api::conditions::get(&found, types::AT_LIMIT);
        assert_eq!(at_limit.map(|one| &*one.reason), Some("MinNodesUnreachable"));
        let above = [PoolReason { reason: Reason::MaxNodesExceeded, ..reasons[1].clone() }];
        let found =
            of_pool(&PoolHistory::default(), &PoolView { reasons: &above, ..view.clone() }, &[], UnixTime(0));
        let at_limit = headroom_api::conditions::get(&found, types::AT_LIMIT);
        assert_eq!(at_limit.map(|one| &*one.reason), Some("MaxNodesExceeded"));
        let full = PoolView { reasons: &reasons[..1], ..view };
        let found = of_pool(&PoolHistory::default(), &full, &[], UnixTime(0));
        assert_eq!(headroom_api::conditions::get(&found, types::AT_LIMIT), None);
    }

    #[test]
    fn pool_without_an_answer_of_its_provider_is_not_ready() {
        let ready = |view: &PoolView<'_>| {
            let found = of_pool(&PoolHistory::default(), view, &[], UnixTime(0));
            let ready = headroom_api::conditions::get(&found, types::READY).cloned();
            ready.map(|one| (one.status, one.reason))
        };
        let words = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
        let silent = PoolView {
            acceptance: Acceptance::Accepted,
            provider_unknown: Some("no credentials"),
            ..PoolView::default()
        };
        assert_eq!(ready(&silent), words("Unknown", "ProviderUnknown"));
        assert_eq!(ready(&PoolView { provider_unknown: None, ..silent.clone() }), words("True", "Accepted"));
        let broken = PoolView { acceptance: Acceptance::Invalid("x".to_owned()), ..silent };
        assert_eq!(ready(&broken), words("False", "Invalid"));
    }

    #[test]
    fn pods_that_wait_for_something_else_put_no_pool_at_a_limit() {
        assert_eq!(at_limit(vec![refusal(Reason::TaintNotTolerated, "taint gpu")]), None);
    }

    #[test]
    fn devices_that_status_does_not_hold_are_a_condition() {
        let shown = |view: &PoolView<'_>| {
            let list = of_pool(&PoolHistory::default(), view, &[], UnixTime(0));
            let found = list.into_iter().find(|condition| condition.type_ == types::DEVICES_NOT_LEARNED);
            found.map(|condition| (condition.reason, condition.message))
        };
        let reason = Reason::DevicesNotLearned;
        let reasons = [PoolReason { pool: "gpu".into(), reason, message: "group a".into() }];
        let view = PoolView { reasons: &reasons, ..PoolView::default() };
        assert_eq!(shown(&view), Some(("DevicesNotLearned".to_owned(), "group a".to_owned())));
        assert_eq!(shown(&PoolView::default()), None);
    }
}
