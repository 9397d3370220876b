//! Counts of matching pods per topology domain. What is counted is decided elsewhere.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::scheduling::constraints::{
    LabelSelector, PodAffinityTerm, RequiredNodeAffinity, Taint, TaintEffect, Toleration, TopologySpread,
};
use crate::scheduling::cost;
use crate::scheduling::node_affinity::{self, LabelledNode};
use crate::scheduling::snapshot::{NodeView, TemplateNode};
use crate::scheduling::taints;
use crate::world::node::{DELETION_TAINT, HOSTNAME_LABEL};
use crate::world::pod::PodClass;
use headroom_values::labels::Labels;

/// Pods that a counter counts. Counters of equal meaning are one.
///
/// Terms and selectors are those of a class, which is kept rather than copied: they may be long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// Those that match one anti-affinity term of a class.
    Term(OwnTerm),
    /// Those that match all affinity terms of a class.
    AllTerms(OwnTerms),
    /// Those that have one of these anti-affinity terms, by ascending id.
    Guarded(Arc<[u32]>),
    /// Those of this namespace that mount the claim of this name.
    Claim(Arc<str>, Arc<str>),
    /// Those that a spread constraint of a class selects, on nodes of this inclusion.
    Spread(OwnSpread, usize),
}

impl What {
    /// Work units of asking whether pods of one class are counted, the first one included.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Term(own) => cost::of_term(own.term()),
            Self::AllTerms(own) => own.terms().iter().map(cost::of_term).sum(),
            Self::Guarded(_) | Self::Claim(..) => 1,
            Self::Spread(own, _) => cost::of_selector(own.selector()),
        }
    }
}

impl Counter {
    /// Work units of asking whether pods of one class of this namespace are counted: words of others are not at its expense.
    pub(super) fn cost_for(&self, namespace: &str) -> u64 {
        let own = match &*self.what {
            What::Term(own) => own.namespace(),
            What::AllTerms(own) => own.namespace(),
            What::Spread(own, _) => own.namespace(),
            What::Guarded(_) | What::Claim(..) => return 1,
        };
        if **own == *namespace { self.cost } else { 1 }
    }
}

/// An anti-affinity term of a class; equal where terms and namespaces are.
#[derive(Clone, Debug)]
pub(super) struct OwnTerm(Arc<PodClass>, usize);

impl OwnTerm {
    /// The n-th term of a class, which must have so many.
    pub(super) fn new(class: &Arc<PodClass>, index: usize) -> Self {
        Self(class.clone(), index)
    }

    /// The namespace of the pods that have it.
    pub(super) fn namespace(&self) -> &Arc<str> {
        &self.0.namespace
    }

    /// The term.
    pub(super) fn term(&self) -> &PodAffinityTerm {
        &self.0.pod_anti_affinity[self.1]
    }
}

impl PartialEq for OwnTerm {
    fn eq(&self, other: &Self) -> bool {
        self.namespace() == other.namespace() && self.term() == other.term()
    }
}

impl Eq for OwnTerm {}

impl Hash for OwnTerm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.namespace(), self.term()).hash(state);
    }
}

/// All affinity terms of a class; equal where they and the namespaces are.
#[derive(Clone, Debug)]
pub(super) struct OwnTerms(pub(super) Arc<PodClass>);

impl OwnTerms {
    /// The namespace of the pods that have them.
    pub(super) fn namespace(&self) -> &Arc<str> {
        &self.0.namespace
    }

    /// The terms.
    pub(super) fn terms(&self) -> &[PodAffinityTerm] {
        &self.0.pod_affinity
    }
}

impl PartialEq for OwnTerms {
    fn eq(&self, other: &Self) -> bool {
        self.namespace() == other.namespace() && self.terms() == other.terms()
    }
}

impl Eq for OwnTerms {}

impl Hash for OwnTerms {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.namespace(), self.terms()).hash(state);
    }
}

/// Pods that a spread constraint of a class counts; equal where selectors and namespaces are.
#[derive(Clone, Debug)]
pub(super) struct OwnSpread(Arc<PodClass>, usize);

impl OwnSpread {
    /// That of the n-th constraint of a class, which must have so many.
    pub(super) fn new(class: &Arc<PodClass>, index: usize) -> Self {
        Self(class.clone(), index)
    }

    /// The namespace of the pods that it counts.
    pub(super) fn namespace(&self) -> &Arc<str> {
        &self.0.namespace
    }

    /// The selector of the pods that it counts.
    pub(super) fn selector(&self) -> Option<&LabelSelector> {
        self.0.topology_spread[self.1].selector.as_ref()
    }
}

impl PartialEq for OwnSpread {
    fn eq(&self, other: &Self) -> bool {
        self.namespace() == other.namespace() && self.selector() == other.selector()
    }
}

impl Eq for OwnSpread {}

impl Hash for OwnSpread {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.namespace(), self.selector()).hash(state);
    }
}

/// Domains in a page of counts.
const PAGE: usize = 32;

/// A number for each domain, 0 where none was set: memory is used for the neighbourhood of others only.
#[derive(Debug, Default)]
struct Counts(Vec<Option<Box<[i32; PAGE]>>>);

impl Counts {
    fn get(&self, domain: usize) -> i64 {
        match self.0.get(domain / PAGE) {
            Some(Some(page)) => i64::from(page[domain % PAGE]),
            _ => 0,
        }
    }

    fn add(&mut self, domain: usize, change: i32) {
        let at = domain / PAGE;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| Box::new([0; PAGE]))[domain % PAGE] += change;
    }
}

/// Pods that match, by domain.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) what: Arc<What>,
    pub(super) key: usize,
    /// Work units of asking whether pods of one class are counted.
    pub(super) cost: u64,
    counts: Counts,
    /// Matching pods in all domains.
    pub(super) total: i64,
    /// Spread only: included domains with pods by their count.
    histogram: BTreeMap<i64, u32>,
    /// Spread only: how many those are.
    occupied: u32,
}

impl Counter {
    pub(super) fn new(what: Arc<What>, key: usize) -> Self {
        let (cost, counts, histogram) = (what.cost(), Counts::default(), BTreeMap::new());
        Self { what, key, cost, counts, total: 0, histogram, occupied: 0 }
    }

    /// Matching pods in a domain.
    pub(super) fn count(&self, domain: usize) -> i64 {
        self.counts.get(domain)
    }

    /// Spread only: the inclusion of the nodes on which pods count.
    pub(super) fn inclusion(&self) -> Option<usize> {
        match *self.what {
            What::Spread(_, inclusion) => Some(inclusion),
            _ => None,
        }
    }

    /// Spread only: the fewest matching pods in any of the included domains.
    pub(super) fn lowest(&self, inclusion: &Inclusion) -> i64 {
        if self.occupied < inclusion.domains { 0 } else { self.histogram.keys().next().copied().unwrap_or(0) }
    }

    /// A matching pod comes to (`+1`) or leaves (`-1`) a domain.
    pub(super) fn add(&mut self, domain: usize, change: i32, inclusion: Option<&Inclusion>) {
        let included = inclusion.is_some_and(|inclusion| inclusion.includes(domain));
        if included {
            self.note(domain, -1);
        }
        self.counts.add(domain, change);
        self.total += i64::from(change);
        if included {
            self.note(domain, 1);
        }
    }

    /// Spread only: a domain is included from now on (`+1`), or no more (`-1`).
    pub(super) fn note(&mut self, domain: usize, change: i32) {
        let count = self.count(domain);
        if count == 0 {
            return;
        }
        let domains = self.histogram.entry(count).or_insert(0);
        if 0 < change {
            *domains += 1;
            self.occupied += 1;
        } else {
            *domains -= 1;
            self.occupied -= 1;
            if *domains == 0 {
                self.histogram.remove(&count);
            }
        }
    }
}

/// The taint of a node that leaves, as a ghost stands for one.
///
/// Source: simulator/cluster.go, which puts it on the node that stays in the snapshot in place of the removed one.
fn mark() -> Taint {
    Taint { key: DELETION_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule }
}

/// Nodes that count for spread constraints: the topology keys that a node must have, the selector and affinity that it
/// must meet, and the tolerations that its taints must meet, where those are honoured.
#[derive(Clone, Debug)]
pub(super) struct InclusionRule {
    class: Arc<PodClass>,
    honors_affinity: bool,
    honors_taints: bool,
}

impl PartialEq for InclusionRule {
    fn eq(&self, other: &Self) -> bool {
        self.keys().eq(other.keys())
            && self.affinity() == other.affinity()
            && self.tolerations() == other.tolerations()
    }
}

impl Eq for InclusionRule {}

impl Hash for InclusionRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys().for_each(|key| key.hash(state));
        (self.affinity(), self.tolerations()).hash(state);
    }
}

impl InclusionRule {
    /// The rule of a class's n-th constraint.
    pub(super) fn of(class: &Arc<PodClass>, constraint: usize) -> Self {
        let spread: &TopologySpread = &class.topology_spread[constraint];
        let asks = !class.node_selector.is_empty() || class.node_affinity.is_some();
        Self {
            class: class.clone(),
            honors_affinity: spread.honor_node_affinity && asks,
            honors_taints: spread.honor_node_taints,
        }
    }

    /// Work units of asking whether a node counts, beyond the first.
    pub(super) fn cost(&self) -> u64 {
        let keys = cost::beyond_one(self.class.topology_spread.len());
        if self.honors_affinity || self.honors_taints { keys + cost::of_class(&self.class) } else { keys }
    }

    /// True if a node counts wherever it has the topology keys.
    pub(super) fn asks_for_keys_alone(&self) -> bool {
        !self.honors_affinity && !self.honors_taints
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.class.topology_spread.iter().map(|spread| &spread.topology_key)
    }

    fn affinity(&self) -> Option<(&Labels, Option<&RequiredNodeAffinity>)> {
        self.honors_affinity.then(|| (&self.class.node_selector, self.class.node_affinity.as_ref()))
    }

    fn tolerations(&self) -> Option<&[Toleration]> {
        self.honors_taints.then_some(&self.class.tolerations)
    }

    /// True if a node has all topology keys and the policies accept it; one that leaves is marked with a taint.
    ///
    /// Source: podtopologyspread/filtering.go, calPreFilterState; common.go, matchNodeInclusionPolicies.
    fn includes(&self, node: &NodeView<'_>, marked: bool) -> bool {
        let affine = |(selector, affinity): (&Labels, Option<&RequiredNodeAffinity>)| {
            node_affinity::matches(selector, affinity, node)
        };
        let tolerated = |tolerations: &[Toleration]| {
            taints::first_untolerated(node.taints(), tolerations).is_none()
                && (!marked || taints::first_untolerated(&[mark()], tolerations).is_none())
        };
        self.keys().all(|key| node.label(key).is_some())
            && self.affinity().is_none_or(affine)
            && self.tolerations().is_none_or(tolerated)
    }

    /// True if nodes are left out whose taints are not tolerated.
    pub(super) fn honors_taints(&self) -> bool {
        self.tolerations().is_some()
    }

    /// True if the name of a node may decide.
    fn asks_for_names(&self) -> bool {
        self.affinity()
            .is_some_and(|(selector, affinity)| affinity.is_some() || selector.get(HOSTNAME_LABEL).is_some())
    }
}

/// Nodes that count for the spread constraints of one rule and key.
#[derive(Debug)]
pub(super) struct Inclusion {
    pub(super) rule: Arc<InclusionRule>,
    pub(super) key: usize,
    /// Work units of asking whether a node counts, beyond the first.
    pub(super) cost: u64,
    /// By node: whether it counts.
    included: Vec<bool>,
    /// By domain: how many nodes count.
    nodes: Vec<u32>,
    /// Domains with a node that counts.
    pub(super) domains: u32,
    /// The template looked at last, and whether nodes made after it count; many are added after one.
    template: Option<(Arc<TemplateNode>, bool)>,
    /// The counters that it is for.
    pub(super) counters: Vec<usize>,
}

impl Inclusion {
    pub(super) fn new(rule: Arc<InclusionRule>, key: usize) -> Self {
        let (included, nodes, counters) = (Vec::new(), Vec::new(), Vec::new());
        let cost = rule.cost();
        Self { rule, key, cost, included, nodes, domains: 0, template: None, counters }
    }

    /// The next node is there: whether it counts is worked out.
    pub(super) fn push(&mut self, node: &NodeView<'_>, marked: bool) {
        let ordinary = !marked && !self.rule.asks_for_names();
        let template = node.template().filter(|_| ordinary);
        let counts = match (template, &self.template) {
            (Some(template), Some((known, counts))) if Arc::ptr_eq(known, template) => *counts,
            _ => self.rule.includes(node, marked),
        };
        if let Some(template) = template {
            self.template = Some((template.clone(), counts));
        }
        self.included.push(counts);
    }

    /// The same, where it is known already.
    pub(super) fn push_known(&mut self, counts: bool) {
        self.included.push(counts);
    }

    /// A node has been marked as leaving, or is gone: whether it counts is worked out anew.
    pub(super) fn remark(&mut self, at: usize, node: &NodeView<'_>, marked: bool) {
        self.included[at] = self.rule.includes(node, marked);
    }

    /// The last node goes.
    pub(super) fn pop(&mut self) {
        self.included.pop();
    }

    /// True if a node counts.
    pub(super) fn counts(&self, node: usize) -> bool {
        self.included[node]
    }

    /// True if a domain has a node that counts.
    pub(super) fn includes(&self, domain: usize) -> bool {
        self.nodes.get(domain).is_some_and(|nodes| *nodes != 0)
    }

    /// A node that counts comes to (`+1`) or leaves (`-1`) a domain; whether the domain is included anew, or no more.
    pub(super) fn node_moved(&mut self, domain: usize, change: i64) -> bool {
        if self.nodes.len() <= domain {
            self.nodes.resize(domain + 1, 0);
        }
        let before = self.nodes[domain];
        let after = if 0 < change { before + 1 } else { before.saturating_sub(1) };
        self.nodes[domain] = after;
        let turned = (before == 0) != (after == 0);
        if turned && after != 0 {
            self.domains += 1;
        } else if turned {
            self.domains -= 1;
        }
        turned
    }
}
