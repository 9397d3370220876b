//! Nodes that might go, by each node's own state and its own pods. Other places for its pods are looked for later.

use std::sync::Arc;

use crate::device_utilization as device_use;
use crate::drainability::{Block, Disruptions, Drainability, Rules};
use crate::removal::Scene;
use crate::rotation::{is_rotation, preferred};
use crate::surge::Surging;
use crate::utilization::{Measure, Share, Utilization, deciding, utilization, utilization_of_sum};
use crate::verdicts::Verdict;
use headroom_cluster::history::Victim;
use headroom_cluster::scheduling::snapshot::{NodeIx, PodRef, Presence, Snapshot};
use headroom_cluster::world::digest::NodeDigest;
use headroom_cluster::world::node::{Node, REMOVE_ANNOTATION, Readiness, SCALE_DOWN_DISABLED_ANNOTATION};
use headroom_cluster::world::pod::{PROTECTED_FOREVER, Pod};
use headroom_cluster::world::{NodeEntry, NodeId, PodId};
use headroom_pools::config::{Config, Mode, Policy, Pool};
use headroom_pools::state::foreign::{Membership, Ownership, marked_by};
use headroom_pools::state::group_settings::GroupSettings;
use headroom_pools::state::health::not_started;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// A provider view older than this says nothing about sizes (design rule 6).
pub const PROVIDER_AGE_MAX: Seconds = Seconds(300);

/// Rounds of evictions for which pods of nodes that leave together may wait, where nodes get full: each round takes what
/// the budgets allow at once. The last ones wait about as long as replacements need to start, that many times.
pub const ROUNDS_MAX: u32 = 5;

/// True if nodes of this pool get full. Then all that can leave are marked together, even if their budgets let the pods go
/// only in rounds: pods that moved to a node which leaves next would be disrupted twice.
#[must_use]
pub fn is_tight(pool: &Pool) -> bool {
    pool.scale_down.policy != Policy::WhenUnderutilized
}

/// A node that may go if its pods find other places.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its id in the world.
    pub id: NodeId,
    /// Its place in the snapshot.
    pub ix: NodeIx,
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// Its group.
    pub group: Arc<str>,
    /// Its zone; empty when it has none.
    pub zone: Arc<str>,
    /// Victim as it would be named to the provider.
    pub victim: Victim,
    /// Reason why it would go.
    pub reason: Reason,
    /// Pods that need another place.
    pub movable: Vec<PodId>,
    /// The first pod that must run to its end before.
    pub waits_for: Option<PodId>,
    /// The first pod that its controller is about to delete. It is none of `movable`, and the node waits for it.
    pub sent_away: Option<PodId>,
    /// The PodDisruptionBudget that allows no eviction of one of them now.
    pub guarded_by: Option<usize>,
    /// The pods whose budgets allow no eviction of them now.
    pub guarded: Vec<PodId>,
    /// Workloads that get one replica more for its drain: each makes room in the budget of some of `guarded`.
    pub surges: Vec<Surging>,
    /// Time since which it has been unneeded.
    pub since: Option<UnixTime>,
    /// The youngest of it and its pods, while that is too young to be moved; only for those that would go for their use or cost.
    pub fresh: Option<Fresh>,
    /// True if nodes that cost less were bought in its place and are ready: it has no clock to wait for.
    pub replaced: bool,
}

/// What is too young on a node for it to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Time until which it is.
    pub until: UnixTime,
    /// The pod; `None` if it is the node itself.
    pub pod: Option<PodId>,
}

impl Fresh {
    /// The youngest of these pods, and of the node where its creation is given, for as long as it is younger than `rest`.
    #[must_use]
    pub fn of(movable: &[PodId], node: Option<UnixTime>, rest: Seconds, scene: &Scene<'_>) -> Option<Self> {
        let pods = movable.iter().map(|id| (scene.world.pod(*id).pod.created_at, Some(*id)));
        // Of pods of one second always the same, whatever order they came in.
        let key = |pod: Option<PodId>| pod.map(|id| &scene.world.pod(id).pod.key);
        let youngest = pods
            .chain(node.map(|at| (at, None)))
            .max_by(|(a, pod), (b, other)| a.cmp(b).then_with(|| key(*pod).cmp(&key(*other))))?;
        let fresh = Self { until: youngest.0.plus(rest), pod: youngest.1 };
        Some(fresh).filter(|fresh| scene.now < fresh.until)
    }

    /// The one that is too young for longer.
    #[must_use]
    pub fn longer(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).max_by_key(|fresh| fresh.until)
    }

    /// Why the node stays.
    #[must_use]
    pub fn verdict(&self, scene: &Scene<'_>) -> Verdict {
        match self.pod {
            Some(pod) => Verdict::pod(Reason::RecentlyDisrupted, &scene.world.pod(pod).pod.key),
            None => Reason::RecentlyDisrupted.into(),
        }
    }
}

/// Effect of a candidate's pods on its removal.
#[derive(Default)]
struct Load {
    movable: Vec<PodId>,
    waits_for: Option<PodId>,
    sent_away: Option<PodId>,
    guarded_by: Option<usize>,
    guarded: Vec<PodId>,
}

impl Load {
    /// True if nothing has to move or to end.
    fn is_empty(&self) -> bool {
        self.movable.is_empty() && self.waits_for.is_none()
    }
}

impl Candidate {
    /// A node that its cloud is about to take, with the pods that move.
    pub(crate) fn interrupted(
        at: (NodeId, NodeIx),
        node: &Node,
        member: &Membership<'_>,
        movable: Vec<PodId>,
    ) -> Self {
        let load = Load { movable, ..Load::default() };
        candidate(at, node, member, Reason::Interrupted, load, None)
    }

    /// True if it may wait so as to leave together with others, or because they leave no room: in pools whose nodes get
    /// full, and for its utilization alone.
    #[must_use]
    pub fn may_wait(&self, config: &Config) -> bool {
        is_tight(&config.pools[self.pool]) && self.is_for_use() && !self.replaced
    }

    /// True if it may go for its utilization alone: nothing is wrong with it, and nobody asks for it.
    #[must_use]
    pub fn is_for_use(&self) -> bool {
        matches!(self.reason, Reason::Underutilized | Reason::Consolidated)
    }

    /// The order in which candidates are looked at: those asked for, empty ones, dead ones, then others. Among equals
    /// those that were unneeded before keep their turn, so that clocks do not start anew, then those with fewer pods.
    /// Candidates that a budget guards come last: they may stay for long, and must not take places from those that can
    /// go.
    #[must_use]
    pub fn rank(&self) -> (bool, u8, UnixTime, usize) {
        let class = self.turn();
        (self.guarded_by.is_some(), class, self.since.unwrap_or(UnixTime(i64::MAX)), self.movable.len())
    }

    /// True if it is neither asked for, empty, dead nor replaced: the pods of such nodes are what may take much work.
    #[must_use]
    pub fn is_one_of_many(&self) -> bool {
        2 < self.turn()
    }

    fn turn(&self) -> u8 {
        match self.reason {
            Reason::RemovalRequested => 0,
            // Before empty ones, on which its pods may have their place.
            reason if self.replaced && is_rotation(reason) => 0,
            Reason::Empty => 1,
            Reason::Unready => 2,
            _ if self.replaced => 2,
            Reason::Consolidated => 4,
            _ => 3,
        }
    }
}

/// Either a verdict, or a candidate. `None` for nodes on their way out or of no concern.
#[derive(Clone, Debug)]
pub enum Classification {
    /// It stays.
    Stays(Verdict),
    /// It may go.
    Candidate(Candidate),
}

/// True if nothing keeps the nodes of a pool from being classified one by one.
#[must_use]
pub fn open_to_removal(pool: &Pool, scene: &Scene<'_>) -> bool {
    let open = scene.work_on(&pool.name) && pool_in_the_way(pool, false, scene).is_none();
    scene.work_done();
    open
}

/// True if a node is above its threshold, as far as its digest shows; `None` if that takes a look at its pods or devices.
#[must_use]
pub fn is_digest_above(digest: &NodeDigest, settings: GroupSettings<'_>, config: &Config) -> Option<bool> {
    let NodeDigest { requested, allocatable, .. } = *digest;
    let summed = digest.unusual_count == 0 && config.cluster.expendable_pods_priority_cutoff <= 0;
    let measured = allocatable.cpu_milli != 0 && allocatable.memory_bytes != 0 && !digest.extended;
    let share = |requested, allocatable| Share { requested, allocatable };
    let above = || {
        deciding(
            share(requested.cpu_milli, allocatable.cpu_milli),
            share(requested.memory_bytes, allocatable.memory_bytes),
        )
        .exceeds_percent(settings.utilization_threshold_percent())
    };
    (summed && measured && settings.counts_all_pods()).then(above)
}

/// Classifies one node that no open removal names. An `outdated` one may go whatever its use.
///
/// Source: Cluster Autoscaler, scaledown/eligibility/eligibility.go, FilterOutUnremovable.
/// Differs from upstream: a node that is unready is classified by its state and not by its requests, and
/// pending pods planned onto a node keep it.
#[must_use]
pub fn classify(
    id: NodeId,
    ix: NodeIx,
    scene: &Scene<'_>,
    snapshot: &Snapshot<'_>,
    disruptions: &mut Disruptions<'_>,
    since: Option<UnixTime>,
    outdated: Option<Reason>,
) -> Classification {
    let entry = scene.world.node(id);
    let Some(node) = &entry.node else { return Classification::Stays(Reason::NotManaged.into()) };
    let stays = |reason: Reason| Classification::Stays(reason.into());
    let member = match scene.members.ownership(id) {
        Ownership::Member(member) => member,
        Ownership::Unlisted { .. } => return stays(Reason::ProviderUnknown),
        Ownership::SharedId { .. } => return Classification::Stays(Verdict::twin(scene.world.twin_of(id))),
        Ownership::Foreign => return stays(Reason::ForeignNode),
        Ownership::NotManaged => return stays(Reason::NotManaged),
    };
    let pool = &scene.config.pools[member.pool];
    if !scene.work_on(&pool.name) {
        return stays(Reason::Internal);
    }
    let requested = node.annotations.get(REMOVE_ANNOTATION) == Some("requested");
    let starting = || not_started(node, pool, scene.now).then_some(Reason::NotStarted);
    if let Some(reason) =
        pool_in_the_way(pool, requested, scene).or_else(|| node_in_the_way(node, requested)).or_else(starting)
    {
        return stays(reason);
    }
    let unready = node.ready != Readiness::Ready;
    let above = !requested
        && !unready
        && outdated.is_none()
        && above_threshold(entry, ix, scene, snapshot, GroupSettings::of(pool, member.group, scene.world));
    if above && pool.scale_down.policy == Policy::WhenUnderutilized {
        return stays(Reason::NotUnderutilized);
    }
    if planned_for(ix, &entry.name, scene, snapshot) {
        return stays(Reason::PlannedFor);
    }
    if !requested && !unready && !device_use::is_measurable(&entry.name, scene.world.devices()) {
        return stays(Reason::DevicePoolIncomplete);
    }
    match load(id, scene, pool, disruptions, !requested && !unready) {
        // A node that is well used stays for that, whatever else would keep it.
        Err(_) if above => stays(Reason::NotUnderutilized),
        Err(verdict) => Classification::Stays(verdict),
        Ok(load) => {
            let reason = match (requested, unready) {
                (true, _) => Reason::RemovalRequested,
                (false, true) => Reason::Unready,
                // An empty node leaves as such, whichever pool is preferred.
                (false, false) if outdated == Some(Reason::NotPreferred) && load.is_empty() => Reason::Empty,
                (false, false) if outdated.is_some() => outdated.unwrap_or(Reason::Expired),
                (false, false) if load.is_empty() => Reason::Empty,
                (false, false) if above => Reason::Consolidated,
                (false, false) => Reason::Underutilized,
            };
            let mut candidate = candidate((id, ix), node, member, reason, load, since);
            candidate.fresh = match reason {
                Reason::Consolidated => fresh(node, &candidate.movable, pool, scene),
                Reason::NotPreferred => preferred::fresh(node, &candidate.movable, scene),
                _ => None,
            };
            Classification::Candidate(candidate)
        }
    }
}

/// The node or one of these pods, if it is too young to be disturbed by consolidation.
#[must_use]
pub fn fresh(node: &Node, movable: &[PodId], pool: &Pool, scene: &Scene<'_>) -> Option<Fresh> {
    let Policy::WhenCheaper(consolidation) = pool.scale_down.policy else { return None };
    Fresh::of(movable, Some(node.created_at), consolidation.consolidate_after, scene)
}

fn candidate(
    (id, ix): (NodeId, NodeIx),
    node: &Node,
    member: &Membership<'_>,
    reason: Reason,
    load: Load,
    since: Option<UnixTime>,
) -> Candidate {
    let Load { movable, waits_for, sent_away, guarded_by, guarded } = load;
    Candidate {
        id,
        ix,
        pool: member.pool,
        group: Arc::clone(member.group),
        zone: node.zone().into(),
        victim: Victim { node: node.name.clone(), id: Arc::clone(member.instance) },
        reason,
        movable,
        waits_for,
        sent_away,
        guarded_by,
        guarded,
        surges: Vec::new(),
        since,
        fresh: None,
        replaced: false,
    }
}

/// Reason why no node of the pool may go.
fn pool_in_the_way(pool: &Pool, requested: bool, scene: &Scene<'_>) -> Option<Reason> {
    if pool.deleting {
        return Some(Reason::PoolDeleting);
    }
    if pool.mode == Mode::Suspend {
        return Some(Reason::Suspended);
    }
    if !pool.scale_down.enabled && !requested {
        return Some(Reason::ScaleDownDisabled);
    }
    let provider = scene.world.provider(&pool.name);
    let fresh = provider.is_some_and(|known| known.fresh(scene.now, PROVIDER_AGE_MAX).is_some());
    (!fresh).then_some(Reason::ProviderUnknown)
}

/// Reason why this node may not go, whatever runs on it.
pub(crate) fn node_in_the_way(node: &Node, requested: bool) -> Option<Reason> {
    if node.deleting {
        return Some(Reason::NodeGone);
    }
    if marked_by(node).is_some() {
        // The mark of a removal that has ended: it is coming off now.
        return Some(Reason::InCooldown);
    }
    if node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true") {
        return Some(Reason::ScaleDownDisabledAnnotation);
    }
    (node.is_protected() && !requested).then_some(Reason::DoNotDisruptAnnotation)
}

fn above_threshold(
    entry: &NodeEntry,
    ix: NodeIx,
    scene: &Scene<'_>,
    snapshot: &Snapshot<'_>,
    settings: GroupSettings<'_>,
) -> bool {
    let Some(node) = &entry.node else { return true };
    let cutoff = scene.config.cluster.expendable_pods_priority_cutoff;
    let measure = Measure {
        priority_cutoff: Some(cutoff),
        ignore_daemon_sets: settings.ignore_daemon_sets(),
        ignore_mirror: settings.ignore_mirror(),
        ..Measure::default()
    };
    let above = |found: Utilization| {
        let percent = if found.on_gpu {
            settings.gpu_utilization_threshold_percent()
        } else {
            settings.utilization_threshold_percent()
        };
        found.share().exceeds_percent(percent)
    };
    if let Some(share) = share_of_devices(entry, ix, scene, snapshot, &settings) {
        return share.exceeds_percent(settings.gpu_utilization_threshold_percent());
    }
    // Where no pod can be left out, the sum that the world keeps gives the same result without a look at each pod.
    if entry.unusual_count == 0 && cutoff <= 0 && settings.counts_all_pods() {
        return utilization_of_sum(node, &entry.requested, &measure).map_or(true, above);
    }
    // Pods that are only planned count apart: they keep the node without ending its clock.
    let counts = |pod: &&Pod| pod.node.as_ref() == Some(&node.name);
    let pods = snapshot.pods(ix).filter_map(|pod| match pod {
        PodRef::Real(id) => Some(&scene.world.pod(id).pod).filter(counts),
        PodRef::Virtual(_) | PodRef::Standby(_) => None,
    });
    // A node that offers nothing cannot be measured, and stays.
    utilization(node, pods, &measure, scene.now).map_or(true, above)
}

/// Returns the share of a node's devices that pods bound to it use; `None` for a node without devices.
///
/// Source: Cluster Autoscaler, simulator/utilization/info.go, Calculate: a node with devices is measured by them alone.
fn share_of_devices(
    entry: &NodeEntry,
    ix: NodeIx,
    scene: &Scene<'_>,
    snapshot: &Snapshot<'_>,
    settings: &GroupSettings<'_>,
) -> Option<Share> {
    let devices = scene.world.devices();
    if devices.has_no_local_slices() {
        return None;
    }
    let counts = |pod: PodRef| match pod {
        PodRef::Real(id) => {
            let pod = &scene.world.pod(id).pod;
            pod.node.as_ref() == Some(&entry.name) && !(pod.class.daemon_set && settings.ignore_daemon_sets())
        }
        PodRef::Virtual(_) | PodRef::Standby(_) => false,
    };
    device_use::share(&entry.name, devices, &snapshot.devices_held(ix, counts))
}

/// True if the plan has put pods on the node that are not bound to it. Room that a buffer keeps is not a pod: it finds
/// another place, or holds the node when it is tried.
fn planned_for(ix: NodeIx, name: &Arc<str>, scene: &Scene<'_>, snapshot: &Snapshot<'_>) -> bool {
    !snapshot.untouched(ix)
        && snapshot.pods(ix).any(|pod| match pod {
            PodRef::Real(id) => scene.world.pod(id).pod.node.as_ref() != Some(name),
            PodRef::Virtual(_) => true,
            PodRef::Standby(_) => false,
        })
}

/// Returns the pods that must move, the first one that must end, and the budget that guards them for now; or the
/// verdict if the node is blocked.
///
/// Differs from upstream: a budget without room says nothing about whether the node is needed. It holds
/// the removal back and not the clock, which would else start anew after each eviction of a neighbour's pod.
///
/// If the node `waits`, pods that a scale-in has sent away are not moved: their controller is about to delete them.
fn load(
    id: NodeId,
    scene: &Scene<'_>,
    pool: &Pool,
    disruptions: &mut Disruptions<'_>,
    waits: bool,
) -> Result<Load, Verdict> {
    let rules = Rules::of(&pool.scale_down.drain);
    let cutoff = scene.config.cluster.expendable_pods_priority_cutoff;
    let mut load = Load::default();
    for pod in &scene.world.node(id).pods {
        let entry = scene.world.pod(*pod);
        let expendable = entry.pod.class.priority < cutoff;
        if entry.pod.phase.finished() {
            continue;
        }
        if waits && scene.world.is_sent_away(&entry.pod, scene.now) {
            load.sent_away = load.sent_away.or(Some(*pod));
            continue;
        }
        let answer = rules.drainability(entry, scene.world, disruptions, scene.now);
        let evicted = match &answer {
            Drainability::Move => true,
            Drainability::Block(block) => block.budget.is_some(),
            Drainability::Skip | Drainability::DaemonSet | Drainability::OnCompletion => false,
        };
        if evicted
            && !expendable
            && let Some(budget) = disruptions.several(entry)
        {
            return Err(Verdict::pdb(disruptions.key(budget)));
        }
        match answer {
            Drainability::Skip | Drainability::DaemonSet => {}
            Drainability::Move => load.movable.push(*pod),
            Drainability::Block(Block { reason: Reason::DoNotDisruptAnnotation, .. }) => {
                return Err(Verdict::pod(Reason::DoNotDisruptAnnotation, &entry.pod.key));
            }
            _ if expendable => load.movable.push(*pod),
            Drainability::OnCompletion => load.waits_for = load.waits_for.or(Some(*pod)),
            Drainability::Block(block) => match block.budget {
                Some(budget) => {
                    let guard = if is_tight(pool) {
                        disruptions.crowded(entry.class, &entry.pod.class, ROUNDS_MAX)
                    } else {
                        Some(budget)
                    };
                    if guard.is_some() {
                        load.guarded.push(*pod);
                    }
                    load.guarded_by = load.guarded_by.or(guard);
                    load.movable.push(*pod);
                }
                None => return Err(Verdict::pod(block.reason, &entry.pod.key)),
            },
        }
    }
    Ok(load)
}

/// The next instant at which the protection of one of the node's pods ends; `None` when none ends by time.
#[must_use]
pub fn protection_end(id: NodeId, scene: &Scene<'_>) -> Option<UnixTime> {
    let pods = scene.world.node(id).pods.iter().map(|pod| &scene.world.pod(*pod).pod);
    let ends = pods.filter(|pod| pod.is_protected(scene.now)).filter_map(|pod| pod.protected_until);
    ends.min().filter(|end| *end < PROTECTED_FOREVER)
}

/// True if the node may take pods of others: it is there, real, and nothing is known against it.
#[must_use]
pub fn takes_pods(ix: NodeIx, snapshot: &Snapshot<'_>) -> bool {
    snapshot.presence(ix) == Presence::Present && snapshot.is_ready(ix)
}
