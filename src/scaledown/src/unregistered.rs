//! Instances that never became nodes, or whose launch failed: they are deleted by id. Backing off after them is scale-up's concern.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bundles::INTENTS_KEPT_FREE;
use crate::candidates::PROVIDER_AGE_MAX;
use crate::removal::{Opening, Scene, open_intent};
use headroom_cluster::history::{
    Action, History, INTENTS_MAX, IncreasePhase, PoolHistory, VICTIMS_MAX, Victim,
};
use headroom_cluster::world::listing::Listing;
use headroom_cluster::world::provider::{GroupState, InstanceState};
use headroom_pools::config::{Mode, Pool};
use headroom_pools::plan::Step;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::reason::Reason;
use headroom_values::time::Seconds;

/// Deletes instances that never became nodes within the pool's provision timeout, and at once those whose launch failed:
/// by their own id, without drain and outside of budgets, but never below the group's own minimum.
///
/// Source: Cluster Autoscaler, static_autoscaler.go, removeOldUnregisteredNodes and deleteCreatedNodesWithErrors.
/// Differs from upstream: without knowing when an instance was asked for, it is left alone; and what a process that has
/// just started finds without a node is as old as the instance.
#[must_use]
pub fn remove_never_registered(scene: &Scene<'_>, history: &mut History) -> Vec<Step> {
    let mut steps = Vec::new();
    if scene.freshness.stale {
        return steps;
    }
    for pool in scene.config.pools.iter().filter(|pool| pool.mode == Mode::Apply && !pool.deleting) {
        if !scene.work_on(&pool.name) {
            continue;
        }
        let provider = scene.world.provider(&pool.name);
        let Some(state) = provider.and_then(|known| known.fresh(scene.now, PROVIDER_AGE_MAX)) else {
            continue;
        };
        for (group, state) in &state.groups {
            let memory = history.pools.entry(pool.name.clone()).or_default();
            let named: BTreeSet<Arc<str>> = named_instances(memory);
            let room =
                state.target.saturating_sub(state.min).min(u32::try_from(VICTIMS_MAX).unwrap_or(u32::MAX));
            let timeout = GroupSettings::new(pool, state.options.as_deref()).provision_timeout();
            let late = late_instances(scene, pool, state, timeout, &named);
            let victims: Vec<Victim> = late.into_iter().take(usize::try_from(room).unwrap_or(0)).collect();
            // An increase that is not answered asks for its size again, and would buy what goes here once more.
            let unanswered =
                memory.growing(group).any(|(_, increase)| increase.phase == IncreasePhase::Journalled);
            let full = memory.intents.len() >= INTENTS_MAX - INTENTS_KEPT_FREE;
            if victims.is_empty() || unanswered || full || state.hold.is_some() {
                continue;
            }
            let (failed, count) = (failed_count(state, &victims), victims.len());
            let message = match count - failed {
                0 => format!("{failed} launches failed"),
                late => format!(
                    "{late} instances did not become nodes within {timeout}, {failed} launches failed"
                ),
            };
            let opening = Opening {
                surges: Vec::new(),
                group: group.clone(),
                message,
                victims,
                reason: Reason::NeverRegistered,
                pods_count: 0,
                from: state.target,
            };
            steps.extend(open_intent(memory, scene.config, pool, opening, scene.now));
        }
    }
    scene.work_done();
    steps
}

fn failed_count(state: &GroupState, victims: &[Victim]) -> usize {
    let instances = victims.iter().filter_map(|victim| state.instances.get(&victim.id));
    instances.filter(|instance| instance.state == InstanceState::Failed).count()
}

/// Provider ids that open removals name.
fn named_instances(memory: &PoolHistory) -> BTreeSet<Arc<str>> {
    let victims = memory.intents.iter().filter_map(|intent| match &intent.action {
        Action::Remove(removal) => Some(&removal.victims),
        Action::Increase(_) => None,
    });
    victims.flatten().map(|victim| victim.id.clone()).collect()
}

fn late_instances(
    scene: &Scene<'_>,
    pool: &Pool,
    state: &GroupState,
    timeout: Seconds,
    named: &BTreeSet<Arc<str>>,
) -> Vec<Victim> {
    let listing = scene.world.listing(&pool.name);
    let unseen = listing.map(Listing::unseen);
    let listed = |id| Some((id, state.instances.get(id)?));
    let seen_at = scene.freshness.nodes_as_of(scene.now);
    let late = unseen.into_iter().flatten().filter_map(listed).filter(|(id, instance)| {
        let is_node = instance.node.as_ref().is_some_and(|name| scene.world.node_named(name).is_some());
        // An instance whose node has left is given the same time once more.
        let since = match listing.and_then(|listing| listing.left(id)) {
            Some(left_at) => left_at.max(instance.created_at.filter(|_| left_at.is_some())),
            None => instance.created_at,
        };
        let due = since.map(|at| at.plus(timeout));
        let is_late = match instance.state {
            InstanceState::Deleting => false,
            InstanceState::Failed => true,
            InstanceState::Creating | InstanceState::Running => due.is_some_and(|due| due < seen_at),
        };
        !is_node && is_late && !named.contains(&**id)
    });
    late.map(|(id, instance)| Victim { node: instance.node.clone().unwrap_or_default(), id: Arc::clone(id) })
        .collect()
}
