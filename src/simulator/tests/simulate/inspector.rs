//! Watches a run and notes everything that must never happen; it changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use headroom_simulator::cluster::SimCluster;
use headroom_simulator::run::Scene;
use headroom_simulator::store::{Kind, Store, at, condition, number, text};
use jiff::Timestamp;
use serde_json::Value;

const MARK: &str = "ToBeDeletedByClusterAutoscaler";

/// Observations so far. The run must keep its trace.
#[derive(Default)]
pub(crate) struct Inspector {
    lines_read: usize,
    /// Nodes that the cloud took: their pods are lost, and nobody of ours did it.
    taken_back: BTreeSet<String>,
    cursor: u64,
    /// Everything that must not happen, in order.
    pub violations: Vec<String>,
    /// Times at which the operator wrote a status.
    pub status_writes: Vec<Timestamp>,
    /// Nodes that were made, by pool.
    pub made: BTreeMap<String, usize>,
}

/// State of the cluster at the end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct End {
    /// Pods without a node.
    pub pending: Vec<String>,
    /// Nodes by pool.
    pub nodes: BTreeMap<String, usize>,
    /// Errors: marks without an intent, sizes that differ from the requested ones.
    pub wrong: Vec<String>,
}

impl Inspector {
    /// Looks at one step.
    pub(crate) fn look(&mut self, scene: &Scene<'_>) {
        scene.cluster.store().with(|store| {
            self.read_trace(store);
            self.read_log(store, scene.now);
        });
    }

    fn read_trace(&mut self, store: &Store) {
        let lines = store.trace.lines();
        for line in &lines[self.lines_read..] {
            if line.actor == "spot-market" && line.verb == "delete" {
                self.taken_back.insert(line.object.clone());
            }
            if line.actor != "headroom" || line.code != 200 {
                continue;
            }
            if line.verb == "delete" && line.object.starts_with("pods ") {
                self.violations.push(format!("a pod was deleted and not evicted: {line}"));
            }
            if line.verb == "update-status" {
                self.status_writes.push(line.at);
            }
        }
        self.lines_read = lines.len();
    }

    fn read_log(&mut self, store: &Store, now: Timestamp) {
        let entries = store.entries_after(self.cursor).expect("every step is looked at");
        for entry in entries.filter(|entry| entry.kind == Kind::Node) {
            if entry.before.is_none() {
                *self.made.entry(pool_of(&entry.object)).or_default() += 1;
            }
            // Pods are lost with a node that has failed; that is what a zone outage is.
            let taken_back = self.taken_back.contains(&format!("nodes {}", entry.key));
            if !entry.deleted || !ready(&entry.object) || taken_back {
                continue;
            }
            let left: Vec<String> = store
                .all(Kind::Pod)
                .filter(|(_, pod)| movable(pod) && text(pod, &["spec", "nodeName"]) == Some(&entry.key.name))
                .map(|(key, _)| key.to_string())
                .collect();
            if !left.is_empty() {
                self.violations.push(format!("{now}: node {} was deleted under {left:?}", entry.key));
            }
        }
        self.cursor = store.revision();
    }
}

impl End {
    /// The cluster as it stands.
    pub(crate) fn of(cluster: &SimCluster) -> End {
        cluster.store().with(|store| {
            let mut end = End::default();
            let pods = store.all(Kind::Pod);
            end.pending = pods
                .filter(|(_, pod)| movable(pod) && text(pod, &["spec", "nodeName"]).is_none())
                .map(|(key, _)| key.to_string())
                .collect();
            for (_, node) in store.all(Kind::Node) {
                *end.nodes.entry(pool_of(node)).or_default() += 1;
            }
            end.check_sizes(store);
            end.check_marks(store);
            end
        })
    }

    fn check_sizes(&mut self, store: &Store) {
        for (key, pool) in store.all(Kind::NodePool) {
            let there = self.nodes.get(&*key.name).copied().unwrap_or(0) as i64;
            let asked = number(pool, &["status", "nodes", "desired"]);
            if asked != Some(there) {
                self.wrong.push(format!("pool {key} asks for {asked:?} nodes and has {there}"));
            }
        }
    }

    fn check_marks(&mut self, store: &Store) {
        let intents: Vec<String> = store
            .all(Kind::NodePool)
            .filter_map(|(_, pool)| at(pool, &["status", "intents"]).map(Value::to_string))
            .collect();
        for (key, node) in store.all(Kind::Node) {
            let taints = at(node, &["spec", "taints"]).and_then(Value::as_array);
            let marked =
                taints.is_some_and(|all| all.iter().any(|taint| text(taint, &["key"]) == Some(MARK)));
            let quoted = format!("\"{}\"", key.name);
            if marked && !intents.iter().any(|intents| intents.contains(&quoted)) {
                self.wrong.push(format!("node {key} is marked and no intent names it"));
            }
        }
    }
}

fn pool_of(node: &Value) -> String {
    let labels = at(node, &["metadata", "labels"]);
    let pool = labels.and_then(|labels| labels.get("headroom.dev/pool")).and_then(Value::as_str);
    pool.unwrap_or("no pool").to_owned()
}

fn ready(node: &Value) -> bool {
    condition(node, "Ready").and_then(|ready| ready.get("status")?.as_str()) == Some("True")
}

/// True if a pod has to run somewhere else when its node goes.
fn movable(pod: &Value) -> bool {
    let owner = pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str);
    owner != Some("DaemonSet") && !matches!(text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"))
}
