//! Which pods of a ReplicaSet go when its replicas are lowered, so that nodes become empty. Pure; it writes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::world::node::{DELETION_TAINT, Node, SCALE_DOWN_DISABLED_ANNOTATION, ZONE_LABEL};
use crate::world::pod::{Pod, SafeToEvict};
use crate::world::{NodeEntry, NodeId, PodId, World};
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
    /// Unique ids of the pods that go, those that are not ready left out.
    pub going: Vec<Arc<str>>,
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

/// Why the ReplicaSet controller chooses alone.
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

/// Chooses the pods that go, and the fewest writes of costs by which the ReplicaSet controller chooses the same.
///
/// `leaving` are unique ids of pods that earlier choices have sent away and that may still be there. What the ReplicaSet
/// controller ranks before the cost goes first anyway: pods without a node, not running, not ready. Of the others those go
/// - evenly by zone, so that what stays is spread over the zones as before or better;
/// - in each zone first from nodes that leave or are cordoned; then from those that become empty without an eviction, as many
///   nodes as possible; then from the emptiest of the others; and from nodes that stay whatever happens at last;
/// - never so that all that stay are on one node, unless they were or only one stays.
///
/// # Errors
/// [`LeftAlone`] when nothing may be written.
///
/// Source of the ranking: Kubernetes, pkg/controller/controller_utils.go, ActivePodsWithRanks.
pub fn choose(
    world: &World,
    scale_in: &ScaleIn,
    leaving: &BTreeSet<Arc<str>>,
    now: UnixTime,
) -> Result<Choice, LeftAlone> {
    let ready = ready_pods(world, scale_in)?;
    let gone_early = scale_in.replicas.iter().filter(|replica| !replica.ready).count();
    let n_going = scale_in.replicas.len().saturating_sub(scale_in.to).saturating_sub(gone_early);
    if n_going == 0 || ready.is_empty() {
        return Ok(Choice::default());
    }
    let shares = shares(world, &ready, leaving, now);
    let chosen = pick(&shares, n_going.min(ready.len()));
    let going: BTreeSet<PodId> = chosen.iter().copied().collect();
    let uid = |id: &PodId| world.pod(*id).pod.uid.clone();
    Ok(Choice { going: chosen.iter().map(uid).collect(), writes: writes(world, &ready, &chosen, &going) })
}

/// The ready pods on nodes, with their costs.
fn ready_pods(world: &World, scale_in: &ScaleIn) -> Result<Vec<(PodId, DeletionCost)>, LeftAlone> {
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
    Ok(ready)
}

/// How much is won when the pods of a node go; the least comes first.
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

/// A node with pods of the workload.
#[derive(Debug)]
struct Share<'w> {
    name: &'w str,
    zone: &'w str,
    grade: Grade,
    /// Requests of what would have to move, own pods included, in thousandths of the node.
    used_milli: i64,
    /// Own pods in the order in which they go.
    pods: Vec<PodId>,
}

fn shares<'w>(
    world: &'w World,
    ready: &[(PodId, DeletionCost)],
    leaving: &BTreeSet<Arc<str>>,
    now: UnixTime,
) -> Vec<Share<'w>> {
    let mut by_node: BTreeMap<NodeId, Vec<PodId>> = BTreeMap::new();
    for (id, _) in ready {
        if let Some(node) = world.pod(*id).node {
            by_node.entry(node).or_default().push(*id);
        }
    }
    let managed: BTreeSet<NodeId> = world.managed_nodes().collect();
    let shares = by_node.into_iter().map(|(id, mut pods)| {
        // Whatever was sent away before, then the youngest, as the ReplicaSet controller does it.
        pods.sort_by_key(|pod| {
            let pod = &world.pod(*pod).pod;
            (!leaving.contains(&pod.uid), Reverse(pod.created_at), pod.key.clone())
        });
        let entry = world.node(id);
        let others = Others::on(world, entry, &pods, leaving, now);
        let grade = match &entry.node {
            Some(node) if is_leaving(node) => Grade::Leaving,
            Some(node) if managed.contains(&id) && !is_kept(node) && !others.keep => {
                if others.move_count == 0 { Grade::Alone } else { Grade::Shared }
            }
            Some(_) | None => Grade::Kept,
        };
        let used_milli =
            entry.node.as_ref().map_or(1000, |node| thousandths(&others.used, &node.allocatable));
        Share { name: &entry.name, zone: entry.node.as_ref().map_or("", Node::zone), grade, used_milli, pods }
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

/// What else is on a node.
#[derive(Debug, Default)]
struct Others {
    /// Pods of others that would have to move.
    move_count: usize,
    /// True if one of them keeps the node.
    keep: bool,
    /// What they and the own pods request.
    used: Resources,
}

impl Others {
    fn on(
        world: &World,
        entry: &NodeEntry,
        own: &[PodId],
        leaving: &BTreeSet<Arc<str>>,
        now: UnixTime,
    ) -> Self {
        let mut others = Self::default();
        let set = own.first().and_then(|own| world.pod(*own).pod.owner.as_ref()).map(|owner| &owner.uid);
        for id in &entry.pods {
            let pod = &world.pod(*id).pod;
            let goes = pod.phase.finished() || pod.deletion_at.is_some() || leaving.contains(&pod.uid);
            if goes || pod.class.mirror || pod.class.daemon_set {
                continue;
            }
            others.used.add(&pod.class.requests);
            if pod.owner.as_ref().map(|owner| &owner.uid) != set {
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

/// Picks `n_going` pods, those that free most first.
fn pick(shares: &[Share<'_>], n_going: usize) -> Vec<PodId> {
    let mut picked = Picked::default();
    for (zone, quota) in quotas(shares, n_going) {
        let mut of_zone: Vec<&Share<'_>> = shares.iter().filter(|share| share.zone == zone).collect();
        of_zone.sort_by_key(|share| (share.grade, share.pods.len(), share.used_milli, share.name));
        picked.of_zone(&of_zone, quota);
    }
    picked.stay_on_two(shares);
    picked.pods
}

/// How many pods of each zone go: what stays is as even as it can be.
fn quotas<'s>(shares: &[Share<'s>], n_going: usize) -> BTreeMap<&'s str, usize> {
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for share in shares {
        *there.entry(share.zone).or_default() += share.pods.len();
    }
    let mut rest = there.values().sum::<usize>().saturating_sub(n_going);
    let mut quotas = there;
    // Each zone keeps one in turn; each turn keeps at least one, as `rest` is at most what is left.
    while 0 < rest {
        for left in quotas.values_mut().filter(|left| 0 < **left) {
            if rest == 0 {
                break;
            }
            *left -= 1;
            rest -= 1;
        }
    }
    quotas
}

#[derive(Debug, Default)]
struct Picked {
    /// In the order in which they were picked.
    pods: Vec<PodId>,
    set: BTreeSet<PodId>,
}

impl Picked {
    fn take(&mut self, pods: &[PodId], quota: &mut usize) {
        for pod in pods {
            if *quota == 0 {
                return;
            }
            if self.set.insert(*pod) {
                self.pods.push(*pod);
                *quota -= 1;
            }
        }
    }

    /// Picks from the nodes of one zone, sorted by grade and then by own pods.
    fn of_zone(&mut self, shares: &[&Share<'_>], mut quota: usize) {
        let of = |grade: Grade| shares.iter().filter(move |share| share.grade == grade);
        of(Grade::Leaving).for_each(|share| self.take(&share.pods, &mut quota));
        for share in of(Grade::Alone).filter(|share| !share.pods.is_empty()) {
            // Half an empty node is none: the rest may make another one emptier instead.
            if share.pods.len() <= quota {
                self.take(&share.pods, &mut quota);
            }
        }
        let mut rest: Vec<_> = of(Grade::Alone).chain(of(Grade::Shared)).collect();
        rest.sort_by_key(|share| (share.used_milli, share.name));
        rest.iter().for_each(|share| self.take(&share.pods, &mut quota));
        // Nothing is won on these: the most crowded ones first, as the ReplicaSet controller does it.
        let mut kept: Vec<(Reverse<usize>, &str, PodId)> = Vec::new();
        for share in of(Grade::Kept) {
            kept.extend((1..).zip(&share.pods).map(|(crowd, pod)| (Reverse(crowd), share.name, *pod)));
        }
        kept.sort_unstable();
        kept.iter().for_each(|(_, _, pod)| self.take(&[*pod], &mut quota));
    }

    /// Swaps the last pod that was picked elsewhere for one of the only node that is left, so that no node has all.
    fn stay_on_two(&mut self, shares: &[Share<'_>]) {
        let stays = |share: &&Share<'_>| share.pods.iter().any(|pod| !self.set.contains(pod));
        let mut left = shares.iter().filter(stays);
        let (Some(only), None) = (left.next(), left.next()) else { return };
        let staying: Vec<PodId> = only.pods.iter().copied().filter(|pod| !self.set.contains(pod)).collect();
        let elsewhere = self.pods.iter().rposition(|pod| !only.pods.contains(pod));
        if let (Some(place), Some(pod), true) = (elsewhere, staying.first(), 1 < staying.len()) {
            self.set.remove(&self.pods[place]);
            self.set.insert(*pod);
            self.pods[place] = *pod;
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
    let staying: Vec<PodId> = ready.iter().map(|(id, _)| *id).filter(|id| !going.contains(id)).collect();
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

#[cfg(test)]
mod tests;
