//! The notifier of new revisions: it wakes all in the order in which they began to wait, and carries no data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Rung with each new revision.
///
/// Not a `tokio::sync::watch`: that one wakes its waiters in an order drawn at random, so that no two runs are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell(Arc<Rope>);

#[derive(Debug, Default)]
struct Rope {
    revision: AtomicU64,
    rung: Notify,
}

impl Bell {
    pub(super) fn ring(&self, revision: u64) {
        self.0.revision.store(revision, Ordering::Relaxed);
        self.0.rung.notify_waiters();
    }

    /// An ear that has heard everything so far.
    pub(super) fn ear(&self) -> Ear {
        Ear { bell: self.clone(), heard: self.revision() }
    }

    fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Relaxed)
    }
}

/// One listener.
#[derive(Debug)]
pub struct Ear {
    bell: Bell,
    heard: u64,
}

impl Ear {
    /// Resolves when there is a revision that this ear has not heard of; intermediate ones may be skipped.
    pub async fn changed(&mut self) {
        loop {
            // Made before the look, so that no ring falls in between.
            let rung = self.bell.0.rung.notified();
            if self.bell.revision() != self.heard {
                break;
            }
            rung.await;
        }
        self.mark_unchanged();
    }

    /// Takes everything up to now as heard.
    pub fn mark_unchanged(&mut self) {
        self.heard = self.bell.revision();
    }
}
