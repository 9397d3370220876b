//! Equal values stored once, with dense ids and reference counts.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// The dense id of an interned value. Ids are reused after the last reference is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InternedId(pub u32);

/// Values stored once.
///
/// Iteration order is by id and thus depends on history: sort by value where an order matters.
#[derive(Clone, Debug)]
pub struct Interner<T> {
    slots: Vec<Option<(Arc<T>, u32)>>,
    ids: FxHashMap<Arc<T>, InternedId>,
    free: Vec<InternedId>,
}

impl<T: Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), ids: FxHashMap::default(), free: Vec::new() }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The id of `value` with one reference more.
    pub fn acquire(&mut self, value: &Arc<T>) -> InternedId {
        if let Some(&id) = self.ids.get(value) {
            if let Some((_, references)) = &mut self.slots[id.0 as usize] {
                *references += 1;
            }
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            InternedId(
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 distinct values fit in memory"),
            )
        });
        self.slots[id.0 as usize] = Some((value.clone(), 1));
        self.ids.insert(value.clone(), id);
        id
    }

    /// Gives one reference back; the last one frees the value.
    pub fn release(&mut self, id: InternedId) {
        let slot = &mut self.slots[id.0 as usize];
        let Some((value, references)) = slot else { return };
        *references -= 1;
        if *references == 0 {
            self.ids.remove(value);
            *slot = None;
            self.free.push(id);
        }
    }

    /// The value of a live id.
    ///
    /// # Panics
    /// If `id` was released by its last holder: a bug of the caller.
    #[must_use]
    pub fn get(&self, id: InternedId) -> &Arc<T> {
        &self.slots[id.0 as usize].as_ref().expect("a live id has a value").0
    }

    /// The id of `value` if it is alive; no reference is taken.
    #[must_use]
    pub fn find(&self, value: &T) -> Option<InternedId> {
        self.ids.get(value).copied()
    }

    /// Live values in order of their ids, which depends on history.
    pub fn iter(&self) -> impl Iterator<Item = (InternedId, &Arc<T>)> {
        (0u32..)
            .zip(&self.slots)
            .filter_map(|(id, slot)| slot.as_ref().map(|(value, _)| (InternedId(id), value)))
    }

    /// Returns the number of distinct values that are alive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if no value is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// One more than the highest id ever given: the length for tables indexed by id.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}
