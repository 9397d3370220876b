//! Groups that go as a whole or not at all. It chooses no group, and lets one go only if all its nodes may.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bundles;
use crate::candidates::Candidate;
use crate::decide::Pass;
use crate::relocation::Destinations;
use crate::removal::Scene;
use crate::verdicts::Verdict;
use headroom_cluster::history::History;
use headroom_cluster::scheduling::snapshot::Snapshot;
use headroom_values::reason::Reason;

/// A group of a pool, by the pool's index.
type Key = (usize, Arc<str>);

/// The candidates of such groups, each with those of its group.
#[derive(Debug, Default)]
pub(crate) struct Wholes {
    members: BTreeMap<Key, Vec<Candidate>>,
    /// Names of the registered nodes of each group.
    nodes: BTreeMap<Key, Vec<Arc<str>>>,
}

impl Wholes {
    /// Takes all candidates of such groups out of `found` but the first of each, which stands for its group.
    pub(crate) fn of(found: &mut Vec<Candidate>, scene: &Scene<'_>) -> Self {
        let mut wholes = Self::default();
        if !scene.config.pools.iter().any(headroom_pools::config::Pool::scales_whole) {
            return wholes;
        }
        found.retain(|candidate| {
            if !bundles::goes_whole(candidate, scene.config) {
                return true;
            }
            let members = wholes.members.entry((candidate.pool, candidate.group.clone())).or_default();
            members.push(candidate.clone());
            members.len() == 1
        });
        for (id, name, digest) in scene.world.digests() {
            if let Some(member) = scene.members.member(id)
                && !digest.deleting
            {
                wholes.nodes.entry((member.pool, member.group.clone())).or_default().push(name.clone());
            }
        }
        wholes
    }

    /// The candidates of the group that this one stands for.
    pub(crate) fn take(&mut self, candidate: &Candidate) -> Option<Vec<Candidate>> {
        let members = self.members.get_mut(&(candidate.pool, candidate.group.clone()))?;
        Some(std::mem::take(members)).filter(|members| !members.is_empty())
    }

    /// The first node of the group that is no candidate.
    pub(crate) fn outside(&self, candidate: &Candidate, members: &[Candidate]) -> Option<Arc<str>> {
        let nodes = self.nodes.get(&(candidate.pool, candidate.group.clone()))?;
        nodes.iter().find(|node| members.iter().all(|member| member.victim.node != **node)).cloned()
    }
}

impl Pass<'_, '_> {
    /// Lets a group go if every one of its nodes may go now; else none goes, and nothing of what they took is gone. Their
    /// clocks run all the same.
    ///
    /// Source: core/scaledown/actuation/budgets and unneeded, AtomicScaleDownFailed: all registered nodes or none.
    pub(crate) fn try_whole(
        &mut self,
        members: &[Candidate],
        outside: Option<Arc<str>>,
        snapshot: &mut Snapshot<'_>,
        destinations: &mut Destinations,
        history: &History,
    ) {
        let mark = snapshot.checkpoint();
        let (room, spare, disruptions) = (self.room.clone(), self.spare, self.disruptions.clone());
        let gangs = self.gangs.clone();
        let (allowance, chosen, moved) = (self.allowance.clone(), self.chosen.len(), destinations.clone());
        self.allowance.begin_whole();
        let tried: Vec<Result<(), Verdict>> =
            members.iter().map(|one| self.try_one(one, snapshot, destinations, history)).collect();
        self.allowance.end_whole();
        let refused = members.iter().zip(&tried).find(|(_, tried)| tried.is_err());
        let Some(stays) = outside.or_else(|| refused.map(|(one, _)| one.victim.node.clone())) else { return };
        snapshot.rollback(mark);
        (self.room, self.spare, self.disruptions, self.gangs) = (room, spare, disruptions, gangs);
        (self.allowance, *destinations) = (allowance, moved);
        self.chosen.truncate(chosen);
        let object: Arc<str> = format!("node/{stays}").into();
        for (one, tried) in members.iter().zip(tried) {
            let whole = || Verdict { reason: Reason::GroupGoesAsWhole, object: Some(object.clone()) };
            let verdict = tried.err().unwrap_or_else(whole);
            self.verdict(one.id, Some(one.pool), verdict);
        }
    }
}
