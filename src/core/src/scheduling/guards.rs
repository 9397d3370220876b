//! The anti-affinity terms of all pods that may run somewhere, equal ones merged. It counts no pods.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::scheduling::constraints::PodAffinityTerm;
use crate::scheduling::selector_index::SelectorIndex;
use crate::scheduling::snapshot::ClassIx;
use crate::world::pod::PodClass;

/// A term with the namespace of the pods that have it.
type OwnedTerm = (Arc<str>, PodAffinityTerm);

/// Terms by dense id, and those of each class.
#[derive(Debug, Default)]
pub(super) struct Guards {
    terms: Vec<Arc<OwnedTerm>>,
    ids: FxHashMap<Arc<OwnedTerm>, u32>,
    of_class: FxHashMap<ClassIx, Vec<u32>>,
    selectors: SelectorIndex,
}

impl Guards {
    /// Adds the terms of a class.
    pub(super) fn add(&mut self, ix: ClassIx, class: &PodClass) {
        if class.pod_anti_affinity.is_empty() || self.of_class.contains_key(&ix) {
            return;
        }
        let mut own: Vec<u32> = Vec::with_capacity(class.pod_anti_affinity.len());
        for term in &class.pod_anti_affinity {
            let owned = (class.namespace.clone(), term.clone());
            let id = match self.ids.get(&owned) {
                Some(id) => *id,
                None => self.add_term(owned),
            };
            own.push(id);
        }
        own.sort_unstable();
        own.dedup();
        self.of_class.insert(ix, own);
    }

    fn add_term(&mut self, owned: OwnedTerm) -> u32 {
        let id = u32::try_from(self.terms.len()).expect("fewer than 2^32 terms fit in memory");
        let owned = Arc::new(owned);
        self.selectors.insert(owned.1.selector.as_ref(), id);
        self.ids.insert(owned.clone(), id);
        self.terms.push(owned);
        id
    }

    /// Terms that may keep a pod of this class away, by id.
    pub(super) fn candidates(&self, class: &PodClass) -> Vec<u32> {
        self.selectors.candidates(&class.labels, 0)
    }

    /// The term of an id, and the namespace of the pods that have it.
    pub(super) fn term(&self, id: u32) -> (&Arc<str>, &PodAffinityTerm) {
        let (namespace, term) = &*self.terms[id as usize];
        (namespace, term)
    }

    /// The terms of a class, ascending.
    pub(super) fn of(&self, class: ClassIx) -> &[u32] {
        self.of_class.get(&class).map_or(&[], Vec::as_slice)
    }
}
