//! Calls to the API server: their callers, the objects that they may touch, and the conditions that must hold when they
//! are done.

use headroom_core::world::node::{CANDIDATE_TAINT, DELETION_TAINT};
use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::truth::{self, Intent};
use super::{Checker, LEASE, LifeLog};
use headroom_simulator::store::{Kind, Store, at, number, text};
use headroom_simulator::wire::{Call, Caller};

/// Fields of a node that are the operator's to change: its mark and its cordon.
const OWN_FIELDS: [[&str; 2]; 6] = [
    ["spec", "taints"],
    ["spec", "unschedulable"],
    ["metadata", "annotations"],
    ["metadata", "generation"],
    ["metadata", "resourceVersion"],
    ["metadata", "managedFields"],
];
/// Taints that are the operator's, each with its effect.
const OWN_TAINTS: [(&str, Option<&str>); 2] =
    [(DELETION_TAINT, Some("NoSchedule")), (CANDIDATE_TAINT, Some("PreferNoSchedule"))];
/// Annotations that are the operator's.
const OWN_ANNOTATIONS: [&str; 2] = [truth::INTENT, "headroom.dev/cordoned"];

impl Checker {
    pub(super) fn call_begins(&mut self, store: &Store, call: &Call) {
        if call.kind == Kind::Lease || call.kind == Kind::Event {
            return;
        }
        let what = format!("{} {} {} {}", call.method, call.kind.info().plural, call.key, call.subresource);
        if self.shards.checked && self.is_of_workload(call) {
            self.check_shard(call, &what);
        } else {
            self.check_claim(call.caller, &what, call.arrived_at);
        }
        self.check_rate(call.now);
        self.before = store.find(call.kind, &call.key).cloned();
        self.caller = Some(call.caller);
        match (call.kind, &call.method, call.subresource.as_str()) {
            (Kind::NodePool, &Method::PUT, "status") => self.status_begins(call),
            (
                Kind::ClusterScalingPolicy
                | Kind::CapacityBuffer
                | Kind::CapacityQuota
                | Kind::ProvisioningRequest,
                _,
                "status",
            ) => {}
            (Kind::Node, &Method::POST, "") => self.node_is_made(store, call),
            (Kind::Node, &Method::DELETE, "") => self.node_is_deleted(store, call),
            (Kind::Node, &Method::PATCH, "") => {
                if at(&call.body, &["metadata", "resourceVersion"]).and_then(Value::as_str).is_none() {
                    self.violated(call.now, "I21", format!("{what} names no resourceVersion"));
                }
            }
            (Kind::Pod, &Method::POST, "eviction") => self.pod_is_evicted(store, call),
            (Kind::Pod, &Method::DELETE, _) => {
                self.violated(call.now, "I6", format!("pod {} is deleted and not evicted", call.key));
            }
            _ if self.is_of_workload(call) => {}
            _ => self.violated(call.now, "I26", format!("{what} is not the operator's to do")),
        }
    }

    pub(super) fn call_ends(&mut self, store: &Store, call: &Call, code: u16) {
        if code >= 300 || call.kind == Kind::Event {
            return;
        }
        if call.kind == Kind::Lease {
            return self.lease_is_written(call);
        }
        let before = self.before.take();
        let after = store.find(call.kind, &call.key);
        let changed = match (&before, after) {
            (Some(before), Some(after)) => before != after,
            (before, after) => before.is_some() != after.is_some(),
        };
        if changed || call.subresource == "eviction" {
            self.writes_count += 1;
            self.last_write_at = Some(call.now);
        }
        if call.subresource == "eviction" {
            self.evictions_count += 1;
            self.note_eviction(&call.key, call.now);
        }
        let epoch = self.lives.get(&call.caller).and_then(|life| life.epoch).unwrap_or(0);
        if call.kind == Kind::NodePool && call.subresource == "status" {
            if epoch < self.status_epoch {
                let message = format!(
                    "status of {} is written in term {epoch} after a write in term {}",
                    call.key, self.status_epoch
                );
                self.violated(call.now, "I10", message);
            }
            self.status_epoch = self.status_epoch.max(epoch);
            if !changed {
                self.violated(
                    call.now,
                    "I23",
                    format!("status of {} is written and says nothing new", call.key),
                );
            }
            if let (Some(before), Some(after)) = (&before, after) {
                self.status_ends(store, call.now, &call.key.name, before, after);
                self.journals.insert(call.key.name.to_string(), (call.caller, truth::intents(after)));
                self.struck.remove(&*call.key.name);
            }
        } else if epoch < self.status_epoch && !(self.shards.checked && self.is_of_workload(call)) {
            self.late_calls_count += 1;
        }
        if let (Kind::Node, &Method::PATCH, Some(before), Some(after)) =
            (call.kind, &call.method, &before, after)
        {
            self.only_own_fields(call, before, after);
        }
        if let (Some(before), Some(after)) = (&before, after) {
            self.workload_is_written(call, before, after);
        }
        if call.kind == Kind::Node && call.method == Method::DELETE {
            self.removed_count += 1;
        }
    }

    fn lease_is_written(&mut self, call: &Call) {
        self.shard_lease_is_written(call);
        if &*call.key.name != "headroom" {
            return;
        }
        let held = text(&call.body, &["spec", "holderIdentity"]).is_some_and(|holder| !holder.is_empty());
        let epoch = number(&call.body, &["spec", "leaseTransitions"]);
        let leads = |(other, life): (&Caller, &LifeLog)| {
            let since = life.renewed_at.map(|at| call.now.duration_since(at));
            (*other != call.caller && life.epoch < epoch && since.is_some_and(|since| since < LEASE))
                .then_some((other.replica, other.life))
        };
        if let (true, Some((replica, life))) = (held, self.lives.iter().find_map(leads)) {
            let message = format!("the lease is taken while life {life} of replica {replica} still holds it");
            self.violated(call.now, "I10", message);
        }
        let life = self.lives.entry(call.caller).or_default();
        life.renewed_at = held.then_some(call.now);
        if life.epoch != epoch {
            life.leads_since = Some(call.now);
        }
        life.epoch = epoch;
    }

    /// I1, I3: a Node object is made for an open increase, and within the pool's maximum.
    fn node_is_made(&mut self, store: &Store, call: &Call) {
        let Some(pool) = truth::pool_of(&call.body) else {
            return self.violated(call.now, "I3", format!("node {} is made for no pool", call.key));
        };
        let asks = |intent: &Intent| {
            let prefix = format!("{pool}-{}-", intent.id);
            let index = call.key.name.strip_prefix(&*prefix).and_then(|index| index.parse::<u32>().ok());
            intent.increases() && index.is_some_and(|index| index < intent.to.saturating_sub(intent.from))
        };
        let intents = self.intents_for(store, &pool, call.caller);
        if !intents.iter().any(asks) {
            self.violated(
                call.now,
                "I3",
                format!("node {} is made and no stored intent asks for it", call.key),
            );
        }
        if self.before.is_none() {
            self.nodes.catch_up(store);
            let count = i64::try_from(self.nodes.of_pool(&pool)).unwrap_or(i64::MAX) + 1;
            self.check_max(call.now, &pool, count);
        }
        self.check_gone(call.now, &pool, &format!("node {} is made", call.key));
    }

    /// I1: at most the maximum that the operator may believe in.
    pub(super) fn check_max(&mut self, now: Timestamp, pool: &str, count: i64) {
        if let Some((_, max)) = self.believed_bounds(pool, now)
            && max < count
        {
            self.violated(now, "I1", format!("pool {pool} grows to {count} nodes, its maximum is {max}"));
        }
    }

    /// I1, at the other end.
    pub(super) fn check_min(&mut self, now: Timestamp, pool: &str, left: i64) {
        if let Some((min, _)) = self.believed_bounds(pool, now)
            && left < min
        {
            self.violated(now, "I1", format!("pool {pool} shrinks to {left} nodes, its minimum is {min}"));
        }
    }

    /// I4, I5, I8: the node is named by a stored removal, and nothing on it has to move.
    fn node_is_deleted(&mut self, store: &Store, call: &Call) {
        let Some(node) = self.before.clone() else { return };
        let pool = truth::pool_of(&node).unwrap_or_default();
        let instance = text(&node, &["spec", "providerID"]).unwrap_or_default().to_owned();
        self.check_gone(call.now, &pool, &format!("node {} is removed", call.key));
        self.victim_goes(store, call.now, &call.key.name, &instance);
        let forced =
            self.removal_named(store, &call.key.name, &instance).is_some_and(|intent| intent.forces());
        if !forced {
            self.nodes.catch_up(store);
            let left = i64::try_from(self.nodes.of_pool(&pool)).unwrap_or(i64::MAX) - 1;
            self.check_min(call.now, &pool, left);
        }
    }

    /// I3, I4, I5, I8 of a node or instance that the operator ends.
    pub(super) fn victim_goes(&mut self, store: &Store, now: Timestamp, node: &str, instance: &str) {
        let what = if node.is_empty() { instance } else { node };
        self.check_freshness(&format!("node {what} is removed"), now);
        let Some(intent) = self.removal_named(store, node, instance) else {
            return self.violated(now, "I4", format!("{what} is removed and no stored intent names it"));
        };
        let dead = intent.reason == "Unready" && !truth::long_ready(store, node, now);
        if dead || node.is_empty() {
            return;
        }
        let pods = truth::movable_pods(store, node);
        if !pods.is_empty() {
            self.violated(now, "I5", format!("node {node} is removed under {}", pods.join(", ")));
        }
    }

    /// I3, I6: an eviction names the pod's uid, and its node is being drained.
    fn pod_is_evicted(&mut self, store: &Store, call: &Call) {
        let uid = call.body.pointer("/deleteOptions/preconditions/uid").and_then(Value::as_str);
        if uid.is_none() {
            self.violated(call.now, "I6", format!("the eviction of {} names no uid", call.key));
        }
        let Some(pod) = self.before.clone() else { return };
        if uid.is_some_and(|uid| text(&pod, &["metadata", "uid"]) != Some(uid)) {
            // The server refuses it: another pod has the name now.
            return;
        }
        let node = text(&pod, &["spec", "nodeName"]).unwrap_or_default();
        // Called back while the eviction was under way.
        let ended_since = self.let_go.get(node).is_some_and(|at| call.arrived_at <= *at);
        if self.removal_named(store, node, "").is_none() && !ended_since {
            let message = format!("pod {} is evicted and no stored intent removes its node {node}", call.key);
            self.violated(call.now, "I3", message);
        }
        self.check_freshness(&format!("pod {} is evicted", call.key), call.now);
    }

    /// I21: nothing but the mark and the cordon of a node changes; I12: the mark names a stored intent.
    fn only_own_fields(&mut self, call: &Call, before: &Value, after: &Value) {
        let stripped = |node: &Value| {
            let mut node = node.clone();
            for path in OWN_FIELDS {
                if let Some(parent) =
                    node.pointer_mut(&format!("/{}", path[0])).and_then(Value::as_object_mut)
                {
                    parent.remove(path[1]);
                }
            }
            if node["spec"].as_object().is_some_and(serde_json::Map::is_empty) {
                node["spec"] = Value::Null;
            }
            node
        };
        let foreign = |node: &Value| {
            let taints = at(node, &["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
            let own = |taint: &Value| {
                text(taint, &["key"]).is_some_and(|key| OWN_TAINTS.contains(&(key, text(taint, &["effect"]))))
            };
            let others: Vec<Value> = taints.into_iter().filter(|taint| !own(taint)).collect();
            let mut annotations = at(node, &["metadata", "annotations"]).cloned().unwrap_or_default();
            if let Some(all) = annotations.as_object_mut() {
                OWN_ANNOTATIONS.iter().for_each(|own| drop(all.remove(*own)));
            }
            let annotations = annotations.as_object().filter(|all| !all.is_empty()).cloned();
            (others, annotations)
        };
        if stripped(before) != stripped(after) || foreign(before) != foreign(after) {
            self.violated(call.now, "I21", format!("node {} is changed beyond mark and cordon", call.key));
        }
    }
}
