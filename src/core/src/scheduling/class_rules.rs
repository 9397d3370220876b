//! What one class of pods asks of the counts of others. It counts nothing.

use std::sync::Arc;

use crate::labels::Labels;
use crate::resources::Resources;
use crate::scheduling::constraints::{LabelSelector, PodAffinityTerm, RequiredNodeAffinity, Toleration};
use crate::scheduling::counter::{InclusionRule, What};
use crate::scheduling::host_ports::HostPort;
use crate::scheduling::node_affinity::selects;
use crate::scheduling::snapshot::{ClassIx, Snapshot};
use crate::world::World;
use crate::world::pod::PodClass;

/// What one class asks of the counters.
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
}

/// Everything that decides where a pod fits, for classes without spread, affinity and claims.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    requests: Resources,
    node_selector: Labels,
    node_affinity: Option<RequiredNodeAffinity>,
    tolerations: Vec<Toleration>,
    host_ports: Vec<HostPort>,
    device_claims: Vec<Arc<str>>,
    anti_affinity: Vec<usize>,
    guarded_by: Vec<usize>,
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

    fn make_rules(&mut self, class: ClassIx) -> ClassRules {
        let pod = self.class(class).clone();
        let mut rules = ClassRules::default();
        for term in &pod.pod_affinity {
            let all = What::AllTerms(pod.namespace.clone(), pod.pod_affinity.clone());
            let counter = self.counter(all, &term.topology_key);
            note_once(&mut rules.affinity, counter, &term.topology_key);
        }
        for term in &pod.pod_anti_affinity {
            let counter = self.counter(What::Term(pod.namespace.clone(), term.clone()), &term.topology_key);
            note_once(&mut rules.anti_affinity, counter, &term.topology_key);
        }
        for (index, spread) in pod.topology_spread.iter().enumerate() {
            let itself = selected(spread.selector.as_ref(), &pod.labels);
            let inclusion = self.inclusion(InclusionRule::of(&pod, index), &spread.topology_key);
            let what = What::Spread(pod.namespace.clone(), spread.selector.clone(), inclusion);
            rules.spread.push((self.counter(what, &spread.topology_key), itself));
        }
        let own = |term: &PodAffinityTerm| term_matches(term, &pod.namespace, &pod, self.world());
        rules.own_kind = pod.pod_affinity.iter().all(own);
        rules.guarded_by = self.guards_against(&pod);
        let asked = rules.spread.len() + rules.affinity.len() + rules.anti_affinity.len();
        rules.cost = u64::try_from(asked + rules.guarded_by.len()).unwrap_or(u64::MAX) / 4;
        rules.shape = self.shape_of(&pod, &rules);
        rules
    }

    fn shape_of(&mut self, pod: &PodClass, rules: &ClassRules) -> Option<u32> {
        if !rules.spread.is_empty() || !rules.affinity.is_empty() || !pod.claims.is_empty() {
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

    /// One counter a topology key: pods with terms that keep pods like this one away.
    fn guards_against(&mut self, pod: &PodClass) -> Vec<(usize, Arc<str>)> {
        let guards = match self.topology.guards.take() {
            Some(guards) => guards,
            None => self.all_guards(),
        };
        let candidates = guards.candidates(pod);
        self.work_units += u64::try_from(candidates.len()).unwrap_or(u64::MAX);
        let mut by_key: Vec<(Arc<str>, Vec<u32>)> = Vec::new();
        for id in candidates {
            let (namespace, term) = guards.term(id);
            if !term_matches(term, namespace, pod, self.world()) {
                continue;
            }
            match by_key.iter_mut().find(|(key, _)| *key == term.topology_key) {
                Some((_, ids)) => ids.push(id),
                None => by_key.push((term.topology_key.clone(), vec![id])),
            }
        }
        self.topology.guards = Some(guards);
        let counted =
            by_key.into_iter().map(|(key, ids)| (self.counter(What::Guarded(ids.into()), &key), key));
        counted.collect()
    }
}

fn note_once(asked: &mut Vec<(usize, Arc<str>)>, counter: usize, key: &Arc<str>) {
    if !asked.iter().any(|(known, _)| *known == counter) {
        asked.push((counter, key.clone()));
    }
}

/// Whether a term of a pod in `namespace` matches a pod of this class.
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

/// Whether an optional selector selects these labels; an absent one selects nothing.
pub(super) fn selected(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| selects(selector, labels))
}
