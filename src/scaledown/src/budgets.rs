//! Limits on the number of nodes that leave at once: the ceilings of pools and cluster. It counts, and picks no node.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_cluster::history::{History, RemovalPhase};
use headroom_pools::config::{Budget, Ceiling, Config, Pool};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;
use headroom_values::window::Window;

/// Number of nodes that are leaving and may still begin to; the budgets are asked for each removal.
#[derive(Clone, Debug)]
pub struct Allowance<'c> {
    config: &'c Config,
    ready: BTreeMap<Arc<str>, u32>,
    leaving: Vec<Leaving>,
    /// Number of nodes that were leaving, and of those draining, when a group began to be taken as a whole.
    whole: Option<(usize, usize)>,
    now: UnixTime,
}

/// One node on its way out.
#[derive(Clone, Debug)]
struct Leaving {
    pool: Arc<str>,
    reason: Reason,
    drains: bool,
}

/// Reason why a removal is held back, with the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// `BudgetExhausted` or `DisruptionStopped`.
    pub reason: Reason,
    /// The budget's name, as `budget/<pool>/<name>`; the cluster's own have no pool.
    pub object: Option<Arc<str>>,
}

impl<'c> Allowance<'c> {
    /// Counts the removals under way. `ready` is the number of ready nodes of each pool.
    ///
    /// Removals that are being undone still count: until the mark is off, their node is disturbed.
    #[must_use]
    pub fn new(config: &'c Config, history: &History, ready: BTreeMap<Arc<str>, u32>, now: UnixTime) -> Self {
        let mut leaving = Vec::new();
        for (pool, memory) in &history.pools {
            for (intent, removal) in memory.removals() {
                let drains = drains(intent.reason) && removal.phase != RemovalPhase::Deleting;
                if intent.reason == Reason::NeverRegistered {
                    continue;
                }
                let one = Leaving { pool: pool.clone(), reason: intent.reason, drains };
                leaving.extend(removal.victims.iter().map(|_| one.clone()));
            }
        }
        Self { config, ready, leaving, whole: None, now }
    }

    /// Takes room for one more removal; nothing is taken when it is held back.
    ///
    /// The smallest of all active ceilings wins: the kill switch, the cluster's `max_removals` and `max_drains`,
    /// the cluster's budgets over the nodes of all pools, and the pool's own. A node that the cloud takes is held back by
    /// the kill switch and by budgets that name `Interrupted`, and by nothing else.
    ///
    /// # Errors
    /// The first ceiling in that order that leaves no room.
    pub fn take(&mut self, pool: &Pool, reason: Reason) -> Result<(), Held> {
        let cluster = &self.config.cluster;
        let drains = drains(reason);
        if cluster.voluntary_disruption_stopped {
            return Err(Held { reason: Reason::DisruptionStopped, object: None });
        }
        let (in_flight, in_drain) = self.whole.unwrap_or_else(|| self.in_flight());
        let chosen = reason != Reason::Interrupted;
        if chosen && reaches(in_flight, cluster.max_removals) {
            return Err(exhausted("maxParallel"));
        }
        if chosen && drains && reaches(in_drain, cluster.max_drains) {
            return Err(exhausted("maxParallelDrains"));
        }
        let ready_all = self.ready.values().fold(0u32, |sum, count| sum.saturating_add(*count));
        for budget in limiting(&cluster.budgets, reason, self.now) {
            let counted = self.leaving.iter().filter(|one| concerns(budget, one.reason)).count();
            if reaches(counted, ceiling(budget.ceiling, ready_all)) {
                return Err(exhausted(&budget.name));
            }
        }
        let ready = self.ready.get(&pool.name).copied().unwrap_or(0);
        for budget in limiting(&pool.scale_down.budgets, reason, self.now) {
            let own = |one: &&Leaving| one.pool == pool.name && concerns(budget, one.reason);
            if reaches(self.leaving.iter().filter(own).count(), ceiling(budget.ceiling, ready)) {
                return Err(exhausted(&format!("{}/{}", pool.name, budget.name)));
            }
        }
        self.leaving.push(Leaving { pool: pool.name.clone(), reason, drains });
        Ok(())
    }

    /// From here on until [`Allowance::end_whole`] a group is taken as a whole: it needs room for its first node in the
    /// cluster's `max_removals` and `max_drains`, and may go beyond them, or else a large one could never go. Budgets that
    /// people wrote hold for all its nodes.
    ///
    /// Source: core/scaledown/budgets, CropNodes: one atomic group may overflow the budget.
    pub fn begin_whole(&mut self) {
        self.whole = Some(self.in_flight());
    }

    /// The group has been taken, or not.
    pub fn end_whole(&mut self) {
        self.whole = None;
    }

    /// Nodes that the cloud takes go anyway: they hold up no other.
    fn in_flight(&self) -> (usize, usize) {
        let chosen = self.leaving.iter().filter(|one| one.reason != Reason::Interrupted);
        (chosen.clone().count(), chosen.filter(|one| one.drains).count())
    }
}

/// True if the window is open at `now`.
#[must_use]
pub fn open(window: &Window, now: UnixTime) -> bool {
    window.active_at(now.to_jiff()).is_some()
}

/// The next instant at which a budget opens or closes.
#[must_use]
pub fn next_change(config: &Config, now: UnixTime) -> Option<UnixTime> {
    let pools = config
        .pools
        .iter()
        .flat_map(|pool| pool.scale_down.budgets.iter().filter_map(|budget| budget.window.as_ref()));
    let cluster = config.cluster.budgets.iter().filter_map(|budget| budget.window.as_ref());
    let changes = pools.chain(cluster).filter_map(|window| window.next_change(now.to_jiff()));
    changes.min().map(UnixTime::from_jiff)
}

/// True if a removal for this reason counts as a drain: all but those of nodes found empty.
fn drains(reason: Reason) -> bool {
    reason != Reason::Empty
}

/// The budgets that are active and limit removals for this reason.
fn limiting(budgets: &[Budget], reason: Reason, now: UnixTime) -> impl Iterator<Item = &Budget> {
    let active = move |budget: &&Budget| budget.window.as_ref().is_none_or(|window| open(window, now));
    budgets.iter().filter(move |budget| concerns(budget, reason)).filter(active)
}

/// Consolidation counts as underutilization: both move pods of healthy nodes to save. Interruptions concern only budgets
/// that name them.
fn concerns(budget: &Budget, reason: Reason) -> bool {
    let reason = if reason == Reason::Consolidated { Reason::Underutilized } else { reason };
    let all = budget.reasons.is_empty() && reason != Reason::Interrupted;
    all || budget.reasons.contains(&reason)
}

/// The ceiling in nodes. A percentage of ready nodes is rounded down, to at least 1 unless it is 0.
fn ceiling(ceiling: Ceiling, ready: u32) -> u32 {
    match ceiling {
        Ceiling::Nodes(nodes) => nodes,
        Ceiling::Percent(0) => 0,
        Ceiling::Percent(percent) => {
            let nodes = u64::from(ready) * u64::from(percent) / 100;
            u32::try_from(nodes).unwrap_or(u32::MAX).max(1)
        }
    }
}

fn reaches(count: usize, ceiling: u32) -> bool {
    u32::try_from(count).map_or(true, |count| ceiling <= count)
}

fn exhausted(name: &str) -> Held {
    Held { reason: Reason::BudgetExhausted, object: Some(format!("budget/{name}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_pools::testing::{NOW, config, pool};

    fn budget(ceiling: Ceiling, reasons: Vec<Reason>) -> Budget {
        Budget { name: "b".into(), ceiling, reasons, window: None }
    }

    /// Returns the number of removals of pools a and b, in turn, that are let through for this reason.
    fn let_through(config: &Config, reason: Reason) -> usize {
        let ready = [("a".into(), 20), ("b".into(), 20)].into();
        let mut allowance = Allowance::new(config, &History::default(), ready, NOW);
        (0..100).filter(|index| allowance.take(&config.pools[index % 2], reason).is_ok()).count()
    }

    #[test]
    fn percentage_rounds_down_to_at_least_one_unless_it_is_zero() {
        let cases = [(0, 100, 0), (1, 0, 1), (1, 99, 1), (10, 29, 2), (100, 7, 7)];
        for (percent, ready, expected) in cases {
            assert_eq!(ceiling(Ceiling::Percent(percent), ready), expected, "{percent}% of {ready}");
        }
        assert_eq!(ceiling(Ceiling::Nodes(0), 10), 0);
    }

    #[test]
    fn clusters_limits_span_all_pools_and_drains_have_their_own() {
        let config = config([pool("a"), pool("b")]);
        assert_eq!(let_through(&config, Reason::Empty), 10);
        assert_eq!(let_through(&config, Reason::Underutilized), 1);
    }

    #[test]
    fn smallest_ceiling_wins_and_pool_budgets_count_their_own_nodes_only() {
        let mut config = config([pool("a"), pool("b")]);
        config.cluster.max_removals = 100;
        config.pools[0].scale_down.budgets =
            vec![budget(Ceiling::Nodes(5), vec![]), budget(Ceiling::Percent(10), vec![])];
        config.pools[1].scale_down.budgets = vec![budget(Ceiling::Nodes(4), vec![])];
        assert_eq!(let_through(&config, Reason::Empty), 2 + 4);
        config.cluster.budgets = vec![budget(Ceiling::Percent(10), vec![Reason::Empty])];
        assert_eq!(let_through(&config, Reason::Empty), 4, "10% of all 40 ready nodes");
    }

    #[test]
    fn interruptions_are_bounded_by_budgets_that_name_them_and_bound_no_other_removal() {
        let mut config = config([pool("a"), pool("b")]);
        config.cluster.budgets = vec![budget(Ceiling::Nodes(0), vec![])];
        assert_eq!(let_through(&config, Reason::Interrupted), 100);
        config.pools[0].scale_down.budgets = vec![budget(Ceiling::Nodes(3), vec![Reason::Interrupted])];
        assert_eq!(let_through(&config, Reason::Interrupted), 3 + 50);
        config.cluster.budgets.clear();
        let mut allowance = Allowance::new(&config, &History::default(), BTreeMap::new(), NOW);
        for _ in 0..20 {
            assert!(allowance.take(&config.pools[1], Reason::Interrupted).is_ok());
        }
        assert!(allowance.take(&config.pools[1], Reason::Underutilized).is_ok());
        config.cluster.voluntary_disruption_stopped = true;
        assert_eq!(let_through(&config, Reason::Interrupted), 0);
    }

    #[test]
    fn kill_switch_lets_nothing_through() {
        let mut config = config([pool("a"), pool("b")]);
        config.cluster.voluntary_disruption_stopped = true;
        assert_eq!(let_through(&config, Reason::RemovalRequested), 0);
    }
}
