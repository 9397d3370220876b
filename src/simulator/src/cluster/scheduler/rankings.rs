//! Nodes that take a class of pods, the best first, kept from pass to pass. It binds nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{NodeState, Score};

/// So many nodes that got better, for each node that there is, are remembered; then all rankings are made anew.
const BETTER_PER_NODE_MAX: usize = 4;

/// Rankings of nodes by class of pods.
///
/// A score that falls is found out when it is the highest. Nodes whose score may have risen must be noted: see [`Self::note_better`].
#[derive(Debug, Default)]
pub(super) struct Rankings {
    by_class: FxHashMap<usize, Ranking>,
    /// Nodes that came, changed or got room, in order.
    better: Vec<Arc<str>>,
}

/// The nodes by score, as each was when it was last looked at; the first by name among equals. A node may stand there twice.
#[derive(Debug, Default)]
struct Ranking {
    nodes: BinaryHeap<(Score, Reverse<Arc<str>>)>,
    /// Those before this place in [`Rankings::better`] have been looked at.
    seen: usize,
}

impl Rankings {
    /// A node has come, has changed or has more room than before.
    pub(super) fn note_better(&mut self, name: Arc<str>) {
        if !self.by_class.is_empty() {
            self.better.push(name);
        }
    }

    /// The node with the highest score; `None` if none takes the class.
    pub(super) fn best(
        &mut self,
        class: usize,
        nodes: &BTreeMap<Arc<str>, NodeState>,
        score: impl Fn(&NodeState) -> Option<Score>,
    ) -> Option<Arc<str>> {
        if BETTER_PER_NODE_MAX * nodes.len() < self.better.len() {
            *self = Rankings::default();
        }
        let scored = |name: &Arc<str>| Some((nodes.get(name).and_then(&score)?, Reverse(name.clone())));
        let all = self.better.len();
        let ranking = self.by_class.entry(class).or_insert_with(|| {
            let scored =
                |(name, state): (&Arc<str>, &NodeState)| Some((score(state)?, Reverse(name.clone())));
            Ranking { nodes: nodes.iter().filter_map(scored).collect(), seen: all }
        });
        ranking.nodes.extend(self.better[ranking.seen..].iter().filter_map(scored));
        ranking.seen = all;
        while let Some((known, name)) = ranking.nodes.pop() {
            match nodes.get(&name.0).and_then(&score) {
                // It stays among the others, with what is left of it when it is asked for again.
                Some(now) if now == known => {
                    ranking.nodes.push((known, name.clone()));
                    return Some(name.0);
                }
                Some(now) => ranking.nodes.push((now, name)),
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fit::{Amounts, NodeShape};

    const FULL: i64 = 4;

    fn state(used: i64) -> NodeState {
        NodeState {
            shape: NodeShape::of(&serde_json::json!({"metadata": {"name": "any"}})),
            used: Amounts { cpu: used, ..Amounts::default() },
        }
    }

    fn score(state: &NodeState) -> Option<Score> {
        (state.used.cpu < FULL).then_some((Reverse(0), -state.used.cpu))
    }

    /// The same by a look at every node.
    fn best(nodes: &BTreeMap<Arc<str>, NodeState>) -> Option<Arc<str>> {
        let scored = nodes.iter().filter_map(|(name, state)| Some((score(state)?, Reverse(name))));
        scored.max().map(|(_, name)| name.0.clone())
    }

    #[test]
    fn the_best_node_is_the_one_that_a_look_at_all_finds() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut nodes, mut rankings) = (BTreeMap::new(), Rankings::default());
        let mut found = 0;
        for step in 0..5000 {
            let name: Arc<str> = format!("n{}", random.u32(0..12)).into();
            let used = random.i64(0..=FULL);
            match nodes.get(&name).map(|state: &NodeState| state.used.cpu) {
                Some(_) if random.u32(0..8) == 0 => drop(nodes.remove(&name)),
                // Pods that come are found out without a note.
                Some(before) if before <= used => drop(nodes.insert(name, state(used))),
                _ => {
                    nodes.insert(name.clone(), state(used));
                    rankings.note_better(name);
                }
            }
            // Classes that are asked for more and less often.
            for class in (0..3).filter(|class| step % (1 + 20 * class) == 0) {
                let is = rankings.best(class, &nodes, score);
                assert_eq!(is, best(&nodes), "step {step}, class {class}");
                found += usize::from(is.is_some());
            }
        }
        assert!(4000 < found, "a node was found {found} times");
    }
}
