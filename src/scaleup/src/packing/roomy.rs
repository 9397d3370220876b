//! Nodes that were there and have room for pods which new nodes elsewhere may make legal, looked for once while nodes are
//! bought. It places nothing.

use std::borrow::Cow;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::packing::may_come_round;
use crate::placement::LOOKS_PER_UNIT;
use headroom_cluster::scheduling::{ClassIx, NodeIx, Snapshot};

/// Once more entries than these are kept over all classes, which is 16 MiB, no further class is.
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
        if KEPT_MAX < kept && !self.by_class.contains_key(&class) {
            return;
        }
        let known = self.by_class.entry(class).or_default();
        let end = snapshot.nodes_capacity();
        let found = look(snapshot, class, known.seen..end, limit);
        // Where the work ended it, some may not have been looked at: the next search begins where this one did.
        if snapshot.work_units < limit {
            known.nodes.extend(found);
            known.seen = end;
        }
    }

    /// The nodes among the first `old_nodes` that may take a pod of the class because of new ones elsewhere: what has been found, or
    /// else those that are roomy now.
    pub(super) fn of(
        &self,
        snapshot: &mut Snapshot<'_>,
        class: ClassIx,
        old_nodes: usize,
        limit: u64,
    ) -> Cow<'_, [NodeIx]> {
        match self.by_class.get(&class) {
            Some(known) => Cow::Borrowed(&known.nodes),
            None if may_come_round(snapshot.class(class)) => {
                Cow::Owned(look(snapshot, class, 0..old_nodes, limit))
            }
            None => Cow::Borrowed(&[]),
        }
    }
}

fn look(snapshot: &mut Snapshot<'_>, class: ClassIx, nodes: Range<usize>, limit: u64) -> Vec<NodeIx> {
    let count = nodes.len();
    // Gone ones too: none of them is roomy, and leaving them out before would take a look at each.
    let nodes = nodes.filter_map(|at| u32::try_from(at).ok().map(NodeIx));
    let mut roomy: Vec<NodeIx> = nodes.filter(|node| snapshot.roomy(class, *node)).collect();
    snapshot.work_units += u64::try_from((count + roomy.len()) / LOOKS_PER_UNIT).unwrap_or(u64::MAX);
    roomy.retain(|node| snapshot.could_host_within(class, *node, limit));
    roomy
}
