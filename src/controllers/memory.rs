//! What the loop holds between two turns: the stored objects as last seen, the memory in hand, and what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::history::{History, IntentId, PoolHistory};
use headroom_core::plan::Step;
use headroom_core::time::UnixTime;

use crate::api::NodePool;
use crate::api::NodePoolStatus;

/// One NodePool as the API server has it, as far as we know.
#[derive(Clone, Debug)]
pub struct StoredPool {
    /// The object as the watch last delivered it; its status may be behind `status`.
    pub object: NodePool,
    /// The newest resourceVersion seen, by watch or by our own write.
    pub resource_version: String,
    /// The status as last read or written.
    pub status: NodePoolStatus,
    /// When a report was last written.
    pub reported_at: Option<tokio::time::Instant>,
}

/// What is known of each pool, by name.
pub type StoredPools = BTreeMap<Arc<str>, StoredPool>;

/// Steps that are being carried out, so that none runs twice at once.
#[derive(Clone, Debug, Default)]
pub struct InFlight(BTreeSet<StepKey>);

/// What makes two steps the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepKey {
    pool: Arc<str>,
    intent: IntentId,
    kind: StepKind,
    node: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepKind {
    Increase,
    Mark,
    Evict,
    Delete,
    Unmark,
}

impl StepKey {
    /// The key of a step.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let none: Arc<str> = Arc::from("");
        let (pool, intent, kind, node) = match step {
            Step::Increase { pool, intent, .. } => (pool.clone(), intent.clone(), StepKind::Increase, none),
            Step::Mark { pool, intent, .. } => (pool.clone(), intent.clone(), StepKind::Mark, none),
            Step::Evict { pool, intent, node, .. } => (pool.clone(), intent.clone(), StepKind::Evict, node.clone()),
            Step::Delete { pool, intent, .. } => (pool.clone(), intent.clone(), StepKind::Delete, none),
            // One node is unmarked once, whoever asked for it.
            Step::Unmark { node, .. } => (none.clone(), none, StepKind::Unmark, node.clone()),
        };
        Self { pool, intent, kind, node }
    }
}

impl InFlight {
    /// Notes a step as begun; false when the same step is under way already.
    pub fn begin(&mut self, key: &StepKey) -> bool {
        self.0.insert(key.clone())
    }

    /// Notes a step as ended.
    pub fn end(&mut self, key: &StepKey) {
        self.0.remove(key);
    }

    /// How many steps are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The pool a step needs the journal of; `None` for taking off an orphan mark, which is safe without one.
#[must_use]
pub fn journal_of(step: &Step) -> Option<&Arc<str>> {
    match step {
        Step::Increase { pool, .. } | Step::Mark { pool, .. } | Step::Evict { pool, .. } | Step::Delete { pool, .. } => {
            Some(pool)
        }
        Step::Unmark { .. } => None,
    }
}

/// Whether the journal in hand says something that the stored one does not: then it is written before any effect.
///
/// An intent that has ended need not be journalled first; the report tells of it.
#[must_use]
pub fn journal_differs(in_hand: &PoolHistory, stored: &PoolHistory) -> bool {
    in_hand.intents.iter().any(|intent| stored.intent(&intent.id) != Some(intent))
}

/// The history of one pool, made if it is not there.
pub fn pool_history<'a>(history: &'a mut History, pool: &Arc<str>) -> &'a mut PoolHistory {
    history.pools.entry(pool.clone()).or_default()
}

/// The earlier of two instants, either of which may be absent.
#[must_use]
pub fn earlier(a: Option<UnixTime>, b: Option<UnixTime>) -> Option<UnixTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
