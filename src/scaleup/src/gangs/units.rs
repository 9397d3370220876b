//! Gangs with pending pods, and the number of pods that each needs at once. It does not decide on their nodes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::GangId;
use super::domains::Narrowed;
use crate::context::Context;
use headroom_cluster::history::EXAMPLES_MAX;
use headroom_cluster::world::World;
use headroom_cluster::world::gang::{Gang, GangRef};
use headroom_cluster::world::pod::Pod;
use headroom_pools::plan::GangVerdict;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// A gang with pods in the demand.
pub(super) struct Unit {
    pub(super) verdict: GangVerdict,
    /// Pods whose preemption is under way: they have a place.
    pub(super) nominated_count: u32,
    /// Its pods must share one value of this label.
    pub(super) topology_key: Option<Arc<str>>,
    /// Its pods' classes with the domain that was chosen for it.
    pub(super) narrowed: Vec<Narrowed>,
    /// True if its object exists.
    found: bool,
    priority: i32,
    created_at: UnixTime,
}

impl Unit {
    /// Pods that must have room at once.
    pub(super) fn need(&self) -> u32 {
        self.verdict.min_count.saturating_sub(self.verdict.bound_count)
    }

    /// Reason why it cannot be scheduled whatever room there is.
    pub(super) fn barrier(&self) -> Option<Reason> {
        match () {
            () if !self.found => Some(Reason::GangNotFound),
            () if self.verdict.pods_count < self.need() => Some(Reason::GangIncomplete),
            () => None,
        }
    }

    /// True if its scheduler does not place its pods one by one: one pod at once is what any pod asks for.
    pub(super) fn is_whole(&self) -> bool {
        !self.found || 1 < self.need()
    }

    /// True if it takes part in this plan.
    pub(super) fn is_asked(&self) -> bool {
        self.verdict.reason.is_none()
    }
}

/// Gangs of which a scheduler has marked a pod as Unschedulable: it has looked at the gang as a whole, and may not mark
/// the pods that would have had room (Volcano).
#[must_use]
pub fn marked(world: &World) -> BTreeSet<GangId> {
    let pods = world.unbound().map(|(_, entry)| &entry.pod).filter(|pod| pod.unschedulable);
    pods.filter_map(gang_of).collect()
}

fn gang_of(pod: &Pod) -> Option<GangId> {
    let gang = pod.class.gang.clone()?;
    Some((pod.class.namespace.clone(), gang))
}

/// Gangs with pods in the demand that their scheduler will not place one by one or must place in one domain, the most
/// important and oldest first.
pub(super) fn units(ctx: &Context<'_>) -> Vec<Unit> {
    let mut found: BTreeMap<GangId, Unit> = BTreeMap::new();
    for group in &ctx.demand.groups {
        let class = ctx.snapshot.class(group.class);
        let Some(gang) = &class.gang else { continue };
        if !ctx.world.gangs().served.contains(&gang.kind) {
            continue;
        }
        let id = (class.namespace.clone(), gang.clone());
        let unit = found.entry(id).or_insert_with(|| unit(ctx, &class.namespace, gang));
        unit.verdict.pods_count = unit.verdict.pods_count.saturating_add(group.pods_count);
        unit.priority = unit.priority.max(group.priority);
        let left = EXAMPLES_MAX.saturating_sub(unit.verdict.examples.len());
        unit.verdict.examples.extend(group.examples.iter().take(left).cloned());
    }
    if found.is_empty() {
        return Vec::new();
    }
    for (id, count) in bound_counts(ctx.world, &found) {
        if let Some(unit) = found.get_mut(&id) {
            unit.verdict.bound_count = unit.verdict.bound_count.saturating_add(count);
        }
    }
    for (pod, _) in &ctx.demand.nominated {
        if let Some(unit) = gang_of(&ctx.world.pod(*pod).pod).and_then(|id| found.get_mut(&id)) {
            unit.nominated_count += 1;
            unit.verdict.pods_count = unit.verdict.pods_count.saturating_add(1);
        }
    }
    let is_asked = |unit: &Unit| unit.is_whole() || unit.topology_key.is_some();
    let mut units: Vec<Unit> = found.into_values().filter(is_asked).collect();
    units.iter_mut().for_each(|unit| unit.verdict.examples.sort());
    units.sort_by_key(|unit| (Reverse(unit.priority), unit.created_at));
    units
}

fn unit(ctx: &Context<'_>, namespace: &Arc<str>, gang: &Arc<GangRef>) -> Unit {
    let key = (gang.kind, headroom_values::labels::ObjectKey::new(namespace.clone(), &*gang.name));
    let object = ctx.world.gangs().objects.get(&key);
    let min = object.and_then(|object| object.minimums.get(&gang.group)).copied();
    let topology_key = object.and_then(|object| object.topology_key.clone());
    Unit {
        verdict: GangVerdict {
            namespace: namespace.clone(),
            gang: gang.clone(),
            min_count: min.unwrap_or(0),
            bound_count: object.map_or(0, |object: &Gang| object.done_count),
            pods_count: 0,
            fit_count: 0,
            topology_key: topology_key.clone(),
            reason: None,
            examples: Vec::new(),
            pools: Vec::new(),
        },
        nominated_count: 0,
        topology_key,
        narrowed: Vec::new(),
        found: min.is_some(),
        priority: i32::MIN,
        created_at: object.map_or(UnixTime(0), |object| object.created_at),
    }
}

/// Pods of these gangs that have a node and are not leaving it.
fn bound_counts(world: &World, wanted: &BTreeMap<GangId, Unit>) -> BTreeMap<GangId, u32> {
    let mut counts = BTreeMap::new();
    for (class_id, class) in world.classes().iter() {
        let Some(gang) = &class.gang else { continue };
        let id = (class.namespace.clone(), gang.clone());
        if !wanted.contains_key(&id) {
            continue;
        }
        let active = |pod: &&headroom_cluster::world::PodId| {
            let pod = &world.pod(**pod).pod;
            !pod.phase.finished() && pod.deletion_at.is_none()
        };
        let bound = world.bound_pods(class_id).iter().filter(active).count();
        *counts.entry(id).or_insert(0) += u32::try_from(bound).unwrap_or(u32::MAX);
    }
    counts
}
