//! Status writes: the facts that they may drop, their maximum size, and that each of them reports something new.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::truth::{self, Intent};
use super::{BELIEF, Checker};
use headroom_simulator::store::{Store, at, number, text, timestamp};
use headroom_simulator::wire::Call;

/// Fields that hold instants of nodes and of controllers, each bounded by its rows.
const CLOCKS: [&str; 2] = ["unneeded", "evicted"];
/// Largest status without clocks (design rule 9).
const STATUS_BYTES_MAX: usize = 32 * 1024;
const DECISIONS_MAX: usize = 20;

/// By then the journals of all pools of one plan have been written.
const JOURNALS_WRITTEN: SignedDuration = SignedDuration::from_secs(2);

/// Maximum time by which the operator's clock may be ahead of the cluster: dates of answers are whole seconds, and two
/// more are tolerated before it is set (`host/server_clock`).
const CLOCK_ERROR: SignedDuration = SignedDuration::from_secs(3);

impl Checker {
    pub(super) fn status_begins(&mut self, call: &Call) {
        if text(&call.body, &["metadata", "resourceVersion"]).unwrap_or_default().is_empty() {
            self.violated(call.now, "I21", format!("status of {} names no resourceVersion", call.key));
        }
    }

    pub(super) fn status_ends(
        &mut self,
        store: &Store,
        now: Timestamp,
        pool: &str,
        before: &Value,
        after: &Value,
    ) {
        self.check_size(now, pool, before, after);
        self.check_backoffs(now, pool, before, after);
        self.note_unneeded(now, pool, before, after);
        let (was, is) = (truth::intents(before), truth::intents(after));
        let opened: Vec<&Intent> =
            is.iter().filter(|one| was.iter().all(|other| other.id != one.id)).collect();
        for one in &was {
            if is.iter().all(|other| other.id != one.id) {
                self.closed.insert((pool.to_owned(), one.id.clone()));
                self.check_closed(now, pool, one, after);
                if one.removes() {
                    let nodes = one.instances.iter().map(|(node, _)| (node.clone(), now));
                    self.let_go.extend(nodes);
                }
                let named = |node: &String| {
                    is.iter().any(|other| other.instances.iter().any(|(name, _)| name == node))
                };
                let listed = unneeded(after);
                for (node, _) in
                    one.instances.iter().filter(|(node, _)| !listed.contains(node) && !named(node))
                {
                    self.unneeded.remove(node);
                }
            }
        }
        for intent in &opened {
            self.check_opened(now, pool, intent, before, after);
        }
        self.check_recorded(now, pool, &opened, after);
        self.note_refusals(store, now, pool, &was, after);
        self.check_quotas(store, now, pool, &opened);
        self.check_rooms(now, &opened);
        self.check_gangs(now, &opened);
        self.check_requests(now, &opened);
        if let Some(removal) = opened.iter().find(|intent| intent.removes()) {
            self.check_freshness(&format!("removal {} is begun", removal.id), now);
            self.check_removals(store, now, &opened);
            self.check_limits(store, now, pool, &opened);
        }
    }

    /// I23.
    fn check_size(&mut self, now: Timestamp, pool: &str, before: &Value, after: &Value) {
        let mut status = at(after, &["status"]).cloned().unwrap_or_default();
        if let Some(fields) = status.as_object_mut() {
            CLOCKS.iter().for_each(|clocks| drop(fields.remove(*clocks)));
        }
        let bytes = status.to_string().len();
        if STATUS_BYTES_MAX < bytes {
            let largest = largest_fields(&status);
            self.violated(
                now,
                "I23",
                format!("status of {pool} has {bytes} bytes without clocks: {largest}"),
            );
        }
        let decisions = at(&status, &["decisions"]).and_then(Value::as_array).map_or(0, Vec::len);
        if DECISIONS_MAX < decisions {
            self.violated(now, "I23", format!("status of {pool} has {decisions} decisions"));
        }
        let generation = |object: &Value| number(object, &["status", "observedGeneration"]);
        if generation(after) < generation(before) && !self.status_tampered {
            self.violated(now, "I23", format!("observedGeneration of {pool} goes backwards"));
        }
    }

    /// Statuses that are not stored delay what they report: a node counts as unneeded since the time that the status gives, but not
    /// since before the last one of its pool.
    fn note_unneeded(&mut self, now: Timestamp, pool: &str, before: &Value, after: &Value) {
        let (was, is) = (unneeded(before), unneeded(after));
        let last_report = self.reported.insert(pool.to_owned(), now).unwrap_or(now);
        let known = self.awake.known_since(now);
        for (node, since) in unneeded_rows(after) {
            let since = since.map_or(known, |since| since.max(last_report).min(known));
            self.unneeded.entry(node).or_insert(since);
        }
        // Nodes that leave the list because their removal begins are checked below.
        let leaving: BTreeSet<String> = truth::intents(after)
            .into_iter()
            .filter(Intent::removes)
            .flat_map(|intent| intent.instances)
            .map(|(node, _)| node)
            .collect();
        for node in was.difference(&is).filter(|node| !leaving.contains(*node)) {
            self.unneeded.remove(node);
        }
    }

    /// I25: a node that goes because it was not needed has truly not been needed for its time. Half of it is taken for
    /// enough: the first status that names it comes a little later than the clock that it shows.
    fn check_unneeded(&mut self, now: Timestamp, intent: &Intent, pool: &Value) {
        if !matches!(intent.reason.as_str(), "Empty" | "Underutilized") || self.status_tampered {
            return;
        }
        let wanted = at(pool, &["spec", "scaleDown", "unneededFor"]).and_then(Value::as_str);
        let wanted: Option<SignedDuration> = wanted.and_then(|message| message.parse().ok());
        let Some(wanted) = wanted else { return };
        for (node, _) in &intent.instances {
            // Kept: a removal whose write was not answered may be decided once more, under another id.
            let since = self.unneeded.get(node).map(|at| now.duration_since(*at));
            if since.is_none_or(|since| since < wanted / 2) {
                let message = format!(
                    "node {node} goes as {} after {since:?}, {wanted:#} are asked for",
                    intent.reason
                );
                self.violated(now, "I25", message);
            }
        }
    }

    /// I14: a backoff that has not run out is neither forgotten nor shortened, and none is shorter than the first one is to
    /// be.
    fn check_backoffs(&mut self, now: Timestamp, pool: &str, before: &Value, after: &Value) {
        let (was, is) = (backoffs(before), backoffs(after));
        let tampered = self.status_tampered;
        for (key, length) in backoff_lengths(after).into_iter().filter(|_| !tampered) {
            let least = at(after, &["spec", "scaleUp", "backoff", "initial"]).and_then(Value::as_str);
            if let Some(least) = least.and_then(|message| message.parse::<SignedDuration>().ok())
                && length < least
            {
                let message = format!("backoff {key} of {pool} lasts {length:#}, the first lasts {least:#}");
                self.violated(now, "I14", message);
            }
        }
        for (key, until) in &was {
            if *until <= now {
                continue;
            }
            match is.get(key) {
                Some(later) if until <= later => {}
                Some(earlier) => {
                    self.violated(
                        now,
                        "I14",
                        format!("backoff {key} of {pool} shortened from {until} to {earlier}"),
                    );
                }
                None => {
                    self.violated(now, "I14", format!("backoff {key} of {pool} until {until} is forgotten"))
                }
            }
        }
    }

    /// I3: an intent that leaves the journal has ended in some way, and its decision says in which.
    fn check_closed(&mut self, now: Timestamp, pool: &str, intent: &Intent, after: &Value) {
        let decisions = at(after, &["status", "decisions"]).and_then(Value::as_array);
        let decision =
            decisions.and_then(|all| all.iter().find(|one| text(one, &["id"]) == Some(&intent.id)));
        if decision.and_then(|one| text(one, &["outcome"])) == Some("InProgress") {
            self.violated(
                now,
                "I3",
                format!("intent {} of {pool} is dropped while it is in progress", intent.id),
            );
        }
    }

    /// I22: each new intent has a record, unless later decisions fill the list, where rows that had no room beside a long journal
    /// count as such, or at least as many rows had no room as intents lack a record.
    fn check_recorded(&mut self, now: Timestamp, pool: &str, opened: &[&Intent], after: &Value) {
        let decisions = at(after, &["status", "decisions"]).and_then(Value::as_array);
        let ids: Vec<&str> = decisions.into_iter().flatten().filter_map(|one| text(one, &["id"])).collect();
        let left_out = number(after, &["status", "truncated"]).unwrap_or(0);
        let left_out = usize::try_from(left_out).unwrap_or(0);
        let lacks = |intent: &&&Intent| {
            let later = ids.iter().filter(|id| number_of(&intent.id) < number_of(id));
            !ids.contains(&intent.id.as_str()) && later.count() + left_out < DECISIONS_MAX
        };
        let lacking: Vec<&&Intent> = opened.iter().filter(lacks).collect();
        if left_out < lacking.len() {
            for intent in lacking {
                self.violated(now, "I22", format!("intent {} of {pool} has no decision record", intent.id));
            }
        }
    }

    /// I2, I14 of a new intent.
    fn check_opened(&mut self, now: Timestamp, pool: &str, intent: &Intent, before: &Value, after: &Value) {
        let id = &intent.id;
        if intent.increases() {
            self.purchases_count += 1;
        } else {
            *self.removals_count.entry(intent.reason.clone()).or_default() += 1;
        }
        if self.closed.contains(&(pool.to_owned(), id.clone())) && !self.may_repeat_ids(pool) {
            self.violated(now, "I2", format!("intent {id} of {pool} is opened a second time"));
        }
        self.check_unneeded(now, intent, after);
        if intent.increases() {
            // A status that was erased or restored has forgotten which ids were used: the record of the id is another
            // intent's. One that is only written back has the same beginning.
            let key = (pool.to_owned(), id.clone());
            let begun = self.begun.insert(key.clone(), intent.started_at.clone());
            if self.may_repeat_ids(pool) && begun.is_some_and(|begun| begun != intent.started_at) {
                self.raised.remove(&key);
            }
            let held = backoffs(before)
                .into_iter()
                .find(|(key, until)| now + CLOCK_ERROR < *until && *key == format!("{}///", intent.group));
            if let Some((key, until)) = held {
                self.violated(
                    now,
                    "I14",
                    format!("intent {id} grows {key} of {pool}, which is backed off until {until}"),
                );
            }
        }
    }

    /// I7: one plan may end removals in one pool and begin others in another; their journals are two writes. So too many
    /// are counted once more when both have been written.
    pub(super) fn check_crowded(&mut self, store: &Store, now: Timestamp) {
        let due = |(since, _): &(Timestamp, _)| JOURNALS_WRITTEN < now.duration_since(*since);
        let Some((since, ids)) = self.crowded.take_if(|crowded| due(crowded)) else { return };
        let pools = store.all(headroom_simulator::store::Kind::NodePool);
        let still = |intent: &Intent| {
            let known = ids.contains(&(intent.id.clone(), intent.started_at.clone()));
            known && intent.is_chosen() && !truth::is_called_back(store, intent)
        };
        let open: Vec<Intent> = pools.flat_map(|(_, pool)| truth::intents(pool)).filter(still).collect();
        let mut all: BTreeSet<&(String, String)> = open.iter().flat_map(|intent| &intent.instances).collect();
        all.retain(|(node, _)| truth::is_there(store, node));
        if self.limits.removals_max < all.len() {
            self.violated(since, "I7", format!("{} nodes are leaving", all.len()));
        }
    }

    /// I7: no more removals at once than the limits say, and none while a fifth is unready.
    ///
    /// A node that is gone leaves no more, whatever is still stored of its removal. A drain is a node that pods still have to leave. One plan may end a drain in one pool and begin the next in another;
    /// their journals are two writes, and between them the ended one is still stored as draining.
    fn check_removals(&mut self, store: &Store, now: Timestamp, opened: &[&Intent]) {
        if !opened.iter().any(|intent| intent.is_chosen()) {
            return;
        }
        let pools = store.all(headroom_simulator::store::Kind::NodePool);
        let counts = |intent: &Intent| intent.is_chosen() && !truth::is_called_back(store, intent);
        let open: Vec<Intent> = pools.flat_map(|(_, pool)| truth::intents(pool)).filter(counts).collect();
        let victims = |filter: &dyn Fn(&&Intent) -> bool| -> BTreeSet<&(String, String)> {
            let named = open.iter().filter(filter).flat_map(|intent| &intent.instances);
            named.filter(|(node, _)| truth::is_there(store, node)).collect()
        };
        let all = victims(&|_| true).len();
        let drained = victims(&|intent| intent.reason != "Empty" && intent.phase != "Deleting");
        let drains = drained.iter().filter(|(node, _)| truth::is_occupied(store, node)).count();
        if self.limits.drains_max < drains && !self.status_tampered {
            let open: Vec<String> =
                open.iter().map(|one| format!("{} {} {}", one.id, one.reason, one.phase)).collect();
            self.violated(now, "I7", format!("{drains} nodes are drained: {}", open.join(", ")));
        }
        if self.limits.removals_max < all && !self.status_tampered {
            let ids = open.iter().map(|intent| (intent.id.clone(), intent.started_at.clone())).collect();
            self.crowded.get_or_insert((now, ids));
        }
        if let Some(since) = self.unwell_since
            && BELIEF < now.duration_since(since)
        {
            self.violated(now, "I7", format!("a removal begins although a fifth is unready since {since}"));
        }
    }
}

/// The nodes that a status names as unneeded.
pub(super) fn unneeded(pool: &Value) -> BTreeSet<String> {
    unneeded_rows(pool).map(|(node, _)| node).collect()
}

/// The same with the time since which each is unneeded by that status.
fn unneeded_rows(pool: &Value) -> impl Iterator<Item = (String, Option<Timestamp>)> {
    let list = at(pool, &["status", "unneeded"]).and_then(Value::as_array);
    list.into_iter().flatten().flat_map(|one| {
        let since = timestamp(one, &["since"]);
        let nodes = at(one, &["nodes"]).and_then(Value::as_array).into_iter().flatten();
        nodes.filter_map(Value::as_str).map(move |node| (node.to_owned(), since))
    })
}

/// Ends of backoffs by what they hold back.
pub(super) fn backoffs(pool: &Value) -> BTreeMap<String, Timestamp> {
    backoff_rows(pool).filter_map(|(key, row)| Some((key, timestamp(row, &["until"])?))).collect()
}

/// Their lengths.
fn backoff_lengths(pool: &Value) -> Vec<(String, SignedDuration)> {
    let length = |row: &Value| Some(timestamp(row, &["until"])?.duration_since(timestamp(row, &["since"])?));
    backoff_rows(pool).filter_map(|(key, row)| Some((key, length(row)?))).collect()
}

fn backoff_rows(pool: &Value) -> impl Iterator<Item = (String, &Value)> {
    let list = at(pool, &["status", "backoffs"]).and_then(Value::as_array);
    list.into_iter().flatten().map(|row| {
        let word = |field: &str| text(row, &[field]).unwrap_or_default();
        let key = format!("{}/{}/{}/{}", word("group"), word("zone"), word("instanceType"), word("market"));
        (key, row)
    })
}

/// The number of an intent in its pool: ids are the epoch and it.
fn number_of(id: &str) -> u64 {
    id.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// The three fields of a status that take most of it, with their bytes.
fn largest_fields(status: &Value) -> String {
    let fields = status.as_object().into_iter().flatten();
    let mut sizes: Vec<(usize, &String)> =
        fields.map(|(name, value)| (value.to_string().len(), name)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let largest: Vec<String> = sizes.iter().take(3).map(|(bytes, name)| format!("{name} {bytes}")).collect();
    largest.join(", ")
}
