//! Choice of the nodes that go now: eligible, placed elsewhere, unneeded for long enough, and within every bound. It
//! marks and evicts nothing: that is the life of a removal.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::budgets::{self, Allowance};
use crate::bundles;
use crate::candidates::{self, Candidate, Classification, Fresh};
use crate::clocks::Clocks;
use crate::consolidation::Replacing;
use crate::drainability::Disruptions;
use crate::eviction_cooldown::Cooldowns;
use crate::message::message;
use crate::minimums::{self, Room, Spare};
use crate::promised::Promised;
use crate::relocation::Destinations;
use crate::removal::{Opening, Scene, holds_node, open_intent};
use crate::rotation;
use crate::standby::Waiting;
use crate::surge::Surges;
use crate::terminating::Ending;
use crate::trial;
use crate::turns::{Turn, scattered};
use crate::verdicts::{self, Verdict};
use crate::whole::Wholes;
use crate::zone_balance;
use headroom_cluster::history::fit::trim_unneeded;
use headroom_cluster::history::{History, PoolHistory, RemovalPhase};
use headroom_cluster::scheduling::snapshot::{NodeIx, PodRef, Presence, Snapshot};
use headroom_cluster::world::NodeId;
use headroom_cluster::world::node::POOL_LABEL;
use headroom_cluster::world::running_gangs::RunningGangs;
use headroom_pools::config::Mode;
use headroom_pools::interruption;
use headroom_pools::plan::{PreviewAction, Step};
use headroom_pools::state::foreign::Ownership;
use headroom_pools::state::group_settings::{GroupSettings, KnownSettings};
use headroom_pools::verdicts::NodeVerdicts;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Result of the decision.
#[derive(Clone, Debug, Default)]
pub struct ScaleDown {
    /// The first steps of new removals.
    pub steps: Vec<Step>,
    /// One verdict for each node, in order of names.
    pub verdicts: NodeVerdicts,
    /// Removals that pools of mode Preview would have begun.
    pub preview: Vec<PreviewAction>,
    /// Nodes whose pods find no place on others, and might do on nodes that cost less.
    pub replaceable: Vec<Candidate>,
    /// Outdated nodes that could leave if others took over.
    pub outdated: Vec<Candidate>,
    /// Outdated nodes of each pool that rotates.
    pub outdated_counts: BTreeMap<Arc<str>, u32>,
    /// Nodes of pools that are not to be the second choice for longer than needed, and that could leave if others took over.
    pub second_choice: Vec<Candidate>,
    /// Time at which another decision may be due although nothing happens.
    pub wake_at: Option<UnixTime>,
}

/// Decides which nodes go, opens their removals in `history`, and reports why the others stay.
///
/// `snapshot` holds what the same plan has placed before: pending pods on nodes that exist, and nodes to come. `waiting` are
/// the standby pods that got no place. Open removals have been advanced.
#[must_use]
pub fn decide(
    scene: &Scene<'_>,
    snapshot: &mut Snapshot<'_>,
    history: &mut History,
    waiting: Waiting,
) -> ScaleDown {
    let mut pass = Pass { waiting, ..Pass::new(scene, history) };
    if scene.freshness.stale {
        pass.all_stay(Reason::StaleView);
    } else {
        pass.promised = Promised::of(scene, snapshot, history);
        pass.reserve(snapshot, history);
        if !pass.scene.world.devices().has_no_local_slices() {
            snapshot.look_at_devices();
        }
        let candidates = pass.classify_all(snapshot, history);
        scene.work_done();
        pass.classify_second_choice(snapshot);
        pass.try_all(candidates, snapshot, history);
        pass.drop_refused(history);
        pass.open_all(history);
        pass.note_clocks(history);
        if let Some(at) = budgets::next_change(scene.config, scene.now) {
            pass.wake(at);
        }
        if let Some(at) = scene.world.sent_away_until(scene.now) {
            pass.wake(at);
        }
    }
    // Nodes of the world come first in a snapshot, in order of their names.
    pass.verdicts.sort_by_key(|node| snapshot.index_of(node));
    verdicts::remember(history, &pass.verdicts, scene.world, scene.now);
    ScaleDown {
        steps: pass.steps,
        verdicts: pass.verdicts,
        preview: pass.preview.into_values().collect(),
        outdated: pass.outdated,
        second_choice: pass.second_choice,
        outdated_counts: pass.outdated_counts,
        replaceable: if pass.ending.holds_up() { Vec::new() } else { pass.replaceable },
        wake_at: pass.wake_at,
    }
}

/// One pass over all nodes.
pub(crate) struct Pass<'a, 's> {
    pub(crate) scene: &'a Scene<'s>,
    pub(crate) disruptions: Disruptions<'s>,
    /// Gangs that run, less the pods of nodes that leave.
    pub(crate) gangs: RunningGangs,
    pub(crate) allowance: Allowance<'s>,
    /// Nodes that may still go before a bound is reached, by pool and by group.
    pub(crate) room: Room,
    /// Cpu and memory that may still leave before the cluster's minimum is reached.
    pub(crate) spare: Spare,
    /// Nodes of open removals, with the reason.
    pub(crate) leaving: BTreeMap<Arc<str>, Reason>,
    /// Clocks as they shall be, by index of the pool.
    clocks: BTreeMap<usize, BTreeMap<Arc<str>, UnixTime>>,
    pub(crate) chosen: Vec<Candidate>,
    /// Candidates that only lack another place, in pools that may replace them.
    pub(crate) replaceable: Vec<Candidate>,
    /// The snapshot's work counter when candidates began to be tried.
    pub(crate) work_before: u64,
    /// Nodes that lack room only because pods are ending.
    pub(crate) ending: Ending,
    /// Room on ready nodes that pods are waiting for.
    pub(crate) promised: Promised,
    pub(crate) replacing: Replacing,
    /// Controllers of which pods were evicted a short time ago.
    pub(crate) cooldowns: Cooldowns,
    /// Workloads that may have one replica more.
    pub(crate) surges: Surges<'s>,
    /// Standby pods without a place, less those for which a node stays.
    pub(crate) waiting: Waiting,
    outdated: Vec<Candidate>,
    pub(crate) second_choice: Vec<Candidate>,
    outdated_counts: BTreeMap<Arc<str>, u32>,
    pub(crate) settings: KnownSettings<'s>,
    verdicts: NodeVerdicts,
    preview: BTreeMap<Arc<str>, PreviewAction>,
    steps: Vec<Step>,
    wake_at: Option<UnixTime>,
    /// Nodes that their cloud is about to take, with the source that announces it.
    pub(crate) interrupted: BTreeMap<NodeId, Arc<str>>,
}

impl<'a, 's> Pass<'a, 's> {
    fn new(scene: &'a Scene<'s>, history: &History) -> Self {
        let mut leaving = BTreeMap::new();
        for memory in history.pools.values() {
            for (intent, removal) in memory.removals() {
                leaving.extend(removal.victims.iter().map(|victim| (victim.node.clone(), intent.reason)));
            }
        }
        Self {
            scene,
            disruptions: Disruptions::of(scene.world),
            gangs: RunningGangs::of(scene.world, scene.config.cluster.expendable_pods_priority_cutoff),
            allowance: Allowance::new(scene.config, history, scene.health.ready.clone(), scene.now),
            room: minimums::of(scene, &leaving),
            spare: Spare::of(scene, &leaving),
            leaving,
            clocks: BTreeMap::new(),
            chosen: Vec::new(),
            replaceable: Vec::new(),
            work_before: 0,
            ending: Ending::default(),
            promised: Promised::default(),
            replacing: Replacing::of(scene, history),
            cooldowns: Cooldowns::of(history),
            surges: Surges::of(scene.world, history),
            waiting: Waiting::default(),
            outdated: Vec::new(),
            second_choice: Vec::new(),
            outdated_counts: BTreeMap::new(),
            settings: KnownSettings::default(),
            verdicts: NodeVerdicts::new(scene.world, scene.config),
            preview: BTreeMap::new(),
            steps: Vec::new(),
            wake_at: None,
            interrupted: interruption::of(scene.world, history, scene.config),
        }
    }

    pub(crate) fn wake(&mut self, at: UnixTime) {
        if self.scene.now < at {
            self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
        }
    }

    pub(crate) fn verdict(&mut self, node: NodeId, pool: Option<usize>, verdict: Verdict) {
        let Verdict { reason, object } = verdict;
        self.verdicts.push(node, pool, reason, object);
    }

    /// The pool that a verdict on this node belongs to.
    fn pool_of(&self, id: NodeId) -> Option<usize> {
        match self.scene.members.ownership(id) {
            Ownership::Member(member) => Some(member.pool),
            Ownership::Unlisted { pool } | Ownership::SharedId { pool } => Some(*pool),
            // Ours by its label, and taken by another autoscaler: the pool it is missing from says so.
            Ownership::Foreign => self.labelled(id),
            Ownership::NotManaged => None,
        }
    }

    /// The pool that the node's label names.
    fn labelled(&self, id: NodeId) -> Option<usize> {
        let name = self.scene.world.node(id).node.as_ref()?.labels.get(POOL_LABEL)?;
        self.scene.config.pools.iter().position(|pool| &*pool.name == name)
    }

    /// Every node stays for one reason; clocks are left as they are.
    fn all_stay(&mut self, reason: Reason) {
        for (id, _, _) in self.scene.world.digests() {
            let pool = self.pool_of(id);
            self.verdict(id, pool, reason.into());
        }
    }

    /// Reserves other places for the pods of nodes that are leaving, and spends the budgets that guard them.
    fn reserve(&mut self, snapshot: &mut Snapshot<'_>, history: &History) {
        let mut nodes = Vec::new();
        for memory in history.pools.values() {
            for (_, removal) in memory.removals() {
                if removal.phase != RemovalPhase::Undoing {
                    nodes.extend(removal.victims.iter().filter_map(|victim| snapshot.named(&victim.node)));
                }
            }
        }
        for id in self.interrupted.keys() {
            self.gangs.leave(self.scene.world, &self.scene.world.node(*id).pods);
            // They have been placed with the pods that want a node.
            for pod in interruption::displaced(*id, self.scene.world, self.scene.config) {
                let entry = self.scene.world.pod(pod);
                self.disruptions.spend(entry.class, &entry.pod.class);
            }
        }
        if nodes.is_empty() {
            return;
        }
        let order = snapshot.indexes().filter(|ix| candidates::takes_pods(*ix, snapshot)).collect();
        let mut destinations = Destinations::new(order);
        for ix in nodes {
            if let Some((id, _)) =
                snapshot.node(ix).real().filter(|(id, _)| !self.interrupted.contains_key(id))
            {
                self.gangs.leave(self.scene.world, &self.scene.world.node(id).pods);
            }
            snapshot.set_presence(ix, Presence::Ghost);
            let mut pods: Vec<PodRef> = snapshot.pods(ix).collect();
            trial::most_important_first(&mut pods, snapshot);
            for pod in pods {
                let PodRef::Real(id) = pod else { continue };
                let entry = self.scene.world.pod(id);
                if !holds_node(&entry.pod, self.scene.now) {
                    continue;
                }
                match entry.pod.deletion_at {
                    None => self.disruptions.spend(entry.class, &entry.pod.class),
                    Some(_) => self.disruptions.note_stopping(entry.class, &entry.pod.class),
                }
                // No place: it is demand for new nodes, and others' concern.
                let _ = destinations.move_all(snapshot, &[pod], ix);
            }
        }
    }

    /// Classifies every node by itself.
    fn classify_all(&mut self, snapshot: &Snapshot<'_>, history: &History) -> Vec<Candidate> {
        let mut found = Vec::new();
        let clocks = Clocks::of(history, self.scene, |id| self.pool_of(id));
        let Scene { config, members, .. } = *self.scene;
        let open: Vec<bool> =
            config.pools.iter().map(|pool| candidates::open_to_removal(pool, self.scene)).collect();
        self.verdicts.reserve(snapshot.real_count());
        let rotations = self.rotations(history);
        let turn = Turn::at(self.scene.now, self.scene.world.pods_count());
        for (place, (id, name, digest)) in self.scene.world.digests().enumerate() {
            let pool = self.pool_of(id);
            let outdated = if rotations.is_empty() { None } else { self.outdated_now(id) };
            let outdated =
                outdated.or_else(|| self.replacing.is_second_choice(name).then_some(Reason::NotPreferred));
            if let Some(reason) = (!self.leaving.is_empty()).then(|| self.leaving.get(name)).flatten() {
                let verdict = Verdict::from(*reason);
                self.verdict(id, pool, verdict);
                continue;
            }
            if let Some(member) = members.member(id)
                && outdated.is_none()
                && !self.interrupted.contains_key(&id)
                && open[member.pool]
                && let Some(reason) =
                    self.stays_unseen((id, name, digest), member, turn.has(place), clocks.since(id))
            {
                self.verdict(id, pool, reason.into());
                continue;
            }
            let Some(ix) = snapshot.index_of(id) else { continue };
            if self.interrupted.contains_key(&id) {
                if let Err(verdict) = self.interrupt(id, ix, history) {
                    self.verdict(id, pool, verdict);
                }
                continue;
            }
            let since = clocks.since(id);
            let classified =
                candidates::classify(id, ix, self.scene, snapshot, &mut self.disruptions, since, outdated);
            match self.keep_rested(self.keep_gang(self.cool_down(classified))) {
                Classification::Stays(verdict) => {
                    self.replacing.refuse(name, verdict.reason);
                    if keeps_clock(verdict.reason) {
                        self.keep_clock(pool, name, since);
                    }
                    if verdict.reason == Reason::DoNotDisruptAnnotation
                        && let Some(end) = candidates::protection_end(id, self.scene)
                    {
                        self.wake(end);
                    }
                    self.verdict(id, pool, verdict);
                }
                Classification::Candidate(mut candidate) => match self.consider_replacement(&mut candidate) {
                    None if rotation::is_rotation(candidate.reason) && !candidate.replaced => {
                        self.await_turn(candidate, &rotations);
                    }
                    None => found.push(candidate),
                    Some(reason) => {
                        self.keep_clock(pool, name, since);
                        self.verdict(id, pool, reason.into());
                    }
                },
            }
        }
        found
    }

    /// Makes a node that would go for its use alone wait while a pod on it came in place of an evicted one a short time ago.
    fn cool_down(&self, mut classified: Classification) -> Classification {
        if let Classification::Candidate(candidate) = &mut classified
            && candidate.is_for_use()
        {
            let cooldown = self.scene.config.pools[candidate.pool].scale_down.eviction_cooldown;
            let came = self.cooldowns.youngest(&candidate.movable, cooldown, self.scene);
            candidate.fresh = Fresh::longer(candidate.fresh, came);
        }
        classified
    }

    /// Reason why outdated nodes of each rotating pool wait when nothing of their own keeps them.
    fn rotations(&self, history: &History) -> BTreeMap<usize, Reason> {
        let pools = self.scene.config.pools.iter().enumerate();
        let rotating = pools.filter(|(_, pool)| pool.scale_down.rotation.is_on());
        rotating
            .map(|(index, pool)| {
                let stopped = |memory: &PoolHistory| rotation::is_stopped(memory, pool, self.scene);
                let full = || pool.max_nodes <= minimums::size(self.scene, &pool.name, &BTreeMap::new());
                let reason = match history.pools.get(&pool.name) {
                    Some(memory) if stopped(memory) => Reason::RotationStopped,
                    _ if full() => Reason::NoRoomToRotate,
                    _ => Reason::AwaitsRotation,
                };
                (index, reason)
            })
            .collect()
    }

    /// Reason why the node is outdated now; it is counted, and a node that is not yet is looked at again when it expires.
    fn outdated_now(&mut self, id: NodeId) -> Option<Reason> {
        let member = self.scene.members.member(id)?;
        let pool = &self.scene.config.pools[member.pool];
        let node = self.scene.world.node(id).node.as_ref().filter(|_| pool.scale_down.rotation.is_on())?;
        let found = rotation::outdated(node, member, pool, self.scene);
        let count = self.outdated_counts.entry(pool.name.clone()).or_insert(0);
        *count += u32::from(found.is_some());
        for at in rotation::changes_at(node, &pool.scale_down.rotation) {
            self.wake(at);
        }
        found
    }

    /// Keeps an outdated node until nodes have been bought in its place.
    fn await_turn(&mut self, candidate: Candidate, rotations: &BTreeMap<usize, Reason>) {
        let (node, pool) = (candidate.id, Some(candidate.pool));
        if let Some(pod) = candidate.waits_for {
            let key = &self.scene.world.pod(pod).pod.key;
            return self.verdict(node, pool, Verdict::pod(Reason::BlockedByOnCompletionPod, key));
        }
        if let Some(verdict) = self.budget_in_the_way(&candidate) {
            return self.verdict(node, pool, verdict);
        }
        let reason = rotations.get(&candidate.pool).copied().unwrap_or(Reason::AwaitsRotation);
        self.verdict(node, pool, reason.into());
        self.outdated.push(candidate);
    }

    pub(crate) fn keep_clock(&mut self, pool: Option<usize>, node: &Arc<str>, since: Option<UnixTime>) {
        if let (Some(pool), Some(since)) = (pool, since) {
            self.clocks.entry(pool).or_default().insert(node.clone(), since);
        }
    }

    /// Tries candidates in order; places and bounds that one takes are gone for the next. Preview pools come after all
    /// others.
    fn try_all(&mut self, mut found: Vec<Candidate>, snapshot: &mut Snapshot<'_>, history: &History) {
        if found.is_empty() {
            return;
        }
        let apply = |candidate: &Candidate| self.scene.config.pools[candidate.pool].mode == Mode::Apply;
        let turns = zone_balance::turns(&found, self.scene, &self.leaving);
        found.sort_by(|a, b| {
            let turn = |one: &Candidate| Reverse(turns.get(&one.victim.node).copied());
            let key = |one: &Candidate| (!apply(one), one.rank(), turn(one));
            key(a).cmp(&key(b)).then_with(|| a.victim.node.cmp(&b.victim.node))
        });
        begin_elsewhere(&mut found, history, self.scene);
        let mut destinations = Destinations::new(destination_order(&found, snapshot));
        self.work_before = snapshot.work_units;
        let gangs = self.gangs.clone();
        self.take_places(&mut found, snapshot, &destinations);
        self.foresee(&found, snapshot, &destinations);
        let mark = snapshot.checkpoint();
        let mut wholes = Wholes::of(&mut found, self.scene);
        for candidate in found {
            if bundles::goes_whole(&candidate, self.scene.config)
                && let Some(members) = wholes.take(&candidate)
            {
                let outside = wholes.outside(&candidate, &members);
                self.try_whole(&members, outside, snapshot, &mut destinations, history);
                continue;
            }
            if let Err(verdict) = self.try_one(&candidate, snapshot, &mut destinations, history) {
                self.verdict(candidate.id, Some(candidate.pool), verdict);
            }
        }
        snapshot.rollback(mark);
        self.wait_for_what_is_held_up();
        self.keep_what_fits_together(snapshot);
        self.keep_gangs_whole(gangs);
    }

    /// Nodes that were replaced go together or not at all: where one of them has no place for its pods any more, buying
    /// for them was in vain.
    fn take_places(
        &mut self,
        found: &mut [Candidate],
        snapshot: &mut Snapshot<'_>,
        destinations: &Destinations,
    ) {
        if !found.iter().any(|candidate| candidate.replaced) {
            return;
        }
        let (mark, mut trial) = (snapshot.checkpoint(), destinations.clone());
        let replaced = found.iter().filter(|candidate| candidate.replaced);
        let nodes: Vec<NodeIx> = replaced.clone().map(|candidate| candidate.ix).collect();
        nodes.iter().for_each(|ix| snapshot.set_presence(*ix, Presence::Ghost));
        let stays = |candidate: &&Candidate| match self.relocate(candidate, snapshot, &mut trial) {
            // A node that was not looked at is neither refused nor, as it is tried once more below, let go.
            Err(verdict) => verdict.reason != Reason::WorkLimitReached,
            Ok(()) => false,
        };
        let refused: Vec<Arc<str>> =
            replaced.filter(stays).map(|candidate| candidate.victim.node.clone()).collect();
        snapshot.rollback(mark);
        for node in &refused {
            self.replacing.refuse(node, Reason::NoPlaceToMovePods);
        }
        if !refused.is_empty() {
            // Classified anew as what they are, nodes that are well used, by the next plan.
            found.iter_mut().filter(|candidate| candidate.replaced).for_each(|candidate| {
                candidate.replaced = false;
                candidate.fresh = Some(Fresh { until: self.scene.now.plus(Seconds(1)), pod: None });
            });
        }
    }

    /// A replacement whose nodes cannot leave has failed.
    fn drop_refused(&mut self, history: &mut History) {
        self.replacing.settle(history, self.scene);
    }

    /// Opens the removals of the chosen, those that go together in one intent.
    fn open_all(&mut self, history: &mut History) {
        for bundle in bundles::of(std::mem::take(&mut self.chosen), history, self.scene.config) {
            self.open(&bundle, history);
        }
    }

    fn open(&mut self, candidates: &[Candidate], history: &mut History) {
        let Some(first) = candidates.first() else { return };
        let pool = &self.scene.config.pools[first.pool];
        let pods = candidates.iter().map(|candidate| candidate.movable.len()).sum::<usize>();
        let pods_count = u32::try_from(pods).unwrap_or(u32::MAX);
        let count = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        let id = self.scene.world.node_named(&first.victim.node).map(|(id, _, _)| id);
        let notice = id.and_then(|id| self.interrupted.get(&id)).map_or("", |notice| notice);
        let settings = GroupSettings::of(pool, &first.group, self.scene.world);
        let message = message(candidates, pods_count, settings, notice);
        let verdict = if pool.mode == Mode::Apply { first.reason } else { Reason::PreviewOnly };
        for candidate in candidates {
            self.verdict(candidate.id, Some(first.pool), verdict.into());
        }
        let from = minimums::size(self.scene, &pool.name, &self.leaving);
        if pool.mode != Mode::Apply {
            let action = self.preview.entry(pool.name.clone()).or_insert_with(|| PreviewAction {
                pool: pool.name.clone(),
                from,
                to: from,
                reason: first.reason,
                message: message.clone().into(),
            });
            action.to = action.to.saturating_sub(count);
            return;
        }
        let opening = Opening {
            group: first.group.clone(),
            victims: candidates.iter().map(|candidate| candidate.victim.clone()).collect(),
            reason: first.reason,
            message,
            pods_count,
            from,
            surges: self.surges.begun(candidates),
        };
        let memory = history.pools.entry(pool.name.clone()).or_default();
        self.steps.extend(open_intent(memory, self.scene.config, pool, opening, self.scene.now));
        for candidate in candidates {
            self.leaving.insert(candidate.victim.node.clone(), first.reason);
            if let Some(clocks) = self.clocks.get_mut(&first.pool) {
                clocks.remove(&candidate.victim.node);
            }
        }
    }

    /// Writes each pool's clocks: kept where the node was found removable again, gone for all others.
    fn note_clocks(&mut self, history: &mut History) {
        for (index, pool) in self.scene.config.pools.iter().enumerate() {
            let mut clocks = self.clocks.remove(&index).unwrap_or_default();
            trim_unneeded(&mut clocks);
            match history.pools.get_mut(&pool.name) {
                Some(memory) => memory.unneeded = clocks,
                None if clocks.is_empty() => {}
                None => history.pools.entry(pool.name.clone()).or_default().unneeded = clocks,
            }
        }
    }
}

/// True if a node that stays for this reason keeps its clock: the reason says nothing about whether it is needed.
fn keeps_clock(reason: Reason) -> bool {
    matches!(reason, Reason::PlannedFor | Reason::ProviderUnknown)
}

/// After a plan whose work did not reach all candidates, those of one turn begin at another one each second: nobody's pods
/// keep the others from being looked at for good.
fn begin_elsewhere(found: &mut [Candidate], history: &History, scene: &Scene<'_>) {
    let cut = |memory: &PoolHistory| {
        memory.blocked.iter().any(|blocked| blocked.reason == Reason::WorkLimitReached)
    };
    if !history.pools.values().any(cut) {
        return;
    }
    let may_go =
        |one: &Candidate| scene.config.pools[one.pool].mode == Mode::Apply && one.guarded_by.is_none();
    let first = found.partition_point(|one| may_go(one) && !one.is_one_of_many());
    let count = found[first..].partition_point(may_go);
    if 1 < count {
        found[first..first + count].rotate_left(scattered(scene.now, count));
    }
}

/// Nodes that stay for sure first, by name; then candidates, those likeliest to go last: pods that must move twice
/// are moved for nothing.
fn destination_order(found: &[Candidate], snapshot: &Snapshot<'_>) -> Vec<NodeIx> {
    let candidates: FxHashSet<NodeIx> = found.iter().map(|candidate| candidate.ix).collect();
    let takes = |ix: &NodeIx| candidates::takes_pods(*ix, snapshot);
    let stay = snapshot.indexes().filter(|ix| !candidates.contains(ix));
    stay.chain(found.iter().rev().map(|candidate| candidate.ix)).filter(takes).collect()
}
