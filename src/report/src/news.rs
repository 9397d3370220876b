//! Changes of a plan's memory since the last comparison: the source of events and of counters. Pure state, no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::history::{
    Action, Backoff, Decision, DecisionOutcome, History, Increase, PoolHistory, Victim,
};
use headroom_core::reason::Reason;
use headroom_core::world::IntentId;
use headroom_core::world::provider::BackoffKey;

/// Something that has just become true of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A group is to grow.
    Growing {
        /// The pool.
        pool: Arc<str>,
        /// The intent.
        intent: IntentId,
        /// The increase, with the sizes before and after.
        increase: Increase,
        /// Reason.
        reason: Reason,
    },
    /// Nodes are to leave.
    Leaving {
        /// The pool.
        pool: Arc<str>,
        /// The intent.
        intent: IntentId,
        /// The nodes.
        victims: Vec<Victim>,
        /// Reason.
        reason: Reason,
    },
    /// A decision has ended.
    Ended {
        /// The pool.
        pool: Arc<str>,
        /// The decision, with its outcome.
        decision: Decision,
    },
    /// A group failed to grow and is held back.
    BackedOff {
        /// The pool.
        pool: Arc<str>,
        /// Key of the backoff.
        key: BackoffKey,
        /// The failure.
        backoff: Backoff,
    },
}

/// State that was last reported. The state that a pool's status had when it was first read, before a restart or by
/// another leader, has been reported.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    pools: BTreeMap<Arc<str>, LastReported>,
}

#[derive(Clone, Debug, Default)]
struct LastReported {
    intents: BTreeSet<IntentId>,
    open_decisions: BTreeSet<IntentId>,
    ended_decisions: BTreeSet<IntentId>,
    failures: BTreeMap<BackoffKey, u32>,
}

impl LastReported {
    fn of(memory: &PoolHistory) -> Self {
        let (open, ended) = memory
            .decisions
            .iter()
            .partition::<Vec<_>, _>(|decision| decision.outcome == DecisionOutcome::InProgress);
        let ids =
            |decisions: Vec<&Decision>| decisions.into_iter().map(|decision| decision.id.clone()).collect();
        Self {
            intents: memory.intents.iter().map(|intent| intent.id.clone()).collect(),
            open_decisions: ids(open),
            ended_decisions: ids(ended),
            failures: memory.backoffs.iter().map(|(key, backoff)| (key.clone(), backoff.failures)).collect(),
        }
    }
}

impl Tracker {
    /// Takes pools that are seen for the first time as they stand before a plan, so that what this very plan decides for
    /// them is news.
    pub fn meet(&mut self, history: &History) {
        for (pool, memory) in &history.pools {
            if !self.pools.contains_key(pool) {
                self.pools.insert(pool.clone(), LastReported::of(memory));
            }
        }
    }

    /// Returns the changes in `history`, pool by pool. Each is reported once. The first read of a pool has no changes.
    pub fn update(&mut self, history: &History) -> Vec<News> {
        let mut news = Vec::new();
        for (pool, memory) in &history.pools {
            let now = LastReported::of(memory);
            if let Some(before) = self.pools.get(pool) {
                compare(pool, before, memory, &mut news);
            }
            self.pools.insert(pool.clone(), now);
        }
        self.pools.retain(|pool, _| history.pools.contains_key(pool));
        news
    }
}

fn compare(pool: &Arc<str>, before: &LastReported, memory: &PoolHistory, news: &mut Vec<News>) {
    for intent in memory.intents.iter().filter(|intent| !before.intents.contains(&intent.id)) {
        let (pool, reason) = (pool.clone(), intent.reason);
        let intent_id = intent.id.clone();
        news.push(match &intent.action {
            Action::Increase(increase) => {
                News::Growing { pool, intent: intent_id, increase: increase.clone(), reason }
            }
            Action::Remove(removal) => {
                News::Leaving { pool, intent: intent_id, victims: removal.victims.clone(), reason }
            }
        });
    }
    for decision in &memory.decisions {
        let was_open = before.open_decisions.contains(&decision.id);
        let is_new = !was_open && !before.ended_decisions.contains(&decision.id);
        if (was_open || is_new) && decision.outcome != DecisionOutcome::InProgress {
            news.push(News::Ended { pool: pool.clone(), decision: decision.clone() });
        }
    }
    for (key, backoff) in &memory.backoffs {
        if before.failures.get(key).copied().unwrap_or(0) < backoff.failures {
            news.push(News::BackedOff { pool: pool.clone(), key: key.clone(), backoff: backoff.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::history::Intent;
    use headroom_core::time::UnixTime;

    fn history(memory: PoolHistory) -> History {
        History { pools: BTreeMap::from([("general".into(), memory)]) }
    }

    fn growing(to: u32) -> PoolHistory {
        let intent = Intent {
            id: format!("1-{to}").into(),
            epoch: 1,
            action: Action::Increase(Increase::journalled("a".into(), to - 1, to)),
            reason: Reason::PodsUnschedulable,
            started_at: UnixTime(0),
            deadline: UnixTime(900),
        };
        PoolHistory { intents: vec![intent], ..PoolHistory::default() }
    }

    #[test]
    fn what_stood_before_the_start_is_no_news() {
        assert_eq!(Tracker::default().update(&history(growing(3))), []);
    }

    #[test]
    fn what_the_first_plan_of_a_pool_decides_is_news() {
        let mut tracker = Tracker::default();
        tracker.meet(&history(PoolHistory::default()));
        assert_eq!(tracker.update(&history(growing(3))).len(), 1);
        tracker.meet(&history(growing(4)));
        assert_eq!(tracker.update(&history(growing(4))).len(), 1, "a pool is met once");
    }

    #[test]
    fn an_intent_is_news_once() {
        let mut tracker = Tracker::default();
        tracker.update(&history(PoolHistory::default()));
        let news = tracker.update(&history(growing(3)));
        assert!(matches!(&news[..], [News::Growing { increase, .. }] if increase.to == 3));
        assert_eq!(tracker.update(&history(growing(3))), []);
    }

    #[test]
    fn each_further_failure_is_news() {
        let failed = |failures| {
            let key = BackoffKey { group: "a".into(), ..BackoffKey::default() };
            let backoff = Backoff {
                class: headroom_core::world::provider::FailureClass::OutOfCapacity,
                failures,
                since: UnixTime(0),
                until: UnixTime(300),
                message: "none left".into(),
            };
            history(PoolHistory { backoffs: BTreeMap::from([(key, backoff)]), ..PoolHistory::default() })
        };
        let mut tracker = Tracker::default();
        tracker.update(&history(PoolHistory::default()));
        assert_eq!(tracker.update(&failed(1)).len(), 1);
        assert_eq!(tracker.update(&failed(1)).len(), 0);
        assert_eq!(tracker.update(&failed(2)).len(), 1);
    }
}
