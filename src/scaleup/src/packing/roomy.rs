//! Nodes that were there and have room for pods which new nodes elsewhere may make legal, looked for once while nodes are
//! bought. It places nothing.

use rustc_hash::FxHashMap;

use crate::packing::may_come_round;
use crate::placement::LOOKS_PER_UNIT;
use headroom_cluster::scheduling::{ClassIx, NodeIx, Snapshot};

/// Entries that are kept over all classes: 16 MiB.
const KEPT_MAX: usize = 4 << 20;

/// By class: nodes with room for one more pod, whose own rules accept it, in order.
///
/// It holds as long as pods only come onto nodes, and nodes are only added: what was too full stays so. What has got too full since
/// is still in the lists, so each node is looked at again before a pod is placed there.
#[derive(Clone, Debug, Default)]
pub struct RoomyNodes {
    by_class: FxHashMap<ClassIx, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    nodes: Vec<NodeIx>,
    /// Nodes before this one have been looked at.
    seen: usize,
}

impl RoomyNodes {
    /// Looks at the nodes that it has not seen yet, for a class whose pods may come round; `limit` of the work counter ends it.
    pub(super) fn find(&mut self, snapshot: &mut Snapshot<'_>, class: ClassIx, limit: u64) {
        if !may_come_round(snapshot.class(class)) {
            return;
        }
        let kept: usize = self.by_class.values().map(|known| known.nodes.len()).sum();
        if KEPT_MAX < kept {
            self.by_class.clear();
        }
        let known = self.by_class.entry(class).or_default();
        let (first, end) = (known.seen, snapshot.nodes_capacity());
        // Gone ones too: none of them is roomy, and leaving them out before would take a look at each.
        let unseen = (first..end).filter_map(|at| u32::try_from(at).ok().map(NodeIx));
        let roomy: Vec<NodeIx> = unseen.filter(|node| snapshot.roomy(class, *node)).collect();
        let looks = end - first + roomy.len();
        snapshot.work_units += u64::try_from(looks / LOOKS_PER_UNIT).unwrap_or(u64::MAX);
        let before = known.nodes.len();
        known.nodes.extend(roomy.into_iter().filter(|node| snapshot.could_host_within(class, *node, limit)));
        if snapshot.work_units < limit {
            known.seen = end;
        } else {
            // Some may not have been looked at: the next search begins where this one did.
            known.nodes.truncate(before);
        }
    }

    /// What has been found for a class.
    pub(super) fn of(&self, class: ClassIx) -> &[NodeIx] {
        self.by_class.get(&class).map_or(&[], |known| &known.nodes)
    }
}
