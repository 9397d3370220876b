//! The sizes of workloads: every one that the operator writes is held against the bounds, rates and windows that were live, the
//! load as it truly was, and who owns the workload. It changes nothing and knows none of the operator's own reckoning.

mod handover;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::handover::Mode;
use super::observations::{Observation, Weight, asked_for};
use super::terms::{CLOCKS, Change, Knowledge, Terms};
use super::{Checker, Violation};
use headroom_simulator::cluster::Load;
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, number, text};
use headroom_simulator::wire::{Call, Caller};

/// Time that an edit may take to reach a decision's write: a watch that was cut, lists that were refused, a write that was
/// delayed and tried again. Silence, pauses and cuts are added to it.
const BELIEF: SignedDuration = SignedDuration::from_secs(45);
/// Maximum deviation of the load from what the size carries at the end, in percent: the tolerance, and whole percents.
const TOLERATED: i64 = 13;

/// A workload whose size is checked: the only Deployment of its namespace.
#[derive(Debug, Clone)]
pub struct Scaled {
    /// The Deployment.
    pub key: ObjectKey,
    /// Load that one replica carries.
    pub weight: Weight,
    /// Times at which schedules open and close, and their fewest replicas.
    pub openings: Vec<(Timestamp, Timestamp, i64)>,
    /// True if a metric is never known: then nothing may shrink.
    pub blind: bool,
    /// The load at the end, in thousandths of a CPU.
    pub load_milli: i64,
}

/// The records of all workloads.
#[derive(Debug, Default)]
pub struct Workloads {
    /// By namespace.
    all: BTreeMap<String, WorkloadRecord>,
    /// True if the operator runs HPAs.
    pub runs_hpas: bool,
    /// Times in which the controller-manager runs HPAs too: the start and, unless for good, the end.
    pub others: Vec<(Timestamp, Option<Timestamp>)>,
    /// Replicas and watches that hear nothing now.
    deaf_count: u32,
    /// The last time when there were any began then …
    deaf_since: Option<Timestamp>,
    /// … and ended then.
    deaf_until: Option<Timestamp>,
}

/// Record of one workload.
#[derive(Debug)]
struct WorkloadRecord {
    scaled: Scaled,
    /// Policies and HPAs as they are.
    objects: BTreeMap<(Kind, ObjectKey), Arc<Value>>,
    /// Owners of the workload with their terms, and the time at which each began; `None` for nobody.
    owners: Vec<(Timestamp, Option<Owner>)>,
    looks: Vec<Observation>,
    /// Changes by each policy: each has a memory of its own.
    changes: BTreeMap<ObjectKey, Vec<Change>>,
    /// The decision that each life has stored last.
    journals: BTreeMap<Caller, Journal>,
    /// The size that was written last, and its version; none before, and once somebody else has written another.
    written: Option<(u64, i64)>,
    /// Time at which somebody last laid hands on what its policies remember.
    struck_at: Option<Timestamp>,
    /// The Lease by which a policy's status was last written, and the highest term.
    terms: BTreeMap<ObjectKey, (String, i64)>,
}

/// A decision that is stored.
#[derive(Debug, Clone)]
struct Journal {
    policy: ObjectKey,
    change: Change,
    /// True if the size was written too.
    done: bool,
}

/// Policy or HPA that may write the size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    kind: Kind,
    name: Arc<str>,
    terms: Terms,
    mode: Mode,
    /// True if another policy is previewed beside it: then nobody knows whose read of the metrics it was.
    beside: bool,
}

impl Workloads {
    /// Checks these; an empty list is a world without them.
    #[must_use]
    pub fn of(scaled: &[Scaled], runs_hpas: bool) -> Workloads {
        let record = |scaled: &Scaled| WorkloadRecord {
            scaled: scaled.clone(),
            objects: BTreeMap::new(),
            owners: Vec::new(),
            looks: Vec::new(),
            changes: BTreeMap::new(),
            journals: BTreeMap::new(),
            written: None,
            struck_at: None,
            terms: BTreeMap::new(),
        };
        let all = scaled.iter().map(|one| (one.key.namespace.to_string(), record(one))).collect();
        Workloads { all, runs_hpas, ..Workloads::default() }
    }

    /// A replica or all watches hear nothing from now on, or again.
    pub(super) fn deaf(&mut self, deaf: bool, now: Timestamp) {
        if deaf {
            if self.deaf_count == 0 && !self.is_deaf(now) {
                self.deaf_since = Some(now);
            }
            self.deaf_count += 1;
        } else {
            self.deaf_count = self.deaf_count.saturating_sub(1);
            self.deaf_until = Some(now);
        }
    }

    /// Everybody hears everything from now on.
    pub(super) fn hears_all(&mut self, now: Timestamp) {
        if 0 < self.deaf_count {
            (self.deaf_count, self.deaf_until) = (0, Some(now));
        }
    }

    /// True if anybody's view may be old, or was a while ago.
    fn is_deaf(&self, now: Timestamp) -> bool {
        let lately = self.deaf_until.is_some_and(|until| now.duration_since(until) < BELIEF);
        0 < self.deaf_count || (self.deaf_since.is_some() && lately)
    }

    /// Returns the time since which everything that was true may still be believed.
    pub(super) fn believed_since(&self, now: Timestamp) -> Timestamp {
        let since = self.deaf_since.filter(|_| self.is_deaf(now)).unwrap_or(now);
        since.min(now).saturating_sub(BELIEF).unwrap_or(now)
    }
}

impl Checker {
    /// A policy or an HPA was changed.
    pub(super) fn note_owner(&mut self, entry: &Entry) {
        let runs_hpas = self.workloads.runs_hpas;
        let Some(record) = self.workloads.all.get_mut(&*entry.key.namespace) else { return };
        let key = (entry.kind, entry.key.clone());
        if entry.deleted {
            record.objects.remove(&key);
        } else {
            record.objects.insert(key, entry.object.clone());
        }
        let owner = record.owner(runs_hpas);
        if record.owners.last().is_none_or(|(_, last)| *last != owner) {
            record.owners.push((entry.at, owner));
        }
    }

    /// Somebody lays hands on the status of all policies of a namespace: proposals and changes from before are known to
    /// nobody for certain.
    pub fn sizes_forgotten(&mut self, namespace: &str, now: Timestamp) {
        let Some(record) = self.workloads.all.get_mut(namespace) else { return };
        record.struck_at = Some(now);
        record.changes.clear();
        record.looks.iter_mut().for_each(|look| look.kept = false);
    }

    /// The metrics of a namespace were asked for.
    pub fn is_asked(
        &mut self,
        store: &Store,
        load: &Load,
        (caller, namespace): (Caller, &str),
        answered: bool,
        now: Timestamp,
    ) {
        let deaf = self.workloads.is_deaf(now);
        let Some(record) = self.workloads.all.get_mut(namespace) else { return };
        let Scaled { key, weight, .. } = &record.scaled;
        let asks = if answered && !deaf { asked_for(store, load, key, *weight, now) } else { None };
        let exact = |look: &Observation| look.asks.filter(|(least, most)| least == most);
        let mut look = Observation { at: now, caller, answered, asks, kept: false };
        // An observation that only repeats the stored one need not be stored again.
        look.kept = record
            .looks
            .last()
            .is_some_and(|last| last.kept && exact(last).is_some() && exact(last) == exact(&look));
        record.looks.push(look);
    }

    /// True if a call is one that the operator may make for a workload.
    pub(super) fn is_of_workload(&self, call: &Call) -> bool {
        self.workloads.all.contains_key(&*call.key.namespace)
            && match (call.kind, call.method.as_str(), call.subresource.as_str()) {
                (Kind::Deployment, "PUT", "scale") | (Kind::ScalingPolicy, "PUT", "status") => true,
                (Kind::HorizontalPodAutoscaler, _, "status") => self.workloads.runs_hpas,
                // Policies for HPAs that have none.
                (Kind::ScalingPolicy, "POST", "") => {
                    text(&call.body, &["spec", "target", "type"]) == Some("HPA")
                }
                (Kind::ScalingPolicy, "DELETE", "") => true,
                _ => false,
            }
    }

    /// A write that concerns a workload took effect.
    pub(super) fn workload_is_written(&mut self, call: &Call, before: &Value, after: &Value) {
        if !self.workloads.all.contains_key(&*call.key.namespace) {
            return;
        }
        if call.subresource == "status" || call.subresource == "scale" {
            self.only_own_part(call, before, after);
        }
        match (call.kind, call.subresource.as_str()) {
            (Kind::ScalingPolicy, "status") => self.policy_status_is_written(call, before, after),
            (Kind::Deployment, "scale") => self.size_is_written(call, before, after),
            _ => {}
        }
    }

    /// I21: nothing but the size, or the status, changes, and the write names a version.
    fn only_own_part(&mut self, call: &Call, before: &Value, after: &Value) {
        let own = if call.subresource == "scale" { "/spec" } else { "" };
        let field = if call.subresource == "scale" { "replicas" } else { "status" };
        let stripped = |object: &Value| {
            let mut object = object.clone();
            for (path, field) in [
                (own, field),
                ("/metadata", "resourceVersion"),
                ("/metadata", "managedFields"),
                ("/metadata", "generation"),
            ] {
                if let Some(fields) = object.pointer_mut(path).and_then(Value::as_object_mut) {
                    fields.remove(field);
                }
            }
            object
        };
        let what = format!("{} {} {}", call.kind.info().plural, call.key, call.subresource);
        if stripped(before) != stripped(after) {
            self.violated(call.now, "I21", format!("{what} is written and more changes"));
        }
        if text(&call.body, &["metadata", "resourceVersion"]).unwrap_or_default().is_empty() {
            self.violated(call.now, "I21", format!("{what} is written and names no resourceVersion"));
        }
    }

    /// I10, I23; and what is stored outlives the process.
    fn policy_status_is_written(&mut self, call: &Call, before: &Value, after: &Value) {
        let term = self.term_of(call);
        if at(before, &["status"]) == at(after, &["status"]) {
            self.violated(
                call.now,
                "I23",
                format!("status of policy {} is written and says nothing new", call.key),
            );
        }
        let Some(record) = self.workloads.all.get_mut(&*call.key.namespace) else { return };
        let last = record.terms.entry(call.key.clone()).or_insert_with(|| term.clone());
        // Terms of two Leases are not compared.
        let late = term.0 == last.0 && term.1 < last.1;
        if !late {
            last.clone_from(&term);
        }
        let own = |look: &&mut Observation| look.caller == call.caller && look.at <= call.arrived_at;
        if let Some(look) = record.looks.iter_mut().rev().find(own) {
            look.kept = true;
        }
        if let Some(decision) = after.pointer("/status/decisions/0") {
            record.note_answered(&call.key, decision);
        }
        let decision =
            after.pointer("/status/decisions/0").filter(|one| text(one, &["outcome"]) == Some("InProgress"));
        if let Some(decision) = decision {
            let size = |field: &str| number(decision, &[field]).unwrap_or(0);
            let change = Change::new(call.arrived_at, size("from"), size("to"));
            let journal = Journal { policy: call.key.clone(), change, done: false };
            record.journals.insert(call.caller, journal);
        }
        if late {
            self.violated(
                call.now,
                "I10",
                format!("policy {} is written in term {} after a later one", call.key, term.1),
            );
        }
    }

    /// I1, I18, I19, I20, I22: a size is written.
    fn size_is_written(&mut self, call: &Call, before: &Value, after: &Value) {
        let size = |object: &Value| number(object, &["spec", "replicas"]).unwrap_or(1);
        let (from, to) = (size(before), size(after));
        if from == to {
            return;
        }
        let since = self.workloads.believed_since(call.now);
        let others_since = self.workloads.run_by_others_since(call.now);
        let Some(record) = self.workloads.all.get_mut(&*call.key.namespace) else { return };
        let mut wrong = Vec::new();
        let journal = record.journals.get_mut(&call.caller).filter(|one| one.change.to == to);
        match journal {
            None => wrong.push(("I22", "no stored decision says so".to_owned())),
            Some(journal) => {
                journal.done = true;
                let (policy, decided_at) = (journal.policy.clone(), journal.change.at);
                let changes = record.changes.get(&policy).cloned().unwrap_or_default();
                let maybe = record.doubtful(&policy, from);
                let write = Write { caller: call.caller, at: decided_at, from, to, changes, maybe };
                wrong.extend(record.not_owned(&policy, since));
                wrong.extend(record.run_by_others(&policy, others_since, since));
                wrong.extend(record.broken(&write, (since, call.now)));
                if record.struck_at.is_none_or(|struck_at| struck_at < decided_at) {
                    record.changes.entry(policy).or_default().push(Change::new(decided_at, from, to));
                }
            }
        }
        record.written =
            text(after, &["metadata", "resourceVersion"]).and_then(|one| Some((one.parse().ok()?, to)));
        for (invariant, message) in wrong {
            self.violated(call.now, invariant, format!("{} goes from {from} to {to}: {message}", call.key));
        }
    }

    /// I16: sizes that are not what the load asks for at the end. Those of HPAs that the controller-manager runs for good are
    /// its business.
    pub fn wrong_sizes(&self, store: &Store, now: Timestamp) -> Vec<Violation> {
        let others = self.workloads.run_by_others_since(now).is_some();
        let own = |record: &&WorkloadRecord| !(others && record.is_of_hpa());
        let message = self.workloads.all.values().filter(own).filter_map(|record| record.off(store, now));
        message.map(|message| Violation { at: now, invariant: "I16", message }).collect()
    }
}

/// A size that is written.
struct Write {
    caller: Caller,
    /// Time of the decision.
    at: Timestamp,
    from: i64,
    to: i64,
    /// Earlier changes by the same policy.
    changes: Vec<Change>,
    /// Changes that it may have made.
    maybe: Vec<Change>,
}

impl Write {
    /// The changes that count: those made, and those with what may have been made.
    ///
    /// And the same without those that look as if they had never been made.
    fn counted(&self) -> impl Iterator<Item = Vec<Change>> {
        let all = [&self.changes[..], &self.maybe[..]].concat();
        let both = std::iter::once(self.changes.clone()).chain((!self.maybe.is_empty()).then_some(all));
        let seen = |all: Vec<Change>| {
            let seen: Vec<Change> =
                all.iter().filter(|one| one.known != Knowledge::Undone).copied().collect();
            let fewer = (seen.len() < all.len()).then_some(seen);
            std::iter::once(all).chain(fewer)
        };
        both.flat_map(seen)
    }

    fn recent(&self) -> Vec<&Change> {
        let recent = |one: &&Change| self.at.duration_since(one.at) < SignedDuration::from_mins(3);
        self.changes.iter().filter(recent).collect()
    }
}

type Wrong = (&'static str, String);

impl WorkloadRecord {
    /// Returns the owner that may write the size: nobody while an HPA is run by others, else the oldest. One that is
    /// only previewed has the workload where nobody else wants it.
    fn owner(&self, runs_hpas: bool) -> Option<Owner> {
        let (mut claims, mut previews) = (Vec::new(), Vec::new());
        for ((kind, key), object) in &self.objects {
            let spec = at(object, &["spec"])?;
            let own =
                *kind == Kind::HorizontalPodAutoscaler || text(spec, &["target", "type"]) == Some("Scale");
            if *kind == Kind::HorizontalPodAutoscaler && !runs_hpas {
                return None;
            }
            if own {
                let created = text(object, &["metadata", "creationTimestamp"]).unwrap_or_default();
                // Of the same second the HPA counts as older, and then the name.
                let rank = (created.to_owned(), *kind != Kind::HorizontalPodAutoscaler, key.name.clone());
                let hpa = *kind == Kind::HorizontalPodAutoscaler;
                let mode = if hpa { self.mode_of_hpa(&key.name) } else { Mode::of(spec) };
                let terms = Terms::of(spec);
                let owner = Owner { kind: *kind, name: key.name.clone(), terms, mode, beside: false };
                if mode == Mode::Preview { previews.push((rank, owner)) } else { claims.push((rank, owner)) }
            }
        }
        let beside = 1 < previews.len() || !(previews.is_empty() || claims.is_empty());
        let all = if claims.is_empty() { previews } else { claims };
        let (_, mut owner) = all.into_iter().min_by(|(one, _), (other, _)| one.cmp(other))?;
        owner.beside = beside;
        if owner.kind == Kind::HorizontalPodAutoscaler {
            // Its policy may add a fallback.
            let adopts = |spec: &&Value| text(spec, &["target", "hpa", "name"]) == Some(&*owner.name);
            let specs = self.objects.values().filter_map(|object| at(object, &["spec"]));
            let added = specs.filter(adopts).find_map(|spec| Terms::of(spec).fallback);
            owner.terms.fallback = added;
        }
        Some(owner)
    }

    /// Changes of a policy that were stored and not written, where the size is none that it wrote: somebody else has changed
    /// it since, and nobody knows whether they were made before.
    fn doubtful(&self, policy: &ObjectKey, size: i64) -> Vec<Change> {
        if self.written.is_some_and(|(_, written)| written == size) {
            return Vec::new();
        }
        let open = self.journals.values().filter(|one| one.policy == *policy && !one.done);
        open.map(|one| one.change).collect()
    }

    /// The owners that may be believed in: those of the time from `since` on.
    fn believed(&self, since: Timestamp) -> impl Iterator<Item = Option<&Owner>> {
        let first = self.owners.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        self.owners[first..].iter().map(|(_, owner)| owner.as_ref())
    }

    /// The bounds between two times, schedules among them.
    fn bounds(&self, since: Timestamp, now: Timestamp) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        for owner in self.believed(since).flatten() {
            let (min, max) = owner.terms.bounds;
            let open = |(opens, closes, _): &&(Timestamp, Timestamp, i64)| *opens <= now && since <= *closes;
            let inside = |(opens, closes, _): &(Timestamp, Timestamp, i64)| *opens < since && now < *closes;
            let raised = self.scaled.openings.iter().filter(open);
            all.extend(raised.map(|(.., floor)| (max.min(*floor), max)));
            if !self.scaled.openings.iter().any(inside) {
                all.push((min, max));
            }
        }
        all
    }

    /// I20: returns a violation unless the policy owned the workload in mode `Apply` at some time from `since` on.
    fn not_owned(&self, policy: &ObjectKey, since: Timestamp) -> Option<Wrong> {
        let spec =
            self.objects.get(&(Kind::ScalingPolicy, policy.clone())).and_then(|one| at(one, &["spec"]));
        let hpa = spec.and_then(|spec| text(spec, &["target", "hpa", "name"]));
        let (kind, name) = match hpa {
            Some(hpa) => (Kind::HorizontalPodAutoscaler, hpa),
            None => (Kind::ScalingPolicy, &*policy.name),
        };
        let own =
            |owner: Option<&Owner>| owner.is_some_and(|owner| owner.kind == kind && *owner.name == *name);
        let applied = |owner: &Owner| owner.mode == Mode::Apply;
        if self.believed(since).any(|owner| own(owner.filter(|owner| applied(owner)))) {
            return None;
        }
        let word = |owner: &Owner| match owner.mode {
            Mode::Apply => owner.name.to_string(),
            Mode::Preview | Mode::Suspend => format!("{} in mode {:?}", owner.name, owner.mode),
        };
        let message: Vec<String> =
            self.believed(since).map(|owner| owner.map_or("nobody of ours".to_owned(), word)).collect();
        Some(("I20", format!("by policy {policy}, and its owner is {}", message.join(", then "))))
    }

    /// I1, I9, I18, I19: returns the violations of the change.
    fn broken(&self, write: &Write, (since, now): (Timestamp, Timestamp)) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let soon = write.at.saturating_add(CLOCKS).unwrap_or(now).max(now);
        let bounds = self.bounds(since, soon);
        let least = bounds.iter().map(|(min, _)| *min).min().unwrap_or(0);
        let most = bounds.iter().map(|(_, max)| *max).max().unwrap_or(i64::MAX);
        if write.to < least || most < write.to {
            wrong.push(("I1", format!("the bounds are {bounds:?}")));
        }
        // Back into the bounds at once, whatever the metrics say.
        let back = |(min, max): &(i64, i64)| {
            (write.from < *min && write.to == *min) || (*max < write.from && write.to == *max)
        };
        if bounds.iter().any(back) {
            return wrong;
        }
        let terms: Vec<&Terms> = self.believed(since).flatten().map(|owner| &owner.terms).collect();
        let beside = self.believed(since).flatten().any(|owner| owner.beside);
        let look = self.looks.iter().rev().find(|look| look.caller == write.caller && look.at <= write.at);
        let known = look.is_some_and(|look| look.answered);
        if write.to < write.from {
            if !known || self.scaled.blind {
                wrong.push(("I19", "a metric is not known".to_owned()));
            }
            let lowest = |changes: Vec<Change>| {
                terms.iter().map(|terms| terms.lowest(write.from, &changes, write.at)).min()
            };
            let lowest = write.counted().filter_map(lowest).min();
            if lowest.is_some_and(|lowest| write.to < lowest) {
                wrong.push(("I18", format!("the rates allow {lowest:?}, after {:?}", write.recent())));
            }
            if !beside {
                wrong.extend(self.too_low(write, &terms, most));
            }
        } else {
            let fallback = terms.iter().filter_map(|terms| terms.fallback).max();
            if !known && rises_by_itself(&terms) && fallback.is_none_or(|count| count < write.to) {
                wrong.push(("I9", "nothing is known".to_owned()));
            }
            let highest = |changes: Vec<Change>| {
                terms.iter().map(|terms| terms.highest(write.from, &changes, write.at)).max()
            };
            let highest = write.counted().filter_map(highest).max();
            if highest.is_some_and(|highest| highest < write.to) {
                wrong.push(("I18", format!("the rates allow {highest:?}, after {:?}", write.recent())));
            }
            if known && !beside {
                wrong.extend(self.too_high(write, &terms, least));
            }
        }
        wrong
    }

    /// I18: a decrease below what the load asked for within the window.
    fn too_low(&self, write: &Write, terms: &[&Terms], most: i64) -> Option<Wrong> {
        let window = terms.iter().map(|terms| terms.down.window).min()?;
        let held = self.within(write, window);
        let (at, least) =
            held.filter_map(|look| Some((look.at, look.asks?.0))).max_by_key(|(_, least)| *least)?;
        (write.to < least.min(most))
            .then(|| ("I18", format!("the load asked for {least} at {at}, and the window is {window:#}")))
    }

    /// I18: an increase beyond what the load asked for within the window.
    fn too_high(&self, write: &Write, terms: &[&Terms], least: i64) -> Option<Wrong> {
        if !rises_by_itself(terms) {
            return None;
        }
        let window = terms.iter().map(|terms| terms.up.window).min()?;
        let held = self.within(write, window);
        let (at, most) =
            held.filter_map(|look| Some((look.at, look.asks?.1))).min_by_key(|(_, most)| *most)?;
        (most.max(least) < write.to)
            .then(|| ("I18", format!("the load asked for {most} at {at}, and the window is {window:#}")))
    }

    /// Observations that hold a change: the one that it was decided by, and those within the window that were stored
    /// while the owner was the same.
    fn within(&self, write: &Write, window: SignedDuration) -> impl Iterator<Item = &Observation> {
        let last = self.looks.iter().rposition(|look| look.caller == write.caller && look.at <= write.at);
        let same_since = self.same_owner_since();
        // While a metric is not known there is no proposal that is lower than the size.
        let blind = self.scaled.blind;
        let counts = move |look: &&Observation| {
            look.kept
                && !blind
                && look.answered
                && same_since < look.at
                && look.at <= write.at
                && write.at.duration_since(look.at) < window.saturating_sub(CLOCKS)
        };
        let decided_by = last.map(|index| &self.looks[index]);
        self.looks[..last.unwrap_or(0)].iter().filter(counts).chain(decided_by)
    }

    /// Returns the time since which nobody else has owned the workload, the delay of an edit included: another owner
    /// has a memory of its own.
    fn same_owner_since(&self) -> Timestamp {
        let name = |owner: &Option<Owner>| {
            owner.as_ref().map(|owner| (owner.kind, owner.name.clone(), owner.beside))
        };
        let changed = self.owners.windows(2).rev().find(|pair| name(&pair[0].1) != name(&pair[1].1));
        changed.map_or(Timestamp::MIN, |pair| pair[1].0.saturating_add(BELIEF).unwrap_or(Timestamp::MAX))
    }

    /// Describes a size that is wrong at the end; `None` for a right one, and for a workload without a size or an
    /// owner.
    fn off(&self, store: &Store, now: Timestamp) -> Option<String> {
        let key = &self.scaled.key;
        let size = number(store.find(Kind::Deployment, key)?, &["spec", "replicas"])?;
        let (_, Some(owner)) = self.owners.last()? else { return None };
        let (mut min, max) = owner.terms.bounds;
        let open = self.scaled.openings.iter().filter(|(opens, closes, _)| *opens <= now && now < *closes);
        min = open.map(|(.., floor)| max.min(*floor)).max().unwrap_or(min);
        let target = self.scaled.weight.request_milli * self.scaled.weight.percent;
        let load = self.scaled.load_milli * 100;
        let asked = ((load + target - 1) / target).clamp(min, max);
        let off_percent = (load - target * size) * 100 / (target * size.max(1));
        let inside = min <= size && size <= max;
        let high = self.scaled.blind && asked <= size;
        let right = inside && (size == asked || high || off_percent.abs() <= TOLERATED);
        (!right).then(|| format!("{key} has {size} replicas at the end, and its load asks for {asked}"))
    }
}

/// True if an increase is due to the load alone. Without a behavior a size also goes up to the highest proposal of the window
/// downwards, as upstream's does.
fn rises_by_itself(terms: &[&Terms]) -> bool {
    terms.iter().all(|terms| terms.behaves)
}
