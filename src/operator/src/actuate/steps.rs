//! One step, carried out: it re-checks what the plan relied on, acts once, and returns the result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use headroom_core::history::Victim;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::removal::holds_node;
use headroom_core::plan::{CandidateTaints, Eviction, Outcome, Step, StepResult};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::Pod;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::carriers::{Carriers, is_instance};
use super::nodes::{ActionError, EvictionAnswer, LiveNode, NodeActions};
use super::semaphores::BudgetSemaphores;
use headroom_observe::host::Host;
use headroom_provider::{
    self as provider, CloudProvider, CloudSettings, Deletion, Increased, NodeMetadata, PoolAtProvider,
};

/// Calls of one step that are under way at once.
const PARALLEL_CALLS: usize = 16;
/// Longest from the look at a node to an eviction from it. What has no turn by then is left to the next round.
const EVICTION_TURN_MAX: Duration = Duration::from_secs(5);
/// Pause before an increase is tried to be taken back again.
const CANCEL_PAUSE: Seconds = Seconds(10);

/// Current state of the pool that a step belongs to, for the guard's second check (design rule 5).
#[derive(Clone, Debug)]
pub struct Facts {
    /// The pool as its provider knows it; `None` when it is no longer managed.
    pub pool: Option<PoolAtProvider>,
    /// Most nodes the pool may have now, schedules applied.
    pub max_nodes: u32,
    /// The pool's nodes and those on their way, the requested increase not counted.
    pub nodes_count: u32,
    /// Names of the nodes that the watch knows.
    pub known: BTreeSet<Arc<str>>,
    /// By id of an instance that the step deletes: a node that carries it and is not the victim's, as the watch knows it.
    pub others: BTreeMap<Arc<str>, Arc<str>>,
    /// True if the pool may grow and shrink: mode Apply, not being deleted.
    pub acts: bool,
    /// Pods under this priority are lost with their node and do not hold it.
    pub expendable_cutoff: i32,
    /// True if the step's intent was journalled in this leader term.
    pub began_this_term: bool,
    /// The time.
    pub now: UnixTime,
}

/// A live look at all nodes, and when it began.
type CarriersSeen = (Instant, Arc<Carriers>);

/// Carries out steps.
#[derive(Clone)]
pub struct Executor {
    nodes: Arc<dyn NodeActions>,
    provider: Arc<dyn CloudProvider>,
    host: Arc<Host>,
    semaphores: Arc<BudgetSemaphores>,
    /// The last live look at all nodes, and when it began.
    carriers: Arc<Mutex<Option<CarriersSeen>>>,
}

impl Executor {
    /// An executor that acts through these two, by the host's clock.
    #[must_use]
    pub fn new(nodes: Arc<dyn NodeActions>, provider: Arc<dyn CloudProvider>, host: Arc<Host>) -> Self {
        Self { nodes, provider, host, semaphores: Arc::default(), carriers: Arc::default() }
    }

    /// Carries out one step. Every call in it is bounded by the guard; the step as a whole ends with them.
    pub async fn run(&self, step: &Step, facts: &Facts) -> Vec<Outcome> {
        let results = match step {
            Step::Increase { intent, group, from, to, started_at, .. } => {
                let request = increase_request(facts, intent, group, *from, *to, *started_at);
                vec![self.increase(request, facts).await]
            }
            Step::Cancel { intent, group, from, to, started_at, .. } => {
                let request = increase_request(facts, intent, group, *from, *to, *started_at);
                vec![self.cancel(request, facts).await]
            }
            Step::Mark { intent, nodes, .. } => self.mark(intent, nodes, facts).await,
            Step::Evict { intent, node, pods, taken, .. } => {
                vec![self.evict(intent, node, pods, *taken, facts).await]
            }
            Step::Delete { intent, group, victims, force, .. } => {
                self.delete(intent, group, victims, *force, facts).await
            }
            Step::Unmark { node, .. } => vec![match self.nodes.unmark(node).await {
                Ok(()) => StepResult::Unmarked { node: node.clone() },
                Err(error) => unknown(&error),
            }],
        };
        // A mark without pool or intent belongs to nobody's memory.
        let (pool, intent) = step.address();
        let (pool, intent) = (pool.cloned().unwrap_or_default(), intent.cloned().unwrap_or_default());
        results
            .into_iter()
            .map(|result| Outcome { pool: pool.clone(), intent: intent.clone(), result })
            .collect()
    }

    /// Puts the soft taint on nodes and takes it off others, all at once. Returns the last thing that went wrong, nodes left out
    /// that somebody else has changed meanwhile: the next plan finds them again.
    pub async fn taint_candidates(&self, taints: &CandidateTaints) -> Option<ActionError> {
        let CandidateTaints { on, off } = taints;
        let calls = on.iter().map(|node| (node, true)).chain(off.iter().map(|node| (node, false)));
        let calls: Vec<_> = calls.map(|(node, on)| self.nodes.set_candidate(node, on)).collect();
        let mut errors = join_all(calls).await.into_iter().filter_map(Result::err);
        errors.rfind(|error| !matches!(error, ActionError::Conflict(_)))
    }

    async fn increase(&self, request: Option<provider::Increase>, facts: &Facts) -> StepResult {
        let Some(request) = request else {
            return refused("the pool is no longer managed");
        };
        let added = request.to.saturating_sub(request.from);
        if !facts.acts || facts.nodes_count.saturating_add(added) > facts.max_nodes {
            return refused("the pool may not grow by so many nodes any more");
        }
        match self.provider.increase(&request).await {
            Ok(Increased::Accepted) => StepResult::Increased,
            Ok(Increased::Superseded) => StepResult::Superseded,
            Ok(Increased::Pending(until)) => StepResult::Pending(until),
            Err(error) if error.unknown => StepResult::Unknown { message: error.message.into() },
            Err(error) => StepResult::IncreaseFailed {
                class: error.class,
                message: error.message.into(),
                created: error.created,
            },
        }
    }

    async fn cancel(&self, request: Option<provider::Increase>, facts: &Facts) -> StepResult {
        let Some(request) = request.filter(|_| facts.acts) else {
            return refused("the pool may not change any more");
        };
        match self.provider.cancel(&request).await {
            Ok(Increased::Accepted | Increased::Superseded) => StepResult::Increased,
            Ok(Increased::Pending(until)) => StepResult::Pending(until),
            // Retry later; the surplus only has to be cancelled before it launches.
            Err(error) if error.unknown => {
                tracing::warn!(group = %request.group, %error, "not taken back yet");
                StepResult::Pending(facts.now.plus(CANCEL_PAUSE))
            }
            Err(error) => {
                tracing::warn!(group = %request.group, %error, "cannot be taken back");
                StepResult::Increased
            }
        }
    }

    async fn mark(&self, intent: &str, nodes: &[Arc<str>], facts: &Facts) -> Vec<StepResult> {
        if !facts.acts {
            return vec![refused("the pool may not shrink any more")];
        }
        let calls: Vec<_> = nodes.iter().map(|node| self.nodes.mark(node, intent)).collect();
        let answers: Vec<Result<(), ActionError>> =
            stream::iter(calls).buffered(PARALLEL_CALLS).collect().await;
        let failed: Vec<StepResult> = nodes
            .iter()
            .zip(answers)
            .filter_map(|(node, answer)| match answer {
                Ok(()) => None,
                // The next tick marks again what a conflict or silence left unmarked.
                Err(error @ (ActionError::Conflict(_) | ActionError::Unknown(_))) => Some(unknown(&error)),
                Err(error) => {
                    Some(StepResult::MarkFailed { node: node.clone(), message: error.to_string().into() })
                }
            })
            .collect();
        if failed.is_empty() { vec![StepResult::Marked] } else { failed }
    }

    async fn evict(
        &self,
        intent: &str,
        node: &Arc<str>,
        pods: &[Eviction],
        taken: bool,
        facts: &Facts,
    ) -> StepResult {
        let protected: BTreeSet<ObjectKey> = match self.right_victim(intent, node, None, facts).await {
            Ok(Some(live)) => {
                // The watch may be behind: what is protected keeps its node, so that no other pod goes for nothing. A node
                // that the cloud takes goes anyway, and only what is protected stays on it.
                if let Some(kept) = kept(&live, node, facts).filter(|_| !taken || live.protected) {
                    return kept;
                }
                let kept = live.pods.iter().filter(|pod| pod.is_protected(facts.now));
                kept.map(|pod| pod.key.clone()).collect()
            }
            Ok(None) => {
                let (refused, accepted) = (Vec::new(), Vec::new());
                return StepResult::Evicted { node: node.clone(), refused, accepted };
            }
            Err(result) => return result,
        };
        let not_after = self.host.monotonic() + EVICTION_TURN_MAX;
        let pods: Vec<&Eviction> = pods.iter().filter(|pod| !protected.contains(&pod.pod)).collect();
        let calls: Vec<_> = pods.iter().map(|pod| self.evict_in_turn(pod, not_after)).collect();
        let answers: Vec<Option<Result<EvictionAnswer, ActionError>>> =
            stream::iter(calls).buffered(PARALLEL_CALLS).collect().await;
        let (mut refused, mut accepted) = (Vec::new(), Vec::new());
        for (pod, answer) in pods.into_iter().zip(answers) {
            match answer {
                None | Some(Ok(EvictionAnswer::AlreadyGone)) => {}
                Some(Ok(EvictionAnswer::Accepted)) => accepted.push((pod.pod.clone(), pod.uid.clone())),
                Some(Ok(EvictionAnswer::Refused { by_budget, message })) => {
                    refused.push((pod.pod.clone(), by_budget, message.into()));
                }
                Some(Err(error)) => refused.push((pod.pod.clone(), false, error.to_string().into())),
            }
        }
        StepResult::Evicted { node: node.clone(), refused, accepted }
    }

    /// Evicts a pod when it is its turn at its budget; `None` when that was too late, and nothing was asked for.
    async fn evict_in_turn(
        &self,
        pod: &Eviction,
        not_after: Instant,
    ) -> Option<Result<EvictionAnswer, ActionError>> {
        let _turn = match &pod.budget {
            Some(budget) => self.semaphores.enter(budget).await,
            None => None,
        };
        if self.host.monotonic() > not_after {
            return None;
        }
        Some(self.nodes.evict(pod).await)
    }

    async fn delete(
        &self,
        intent: &Arc<str>,
        group: &Arc<str>,
        victims: &[Victim],
        force: bool,
        facts: &Facts,
    ) -> Vec<StepResult> {
        let Some(pool) = &facts.pool else { return vec![refused("the pool is no longer managed")] };
        let results: Vec<StepResult> = if pool.settings.deletes_together() {
            self.delete_together(pool, (intent, group), victims, force, facts).await
        } else {
            let calls: Vec<_> = victims
                .iter()
                .map(|victim| Box::pin(self.delete_one(pool, intent, victim, force, facts)))
                .collect();
            stream::iter(calls).buffered(PARALLEL_CALLS).collect().await
        };
        if results.iter().all(|result| *result == StepResult::Deleted) {
            return vec![StepResult::Deleted];
        }
        results.into_iter().filter(|result| *result != StepResult::Deleted).collect()
    }

    /// A live look at each node, then one call for all of them that may go.
    async fn delete_together(
        &self,
        pool: &PoolAtProvider,
        (intent, group): (&Arc<str>, &Arc<str>),
        victims: &[Victim],
        force: bool,
        facts: &Facts,
    ) -> Vec<StepResult> {
        let looks: Vec<_> =
            victims.iter().map(|victim| Box::pin(self.may_go(intent, victim, force, facts))).collect();
        let looks: Vec<Result<Option<NodeMetadata>, StepResult>> =
            stream::iter(looks).buffered(PARALLEL_CALLS).collect().await;
        let (mut results, mut go) = (Vec::new(), Vec::new());
        for (victim, look) in victims.iter().zip(looks) {
            match look {
                Ok(metadata) => go.push((victim.clone(), metadata)),
                Err(result) => results.push(result),
            }
        }
        if go.is_empty() {
            return results;
        }
        let deletion =
            Deletion { pool: pool.clone(), intent: intent.clone(), group: group.clone(), victims: go };
        let answers = self.provider.delete_together(&deletion).await;
        let ended = deletion.victims.iter().zip(answers);
        results.extend(ended.map(|((victim, _), answer)| deleted(victim, answer)));
        results
    }

    /// A live look at the node and at all that carry its id, then its deletion by id: never one without the others.
    async fn delete_one(
        &self,
        pool: &PoolAtProvider,
        intent: &str,
        victim: &Victim,
        force: bool,
        facts: &Facts,
    ) -> StepResult {
        let metadata = match self.may_go(intent, victim, force, facts).await {
            Ok(metadata) => metadata,
            Err(result) => return result,
        };
        deleted(victim, self.provider.delete(pool, victim, metadata.as_ref()).await)
    }

    /// A live look at the node and at all that carry its id: what the Node has if it may go, or else why it may not.
    async fn may_go(
        &self,
        intent: &str,
        victim: &Victim,
        force: bool,
        facts: &Facts,
    ) -> Result<Option<NodeMetadata>, StepResult> {
        let metadata = match self.right_victim(intent, &victim.node, Some(&victim.id), facts).await {
            Ok(Some(live)) => {
                // A node that is ready again is not dead, whatever the removal began for.
                let forced = force && !live.ready;
                if let (Some(kept), false) = (kept(&live, victim.name(), facts), forced) {
                    return Err(kept);
                }
                if let (Some(pod), false) = (holder(&live, facts), forced) {
                    return Err(StepResult::NotEmpty { node: victim.name().clone(), pod });
                }
                Some(live.metadata)
            }
            Ok(None) => None,
            Err(result) => return Err(result),
        };
        self.is_alone(victim, facts).await?;
        Ok(metadata)
    }

    /// No node but the victim's carries its id: neither a copy of it, nor the machine's own node where the victim's is
    /// gone or was never seen.
    async fn is_alone(&self, victim: &Victim, facts: &Facts) -> Result<(), StepResult> {
        let unseen = victim.node.is_empty();
        // The watch and the live look may each know of one that the other does not.
        let live = self.live_carriers(unseen).await.map_err(|error| unknown(&error))?;
        let known = facts.others.get(&victim.id).map(|name| &**name);
        match live.other(&victim.id, &victim.node).or(known) {
            None => Ok(()),
            Some(_) if unseen => Err(refused("the instance has become a node since")),
            Some(other) => {
                let id = &victim.id;
                Err(refused(&format!(
                    "node {other} carries the provider id {id} of node {} too",
                    victim.node
                )))
            }
        }
    }

    /// Returns the nodes that carry each provider id, by a live read that is young enough for this victim.
    async fn live_carriers(&self, unseen: bool) -> Result<Arc<Carriers>, ActionError> {
        let asked_at = self.host.monotonic();
        let mut last = self.carriers.lock().await;
        if let Some((began_at, carriers)) = &*last
            && asked_at <= *began_at + carriers.age_max(unseen)
        {
            return Ok(carriers.clone());
        }
        let began_at = self.host.monotonic();
        let carriers = Arc::new(self.nodes.carriers().await?);
        *last = Some((began_at, carriers.clone()));
        Ok(carriers)
    }

    /// The node as it is now, if it carries this intent's mark and is this instance; `None` when it is gone.
    async fn right_victim(
        &self,
        intent: &str,
        node: &Arc<str>,
        instance: Option<&str>,
        facts: &Facts,
    ) -> Result<Option<LiveNode>, StepResult> {
        if !facts.acts {
            return Err(refused("the pool may not shrink any more"));
        }
        if node.is_empty() {
            // An instance that never became a node; whether one carries its id by now is for the caller to look.
            return Ok(None);
        }
        match self.nodes.look(node).await {
            Ok(None) => Ok(None),
            Ok(Some(live)) if live.intent.as_deref() == Some(intent) => match instance {
                Some(instance) if !is_instance(&live.provider_id, instance) => {
                    let found = &live.provider_id;
                    let message = format!("node {node} is instance {found}, not {instance}");
                    Err(StepResult::MarkFailed { node: node.clone(), message: message.into() })
                }
                _ => Ok(Some(live)),
            },
            Ok(Some(live)) => {
                let mark = live.intent.as_deref().unwrap_or("none");
                let message = format!("node {node} does not carry the mark of intent {intent}, but {mark}");
                Err(StepResult::MarkFailed { node: node.clone(), message: message.into() })
            }
            Err(error) => Err(unknown(&error)),
        }
    }
}

/// The end of a victim's deletion.
fn deleted(victim: &Victim, answer: Result<(), provider::Error>) -> StepResult {
    match answer {
        Ok(()) => StepResult::Deleted,
        Err(error) if error.unknown => StepResult::Unknown { message: error.message.into() },
        Err(error) => StepResult::DeleteFailed { node: victim.name().clone(), message: error.message.into() },
    }
}

/// Returns `Protected` if the node, or a pod on it, is protected from disruption.
fn kept(live: &LiveNode, node: &Arc<str>, facts: &Facts) -> Option<StepResult> {
    let pod = live.pods.iter().find(|pod| pod.is_protected(facts.now)).map(|pod| pod.key.clone());
    (live.protected || pod.is_some()).then(|| StepResult::Protected { node: node.clone(), pod })
}

/// A pod that holds the node, by the rule of the plan, and is not expendable.
fn holder(live: &LiveNode, facts: &Facts) -> Option<ObjectKey> {
    let holds = |pod: &&Pod| holds_node(pod, facts.now) && pod.class.priority >= facts.expendable_cutoff;
    live.pods.iter().find(holds).map(|pod| pod.key.clone())
}

fn increase_request(
    facts: &Facts,
    intent: &Arc<str>,
    group: &Arc<str>,
    from: u32,
    to: u32,
    started_at: UnixTime,
) -> Option<provider::Increase> {
    facts.pool.clone().map(|pool| provider::Increase {
        pool,
        intent: intent.clone(),
        group: group.clone(),
        from,
        to,
        started_at,
        began_this_term: facts.began_this_term,
        now: facts.now,
        known: facts.known.clone(),
    })
}

fn refused(message: &str) -> StepResult {
    StepResult::Refused { message: message.into() }
}

fn unknown(error: &ActionError) -> StepResult {
    StepResult::Unknown { message: error.to_string().into() }
}

#[cfg(test)]
mod tests;
