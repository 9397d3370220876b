//! The emptiest node that takes a pod, which is where the scheduler puts it. It puts none there itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::relocation::looks_and_fits;
use crate::standby::Standby;
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, Presence, Snapshot};
use headroom_values::resources::Resources;

/// Nodes by what is free of them, the emptiest first, and of equal ones the first in order. Nodes only get fuller while it is
/// used: one that was ranked higher than it is now is ranked anew when its turn comes. So many pods cost one look at all
/// nodes, and not one each.
#[derive(Debug)]
pub(crate) struct Emptiest {
    nodes: Vec<NodeIx>,
    /// Free thousandths, and the place in `nodes`.
    ranked: BinaryHeap<(i64, Reverse<usize>)>,
}

impl Emptiest {
    /// The nodes of `order` that take part, and those that are on their way with standby pods. What standby pods keep free is
    /// free.
    pub(crate) fn of(order: &[NodeIx], snapshot: &mut Snapshot<'_>, standby: &Standby) -> Self {
        let all = order.iter().chain(&standby.coming).copied();
        let nodes: Vec<NodeIx> =
            all.filter(|ix| snapshot.node(*ix).presence() == Presence::Present).collect();
        // The scan itself is cheap beside a check, but not for nothing.
        snapshot.work_units += u64::try_from(nodes.len()).unwrap_or(u64::MAX) / 8;
        let ranked = nodes.iter().enumerate();
        let ranked = ranked
            .map(|(at, ix)| (free_permille(snapshot, *ix, standby.requests(*ix)), Reverse(at)))
            .collect();
        Self { nodes, ranked }
    }

    /// The emptiest node that takes one more pod of `class`, as if there were no standby pods; `None` too where no work is
    /// left to look.
    pub(crate) fn taking(
        &mut self,
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        let (mut found, mut refused) = (None, Vec::new());
        while let Some((ranked, Reverse(at))) = self.ranked.pop().filter(|_| !snapshot.is_spent()) {
            let node = self.nodes[at];
            let free = free_permille(snapshot, node, standby.requests(node));
            if free != ranked {
                self.ranked.push((free, Reverse(at)));
                continue;
            }
            refused.push((free, Reverse(at)));
            if takes(class, node, snapshot, standby) {
                found = Some(node);
                break;
            }
        }
        self.ranked.extend(refused);
        found.filter(|_| !snapshot.is_spent())
    }
}

/// True if the node takes one more pod once its standby pods are elsewhere.
fn takes(class: ClassIx, node: NodeIx, snapshot: &mut Snapshot<'_>, standby: &Standby) -> bool {
    let mark = snapshot.checkpoint();
    if standby.requests(node).is_some() {
        standby.clear(snapshot, node);
    }
    let fits = looks_and_fits(snapshot, class, node);
    snapshot.rollback(mark);
    fits
}

/// Free cpu and memory in thousandths of what the node offers, summed: what the scheduler's LeastAllocated looks at. What
/// standby pods keep free is free.
fn free_permille(snapshot: &Snapshot<'_>, ix: NodeIx, kept_free: Option<&Resources>) -> i64 {
    let view = snapshot.node(ix);
    let (all, used) = (view.allocatable(), view.requested());
    let part = |all: i64, used: i64, kept_free: i64| {
        if all <= 0 { 0 } else { all.saturating_sub(used - kept_free).saturating_mul(1000) / all }
    };
    let (cpu, memory) = kept_free.map_or((0, 0), |kept| (kept.cpu_milli, kept.memory_bytes));
    let cpu = part(all.cpu_milli, used.cpu_milli, cpu);
    cpu.saturating_add(part(all.memory_bytes, used.memory_bytes, memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::scheduling::PodRef;
    use headroom_pools::testing::{node, pod, world};

    /// What [`Emptiest::taking`] finds, by a look at all nodes.
    fn by_scan(order: &[NodeIx], class: ClassIx, snapshot: &mut Snapshot<'_>) -> Option<NodeIx> {
        let mut best: Option<(i64, NodeIx)> = None;
        for ix in order {
            let free = free_permille(snapshot, *ix, None);
            if best.is_none_or(|(most, _)| most < free) && snapshot.fits(class, *ix) {
                best = Some((free, *ix));
            }
        }
        best.map(|(_, ix)| ix)
    }

    #[test]
    fn pods_go_where_a_look_at_all_nodes_would_put_them() {
        for seed in 0..200_usize {
            let mut state = seed * 7919 + 13;
            let mut draw = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let mut builder = world();
            for index in 0..3 + draw(12) {
                let name = format!("n{index:02}");
                builder = builder.node(node(&name).cpu(["2", "4"][draw(2)]).zone(["a", "b"][draw(2)]));
                let taken = pod(&format!("p{index}")).cpu(["100m", "1", "1900m"][draw(3)]).on(&name);
                builder = builder.pod(if draw(3) == 0 { taken.host_port(80) } else { taken });
            }
            let world = builder.build();
            let mut snapshot = Snapshot::new(&world);
            let order: Vec<NodeIx> = snapshot.indexes().collect();
            snapshot.set_presence(order[draw(order.len())], Presence::Ghost);
            let mut emptiest = Emptiest::of(&order, &mut snapshot, &Standby::default());
            for _ in 0..20 {
                let plain = pod("w").cpu(["100m", "500m", "1"][draw(3)]);
                let wanted = match draw(3) {
                    0 => plain.host_port(80),
                    1 => plain.selector(headroom_cluster::world::node::ZONE_LABEL, "a"),
                    _ => plain,
                };
                let class = snapshot.class_ix(&wanted.class());
                let expected = by_scan(&order, class, &mut snapshot);
                assert_eq!(
                    emptiest.taking(class, &mut snapshot, &Standby::default()),
                    expected,
                    "seed {seed}"
                );
                if let Some(place) = expected {
                    snapshot.place(PodRef::Virtual(class), place);
                }
            }
        }
    }
}
