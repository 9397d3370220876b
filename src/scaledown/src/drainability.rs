//! True if a pod lets its node go: the drain rules in their order, each with its reason. It moves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::utilization::long_terminating;
use headroom_cluster::scheduling::node_affinity::selects;
use headroom_cluster::world::interner::InternedId;
use headroom_cluster::world::pod::{Owner, Pod, PodClass, PodPhase, SafeToEvict};
use headroom_cluster::world::workload::{ControllerKind, DisruptionBudget};
use headroom_cluster::world::{PodEntry, World};
use headroom_pools::config::Drain;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// The namespace whose pods are taken for part of the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Effect of a pod on the removal of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drainability {
    /// Must find another place.
    Move,
    /// Belongs to the node: evicted at most.
    DaemonSet,
    /// The node may count as unneeded, but waits until the pod has finished.
    OnCompletion,
    /// As if it was not there.
    Skip,
    /// Keeps its node.
    Block(Block),
}

/// Reason why a pod keeps its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The rule.
    pub reason: Reason,
    /// The PodDisruptionBudget in the way, as an index into [`Disruptions`].
    pub budget: Option<usize>,
}

/// The switches of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// kube-system pods without a PDB block. Upstream: skip-nodes-with-system-pods, true.
    pub system_pods_block: bool,
    /// … until they are older than this. Upstream: blocking-system-pod-distruption-timeout, 1 h.
    pub system_pods_block_for: Seconds,
    /// Pods with local storage block. Upstream: skip-nodes-with-local-storage, true.
    pub local_storage_blocks: bool,
    /// Pods of controllers we do not know block. Upstream: skip-nodes-with-custom-controller-pods, true.
    pub custom_controllers_block: bool,
    /// Pods of ReplicaSets and ReplicationControllers with fewer replicas block. Upstream: min-replica-count, 0.
    pub min_replicas: u32,
}

impl Rules {
    /// The rules of a pool.
    #[must_use]
    pub fn of(drain: &Drain) -> Self {
        Self {
            system_pods_block: drain.skip_system_pods,
            system_pods_block_for: drain.system_pods_block_for,
            local_storage_blocks: drain.skip_local_storage,
            custom_controllers_block: drain.custom_controllers_block,
            min_replicas: drain.min_replicas,
        }
    }

    /// Returns the effect of `pod` on the removal of its node; budgets are read, not spent.
    ///
    /// Source: Cluster Autoscaler, simulator/drainability/rules/rules.go, Default.
    #[must_use]
    pub fn drainability(
        &self,
        entry: &PodEntry,
        world: &World,
        disruptions: &mut Disruptions<'_>,
        now: UnixTime,
    ) -> Drainability {
        let pod = &entry.pod;
        let class = &*pod.class;
        // Before all other rules, as in Karpenter: pods of DaemonSets and static pods keep their node too.
        if pod.is_protected(now) {
            return block(Reason::DoNotDisruptAnnotation);
        }
        if class.mirror || long_terminating(pod, now) {
            return Drainability::Skip;
        }
        // Differs from upstream, which never meets such pods: its decoder fails the whole list with them.
        if class.unreadable && !class.daemon_set {
            return block(Reason::UnreadablePod);
        }
        if world.devices().unreadable_claim_of(pod).is_some() {
            return block(Reason::ClaimNotReady);
        }
        if let Some(reason) = self.controller_in_the_way(entry, world, disruptions) {
            return block(reason);
        }
        if class.daemon_set {
            return Drainability::DaemonSet;
        }
        if class.safe_to_evict == SafeToEvict::Always || terminal(pod) {
            return Drainability::Move;
        }
        if class.safe_to_evict == SafeToEvict::OnCompletion {
            return Drainability::OnCompletion;
        }
        if !self.replicated(pod.owner.as_deref()) {
            return block(Reason::NotReplicated);
        }
        if self.system_pods_block
            && *class.namespace == *SYSTEM_NAMESPACE
            && disruptions.guarding(entry.class, class).is_empty()
        {
            if now.since(pod.created_at) <= self.system_pods_block_for {
                return block(Reason::UnmovableKubeSystemPod);
            }
            return Drainability::Move;
        }
        if class.safe_to_evict == SafeToEvict::Never {
            return block(Reason::NotSafeToEvictAnnotation);
        }
        if self.local_storage_blocks && keeps_local_data(class) {
            return block(Reason::LocalStorageRequested);
        }
        match disruptions.exhausted(entry.class, class) {
            Some(budget) => Drainability::Block(Block { reason: Reason::NotEnoughPdb, budget: Some(budget) }),
            None => Drainability::Move,
        }
    }

    /// The first rule: the controller does not exist, or has too few replicas.
    fn controller_in_the_way(
        &self,
        entry: &PodEntry,
        world: &World,
        disruptions: &mut Disruptions<'_>,
    ) -> Option<Reason> {
        let pod = &entry.pod;
        let owner = pod.owner.as_ref()?;
        if !self.custom_controllers_block {
            return None;
        }
        if pod.class.daemon_set {
            let key = ObjectKey::new(pod.key.namespace.clone(), &*owner.name);
            let missing = &*owner.kind == "DaemonSet" && world.daemon_set(&key).is_none();
            return missing.then_some(Reason::ControllerNotFound);
        }
        let kind = kind_of(owner)?;
        let Some(desired) = disruptions.desired(entry, owner, kind, world) else {
            return Some(Reason::ControllerNotFound);
        };
        let counted = matches!(kind, ControllerKind::ReplicaSet | ControllerKind::ReplicationController);
        (counted && desired < self.min_replicas).then_some(Reason::MinReplicasReached)
    }

    fn replicated(&self, owner: Option<&Owner>) -> bool {
        owner.is_some_and(|owner| {
            !self.custom_controllers_block || kind_of(owner).is_some() || &*owner.kind == "DaemonSet"
        })
    }
}

fn block(reason: Reason) -> Drainability {
    Drainability::Block(Block { reason, budget: None })
}

/// True if the pod has ended and will not be started again.
fn terminal(pod: &Pod) -> bool {
    match pod.phase {
        PodPhase::Failed => true,
        PodPhase::Succeeded => !pod.class.restarts_always,
        PodPhase::Pending | PodPhase::Running => false,
    }
}

/// True if a volume's data would be lost and is not declared safe to lose. The list is not trimmed, as upstream.
fn keeps_local_data(class: &PodClass) -> bool {
    let safe = |volume: &str| {
        class.safe_local_volumes.as_deref().is_some_and(|list| list.split(',').any(|name| name == volume))
    };
    class.local_volumes.iter().any(|volume| !safe(volume))
}

fn kind_of(owner: &Owner) -> Option<ControllerKind> {
    match &*owner.kind {
        "ReplicaSet" => Some(ControllerKind::ReplicaSet),
        "StatefulSet" => Some(ControllerKind::StatefulSet),
        "Job" => Some(ControllerKind::Job),
        "ReplicationController" => Some(ControllerKind::ReplicationController),
        _ => None,
    }
}

/// The disruptions that PodDisruptionBudgets still allow; what one candidate spends is gone for the next.
///
/// Budgets that guard each class of pods, and its controller, are found once and remembered: 150,000 pods are of few classes.
#[derive(Clone, Debug)]
pub struct Disruptions<'w> {
    budgets: Vec<(&'w DisruptionBudget, u32)>,
    queues: Vec<Queue>,
    by_namespace: BTreeMap<&'w str, Vec<usize>>,
    by_class: FxHashMap<InternedId, Arc<[usize]>>,
    /// The controller of the last pod of each class, with its replicas; none if there is no such controller.
    controllers: FxHashMap<InternedId, (Arc<Owner>, Option<u32>)>,
}

/// The pods on nodes that leave, as one budget sees them.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// Still to be evicted, those of candidates included.
    waiting: u32,
    /// Evicted, and stopping.
    stopping: u32,
}

impl<'w> Disruptions<'w> {
    /// All budgets of the world, with what their status allows.
    #[must_use]
    pub fn of(world: &'w World) -> Self {
        let budgets: Vec<_> = world.budgets().map(|budget| (budget, budget.disruptions_allowed)).collect();
        let mut by_namespace: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, (budget, _)) in budgets.iter().enumerate() {
            by_namespace.entry(&budget.key.namespace).or_default().push(index);
        }
        let queues = vec![Queue::default(); budgets.len()];
        Self {
            budgets,
            queues,
            by_namespace,
            by_class: FxHashMap::default(),
            controllers: FxHashMap::default(),
        }
    }

    /// The replicas that the controller of a pod wants; `None` if there is no such controller.
    fn desired(
        &mut self,
        entry: &PodEntry,
        owner: &Arc<Owner>,
        kind: ControllerKind,
        world: &World,
    ) -> Option<u32> {
        // All pods of a class are of one namespace, and nearly always of one controller.
        if let Some((known, desired)) = self.controllers.get(&entry.class)
            && known == owner
        {
            return *desired;
        }
        let key = ObjectKey::new(entry.pod.key.namespace.clone(), &*owner.name);
        let desired = world.controller(kind, &key).map(|controller| controller.desired);
        self.controllers.insert(entry.class, (owner.clone(), desired));
        desired
    }

    /// The budgets that guard pods of this class.
    pub fn guarding(&mut self, id: InternedId, class: &PodClass) -> Arc<[usize]> {
        if let Some(found) = self.by_class.get(&id) {
            return found.clone();
        }
        let candidates = self.by_namespace.get(&*class.namespace).map_or(&[][..], Vec::as_slice);
        let guards = |index: &usize| selects(&self.budgets[*index].0.selector, &class.labels);
        let found: Arc<[usize]> = candidates.iter().copied().filter(guards).collect();
        self.by_class.insert(id, found.clone());
        found
    }

    /// The first of several budgets that guard a running pod: the API server evicts no pod that more than one guards.
    pub fn several(&mut self, entry: &PodEntry) -> Option<usize> {
        let guards = self.guarding(entry.class, &entry.pod.class);
        (entry.pod.phase == PodPhase::Running && 1 < guards.len()).then(|| guards[0])
    }

    /// The first budget of this class that allows no eviction.
    pub fn exhausted(&mut self, id: InternedId, class: &PodClass) -> Option<usize> {
        self.guarding(id, class).iter().copied().find(|index| self.budgets[*index].1 == 0)
    }

    /// True if this budget has room for one eviction when one pod more is healthy.
    #[must_use]
    pub fn is_one_short(&self, index: usize) -> bool {
        self.budgets[index].0.one_short
    }

    /// True if all these pods may be evicted at once: no budget guards more of them than it allows.
    pub fn allow_all<'p>(&mut self, pods: impl Iterator<Item = (InternedId, &'p PodClass)>) -> bool {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for (id, class) in pods {
            for index in &*self.guarding(id, class) {
                *counts.entry(*index).or_insert(0) += 1;
            }
        }
        counts.iter().all(|(index, count)| *count <= self.budgets[*index].1)
    }

    /// The first budget of this class that allows no eviction now and is not in use by removals under way, or for whose
    /// room more pods wait already than `rounds` of evictions take.
    pub fn crowded(&mut self, id: InternedId, class: &PodClass, rounds: u32) -> Option<usize> {
        self.guarding(id, class).iter().copied().find(|index| {
            let Queue { waiting, stopping } = self.queues[*index];
            let at_once = self.budgets[*index].0.disruptions_allowed.saturating_add(stopping);
            at_once.saturating_mul(rounds) <= waiting
        })
    }

    /// Counts one eviction of a pod of this class; budgets do not go below zero.
    pub fn spend(&mut self, id: InternedId, class: &PodClass) {
        for index in &*self.guarding(id, class) {
            let left = &mut self.budgets[*index].1;
            *left = left.saturating_sub(1);
            self.queues[*index].waiting += 1;
        }
    }

    /// Counts one pod of this class that was evicted and is stopping: the budgets' status counts it already.
    pub fn note_stopping(&mut self, id: InternedId, class: &PodClass) {
        for index in &*self.guarding(id, class) {
            self.queues[*index].stopping += 1;
        }
    }

    /// The name of a budget.
    #[must_use]
    pub fn key(&self, index: usize) -> &'w ObjectKey {
        &self.budgets[index].0.key
    }
}
