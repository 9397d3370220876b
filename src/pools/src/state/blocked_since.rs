//! Time since which each node has been kept by its present reason, as far as one process has watched. It decides
//! nothing, and no plan reads it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::NodeVerdict;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// A clock for each node that was checked, kept beside the memory of the pools.
///
/// One entry a node of the last plan and no more, so it is bounded by the cluster. It is not in status: a write for
/// each change of each of thousands of nodes would be thousands of writes, and their names alone more than an object
/// may take. A process that begins to lead begins to watch; until a reason changes its clock means "at least since
/// then", and the row of the reason in status shows since when any node of the pool has been kept by it, which is never
/// later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedSince {
    /// By name of the node, in order.
    clocks: Vec<(Arc<str>, Clock)>,
    watching: bool,
}

/// One node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Clock {
    reason: Reason,
    since: UnixTime,
    seen: bool,
}

/// Nodes that have been kept by one reason since one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptNodes {
    /// Reason why they stay, or that they are on their way out.
    pub reason: Reason,
    /// Start, without a break.
    pub since: UnixTime,
    /// True if that was seen to begin. If not, the watch began then, and they may have been kept for longer.
    pub seen: bool,
    /// The nodes, sorted.
    pub nodes: Vec<Arc<str>>,
}

impl BlockedSince {
    /// Takes the verdicts of a plan in, one a node and sorted by node. A clock goes on while the reason is the same; that of
    /// a node without a verdict ends.
    ///
    /// A plan that checked no node, because the view was stale, must not be noted: it shows nothing about any node.
    pub fn note(&mut self, verdicts: &[NodeVerdict], now: UnixTime) {
        let fresh = |reason, seen| Clock { reason, since: now, seen };
        let mut before = std::mem::take(&mut self.clocks).into_iter().peekable();
        self.clocks.reserve(verdicts.len());
        for verdict in verdicts {
            while before.next_if(|(node, _)| *node < verdict.node).is_some() {}
            let clock = match before.next_if(|(node, _)| *node == verdict.node) {
                Some((_, clock)) if clock.reason == verdict.reason => clock,
                Some(_) => fresh(verdict.reason, true),
                // A node that comes while somebody watches begins then.
                None => fresh(verdict.reason, self.watching),
            };
            self.clocks.push((verdict.node.clone(), clock));
        }
        self.watching = true;
    }

    /// Moves every clock by `by`, for a wall clock that was set.
    pub fn shift(&mut self, by: Seconds) {
        self.clocks.iter_mut().for_each(|(_, clock)| clock.since = clock.since.plus(by));
    }

    /// The clocks by reason and instant.
    #[must_use]
    pub fn rows(&self) -> Vec<KeptNodes> {
        let mut rows: std::collections::BTreeMap<Clock, Vec<Arc<str>>> = std::collections::BTreeMap::new();
        for (node, clock) in &self.clocks {
            rows.entry(*clock).or_default().push(node.clone());
        }
        let row = |(Clock { reason, since, seen }, nodes)| KeptNodes { reason, since, seen, nodes };
        rows.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;

    fn noted(
        blocked_since: &mut BlockedSince,
        verdicts: &[(&str, Reason)],
        at: i64,
    ) -> Vec<(String, Reason, i64, bool)> {
        let verdict = |(node, reason): &(&str, Reason)| NodeVerdict {
            node: (*node).into(),
            pool: "a".into(),
            reason: *reason,
            object: None,
        };
        let verdicts: Vec<NodeVerdict> = verdicts.iter().map(verdict).collect();
        blocked_since.note(&verdicts, UnixTime(NOW.0 + at));
        let mut rows: Vec<_> = blocked_since
            .rows()
            .into_iter()
            .flat_map(|row| {
                let since = row.since.0 - NOW.0;
                row.nodes.into_iter().map(move |node| (node.to_string(), row.reason, since, row.seen))
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn each_node_has_a_clock_of_its_own_reason() {
        let mut blocked_since = BlockedSince::default();
        let (pdb, used) = (Reason::NotEnoughPdb, Reason::NotUnderutilized);
        noted(&mut blocked_since, &[("a", pdb), ("b", used)], 0);
        // Another node is kept by the same reason from now on, and a third one comes.
        let rows = noted(&mut blocked_since, &[("a", pdb), ("b", pdb), ("c", used)], 60);
        let row = |node: &str, reason, since, seen| (node.to_owned(), reason, since, seen);
        assert_eq!(rows, [row("a", pdb, 0, false), row("b", pdb, 60, true), row("c", used, 60, true)]);
        // A break begins it anew, and a node that goes takes its clock along.
        noted(&mut blocked_since, &[("a", used), ("b", pdb)], 70);
        let rows = noted(&mut blocked_since, &[("a", pdb), ("b", pdb), ("c", used)], 80);
        assert_eq!(rows, [row("a", pdb, 80, true), row("b", pdb, 60, true), row("c", used, 80, true)]);
    }

    #[test]
    fn a_clock_that_is_set_takes_them_along() {
        let mut blocked_since = BlockedSince::default();
        noted(&mut blocked_since, &[("a", Reason::Empty)], 0);
        blocked_since.shift(Seconds(-3600));
        assert_eq!(blocked_since.rows()[0].since, UnixTime(NOW.0 - 3600));
    }
}
