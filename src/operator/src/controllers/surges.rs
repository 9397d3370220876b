//! State of surges that the two loops share: workloads that need one replica more for a drain, and workloads that may have
//! one. Both are read from objects after a restart; nothing is kept here alone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use headroom_core::history::Surge;
use headroom_core::labels::ObjectKey;
use headroom_core::pods::surge::SurgeWish;
use headroom_core::world::surge::SurgeWorkload;
use tokio::sync::Notify;

/// State that the loops share.
#[derive(Debug, Default)]
pub struct Surges {
    /// Surges that open removals need; `None` while the node loop does not lead, and until it has read its journal and planned.
    pub(super) wanted: Shared<Vec<Surge>>,
    /// Workloads whose policies allow one; `None` until the workload loop has looked at all of them.
    pub(super) workloads: Shared<Vec<SurgeWorkload>>,
}

impl Surges {
    /// The wish for the workload of a policy that allows a surge.
    pub(super) fn wish(&self, policy: &ObjectKey) -> SurgeWish {
        match &*self.wanted.lock() {
            None => SurgeWish::Unknown,
            Some(wanted) if wanted.iter().any(|surge| surge.policy == *policy) => SurgeWish::One,
            Some(_) => SurgeWish::None,
        }
    }
}

/// A value that one loop sets and the other reads.
#[derive(Debug)]
pub(super) struct Shared<T> {
    value: Mutex<Option<T>>,
    changed: Notify,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { value: Mutex::default(), changed: Notify::new() }
    }
}

impl<T: Clone + PartialEq> Shared<T> {
    /// Sets the value; `None` while it is not known.
    pub(super) fn set(&self, value: Option<T>) {
        let mut known = self.lock();
        if *known != value {
            *known = value;
            self.changed.notify_one();
        }
    }

    /// The value.
    pub(super) fn get(&self) -> Option<T> {
        self.lock().clone()
    }

    /// Resolves when the value is another one. One loop waits.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        // Each change is one step, so what a panic leaves is whole.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wish_is_unknown_until_the_journal_was_read() {
        let (surges, policy) = (Surges::default(), ObjectKey::new("shop", "web"));
        assert_eq!(surges.wish(&policy), SurgeWish::Unknown);
        surges.wanted.set(Some(Vec::new()));
        assert_eq!(surges.wish(&policy), SurgeWish::None);
        let surge = Surge { policy: policy.clone(), deployment: "web".into(), owner: "uid".into(), from: 3 };
        surges.wanted.set(Some(vec![surge]));
        assert_eq!(surges.wish(&policy), SurgeWish::One);
        surges.wanted.set(None);
        assert_eq!(surges.wish(&policy), SurgeWish::Unknown);
    }
}
