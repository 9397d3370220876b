//! ProvisioningRequests: what they ask for, and what was answered. Each of their pods needs a node of its own.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::rooms::{self, NODES_MAX};
use super::truth::Intent;
use super::{Checker, Violation};
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, condition, number, text};

/// Name of the request that asks for more than the pool may have.
pub const ASKS_TOO_MUCH: &str = "too-much";
/// Most nodes that the load keeps, however the scheduler spreads it.
const OF_THE_LOAD_MAX: usize = 4;

/// Records of the requests.
#[derive(Debug, Default)]
pub struct Requests(Vec<Record>);

#[derive(Debug)]
struct Record {
    key: ObjectKey,
    count: usize,
    /// True if nodes may be bought for it.
    buys: bool,
    /// True if pods come that take its room.
    has_pods: bool,
    asked_at: Timestamp,
    granted_at: Option<Timestamp>,
    booked_for: SignedDuration,
    /// Time at which it failed, its booking ended, or it was deleted.
    ended_at: Option<Timestamp>,
    deleted: bool,
}

impl Record {
    fn new(store: &Store, entry: &Entry) -> Self {
        let sets = at(&entry.object, &["spec", "podSets"]).and_then(Value::as_array);
        let counts = sets.into_iter().flatten().filter_map(|set| number(set, &["count"]));
        let seconds = text(&entry.object, &["spec", "parameters", "bookingSeconds"]);
        let class = text(&entry.object, &["spec", "provisioningClassName"]).unwrap_or_default();
        Self {
            key: entry.key.clone(),
            count: usize::try_from(counts.sum::<i64>()).unwrap_or(0),
            buys: class.starts_with("atomic-scale-up"),
            has_pods: store.find(Kind::Deployment, &entry.key).is_some(),
            asked_at: entry.at,
            granted_at: None,
            booked_for: SignedDuration::from_secs(seconds.and_then(|word| word.parse().ok()).unwrap_or(0)),
            ended_at: None,
            deleted: false,
        }
    }

    /// True if its room was promised all the time since `since`.
    fn is_booked(&self, since: Timestamp, now: Timestamp) -> bool {
        let granted = self.granted_at.filter(|at| *at <= since);
        granted.is_some_and(|at| now.duration_since(at) < self.booked_for) && self.ended_at.is_none()
    }
}

impl Requests {
    /// Pods whose room has been promised all the time since `since`, and that do not come by themselves.
    pub(super) fn booked_since(&self, since: Timestamp, now: Timestamp) -> usize {
        let booked = self.0.iter().filter(|one| one.is_booked(since, now) && !one.has_pods);
        booked.map(|one| one.count).sum()
    }

    /// Pods for which nodes may be bought by what may be believed since `since`: those of requests that the pool can serve.
    fn may_be_bought_for(&self, since: Timestamp, now: Timestamp) -> usize {
        let asks = |one: &&Record| one.asked_at <= now && one.ended_at.is_none_or(|ended| since <= ended);
        let served = self.0.iter().filter(|one| one.buys && one.count <= NODES_MAX).filter(asks);
        served.map(|one| one.count).sum()
    }
}

impl Checker {
    /// A request came, was answered, or went.
    ///
    /// I34: it is granted only if there are ready nodes for all of it, beside those that are promised to others.
    pub(super) fn note_request(&mut self, store: &Store, entry: &Entry) {
        let known = self.requests.0.iter().position(|one| one.key == entry.key);
        let index = known.unwrap_or_else(|| {
            self.requests.0.push(Record::new(store, entry));
            self.requests.0.len() - 1
        });
        let holds = |kind| condition(&entry.object, kind).is_some_and(|one| one["status"] == "True");
        let since = self.workloads.believed_since(entry.at);
        let promised = self.requests.booked_since(since, entry.at);
        let one = &mut self.requests.0[index];
        one.deleted |= entry.deleted;
        if entry.deleted || holds("Failed") || holds("BookingExpired") {
            one.ended_at.get_or_insert(entry.at);
        }
        if !holds("Provisioned") || one.granted_at.is_some() {
            return;
        }
        one.granted_at = Some(entry.at);
        if one.has_pods || self.status_tampered {
            return;
        }
        let count = one.count;
        let free = self.rooms.most_free(since, &BTreeSet::new());
        if let Some(free) = free.filter(|free| *free < count + promised) {
            let message = format!(
                "{} is granted {count} nodes while {free} are free and {promised} promised to others",
                entry.key
            );
            self.violated(entry.at, "I34", message);
        }
    }

    /// I34: no node is bought for a request that cannot have all.
    pub(super) fn check_requests(&mut self, now: Timestamp, opened: &[&Intent]) {
        if !self.rooms.checked || self.status_tampered {
            return;
        }
        let asked: u32 = opened
            .iter()
            .filter(|intent| intent.increases() && intent.reason == "RequestedCapacity")
            .map(|intent| intent.to.saturating_sub(intent.from))
            .sum();
        let most = self.requests.may_be_bought_for(self.workloads.believed_since(now), now);
        if most < asked as usize {
            let message = format!("{asked} nodes are bought for requests, of which {most} could be served");
            self.violated(now, "I34", message);
        }
    }

    /// I16: at the end each request that the pool can serve has been granted, and no other; and nodes that nobody asks for have gone.
    pub fn wrong_answers(&self, store: &Store, now: Timestamp) -> Vec<Violation> {
        let mut wrong = Vec::new();
        for one in self.requests.0.iter().filter(|one| !one.deleted) {
            let fits = one.count <= NODES_MAX;
            if one.buys && fits && one.granted_at.is_none() || !fits && one.granted_at.is_some() {
                let message =
                    format!("{} of {} pods at the end: granted {:?}", one.key, one.count, one.granted_at);
                wrong.push(Violation { at: now, invariant: "I16", message });
            }
        }
        let (nodes, _) = rooms::count(store);
        let promised =
            self.requests.0.iter().filter(|one| one.granted_at.is_some() && one.ended_at.is_none());
        let most = OF_THE_LOAD_MAX + promised.map(|one| one.count).sum::<usize>();
        if !self.requests.0.is_empty() && most < nodes {
            let message = format!("{nodes} nodes at the end, of which {most} are asked for");
            wrong.push(Violation { at: now, invariant: "I16", message });
        }
        wrong
    }
}
