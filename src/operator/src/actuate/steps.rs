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
mod tests {
    use std::sync::Mutex;

    use futures::future::BoxFuture;
    use headroom_core::labels::Labels;
    use headroom_core::world::pod::{PROTECTED_FOREVER, PodClass};

    use super::*;
    use headroom_provider::{Asked, Error, NodeShape, Observation, ProviderSettings, kwok};

    const NOW: UnixTime = UnixTime(1_000);

    /// A node with pods and a mark, and a log of what was done to it.
    #[derive(Default)]
    struct Fake {
        live: Option<LiveNode>,
        /// All nodes with their provider ids.
        carried: Vec<(&'static str, &'static str)>,
        done: Mutex<Vec<String>>,
        /// Time that an eviction takes.
        eviction: Duration,
    }

    impl Fake {
        fn note(&self, what: &str) {
            self.done.lock().expect("no panic inside").push(what.to_owned());
        }
    }

    impl NodeActions for Fake {
        fn mark<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
            self.note("mark");
            Box::pin(async { Ok(()) })
        }
        fn unmark<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
            self.note("unmark");
            Box::pin(async { Ok(()) })
        }
        fn set_candidate<'a>(&'a self, node: &'a str, on: bool) -> BoxFuture<'a, Result<(), ActionError>> {
            self.note(&format!("{node} is a candidate: {on}"));
            Box::pin(async move {
                match node {
                    "changed" => Err(ActionError::Conflict(node.to_owned())),
                    "denied" => Err(ActionError::Refused(node.to_owned())),
                    _ => Ok(()),
                }
            })
        }
        fn look<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<LiveNode>, ActionError>> {
            Box::pin(async { Ok(self.live.clone()) })
        }
        fn carriers(&self) -> BoxFuture<'_, Result<Carriers, ActionError>> {
            Box::pin(async {
                self.note("list");
                let mut carriers = Carriers::default();
                for (node, id) in &self.carried {
                    carriers.add(node, id);
                }
                Ok(carriers)
            })
        }
        fn evict<'a>(&'a self, _: &'a Eviction) -> BoxFuture<'a, Result<EvictionAnswer, ActionError>> {
            Box::pin(async {
                self.note("evict");
                tokio::time::sleep(self.eviction).await;
                Ok(EvictionAnswer::Accepted)
            })
        }
    }

    impl CloudProvider for Fake {
        fn observe<'a>(&'a self, _: &'a [Asked<'a>]) -> BoxFuture<'a, Vec<Result<Observation, Error>>> {
            Box::pin(async { Vec::new() })
        }
        fn increase<'a>(&'a self, _: &'a provider::Increase) -> BoxFuture<'a, Result<Increased, Error>> {
            Box::pin(async {
                self.note("increase");
                Ok(Increased::Accepted)
            })
        }
        fn delete<'a>(
            &'a self,
            _: &'a PoolAtProvider,
            _: &'a Victim,
            _: Option<&'a NodeMetadata>,
        ) -> BoxFuture<'a, Result<(), Error>> {
            self.note("delete");
            Box::pin(async { Ok(()) })
        }
        fn delete_together<'a>(&'a self, deletion: &'a Deletion) -> BoxFuture<'a, Vec<Result<(), Error>>> {
            let ids: Vec<&str> = deletion.victims.iter().map(|(victim, _)| &*victim.id).collect();
            self.note(&format!("delete {} of {} in {}", ids.join(","), deletion.intent, deletion.group));
            Box::pin(async move { deletion.victims.iter().map(|_| Ok(())).collect() })
        }
    }

    fn facts() -> Facts {
        let pool = PoolAtProvider {
            name: "general".into(),
            created_at: UnixTime(0),
            max_nodes: 5,
            settings: ProviderSettings::Kwok(kwok::Settings::default()),
            node: NodeShape { labels: Labels::default(), ..NodeShape::default() },
        };
        Facts {
            pool: Some(pool),
            max_nodes: 5,
            nodes_count: 3,
            known: BTreeSet::new(),
            others: BTreeMap::new(),
            acts: true,
            expendable_cutoff: -10,
            began_this_term: true,
            now: NOW,
        }
    }

    fn delete() -> Step {
        let victim = Victim { node: "n1".into(), id: "kwok://n1".into() };
        let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
        Step::Delete { pool, intent, group, victims: vec![victim], force: false }
    }

    fn increase(to: u32) -> Step {
        let (pool, intent, group) = ("general".into(), "1-8".into(), "a".into());
        Step::Increase { pool, intent, group, from: 3, to, started_at: NOW }
    }

    fn marked(pods: Vec<Pod>) -> Option<LiveNode> {
        Some(LiveNode {
            intent: Some("1-7".to_owned()),
            provider_id: "kwok://n1".to_owned(),
            ready: true,
            protected: false,
            metadata: NodeMetadata::default(),
            pods,
        })
    }

    fn running(class: PodClass) -> Pod {
        Pod { key: ObjectKey::new("default", "web-1"), class: Arc::new(class), ..Pod::default() }
    }

    /// Returns the result of a step, and the actions that were carried out.
    async fn outcome(live: Option<LiveNode>, step: Step, facts: Facts) -> (StepResult, Vec<String>) {
        let carried = if live.is_some() { vec![("n1", "kwok://n1")] } else { Vec::new() };
        outcome_among(Fake { live, carried, ..Fake::default() }, step, facts).await
    }

    async fn outcome_among(fake: Fake, step: Step, facts: Facts) -> (StepResult, Vec<String>) {
        let fake = Arc::new(fake);
        let mut outcomes =
            Executor::new(fake.clone(), fake.clone(), Host::machine()).run(&step, &facts).await;
        let done = fake.done.lock().expect("no panic inside").clone();
        (outcomes.remove(0).result, done)
    }

    #[tokio::test]
    async fn a_pod_that_came_since_the_plan_keeps_its_node() {
        let (result, done) = outcome(marked(vec![running(PodClass::default())]), delete(), facts()).await;
        let pod = ObjectKey::new("default", "web-1");
        assert_eq!((result, done), (StepResult::NotEmpty { node: "n1".into(), pod }, vec![]));
    }

    #[tokio::test]
    async fn protection_that_the_watch_has_not_shown_stops_evictions_and_the_deletion() {
        let daemon = PodClass { daemon_set: true, ..PodClass::default() };
        let pod = Pod { protected_until: Some(PROTECTED_FOREVER), ..running(daemon) };
        let eviction = Eviction { pod: pod.key.clone(), uid: "u".into(), grace: Seconds(30), budget: None };
        let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
        let evict = Step::Evict { pool, intent, node, pods: vec![eviction], taken: false };
        let kept = |pod| StepResult::Protected { node: "n1".into(), pod };
        for step in [evict.clone(), delete()] {
            let (result, done) = outcome(marked(vec![pod.clone()]), step.clone(), facts()).await;
            assert_eq!((result, done), (kept(Some(pod.key.clone())), vec![]));
            let node = marked(vec![]).map(|live| LiveNode { protected: true, ..live });
            let (result, done) = outcome(node, step, facts()).await;
            assert_eq!((result, done), (kept(None), vec![]));
        }
        let over = Pod { protected_until: Some(NOW), ..pod };
        let (result, _) = outcome(marked(vec![over]), delete(), facts()).await;
        assert_eq!(result, StepResult::Deleted);
    }

    #[tokio::test]
    async fn protected_pods_of_a_node_that_the_cloud_takes_stay_and_the_others_go() {
        let eviction =
            |pod: &Pod| Eviction { pod: pod.key.clone(), uid: "u".into(), grace: Seconds(30), budget: None };
        let other = Pod { key: ObjectKey::new("default", "web-2"), ..running(PodClass::default()) };
        let protected = Pod { protected_until: Some(PROTECTED_FOREVER), ..running(PodClass::default()) };
        let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
        let pods = vec![eviction(&protected), eviction(&other)];
        let step = Step::Evict { pool, intent, node, pods, taken: true };
        let live = marked(vec![protected, other.clone()]);
        let (result, done) = outcome(live.clone(), step.clone(), facts()).await;
        let accepted = vec![(other.key, "u".into())];
        assert_eq!(result, StepResult::Evicted { node: "n1".into(), refused: vec![], accepted });
        assert_eq!(done, vec!["evict".to_owned()]);
        let node = live.map(|live| LiveNode { protected: true, ..live });
        let (result, done) = outcome(node, step, facts()).await;
        assert!(matches!(result, StepResult::Protected { .. }) && done.is_empty(), "{result:?}");
    }

    #[tokio::test]
    async fn pods_of_daemon_sets_and_expendable_pods_do_not_keep_a_node() {
        let daemon = running(PodClass { daemon_set: true, ..PodClass::default() });
        let expendable = running(PodClass { priority: -11, ..PodClass::default() });
        let (result, done) = outcome(marked(vec![daemon, expendable]), delete(), facts()).await;
        assert_eq!((result, done), (StepResult::Deleted, vec!["list".to_owned(), "delete".to_owned()]));
    }

    #[tokio::test]
    async fn a_pod_that_should_long_be_gone_does_not_keep_a_node() {
        let class = PodClass { termination_grace: Seconds(30), ..PodClass::default() };
        let stuck = Pod { deletion_at: Some(UnixTime(NOW.0 - 100)), ..running(class) };
        let (result, _) = outcome(marked(vec![stuck]), delete(), facts()).await;
        assert_eq!(result, StepResult::Deleted);
    }

    #[tokio::test]
    async fn an_instance_that_became_a_node_unseen_by_the_watch_is_not_deleted() {
        let victims = ["kwok://n1", "kwok://n2", "kwok://n3"];
        let victims = victims.map(|id| Victim { node: "".into(), id: id.into() }).to_vec();
        let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
        let step = Step::Delete { pool, intent, group, victims, force: false };
        let carried = ["n1", "n2", "n3"].into_iter().zip(["kwok://n1", "kwok://n2", "kwok://n3"]).collect();
        let fake = Fake { live: marked(vec![]), carried, ..Fake::default() };
        let (result, done) = outcome_among(fake, step.clone(), facts()).await;
        assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
        assert_eq!(done, ["list"], "one look at all nodes, however many instances");
        let (result, done) = outcome(None, step, facts()).await;
        assert_eq!((result, done.len()), (StepResult::Deleted, 1 + 3));
    }

    #[tokio::test]
    async fn victims_that_may_go_are_deleted_by_one_call_where_the_cloud_wants_it() {
        let facts = || {
            let mut facts = facts();
            let settings = ProviderSettings::ClusterApi(headroom_provider::cluster_api::Settings::default());
            facts.pool.as_mut().expect("there is one").settings = settings;
            facts
        };
        let victims = ["kwok://n1", "kwok://n2"].map(|id| Victim { node: "".into(), id: id.into() }).to_vec();
        let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
        let step = Step::Delete { pool, intent, group, victims, force: false };
        let (result, done) = outcome(None, step.clone(), facts()).await;
        assert_eq!(result, StepResult::Deleted);
        assert_eq!(done, ["list", "delete kwok://n1,kwok://n2 of 1-7 in a"]);
        // One of them has become a node: the other one goes alone.
        let fake = Fake { carried: vec![("n1", "kwok://n1")], ..Fake::default() };
        let (result, done) = outcome_among(fake, step, facts()).await;
        assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
        assert_eq!(done, ["list", "delete kwok://n2 of 1-7 in a"]);
    }

    /// Returns the result of the deletion of node n1, instance kwok://n1, among these nodes.
    async fn deleted_among(
        live: Option<LiveNode>,
        carried: &[(&'static str, &'static str)],
        facts: Facts,
    ) -> (StepResult, bool) {
        let fake = Fake { live, carried: carried.to_vec(), ..Fake::default() };
        let (result, done) = outcome_among(fake, delete(), facts).await;
        (result, done.iter().any(|what| what == "delete"))
    }

    #[tokio::test]
    async fn a_node_that_is_another_instance_than_the_victim_is_not_deleted() {
        let other = marked(vec![]).map(|live| LiveNode { provider_id: "kwok://n2".to_owned(), ..live });
        let (result, deleted) = deleted_among(other, &[("n1", "kwok://n2")], facts()).await;
        assert!(matches!(result, StepResult::MarkFailed { .. }) && !deleted, "{result:?}");
    }

    #[tokio::test]
    async fn a_twin_that_came_after_the_plan_keeps_the_machine_of_both() {
        let both = [("n1", "kwok://n1"), ("twin", "kwok://n1")];
        let (result, deleted) = deleted_among(marked(vec![]), &both, facts()).await;
        assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
        // The watch may know of one that a server that has fallen behind does not show.
        let others = [("kwok://n1".into(), "twin".into())].into();
        let known = Facts { others, ..facts() };
        let (result, deleted) = deleted_among(marked(vec![]), &both[..1], known).await;
        assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
    }

    #[tokio::test]
    async fn a_machine_is_not_deleted_under_the_name_of_a_node_that_is_not_there() {
        let (result, deleted) = deleted_among(None, &[("another", "kwok://n1")], facts()).await;
        assert!(matches!(result, StepResult::Refused { .. }) && !deleted, "{result:?}");
        let (result, deleted) = deleted_among(None, &[("another", "kwok://n2")], facts()).await;
        assert!(result == StepResult::Deleted && deleted, "a deletion that has begun is finished");
    }

    #[tokio::test]
    async fn a_node_that_is_ready_again_does_not_go_under_its_pods() {
        let force = |step| match step {
            Step::Delete { pool, intent, group, victims, .. } => {
                Step::Delete { pool, intent, group, victims, force: true }
            }
            other => other,
        };
        let occupied = || marked(vec![running(PodClass::default())]);
        let (result, done) = outcome(occupied(), force(delete()), facts()).await;
        assert!(matches!(result, StepResult::NotEmpty { .. }) && done.is_empty(), "{result:?}");
        let dead = occupied().map(|live| LiveNode { ready: false, ..live });
        let (result, _) = outcome(dead, force(delete()), facts()).await;
        assert_eq!(result, StepResult::Deleted);
    }

    #[tokio::test]
    async fn a_node_without_this_intents_mark_is_not_touched() {
        let foreign = marked(vec![]).map(|live| LiveNode { intent: Some("1-6".to_owned()), ..live });
        let (result, done) = outcome(foreign, delete(), facts()).await;
        assert!(matches!(result, StepResult::MarkFailed { .. }), "{result:?}");
        assert!(done.is_empty());
    }

    #[tokio::test]
    async fn an_increase_beyond_the_live_maximum_is_refused() {
        let (result, done) = outcome(None, increase(6), facts()).await;
        assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
        assert!(done.is_empty());
        let (result, _) = outcome(None, increase(5), facts()).await;
        assert_eq!(result, StepResult::Increased);
    }

    #[tokio::test]
    async fn a_pool_that_may_no_longer_act_does_nothing() {
        for step in [delete(), increase(4)] {
            let (result, done) = outcome(marked(vec![]), step, Facts { acts: false, ..facts() }).await;
            assert!(matches!(result, StepResult::Refused { .. }), "{result:?}");
            assert!(done.is_empty());
        }
    }

    /// Returns how many of thirty pods of a node are evicted when each eviction takes a second.
    async fn evicted_of_thirty(budget: Option<ObjectKey>) -> usize {
        let eviction = |number: i32| Eviction {
            pod: ObjectKey::new("default", format!("web-{number}")),
            uid: "u".into(),
            grace: Seconds(30),
            budget: budget.clone(),
        };
        let (pool, intent, node) = ("general".into(), "1-7".into(), "n1".into());
        let step = Step::Evict { pool, intent, node, pods: (0..30).map(eviction).collect(), taken: false };
        let fake =
            Arc::new(Fake { live: marked(Vec::new()), eviction: Duration::from_secs(1), ..Fake::default() });
        let outcomes = Executor::new(fake.clone(), fake.clone(), Host::machine()).run(&step, &facts()).await;
        let StepResult::Evicted { refused, accepted, .. } = &outcomes[0].result else {
            panic!("{:?}", outcomes[0].result);
        };
        assert!(refused.is_empty());
        let done = fake.done.lock().expect("no panic inside");
        assert_eq!(accepted.len(), done.len());
        done.iter().filter(|what| *what == "evict").count()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_one_budget_are_evicted_a_few_at_a_time_and_not_long_after_the_look() {
        let budget = Some(ObjectKey::new("default", "web"));
        assert_eq!((evicted_of_thirty(budget).await, evicted_of_thirty(None).await), (24, 30));
    }

    #[tokio::test]
    async fn soft_taints_are_written_one_by_one_and_only_a_refusal_is_reported() {
        let fake = Arc::new(Fake::default());
        let executor = Executor::new(fake.clone(), fake.clone(), Host::machine());
        let taints = |on: &[&str], off: &[&str]| {
            let names = |nodes: &[&str]| nodes.iter().map(|node| Arc::from(*node)).collect();
            CandidateTaints { on: names(on), off: names(off) }
        };
        assert_eq!(executor.taint_candidates(&taints(&["changed", "a"], &["b"])).await, None);
        let done = fake.done.lock().expect("no panic inside").clone();
        let wanted = ["changed is a candidate: true", "a is a candidate: true", "b is a candidate: false"];
        assert_eq!(done, wanted);
        let refused = executor.taint_candidates(&taints(&["denied"], &["b"])).await;
        assert_eq!(refused, Some(ActionError::Refused("denied".to_owned())));
    }

    /// Lists of nodes that are read for two deletions with this pause between them.
    async fn lists(nodes: usize, victim: &'static str, pause: Duration) -> usize {
        let carried = vec![("n9", "kwok://n9"); nodes];
        let fake = Arc::new(Fake { live: marked(vec![]), carried, ..Fake::default() });
        let executor = Executor::new(fake.clone(), fake.clone(), Host::machine());
        let victims = vec![Victim { node: victim.into(), id: "kwok://n1".into() }];
        let (pool, intent, group) = ("general".into(), "1-7".into(), "a".into());
        let step = Step::Delete { pool, intent, group, victims, force: false };
        executor.run(&step, &facts()).await;
        tokio::time::sleep(pause).await;
        executor.run(&step, &facts()).await;
        let done = fake.done.lock().expect("no panic inside");
        assert_eq!(done.iter().filter(|what| *what == "delete").count(), 2, "{done:?}");
        done.iter().filter(|what| *what == "list").count()
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_of_nodes_that_were_looked_at_share_a_list_for_longer_in_a_large_cluster() {
        let pause = Duration::from_secs(8);
        assert_eq!((lists(100, "n1", pause).await, lists(5000, "n1", pause).await), (2, 1));
        assert_eq!(lists(5000, "n1", Duration::from_secs(11)).await, 2, "but not for ever");
        assert_eq!(lists(5000, "", pause).await, 2, "an instance may have become a node in the meantime");
    }
}
