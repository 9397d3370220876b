//! The emptiest node that takes a pod, which is where the scheduler puts it. It puts none there itself.

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
pub(crate) struct Emptiest {
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

impl Emptiest {
    /// The nodes of `order`, and those that are on their way with standby pods. What standby pods keep free is free.
    pub(crate) fn of(order: &[NodeIx], snapshot: &mut Snapshot<'_>, standby: &Standby) -> Self {
        let nodes: Vec<NodeIx> = order.iter().chain(&standby.coming).copied().collect();
        let mut places = vec![None; snapshot.nodes_capacity()];
        for (place, ix) in (0..).zip(&nodes) {
            places[ix.0 as usize] = Some(place);
        }
        let sizes: Vec<Amounts> = nodes.iter().map(|ix| snapshot.size(*ix)).collect();
        let ranks = vec![None; nodes.len()];
        let since = snapshot.follow_freed();
        let rankings = Rankings::of(&sizes);
        let coming = u32::try_from(order.len()).expect("indexes of nodes fit 32 bits");
        let mut emptiest = Self { nodes, coming, sizes, places, ranks, rankings, since, lacking: Vec::new() };
        emptiest.rank_all(snapshot, standby);
        emptiest
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

    /// Free cpu and memory of a node in thousandths of what it offers, summed: what the scheduler's LeastAllocated looks at, which
    /// takes less than nothing for nothing. `None` if it does not take part.
    fn rank(&self, place: u32, snapshot: &Snapshot<'_>, standby: &Standby) -> Option<i64> {
        let free = self.free(place, snapshot, standby)?;
        let size = self.sizes[place as usize];
        let cpu = permille(free.cpu_milli, size.cpu_milli);
        Some(cpu.saturating_add(permille(free.memory_bytes, size.memory_bytes)))
    }

    /// What is free of a node, with what standby pods keep free; `None` if it does not take part.
    fn free(&self, place: u32, snapshot: &Snapshot<'_>, standby: &Standby) -> Option<Amounts> {
        let node = self.nodes[place as usize];
        let kept = standby.requests(node);
        let takes_part = snapshot.presence(node) == Presence::Present
            && (place < self.coming || standby.coming.contains(&node));
        let free = || kept.map_or(snapshot.room(node), |kept| snapshot.room(node).with(Amounts::of(kept)));
        takes_part.then(free)
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

    /// The emptiest node that takes one more pod of `class`, as if there were no standby pods; `None` too where no work is
    /// left to look.
    pub(crate) fn taking(
        &mut self,
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        self.catch_up(snapshot, standby);
        let asked = Amounts::of(&snapshot.class(class).requests);
        if let Some(since) = self.lacking_since(asked)
            && let Some(places) = self.freed_places(since, snapshot)
        {
            return self.first_of(&places, class, snapshot, standby);
        }
        let (mut found, mut refused) = (None, Vec::new());
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
            if refused.len() == REFUSED_MAX && self.note_lacking(asked, self.all(), snapshot, standby) {
                break;
            }
        }
        if found.is_none() && refused.len() < REFUSED_MAX {
            self.note_lacking(asked, self.all(), snapshot, standby);
        }
        refused.into_iter().for_each(|ranked| self.rankings.push(ranked));
        found.filter(|_| !snapshot.is_spent())
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

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::scheduling::PodRef;
    use headroom_pools::testing::{node, pod, world};

    /// Numbers below what is asked for, that look as if they had no order.
    fn draws(seed: usize) -> impl FnMut(usize) -> usize {
        let mut state = seed * 7919 + 13;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    /// What [`Emptiest::taking`] finds, by a look at all nodes.
    fn by_scan(
        order: &[NodeIx],
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        let mut best: Option<(i64, NodeIx)> = None;
        for ix in order.iter().chain(&standby.coming) {
            let size = Amounts::of(snapshot.node(*ix).allocatable());
            let kept = standby.requests(*ix).map(Amounts::of).unwrap_or_default();
            let room = snapshot.room(*ix);
            let free = permille(room.cpu_milli + kept.cpu_milli, size.cpu_milli)
                + permille(room.memory_bytes + kept.memory_bytes, size.memory_bytes);
            if snapshot.node(*ix).presence() == Presence::Present
                && best.is_none_or(|(most, _)| most < free)
                && takes(class, *ix, snapshot, standby)
            {
                best = Some((free, *ix));
            }
        }
        best.map(|(_, ix)| ix)
    }

    #[test]
    fn pods_go_where_a_look_at_all_nodes_would_put_them() {
        for seed in 0..200_usize {
            let mut draw = draws(seed);
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
                let expected = by_scan(&order, class, &mut snapshot, &Standby::default());
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

    #[test]
    fn one_ranking_holds_while_nodes_leave_come_back_and_get_emptier() {
        for seed in 0..200 {
            let mut draw = draws(seed);
            let mut builder = world();
            for index in 0..3 + draw(12) {
                let name = format!("n{index:02}");
                builder = builder.node(node(&name).cpu(["2", "4"][draw(2)]).zone(["a", "b"][index % 2]));
                builder = builder.pod(pod(&format!("p{index}")).cpu("1").on(&name));
            }
            let world = builder.build();
            let mut snapshot = Snapshot::new(&world);
            let order: Vec<NodeIx> = snapshot.indexes().collect();
            let mut emptiest = Emptiest::of(&order, &mut snapshot, &Standby::default());
            let mut marks = Vec::new();
            for step in 0..150 {
                let one = order[draw(order.len())];
                match draw(12) {
                    0 => snapshot.set_presence(one, Presence::Ghost),
                    1 => snapshot.set_presence(one, Presence::Present),
                    2 => marks.push(snapshot.checkpoint()),
                    3 => marks.pop().into_iter().for_each(|mark| snapshot.rollback(mark)),
                    4 => {
                        let pods: Vec<PodRef> = snapshot.pods(one).collect();
                        pods.first().map(|pod| snapshot.remove(*pod, one));
                    }
                    _ => {
                        let plain = pod("w").cpu(["100m", "500m", "1", "3"][draw(4)]);
                        let bound = plain.clone().selector(headroom_cluster::world::node::ZONE_LABEL, "a");
                        let class = snapshot.class_ix(&if draw(2) == 0 { bound } else { plain }.class());
                        let expected = by_scan(&order, class, &mut snapshot, &Standby::default());
                        let found = emptiest.taking(class, &mut snapshot, &Standby::default());
                        assert_eq!(found, expected, "seed {seed}, step {step}");
                        if let Some(place) = found {
                            snapshot.place(PodRef::Virtual(class), place);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_ranking_holds_while_standby_pods_move() {
        for seed in 0..200 {
            let mut draw = draws(seed);
            let mut builder = world();
            for index in 0..4 + draw(12) {
                let name = format!("n{index:02}");
                let made = node(&name).cpu(["2", "4"][draw(2)]);
                builder = builder.node(if index == 0 { made.unready_for(5) } else { made });
                builder = builder.pod(pod(&format!("p{index}")).cpu("1").on(&name));
            }
            let world = builder.build();
            let mut snapshot = Snapshot::new(&world);
            let all: Vec<NodeIx> = snapshot.indexes().collect();
            let kept = snapshot.class_ix(&pod("kept").cpu("700m").class());
            for _ in 0..4 {
                let standby = snapshot.add_standby(kept, "capacitybuffer/default/b".into());
                snapshot.place(standby, all[draw(all.len())]);
            }
            // The first one is not ready: it takes part while it has standby pods.
            let order = &all[1..];
            let standby = Standby::of(&snapshot);
            let mut emptiest = Emptiest::of(order, &mut snapshot, &standby);
            for step in 0..100 {
                let mut standby = Standby::of(&snapshot);
                let class = snapshot.class_ix(&pod("w").cpu(["100m", "500m", "1", "3"][draw(4)]).class());
                let mark = snapshot.checkpoint();
                for _ in 0..2 {
                    let expected = by_scan(order, class, &mut snapshot, &standby);
                    let found = emptiest.taking(class, &mut snapshot, &standby);
                    assert_eq!(found, expected, "seed {seed}, step {step}");
                    let Some(place) = found else { break };
                    standby.lift(&mut snapshot, place);
                    snapshot.place(PodRef::Virtual(class), place);
                }
                let put_back = standby.put_back(&mut snapshot, order);
                if put_back.is_err() || draw(2) == 0 {
                    snapshot.rollback(mark);
                }
                if draw(3) == 0 {
                    let one = order[draw(order.len())];
                    let real = |pod: &PodRef| !matches!(pod, PodRef::Standby(_));
                    let pods: Vec<PodRef> = snapshot.pods(one).filter(real).collect();
                    pods.first().map(|pod| snapshot.remove(*pod, one));
                }
            }
        }
    }
}
