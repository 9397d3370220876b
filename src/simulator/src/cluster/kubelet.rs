//! The kubelets (or KWOK in their place): nodes become ready, pods start, end and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::world::node::ZONE_LABEL;
use jiff::Timestamp;
use serde_json::Value;

use super::Timings;
use super::cloud_model::CloudModel;
use super::pods::{Phase, PodFacts, Pods};
use super::queue::WorkQueue;
use crate::store::{
    Author, DeleteOptions, Entry, Kind, ObjectKey, Store, condition, object_at, seconds, set_condition, text,
    timestamp,
};

const ME: Author<'static> = Author::actor("kubelet");

#[derive(Debug)]
struct NodeState {
    kwok: bool,
    ready: bool,
    zone: Option<String>,
    joins_at: Timestamp,
    silent: bool,
}

/// The nodes and what is due on them.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    nodes: BTreeMap<Arc<str>, NodeState>,
    node_queue: WorkQueue<Arc<str>>,
    pod_queue: WorkQueue<ObjectKey>,
}

impl Kubelet {
    pub(super) fn observe_node(
        &mut self,
        entry: &Entry,
        pods: &Pods,
        cloud_model: &CloudModel,
        timings: &Timings,
    ) {
        let name = entry.key.name.clone();
        if entry.deleted {
            self.nodes.remove(&name);
            return;
        }
        let object = &entry.object;
        let ready = condition(object, "Ready").and_then(|c| c.get("status")?.as_str()) == Some("True");
        let became_ready = ready && !self.nodes.get(&name).is_some_and(|node| node.ready);
        let state = self.nodes.entry(name.clone()).or_insert_with(|| {
            let created_at =
                timestamp(object, &["metadata", "creationTimestamp"]).unwrap_or(entry.at).max(entry.at);
            let delay = cloud_model.join_delay(timings.node_ready, entry.at);
            let joins_at = match cloud_model.loses_join(&name, entry.at) {
                true => Timestamp::MAX,
                false => created_at.checked_add(delay).unwrap_or(Timestamp::MAX),
            };
            NodeState {
                kwok: text(object, &["metadata", "labels", "type"]) == Some("kwok"),
                ready,
                zone: text(object, &["metadata", "labels", ZONE_LABEL]).map(str::to_owned),
                joins_at,
                silent: false,
            }
        });
        state.ready = ready;
        if entry.before.is_none() {
            self.node_queue.add_at(state.joins_at, name.clone());
        }
        if became_ready {
            for (key, _) in pods.on_node(&name) {
                self.pod_queue.add(key.clone());
            }
        }
    }

    /// A zone that went out or came back concerns all its nodes.
    pub(super) fn observe_cloud_model(&mut self, zone: &str) {
        for (name, node) in &self.nodes {
            if node.zone.as_deref() == Some(zone) {
                self.node_queue.add(name.clone());
            }
        }
    }

    /// A machine that failed concerns its node, now and when it works again.
    pub(super) fn observe_broken(&mut self, name: &Arc<str>, until: Timestamp) {
        self.node_queue.add(name.clone());
        self.node_queue.add_at(until, name.clone());
    }

    pub(super) fn observe_pod(&mut self, key: &ObjectKey, before: Option<&PodFacts>, pod: Option<&PodFacts>) {
        let Some(pod) = pod.filter(|pod| pod.node.is_some()) else { return };
        let bound = before.is_none_or(|before| before.node.is_none());
        let began_to_leave = before.is_none_or(|before| before.leaving_at != pod.leaving_at);
        let lost_readiness = pod.phase == Phase::Running && !pod.ready;
        let started = before.is_none_or(|before| before.phase != pod.phase);
        if bound || began_to_leave || started || lost_readiness {
            self.pod_queue.add(key.clone());
        }
    }

    pub(super) fn act(
        &mut self,
        store: &mut Store,
        pods: &Pods,
        cloud_model: &CloudModel,
        timings: &Timings,
    ) {
        let now = store.now();
        for name in self.node_queue.take_due(now) {
            self.sync_node(store, &name, cloud_model, pods);
        }
        for key in self.pod_queue.take_due(now) {
            if let Some(pod) = pods.get(&key) {
                self.sync_pod(store, &key, pod, timings);
            }
        }
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        [self.node_queue.next_at(), self.pod_queue.next_at()].into_iter().flatten().min()
    }

    fn sync_node(&mut self, store: &mut Store, name: &Arc<str>, cloud_model: &CloudModel, pods: &Pods) {
        let now = store.now();
        let Some(node) = self.nodes.get_mut(name) else { return };
        let out = node.zone.as_deref().is_some_and(|zone| cloud_model.is_out(zone, now));
        node.silent = out || cloud_model.is_broken(name, now);
        let joined = node.joins_at <= now;
        let key = ObjectKey::new("", name);
        // Heartbeats that stop make the node's condition Unknown; upstream notices after 40 s, here at once.
        let (word, reason) = match (joined, node.silent) {
            (false, _) => return,
            (true, true) => ("Unknown", "NodeStatusUnknown"),
            (true, false) => ("True", "KubeletReady"),
        };
        let _ = store.edit(Kind::Node, &key, ME, |node| {
            set_condition(node, "Ready", word, reason, "", now);
            object_at(node, &["status"]).insert("phase".into(), "Running".into());
        });
        if !node.silent {
            self.pod_queue_for(name, pods);
        }
    }

    fn pod_queue_for(&mut self, name: &str, pods: &Pods) {
        for (key, _) in pods.on_node(name) {
            self.pod_queue.add(key.clone());
        }
    }

    fn sync_pod(&mut self, store: &mut Store, key: &ObjectKey, pod: &PodFacts, timings: &Timings) {
        let now = store.now();
        let Some(node) = pod.node.as_ref().and_then(|node| self.nodes.get(node)) else { return };
        if node.silent || !node.ready {
            return;
        }
        if let Some(leaving_at) = pod.leaving_at {
            // KWOK's pod-delete stage does not wait for the grace.
            if node.kwok || leaving_at <= now {
                let _ = store.delete(Kind::Pod, key, &DeleteOptions::now(), ME);
            } else {
                self.pod_queue.add_at(leaving_at, key.clone());
            }
            return;
        }
        match pod.phase {
            Phase::Pending => {
                let bound_at = store.find(Kind::Pod, key).and_then(|pod| bound_at(pod)).unwrap_or(now);
                match bound_at.checked_add(timings.pod_start) {
                    Ok(due) if now < due => self.pod_queue.add_at(due, key.clone()),
                    _ => run(store, key, now),
                }
            }
            Phase::Running => {
                let ends_at =
                    pod.started_at.zip(pod.run_for).and_then(|(since, run)| since.checked_add(run).ok());
                match ends_at {
                    Some(due) if due <= now => end(store, key, now),
                    Some(due) => self.pod_queue.add_at(due, key.clone()),
                    None => {}
                }
                if !pod.ready && ends_at.is_none_or(|due| now < due) {
                    run(store, key, now);
                }
            }
            Phase::Succeeded | Phase::Failed => {}
        }
    }
}

fn bound_at(pod: &Value) -> Option<Timestamp> {
    condition(pod, "PodScheduled")?.get("lastTransitionTime")?.as_str()?.parse().ok()
}

fn run(store: &mut Store, key: &ObjectKey, now: Timestamp) {
    // Gone in the meantime is nothing to run.
    let _ = store.edit(Kind::Pod, key, ME, |pod| {
        let status = object_at(pod, &["status"]);
        status.insert("phase".into(), "Running".into());
        status.entry("startTime").or_insert_with(|| seconds(now));
        for type_ in ["Initialized", "ContainersReady", "Ready"] {
            set_condition(pod, type_, "True", "", "", now);
        }
    });
}

fn end(store: &mut Store, key: &ObjectKey, now: Timestamp) {
    let _ = store.edit(Kind::Pod, key, ME, |pod| {
        object_at(pod, &["status"]).insert("phase".into(), "Succeeded".into());
        for type_ in ["ContainersReady", "Ready"] {
            set_condition(pod, type_, "False", "PodCompleted", "", now);
        }
    });
}

/// The zones whose nodes have to be looked at again.
#[derive(Debug, Default)]
pub(super) struct ZoneWatch(BTreeSet<String>);

impl ZoneWatch {
    /// The zones that went out or came back since the last call.
    pub(super) fn changed(&mut self, cloud_model: &CloudModel, now: Timestamp) -> Vec<String> {
        let out: BTreeSet<String> =
            cloud_model.zones().filter(|(_, until)| now < *until).map(|(zone, _)| zone.to_owned()).collect();
        let changed = out.symmetric_difference(&self.0).cloned().collect();
        self.0 = out;
        changed
    }
}
