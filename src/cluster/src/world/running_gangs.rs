//! Gangs whose pods run, and how many of them each may lose. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

use super::gang::GangRef;
use super::interner::InternedId;
use super::node::Readiness;
use super::pod::PodClass;
use super::{PodEntry, PodId, World};

/// Gangs with pods that run, and which of these pods are about to leave.
///
/// A pod runs here if it is bound to a node that is ready and is not being deleted, has not finished and is not being
/// deleted itself. A gang is guarded if its object exists, is of a kind that the server has, and asks for at least two pods
/// at once or for the disruption of all at once: a gang of one pod is an ordinary pod.
#[derive(Clone, Debug, Default)]
pub struct RunningGangs {
    gangs: Vec<Running>,
    by_class: FxHashMap<InternedId, usize>,
}

#[derive(Clone, Debug, Default)]
struct Running {
    /// Fewest pods; 0 if all pods are disrupted at once, whatever their number.
    min_count: u32,
    /// Pods that run, and those that have finished and count.
    bound_count: u32,
    leaving_count: u32,
    /// Pods that stay, of a gang whose pods are disrupted all at once.
    whole: Option<BTreeSet<PodId>>,
}

impl Running {
    /// True if `count` pods and those that are leaving are more than it may lose.
    fn is_short_without(&self, count: u32) -> bool {
        self.bound_count.saturating_sub(count) < self.min_count
    }
}

impl RunningGangs {
    /// All gangs of the world; pods under `cutoff` are expendable, and guard nothing.
    #[must_use]
    pub fn of(world: &World, cutoff: i32) -> Self {
        let mut found = Self::default();
        if world.gangs().objects.is_empty() {
            return found;
        }
        let mut known: BTreeMap<(&str, &GangRef), usize> = BTreeMap::new();
        for (id, class) in world.classes().iter() {
            let Some(gang) = &class.gang else { continue };
            let Some(guarded) = guarded(world, class, gang) else { continue };
            let at = *known.entry((&class.namespace, gang)).or_insert_with(|| {
                found.gangs.push(guarded);
                found.gangs.len() - 1
            });
            let running = &mut found.gangs[at];
            for pod in world.bound_pods(id) {
                if runs(world, world.pod(*pod)) {
                    running.bound_count = running.bound_count.saturating_add(1);
                    running.whole.iter_mut().for_each(|staying| {
                        staying.insert(*pod);
                    });
                }
            }
            if cutoff <= class.priority {
                found.by_class.insert(id, at);
            }
        }
        found
    }

    /// Notes that these pods leave. Each pod is noted once at most.
    pub fn leave(&mut self, world: &World, pods: &[PodId]) {
        for pod in pods {
            let Some(at) = self.gang_of(world, *pod) else { continue };
            let running = &mut self.gangs[at];
            running.leaving_count = running.leaving_count.saturating_add(1);
            running.whole.iter_mut().for_each(|staying| {
                staying.remove(pod);
            });
        }
    }

    /// The first of these pods whose gang would have fewer pods than it needs if all of them left at once; with those that
    /// have been noted as leaving, if `with_others`.
    #[must_use]
    pub fn short_without(&self, world: &World, pods: &[PodId], with_others: bool) -> Option<PodId> {
        let mut lost: BTreeMap<usize, u32> = BTreeMap::new();
        for at in pods.iter().filter_map(|pod| self.gang_of(world, *pod)) {
            *lost.entry(at).or_insert(0) += 1;
        }
        let is_short = |at: usize| {
            let running = &self.gangs[at];
            let others = if with_others { running.leaving_count } else { 0 };
            running.is_short_without(lost[&at].saturating_add(others))
        };
        pods.iter().copied().find(|pod| self.gang_of(world, *pod).is_some_and(is_short))
    }

    /// The first of these pods of whose gang others would stay, although its pods are disrupted all at once.
    #[must_use]
    pub fn split_by(&self, world: &World, pods: &[PodId]) -> Option<PodId> {
        let stays = |at: usize| self.gangs[at].whole.iter().flatten().any(|pod| !pods.contains(pod));
        pods.iter().copied().find(|pod| self.gang_of(world, *pod).is_some_and(stays))
    }

    /// The first of these pods, all noted as leaving, whose gang cannot do without all that leave. Of a gang whose pods are
    /// disrupted all at once, none that was there at `since` may stay.
    #[must_use]
    pub fn broken(&self, world: &World, pods: &[PodId], since: UnixTime) -> Option<PodId> {
        let is_broken = |at: usize| {
            let running = &self.gangs[at];
            let old = |pod: &PodId| world.pod(*pod).pod.created_at <= since;
            running.is_short_without(running.leaving_count) || running.whole.iter().flatten().any(old)
        };
        pods.iter().copied().find(|pod| self.gang_of(world, *pod).is_some_and(is_broken))
    }

    /// True if the pods of some gang are disrupted all at once.
    #[must_use]
    pub fn any_whole(&self) -> bool {
        self.gangs.iter().any(|running| running.whole.is_some())
    }

    /// The guarded gang of a pod that runs.
    fn gang_of(&self, world: &World, pod: PodId) -> Option<usize> {
        let entry = world.pod(pod);
        self.by_class.get(&entry.class).copied().filter(|_| runs(world, entry))
    }
}

/// Returns the requirements of a gang, before its pods are counted; `None` if nothing guards it.
fn guarded(world: &World, class: &PodClass, gang: &GangRef) -> Option<Running> {
    let gangs = world.gangs();
    let key = (gang.kind, ObjectKey::new(class.namespace.clone(), &*gang.name));
    let object = gangs.objects.get(&key).filter(|_| gangs.served.contains(&gang.kind))?;
    let min = object.minimums.get(&gang.group).copied()?;
    let whole = object.disrupted_at_once.then(BTreeSet::new);
    if whole.is_none() && min < 2 {
        return None;
    }
    let min_count = if whole.is_some() { 0 } else { min };
    Some(Running { min_count, bound_count: object.done_count, leaving_count: 0, whole })
}

fn runs(world: &World, entry: &PodEntry) -> bool {
    let node = entry.node.and_then(|id| world.node(id).node.as_ref());
    node.is_some_and(|node| node.ready == Readiness::Ready && !node.deleting)
        && !entry.pod.phase.finished()
        && entry.pod.deletion_at.is_none()
}
