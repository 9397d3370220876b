//! Workloads that get one replica more, so that a budget without room does not keep a node. It evicts nothing and scales
//! nothing: the drain waits until the budget has room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bundles;
use crate::candidates::Candidate;
use crate::decide::Pass;
use crate::drainability::Disruptions;
use crate::verdicts::Verdict;
use headroom_cluster::history::{History, PoolHistory, Surge};
use headroom_cluster::world::surge::SurgeWorkload;
use headroom_cluster::world::workload::ControllerKind;
use headroom_cluster::world::{PodId, World};
use headroom_pools::config::Config;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;

/// Most workloads that get one replica more for one node: an intent names those of up to eight nodes, and status is bounded.
const SURGES_MAX: usize = 4;

/// A workload that gets one replica more for the drain of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surging {
    /// Its ScalingPolicy.
    pub policy: ObjectKey,
    /// Its pods on the node whose budget has no room; at least one.
    pub pods: Vec<PodId>,
    /// The budget, as an index into [`Disruptions`].
    pub budget: usize,
}

impl Candidate {
    /// True if one replica more makes room in the budget of this pod.
    #[must_use]
    pub fn gets_surge_for(&self, pod: PodId) -> bool {
        self.surges.iter().any(|surge| surge.pods.contains(&pod))
    }
}

/// Workloads that may have one replica more, and those that have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surges<'w> {
    /// By policy, steady ones only: the workload, and the unique id of its ReplicaSet.
    steady: BTreeMap<&'w ObjectKey, (&'w SurgeWorkload, Arc<str>)>,
    by_pod: BTreeMap<PodId, &'w ObjectKey>,
    /// Policies whose workloads have one replica more, or are about to: one at a time.
    taken: BTreeSet<ObjectKey>,
}

impl<'w> Surges<'w> {
    /// Those of the world, less those that open removals use.
    pub(crate) fn of(world: &'w World, history: &History) -> Self {
        let removals = history.pools.values().flat_map(PoolHistory::removals);
        let taken = removals.flat_map(|(_, removal)| &removal.surges).map(|surge| surge.policy.clone());
        let mut surges = Self { taken: taken.collect(), ..Self::default() };
        for workload in world.surge_workloads().unwrap_or_default() {
            let Some((owner, pods)) = steady(world, workload) else { continue };
            surges.steady.insert(&workload.policy, (workload, owner));
            surges.by_pod.extend(pods.into_iter().map(|pod| (pod, &workload.policy)));
        }
        surges
    }

    /// Lets a candidate go that only budgets keep, if each of them has room with one replica more of a steady workload.
    fn lift(&self, candidate: &mut Candidate, disruptions: &mut Disruptions<'_>, world: &World) {
        let mut found: BTreeMap<&ObjectKey, Surging> = BTreeMap::new();
        for pod in &candidate.guarded {
            let entry = world.pod(*pod);
            let (Some(policy), Some(budget)) =
                (self.by_pod.get(pod), disruptions.exhausted(entry.class, &entry.pod.class))
            else {
                return;
            };
            if !disruptions.is_one_short(budget) {
                return;
            }
            let new = || Surging { policy: (*policy).clone(), pods: Vec::new(), budget };
            found.entry(policy).or_insert_with(new).pods.push(*pod);
        }
        if SURGES_MAX < found.len() {
            return;
        }
        candidate.guarded_by = None;
        candidate.surges = found.into_values().collect();
    }

    /// Notes that the workloads of this candidate get one replica more.
    pub(crate) fn take(&mut self, candidate: &Candidate) {
        self.taken.extend(candidate.surges.iter().map(|surge| surge.policy.clone()));
    }

    /// What is journalled of the surges of these candidates.
    pub(crate) fn begun(&self, candidates: &[Candidate]) -> Vec<Surge> {
        let policies: BTreeSet<&ObjectKey> =
            candidates.iter().flat_map(|one| &one.surges).map(|surge| &surge.policy).collect();
        let journalled = |policy: &ObjectKey| {
            let (workload, owner) = self.steady.get(policy)?;
            Some(Surge {
                policy: policy.clone(),
                deployment: workload.deployment.clone(),
                owner: owner.clone(),
                from: workload.replicas,
            })
        };
        policies.into_iter().filter_map(journalled).collect()
    }
}

/// Returns the ReplicaSet of a steady workload by its unique id, and its pods; `None` if it is not steady, or the watches
/// show it otherwise.
fn steady(world: &World, workload: &SurgeWorkload) -> Option<(Arc<str>, Vec<PodId>)> {
    let namespace = &workload.policy.namespace;
    let pod = |name: &Arc<str>| world.pod_id(&ObjectKey::new(namespace.clone(), &**name));
    let pods: Vec<PodId> = workload.pods.iter().map(pod).collect::<Option<_>>()?;
    let owner = world.pod(*pods.first()?).pod.owner.clone()?;
    let same = |id: &PodId| {
        let pod = &world.pod(*id).pod;
        pod.deletion_at.is_none() && pod.owner.as_ref().is_some_and(|one| one.uid == owner.uid)
    };
    let set = world
        .controller(ControllerKind::ReplicaSet, &ObjectKey::new(namespace.clone(), &*owner.name))
        .filter(|set| set.uid == owner.uid)?;
    let whole = set.desired == workload.replicas && usize::try_from(set.desired) == Ok(pods.len());
    (whole && pods.iter().all(same)).then(|| (owner.uid.clone(), pods))
}

impl Pass<'_, '_> {
    /// Lets a candidate go that only budgets keep where one replica more helps, and compares it with the nodes that are
    /// being replaced: returns why it waits for that, if it does.
    pub(crate) fn consider_replacement(&mut self, candidate: &mut Candidate) -> Option<Reason> {
        if candidate.guarded_by.is_some() && may_surge(candidate, self.scene.config) {
            self.surges.lift(candidate, &mut self.disruptions, self.scene.world);
        }
        self.replacing.verdict(candidate)
    }

    /// The budget that keeps the candidate now: one without room, or one in which only a workload makes room that has one
    /// replica more already.
    pub(crate) fn budget_in_the_way(&self, candidate: &Candidate) -> Option<Verdict> {
        let taken = candidate.surges.iter().find(|surge| self.surges.taken.contains(&surge.policy));
        let budget = candidate.guarded_by.or(taken.map(|surge| surge.budget))?;
        Some(Verdict::pdb(self.disruptions.key(budget)))
    }

    /// The budget that keeps the candidate while there is no place for one replica more.
    pub(crate) fn budget_without_surge(&self, candidate: &Candidate) -> Option<Verdict> {
        candidate.surges.first().map(|surge| Verdict::pdb(self.disruptions.key(surge.budget)))
    }
}

/// True if one replica more is made for such a candidate: not where groups go as a whole, nor for nodes that are dead.
fn may_surge(candidate: &Candidate, config: &Config) -> bool {
    candidate.reason != Reason::Unready && !bundles::goes_whole(candidate, config)
}
