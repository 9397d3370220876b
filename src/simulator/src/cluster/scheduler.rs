//! The scheduler: highest priority first, then oldest, onto the emptiest node that fits; it preempts nobody. Pods of a gang are
//! bound together or not at all.

mod rankings;
mod together;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use self::rankings::Rankings;
use super::devices;
use super::fit::{Amounts, Misfit, NodeShape, PodShape};
use super::neighbours::{Around, Repellents};
use super::pods::{PodFacts, Pods};
use super::volumes::{self, Reach};
use crate::store::{Author, Kind, ObjectKey, Store, set_condition};

const ME: Author<'static> = Author::actor("scheduler");

/// Score of a node, the highest first: soft taints, then the free share.
type Score = (Reverse<usize>, i64);

/// A label and its value, which nodes of one domain share.
type Domain = (String, String);

/// Highest priority, then oldest, then name.
type Turn = (Reverse<i64>, Timestamp, ObjectKey);

#[derive(Debug)]
struct NodeState {
    shape: NodeShape,
    used: Amounts,
}

/// Pods waiting for a node, nodes and what is used of them.
///
/// Pods that fit nowhere are parked by class and come back only when a node changed on which their class fits.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    nodes: BTreeMap<Arc<str>, NodeState>,
    placed: BTreeMap<ObjectKey, (Arc<str>, Arc<PodShape>)>,
    waiting: BTreeMap<Turn, usize>,
    parked: BTreeMap<usize, (Arc<PodShape>, BTreeSet<Turn>)>,
    /// Pods that are refused for a reason of the scheduler's own, until their time is over.
    refused: BTreeMap<Turn, (Timestamp, usize)>,
    /// Pods of gangs that could not all be bound, until something changes.
    held: BTreeMap<Turn, usize>,
    /// True if a gang, or pods that may be of one, changed since the last turn.
    gangs_changed: bool,
    turns: FxHashMap<ObjectKey, (Turn, usize)>,
    reported: FxHashSet<ObjectKey>,
    /// The message of the class that failed last in this pass; a pod that is bound meanwhile changes it.
    explained: Option<(usize, Arc<str>)>,
    changed_nodes: BTreeSet<Arc<str>>,
    /// Nodes for pods that are alone.
    rankings: Rankings,
    repellents: Repellents,
    /// True if claims, volumes or who mounts them changed since the last turn.
    volumes_changed: bool,
}

impl Scheduler {
    pub(super) fn observe_node(&mut self, name: &str, node: Option<&Value>, pods: &Pods) {
        let Some(node) = node else {
            self.nodes.remove(name);
            return;
        };
        let shape = NodeShape::of(node);
        match self.nodes.get_mut(name) {
            Some(state) if state.shape == shape => {}
            Some(state) => {
                state.shape = shape;
                self.note_changed(name.into());
            }
            None => {
                // Pods may have been on a node of this name before it came (back).
                let mut used = Amounts::default();
                for (_, pod) in pods.on_node(name).filter(|(_, pod)| pod.occupies()) {
                    used.add(&pod.shape.requests, 1);
                }
                self.nodes.insert(name.into(), NodeState { shape, used });
                self.note_changed(name.into());
            }
        }
    }

    pub(super) fn observe_pod(&mut self, key: &ObjectKey, pod: Option<&PodFacts>) {
        self.gangs_changed |= pod.is_none_or(|pod| pod.gang.is_some());
        match pod.filter(|pod| pod.occupies()) {
            Some(pod) => {
                self.forget_waiting(key);
                if let Some(node) = &pod.node
                    && !self.placed.contains_key(key)
                {
                    self.occupy(key, node.clone(), pod.shape.clone());
                }
            }
            None => self.release(key),
        }
        match pod {
            Some(pod) if pod.node.is_none() && pod.active() && !pod.gated && pod.ours => {
                if !self.turns.contains_key(key) {
                    let turn = (Reverse(pod.priority), pod.created_at, key.clone());
                    self.turns.insert(key.clone(), (turn.clone(), pod.class));
                    self.waiting.insert(turn, pod.class);
                }
            }
            _ => self.forget_waiting(key),
        }
        if pod.is_none() {
            self.reported.remove(key);
        }
    }

    fn occupy(&mut self, key: &ObjectKey, node: Arc<str>, shape: Arc<PodShape>) {
        if let Some(state) = self.nodes.get_mut(&node) {
            state.used.add(&shape.requests, 1);
        }
        self.repellents.came(&shape);
        self.placed.insert(key.clone(), (node, shape));
    }

    fn release(&mut self, key: &ObjectKey) {
        let Some((node, shape)) = self.placed.remove(key) else { return };
        self.repellents.went(&shape);
        self.volumes_changed |= shape.mounts();
        if let Some(state) = self.nodes.get_mut(&node) {
            state.used.add(&shape.requests, -1);
            self.note_changed(node);
        }
    }

    /// A node may take pods that it did not take before.
    fn note_changed(&mut self, node: Arc<str>) {
        self.rankings.note_better(node.clone());
        self.changed_nodes.insert(node);
    }

    fn forget_waiting(&mut self, key: &ObjectKey) {
        let Some((turn, class)) = self.turns.remove(key) else { return };
        self.waiting.remove(&turn);
        self.refused.remove(&turn);
        self.held.remove(&turn);
        if let Some((_, turns)) = self.parked.get_mut(&class) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.parked.remove(&class);
            }
        }
    }

    /// Binds what fits and reports to the others why not.
    pub(super) fn act(&mut self, store: &mut Store, pods: &Pods) {
        self.admit_held();
        self.unpark();
        self.admit_refused(store.now());
        // A pod that has come may be the neighbour that others wait for.
        while self.pass(store, pods) && self.unpark_those_that_look_around() {}
    }

    /// Tries each waiting pod once; whether one was bound.
    fn pass(&mut self, store: &mut Store, pods: &Pods) -> bool {
        let mut bound = false;
        self.explained = None;
        while let Some((turn, class)) = self.waiting.pop_first() {
            let key = turn.2.clone();
            let Some(pod) = pods.get(&key) else { continue };
            if let Some(until) = pod.refused_until.filter(|until| store.now() < *until) {
                self.refuse(store, turn, class, until);
                continue;
            }
            if let Some(gang) = &pod.gang {
                bound |= self.bind_together(store, pods, gang, (turn, class));
                continue;
            }
            let shape = pod.shape.clone();
            // A class that has just failed fails again: nothing frees room during a pass.
            let failed = self.parked.contains_key(&class);
            let reach = if failed { Ok(None) } else { self.reach(store, pods, &key, &shape) };
            let best = match &reach {
                Ok(None) if !failed && self.is_alone(&shape) => self.ranked(class, &shape),
                Ok(reach) if !failed => self.best_node(&shape, reach.as_ref(), None),
                _ => None,
            };
            match best {
                Some(node) if self.bind(store, &key, &shape, (&node, reach.as_ref().ok())) => {
                    self.turns.remove(&key);
                    self.explained = None;
                    self.occupy(&key, node, shape);
                    bound = true;
                }
                _ => self.park(store, turn, class, shape, reach),
            }
        }
        bound
    }

    /// Binds a pod with what it mounts; whether it could.
    fn bind(
        &self,
        store: &mut Store,
        key: &ObjectKey,
        shape: &PodShape,
        (node, reach): (&Arc<str>, Option<&Option<Reach>>),
    ) -> bool {
        if store.bind(key, node, ME).is_err() {
            return false;
        }
        if let Some(state) = self.nodes.get(node).filter(|_| shape.mounts()) {
            volumes::provide(store, key, shape, &state.shape);
        }
        if let Some(Some(Reach { devices: Some(found), .. })) = reach {
            devices::hold(store, key, shape, node, found);
        }
        true
    }

    /// Marks a pod that fits as one that does not, as a plugin's refusal does.
    fn refuse(&mut self, store: &mut Store, turn: Turn, class: usize, until: Timestamp) {
        if !self.reported.contains(&turn.2) {
            let message = format!("0/{0} nodes are available: {0} refused by plugin Odd.", self.nodes.len());
            self.report(store, &turn.2, &message);
        }
        self.refused.insert(turn, (until, class));
    }

    /// Marks a pod as unschedulable, the first time.
    fn report(&mut self, store: &mut Store, key: &ObjectKey, message: &str) {
        if self.reported.insert(key.clone()) {
            let now = store.now();
            // The pod is there: it was read from the index a moment ago; a lost race is nothing to report.
            let _ = store.edit(Kind::Pod, key, ME, |pod| {
                set_condition(pod, "PodScheduled", "False", "Unschedulable", message, now);
            });
        }
    }

    /// Lets pods try again whose refusal is over.
    fn admit_refused(&mut self, now: Timestamp) {
        let over = self.refused.iter().filter(|(_, (until, _))| *until <= now);
        let over: Vec<(Turn, usize)> = over.map(|(turn, (_, class))| (turn.clone(), *class)).collect();
        for (turn, class) in over {
            self.refused.remove(&turn);
            self.waiting.insert(turn, class);
        }
    }

    /// An object that makes pods a gang has changed.
    pub(super) fn observe_gang(&mut self) {
        self.gangs_changed = true;
    }

    /// Claims, volumes or limits have changed: pods that mount any are tried again.
    pub(super) fn observe_volumes(&mut self) {
        self.volumes_changed = true;
    }

    /// Returns the nodes on which the claims of a pod let it run; `None` when it mounts none.
    fn reach(
        &self,
        store: &mut Store,
        pods: &Pods,
        key: &ObjectKey,
        shape: &PodShape,
    ) -> Result<Option<Reach>, Misfit> {
        if !shape.mounts() {
            return Ok(None);
        }
        volumes::make_ephemeral(store, key, shape);
        devices::make_claims(store, key, shape);
        let placed = self.placed.iter().map(|(key, (_, shape))| (key, &**shape));
        let mut reach = volumes::reach(store, key, shape, pods, placed)?;
        if !shape.device_claims.is_empty() {
            let nodes = self.nodes.values().map(|state| &state.shape);
            reach.devices = Some(devices::found(store, key, shape, nodes)?);
        }
        Ok(Some(reach))
    }

    /// Lets pods that ask something of their neighbours try again; whether there are any.
    fn unpark_those_that_look_around(&mut self) -> bool {
        let asks = |shape: &PodShape| shape.neighbours.asks();
        let classes: Vec<usize> =
            self.parked.iter().filter(|(_, (shape, _))| asks(shape)).map(|(class, _)| *class).collect();
        self.unpark_classes(&classes);
        !classes.is_empty()
    }

    fn unpark_classes(&mut self, classes: &[usize]) {
        for class in classes {
            if let Some((_, turns)) = self.parked.remove(class) {
                self.waiting.extend(turns.into_iter().map(|turn| (turn, *class)));
            }
        }
    }

    fn unpark(&mut self) {
        let changed = std::mem::take(&mut self.changed_nodes);
        let states: Vec<&NodeState> = changed.iter().filter_map(|name| self.nodes.get(name)).collect();
        let changes = !states.is_empty();
        // A change anywhere may change what spreads over domains.
        let volumes = std::mem::take(&mut self.volumes_changed);
        let fits = |shape: &PodShape| {
            changes && shape.neighbours.asks()
                || volumes && shape.mounts()
                || states.iter().any(|state| state.takes(shape).is_ok())
        };
        let classes: Vec<usize> =
            self.parked.iter().filter(|(_, (shape, _))| fits(shape)).map(|(class, _)| *class).collect();
        self.unpark_classes(&classes);
    }

    /// The pods around, where they affect the place of a pod of this shape.
    fn around<'a>(&'a self, shape: &'a PodShape) -> Option<Around<'a>> {
        let placed = self.placed.values();
        let placed = placed.filter_map(|(node, shape)| Some((&**shape, &self.nodes.get(node)?.shape)));
        let nodes = self.nodes.values().map(|state| &state.shape);
        self.repellents.concern(shape).then(|| Around::of(shape, placed, nodes))
    }

    /// True if room, labels and taints alone decide where a pod of this shape may run.
    fn is_alone(&self, shape: &PodShape) -> bool {
        shape.pinned.is_none() && !self.repellents.concern(shape)
    }

    /// The same node as [`Self::best_node`], for a pod that is alone.
    fn ranked(&mut self, class: usize, shape: &PodShape) -> Option<Arc<str>> {
        let score = |state: &NodeState| state.takes(shape).is_ok().then(|| score_of(state, shape));
        self.rankings.best(class, &self.nodes, score)
    }

    /// The node of a domain, if one is given, with the fewest soft taints that the pod does not tolerate; of those the one that
    /// would be left with the largest free share; the first by name among equals.
    ///
    /// Source: noderesources LeastAllocated, with cpu and memory of equal weight; tainttoleration, whose weight of 3 is more
    /// than what free shares differ by.
    fn best_node(
        &self,
        shape: &PodShape,
        reach: Option<&Reach>,
        domain: Option<&Domain>,
    ) -> Option<Arc<str>> {
        let around = self.around(shape);
        let takes = |state: &NodeState| {
            domain.is_none_or(|(key, value)| state.shape.labels.get(key) == Some(value))
                && state.takes(shape).is_ok()
                && reach.is_none_or(|reach| reach.allows(&state.shape).is_ok())
                && around.as_ref().is_none_or(|around| around.allow(&state.shape).is_ok())
        };
        if let Some(pinned) = &shape.pinned {
            return self.nodes.get(pinned).filter(|state| takes(state)).map(|_| pinned.clone());
        }
        let mut best: Option<(Score, &Arc<str>)> = None;
        for (name, state) in self.nodes.iter().filter(|(_, state)| takes(state)) {
            let score = score_of(state, shape);
            if best.is_none_or(|(highest, _)| highest < score) {
                best = Some((score, name));
            }
        }
        best.map(|(_, name)| name.clone())
    }

    fn park(
        &mut self,
        store: &mut Store,
        turn: Turn,
        class: usize,
        shape: Arc<PodShape>,
        reach: Result<Option<Reach>, Misfit>,
    ) {
        let key = turn.2.clone();
        if !self.reported.contains(&key) {
            // What claims reach is each pod's own.
            let common = matches!(reach, Ok(None));
            let message = match &self.explained {
                Some((known, message)) if common && *known == class => message.clone(),
                _ => {
                    let message: Arc<str> = self.explain(&shape, reach).into();
                    self.explained = common.then(|| (class, message.clone()));
                    message
                }
            };
            self.report(store, &key, &message);
        }
        self.parked.entry(class).or_insert_with(|| (shape, BTreeSet::new())).1.insert(turn);
    }

    fn explain(&self, shape: &PodShape, reach: Result<Option<Reach>, Misfit>) -> String {
        let mut reasons: BTreeMap<Misfit, usize> = BTreeMap::new();
        let around = self.around(shape);
        let reach = match reach {
            Ok(reach) => reach,
            Err(nowhere) => return format!("0/{} nodes are available: {nowhere}.", self.nodes.len()),
        };
        let misfit = |state: &NodeState| {
            state
                .takes(shape)
                .and_then(|()| reach.as_ref().map_or(Ok(()), |reach| reach.allows(&state.shape)))
                .and_then(|()| around.as_ref().map_or(Ok(()), |around| around.allow(&state.shape)))
        };
        for misfit in self.nodes.values().filter_map(|state| misfit(state).err()) {
            *reasons.entry(misfit).or_default() += 1;
        }
        let counted: Vec<String> =
            reasons.iter().map(|(misfit, count)| format!("{count} {misfit}")).collect();
        match counted.as_slice() {
            [] => "no nodes available to schedule pods".to_owned(),
            _ => format!("0/{} nodes are available: {}.", self.nodes.len(), counted.join(", ")),
        }
    }
}

fn score_of(state: &NodeState, shape: &PodShape) -> Score {
    (Reverse(state.shape.soft_taints(shape)), state.free_share(&shape.requests))
}

impl NodeState {
    fn takes(&self, shape: &PodShape) -> Result<(), Misfit> {
        // Room is checked first because it is a few comparisons; the reasons differ in nothing else.
        self.shape.has_room(&self.used, &shape.requests)?;
        self.shape.admits(shape)
    }

    /// Millionths of cpu plus millionths of memory that stay free.
    fn free_share(&self, requests: &Amounts) -> i64 {
        let share = |used: i64, wanted: i64, there: i64| {
            let free = there.checked_sub(used).and_then(|free| free.checked_sub(wanted));
            if let Some(millionths) = free.and_then(|free| free.checked_mul(1_000_000)) {
                return millionths / there.max(1);
            }
            let free = i128::from(there) - i128::from(used) - i128::from(wanted);
            i64::try_from(free * 1_000_000 / i128::from(there.max(1))).unwrap_or(0)
        };
        share(self.used.cpu, requests.cpu, self.shape.allocatable.cpu)
            + share(self.used.memory, requests.memory, self.shape.allocatable.memory)
    }
}
