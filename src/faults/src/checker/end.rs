//! Conditions at the end of a run: every pod that can run runs, sizes are what was asked for, and no intent or mark of
//! the operator is left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Violation, truth};
use crate::account::Truth;
use headroom_simulator::store::{Kind, ObjectKey, Store, number, text};

/// Goal that the end of a run is compared with.
#[derive(Debug, Clone, Default)]
pub struct Goal {
    /// Pods whose names begin so can run nowhere, and need not.
    pub hopeless: Vec<String>,
    /// Pools that are not managed at the end: deleted, suspended or broken on purpose.
    pub unmanaged: Vec<String>,
    /// True if pods and minimums may wait for what CapacityQuotas leave; the checker knows whether they have to.
    pub pods_wait_for_quotas: bool,
}

/// State of the cluster at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// Nodes by pool; without pool under the empty name.
    pub nodes: BTreeMap<String, usize>,
    /// Pods that run.
    pub running: usize,
    /// Pods without a node.
    pub pending: Vec<String>,
}

/// Returns the state of the cluster at the end, and the violations of the goal.
pub fn examine(
    store: &Store,
    cloud: &[(String, Truth)],
    goal: &Goal,
    now: Timestamp,
) -> (End, Vec<Violation>) {
    let mut wrong = Wrong { now, all: Vec::new() };
    let end = wrong.pods(store, goal);
    for (key, pool) in store.all(Kind::NodePool) {
        if !goal.unmanaged.iter().any(|name| **name == *key.name) {
            wrong.pool(store, key, pool, (cloud, goal));
        }
    }
    wrong.marks(store);
    for (group, truth) in cloud {
        let off = truth.desired != truth.counted || truth.homeless != 0;
        if off && !goal.unmanaged.contains(&truth.pool) {
            wrong.add("I13", format!("group {group} at the end: {truth:?}"));
        }
    }
    (end, wrong.all)
}

/// I3 while a run goes on: the intents that have been open for longer than `most`.
#[must_use]
pub fn endless_intents(store: &Store, most: SignedDuration, now: Timestamp) -> Vec<Violation> {
    let mut wrong = Wrong { now, all: Vec::new() };
    for (key, pool) in store.all(Kind::NodePool) {
        for intent in truth::intents(pool) {
            let begun: Option<Timestamp> = intent.started_at.parse().ok();
            if begun.is_some_and(|begun| most < now.duration_since(begun)) {
                let message = format!(
                    "{} {} of pool {key} is {} since {}",
                    intent.action, intent.id, intent.phase, intent.started_at
                );
                wrong.add("I3", message);
            }
        }
    }
    wrong.all
}

struct Wrong {
    now: Timestamp,
    all: Vec<Violation>,
}

impl Wrong {
    fn add(&mut self, invariant: &'static str, message: String) {
        self.all.push(Violation { at: self.now, invariant, message });
    }

    fn pods(&mut self, store: &Store, goal: &Goal) -> End {
        let mut end = End::default();
        for (key, pod) in store.all(Kind::Pod).filter(|(_, pod)| truth::is_movable(pod)) {
            end.running += usize::from(text(pod, &["status", "phase"]) == Some("Running"));
            if text(pod, &["spec", "nodeName"]).is_none() {
                end.pending.push(key.to_string());
            }
        }
        let hopeless = |pod: &&String| {
            let name = pod.rsplit('/').next().unwrap_or_default();
            goal.hopeless.iter().any(|beginning| name.starts_with(beginning))
        };
        let waiting: Vec<&String> = end.pending.iter().filter(|pod| !hopeless(pod)).collect();
        if let Some(first) = waiting.first()
            && !goal.pods_wait_for_quotas
        {
            let message = format!("{} pods have no node at the end, {first} among them", waiting.len());
            self.add("I16", message);
        }
        for (_, node) in store.all(Kind::Node) {
            *end.nodes.entry(truth::pool_of(node).unwrap_or_default()).or_default() += 1;
        }
        end
    }

    fn pool(
        &mut self,
        store: &Store,
        key: &ObjectKey,
        pool: &Value,
        (cloud, goal): (&[(String, Truth)], &Goal),
    ) {
        let open = truth::intents(pool);
        if let Some(intent) = open.first() {
            let message =
                format!("{} {} of pool {key} is {} at the end", intent.action, intent.id, intent.phase);
            self.add("I3", message);
        }
        let there = truth::nodes_count(store, &key.name);
        let asked = number(pool, &["status", "nodes", "desired"]);
        if asked != i64::try_from(there).ok() {
            let message = format!("pool {key} asks for {asked:?} nodes at the end and has {there}");
            self.add("I13", message);
        }
        let instances: u32 =
            cloud.iter().filter(|(_, truth)| truth.pool == *key.name).map(|(_, truth)| truth.counted).sum();
        let counted = i64::from(instances).max(i64::try_from(there).unwrap_or(0));
        let (min, _) = truth::bounds(pool);
        if counted < min && !goal.pods_wait_for_quotas {
            self.add("I16", format!("pool {key} has {counted} nodes at the end, its minimum is {min}"));
        }
    }

    /// I12: no mark without an open intent.
    fn marks(&mut self, store: &Store) {
        for (key, node) in store.all(Kind::Node) {
            let named = truth::removal_of(store, &key.name, "").is_some();
            if truth::marked_by(node).is_some() && !named {
                self.add("I12", format!("node {key} is marked at the end and no intent names it"));
            }
        }
    }
}
