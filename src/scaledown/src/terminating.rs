//! Nodes that could leave once the pods that are ending have ended: their clocks run meanwhile. It chooses nothing.
//!
//! Differs from upstream: there a pod that is ending holds its node's room like any other, so that after a large rollout
//! or cut the clocks start one by one, whenever the last pod in the way has gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::candidates::Candidate;
use crate::decide::Pass;
use crate::relocation::Destinations;
use crate::trial::CONSOLIDATION_WORK_MAX;
use crate::utilization::long_terminating;
use headroom_cluster::scheduling::snapshot::{NodeIx, PodRef, Presence, Snapshot};
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::reason::Reason;
use headroom_values::time::Seconds;

/// Time after its clock for which a node waits for pods that are ending, so that it leaves together with the nodes that
/// they hold up. Pods that moved to a node which leaves a little later would be disrupted twice.
const TOGETHER_WAIT: Seconds = Seconds(60);

/// Nodes that lack room only because pods are ending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Candidates whose pods have room once all that is ending has ended.
    foreseen: BTreeSet<Arc<str>>,
    /// True if one of them, in a pool whose nodes get full, has no room now.
    held_up: bool,
}

impl Ending {
    /// True if the node could leave if all that is ending had ended.
    pub(crate) fn foresees(&self, node: &Arc<str>) -> bool {
        self.foreseen.contains(node)
    }

    /// True if a foreseen node, in a pool whose nodes get full, has no room yet: there will be more of it soon, and nothing
    /// is bought in place of what is there.
    pub(crate) fn holds_up(&self) -> bool {
        self.held_up
    }

    /// Notes that a foreseen node has no room yet.
    pub(crate) fn hold_up(&mut self, tight: bool) {
        self.held_up |= tight;
    }
}

impl Pass<'_, '_> {
    /// Finds the candidates that could leave if all that is ending had ended. The snapshot is left as it was.
    pub(crate) fn foresee(
        &mut self,
        found: &[Candidate],
        snapshot: &mut Snapshot<'_>,
        destinations: &Destinations,
    ) {
        let ending = self.pods_that_end(snapshot);
        if ending.is_empty() {
            return;
        }
        let (mark, mut trial) = (snapshot.checkpoint(), destinations.clone());
        for (pod, node) in ending {
            snapshot.remove(pod, node);
        }
        for candidate in found {
            if candidate.fresh.is_some() {
                continue;
            }
            if CONSOLIDATION_WORK_MAX < snapshot.work_units.saturating_sub(self.work_before) {
                break;
            }
            if self.relocate(candidate, snapshot, &mut trial).is_ok() {
                self.ending.foreseen.insert(candidate.victim.node.clone());
            }
        }
        snapshot.rollback(mark);
        self.work_before = snapshot.work_units;
    }

    /// Terminating pods on ready nodes that are still within their grace period, and pods that a scale-in has sent away.
    fn pods_that_end(&self, snapshot: &Snapshot<'_>) -> Vec<(PodRef, NodeIx)> {
        let world = self.scene.world;
        let mut found = Vec::new();
        for id in world.unusual_nodes() {
            let Some(ix) = snapshot.index_of(id).filter(|ix| snapshot.presence(*ix) == Presence::Present)
            else {
                continue;
            };
            let ends = |pod: &PodRef| match pod {
                PodRef::Real(id) => {
                    let pod = &world.pod(*id).pod;
                    pod.deletion_at.is_some() && !long_terminating(pod, self.scene.now)
                }
                PodRef::Virtual(_) | PodRef::Standby(_) => false,
            };
            found.extend(snapshot.pods(ix).filter(ends).map(|pod| (pod, ix)));
        }
        for id in world.sent_away(self.scene.now) {
            let ix = world.pod(id).node.and_then(|node| snapshot.index_of(node));
            let ix = ix.filter(|ix| snapshot.presence(*ix) == Presence::Present);
            found.extend(ix.map(|ix| (PodRef::Real(id), ix)));
        }
        found
    }

    /// Lets go of what could leave now while pods that are ending hold up others that could leave with it, for a while.
    pub(crate) fn wait_for_what_is_held_up(&mut self) {
        if !self.ending.holds_up() {
            return;
        }
        let scene = self.scene;
        for one in std::mem::take(&mut self.chosen) {
            let pool = &scene.config.pools[one.pool];
            let limit = GroupSettings::of(pool, &one.group, scene.world).unneeded_for();
            let until = one.since.unwrap_or(scene.now).plus(limit).plus(TOGETHER_WAIT);
            if one.may_wait(scene.config) && scene.now < until {
                self.wake(until);
                self.verdict(one.id, Some(one.pool), Reason::NotUnneededLongEnough.into());
            } else {
                self.chosen.push(one);
            }
        }
    }
}
