//! The notifier of new revisions: it wakes all in the order in which they began to wait, and carries no data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Notifies subscribers of each new revision.
///
/// Not a `tokio::sync::watch`: that one wakes its waiters in an order drawn at random, so that no two runs are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Notifier(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    revision: AtomicU64,
    notify: Notify,
}

impl Notifier {
    pub(super) fn notify(&self, revision: u64) {
        self.0.revision.store(revision, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }

    /// A subscription that has seen everything so far.
    pub(super) fn subscribe(&self) -> Subscription {
        Subscription { notifier: self.clone(), seen: self.revision() }
    }

    fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Relaxed)
    }
}

/// One subscriber.
#[derive(Debug)]
pub struct Subscription {
    notifier: Notifier,
    seen: u64,
}

impl Subscription {
    /// Resolves when there is a revision that this subscriber has not seen; intermediate ones may be skipped.
    pub async fn changed(&mut self) {
        loop {
            // Made before the look, so that no notification falls in between.
            let notified = self.notifier.0.notify.notified();
            if self.notifier.revision() != self.seen {
                break;
            }
            notified.await;
        }
        self.mark_unchanged();
    }

    /// Takes everything up to now as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.notifier.revision();
    }
}
