//! The beginning of a removal: intent, decision record and first step. The decision that it may begin was made before.

use std::sync::Arc;

use crate::removal::ending::shortened;
use crate::removal::{DELETE_TIMEOUT, MARK_TIMEOUT, NODES_MAX};
use headroom_cluster::history::{
    Action, Decision, DecisionAction, DecisionOutcome, EXAMPLES_MAX, Intent, PoolHistory, Removal,
    RemovalPhase, Surge, Victim,
};
use headroom_pools::config::{Config, Pool};
use headroom_pools::plan::Step;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// A removal about to be journalled.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The group of all victims.
    pub group: Arc<str>,
    /// The nodes that go; at least one, at most [`headroom_cluster::history::VICTIMS_MAX`].
    pub victims: Vec<Victim>,
    /// Reason.
    pub reason: Reason,
    /// The same for a person.
    pub message: String,
    /// Number of pods that must move.
    pub pods_count: u32,
    /// Nodes the pool wants before it.
    pub from: u32,
    /// Workloads that get one replica more for it.
    pub surges: Vec<Surge>,
}

/// Journals a removal and gives its first steps: the marks, or for an instance that never became a node the deletion.
pub fn open_intent(
    memory: &mut PoolHistory,
    config: &Config,
    pool: &Pool,
    opening: Opening,
    now: UnixTime,
) -> Vec<Step> {
    let Opening { group, mut victims, reason, message, pods_count, from, surges } = opening;
    victims.sort();
    let marks = reason != Reason::NeverRegistered;
    let id = memory.next_intent_id(config.epoch);
    let count = u32::try_from(victims.len()).unwrap_or(u32::MAX);
    let names = victims.iter().map(Victim::name);
    memory.record(Decision {
        id: id.clone(),
        time: now,
        action: DecisionAction::ScaleDown,
        group: group.clone(),
        from,
        to: from.saturating_sub(count),
        reason,
        message: shortened(&message),
        outcome: DecisionOutcome::InProgress,
        pods_count,
        examples: names.take(EXAMPLES_MAX).cloned().collect(),
        considered: Vec::new(),
    });
    let step = |victims: &[Victim]| {
        let (pool, intent) = (pool.name.clone(), id.clone());
        if marks {
            let nodes = victims.iter().map(|victim| victim.node.clone()).collect();
            Step::Mark { pool, intent, nodes }
        } else {
            Step::Delete { pool, intent, group: group.clone(), victims: victims.to_vec(), force: false }
        }
    };
    let steps = victims.chunks(NODES_MAX).map(step).collect();
    for victim in &victims {
        memory.unneeded.remove(&victim.node);
    }
    memory.last_scale_down = Some(now);
    let (phase, timeout) = if marks {
        (RemovalPhase::Journalled, MARK_TIMEOUT)
    } else {
        (RemovalPhase::Deleting, DELETE_TIMEOUT)
    };
    memory.intents.push(Intent {
        id,
        epoch: config.epoch,
        action: Action::Remove(Removal { group, victims, phase, phase_since: now, surges }),
        reason,
        started_at: now,
        deadline: now.plus(timeout),
    });
    steps
}
