//! Other places for the pods of nodes that may go. It tries on the snapshot; whether a node goes is decided elsewhere.

use rustc_hash::FxHashMap;

use crate::emptiest::Emptiest;
use crate::standby::Standby;
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Presence, Snapshot};
use headroom_cluster::world::digest::Amounts;
use headroom_scaleup::gangs::domains::class_to_move;

/// So many amounts are remembered; pods are of few sizes.
const FIRST_WITH_MAX: usize = 64;

/// Nodes that may take pods, in the order in which they are tried.
///
/// While candidates are looked at, free space only shrinks, but for what a rollback gives back. So each class
/// remembers where its last search ended, and 1,000 candidates cost one walk per class, not one per pod.
#[derive(Clone, Debug)]
pub struct Destinations {
    order: Vec<NodeIx>,
    start: FxHashMap<ClassIx, usize>,
    log: Vec<(ClassIx, usize)>,
    /// The first node in order with these amounts, and none before has them.
    first_with: Vec<(Amounts, usize)>,
    /// The same nodes by what is free of them, once asked for.
    emptiest: Option<Emptiest>,
    /// Nodes that would be bought, after those in order: few, that come and go.
    bought: Vec<NodeIx>,
}

impl Destinations {
    /// Tries nodes in this order: those that stay for sure first, those likeliest to go last.
    #[must_use]
    pub fn new(order: Vec<NodeIx>) -> Self {
        Self {
            order,
            start: FxHashMap::default(),
            log: Vec::new(),
            first_with: Vec::new(),
            emptiest: None,
            bought: Vec::new(),
        }
    }

    /// Lets [`Destinations::spread_all`] put pods on these nodes of the snapshot too, and on none that was given before.
    pub fn set_bought(&mut self, nodes: Vec<NodeIx>) {
        self.bought = nodes;
    }

    /// Lets searches for `class` begin at the first node with its amounts, also those of copies. Only while nothing has been moved:
    /// from then on there is never more room than now.
    pub fn look_ahead(&mut self, snapshot: &mut Snapshot<'_>, class: ClassIx) {
        if self.start.contains_key(&class) {
            return;
        }
        let asked = Amounts::of(&snapshot.class(class).requests);
        let asking_less = self.first_with.iter().filter(|(less, _)| less.fit(asked));
        let from = asking_less.map(|(_, at)| *at).max().unwrap_or(0);
        let has = |at: &usize| asked.fit(snapshot.room(self.order[*at]));
        let at = (from..self.order.len()).find(has).unwrap_or(self.order.len());
        // The scan itself is cheap beside a check, but not for nothing.
        snapshot.work_units += u64::try_from(at - from).unwrap_or(u64::MAX) / 8;
        if self.first_with.len() < FIRST_WITH_MAX && self.first_with.iter().all(|(known, _)| *known != asked)
        {
            self.first_with.push((asked, at));
        }
        self.start.insert(class, at);
    }

    /// Moves all `pods` off `from` to other places.
    ///
    /// # Errors
    /// The first pod that has none, or the one at which the work that is left is spent; the snapshot is then as it was.
    pub fn move_all(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        pods: &[PodRef],
        from: NodeIx,
    ) -> Result<(), PodRef> {
        let mark = snapshot.checkpoint();
        self.log.clear();
        let mut places = Vec::with_capacity(pods.len());
        for pod in pods {
            let class = class_to_move(snapshot, *pod, from);
            snapshot.remove(*pod, from);
            let Some(place) = self.find(snapshot, class) else {
                snapshot.rollback(mark);
                self.give_back(snapshot, &places);
                return Err(*pod);
            };
            snapshot.place(*pod, place);
            places.push(place);
        }
        Ok(())
    }

    /// Lets searches begin again where they began before pods were moved to `places` in vain. Nodes that refused a class for
    /// their amounts and got none of these pods refuse it still: without this each node that cannot go would cost a walk
    /// over all.
    fn give_back(&mut self, snapshot: &mut Snapshot<'_>, places: &[NodeIx]) {
        let reached: FxHashMap<ClassIx, usize> =
            self.log.iter().map(|(class, _)| (*class, self.start[class])).collect();
        // A search that was given up has not looked at all that it passed.
        let spent = snapshot.is_spent();
        for (class, before) in std::mem::take(&mut self.log).into_iter().rev() {
            let start = if !spent && snapshot.is_plain(class) {
                let may_accept = |at: &usize| {
                    let node = self.order[*at];
                    places.contains(&node) || snapshot.presence(node) != Presence::Present
                };
                (before..reached[&class]).find(may_accept).unwrap_or(reached[&class])
            } else {
                before
            };
            self.start.insert(class, start);
        }
    }

    /// Takes back what the last [`Destinations::move_all`] remembered; the snapshot is rolled back by the caller.
    pub fn forget_last(&mut self) {
        for (class, start) in self.log.drain(..).rev() {
            self.start.insert(class, start);
        }
    }

    /// Moves all `pods` off `from` as the scheduler may do at worst: the smallest first, each to the emptiest node that
    /// takes it, so that what is tight is not planned on holes that others fill. `standby` counts as empty room; its pods
    /// come last, as those of `from` do.
    ///
    /// # Errors
    /// The first pod that has no place; the snapshot is then as it was.
    pub fn spread_all(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        pods: &[PodRef],
        from: NodeIx,
        standby: Standby,
    ) -> Result<(), PodRef> {
        let pods: Vec<(PodRef, NodeIx)> = pods.iter().map(|pod| (*pod, from)).collect();
        self.spread(snapshot, &pods, standby)
    }

    /// The same for pods of several nodes, each with the node that it leaves.
    ///
    /// # Errors
    /// The first pod that has no place; the snapshot is then as it was.
    pub fn spread(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        pods: &[(PodRef, NodeIx)],
        standby: Standby,
    ) -> Result<(), PodRef> {
        let mark = snapshot.checkpoint();
        let spread = self.spread_on(snapshot, pods, standby);
        if spread.is_err() {
            snapshot.rollback(mark);
        }
        spread
    }

    fn spread_on(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        pods: &[(PodRef, NodeIx)],
        mut standby: Standby,
    ) -> Result<(), PodRef> {
        let mut order = Vec::with_capacity(pods.len());
        for (pod, from) in pods {
            match pod {
                PodRef::Standby(_) => standby.evict(snapshot, *pod, *from),
                PodRef::Real(_) | PodRef::Virtual(_) => order.push((*pod, *from)),
            }
        }
        order.sort_by_cached_key(|(pod, _)| {
            let requests = &snapshot.class(snapshot.class_of(*pod)).requests;
            (requests.cpu_milli, requests.memory_bytes)
        });
        // Where standby pods count as room, they do wherever they are: moving them changes no rank.
        let holds_for_all = standby.is_whole || !snapshot.has_standby();
        let kept = if holds_for_all { self.emptiest.take() } else { None };
        let mut emptiest = kept.unwrap_or_else(|| Emptiest::of(&self.order, snapshot, &standby));
        let placed = place_in_turn(order, (&mut emptiest, &self.bought), snapshot, &mut standby);
        if holds_for_all {
            self.emptiest = Some(emptiest);
        }
        placed?;
        standby.put_back(snapshot, self.order.iter().chain(&self.bought))
    }

    /// The first node that takes one more pod of `class`.
    fn find(&mut self, snapshot: &mut Snapshot<'_>, class: ClassIx) -> Option<NodeIx> {
        let start = self.start.get(&class).copied().unwrap_or(0);
        let found = (start..self.order.len()).find(|at| looks_and_fits(snapshot, class, self.order[*at]));
        if snapshot.has_topology_rules(class) {
            // With rules about other pods a node that refused before may accept now: the search goes round.
            let found =
                found.or_else(|| (0..start).find(|at| looks_and_fits(snapshot, class, self.order[*at])));
            self.remember(class, start, found.unwrap_or(start));
            return found.map(|index| self.order[index]);
        }
        self.remember(class, start, found.unwrap_or(self.order.len()));
        found.map(|index| self.order[index])
    }

    fn remember(&mut self, class: ClassIx, before: usize, start: usize) {
        if before != start {
            self.log.push((class, before));
            self.start.insert(class, start);
        }
    }
}

/// Puts each pod, taken off the node beside it, on the emptiest node that takes it.
fn place_in_turn(
    pods: Vec<(PodRef, NodeIx)>,
    (emptiest, bought): (&mut Emptiest, &[NodeIx]),
    snapshot: &mut Snapshot<'_>,
    standby: &mut Standby,
) -> Result<(), PodRef> {
    for (pod, from) in pods {
        let class = class_to_move(snapshot, pod, from);
        snapshot.remove(pod, from);
        let place = emptiest.taking_beside(bought, class, snapshot, standby).ok_or(pod)?;
        standby.lift(snapshot, place);
        snapshot.place(pod, place);
    }
    Ok(())
}

/// True if there is work left to look at a node, and it takes one more pod of `class`.
pub(super) fn looks_and_fits(snapshot: &mut Snapshot<'_>, class: ClassIx, node: NodeIx) -> bool {
    !snapshot.is_spent() && snapshot.fits(class, node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::world::World;
    use headroom_pools::testing::{node, pod, world};

    /// Nodes of 4 CPUs, each with as many pods of a CPU as given; the first has no pods where that is 0.
    fn cluster(pods: &[usize]) -> World {
        let mut builder = world();
        for (index, count) in pods.iter().enumerate() {
            let name = format!("n{index:03}");
            builder = builder.node(node(&name).cpu("4"));
            for number in 0..*count {
                builder = builder.pod(pod(&format!("p-{index}-{number}")).cpu("1").on(&name));
            }
        }
        builder.build()
    }

    /// Tries to empty a node, as a candidate that stays if it cannot be.
    fn empties(snapshot: &mut Snapshot<'_>, destinations: &mut Destinations, node: NodeIx) -> bool {
        let pods: Vec<PodRef> = snapshot.pods(node).collect();
        snapshot.set_presence(node, Presence::Ghost);
        let moved = destinations.move_all(snapshot, &pods, node).is_ok();
        if !moved {
            snapshot.set_presence(node, Presence::Present);
        }
        moved
    }

    #[test]
    fn nodes_that_cannot_go_do_not_cost_a_walk_over_all_nodes_each() {
        let world = cluster(&[4; 200]);
        let mut snapshot = Snapshot::new(&world);
        let order: Vec<NodeIx> = snapshot.nodes().map(|(ix, _)| ix).collect();
        let mut destinations = Destinations::new(order.clone());
        let before = snapshot.work_units;
        for node in order.into_iter().rev() {
            assert!(!empties(&mut snapshot, &mut destinations, node));
        }
        let work = snapshot.work_units - before;
        assert!(work < 200 * 10, "{work} for 200 nodes");
    }

    #[test]
    fn nodes_whose_pods_are_spread_do_not_cost_a_look_at_all_nodes_each() {
        let world = cluster(&[1; 400]);
        let mut snapshot = Snapshot::new(&world);
        let order: Vec<NodeIx> = snapshot.nodes().map(|(ix, _)| ix).collect();
        let mut destinations = Destinations::new(order.clone());
        let before = snapshot.work_units;
        for node in order.into_iter().rev().take(200) {
            let pods: Vec<PodRef> = snapshot.pods(node).collect();
            snapshot.set_presence(node, Presence::Ghost);
            destinations.spread_all(&mut snapshot, &pods, node, Standby::default()).expect("there is room");
        }
        let work = snapshot.work_units - before;
        assert!(work < 200 * 10, "{work} for 200 nodes");
    }

    #[test]
    fn pods_that_no_node_has_room_for_do_not_cost_a_look_at_all_nodes_each() {
        let mut counts = vec![4; 400];
        counts.extend([2; 200]);
        let world = cluster(&counts);
        let mut snapshot = Snapshot::new(&world);
        let all: Vec<NodeIx> = snapshot.nodes().map(|(ix, _)| ix).collect();
        let mut destinations = Destinations::new(all[..400].to_vec());
        let before = snapshot.work_units;
        for node in &all[400..] {
            let pods: Vec<PodRef> = snapshot.pods(*node).collect();
            destinations
                .spread_all(&mut snapshot, &pods, *node, Standby::default())
                .expect_err("all others are full");
        }
        let work = snapshot.work_units - before;
        assert!(work < 200 * 10, "{work} for 200 nodes");
    }

    #[test]
    fn places_of_a_move_that_is_taken_back_are_found_again() {
        let world = cluster(&[3, 3, 2]);
        let mut snapshot = Snapshot::new(&world);
        let nodes: Vec<NodeIx> = snapshot.indexes().collect();
        let pods: Vec<PodRef> = snapshot.pods(nodes[2]).collect();
        let mut destinations = Destinations::new(nodes[..2].to_vec());
        let mark = snapshot.checkpoint();
        for _ in 0..2 {
            destinations.move_all(&mut snapshot, &pods, nodes[2]).expect("each of the two has room for one");
            snapshot.rollback(mark);
            destinations.forget_last();
        }
    }

    #[test]
    fn a_search_begins_at_the_first_node_with_the_amounts_and_finds_what_it_would_have_found() {
        let world = cluster(&[4, 3, 4, 2, 0, 1]);
        let mut snapshot = Snapshot::new(&world);
        let order: Vec<NodeIx> = snapshot.indexes().collect();
        let mut ahead = Destinations::new(order.clone());
        for cpu in ["4", "1", "2", "500m", "5", "3"] {
            let class = snapshot.class_ix(&pod("w").cpu(cpu).class());
            ahead.look_ahead(&mut snapshot, class);
            let found = ahead.clone().find(&mut snapshot, class);
            assert_eq!(found, Destinations::new(order.clone()).find(&mut snapshot, class), "{cpu}");
            let before = snapshot.work_units;
            ahead.clone().find(&mut snapshot, class);
            assert!(snapshot.work_units - before <= 1, "{cpu}: nodes without the amounts are not looked at");
        }
    }

    #[test]
    fn room_that_a_node_could_not_use_is_found_by_the_next_one() {
        // Of the last node's two pods one finds room on the first, and the other none.
        let world = cluster(&[3, 4, 4, 1, 2]);
        let mut snapshot = Snapshot::new(&world);
        let nodes: Vec<NodeIx> = snapshot.nodes().map(|(ix, _)| ix).collect();
        let mut destinations = Destinations::new(vec![nodes[0], nodes[1], nodes[2], nodes[4]]);
        assert!(!empties(&mut snapshot, &mut destinations, nodes[4]));
        assert!(empties(&mut snapshot, &mut destinations, nodes[3]));
        assert_eq!(snapshot.pods(nodes[0]).count(), 4);
    }
}
