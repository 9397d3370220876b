//! The ordered log of changes with compaction; it never holds more than its limit.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{ApiError, Kind, ObjectKey};

/// One committed change.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The resource version that the change made.
    pub revision: u64,
    /// Time at which it was committed.
    pub at: Timestamp,
    /// The kind of the object.
    pub kind: Kind,
    /// The object's key.
    pub key: ObjectKey,
    /// The object before; `None` for a creation.
    pub before: Option<Arc<Value>>,
    /// The object after; for a deletion its last state with the deletion's resource version.
    pub object: Arc<Value>,
    /// True if the object is gone.
    pub deleted: bool,
}

/// A change as a reader of the typed port takes it.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The object is now this.
    Applied(&'a Value),
    /// The object is gone; this was its last state.
    Deleted(&'a Value),
}

impl Entry {
    /// The change for the typed port.
    pub fn change(&self) -> Change<'_> {
        if self.deleted { Change::Deleted(&self.object) } else { Change::Applied(&self.object) }
    }
}

/// The entries after `compacted`, contiguous: entry i has revision `compacted + 1 + i`.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    entries: VecDeque<Entry>,
    compacted: u64,
}

impl ChangeLog {
    pub(super) fn push(&mut self, entry: Entry) {
        assert_eq!(entry.revision, self.compacted + 1 + self.entries.len() as u64, "a revision was skipped");
        self.entries.push_back(entry);
    }

    pub(super) fn after(&self, revision: u64) -> Result<impl Iterator<Item = &Entry>, ApiError> {
        if revision < self.compacted {
            return Err(ApiError::gone(revision, self.compacted));
        }
        let skipped = usize::try_from(revision - self.compacted).unwrap_or(usize::MAX);
        Ok(self.entries.range(skipped.min(self.entries.len())..))
    }

    pub(super) fn compact(&mut self, revision: u64) {
        while self.compacted < revision && self.entries.pop_front().is_some() {
            self.compacted += 1;
        }
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn revision_before(&self, at: Timestamp) -> u64 {
        self.compacted + self.entries.partition_point(|entry| entry.at < at) as u64
    }
}
