//! The plain in-memory cloud and API of the loop families: it does what it is asked, and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::absorb;
use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::upstream::{Act, Answer, answer};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::time::UnixTime;
use headroom_core::world::node::DELETION_TAINT;
use headroom_core::world::provider::{FailureClass, GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::workload::{DaemonSet, PrioritySource};
use headroom_core::world::{Delta, World};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::loops::Input;
use crate::model::{Group, Node, Pod, Toleration};
use crate::removals::{BudgetInput, add_budgets, add_controllers};

/// The taint of nodes that may go.
const CANDIDATE_TAINT: &str = "DeletionCandidateOfClusterAutoscaler";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    name: String,
    #[serde(default)]
    ns: Option<String>,
    #[serde(default)]
    cpu_m: i64,
    #[serde(default)]
    mem: i64,
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    tick: i64,
    #[serde(default)]
    add_pods: Option<Vec<Pod>>,
    #[serde(default)]
    delete_pods: Option<Vec<String>>,
    #[serde(default)]
    update_nodes: Option<Vec<Node>>,
    #[serde(default)]
    set_pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    fail_delete: BTreeMap<String, String>,
}

/// The world around the loop.
pub struct Cloud {
    pub world: World,
    pub targets: BTreeMap<String, i64>,
    /// Instances by group, with the instant at which each becomes a node.
    instances: BTreeMap<String, BTreeMap<Arc<str>, Option<i64>>>,
    made: BTreeMap<String, usize>,
    /// The entry of the input that each pod comes from.
    pub entries: BTreeMap<ObjectKey, String>,
    /// What was done since the last tick.
    pub actions: Vec<Value>,
    /// How pods behave when they are evicted, where it is not at once.
    manners: BTreeMap<ObjectKey, Manner>,
    /// When pods end that are stopping.
    ends: BTreeMap<ObjectKey, i64>,
    /// Groups whose deletions the cloud refuses.
    refusing: BTreeMap<String, bool>,
}

/// How a pod answers an eviction.
#[derive(Clone, Copy)]
enum Manner {
    Refuses,
    EndsAfter(i64),
}

impl Cloud {
    /// The world at the beginning.
    pub fn new(input: &Input) -> Result<Self, String> {
        let mut cloud = Self {
            world: World::new(),
            targets: input.groups.iter().map(|group| (group.id.clone(), group.target)).collect(),
            instances: BTreeMap::new(),
            made: BTreeMap::new(),
            entries: BTreeMap::new(),
            actions: Vec::new(),
            manners: BTreeMap::new(),
            ends: BTreeMap::new(),
            refusing: BTreeMap::new(),
        };
        for group in &input.groups {
            cloud
                .refusing
                .insert(group.id.clone(), group.fail_delete.as_str().is_some_and(|why| !why.is_empty()));
            for instance in group.instances.as_array().into_iter().flatten() {
                let id: Arc<str> = instance["id"].as_str().unwrap_or_default().into();
                cloud.instances.entry(group.id.clone()).or_default().insert(id, None);
            }
        }
        add_controllers(&mut cloud.world, input.controllers.as_deref().unwrap_or_default())?;
        add_budgets(&mut cloud.world, input.pdbs.as_deref().unwrap_or_default());
        for node in input.nodes.iter().flatten() {
            let node_id: Arc<str> = format!("fake://{}", node.name).into();
            cloud.instances.entry(node.group.clone()).or_default().insert(node_id, None);
            cloud.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
        }
        for set in input.daemonsets.iter().flatten() {
            let namespace = set.ns.clone().unwrap_or_else(|| "kube-system".into());
            let pod = Pod {
                name: set.name.clone(),
                ns: Some(namespace.clone()),
                cpu_m: set.cpu_m,
                mem: set.mem,
                node_selector: set.node_selector.clone(),
                tolerations: set.tolerations.clone(),
                ..Pod::default()
            };
            for pod in pod.to_core() {
                cloud.world.apply(Delta::DaemonSetApplied(Box::new(DaemonSet {
                    uid: format!("DaemonSet/{namespace}/{}", set.name).into(),
                    key: ObjectKey::new(namespace.clone(), set.name.as_str()),
                    class: pod.class,
                    priority_class: PrioritySource::Template,
                    desired: 0,
                })));
            }
        }
        cloud.add_pods(input.pods.iter().flatten());
        Ok(cloud)
    }

    fn add_pods<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>) {
        for entry in pods {
            let name = format!("{}/{}", entry.ns.as_deref().unwrap_or("default"), entry.name);
            for pod in entry.to_core() {
                self.entries.insert(pod.key.clone(), name.clone());
                if let Some(manner) = manner(entry) {
                    self.manners.insert(pod.key.clone(), manner);
                }
                self.world.apply(Delta::PodApplied(Box::new(pod)));
            }
        }
    }

    /// Events of the tick, and instances that become nodes.
    pub fn advance(&mut self, input: &Input, tick: i64, now: i64) {
        for event in input.events.iter().flatten().filter(|event| event.tick == tick) {
            self.add_pods(event.add_pods.iter().flatten());
            for name in event.delete_pods.iter().flatten() {
                if let Some((namespace, name)) = name.split_once('/') {
                    self.world.apply(Delta::PodDeleted(ObjectKey::new(namespace, name)));
                }
            }
        }
        for event in input.events.iter().flatten().filter(|event| event.tick == tick) {
            for node in event.update_nodes.iter().flatten() {
                if let Some((_, before, _)) = self.world.node_named(&node.name) {
                    let own = |taint: &&Taint| [DELETION_TAINT, CANDIDATE_TAINT].contains(&&*taint.key);
                    let kept: Vec<Taint> = before.taints.iter().filter(own).cloned().collect();
                    let mut node = node.to_core();
                    node.taints.extend(kept);
                    self.world.apply(Delta::NodeApplied(Box::new(node)));
                }
            }
            add_budgets(&mut self.world, event.set_pdbs.as_deref().unwrap_or_default());
            for (group, why) in &event.fail_delete {
                self.refusing.insert(group.clone(), !why.is_empty());
            }
        }
        for group in &input.groups {
            let Some(instances) = self.instances.get_mut(&group.id) else { continue };
            for (id, due) in instances {
                if due.is_some_and(|due| due <= now) {
                    *due = None;
                    let mut node = group.template.clone().unwrap_or_default();
                    node.name = id.trim_start_matches("fake://").to_owned();
                    node.created_s = now;
                    self.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
                }
            }
        }
    }

    /// What the provider of each group says: a pool of one group.
    pub fn observe(&mut self, input: &Input, now: i64) {
        for group in &input.groups {
            let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
            let running = Instance { state: InstanceState::Running, node: None, created_at: None };
            let instances = self.instances.get(&group.id).into_iter().flatten();
            let state = GroupState {
                zone: None,
                target: number(self.targets.get(&group.id).copied().unwrap_or(0)),
                min: number(group.min),
                max: number(group.max),
                instances: instances.map(|(id, _)| (id.clone(), running.clone())).collect(),
                ..GroupState::default()
            };
            let id: Arc<str> = group.id.as_str().into();
            let value =
                ProviderState { groups: BTreeMap::from([(id.clone(), state)]), ..ProviderState::default() };
            self.world.apply(Delta::ProviderObserved(id, Known::Known { value, at: UnixTime(now) }));
        }
    }

    /// Does the steps whose intent is still open; the group whose increase failed, if one did.
    pub fn carry_out(
        &mut self,
        input: &Input,
        steps: &[Step],
        history: &mut History,
        config: &Config,
        now: i64,
    ) -> Option<Arc<str>> {
        let mut failed = None;
        for step in steps {
            let Step::Increase { pool, intent, group, from, to, .. } = step else { continue };
            if history.pools.get(pool).is_none_or(|memory| memory.intent(intent).is_none()) {
                continue;
            }
            let Some(told) = input.groups.iter().find(|told| told.id == **group) else { continue };
            let result = match told.fail_increase.as_str().filter(|message| !message.is_empty()) {
                Some(message) => {
                    failed = Some(group.clone());
                    let (class, message) = (FailureClass::Other, Arc::from(message));
                    StepResult::IncreaseFailed { class, message, created: 0 }
                }
                None => {
                    self.grow(told, i64::from(to - from), now);
                    self.note(now, json!({"action": "increase", "group": &**group, "delta": to - from}));
                    StepResult::Increased
                }
            };
            let outcome = Outcome { pool: pool.clone(), intent: intent.clone(), result };
            absorb(history, &[outcome], &self.world, config, UnixTime(now));
        }
        failed
    }

    fn grow(&mut self, group: &Group, delta: i64, now: i64) {
        *self.targets.entry(group.id.clone()).or_insert(0) += delta;
        let Some(start) = group.node_start_s else { return };
        for _ in 0..delta {
            let number = self.made.entry(group.id.clone()).or_insert(0);
            let id: Arc<str> = format!("fake://{}-new-{number}", group.id).into();
            *number += 1;
            self.instances.entry(group.id.clone()).or_default().insert(id, Some(now + start));
        }
    }

    fn note(&mut self, at: i64, mut action: Value) {
        action["at_s"] = at.into();
        self.actions.push(action);
    }

    /// Lowers a group's target, deleting nothing.
    pub fn fix(&mut self, group: &str, by: i64, now: i64) {
        if let Some(target) = self.targets.get_mut(group) {
            *target -= by;
        }
        self.note(now, json!({"action": "decrease_target", "group": group, "delta": -by}));
    }

    /// When the next stopping pod ends.
    pub fn next_end(&self) -> Option<i64> {
        self.ends.values().min().copied()
    }

    /// Takes away the pods that have ended.
    pub fn end_pods(&mut self, now: i64) {
        let ended: Vec<ObjectKey> =
            self.ends.iter().filter(|(_, at)| **at <= now).map(|(pod, _)| pod.clone()).collect();
        for pod in ended {
            self.ends.remove(&pod);
            self.world.apply(Delta::PodDeleted(pod));
        }
    }

    /// Does what is asked and tells what came of it.
    pub fn do_all(&mut self, acts: Vec<Act>, history: &mut History, config: &Config, now: i64) {
        for act in acts {
            let said = self.carry(&act, now);
            let more = answer(history, config, &act, said, UnixTime(now));
            self.do_all(more, history, config, now);
        }
    }

    fn carry(&mut self, act: &Act, now: i64) -> Answer {
        match act {
            Act::HardTaint(node) => self.mark(node, now, "hard_taint", Some((DELETION_TAINT, true))),
            Act::HardUntaint(node) => self.mark(node, now, "hard_untaint", Some((DELETION_TAINT, false))),
            Act::SoftTaint(node) => self.mark(node, now, "soft_taint", Some((CANDIDATE_TAINT, true))),
            Act::SoftUntaint(node) => self.mark(node, now, "soft_untaint", Some((CANDIDATE_TAINT, false))),
            Act::Cordon(node) => self.mark(node, now, "cordon", None),
            Act::Uncordon(node) => self.mark(node, now, "uncordon", None),
            Act::Evict { node, pod } => return self.evict(node, pod, now),
            Act::Delete { group, node, instance } => return self.delete(group, node, instance, now),
        }
        Answer::Done
    }

    fn mark(&mut self, name: &Arc<str>, now: i64, action: &str, taint: Option<(&str, bool)>) {
        let Some((_, node, _)) = self.world.node_named(name) else { return };
        let mut node = node.clone();
        match taint {
            Some((key, on)) => {
                node.taints.retain(|taint| &*taint.key != key);
                let effect = match key {
                    CANDIDATE_TAINT => TaintEffect::PreferNoSchedule,
                    _ => TaintEffect::NoSchedule,
                };
                if on {
                    node.taints.push(Taint { key: key.into(), value: now.to_string().into(), effect });
                }
            }
            None => node.unschedulable = action == "cordon",
        }
        self.world.apply(Delta::NodeApplied(Box::new(node)));
        self.note(now, json!({"action": action, "node": &**name}));
    }

    fn evict(&mut self, node: &str, pod: &ObjectKey, now: i64) -> Answer {
        let told = |action: &str| json!({"action": action, "node": node, "pod": pod.to_string()});
        match self.manners.get(pod).copied() {
            Some(Manner::Refuses) => {
                self.note(now, told("evict_refused"));
                return Answer::Refused;
            }
            Some(Manner::EndsAfter(seconds)) => {
                if let Some(id) = self.world.pod_id(pod) {
                    let mut stopping = self.world.pod(id).pod.clone();
                    stopping.deletion_at = Some(UnixTime(now));
                    self.world.apply(Delta::PodApplied(Box::new(stopping)));
                    self.ends.insert(pod.clone(), now + seconds);
                }
            }
            None => self.world.apply(Delta::PodDeleted(pod.clone())),
        }
        self.note(now, told("evict"));
        Answer::Done
    }

    fn delete(&mut self, group: &str, node: &Arc<str>, instance: &Arc<str>, now: i64) -> Answer {
        let told = |action: &str| json!({"action": action, "group": group, "node": &**node});
        if self.refusing.get(group).copied().unwrap_or(false) {
            self.note(now, told("delete_node_failed"));
            return Answer::Refused;
        }
        if let Some(target) = self.targets.get_mut(group) {
            *target -= 1;
        }
        if let Some(instances) = self.instances.get_mut(group) {
            instances.remove(instance);
        }
        if let Some((_, _, entry)) = self.world.node_named(node) {
            let pods: Vec<ObjectKey> =
                entry.pods.iter().map(|id| self.world.pod(*id).pod.key.clone()).collect();
            for pod in pods {
                self.ends.remove(&pod);
                self.world.apply(Delta::PodDeleted(pod));
            }
            self.world.apply(Delta::NodeDeleted(node.clone()));
        }
        self.note(now, told("delete_node"));
        Answer::Done
    }
}

fn manner(pod: &Pod) -> Option<Manner> {
    if pod.annotations.get("oracle/evict").is_some_and(|word| word == "refuse") {
        return Some(Manner::Refuses);
    }
    pod.annotations.get("oracle/terminates-s")?.parse().ok().map(Manner::EndsAfter)
}
