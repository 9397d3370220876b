//! The trial of one candidate: other places for its pods, its clock, and the bounds. Places and bounds that it takes
//! are gone for the next.

use std::cmp::Reverse;

use crate::bundles;
use crate::candidates::{Candidate, ROUNDS_MAX, is_tight};
use crate::decide::Pass;
use crate::relocation::Destinations;
use crate::removal::{RETRY, Scene};
use crate::standby::{self, Standby};
use crate::verdicts::Verdict;
use headroom_cluster::history::{History, PoolHistory};
use headroom_cluster::scheduling::snapshot::{PodRef, Presence, Snapshot};
use headroom_pools::config::Pool;
use headroom_pools::increase;
use headroom_pools::state::cluster_state::backed_off_until;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::known::Known;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Work units that one plan spends on nodes above the threshold, pod-node checks as elsewhere: a tenth of a second or
/// so. A node that is not reached keeps its clock, and the next plan may reach it.
pub(crate) const CONSOLIDATION_WORK_MAX: u64 = 2_000_000;

impl Pass<'_, '_> {
    /// True if one candidate goes now; the verdict says why not.
    pub(crate) fn try_one(
        &mut self,
        candidate: &Candidate,
        snapshot: &mut Snapshot<'_>,
        destinations: &mut Destinations,
        history: &History,
    ) -> Result<(), Verdict> {
        let config = self.scene.config;
        let pool = &config.pools[candidate.pool];
        let well_used = candidate.reason == Reason::Consolidated;
        let memory = history.pools.get(&pool.name);
        if candidate.sent_away.is_some() {
            // Soon there will be more room, and most of it on nodes that become empty.
            self.ending.hold_up(is_tight(pool));
        }
        let keys = [(pool.name.clone(), None), (pool.name.clone(), Some(candidate.group.clone()))];
        if keys.iter().any(|key| self.room.get(key).copied().unwrap_or(0) == 0) {
            return Err(if well_used { Reason::NotUnderutilized } else { Reason::MinNodesReached }.into());
        }
        let capacity =
            snapshot.node(candidate.ix).real().map(|(_, node)| node.capacity.clone()).unwrap_or_default();
        if !self.spare.has(&capacity) {
            return Err(
                if well_used { Reason::NotUnderutilized } else { Reason::ClusterMinimumReached }.into()
            );
        }
        if let Some(fresh) = candidate.fresh {
            self.wake(fresh.until);
            return Err(fresh.verdict(self.scene));
        }
        if well_used && CONSOLIDATION_WORK_MAX < snapshot.work_units.saturating_sub(self.work_before) {
            let since = memory.and_then(|memory| memory.unneeded.get(&candidate.victim.node).copied());
            self.keep_clock(Some(candidate.pool), &candidate.victim.node, since);
            return Err(Reason::NotUnderutilized.into());
        }
        let guard = self.budget_in_the_way(candidate);
        if let Err(no_place) = self.relocate(candidate, snapshot, destinations) {
            if no_place.reason == Reason::WorkLimitReached {
                let since = memory.and_then(|memory| memory.unneeded.get(&candidate.victim.node).copied());
                self.keep_clock(Some(candidate.pool), &candidate.victim.node, since);
                return Err(no_place);
            }
            if self.ending.foresees(&candidate.victim.node) {
                self.ending.hold_up(is_tight(pool));
                self.ripe(candidate, pool, memory)?;
                return Err(guard.unwrap_or(no_place));
            }
            let guard = guard.or_else(|| self.budget_without_surge(candidate));
            if guard.is_none() && is_tight(pool) && self.splits_gang(candidate).is_none() {
                self.replaceable.push(candidate.clone());
            }
            return Err(match guard {
                Some(guard) => guard,
                None if well_used => Reason::NotUnderutilized.into(),
                None => no_place,
            });
        }
        if let Some(pod) = self.would_serve(candidate, snapshot, memory) {
            return Err(no_place(pod, snapshot, self.scene));
        }
        for key in keys {
            if let Some(left) = self.room.get_mut(&key) {
                *left -= 1;
            }
        }
        self.spare.take(&capacity);
        let ripe = self.ripe(candidate, pool, memory);
        if let Some(guard) = guard {
            return Err(guard);
        }
        ripe?;
        if self.takes_promised_room(candidate, snapshot) {
            return Err(Reason::PromisedRoom.into());
        }
        if let Some(held) = self.held(candidate, pool, memory) {
            return Err(held);
        }
        self.gangs.leave(self.scene.world, &candidate.movable);
        for pod in &candidate.movable {
            let entry = self.scene.world.pod(*pod);
            self.disruptions.spend(entry.class, &entry.pod.class);
        }
        self.surges.take(candidate);
        self.chosen.push(candidate.clone());
        Ok(())
    }

    /// Finds other places for its pods; the node takes no more pods after that.
    pub(crate) fn relocate(
        &mut self,
        candidate: &Candidate,
        snapshot: &mut Snapshot<'_>,
        destinations: &mut Destinations,
    ) -> Result<(), Verdict> {
        let pods = pods_to_move(candidate, snapshot, self.scene);
        let before = snapshot.presence(candidate.ix);
        snapshot.set_presence(candidate.ix, Presence::Ghost);
        let moved = if !pods.is_empty() && self.must_fit_spread(candidate, snapshot) {
            let standby = if candidate.is_for_use() { Standby::of(snapshot) } else { Standby::default() };
            destinations.spread_all(snapshot, &pods, candidate.ix, standby)
        } else {
            let mark = snapshot.checkpoint();
            let moved = destinations.move_all(snapshot, &pods, candidate.ix);
            if moved.is_ok() && keeps_buffers(candidate) && pods.iter().any(is_standby) {
                standby::stays_placed(snapshot).inspect_err(|_| {
                    snapshot.rollback(mark);
                    destinations.forget_last();
                })
            } else {
                moved
            }
        };
        if let Err(pod) = moved
            && candidate.reason != Reason::Unready
        {
            snapshot.set_presence(candidate.ix, before);
            return Err(no_place(pod, snapshot, self.scene));
        }
        Ok(())
    }

    /// Returns a standby pod that waits for a node like the candidate's, which stays for it.
    fn would_serve(
        &mut self,
        candidate: &Candidate,
        snapshot: &mut Snapshot<'_>,
        memory: Option<&PoolHistory>,
    ) -> Option<PodRef> {
        if !keeps_buffers(candidate) {
            return None;
        }
        let until = memory.and_then(|memory| backed_off_until(memory, &candidate.group, self.scene.now));
        self.waiting.take(snapshot, candidate.ix, until.is_some())
    }

    /// True if the pods must find room however the scheduler spreads them: where nodes get full, and where buffers keep
    /// room that it does not know of.
    fn must_fit_spread(&self, candidate: &Candidate, snapshot: &Snapshot<'_>) -> bool {
        is_tight(&self.scene.config.pools[candidate.pool])
            || candidate.is_for_use() && snapshot.has_standby() && !candidate.movable.is_empty()
    }

    /// True if the candidate's clock has run out; it is kept or started here.
    fn ripe(
        &mut self,
        candidate: &Candidate,
        pool: &Pool,
        memory: Option<&PoolHistory>,
    ) -> Result<(), Verdict> {
        let now = self.scene.now;
        let scale_down = &pool.scale_down;
        let unready = candidate.reason == Reason::Unready;
        let stored = memory.and_then(|memory| memory.unneeded.get(&candidate.victim.node).copied());
        // As upstream: a node that turns unready, or ready again, keeps its clock, and only the limit changes.
        let since = stored.unwrap_or(now);
        if candidate.reason != Reason::RemovalRequested {
            self.keep_clock(Some(candidate.pool), &candidate.victim.node, Some(since));
        }
        if let Some(pod) = candidate.waits_for {
            let key = &self.scene.world.pod(pod).pod.key;
            return Err(Verdict::pod(Reason::BlockedByOnCompletionPod, key));
        }
        if let Some(pod) = candidate.sent_away {
            return Err(Verdict::pod(Reason::AwaitsScaleIn, &self.scene.world.pod(pod).pod.key));
        }
        // A removal that has just come to nothing would do so again: the view may be behind, or a permission missing.
        // Without a wait it would be journalled and given up with each plan, many times a second.
        let vain_at = memory.and_then(|memory| memory.removed_in_vain(&candidate.victim.node));
        self.cooled_down(vain_at.filter(|at| *at <= now).map(|at| at.plus(RETRY)))?;
        let failed_at = memory.and_then(|memory| memory.last_failure);
        let after_failure = failed_at.map(|at| at.plus(scale_down.delay_after_failure));
        if candidate.reason == Reason::RemovalRequested {
            let failed = memory.is_some_and(|memory| memory.failed_to_remove(&candidate.victim.node));
            return self.cooled_down(after_failure.filter(|_| failed));
        }
        if candidate.replaced {
            return self.cooled_down(after_failure);
        }
        let settings = GroupSettings::of(pool, &candidate.group, self.scene.world);
        let (limit, reason) = if unready {
            (settings.unready_for(), Reason::NotUnreadyLongEnough)
        } else {
            (settings.unneeded_for(), Reason::NotUnneededLongEnough)
        };
        let due = since.plus(limit);
        // Strictly later, as upstream compares; a limit of 0 is no wait at all.
        if limit > Seconds(0) && now <= due {
            self.wake(due.plus(Seconds(1)));
            return Err(reason.into());
        }
        let Some(memory) = memory else { return Ok(()) };
        // Until the cloud has answered, what was asked of it counts as added.
        let asked = memory.intents.iter().filter(|intent| increase::is_asked(intent));
        let asked_at = asked.map(|intent| intent.started_at).max();
        let cooldowns = [
            (memory.last_scale_up.max(asked_at), scale_down.delay_after_add),
            (memory.last_scale_down, scale_down.delay_after_delete),
        ];
        let ends = cooldowns.iter().filter_map(|(last, delay)| last.map(|last| last.plus(*delay)));
        self.cooled_down(ends.chain(after_failure).max())
    }

    pub(crate) fn cooled_down(&mut self, until: Option<UnixTime>) -> Result<(), Verdict> {
        match until {
            Some(until) if self.scene.now < until => {
                self.wake(until);
                Err(Reason::InCooldown.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the verdict that holds a ripe candidate back; nothing is taken from a budget then.
    fn held(&mut self, candidate: &Candidate, pool: &Pool, memory: Option<&PoolHistory>) -> Option<Verdict> {
        if self.scene.config.cluster.voluntary_disruption_stopped {
            return Some(Reason::DisruptionStopped.into());
        }
        if self.scene.health.forbids(&candidate.zone) {
            return Some(Reason::ClusterUnhealthy.into());
        }
        let state = self.scene.world.provider(&pool.name).and_then(Known::value);
        if let Some(hold) = state.and_then(|state| state.groups.get(&candidate.group)?.hold.as_ref())
            && !hold.except.contains(&candidate.victim.id)
        {
            let object = Some(format!("group/{}", candidate.group).into());
            return Some(Verdict { reason: hold.reason, object });
        }
        if !bundles::has_room(&self.chosen, candidate, memory) {
            return Some(Reason::JournalFull.into());
        }
        let world = self.scene.world;
        let cutoff = self.scene.config.cluster.expendable_pods_priority_cutoff;
        for pod in &candidate.movable {
            let entry = world.pod(*pod);
            let class = &entry.pod.class;
            if class.priority < cutoff || candidate.gets_surge_for(*pod) {
                continue;
            }
            let guard = if is_tight(pool) {
                self.disruptions.crowded(entry.class, class, ROUNDS_MAX)
            } else {
                self.disruptions.exhausted(entry.class, class)
            };
            if let Some(budget) = guard {
                return Some(Verdict::pdb(self.disruptions.key(budget)));
            }
        }
        if let Some(breaks) = self.breaks_gang(candidate, true) {
            return Some(breaks);
        }
        let held = self.allowance.take(pool, candidate.reason).err()?;
        Some(Verdict { reason: held.reason, object: held.object })
    }
}

/// True if its room is worth less than that of a buffer: it may go because it is not needed.
fn keeps_buffers(candidate: &Candidate) -> bool {
    candidate.is_for_use() || candidate.reason == Reason::Empty
}

fn is_standby(pod: &PodRef) -> bool {
    matches!(pod, PodRef::Standby(_))
}

/// Puts pods into the order in which they are moved: highest priority first, since the scheduler serves them so.
///
/// Source: simulator/scheduling/hinting_simulator.go and clustersnapshot, SortPodsByPriority.
pub(crate) fn most_important_first(pods: &mut [PodRef], snapshot: &Snapshot<'_>) {
    pods.sort_by_key(|pod| Reverse(snapshot.class(snapshot.class_of(*pod)).priority));
}

/// The pods that must find another place, in the order in which they are moved: its own, and those that were moved here
/// in the same pass.
pub(crate) fn pods_to_move(candidate: &Candidate, snapshot: &Snapshot<'_>, scene: &Scene<'_>) -> Vec<PodRef> {
    let cutoff = scene.config.cluster.expendable_pods_priority_cutoff;
    let needs_place = |pod: &PodRef| match pod {
        PodRef::Real(id) => {
            let pod = &scene.world.pod(*id).pod;
            pod.class.priority >= cutoff && pod.deletion_at.is_none()
        }
        PodRef::Virtual(_) => true,
        // A node whose removal is requested goes, and a dead one holds no room: it is kept elsewhere.
        PodRef::Standby(_) => !matches!(candidate.reason, Reason::RemovalRequested | Reason::Unready),
    };
    let mut pods: Vec<PodRef> = candidate.movable.iter().map(|id| PodRef::Real(*id)).collect();
    pods.extend(snapshot.pods(candidate.ix).filter(|pod| moved_in(pod, candidate, scene)));
    // One pod more of each workload that gets one for the drain: no place for it, no drain.
    let extra = candidate.surges.iter().filter_map(|surge| surge.pods.first());
    pods.extend(extra.map(|pod| PodRef::Virtual(snapshot.class_of(PodRef::Real(*pod)))));
    pods.retain(needs_place);
    most_important_first(&mut pods, snapshot);
    pods
}

/// True if this pod of the snapshot was moved here from another node in the same pass.
fn moved_in(pod: &PodRef, candidate: &Candidate, scene: &Scene<'_>) -> bool {
    match pod {
        PodRef::Real(id) => scene.world.pod(*id).pod.node.as_ref() != Some(&candidate.victim.node),
        PodRef::Virtual(_) | PodRef::Standby(_) => true,
    }
}

/// Returns the reason why a pod has no other place: devices, if there are nodes that would take it but for its claims.
fn without_place(pod: PodRef, snapshot: &Snapshot<'_>) -> Reason {
    let class = snapshot.class_of(pod);
    let takes = |node| snapshot.would_take_without_claims(class, node);
    let lacks_devices = snapshot.has_device_claims(class) && snapshot.indexes().any(takes);
    if lacks_devices { Reason::NoPlaceForClaims } else { Reason::NoPlaceToMovePods }
}

/// Reason why a pod has no other place, as far as there was work left to look for one.
pub(crate) fn no_place(pod: PodRef, snapshot: &Snapshot<'_>, scene: &Scene<'_>) -> Verdict {
    if snapshot.is_spent() {
        return Reason::WorkLimitReached.into();
    }
    match pod {
        PodRef::Real(id) => Verdict::pod(without_place(pod, snapshot), &scene.world.pod(id).pod.key),
        PodRef::Virtual(_) => without_place(pod, snapshot).into(),
        PodRef::Standby(number) => {
            let owner = snapshot.owner_of_standby(number);
            let of_buffer = owner.starts_with("capacitybuffer/");
            let reason = if of_buffer { Reason::HoldsBuffer } else { Reason::PlannedFor };
            Verdict { reason, object: Some(owner.clone()) }
        }
    }
}
