//! Bugs of docs/incidents.md that are put back in what the loop sees and remembers. It does nothing where none is put back.

use headroom_core::config::Config;
use headroom_core::history::{Action, History};
use headroom_core::plan::{Outcome, StepResult};
use headroom_core::time::Seconds;
use headroom_core::world::Delta;
use headroom_core::world::node::Readiness;

use crate::host::bugs::{self, Bug};

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
    for pool in &mut config.pools {
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

/// What is remembered when a plan is made.
pub(super) fn memory(history: &mut History) {
    if bugs::on(Bug::PurchasesNotCounted) {
        for memory in history.pools.values_mut() {
            memory.intents.retain(|intent| !matches!(intent.action, Action::Increase(_)));
        }
    }
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
