//! A handle on the one store for the server's tasks and the driver, with a notifier of changes; it holds no state of its own.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::Store;
use super::notifier::{Notifier, Subscription};

/// The store behind a lock that is never held over an await.
#[derive(Debug, Clone)]
pub struct SharedStore {
    store: Arc<Mutex<Store>>,
    notifier: Notifier,
}

impl SharedStore {
    /// An empty store, as `Store::new`.
    pub fn new(seed: u64, now: Timestamp) -> SharedStore {
        SharedStore { store: Arc::new(Mutex::new(Store::new(seed, now))), notifier: Notifier::default() }
    }

    /// Runs `work` on the store and notifies the subscribers when it wrote something.
    ///
    /// A panic inside an earlier `work` does not poison the store: the store commits in one step.
    pub fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let before = store.revision();
        let result = work(&mut store);
        let after = store.revision();
        drop(store);
        if after != before {
            self.notifier.notify(after);
        }
        result
    }

    /// A receiver that wakes at new revisions; intermediate ones may be skipped.
    pub fn subscribe(&self) -> Subscription {
        self.notifier.subscribe()
    }
}
