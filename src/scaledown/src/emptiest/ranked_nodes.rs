//! Nodes by what is free of them, and the first of them that takes a pod. It puts none there itself.

use std::cmp::Reverse;

use crate::rankings::{Rankings, permille};
use crate::relocation::looks_and_fits;
use crate::standby::Standby;
use headroom_cluster::scheduling::snapshot::{ClassIx, FreedMark, NodeIx, Presence, Snapshot};
use headroom_cluster::world::digest::Amounts;

/// Nodes by what is free of them, the emptiest first, and of equal ones the first in order. One that is ranked higher than it
/// is now is ranked anew when its turn comes, and the snapshot reports which got emptier. So many pods, of many nodes, cost one
/// look at all nodes, and not one each.
#[derive(Clone, Debug)]
pub(super) struct RankedNodes {
    nodes: Vec<NodeIx>,
    /// From here on they take part only where they are on their way with standby pods.
    coming: u32,
    /// What each offers.
    sizes: Vec<Amounts>,
    /// Places in `nodes`, by index of the node.
    places: Vec<Option<u32>>,
    /// Free thousandths under which each is ranked; `None` while it does not take part.
    ranks: Vec<Option<i64>>,
    rankings: Rankings,
    /// What got emptier before is in the ranks.
    since: FreedMark,
    /// Amounts that no node has, each with the time at which that was found: since then only what got emptier may have them.
    lacking: Vec<(Amounts, FreedMark)>,
}

/// So many are remembered; pods are of few sizes.
const LACKING_MAX: usize = 32;
/// After so many of the emptiest nodes have refused a pod, the search goes on only if some node has the amounts.
const REFUSED_MAX: usize = 16;

impl RankedNodes {
    /// These nodes, and those that are on their way with standby pods. What standby pods keep free is free.
    pub(super) fn of(
        mut nodes: Vec<NodeIx>,
        on_their_way: &[NodeIx],
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Self {
        let coming = u32::try_from(nodes.len()).expect("indexes of nodes fit 32 bits");
        nodes.extend(on_their_way);
        let mut places = vec![None; snapshot.nodes_capacity()];
        for (place, ix) in (0..).zip(&nodes) {
            places[ix.0 as usize] = Some(place);
        }
        let sizes: Vec<Amounts> = nodes.iter().map(|ix| snapshot.size(*ix)).collect();
        let ranks = vec![None; nodes.len()];
        let since = snapshot.follow_freed();
        let rankings = Rankings::of(&sizes);
        let mut made = Self { nodes, coming, sizes, places, ranks, rankings, since, lacking: Vec::new() };
        made.rank_all(snapshot, standby);
        made
    }

    fn rank_all(&mut self, snapshot: &mut Snapshot<'_>, standby: &Standby) {
        // The scan itself is cheap beside a check, but not for nothing.
        snapshot.work_units += u64::try_from(self.nodes.len()).unwrap_or(u64::MAX) / 8;
        self.ranks = self.all().map(|place| self.rank(place, snapshot, standby)).collect();
        let ranked = (0..).zip(&self.ranks);
        self.rankings.rank_all(ranked.filter_map(|(place, rank)| Some(((*rank)?, Reverse(place)))));
    }

    /// All places.
    fn all(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.nodes.len()).expect("indexes of nodes fit 32 bits")
    }

    /// The rank of a node as it is now; `None` if it does not take part.
    fn rank(&self, place: u32, snapshot: &Snapshot<'_>, standby: &Standby) -> Option<i64> {
        let free = self.free(place, snapshot, standby)?;
        Some(rank_of(free, self.sizes[place as usize]))
    }

    /// What is free of a node, with what standby pods keep free; `None` if it does not take part.
    fn free(&self, place: u32, snapshot: &Snapshot<'_>, standby: &Standby) -> Option<Amounts> {
        let node = self.nodes[place as usize];
        let takes_part = snapshot.presence(node) == Presence::Present
            && (place < self.coming || standby.coming.contains(&node));
        let (room, kept) = (snapshot.room(node), standby.requests(node));
        takes_part.then(|| kept.map_or(room, |kept| room.with(Amounts::of(kept))))
    }

    /// Ranks anew what got emptier, or takes part again.
    fn catch_up(&mut self, snapshot: &mut Snapshot<'_>, standby: &Standby) {
        let since = std::mem::replace(&mut self.since, snapshot.follow_freed());
        let Some(freed) = snapshot.freed_since(since) else {
            return self.rank_all(snapshot, standby);
        };
        let freed = freed.iter().filter_map(|node| self.places.get(node.0 as usize).copied().flatten());
        // One that is on its way takes part again when standby pods have come back to it, which frees nothing.
        let coming = self.coming..self.all().end;
        let places: Vec<u32> = freed.chain(coming).collect();
        for place in places {
            let Some(free) = self.rank(place, snapshot, standby) else { continue };
            if self.ranks[place as usize].is_none_or(|rank| rank < free) {
                self.ranks[place as usize] = Some(free);
                self.rankings.push((free, Reverse(place)));
            }
        }
    }

    /// The emptiest node that takes one more pod of `class`, as if there were no standby pods, or `None` too where no work is
    /// left to look; and how many of those looked at before it the pod's own rules keep it off.
    pub(super) fn taking(
        &mut self,
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> (Option<NodeIx>, usize) {
        self.catch_up(snapshot, standby);
        let asked = Amounts::of(&snapshot.class(class).requests);
        if let Some(since) = self.lacking_since(asked)
            && let Some(places) = self.freed_places(since, snapshot)
        {
            return (self.first_of(&places, class, snapshot, standby), 0);
        }
        let (mut found, mut refused, mut kept_off) = (None, Vec::new(), 0);
        while !snapshot.is_spent()
            && let Some((ranked, Reverse(place))) = self.rankings.pop(asked)
        {
            if !self.is_current(ranked, place, snapshot, standby) {
                continue;
            }
            refused.push((ranked, Reverse(place)));
            let node = self.nodes[place as usize];
            if takes(class, node, snapshot, standby) {
                found = Some(node);
                break;
            }
            kept_off += usize::from(!snapshot.own_rules_hold(class, node));
            if refused.len() == REFUSED_MAX && self.note_lacking(asked, self.all(), snapshot, standby) {
                break;
            }
        }
        if found.is_none() && refused.len() < REFUSED_MAX {
            self.note_lacking(asked, self.all(), snapshot, standby);
        }
        refused.into_iter().for_each(|ranked| self.rankings.push(ranked));
        (found.filter(|_| !snapshot.is_spent()), kept_off)
    }

    /// True if the node takes part and is ranked as it is now; else it is ranked anew.
    fn is_current(&mut self, ranked: i64, place: u32, snapshot: &Snapshot<'_>, standby: &Standby) -> bool {
        if self.ranks[place as usize] != Some(ranked) {
            return false;
        }
        let rank = self.rank(place, snapshot, standby);
        self.ranks[place as usize] = rank;
        if let Some(free) = rank.filter(|free| *free != ranked) {
            self.rankings.push((free, Reverse(place)));
        }
        rank == Some(ranked)
    }

    /// The last look at all nodes that found none with these amounts.
    fn lacking_since(&self, asked: Amounts) -> Option<FreedMark> {
        self.lacking.iter().filter(|(lacking, _)| lacking.fit(asked)).map(|(_, since)| *since).max()
    }

    /// The places of what got emptier; `None` where it may be any.
    fn freed_places(&self, since: FreedMark, snapshot: &mut Snapshot<'_>) -> Option<Vec<u32>> {
        let freed = snapshot.freed_since(since)?;
        let mut places: Vec<u32> =
            freed.iter().filter_map(|node| self.places.get(node.0 as usize).copied().flatten()).collect();
        snapshot.work_units += u64::try_from(places.len()).unwrap_or(u64::MAX) / 8;
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    /// The emptiest node of these places that takes one more pod.
    fn first_of(
        &mut self,
        places: &[u32],
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        let rank = |place: &u32| Some((Reverse(self.rank(*place, snapshot, standby)?), *place));
        let mut ranked: Vec<(Reverse<i64>, u32)> = places.iter().filter_map(rank).collect();
        ranked.sort_unstable();
        let mut nodes = ranked.iter().map(|(_, place)| self.nodes[*place as usize]);
        let found = nodes.find(|node| takes(class, *node, snapshot, standby));
        if found.is_none() {
            let asked = Amounts::of(&snapshot.class(class).requests);
            self.note_lacking(asked, ranked.into_iter().map(|(_, place)| place), snapshot, standby);
        }
        found.filter(|_| !snapshot.is_spent())
    }

    /// True, and remembered, if no node has these amounts, because none of `places` has, which are all that might.
    fn note_lacking(
        &mut self,
        asked: Amounts,
        mut places: impl Iterator<Item = u32>,
        snapshot: &Snapshot<'_>,
        standby: &Standby,
    ) -> bool {
        let has = |place: u32| self.free(place, snapshot, standby).is_some_and(|free| asked.fit(free));
        if snapshot.is_spent() || places.any(has) {
            return false;
        }
        self.lacking.retain(|(lacking, _)| !asked.fit(*lacking));
        if self.lacking.len() == LACKING_MAX {
            self.lacking.remove(0);
        }
        self.lacking.push((asked, self.since));
        true
    }
}

/// Free cpu and memory of a node in thousandths of what it offers, summed: what the scheduler's LeastAllocated looks at, which takes
/// less than nothing for nothing.
fn rank_of(free: Amounts, size: Amounts) -> i64 {
    permille(free.cpu_milli, size.cpu_milli).saturating_add(permille(free.memory_bytes, size.memory_bytes))
}

/// The rank of any node, whether it takes part or not. What standby pods keep free is free.
pub(super) fn rank_of_node(node: NodeIx, snapshot: &Snapshot<'_>, standby: &Standby) -> i64 {
    let kept = standby.requests(node).map(Amounts::of).unwrap_or_default();
    rank_of(snapshot.room(node).with(kept), snapshot.size(node))
}

/// True if the node takes one more pod once its standby pods are elsewhere.
pub(super) fn takes(class: ClassIx, node: NodeIx, snapshot: &mut Snapshot<'_>, standby: &Standby) -> bool {
    let mark = snapshot.checkpoint();
    if standby.requests(node).is_some() {
        standby.clear(snapshot, node);
    }
    let fits = looks_and_fits(snapshot, class, node);
    snapshot.rollback(mark);
    fits
}
