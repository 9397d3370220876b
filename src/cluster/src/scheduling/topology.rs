//! Counts of matching pods per topology domain, kept up with every change of a snapshot. Rules are in their own files.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::scheduling::class_rules::{ClassRules, Shape, selected, term_matches};
use crate::scheduling::cost;
use crate::scheduling::counter::{Counter, Inclusion, InclusionRule, What};
use crate::scheduling::guards::Guards;
use crate::scheduling::node_affinity::LabelledNode;
use crate::scheduling::selector_index::SelectorIndex;
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, PodRef, Presence, Snapshot};
use crate::world::digest::Badge;
use crate::world::interner::InternedId;
use crate::world::pod::PodClass;
use crate::world::{NodeId, World};

/// Work units of one entry in a table: the budget of work bounds the memory, too.
const ENTRY_COST: u64 = 2;
/// Work units of a new counter with its entries, likewise.
const COUNTER_COST: u64 = 64;
/// Counters that a pod may move for one work unit.
const MOVES_PER_UNIT: u64 = 8;

/// Counters, and which of them each class asks.
#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: Vec<KeyIndex>,
    key_ids: FxHashMap<Arc<str>, usize>,
    counters: Vec<Counter>,
    counter_ids: FxHashMap<(Arc<What>, usize), usize>,
    inclusions: Vec<Inclusion>,
    inclusion_ids: FxHashMap<(Arc<InclusionRule>, usize), usize>,
    /// Counters by what their selectors ask for.
    selectors: SelectorIndex,
    /// Counters by the anti-affinity terms that they count the pods of.
    by_guard: FxHashMap<u32, Vec<u32>>,
    /// Counters by the claim that they count the pods of.
    by_claim: FxHashMap<(Arc<str>, Arc<str>), u32>,
    pub(super) rules: Vec<Option<ClassRules>>,
    pub(super) shapes: FxHashMap<Arc<Shape>, u32>,
    /// Shapes ever numbered.
    pub(super) shapes_count: u32,
    /// By class: the counters that count its pods, of the first so many counters.
    counted_by: Vec<(u32, Vec<u32>)>,
    /// Anti-affinity terms of every class that may be on a node.
    pub(super) guards: Option<Guards>,
    /// Classes with bound pods.
    bound: Option<Vec<ClassIx>>,
}

/// The domain of each node by one topology key; the empty key puts all nodes into one domain.
#[derive(Debug)]
struct KeyIndex {
    key: Arc<str>,
    /// By node; `None` where the node lacks the label.
    domains: Vec<Option<usize>>,
    ids: FxHashMap<Arc<str>, usize>,
}

impl Snapshot<'_> {
    /// Finds the anti-affinity terms of all classes. They are nobody's in particular: what that costs is to be spent before
    /// shares are given out.
    pub fn find_guards(&mut self) {
        let guards = self.take_guards();
        self.topology.guards = Some(guards);
    }

    /// Anti-affinity terms of all classes known so far; to be given back at once.
    pub(super) fn take_guards(&mut self) -> Guards {
        if let Some(guards) = self.topology.guards.take() {
            return guards;
        }
        let mut guards = Guards::default();
        let interned = self.world().classes().iter();
        let mut work: u64 = interned.map(|(id, class)| guards.add(ClassIx(id.0), class)).sum();
        work += self.extra_classes().iter().map(|(ix, class)| guards.add(*ix, class)).sum::<u64>();
        self.work_units += work;
        guards
    }

    /// A class with anti-affinity is new to the snapshot: what keeps others away is worked out anew.
    pub(super) fn class_is_new(&mut self, ix: ClassIx, class: &Arc<PodClass>) {
        if class.pod_anti_affinity.is_empty() {
            return;
        }
        if let Some(guards) = &mut self.topology.guards {
            self.work_units += guards.add(ix, class);
        }
        self.topology.rules.clear();
        self.topology.shapes.clear();
    }

    /// A counter of the pods on any node that mount a claim.
    pub(super) fn claim_counter(&mut self, namespace: Arc<str>, claim: Arc<str>) -> usize {
        let (what, key) = (Arc::new(What::Claim(namespace, claim)), self.key_index(&Arc::from("")));
        match self.topology.counter_ids.get(&(what.clone(), key)) {
            Some(counter) => *counter,
            None => self.make_counter(what, key),
        }
    }

    /// A counter over the snapshot as it is now; the one that counts the same if there is one. `None` if the work counter
    /// would go beyond `limit`.
    pub(super) fn counter(&mut self, what: What, key: &Arc<str>, limit: u64) -> Option<usize> {
        let cost = what.cost();
        self.work_units += cost - 1;
        if limit < self.work_units {
            return None;
        }
        let key = self.key_index(key);
        let what = Arc::new(what);
        if let Some(counter) = self.topology.counter_ids.get(&(what.clone(), key)) {
            return Some(*counter);
        }
        let known = self.topology.bound.as_ref().map_or(0, Vec::len);
        let counting = cost * u64::try_from(known).unwrap_or(u64::MAX) / MOVES_PER_UNIT;
        let affordable = self.work_units.saturating_add(COUNTER_COST + counting) <= limit;
        affordable.then(|| self.make_counter(what, key))
    }

    fn make_counter(&mut self, what: Arc<What>, key: usize) -> usize {
        let entries = if let What::Guarded(guards) = &*what { guards.len() } else { 0 };
        self.work_units += COUNTER_COST + u64::try_from(entries).unwrap_or(u64::MAX) / MOVES_PER_UNIT;
        let index = self.topology.counters.len();
        self.topology.counter_ids.insert((what.clone(), key), index);
        self.topology.file(&what, index);
        if let What::Spread(_, inclusion) = *what {
            self.topology.inclusions[inclusion].counters.push(index);
        }
        let mut counter = Counter::new(what, key);
        self.count_all(&mut counter);
        self.topology.counters.push(counter);
        index
    }

    fn key_index(&mut self, key: &Arc<str>) -> usize {
        if let Some(index) = self.topology.key_ids.get(key) {
            return *index;
        }
        let mut index = KeyIndex::of_world(key, self.world(), self.nodes.real());
        for at in self.real_count()..self.nodes_capacity() {
            index.push(self.node(node_ix(at)));
        }
        self.work_units += ENTRY_COST * u64::try_from(self.nodes_capacity()).unwrap_or(u64::MAX);
        self.topology.keys.push(index);
        self.topology.key_ids.insert(key.clone(), self.topology.keys.len() - 1);
        self.topology.keys.len() - 1
    }

    /// The nodes that count by a rule; `None` if the work counter would go beyond `limit`.
    pub(super) fn inclusion(&mut self, rule: InclusionRule, key: &Arc<str>, limit: u64) -> Option<usize> {
        let each = rule.cost();
        self.work_units += each;
        if limit < self.work_units {
            return None;
        }
        let key = self.key_index(key);
        let keys = self.keys_that_decide(&rule, limit)?;
        let rule = Arc::new(rule);
        if let Some(inclusion) = self.topology.inclusion_ids.get(&(rule.clone(), key)) {
            return Some(*inclusion);
        }
        let nodes = u64::try_from(self.nodes_capacity()).unwrap_or(u64::MAX);
        let work = COUNTER_COST + nodes.saturating_mul(ENTRY_COST + each);
        if limit < self.work_units.saturating_add(work) {
            return None;
        }
        let mut inclusion = Inclusion::new(rule.clone(), key);
        for (at, domain) in self.topology.keys[key].domains.iter().enumerate() {
            let presence = self.presence(node_ix(at));
            match &keys {
                Some(keys) => inclusion.push_known(self.topology.has_domains(keys, at)),
                None => inclusion.push(self.node(node_ix(at)), presence == Presence::Ghost),
            }
            if let Some(domain) = domain
                && inclusion.counts(at)
                && presence != Presence::Gone
            {
                inclusion.node_moved(*domain, 1);
            }
        }
        self.work_units += work;
        let index = self.topology.inclusions.len();
        self.topology.inclusions.push(inclusion);
        self.topology.inclusion_ids.insert((rule, key), index);
        Some(index)
    }

    /// The topology keys of a rule, if nothing else decides which nodes count by it: then tables answer, and no node is looked at.
    /// `None` if the work counter would go beyond `limit`.
    fn keys_that_decide(&mut self, rule: &InclusionRule, limit: u64) -> Option<Option<Vec<usize>>> {
        if !rule.asks_for_keys_alone() {
            return Some(None);
        }
        let mut keys = Vec::new();
        for key in rule.keys() {
            keys.push(self.key_index(key));
            if limit < self.work_units {
                return None;
            }
        }
        Some(Some(keys))
    }

    /// The counter of this index.
    pub(super) fn counted(&self, counter: usize) -> &Counter {
        &self.topology.counters[counter]
    }

    /// Spread only: the fewest matching pods in a domain with a node that counts, and how many such domains there are.
    pub(super) fn lowest(&self, counter: usize) -> (i64, u32) {
        let counter = self.counted(counter);
        let Some(inclusion) = counter.inclusion() else { return (0, 0) };
        let inclusion = &self.topology.inclusions[inclusion];
        (counter.lowest(inclusion), inclusion.domains)
    }

    /// The domain of `node` for this counter; `None` when the node lacks the key.
    pub(super) fn domain(&self, counter: usize, node: NodeIx) -> Option<usize> {
        self.topology.keys[self.topology.counters[counter].key].domains[node.0 as usize]
    }

    /// Counts all pods of the snapshot as it is now.
    ///
    /// Pods of the world are found by their classes: mostly few of them match, and there are many more.
    fn count_all(&mut self, counter: &mut Counter) {
        let mut topology = std::mem::take(&mut self.topology);
        let bound = topology.bound.get_or_insert_with(|| self.bound_classes());
        let mut work = counter.cost * u64::try_from(bound.len()).unwrap_or(u64::MAX) / MOVES_PER_UNIT;
        for class in bound {
            if !counts_class(&counter.what, *class, self, topology.guards.as_ref()) {
                continue;
            }
            work += 1;
            for id in self.world().bound_pods(InternedId(class.0)) {
                let entry = self.world().pod(*id);
                let Some(node) = entry.node.and_then(|node| self.index_of(node)) else { continue };
                let here = self.is_as_bound(node)
                    && self.presence(node) != Presence::Gone
                    && !entry.pod.phase.finished();
                if here {
                    count(&topology.keys, &topology.inclusions, counter, self, PodRef::Real(*id), node, 1);
                }
            }
        }
        for node in self.touched() {
            if self.presence(node) == Presence::Gone {
                continue;
            }
            let (_, others) = self.pods_by_origin(node);
            for pod in others {
                work += counter.cost;
                if counts_class(&counter.what, self.class_of(*pod), self, topology.guards.as_ref()) {
                    count(&topology.keys, &topology.inclusions, counter, self, *pod, node, 1);
                }
            }
        }
        self.topology = topology;
        self.work_units += work;
    }

    fn bound_classes(&self) -> Vec<ClassIx> {
        let classes = self.world().classes().iter();
        let bound = classes.filter(|(class, _)| !self.world().bound_pods(*class).is_empty());
        bound.map(|(class, _)| ClassIx(class.0)).collect()
    }

    /// A pod has come to (`+1`) or gone from (`-1`) a node.
    pub(super) fn pod_moved(&mut self, pod: PodRef, node: NodeIx, change: i32) {
        if self.topology.counters.is_empty() || self.presence(node) == Presence::Gone {
            return;
        }
        let mut topology = std::mem::take(&mut self.topology);
        let work = topology.pod_moved(self, pod, node, change);
        self.topology = topology;
        self.work_units += work;
    }

    /// A node with its pods has come to (`+1`) or gone from (`-1`) the snapshot.
    pub(super) fn node_moved(&mut self, node: NodeIx, change: i32) {
        let mut topology = std::mem::take(&mut self.topology);
        if 0 < change {
            topology.include(node, change);
        }
        let mut work = 0;
        if !topology.counters.is_empty() {
            for pod in self.pods(node) {
                work += topology.pod_moved(self, pod, node, change);
            }
        }
        if change < 0 {
            topology.include(node, change);
        }
        self.topology = topology;
        self.work_units += work;
    }

    /// True if a rule in use leaves out nodes whose taints are not tolerated.
    pub(super) fn honors_taints(&self) -> bool {
        self.topology.inclusions.iter().any(|inclusion| inclusion.rule.honors_taints())
    }

    /// A node that is out of all counts has been marked as leaving, or is gone: the rules that it counts for are worked
    /// out anew.
    pub(super) fn remark(&mut self, node: NodeIx) {
        let mut topology = std::mem::take(&mut self.topology);
        let (view, marked) = (self.node(node), self.presence(node) == Presence::Ghost);
        for inclusion in topology.inclusions.iter_mut().filter(|inclusion| inclusion.rule.honors_taints()) {
            inclusion.remark(node.0 as usize, view, marked);
        }
        self.topology = topology;
    }

    /// The last node is new: its domains are looked up.
    pub(super) fn node_added(&mut self) {
        let mut topology = std::mem::take(&mut self.topology);
        let node = node_ix(self.nodes_capacity() - 1);
        topology.keys.iter_mut().for_each(|key| key.push(self.node(node)));
        let marked = self.presence(node) == Presence::Ghost;
        topology.inclusions.iter_mut().for_each(|inclusion| inclusion.push(self.node(node), marked));
        let entries = u64::try_from(topology.keys.len() + topology.inclusions.len()).unwrap_or(u64::MAX);
        let looks: u64 = topology.inclusions.iter().map(|inclusion| inclusion.cost).sum();
        self.work_units += entries / MOVES_PER_UNIT + looks;
        self.topology = topology;
        self.node_moved(node, 1);
    }

    /// The last node goes.
    pub(super) fn node_dropped(&mut self) {
        self.node_moved(node_ix(self.nodes_capacity() - 1), -1);
        self.topology.inclusions.iter_mut().for_each(Inclusion::pop);
        for key in &mut self.topology.keys {
            key.domains.pop();
        }
    }
}

impl Topology {
    /// Files a new counter, so that the classes it counts find it.
    fn file(&mut self, what: &What, counter: usize) {
        let id = u32::try_from(counter).expect("fewer than 2^32 counters fit in memory");
        match what {
            What::Term(own) => self.selectors.insert(own.term().selector.as_ref(), id),
            What::AllTerms(own) => {
                self.selectors.insert(own.terms().first().and_then(|term| term.selector.as_ref()), id);
            }
            What::Spread(own, _) => self.selectors.insert(own.selector(), id),
            What::Guarded(guards) => {
                guards.iter().for_each(|guard| self.by_guard.entry(*guard).or_default().push(id));
            }
            What::Claim(namespace, claim) => {
                self.by_claim.insert((namespace.clone(), claim.clone()), id);
            }
        }
    }

    /// Updates all counters that count a pod; returns the work units.
    fn pod_moved(&mut self, snapshot: &Snapshot<'_>, pod: PodRef, node: NodeIx, change: i32) -> u64 {
        let class = snapshot.class_of(pod);
        let mut work = self.find_counters(snapshot, class);
        let counted_by = &self.counted_by[class.0 as usize].1;
        for counter in counted_by {
            let counter = &mut self.counters[*counter as usize];
            count(&self.keys, &self.inclusions, counter, snapshot, pod, node, change);
        }
        work += u64::try_from(counted_by.len()).unwrap_or(u64::MAX) / MOVES_PER_UNIT;
        work
    }

    /// Finds the counters that count pods of a class, of those made since it was asked last; returns the work units.
    fn find_counters(&mut self, snapshot: &Snapshot<'_>, class: ClassIx) -> u64 {
        let index = class.0 as usize;
        if self.counted_by.len() <= index {
            self.counted_by.resize(index + 1, (0, Vec::new()));
        }
        let from = self.counted_by[index].0;
        if from as usize == self.counters.len() {
            return 0;
        }
        let pod = snapshot.class(class);
        let mut candidates = self.selectors.candidates(&pod.labels, from);
        let guards = self.guards.as_ref();
        for guard in guards.map_or(&[][..], |guards| guards.of(class)) {
            let counters = self.by_guard.get(guard).map_or(&[][..], Vec::as_slice);
            candidates.extend_from_slice(&counters[counters.partition_point(|counter| *counter < from)..]);
        }
        for claim in pod.claims.iter().filter(|_| !self.by_claim.is_empty()) {
            let counter = self.by_claim.get(&(pod.namespace.clone(), claim.name.clone()));
            candidates.extend(counter.filter(|counter| from <= **counter));
        }
        let cost = |counter: &u32| self.counters[*counter as usize].cost_for(&pod.namespace);
        let asked: u64 = candidates.iter().map(cost).sum();
        candidates.sort_unstable();
        candidates.dedup();
        candidates
            .retain(|counter| counts_class(&self.counters[*counter as usize].what, class, snapshot, guards));
        let made = u32::try_from(self.counters.len()).expect("fewer than 2^32 counters fit in memory");
        let (known, counted_by) = &mut self.counted_by[index];
        *known = made;
        counted_by.append(&mut candidates);
        1 + cost::beyond_one(pod.labels.len()) + ENTRY_COST * asked
    }

    /// Counts a node for the inclusions.
    fn include(&mut self, node: NodeIx, change: i32) {
        let at = node.0 as usize;
        for inclusion in &mut self.inclusions {
            let Some(domain) = self.keys[inclusion.key].domains[at] else { continue };
            if inclusion.counts(at) && inclusion.node_moved(domain, i64::from(change)) {
                for counter in &inclusion.counters {
                    self.counters[*counter].note(domain, change);
                }
            }
        }
    }
}

/// Counts a pod that a counter counts at its domain, if its node counts.
fn count(
    keys: &[KeyIndex],
    inclusions: &[Inclusion],
    counter: &mut Counter,
    snapshot: &Snapshot<'_>,
    pod: PodRef,
    node: NodeIx,
    change: i32,
) {
    let Some(domain) = keys[counter.key].domains[node.0 as usize] else { return };
    let inclusion = counter.inclusion().map(|inclusion| &inclusions[inclusion]);
    if let Some(inclusion) = inclusion {
        // Source: podtopologyspread/common.go, countPodsMatchSelector: terminating pods do not count.
        let terminating =
            matches!(pod, PodRef::Real(id) if snapshot.world().pod(id).pod.deletion_at.is_some());
        if terminating || !inclusion.counts(node.0 as usize) {
            return;
        }
    }
    counter.add(domain, change, inclusion);
}

impl Topology {
    /// True if a node has a domain by each of these keys.
    fn has_domains(&self, keys: &[usize], node: usize) -> bool {
        keys.iter().all(|key| self.keys[*key].domains[node].is_some())
    }
}

impl KeyIndex {
    /// Of nodes of the world. No view of a node is made, and for labels that are in the badges no node is looked at.
    fn of_world(key: &Arc<str>, world: &World, nodes: &[NodeId]) -> Self {
        let mut index = Self { key: key.clone(), domains: Vec::new(), ids: FxHashMap::default() };
        let mut of_badge: FxHashMap<InternedId, Option<usize>> = FxHashMap::default();
        let domains = nodes.iter().map(|id| {
            if Badge::has(key) {
                let badge = world.digest(*id).badge;
                return *of_badge
                    .entry(badge)
                    .or_insert_with(|| index.domain(world.badges().get(badge).label(key)));
            }
            let node = world.node(*id).node.as_ref();
            index.domain(node.and_then(|node| node.labels.get(key)))
        });
        index.domains = domains.collect();
        index
    }

    fn push(&mut self, node: &NodeView<'_>) {
        let domain = self.domain(node.label(&self.key));
        self.domains.push(domain);
    }

    /// The domain of nodes with this value of the label.
    fn domain(&mut self, value: Option<&str>) -> Option<usize> {
        let value = if self.key.is_empty() { "" } else { value? };
        if let Some(domain) = self.ids.get(value) {
            return Some(*domain);
        }
        self.ids.insert(value.into(), self.ids.len());
        Some(self.ids.len() - 1)
    }
}

/// True if a counter counts pods of this class.
fn counts_class(what: &What, class: ClassIx, snapshot: &Snapshot<'_>, guards: Option<&Guards>) -> bool {
    let (pod, world) = (snapshot.class(class), snapshot.world());
    match what {
        What::Term(own) => term_matches(own.term(), own.namespace(), pod, world),
        What::AllTerms(own) => own.terms().iter().all(|term| term_matches(term, own.namespace(), pod, world)),
        What::Guarded(ids) => {
            let own = guards.map_or(&[][..], |guards| guards.of(class));
            own.iter().any(|id| ids.binary_search(id).is_ok())
        }
        What::Claim(namespace, name) => {
            pod.namespace == *namespace && pod.claims.iter().any(|claim| claim.name == *name)
        }
        What::Spread(own, _) => pod.namespace == *own.namespace() && selected(own.selector(), &pod.labels),
    }
}

fn node_ix(at: usize) -> NodeIx {
    NodeIx(u32::try_from(at).expect("indexes of nodes fit 32 bits"))
}
