//! Rules of one class of pods on the counts of other pods. It counts nothing.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::scheduling::constraints::{LabelSelector, PodAffinityTerm, RequiredNodeAffinity, Toleration};
use crate::scheduling::cost;
use crate::scheduling::counter::{InclusionRule, OwnSpread, OwnTerm, OwnTerms, What};
use crate::scheduling::host_ports::HostPort;
use crate::scheduling::node_affinity::selects;
use crate::scheduling::snapshot::{ClassIx, Snapshot};
use crate::world::World;
use crate::world::devices::{DeviceClaimSource, PodDeviceClaim};
use crate::world::pod::PodClass;
use headroom_values::labels::Labels;
use headroom_values::resources::Resources;

/// Rules of one class on the counters.
#[derive(Debug, Default)]
pub(super) struct ClassRules {
    /// One a spread constraint, in order, and whether the constraint selects the class itself.
    pub(super) spread: Vec<(usize, bool)>,
    /// Counters of its affinity terms with their topology key, equal ones once.
    pub(super) affinity: Vec<(usize, Arc<str>)>,
    /// True if all affinity terms match the class itself.
    pub(super) own_kind: bool,
    /// Counters of its anti-affinity terms with their topology key, equal ones once.
    pub(super) anti_affinity: Vec<(usize, Arc<str>)>,
    /// One counter a topology key: pods whose terms keep this class away.
    pub(super) guarded_by: Vec<(usize, Arc<str>)>,
    /// Work units of asking all of them, beyond the one of the check.
    pub(super) cost: u64,
    /// See [`Snapshot::shape`].
    shape: Option<u32>,
    /// True if looking at the rules of the class costs more work than was left: what is here is not all, and no node takes
    /// a pod of it.
    pub(super) unfinished: bool,
    /// True if the class has more rules about other pods than are evaluated: no node takes a pod of it.
    pub(super) too_long: bool,
}

impl ClassRules {
    /// True if what is here is all that the class asks.
    pub(super) fn complete(&self) -> bool {
        !self.unfinished && !self.too_long
    }
}

/// Everything that decides where a pod fits, for classes without spread, affinity and claims.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    requests: Resources,
    node_selector: Labels,
    node_affinity: Option<RequiredNodeAffinity>,
    tolerations: Vec<Toleration>,
    host_ports: Vec<HostPort>,
    device_claims: Vec<PodDeviceClaim>,
    anti_affinity: Vec<usize>,
    guarded_by: Vec<usize>,
}

impl Snapshot<'_> {
    /// True if pods elsewhere affect the place of a pod of `class`.
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
            !(rules.complete()
                && rules.spread.is_empty()
                && rules.affinity.is_empty()
                && rules.anti_affinity.is_empty()
                && rules.guarded_by.is_empty())
        })
    }

    /// A number that classes share which fit the same nodes at any time: as long as pods are only placed, a node that
    /// refuses one class refuses the others. `None` for classes that may fit later, and for those with claims.
    pub fn shape(&mut self, class: ClassIx) -> Option<u32> {
        self.has_topology_rules(class);
        self.known_rules(class).and_then(|rules| rules.shape)
    }

    /// The counters that a class asks; `None` before [`Snapshot::has_topology_rules`] was asked.
    pub(super) fn known_rules(&self, class: ClassIx) -> Option<&ClassRules> {
        self.topology.rules.get(class.0 as usize).and_then(Option::as_ref)
    }

    /// True if looking at the rules of a class cost more work than was left when it was asked.
    #[must_use]
    pub fn is_unfinished(&self, class: ClassIx) -> bool {
        self.known_rules(class).is_some_and(|rules| rules.unfinished)
    }

    /// Lets the rules that were left unfinished be looked at again: there is other work to spend.
    pub(super) fn forget_unfinished(&mut self) {
        for rules in &mut self.topology.rules {
            if rules.as_ref().is_some_and(|rules| rules.unfinished) {
                *rules = None;
            }
        }
    }

    fn make_rules(&mut self, class: ClassIx) -> ClassRules {
        let (pod, limit) = (self.class(class).clone(), self.search_limit(class));
        if cost::says_too_much(&pod) {
            return ClassRules { too_long: true, ..ClassRules::default() };
        }
        let unfinished = || ClassRules { unfinished: true, ..ClassRules::default() };
        self.rules_within(class, &pod, limit).unwrap_or_else(unfinished)
    }

    /// The rules of a class; `None` if the work counter would go beyond `limit`.
    fn rules_within(&mut self, class: ClassIx, pod: &Arc<PodClass>, limit: u64) -> Option<ClassRules> {
        let mut rules = ClassRules::default();
        for term in &pod.pod_affinity {
            let all = What::AllTerms(OwnTerms(pod.clone()));
            let counter = self.counter(all, &term.topology_key, limit)?;
            note_once(&mut rules.affinity, counter, &term.topology_key);
        }
        for (index, term) in pod.pod_anti_affinity.iter().enumerate() {
            let counter = self.counter(What::Term(OwnTerm::new(pod, index)), &term.topology_key, limit)?;
            rules.anti_affinity.push((counter, term.topology_key.clone()));
        }
        drop_repeated(&mut rules.anti_affinity);
        for (index, spread) in pod.topology_spread.iter().enumerate() {
            let itself = selected(spread.selector.as_ref(), &pod.labels);
            let inclusion = self.inclusion(InclusionRule::of(pod, index), &spread.topology_key, limit)?;
            let what = What::Spread(OwnSpread::new(pod, index), inclusion);
            rules.spread.push((self.counter(what, &spread.topology_key, limit)?, itself));
        }
        let own = |term: &PodAffinityTerm| term_matches(term, &pod.namespace, pod, self.world());
        rules.own_kind = pod.pod_affinity.iter().all(own);
        rules.guarded_by = self.guards_against(pod, limit)?;
        let asked = rules.spread.len() + rules.affinity.len() + rules.anti_affinity.len();
        rules.cost = u64::try_from(asked + rules.guarded_by.len()).unwrap_or(u64::MAX) / 4;
        rules.shape = if self.look_cost(class) == 0 { self.shape_of(pod, &rules) } else { None };
        Some(rules)
    }

    fn shape_of(&mut self, pod: &PodClass, rules: &ClassRules) -> Option<u32> {
        let shares = |claim: &PodDeviceClaim| matches!(claim.source, DeviceClaimSource::Claim(_));
        let shared = pod.device_claims.iter().any(shares);
        if !rules.spread.is_empty() || !rules.affinity.is_empty() || !pod.claims.is_empty() || shared {
            return None;
        }
        let counters =
            |asked: &[(usize, Arc<str>)]| asked.iter().map(|(counter, _)| *counter).collect::<Vec<_>>();
        let shape = Arc::new(Shape {
            requests: pod.requests.clone(),
            node_selector: pod.node_selector.clone(),
            node_affinity: pod.node_affinity.clone(),
            tolerations: pod.tolerations.clone(),
            host_ports: pod.host_ports.clone(),
            device_claims: pod.device_claims.clone(),
            anti_affinity: counters(&rules.anti_affinity),
            guarded_by: counters(&rules.guarded_by),
        });
        let next = self.topology.shapes_count;
        let number = *self.topology.shapes.entry(shape).or_insert(next);
        self.topology.shapes_count = next.max(number + 1);
        Some(number)
    }

    /// One counter a topology key: pods with terms that keep pods like this one away. `None` if the work counter would go
    /// beyond `limit`.
    fn guards_against(&mut self, pod: &PodClass, limit: u64) -> Option<Vec<(usize, Arc<str>)>> {
        let guards = self.take_guards();
        let candidates = guards.candidates(pod);
        self.work_units += guards.cost(&candidates, &pod.namespace) + cost::beyond_one(pod.labels.len());
        let affordable = self.work_units <= limit || candidates.is_empty();
        let mut by_key: Vec<(Arc<str>, Vec<u32>)> = Vec::new();
        let mut places: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        for id in candidates.into_iter().filter(|_| affordable) {
            let (namespace, term) = guards.term(id);
            if !term_matches(term, namespace, pod, self.world()) {
                continue;
            }
            let at = *places.entry(term.topology_key.clone()).or_insert(by_key.len());
            if at == by_key.len() {
                by_key.push((term.topology_key.clone(), Vec::new()));
            }
            by_key[at].1.push(id);
        }
        self.topology.guards = Some(guards);
        let mut counted = Vec::with_capacity(by_key.len());
        for (key, ids) in by_key {
            counted.push((self.counter(What::Guarded(ids.into()), &key, limit)?, key));
        }
        affordable.then_some(counted)
    }
}

/// Leaves the first of equal counters.
fn drop_repeated(asked: &mut Vec<(usize, Arc<str>)>) {
    if 1 < asked.len() {
        let mut known = FxHashSet::default();
        asked.retain(|(counter, _)| known.insert(*counter));
    }
}

fn note_once(asked: &mut Vec<(usize, Arc<str>)>, counter: usize, key: &Arc<str>) {
    if !asked.iter().any(|(known, _)| *known == counter) {
        asked.push((counter, key.clone()));
    }
}

/// True if a term of a pod in `namespace` matches a pod of this class.
///
/// Without namespaces and namespace selector only the term's own namespace counts; an empty namespace selector means
/// every one.
/// Source: kube-scheduler, framework/types.go, AffinityTerm.Matches.
pub(super) fn term_matches(term: &PodAffinityTerm, namespace: &str, pod: &PodClass, world: &World) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let listed = term.namespaces.contains(&pod.namespace) || (own_only && *pod.namespace == *namespace);
    let in_namespace = listed
        || term.namespace_selector.as_ref().is_some_and(|selector| {
            let unknown = Labels::default();
            selects(selector, world.namespace_labels(&pod.namespace).unwrap_or(&unknown))
        });
    in_namespace && selected(term.selector.as_ref(), &pod.labels)
}

/// True if an optional selector selects these labels; an absent one selects nothing.
pub(super) fn selected(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| selects(selector, labels))
}
