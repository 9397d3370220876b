//! Pods that want a node: pending ones, and replicas that are expected. It places none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::expected;
use crate::{gangs, requests};
use headroom_cluster::history::{EXAMPLES_MAX, History};
use headroom_cluster::scheduling::{ClassIx, PodRef, Snapshot};
use headroom_cluster::world::pod::{Pod, PodClass};
use headroom_cluster::world::{PodEntry, PodId, World};
use headroom_pools::config::Config;
use headroom_pools::wake::Wake;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Pods of one class that want a node.
#[derive(Clone, Debug)]
pub struct PodGroup {
    /// Their class.
    pub class: ClassIx,
    /// Their priority.
    pub priority: i32,
    /// The first pod's key, or the controller's: the order among equals.
    pub key: ObjectKey,
    /// The controller's name, or the first pod's.
    pub owner: Arc<str>,
    /// Those that still have no place: real ones first, in order of their keys.
    pub pods: Vec<PodRef>,
    /// Number of pods, those with a place by now included.
    pub pods_count: u32,
    /// Number of them that do not exist yet.
    pub anticipated_count: u32,
    /// The controllers whose missing replicas are among them.
    pub controllers: Vec<Arc<str>>,
    /// Names of some, sorted.
    pub examples: Vec<Arc<str>>,
    /// Number of pods that found a place on nodes that exist or are on their way.
    pub on_existing: u32,
    /// Number of pods that got a new node, by pool.
    pub on_new: BTreeMap<Arc<str>, u32>,
}

/// Pods that are no demand, and why.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// Reason.
    pub reason: Reason,
    /// Namespace.
    pub namespace: Arc<str>,
    /// The controller's name, or the pod's.
    pub owner: Arc<str>,
    /// Number.
    pub pods_count: u32,
    /// Number of them that do not exist yet.
    pub anticipated_count: u32,
    /// Names of some, sorted.
    pub examples: Vec<Arc<str>>,
}

/// Demand for nodes.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Groups in the order in which they get a place: highest priority first, then the largest. Pods that do not exist
    /// come after all that do.
    pub groups: Vec<PodGroup>,
    /// Pods that do not count.
    pub skipped: Vec<Skipped>,
    /// Pods whose preemption is under way, with the node they are to get.
    pub nominated: Vec<(PodId, Arc<str>)>,
}

/// Collects the demand of `snapshot`'s world, with the `displaced` pods, whose nodes go.
pub fn collect(
    snapshot: &mut Snapshot<'_>,
    displaced: &[PodId],
    history: &mut History,
    config: &Config,
    now: UnixTime,
    wake: &mut Wake,
) -> Demand {
    let world = snapshot.world();
    let mut demand = Demand::default();
    let mut groups: FxHashMap<ClassIx, usize> = FxHashMap::default();
    let marked = gangs::marked(world);
    for (id, entry) in world.unbound() {
        let verdict = match requests::holds_back(world, config, &entry.pod, now) {
            Some(reason) if !is_silent(&entry.pod) => Verdict::Skipped(reason),
            _ => verdict_of(&entry.pod, (world, config), &marked, now, wake),
        };
        match verdict {
            Verdict::Silent => {}
            Verdict::Skipped(reason) => skip(&mut demand.skipped, reason, &entry.pod),
            Verdict::Nominated(node) => demand.nominated.push((id, node)),
            Verdict::Wanted => add_pod(&mut demand.groups, &mut groups, id, entry),
        }
    }
    for id in displaced {
        add_pod(&mut demand.groups, &mut groups, *id, world.pod(*id));
    }
    let mut anticipated = Vec::new();
    if config.cluster.anticipation {
        anticipated = expected::replicas(snapshot, &mut demand.skipped, history, config, now, wake);
    }
    let size = |group: &PodGroup| weight(snapshot.class(group.class));
    for groups in [&mut demand.groups, &mut anticipated] {
        groups.sort_by_cached_key(|group| {
            (std::cmp::Reverse(group.priority), std::cmp::Reverse(size(group)), group.key.clone())
        });
    }
    append(&mut demand.groups, anticipated);
    demand
}

/// Appends pods that do not exist yet, of a lower priority than all that do: nobody has checked what their template claims.
fn append(groups: &mut Vec<PodGroup>, anticipated: Vec<PodGroup>) {
    let lowest = groups.iter().map(|group| group.priority).min();
    for mut group in anticipated {
        match groups.last_mut() {
            // Nothing comes between them.
            Some(last) if last.class == group.class => last.absorb(group),
            _ => {
                group.priority =
                    group.priority.min(lowest.map_or(i32::MAX, |lowest| lowest.saturating_sub(1)));
                groups.push(group);
            }
        }
    }
}

/// Cpu and memory on one scale: a core weighs as much as 4 GiB.
#[must_use]
pub fn weight(class: &PodClass) -> i64 {
    let memory = class.requests.memory_bytes / ((4 << 30) / 1000);
    class.requests.cpu_milli.saturating_add(memory)
}

enum Verdict {
    /// Not pending, or held back by its owner.
    Silent,
    Skipped(Reason),
    /// For a node that exists.
    Nominated(Arc<str>),
    Wanted,
}

/// True if an unbound pod wants a node.
///
/// Source: core/podlistprocessor (expendable, DaemonSet) and static_autoscaler.go (age). Differs from upstream: pods of the
/// default scheduler count before it has looked at them, because waiting helps nobody; upstream bypasses no scheduler
/// unless configured to. And a delay of 0 lets a pod in at once rather than a second later.
fn verdict_of(
    pod: &Pod,
    (world, config): (&World, &Config),
    marked: &BTreeSet<gangs::GangId>,
    now: UnixTime,
    wake: &mut Wake,
) -> Verdict {
    if is_silent(pod) {
        return Verdict::Silent;
    }
    if is_daemon(pod) {
        return Verdict::Skipped(Reason::DaemonSetPod);
    }
    if pod.class.priority < config.cluster.expendable_pods_priority_cutoff {
        return Verdict::Skipped(Reason::Expendable);
    }
    // One whose node is gone is a pod like any other: its scheduler has to mark it once more, or never did.
    if let Some(node) = pod.nominated_to(world) {
        return Verdict::Nominated(node.clone());
    }
    let is_marked = || {
        let gang = pod.class.gang.clone();
        gang.is_some_and(|gang| marked.contains(&(pod.class.namespace.clone(), gang)))
    };
    if !pod.unschedulable && !is_immediate(&pod.class, config) && !is_marked() {
        return Verdict::Skipped(Reason::AwaitsScheduler);
    }
    let delay = config.cluster.new_pod_delay.max(pod.class.scale_up_delay.unwrap_or(Seconds(0)));
    let enters = pod.created_at.plus(delay);
    if 0 < delay.0 && now < enters {
        wake.note(enters);
        return Verdict::Skipped(Reason::TooYoung);
    }
    Verdict::Wanted
}

/// True if a pod waits for something else than a node.
fn is_silent(pod: &Pod) -> bool {
    pod.phase.finished() || pod.deletion_at.is_some() || pod.gated
}

/// True if pods of this class are demand before their scheduler has marked them.
pub(crate) fn is_immediate(class: &PodClass, config: &Config) -> bool {
    config.cluster.immediate_schedulers.contains(&class.scheduler)
}

fn is_daemon(pod: &Pod) -> bool {
    pod.class.daemon_set || pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet")
}

fn owner_name(pod: &Pod) -> Arc<str> {
    pod.owner.as_ref().map_or_else(|| Arc::from(&*pod.key.name), |owner| owner.name.clone())
}

fn skip(skipped: &mut Vec<Skipped>, reason: Reason, pod: &Pod) {
    let owner = owner_name(pod);
    let same = |entry: &&mut Skipped| {
        entry.reason == reason && entry.owner == owner && entry.namespace == pod.key.namespace
    };
    // Pods of one owner mostly come together in order of their keys: looking at the last entries is enough.
    let entry = match skipped.iter_mut().rev().take(8).find(same) {
        Some(entry) => entry,
        None => {
            skipped.push(Skipped {
                reason,
                namespace: pod.key.namespace.clone(),
                owner,
                pods_count: 0,
                anticipated_count: 0,
                examples: Vec::new(),
            });
            let last = skipped.len() - 1;
            &mut skipped[last]
        }
    };
    entry.pods_count += 1;
    if entry.examples.len() < EXAMPLES_MAX {
        entry.examples.push(pod.key.to_string().into());
    }
}

fn add_pod(
    groups: &mut Vec<PodGroup>,
    by_class: &mut FxHashMap<ClassIx, usize>,
    id: PodId,
    entry: &PodEntry,
) {
    let class = ClassIx(entry.class.0);
    let index = *by_class.entry(class).or_insert_with(|| {
        groups.push(PodGroup::new(class, &entry.pod.class, entry.pod.key.clone(), owner_name(&entry.pod)));
        groups.len() - 1
    });
    let group = &mut groups[index];
    group.pods.push(PodRef::Real(id));
    group.pods_count += 1;
    if group.examples.len() < EXAMPLES_MAX {
        group.examples.push(entry.pod.key.to_string().into());
    }
}

impl PodGroup {
    pub(crate) fn new(class: ClassIx, pods: &PodClass, key: ObjectKey, owner: Arc<str>) -> Self {
        Self {
            class,
            priority: pods.priority,
            key,
            owner,
            pods: Vec::new(),
            pods_count: 0,
            anticipated_count: 0,
            controllers: Vec::new(),
            examples: Vec::new(),
            on_existing: 0,
            on_new: BTreeMap::new(),
        }
    }

    /// Standby pods of a buffer.
    #[must_use]
    pub fn standby(class: ClassIx, pods: &PodClass, key: ObjectKey, standby: Vec<PodRef>) -> Self {
        let owner = Arc::from(&*key.name);
        let pods_count = u32::try_from(standby.len()).unwrap_or(u32::MAX);
        Self { pods: standby, pods_count, ..Self::new(class, pods, key, owner) }
    }

    /// All of its pods as no demand.
    #[must_use]
    pub fn skipped(self, reason: Reason) -> Skipped {
        Skipped {
            reason,
            namespace: self.key.namespace.clone(),
            owner: self.owner,
            pods_count: self.pods_count,
            anticipated_count: self.anticipated_count,
            examples: self.examples,
        }
    }

    /// Takes the pods without a place but the first `keep` out of the group: they are no demand of this plan.
    pub fn set_aside(&mut self, keep: usize, reason: Reason, world: &World) -> Skipped {
        let count = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
        let aside = self.pods.split_off(keep.min(self.pods.len()));
        let names = aside.iter().filter_map(|pod| match pod {
            PodRef::Real(id) => Some(world.pod(*id).pod.key.to_string().into()),
            PodRef::Virtual(_) | PodRef::Standby(_) => None,
        });
        let examples: Vec<Arc<str>> = names.take(EXAMPLES_MAX).collect();
        let is_virtual = |pod: &&PodRef| matches!(pod, PodRef::Virtual(_));
        let anticipated_count = count(aside.iter().filter(is_virtual).count());
        self.pods_count = self.pods_count.saturating_sub(count(aside.len()));
        self.anticipated_count = self.anticipated_count.saturating_sub(anticipated_count);
        self.examples.retain(|name| !examples.contains(name));
        Skipped {
            reason,
            namespace: self.key.namespace.clone(),
            owner: self.owner.clone(),
            pods_count: count(aside.len()),
            anticipated_count,
            examples,
        }
    }

    /// Takes in pods of the same class that do not exist yet.
    fn absorb(&mut self, anticipated: Self) {
        self.pods.extend(anticipated.pods);
        self.pods_count += anticipated.pods_count;
        self.anticipated_count += anticipated.anticipated_count;
        self.controllers.extend(anticipated.controllers);
    }

    /// Returns the number of pods that have no place yet.
    #[must_use]
    pub fn unplaced(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX)
    }
}

/// Number of pods that are wanted in all, bound or not: replicas decided on, and pods without a node that no controller here
/// counts.
///
/// While it grows, more demand is on its way: pods that are planned for now may be planned better a moment later. Pods
/// that appear for replicas decided on before do not move it.
#[must_use]
pub fn wanted_count(world: &World) -> u64 {
    let mut wanted = 0;
    let mut counted: FxHashSet<&str> = FxHashSet::default();
    for controller in world.controllers() {
        counted.insert(&controller.uid);
        wanted += u64::from(controller.desired.max(world.active_pods_of(&controller.uid)));
    }
    let alone = world
        .unbound()
        .filter(|(_, entry)| !entry.pod.owner.as_ref().is_some_and(|owner| counted.contains(&*owner.uid)));
    wanted + u64::try_from(alone.count()).unwrap_or(u64::MAX)
}
