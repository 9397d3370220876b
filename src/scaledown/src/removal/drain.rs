//! Draining: the pods of a marked node that are evicted now, those that are waited for, and the failure of the drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::drainability::{Block, Disruptions, Drainability, Rules};
use crate::eviction_cooldown;
use crate::gangs::waits_for_gangs;
use crate::removal::phases::One;
use crate::removal::{EVICTIONS_MAX, GONE_EXTRA, RETRY, RETRY_SOON, Scene};
use crate::utilization::long_terminating;
use headroom_cluster::history::{DecisionOutcome, Intent, Removal, RemovalPhase, Victim};
use headroom_cluster::world::pod::Pod;
use headroom_cluster::world::{NodeId, PodEntry, PodId, World};
use headroom_pools::config::Pool;
use headroom_pools::plan::{Eviction, Step};
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Pods of this priority or more keep the cluster running and are evicted after all others have gone.
/// Kubernetes: the class system-cluster-critical.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// True if a node must not be deleted while this pod is on it: it is protected from disruption, or it runs, or is still
/// being stopped, and is neither a mirror nor a DaemonSet's. The rule for the live look just before a deletion.
#[must_use]
pub fn holds_node(pod: &Pod, now: UnixTime) -> bool {
    pod.is_protected(now)
        || !pod.phase.finished() && !pod.class.mirror && !pod.class.daemon_set && !long_terminating(pod, now)
}

/// Pods on a node that is being drained.
#[derive(Default)]
struct Load<'w> {
    /// Must still be evicted.
    waiting: Vec<&'w PodEntry>,
    /// Evicted, and stopping.
    leaving: Vec<&'w PodEntry>,
    /// Of DaemonSets, to be evicted if they go easily.
    daemon: Vec<&'w PodEntry>,
    /// Will not go: the first pod, and why.
    blocked: Option<(&'w PodEntry, Reason)>,
}

/// Progress of the drain of one node.
enum Progress<'w> {
    /// Nothing movable is left.
    Empty,
    /// The pods that were evicted are stopping.
    Stopping,
    /// Nothing more is evicted, and the node waits for the cloud to take it: a pod on it may not be evicted, or the pool
    /// would have less than its minimum.
    Kept,
    /// These pods are to be evicted now.
    Evicting(Vec<&'w PodEntry>),
    /// It will not go: the reason, the message, and the outcome of the decision.
    Failed(Reason, String, DecisionOutcome),
}

impl One<'_, '_> {
    /// Begins to drain the victims.
    pub(super) fn begin_drain(&mut self) {
        self.enter(RemovalPhase::Draining);
        self.intent.deadline = self.scene.now.plus(self.pool.scale_down.drain.eviction_timeout);
        self.drain_on(true);
    }

    /// Draining: the next round of evictions, the deletion, or the end of patience.
    pub(super) fn drain(&mut self) {
        self.release_spared();
        if self.is_undone() {
            return self.take_off();
        }
        let unmarked = self.unmarked();
        if unmarked.is_empty() {
            self.drain_on(false);
        } else {
            self.put_mark(unmarked);
        }
    }

    /// One round for all victims: those that will not go are let go of, and when nothing is left on the others they
    /// are deleted together.
    fn drain_on(&mut self, first: bool) {
        let now = self.scene.now;
        if self.is_taken() && self.intent.deadline <= now {
            self.intent.deadline = now.plus(self.pool.scale_down.drain.eviction_timeout);
        }
        let victims = self.removal().victims.clone();
        let mut due: Vec<(Arc<str>, Vec<&PodEntry>)> = Vec::new();
        let mut gone_by = Vec::new();
        for victim in &victims {
            if self.is_undone() {
                break;
            }
            let Some((node, _, _)) = self.node(victim) else { continue };
            let mut load = load(self.scene, self.pool, node, self.intent);
            self.give_up_expendable(&mut load);
            match self.progress(victim, &load) {
                Progress::Failed(reason, words, outcome) => self.spare(&victim.node, reason, &words, outcome),
                Progress::Empty => {}
                Progress::Kept => gone_by.push(now.plus(RETRY)),
                Progress::Stopping => gone_by.push(self.await_gone(&load)),
                Progress::Evicting(mut pods) => {
                    if self.intent.deadline <= now {
                        let (reason, words) = self.refusal(&pods, victim);
                        let outcome = self.outcome_of_waiting(&pods);
                        self.spare(&victim.node, reason, &words, outcome);
                        continue;
                    }
                    pods.sort_by(|a, b| {
                        (a.pod.class.priority, &a.pod.key).cmp(&(b.pod.class.priority, &b.pod.key))
                    });
                    if first {
                        pods.extend(&load.daemon);
                    }
                    due.push((victim.node.clone(), pods));
                }
            }
        }
        if self.is_undone() {
            // The only victim was given up, or one of those that go together.
            return;
        }
        if let Some(at) = gone_by.into_iter().min() {
            self.advance.wake(at);
        } else if due.is_empty() {
            return self.begin_delete();
        }
        self.evict_due(first, &due);
    }

    /// Waits no longer for expendable pods that cannot be evicted in time, or do not stop: they keep no node.
    ///
    /// Source: core/static_autoscaler.go, initializeClusterSnapshot: the reference never looks at such pods.
    fn give_up_expendable(&self, load: &mut Load<'_>) {
        let (now, cutoff) = (self.scene.now, self.scene.config.cluster.expendable_pods_priority_cutoff);
        let expendable = |entry: &PodEntry| entry.pod.class.priority < cutoff;
        let refused = self.intent.deadline <= now;
        load.waiting.retain(|entry| !(refused && expendable(entry)));
        load.leaving.retain(|entry| !(expendable(entry) && self.overdue_at(entry) <= now));
    }

    /// The next round of evictions, if it is time for one.
    fn evict_due(&mut self, first: bool, due: &[(Arc<str>, Vec<&PodEntry>)]) {
        if due.is_empty() {
            return;
        }
        let (now, since) = (self.scene.now, self.removal().phase_since);
        self.advance.wake(self.intent.deadline);
        if !first && now < since.plus(RETRY_SOON) {
            return self.advance.wake(since.plus(RETRY_SOON));
        }
        // Pods that budgets allow are evicted as soon as they do, and no more are asked for than those. Now and then
        // one pod of each budget is, whatever its status says: it may be old, and the API server knows.
        let all = since.plus(RETRY) <= now;
        let mut sent = false;
        for (node, pods) in due {
            let (allowed, refused): (Vec<&PodEntry>, Vec<&PodEntry>) =
                pods.iter().copied().partition(|entry| self.allowed(entry));
            let mut pods = allowed;
            if all {
                pods.extend(refused.into_iter().filter(|entry| self.may_ask(entry)));
            }
            sent |= !pods.is_empty();
            self.evict(node, &pods);
        }
        if sent || first {
            self.removal_mut().phase_since = now;
            self.advance.wake(now.plus(RETRY));
        } else {
            self.advance.wake(since.plus(RETRY));
        }
    }

    /// True if its budgets allow one more eviction; it is taken from them if so.
    fn allowed(&mut self, entry: &PodEntry) -> bool {
        let allowed = self.disruptions.exhausted(entry.class, &entry.pod.class).is_none();
        if allowed {
            self.disruptions.spend(entry.class, &entry.pod.class);
        }
        allowed
    }

    /// True if this is the first pod of its budget in this plan for which the API server is asked all the same.
    fn may_ask(&mut self, entry: &PodEntry) -> bool {
        let budget = self.disruptions.exhausted(entry.class, &entry.pod.class);
        budget.is_none_or(|budget| self.advance.asked.insert(budget))
    }

    /// Returns the progress of the drain of one victim.
    fn progress<'w>(&self, victim: &Victim, load: &Load<'w>) -> Progress<'w> {
        let taken = self.is_taken();
        if let Some((entry, reason)) = load.blocked
            && !taken
        {
            let words = format!("pod {} on node {} may not be evicted any more", entry.pod.key, victim.node);
            return Progress::Failed(reason, words, DecisionOutcome::Cancelled);
        }
        if waits_for_gangs(self.intent.reason, &victim.node, self.pool, self.scene)
            && let Some(entry) = self.breaks_gang(load)
        {
            let words = format!("the gang of pod {} on node {} needs it", entry.pod.key, victim.node);
            return Progress::Failed(Reason::GangWouldBreak, words, DecisionOutcome::Cancelled);
        }
        if load.waiting.is_empty() && load.leaving.is_empty() {
            let kept = taken && (load.blocked.is_some() || !self.keeps_minimum());
            return if kept { Progress::Kept } else { Progress::Empty };
        }
        let unready = self.intent.reason == Reason::Unready;
        if let Some(stuck) = load.leaving.iter().find(|entry| self.overdue_at(entry) <= self.scene.now) {
            if unready && load.waiting.is_empty() {
                // Its kubelet is gone, so nobody will ever report these pods as stopped.
                return Progress::Empty;
            }
            if !unready && !taken {
                let longest = self.pool.scale_down.drain.max_grace_period;
                let words = format!(
                    "pod {} on node {} did not stop within {longest} and {GONE_EXTRA}",
                    stuck.pod.key, victim.node
                );
                return Progress::Failed(Reason::DrainTimeout, words, DecisionOutcome::Failed);
            }
        }
        let band =
            load.waiting.iter().chain(&load.leaving).map(|entry| critical(entry)).min().unwrap_or(false);
        let due: Vec<&PodEntry> =
            load.waiting.iter().copied().filter(|entry| critical(entry) == band).collect();
        if due.is_empty() { Progress::Stopping } else { Progress::Evicting(due) }
    }

    /// The first pod still to be evicted whose gang cannot do without all that leave.
    fn breaks_gang<'w>(&self, load: &Load<'w>) -> Option<&'w PodEntry> {
        let world = self.scene.world;
        let id = |entry: &&PodEntry| world.pod_id(&entry.pod.key);
        let waiting: Vec<PodId> = load.waiting.iter().filter_map(id).collect();
        let broken = self.gangs.broken(world, &waiting, self.intent.started_at)?;
        load.waiting.iter().copied().find(|entry| id(entry) == Some(broken))
    }

    /// Time at which a stopping pod has been waited for long enough: the longest grace of the pool after its eviction, and a
    /// little more, whatever its own grace is. To give up earlier frees nothing, since the pod is lost by then. On an
    /// unready node only its own grace is waited for.
    ///
    /// Source: core/scaledown/actuation/drain.go, drainNodeWithPodsBasedOnPodPriority.
    fn overdue_at(&self, entry: &PodEntry) -> UnixTime {
        let longest = self.pool.scale_down.drain.max_grace_period;
        let since = match self.intent.reason {
            Reason::Unready => entry.pod.deletion_at.unwrap_or_default(),
            _ => evicted_at(&entry.pod, longest).plus(longest),
        };
        since.plus(GONE_EXTRA)
    }

    /// All of the present band are stopping: the deadline follows their grace. Returns the time of the next check.
    fn await_gone(&mut self, load: &Load<'_>) -> UnixTime {
        let now = self.scene.now;
        let last = load.leaving.iter().map(|entry| self.overdue_at(entry)).max().unwrap_or(now);
        let patience =
            if load.waiting.is_empty() { Seconds(0) } else { self.pool.scale_down.drain.eviction_timeout };
        self.intent.deadline = self.intent.deadline.max(last.plus(patience));
        let first = load.leaving.iter().map(|entry| self.overdue_at(entry)).min().unwrap_or(now);
        first.max(now.plus(Seconds(1)))
    }

    fn evict(&mut self, node: &Arc<str>, due: &[&PodEntry]) {
        let longest = eviction_cooldown::longest(self.scene.config);
        due.iter()
            .for_each(|entry| eviction_cooldown::note(self.memory, &entry.pod, longest, self.scene.now));
        let grace_max = self.pool.scale_down.drain.max_grace_period;
        let mut eviction = |entry: &&PodEntry| {
            let budgets = self.disruptions.guarding(entry.class, &entry.pod.class);
            Eviction {
                pod: entry.pod.key.clone(),
                uid: entry.pod.uid.clone(),
                grace: entry.pod.class.termination_grace.min(grace_max),
                budget: budgets.first().map(|budget| self.disruptions.key(*budget).clone()),
            }
        };
        for pods in due.chunks(EVICTIONS_MAX) {
            self.advance.steps.push(Step::Evict {
                pool: self.pool.name.clone(),
                intent: self.intent.id.clone(),
                node: node.clone(),
                pods: pods.iter().map(&mut eviction).collect(),
                taken: self.intent.reason == Reason::Interrupted,
            });
        }
    }

    /// Gives a victim up: the removal as a whole when it is the only one, else the others go on without it.
    fn spare(&mut self, node: &str, reason: Reason, words: &str, outcome: DecisionOutcome) {
        if self.removal().victims.len() == 1 {
            self.undo(reason, words, outcome);
            self.take_off();
        } else {
            self.let_go(node, reason, words, outcome);
            if self.is_undone() {
                self.take_off();
            }
        }
    }

    /// Returns the outcome of the wait for evictions: no failure if older removals wait for the same budgets, since its
    /// turn has not come.
    fn outcome_of_waiting(&mut self, due: &[&PodEntry]) -> DecisionOutcome {
        let budgets: BTreeSet<usize> = due
            .iter()
            .filter_map(|entry| self.disruptions.exhausted(entry.class, &entry.pod.class))
            .collect();
        // Intents are taken from memory in order, and those before this one are back in it.
        let waited =
            |removal: &Removal| matches!(removal.phase, RemovalPhase::Draining | RemovalPhase::Undoing);
        let older = self.memory.removals().filter(|(_, older)| waited(older));
        let nodes = older.flat_map(|(_, older)| &older.victims);
        let nodes: Vec<NodeId> = nodes.filter_map(|victim| Some(self.node(victim)?.0)).collect();
        let world = self.scene.world;
        let waits = |id: &PodId| {
            let entry = world.pod(*id);
            let guards = self.disruptions.guarding(entry.class, &entry.pod.class);
            guards.iter().any(|budget| budgets.contains(budget))
        };
        if nodes.iter().flat_map(|node| &world.node(*node).pods).any(waits) {
            DecisionOutcome::Cancelled
        } else {
            DecisionOutcome::Failed
        }
    }

    /// Reason why evictions were refused for so long, with the first pod and the budget that guards it.
    fn refusal(&self, due: &[&PodEntry], victim: &Victim) -> (Reason, String) {
        let mut disruptions = Disruptions::of(self.scene.world);
        let mut exhausted = BTreeMap::new();
        for entry in due {
            if let Some(budget) = disruptions.exhausted(entry.class, &entry.pod.class) {
                exhausted.insert(&entry.pod.key, budget);
            }
        }
        if let Some((pod, budget)) = exhausted.first_key_value() {
            let budget = disruptions.key(*budget);
            let words = format!(
                "PodDisruptionBudget {budget} allows no eviction of pod {pod} on node {}",
                victim.node
            );
            return (Reason::NotEnoughPdb, words);
        }
        let pod = due.iter().map(|entry| entry.pod.key.to_string()).min().unwrap_or_default();
        let decision = self.memory.decisions.iter().find(|decision| decision.id == self.intent.id);
        let cause = decision.map_or("", |decision| &decision.message);
        (
            Reason::DrainTimeout,
            format!("pod {pod} on node {} could not be evicted in time: {cause}", victim.node),
        )
    }
}

/// Sorts the unfinished pods of the node by what is to be done with them.
fn load<'w>(scene: &Scene<'w>, pool: &Pool, node: NodeId, intent: &Intent) -> Load<'w> {
    let world: &'w World = scene.world;
    let mut load = Load::default();
    let rules = Rules::of(&pool.scale_down.drain);
    let mut disruptions = Disruptions::of(world);
    for entry in world.node(node).pods.iter().map(|id| world.pod(*id)) {
        let pod = &entry.pod;
        let expendable = pod.class.priority < scene.config.cluster.expendable_pods_priority_cutoff;
        if pod.phase.finished() {
            continue;
        }
        match rules.drainability(entry, world, &mut disruptions, scene.now) {
            // Pods that this removal has evicted are waited for, however long ago their grace is over.
            Drainability::Skip if long_terminating(pod, scene.now) && !pod.class.mirror => {
                if !pod.class.daemon_set
                    && intent.started_at <= evicted_at(pod, pool.scale_down.drain.max_grace_period)
                {
                    load.leaving.push(entry);
                }
            }
            Drainability::Skip => {}
            Drainability::DaemonSet => {
                if pod.deletion_at.is_none() && pod.class.daemon_set_eviction.unwrap_or(true) {
                    load.daemon.push(entry);
                }
            }
            _ if pod.deletion_at.is_some() => load.leaving.push(entry),
            // The API server evicts it never, and it keeps no node.
            Drainability::Move | Drainability::Block(Block { budget: Some(_), .. })
                if expendable && disruptions.several(entry).is_some() => {}
            Drainability::Move | Drainability::Block(Block { budget: Some(_), .. })
                if disruptions.several(entry).is_some() =>
            {
                load.blocked.get_or_insert((entry, Reason::NotEnoughPdb));
            }
            Drainability::Move => load.waiting.push(entry),
            // The API server decides at each eviction whether a budget allows it.
            Drainability::Block(block) if block.reason == Reason::NotEnoughPdb => load.waiting.push(entry),
            Drainability::Block(Block { reason: Reason::DoNotDisruptAnnotation, .. }) => {
                load.blocked.get_or_insert((entry, Reason::DoNotDisruptAnnotation));
            }
            _ if expendable => load.waiting.push(entry),
            // Data that they keep on a node that the cloud takes is lost anyway.
            Drainability::Block(Block {
                reason:
                    Reason::LocalStorageRequested | Reason::UnmovableKubeSystemPod | Reason::MinReplicasReached,
                ..
            }) if intent.reason == Reason::Interrupted => load.waiting.push(entry),
            Drainability::OnCompletion => {
                load.blocked.get_or_insert((entry, Reason::BlockedByOnCompletionPod));
            }
            Drainability::Block(block) => {
                load.blocked.get_or_insert((entry, block.reason));
            }
        }
    }
    load
}

/// Time at which a stopping pod was evicted: its deletion timestamp is the end of the grace that it was given.
fn evicted_at(pod: &Pod, longest: Seconds) -> UnixTime {
    let grace = pod.class.termination_grace.min(longest);
    UnixTime(pod.deletion_at.unwrap_or_default().0.saturating_sub(grace.0))
}

/// The two bands of evictions.
fn critical(entry: &PodEntry) -> bool {
    entry.pod.class.priority >= CRITICAL_PRIORITY
}
