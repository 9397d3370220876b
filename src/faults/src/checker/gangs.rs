//! Gangs: pods that start together, each of which needs a node at most. It shares no code with the operator's own reckoning.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::Checker;
use super::rooms::{NODES_MAX, PODS_PER_NODE};
use super::truth::{self, Intent};
use headroom_core::world::gang::COSCHEDULING_LABEL;
use headroom_simulator::store::{Kind, ObjectKey, Store, at, number, text};

/// Records of the gangs.
#[derive(Debug, Default)]
pub struct Gangs {
    /// True if they are checked.
    pub checked: bool,
    /// The cluster as it was, with the time from which it was so.
    seen: Vec<(Timestamp, Seen)>,
}

/// The pods of one moment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Pods without a node that are of no gang, those included that a Deployment is yet to make.
    waiting: usize,
    gangs: BTreeMap<String, Gang>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Gang {
    /// Pods that are needed at once; `None` without an object.
    minimum: Option<usize>,
    /// Pods that there are, or are to be.
    pods: usize,
    /// Pods that are bound and not ending, by node.
    bound: BTreeMap<String, usize>,
}

impl Gang {
    /// Nodes that may be bought for it.
    fn wants(&self) -> usize {
        let whole = self.minimum.is_some_and(|minimum| minimum <= self.pods && minimum <= NODES_MAX);
        if whole { self.pods.saturating_sub(self.bound_count()) } else { 0 }
    }

    fn bound_count(&self) -> usize {
        self.bound.values().sum()
    }

    /// True if it runs, and would not without the pods on this node.
    fn needs(&self, node: &str) -> bool {
        let (bound, there) = (self.bound_count(), self.bound.get(node).copied().unwrap_or(0));
        self.minimum.is_some_and(|minimum| 2 <= minimum && minimum <= bound && bound < minimum + there)
    }
}

impl Gangs {
    fn since(&self, since: Timestamp) -> &[(Timestamp, Seen)] {
        let first = self.seen.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        &self.seen[first..]
    }

    /// The most nodes that may be bought by what may be believed since `since`.
    fn may_be_bought(&self, since: Timestamp) -> usize {
        let seen = self.since(since);
        let names: BTreeSet<&String> = seen.iter().flat_map(|(_, seen)| seen.gangs.keys()).collect();
        let most = |name: &String| {
            seen.iter().filter_map(|(_, seen)| Some(seen.gangs.get(name)?.wants())).max().unwrap_or(0)
        };
        let waiting = seen.iter().map(|(_, seen)| seen.waiting).max().unwrap_or(0);
        waiting.div_ceil(PODS_PER_NODE) + names.into_iter().map(most).sum::<usize>()
    }

    /// The gang that ran with as few pods as it can all the time since `since`, one of them on this node.
    fn broken_without(&self, node: &str, since: Timestamp) -> Option<&String> {
        let seen = self.since(since);
        let (_, last) = seen.last()?;
        let ran = |name: &String| {
            let was = |seen: &Seen| seen.gangs.get(name).is_some_and(|gang| gang.needs(node));
            seen.first().is_some_and(|(at, _)| *at <= since) && seen.iter().all(|(_, seen)| was(seen))
        };
        last.gangs.keys().find(|name| ran(name))
    }
}

impl Checker {
    /// Notes which pods wait, and where those of gangs run.
    pub(super) fn note_gangs(&mut self, store: &Store, now: Timestamp) {
        if self.gangs.checked {
            let seen = seen(store);
            if self.gangs.seen.last().is_none_or(|(_, last)| *last != seen) {
                self.gangs.seen.push((now, seen));
            }
        }
    }

    /// I36: nothing is bought for a gang that cannot be whole, and no removal takes a pod that a running gang needs.
    pub(super) fn check_gangs(&mut self, now: Timestamp, opened: &[&Intent]) {
        if !self.gangs.checked || self.status_tampered {
            return;
        }
        let since = self.workloads.believed_since(now);
        let asked: u32 = opened
            .iter()
            .filter(|intent| {
                intent.increases() && matches!(&*intent.reason, "PodsUnschedulable" | "ReplicasAnticipated")
            })
            .map(|intent| intent.to.saturating_sub(intent.from))
            .sum();
        let most = self.gangs.may_be_bought(since);
        if most < asked as usize {
            let message = format!("{asked} nodes are bought, and {most} could be of use");
            self.violated(now, "I36", message);
        }
        let removals = opened
            .iter()
            .filter(|intent| intent.removes() && !intent.forces() && intent.reason != "RemovalRequested");
        let nodes = removals.flat_map(|intent| intent.instances.iter().map(|(node, _)| node));
        let broken: Vec<String> = nodes
            .filter_map(|node| {
                Some(format!("{node} is removed, which {} needs", self.gangs.broken_without(node, since)?))
            })
            .collect();
        for message in broken {
            self.violated(now, "I36", message);
        }
    }
}

fn seen(store: &Store) -> Seen {
    let mut seen = Seen::default();
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for (_, pod) in store.all(Kind::Pod).filter(|(_, pod)| truth::is_movable(pod)) {
        let app = text(pod, &["metadata", "labels", "app"]).unwrap_or_default();
        let ends = text(pod, &["metadata", "deletionTimestamp"]).is_some();
        let node = text(pod, &["spec", "nodeName"]);
        if !ends {
            *there.entry(app.to_owned()).or_default() += 1;
        }
        match (gang_of(pod), node) {
            (Some(gang), Some(node)) if !ends => {
                let gang = seen.gangs.entry(gang.to_owned()).or_default();
                *gang.bound.entry(node.to_owned()).or_default() += 1;
            }
            (None, None) => seen.waiting += 1,
            _ => {}
        }
    }
    for (key, deployment) in store.all(Kind::Deployment) {
        let asked = number(deployment, &["spec", "replicas"]).and_then(|count| usize::try_from(count).ok());
        let (asked, made) = (asked.unwrap_or(0), there.get(&*key.name).copied().unwrap_or(0));
        match at(deployment, &["spec", "template"]).and_then(gang_of) {
            Some(name) => {
                let gang = seen.gangs.entry(name.to_owned()).or_default();
                gang.pods = asked.max(made);
                let object = store.find(Kind::CoschedulingPodGroup, &ObjectKey::new("default", name));
                let minimum = object.and_then(|object| number(object, &["spec", "minMember"]));
                gang.minimum = minimum.and_then(|minimum| usize::try_from(minimum).ok());
            }
            None => seen.waiting += asked.saturating_sub(made),
        }
    }
    seen
}

fn gang_of(object: &Value) -> Option<&str> {
    text(object, &["metadata", "labels", COSCHEDULING_LABEL])
}
