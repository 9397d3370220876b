//! State of the loop between two turns: the stored objects as last observed, the memory, and the last writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::history::{Action, PoolHistory};
use headroom_core::plan::{Outcome, Step};
use headroom_core::time::UnixTime;
use headroom_core::world::IntentId;
use tokio::time::Instant;
use tracing::warn;

use headroom_api::{
    ClusterScalingPolicySpec, ClusterScalingPolicyStatus, NodePoolSpec, NodePoolStatus, PolicyObject,
};
use headroom_report as report;

/// One NodePool as the API server has it, as far as we know.
#[derive(Clone, Debug)]
pub struct StoredPool {
    /// The newest resourceVersion seen, by watch or by our own write.
    pub resource_version: String,
    /// Counts edits of the spec; the newest seen.
    pub generation: i64,
    /// The status as last read or written.
    pub status: NodePoolStatus,
    /// The memory in that status.
    pub history: PoolHistory,
    /// Time at which a report was last written.
    pub reported_at: Option<Instant>,
    /// True if a write of ours has been accepted since the object was taken over: until then what is stored may be
    /// newer than our memory, by a late write of the leader before us.
    pub ours: bool,
    /// Statuses that were sent and not answered since this version: one of them may be stored by now.
    unanswered: Vec<NodePoolStatus>,
    /// Outcomes of steps since the first of them.
    answers: Vec<Outcome>,
    /// Parts of the stored status that were invalid, until an event has reported them.
    pub left_out: Vec<String>,
    /// All that was left out when it was last read.
    read_without: Vec<String>,
    uid: Arc<str>,
}

/// Result of reading a pool again.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadBack {
    /// The pool that was known, whatever has changed in it.
    Known,
    /// Another pool of the same name, whose memory is its own.
    Another,
    /// A status of ours whose write was never answered: it is the memory, with what the world has answered since.
    Landed(Vec<Outcome>),
    /// A status that the leader before us wrote and that was stored after we had read the pool. Nothing has been written in this
    /// term, so it is the memory: otherwise the first write would open again what it has closed, and drop what it has opened.
    Late,
}

/// Statuses kept that were not answered. Of those sent for one version only one can be stored; one a second is sent.
const UNANSWERED_MAX: usize = 8;

impl StoredPool {
    /// The pool as just read. What cannot be read of its status counts as not there, and the next report writes it anew.
    #[must_use]
    pub fn of(object: &PolicyObject<NodePoolSpec>) -> Self {
        let read = Self::read(object, &[]);
        read.log_left_out(&object.name);
        read
    }

    fn log_left_out(&self, name: &str) {
        for note in &self.left_out {
            warn!(pool = %name, %note, "left out of the stored status");
        }
    }

    /// The pool as just read; parts left out of it that are in `known` are not new.
    fn read(object: &PolicyObject<NodePoolSpec>, known: &[String]) -> Self {
        let (status, mut left_out) = report::status_of(&object.status.value());
        let (history, not_understood) = report::parse(&status);
        left_out.extend(not_understood);
        let read_without = left_out.clone();
        left_out.retain(|note| !known.contains(note));
        Self {
            resource_version: object.resource_version.clone(),
            generation: object.generation,
            history,
            status,
            reported_at: None,
            ours: false,
            unanswered: Vec::new(),
            answers: Vec::new(),
            left_out,
            read_without,
            uid: object.uid.clone(),
        }
    }

    /// The pool as a new term finds it: as just read, or as this process wrote it last, where that is the newer one. A
    /// server that has fallen behind lists less than we know.
    #[must_use]
    pub fn taken_over(object: &PolicyObject<NodePoolSpec>, before: Option<&Self>) -> Self {
        let ahead = before.filter(|before| {
            before.uid == object.uid && newer(&before.resource_version, &object.resource_version)
        });
        ahead.map_or_else(
            || Self::of(object),
            |before| Self {
                reported_at: None,
                ours: false,
                unanswered: Vec::new(),
                answers: Vec::new(),
                ..before.clone()
            },
        )
    }

    /// The watch delivered the object. It may be older than our own last write, so only a newer version counts; an
    /// object made anew under the same name is another pool.
    pub fn seen(&mut self, object: &PolicyObject<NodePoolSpec>) -> ReadBack {
        if !self.is_of(object) {
            *self = Self::of(object);
            return ReadBack::Another;
        }
        if newer(&object.resource_version, &self.resource_version) {
            return self.read_back(object);
        }
        ReadBack::Known
    }

    /// True if this is the pool as which the object is known, and not an earlier one of the same name.
    #[must_use]
    pub fn is_of(&self, object: &PolicyObject<NodePoolSpec>) -> bool {
        self.uid == object.uid
    }

    /// The object was read live, or its watch is ahead of us; it is the one that is known.
    ///
    /// A status that is stored word for word as it was sent is our own write: otherwise the next write would take back
    /// its content, and with it intents and backoffs that were stored.
    pub fn read_back(&mut self, object: &PolicyObject<NodePoolSpec>) -> ReadBack {
        let fresh = Self::read(object, &self.read_without);
        fresh.log_left_out(&object.name);
        let landed = self.unanswered.contains(&fresh.status);
        let known = std::mem::replace(self, fresh);
        self.reported_at = known.reported_at;
        self.ours = known.ours || landed;
        self.left_out.splice(0..0, known.left_out);
        if landed {
            return ReadBack::Landed(known.answers);
        }
        if self.resource_version == known.resource_version {
            // It may be done yet.
            (self.unanswered, self.answers) = (known.unanswered, known.answers);
        }
        // A leader never uses a number twice: a status with a lower one was erased or restored by somebody else.
        let goes_on = known.history.sequence <= self.history.sequence;
        if !self.ours && goes_on && self.status != known.status { ReadBack::Late } else { ReadBack::Known }
    }

    /// Our own write was not answered: it may have been done, or be done yet.
    pub fn sent(&mut self, status: NodePoolStatus) {
        if UNANSWERED_MAX <= self.unanswered.len() {
            self.unanswered.remove(0);
        }
        self.unanswered.push(status);
    }

    /// The world has answered a step.
    pub fn answered(&mut self, outcome: &Outcome) {
        if !self.unanswered.is_empty() {
            self.answers.push(outcome.clone());
        }
    }

    /// Our own write was accepted.
    pub fn written(&mut self, resource_version: String, status: NodePoolStatus, at: Instant) {
        self.resource_version = resource_version;
        self.history = report::parse(&status).0;
        self.status = status;
        self.reported_at = Some(at);
        self.ours = true;
        self.unanswered.clear();
        self.answers.clear();
        self.read_without.clear();
    }
}

/// True if version `a` is newer than `b`. Versions that are not numbers are taken as newer: the server is the truth.
pub fn newer(a: &str, b: &str) -> bool {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a > b,
        _ => a != b,
    }
}

/// The cluster policy as the API server has it, as far as we know.
#[derive(Clone, Debug)]
pub struct StoredCluster {
    /// The newest resourceVersion seen.
    pub resource_version: String,
    /// The status as last read or written.
    pub status: ClusterScalingPolicyStatus,
    /// Time at which it was last written.
    pub reported_at: Option<Instant>,
    /// Unique id: an object made anew is another one.
    pub uid: Arc<str>,
}

impl StoredCluster {
    /// The policy as just read. Its status is not a memory, so one that cannot be read is simply written anew.
    #[must_use]
    pub fn of(object: &PolicyObject<ClusterScalingPolicySpec>) -> Self {
        Self {
            resource_version: object.resource_version.clone(),
            status: serde_json::from_value(object.status.value()).unwrap_or_default(),
            reported_at: None,
            uid: object.uid.clone(),
        }
    }
}

/// Known state of each pool, by name.
pub type StoredPools = BTreeMap<Arc<str>, StoredPool>;

/// Steps that are being carried out, so that none runs twice at once, and those that are to wait.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    running: BTreeSet<StepKey>,
    /// Nodes of deletions that are under way.
    ending: BTreeMap<StepKey, Vec<Arc<str>>>,
    waiting: BTreeMap<StepKey, UnixTime>,
}

/// Key of a step: two steps with equal keys are the same.
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
            // One call on the size at a time.
            Step::Increase { pool, intent, .. } | Step::Cancel { pool, intent, .. } => {
                (pool.clone(), intent.clone(), StepKind::Increase, none)
            }
            Step::Mark { pool, intent, .. } => (pool.clone(), intent.clone(), StepKind::Mark, none),
            Step::Evict { pool, intent, node, .. } => {
                (pool.clone(), intent.clone(), StepKind::Evict, node.clone())
            }
            Step::Delete { pool, intent, .. } => (pool.clone(), intent.clone(), StepKind::Delete, none),
            // One node is unmarked once, whoever asked for it.
            Step::Unmark { node, .. } => (none.clone(), none, StepKind::Unmark, node.clone()),
        };
        Self { pool, intent, kind, node }
    }
}

/// Kind of a step's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// For the first time.
    First,
    /// After it was pending, refused, or ended without an answer.
    Again,
}

impl InFlight {
    /// Notes a step as begun; `None` when the same step is under way already, or is to wait. While a node's deletion is
    /// under way its mark stays, whatever has become of its removal or its pool: the node has had its last look, and no pod
    /// may come after it.
    pub fn begin(&mut self, key: &StepKey, step: &Step, now: UnixTime) -> Option<Beginning> {
        let waits = self.waiting.get(key).is_some_and(|until| now < *until);
        let ends = |node: &Arc<str>| self.ending.values().flatten().any(|ending| ending == node);
        if waits || matches!(step, Step::Unmark { node, .. } if ends(node)) {
            return None;
        }
        let waited = self.waiting.remove(key).is_some();
        let begins = self.running.insert(key.clone());
        if let (true, Step::Delete { victims, .. }) = (begins, step) {
            let nodes = victims.iter().map(|victim| victim.node.clone()).collect();
            self.ending.insert(key.clone(), nodes);
        }
        begins.then_some(if waited { Beginning::Again } else { Beginning::First })
    }

    /// Notes a step as ended; it is not begun again before `until`, if that is given.
    pub fn end(&mut self, key: &StepKey, until: Option<UnixTime>) {
        self.running.remove(key);
        self.ending.remove(key);
        if let Some(until) = until {
            self.waiting.insert(key.clone(), until);
        }
    }

    /// Time at which the next waiting step may be begun; steps that nobody asks for any more are forgotten.
    pub fn next_due(&mut self, now: UnixTime) -> Option<UnixTime> {
        self.waiting.retain(|_, until| now < *until);
        self.waiting.values().min().copied()
    }

    /// Pools and intents of the increases whose call is under way, those being taken back among them.
    #[must_use]
    pub fn increases(&self) -> BTreeSet<(Arc<str>, IntentId)> {
        let increases = self.running.iter().filter(|key| key.kind == StepKind::Increase);
        increases.map(|key| (key.pool.clone(), key.intent.clone())).collect()
    }

    /// Pools and intents of the deletions whose call is under way.
    #[must_use]
    pub fn deletions(&self) -> BTreeSet<(Arc<str>, IntentId)> {
        let deletions = self.running.iter().filter(|key| key.kind == StepKind::Delete);
        deletions.map(|key| (key.pool.clone(), key.intent.clone())).collect()
    }

    /// Number of steps that are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// True if nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

/// The pool a step needs the journal of; `None` for taking off an orphan mark, which is safe without one.
#[must_use]
pub fn journal_of(step: &Step) -> Option<&Arc<str>> {
    match step {
        Step::Increase { pool, .. }
        | Step::Cancel { pool, .. }
        | Step::Mark { pool, .. }
        | Step::Evict { pool, .. }
        | Step::Delete { pool, .. } => Some(pool),
        Step::Unmark { .. } => None,
    }
}

/// True if the journal in memory has something that the stored one has not: then it is written before any effect.
///
/// An intent that has ended need not be journalled first; the report shows it. One that an earlier term wrote differs by
/// its term: nothing is done for it before the API server has accepted a write of this one.
#[must_use]
pub fn journal_differs(in_hand: &PoolHistory, stored: &PoolHistory) -> bool {
    in_hand.intents.iter().any(|intent| stored.intent(&intent.id) != Some(intent))
}

/// True if `one` has an open increase that `other` has not.
#[must_use]
pub fn has_other_increase(one: &PoolHistory, other: &PoolHistory) -> bool {
    let mut increases = one.intents.iter().filter(|intent| matches!(intent.action, Action::Increase(_)));
    increases.any(|intent| other.intent(&intent.id).is_none())
}

#[cfg(test)]
mod tests {
    use headroom_core::history::Victim;

    use super::*;
    use headroom_core::world::provider::FailureClass;
    use serde_json::{Value, json};

    fn stored(status: Value) -> PolicyObject<NodePoolSpec> {
        PolicyObject {
            name: "general".into(),
            namespace: "".into(),
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            created_at: UnixTime(0),
            deleting: false,
            controller_uid: None,
            managed: false,
            spec: Err("not read here".to_owned()),
            status: status.into(),
        }
    }

    #[test]
    fn what_is_not_understood_of_a_status_is_kept_for_an_event_and_the_rest_is_used() {
        let backoff = json!({"group": "a", "class": FailureClass::OutOfCapacity.as_str(), "failures": 1,
            "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:05:00Z", "message": "none left"});
        let pool = StoredPool::of(&stored(json!({
            "sequence": "seven", "backoffs": [backoff, {"group": "b"}], "intents": 3,
        })));
        assert_eq!(pool.history.backoffs.len(), 1);
        let said = |what: &str| pool.left_out.iter().any(|note| note.starts_with(what));
        assert!(said("status.sequence"), "{:?}", pool.left_out);
        assert!(said("status.backoffs[1]"), "{:?}", pool.left_out);
        assert!(said("status.intents"), "{:?}", pool.left_out);
        assert_eq!(StoredPool::of(&stored(json!({}))).left_out, Vec::<String>::new());
    }

    fn version(version: &str, status: Value) -> PolicyObject<NodePoolSpec> {
        PolicyObject { resource_version: version.to_owned(), ..stored(status) }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests have no host")]
    fn what_the_leader_before_wrote_late_is_the_memory_until_this_one_has_written() {
        let taken_over = StoredPool::taken_over(&version("1", json!({"sequence": 7})), None);
        let seen = |status: Value| taken_over.clone().seen(&version("2", status));
        assert_eq!(seen(json!({"sequence": 8})), ReadBack::Late);
        assert_eq!(seen(json!({"sequence": 7, "truncated": 1})), ReadBack::Late, "it closed an intent");
        assert_eq!(seen(json!({"sequence": 7})), ReadBack::Known, "the spec was edited");
        assert_eq!(seen(json!({})), ReadBack::Known, "somebody has erased it");
        assert_eq!(seen(json!({"sequence": 3})), ReadBack::Known, "somebody has restored an older one");

        let mut written = taken_over;
        written.written(
            "2".to_owned(),
            NodePoolStatus { sequence: Some(8), ..Default::default() },
            Instant::now(),
        );
        assert_eq!(
            written.seen(&version("3", json!({"sequence": 9}))),
            ReadBack::Known,
            "somebody else's hand"
        );
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests have no host")]
    fn what_stays_in_a_status_is_noted_once_and_again_when_it_has_come_back() {
        let garbage = || json!({"intents": 3});
        let mut pool = StoredPool::of(&version("1", garbage()));
        pool.seen(&version("2", garbage()));
        assert_eq!(pool.left_out.len(), 1, "no event has said so yet: {:?}", pool.left_out);
        pool.left_out.clear();
        pool.seen(&version("3", garbage()));
        assert_eq!(pool.left_out, Vec::<String>::new());
        pool.seen(&version("4", json!({"intents": 3, "backoffs": 4})));
        assert_eq!(pool.left_out.len(), 1, "{:?}", pool.left_out);
        pool.written("5".to_owned(), NodePoolStatus::default(), Instant::now());
        pool.left_out.clear();
        pool.seen(&version("6", garbage()));
        assert_eq!(pool.left_out.len(), 1, "{:?}", pool.left_out);
    }

    #[test]
    fn a_mark_stays_while_its_nodes_deletion_is_under_way() {
        let now = UnixTime(0);
        let victim = Victim { node: "n".into(), id: "i-1".into() };
        let (pool, intent): (Arc<str>, IntentId) = ("general".into(), "1-1".into());
        let delete = Step::Delete { pool, intent, group: "g".into(), victims: vec![victim], force: false };
        let unmark = |node: &str| Step::Unmark { pool: None, intent: None, node: node.into() };
        let mut in_flight = InFlight::default();
        let mut begins = |step: &Step| in_flight.begin(&StepKey::of(step), step, now).is_some();
        assert!(begins(&delete));
        assert!(!begins(&unmark("n")), "a pod could come after the last look");
        assert!(begins(&unmark("other")));
        in_flight.end(&StepKey::of(&delete), None);
        assert!(in_flight.begin(&StepKey::of(&unmark("n")), &unmark("n"), now).is_some());
    }

    #[test]
    fn a_step_that_was_pending_begins_again_and_is_not_a_new_one() {
        let now = UnixTime(1000);
        let step = Step::Mark { pool: "p".into(), intent: "1-1".into(), nodes: vec!["n".into()] };
        let (key, mut in_flight) = (StepKey::of(&step), InFlight::default());
        assert_eq!(in_flight.begin(&key, &step, now), Some(Beginning::First));
        assert_eq!(in_flight.begin(&key, &step, now), None);
        in_flight.end(&key, Some(UnixTime(1010)));
        assert_eq!(in_flight.begin(&key, &step, now), None);
        assert_eq!(in_flight.begin(&key, &step, UnixTime(1010)), Some(Beginning::Again));
        in_flight.end(&key, None);
        assert_eq!(in_flight.begin(&key, &step, UnixTime(1020)), Some(Beginning::First));
    }
}
