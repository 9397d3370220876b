//! Replacements under way: nodes that wait, nodes that may go, and the end of each. All it knows is in History and
//! World.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::candidates::Candidate;
use crate::consolidation::search::REMOVAL_TIME;
use crate::removal::Scene;
use crate::rotation::{self, is_rotation};
use headroom_cluster::history::{
    Action, ConsolidationBackoff, DecisionOutcome, History, IncreasePhase, PoolHistory, Replaced, Replacement,
};
use headroom_cluster::world::node::{Node, Readiness};
use headroom_pools::config::{Mode, Policy};
use headroom_pools::state::foreign::Membership;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// The longest that a replacement may be open, whatever a hand has written.
pub const OPEN_MAX: Seconds = Seconds::hours(24);

/// Progress of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The nodes bought are not all ready.
    Waiting,
    /// They are: those that wait may go.
    Ready,
    /// All that waited have gone.
    Done,
    /// The spec does not want it any more.
    Dropped,
    /// It did not come, or not in time.
    Failed,
}

/// Effects of open replacements on each node.
#[derive(Debug, Default)]
pub struct Replacing {
    stages: BTreeMap<Arc<str>, Stage>,
    /// Nodes that wait, with the pool that remembers why.
    waiting: BTreeMap<Arc<str>, Arc<str>>,
    /// Nodes that were bought for it.
    bought: BTreeSet<Arc<str>>,
    /// Pools whose replacement turned out to be of no use.
    refused: BTreeSet<Arc<str>>,
    /// Pools that replace nodes for what they are.
    rotating: BTreeSet<Arc<str>>,
    /// Those of them that take over from pools that were the second choice.
    preferred: BTreeSet<Arc<str>>,
    /// Outdated nodes that something keeps by now: their turn is over.
    kept: BTreeSet<Arc<str>>,
    /// Pools of which nodes were bought that are not ready.
    unready: BTreeSet<Arc<str>>,
}

impl Replacing {
    /// Looks at each pool's open replacement.
    #[must_use]
    pub fn of(scene: &Scene<'_>, history: &History) -> Self {
        let mut replacing = Self::default();
        for (pool, memory) in &history.pools {
            let Some(replacement) = &memory.replacement else { continue };
            let names: BTreeSet<&Arc<str>> = replacement.nodes.iter().map(|node| &node.node).collect();
            let bought: Vec<&Node> =
                bought(pool, replacement, scene).filter(|node| !names.contains(&node.name)).collect();
            if replacement.rotates() {
                replacing.rotating.insert(pool.clone());
            }
            if replacement.reason == Reason::PreferredNodes {
                replacing.preferred.insert(pool.clone());
            }
            if 0 < replacement.bought_count && bought.iter().any(|node| !is_started(node)) {
                replacing.unready.insert(pool.clone());
            }
            let stage = stage(pool, memory, replacement, &bought, scene);
            if matches!(stage, Stage::Waiting | Stage::Ready) {
                let left = left(replacement, scene).map(|node| (node.node.clone(), pool.clone()));
                replacing.waiting.extend(left);
                replacing.bought.extend(bought.iter().map(|node| node.name.clone()));
            }
            replacing.stages.insert(pool.clone(), stage);
        }
        replacing
    }

    /// True if the node waits for one of a pool that the expanders prefer.
    #[must_use]
    pub fn is_second_choice(&self, node: &str) -> bool {
        self.waiting.get(node).is_some_and(|owner| self.preferred.contains(owner))
    }

    /// True if the node waits for another one, or was bought in place of others.
    #[must_use]
    pub fn names(&self, node: &str) -> bool {
        self.waiting.contains_key(node) || self.bought.contains(node)
    }

    /// Lets a candidate go that was replaced; else the reason why it stays because of a replacement, if so.
    ///
    /// Nodes that are empty, unready or asked for go as ever, but for nodes that were just bought to take pods.
    pub fn verdict(&self, candidate: &mut Candidate) -> Option<Reason> {
        let node = &candidate.victim.node;
        let to_save =
            matches!(candidate.reason, Reason::Empty | Reason::Underutilized | Reason::Consolidated);
        if self.bought.contains(node) && to_save {
            return Some(Reason::PlannedFor);
        }
        let Some(owner) = self.waiting.get(node) else {
            // The purchase counted on the places that other removals would take now.
            let well_used = candidate.reason == Reason::Consolidated;
            return (well_used && !self.waiting.is_empty()).then_some(Reason::AwaitingReplacement);
        };
        let rotates = self.rotating.contains(owner) && is_rotation(candidate.reason);
        if !candidate.is_for_use() && !rotates {
            return None;
        }
        if self.stages.get(owner) != Some(&Stage::Ready) {
            return Some(Reason::AwaitingReplacement);
        }
        if !rotates {
            candidate.reason = Reason::Consolidated;
        }
        candidate.replaced = true;
        candidate.fresh = None;
        None
    }

    /// Notes that a node cannot leave although its replacement is ready: it has failed. Where nodes are outdated, the others
    /// go on without one that something of its own keeps.
    pub fn refuse(&mut self, node: &str, reason: Reason) {
        let passing = matches!(
            reason,
            Reason::PlannedFor | Reason::PromisedRoom | Reason::ProviderUnknown | Reason::InCooldown
        );
        if let Some(owner) = self.waiting.get(node)
            && self.stages.get(owner) == Some(&Stage::Ready)
            && !passing
        {
            let has_no_place = matches!(reason, Reason::NoPlaceToMovePods | Reason::NoPlaceForClaims);
            if self.rotating.contains(owner) && !has_no_place {
                self.kept.insert(node.into());
                return;
            }
            self.refused.insert(owner.clone());
        }
    }

    /// Notes in memory how each replacement ended; a failed one holds its pool back, twice as long each time.
    pub fn settle(&self, history: &mut History, scene: &Scene<'_>) {
        for (pool, stage) in &self.stages {
            let Some(memory) = history.pools.get_mut(pool) else { continue };
            match stage {
                Stage::Waiting | Stage::Ready if !self.refused.contains(pool) => {
                    if let Some(replacement) = &mut memory.replacement {
                        let waits =
                            |node: &Arc<str>| self.waiting.contains_key(node) && !self.kept.contains(node);
                        replacement.nodes.retain(|node| waits(&node.node));
                    }
                }
                Stage::Done => {
                    memory.replacement = None;
                    memory.consolidation_backoff = None;
                }
                Stage::Dropped => memory.replacement = None,
                Stage::Waiting | Stage::Ready | Stage::Failed => {
                    let failed = memory.replacement.take();
                    let of = failed.zip(scene.config.pool(pool));
                    let stops = *stage == Stage::Failed
                        && self.rotating.contains(pool)
                        && !self.preferred.contains(pool)
                        && self.unready.contains(pool);
                    match of {
                        Some((failed, pool)) if stops => {
                            memory.rotation_stop = Some(rotation::stop(pool, &failed.group, scene));
                        }
                        _ => hold_back(memory, pool, scene),
                    }
                }
            }
        }
        for pool in &scene.config.pools {
            let Some(memory) = history.pools.get_mut(&pool.name) else { continue };
            if !rotation::is_stopped(memory, pool, scene) {
                memory.rotation_stop = None;
            }
        }
    }
}

fn hold_back(memory: &mut PoolHistory, pool: &str, scene: &Scene<'_>) {
    let settings = scene.config.pool(pool).map(|pool| pool.scale_up).unwrap_or_default();
    let failures = memory.consolidation_backoff.map_or(0, |backoff| backoff.failures).saturating_add(1);
    let doubled = settings.backoff_initial.0.saturating_mul(1 << (failures - 1).min(20));
    let length = Seconds(doubled.min(settings.backoff_max.0.max(settings.backoff_initial.0)));
    memory.consolidation_backoff = Some(ConsolidationBackoff { failures, until: scene.now.plus(length) });
}

/// The nodes that still wait.
fn left<'r>(replacement: &'r Replacement, scene: &'r Scene<'_>) -> impl Iterator<Item = &'r Replaced> {
    let outdates = replacement.reason == Reason::OutdatedNodes;
    replacement.nodes.iter().filter(move |node| {
        let Some((id, found, _)) = scene.world.node_named(&node.node) else { return false };
        // A node that the template matches again need not leave.
        let outdated = |member: &Membership<'_>| {
            rotation::outdated(found, member, &scene.config.pools[member.pool], scene).is_some()
        };
        !outdates || scene.members.member(id).is_none_or(outdated)
    })
}

/// Nodes of the group that came after the decision, or bear the names that its intent gives.
fn bought<'s>(pool: &str, replacement: &Replacement, scene: &Scene<'s>) -> impl Iterator<Item = &'s Node> {
    let prefix = format!("{pool}-{}-", replacement.intent);
    let (group, since) = (replacement.group.clone(), replacement.since);
    let index = scene.config.pools.iter().position(|known| &*known.name == pool);
    let members = scene.members;
    scene.world.nodes().filter_map(move |(id, node, _)| {
        let member = members.member(id)?;
        let ours = Some(member.pool) == index && *member.group == group;
        let new = since <= node.created_at || node.name.starts_with(&prefix);
        (ours && new).then_some(node)
    })
}

fn stage(
    pool: &str,
    memory: &PoolHistory,
    replacement: &Replacement,
    bought: &[&Node],
    scene: &Scene<'_>,
) -> Stage {
    if left(replacement, scene).next().is_none() {
        return Stage::Done;
    }
    let rotates = replacement.rotates();
    let wanted = |node: &Replaced| {
        scene.config.pool(&node.pool).is_some_and(|pool| {
            pool.mode == Mode::Apply
                && !pool.deleting
                && pool.scale_down.enabled
                && match replacement.reason {
                    Reason::OutdatedNodes => pool.scale_down.rotation.is_on(),
                    Reason::PreferredNodes => pool.scale_down.rotation.prefer_other_pool,
                    _ => pool.scale_down.policy != Policy::WhenUnderutilized,
                }
        })
    };
    if scene.config.pool(pool).is_none() || !replacement.nodes.iter().all(wanted) {
        return Stage::Dropped;
    }
    if replacement.until < scene.now {
        return Stage::Failed;
    }
    let ready = bought.iter().filter(|node| is_started(node)).count();
    if u32::try_from(ready).is_ok_and(|ready| replacement.bought_count <= ready) {
        return Stage::Ready;
    }
    if rotates && ready_by(replacement) < scene.now {
        return Stage::Failed;
    }
    match memory.intent(&replacement.intent).map(|intent| &intent.action) {
        Some(Action::Increase(increase)) if increase.phase == IncreasePhase::Cancelling => Stage::Failed,
        Some(_) => Stage::Waiting,
        None => {
            let decision = memory.decisions.iter().find(|decision| decision.id == replacement.intent);
            let came = matches!(
                decision.map(|decision| decision.outcome),
                None | Some(DecisionOutcome::Done | DecisionOutcome::InProgress)
            );
            if came { Stage::Waiting } else { Stage::Failed }
        }
    }
}

/// Time at which all nodes bought for it should be ready.
fn ready_by(replacement: &Replacement) -> UnixTime {
    UnixTime(replacement.until.0.saturating_sub(REMOVAL_TIME.0))
}

/// True if a node is ready and takes pods.
fn is_started(node: &Node) -> bool {
    node.ready == Readiness::Ready && !started_late(node)
}

/// True if pods are still kept off a node that says it is ready.
fn started_late(node: &Node) -> bool {
    node.unschedulable || node.taints.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"))
}

/// Time at which replacements must be looked at again although nothing happens.
#[must_use]
pub(super) fn wake_at(history: &History, now: UnixTime) -> Option<UnixTime> {
    let open = history.pools.values().filter_map(|memory| memory.replacement.as_ref());
    let held = history.pools.values().filter_map(|memory| memory.consolidation_backoff);
    let ready_by = |replacement: &Replacement| replacement.rotates().then(|| ready_by(replacement));
    open.flat_map(|replacement| [ready_by(replacement), Some(replacement.until)])
        .flatten()
        .chain(held.map(|backoff| backoff.until))
        .filter(|at| now <= *at)
        .min()
        .map(|at| at.plus(Seconds(1)))
}
