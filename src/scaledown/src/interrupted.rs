//! Nodes that their cloud is about to take leave at once: no clock, no minimum and no place for their pods is asked for.

use crate::bundles;
use crate::candidates::{self, Candidate};
use crate::decide::Pass;
use crate::removal::RETRY;
use crate::verdicts::Verdict;
use headroom_cluster::history::History;
use headroom_cluster::scheduling::snapshot::NodeIx;
use headroom_cluster::world::NodeId;
use headroom_pools::interruption::displaced;
use headroom_values::reason::Reason;

impl Pass<'_, '_> {
    /// Chooses a node that its cloud is about to take; the verdict says why it is left alone all the same.
    pub(crate) fn interrupt(&mut self, id: NodeId, ix: NodeIx, history: &History) -> Result<(), Verdict> {
        let scene = self.scene;
        let (member, node) = (scene.members.member(id), scene.world.node(id).node.as_ref());
        let Some((member, node)) = member.zip(node) else { return Err(Reason::NotManaged.into()) };
        let pool = &scene.config.pools[member.pool];
        if !scene.work_on(&pool.name) {
            return Err(Reason::Internal.into());
        }
        if let Some(reason) = candidates::node_in_the_way(node, false) {
            return Err(reason.into());
        }
        let memory = history.pools.get(&pool.name);
        let vain_at = memory.and_then(|memory| memory.removed_in_vain(&node.name));
        self.cooled_down(vain_at.filter(|at| *at <= scene.now).map(|at| at.plus(RETRY)))?;
        let candidate =
            Candidate::interrupted((id, ix), node, member, displaced(id, scene.world, scene.config));
        if !bundles::has_room(&self.chosen, &candidate, memory) {
            return Err(Reason::JournalFull.into());
        }
        if let Err(held) = self.allowance.take(pool, Reason::Interrupted) {
            return Err(Verdict { reason: held.reason, object: held.object });
        }
        for key in [(pool.name.clone(), None), (pool.name.clone(), Some(candidate.group.clone()))] {
            if let Some(left) = self.room.get_mut(&key) {
                *left = left.saturating_sub(1);
            }
        }
        self.spare.take(&node.capacity);
        self.chosen.push(candidate);
        Ok(())
    }
}
