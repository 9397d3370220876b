//! The anti-affinity terms of all pods that may run somewhere, equal ones merged. It counts no pods.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::scheduling::constraints::PodAffinityTerm;
use crate::scheduling::cost;
use crate::scheduling::counter::OwnTerm;
use crate::scheduling::selector_index::SelectorIndex;
use crate::scheduling::snapshot::ClassIx;
use crate::world::pod::PodClass;

/// Work units of a term's entries: the budget of work bounds the memory, too.
const GUARD_COST: u64 = 8;
/// Terms of other namespaces that are looked at for one work unit.
const FOREIGN_PER_UNIT: u64 = 8;

/// Terms by dense id, and those of each class.
#[derive(Debug, Default)]
pub(super) struct Guards {
    terms: Vec<OwnTerm>,
    ids: FxHashMap<OwnTerm, u32>,
    /// By term: work units of asking whether it matches a pod.
    costs: Vec<u64>,
    of_class: FxHashMap<ClassIx, Vec<u32>>,
    selectors: SelectorIndex,
}

impl Guards {
    /// Adds the terms of a class; returns the work units.
    pub(super) fn add(&mut self, ix: ClassIx, class: &Arc<PodClass>) -> u64 {
        let none = class.pod_anti_affinity.is_empty() || cost::says_too_much(class);
        if none || self.of_class.contains_key(&ix) {
            return 0;
        }
        let mut work = 0;
        let mut own: Vec<u32> = Vec::with_capacity(class.pod_anti_affinity.len());
        for index in 0..class.pod_anti_affinity.len() {
            let term = OwnTerm::new(class, index);
            let id = match self.ids.get(&term) {
                Some(id) => *id,
                None => {
                    work += GUARD_COST;
                    self.add_term(term)
                }
            };
            work += self.costs[id as usize];
            own.push(id);
        }
        own.sort_unstable();
        own.dedup();
        self.of_class.insert(ix, own);
        work
    }

    fn add_term(&mut self, own: OwnTerm) -> u32 {
        let id = u32::try_from(self.terms.len()).expect("fewer than 2^32 terms fit in memory");
        self.selectors.insert(own.term().selector.as_ref(), id);
        self.ids.insert(own.clone(), id);
        self.costs.push(cost::of_term(own.term()));
        self.terms.push(own);
        id
    }

    /// Work units of asking whether each of these terms matches a pod of this namespace. What pods of others have written is
    /// not at its expense, but for a little.
    pub(super) fn cost(&self, terms: &[u32], namespace: &str) -> u64 {
        let own = |id: &&u32| **self.terms[**id as usize].namespace() == *namespace;
        let (count, costs) = terms
            .iter()
            .filter(own)
            .fold((0, 0), |(count, costs), id| (count + 1, costs + self.costs[*id as usize]));
        costs + u64::try_from(terms.len() - count).unwrap_or(u64::MAX) / FOREIGN_PER_UNIT
    }

    /// Terms that may keep a pod of this class away, by id.
    pub(super) fn candidates(&self, class: &PodClass) -> Vec<u32> {
        self.selectors.candidates(&class.labels, 0)
    }

    /// The term of an id, and the namespace of the pods that have it.
    pub(super) fn term(&self, id: u32) -> (&Arc<str>, &PodAffinityTerm) {
        let own = &self.terms[id as usize];
        (own.namespace(), own.term())
    }

    /// The terms of a class, ascending.
    pub(super) fn of(&self, class: ClassIx) -> &[u32] {
        self.of_class.get(&class).map_or(&[], Vec::as_slice)
    }
}
