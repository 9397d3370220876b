//! Writes down a run for the page: samples over time, each decision, what it cost, who waited. It reads the change log and
//! decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::world::node::{GROUP_LABEL, POOL_LABEL};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::Amounts;
use super::run::{Outcome, Scene};
use super::scenario::{Happening, Scenario};
use super::statistics::asks_for_pods;
use super::store::{Entry, Kind, ObjectKey, at, is_leaving, is_ready, labels, number, text, timestamp};
use headroom_api as api;
use headroom_operator::page::{
    Decision, Document, DocumentKind, Event, NodeLives, NodeNow, Pool, Run, SCHEMA, Sample, Summary, Waits,
};

/// Samples that a run of any length comes to, about: more than a screen has columns to show.
const SAMPLES: i64 = 480;
/// Decisions and events kept; what a page of any use can show.
const MARKS_MAX: usize = 20_000;

/// Record of the run so far.
#[derive(Debug)]
pub struct RunRecord {
    name: String,
    seed: u64,
    start: Timestamp,
    every: SignedDuration,
    next_sample: Timestamp,
    at: Timestamp,
    cursor: u64,
    nodes: BTreeMap<Arc<str>, NodeRow>,
    pools: BTreeMap<String, PoolRow>,
    wanted: BTreeMap<(Kind, ObjectKey), i64>,
    pods: PodSums,
    pending_peak: i64,
    longest_since: Option<f64>,
    waits: Vec<f64>,
    disruptions_count: u64,
    series: Vec<Sample>,
    events: Vec<Event>,
    decisions: Vec<Decision>,
    known: BTreeMap<(String, String), usize>,
    lives: NodeLives,
    /// Number of pods on each node.
    pods_on: BTreeMap<Arc<str>, i64>,
}

#[derive(Debug, Clone, PartialEq)]
struct NodeRow {
    pool: Option<String>,
    ready: bool,
    leaving: bool,
    cpu_milli: i64,
}

#[derive(Debug, Default)]
struct PoolRow {
    price: Option<(String, f64)>,
    nodes: i64,
    nodes_max: i64,
    node_seconds: f64,
    priced_seconds: f64,
    cost: f64,
}

/// Sums over pods that are not of DaemonSets.
#[derive(Debug, Default, Clone, Copy)]
struct PodSums {
    running: i64,
    pending: i64,
    /// Pods of Jobs and bare ones: no other object declares how many are wanted.
    unasked: i64,
    demand_cpu: i64,
}

/// Contribution of one pod to the sums.
struct PodShare {
    sums: PodSums,
    runs: bool,
    counts: bool,
    active: bool,
}

impl RunRecord {
    /// A record at the start of the scenario; `name` distinguishes the run from another one.
    #[must_use]
    pub fn new(scenario: &Scenario, name: &str) -> RunRecord {
        let seconds = (scenario.duration.as_secs() / SAMPLES).max(1);
        RunRecord {
            name: name.to_owned(),
            seed: scenario.seed,
            start: scenario.start,
            every: SignedDuration::from_secs(seconds),
            next_sample: scenario.start,
            at: scenario.start,
            cursor: 0,
            nodes: BTreeMap::new(),
            pools: BTreeMap::new(),
            wanted: BTreeMap::new(),
            pods: PodSums::default(),
            pending_peak: 0,
            longest_since: None,
            waits: Vec::new(),
            disruptions_count: 0,
            series: Vec::new(),
            events: Vec::new(),
            decisions: Vec::new(),
            known: BTreeMap::new(),
            lives: NodeLives::default(),
            pods_on: BTreeMap::new(),
        }
    }

    /// Takes in a step. It must be shown every one, since the log is compacted behind it.
    pub fn saw(&mut self, scene: &Scene<'_>) {
        while self.next_sample < scene.now {
            self.sample(self.next_sample);
        }
        for happening in scene.happened {
            let message = match happening {
                Happening::Note(words) => words.clone(),
                Happening::RestartOperator => "the operator is killed and starts anew".to_owned(),
                Happening::Refused(words) => format!("the API server refused: {words}"),
            };
            if self.events.len() < MARKS_MAX {
                self.events.push(Event { second: self.second(scene.now), message });
            }
        }
        let shared = scene.cluster.store().clone();
        shared.with(|store| {
            let entries = store.entries_after(self.cursor).into_iter().flatten();
            for entry in entries {
                self.take(entry);
            }
            self.cursor = store.revision();
        });
        self.pending_peak = self.pending_peak.max(self.pods.pending);
        self.spend_until(scene.now);
    }

    fn take(&mut self, entry: &Entry) {
        match entry.kind {
            Kind::Pod => self.take_pod(entry),
            Kind::Node => self.take_node(entry),
            Kind::NodePool => self.take_pool(entry),
            kind if asks_for_pods(kind, &entry.object) => {
                let replicas = number(&entry.object, &["spec", "replicas"]).unwrap_or(1);
                let id = (entry.kind, entry.key.clone());
                if entry.deleted {
                    self.wanted.remove(&id);
                } else {
                    self.wanted.insert(id, replicas);
                }
            }
            _ => {}
        }
    }

    fn take_pod(&mut self, entry: &Entry) {
        let before = entry.before.as_deref().map(PodShare::of);
        let after = PodShare::of(&entry.object);
        if let Some(pod) =
            entry.before.as_deref().filter(|_| before.as_ref().is_some_and(|share| share.active))
        {
            self.count_on_node(pod, -1);
        }
        if after.active && !entry.deleted {
            self.count_on_node(&entry.object, 1);
        }
        let runs_before = before.as_ref().is_some_and(|share| share.runs);
        if let Some(before) = &before {
            self.pods.add(&before.sums, -1);
        }
        if entry.deleted {
            let node = text(&entry.object, &["spec", "nodeName"]).map(|node| self.nodes.get(node));
            let lost = node.is_some_and(|node| node.is_none_or(|node| node.leaving || !node.ready));
            self.disruptions_count += u64::from(lost && runs_before && after.counts);
            return;
        }
        self.pods.add(&after.sums, 1);
        // A pod that runs when it is first seen ran before the run began, and nobody saw it wait.
        if after.runs && !runs_before && after.counts && before.is_some() {
            let created = timestamp(&entry.object, &["metadata", "creationTimestamp"]).unwrap_or(entry.at);
            let created = created.max(self.start);
            let wait = entry.at.duration_since(created).as_secs_f64().max(0.0);
            self.waits.push(wait);
            self.longest_since = Some(self.longest_since.map_or(wait, |longest| longest.max(wait)));
        }
    }

    /// Counts a pod on its node, if it has one.
    fn count_on_node(&mut self, pod: &Value, sign: i64) {
        let Some(node) = text(pod, &["spec", "nodeName"]) else { return };
        match self.pods_on.get_mut(node) {
            Some(count) => *count += sign,
            None => drop(self.pods_on.insert(node.into(), sign)),
        }
    }

    fn take_life(&mut self, entry: &Entry) {
        let (name, second) = (&entry.key.name, self.second(entry.at));
        if entry.deleted {
            self.lives.went(name, second);
            return;
        }
        let label = |wanted| labels(&entry.object).find(|(key, _)| *key == wanted).map(|(_, value)| value);
        let node = NodeNow {
            name,
            pool: label(POOL_LABEL),
            group: label(GROUP_LABEL),
            ready: is_ready(&entry.object),
            leaving: is_leaving(&entry.object),
        };
        self.lives.see(node, second, entry.at <= self.start);
    }

    fn take_node(&mut self, entry: &Entry) {
        self.spend_until(entry.at);
        self.take_life(entry);
        let name = entry.key.name.clone();
        let row = (!entry.deleted).then(|| NodeRow::of(&entry.object));
        let before = match &row {
            Some(row) => self.nodes.insert(name, row.clone()),
            None => self.nodes.remove(&name),
        };
        for (row, sign) in [(before, -1), (row, 1)] {
            if let Some(pool) = row.and_then(|row| row.pool) {
                let pool = self.pools.entry(pool).or_default();
                pool.nodes += sign;
                pool.nodes_max = pool.nodes_max.max(pool.nodes);
            }
        }
    }

    fn take_pool(&mut self, entry: &Entry) {
        self.spend_until(entry.at);
        let pool = self.pools.entry(entry.key.name.to_string()).or_default();
        let price = text(&entry.object, &["spec", "price", "perHour"]);
        pool.price = price.and_then(|words| Some((words.to_owned(), words.parse().ok()?)));
        let status = |object: &Value| at(object, &["status", "decisions"]).cloned();
        let decisions = status(&entry.object);
        if decisions == entry.before.as_deref().and_then(status) {
            return;
        }
        let Some(Value::Array(rows)) = decisions else { return };
        // The newest comes first in status.
        for row in rows.into_iter().rev() {
            if let Ok(decision) = serde_json::from_value::<api::Decision>(row) {
                self.take_decision(&entry.key.name, &decision);
            }
        }
    }

    fn take_decision(&mut self, pool: &str, decision: &api::Decision) {
        let decoded = Decision::of(pool, decision, self.start.as_second());
        let id = (pool.to_owned(), decision.id.clone());
        match self.known.get(&id) {
            Some(place) => self.decisions[*place] = decoded,
            None if self.decisions.len() < MARKS_MAX => {
                self.known.insert(id, self.decisions.len());
                self.decisions.push(decoded);
            }
            None => {}
        }
    }

    /// Adds up what the nodes cost until `now`.
    fn spend_until(&mut self, now: Timestamp) {
        let seconds = now.duration_since(self.at).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.at = now;
        for pool in self.pools.values_mut() {
            let node_seconds = seconds * pool.nodes as f64;
            pool.node_seconds += node_seconds;
            if let Some((_, price)) = pool.price {
                pool.priced_seconds += node_seconds;
                pool.cost += node_seconds * price / 3600.0;
            }
        }
    }

    fn second(&self, at: Timestamp) -> i64 {
        at.duration_since(self.start).as_secs()
    }

    /// The row of `at`, as things stand: nothing has changed since.
    fn sample(&mut self, at: Timestamp) {
        let (mut ready, mut starting, mut leaving, mut capacity) = (0, 0, 0, 0);
        for node in self.nodes.values() {
            capacity += node.cpu_milli;
            match (node.leaving, node.ready) {
                (true, _) => leaving += 1,
                (false, true) => ready += 1,
                (false, false) => starting += 1,
            }
        }
        let priced: Vec<f64> = self
            .pools
            .values()
            .filter_map(|pool| pool.price.as_ref().map(|(_, price)| price * pool.nodes as f64))
            .collect();
        self.series.push(Sample {
            second: self.second(at),
            wanted_pods: self.wanted.values().sum::<i64>() + self.pods.unasked,
            running_pods: self.pods.running,
            pending_pods: self.pending_peak.max(self.pods.pending),
            ready_nodes: ready,
            starting_nodes: starting,
            leaving_nodes: leaving,
            demand_cpu_milli: self.pods.demand_cpu,
            capacity_cpu_milli: capacity,
            cost_per_hour: (!priced.is_empty()).then(|| priced.iter().sum()),
            longest_wait_seconds: self.longest_since.take(),
        });
        let second = self.second(at);
        for (node, pods) in &self.pods_on {
            self.lives.pods(node, *pods, second);
        }
        self.pods_on.retain(|_, pods| *pods != 0);
        self.pending_peak = self.pods.pending;
        self.next_sample = at.saturating_add(self.every).unwrap_or(Timestamp::MAX);
    }

    /// The run as it was, once it is over.
    #[must_use]
    pub fn finish(mut self, outcome: &Outcome) -> Run {
        self.sample(self.at);
        let acted: BTreeSet<&str> = BTreeSet::from(["ScaleUp", "ScaleDown"]);
        let decided =
            self.decisions.iter().filter(|decision| acted.contains(decision.action.as_str())).count();
        let (mut cost, mut unpriced) = (0.0, 0.0);
        let mut pools = Vec::new();
        for (name, pool) in &self.pools {
            cost += pool.cost;
            unpriced += (pool.node_seconds - pool.priced_seconds) / 3600.0;
            pools.push(Pool {
                name: name.clone(),
                price_per_hour: pool.price.as_ref().map(|(words, _)| words.clone()),
                nodes: pool.nodes,
                nodes_max: pool.nodes_max,
                node_hours: pool.node_seconds / 3600.0,
                cost: (pool.node_seconds <= 0.0 || 0.0 < pool.priced_seconds).then_some(pool.cost),
            });
        }
        let (nodes, nodes_omitted) = self.lives.list(&self.decisions);
        let figures = &outcome.summary;
        let summary = Summary {
            pods_served: self.waits.len() as u64,
            pods_pending: self.pods.pending,
            wait_seconds: waits(&mut self.waits),
            node_hours: figures.node_hours,
            nodes_created: figures.nodes_created,
            nodes_removed: figures.nodes_removed,
            nodes_max: figures.nodes_max,
            utilization_percent: figures.utilization_percent,
            cost,
            unpriced_node_hours: unpriced,
            decisions_count: decided as u64,
            disruptions_count: self.disruptions_count,
            operator_deaths: outcome.deaths_count,
        };
        Run {
            name: self.name,
            hash: Some(outcome.hash.to_string()),
            seed: Some(self.seed),
            summary: Some(summary),
            series: self.series,
            pools,
            events: self.events,
            decisions: self.decisions,
            nodes,
            nodes_omitted,
        }
    }
}

/// The document of one or two runs of `scenario`.
#[must_use]
pub fn document(scenario: &Scenario, runs: Vec<Run>) -> Document {
    Document {
        schema: SCHEMA,
        kind: DocumentKind::Simulation,
        version: env!("CARGO_PKG_VERSION"),
        title: scenario.name.clone(),
        description: scenario.description.clone(),
        start_at: scenario.start.as_second(),
        length_seconds: scenario.duration.as_secs(),
        runs,
        live: None,
    }
}

impl NodeRow {
    fn of(node: &Value) -> NodeRow {
        NodeRow {
            pool: labels(node).find(|(name, _)| *name == POOL_LABEL).map(|(_, pool)| pool.to_owned()),
            ready: is_ready(node),
            leaving: is_leaving(node),
            cpu_milli: Amounts::of(at(node, &["status", "allocatable"])).cpu,
        }
    }
}

impl PodShare {
    fn of(pod: &Value) -> PodShare {
        let owner = pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str);
        let phase = text(pod, &["status", "phase"]).unwrap_or("Pending");
        let runs = phase == "Running";
        let counts = owner != Some("DaemonSet");
        let mut sums = PodSums::default();
        let active = counts && !matches!(phase, "Succeeded" | "Failed");
        if active {
            sums.running = i64::from(runs);
            sums.pending = i64::from(text(pod, &["spec", "nodeName"]).is_none());
            sums.unasked = i64::from(!matches!(owner, Some("ReplicaSet" | "StatefulSet")));
            let containers = at(pod, &["spec", "containers"]).and_then(Value::as_array);
            sums.demand_cpu = containers
                .into_iter()
                .flatten()
                .map(|container| Amounts::of(at(container, &["resources", "requests"])).cpu)
                .sum();
        }
        PodShare { sums, runs, counts, active }
    }
}

impl PodSums {
    fn add(&mut self, other: &PodSums, sign: i64) {
        self.running += sign * other.running;
        self.pending += sign * other.pending;
        self.unasked += sign * other.unasked;
        self.demand_cpu += sign * other.demand_cpu;
    }
}

/// Percentiles by nearest rank; none of nothing.
fn waits(all: &mut [f64]) -> Option<Waits> {
    all.sort_by(f64::total_cmp);
    let longest = *all.last()?;
    let rank = |percent: usize| all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    Some(Waits { mean, median: rank(50)?, p95: rank(95)?, longest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_some_pod_waited() {
        let mut all: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let found = waits(&mut all);
        assert_eq!(found, Some(Waits { mean: 10.5, median: 10.0, p95: 19.0, longest: 20.0 }));
        assert_eq!(waits(&mut []), None);
    }
}
