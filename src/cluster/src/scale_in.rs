//! Choice of the pods of a ReplicaSet to delete when its replicas are lowered, so that nodes become empty. Pure; it
//! writes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use crate::world::node::{DELETION_TAINT, Node, SCALE_DOWN_DISABLED_ANNOTATION, ZONE_LABEL};
use crate::world::pod::{Pod, SafeToEvict};
use crate::world::{NodeEntry, NodeId, PodEntry, PodId, World};
use headroom_values::deletion_cost::{COST_FIRST, COST_LAST, DeletionCost};
use headroom_values::labels::ObjectKey;
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// Most pods whose cost is written for one scale-in; those that free most are written first.
pub const WRITES_MAX: usize = 1000;

/// A workload whose replicas are about to be lowered.
#[derive(Clone, Debug, Default)]
pub struct ScaleIn {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its pods that are neither finished nor terminating.
    pub replicas: Vec<Replica>,
    /// Pods that are to stay.
    pub to: usize,
}

/// One of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Name.
    pub name: Arc<str>,
    /// True if it runs and is ready. The ReplicaSet controller deletes the others first, whatever they cost.
    pub ready: bool,
    /// Its deletion cost.
    pub cost: DeletionCost,
}

/// The pods that should go, and what makes the ReplicaSet controller delete them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The pods that go, those that are not ready left out.
    pub going: Vec<ObjectKey>,
    /// Costs to be written, at most [`WRITES_MAX`].
    pub writes: Vec<CostWrite>,
}

/// A change of one pod's deletion cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostWrite {
    /// Name of the pod.
    pub name: Arc<str>,
    /// The unique id that it must still have.
    pub uid: Arc<str>,
    /// The cost; `None` takes the operator's own off.
    pub cost: Option<i32>,
}

/// Reason why the ReplicaSet controller chooses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftAlone {
    /// Another controller ranks pods by rules of its own, and in a rollout the Deployment controller divides the replicas.
    #[error("its pods are not those of one ReplicaSet")]
    NotOneReplicaSet,
    /// Somebody else ranks its pods.
    #[error("a pod has a deletion cost that somebody else has set")]
    CostOfOthers,
    /// Emptying nodes works against the constraint.
    #[error("it has a required topology spread constraint over another key than the zone")]
    SpreadRequired,
}

/// Chooses the pods that go from workloads that shrink together, and the fewest writes of costs by which the ReplicaSet
/// controller chooses the same; one answer a workload.
///
/// Pods that earlier choices have sent away ([`World::send_away`]) count as gone. What the ReplicaSet controller ranks before
/// the cost goes first anyway: pods without a node, not running, not ready. Of the others those go
/// - evenly by zone, so that what stays is spread over the zones as before or better;
/// - in each zone first from nodes that leave or are cordoned; then from those that become empty without an eviction, as many
///   nodes as possible, large ones before small ones; then from the emptiest of the others; and from nodes that stay whatever
///   happens at last;
/// - never so that all that stay are on one node, unless they were or only one stays.
///
/// An answer is [`LeftAlone`] when nothing may be written.
///
/// Source of the ranking: Kubernetes, pkg/controller/controller_utils.go, ActivePodsWithRanks.
pub fn choose(world: &World, scale_ins: &[ScaleIn], now: UnixTime) -> Vec<Result<Choice, LeftAlone>> {
    let sets: Vec<_> = scale_ins.iter().map(|scale_in| Set::of(world, scale_in)).collect();
    let shrinking: Vec<&Set> = sets.iter().flatten().filter(|set| 0 < set.n_going).collect();
    let shares = shares(world, &shrinking, now);
    let mut picked = pick(&shares, &shrinking).into_iter();
    let mut choice = |set: &Set| {
        let chosen = if 0 < set.n_going { picked.next().unwrap_or_default() } else { Vec::new() };
        let going: BTreeSet<PodId> = chosen.iter().copied().collect();
        let key = |id: &PodId| world.pod(*id).pod.key.clone();
        let writes = if chosen.is_empty() { Vec::new() } else { writes(world, &set.ready, &chosen, &going) };
        Choice { going: chosen.iter().map(key).collect(), writes }
    };
    sets.iter().map(|set| set.as_ref().map(&mut choice).map_err(|left_alone| *left_alone)).collect()
}

/// The ReplicaSet of one workload.
#[derive(Debug)]
struct Set {
    uid: Arc<str>,
    /// The ready pods on nodes, with their costs.
    ready: Vec<(PodId, DeletionCost)>,
    /// Ready pods that go.
    n_going: usize,
}

impl Set {
    fn of(world: &World, scale_in: &ScaleIn) -> Result<Self, LeftAlone> {
        let mut ready = Vec::with_capacity(scale_in.replicas.len());
        let mut set: Option<&Arc<str>> = None;
        for replica in &scale_in.replicas {
            let key = ObjectKey::new(scale_in.namespace.clone(), &*replica.name);
            // One that has gone in the meantime is nobody's concern.
            let Some(id) = world.pod_id(&key) else { continue };
            let entry = world.pod(id);
            let owner = entry.pod.owner.as_ref().filter(|owner| &*owner.kind == "ReplicaSet");
            let owner = owner.ok_or(LeftAlone::NotOneReplicaSet)?;
            if *set.get_or_insert(&owner.uid) != &owner.uid {
                return Err(LeftAlone::NotOneReplicaSet);
            }
            if replica.cost == DeletionCost::Foreign {
                return Err(LeftAlone::CostOfOthers);
            }
            if entry.pod.class.topology_spread.iter().any(|spread| &*spread.topology_key != ZONE_LABEL) {
                return Err(LeftAlone::SpreadRequired);
            }
            if replica.ready && entry.node.is_some() && entry.pod.deletion_at.is_none() {
                ready.push((id, replica.cost));
            }
        }
        let gone_early = scale_in.replicas.iter().filter(|replica| !replica.ready).count();
        let n_going = scale_in.replicas.len().saturating_sub(scale_in.to).saturating_sub(gone_early);
        Ok(Self { uid: set.cloned().unwrap_or_default(), n_going: n_going.min(ready.len()), ready })
    }
}

/// Gain of deleting the pods of a node; the largest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// The node goes, so that its pods move anyway.
    Leaving,
    /// Nothing else on it would have to move.
    Alone,
    /// Others would have to move.
    Shared,
    /// The node stays.
    Kept,
}

/// A node with pods of the workloads that shrink.
#[derive(Debug)]
struct Share<'w> {
    name: &'w str,
    zone: &'w str,
    grade: Grade,
    /// Requests of what would have to move, own pods included, in thousandths of the node.
    used_milli: i64,
    /// CPUs of the node, in thousandths; at least 1.
    cpu_milli: u64,
    /// Own pods in the order in which they go, each with the index of its workload.
    pods: Vec<(usize, PodId)>,
}

impl Share<'_> {
    fn pods_of(&self, set: usize) -> impl Iterator<Item = PodId> {
        self.pods.iter().filter(move |(of, _)| *of == set).map(|(_, pod)| *pod)
    }
}

fn shares<'w>(world: &'w World, sets: &[&Set], now: UnixTime) -> Vec<Share<'w>> {
    let mut by_node: BTreeMap<NodeId, Vec<(usize, PodId)>> = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        for (id, _) in &set.ready {
            if let Some(node) = world.pod(*id).node {
                by_node.entry(node).or_default().push((index, *id));
            }
        }
    }
    let own: BTreeSet<&Arc<str>> = sets.iter().map(|set| &set.uid).collect();
    let managed: BTreeSet<NodeId> = world.managed_nodes().collect();
    let shares = by_node.into_iter().map(|(id, mut pods)| {
        // Whatever was sent away before, then the youngest, as the ReplicaSet controller does it.
        pods.sort_by_key(|(_, pod)| {
            let pod = &world.pod(*pod).pod;
            (!world.is_sent_away(pod, now), Reverse(pod.created_at), pod.key.clone())
        });
        let entry = world.node(id);
        let others = Others::on(world, entry, &own, now);
        let grade = match &entry.node {
            Some(node) if is_leaving(node) => Grade::Leaving,
            Some(node) if managed.contains(&id) && !is_kept(node) && !others.keep => {
                if others.move_count == 0 { Grade::Alone } else { Grade::Shared }
            }
            Some(_) | None => Grade::Kept,
        };
        let used_milli =
            entry.node.as_ref().map_or(1000, |node| thousandths(&others.used, &node.allocatable));
        let cpu_milli = entry.node.as_ref().map_or(1, |node| node.allocatable.cpu_milli);
        let cpu_milli = u64::try_from(cpu_milli).unwrap_or(1).max(1);
        let zone = entry.node.as_ref().map_or("", Node::zone);
        Share { name: &entry.name, zone, grade, used_milli, cpu_milli, pods }
    });
    shares.collect()
}

fn is_leaving(node: &Node) -> bool {
    node.deleting || node.unschedulable || node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT)
}

fn is_kept(node: &Node) -> bool {
    node.is_protected() || node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true")
}

/// The part of a node that its scarcer resource is used to.
fn thousandths(used: &Resources, of: &Resources) -> i64 {
    let part = |used: i64, of: i64| if of <= 0 { 1000 } else { used.saturating_mul(1000) / of };
    part(used.cpu_milli, of.cpu_milli).max(part(used.memory_bytes, of.memory_bytes))
}

/// Other pods on a node.
#[derive(Debug, Default)]
struct Others {
    /// Pods of others that would have to move.
    move_count: usize,
    /// True if one of them keeps the node.
    keep: bool,
    /// Requests of these and of the own pods.
    used: Resources,
}

impl Others {
    fn on(world: &World, entry: &NodeEntry, own: &BTreeSet<&Arc<str>>, now: UnixTime) -> Self {
        let mut others = Self::default();
        for id in &entry.pods {
            let pod = &world.pod(*id).pod;
            let goes = pod.phase.finished() || pod.deletion_at.is_some() || world.is_sent_away(pod, now);
            if goes || pod.class.mirror || pod.class.daemon_set {
                continue;
            }
            others.used.add(&pod.class.requests);
            if pod.owner.as_ref().is_none_or(|owner| !own.contains(&owner.uid)) {
                others.move_count += 1;
                others.keep |= keeps_node(pod, now);
            }
        }
        others
    }
}

/// True if a pod keeps its node whatever else goes. What depends on budgets and on room elsewhere changes too soon to count.
fn keeps_node(pod: &Pod, now: UnixTime) -> bool {
    let class = &pod.class;
    let naked = pod.owner.is_none() && class.safe_to_evict != SafeToEvict::Always;
    let annotated = matches!(class.safe_to_evict, SafeToEvict::Never | SafeToEvict::OnCompletion);
    naked || annotated || class.unreadable || pod.is_protected(now)
}

/// Picks the pods that go of each workload, those that free most first.
fn pick(shares: &[Share<'_>], sets: &[&Set]) -> Vec<Vec<PodId>> {
    let quotas = sets.iter().enumerate().map(|(index, set)| quotas(shares, index, set.n_going)).collect();
    let mut picked = Picked { quotas, pods: vec![Vec::new(); sets.len()], set: BTreeSet::new() };
    let of = |grade: Grade| shares.iter().filter(move |share| share.grade == grade);
    of(Grade::Leaving).for_each(|share| picked.take(share));
    picked.empty_nodes(&of(Grade::Alone).collect::<Vec<_>>());
    let mut rest: Vec<_> = of(Grade::Alone).chain(of(Grade::Shared)).collect();
    rest.sort_by_key(|share| (share.used_milli, share.name));
    rest.into_iter().for_each(|share| picked.take(share));
    picked.thin_out(&of(Grade::Kept).collect::<Vec<_>>());
    for index in 0..sets.len() {
        picked.stay_on_two(shares, index);
    }
    picked.pods
}

/// Returns how many pods of a workload go in each zone: the rest is spread as evenly as possible.
fn quotas<'s>(shares: &[Share<'s>], set: usize, n_going: usize) -> BTreeMap<&'s str, usize> {
    let mut quotas: BTreeMap<&str, usize> = BTreeMap::new();
    for share in shares {
        *quotas.entry(share.zone).or_default() += share.pods_of(set).count();
    }
    let mut stay = quotas.values().sum::<usize>().saturating_sub(n_going);
    // Each zone keeps one in turn. A turn keeps at least one, as no more stay than there are.
    while 0 < stay {
        for left in quotas.values_mut().filter(|left| 0 < **left) {
            if stay == 0 {
                break;
            }
            *left -= 1;
            stay -= 1;
        }
    }
    quotas
}

/// A millionth of a quota, the unit of prices.
const PRICE_UNIT: u64 = 1_000_000;

#[derive(Debug)]
struct Picked<'s> {
    /// Pods that are still to go, by workload and zone.
    quotas: Vec<BTreeMap<&'s str, usize>>,
    /// By workload, in the order in which they were picked.
    pods: Vec<Vec<PodId>>,
    set: BTreeSet<PodId>,
}

impl Picked<'_> {
    fn quota(&self, set: usize, zone: &str) -> usize {
        self.quotas.get(set).and_then(|zones| zones.get(zone)).copied().unwrap_or(0)
    }

    /// Picks from nodes that become empty by it: always from the one that uses the smallest part of what is left of the quotas for
    /// each CPU of it, so that no workload is used up while many of the others are still to go.
    fn empty_nodes(&mut self, shares: &[&Share<'_>]) {
        let priced = shares.iter().zip(0..).map(|(share, at)| Reverse((self.price(share), share.name, at)));
        let mut queue: BinaryHeap<Reverse<(u64, &str, usize)>> = priced.collect();
        while let Some(Reverse((_, name, at))) = queue.pop() {
            let share = shares[at];
            // Half an empty node is none: the rest may make another one emptier instead.
            if !self.empties(share) {
                continue;
            }
            // Quotas only shrink, so prices only grow: if this one still comes first, it is the lowest of all.
            let now = Reverse((self.price(share), name, at));
            match queue.peek() {
                Some(next) if now < *next => queue.push(now),
                Some(_) | None => self.take(share),
            }
        }
    }

    /// Returns the part of what is left of the quotas that emptying a node uses, for each CPU of it.
    fn price(&self, share: &Share<'_>) -> u64 {
        let part = |(set, _): &(usize, PodId)| {
            let quota = u64::try_from(self.quota(*set, share.zone)).unwrap_or(u64::MAX);
            PRICE_UNIT.checked_div(quota).unwrap_or(PRICE_UNIT)
        };
        let parts = share.pods.iter().map(part).fold(0, u64::saturating_add);
        parts.saturating_mul(1000) / share.cpu_milli
    }

    /// True if all own pods of the node may go.
    fn empties(&self, share: &Share<'_>) -> bool {
        (0..self.quotas.len()).all(|set| share.pods_of(set).count() <= self.quota(set, share.zone))
    }

    /// Picks the pods of a node, as far as the quotas allow.
    fn take(&mut self, share: &Share<'_>) {
        share.pods.iter().for_each(|(set, pod)| self.take_one(*set, share.zone, *pod));
    }

    fn take_one(&mut self, set: usize, zone: &str, pod: PodId) {
        let Some(quota) = self.quotas.get_mut(set).and_then(|zones| zones.get_mut(zone)) else { return };
        if 0 < *quota && self.set.insert(pod) {
            *quota -= 1;
            self.pods[set].push(pod);
        }
    }

    /// Picks from nodes on which nothing is won: the most crowded ones first, as the ReplicaSet controller does it.
    fn thin_out(&mut self, shares: &[&Share<'_>]) {
        for set in 0..self.quotas.len() {
            let mut pods: Vec<(Reverse<usize>, &str, &str, PodId)> = Vec::new();
            for share in shares {
                let crowd = (1..).zip(share.pods_of(set));
                pods.extend(crowd.map(|(place, pod)| (Reverse(place), share.name, share.zone, pod)));
            }
            pods.sort_unstable();
            pods.into_iter().for_each(|(_, _, zone, pod)| self.take_one(set, zone, pod));
        }
    }

    /// Swaps the last pod that was picked elsewhere for one of the only node that is left, so that no node has all.
    fn stay_on_two(&mut self, shares: &[Share<'_>], set: usize) {
        let staying = |share: &Share<'_>| -> Vec<PodId> {
            share.pods_of(set).filter(|pod| !self.set.contains(pod)).collect()
        };
        let mut left =
            shares.iter().map(|share| (share, staying(share))).filter(|(_, pods)| !pods.is_empty());
        let (Some((only, pods)), None) = (left.next(), left.next()) else { return };
        let on_only: BTreeSet<PodId> = only.pods_of(set).collect();
        let elsewhere = self.pods[set].iter().rposition(|pod| !on_only.contains(pod));
        if let (Some(place), [pod, _, ..]) = (elsewhere, &pods[..]) {
            self.set.remove(&self.pods[set][place]);
            self.set.insert(*pod);
            self.pods[set][place] = *pod;
        }
    }
}

/// The fewest writes after which all that go cost less than all that stay: either those that go cost less than the default,
/// or those that stay more.
fn writes(
    world: &World,
    ready: &[(PodId, DeletionCost)],
    chosen: &[PodId],
    going: &BTreeSet<PodId>,
) -> Vec<CostWrite> {
    let costs: BTreeMap<PodId, DeletionCost> = ready.iter().copied().collect();
    let mut staying: Vec<PodId> = ready.iter().map(|(id, _)| *id).filter(|id| !going.contains(id)).collect();
    by_node(world, &mut staying);
    let plan = |off: &[PodId], on: &[PodId], cost: i32| -> Vec<(PodId, Option<i32>)> {
        let has = |id: &&PodId| costs.get(*id) == Some(&DeletionCost::Own(cost));
        let off = off.iter().filter(has).map(|id| (*id, None));
        off.chain(on.iter().filter(|id| !has(id)).map(|id| (*id, Some(cost)))).collect()
    };
    let first = plan(&staying, chosen, COST_FIRST);
    let last = plan(chosen, &staying, COST_LAST);
    // A part of those that go is a good part; a part of those that stay is any part.
    let fewest = if last.len() < first.len() && last.len() <= WRITES_MAX { last } else { first };
    let write = |(id, cost): (PodId, Option<i32>)| {
        let pod = &world.pod(id).pod;
        CostWrite { name: Arc::from(&*pod.key.name), uid: pod.uid.clone(), cost }
    };
    fewest.into_iter().take(WRITES_MAX).map(write).collect()
}

/// Orders pods by node, nodes with the most of them first: writes that end early have kept whole nodes.
fn by_node(world: &World, pods: &mut [PodId]) {
    let mut counts: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
    pods.iter().for_each(|pod| *counts.entry(world.pod(*pod).node).or_default() += 1);
    pods.sort_by_cached_key(|pod| {
        let PodEntry { pod, node, .. } = world.pod(*pod);
        (Reverse(counts.get(node).copied()), *node, pod.key.clone())
    });
}

#[cfg(test)]
mod tests;
