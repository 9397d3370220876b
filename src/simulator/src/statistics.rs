//! The figures of a run: a row a minute and what is summed over the whole; it reads the change log and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::{Amounts, NodeShape, Phase, PodFacts};
use super::store::{Entry, Kind, ObjectKey, at, condition, number, timestamp};

/// One simulated minute, as it stood at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Minute {
    /// The end of the minute.
    pub at: Timestamp,
    /// Replicas that Deployments and StatefulSets ask for.
    pub wanted_replicas: i64,
    /// Pods without a node.
    pub pending_pods: i64,
    /// Pods that run and have not been deleted.
    pub running_pods: i64,
    /// Node objects.
    pub nodes: i64,
    /// Ready nodes.
    pub ready_nodes: i64,
    /// Thousandths of a CPU that pods on nodes ask for.
    pub requested_cpu_milli: i64,
    /// Thousandths of a CPU that nodes offer.
    pub allocatable_cpu_milli: i64,
}

/// Summary of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Pods that came to run.
    pub pods_served: u64,
    /// Pods still without a node at the end.
    pub pods_pending: i64,
    /// The longest time from creation to Running.
    pub longest_wait: SignedDuration,
    /// The mean of these times.
    pub mean_wait: SignedDuration,
    /// Node objects times hours.
    pub node_hours: f64,
    /// Most nodes at one time.
    pub nodes_max: i64,
    /// Requested over allocatable CPU over the whole time, in percent; 0 without nodes.
    pub utilization_percent: f64,
    /// Nodes that were made.
    pub nodes_created: u64,
    /// Nodes that were removed.
    pub nodes_removed: u64,
}

/// The running sums. All are kept incrementally from changes.
#[derive(Debug, Default)]
pub struct Statistics {
    minutes: Vec<Minute>,
    at: Option<Timestamp>,
    began_at: Option<Timestamp>,
    wanted: BTreeMap<(Kind, ObjectKey), i64>,
    wanted_sum: i64,
    pending: i64,
    running: i64,
    ready_nodes: BTreeMap<Arc<str>, bool>,
    ready_count: i64,
    allocatable: BTreeMap<Arc<str>, Amounts>,
    requested_cpu: i64,
    allocatable_cpu: i64,
    node_millis: i128,
    requested_millis: i128,
    allocatable_millis: i128,
    served: u64,
    wait_sum: SignedDuration,
    /// Number of pods by their seconds from creation to Running.
    waits: BTreeMap<i64, u64>,
    summary: Summary,
}

impl Statistics {
    /// The rows so far, one a minute of simulated time.
    pub fn minutes(&self) -> &[Minute] {
        &self.minutes
    }

    /// Forgets the rows so far.
    pub fn forget_minutes(&mut self) {
        self.minutes.clear();
    }

    /// The row of this very moment.
    pub fn now(&self) -> Minute {
        self.row(self.at.unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// The figures of the run up to the last step.
    pub fn summary(&self) -> Summary {
        let served = i32::try_from(self.served).unwrap_or(i32::MAX);
        let mean_wait = if served == 0 { SignedDuration::ZERO } else { self.wait_sum / served };
        let percent = self.requested_millis as f64 * 100.0 / self.allocatable_millis.max(1) as f64;
        Summary {
            pods_served: self.served,
            pods_pending: self.pending,
            mean_wait,
            node_hours: self.node_millis as f64 / 3_600_000.0,
            utilization_percent: percent,
            ..self.summary.clone()
        }
    }

    /// Whole seconds from creation to Running within which so many permille of the pods came to run; 0 if none did.
    #[must_use]
    pub fn wait_seconds(&self, permille: u64) -> i64 {
        let rank = (self.served * permille).div_ceil(1000);
        let mut passed = 0;
        let found = self.waits.iter().find(|(_, count)| {
            passed += **count;
            rank <= passed
        });
        found.map_or(0, |(seconds, _)| *seconds)
    }

    /// Hours of a CPU that pods on nodes asked for, over the whole run.
    #[must_use]
    pub fn requested_cpu_hours(&self) -> f64 {
        self.requested_millis as f64 / 1000.0 / 3_600_000.0
    }

    /// Sums up to `now` with what holds since the last change, and writes the rows of the minutes that ended.
    ///
    /// Called with the time of each change before the change, so the rows are what stood at the minute's end.
    pub(crate) fn advance_to(&mut self, now: Timestamp) {
        let Some(mut at) = self.at else {
            self.at = Some(now);
            self.began_at = Some(now);
            return;
        };
        while at < now {
            let minute_end = next_minute(at);
            let until = minute_end.min(now);
            let millis = i128::from(until.as_millisecond() - at.as_millisecond());
            self.node_millis += millis * self.allocatable.len() as i128;
            self.requested_millis += millis * i128::from(self.requested_cpu);
            self.allocatable_millis += millis * i128::from(self.allocatable_cpu);
            at = until;
            if at == minute_end {
                self.minutes.push(self.row(at));
            }
        }
        self.at = Some(at);
    }

    fn row(&self, at: Timestamp) -> Minute {
        Minute {
            at,
            wanted_replicas: self.wanted_sum,
            pending_pods: self.pending,
            running_pods: self.running,
            nodes: self.allocatable.len() as i64,
            ready_nodes: self.ready_count,
            requested_cpu_milli: self.requested_cpu,
            allocatable_cpu_milli: self.allocatable_cpu,
        }
    }

    pub(crate) fn observe_workload(&mut self, entry: &Entry) {
        if !asks_for_pods(entry.kind, &entry.object) {
            return;
        }
        let replicas = number(&entry.object, &["spec", "replicas"]).unwrap_or(1);
        let id = (entry.kind, entry.key.clone());
        let before = if entry.deleted { self.wanted.remove(&id) } else { self.wanted.insert(id, replicas) };
        self.advance_to(entry.at);
        self.wanted_sum += if entry.deleted { 0 } else { replicas } - before.unwrap_or(0);
    }

    pub(crate) fn observe_pod(&mut self, at: Timestamp, before: Option<&PodFacts>, pod: Option<&PodFacts>) {
        self.advance_to(at);
        for (facts, sign) in [(before, -1), (pod, 1)] {
            let Some(facts) = facts else { continue };
            self.pending += sign * i64::from(facts.node.is_none() && facts.active());
            self.running += sign * i64::from(facts.phase == Phase::Running && facts.active());
            if facts.occupies() {
                self.requested_cpu += sign * facts.shape.requests.cpu;
            }
        }
        let runs = |facts: Option<&PodFacts>| facts.is_some_and(|facts| facts.phase == Phase::Running);
        if let Some(pod) = pod
            && runs(Some(pod))
            && !runs(before)
            // A pod that runs when it is first seen ran before the run began, and nobody saw it wait.
            && before.is_some()
        {
            let wait = at.duration_since(pod.created_at.max(self.began_at.unwrap_or(pod.created_at)));
            self.served += 1;
            self.wait_sum += wait;
            *self.waits.entry(wait.as_secs()).or_default() += 1;
            self.summary.longest_wait = self.summary.longest_wait.max(wait);
        }
    }

    pub(crate) fn observe_node(&mut self, entry: &Entry, shape: Option<&NodeShape>) {
        self.advance_to(entry.at);
        let name = entry.key.name.clone();
        let ready = condition(&entry.object, "Ready").and_then(|c| c.get("status")?.as_str()) == Some("True");
        let (amounts, was_ready) = match shape {
            Some(shape) => (
                self.allocatable.insert(name.clone(), shape.allocatable.clone()),
                self.ready_nodes.insert(name, ready),
            ),
            None => (self.allocatable.remove(&name), self.ready_nodes.remove(&name)),
        };
        self.allocatable_cpu += shape.map_or(0, |shape| shape.allocatable.cpu)
            - amounts.as_ref().map_or(0, |amounts| amounts.cpu);
        self.ready_count += i64::from(shape.is_some() && ready) - i64::from(was_ready.unwrap_or(false));
        let created_at = timestamp(&entry.object, &["metadata", "creationTimestamp"]);
        let stood = created_at.zip(self.began_at).is_some_and(|(created, began)| created < began);
        self.summary.nodes_created += u64::from(amounts.is_none() && shape.is_some() && !stood);
        self.summary.nodes_removed += u64::from(shape.is_none());
        self.summary.nodes_max = self.summary.nodes_max.max(self.allocatable.len() as i64);
    }
}

/// True if the pods of an object are asked for by itself: a ReplicaSet of a Deployment gets its number from that.
pub(crate) fn asks_for_pods(kind: Kind, object: &Value) -> bool {
    match kind {
        Kind::Deployment | Kind::StatefulSet => true,
        Kind::ReplicaSet => at(object, &["metadata", "ownerReferences"]).is_none(),
        _ => false,
    }
}

fn next_minute(at: Timestamp) -> Timestamp {
    let second = (at.as_second().div_euclid(60) + 1) * 60;
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}
