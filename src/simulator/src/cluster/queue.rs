//! An ordered work queue with due times; it holds keys, never objects.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// Items to look at now, and items to look at later; an item in it twice is looked at once.
#[derive(Debug)]
pub(super) struct WorkQueue<T> {
    now: BTreeSet<T>,
    later: BTreeSet<(Timestamp, T)>,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> WorkQueue<T> {
        WorkQueue { now: BTreeSet::new(), later: BTreeSet::new() }
    }
}

impl<T: Ord + Clone> WorkQueue<T> {
    pub(super) fn add(&mut self, item: T) {
        self.now.insert(item);
    }

    pub(super) fn add_at(&mut self, at: Timestamp, item: T) {
        self.later.insert((at, item));
    }

    /// Takes everything that is due at `now`, in order.
    pub(super) fn take_due(&mut self, now: Timestamp) -> BTreeSet<T> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, item)) = self.later.pop_first()
        {
            self.now.insert(item);
        }
        std::mem::take(&mut self.now)
    }

    /// Time at which the next item is due; the past when something waits already.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.now.is_empty() { self.later.first().map(|(at, _)| *at) } else { Some(Timestamp::MIN) }
    }
}
