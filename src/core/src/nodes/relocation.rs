//! Other places for the pods of nodes that may go. It tries on the snapshot; whether a node goes is decided elsewhere.

use rustc_hash::FxHashMap;

use crate::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Snapshot};

/// Nodes that may take pods, in the order in which they are tried.
///
/// While candidates are looked at, free space only shrinks, but for what a rollback gives back. So each class
/// remembers where its last search ended, and 1,000 candidates cost one walk per class, not one per pod.
#[derive(Debug)]
pub struct Destinations {
    order: Vec<NodeIx>,
    start: FxHashMap<ClassIx, usize>,
    log: Vec<(ClassIx, usize)>,
}

impl Destinations {
    /// Tries nodes in this order: those that stay for sure first, those likeliest to go last.
    #[must_use]
    pub fn new(order: Vec<NodeIx>) -> Self {
        Self { order, start: FxHashMap::default(), log: Vec::new() }
    }

    /// Moves all `pods` off `from` to other places.
    ///
    /// # Errors
    /// The first pod that has none; the snapshot is then as it was.
    pub fn move_all(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        pods: &[PodRef],
        from: NodeIx,
    ) -> Result<(), PodRef> {
        let mark = snapshot.checkpoint();
        self.log.clear();
        for pod in pods {
            let class = snapshot.class_of(*pod);
            snapshot.remove(*pod, from);
            let Some(place) = self.find(snapshot, class) else {
                snapshot.rollback(mark);
                for (class, start) in self.log.drain(..).rev() {
                    self.start.insert(class, start);
                }
                return Err(*pod);
            };
            snapshot.place(*pod, place);
        }
        Ok(())
    }

    /// The first node that takes one more pod of `class`.
    fn find(&mut self, snapshot: &mut Snapshot<'_>, class: ClassIx) -> Option<NodeIx> {
        let start = self.start.get(&class).copied().unwrap_or(0);
        let found = (start..self.order.len()).find(|index| snapshot.fits(class, self.order[*index]));
        if snapshot.has_topology_rules(class) {
            // With rules about other pods a node that refused before may accept now: the search goes round.
            let found = found.or_else(|| (0..start).find(|index| snapshot.fits(class, self.order[*index])));
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
