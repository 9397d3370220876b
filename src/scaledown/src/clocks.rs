//! Since when each node has been unneeded, as the plan before left it.

use headroom_cluster::history::History;
use headroom_cluster::world::NodeId;
use headroom_values::time::UnixTime;

use crate::removal::Scene;

/// The clocks of all pools by the ids of their nodes: a pass asks for that of every node, and names take longer to compare.
pub(crate) struct Clocks(Vec<Option<UnixTime>>);

impl Clocks {
    /// Of each pool the clocks of the nodes that `pool_of` finds in it.
    pub(crate) fn of(
        history: &History,
        scene: &Scene<'_>,
        pool_of: impl Fn(NodeId) -> Option<usize>,
    ) -> Self {
        let mut by_id = Vec::new();
        for (index, pool) in scene.config.pools.iter().enumerate() {
            let memory = history.pools.get(&pool.name);
            for (name, since) in memory.iter().flat_map(|memory| &memory.unneeded) {
                let Some((id, _, _)) = scene.world.node_named(name) else { continue };
                if pool_of(id) != Some(index) {
                    continue;
                }
                if by_id.is_empty() {
                    by_id = vec![None; scene.world.node_capacity()];
                }
                by_id[id.0 as usize] = Some(*since);
            }
        }
        Self(by_id)
    }

    /// Time since which the node has been unneeded; `None` for one that has no clock.
    pub(crate) fn since(&self, id: NodeId) -> Option<UnixTime> {
        self.0.get(id.0 as usize).copied().flatten()
    }
}
