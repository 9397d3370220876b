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
    known: Mutex<Known>,
    wanted_changed: Notify,
    workloads_changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// Surges that open removals need; `None` until the node loop has read its journal and planned.
    wanted: Option<Vec<Surge>>,
    /// Workloads whose policies allow one; `None` until the workload loop has looked at all of them.
    workloads: Option<Vec<SurgeWorkload>>,
}

impl Surges {
    /// Sets the surges that open removals need; `None` while the node loop does not lead.
    pub(super) fn want(&self, wanted: Option<Vec<Surge>>) {
        let mut known = self.lock();
        if known.wanted != wanted {
            known.wanted = wanted;
            self.wanted_changed.notify_one();
        }
    }

    /// The surges that open removals need.
    pub(super) fn wanted(&self) -> Option<Vec<Surge>> {
        self.lock().wanted.clone()
    }

    /// The wish for the workload of a policy that allows a surge.
    pub(super) fn wish(&self, policy: &ObjectKey) -> SurgeWish {
        match &self.lock().wanted {
            None => SurgeWish::Unknown,
            Some(wanted) if wanted.iter().any(|surge| surge.policy == *policy) => SurgeWish::One,
            Some(_) => SurgeWish::None,
        }
    }

    /// Resolves when other surges are needed. One loop waits.
    pub(super) async fn wanted_changed(&self) {
        self.wanted_changed.notified().await;
    }

    /// Sets the workloads that may have a surge; `None` while not all of them have been looked at.
    pub(super) fn report(&self, workloads: Option<Vec<SurgeWorkload>>) {
        let mut known = self.lock();
        if known.workloads != workloads {
            known.workloads = workloads;
            self.workloads_changed.notify_one();
        }
    }

    /// The workloads that may have a surge.
    pub(super) fn workloads(&self) -> Option<Vec<SurgeWorkload>> {
        self.lock().workloads.clone()
    }

    /// Resolves when other workloads may have one. One loop waits.
    pub(super) async fn workloads_changed(&self) {
        self.workloads_changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each change is one step, so what a panic leaves is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wish_is_unknown_until_the_journal_was_read() {
        let (surges, policy) = (Surges::default(), ObjectKey::new("shop", "web"));
        assert_eq!(surges.wish(&policy), SurgeWish::Unknown);
        surges.want(Some(Vec::new()));
        assert_eq!(surges.wish(&policy), SurgeWish::None);
        let surge = Surge { policy: policy.clone(), deployment: "web".into(), owner: "uid".into(), from: 3 };
        surges.want(Some(vec![surge]));
        assert_eq!(surges.wish(&policy), SurgeWish::One);
        surges.want(None);
        assert_eq!(surges.wish(&policy), SurgeWish::Unknown);
    }
}
