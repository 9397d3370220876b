//! The life of an increase: journalled, requested, and how it ends. It decides no sizes.

use std::sync::Arc;

use crate::config::{Config, Mode, Pool};
use crate::plan::{Outcome, Step, StepResult};
use crate::state::backoff;
use crate::state::cluster_state::{ClusterState, GroupCounts, PoolState};
use crate::state::group_settings::GroupSettings;
use headroom_cluster::history::{
    Action, DecisionAction, DecisionOutcome, History, Increase, IncreasePhase, Intent, PoolHistory,
};
use headroom_cluster::world::IntentId;
use headroom_cluster::world::provider::BackoffKey;
use headroom_cluster::world::provider::{FailureClass, GroupState};
use headroom_cluster::world::view::View;
use headroom_values::known::Known;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// So many purchases of a group that were overtaken one after the other hold it back.
const OVERTAKEN_MAX: usize = 3;
/// Time that one of them counts.
const OVERTAKEN_WITHIN: Seconds = Seconds(60);

/// A view of the cloud that is so much newer than the acceptance of an increase shows what became of it; an older one
/// may show the size before. AWS says of its reads only that they are consistent in the end.
const VIEW_LAG: Seconds = Seconds(60);

/// State of an increase.
#[derive(Clone, Debug, PartialEq, Eq)]
enum IncreaseProgress {
    /// Still under way.
    Open,
    /// Its nodes are there.
    Done,
    /// The cloud wants less than it accepted, and all of that is there: somebody lowered the size, or a node left.
    Superseded,
    /// Taken back before the cloud was asked.
    Cancelled,
    /// It had failed, and what did not come has been taken back.
    Withdrawn,
    /// It failed: the class of the failure, and the message.
    Failed(FailureClass, String),
}

/// Brings the journal up to what the world shows; returns true if anything has changed.
///
/// Increases end as Done when their nodes are there, as Failed when the cloud says so or the deadline has passed, as
/// Cancelled when the pool no longer wants them and the cloud has not been asked, as Superseded when the size that the
/// cloud accepted was lowered afterwards. Failures that the cloud reported become backoffs, old backoffs are forgotten.
pub fn settle(
    next: &mut History,
    cluster: &ClusterState<'_>,
    view: View<'_>,
    config: &Config,
    now: UnixTime,
) -> bool {
    let mut changed = false;
    for pool in &config.pools {
        let Some(state) = cluster.pools.get(&pool.name) else { continue };
        if !next.pools.contains_key(&pool.name) && !has_failures(state) {
            continue;
        }
        let memory = next.pools.entry(pool.name.clone()).or_default();
        let backoffs_before = memory.backoffs.len();
        memory.backoffs.retain(|_, entry| !backoff::forgotten(entry, now, &pool.scale_up));
        changed |= memory.backoffs.len() != backoffs_before;
        changed |= note_failures(memory, state, now);
        changed |= settle_pool(memory, state, pool, view, now);
    }
    changed
}

fn has_failures(state: &PoolState<'_>) -> bool {
    state.provider.is_some_and(|provider| provider.groups.values().any(|group| !group.failures.is_empty()))
}

/// Failures that the cloud reported and that are not known yet. The same report read twice counts once, and what failed
/// before an increase that is under way says nothing about it: its own launches will show.
fn note_failures(memory: &mut PoolHistory, state: &PoolState<'_>, now: UnixTime) -> bool {
    let mut changed = false;
    let settings = &state.pool.scale_up;
    let groups = state.provider.iter().flat_map(|provider| &provider.groups);
    for (id, failure) in
        groups.flat_map(|(id, group)| group.failures.iter().map(move |failure| (id, failure)))
    {
        let known = memory.backoffs.get(&failure.key).is_some_and(|entry| failure.at <= entry.since);
        let old = settings.backoff_reset_after < now.since(failure.at);
        let earlier = memory.intents.iter().any(|intent| {
            matches!(&intent.action, Action::Increase(increase) if increase.group == *id)
                && failure.at < intent.started_at
        });
        if !known && !old && !earlier {
            let at = failure.at.min(now);
            backoff::register(memory, failure.key.clone(), failure.class, &failure.message, at, settings);
            changed = true;
        }
    }
    changed
}

fn settle_pool(
    memory: &mut PoolHistory,
    state: &PoolState<'_>,
    pool: &Pool,
    view: View<'_>,
    now: UnixTime,
) -> bool {
    let mut ended: Vec<(IntentId, Arc<str>, IncreaseProgress)> = Vec::new();
    for intent in &memory.intents {
        if let Action::Increase(increase) = &intent.action {
            let progress = progress(intent, increase, state, pool, view, now);
            let waits = progress == IncreaseProgress::Done && {
                let mut before =
                    memory.growing(&increase.group).filter(|(_, other)| other.to <= increase.from);
                // Its result counts from the size of the one before: forgotten first, its nodes would be taken for
                // those of that one.
                before.any(|(other, _)| ended.iter().all(|(id, _, _)| *id != other.id))
            };
            if progress != IncreaseProgress::Open && !waits {
                ended.push((intent.id.clone(), increase.group.clone(), progress));
            }
        }
    }
    for (id, group, progress) in &ended {
        let leaves_a_wish = matches!(progress, IncreaseProgress::Failed(..)) && unfulfilled(state, group);
        if leaves_a_wish {
            let timeout = GroupSettings::of(pool, group, view.world).provision_timeout();
            withdraw(memory, id, now.plus(timeout));
        } else {
            memory.intents.retain(|intent| intent.id != *id);
        }
        let outcome = match progress {
            IncreaseProgress::Open | IncreaseProgress::Done => DecisionOutcome::Done,
            IncreaseProgress::Superseded => DecisionOutcome::Superseded,
            IncreaseProgress::Cancelled => DecisionOutcome::Cancelled,
            IncreaseProgress::Withdrawn => DecisionOutcome::Failed,
            IncreaseProgress::Failed(class, message) => {
                let key = BackoffKey { group: group.clone(), ..BackoffKey::default() };
                // A failure that the cloud has named already is backed off under its own key.
                if *class == FailureClass::ProvisionTimeout {
                    backoff::register(memory, key, *class, message, now, &pool.scale_up);
                }
                DecisionOutcome::Failed
            }
        };
        memory.conclude(id, outcome);
    }
    !ended.is_empty()
}

/// True if the cloud wants more instances of the group than there are: without more it would go on trying, and the
/// instances would come when nobody waits for them any more.
fn unfulfilled(state: &PoolState<'_>, group: &str) -> bool {
    let known = state.groups.get(group).and_then(|group| group.state);
    known.is_some_and(|state| state.live_count() < state.target)
}

/// From here on the increase is only kept to take back what did not come.
fn withdraw(memory: &mut PoolHistory, id: &str, deadline: UnixTime) {
    for intent in memory.intents.iter_mut().filter(|intent| &*intent.id == id) {
        if let Action::Increase(increase) = &mut intent.action {
            increase.phase = IncreasePhase::Cancelling;
            intent.deadline = deadline;
        }
    }
}

/// Returns the state of the withdrawal of a failed increase: done when nothing is missing or the deadline has passed.
fn withdrawal(
    intent: &Intent,
    increase: &Increase,
    state: &PoolState<'_>,
    now: UnixTime,
) -> IncreaseProgress {
    let nothing_left = state.provider.is_some()
        && (!unfulfilled(state, &increase.group)
            || state
                .groups
                .get(&increase.group)
                .and_then(|group| group.state)
                .is_some_and(|state| state.target <= increase.from.max(state.min)));
    if nothing_left || intent.deadline < now { IncreaseProgress::Withdrawn } else { IncreaseProgress::Open }
}

fn progress(
    intent: &Intent,
    increase: &Increase,
    state: &PoolState<'_>,
    pool: &Pool,
    view: View<'_>,
    now: UnixTime,
) -> IncreaseProgress {
    if view.freshness.is_asking(&pool.name, &intent.id) {
        // Sizes and nodes say nothing of a call that may land yet: ended now, it would land without an intent.
        return IncreaseProgress::Open;
    }
    if increase.phase == IncreasePhase::Cancelling {
        return withdrawal(intent, increase, state, now);
    }
    let group = state.groups.get(&increase.group);
    let names = increase.node_names(&pool.name, &intent.id);
    let named_here = names.iter().filter(|name| view.node_named(name).is_some()).count();
    let read_at = view.provider(&pool.name).and_then(Known::read_at);
    let wanted = wanted(intent, increase, group.and_then(|group| group.state), read_at);
    // An increase that the cloud has not answered is asked for once more, which changes nothing where it was done. By
    // the size alone it cannot be known: two increases of a group are asked for side by side, and the later one's nodes
    // may come first.
    let asked_again =
        increase.phase == IncreasePhase::Journalled && pool.mode == Mode::Apply && !pool.deleting;
    if named_here == names.len() || !asked_again && increase.to <= wanted && accounted(wanted, group) {
        return IncreaseProgress::Done;
    }
    if wanted < increase.to && accounted(wanted, group) {
        return IncreaseProgress::Superseded;
    }
    let asked = increase.phase == IncreasePhase::Requested
        || named_here != 0
        || group.and_then(|group| group.state).is_some_and(|state| increase.to <= state.target);
    if !asked && unwanted(increase, group, state, pool) {
        return IncreaseProgress::Cancelled;
    }
    let failure = group
        .and_then(|group| group.state)
        .and_then(|state| state.failures.iter().find(|failure| intent.started_at <= failure.at && asked));
    if let Some(failure) = failure {
        return IncreaseProgress::Failed(failure.class, failure.message.to_string());
    }
    if view.freshness.nodes_as_of(now) <= intent.deadline {
        return IncreaseProgress::Open;
    }
    match missing(wanted, group) {
        0 if wanted < increase.to => IncreaseProgress::Superseded,
        0 => IncreaseProgress::Done,
        missing => {
            let asked = increase.to.saturating_sub(increase.from);
            let message = format!("{} of {asked} nodes did not register in time", missing.min(asked));
            IncreaseProgress::Failed(FailureClass::ProvisionTimeout, message)
        }
    }
}

/// The size that an increase still stands for: `to`, or what the cloud wants where it is less.
///
/// A size is lowered by hand, by a status that was restored, or by a removal in the same group. It is believed only from
/// a view that is more than [`VIEW_LAG`] newer than the acceptance: a stale one must not end what is about to come. Even
/// if it is believed wrongly nothing is bought twice, since every write asks for an absolute size and reads first.
#[must_use]
pub fn wanted(
    intent: &Intent,
    increase: &Increase,
    state: Option<&GroupState>,
    read_at: Option<UnixTime>,
) -> u32 {
    let accepted_at = increase.accepted_at.unwrap_or(intent.started_at);
    match (state, read_at) {
        (Some(state), Some(read_at))
            if increase.phase == IncreasePhase::Requested && VIEW_LAG < read_at.since(accepted_at) =>
        {
            increase.to.min(state.target)
        }
        _ => increase.to,
    }
}

/// True if the cloud has reached this size and every one of its instances is a node.
fn accounted(wanted: u32, group: Option<&GroupCounts<'_>>) -> bool {
    let Some(group) = group else { return false };
    let Some(state) = group.state else { return false };
    wanted <= state.target
        && state.target <= state.live_count()
        && group.unregistered == 0
        && group.long_unregistered.is_empty()
}

/// Nodes of the group that are wanted and not registered.
fn missing(wanted: u32, group: Option<&GroupCounts<'_>>) -> u32 {
    let registered = group.map_or(0, GroupCounts::registered);
    wanted.saturating_sub(registered)
}

/// True if the spec no longer allows what was journalled.
fn unwanted(
    increase: &Increase,
    group: Option<&GroupCounts<'_>>,
    state: &PoolState<'_>,
    pool: &Pool,
) -> bool {
    let group_max = group.and_then(|group| group.state).map_or(u32::MAX, |state| state.max);
    pool.deleting
        || pool.mode != Mode::Apply
        || !pool.scale_up.enabled
        || group_max < increase.to
        || state.bounds.max < state.target()
}

/// The steps of all journalled increases and of those being taken back, in order of pools and intents.
///
/// They are repeated on every plan until the cloud has answered: after a restart this is the normal path. Nothing is
/// asked while the provider is unknown.
#[must_use]
pub fn steps(next: &History, cluster: &ClusterState<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (name, state) in &cluster.pools {
        let Some(memory) = next.pools.get(name) else { continue };
        if state.provider.is_none() || state.pool.mode != Mode::Apply || state.pool.deleting {
            continue;
        }
        for intent in &memory.intents {
            match &intent.action {
                Action::Increase(increase) if increase.phase == IncreasePhase::Journalled => {
                    steps.push(Step::Increase {
                        pool: name.clone(),
                        intent: intent.id.clone(),
                        group: increase.group.clone(),
                        from: increase.from,
                        to: increase.to,
                        started_at: intent.started_at,
                    });
                }
                Action::Increase(increase) if increase.phase == IncreasePhase::Cancelling => {
                    steps.push(Step::Cancel {
                        pool: name.clone(),
                        intent: intent.id.clone(),
                        group: increase.group.clone(),
                        from: increase.from,
                        to: increase.to,
                        started_at: intent.started_at,
                    });
                }
                Action::Increase(_) | Action::Remove(_) => {}
            }
        }
    }
    steps
}

/// Takes up what the world answered to the steps of increases; other outcomes are left alone.
pub fn absorb(history: &mut History, outcomes: &[Outcome], config: &Config, now: UnixTime) {
    for outcome in outcomes {
        let Some(memory) = history.pools.get_mut(&outcome.pool) else { continue };
        let Some(group) = memory.intent(&outcome.intent).and_then(|intent| match &intent.action {
            Action::Increase(increase) => Some(increase.group.clone()),
            Action::Remove(_) => None,
        }) else {
            continue;
        };
        absorb_one(memory, outcome, &group, config, now);
    }
}

fn absorb_one(memory: &mut PoolHistory, outcome: &Outcome, group: &Arc<str>, config: &Config, now: UnixTime) {
    match &outcome.result {
        StepResult::Increased if is_cancelling(memory, &outcome.intent) => {
            end(memory, &outcome.intent, DecisionOutcome::Failed);
        }
        StepResult::Increased => accept(memory, &outcome.intent, now),
        StepResult::Superseded => {
            end(memory, &outcome.intent, DecisionOutcome::Superseded);
            hold_if_overtaken(memory, outcome, group, config, now);
        }
        StepResult::IncreaseFailed { class, message, created: _ } => {
            let settings = config.pool(&outcome.pool).map(|pool| pool.scale_up).unwrap_or_default();
            let key = BackoffKey { group: group.clone(), ..BackoffKey::default() };
            backoff::register(memory, key, *class, message, now, &settings);
            end(memory, &outcome.intent, DecisionOutcome::Failed);
            // Increases that were decided on top of the failed size cannot be carried out any more.
            let stale: Vec<_> = memory
                .increases_of(group)
                .filter(|(_, increase)| increase.phase == IncreasePhase::Journalled)
                .map(|(intent, _)| intent.id.clone())
                .collect();
            stale.iter().for_each(|id| end(memory, id, DecisionOutcome::Superseded));
        }
        // Not answered yet: the step is repeated on the next plan.
        StepResult::Pending(_) | StepResult::Refused { .. } | StepResult::Unknown { .. } => {}
        // Answers to steps of removals.
        StepResult::Marked
        | StepResult::MarkFailed { .. }
        | StepResult::Evicted { .. }
        | StepResult::Deleted
        | StepResult::NotEmpty { .. }
        | StepResult::Protected { .. }
        | StepResult::DeleteFailed { .. }
        | StepResult::Unmarked { .. } => {}
    }
}

/// Notes that the cloud has accepted an increase.
///
/// Only now it holds removals back: a failed increase adds no node. The time that counts is that of the decision. Its
/// nodes have their whole time from here on: between decision and acceptance the operator may have been stopped, or its
/// calls lost.
/// Source: core/static_autoscaler.go, lastScaleUpTime: the start of the loop, set where its scale-up succeeded. Differs from
/// upstream: nodes that are bought in place of others do not hold back those that they replace.
fn accept(memory: &mut PoolHistory, id: &str, now: UnixTime) {
    let Some(intent) = memory.intents.iter_mut().find(|intent| &*intent.id == id) else { return };
    let Action::Increase(increase) = &mut intent.action else { return };
    increase.phase = IncreasePhase::Requested;
    increase.accepted_at = Some(now);
    let length = intent.deadline.since(intent.started_at);
    intent.deadline = intent.deadline.max(now.plus(length));
    if !replaces(intent.reason) {
        memory.last_scale_up = memory.last_scale_up.max(Some(intent.started_at));
    }
}

/// Holds the group back when one purchase after the other was overtaken: what is known of the group does not agree with
/// what the cloud reports at the moment of the write, and a plan that follows at once would only repeat itself.
fn hold_if_overtaken(
    memory: &mut PoolHistory,
    outcome: &Outcome,
    group: &Arc<str>,
    config: &Config,
    now: UnixTime,
) {
    let overtaken = memory.decisions.iter().filter(|decision| {
        decision.action == DecisionAction::ScaleUp
            && decision.group == *group
            && decision.outcome == DecisionOutcome::Superseded
            && now.since(decision.time) <= OVERTAKEN_WITHIN
    });
    if overtaken.count() < OVERTAKEN_MAX {
        return;
    }
    let settings = config.pool(&outcome.pool).map(|pool| pool.scale_up).unwrap_or_default();
    let key = BackoffKey { group: group.clone(), ..BackoffKey::default() };
    let message = format!(
        "{OVERTAKEN_MAX} purchases in a row were overtaken: the group's size is not what is known of it"
    );
    backoff::register(memory, key, FailureClass::Other, &message, now, &settings);
}

/// True if an intent is an increase that the cloud has not answered yet and that would hold removals back.
#[must_use]
pub fn is_asked(intent: &Intent) -> bool {
    !replaces(intent.reason)
        && matches!(&intent.action, Action::Increase(increase) if increase.phase == IncreasePhase::Journalled)
}

/// True if nodes that are bought for this reason take over from others.
fn replaces(reason: Reason) -> bool {
    matches!(reason, Reason::CheaperNodes | Reason::OutdatedNodes | Reason::PreferredNodes)
}

fn is_cancelling(memory: &PoolHistory, id: &str) -> bool {
    memory.intent(id).is_some_and(|intent| {
        matches!(&intent.action, Action::Increase(increase) if increase.phase == IncreasePhase::Cancelling)
    })
}

fn end(memory: &mut PoolHistory, id: &str, outcome: DecisionOutcome) {
    memory.intents.retain(|intent| &*intent.id != id);
    memory.conclude(id, outcome);
}
