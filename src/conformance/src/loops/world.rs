//! The plain in-memory cloud and API of the loop families, as their README describes them. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::history::Victim;
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::removal::holds_node;
use headroom_core::plan::{Eviction, Outcome, Step, StepResult};
use headroom_core::time::UnixTime;
use headroom_core::world::node::{CORDONED_ANNOTATION, DELETION_TAINT, INTENT_ANNOTATION, ZONE_LABEL};
use headroom_core::world::pod::Pod as CorePod;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{
    FailureClass, GroupState, GroupTemplate, Instance, InstanceState, LaunchFailure, ProviderState,
    TemplateTrust,
};
use headroom_core::world::template::NodeTemplate;
use headroom_core::world::workload::{DaemonSet, PrioritySource};
use headroom_core::world::{Delta, World};

use super::input::{Event, Input, Set};
use super::parts::{Machine, Manner, Trace, machine, manner, put_on};
use super::settings;
use crate::model::{Group, Pod};
use crate::removals::{add_budgets, add_controllers};

/// Priority of the class system-cluster-critical.
const SYSTEM_PRIORITY: i32 = 2_000_000_000;

/// The world around the plan.
pub(crate) struct VectorWorld<'i> {
    input: &'i Input,
    pub(crate) world: World,
    pub(crate) targets: BTreeMap<String, i64>,
    pub(crate) trace: Trace,
    machines: BTreeMap<String, BTreeMap<Arc<str>, Machine>>,
    made: BTreeMap<String, usize>,
    manners: BTreeMap<ObjectKey, Manner>,
    ends: BTreeMap<ObjectKey, i64>,
    refusing: BTreeSet<String>,
}

impl<'i> VectorWorld<'i> {
    /// The world at the beginning.
    pub(crate) fn new(input: &'i Input) -> Result<Self, String> {
        let mut made = Self {
            input,
            world: World::new(),
            targets: input.groups.iter().map(|group| (group.id.clone(), group.target)).collect(),
            trace: Trace::default(),
            machines: BTreeMap::new(),
            made: BTreeMap::new(),
            manners: BTreeMap::new(),
            ends: BTreeMap::new(),
            refusing: BTreeSet::new(),
        };
        for group in &input.groups {
            if group.fail_delete.as_str().is_some_and(|why| !why.is_empty()) {
                made.refusing.insert(group.id.clone());
            }
            for instance in group.instances.as_array().into_iter().flatten() {
                let id: Arc<str> = instance["id"].as_str().unwrap_or_default().into();
                made.machines.entry(group.id.clone()).or_default().insert(id, machine(instance));
            }
        }
        add_controllers(&mut made.world, input.controllers.as_deref().unwrap_or_default())?;
        add_budgets(&mut made.world, input.pdbs.as_deref().unwrap_or_default());
        for node in input.nodes.iter().flatten() {
            let id: Arc<str> = format!("fake://{}", node.name).into();
            let machine =
                Machine { due: None, created_at: node.created_s, state: InstanceState::Running, error: None };
            made.machines.entry(node.group.clone()).or_default().insert(id, machine);
            made.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
        }
        input.daemonsets.iter().flatten().for_each(|set| made.add_daemon_set(set));
        if input.options.scale_down_enabled == Some(false) {
            made.add_implied_daemon_sets();
        }
        made.add_pods(input.pods.iter().flatten());
        Ok(made)
    }

    fn add_daemon_set(&mut self, set: &Set) {
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
        // The reference counts every set; ours those that run, or are of system priority where no node can show it.
        for mut pod in pod.to_core() {
            Arc::make_mut(&mut pod.class).priority = SYSTEM_PRIORITY;
            self.world.apply(Delta::DaemonSetApplied(Box::new(DaemonSet {
                uid: format!("DaemonSet/{namespace}/{}", set.name).into(),
                key: ObjectKey::new(namespace.clone(), set.name.as_str()),
                class: pod.class,
                priority_class: PrioritySource::Template,
                desired: 0,
            })));
        }
    }

    /// Adds the DaemonSets of which the vector has the pods only: there the reference copies those of a node to the next
    /// one, and in a cluster the pods are there because of the set. Where nodes may leave, a set that is missing has a
    /// meaning of its own.
    fn add_implied_daemon_sets(&mut self) {
        for entry in self.input.pods.iter().flatten().filter(|pod| pod.node.is_some()) {
            let Some(owner) = entry.owner.as_ref().filter(|owner| owner.kind == "DaemonSet") else {
                continue;
            };
            for pod in entry.to_core() {
                let key = ObjectKey::new(pod.key.namespace.clone(), owner.name.as_str());
                if self.world.daemon_set(&key).is_none() {
                    let uid = format!("DaemonSet/{}/{}", pod.key.namespace, owner.name).into();
                    let (class, priority_class) = (pod.class, PrioritySource::Template);
                    let set = DaemonSet { uid, key, class, priority_class, desired: 0 };
                    self.world.apply(Delta::DaemonSetApplied(Box::new(set)));
                }
            }
        }
    }

    fn add_pods<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>) {
        for entry in pods {
            for pod in entry.to_core() {
                if let Some(manner) = manner(entry) {
                    self.manners.insert(pod.key.clone(), manner);
                }
                self.world.apply(Delta::PodApplied(Box::new(pod)));
            }
        }
    }

    /// The events of a tick, and instances that become nodes.
    pub(crate) fn advance(&mut self, tick: i64, now: i64) {
        let input = self.input;
        for event in input.events.iter().flatten().filter(|event| event.tick == tick) {
            self.happen(event);
        }
        for group in &input.groups {
            let Some(machines) = self.machines.get_mut(&group.id) else { continue };
            for (id, machine) in machines {
                if machine.due.is_some_and(|due| due <= now) {
                    machine.due = None;
                    let mut node = group.template.clone().unwrap_or_default();
                    node.name = id.trim_start_matches("fake://").to_owned();
                    node.created_s = now;
                    self.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
                }
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        self.add_pods(event.add_pods.iter().flatten());
        for name in event.delete_pods.iter().flatten() {
            if let Some((namespace, name)) = name.split_once('/') {
                self.world.apply(Delta::PodDeleted(ObjectKey::new(namespace, name)));
            }
        }
        for node in event.update_nodes.iter().flatten() {
            let Some((_, before, _)) = self.world.node_named(&node.name) else { continue };
            let mut node = node.to_core();
            if let Some(intent) = before.annotations.get(INTENT_ANNOTATION).map(str::to_owned) {
                put_on(&mut node, &intent);
            }
            self.world.apply(Delta::NodeApplied(Box::new(node)));
        }
        add_budgets(&mut self.world, event.set_pdbs.as_deref().unwrap_or_default());
        for (group, why) in &event.fail_delete {
            if why.is_empty() {
                self.refusing.remove(group);
            } else {
                self.refusing.insert(group.clone());
            }
        }
    }

    /// Observes the state of each pool's provider: one group.
    pub(crate) fn observe(&mut self, now: i64) -> Result<(), String> {
        for group in &self.input.groups {
            let state = self.group_state(group)?;
            let id: Arc<str> = group.id.as_str().into();
            let groups = BTreeMap::from([(id.clone(), state)]);
            let value = ProviderState { groups, ..ProviderState::default() };
            self.world.apply(Delta::ProviderObserved(id, Known::Known { value, at: UnixTime(now) }));
        }
        Ok(())
    }

    fn group_state(&self, group: &Group) -> Result<GroupState, String> {
        let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
        let machines = || self.machines.get(&group.id).into_iter().flatten();
        let instance = |machine: &Machine| Instance {
            state: machine.state,
            node: None,
            created_at: Some(UnixTime(machine.created_at)),
        };
        let failure = |machine: &Machine| {
            Some(LaunchFailure {
                key: BackoffKey { group: group.id.as_str().into(), ..BackoffKey::default() },
                class: machine.error?,
                message: "the instance was not made".into(),
                at: UnixTime(machine.created_at),
            })
        };
        let mut template = group.template.clone().unwrap_or_default().to_core();
        template.labels.remove("kubernetes.io/hostname");
        let own = settings::group_options(group)?;
        Ok(GroupState {
            zone: template.labels.get(ZONE_LABEL).map(Arc::from),
            target: number(self.targets.get(&group.id).copied().unwrap_or(0)),
            min: number(group.min),
            max: number(group.max),
            instances: machines().map(|(id, machine)| (id.clone(), instance(machine))).collect(),
            failures: machines().filter_map(|(_, machine)| failure(machine)).collect(),
            template: Some(Arc::new(GroupTemplate {
                node: NodeTemplate {
                    labels: template.labels,
                    taints: template.taints,
                    capacity: template.capacity,
                    allocatable: template.allocatable,
                },
                trust: TemplateTrust::Estimate,
                ..GroupTemplate::default()
            })),
            options: Some(Arc::new(settings::reported(&own))),
            ..GroupState::default()
        })
    }

    /// Returns when the next stopping pod ends.
    pub(crate) fn next_end(&self) -> Option<i64> {
        self.ends.values().min().copied()
    }

    /// Takes away the pods that have ended.
    pub(crate) fn end_pods(&mut self, now: i64) {
        let ended: Vec<ObjectKey> =
            self.ends.iter().filter(|(_, at)| **at <= now).map(|(pod, _)| pod.clone()).collect();
        for pod in ended {
            self.ends.remove(&pod);
            self.world.apply(Delta::PodDeleted(pod));
        }
    }

    /// Carries a step out and answers what became of it.
    pub(crate) fn carry_out(&mut self, step: &Step, now: i64) -> Vec<Outcome> {
        let (Some(pool), Some(intent)) = step.address() else {
            if let Step::Unmark { node, .. } = step {
                self.unmark(node, now);
            }
            return Vec::new();
        };
        let answer = |result: StepResult| Outcome { pool: pool.clone(), intent: intent.clone(), result };
        match step {
            Step::Increase { group, from, to, .. } => vec![answer(self.increase(group, *from, *to, now))],
            Step::Cancel { group, from, .. } => vec![answer(self.cancel(group, *from, now))],
            Step::Mark { nodes, .. } => {
                nodes.iter().for_each(|node| self.mark(node, intent, now));
                vec![answer(StepResult::Marked)]
            }
            Step::Evict { node, pods, .. } => vec![answer(self.evict(node, pods, now))],
            Step::Delete { group, victims, force, .. } => {
                self.delete(group, victims, *force, now).into_iter().map(answer).collect()
            }
            Step::Unmark { node, .. } => {
                self.unmark(node, now);
                vec![answer(StepResult::Unmarked { node: node.clone() })]
            }
        }
    }

    fn increase(&mut self, group: &Arc<str>, from: u32, to: u32, now: i64) -> StepResult {
        let Some(given) = self.input.groups.iter().find(|given| given.id == **group) else {
            return StepResult::Superseded;
        };
        if let Some(message) = given.fail_increase.as_str().filter(|message| !message.is_empty()) {
            self.trace.failed_increases.push((now, group.clone()));
            return StepResult::IncreaseFailed {
                class: FailureClass::Other,
                message: message.into(),
                created: 0,
            };
        }
        let delta = i64::from(to) - i64::from(from);
        let target = self.targets.entry(given.id.clone()).or_insert(0);
        if i64::from(to) <= *target {
            return StepResult::Increased;
        }
        *target = i64::from(to);
        self.trace.increases.push((now, group.clone(), delta));
        for _ in 0..given.node_start_s.map_or(0, |_| delta) {
            let number = self.made.entry(given.id.clone()).or_insert(0);
            let id: Arc<str> = format!("fake://{}-new-{number}", given.id).into();
            *number += 1;
            let due = given.node_start_s.map(|start| now + start);
            let machine = Machine { due, created_at: now, state: InstanceState::Running, error: None };
            self.machines.entry(given.id.clone()).or_default().insert(id, machine);
        }
        StepResult::Increased
    }

    fn cancel(&mut self, group: &Arc<str>, from: u32, now: i64) -> StepResult {
        let live = self.machines.get(&**group).map_or(0, BTreeMap::len);
        let least = i64::from(from).max(i64::try_from(live).unwrap_or(i64::MAX));
        if let Some(target) = self.targets.get_mut(&**group)
            && least < *target
        {
            self.trace.decreases.push((now, group.clone(), *target - least));
            *target = least;
        }
        StepResult::Increased
    }

    fn mark(&mut self, name: &Arc<str>, intent: &str, now: i64) {
        let Some((_, node, _)) = self.world.node_named(name) else { return };
        let mut node = node.clone();
        put_on(&mut node, intent);
        self.world.apply(Delta::NodeApplied(Box::new(node)));
        self.trace.marks.push((now, name.clone()));
    }

    fn unmark(&mut self, name: &Arc<str>, now: i64) {
        let Some((_, node, _)) = self.world.node_named(name) else { return };
        let mut node = node.clone();
        node.taints.retain(|taint| &*taint.key != DELETION_TAINT);
        if node.annotations.get(CORDONED_ANNOTATION).is_some() {
            node.unschedulable = false;
        }
        node.annotations.remove(CORDONED_ANNOTATION);
        node.annotations.remove(INTENT_ANNOTATION);
        self.world.apply(Delta::NodeApplied(Box::new(node)));
        self.trace.unmarks.push((now, name.clone()));
    }

    fn evict(&mut self, node: &Arc<str>, pods: &[Eviction], now: i64) -> StepResult {
        let mut refused = Vec::new();
        for Eviction { pod, grace, .. } in pods {
            match self.manners.get(pod).copied() {
                Some(Manner::Refuses) => {
                    self.trace.refusals.push((now, node.clone(), pod.clone()));
                    refused.push((pod.clone(), false, Arc::from("too many requests")));
                    continue;
                }
                Some(Manner::EndsAfter(seconds)) => {
                    if let Some(id) = self.world.pod_id(pod) {
                        let mut stopping = self.world.pod(id).pod.clone();
                        stopping.deletion_at = Some(UnixTime(now).plus(*grace));
                        self.world.apply(Delta::PodApplied(Box::new(stopping)));
                        self.ends.insert(pod.clone(), now + seconds);
                    }
                }
                None => self.world.apply(Delta::PodDeleted(pod.clone())),
            }
            self.trace.evictions.push((now, node.clone(), pod.clone()));
        }
        StepResult::Evicted { node: node.clone(), refused, accepted: Vec::new() }
    }

    fn delete(&mut self, group: &Arc<str>, victims: &[Victim], force: bool, now: i64) -> Vec<StepResult> {
        let mut results = Vec::new();
        for victim in victims {
            let name = victim.name().clone();
            if !force && let Some(pod) = self.holding(&victim.node, now) {
                results.push(StepResult::NotEmpty { node: victim.node.clone(), pod });
                continue;
            }
            if self.refusing.contains(&**group) {
                self.trace.failed_deletions.push((now, group.clone(), name.clone()));
                let message = "the cloud refuses".into();
                results.push(StepResult::DeleteFailed { node: name, message });
                continue;
            }
            self.take_away(group, victim);
            self.trace.deletions.push((now, group.clone(), name));
        }
        if results.is_empty() {
            results.push(StepResult::Deleted);
        }
        results
    }

    /// The first pod that keeps the node from being deleted, as a live look would find it.
    fn holding(&self, node: &str, now: i64) -> Option<ObjectKey> {
        let (_, _, entry) = self.world.node_named(node)?;
        let pods = entry.pods.iter().map(|id| &self.world.pod(*id).pod);
        let cutoff = self.input.options.expendable_pods_priority_cutoff.unwrap_or(-10);
        let holds = |pod: &&CorePod| holds_node(pod, UnixTime(now)) && cutoff <= pod.class.priority;
        pods.filter(holds).map(|pod| pod.key.clone()).min()
    }

    fn take_away(&mut self, group: &Arc<str>, victim: &Victim) {
        if let Some(target) = self.targets.get_mut(&**group) {
            *target -= 1;
        }
        if let Some(machines) = self.machines.get_mut(&**group) {
            machines.remove(&victim.id);
        }
        let Some((_, _, entry)) = self.world.node_named(&victim.node) else { return };
        let pods: Vec<ObjectKey> = entry.pods.iter().map(|id| self.world.pod(*id).pod.key.clone()).collect();
        for pod in pods {
            self.ends.remove(&pod);
            self.world.apply(Delta::PodDeleted(pod));
        }
        self.world.apply(Delta::NodeDeleted(victim.node.clone()));
    }
}
