//! Counts of matching pods per topology domain, kept up with every change of a snapshot. Rules are in their own files.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::labels::Labels;
use crate::scheduling::constraints::{LabelSelector, PodAffinityTerm};
use crate::scheduling::node_affinity::{self, LabelledNode, selects};
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, PodRef, Presence, Snapshot, TemplateNode};
use crate::scheduling::taints;
use crate::world::World;
use crate::world::node::HOSTNAME_LABEL;
use crate::world::pod::PodClass;

/// Counters, and which of them each class asks.
#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: Vec<KeyIndex>,
    key_ids: FxHashMap<Arc<str>, usize>,
    counters: Vec<Counter>,
    rules: Vec<Option<ClassRules>>,
    /// By class: the counters that count its pods, of the first so many counters.
    counted_by: Vec<(usize, Vec<usize>)>,
    /// Anti-affinity terms of every class that may be on a node.
    guards: Option<Vec<Guard>>,
}

/// The domain of each node by one topology key; the empty key puts all nodes into one domain.
#[derive(Debug)]
struct KeyIndex {
    key: Arc<str>,
    /// By node; `None` where the node lacks the label.
    domains: Vec<Option<usize>>,
    ids: FxHashMap<Arc<str>, usize>,
}

/// Pods that match, by domain.
#[derive(Debug)]
pub(super) struct Counter {
    what: What,
    key: usize,
    /// By class: whether its pods match, once asked.
    matches: Vec<Option<bool>>,
    counts: Vec<i64>,
    /// Matching pods in all domains.
    pub(super) total: i64,
    /// Spread only: nodes that count in each domain, and how many domains have each count.
    nodes: Vec<u32>,
    histogram: BTreeMap<i64, u32>,
    /// Spread only: the template looked at last, and whether nodes made after it count; many are added after one.
    template: Option<(Arc<TemplateNode>, bool)>,
}

/// Which pods a counter counts.
#[derive(Clone, Debug)]
enum What {
    /// Those that match one term of a class in this namespace.
    Term(Arc<str>, PodAffinityTerm),
    /// Those that match all affinity terms of a class.
    AllTerms(Arc<PodClass>),
    /// Those of one class.
    Class(ClassIx),
    /// Those of this namespace that mount the claim of this name.
    Claim(Arc<str>, Arc<str>),
    /// Those of a class's namespace that match the selector of its n-th spread constraint, on nodes that count.
    Spread(Arc<PodClass>, usize),
}

/// What one class asks of the counters.
#[derive(Debug, Default)]
pub(super) struct ClassRules {
    /// One a spread constraint, in order, and whether the constraint selects the class itself.
    pub(super) spread: Vec<(usize, bool)>,
    /// One an affinity term, in order.
    pub(super) affinity: Vec<usize>,
    /// Whether all affinity terms match the class itself.
    pub(super) own_kind: bool,
    /// One an anti-affinity term, in order.
    pub(super) anti_affinity: Vec<usize>,
    /// Terms of other classes that keep this one away, with their topology key.
    pub(super) guarded_by: Vec<(usize, Arc<str>)>,
}

/// An anti-affinity term of a class that may run somewhere; counted once somebody is kept away by it.
#[derive(Debug)]
struct Guard {
    ix: ClassIx,
    class: Arc<PodClass>,
    term: usize,
    counter: Option<usize>,
}

impl Snapshot<'_> {
    /// Whether pods elsewhere have a say in where a pod of `class` goes.
    pub fn has_topology_rules(&mut self, class: ClassIx) -> bool {
        let index = class.0 as usize;
        if !matches!(self.topology.rules.get(index), Some(Some(_))) {
            let rules = self.make_rules(class);
            if self.topology.rules.len() <= index {
                self.topology.rules.resize_with(index + 1, || None);
            }
            self.topology.rules[index] = Some(rules);
        }
        self.known_rules(class).is_some_and(|rules| {
            !(rules.spread.is_empty()
                && rules.affinity.is_empty()
                && rules.anti_affinity.is_empty()
                && rules.guarded_by.is_empty())
        })
    }

    /// The counters that a class asks; `None` before [`Snapshot::has_topology_rules`] was asked.
    pub(super) fn known_rules(&self, class: ClassIx) -> Option<&ClassRules> {
        self.topology.rules.get(class.0 as usize).and_then(Option::as_ref)
    }

    fn make_rules(&mut self, class: ClassIx) -> ClassRules {
        let pod = self.class(class).clone();
        let term = |terms: &[PodAffinityTerm]| -> Vec<(What, Arc<str>)> {
            let what = |term: &PodAffinityTerm| {
                (What::Term(pod.namespace.clone(), term.clone()), term.topology_key.clone())
            };
            terms.iter().map(what).collect()
        };
        let anti: Vec<_> = term(&pod.pod_anti_affinity);
        let mut rules = ClassRules::default();
        for term in &pod.pod_affinity {
            rules.affinity.push(self.counter(What::AllTerms(pod.clone()), &term.topology_key.clone()));
        }
        for (what, key) in anti {
            rules.anti_affinity.push(self.counter(what, &key));
        }
        for (index, spread) in pod.topology_spread.iter().enumerate() {
            let itself = selected(spread.selector.as_ref(), &pod.labels);
            let counter = self.counter(What::Spread(pod.clone(), index), &spread.topology_key.clone());
            rules.spread.push((counter, itself));
        }
        let own = |term: &PodAffinityTerm| term_matches(term, &pod.namespace, &pod, self.world());
        rules.own_kind = pod.pod_affinity.iter().all(own);
        rules.guarded_by = self.guards_against(&pod);
        rules
    }

    /// The terms of other classes that keep pods like this one away, with their counters.
    fn guards_against(&mut self, pod: &PodClass) -> Vec<(usize, Arc<str>)> {
        let mut guards = match self.topology.guards.take() {
            Some(guards) => guards,
            None => self.all_guards(),
        };
        let mut against = Vec::new();
        for guard in &mut guards {
            let term = &guard.class.pod_anti_affinity[guard.term];
            if term_matches(term, &guard.class.namespace, pod, self.world()) {
                let counter = match guard.counter {
                    Some(counter) => counter,
                    None => self.counter(What::Class(guard.ix), &term.topology_key),
                };
                guard.counter = Some(counter);
                against.push((counter, term.topology_key.clone()));
            }
        }
        self.topology.guards = Some(guards);
        against
    }

    /// Anti-affinity terms of all classes known so far.
    fn all_guards(&self) -> Vec<Guard> {
        let world = self.world();
        let interned = world.classes().iter().map(|(id, class)| (ClassIx(id.0), class.clone()));
        interned
            .chain(self.extra_classes())
            .flat_map(|(ix, class)| {
                let guard = move |term| Guard { ix, class: class.clone(), term, counter: None };
                (0..guard(0).class.pod_anti_affinity.len()).map(guard)
            })
            .collect()
    }

    /// A class with anti-affinity is new to the snapshot: what keeps others away is worked out anew.
    pub(super) fn class_is_new(&mut self, class: &PodClass) {
        if !class.pod_anti_affinity.is_empty() {
            self.topology.guards = None;
            self.topology.rules.clear();
        }
    }

    /// A counter of the pods on any node that mount a claim.
    pub(super) fn claim_counter(&mut self, namespace: Arc<str>, claim: Arc<str>) -> usize {
        self.counter(What::Claim(namespace, claim), &Arc::from(""))
    }

    /// A counter over the snapshot as it is now.
    fn counter(&mut self, what: What, key: &Arc<str>) -> usize {
        let key = self.key_index(key);
        self.topology.counters.push(Counter {
            what,
            key,
            matches: Vec::new(),
            counts: Vec::new(),
            total: 0,
            nodes: Vec::new(),
            histogram: BTreeMap::new(),
            template: None,
        });
        let index = self.topology.counters.len() - 1;
        let mut counter = self.topology.counters.swap_remove(index);
        counter.count_all(self, key);
        self.topology.counters.push(counter);
        index
    }

    fn key_index(&mut self, key: &Arc<str>) -> usize {
        if let Some(index) = self.topology.key_ids.get(key) {
            return *index;
        }
        let mut index = KeyIndex { key: key.clone(), domains: Vec::new(), ids: FxHashMap::default() };
        for at in 0..self.nodes_capacity() {
            index.push(self.node(node_ix(at)));
        }
        self.topology.keys.push(index);
        self.topology.key_ids.insert(key.clone(), self.topology.keys.len() - 1);
        self.topology.keys.len() - 1
    }

    /// The counter of this index.
    pub(super) fn counted(&self, counter: usize) -> &Counter {
        &self.topology.counters[counter]
    }

    /// The domain of `node` for this counter; `None` when the node lacks the key.
    pub(super) fn domain(&self, counter: usize, node: NodeIx) -> Option<usize> {
        self.topology.keys[self.topology.counters[counter].key].domains[node.0 as usize]
    }

    /// A pod has come to (`+1`) or gone from (`-1`) a node.
    pub(super) fn pod_moved(&mut self, pod: PodRef, node: NodeIx, change: i64) {
        if self.topology.counters.is_empty() || self.node(node).presence() == Presence::Gone {
            return;
        }
        let mut topology = std::mem::take(&mut self.topology);
        let class = self.class_of(pod);
        let index = class.0 as usize;
        if topology.counted_by.len() <= index {
            topology.counted_by.resize(index + 1, (0, Vec::new()));
        }
        let (asked, counted_by) = &mut topology.counted_by[index];
        for (counter, known) in topology.counters.iter_mut().enumerate().skip(*asked) {
            if known.class_matches(self, class) {
                counted_by.push(counter);
            }
        }
        *asked = topology.counters.len();
        for counter in counted_by {
            let counter = &mut topology.counters[*counter];
            let domain = topology.keys[counter.key].domains[node.0 as usize];
            counter.count_pod(self, pod, node, domain, change);
        }
        self.topology = topology;
    }

    /// A node with its pods has come to (`+1`) or gone from (`-1`) the snapshot.
    pub(super) fn node_moved(&mut self, node: NodeIx, change: i64) {
        let mut topology = std::mem::take(&mut self.topology);
        for counter in &mut topology.counters {
            let domain = topology.keys[counter.key].domains[node.0 as usize];
            counter.count_node(self, node, domain, change);
        }
        self.topology = topology;
    }

    /// The last node is new: its domains are looked up.
    pub(super) fn node_added(&mut self) {
        let mut topology = std::mem::take(&mut self.topology);
        let node = node_ix(self.nodes_capacity() - 1);
        for key in &mut topology.keys {
            key.push(self.node(node));
        }
        self.topology = topology;
        self.node_moved(node, 1);
    }

    /// The last node goes.
    pub(super) fn node_dropped(&mut self) {
        self.node_moved(node_ix(self.nodes_capacity() - 1), -1);
        for key in &mut self.topology.keys {
            key.domains.pop();
        }
    }
}

impl KeyIndex {
    fn push(&mut self, node: &NodeView<'_>) {
        let everywhere = self.key.is_empty().then_some("");
        let domain = everywhere.or_else(|| node.label(&self.key)).map(|value| match self.ids.get(value) {
            Some(domain) => *domain,
            None => {
                self.ids.insert(value.into(), self.ids.len());
                self.ids.len() - 1
            }
        });
        self.domains.push(domain);
    }
}

impl Counter {
    /// Matching pods in a domain.
    pub(super) fn count(&self, domain: usize) -> i64 {
        self.counts.get(domain).copied().unwrap_or(0)
    }

    /// Spread only: the fewest matching pods in any domain that has a node that counts.
    pub(super) fn lowest(&self) -> i64 {
        self.histogram.keys().next().copied().unwrap_or(0)
    }

    /// Spread only: how many domains have a node that counts.
    pub(super) fn domains_count(&self) -> u32 {
        self.histogram.values().sum()
    }

    /// Counts all pods of the snapshot as it is now; its domains are those of `key`.
    ///
    /// Pods of the world are found by their classes: mostly few of them match, and there are many more.
    fn count_all(&mut self, snapshot: &Snapshot<'_>, key: usize) {
        let domains = &snapshot.topology.keys[key].domains;
        let world = snapshot.world();
        for (at, domain) in domains.iter().enumerate() {
            let (Some(domain), node) = (*domain, node_ix(at)) else { continue };
            let view = snapshot.node(node);
            if view.presence() == Presence::Gone {
                continue;
            }
            let spread = matches!(self.what, What::Spread(..));
            let (_, others) = snapshot.pods_by_origin(node);
            if (others.is_empty() && !spread) || !self.node_counts(view) {
                continue;
            }
            if spread {
                self.note_spread_node(domain, 1);
            }
            for pod in others {
                self.count_matching(snapshot, *pod, domain, 1);
            }
        }
        for (class, _) in world.classes().iter() {
            let bound = world.bound_pods(class);
            if bound.is_empty() || !self.class_matches(snapshot, ClassIx(class.0)) {
                continue;
            }
            for id in bound {
                let entry = world.pod(*id);
                let Some(node) = entry.node.and_then(|node| snapshot.index_of(node)) else { continue };
                let Some(domain) = domains[node.0 as usize] else { continue };
                let view = snapshot.node(node);
                let here = snapshot.is_as_bound(node)
                    && view.presence() != Presence::Gone
                    && !entry.pod.phase.finished();
                if here && self.node_counts(view) {
                    self.count_matching(snapshot, PodRef::Real(*id), domain, 1);
                }
            }
        }
    }

    fn count_node(&mut self, snapshot: &Snapshot<'_>, node: NodeIx, domain: Option<usize>, change: i64) {
        let Some(domain) = domain else { return };
        let (bound, others) = snapshot.pods_by_origin(node);
        let empty = bound.is_empty() && others.is_empty();
        if (empty && !matches!(self.what, What::Spread(..))) || !self.made_counts(snapshot.node(node)) {
            return;
        }
        if matches!(self.what, What::Spread(..)) && 0 < change {
            self.note_spread_node(domain, change);
        }
        for pod in snapshot.pods(node) {
            self.count_matching(snapshot, pod, domain, change);
        }
        if matches!(self.what, What::Spread(..)) && change < 0 {
            self.note_spread_node(domain, change);
        }
    }

    fn note_spread_node(&mut self, domain: usize, change: i64) {
        if self.nodes.len() <= domain {
            self.nodes.resize(domain + 1, 0);
        }
        let count = self.count(domain);
        if 0 < change {
            if self.nodes[domain] == 0 {
                *self.histogram.entry(count).or_insert(0) += 1;
            }
            self.nodes[domain] += 1;
        } else {
            self.nodes[domain] = self.nodes[domain].saturating_sub(1);
            if self.nodes[domain] == 0 {
                lower(&mut self.histogram, count);
            }
        }
    }

    fn count_pod(
        &mut self,
        snapshot: &Snapshot<'_>,
        pod: PodRef,
        node: NodeIx,
        domain: Option<usize>,
        change: i64,
    ) {
        let Some(domain) = domain else { return };
        if self.class_matches(snapshot, snapshot.class_of(pod)) && self.made_counts(snapshot.node(node)) {
            self.count_matching(snapshot, pod, domain, change);
        }
    }

    /// The same as [`Counter::node_counts`], which is remembered for the template that the node was made after, unless the
    /// node's own name has a say.
    fn made_counts(&mut self, node: &NodeView<'_>) -> bool {
        let by_name = matches!(&self.what, What::Spread(class, _) if class.node_affinity.is_some()
            || class.node_selector.get(HOSTNAME_LABEL).is_some());
        let Some(template) = node.template().filter(|_| !by_name) else { return self.node_counts(node) };
        match &self.template {
            Some((known, counts)) if Arc::ptr_eq(known, template) => *counts,
            _ => {
                let counts = self.node_counts(node);
                self.template = Some((template.clone(), counts));
                counts
            }
        }
    }

    /// Whether pods on this node count: always, but for spread constraints.
    fn node_counts(&self, node: &NodeView<'_>) -> bool {
        match &self.what {
            What::Spread(class, constraint) => counts_for_spread(class, *constraint, node),
            What::Term(..) | What::AllTerms(_) | What::Class(_) | What::Claim(..) => true,
        }
    }

    /// Counts a pod of a node that counts, if it matches.
    fn count_matching(&mut self, snapshot: &Snapshot<'_>, pod: PodRef, domain: usize, change: i64) {
        if !self.class_matches(snapshot, snapshot.class_of(pod)) {
            return;
        }
        // Source: podtopologyspread/common.go, countPodsMatchSelector: terminating pods do not count.
        let terminating =
            matches!(pod, PodRef::Real(id) if snapshot.world().pod(id).pod.deletion_at.is_some());
        if terminating && matches!(self.what, What::Spread(..)) {
            return;
        }
        if self.counts.len() <= domain {
            self.counts.resize(domain + 1, 0);
        }
        let before = self.counts[domain];
        self.counts[domain] += change;
        self.total += change;
        if self.nodes.get(domain).is_some_and(|nodes| *nodes != 0) {
            lower(&mut self.histogram, before);
            *self.histogram.entry(before + change).or_insert(0) += 1;
        }
    }

    fn class_matches(&mut self, snapshot: &Snapshot<'_>, class: ClassIx) -> bool {
        let index = class.0 as usize;
        if let Some(Some(known)) = self.matches.get(index) {
            return *known;
        }
        let pod = snapshot.class(class);
        let world = snapshot.world();
        let matches = match &self.what {
            What::Class(only) => *only == class,
            What::Claim(namespace, name) => {
                pod.namespace == *namespace && pod.claims.iter().any(|claim| claim.name == *name)
            }
            What::Term(namespace, term) => term_matches(term, namespace, pod, world),
            What::AllTerms(owner) => {
                owner.pod_affinity.iter().all(|term| term_matches(term, &owner.namespace, pod, world))
            }
            What::Spread(owner, constraint) => {
                pod.namespace == owner.namespace
                    && selected(owner.topology_spread[*constraint].selector.as_ref(), &pod.labels)
            }
        };
        if self.matches.len() <= index {
            self.matches.resize(index + 1, None);
        }
        self.matches[index] = Some(matches);
        matches
    }
}

/// Whether a node counts for a class's spread constraint: it has all topology keys, and the policies accept it.
///
/// Source: podtopologyspread/filtering.go, calPreFilterState; common.go, matchNodeInclusionPolicies.
fn counts_for_spread(class: &PodClass, constraint: usize, node: &NodeView<'_>) -> bool {
    let spread = &class.topology_spread[constraint];
    class.topology_spread.iter().all(|other| node.label(&other.topology_key).is_some())
        && (!spread.honor_node_affinity
            || node_affinity::matches(&class.node_selector, class.node_affinity.as_ref(), node))
        && (!spread.honor_node_taints
            || taints::first_untolerated(node.taints(), &class.tolerations).is_none())
}

fn lower(histogram: &mut BTreeMap<i64, u32>, count: i64) {
    if let Some(domains) = histogram.get_mut(&count) {
        *domains -= 1;
        if *domains == 0 {
            histogram.remove(&count);
        }
    }
}

/// Whether a term of a pod in `namespace` matches a pod of this class.
///
/// Without namespaces and namespace selector only the term's own namespace counts; an empty namespace selector means
/// every one.
/// Source: kube-scheduler, framework/types.go, AffinityTerm.Matches.
#[must_use]
pub fn term_matches(term: &PodAffinityTerm, namespace: &str, pod: &PodClass, world: &World) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let listed = term.namespaces.contains(&pod.namespace) || (own_only && *pod.namespace == *namespace);
    let in_namespace = listed
        || term.namespace_selector.as_ref().is_some_and(|selector| {
            let unknown = Labels::default();
            selects(selector, world.namespace_labels(&pod.namespace).unwrap_or(&unknown))
        });
    in_namespace && selected(term.selector.as_ref(), &pod.labels)
}

/// Whether an optional selector selects these labels; an absent one selects nothing.
pub(super) fn selected(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| selects(selector, labels))
}

fn node_ix(at: usize) -> NodeIx {
    NodeIx(u32::try_from(at).expect("indexes of nodes fit 32 bits"))
}
