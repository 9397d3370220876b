//! Sums of one side over a time. They know no cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::{ScorecardFigures, ScorecardPoolFigures};
use headroom_core::time::Seconds;

/// Pools that have sums of their own; those of all others stand together under [`OTHERS`].
pub(crate) const POOLS_MAX: usize = 16;
/// Sums of the pools beyond [`POOLS_MAX`].
pub(crate) const OTHERS: &str = "(others)";

/// Sums of one side over a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nodes that an autoscaler runs, times seconds.
    pub node_seconds: i64,
    /// Prices of these nodes in millionths an hour, times seconds.
    pub price_micro_seconds: i64,
    /// Those of the node seconds whose price nobody knows.
    pub unpriced_node_seconds: i64,
    /// Nodes that came.
    pub nodes_added: i64,
    /// Nodes that went.
    pub nodes_removed: i64,
    /// Time that pods waited for a node.
    pub waits: Waits,
    /// Pods that had to leave with their node.
    pub evictions: i64,
    /// Replicas that workloads ask for, times seconds.
    pub replica_seconds: i64,
    /// Node seconds and price of each pool.
    pub pools: BTreeMap<Arc<str>, PoolFigures>,
}

/// Sums of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// As in [`Figures`].
    pub node_seconds: i64,
    /// As in [`Figures`].
    pub price_micro_seconds: i64,
}

impl Figures {
    /// Adds the sums of another time.
    pub fn add(&mut self, other: &Self) {
        let Self {
            node_seconds,
            price_micro_seconds,
            unpriced_node_seconds,
            nodes_added,
            nodes_removed,
            waits,
            evictions,
            replica_seconds,
            pools,
        } = other;
        self.node_seconds += node_seconds;
        self.price_micro_seconds += price_micro_seconds;
        self.unpriced_node_seconds += unpriced_node_seconds;
        self.nodes_added += nodes_added;
        self.nodes_removed += nodes_removed;
        self.waits.add(waits);
        self.evictions += evictions;
        self.replica_seconds += replica_seconds;
        for (name, figures) in pools {
            let sums = self.pool(name);
            sums.node_seconds += figures.node_seconds;
            sums.price_micro_seconds += figures.price_micro_seconds;
        }
    }

    /// The sums of a pool, or those of all others when there are too many pools.
    pub(crate) fn pool(&mut self, name: &Arc<str>) -> &mut PoolFigures {
        let known = self.pools.contains_key(name) || self.pools.len() < POOLS_MAX;
        let name = if known { name.clone() } else { Arc::from(OTHERS) };
        self.pools.entry(name).or_default()
    }

    /// The sums as they are stored.
    pub(crate) fn stored(&self) -> ScorecardFigures {
        ScorecardFigures {
            node_seconds: self.node_seconds,
            price_micro: self.price_micro_seconds / 3600,
            unpriced_node_seconds: self.unpriced_node_seconds,
            nodes_added: self.nodes_added,
            nodes_removed: self.nodes_removed,
            wait_seconds: self.waits.sum.0,
            waits: self.waits.stored(),
            evictions: self.evictions,
            replica_seconds: self.replica_seconds,
        }
    }

    /// The sums of what is stored; a number below 0 counts as 0.
    pub(crate) fn of(stored: &ScorecardFigures) -> Self {
        Self {
            node_seconds: stored.node_seconds.max(0),
            price_micro_seconds: stored.price_micro.max(0).saturating_mul(3600),
            unpriced_node_seconds: stored.unpriced_node_seconds.max(0),
            nodes_added: stored.nodes_added.max(0),
            nodes_removed: stored.nodes_removed.max(0),
            waits: Waits::of(Seconds(stored.wait_seconds.max(0)), &stored.waits),
            evictions: stored.evictions.max(0),
            replica_seconds: stored.replica_seconds.max(0),
            pools: BTreeMap::new(),
        }
    }
}

impl PoolFigures {
    pub(crate) fn stored(self) -> ScorecardPoolFigures {
        ScorecardPoolFigures { node_seconds: self.node_seconds, price_micro: self.price_micro_seconds / 3600 }
    }

    pub(crate) fn of(stored: &ScorecardPoolFigures) -> Self {
        Self {
            node_seconds: stored.node_seconds.max(0),
            price_micro_seconds: stored.price_micro.max(0).saturating_mul(3600),
        }
    }
}

/// Times that pods waited for a node, by length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Their sum.
    pub sum: Seconds,
    /// Their number, by the first of the bounds that each is not above; the last row is for those above all.
    pub counts: [i64; BUCKETS],
}

const BUCKETS: usize = headroom_api::SCORECARD_WAIT_BOUNDS.len() + 1;

impl Waits {
    /// Adds one.
    pub fn note(&mut self, wait: Seconds) {
        let wait = Seconds(wait.0.max(0));
        let place = headroom_api::SCORECARD_WAIT_BOUNDS.iter().position(|bound| wait.0 <= *bound);
        self.counts[place.unwrap_or(BUCKETS - 1)] += 1;
        self.sum = Seconds(self.sum.0 + wait.0);
    }

    fn add(&mut self, other: &Self) {
        self.sum = Seconds(self.sum.0 + other.sum.0);
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// The number of waits.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.counts.iter().sum()
    }

    /// The counts up to the last one that is not 0.
    fn stored(&self) -> Vec<i64> {
        let used = self.counts.iter().rposition(|count| *count != 0).map_or(0, |last| last + 1);
        self.counts[..used].to_vec()
    }

    fn of(sum: Seconds, stored: &[i64]) -> Self {
        let mut counts = [0; BUCKETS];
        for (count, stored) in counts.iter_mut().zip(stored) {
            *count = (*stored).max(0);
        }
        Self { sum, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_stored_without_the_rows_behind_the_longest() {
        let mut waits = Waits::default();
        for seconds in [0, 1, 3, 45, -7] {
            waits.note(Seconds(seconds));
        }
        assert_eq!((waits.count(), waits.sum), (5, Seconds(49)));
        assert_eq!(Waits::of(waits.sum, &waits.stored()), waits);
    }

    #[test]
    fn pools_beyond_the_bound_stand_together() {
        let mut figures = Figures::default();
        for index in 0..POOLS_MAX + 3 {
            figures.pool(&format!("pool-{index:02}").into()).node_seconds += 1;
        }
        assert_eq!(figures.pools.len(), POOLS_MAX + 1);
        assert_eq!(figures.pools[OTHERS].node_seconds, 3);
    }
}
