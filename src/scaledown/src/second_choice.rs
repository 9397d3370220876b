//! Nodes of pools that are not to stay the second choice: those that could leave if a preferred pool took over. It buys
//! nothing.

use crate::candidates::{self, Candidate, Classification};
use crate::decide::Pass;
use crate::rotation;
use headroom_cluster::scheduling::snapshot::Snapshot;
use headroom_pools::config::Mode;
use headroom_values::reason::Reason;

impl Pass<'_, '_> {
    /// Collects nodes of pools with `prefer_other_pool` that nothing keeps, and that nothing else removes or replaces.
    pub(crate) fn classify_second_choice(&mut self, snapshot: &Snapshot<'_>) {
        let config = self.scene.config;
        let wanted: Vec<bool> = config
            .pools
            .iter()
            .map(|pool| pool.scale_down.rotation.prefer_other_pool && pool.mode == Mode::Apply)
            .collect();
        if !wanted.contains(&true) {
            return;
        }
        for (id, node, _) in self.scene.world.nodes() {
            let Some(member) = self.scene.members.member(id).filter(|member| wanted[member.pool]) else {
                continue;
            };
            let elsewhere = self.leaving.contains_key(&node.name)
                || self.interrupted.contains_key(&id)
                || self.replacing.names(&node.name)
                || rotation::outdated(node, member, &config.pools[member.pool], self.scene).is_some();
            let Some(ix) = snapshot.index_of(id).filter(|_| !elsewhere) else { continue };
            let because = Some(Reason::NotPreferred);
            let classified =
                candidates::classify(id, ix, self.scene, snapshot, &mut self.disruptions, None, because);
            if let Classification::Candidate(one) = self.keep_gang(classified)
                && one.reason == Reason::NotPreferred
                && is_free(&one)
            {
                self.second_choice.push(one);
            }
        }
        self.scene.work_done();
    }

    /// Keeps a node that waits for one of a preferred pool if it, or a pod that came meanwhile, is too young to be moved.
    pub(crate) fn keep_rested(&mut self, classified: Classification) -> Classification {
        let Classification::Candidate(candidate) = &classified else { return classified };
        match candidate.fresh.filter(|_| candidate.reason == Reason::NotPreferred) {
            Some(fresh) => {
                self.wake(fresh.until);
                Classification::Stays(fresh.verdict(self.scene))
            }
            None => classified,
        }
    }
}

/// True if no pod of the node has to end first, and no budget refuses one of them.
fn is_free(candidate: &Candidate) -> bool {
    candidate.waits_for.is_none() && candidate.sent_away.is_none() && candidate.guarded_by.is_none()
}
