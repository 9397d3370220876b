//! Turns slim wire objects into the core's types and stores equal strings and classes once. It watches nothing.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use headroom_core::labels::Labels;
use headroom_core::pods::input::PodRequests;
use headroom_core::quantity::{Quantity, QuantityError};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::RequiredNodeAffinity;
use headroom_core::scheduling::devices;
use headroom_core::world::pod::{Owner, PodClass};
use headroom_core::world::volume::ClaimSpec;

use super::slim::{Amounts, QuantityText};

/// Reason why an object cannot be used. It is left out of the world, counted and warned of; the others live on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object has no name, or a namespaced one no namespace.
    #[error("no {0} in its metadata")]
    Missing(&'static str),
    /// A quantity is none.
    #[error("quantity {text:?} of {resource}: {source}")]
    Quantity {
        /// The resource.
        resource: String,
        /// The quantity as written.
        text: String,
        /// Error of the quantity.
        source: QuantityError,
    },
    /// A word from a closed list is not in it.
    #[error("{field} {word:?} is not understood")]
    Word {
        /// The field.
        field: &'static str,
        /// The word.
        word: String,
    },
}

/// Values that are stored once; those that nobody else holds any more are dropped now and then.
#[derive(Debug)]
struct Once<T: ?Sized> {
    values: FxHashSet<Arc<T>>,
    sweep_at: usize,
}

/// Smallest number of distinct values at which unused ones are looked for.
const SWEEP_MIN: usize = 4096;

impl<T: ?Sized + Eq + Hash> Once<T> {
    fn new() -> Self {
        Self { values: FxHashSet::default(), sweep_at: SWEEP_MIN }
    }

    /// The stored value equal to `value`, stored by `make` if there is none.
    fn get<Q>(&mut self, value: &Q, make: impl FnOnce() -> Arc<T>) -> Arc<T>
    where
        Arc<T>: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        if let Some(stored) = self.values.get(value) {
            return stored.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|stored| Arc::strong_count(stored) > 1);
            self.sweep_at = (self.values.len() * 2).max(SWEEP_MIN);
        }
        let stored = make();
        self.values.insert(stored.clone());
        stored
    }
}

/// The memory of the decoding: every label key, node name or pod class is one allocation, however many objects have it.
#[derive(Debug)]
pub struct Decoder {
    texts: Once<str>,
    classes: Once<PodClass>,
    owners: Once<Owner>,
    pod_requests: Once<PodRequests>,
    claim_specs: Once<ClaimSpec>,
    node_affinities: Once<RequiredNodeAffinity>,
    device_claim_specs: Once<devices::ClaimSpec>,
    empty_class: Arc<PodClass>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            texts: Once::new(),
            classes: Once::new(),
            owners: Once::new(),
            pod_requests: Once::new(),
            claim_specs: Once::new(),
            node_affinities: Once::new(),
            device_claim_specs: Once::new(),
            empty_class: Arc::new(PodClass::default()),
        }
    }
}

impl Decoder {
    /// The one copy of `text`.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(text, || Arc::from(text))
    }

    /// The one copy of `class`.
    pub fn class(&mut self, class: PodClass) -> Arc<PodClass> {
        if let Some(stored) = self.classes.values.get(&class) {
            return stored.clone();
        }
        let class = Arc::new(class);
        self.classes.get(&*class.clone(), || class)
    }

    /// The one copy of what pods of a template request.
    pub fn pod_requests(&mut self, requests: PodRequests) -> Arc<PodRequests> {
        if let Some(stored) = self.pod_requests.values.get(&requests) {
            return stored.clone();
        }
        let requests = Arc::new(requests);
        self.pod_requests.get(&*requests.clone(), || requests)
    }

    /// The class of a controller that wants no pods: its real one is not worth its memory. Old ReplicaSets are ten to
    /// a Deployment.
    pub fn empty_class(&self) -> Arc<PodClass> {
        self.empty_class.clone()
    }

    /// The one copy of `owner`.
    pub fn owner(&mut self, owner: Owner) -> Arc<Owner> {
        if let Some(stored) = self.owners.values.get(&owner) {
            return stored.clone();
        }
        let owner = Arc::new(owner);
        self.owners.get(&*owner.clone(), || owner)
    }

    /// The one copy of what claims ask for.
    pub fn claim_spec(&mut self, spec: ClaimSpec) -> Arc<ClaimSpec> {
        self.claim_specs.get(&spec.clone(), || Arc::new(spec))
    }

    /// The one copy of what claims of devices ask for.
    pub fn device_claim_spec(&mut self, spec: devices::ClaimSpec) -> Arc<devices::ClaimSpec> {
        self.device_claim_specs.get(&spec.clone(), || Arc::new(spec))
    }

    /// The one copy of a volume's nodes.
    pub fn node_affinity(&mut self, affinity: RequiredNodeAffinity) -> Arc<RequiredNodeAffinity> {
        self.node_affinities.get(&affinity.clone(), || Arc::new(affinity))
    }

    /// Labels with interned keys and values.
    pub fn labels<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Labels {
        pairs.into_iter().map(|(key, value)| (self.text(key), self.text(value))).collect()
    }

    /// Interned copies of `texts`, in their order.
    pub fn list(&mut self, texts: &[String]) -> Vec<Arc<str>> {
        texts.iter().map(|text| self.text(text)).collect()
    }

    /// Amounts by resource name; cpu in milli-cores, all others in whole units, both rounded up.
    ///
    /// # Errors
    /// If a quantity cannot be read.
    pub fn resources(&mut self, amounts: &Amounts) -> Result<Resources, Error> {
        let mut resources = Resources::default();
        for (name, text) in amounts {
            let quantity = parse(name, text)?;
            match name.as_str() {
                "cpu" => resources.cpu_milli = quantity.milli(),
                "memory" => resources.memory_bytes = quantity.units(),
                "ephemeral-storage" => resources.ephemeral_bytes = quantity.units(),
                "pods" => resources.pods = quantity.units(),
                extended => resources.set_extended(self.text(extended), quantity.units()),
            }
        }
        Ok(resources)
    }
}

fn parse(resource: &str, text: &QuantityText) -> Result<Quantity, Error> {
    Quantity::parse(&text.0).map_err(|source| Error::Quantity {
        resource: resource.to_owned(),
        text: text.0.clone(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), QuantityText((*text).to_owned()))).collect()
    }

    #[test]
    fn equal_texts_are_stored_once() {
        let mut decoder = Decoder::default();
        assert!(Arc::ptr_eq(&decoder.text("zone-a"), &decoder.text("zone-a")));
    }

    #[test]
    fn texts_that_nobody_holds_are_dropped_in_time() {
        let mut decoder = Decoder::default();
        let held = decoder.text("held");
        for number in 0..SWEEP_MIN * 3 {
            decoder.text(&number.to_string());
        }
        assert!(decoder.texts.values.len() <= SWEEP_MIN);
        assert!(Arc::ptr_eq(&held, &decoder.text("held")));
    }

    #[test]
    fn fractions_of_a_unit_round_up() {
        let mut decoder = Decoder::default();
        let resources =
            decoder.resources(&amounts(&[("cpu", "100u"), ("memory", "1500m"), ("example.com/gpu", "2")]));
        let resources = resources.expect("valid quantities");
        assert_eq!((resources.cpu_milli, resources.memory_bytes), (1, 2));
        assert_eq!(resources.extended("example.com/gpu"), 2);
    }

    #[test]
    fn an_unreadable_quantity_names_its_resource() {
        let error =
            Decoder::default().resources(&amounts(&[("memory", "2GB")])).expect_err("GB is no suffix");
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
