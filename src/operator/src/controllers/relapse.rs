//! Bugs of docs/incidents.md that are put back in what the loop sees and remembers. It does nothing where none is put back.

use headroom_core::config::Config;
use headroom_core::history::{Action, History, Intent, PoolHistory};
use headroom_core::plan::{Outcome, StepResult};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use headroom_core::world::node::Readiness;

use headroom_observe::host::bugs::{self, Bug};

/// What the watches deliver: deletions are missed, or nodes that fell silent are taken for ready ones.
pub(super) fn missed(delta: &mut Delta) -> bool {
    if let (Delta::NodeApplied(node), true) = (&mut *delta, bugs::on(Bug::OutageLooksHealthy)) {
        node.ready = Readiness::Ready;
    }
    match delta {
        Delta::NodeDeleted(_) => bugs::on(Bug::NodeDeletionMissed),
        Delta::PodDeleted(_) => bugs::on(Bug::PodDeletionMissed),
        _ => false,
    }
}

/// What the settings say.
pub(super) fn settings(config: &mut Config) {
    if bugs::on(Bug::DrainsUnlimited) {
        (config.cluster.max_removals, config.cluster.max_drains) = (u32::MAX, u32::MAX);
    }
    if bugs::on(Bug::BudgetWindowsIgnored) {
        config.cluster.budgets.retain(|budget| budget.window.is_none());
    }
    for pool in &mut config.pools {
        if bugs::on(Bug::BudgetWindowsIgnored) {
            pool.scale_down.budgets.retain(|budget| budget.window.is_none());
        }
        if bugs::on(Bug::CreatedThenDeleted) {
            pool.scale_down.unneeded_for = Seconds(0);
        }
        if bugs::on(Bug::RetriesAtOnce) {
            pool.scale_up.backoff_initial = Seconds(0);
            pool.scale_up.backoff_max = Seconds(0);
        }
        if bugs::on(Bug::NeverTimesOut) {
            pool.scale_up.provision_timeout = Seconds::hours(24);
        }
    }
}

/// Who may grow: nobody while anybody is held back.
pub(super) fn growth(config: &mut Config, history: &History, now: UnixTime) {
    if bugs::on(Bug::RefusalStopsAll) {
        let mut backoffs = history.pools.values().flat_map(|memory| memory.backoffs.values());
        let held = backoffs.any(|backoff| now <= backoff.until);
        config.pools.iter_mut().for_each(|pool| pool.scale_up.enabled = !held);
    }
}

/// What is remembered when a plan is made.
pub(super) fn memory(history: &mut History) {
    if bugs::on(Bug::PurchasesNotCounted) {
        for memory in history.pools.values_mut() {
            memory.intents.retain(|intent| !matches!(intent.action, Action::Increase(_)));
        }
    }
}

/// Whether a journal counts as stored although this term has not written it: who believes the list that it was shown acts on
/// what stands there.
pub(super) fn stored_by_another_term(in_hand: &PoolHistory, stored: &PoolHistory) -> bool {
    let same = |intent: &Intent| {
        let of_its_term = |other: &Intent| Intent { epoch: other.epoch, ..intent.clone() } == *other;
        stored.intent(&intent.id).is_some_and(of_its_term)
    };
    bugs::on(Bug::OlderListBelieved) && in_hand.intents.iter().all(same)
}

/// What is remembered of a step that ended.
pub(super) fn ended(history: &mut History, outcomes: &[Outcome]) {
    if !bugs::on(Bug::SuccessClearsBackoffs) {
        return;
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.result == StepResult::Increased) {
        if let Some(memory) = history.pools.get_mut(&outcome.pool) {
            memory.backoffs.clear();
        }
    }
}
