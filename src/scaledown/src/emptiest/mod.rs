//! The emptiest node that takes a pod, which is where the scheduler puts it. It puts none there itself.

mod ranked_nodes;

use rustc_hash::FxHashMap;

use self::ranked_nodes::{RankedNodes, rank_of_node, takes};
use crate::standby::Standby;
use headroom_cluster::scheduling::own_rules::RulesIx;
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, Snapshot};

/// So many nodes that a pod's own rules keep it off, in one search, are reason to rank those apart that they accept.
const KEPT_OFF_MAX: usize = 16;
/// Sets of rules whose nodes are ranked apart, at most: each ranking is as large as the first.
const APART_MAX: usize = 8;

/// Nodes by what is free of them. Where the rules of pods accept few of them, such as those of one pool, these are ranked apart: else
/// each pod would cost a look at all that are emptier.
#[derive(Clone, Debug)]
pub(crate) struct Emptiest {
    order: Vec<NodeIx>,
    all: RankedNodes,
    apart: FxHashMap<RulesIx, RankedNodes>,
}

impl Emptiest {
    /// The nodes of `order`, and those that are on their way with standby pods. What standby pods keep free is free.
    pub(crate) fn of(order: &[NodeIx], snapshot: &mut Snapshot<'_>, standby: &Standby) -> Self {
        let all = RankedNodes::of(order.to_vec(), &standby.coming, snapshot, standby);
        Self { order: order.to_vec(), all, apart: FxHashMap::default() }
    }

    /// The emptiest node that takes one more pod of `class`, as if there were no standby pods; `None` too where no work is
    /// left to look.
    pub(crate) fn taking(
        &mut self,
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        let rules = snapshot.rules_ix(class);
        if let Some(apart) = rules.and_then(|rules| self.apart.get_mut(&rules)) {
            return apart.taking(class, snapshot, standby).0;
        }
        let (found, kept_off) = self.all.taking(class, snapshot, standby);
        if KEPT_OFF_MAX <= kept_off
            && self.apart.len() < APART_MAX
            && let Some(rules) = rules
        {
            let mut accepted = |nodes: &[NodeIx]| -> Vec<NodeIx> {
                nodes.iter().copied().filter(|node| snapshot.own_rules_hold(class, *node)).collect()
            };
            let (order, coming) = (accepted(&self.order), accepted(&standby.coming));
            self.apart.insert(rules, RankedNodes::of(order, &coming, snapshot, standby));
        }
        found
    }

    /// The same among these and a few other nodes, which come last of equal ones.
    pub(crate) fn taking_beside(
        &mut self,
        others: &[NodeIx],
        class: ClassIx,
        snapshot: &mut Snapshot<'_>,
        standby: &Standby,
    ) -> Option<NodeIx> {
        let found = self.taking(class, snapshot, standby);
        let mut best = found.map(|node| (rank_of_node(node, snapshot, standby), node));
        for node in others {
            let rank = rank_of_node(*node, snapshot, standby);
            if best.is_none_or(|(most, _)| most < rank) && takes(class, *node, snapshot, standby) {
                best = Some((rank, *node));
            }
        }
        best.map(|(_, node)| node).filter(|_| !snapshot.is_spent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rankings::permille;
    use headroom_cluster::scheduling::{PodRef, Presence};
    use headroom_cluster::world::digest::Amounts;
    use headroom_cluster::world::node::ZONE_LABEL;
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
            if snapshot.presence(*ix) == Presence::Present
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
            let cut = draw(order.len() + 1);
            for _ in 0..20 {
                let plain = pod("w").cpu(["100m", "500m", "1"][draw(3)]);
                let wanted = match draw(3) {
                    0 => plain.host_port(80),
                    1 => plain.selector(ZONE_LABEL, "a"),
                    _ => plain,
                };
                let class = snapshot.class_ix(&wanted.class());
                let expected = by_scan(&order, class, &mut snapshot, &Standby::default());
                let (ranked, others) = order.split_at(cut);
                let mut found = vec![emptiest.taking(class, &mut snapshot, &Standby::default())];
                let mut some = Emptiest::of(ranked, &mut snapshot, &Standby::default());
                found.push(some.taking_beside(others, class, &mut snapshot, &Standby::default()));
                assert_eq!(found, [expected, expected], "seed {seed}");
                if let Some(place) = expected {
                    snapshot.place(PodRef::Virtual(class), place);
                }
            }
        }
    }

    #[test]
    fn one_ranking_holds_while_nodes_leave_come_back_and_get_emptier() {
        let mut apart_count = 0;
        for seed in 0..200 {
            let mut draw = draws(seed);
            let mut builder = world();
            for index in 0..3 + draw([12, 80][seed % 2]) {
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
                        let bound = plain.clone().selector(ZONE_LABEL, "a");
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
            apart_count += emptiest.apart.len();
        }
        assert!(40 < apart_count, "nodes were ranked apart {apart_count} times");
    }

    #[test]
    fn one_ranking_holds_while_standby_pods_move() {
        let mut apart_count = 0;
        for seed in 0..200 {
            let mut draw = draws(seed);
            let mut builder = world();
            for index in 0..4 + draw([12, 80][seed % 2]) {
                let name = format!("n{index:02}");
                let made = node(&name).cpu(["2", "4"][draw(2)]).zone(["a", "b", "b"][index % 3]);
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
                let plain = pod("w").cpu(["100m", "500m", "1", "3"][draw(4)]);
                let bound = plain.clone().selector(ZONE_LABEL, "a");
                let class = snapshot.class_ix(&if draw(2) == 0 { bound } else { plain }.class());
                let mark = snapshot.checkpoint();
                for _ in 0..2 {
                    let expected = by_scan(order, class, &mut snapshot, &standby);
                    let found = emptiest.taking(class, &mut snapshot, &standby);
                    assert_eq!(found, expected, "seed {seed}, step {step}");
                    let Some(place) = found else { break };
                    standby.lift(&mut snapshot, place);
                    snapshot.place(PodRef::Virtual(class), place);
                }
                let put_back = standby.put_back(&mut snapshot, order.iter());
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
            apart_count += emptiest.apart.len();
        }
        assert!(40 < apart_count, "nodes were ranked apart {apart_count} times");
    }

    #[test]
    fn pods_of_one_zone_do_not_cost_a_look_at_all_the_emptier_nodes_of_another_each() {
        let mut builder = world();
        for index in 0..500 {
            let name = format!("n{index:03}");
            builder = builder.node(node(&name).cpu("4").zone(if index < 400 { "a" } else { "b" }));
            builder =
                builder.pod(pod(&format!("p{index}")).cpu(if index < 400 { "1" } else { "2" }).on(&name));
        }
        let world = builder.build();
        let mut snapshot = Snapshot::new(&world);
        let order: Vec<NodeIx> = snapshot.indexes().collect();
        let mut emptiest = Emptiest::of(&order, &mut snapshot, &Standby::default());
        let class = snapshot.class_ix(&pod("w").cpu("1").selector(ZONE_LABEL, "b").class());
        let before = snapshot.work_units;
        let mut found = 0;
        for _ in 0..250 {
            let place = emptiest.taking(class, &mut snapshot, &Standby::default());
            place.inspect(|place| snapshot.place(PodRef::Virtual(class), *place));
            found += usize::from(place.is_some());
        }
        assert_eq!(found, 200);
        let work = snapshot.work_units - before;
        assert!(work < 400 + 250 * 10, "{work} for 250 pods");
    }
}
