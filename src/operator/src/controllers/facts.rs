//! Facts of the world for providers and the executor: pure look-ups, no decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::Mode;
use headroom_core::history::{Action, History, IncreasePhase, Victim};
use headroom_core::known::Known;
use headroom_core::nodes::state::bounds;
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::digest::Badge;
use headroom_core::world::node::Node;

use super::config::Settings;
use crate::actuate::steps::Facts;
use headroom_provider::{CloudSettings, OwnNode};

/// The nodes of each pool, by their labels.
#[must_use]
pub fn own_nodes(world: &World) -> BTreeMap<Arc<str>, Vec<OwnNode>> {
    let mut pools: BTreeMap<Arc<str>, Vec<OwnNode>> = BTreeMap::new();
    let unnamed: Arc<str> = Arc::from("");
    for (node, badge) in badged(world) {
        let Some(pool) = &badge.pool else { continue };
        let own = OwnNode {
            name: node.name.clone(),
            provider_id: node.provider_id.clone(),
            group: badge.group.as_ref().unwrap_or(&unnamed).clone(),
            created_at: node.created_at,
            deleting: node.deleting,
        };
        match pools.get_mut(pool) {
            Some(nodes) => nodes.push(own),
            None => {
                pools.insert(pool.clone(), vec![own]);
            }
        }
    }
    pools
}

/// The nodes in order of their names, each with its place by its labels.
fn badged(world: &World) -> impl Iterator<Item = (&Node, &Badge)> {
    world.digests().filter_map(move |(id, _, digest)| {
        Some((world.node(id).node.as_ref()?, &**world.badges().get(digest.badge)))
    })
}

/// Provider ids of all nodes.
#[must_use]
pub fn registered(world: &World) -> BTreeSet<Arc<str>> {
    let ids = world.nodes().map(|(_, node, _)| &node.provider_id);
    ids.filter(|id| !id.is_empty()).cloned().collect()
}

/// By id of each instance that the step deletes: a node that carries it and is not the victim's.
fn others(step: &Step, world: &World) -> BTreeMap<Arc<str>, Arc<str>> {
    let Step::Delete { victims, .. } = step else { return BTreeMap::new() };
    let other = |victim: &Victim| world.carried_by_other(&victim.id, &victim.node).cloned();
    victims.iter().filter_map(|victim| Some((victim.id.clone(), other(victim)?))).collect()
}

/// Reason why a step failed, as the refusing side gave it; `None` for all that is not a failure.
#[must_use]
pub fn failure_of(outcomes: &[Outcome]) -> Option<String> {
    outcomes.iter().find_map(|outcome| match &outcome.result {
        StepResult::IncreaseFailed { message, .. }
        | StepResult::MarkFailed { message, .. }
        | StepResult::Refused { message }
        | StepResult::Unknown { message } => Some(message.to_string()),
        _ => None,
    })
}

/// Returns the state of a step's pool at `now`, for the second check before the effect (design rule 5).
#[must_use]
pub fn of_step(step: &Step, world: &World, history: &History, settings: &Settings, now: UnixTime) -> Facts {
    let (pool, intent) = step.address();
    let spec = pool.and_then(|name| settings.config.pool(name));
    let known: BTreeSet<Arc<str>> = match pool {
        Some(pool) => nodes_of(world, pool).map(|node| node.name.clone()).collect(),
        None => BTreeSet::new(),
    };
    let named = pool.map_or(0, |pool| nodes_after_others(history, pool, intent, &known));
    let targets = pool.map_or(0, |pool| targets_of_others(world, history, pool, intent));
    let at_provider = pool.and_then(|name| settings.providers.get(name)).cloned();
    let by_size = at_provider.as_ref().is_some_and(|pool| pool.settings.writes_sizes());
    let nodes_count = if by_size { targets } else { named };
    Facts {
        pool: at_provider,
        max_nodes: spec.map_or(0, |spec| bounds::at(spec, now).max),
        nodes_count,
        known,
        others: others(step, world),
        acts: spec.is_some_and(|spec| spec.mode == Mode::Apply && !spec.deleting),
        expendable_cutoff: settings.config.cluster.expendable_pods_priority_cutoff,
        began_this_term: intent.is_some_and(|id| is_of_term(id, settings.config.epoch)),
        now,
    }
}

/// True if an intent of this id was journalled in leader term `epoch`: ids are `<epoch>-<sequence>`.
fn is_of_term(id: &str, epoch: u64) -> bool {
    id.split_once('-').is_some_and(|(term, _)| term.parse() == Ok(epoch))
}

/// Number of nodes that the pool has and will have through other intents, those of `intent` itself not counted.
fn nodes_after_others(
    history: &History,
    pool: &Arc<str>,
    intent: Option<&Arc<str>>,
    known: &BTreeSet<Arc<str>>,
) -> u32 {
    let mut names = known.clone();
    for open in history.pools.get(pool).map(|pool| pool.intents.as_slice()).unwrap_or_default() {
        let Action::Increase(increase) = &open.action else { continue };
        let own = Some(&open.id) == intent;
        for name in increase.node_names(pool, &open.id) {
            if own {
                names.remove(&name);
            } else {
                names.insert(name);
            }
        }
    }
    u32::try_from(names.len()).unwrap_or(u32::MAX)
}

/// Number of nodes that the groups of the pool want, each by the provider or another open increase, without the request
/// of `intent`: for providers that count and do not name.
fn targets_of_others(world: &World, history: &History, pool: &Arc<str>, intent: Option<&Arc<str>>) -> u32 {
    let observed = world.provider(pool).and_then(Known::value);
    let mut targets: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for (id, group) in observed.iter().flat_map(|state| &state.groups) {
        targets.insert(id.clone(), group.target);
    }
    for open in history.pools.get(pool).map(|pool| pool.intents.as_slice()).unwrap_or_default() {
        let Action::Increase(increase) = &open.action else { continue };
        let target = targets.entry(increase.group.clone()).or_default();
        if increase.phase == IncreasePhase::Cancelling {
            continue;
        }
        if Some(&open.id) == intent {
            // It may have been carried out before a crash: it is not counted twice.
            *target = (*target).min(increase.from);
        } else {
            *target = (*target).max(increase.to);
        }
    }
    targets.values().copied().fold(0, u32::saturating_add)
}

fn nodes_of<'a>(world: &'a World, pool: &'a str) -> impl Iterator<Item = &'a Node> + 'a {
    let own = badged(world).filter(move |(_, badge)| badge.pool.as_deref() == Some(pool));
    own.map(|(node, _)| node).filter(|node| !node.deleting)
}

/// A step as text for a log line.
#[must_use]
pub fn in_words(step: &Step) -> String {
    match step {
        Step::Increase { pool, intent, group, from, to, .. } => {
            format!("increase {pool}/{group} from {from} to {to} (intent {intent})")
        }
        Step::Cancel { pool, intent, group, from, to, .. } => {
            format!("take back what did not come of {pool}/{group} from {from} to {to} (intent {intent})")
        }
        Step::Mark { pool, intent, nodes } => {
            format!("mark {} of {pool} (intent {intent})", nodes.join(", "))
        }
        Step::Evict { intent, node, pods, .. } => {
            format!("evict {} pods of {node} (intent {intent})", pods.len())
        }
        Step::Delete { pool, intent, victims, .. } => {
            let nodes: Vec<&str> = victims.iter().map(|victim| &*victim.node).collect();
            format!("delete {} of {pool} (intent {intent})", nodes.join(", "))
        }
        Step::Unmark { node, .. } => format!("unmark {node}"),
    }
}
