//! Gangs that run keep the pods that they need at once. Removals that go on all the same are not chosen by us.

use std::sync::Arc;

use crate::bundles;
use crate::candidates::{Candidate, Classification};
use crate::decide::Pass;
use crate::removal::Scene;
use crate::rotation;
use crate::verdicts::Verdict;
use headroom_cluster::world::PodId;
use headroom_cluster::world::running_gangs::RunningGangs;
use headroom_pools::config::Pool;
use headroom_values::reason::Reason;

/// True if the removal of a node for this reason waits for gangs. Not if the node is dead, unhealthy, too old or about to be
/// taken: the wait would have no end, or be in vain. One that has drifted waits until it is too old as well.
#[must_use]
pub(crate) fn waits_for_gangs(reason: Reason, node: &str, pool: &Pool, scene: &Scene<'_>) -> bool {
    match reason {
        Reason::Underutilized | Reason::Consolidated | Reason::NotPreferred | Reason::RemovalRequested => {
            true
        }
        Reason::Drifted => {
            let node = scene.world.node_named(node).map(|(_, node, _)| node);
            let expires_at = node.and_then(|node| rotation::expires_at(node, &pool.scale_down.rotation));
            expires_at.is_none_or(|at| scene.now < at)
        }
        _ => false,
    }
}

impl Pass<'_, '_> {
    /// Keeps a node whose own pods are more than a gang may lose, whatever else leaves. Where others are bought first, no
    /// part of a gang moves whose pods are disrupted all at once.
    pub(crate) fn keep_gang(&self, classified: Classification) -> Classification {
        let Classification::Candidate(candidate) = classified else { return classified };
        let bought_first =
            matches!(candidate.reason, Reason::Consolidated | Reason::Drifted | Reason::NotPreferred);
        let split = || self.splits_gang(&candidate).filter(|_| bought_first);
        match self.breaks_gang(&candidate, false).or_else(split) {
            // A node that is well used stays for that, whatever else would keep it.
            Some(_) if candidate.reason == Reason::Consolidated => {
                Classification::Stays(Reason::NotUnderutilized.into())
            }
            Some(verdict) => Classification::Stays(verdict),
            None => Classification::Candidate(candidate),
        }
    }

    /// The gang that would have fewer pods than it needs without those of the candidate; with what leaves besides, if
    /// `with_others`.
    pub(crate) fn breaks_gang(&self, candidate: &Candidate, with_others: bool) -> Option<Verdict> {
        let short = || self.gangs.short_without(self.scene.world, &candidate.movable, with_others);
        self.asks(candidate).then(short).flatten().map(|pod| self.gang_breaks(pod))
    }

    /// The gang of which only a part would move, although its pods are disrupted all at once.
    pub(crate) fn splits_gang(&self, candidate: &Candidate) -> Option<Verdict> {
        let split = || self.gangs.split_by(self.scene.world, &candidate.movable);
        self.asks(candidate).then(split).flatten().map(|pod| self.gang_breaks(pod))
    }

    /// Lets candidates go again with which a part of a gang would leave whose pods are disrupted all at once. `before` is
    /// without the pods of all that were chosen.
    pub(crate) fn keep_gangs_whole(&mut self, before: RunningGangs) {
        while before.any_whole() {
            let mut after = before.clone();
            self.chosen.iter().for_each(|one| after.leave(self.scene.world, &one.movable));
            let split = |one: &Candidate| {
                let pod = after.split_by(self.scene.world, &one.movable).filter(|_| self.asks(one))?;
                Some((one.victim.node.clone(), self.gang_breaks(pod)))
            };
            let Some((node, verdict)) = self.chosen.iter().find_map(split) else { return };
            self.drop_with_group(&node, &verdict);
        }
    }

    /// Lets one of the chosen go again, and with it those that go only together with it.
    fn drop_with_group(&mut self, node: &Arc<str>, verdict: &Verdict) {
        let config = self.scene.config;
        let whole = |one: &&Candidate| bundles::goes_whole(one, config);
        let named = self.chosen.iter().find(|one| one.victim.node == *node);
        let group = named.filter(whole).map(|one| (one.pool, one.group.clone()));
        let goes = |one: &Candidate| {
            let together = whole(&one)
                && group.as_ref().is_some_and(|(pool, group)| (one.pool, &one.group) == (*pool, group));
            one.victim.node == *node || together
        };
        let (dropped, kept): (Vec<Candidate>, Vec<Candidate>) =
            std::mem::take(&mut self.chosen).into_iter().partition(goes);
        self.chosen = kept;
        for one in dropped {
            self.verdict(one.id, Some(one.pool), verdict.clone());
        }
    }

    fn asks(&self, candidate: &Candidate) -> bool {
        let pool = &self.scene.config.pools[candidate.pool];
        waits_for_gangs(candidate.reason, &candidate.victim.node, pool, self.scene)
    }

    fn gang_breaks(&self, pod: PodId) -> Verdict {
        Verdict::pod(Reason::GangWouldBreak, &self.scene.world.pod(pod).pod.key)
    }
}
